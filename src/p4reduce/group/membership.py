"""Members of a group: their leases, decisions on changes and their journal, and hosts that reach each other."""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from p4reduce.base.records import to_plain
from p4reduce.group.errors import ClusterError, GroupChanged
from p4switch.base.values import NS_PER_S, PS_PER_MS

if TYPE_CHECKING:
    from p4reduce.control_plane.plans import Plan
    from p4reduce.topologies import Topology
    from p4reduce.topologies.optical import Ends

# The distinction of dead members from slow ones.
#
# A member is dead when its connection has ended (its process is gone), or when its lease has run out *and* the data
# path names it. A member that is only late, or whose silence delays no other member, is not excluded.


@dataclass(frozen=True)
class Lease:
    """Interval of a member's heartbeats (``beat``) and the time each is valid (``term``), in the same unit."""

    beat: int
    term: int


REAL_LEASE: Final = Lease(NS_PER_S // 10, NS_PER_S)
"""nanoseconds: a heartbeat every 100 ms, a lease of 1 s"""
VIRTUAL_LEASE: Final = Lease(PS_PER_MS, 10 * PS_PER_MS)
"""picoseconds: a heartbeat every 1 ms, a lease of 10 ms"""


class Leases:
    """The leases of a group's members, and which members are dead. Times only grow; their unit is that of ``lease``."""

    def __init__(self, lease: Lease, members: Iterable[int], now: int) -> None:
        self._lease = lease
        self._until = dict.fromkeys(members, now + lease.term)
        self.dead: dict[int, str] = {}
        """Dead members, with the reason."""

    @property
    def alive(self) -> tuple[int, ...]:
        """Return the members that are not dead, including slow ones."""
        return tuple(member for member in self._until if member not in self.dead)

    def heard(self, member: int, now: int) -> bool:
        """Extend a member's lease; return False if it is dead or was never a member, and must end."""
        if member not in self._until or member in self.dead:
            return False
        self._until[member] = max(self._until[member], now + self._lease.term)
        return True

    def knows(self, member: int) -> bool:
        """Return whether this rank is or was a member."""
        return member in self._until or member in self.dead

    def join(self, member: int, now: int) -> None:
        """Begin the lease of a member that has none yet."""
        self._until.setdefault(member, now + self._lease.term)

    def postpone(self, by: int) -> None:
        """Extend all leases by a time during which the coordinator did not listen: silence in it does not count."""
        self._until = {member: until + by for member, until in self._until.items()}

    def ended(self, member: int, reason: str) -> bool:
        """Note that a member, which may have had no lease yet, has ended; return whether that is news."""
        news = member not in self.dead
        self.dead.setdefault(member, reason)
        return news

    def runs_out(self, member: int) -> int:
        """Return the time at which a member's lease runs out."""
        return self._until[member]

    def expired(self, now: int) -> tuple[int, ...]:
        """Return the living members whose lease has run out."""
        return tuple(member for member in self.alive if self._until[member] <= now)

    def accuse(self, named: Collection[int], now: int) -> tuple[int, ...]:
        """Declare dead the members that the data path names and whose lease has run out; return them."""
        accused = tuple(member for member in self.expired(now) if member in named)
        self.dead |= dict.fromkeys(accused, "said nothing for its lease, and others waited for it")
        return accused


# The answers of survivors that have stopped, and the decision that follows.
#
# The first phase (*prepare*) stops the survivors and asks how many operations each has finished. An operation needs all
# members, so no member is two ahead. If a member has finished operation k, k stands with the members that it had, and
# the others get its array. If no member has, k is done again over the survivors, from the inputs that were kept. The
# second phase (*commit*) tells all survivors. If another member dies before that, both phases begin anew with the next
# term.
#
# A rank joins between two operations: members are told before they begin the next one, which is not done; they call it
# again in the group with the newcomer. Newcomers get new ranks, above all others.


OnFailure = Literal["abort", "raise", "shrink"]
Outcome = Literal["kept", "redone", "raised"]


@dataclass(frozen=True)
class SurvivorAnswer:
    """The progress of a survivor at the time when it stopped."""

    finished: int
    """operations of which it has the result"""
    contributors: tuple[int, ...] = ()
    """members whose contributions are in its last result"""
    operation: str | None = None
    """the operation that it has called without a result yet, or None"""
    root: int = -1
    """root of that operation, if it is a broadcast; else -1"""


@dataclass(frozen=True)
class MembershipDecision:
    """A decision of a group's coordinator, written to the journal before any member is told. Members are ranks."""

    term: int
    """Number of the attempt to decide; each attempt has its own."""
    epoch: int
    """Epoch of the group, from 1 on; each decision has its own, and its trees have their own generations."""
    operation: int
    """First operation that not all survivors had finished, from 0 on."""
    outcome: Outcome
    """``kept``: the result of the old members stands; ``redone`` over the new ones; ``raised``: not done."""
    before: tuple[int, ...]
    after: tuple[int, ...]
    contributors: tuple[int, ...]
    """Members whose contributions are in the operation's result; empty if it was raised."""
    holder: int | None
    """Member whose array the others got; None if they got none."""
    lost: Mapping[int, str]
    """Dead members, with the reason; empty if only the tree changed."""
    joined: tuple[int, ...] = ()
    """Ranks that joined; they lack the others' state."""
    cause: str = ""
    """Link or switch that caused it, if no member died."""

    @property
    def heard_before(self) -> int:
        """Return the operation before which members hear of the decision: the next one, or the one not done."""
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


def cannot_redo(operation: str | None, root: int, lost: Collection[int]) -> bool:
    """Return whether an operation makes no sense without ``lost`` members; ``root``: rank of a broadcast's root."""
    return bool(lost) and (operation == "all_to_all" or (operation == "broadcast" and root in lost))


def group_changed(changes: Sequence[MembershipDecision], view: int, operation: int) -> GroupChanged:
    """Return the error for a caller that knows ``view`` changes of its group, at its ``operation``-th call."""
    news = changes[view:]
    members = news[-1].after
    came = [member for decision in news for member in decision.joined]  # some of these may have died since
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


# Decisions are written to disk before any member is told: one line of JSON each, with fsync.


class Journal:
    """The decisions of one group, in order; with a file, on disk before :meth:`write` returns."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.decisions: list[MembershipDecision] = []

    def write(self, decision: MembershipDecision) -> None:
        """Add a decision. Raises ``ClusterError`` if writing fails."""
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
    """A network without its known damage, and the members at its hosts.

    ``hosts``: of members, by rank. ``links`` and ``switches`` are those that are down; the owner adds more as they
    fail.
    """

    def __init__(self, topology: "Topology", hosts: Sequence[str]) -> None:
        self._topology = topology
        self._hosts = hosts
        self.links: set[Ends] = set()
        self.switches: set[str] = set()

    @property
    def view(self) -> "Topology":
        """Return the network without the links and switches that are down."""
        from p4reduce.topologies.optical import without  # noqa: PLC0415  (slow to import, and participants need none)

        return without(self._topology, self.links, self.switches)

    def apart(self, hosts: Iterable[str]) -> frozenset[str]:
        """Return the hosts outside the largest part of the network, which alone goes on."""
        from p4reduce.topologies.optical import unreachable  # noqa: PLC0415

        return unreachable(self._topology, hosts, self.links, self.switches)

    def damaged(self, plan: "Plan") -> bool:
        """Return whether a plan uses a link or a switch that is down."""
        return any(
            frozenset(pair) in self.links or {*pair} & self.switches
            for path in plan.paths.values()
            for pair in pairwise(path)
        )

    def lost(self, members: Sequence[int], dead: Mapping[int, str]) -> tuple[dict[int, str], tuple[int, ...]]:
        """Return the dead or cut-off members, with the reason, and those of them that are alive but cut off."""
        gone = {member: dead[member] for member in members if member in dead}
        left = [member for member in members if member not in gone]
        hosts = self.apart([self._hosts[member] for member in left])
        cut = tuple(member for member in left if self._hosts[member] in hosts)
        return gone | dict.fromkeys(cut, "cannot be reached any more"), cut
