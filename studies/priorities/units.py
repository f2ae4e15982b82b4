"""One piece of the study that can run anywhere: a scene under one seed, and everything that is tried on it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Final, Literal

from p4reduce.base.units import parse_delay
from p4reduce.control_plane.plans.routes import frame_bytes, frame_time_ps
from p4reduce.control_plane.priorities import JOB_CLASSES, PRIORITY_POLICIES, jain
from p4reduce.group.errors import ClusterError
from p4reduce.play.priorities.description import Description, JobDescription, with_phi
from p4reduce.play.priorities.governed import Alone, Governed, Governing, Knowledge, run_governed
from p4reduce.play.priorities.models import SHAPES, LayerDescription, run_layers
from p4reduce.play.priorities.run import JobResult, RunResult, run

# Every parameter of the study of priorities.


LENET_5: Final = 61_706
"""float32 parameters of the smallest jobs"""
MOST_JITTER: Final = 1 / 3


@dataclass(frozen=True)
class StudySettings:
    """Every parameter of the study.

    Attributes
    ----------
    seeds : tuple of int
        Of computing times, and of orders that are drawn.
    few_seeds : int
        The first so many seeds are used for policies that are asked while flows are under way, and for sweeps of
        predictions.
    rounds : int
        Of every job.
    elements : int
        float32 of a job of size 1.
    jitter : float
        Of computing times: standard deviation as a share.
    phis : tuple of float
        Shares of communication in a round alone: the load that one job puts on the uplink.
    policies : tuple of str
        That are asked when a round begins or ends.
    within_policies : tuple of str
        That are asked while flows are under way, too.
    within_phis : tuple of float
        Loads at which these are run.
    sizes : tuple of int
        Of jobs with unequal models; none: not done.
    sizes_phi : float
        Their load.
    identical_phis : tuple of float
        Loads at which jobs without jitter, in lock-step, are put in batch order.
    low_phi : float
        Load at which a distinct order is held against its bars.
    read_every : str
        How often counters are read.
    latency : str
        Control latency: of a reading, and again of a write.
    jitters : tuple of float
        At which errors of predictions are measured.
    latencies : tuple of str
        Control latencies that are tried.
    queue_jobs, queue_phi : int and float
        So many jobs of such a load for the sweep of queues; 0 jobs: not done.
    queues : tuple of int
        That jobs may use.
    stalenesses : tuple of int
        Bounds of a stale-synchronous parameter server of 8 workers, at least 1; none: not done.
    stragglers : tuple of float
        By how much one of them computes longer.
    stale_phi, stale_elements : float and int
        Its load when nobody is behind, and its model.
    layer_models, layer_ratios : tuples of str and float
        Models whose layers overlap with computing, and communication over computation; none: not done.
    layer_channels : tuple of int
        Over which their layers are spread, beside one; at most 6.
    layer_scale : int
        Their layers have so many times fewer parameters.
    learning_rounds : int
        Of the digits, synchronous, stale-synchronous and asynchronous; 0: not done.
    rotations : tuple of int
        Rounds after which an order is rotated; 0: never.
    """

    seeds: tuple[int, ...] = tuple(range(5))
    few_seeds: int = 1
    rounds: int = 12
    elements: int = LENET_5
    jitter: float = 0.02
    phis: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.6, 0.8)
    policies: tuple[str, ...] = ("fifo", "fair", "pull-push", "batch", "random", "cassini")
    within_policies: tuple[str, ...] = ("aalo", "srpt", "slack", "mltcp")
    within_phis: tuple[float, ...] = (0.2, 0.4, 0.8)
    sizes: tuple[int, ...] = (1, 2, 4, 8)
    sizes_phi: float = 0.4
    identical_phis: tuple[float, ...] = (0.2, 0.4)
    low_phi: float = 0.2
    read_every: str = "40us"
    latency: str = "100us"
    jitters: tuple[float, ...] = (0.0, 0.02, 0.1, 0.3)
    latencies: tuple[str, ...] = ("10us", "100us", "1ms", "10ms")
    queue_jobs: int = 16
    queue_phi: float = 0.05
    queues: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    stalenesses: tuple[int, ...] = (2, 4)
    stragglers: tuple[float, ...] = (1.0, 1.5, 2.0)
    stale_phi: float = 0.7
    stale_elements: int = LENET_5
    layer_models: tuple[str, ...] = ("vgg16", "resnet50", "transformer")
    layer_ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    layer_channels: tuple[int, ...] = (2, 4, 6)
    layer_scale: int = 64
    learning_rounds: int = 25
    rotations: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        for field, values in (("seeds", self.seeds), ("phis", self.phis), ("policies", self.policies)):
            if not values or len(set(values)) != len(values):
                raise ClusterError(f"{field}: give at least one, and each once")
        for field, phis in (
            ("phis", self.phis),
            ("within_phis", self.within_phis),
            (
                "sizes_phi, low_phi, queue_phi, stale_phi",
                (self.sizes_phi, self.low_phi, self.queue_phi, self.stale_phi),
            ),
        ):
            if any(not 0 < phi < 1 for phi in phis):
                raise ClusterError(f"{field}: {phis}: a share of communication lies between 0 and 1")
        if any(not 0 <= jitter < MOST_JITTER for jitter in (self.jitter, *self.jitters)):
            raise ClusterError("jitter, jitters: each must be at least 0 and below 1/3")
        if "fifo" not in self.policies:
            raise ClusterError("policies: fifo is what all others are compared with; name it too")
        for name in (*self.policies, *self.within_policies):
            if name not in PRIORITY_POLICIES:
                raise ClusterError(f"policies: {name!r} is none of {', '.join(sorted(PRIORITY_POLICIES))}")
        if self.rounds < 4:
            raise ClusterError(f"rounds: {self.rounds}: need at least 4, the first of which are learnt from")
        if any(queues not in range(1, len(JOB_CLASSES) + 1) for queues in self.queues):
            raise ClusterError(f"queues: {self.queues}: each must be 1..{len(JOB_CLASSES)}")
        if min(self.stalenesses, default=1) < 1 or min(self.stragglers, default=1) < 1 or self.stale_elements < 1:
            raise ClusterError("stalenesses, stragglers, stale_elements: each must be at least 1")
        for name in self.layer_models:
            if name not in SHAPES:
                raise ClusterError(f"layer_models: {name!r} is none of {', '.join(SHAPES)}")
        if any(channels not in range(1, len(JOB_CLASSES) + 1) for channels in self.layer_channels):
            raise ClusterError(f"layer_channels: {self.layer_channels}: each must be 1..{len(JOB_CLASSES)}")
        if min(self.layer_ratios, default=1.0) <= 0 or self.layer_scale < 1 or self.learning_rounds < 0:
            raise ClusterError("layer_ratios must be above 0, layer_scale at least 1, learning_rounds at least 0")
        if min((self.few_seeds, self.elements, *self.sizes)) < 1 or min(self.rotations, default=0) < 0:
            raise ClusterError("few_seeds, elements, sizes: at least 1; rotations: at least 0")


QUICK: Final = StudySettings(
    seeds=(0,),
    rounds=8,
    elements=16_384,
    phis=(0.2,),
    policies=("fifo", "random"),
    within_policies=(),
    within_phis=(),
    sizes=(1, 2),
    read_every="10us",
    latency="20us",
    jitters=(),
    latencies=(),
    identical_phis=(0.2,),
    queue_jobs=0,
    stalenesses=(),
    layer_models=(),
    learning_rounds=0,
    rotations=(),
)
"""`make priorities-quick`: a sample."""


# The networks and jobs of the study: two leaves with one uplink, jobs of three workers and a server.


Where = Literal["across", "apart", "same-hosts"]
"""across: every job has hosts under both leaves, and servers are in turn left and right; apart: each stays under one
leaf and shares no link; same-hosts: all jobs have the same hosts"""


@dataclass(frozen=True)
class Scene:
    """Jobs that begin together. ``sizes``: of their models, in ``elements``; the rest as in `StudySettings`."""

    sizes: tuple[int, ...]
    phi: float
    elements: int
    rounds: int
    where: Where = "across"
    jitter: float = 0.0
    latency: str = "100us"
    queues: int = 6

    @property
    def topology(self) -> str:
        """40 Gb/s to hosts, one 10 Gb/s uplink from leaf to leaf, 1 us a link."""
        hosts = 2 if self.where == "same-hosts" else (4 if self.where == "apart" else 2) * len(self.sizes)
        return f"leaf-spine:leaves=2,spines=1,hosts={hosts},rate=40G,uplink=10G,delay=1us"

    def hosts(self, number: int) -> tuple[tuple[str, ...], str]:
        """Workers and server of a job."""
        if self.where == "apart":
            a, b, c, d = (f"h{4 * number + place}" for place in range(1, 5))
            return (a, b, c), d
        if self.where == "same-hosts":
            return ("h1", "h2", "h3"), "h4"
        other = 2 * len(self.sizes)
        left = (f"h{2 * number + 1}", f"h{2 * number + 2}")
        right = (f"h{other + 2 * number + 1}", f"h{other + 2 * number + 2}")
        near, far = (right, left) if number % 2 else (left, right)
        return (*near, far[0]), far[1]


@dataclass(frozen=True)
class Staged:
    """A scene with every job's computing time, and each job by itself."""

    description: Description
    alone: tuple[Alone, ...]
    by_themselves: tuple[JobResult, ...]


def set_up(scene: Scene, seed: int) -> Staged:
    """Measure every job alone, give it so much computing that communication is ``phi`` of its round; measure again."""
    jobs, takes = [], []
    for number, size in enumerate(scene.sizes):
        workers, server = scene.hosts(number)
        bare = JobDescription(workers, server, scene.elements * size, 0, name=f"job{number}")
        takes.append(round(run(Description(scene.topology, (bare,), rounds=2)).jobs[0].iteration_ps))
        jobs.append(with_phi(bare, takes[-1], scene.phi))
    description = replace(
        Description(scene.topology, tuple(jobs), rounds=scene.rounds),
        jitter=scene.jitter,
        queues=scene.queues,
        control_latency_ps=parse_delay(scene.latency),
        seed=seed,
    )
    own = [run(description.only(number)).jobs[0] for number in range(len(jobs))]
    alone = tuple(Alone(took, one.completion_ps) for took, one in zip(takes, own, strict=True))
    return Staged(description, alone, tuple(own))


LEARNT: Final = 3
"""rounds after which predictions have begun to tell; what is called steady begins there, for everybody"""


@dataclass(frozen=True)
class Way:
    """What is tried on a scene."""

    policy: str
    knowledge: Knowledge = Knowledge.ORACLE
    rotate_rounds: int = 0


@dataclass(frozen=True)
class Unit:
    """What one process does. ``part``: of the study."""

    part: str
    scene: Scene
    seed: int
    ways: tuple[Way, ...]
    read_every: str
    by_round: bool = False


@dataclass(frozen=True)
class Row:
    """One job under one policy: a line of runs.csv."""

    part: str
    policy: str
    knowledge: str
    sizes: str
    phi: float
    where: str
    jitter: float
    latency: str
    queues: int
    rotate_rounds: int
    seed: int
    job: int
    size: int
    priority: int
    """class that its gradients had at the end, 1..6"""
    alone_ps: int
    """all rounds, by itself"""
    took_ps: int
    slowdown: float
    """took / alone"""
    steady: float
    """the same without the first three rounds"""
    frames: int
    resends: int
    jain: float
    """Jain's index of 1 / slowdown over the jobs of the run"""
    writes: int
    """entries of switches written in the run"""
    readings: int
    """of counters, in the run"""
    median_error: float | None
    """of predicted starts in the run, as a share of the period; None: nothing was predicted"""
    p95_error: float | None
    median_lead: float | None
    in_time: float | None
    """share of rounds whose class was written before the first frame"""


@dataclass(frozen=True)
class RoundRow:
    """One round of a job: a line of rounds.csv."""

    part: str
    policy: str
    seed: int
    job: int
    round: int
    took_ps: int
    alone_ps: int


@dataclass(frozen=True)
class UnitResult:
    """What came of a unit."""

    rows: tuple[Row, ...]
    rounds: tuple[RoundRow, ...]
    runs: int
    """all sums exact, the bytes of every link as predicted: a run in which they are not ends with an error"""


def run_unit(unit: Unit) -> UnitResult:
    """Stage the scene once, then try everything on it."""
    staged = set_up(unit.scene, unit.seed)
    rows: list[Row] = []
    rounds: list[RoundRow] = []
    for way in unit.ways:
        governing = Governing(way.policy, way.knowledge, way.rotate_rounds, parse_delay(unit.read_every))
        found = run_governed(staged.description, governing, staged.alone)
        rows += _rows(unit, way, staged, found)
        if unit.by_round:
            rounds += _rounds(unit, way, staged, found)
    return UnitResult(tuple(rows), tuple(rounds), len(unit.ways) + 2 * len(unit.scene.sizes))


def units_of(settings: StudySettings) -> list[Unit]:
    """The whole study; long pieces first."""
    few = settings.seeds[: settings.few_seeds]
    base = Scene((1,) * 4, settings.low_phi, settings.elements, settings.rounds, jitter=settings.jitter,
                 latency=settings.latency)  # fmt: skip
    units: list[Unit] = []

    def add(part: str, scene: Scene, seeds: tuple[int, ...], ways: list[Way], *, by_round: bool = False) -> None:
        made = [Unit(part, scene, seed, tuple(ways), settings.read_every, by_round) for seed in seeds]
        units.extend(unit for unit in made if unit.ways)

    if settings.sizes:
        unequal = replace(base, sizes=settings.sizes, phi=settings.sizes_phi)
        orders = ("fifo", "random", "sjf", "reversed", "intensity")
        told = [Way("sjf", Knowledge.PREDICTED), Way("sjf", Knowledge.NONE)]
        add("sizes", unequal, settings.seeds, [*map(Way, orders), *told])
        add("sizes", unequal, few, [Way(name) for name in settings.within_policies])
    if settings.queue_jobs:
        for queues in settings.queues:
            many = replace(base, sizes=(1,) * settings.queue_jobs, phi=settings.queue_phi, queues=queues)
            add("queues", many, few, [Way("sjf")])
    for latency in settings.latencies:
        add("latency", replace(base, latency=latency), few, [Way("sjf", Knowledge.PREDICTED)])
    for jitter in settings.jitters:
        add("jitter", replace(base, jitter=jitter), few, [Way("sjf", Knowledge.PREDICTED)])
    for phi in settings.phis:
        add("load", replace(base, phi=phi), settings.seeds, [Way(name) for name in settings.policies])
    for phi in settings.within_phis:
        add("load", replace(base, phi=phi), few, [Way(name) for name in settings.within_policies])
    for phi in settings.identical_phis:
        lockstep = replace(base, phi=phi, jitter=0.0)
        add("identical", lockstep, settings.seeds, [Way("fifo"), Way("random")])
        add("identical", lockstep, few, [Way("pull-push"), Way("batch")])
    every = [Way(name) for name in (*settings.policies, *settings.within_policies)]
    add("apart", replace(base, where="apart"), settings.seeds, every[:3])
    add("apart", replace(base, where="apart"), few, every[3:])
    add("single", replace(base, sizes=(1,)), settings.seeds, [Way("fifo"), Way("batch")])
    two = replace(base, sizes=(1, 1), phi=settings.sizes_phi)
    add("same-hosts", replace(two, where="same-hosts"), settings.seeds, [Way("fifo"), Way("sjf")])
    add("two", two, few, [Way("fifo"), Way("batch"), Way("sjf")], by_round=True)
    crowded = replace(base, phi=settings.sizes_phi)
    add("rotation", crowded, few, [Way("sjf", rotate_rounds=rounds) for rounds in settings.rotations])
    return sorted(units, key=lambda unit: -sum(unit.scene.sizes) * len(unit.ways))


def _steady(took: JobResult, alone: JobResult) -> float:
    def without_first(job: JobResult) -> int:
        return job.ends_ps[-1] - job.ends_ps[LEARNT - 1]

    return without_first(took) / without_first(alone)


def _rows(unit: Unit, way: Way, staged: Staged, found: Governed) -> list[Row]:
    scene, told = unit.scene, found.accuracy
    slow = [
        took.completion_ps / alone.completion_ps
        for took, alone in zip(found.run.jobs, staged.by_themselves, strict=True)
    ]
    errors = sorted(told.errors) if told is not None else []
    p95 = errors[min(len(errors) - 1, int(0.95 * len(errors)))] if errors else None
    return [
        Row(
            part=unit.part,
            policy=way.policy,
            knowledge=way.knowledge.value,
            sizes=":".join(map(str, scene.sizes)),
            phi=scene.phi,
            where=scene.where,
            jitter=scene.jitter,
            latency=scene.latency,
            queues=scene.queues,
            rotate_rounds=way.rotate_rounds,
            seed=unit.seed,
            job=number,
            size=scene.sizes[number],
            priority=found.classes[number],
            alone_ps=alone.completion_ps,
            took_ps=took.completion_ps,
            slowdown=slow[number],
            steady=_steady(took, alone),
            frames=took.frames,
            resends=took.resends,
            jain=jain([1 / one for one in slow]),
            writes=found.run.writes,
            readings=found.readings,
            median_error=None if told is None else told.median_error,
            p95_error=None if told is None else p95,
            median_lead=None if told is None else told.median_lead,
            in_time=None if told is None else told.in_time_share,
        )
        for number, (took, alone) in enumerate(zip(found.run.jobs, staged.by_themselves, strict=True))
    ]


def _rounds(unit: Unit, way: Way, staged: Staged, found: Governed) -> list[RoundRow]:
    made = []
    for number, (took, alone) in enumerate(zip(found.run.jobs, staged.by_themselves, strict=True)):
        pairs = zip(_each(took), _each(alone), strict=True)
        made += [
            RoundRow(unit.part, way.policy, unit.seed, number, place, mine, its)
            for place, (mine, its) in enumerate(pairs)
        ]
    return made


def _each(job: JobResult) -> list[int]:
    before = [job.started_ps, *job.ends_ps]
    return [after - one for one, after in zip(before, job.ends_ps, strict=False)]


# Layers of known models over one or more channels, overlapped with computing.


LAYERED_TOPOLOGY: Final = "star:hosts=4,rate=10G"
RATE_BPS: Final = 10_000_000_000


@dataclass(frozen=True)
class LayerUnit:
    """One model whose communication takes so many times as long as computing, over every number of channels."""

    settings: StudySettings
    model: str
    ratio: float


@dataclass(frozen=True)
class LayerRow:
    """One run: a line of layers.csv."""

    model: str
    ratio: float
    """communication (all frames of an iteration on a host's link) over computation"""
    channels: int
    """1: first come, first served"""
    iteration_ps: float
    over_bound: float
    """over the larger of communication and computation"""
    saved: float
    """1 - iteration / iteration with one channel"""
    resend_share: float


def layer_units(settings: StudySettings) -> list[LayerUnit]:
    """Every model at every ratio."""
    return [LayerUnit(settings, model, ratio) for model in settings.layer_models for ratio in settings.layer_ratios]


def run_layered(unit: LayerUnit) -> list[LayerRow]:
    """All numbers of channels, one first."""
    settings, found = unit.settings, list[LayerRow]()
    bare = LayerDescription(LAYERED_TOPOLOGY, unit.model, 1, scale=settings.layer_scale)
    chunks = sum(-(-size // bare.lanes) for size in bare.elements)
    communication = chunks * frame_time_ps(frame_bytes(bare.lanes), RATE_BPS)
    compute = round(communication / unit.ratio)
    for channels in sorted({1, *settings.layer_channels}):
        about = LayerDescription(LAYERED_TOPOLOGY, unit.model, compute, channels, scale=settings.layer_scale)
        result = run_layers(about)
        first = found[0].iteration_ps if found else result.iteration_ps
        found.append(
            LayerRow(
                unit.model,
                unit.ratio,
                channels,
                result.iteration_ps,
                result.iteration_ps / max(communication, compute),
                1 - result.iteration_ps / first,
                result.resend_share,
            )
        )
    return found


def saved_by(rows: Sequence[LayerRow], model: str, ratio: float, channels: int) -> LayerRow | None:
    """The run of a model at a ratio with so many channels; None: there was none."""
    wanted = (model, ratio, channels)
    return next((row for row in rows if (row.model, row.ratio, row.channels) == wanted), None)


# A stale-synchronous parameter server with a straggler: what putting the oldest batch first saves.


WORKERS: Final = 8
STALE_TOPOLOGY: Final = f"leaf-spine:leaves=2,spines=1,hosts={WORKERS},servers=1,rate=40G,uplink=10G,delay=1us"
STRANGERS: Final = "strangers"
"""first come, first served, of senders that know nothing of each other"""
NO_ORDER: Final = "none"
"""first come, first served"""
MOST_WRITTEN: Final = 3
"""the largest staleness for which a controller's entries can tell batches apart"""


@dataclass(frozen=True)
class StaleUnit:
    """One job under one seed, with every order of its batches."""

    settings: StudySettings
    staleness: int
    straggler: float
    """by how much one of the workers computes longer"""
    seed: int


@dataclass(frozen=True)
class StaleRow:
    """One run: a line of stale.csv."""

    staleness: int
    straggler: float
    order: str
    """strangers, none: first come, first served; switch: a register keeps the newest iteration; controller: entries are
    written as batches advance"""
    phi: float
    seed: int
    took_ps: int
    saved: float
    """1 - took / took of first come, first served (none)"""
    saved_strangers: float
    """the same against strangers"""
    resend_share: float
    writes: int


def stale_units(settings: StudySettings) -> list[StaleUnit]:
    """Every bound and straggler in every seed."""
    return [
        StaleUnit(settings, staleness, straggler, seed)
        for staleness in settings.stalenesses
        for straggler in settings.stragglers
        for seed in settings.seeds
    ]


def run_stale(unit: StaleUnit) -> list[StaleRow]:
    """The workers sit behind one uplink, the server on its other side."""
    settings = unit.settings
    hosts = tuple(f"h{WORKERS + number}" for number in range(1, WORKERS + 1))
    bare = JobDescription(hosts, "server1", settings.stale_elements, 1, plan="ps", name="stale")
    takes = round(run(Description(STALE_TOPOLOGY, (bare,), rounds=2)).jobs[0].iteration_ps)
    slow = (1.0,) * (WORKERS - 1) + (unit.straggler,)
    about = replace(with_phi(bare, takes, settings.stale_phi), staleness=unit.staleness, slowdowns=slow)
    orders = (STRANGERS, NO_ORDER, "switch", *(("controller",) if unit.staleness <= MOST_WRITTEN else ()))
    found: dict[str, RunResult] = {}
    for order in orders:
        description = Description(
            STALE_TOPOLOGY,
            (replace(about, order=order),),
            rounds=settings.rounds,
            jitter=settings.jitter,
            control_latency_ps=parse_delay(settings.latency),
            seed=unit.seed,
        )
        found[order] = run(description)
    took = {order: one.jobs[0].completion_ps for order, one in found.items()}
    return [
        StaleRow(
            staleness=unit.staleness,
            straggler=unit.straggler,
            order=order,
            phi=settings.stale_phi,
            seed=unit.seed,
            took_ps=took[order],
            saved=1 - took[order] / took[NO_ORDER],
            saved_strangers=1 - took[order] / took[STRANGERS],
            resend_share=one.resend_share,
            writes=one.writes,
        )
        for order, one in found.items()
    ]


def saved(rows: Sequence[StaleRow], staleness: int, straggler: float, order: str) -> tuple[float, float] | None:
    """Means over seeds of what an order saves against none and against strangers; None: it was not run."""
    wanted = (staleness, straggler, order)
    own = [row for row in rows if (row.staleness, row.straggler, row.order) == wanted]
    return (fmean(row.saved for row in own), fmean(row.saved_strangers for row in own)) if own else None


# Staleness and time to accuracy: the digits, with a parameter server that waits for all, for some rounds, or not.


LEARNING_WORKERS: Final = 4
NO_BOUND: Final = -1
"""stands for workers that do not wait at all (dist_async)"""
SYNCHRONOUS: Final = 0


@dataclass(frozen=True)
class LearningUnit:
    """The digits under one bound, with a straggler, under one seed."""

    settings: StudySettings
    staleness: int
    straggler: float
    seed: int


@dataclass(frozen=True)
class LearningRow:
    """How good the weights were: a line of learning.csv."""

    staleness: int
    """0: all wait (dist_sync); -1: nobody waits (dist_async)"""
    straggler: float
    seed: int
    rounds: float
    """gradients that were applied, over the workers"""
    at_ps: int
    accuracy: float


def learning_units(settings: StudySettings) -> list[LearningUnit]:
    """Synchronous, every bound, none; with and without the worst straggler."""
    if not settings.learning_rounds:
        return []
    stragglers = sorted({1.0, max(settings.stragglers, default=1.0)})
    bounds = (SYNCHRONOUS, *settings.stalenesses, NO_BOUND)
    seeds = settings.seeds[: settings.few_seeds]
    return [LearningUnit(settings, bound, slow, seed) for bound in bounds for slow in stragglers for seed in seeds]


def run_learning(unit: LearningUnit) -> list[LearningRow]:
    """Classes by batch where workers do not wait for all; weights are held against the sum of all gradients."""
    settings = unit.settings
    hosts = tuple(f"h{8 + number}" for number in range(1, LEARNING_WORKERS + 1))
    bare = JobDescription(hosts, "server1", 0, 1, plan="ps", model="digits", name="digits")
    takes = round(run(Description(STALE_TOPOLOGY, (bare,), rounds=2)).jobs[0].iteration_ps)
    slow = (1.0,) * (LEARNING_WORKERS - 1) + (unit.straggler,)
    about = with_phi(bare, takes, settings.stale_phi)
    about = JobDescription(
        hosts,
        "server1",
        0,
        about.compute_ps,
        plan="ps",
        staleness=None if unit.staleness == NO_BOUND else unit.staleness,
        order="none" if unit.staleness == SYNCHRONOUS else "switch",
        slowdowns=slow,
        model="digits",
        name="digits",
    )
    description = Description(
        STALE_TOPOLOGY, (about,), rounds=settings.learning_rounds, jitter=settings.jitter, seed=unit.seed
    )
    scores = run(description).jobs[0].scores
    return [
        LearningRow(unit.staleness, unit.straggler, unit.seed, one.rounds, one.at_ps, one.accuracy) for one in scores
    ]


# From rows to points of figures: means over jobs and seeds, and who fares worst.


@dataclass(frozen=True)
class Point:
    """One policy on one scene, all seeds: a line of points.csv."""

    part: str
    policy: str
    knowledge: str
    sizes: str
    phi: float
    jitter: float
    latency: str
    queues: int
    rotate_rounds: int
    seeds: int
    mean: float
    """slowdown: mean over jobs, then over seeds"""
    lowest: float
    """of the seeds' means"""
    highest: float
    best: float
    """of each seed's best job, the worst"""
    worst: float
    """job of all seeds"""
    steady: float
    """mean without the first three rounds"""
    jain: float
    """the lowest of the seeds"""
    resend_share: float
    """of all frames that hosts sent"""
    writes: float
    """entries of switches, mean of a run"""
    median_error: float | None
    """median over seeds"""
    p95_error: float | None
    median_lead: float | None
    in_time: float | None
    """share over all seeds"""


def points(rows: Iterable[Row]) -> list[Point]:
    """A point for every part, policy and scene, in the order of the rows."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        key = (row.part, row.policy, row.knowledge, row.sizes, row.phi, row.jitter, row.latency, row.queues,
               row.rotate_rounds)  # fmt: skip
        groups.setdefault(key, []).append(row)
    return [_point(own) for own in groups.values()]


def _point(rows: list[Row]) -> Point:
    first = rows[0]
    by_seed: dict[int, list[Row]] = {}
    for row in rows:
        by_seed.setdefault(row.seed, []).append(row)
    means = [fmean(row.slowdown for row in own) for own in by_seed.values()]
    runs = [own[0] for own in by_seed.values()]
    return Point(
        part=first.part,
        policy=first.policy,
        knowledge=first.knowledge,
        sizes=first.sizes,
        phi=first.phi,
        jitter=first.jitter,
        latency=first.latency,
        queues=first.queues,
        rotate_rounds=first.rotate_rounds,
        seeds=len(by_seed),
        mean=fmean(means),
        lowest=min(means),
        highest=max(means),
        best=max(min(row.slowdown for row in own) for own in by_seed.values()),
        worst=max(row.slowdown for row in rows),
        steady=fmean(row.steady for row in rows),
        jain=min(row.jain for row in rows),
        resend_share=sum(row.resends for row in rows) / max(1, sum(row.frames for row in rows)),
        writes=fmean(row.writes for row in runs),
        median_error=_of([row.median_error for row in runs], median),
        p95_error=_of([row.p95_error for row in runs], max),
        median_lead=_of([row.median_lead for row in runs], median),
        in_time=_of([row.in_time for row in runs], fmean),
    )


def _of(values: Iterable[float | None], how: object) -> float | None:
    known = [value for value in values if value is not None]
    return float(how(known)) if known else None  # type: ignore[operator]
