"""Backends make the switches of a scenario: the golden model itself, or a switch that is compared with it."""

from typing import Protocol

from tests.support.golden.frames import Frame
from tests.support.golden.network import Switch
from tests.support.golden.switch import GoldenSwitch, Outcome
from tests.support.golden.tables import Entry
from tests.support.golden.work import MIN_LANES


class Backend(Protocol):
    """A maker of switches. ``slots``: number of slots of each; ``lanes``: number of lanes of a full packet."""

    lanes: int
    slots: int

    def switch(self, ip: int, mac: int, sample_mask: int) -> Switch:
        """Return a switch with empty tables and zeroed slots."""


class GoldenBackend:
    """Switches that are the golden model alone. A run with them tests the protocol, not the P4 program."""

    lanes = MIN_LANES + 2
    slots = 4096

    def __init__(self, model: type[GoldenSwitch] = GoldenSwitch) -> None:
        self.model = model

    def switch(self, ip: int, mac: int, sample_mask: int) -> "PlainSwitch":
        """Return a switch that is only the model."""
        return PlainSwitch(self.model(ip, mac, self.lanes, sample_mask))


class PlainSwitch:
    """The golden model as a `network.Switch`, without a second switch to compare it with."""

    def __init__(self, golden: GoldenSwitch) -> None:
        self.golden = golden

    def receive(self, port: int, frame: Frame) -> Outcome:
        """Process one frame; see `GoldenSwitch.receive`."""
        return self.golden.receive(port, frame)

    def write(self, entry: Entry, *, insert: bool) -> None:
        """Insert or delete a table entry; see `GoldenSwitch.write`."""
        self.golden.write(entry, insert=insert)

    def check(self) -> None:
        """Do nothing, because there is no second switch."""
