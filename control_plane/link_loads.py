"""What plain traffic takes of links, as switches of the build `p4src/watching.p4` tell it by digests at thresholds."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import finsy as fy

from p4reduce.control_plane.errors import ControllerError
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

DIGEST: Final = "link_load_t"
_US: Final = 1_000_000
_WORD: Final = 2**32


@dataclass(frozen=True, slots=True)
class LoadThresholds:
    """When a switch tells of a link.

    Attributes
    ----------
    window_us : int
        Microseconds over which bytes are added up, 1 to 2^31.
    high, low : float
        Shares of the link's rate: told is a window with more than ``high``, then again those with more than ``low``,
        and the first one with less.
    again : int
        While it is busy a link is told of every so many windows, 1 to 65,535. What has not been told again for longer
        than that is silent: no packet is there that could say so.
    """

    window_us: int
    high: float = 0.3
    low: float = 0.15
    again: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.window_us <= _WORD // 2:
            raise ControllerError(f"window_us: {self.window_us}, must be 1..{_WORD // 2} microseconds")
        if not 0 < self.low <= self.high <= 1:
            raise ControllerError(f"low, high: {self.low}, {self.high}, must be shares with 0 < low <= high <= 1")
        if not 1 <= self.again < 2**16:
            raise ControllerError(f"again: {self.again}, must be 1..65535 windows")

    @property
    def forget_us(self) -> int:
        """So long after it was told of, a link that was not told of again is silent.

        A window ends with the first packet after ``window_us``; another one of the same length is for that.
        """
        return (self.again + 2) * self.window_us


@dataclass(frozen=True, slots=True)
class LinkLoad:
    """A digest: ``bytes`` of plain frames, of ``window_us``, left by a port; ``ended_us`` by the switch's clock."""

    switch: str
    port: int
    busy: bool
    bytes: int
    window_us: int
    ended_us: int

    @property
    def bps(self) -> int:
        """Bits a second of that window."""
        return self.bytes * 8 * _US // max(1, self.window_us)

    @classmethod
    def decode(cls, switch: str, values: Mapping[str, Any]) -> "LinkLoad":
        """From a member of a digest list."""
        return cls(
            switch,
            int(values["port"]),
            bool(values["busy"]),
            int(values["bytes"]),
            int(values["window_us"]),
            int(values["ended_us"]),
        )


def watch_entries(
    topology: Topology, thresholds: LoadThresholds, hops: Collection[Hop]
) -> dict[str, tuple[fy.P4TableEntry, ...]]:
    """Entries of table `watched_port` by switch, for directed links (switch, port)."""
    made: dict[str, list[fy.P4TableEntry]] = {}
    for switch, port in hops:
        window_bytes = topology.link_at(switch, port).rate_bps * thresholds.window_us / (8 * _US)
        high, low = (min(_WORD - 1, max(1, round(share * window_bytes))) for share in (thresholds.high, thresholds.low))
        action = fy.P4TableAction(
            "watch", window_us_=thresholds.window_us, high_=high, low_=low, again_=thresholds.again
        )
        match = fy.P4TableMatch({"std.egress_spec": port})
        made.setdefault(switch, []).append(fy.P4TableEntry("watched_port", match=match, action=action))
    return {switch: tuple(own) for switch, own in made.items()}


def digest_entry() -> fy.P4DigestEntry:
    """Every digest is a message of its own, sent at once, and no answer is waited for."""
    return fy.P4DigestEntry(DIGEST, max_list_size=1, max_timeout_ns=0, ack_timeout_ns=0)
