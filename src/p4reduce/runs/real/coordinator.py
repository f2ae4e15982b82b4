"""The coordinator of a group in real time: it has the survivors agree on who goes on, when somebody is gone.

What follows from what it heard (runs/real/presence.py) is decided as in virtual time (``group/membership``).
"""

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import awaited_at, switches_on_paths
from p4reduce.control_plane.fleet import SILENT_S
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.group.errors import ClusterError, CollectiveError
from p4reduce.group.membership import Answer, Decision, Journal, OnFailure, Reach, cannot_redo, decide
from p4reduce.runs.real.presence import Arrivals, Presence
from p4reduce.topologies import Topology
from p4reduce.workers.specs import EndpointSpec
from p4reduce.workers.status import WaitStatus

# The trees of one group in real time, one after the other: the next stands beside the old one until all use it.


class Trees:
    """Plans, installs and removes; ``plan`` is the one that is used now.

    ``hosts``: of all ranks, with those that may join. ``endpoints``: those of a plan, by host. ``registers``: whether
    switches let slots be read; else what they told the workers says who is missing.
    """

    def __init__(
        self,
        topology: Topology,
        controller: Controller,
        request: PlanRequest,
        plan: Plan,
        endpoints: Callable[[Plan], Mapping[str, EndpointSpec]],
        *,
        hosts: Sequence[str],
        registers: bool,
    ) -> None:
        self.plan = plan
        self.hosts = tuple(hosts)
        self.reach = Reach(topology, self.hosts, set(), set())
        self.endpoints = endpoints
        self._controller = controller
        self._request = request
        self._registers = registers
        self._epoch = plan.epoch
        self._dropped: list[Plan] = []
        self._away: dict[str, float] = {}  # switches that have ended, and when
        self._anew: dict[str, int] = {}  # switches that began anew: up to which epoch nothing is in them

    @property
    def epoch(self) -> int:
        """The last one that was taken; each decision has its own."""
        return self._epoch

    @property
    def damaged(self) -> bool:
        """Whether the tree cannot go on: a link or a switch of it is down, or began anew."""
        lapsed = any(self._anew.get(switch, -1) >= self.plan.epoch for switch in switches_on_paths(self.plan))
        return lapsed or self.reach.damaged(self.plan)

    @property
    def may_return(self) -> bool:
        """Whether a switch has ended just now, and may begin anew before anybody draws conclusions."""
        return any(time.monotonic() < at + SILENT_S for at in self._away.values())

    def lose(self, switch: str) -> None:
        """A switch has ended."""
        self.reach.switches.add(switch)
        self._away[switch] = time.monotonic()

    def begin_anew(self, switch: str) -> None:
        """A switch is there, and has lost all plans, of those that are being installed, too."""
        self.reach.switches.discard(switch)
        self._away.pop(switch, None)
        self._anew[switch] = self._epoch

    def next(self, members: Sequence[int]) -> Callable[[], Plan | None]:
        """What installs the tree of ``members`` beside the old one, in an epoch of its own; in any thread.

        One alone needs none. It raises ``ClusterError`` where there is no way, ``ControllerError`` where a switch does
        not take it.
        """
        self._epoch += 1
        if len(members) == 1:
            return lambda: None
        hosts = tuple(self.hosts[member] for member in members)
        request, view = replace(self._request, workers=hosts, epoch=self._epoch), self.reach.view

        def install() -> Plan:
            try:
                return self._controller.start_job(request, view)
            except PlanError as error:
                raise ClusterError(f"{len(members)} ranks cannot go on: {error}") from error

        return install

    def no_room(self, members: Sequence[int]) -> str | None:
        """Why there is no tree of ``members`` beside the one that is used; None: there is."""
        hosts = tuple(self.hosts[member] for member in members)
        if self.reach.apart(hosts):
            return f"{hosts[-1]} cannot be reached"
        try:
            self._controller.release(
                self._controller.plan(replace(self._request, workers=hosts, epoch=self._epoch + 1), self.reach.view)
            )
        except PlanError as error:
            return f"{len(members)} ranks cannot go on: {error}"
        return None

    def drop(self, plan: Plan) -> None:
        """Take a plan out of the switches that are there; later, where one is gone of which nobody knows yet."""
        self._dropped.append(plan)
        lost = frozenset(self.reach.switches)
        for one in [*self._dropped]:
            with contextlib.suppress(ControllerError):
                self._controller.uninstall(one, lost)
                self._dropped.remove(one)

    def swap(self, plan: Plan | None) -> Callable[[], None]:
        """All use this one from now on, or none; what takes the old one out, in any thread."""
        if plan is None:
            return lambda: None
        old, self.plan = self.plan, plan
        return lambda: self.drop(old)

    def blamed(self, waiting: Mapping[int, tuple[int, WaitStatus | None]], members: Collection[int]) -> Collection[int]:
        """Those of ``members`` that an operation waits for, by who waits: the seq that each lacks, what it was told."""
        if not waiting:
            return ()
        if not self.plan.in_network:
            return members  # in a circle everybody waits for everybody
        seqs = {seq for seq, _ in waiting.values()}
        if self._registers:
            names = frozenset().union(*(self._controller.blamed(self.plan, seq) for seq in seqs))
        else:
            names = frozenset(
                name
                for member, (seq, told) in waiting.items()
                if told is not None and told.seq == seq
                for node in awaited_at(self.plan, self.hosts[member], told)[1]
                for name in (node, *self._below(node))
            )
        return [member for member in members if self.hosts[member] in names]

    def _below(self, node: str) -> Collection[str]:
        return self.plan.workers_below(node) if node in self.plan.by_switch else ()


T = TypeVar("T")
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

    ``watch`` looks at switches and links: it raises where nothing can go on, and returns what is news of ``trees``.
    ``deadline``: of ``time.monotonic()``.
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
        arrivals: Arrivals,
    ) -> None:
        self.journal = journal
        self.resumed: list[Resumed] = []
        self._presence = presence
        self._trees = trees
        self._on_failure = on_failure
        self._watch = watch
        self._deadline = deadline
        self._arrivals = arrivals
        self._members = tuple(range(len(presence.seen)))
        self._held: int | None = None
        """term in which members begin nothing, as somebody joins"""
        self._released = False
        self._beside = ThreadPoolExecutor(1, "beside")

    @property
    def survivors(self) -> tuple[int, ...]:
        """Members that have not died."""
        return tuple(member for member in self._members if member not in self._presence.leases.dead)

    def wait(self) -> Ended | None:
        """Until all who are not dead have ended; who failed, where that ended the run.

        Raises ``ClusterError`` where no group can go on.
        """
        with self._beside:
            return self._wait()

    def _wait(self) -> Ended | None:
        seen, dead = self._presence.seen, self._presence.leases
        first: Ended | None = None
        while any(one.code is None and one.member and rank not in dead.dead for rank, one in enumerate(seen)):
            self._pump()
            members = [(rank, one.code) for rank, one in enumerate(seen) if one.member]
            failed = [Ended(rank, code) for rank, code in members if code]
            first = first or next(iter(failed), None)
            if first is not None and (self._on_failure == "abort" or len(failed) == len(members)):
                return first
            if self._presence.news and not (self._on_failure == "abort" and self._presence.ending):
                self._change()
            self._welcome()
            self._check_left()
            self._release()
        if not self.survivors and first is None:
            said = "; ".join(f"rank {rank} {why}" for rank, why in dead.dead.items())
            raise ClusterError(f"nobody survived: {said}")
        return None if self.survivors else first

    def _pump(self) -> None:
        self._presence.pump(self._blamed)
        self._arrivals.start_due(self.survivors)
        for cause in self._watch():
            self._presence.note(cause)
        if time.monotonic() > self._deadline:
            every = enumerate(self._presence.seen)
            left = ", ".join(str(rank) for rank, one in every if one.code is None and one.member)
            raise ClusterError(f"the run took longer than its time-out; still running: rank {left}")

    def _meanwhile(self, work: Callable[[], T]) -> T:
        """The result of what takes its time, in a thread of its own: news is heard meanwhile."""
        done = self._beside.submit(work)
        done.add_done_callback(lambda _: self._presence.wake())
        while not done.done():
            self._pump()
        return done.result()

    def _blamed(self) -> Collection[int]:
        """Members that others wait for, by the data path."""
        waiting = {
            member: (int(beat["waits"]), WaitStatus(**beat["told"]) if beat["told"] else None)
            for member in self.survivors
            if "waits" in (beat := self._presence.seen[member].beat)
        }
        return self._trees.blamed(waiting, self.survivors)

    # --- who joins

    def _welcome(self) -> None:
        """Who wants to join comes in between two operations: when all have called one that cannot be carried."""
        members, newcomers = self.survivors, self._presence.newcomers
        seen = [self._presence.seen[member] for member in members]
        if any(one.left is not None for one in seen):
            newcomers = self._refuse(newcomers, "the others ended before")
        if not newcomers:
            if self._held is not None:
                self._presence.tell(members, {"hold": None})
                self._held = None
        elif self._held is None:
            if all(one.control is not None for one in seen) and self._with_room(members):
                self._held = self._presence.hold(members)
        elif self._presence.between(members, self._held):
            self._change()

    def _with_room(self, members: tuple[int, ...]) -> tuple[int, ...]:
        """Newcomers for whom there is a tree; the others are refused."""
        found: tuple[int, ...] = ()
        for one in self._presence.newcomers:
            why = self._trees.no_room((*members, *found, one))
            if why is None:
                found = (*found, one)
            else:
                self._refuse([one], why)
        return found

    def _refuse(self, newcomers: Collection[int], why: str) -> tuple[int, ...]:
        for one in newcomers:
            self._presence.refuse(one, why)
        return ()

    def _joining(self, members: Sequence[int]) -> tuple[int, ...]:
        """Who comes in now that members have stopped: nobody, if one of them is ahead, or has not called."""
        said = [self._presence.seen[member].answer or {} for member in members]
        same = len({one["finished"] for one in said}) == 1
        if not same or any(one["operation"] is None for one in said):
            return ()
        return self._presence.newcomers

    # --- the two phases

    def _change(self) -> None:
        """Have the survivors agree on who goes on; anew with whatever is learnt meanwhile."""
        members, noticed = self._members, self._presence.noticed_ns
        while self._survivors_call():
            lost, cut = self._losses(members)
            causes = "; ".join(self._presence.news)
            self._presence.news.clear()
            for member in cut:
                self._presence.exclude(member, lost[member])
            joins = self._held is not None and self._presence.between(members, self._held)
            if not lost and not self._trees.damaged and not joins:
                return
            if self._on_failure == "abort" and (lost or self._trees.damaged):
                said = "; ".join(f"rank {rank} {why}" for rank, why in lost.items())
                raise CollectiveError(said or f"{causes}; the tree of the group has lost it")
            after = tuple(member for member in members if member not in lost)
            if not self._stopped(after):
                continue
            joined = self._joining(after)
            try:
                plan = self._meanwhile(self._trees.next((*after, *joined)))
            except ControllerError as error:
                self._hear_of(error, len(after))
                continue
            except ClusterError as error:
                if not joined:
                    raise
                self._refuse(joined, str(error))
                continue
            if self._presence.news or joined != self._joining(after):
                self._give_up(plan)
                continue
            lost = {member: self._presence.leases.dead.get(member, why) for member, why in lost.items()}
            decision = self._decide(members, lost, causes, joined)
            if self._has_what_it_takes(decision):
                self._commit(decision, plan, noticed)
                if not self._presence.news:
                    return
                members, noticed = self._members, self._presence.noticed_ns
            else:
                self._give_up(plan)

    def _give_up(self, plan: Plan | None) -> None:
        """A tree that nobody was told of."""
        if plan is not None:
            self._meanwhile(lambda: self._trees.drop(plan))

    def _losses(self, members: Sequence[int]) -> tuple[dict[int, str], tuple[int, ...]]:
        """Who cannot go on, and why; those of them that live. A switch that ended just now may come back first."""
        while True:
            apart = None
            try:
                lost, cut = self._trees.reach.lost(members, self._presence.leases.dead)
            except ClusterError as error:
                apart = error
            if not self._trees.may_return or (apart is None and not cut):
                break
            self._pump()
        if apart is not None:
            raise ClusterError("; ".join((*self._presence.news, str(apart))))
        return lost, cut

    def _hear_of(self, error: ControllerError, ranks: int) -> None:
        """A switch did not take a tree; it is going to be known why, or that is the end."""
        until = time.monotonic() + 2 * SILENT_S
        while not self._presence.news:
            if time.monotonic() > until:
                raise ClusterError(f"{ranks} ranks cannot go on: {error}") from error
            self._pump()

    def _survivors_call(self) -> bool:
        """Whether anybody is left who may still call; news of the dead is nobody's otherwise."""
        if any(self._presence.seen[member].left is None for member in self.survivors):
            return True
        self._presence.news.clear()
        return False

    def _stopped(self, members: Sequence[int]) -> bool:
        """The first phase: all of them have stopped and said what they have finished; False: there is news."""
        self._presence.ask(members)
        while (self._presence.asked or self._presence.ending) and not self._presence.news:
            self._pump()
        self._presence.asked = set()
        return not self._presence.news

    def _decide(
        self, members: tuple[int, ...], lost: Mapping[int, str], cause: str, joined: tuple[int, ...]
    ) -> Decision:
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
            joined=joined,
        )

    def _has_what_it_takes(self, decision: Decision) -> bool:
        """The array that some have and others lack; False: there is news."""
        self._presence.array = None
        if decision.holder is None:
            return True
        self._presence.request_array(decision.holder)  # whose lease counts until it has answered
        while self._presence.array is None and not self._presence.news:
            self._pump()
        self._presence.asked = set()
        return not self._presence.news

    def _commit(self, decision: Decision, plan: Plan | None, noticed_ns: int) -> None:
        """The second phase: written down, then told; the old tree leaves the switches."""
        self._meanwhile(lambda: self.journal.write(decision))
        self._members, self._held = decision.after, None
        self._presence.admit(decision.joined)
        history = [one.plain() for one in self.journal.decisions]
        specs = {} if plan is None else self._trees.endpoints(plan)
        for member in decision.after:
            seen, host = self._presence.seen[member], self._trees.hosts[member]
            lacks = seen.answer is not None and seen.answer["finished"] == decision.operation
            spec = None if plan is None else _SPEC.dump_python(specs[host], mode="json")
            seen.beat = {}  # what it waited for was the old tree's
            if seen.control is not None:
                array = self._presence.array if lacks and decision.holder is not None else None
                more: dict[str, Any] = {"history": history} if member in decision.joined else {}
                if array is not None and self._presence.failed is not None:
                    more["failed"] = self._presence.failed
                seen.control.send({"commit": decision.plain(), "endpoint": spec, **more}, array)
        self.resumed.append(Resumed(noticed_ns, time.monotonic_ns()))
        self._meanwhile(self._trees.swap(plan))

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
                if seen.left is not None and seen.left < beat["beat"]:
                    said = f"beat: {beat['beat']} operations, of which rank {other}, which left, has {seen.left}"
                    self._presence.out_of_turn(member, said)
                    return
                if seen.left == beat["beat"]:
                    waits = f"operation {beat['beat']}: rank {member} waits for rank {other}"
                    raise CollectiveError(f"{waits}, which left the group")

    def _release(self) -> None:
        """Once all have left, nobody needs anybody any more."""
        if self._released or any(self._presence.seen[member].left is None for member in self.survivors):
            return
        self._released = True
        self._presence.tell(self.survivors, {"released": True})
