"""Members of a group: their leases, decisions on who goes on, the journal of these, and who still reaches whom."""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from p4reduce.base.records import to_plain
from p4reduce.group.errors import ClusterError, FallenApartError, GroupChanged
from p4switch.base.values import NS_PER_S, PS_PER_MS

if TYPE_CHECKING:
    from p4reduce.control_plane.plans import Plan
    from p4reduce.topologies import Topology
    from p4reduce.topologies.optical import Ends

# Which members are dead, and which are only slow.
#
# A member is dead when its connection has ended (its process is gone), or when its lease has run out *and* the data
# path names it: no member is excluded for being late, or for a silence that holds up no other.


@dataclass(frozen=True)
class Lease:
    """How often a member says that it lives (``beat``), and for how long that counts (``term``), in one unit."""

    beat: int
    term: int


REAL_LEASE: Final = Lease(NS_PER_S // 10, NS_PER_S)
"""nanoseconds: a heartbeat every 100 ms, a lease of 1 s"""
VIRTUAL_LEASE: Final = Lease(PS_PER_MS, 10 * PS_PER_MS)
"""picoseconds: a heartbeat every 1 ms, a lease of 10 ms"""


class Leases:
    """The leases of a group's members, and which of them are dead. Times only grow; units are those of ``lease``."""

    def __init__(self, lease: Lease, members: Iterable[int], now: int) -> None:
        self._lease = lease
        self._until = dict.fromkeys(members, now + lease.term)
        self._dead: dict[int, str] = {}

    @property
    def dead(self) -> dict[int, str]:
        """Dead members, with the reason."""
        return dict(self._dead)

    @property
    def alive(self) -> tuple[int, ...]:
        """Members that are not dead, stragglers too."""
        return tuple(member for member in self._until if member not in self._dead)

    def heard(self, member: int, now: int) -> bool:
        """Extend a member's lease; False for one that is dead or was never a member, and that must end."""
        if member not in self._until or member in self._dead:
            return False
        self._until[member] = max(self._until[member], now + self._lease.term)
        return True

    def knows(self, member: int) -> bool:
        """Whether this rank is a member, or was one."""
        return member in self._until

    def join(self, member: int, now: int) -> None:
        """Add a member. ``ValueError`` for one that was there before, dead or not."""
        if member in self._until:
            raise ValueError(f"member {member} is known already")
        self._until[member] = now + self._lease.term

    def postpone(self, by: int) -> None:
        """Extend all leases by a time in which the coordinator could not listen: silence in it does not count."""
        self._until = {member: until + by for member, until in self._until.items()}

    def ended(self, member: int, reason: str) -> bool:
        """Note that a member's process or connection has ended; return whether that is news."""
        if member not in self._until or member in self._dead:
            return False
        self._dead[member] = reason
        return True

    def explain(self, member: int, reason: str) -> None:
        """Replace the reason of a dead member's end, now that more is known."""
        if member in self._dead:
            self._dead[member] = reason

    def runs_out(self, member: int) -> int:
        """When a member's lease runs out."""
        return self._until[member]

    def expired(self, now: int) -> tuple[int, ...]:
        """Living members whose lease has run out."""
        return tuple(member for member in self.alive if self._until[member] <= now)

    def accuse(self, named: Collection[int], now: int) -> tuple[int, ...]:
        """Declare those members dead that the data path names and whose lease has run out; return them."""
        accused = tuple(member for member in self.expired(now) if member in named)
        silence = "said nothing for its lease, and others waited for it"
        for member in accused:
            self._dead[member] = silence
        return accused


# The answers of survivors that have stopped, and the decision that follows.
#
# The first phase (*prepare*) stops the survivors and asks how many operations each has finished. An operation needs
# all members, so no member is two ahead. If one has finished operation k, k stands as it is, with the members that it
# had, and the others get its array; if none has, k is done again over the survivors, from the inputs that were kept.
# The second phase (*commit*) tells all of them. When one more dies before that, both phases begin anew with the next
# term.
#
# A rank joins between two operations: members hear of it before they begin the next one, which is not done; they call
# it again in the group with the newcomer. Newcomers get ranks that no member had before, behind all others.


OnFailure = Literal["abort", "raise", "shrink"]
Outcome = Literal["kept", "redone", "raised"]


@dataclass(frozen=True)
class SurvivorAnswer:
    """What a survivor has done by the time it has stopped."""

    finished: int
    """operations of which it has the result"""
    contributors: tuple[int, ...] = ()
    """members whose contributions are in the last one"""
    operation: str | None = None
    """the operation that it has called and has no result of; None: there is none"""
    root: int = -1
    """root of that operation, if it is a broadcast"""


@dataclass(frozen=True)
class MembershipDecision:
    """A decision of a group's coordinator, written down before any member is told. Members are ranks of the start."""

    term: int
    """Number of the attempt to decide; each attempt has its own."""
    epoch: int
    """Epoch of the group, from 1 on: each decision has its own, and its trees have generations of their own."""
    operation: int
    """The first that not all survivors had finished, from 0 on."""
    outcome: Outcome
    """``kept``: with the old members, the others got its array; ``redone`` over the new ones; ``raised``: not done."""
    before: tuple[int, ...]
    after: tuple[int, ...]
    contributors: tuple[int, ...]
    """Members whose contributions the operation has; none if it was raised."""
    holder: int | None
    """The member whose array the others got; None if they got none."""
    lost: Mapping[int, str]
    """Dead members, with the reason; empty if only the tree changed."""
    joined: tuple[int, ...] = ()
    """Ranks that joined; they lack the others' state."""
    cause: str = ""
    """The link or switch that caused it, if no member died."""

    @property
    def heard_before(self) -> int:
        """The operation before which all members hear of the decision: the next one, or the one that was not done."""
        return self.operation + (self.outcome != "raised")

    def describe(self) -> str:
        """Describe the decision in one line."""
        what = {
            "kept": "stands with all who were there",
            "redone": "was done again",
            "raised": "was not done",
        }[self.outcome]
        news = [f"rank {member} {reason}" for member, reason in self.lost.items()]
        news += [f"rank {member} joined" for member in self.joined]
        left = len(self.after) - len(self.joined)
        more = f", with {len(self.joined)} more" if self.joined else ""
        reasons = "; ".join(news) or self.cause
        return f"{reasons}: {left} of {len(self.before)} go on{more}; operation {self.operation} {what}"


def decide(
    answers: Mapping[int, SurvivorAnswer],
    *,
    before: tuple[int, ...],
    lost: Mapping[int, str],
    term: int,
    epoch: int,
    redo: bool = True,
    cause: str = "",
    joined: tuple[int, ...] = (),
) -> MembershipDecision:
    """The decision that follows from the answers of all survivors. ``redo``: False where callers want an error.

    joined: newcomers; if there are any, the operation is not done, and all call again. Raises ``ClusterError`` if no
    member survives, if an answer is missing, or if answers contradict each other.
    """
    left = tuple(member for member in before if member not in lost)
    if not left:
        raise ClusterError("no rank survived: " + "; ".join(f"rank {member} {why}" for member, why in lost.items()))
    missing = [member for member in left if member not in answers]
    if missing:
        raise ClusterError(f"rank {missing[0]} has not said what it has finished")
    finished = {member: answers[member].finished for member in left}
    operation, most = min(finished.values()), max(finished.values())
    if most > operation + 1:
        ahead = max(left, key=finished.__getitem__)
        raise ClusterError(f"rank {ahead} has finished {most} operations, another one {operation}: none is two ahead")
    holder = next((member for member in left if finished[member] == operation + 1), None)
    if joined and holder is not None:
        raise ClusterError(f"rank {joined[0]} joins in operation {operation}, which rank {holder} has finished")
    outcome: Outcome = "kept" if holder is not None else "redone" if redo and not joined else "raised"
    contributors = {"redone": left, "raised": ()}.get(outcome, ())
    if holder is not None:
        contributors = answers[holder].contributors
        others = {answers[member].contributors for member in left if finished[member] == operation + 1}
        if len(others) > 1:
            raise ClusterError(f"operation {operation}: survivors have results of different members: {sorted(others)}")
    after = (*left, *joined)
    return MembershipDecision(
        term, epoch, operation, outcome, before, after, contributors, holder, dict(lost), joined=joined, cause=cause
    )


def cannot_redo(operation: str | None, root: int, lost: Collection[int]) -> bool:
    """Whether an operation has no meaning without ``lost`` members; ``root``: of a broadcast, a rank of the start."""
    return bool(lost) and (operation == "all_to_all" or (operation == "broadcast" and root in lost))


def group_changed(changes: Sequence[MembershipDecision], view: int, operation: int) -> GroupChanged:
    """The error for a caller that has heard of ``view`` changes of its group, at its ``operation``-th call."""
    news = changes[view:]
    members = news[-1].after
    came = [member for decision in news for member in decision.joined]  # some of them are gone again
    lost = {member: reason for decision in news for member, reason in decision.lost.items() if member not in came}
    summary = "; ".join(decision.describe() for decision in news)
    return GroupChanged(
        f"the group has changed before operation {operation}: {summary}",
        view=len(changes),
        members=members,
        lost=lost,
        operation=operation,
        joined=[member for member in came if member in members],
    )


# Decisions, written down before any member is told of them: a line of JSON for each, forced to the disk.


class Journal:
    """The decisions of one group, in order; with a file, on disk before :meth:`write` returns."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.decisions: list[MembershipDecision] = []

    def write(self, decision: MembershipDecision) -> None:
        """Keep a decision. ``ClusterError`` where its epoch or term is not above all before, or the disk is full."""
        last = self.decisions[-1] if self.decisions else None
        if last is not None and (decision.epoch <= last.epoch or decision.term <= last.term):
            raise ClusterError(
                f"epoch {decision.epoch}, term {decision.term}: not above those of the last decision, "
                f"{last.epoch} and {last.term}"
            )
        if self._path is not None:
            try:
                with self._path.open("a") as file:
                    file.write(json.dumps(to_plain(decision)) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise ClusterError(f"{self._path}: a decision cannot be written down: {error.strerror}") from error
        self.decisions.append(decision)


class Reach:
    """A network, as far as it is not known to be damaged, and the members at its hosts.

    ``hosts``: of members, by rank. ``links`` and ``switches`` are what is down; the owner adds to them when more fails.
    """

    def __init__(self, topology: "Topology", hosts: Sequence[str], links: "set[Ends]", switches: set[str]) -> None:
        self._topology = topology
        self._hosts = hosts
        self.links = links
        self.switches = switches

    @property
    def view(self) -> "Topology":
        """The network without the links and switches that are down."""
        from p4reduce.topologies.optical import without  # noqa: PLC0415  (slow to import, and participants need none)

        return without(self._topology, self.links, self.switches)

    def apart(self, hosts: Iterable[str]) -> frozenset[str]:
        """Hosts outside the largest part of the network, which alone goes on."""
        from p4reduce.topologies.optical import unreachable  # noqa: PLC0415

        return unreachable(self._topology, hosts, self.links, self.switches)

    def damaged(self, plan: "Plan") -> bool:
        """Whether a plan uses a link or a switch that is down."""
        return any(
            frozenset(pair) in self.links or {*pair} & self.switches
            for path in plan.paths.values()
            for pair in pairwise(path)
        )

    def lost(self, members: Sequence[int], dead: Mapping[int, str]) -> tuple[dict[int, str], tuple[int, ...]]:
        """Members that are dead or cut off, with the reason; and those of them that live.

        ``FallenApartError`` where no two of those who are left reach each other.
        """
        gone = {member: dead[member] for member in members if member in dead}
        left = [member for member in members if member not in gone]
        hosts = self.apart([self._hosts[member] for member in left])
        if hosts and len(left) - len(hosts) == 1:
            raise FallenApartError("the network has fallen apart: no two ranks reach each other any more")
        cut = tuple(member for member in left if self._hosts[member] in hosts)
        return gone | dict.fromkeys(cut, "cannot be reached any more"), cut
