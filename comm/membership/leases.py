"""Who is dead, and who is only slow.

A member is dead when its connection has ended (its process is gone), or when its lease has run out *and* the data path
names it: nobody is excluded for being late, and nobody for silence that holds up no one.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from p4reduce.base.units import NS_PER_S, PS_PER_MS


@dataclass(frozen=True)
class Lease:
    """How often a member says that it lives, and for how long that counts; of one unit of time, whichever."""

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
        """Those that are dead, with the reason."""
        return dict(self._dead)

    @property
    def alive(self) -> tuple[int, ...]:
        """The others, stragglers too."""
        return tuple(member for member in self._until if member not in self._dead)

    def heard(self, member: int, now: int) -> bool:
        """A sign of life came in; False from one that is dead or was never a member: it must end."""
        if member not in self._until or member in self._dead:
            return False
        self._until[member] = max(self._until[member], now + self._lease.term)
        return True

    def join(self, member: int, now: int) -> None:
        """A new member. ``ValueError`` for one that was there before, dead or not."""
        if member in self._until:
            raise ValueError(f"member {member} is known already")
        self._until[member] = now + self._lease.term

    def postpone(self, by: int) -> None:
        """Nobody listened for so long: what was said meanwhile was not heard, and no silence counts."""
        self._until = {member: until + by for member, until in self._until.items()}

    def ended(self, member: int, reason: str) -> bool:
        """Its process or its connection has ended; whether that is news."""
        if member not in self._until or member in self._dead:
            return False
        self._dead[member] = reason
        return True

    def explain(self, member: int, reason: str) -> None:
        """How one that is dead ended, where more is known of it by now."""
        if member in self._dead:
            self._dead[member] = reason

    def runs_out(self, member: int) -> int:
        """When its lease does."""
        return self._until[member]

    def expired(self, now: int) -> tuple[int, ...]:
        """Those alive whose lease has run out."""
        return tuple(member for member in self.alive if self._until[member] <= now)

    def accuse(self, named: Collection[int], now: int) -> tuple[int, ...]:
        """The data path names members that others wait for: those of them whose lease has run out are dead now."""
        found = tuple(member for member in self.expired(now) if member in named)
        silence = "said nothing for its lease, and others waited for it"
        for member in found:
            self._dead[member] = silence
        return found
