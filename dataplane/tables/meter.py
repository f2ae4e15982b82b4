"""One two-rate three-color meter (behavioral-model, src/bm_sim/meters.cpp)."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

METER_WORDS: Final = 9
"""64-bit words of a meter: whether it is configured, then for the peak and the committed bucket: rate (float64, per
microsecond), burst, tokens, tokens that the rate had given up to the last packet."""

PEAK: Final = 1
COMMITTED: Final = 5
"""First word of a bucket."""

RATE: Final = 0
BURST: Final = 1
TOKENS: Final = 2
LAST: Final = 3
"""Words of a bucket."""

RED: Final = 2
YELLOW: Final = 1
GREEN: Final = 0

MOST_TOKENS: Final = 2.0**62
"""What a bucket can have been given, so that 64 bits hold every sum."""

MICROSECONDS: Final = 1_000_000.0


@dataclass(frozen=True, slots=True)
class MeterConfig:
    """Rates per second and bursts, in packets or bytes."""

    cir: int
    cburst: int
    pir: int
    pburst: int


class MeterError(ValueError):
    """Rates that no meter can have."""


def configure(cell: NDArray[np.uint64], config: MeterConfig | None) -> None:
    """Sets the rates of a meter and fills its buckets. Raises MeterError."""
    if config is not None and config.cir > config.pir:
        raise MeterError(f"the committed rate {config.cir} is above the peak rate {config.pir}")
    cell[:] = 0
    if config is None:
        return
    cell[0] = 1
    for at, rate, burst in ((PEAK, config.pir, config.pburst), (COMMITTED, config.cir, config.cburst)):
        cell.view(np.float64)[at + RATE] = float(rate) / MICROSECONDS
        cell[at + BURST] = cell[at + TOKENS] = burst


def execute(cell: NDArray[np.uint64], unit: Literal["packets", "bytes"], length: int, now: int) -> int:
    """The color of a packet; takes its tokens. A packet that the peak bucket refuses does not touch the other one.

    Args:
        cell: METER_WORDS words.
        unit: of the meter.
        length: of the packet as it came in, bytes.
        now: microseconds; BMv2 aborts where it goes backwards, here no tokens come in.
    """
    if cell[0] == 0:
        return GREEN
    need = 1 if unit == "packets" else length
    for at, color in ((PEAK, RED), (COMMITTED, YELLOW)):
        given = int(min(float(now) * float(cell.view(np.float64)[at + RATE]), MOST_TOKENS))
        tokens, last = int(cell[at + TOKENS]), int(cell[at + LAST])
        fresh = max(given - last, 0)
        tokens = min(tokens + fresh, int(cell[at + BURST]))
        cell[at + LAST] = last + fresh
        if tokens < need:
            cell[at + TOKENS] = tokens
            return color
        cell[at + TOKENS] = tokens - need
    return GREEN
