"""Settings of runs of the flow model: network, background traffic, slots, jobs, policies."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

from p4reduce.base.errors import BadInput
from p4reduce.cli.lists import texts
from p4reduce.control_plane.placement import placement_named
from p4reduce.control_plane.scheduling.view import NetworkState
from p4reduce.topologies import Topology, fat_tree, leaf_spine
from p4reduce.topologies.model import Hop
from studies.placement.forecasts import PLACES
from studies.placement.foresight import MEASURED, WAYS
from studies.placement.knobs import DATA, FLOAT, KNOBS
from studies.placement.services import NETWORKS
from studies.placement.telemetry import Bursting

Giving = Literal["ring", "partial", "whole", "value"]
"""Slots of a switch: none; first come, first served, with trees in part; then with whole trees or rings; by value."""
PLENTY: Final = 1 << 16
SMALL_HOSTS: Final = 48


@dataclass(frozen=True)
class ClusterScenario:
    """A cluster.

    Attributes
    ----------
    name : str
        Name in tables.
    network : str
        'leaf-spine' (8 leaves of 16 hosts, 4 spines), 'fat-tree' (k = 8), or 'small' (6 leaves of 8 hosts, 2 spines).
    rate_gbps : int
        Rate of every link.
    background : float
        Share of the uplinks of `loaded` leaves that background traffic takes, in both directions.
    loaded, incapable : tuple of int
        Numbers of leaves, from 1.
    slots : int
        Number of jobs for which a switch has slots.
    giving : str
        Assignment of the slots to jobs.
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
        """Return the scenario's topology, in which incapable leaves and all hosts cannot aggregate."""
        return _topology(self.network, self.rate_gbps, self.incapable)

    def state(self) -> NetworkState:
        """Return the network with its background traffic."""
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
UNIFORM: Final = ClusterScenario("uniform")
BACKGROUND_60: Final = ClusterScenario("background 60 %", background=0.6, loaded=HALF)
BACKGROUND_90: Final = ClusterScenario("background 90 %", background=0.9, loaded=HALF)
CAPABLE: Final = ClusterScenario("half capable", incapable=HALF)
BOTH: Final = ClusterScenario("half capable, background 90 %", background=0.9, loaded=(4, 5), incapable=HALF)
UNEVEN_OTHERS: Final = (
    ClusterScenario("half capable, background 90 % on capable", background=0.9, loaded=(5, 6), incapable=HALF),
    ClusterScenario("half capable, background 90 % on others", background=0.9, loaded=(1, 2), incapable=HALF),
)
"""variants of BOTH with background on other leaves"""
UNEVEN: Final = (BACKGROUND_60, BACKGROUND_90, CAPABLE, BOTH, *UNEVEN_OTHERS)
RING: Final = ClusterScenario("ring", giving="ring")
SCARCE: Final = tuple(
    ClusterScenario(f"slots for {slots}, {giving}", slots=slots, giving=giving)
    for slots in (2, 1)
    for giving in ("partial", "whole", "value")
)
LARGER: Final = (ClusterScenario("100G", rate_gbps=100), ClusterScenario("fat-tree", network="fat-tree"))
SCENARIOS: Final = (RING, UNIFORM, *SCARCE, *UNEVEN, *LARGER)
POLICIES: Final = ("random", "first-fit", "packed", "spread", "netpack", "cassini", "ina-aware")
ORDERS: Final = ("fifo", "fair", "priority", "edf", "sjf")


DEVELOPED: Final = range(1, 6)
HELD_OUT: Final = range(6, 26)
"""seeds that were not used in the development of policies; parts run the first of them"""


@dataclass(frozen=True)
class PlacementSettings:
    """The experiment.

    Attributes
    ----------
    scenarios : tuple of Scenario
        Clusters in which every policy runs, in the part clusters.
    policies : tuple of str
        Placement policies, including those that installed packages register.
    orders : tuple of str
        Queue orders, each run with and without back-filling, with the policy 'packed' in the cluster 'uniform'.
    loads : tuple of float
        Offered loads, as shares of all slots; bars are decided at the first one, and only the cluster 'uniform' has
        all.
    cluster_jobs : int
        Jobs that arrive in a run of the flow model.
    seeds : tuple of int
        Seeds of the part clusters; other parts use the first few of them or have separate seeds.
    points : int
        Number of points, from the first, at which the part calibration compares the flow model with packets.
    knob_data : tuple of str
        Data sets in the part knobs.
    knobs : tuple of str
        Ways to send fewer bytes in the part knobs.
    knob_seeds : int
        Number of seeds, from the first, in the part knobs.
    knob_epochs : int
        Passes over the data in each training of the part knobs; 0: as many as its data set defines.
    forecast_loads : int
        Number of link loads, from the first of the study's list, in the part forecasts.
    forecast_seeds : int
        Number of seeds, from the first, in the part forecasts.
    readings : int
        Readings of each link load in the part forecasts.
    places : tuple of str
        Locations of the inference servers in the part inference.
    request_rates : tuple of float
        Requests per second of each client in the part inference.
    requests : int
        Requests of each client in the part inference.
    request_seeds : int
        Number of seeds, from the first, in the part inference.
    bursts : tuple of Bursting
        Background bursts, and the number of tasks that run beside them, in the part telemetry.
    intervals_s : tuple of float
        Seconds between two readings of counters in the part telemetry.
    thresholds : tuple of float
        Shares of a link's rate by which its load must change before the reader reports it again, in the part telemetry.
    windows_s : tuple of float
        Seconds over which a switch measures load before it sends a digest, in the part telemetry.
    telemetry_seeds : int
        Number of seeds, from the first, in the part telemetry.
    foresight_bursts : tuple of Bursting
        Background bursts, and the number of tasks that run beside them, in the part foresight.
    foresight_ways : tuple of str
        Information that placements use in the part foresight: measured loads, forecasts, or the actual bursts.
    foresight_seeds : tuple of int
        Seeds of the part foresight.
    service_networks : tuple of str
        Networks in the part services: 'one spine', 'two spines'.
    service_rates : tuple of float
        Requests per second of each client in the part services.
    service_requests : int
        Requests of each client in the part services.
    service_seeds : tuple of int
        Seeds of the part services.
    shard_seeds : tuple of int
        Seeds of the part shards.
    learn_seeds : tuple of int
        Seeds with which the learned policy is trained, in the part learned.
    learn_tests : tuple of int
        Seeds on which the learned policy is tested.
    learn_updates : int
        Updates of the policy in each training of the part learned.
    learn_scenarios : tuple of Scenario
        Clusters on which the learned policy is tested.
    """

    scenarios: tuple[ClusterScenario, ...] = SCENARIOS
    policies: tuple[str, ...] = POLICIES
    orders: tuple[str, ...] = ORDERS
    loads: tuple[float, ...] = (0.8, 0.5, 0.95)
    cluster_jobs: int = 120
    seeds: tuple[int, ...] = tuple(HELD_OUT[:10])
    points: int = 99
    knob_data: tuple[str, ...] = tuple(DATA)
    knobs: tuple[str, ...] = tuple(KNOBS)
    knob_seeds: int = 5
    knob_epochs: int = 0
    forecast_loads: int = 99
    forecast_seeds: int = 5
    readings: int = 2000
    places: tuple[str, ...] = tuple(PLACES)
    request_rates: tuple[float, ...] = (8000.0, 20000.0)
    requests: int = 300
    request_seeds: int = 5
    bursts: tuple[Bursting, ...] = (Bursting(0.2, 60), Bursting(2.0, 60), Bursting(10.0, 160))
    intervals_s: tuple[float, ...] = (0.001, 0.01, 0.1, 0.3, 1.0)
    thresholds: tuple[float, ...] = (0.5,)
    windows_s: tuple[float, ...] = (0.001, 0.005, 0.01, 0.02, 0.1)
    telemetry_seeds: int = 3
    foresight_bursts: tuple[Bursting, ...] = (Bursting(2.0, 20),)
    foresight_ways: tuple[str, ...] = WAYS
    foresight_seeds: tuple[int, ...] = tuple(HELD_OUT)
    service_networks: tuple[str, ...] = tuple(NETWORKS)
    service_rates: tuple[float, ...] = (4000.0, 8000.0)
    service_requests: int = 30
    service_seeds: tuple[int, ...] = tuple(HELD_OUT[:10])
    shard_seeds: tuple[int, ...] = tuple(HELD_OUT)
    learn_seeds: tuple[int, ...] = (1, 2, 3)
    learn_updates: int = 30
    learn_scenarios: tuple[ClusterScenario, ...] = (UNIFORM, *UNEVEN, LARGER[1])
    learn_tests: tuple[int, ...] = tuple(HELD_OUT[:5])

    def __post_init__(self) -> None:
        if not self.seeds or not self.loads:
            raise BadInput(f"--{'loads' if self.seeds else 'seeds'}: give at least one")
        for name in self.policies:
            placement_named(name)
        if any(not 0 < load <= 2 for load in self.loads):
            raise BadInput(
                f"--loads: {', '.join(f'{load:g}' for load in self.loads)}: each must be above 0, and 2 at most"
            )
        for name, value, least in (("cluster-jobs", self.cluster_jobs, 1), ("points", self.points, 0)):
            if value < least:
                raise BadInput(f"--{name}: {value} is below {least}")


def scenario_names() -> list[str]:
    """Return the names of all clusters, without commas."""
    return [scenario.name.replace(",", "") for scenario in SCENARIOS]


def named_scenarios(text: str, flag: str) -> list[ClusterScenario]:
    """Return clusters by their names without commas. Raises ``BadInput``."""
    known = dict(zip(scenario_names(), SCENARIOS, strict=True))
    if unknown := [name for name in texts(text, flag) if name not in known]:
        raise BadInput(f"{flag}: {unknown[0]!r} is none of {'; '.join(known)}")
    return [known[name] for name in texts(text, flag)]


def bursts_of(text: str, flag: str) -> list[Bursting]:
    """Parse mean seconds of bursts and numbers of tasks, as in '0.2:60,2:60'. Raises ``BadInput``."""
    burstings = []
    for pair in texts(text, flag):
        mean, colon, tasks = pair.partition(":")
        try:
            burstings.append(Bursting(float(mean), int(tasks)))
        except ValueError:
            colon = ""
        if not colon or not burstings[-1].mean_s > 0 or burstings[-1].tasks < 1:
            raise BadInput(f"{flag}: {pair!r}: give seconds and a number of tasks, both above 0, as in 0.2:60")
    return burstings


QUICK: Final = PlacementSettings(
    scenarios=(UNIFORM, BACKGROUND_90, SCARCE[0], SCARCE[2]),
    policies=("packed", "ina-aware"),
    orders=("fifo",),
    loads=(0.8,),
    cluster_jobs=60,
    seeds=(1,),
    points=4,
    knob_data=("digits",),
    knobs=(FLOAT, "int4, error feedback"),
    knob_epochs=1,
    forecast_loads=1,
    readings=300,
    places=(next(iter(PLACES)),),
    request_rates=(8000.0,),
    requests=60,
    bursts=(Bursting(2.0, 4),),
    intervals_s=(0.01, 1.0),
    windows_s=(0.02,),
    foresight_bursts=(Bursting(2.0, 3),),
    foresight_ways=(MEASURED, "ewma"),
    foresight_seeds=(1,),
    service_networks=("one spine",),
    service_rates=(8000.0,),
    service_requests=10,
    service_seeds=(1,),
    shard_seeds=(1,),
    learn_seeds=(),
)
