"""The resources of switches that jobs share: slots, multicast groups, replication ids, counter cells, generations."""

import heapq
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from p4reduce.base.errors import PlanError

SLOTS: Final = 4096
"""slots of a switch in the bundled programs (p4src/sizes.p4)"""
STATS_JOBS: Final = 512
"""number of jobs that can have counter cells at one time (p4src/sizes.p4)"""
_MAX_ID: Final = 0x3FFF
"""largest multicast group and replication id of a job: 0 means none, higher ids are derived with the offsets below"""
QUESTIONS: Final = 0x4000
"""offset of a job's group for questions, and of the replication ids in it, from the job's own group and ids"""
TO_PARENT: Final = 0x8000
"""offset of the replication id of the copy to the parent from the job's group"""


class SlotPool:
    """The slots of one switch, allocated first fit in aligned ranges of a power of two.

    A freed range may be allocated again at once: its slots carry the generation of their former job.
    """

    def __init__(self, size: int = SLOTS) -> None:
        if size < 1:
            raise ValueError(f"a slot pool needs at least one slot, not {size}")
        self.size = size
        self._used: dict[int, int] = {}

    @property
    def free(self) -> int:
        """Number of free slots, contiguous or not."""
        return self.size - sum(self._used.values())

    def largest(self) -> int:
        """The largest count that :meth:`allocate` would grant now; 0 when no slot is free."""
        count = 1 << (self.size.bit_length() - 1)
        while count and self._first_fit(count) is None:
            count >>= 1
        return count

    def allocate(self, count: int) -> int:
        """Allocate ``count`` slots, a power of two; returns the base, a multiple of ``count``. `PlanError` if full."""
        if count < 1 or count & (count - 1):
            raise ValueError(f"slots come in powers of two, not {count}")
        base = self._first_fit(count)
        if base is None:
            raise PlanError(f"no {count} slots in one range are left ({self.free} of {self.size} free)")
        self._used[base] = count
        return base

    def reserve(self, base: int, count: int) -> None:
        """Reserve the range of a plan that an earlier controller made; `PlanError` when a part of it is taken."""
        if base < 0 or base + count > self.size:
            raise PlanError(f"slots {base}..{base + count - 1} are outside 0..{self.size - 1}")
        if any(base < start + used and start < base + count for start, used in self._used.items()):
            raise PlanError(f"slots {base}..{base + count - 1} are taken in part")
        self._used[base] = count

    def release(self, base: int) -> None:
        """Free the range that begins at ``base``; `KeyError` when it was not allocated."""
        del self._used[base]

    def _first_fit(self, count: int) -> int | None:
        base = 0
        for start, used in sorted(self._used.items()):
            if base + count <= start:
                break
            base = max(base, -(-(start + used) // count) * count)
        return base if base + count <= self.size else None


class _Ids:
    """A pool of numbers: the lowest free number is given out first, and freed numbers are used again."""

    def __init__(self, first: int, last: int, what: str) -> None:
        self._next = first
        self._last = last
        self._freed: list[int] = []
        self._what = what

    def take(self) -> int:
        if self._freed:
            return heapq.heappop(self._freed)
        if self._next > self._last:
            raise PlanError(f"no {self._what} is left (all up to {self._last} are in use); end some jobs")
        self._next += 1
        return self._next - 1

    def reserve(self, number: int) -> None:
        """Reserve the number of a plan that an earlier controller made; `PlanError` when it is taken."""
        if number >= self._next:
            for skipped in range(self._next, number):
                heapq.heappush(self._freed, skipped)
            self._next = number + 1
        elif number in self._freed:
            self._freed.remove(number)
            heapq.heapify(self._freed)
        else:
            raise PlanError(f"{self._what} {number} is taken")

    def give_back(self, number: int) -> None:
        heapq.heappush(self._freed, number)


@dataclass(frozen=True, slots=True)
class Share:
    """The resources of one (job, epoch) in one switch."""

    switch: str
    base: int
    slots: int
    group: int
    rids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """The resources of one (job, epoch) in all switches."""

    generation: int
    stats: int
    slots: int
    shares: tuple[Share, ...]


@dataclass
class _Switch:
    pool: SlotPool
    groups: _Ids = field(default_factory=lambda: _Ids(1, _MAX_ID, "multicast group"))
    rids: _Ids = field(default_factory=lambda: _Ids(1, _MAX_ID, "replication id"))


class Resources:
    """Allocates the switches' resources, and generations that are never used twice.

    Parameters
    ----------
    slots : int
        Slots of every switch: the size of the program's ``slots`` register.
    first_generation : int
        The next job's generation. A restarted controller, whose switches kept running, must begin above all generations
        that it used before.
    counted_jobs : int
        Number of jobs that can have counter cells at one time.
    """

    def __init__(self, slots: int = SLOTS, first_generation: int = 1, counted_jobs: int = STATS_JOBS) -> None:
        if not 1 <= first_generation < 2**32:
            raise ValueError(f"generations are 1 .. 2**32 - 1, not {first_generation}")
        self.slots: Final = slots
        """slots of every switch"""
        self._generation = first_generation
        self._switches: dict[str, _Switch] = {}
        self._stats = _Ids(0, counted_jobs - 1, "counter cell")

    @property
    def next_generation(self) -> int:
        """The generation of the next grant."""
        return self._generation

    def largest(self, switch: str) -> int:
        """The largest range of slots that a switch could still grant."""
        return self._switch(switch).pool.largest()

    def free(self, switch: str) -> int:
        """Number of free slots of a switch."""
        return self._switch(switch).pool.free

    def grant(self, fan_in: Iterable[tuple[str, int]], slots: int) -> Grant:
        """Take ``slots`` slots, a group and a replication id for each child in every switch of a tree, or nothing.

        Parameters
        ----------
        fan_in : pairs of str and int
            Switch and its number of children.
        slots : int
            A power of two, the same in every switch.

        Raises
        ------
        PlanError
            When a resource is used up; names the switch.
        """
        if self._generation >= 2**32:
            raise PlanError("all 2**32 generations are used; restart the switches and the controller")
        shares: list[Share] = []
        stats = self._stats.take()
        try:
            for switch, children in fan_in:
                shares.append(self._share(switch, children, slots))
        except PlanError:
            self._give_back(stats, shares)
            raise
        generation = self._generation
        self._generation += 1
        return Grant(generation, stats, slots, tuple(shares))

    def begin_at(self, generation: int) -> None:
        """Give out no generation below ``generation``."""
        self._generation = max(self._generation, generation)

    def adopt(self, grant: Grant) -> None:
        """Take the resources of an earlier controller's grant; later generations are above the grant's.

        Raises
        ------
        PlanError
            When a resource is taken; then nothing is changed.
        """
        with ExitStack() as undo:

            def take(ids: _Ids, number: int) -> None:
                ids.reserve(number)
                undo.callback(ids.give_back, number)

            take(self._stats, grant.stats)
            for share in grant.shares:
                own = self._switch(share.switch)
                own.pool.reserve(share.base, share.slots)
                undo.callback(own.pool.release, share.base)
                take(own.groups, share.group)
                for rid in share.rids:
                    take(own.rids, rid)
            undo.pop_all()
        self.begin_at(grant.generation + 1)

    def release(self, grant: Grant) -> None:
        """Free all resources of a grant; its generation is never used again."""
        self._give_back(grant.stats, grant.shares)

    def _share(self, switch: str, children: int, slots: int) -> Share:
        own = self._switch(switch)
        try:
            base = own.pool.allocate(slots)
        except PlanError as error:
            raise PlanError(f"switch {switch}: {error}; end some jobs or ask for a smaller window") from None
        group, rids = 0, []
        try:
            group = own.groups.take()
            for _ in range(children):
                rids.append(own.rids.take())  # noqa: PERF401  (ids taken before a failure are given back)
        except PlanError as error:
            self._free(own, Share(switch, base, slots, group, tuple(rids)))
            raise PlanError(f"switch {switch}: {error}") from None
        return Share(switch, base, slots, group, tuple(rids))

    def _give_back(self, stats: int, shares: Iterable[Share]) -> None:
        self._stats.give_back(stats)
        for share in shares:
            self._free(self._switch(share.switch), share)

    @staticmethod
    def _free(own: _Switch, share: Share) -> None:
        own.pool.release(share.base)
        if share.group:
            own.groups.give_back(share.group)
        for rid in share.rids:
            own.rids.give_back(rid)

    def _switch(self, name: str) -> _Switch:
        return self._switches.setdefault(name, _Switch(SlotPool(self.slots)))
