"""What a run of the flow model is: a network, what else is in it, who gets slots, jobs, policies."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal

from p4reduce.control_plane.scheduling.view import NetworkState
from p4reduce.topologies import Topology, fat_tree, leaf_spine
from p4reduce.topologies.model import Hop
from studies.placement.forecasts import PLACES
from studies.placement.knobs import DATA, FLOAT, KNOBS
from studies.placement.telemetry import Bursting

Giving = Literal["ring", "partial", "whole", "value"]
"""No slots at all; first come, first served, with trees in part; the same with whole trees or rings; by value."""
PLENTY: Final = 1 << 16
SMALL_HOSTS: Final = 48


@dataclass(frozen=True)
class Scenario:
    """A cluster.

    Attributes
    ----------
    name : str
        In tables.
    network : str
        'leaf-spine' (8 leaves of 16 hosts, 4 spines), 'fat-tree' (k = 8), or 'small' (6 leaves of 8 hosts, 2 spines).
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
    match network:
        case "fat-tree":
            uniform = fat_tree(k=8, rate=rate)
        case "small":
            uniform = leaf_spine(leaves=6, spines=2, hosts=SMALL_HOSTS // 6, rate=rate)
        case _:
            uniform = leaf_spine(leaves=8, spines=4, hosts=16, rate=rate)
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
PARTS: Final[dict[str, tuple[str, Any]]] = {
    "clusters": ("seeds", ()),
    "calibration": ("points", 0),
    "knobs": ("knob_seeds", ()),
    "forecasts": ("forecast_seeds", ()),
    "inference": ("request_seeds", ()),
    "learned": ("learn_seeds", ()),
    "telemetry": ("telemetry_seeds", ()),
}
"""parts of the experiment, each with the setting that leaves it out"""
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
    knob_data, knobs, knob_seeds, knob_epochs
        Trainings: data sets, ways to send less, seeds, passes over the data (0: as the data set has).
    forecast_loads, forecast_seeds, readings
        Loads of links that are forecast (so many of the list), their seeds, and readings of each.
    places, request_rates, requests, request_seeds
        Inference: where servers are, requests a second of each client, requests of each, seeds.
    bursts, intervals_s, thresholds, windows_s, telemetry_seeds
        Telemetry: bursts of others and tasks beside them, seconds between readings, shares of a link by which it must
        have changed to be told of, windows of switches' digests, seeds.
    learn_seeds, learn_updates, learn_scenarios, learn_tests
        A learned policy: seeds of trainings, updates of each, clusters and seeds that it is tested on.
    """

    scenarios: tuple[Scenario, ...] = SCENARIOS
    policies: tuple[str, ...] = POLICIES
    orders: tuple[str, ...] = ORDERS
    loads: tuple[float, ...] = (0.8, 0.5, 0.95)
    jobs: int = 120
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    points: int = 99
    knob_data: tuple[str, ...] = tuple(DATA)
    knobs: tuple[str, ...] = tuple(KNOBS)
    knob_seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    knob_epochs: int = 0
    forecast_loads: int = 99
    forecast_seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    readings: int = 2000
    places: tuple[str, ...] = tuple(PLACES)
    request_rates: tuple[float, ...] = (8000.0, 20000.0)
    requests: int = 300
    request_seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    bursts: tuple[Bursting, ...] = (Bursting(0.2, 60), Bursting(2.0, 60), Bursting(10.0, 160))
    intervals_s: tuple[float, ...] = (0.001, 0.01, 0.1, 0.3, 1.0)
    thresholds: tuple[float, ...] = (0.5,)
    windows_s: tuple[float, ...] = (0.001, 0.005, 0.02, 0.1)
    telemetry_seeds: tuple[int, ...] = (1, 2, 3)
    learn_seeds: tuple[int, ...] = (1, 2, 3)
    learn_updates: int = 30
    learn_scenarios: tuple[Scenario, ...] = (UNIFORM, *UNEVEN, LARGER[1])
    learn_tests: tuple[int, ...] = (6, 7, 8, 9, 10)

    def only(self, parts: Collection[str]) -> "PlacementSettings":
        """The same without the parts of `PARTS` that are not named."""
        return replace(self, **{PARTS[part][0]: PARTS[part][1] for part in PARTS if part not in parts})


QUICK: Final = PlacementSettings(
    scenarios=(UNIFORM, BACKGROUND_90, SCARCE[0], SCARCE[2]),
    policies=("packed", "ina-aware"),
    orders=("fifo",),
    loads=(0.8,),
    jobs=60,
    seeds=(1,),
    points=4,
    knob_data=("digits",),
    knobs=(FLOAT, "int4, error feedback"),
    knob_seeds=(1,),
    knob_epochs=1,
    forecast_loads=1,
    forecast_seeds=(1,),
    readings=300,
    places=(next(iter(PLACES)),),
    request_rates=(8000.0,),
    requests=60,
    request_seeds=(1,),
    bursts=(Bursting(2.0, 4),),
    intervals_s=(0.01, 1.0),
    windows_s=(0.02,),
    telemetry_seeds=(1,),
    learn_seeds=(),
)
