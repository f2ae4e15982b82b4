"""The coordinator of a group in real time: it has the survivors agree on who goes on, when somebody is gone.

What follows from what it heard (runs/real/presence.py) is decided as in virtual time (``comm/membership``).
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter

from p4reduce.comm.errors import ClusterError, CollectiveError
from p4reduce.comm.membership import Answer, Decision, Journal, OnFailure, cannot_redo, decide
from p4reduce.control_plane.plans import Plan
from p4reduce.runs.real.presence import Presence
from p4reduce.runs.real.trees import Trees
from p4reduce.workers.specs import EndpointSpec
from p4reduce.workers.status import WaitStatus

_SPEC: Final[TypeAdapter[EndpointSpec]] = TypeAdapter(EndpointSpec)
Watch = Callable[[], Collection[str]]


@dataclass(frozen=True)
class Ended:
    """How the run's first rank failed that the others could not go on without."""

    rank: int
    code: int
    """Exit code, -n for signal n."""


@dataclass(frozen=True)
class Resumed:
    """When a change was noticed and when the survivors went on, nanoseconds of the machine's monotonic clock."""

    noticed_ns: int
    resumed_ns: int


class Coordinator:
    """Of the group whose processes ``presence`` has.

    ``watch`` looks at switches and links: it raises where nothing can go on, and returns what is news of
    ``trees.reach``. ``deadline``: of ``time.monotonic()``.
    """

    def __init__(
        self,
        presence: Presence,
        trees: Trees,
        journal: Journal,
        on_failure: OnFailure,
        *,
        watch: Watch,
        deadline: float,
    ) -> None:
        self.journal = journal
        self.resumed: list[Resumed] = []
        self._presence = presence
        self._trees = trees
        self._on_failure = on_failure
        self._watch = watch
        self._deadline = deadline
        self._members = tuple(range(len(presence.seen)))
        self._released = False

    @property
    def survivors(self) -> tuple[int, ...]:
        """Members that have not died."""
        return tuple(member for member in self._members if member not in self._presence.leases.dead)

    def wait(self) -> Ended | None:
        """Until all who are not dead have ended; who failed, where that ended the run.

        Raises ``ClusterError`` where no group can go on.
        """
        seen, dead = self._presence.seen, self._presence.leases
        first: Ended | None = None
        while any(one.code is None and rank not in dead.dead for rank, one in enumerate(seen)):
            self._pump()
            failed = [Ended(rank, one.code) for rank, one in enumerate(seen) if one.code]
            first = first or next(iter(failed), None)
            if first is not None and (self._on_failure == "abort" or len(failed) == len(seen)):
                return first
            if self._presence.news:
                self._change()
            self._check_left()
            self._release()
        if not self.survivors and first is None:
            said = "; ".join(f"rank {rank} {why}" for rank, why in dead.dead.items())
            raise ClusterError(f"nobody survived: {said}")
        return None if self.survivors else first

    def _pump(self) -> None:
        self._presence.pump(self._blamed)
        for cause in self._watch():
            self._presence.note(cause)
        if time.monotonic() > self._deadline:
            left = ", ".join(str(rank) for rank, one in enumerate(self._presence.seen) if one.code is None)
            raise ClusterError(f"the run took longer than its time-out; still running: rank {left}")

    def _blamed(self) -> Collection[int]:
        """Members that others wait for, by the data path."""
        waiting = {
            member: (int(beat["waits"]), WaitStatus(**beat["told"]) if beat["told"] else None)
            for member in self.survivors
            if "waits" in (beat := self._presence.seen[member].beat)
        }
        return self._trees.blamed(waiting)

    # --- the two phases

    def _change(self) -> None:
        """Have the survivors agree on who goes on; anew with whatever is learnt meanwhile."""
        members, noticed = self._members, self._presence.noticed_ns
        while self._survivors_call():
            causes = "; ".join(self._presence.news)
            self._presence.news.clear()
            lost, cut = self._trees.reach.lost(members, self._presence.leases.dead)
            for member in cut:
                self._presence.exclude(member, lost[member])
            if not lost and not self._trees.reach.damaged(self._trees.plan):
                return
            if self._on_failure == "abort":
                said = "; ".join(f"rank {rank} {why}" for rank, why in lost.items())
                raise CollectiveError(said or f"{causes}; the tree of the group has lost it")
            after = tuple(member for member in members if member not in lost)
            if not self._stopped(after):
                continue
            plan = self._trees.next(after)
            decision = self._decide(members, lost, causes)
            if self._has_what_it_takes(decision):
                self._commit(decision, plan)
                self.resumed.append(Resumed(noticed, time.monotonic_ns()))
                if not self._presence.news:
                    return
                members, noticed = self._members, self._presence.noticed_ns
            elif plan is not None:
                self._trees.drop(plan)

    def _survivors_call(self) -> bool:
        """Whether anybody is left who may still call; news of the dead is nobody's otherwise."""
        if any(self._presence.seen[member].left is None for member in self.survivors):
            return True
        self._presence.news.clear()
        return False

    def _stopped(self, members: Sequence[int]) -> bool:
        """The first phase: all of them have stopped and said what they have finished; False: there is news."""
        self._presence.ask(members)
        while self._presence.asked and not self._presence.news:
            self._pump()
        self._presence.asked = set()
        return not self._presence.news

    def _decide(self, members: tuple[int, ...], lost: Mapping[int, str], cause: str) -> Decision:
        said = {member: self._presence.seen[member].answer or {} for member in members if member not in lost}
        answers = {member: Answer(one["finished"], tuple(one["contributors"])) for member, one in said.items()}
        operation = min(answer.finished for answer in answers.values())
        calls = [one for one in said.values() if one["operation"] is not None and one["finished"] == operation]
        whole = not any(cannot_redo(one["operation"], one["root"], set(lost)) for one in calls)
        return decide(
            answers,
            before=members,
            lost=lost,
            term=self._presence.term,
            epoch=self._trees.epoch,
            redo=not lost or (self._on_failure == "shrink" and whole),
            cause=cause,
        )

    def _has_what_it_takes(self, decision: Decision) -> bool:
        """The array that some have and others lack; False: there is news."""
        self._presence.array = None
        holder = decision.holder
        if holder is None:
            return True
        self._presence.tell([holder], {"give": self._presence.term})
        while self._presence.array is None and not self._presence.news:
            self._pump()
        return not self._presence.news

    def _commit(self, decision: Decision, plan: Plan | None) -> None:
        """The second phase: written down, then told; the old tree leaves the switches."""
        self.journal.write(decision)
        self._members = decision.after
        specs = {} if plan is None else self._trees.endpoints(plan)
        for member in decision.after:
            seen, host = self._presence.seen[member], self._trees.hosts[member]
            lacks = seen.answer is not None and seen.answer["finished"] == decision.operation
            spec = None if plan is None else _SPEC.dump_python(specs[host], mode="json")
            seen.beat = {}  # what it waited for was the old tree's
            if seen.control is not None:
                array = self._presence.array if lacks and decision.holder is not None else None
                seen.control.send({"commit": decision.plain(), "endpoint": spec}, array)
        self._trees.swap(plan)

    # --- the end

    def _check_left(self) -> None:
        """`ClusterError` where somebody waits for one that has left, or never came."""
        every = {member: self._presence.seen[member] for member in self.survivors}
        ended = {member: seen for member, seen in every.items() if seen.left is not None or seen.code == 0}
        for member in self.survivors:
            beat = self._presence.seen[member].beat
            if member in ended or not beat.get("calls"):
                continue
            for other, seen in ended.items():
                if seen.control is None:
                    raise ClusterError(f"rank {other} ended well, but did not join the group, and rank {member} waits")
                if seen.left is not None and seen.left <= beat["beat"]:
                    waits = f"operation {beat['beat']}: rank {member} waits for rank {other}"
                    raise CollectiveError(f"{waits}, which left the group")

    def _release(self) -> None:
        """Once all have left, nobody needs anybody any more."""
        if self._released or any(self._presence.seen[member].left is None for member in self.survivors):
            return
        self._released = True
        self._presence.tell(self.survivors, {"released": True})
