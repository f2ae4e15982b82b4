"""Which switches a scenario runs on: the golden model itself, or any switch that is compared with it."""

from typing import Protocol

from tests.support.golden.frames import Frame
from tests.support.golden.network import Switch
from tests.support.golden.switch import GoldenSwitch, Outcome
from tests.support.golden.tables import Entry
from tests.support.golden.work import MIN_LANES


class Backend(Protocol):
    """Makes the switches of a scenario. ``slots`` is how many each has, ``lanes`` how many fit a packet."""

    lanes: int
    slots: int

    def switch(self, ip: int, mac: int, sample_mask: int) -> Switch:
        """A switch with empty tables and zeroed slots."""


class GoldenBackend:
    """The golden model alone: shows that the design holds."""

    lanes = MIN_LANES + 2
    slots = 4096

    def __init__(self, model: type[GoldenSwitch] = GoldenSwitch) -> None:
        self.model = model

    def switch(self, ip: int, mac: int, sample_mask: int) -> "PlainSwitch":
        """A switch that is only the model."""
        return PlainSwitch(self.model(ip, mac, self.lanes, sample_mask))


class PlainSwitch:
    """The golden model, with nothing to be compared with."""

    def __init__(self, golden: GoldenSwitch) -> None:
        self.golden = golden

    def receive(self, port: int, frame: Frame) -> Outcome:
        """See `GoldenSwitch.receive`."""
        return self.golden.receive(port, frame)

    def write(self, entry: Entry, *, insert: bool) -> None:
        """See `GoldenSwitch.write`."""
        self.golden.write(entry, insert=insert)

    def check(self) -> None:
        """Nothing to compare with."""
