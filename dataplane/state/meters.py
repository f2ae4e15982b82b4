"""The memory of indirect meters."""

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.model.packet_path import MeterArray
from p4reduce.dataplane.tables.meter import METER_WORDS, MeterConfig, configure, execute


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
