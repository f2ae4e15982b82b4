"""MeterConfig: rates and bursts of meters."""

from typing import Final

from finsy.proto import p4r

from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.updates import invalid
from p4reduce.dataplane.tables.meter import MeterConfig

_MAX_BURST: Final = (1 << 32) - 1


def meter_config(config: p4r.MeterConfig, what: str) -> MeterConfig | None:
    """A configuration; None, every packet is green, where all numbers are -1 (as PI has it). Raises P4RuntimeError."""
    numbers = (config.cir, config.cburst, config.pir, config.pburst)
    if all(n == -1 for n in numbers):
        return None
    if any(n < 0 for n in numbers):
        raise invalid(f"{what}: a rate or burst is negative")
    if config.cburst > _MAX_BURST or config.pburst > _MAX_BURST:
        raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: a burst is above {_MAX_BURST}")
    if config.cir > config.pir:
        # What PI makes of BMv2's INVALID_INFO_RATE_VALUE.
        raise P4RuntimeError(Code.UNKNOWN, f"{what}: the committed rate {config.cir} is above the peak {config.pir}")
    return MeterConfig(*numbers)


def config_message(config: MeterConfig) -> p4r.MeterConfig:
    """Inverse of meter_config."""
    return p4r.MeterConfig(cir=config.cir, cburst=config.cburst, pir=config.pir, pburst=config.pburst)
