"""Settings of the experiment: scenarios, policies, sizes, seeds; they determine all results."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from p4reduce.base.errors import BadInput
from p4reduce.cli.lists import floats, texts
from p4reduce.control_plane.scheduling.policies import choose_capable_for
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import POLICIES as REGISTERED
from p4reduce.group.errors import ClusterError
from p4reduce.topologies import Topology, load, with_capable
from p4switch.base.values import parse_delay, parse_rate

POSTER_SPFF_MS: Final = 2.3
"""the poster's total latency of the fixed scheduler with 15 local models"""
POSTER_FLEXIBLE_MS: Final = 1.9
"""the poster's total latency of its flexible scheduler with 15 local models"""
POSTER_SAVING: Final = 1 - POSTER_FLEXIBLE_MS / POSTER_SPFF_MS
"""relative saving of the poster's flexible scheduler, 17.4 %"""
LENET_5: Final = 61_706
"""parameters of LeNet-5 on 32 x 32 images (LeCun et al. 1998, with full connections between S2 and C3)"""


@dataclass(frozen=True)
class TrafficScenario:
    """A network with its traffic.

    Attributes
    ----------
    name : str
        Name in figures.
    topology : str
        Specification for :func:`p4reduce.topologies.load`.
    load : float
        Background traffic: mean share of the busiest host link that it uses (gravity matrix); 0: none.
    priority : int or None
        Queue of tasks in switches, 1..7 (other traffic: 0); None: the queue of all other traffic.
    says : str
        Description of the capacities.
    """

    name: str
    topology: str
    load: float = 0.0
    priority: int | None = None
    says: str = ""

    def __post_init__(self) -> None:
        if self.priority is not None and not 1 <= self.priority <= 7:
            raise ClusterError(f"scenario {self.name}: priority: {self.priority} is outside 1..7")

    def build(self) -> Topology:
        """Return the topology."""
        return load(self.topology)


_WAN: Final = "rate=100G,access_rate=40G,delay=1us"
_WAN_SAYS: Final = "100 Gb/s between cities, 40 Gb/s to hosts, 1 us a link (a laboratory's fibres, as in the poster)"
_LOADED: Final = "leaf-spine:leaves=8,spines=4,hosts=4,rate=40G,oversubscription=2,delay=1us"
_LOADED_SAYS: Final = (
    "32 hosts at 40 Gb/s, 2 : 1 (20 Gb/s uplinks), gravity background that uses the busiest host's link to 30 %, "
    "1 us a link"
)
SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        TrafficScenario("nobel-us", f"wan:graph=nobel-us,hosts=2,{_WAN}", says=f"28 hosts, {_WAN_SAYS}"),
        TrafficScenario("germany50", f"wan:graph=germany50,{_WAN}", says=f"50 hosts, {_WAN_SAYS}"),
        TrafficScenario("geant", f"wan:graph=geant,{_WAN}", says=f"22 hosts, {_WAN_SAYS}"),
        TrafficScenario("leaf-spine", _LOADED, load=0.3, says=_LOADED_SAYS),
        TrafficScenario(
            "leaf-spine-first", _LOADED, load=0.3, priority=7, says=f"{_LOADED_SAYS}; tasks leave before the background"
        ),
        TrafficScenario(
            "fat-tree", "fat-tree:k=4,rate=40G,delay=1us", says="k = 4, 16 hosts, all links 40 Gb/s, 1 us a link"
        ),
    )
}
"""the networks of the experiment, by name"""

DEVELOPED: Final = range(8)
HELD_OUT: Final = range(100, 108)
"""seeds that were not used to choose policies and bars"""
CHOOSERS: Final = ("random", "soar")
"""methods to choose capable switches"""
SPFF: Final = "spff"
ECMP: Final = "spff-ecmp"
ROUTES_ONLY: Final = "mst-routes"
POLICIES: Final = (SPFF, ECMP, ROUTES_ONLY, "spff-ina", "spt", "overlay-mst", "steiner", "exact")
"""policies in the order of figures: without aggregation, then with it"""
EXPLAINING: Final = (ECMP, ROUTES_ONLY, "spff-ina", "spt")
"""policies that run for fewer seeds, because they only explain where the gain comes from"""


@dataclass(frozen=True)
class PosterSettings:
    """Every parameter of the experiment.

    Attributes
    ----------
    scenarios : tuple of Scenario
        Networks: known names or, separated by semicolons, others as NAME=TOPOLOGY[@LOAD[:QUEUE]], such as
        metro=wan:graph=nobel-us,hosts=2,rate=40G@0.2. LOAD is the share of background traffic; with @0.2:7, switches
        send
        frames of tasks from queue 7, before other traffic.
    policies : tuple of str
        Scheduling policies; ``spff`` must be among them, because all others are compared with it.
    sizes : tuple of int
        Numbers of local models of a task.
    tasks : int
        AI tasks that share the network, for each seed.
    seeds : tuple of int
        Seeds of tasks, tensors and background traffic.
    exact_seeds : int
        Number of seeds, from the first, for the policy exact: its MILP takes longer than the packets of a task.
    ablation_seeds : int
        Number of seeds, from the first, for the policies that only explain results: all except spff, overlay-mst,
        steiner
        and exact.
    priority_seeds : int
        Number of seeds, from the first, for scenarios in which switches send frames of tasks before other traffic.
    elements : int
        Model size, number of float32 parameters.
    lanes : int
        Lanes a packet: 64 or 256.
    demand_bps : int
        Rate that a task reserves on each link for each copy of its model, bits per second.
    add_ps : int
        Picoseconds in which the global model's host adds one element of one model that reaches it. The result is
        reported as
        aggregation latency, a separate component: total latency is training + communication, as in the poster.
    shares : tuple of float
        Shares of capable switches in the part shares, in the reference scenario.
    overlap_seeds : int
        Number of seeds, from the first, in the part overlapping; 0: the part is skipped.
    overlap_tasks : int
        Most tasks that communicate at the same time in the part overlapping.
    share_seeds : int
        Number of seeds, from the first, in the part shares.
    share_choosers : tuple of str
        Ways to choose the capable switches in the part shares: ``random``, ``soar``.
    access_rates : tuple of str
        Rates of hosts' links in the part sensitivity, in the reference scenario.
    access_elements : tuple of int
        Model sizes with each rate of --access-rates, on packets.
    delays : tuple of str
        Delays of all links in the part sensitivity, in the reference scenario; ``real``: those of the graph's
        distances, in
        every wide-area scenario.
    delay_elements : tuple of int
        Model sizes with each delay of --delays.
    sensitivity_tasks : int
        Tasks for each rate, delay and seed of the part sensitivity.
    sensitivity_seeds : int
        Number of seeds, from the first, in the part sensitivity.
    lambdas : tuple of float
        Weights of bandwidth against latency in link costs, 0 to 1, in the part weights (scenario germany50-crowded).
    lambda_seeds : int
        Number of seeds, from the first, in the part weights.
    flow_factor : int
        Factor of the model size in the part larger, which compares the flow-level model with packets; 0: the part is
        skipped.
    selection_seeds : int
        Number of seeds, from the first, in the part selection; 0: the part is skipped.
    swap_networks : tuple of (str, float)
        Names of scenarios in the part swaps, each with a loss rate of every link.
    swap_seeds : int
        Number of seeds, from the first, in the part swaps; 0: the part is skipped.
    swap_detours : tuple of float
        Shares by which the bytes of a task's first tree exceed those of the best tree, at least, in the part swaps.
    swap_rounds : tuple of int
        Rounds of a task in the part swaps; its tree may be swapped in the second one.
    swap_thresholds : tuple of float
        Least ratio of a swap's expected saving to its expected cost, in the part swaps.
    ring_networks : tuple of str
        Names of scenarios in the part rings, which compares rings with spff, overlay-mst and steiner.
    ring_tasks : int
        Number of tasks, from the first, of the first seed in the part rings; 0: the part is skipped.
    reference : str
        Name of the reference scenario, in which the training time is calibrated.
    target_ms : float
        Total latency, ms, of spff in the reference scenario with the most local models, to which training is
        calibrated.
    """

    scenarios: tuple[TrafficScenario, ...] = tuple(SCENARIOS.values())
    policies: tuple[str, ...] = POLICIES
    sizes: tuple[int, ...] = (1, 3, 6, 9, 12, 15)
    tasks: int = 30
    seeds: tuple[int, ...] = tuple(HELD_OUT)
    exact_seeds: int = 2
    ablation_seeds: int = 1
    priority_seeds: int = 2
    elements: int = LENET_5
    lanes: int = 256
    demand_bps: int = 250_000_000
    add_ps: int = 200
    shares: tuple[float, ...] = (0.04, 0.1, 0.25, 0.5)
    share_seeds: int = 2
    share_choosers: tuple[str, ...] = ("random", "soar")
    access_rates: tuple[str, ...] = ("10G", "25G", "40G", "100G", "200G", "400G")
    access_elements: tuple[int, ...] = (LENET_5, 4 * LENET_5)
    delays: tuple[str, ...] = ("1us", "10us", "50us", "200us", "1ms", "real")
    delay_elements: tuple[int, ...] = (LENET_5, 16 * LENET_5)
    sensitivity_tasks: int = 3
    sensitivity_seeds: int = 2
    lambdas: tuple[float, ...] = (0.0, 0.5, 0.9, 1.0)
    lambda_seeds: int = 1
    overlap_seeds: int = 1
    overlap_tasks: int = 16
    flow_factor: int = 4
    selection_seeds: int = 3
    swap_networks: tuple[tuple[str, float], ...] = (("germany50", 0.0), ("leaf-spine", 0.0), ("leaf-spine", 0.01))
    swap_seeds: int = 1
    swap_detours: tuple[float, ...] = (0.05, 0.2)
    swap_rounds: tuple[int, ...] = (3, 10)
    swap_thresholds: tuple[float, ...] = (0.0, 0.5, 1.0, 2.5)
    ring_networks: tuple[str, ...] = ("leaf-spine", "germany50")
    ring_tasks: int = 3
    reference: str = "germany50"
    target_ms: float = POSTER_SPFF_MS

    def __post_init__(self) -> None:
        if unknown := [name for name in self.policies if name not in {*REGISTERED, ROUTES_ONLY}]:
            raise BadInput(f"--policies: {unknown[0]!r} is none of {', '.join(sorted({*REGISTERED, ROUTES_ONLY}))}")
        if self.lanes not in (64, 256):
            raise BadInput(f"--lanes: {self.lanes} is none of 64, 256")
        if SPFF not in self.policies:
            raise ClusterError(f"policies: {SPFF} is what all others are compared with; name it too")
        names = [scenario.name for scenario in self.scenarios]
        for field, given in (("scenarios", names), ("sizes", self.sizes), ("seeds", self.seeds)):
            if not given or len(set(given)) != len(given):
                raise ClusterError(f"{field}: give at least one, and each once")
        if any(not 0 < share < 1 for share in self.shares):
            raise ClusterError(f"shares: {self.shares}: each must lie between 0 and 1")
        if self.add_ps < 0:
            raise ClusterError(f"add_ps: {self.add_ps}: must be at least 0")
        for field, values, parsed in (
            ("access_rates", self.access_rates, parse_rate),
            ("delays", [text for text in self.delays if text != "real"], parse_delay),
        ):
            for text in values:
                try:
                    parsed(text)
                except ValueError as error:
                    raise ClusterError(f"{field}: {error}") from None
        if not all(0 <= value <= 1 for value in self.lambdas):
            raise ClusterError(f"lambdas: {self.lambdas}: each must lie between 0 and 1")
        if self.sensitivity_tasks < 1:
            raise ClusterError(f"sensitivity_tasks: {self.sensitivity_tasks}: need at least 1")
        if min(*self.access_elements, *self.delay_elements, 1) < 1:
            raise ClusterError("access_elements, delay_elements: a model has at least one parameter")
        if unknown := [name for name in self.share_choosers if name not in CHOOSERS]:
            raise ClusterError(f"share_choosers: {unknown[0]!r} is none of {', '.join(CHOOSERS)}")
        if self.overlap_tasks < 1:
            raise ClusterError(f"overlap_tasks: {self.overlap_tasks}: need at least 1")
        if self.ring_tasks < 0:
            raise ClusterError(f"ring_tasks: {self.ring_tasks}: must be at least 0")
        if self.tasks < 1 or min(self.sizes) < 1:
            raise ClusterError(f"tasks: {self.tasks}, sizes: {self.sizes}: need at least 1")
        for name, loss in self.swap_networks:
            if not 0 <= loss < 1:
                raise ClusterError(f"swap_networks: {name}: a loss of {loss} is outside 0..1")
        if min(self.swap_rounds, default=2) < 2:
            raise ClusterError(
                f"swap_rounds: {self.swap_rounds}: trees are swapped in the second round; need at least 2"
            )

    def seeds_of(self, scenario: TrafficScenario) -> tuple[int, ...]:
        """Return the seeds for which a scenario runs."""
        return self.seeds if scenario.priority is None else self.seeds[: self.priority_seeds]

    @property
    def calibrated_in(self) -> TrafficScenario:
        """The scenario of the calibration: the reference, or the first scenario if the reference is not run."""
        return next((scenario for scenario in self.scenarios if scenario.name == self.reference), self.scenarios[0])


QUICK: Final = PosterSettings(
    scenarios=tuple(SCENARIOS[name] for name in ("germany50", "fat-tree")),
    policies=(SPFF, "overlay-mst", "steiner"),
    sizes=(3, 15),
    tasks=6,
    seeds=(0,),
    exact_seeds=0,
    shares=(),
    access_rates=(),
    delays=("200us",),
    delay_elements=(LENET_5,),
    sensitivity_tasks=1,
    lambdas=(),
    overlap_seeds=1,
    overlap_tasks=4,
    flow_factor=0,
    selection_seeds=0,
    swap_networks=(("fat-tree", 0.0),),
    swap_seeds=1,
    swap_detours=(0.2,),
    swap_rounds=(4,),
    swap_thresholds=(0.0, 1.0),
    ring_networks=("fat-tree",),
    ring_tasks=1,
)
"""settings of the sample"""


# Parsers of flags.


def named_scenarios(text: str, flag: str) -> list[TrafficScenario]:
    """Parse names of networks or, separated by semicolons, also NAME=TOPOLOGY[@LOAD[:QUEUE]]. Raises ``BadInput``."""
    return [_scenario(word, flag) for word in (text.split(";") if "=" in text or ";" in text else texts(text, flag))]


def _scenario(text: str, flag: str) -> TrafficScenario:
    name, equals, rest = text.partition("=")
    if not equals:
        if name not in SCENARIOS:
            raise BadInput(f"{flag}: {name!r} is none of {', '.join(SCENARIOS)}, nor NAME=TOPOLOGY[@LOAD[:QUEUE]]")
        return SCENARIOS[name]
    topology, _, traffic = rest.partition("@")
    share, colon, queue = traffic.partition(":")
    if colon and queue not in {str(number) for number in range(1, 8)}:
        raise BadInput(f"{flag}: queue {queue!r} is none of 1..7")
    background = floats(share, flag)[0] if share else 0.0
    return TrafficScenario(name, topology, background, int(queue) if colon else None, says=topology)


def lossy_networks(text: str, flag: str) -> list[tuple[str, float]]:
    """Parse NAME[@LOSS],.. into names and loss rates. Raises ``BadInput``."""
    parts = [part.partition("@") for part in texts(text, flag)]
    return [(name, floats(loss, flag)[0] if loss else 0.0) for name, _, loss in parts]


# The AI tasks: hosts of the global model and of the local models.


def draw_tasks(topology: Topology, settings: PosterSettings, seed: int, size: int) -> list[Task]:
    """Return ``settings.tasks`` tasks of ``size`` local models at random hosts.

    The same seed gives the same global models, and the local models of a smaller size are the first ones of a larger
    size, so that sizes and policies are compared on the same tasks.
    """
    hosts = [host.name for host in topology.hosts]
    most = max(settings.sizes)
    if most >= len(hosts):
        raise ClusterError(
            f"sizes: {most} local models and a global one need {most + 1} hosts, {topology.name!r} has {len(hosts)}"
        )
    random = np.random.Generator(np.random.Philox(key=[seed, 0xA1]))
    tasks = []
    for number in range(settings.tasks):
        chosen = [hosts[place] for place in random.permutation(len(hosts))[: most + 1]]
        tasks.append(
            Task(
                name=f"task{number}",
                server=chosen[0],
                workers=tuple(chosen[1 : size + 1]),
                elements=settings.elements,
                demand_bps=settings.demand_bps,
            )
        )
    return tasks


def tasks_of(
    scenario: TrafficScenario, topology: Topology, settings: PosterSettings, seed: int, size: int
) -> list[Task]:
    """Return the drawn tasks in the queue of their scenario."""
    return [replace(task, priority=scenario.priority) for task in draw_tasks(topology, settings, seed, size)]


# The choice of the switches that can aggregate, if only a share of them can.


def with_share(topology: Topology, share: float, seed: int, chooser: str, tasks: Sequence[Task]) -> Topology:
    """Return the topology with only a share of its switches capable.

    Parameters
    ----------
    topology : Topology
        The network; all of its switches may be chosen.
    share : float
        Share of its switches, rounded to a whole number; 1: all.
    seed : int
        Seed of the random order.
    chooser : str
        ``random``: the first switches of a random order, which is the same for every share. ``soar``: the switches that
        :func:`~p4reduce.control_plane.scheduling.policies.choose_capable_for` chooses for all ``tasks`` together; if it
        chooses fewer, further ones in the random order.
    tasks : sequence of Task
        Tasks that will use the network.

    Raises
    ------
    ClusterError
        The share is less than one switch.
    """
    if share >= 1:
        return topology
    names = [switch.name for switch in topology.switches]
    count = round(share * len(names))
    if count == 0:
        raise ClusterError(f"capable: a share of {share} of {len(names)} switches is none; use policy spff")
    order = np.random.Generator(np.random.Philox(key=[seed, 0xCA])).permutation(len(names))
    shuffled = [names[place] for place in order]
    if chooser == "soar":
        best = choose_capable_for(topology, tasks, count)
        shuffled = [*best, *(name for name in shuffled if name not in best)]
    return with_capable(topology, shuffled[:count])
