"""What a run of the flow model is: a network, what else is in it, who gets slots, jobs, policies."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.topologies import Topology, fat_tree, leaf_spine
from p4reduce.topologies.model import Hop

Giving = Literal["ring", "partial", "whole", "value"]
"""No slots at all; first come, first served, with trees in part; the same with whole trees or rings; by value."""
PLENTY: Final = 1 << 16


@dataclass(frozen=True)
class Scenario:
    """A cluster.

    Attributes
    ----------
    name : str
        In tables.
    network : str
        'leaf-spine' (8 leaves of 16 hosts, 4 spines) or 'fat-tree' (k = 8).
    rate_gbps : int
        Of every link.
    background : float
        Share of the uplinks of `loaded` leaves that others take, both ways.
    loaded, incapable : tuple of int
        Leaves, from 1.
    slots : int
        Jobs that a switch has slots for.
    giving : str
        To whom they go.
    """

    name: str
    network: str = "leaf-spine"
    rate_gbps: int = 25
    background: float = 0.0
    loaded: tuple[int, ...] = ()
    incapable: tuple[int, ...] = ()
    slots: int = PLENTY
    giving: Giving = "whole"

    def topology(self) -> Topology:
        """With switches that cannot aggregate where the scenario says so."""
        return _topology(self.network, self.rate_gbps, self.incapable)

    def state(self) -> NetworkState:
        """The network with its background traffic."""
        topology, used = self.topology(), dict[Hop, int]()
        for number in self.loaded:
            leaf = f"leaf{number}"
            for other in topology.neighbours(leaf):
                if topology.node(other).is_switch:
                    for a, b in ((leaf, other), (other, leaf)):
                        used[(a, topology.port(a, b))] = round(self.background * topology.link_between(a, b).rate_bps)
        return NetworkState(topology, background_bps=used)


@cache
def _topology(network: str, rate_gbps: int, incapable: tuple[int, ...]) -> Topology:
    rate = f"{rate_gbps}G"
    uniform = fat_tree(k=8, rate=rate) if network == "fat-tree" else leaf_spine(leaves=8, spines=4, hosts=16, rate=rate)
    names = {f"leaf{number}" for number in incapable}
    nodes = tuple(replace(node, capable=node.is_switch and node.name not in names) for node in uniform.nodes)
    return replace(uniform, nodes=nodes)


HALF: Final = (1, 2, 3, 4)
UNIFORM: Final = Scenario("uniform")
BACKGROUND_60: Final = Scenario("background 60 %", background=0.6, loaded=HALF)
BACKGROUND_90: Final = Scenario("background 90 %", background=0.9, loaded=HALF)
CAPABLE: Final = Scenario("half capable", incapable=HALF)
BOTH: Final = Scenario("half capable, background 90 %", background=0.9, loaded=(4, 5), incapable=HALF)
UNEVEN_OTHERS: Final = (
    Scenario("half capable, background 90 % on capable", background=0.9, loaded=(5, 6), incapable=HALF),
    Scenario("half capable, background 90 % on others", background=0.9, loaded=(1, 2), incapable=HALF),
)
"""the same with other leaves"""
UNEVEN: Final = (BACKGROUND_60, BACKGROUND_90, CAPABLE, BOTH, *UNEVEN_OTHERS)
RING: Final = Scenario("ring", giving="ring")
SCARCE: Final = tuple(
    Scenario(f"slots for {slots}, {giving}", slots=slots, giving=giving)
    for slots in (2, 1)
    for giving in ("partial", "whole", "value")
)
LARGER: Final = (Scenario("100G", rate_gbps=100), Scenario("fat-tree", network="fat-tree"))
SCENARIOS: Final = (RING, UNIFORM, *SCARCE, *UNEVEN, *LARGER)
POLICIES: Final = ("random", "first-fit", "packed", "spread", "netpack", "cassini", "ina-aware")
ORDERS: Final = ("fifo", "fair", "priority", "edf", "sjf")


@dataclass(frozen=True)
class PlacementSettings:
    """The experiment.

    Attributes
    ----------
    scenarios : tuple of Scenario
        Clusters, with every policy.
    policies : tuple of str
        Placement policies.
    orders : tuple of str
        Orders of the queue, each with and without back-filling, under 'packed' in the uniform cluster.
    loads : tuple of float
        Shares of all slots that are asked for; the first one is that of the bars.
    jobs : int
        In a run.
    seeds : tuple of int
        Of runs.
    points : int
        Of the calibration on packets: so many of its list.
    """

    scenarios: tuple[Scenario, ...] = SCENARIOS
    policies: tuple[str, ...] = POLICIES
    orders: tuple[str, ...] = ORDERS
    loads: tuple[float, ...] = (0.8, 0.5, 0.95)
    jobs: int = 120
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    points: int = 99


QUICK: Final = PlacementSettings(
    scenarios=(UNIFORM, BACKGROUND_90, SCARCE[0], SCARCE[2]),
    policies=("packed", "ina-aware"),
    orders=("fifo",),
    loads=(0.8,),
    jobs=60,
    seeds=(1, 2),
    points=4,
)
