"""What a policy knows of the network: rates, what is used, what is reserved, what is down, free slots."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

_Key = TypeVar("_Key", Hop, str)


@dataclass
class NetworkState:
    """Changes as tasks come and go; policies only read it.

    Attributes
    ----------
    background_bps : dict
        Measured traffic that is no task's, bit/s by directed link.
    reserved_bps : dict
        What tasks reserved, bit/s by directed link.
    down : set
        Links that failed, both directions.
    slots : dict
        Free slots of switches in one aligned range; a switch that is not named has plenty.
    reserved_slots : dict
        What tasks reserved of these.
    """

    topology: Topology
    background_bps: dict[Hop, int] = field(default_factory=dict)
    reserved_bps: dict[Hop, int] = field(default_factory=dict)
    down: set[Hop] = field(default_factory=set)
    slots: dict[str, int] = field(default_factory=dict)
    reserved_slots: dict[str, int] = field(default_factory=dict)

    def residual_bps(self, hop: Hop) -> int:
        """What a directed link has left, bit/s; 0 when it is down or full."""
        if hop in self.down:
            return 0
        used = self.background_bps.get(hop, 0) + self.reserved_bps.get(hop, 0)
        return max(0, self.topology.link_at(*hop).rate_bps - used)

    def slots_left(self, switch: str) -> int | None:
        """Slots of a switch that nobody reserved, a power of two (they come in aligned ranges); None: plenty."""
        free = self.slots.get(switch)
        return None if free is None else range_within(free - self.reserved_slots.get(switch, 0))

    def reserve(self, demand: Mapping[Hop, int], slots: Mapping[str, int] | None = None) -> None:
        """Take bandwidth, bit/s by directed link, and slots of switches."""
        _add(self.reserved_bps, demand, 1)
        _add(self.reserved_slots, slots or {}, 1)

    def release(self, demand: Mapping[Hop, int], slots: Mapping[str, int] | None = None) -> None:
        """Give back what :meth:`reserve` took."""
        _add(self.reserved_bps, demand, -1)
        _add(self.reserved_slots, slots or {}, -1)


def range_within(slots: int) -> int:
    """The largest power of two that is not above a number of slots; 0 for none."""
    return 1 << (slots.bit_length() - 1) if slots > 0 else 0


def _add(total: dict[_Key, int], more: Mapping[_Key, int], sign: int) -> None:
    for key, value in more.items():
        left = total.get(key, 0) + sign * value
        if left > 0:
            total[key] = left
        else:
            total.pop(key, None)
