"""What an endpoint is made from: addresses and the timing of retransmission."""

from dataclasses import dataclass, field
from typing import Final

from p4reduce.base.units import PS_PER_MS, PS_PER_US
from p4reduce.workers.wire import INC, INC_UDP_PORT

TOKEN_BITS: Final = INC["token"].bits
MAX_BRAKE: Final = 1000
"""so that round trips of minutes stay within 64 bits"""


@dataclass(frozen=True)
class HostAddress:
    """Where a frame goes to or comes from: MAC (48 bits), IPv4 address and UDP port, as integers.

    For a peer behind routers ``mac`` is that of the next hop; ``ip`` and ``udp`` are the peer's own.
    ``token`` (24 bits) is what peer and endpoint show each other (docs/protocol.md, Tokens); 0: nothing. Never printed.
    """

    mac: int
    ip: int
    udp: int = INC_UDP_PORT
    token: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        for name, value, bits in (("mac", self.mac, 48), ("ip", self.ip, 32), ("udp", self.udp, 16)):
            if not 0 <= value < 1 << bits:
                raise ValueError(f"{name}: {value:#x} does not fit {bits} bits")
        if not 0 <= self.token < 1 << TOKEN_BITS:
            raise ValueError(f"token: does not fit {TOKEN_BITS} bits")

    @property
    def key(self) -> int:
        """How a sender is looked up: ip << 16 | udp."""
        return self.ip << 16 | self.udp

    def __str__(self) -> str:
        return ".".join(str(self.ip >> shift & 255) for shift in (24, 16, 8, 0)) + f":{self.udp}"


@dataclass(frozen=True)
class Timing:
    """When a sender sends again, and when it gives up. Times in picoseconds.

    initial_ps: time-out before the first round trip was measured. min_ps, max_ps: its bounds afterwards (RFC 6298).
    retries: time-outs without any answer in between before the endpoint fails.
    reorder: how many later transmissions must be answered before a chunk counts as lost; it doubles,
    up to half the window, each time that this turns out to be wrong. None: never; chunks may overtake each other,
    since their class changes while they are on their way, and are lost by time only.
    """

    initial_ps: int = PS_PER_MS
    min_ps: int = 50 * PS_PER_US
    max_ps: int = 100 * PS_PER_MS
    retries: int = 24
    reorder: int | None = 8

    def __post_init__(self) -> None:
        if not 0 < self.min_ps <= self.max_ps or not 0 < self.initial_ps <= self.max_ps:
            raise ValueError(
                f"time-outs: initial {self.initial_ps}, min {self.min_ps}, max {self.max_ps} ps; "
                "needed: 0 < min <= max and 0 < initial <= max"
            )
        if self.retries < 0 or (self.reorder is not None and self.reorder < 1):
            raise ValueError(f"retries: {self.retries}, must be >= 0; reorder: {self.reorder}, must be >= 1")


@dataclass(frozen=True)
class Congestion:
    """How many chunks a sender has on their way at once, within the window of its plan; docs/protocol.md has the rules.

    adaptive: False: as many as the window allows. True: additive increase, multiplicative decrease.
    initial, minimum: chunks to start with, and that are always allowed.
    decrease: what is left of the congestion window after a loss or a congestion mark.
    pace_ps: least time between two new chunks that carry lanes or ask for them (pacing.py); 0: none.
    brake, brake_ps: it does not grow while a round trip takes more than ``brake`` times the shortest one, plus
    ``brake_ps`` picoseconds (where hosts share processors, their turns are in the round trip too).
    """

    adaptive: bool = False
    initial: int = 4
    minimum: int = 2
    decrease: float = 0.5
    brake: float = 2.0
    brake_ps: int = 0
    pace_ps: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.initial:
            raise ValueError(
                f"initial: {self.initial}, minimum: {self.minimum} chunks; needed: 1 <= minimum <= initial"
            )
        if not 0 < self.decrease < 1:
            raise ValueError(f"decrease: {self.decrease}, must be between 0 and 1")
        if self.pace_ps < 0:
            raise ValueError(f"pace_ps: {self.pace_ps}, must be >= 0")
        if not 1 <= self.brake <= MAX_BRAKE or self.brake_ps < 0:
            raise ValueError(f"brake: {self.brake}, must be 1..{MAX_BRAKE}; brake_ps: {self.brake_ps}, must be >= 0")


FIXED: Final = Congestion()
"""The whole window, always."""
