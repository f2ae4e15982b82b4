"""Cells of the comparison: a system, or a plan of p4reduce, in one setting and with one seed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import product
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.entries import SwitchSettings
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.control_plane.plans.best import trees_named
from p4reduce.control_plane.plans.bounds import best_plan_ps
from p4reduce.control_plane.plans.forest import shares
from p4reduce.control_plane.plans.problem import Problem
from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import ClusterError
from p4reduce.network.background import RequestEndpoints, Requests
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.network.virtual import Faults
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.jobs import tree_requests
from p4reduce.runs.summary import network_result
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.topologies import Topology, load
from p4reduce.topologies.model import Hop
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.specs import FIXED, Congestion
from studies.compare.atp import Atp, Server
from studies.compare.panama import Panama
from studies.compare.pool import SwitchML
from studies.compare.protocol import SYSTEMS, Floats, WrongSum, integers, jobs_of, load_of, run, settle
from studies.frame import column, percent, record, scaled

OURS: Final = ("steiner", "striped", "packing")
"""p4reduce's own plans"""
PLANS: Final = (*OURS, "rina", "ring", "halving-doubling", "double-binary-tree", "ps")
RIVALS: Final = ("switchml", "atp", "omnireduce", "sharp", "panama")
WORDS_IN_KIB: Final = 256
LANES: Final = 256
DEVELOPED: Final = tuple(range(10))
HELD_OUT: Final = (101, 102, 103, 104)


@dataclass(frozen=True)
class Setting:
    """One point of the design.

    Attributes
    ----------
    axis : str
        The parameter that is varied.
    deployed : float
        Share of switches that can aggregate, drawn for each seed.
    loss : float
        Loss rate of each link.
    density : float
        Share of blocks of 256 elements that are not zero, drawn for each worker.
    alike : bool
        Whether these blocks are the same at all workers.
    kib : int
        Tensor size of each job, KiB.
    jobs : int
        Number of jobs, which share all hosts.
    rate : str
        Rate of every link.
    """

    axis: str
    deployed: float = 1.0
    loss: float = 0.0
    density: float = 1.0
    alike: bool = False
    kib: int = 256
    jobs: int = 1
    rate: str = "10G"

    @property
    def draws(self) -> bool:
        """Whether the setting involves random draws."""
        return self.loss > 0 or self.density < 1 or 0 < self.deployed < 1

    @property
    def words(self) -> str:
        """The parameters that differ from the usual setting, in words."""
        shown = {
            "deployed": f"{self.deployed:.0%} of switches",
            "loss": f"loss {self.loss:.1%}",
            "density": f"{self.density:.0%} dense",
            "alike": "same blocks",
            "kib": f"{self.kib} KiB",
            "jobs": f"{self.jobs} jobs",
            "rate": self.rate,
        }
        usual = Setting("")
        return ", ".join(text for name, text in shown.items() if getattr(self, name) != getattr(usual, name)) or "usual"


DESIGN: Final = (
    *(Setting("deployment", deployed=share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)),
    *(Setting("loss", loss=loss) for loss in (0.0, 0.001, 0.01, 0.05)),
    *(Setting("density", density=density) for density in (1.0, 0.3, 0.1, 0.01)),
    *(Setting("density", density=density, alike=True) for density in (0.3, 0.1, 0.01)),
    *(Setting("size", kib=kib) for kib in (64, 256, 1024, 16384)),
    *(Setting("jobs", jobs=jobs) for jobs in (1, 2, 4, 8)),
    *(Setting("rate", rate=rate) for rate in ("10G", "100G")),
    Setting("two at once", deployed=0.5, loss=0.01),
    Setting("two at once", density=0.1, loss=0.01),
    Setting("two at once", kib=64, loss=0.01),
    Setting("two at once", jobs=4, loss=0.01),
    Setting("two at once", rate="100G", loss=0.01),
    Setting("two at once", rate="100G", kib=64),
    Setting("two at once", rate="100G", density=0.1),
)


@dataclass(frozen=True)
class CompareSettings:
    """Settings of the comparison.

    Attributes
    ----------
    seeds : tuple of int
        Seeds of tensors, faults, and the choice of capable switches; settings without random draws use the first one
        only.
    systems : tuple of str
        Plans of p4reduce, and other systems, including those that installed packages register by entry points.
    topology : str
        Topology builder with its parameters, except rate and capable; its servers are those of ATP and of the plan ps.
    design : tuple of Setting
        Settings in which every system runs.
    paper_kib : int
        Tensor size in the part papers, KiB.
    """

    seeds: tuple[int, ...] = HELD_OUT
    systems: tuple[str, ...] = (*PLANS, *RIVALS)
    topology: str = "leaf-spine:leaves=4,spines=2,hosts=4,servers=4"
    design: tuple[Setting, ...] = DESIGN
    paper_kib: int = 512

    def __post_init__(self) -> None:
        known = (*PLANS, *SYSTEMS)
        for name in self.systems:
            if name not in known:
                raise ClusterError(f"systems: {name!r} is none of {', '.join(known)}")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ClusterError("seeds: give at least one, and each once")
        if self.paper_kib < 4:
            raise ClusterError(f"paper_kib: {self.paper_kib}: need at least 4")


QUICK: Final = CompareSettings(
    seeds=(1,),
    topology="leaf-spine:leaves=2,spines=2,hosts=2,servers=2",
    systems=("steiner", "ring", *RIVALS),
    design=(
        Setting("loss", kib=64),
        Setting("loss", kib=64, loss=0.01),
        Setting("jobs", kib=64, jobs=2),
        Setting("deployment", kib=64, deployed=0.0),
    ),
    paper_kib=256,
)


@record
class CompareRow:
    """The results of a system in a setting."""

    axis: str = column("axis")
    setting: str = column("setting")
    deployed: float = column("deployed", percent(0))
    loss: float = column("loss", percent(1))
    density: float = column("dense", percent(0))
    alike: bool = column("same blocks")
    kib: int = column("KiB")
    jobs: int = column("jobs")
    rate: str = column("rate")
    system: str = column("system")
    seed: int = column("seed")
    time_us: float = column("time, us", "{:,.0f}")
    over_best: float = column("time / best plan's bound", "{:.2f}")
    over_lossy: float = column("time / that bound with losses", "{:.2f}")
    """time over the bound / (1 - loss): each lost frame crosses its link once more"""
    busiest_bytes: int = column("busiest link, MB", scaled(1e-6, "{:.2f}"))
    slots: int = column("slots of a switch", "{:,.0f}")
    jain: float = column("Jain's index", "{:.3f}")


@dataclass(frozen=True)
class SystemCell:
    """A system in a setting with a seed."""

    topology: str
    setting: Setting
    system: str
    seed: int


def cells(settings: CompareSettings) -> Iterator[SystemCell]:
    """Yield the cells of a study; one seed is enough if the setting has no random draws."""
    for setting, system in product(settings.design, settings.systems):
        for seed in settings.seeds if setting.draws else settings.seeds[:1]:
            yield SystemCell(settings.topology, setting, system, seed)


def network_of(topology: str, setting: Setting, seed: int) -> str:
    """Return the topology spec of a setting; the capable switches are drawn for each seed."""
    known = load(topology)
    names = [switch.name for switch in known.switches]
    count = round(setting.deployed * len(names))
    chosen = sorted(Random(seed).sample(names, count))  # noqa: S311  (reproducible, not secret)
    capable = "all" if count == len(names) else "+".join(chosen) or "none"
    return f"{topology},rate={setting.rate},capable={capable}"


@lru_cache(64)
def bound_ps(spec: str, workers: tuple[str, ...], elements: int) -> int:
    """Return the lower bound of the best plan, at least 1 ps."""
    return best_plan_ps(load(spec), workers, elements, LANES) or 1


@dataclass(frozen=True)
class CellOutcome:
    """Outcome of a cell: completion time of each job, bytes of the busiest link, slots of a switch."""

    done_ps: Sequence[int]
    busiest_bytes: int
    slots: int


def run_cell(cell: SystemCell) -> Iterator[CompareRow]:
    """Yield a row, or none if the system cannot run in the setting. Raises if a sum is not exact."""
    setting, spec = cell.setting, network_of(cell.topology, cell.setting, cell.seed)
    topology = load(spec)
    elements, ranks = setting.kib * WORDS_IN_KIB, len(topology.workers) // setting.jobs
    arrays = [
        [integers(seed, rank, elements, setting.density, alike=setting.alike) for rank in range(ranks)]
        for seed in range(1000 * cell.seed, 1000 * cell.seed + setting.jobs)
    ]
    try:
        if cell.system not in PLANS:
            system, faults = SYSTEMS[cell.system](), Faults(loss=setting.loss)
            outcome = run(system, topology, jobs_of(system, topology, arrays, LANES), faults=faults, seed=cell.seed)
            ran = CellOutcome(outcome.done_ps, outcome.busiest_bytes, outcome.slots)
        elif setting.jobs > 1:
            ran, _ = run_plans(topology, cell.system, arrays, setting.loss, cell.seed)
        else:
            ran = run_plan(spec, cell.system, arrays[0], setting.loss, cell.seed)
    except PlanError:
        return
    speeds = [1 / done for done in ran.done_ps]
    jain = sum(speeds) ** 2 / (len(speeds) * sum(speed**2 for speed in speeds))
    workers = tuple(host.name for host in topology.workers[:: setting.jobs])
    last = max(ran.done_ps)
    over_best = last / bound_ps(spec, workers, elements)
    yield CompareRow(
        **asdict(setting),
        setting=setting.words,
        system=cell.system,
        seed=cell.seed,
        time_us=last / 1e6,
        over_best=over_best,
        over_lossy=over_best * (1 - setting.loss),
        busiest_bytes=ran.busiest_bytes,
        slots=ran.slots,
        jain=jain,
    )


def cost(cell: SystemCell) -> float:
    """Return an estimate of a cell's relative run time."""
    setting = cell.setting
    return setting.kib * (1 + 40 * setting.loss) * (3 if cell.system in RIVALS else 1)


def check(what: str, sums: Sequence[Floats], arrays: Sequence[Floats]) -> None:
    """Raise ``WrongSum`` if a worker's sum is not exact."""
    exact = np.sum(arrays, axis=0, dtype=np.float64)
    if not all(np.array_equal(total, exact) for total in sums):
        raise WrongSum(f"{what}: a sum is wrong")


def run_plan(spec: str, plan: str, arrays: Sequence[Floats], loss: float, seed: int) -> CellOutcome:
    """Run one job with any plan of p4reduce."""
    experiment = Experiment(
        topology=spec, plan=plan, lanes=LANES, elements=arrays[0].size, seed=seed, faults=FaultOptions(loss=loss)
    )
    with Cluster(experiment) as cluster:

        def work(comm: Communicator) -> Floats:
            array = arrays[comm.rank].copy()
            comm.all_reduce(array)
            return array

        sums = cluster.run_threads(work)
        result = network_result(cluster.carrier)
        network = cluster.carrier.network
        busiest = max(link.bytes for link in network.fabric.links.values())
        slots = sum(job.plan.slots for job in network.jobs if job.plan.aggregators)
    check(plan, sums, arrays)
    return CellOutcome([result.communication_ps], busiest, slots)


def run_plans(
    topology: Topology,
    plan: str,
    arrays: Sequence[Sequence[Floats]],
    loss: float = 0.0,
    seed: int = 0,
    requests: Requests | None = None,
    congestion: Congestion = FIXED,
) -> tuple[CellOutcome, RequestEndpoints | None]:
    """Run several jobs that begin together, each with the trees of a plan, optionally beside other hosts' requests.

    Raises ``PlanError`` if the switches have no room for all of them.
    """
    hosts = [host.name for host in topology.workers]
    settings = SwitchSettings(ecn_threshold=MARKED_FROM if congestion.adaptive else 64)
    with EmbeddedSwitches(topology, bundled(LANES), settings=settings, seed=seed) as switches:
        used: Counter[Hop] = Counter()
        installed: list[tuple[int, slice, Plan]] = []
        for place, own in enumerate(arrays):
            workers = tuple(hosts[place :: len(arrays)][: len(own)])
            server = topology.servers[place % len(topology.servers)].name if plan == "ps" else None
            problem = Problem(topology, workers, lanes=LANES, elements=own[0].size, load=dict(used))
            _, parts = trees_named(plan, problem, relays=not loss)
            request = PlanRequest(plan, workers=workers, lanes=LANES, server=server, load=dict(used))
            slots = switches.controller.resources.slots // len(arrays)
            bounds = shares(own[0].size, [part.weight for part in parts], LANES)
            for tree_request, (a, b) in zip(tree_requests(request, parts, slots), bounds, strict=True):
                if a == b:
                    continue
                made = switches.controller.plan(replace(tree_request, job=len(installed) + 1))
                switches.controller.install(made)
                installed.append((place, slice(a, b), made))
                used.update(load_of(made, len(arrays) * len(parts)))
        sums = [[np.zeros_like(array) for array in own] for own in arrays]
        with JobNetwork(
            switches, faults=Faults(loss=loss), seed=seed, background=requests, congestion=congestion
        ) as network:
            jobs = [(place, where, network.add(made)) for place, where, made in installed]
            for place, where, job in jobs:
                for index, array, into in zip(job.members.values(), arrays[place], sums[place], strict=True):
                    network.post(index, Post(Collective.ALL_REDUCE, array[where], into[where]))
                if job.server is not None:
                    network.post(job.server, Post(Collective.ALL_REDUCE, None, np.zeros_like(arrays[place][0][where])))
            network.advance(600 * 10**12, [index for _, _, job in jobs for index in job.members.values()])
            done = [max(network.done_ps(job) for of, _, job in jobs if of == place) for place in range(len(arrays))]
            busiest = max(link.bytes for link in network.fabric.links.values())
            parties = network.endpoints if isinstance(network.endpoints, RequestEndpoints) else None
            if parties is not None:
                settle(network.fabric, parties)
    for own, result in zip(arrays, sums, strict=True):
        check(plan, result, own)
    slots = sum(made.slots for _, _, made in installed if made.aggregators)
    return CellOutcome(done, busiest, slots), parties


# The figures of each system's paper.


@record
class PaperRow:
    """A value to compare with a figure of a paper."""

    paper: str = column("paper")
    figure: str = column("figure")
    x: float = column("x", "{:g}")
    seed: int = column("seed")
    value: float = column("value", "{:.3f}")


@dataclass(frozen=True)
class PaperCell:
    """A paper's figures for one tensor size and seed."""

    paper: str
    kib: int
    seed: int


def paper_cells(settings: CompareSettings) -> Iterator[PaperCell]:
    """Yield each paper with each seed."""
    for paper, seed in product(FIGURES, settings.seeds):
        yield PaperCell(paper, settings.paper_kib, seed)


def run_paper(cell: PaperCell) -> Iterator[PaperRow]:
    """Yield the rows of a paper's figures."""
    for figure, x, value in FIGURES[cell.paper](cell.kib * WORDS_IN_KIB, cell.seed):
        yield PaperRow(cell.paper, figure, x, cell.seed, value)


Figure = Iterator[tuple[str, float, float]]
STAR: Final = "star:hosts=8,servers=4"


def _arrays(elements: int, seed: int, density: float = 1.0) -> list[Floats]:
    return [integers(seed, rank, elements, density) for rank in range(8)]


def _switchml(elements: int, seed: int) -> Figure:
    topology, arrays = load(STAR), [_arrays(elements, seed)]

    def time_ps(lanes: int, loss: float) -> int:
        system = SwitchML()
        return run(
            system, topology, jobs_of(system, topology, arrays, lanes), faults=Faults(loss=loss), seed=seed
        ).done_ps[0]

    base = time_ps(LANES, 0)
    yield "time with payloads of x bytes, over 1,024 bytes", 256, time_ps(64, 0) / base
    for loss in (0.0001, 0.001, 0.01):
        yield "time with a loss of x, over none", loss, time_ps(LANES, loss) / base


def _atp(elements: int, seed: int) -> Figure:
    """Yield figures for four jobs of two workers. ``x``: aggregators of the switch."""
    topology = load(STAR)
    arrays = [_arrays(elements // 4, seed)[:2] for _ in range(4)]

    def outcome(cells: int, active: int, *, split: bool) -> tuple[float, float]:
        system = Atp(cells, split=split)
        jobs = jobs_of(system, topology, arrays, LANES)[:active]
        ran = run(system, topology, jobs, seed=seed)
        servers = [end for end in ran.ends if isinstance(end, Server)]
        fallen = sum(server.collided for server in servers) / sum(server.contributions for server in servers)
        return max(ran.done_ps) / 1e6, fallen

    for cells, active in product((8, 32, 128, 512), (1, 4)):
        shared, fallen = outcome(cells, active, split=False)
        split, _ = outcome(cells, active, split=True)
        yield f"{active} of 4 jobs active: time with x aggregators shared, over split", cells, shared / split
        yield f"{active} of 4 jobs active: share that falls back with x aggregators", cells, fallen


def _omnireduce(elements: int, seed: int) -> Figure:
    topology = load(STAR)
    ring = run_plan(STAR, "ring", _arrays(elements, seed), 0.0, seed).done_ps[0]
    for density in (1.0, 0.4, 0.1, 0.01):
        system = SYSTEMS["omnireduce"]()
        jobs = jobs_of(system, topology, [_arrays(elements, seed, density)], LANES)
        took = run(system, topology, jobs).done_ps[0]
        yield "time with x of blocks not zero, over a dense ring", density, took / ring


def _rina(elements: int, seed: int) -> Figure:
    """Yield figures by ``x``: the number of racks, of four, whose switch can aggregate; they are drawn."""
    base = "leaf-spine:leaves=4,spines=2,hosts=4,servers=4"
    leaves = [f"leaf{number}" for number in range(1, 5)]
    arrays = [integers(seed, rank, elements) for rank in range(16)]
    ring = run_plan(base, "ring", arrays, 0.0, seed).done_ps[0]
    for count in range(5):
        chosen = sorted(Random(seed).sample(leaves, count))  # noqa: S311  (reproducible, not secret)
        spec = f"{base},capable={'+'.join(chosen) or 'none'}"
        rina = run_plan(spec, "rina", arrays, 0.0, seed).done_ps[0]
        system, topology = Atp(), load(spec)
        atp = run(system, topology, jobs_of(system, topology, [arrays], LANES), seed=seed).done_ps[0]
        yield "time with x of 4 racks programmable, over a ring", count, rina / ring
        yield "time with x of 4 racks programmable, over ATP", count, rina / atp


MARKED_FROM: Final = 3
"""queue length in frames from which switches mark for p4reduce's windows: the same as for PANAMA's"""


def _panama(elements: int, seed: int) -> Figure:
    """Yield figures for three jobs of four workers, one per rack, beside requests. ``x``: trees of each job."""
    topology = load("leaf-spine:leaves=4,spines=2,hosts=3,servers=8")
    others = [host.name for host in topology.servers]
    requests = Requests(tuple(others[:4]), tuple(others[4:]), 20_000.0, 400, frames=4, seed=seed)
    arrays = [[integers(3 * seed + job, rank, 4 * elements) for rank in range(4)] for job in range(3)]

    def took(parties: RequestEndpoints | None, done_ps: Sequence[int]) -> NDArray[np.float64]:
        """Return mean and 99th percentile latency of requests asked before the jobs were done, and the end time."""
        if parties is None:
            raise ClusterError("requests: there are none")
        last = max(done_ps, default=parties.ended_ps.max())
        waits = (parties.ended_ps - parties.asked_ps)[parties.asked_ps <= last]
        return np.array([waits.mean(), np.percentile(waits, 99), last])

    def of_plan(plan: str, congestion: Congestion = FIXED, arrays: Sequence[Sequence[Floats]] = arrays) -> Any:
        ran, parties = run_plans(topology, plan, arrays, seed=seed, requests=requests, congestion=congestion)
        return took(parties, ran.done_ps)

    def of_pool(system: SwitchML, trees: int) -> Any:
        system.trees = trees
        outcome = run(system, topology, jobs_of(system, topology, arrays, LANES), seed=seed, requests=requests)
        return took(outcome.parties, outcome.done_ps)

    ring = of_plan("ring")
    for (name, trees), values in {
        ("nothing", 0): of_plan("steiner", arrays=[]),
        ("a ring with ECN", 0): of_plan("ring", Congestion(adaptive=True)),
        ("p4reduce", 1): of_plan("steiner"),
        ("p4reduce", 4): of_plan("striped"),
        ("p4reduce with ECN", 1): of_plan("steiner", Congestion(adaptive=True)),
        ("p4reduce with ECN", 4): of_plan("striped", Congestion(adaptive=True)),
        ("SwitchML", 1): of_pool(SwitchML(), 1),
        ("SwitchML", 2): of_pool(SwitchML(), 2),
        ("PANAMA", 1): of_pool(Panama(), 1),
        ("PANAMA", 2): of_pool(Panama(), 2),
    }.items():
        mean, tail, time = values / ring
        yield f"short flows' mean beside {name}, x trees a job, over beside a ring", trees, mean
        yield f"their 99th percentile beside {name}, x trees a job, over beside a ring", trees, tail
        if name != "nothing":
            yield f"time of the jobs with {name}, x trees a job, over a ring", trees, time


FIGURES: Final = {"SwitchML": _switchml, "ATP": _atp, "OmniReduce": _omnireduce, "Rina": _rina, "PANAMA": _panama}
