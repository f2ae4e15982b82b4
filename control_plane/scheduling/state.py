"""What a policy knows of the network: rates, what is used, what is reserved, what is down, free slots."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from p4reduce.topologies import Topology

Hop = tuple[str, int]
"""A directed link, as (node, port) of its sender."""


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
    """

    topology: Topology
    background_bps: dict[Hop, int] = field(default_factory=dict)
    reserved_bps: dict[Hop, int] = field(default_factory=dict)
    down: set[Hop] = field(default_factory=set)
    slots: dict[str, int] = field(default_factory=dict)

    def residual_bps(self, hop: Hop) -> int:
        """What a directed link has left, bit/s; 0 when it is down or full."""
        if hop in self.down:
            return 0
        used = self.background_bps.get(hop, 0) + self.reserved_bps.get(hop, 0)
        return max(0, self.topology.link_at(*hop).rate_bps - used)

    def reserve(self, demand: Mapping[Hop, int]) -> None:
        """Take bandwidth, bit/s by directed link."""
        for hop, bps in demand.items():
            self.reserved_bps[hop] = self.reserved_bps.get(hop, 0) + bps

    def release(self, demand: Mapping[Hop, int]) -> None:
        """Give back what :meth:`reserve` took."""
        for hop, bps in demand.items():
            left = self.reserved_bps.get(hop, 0) - bps
            if left > 0:
                self.reserved_bps[hop] = left
            else:
                self.reserved_bps.pop(hop, None)
