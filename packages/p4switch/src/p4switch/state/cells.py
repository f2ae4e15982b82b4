"""The numbers that ``random()`` gives: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom generators, 2014).

BMv2 takes std::default_random_engine, seeded by the thread's id, so its numbers differ from run to run. Here they
repeat, and both executors draw from one sequence, whose state is in the device.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4switch.program.actions import CounterArray, MeterArray
from p4switch.tables.profile import METER_WORDS, MeterConfig, configure, execute

# The memory of indirect counters.


class Counter:
    """One indirect counter array of a device.

    ``cells``: uint64, shape (size, 2): packets, bytes. Bytes are those of the frame as it came in, as in BMv2.
    """

    def __init__(self, spec: CounterArray) -> None:
        self.spec = spec
        self.cells: NDArray[np.uint64] = np.zeros((max(spec.size, 1), 2), dtype=np.uint64)

    @property
    def name(self) -> str:
        """Full name."""
        return self.spec.name

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.spec.size

    def read(self, index: int) -> tuple[int, int]:
        """Packets and bytes of a cell. Raises IndexError."""
        packets, octets = self.cells[self._checked(index)].tolist()
        return packets, octets

    def write(self, index: int, packets: int, octets: int) -> None:
        """Sets a cell. Raises IndexError."""
        self.cells[self._checked(index)] = [packets, octets]

    def count(self, index: int, length: int) -> None:
        """Counts one packet of ``length`` bytes. Raises IndexError."""
        self.cells[self._checked(index)] += np.array([1, length], dtype=np.uint64)

    def reset(self) -> None:
        """Sets every cell to 0."""
        self.cells[:] = 0

    def _checked(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise IndexError(f"counter {self.name}: index {index} is not in 0..{self.size - 1}")
        return index


# The memory of indirect meters.


class Meter:
    """An indirect meter array of a device; ``cells``: uint64, shape (size, METER_WORDS)."""

    def __init__(self, spec: MeterArray) -> None:
        self.spec = spec
        self.cells: NDArray[np.uint64] = np.zeros((max(spec.size, 1), METER_WORDS), dtype=np.uint64)
        self._configs: dict[int, MeterConfig] = {}

    @property
    def name(self) -> str:
        """Full name."""
        return self.spec.name

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.spec.size

    def read(self, index: int) -> MeterConfig | None:
        """The configuration of a cell; None: every packet is green. Raises IndexError."""
        return self._configs.get(self._checked(index))

    def configs(self) -> dict[int, MeterConfig]:
        """The configurations of all cells that have one, as they are now."""
        return dict(self._configs)

    def write(self, index: int, config: MeterConfig | None) -> None:
        """Configures a cell, its buckets full; None makes every packet green. Raises IndexError, MeterError."""
        configure(self.cells[self._checked(index)], config)
        self._configs.pop(index, None)
        if config is not None:
            self._configs[index] = config

    def execute(self, index: int, length: int, now: int) -> int:
        """The color of a packet of ``length`` bytes at ``now`` microseconds. Raises IndexError."""
        return execute(self.cells[self._checked(index)], self.spec.unit, length, now)

    def reset(self) -> None:
        """Forgets all configurations."""
        self.cells[:] = 0
        self._configs.clear()

    def _checked(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise IndexError(f"meter {self.name}: index {index} is not in 0..{self.size - 1}")
        return index


MASK: Final = (1 << 64) - 1
STEP: Final = 0x9E3779B97F4A7C15
MIX: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""Shift and multiplier of each round; a last shift follows."""

LAST_SHIFT: Final = 31


def advance(state: int) -> int:
    """The next state."""
    return (state + STEP) & MASK


def mixed(state: int) -> int:
    """The number that belongs to a state, 64 bits."""
    z = state
    for shift, factor in MIX:
        z = ((z ^ z >> shift) * factor) & MASK
    return z ^ z >> LAST_SHIFT


def within(number: int, low: int, high: int) -> int:
    """A number from ``low`` to ``high``, which is not below it; all 64 bits wide."""
    return low + number % (high - low + 1)
