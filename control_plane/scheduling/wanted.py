"""What a task says that leaves the choice of its hosts to the orchestrator."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Final

from p4reduce.base.safe_yaml import short
from p4reduce.control_plane.errors import PlanError

MOST_WORKERS: Final = 65_535
"""ranks are 16 bits on the wire"""
MOST_SHARDS: Final = 1 << 16
MOST_SHARD_BYTES: Final = 1 << 50


@dataclass(frozen=True)
class Wanted:
    """Hosts that a task wants, instead of their names.

    Attributes
    ----------
    count : int
        Local models, each on a host of its own.
    shards : tuple of str
        Home host of every shard of the training data; a worker reads one that lies elsewhere over the network once,
        before its first round. Shards are dealt to ranks in turn. Empty: the data are everywhere.
    shard_bytes : int
        Of each shard.
    """

    count: int
    shards: tuple[str, ...] = ()
    shard_bytes: int = 0

    def __post_init__(self) -> None:
        limits: tuple[tuple[str, Any, int, int], ...] = (
            ("workers", self.count, 1, MOST_WORKERS),
            ("shard_bytes", self.shard_bytes, 0, MOST_SHARD_BYTES),
        )
        for field, value, least, most in limits:
            whole = isinstance(value, Integral) and not isinstance(value, bool)
            if not whole:  # NaN is neither below nor above
                raise PlanError(f"{field}: {short(value)} is no whole number")
            if not least <= value <= most:
                raise PlanError(f"{field}: {short(value)} is not within {least}..{most}")
        names: Any = self.shards
        if not isinstance(names, tuple) or any(not isinstance(home, str) or not home for home in names):
            raise PlanError(f"shards: {short(self.shards)} is no list of hosts")
        if len(names) > MOST_SHARDS:
            raise PlanError(f"shards: {len(names)} are more than {MOST_SHARDS}")


def wanted_from_data(data: Mapping[str, Any]) -> Wanted:
    """From plain data, as ``dataclasses.asdict`` and JSON make it."""
    return Wanted(**{**data, "shards": tuple(data.get("shards", ()))})
