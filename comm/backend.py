"""What carries a participant's collectives, behind the Communicator that its script sees."""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Ahead:
    """What a participant starts next: a sum of float32, whose exponents may travel with the collective before."""

    array: FloatArray
    start_ps: int
    poison: bool = False


@dataclass(frozen=True)
class Options:
    """How an all-reduce is carried; the same at all participants but for ``patience_s`` and ``ahead``."""

    words: bool = False
    """The arrays hold int32 in the place of float32, which are added as they are."""
    poison: bool = False
    """NaN and infinity are no error; they come through."""
    name: str = ""
    """What the collective is to whoever asked for it, where it is carried as another."""
    patience_s: float | None = None
    """Wall-clock seconds that this participant waits for the others; None: as long as the group does."""
    staleness: int | None = 0
    """Of a push_pull: rounds by which a worker may be ahead of the slowest; 0: all wait; None: no bound."""
    view: int = 0
    """Changes of the group that the caller had heard of when it called (``GroupChanged.view``)."""
    ahead: Ahead | None = None
    """What this participant calls next, where it is known; in real time it is not used."""

    @property
    def stale(self) -> bool:
        """Whether workers do not wait for each other in every round."""
        return self.staleness != 0


PLAIN: Final = Options()


class Backend(Protocol):
    """Carries one participant's calls to the network; see ``comm/rendezvous.py`` and ``comm/remote.py``."""

    rank: int
    """Its rank at the start: it never changes."""
    size: int
    is_server: bool
    looks_ahead: bool
    """Whether it has a use for ``Options.ahead``."""

    @property
    def contributors(self) -> tuple[int, ...]:
        """Of its last collective: whose arrays are in the result, as ranks of the start."""

    @property
    def summed(self) -> tuple[tuple[int, int], ...]:
        """Of its last collective: (elements, contributions) of one stretch of the result after the other.

        Empty where every element has those of all contributors.
        """

    def collective(
        self,
        operation: str,
        array: FloatArray,
        root: int,
        learning_rate: float,
        options: Options = PLAIN,
        start_ps: int | None = None,
    ) -> int:
        """Take part in one collective with ``array`` (1-D, C-contiguous, float32), in place; blocks.

        It starts at ``start_ps`` of virtual time; without, where this participant's clock stands, which goes on to its
        end. Returns when the result was there, picoseconds. ``root`` is a rank of the start. Raises ``GroupChanged``
        where the group has other members than ``options.view`` says.
        """

    def compute(self, seconds: float) -> None:
        """Let virtual time pass for this participant."""

    def now(self) -> float:
        """Virtual time of this participant, seconds."""

    def now_ps(self) -> int:
        """The same in picoseconds."""

    def reach(self, time_ps: int) -> None:
        """Virtual time of this participant is at least this."""

    def record(self, name: str, value: float) -> None:
        """Keep a figure of the training, with the virtual time and the iteration."""

    def group(self, ranks: tuple[int, ...], serial: int) -> "Backend":
        """Its end of the serial-th group of these workers; its rank there is its place in ``ranks``."""

    def close(self) -> None:
        """Leave the group."""


class Served(Backend, Protocol):
    """What the coordinator needs of a place in a group, beside what a participant does."""

    def record(self, name: str, value: float, at_ps: int | None = None) -> None:
        """Keep a figure of ``at_ps``."""

    def group(self, ranks: tuple[int, ...], serial: int) -> "Served":
        """Its end of the serial-th group of these workers."""

    def computed(self, start_ps: int, end_ps: int) -> None:
        """Note computation for the timeline."""

    def lost(self) -> None:
        """Its process is gone without having left: everybody is told."""
