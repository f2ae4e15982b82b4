"""One participant's end of a group whose participants meet in this process."""

from typing import TYPE_CHECKING

from p4reduce.base.units import PS_PER_S
from p4reduce.comm.backend import PLAIN, FloatArray, Options
from p4reduce.comm.errors import ClusterError

if TYPE_CHECKING:
    from p4reduce.comm.rendezvous import Rendezvous


class Seat:
    """One participant's end of a ``Rendezvous``; implements ``backend.Backend``."""

    looks_ahead = True

    def __init__(self, rendezvous: "Rendezvous", rank: int, size: int) -> None:
        self._rendezvous = rendezvous
        self.rank = rank
        self.size = size
        self.is_server = rank == size

    def collective(
        self,
        operation: str,
        array: FloatArray,
        root: int,
        learning_rate: float,
        options: Options = PLAIN,
        start_ps: int | None = None,
    ) -> int:
        """Post the call and wait."""
        return self._rendezvous.post(self.rank, operation, array, root, learning_rate, options, start_ps)

    @property
    def contributors(self) -> tuple[int, ...]:
        """Of its last collective: whose arrays are in the result."""
        return self._rendezvous.contributors(self.rank)

    @property
    def summed(self) -> tuple[tuple[int, int], ...]:
        """Of its last collective: (elements, contributions) of each stretch of the result."""
        return self._rendezvous.summed(self.rank)

    def compute(self, seconds: float) -> None:
        """Advance this participant's clock."""
        self._rendezvous.compute(self.rank, seconds)

    def now(self) -> float:
        """Virtual time, seconds."""
        return self._rendezvous.clock(self.rank).now_ps / PS_PER_S

    def now_ps(self) -> int:
        """Virtual time, picoseconds."""
        return self._rendezvous.clock(self.rank).now_ps

    def reach(self, time_ps: int) -> None:
        """Virtual time is at least this."""
        self._rendezvous.clock(self.rank).reach(time_ps)

    def computed(self, start_ps: int, end_ps: int) -> None:
        """Note computation for the timeline; the clock stays."""
        self._rendezvous.computed(self.rank, start_ps, end_ps)

    def group(self, ranks: tuple[int, ...], serial: int) -> "Seat":
        """Its end of the group of ``ranks``, in that order."""
        if self._rendezvous.subgroup is None:
            raise ClusterError("groups are made of the ranks of the whole run, not of another group")
        return self._rendezvous.subgroup(self.rank, ranks, serial)

    def lost(self) -> None:
        """Its process is gone without having left: everybody is told."""
        self._rendezvous.lose(self.rank)

    def record(self, name: str, value: float, at_ps: int | None = None) -> None:
        """Keep a figure."""
        self._rendezvous.record(self.rank, name, value, at_ps)

    def close(self) -> None:
        """Leave."""
        self._rendezvous.leave(self.rank)
