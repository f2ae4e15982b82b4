"""The cells of the study: a scene under one seed with all its policies; layers, stale workers, learning."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from p4reduce.control_plane.plans.routes import frame_bytes, frame_time_ps
from p4reduce.control_plane.priorities import JOB_CLASSES, PRIORITY_POLICIES, jain
from p4reduce.group.errors import ClusterError
from p4reduce.play.priorities.description import Description, JobDescription, with_phi
from p4reduce.play.priorities.governed import Governed, Governing, JobAlone, Knowledge, run_governed
from p4reduce.play.priorities.models import SHAPES, LayerDescription, run_layers
from p4reduce.play.priorities.run import JobResult, PrioritiesResult, run
from p4switch.base.values import parse_delay
from studies.frame import column, percent, record, scaled

# Every parameter of the study of priorities.


LENET_5: Final = 61_706
"""number of float32 parameters of the smallest jobs"""
MOST_JITTER: Final = 1 / 3
DEVELOPED: Final = range(5)
HELD_OUT: Final = range(100, 105)
"""seeds that were not used to choose policies and bars"""


@dataclass(frozen=True)
class StudySettings:
    """Every parameter of the study.

    Attributes
    ----------
    seeds : tuple of int
        Seeds of computing times and of random orders.
    few_seeds : int
        Number of seeds, from the first, for results without bars: policies that decide while flows are under way,
        sweeps, learning.
    rounds : int
        Rounds of every job, at least 4.
    elements : int
        Number of float32 parameters of a job of size 1.
    jitter : float
        Standard deviation of computing times, as a share of their mean.
    phis : tuple of float
        Shares of communication in a round of a job alone, which are the loads that one job puts on the uplink; part
        load.
    policies : tuple of str
        Policies that decide when a round begins or ends; ``fifo`` must be among them.
    within_policies : tuple of str
        Policies that also decide while flows are under way.
    within_phis : tuple of float
        Shares of communication with which policies that decide while flows are under way run in the part load.
    sizes : tuple of int
        Model sizes of the jobs in the part sizes, in units of --elements; none: the part is skipped.
    sizes_phi : float
        Share of communication of the jobs in the parts sizes, same-hosts, interleaving and rotation.
    identical_phis : tuple of float
        Shares of communication of the jobs without jitter, which compute in lock-step, in the part identical.
    low_phi : float
        Share of communication at which bars of distinct orders are decided, and of jobs in the parts apart, single,
        latency and jitter.
    read_every : str
        Interval between two readings of counters.
    latency : str
        Control latency: of a reading, and again of a write.
    jitters : tuple of float
        Values of --jitter in the part jitter, which measures errors of predictions.
    latencies : tuple of str
        Values of --latency in the part latency.
    queue_jobs : int
        Number of jobs in the part queues; 0: the part is skipped.
    queue_phi : float
        Share of communication of each job in the part queues.
    queues : tuple of int
        Numbers of queues that jobs may use in the part queues.
    stalenesses : tuple of int
        Bounds of a stale-synchronous parameter server of 8 workers, at least 1, in the parts stale and learning; none:
        the
        part stale is skipped.
    stragglers : tuple of float
        Factors of one worker's computing time in the parts stale and learning, at least 1; 1: no straggler.
    stale_phi : float
        Share of communication of the job in the parts stale and learning when no worker is behind.
    stale_elements : int
        Number of float32 parameters in the part stale.
    layer_models : tuple of str
        Models whose layers' communication overlaps with computing, in the part layers; none: the part is skipped.
    layer_ratios : tuple of float
        Ratios of communication time to computing time in the part layers; none: the part is skipped.
    layer_channels : tuple of int
        Numbers of channels, at most 6, over which layers are spread; one channel is always measured, too.
    layer_scale : int
        Divisor of the number of parameters of each layer.
    learning_rounds : int
        Rounds in which the digits are learned: synchronous, stale-synchronous and asynchronous; 0: the part is skipped.
    rotations : tuple of int
        Numbers of rounds after which an order is rotated, in the part rotation; 0: never.
    """

    seeds: tuple[int, ...] = tuple(HELD_OUT)
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
"""settings of the sample, with one of the seeds on which the study was developed"""


# The networks and jobs of the study: two leaves with one uplink, jobs of three workers and a server.


Where = Literal["across", "apart", "same-hosts"]
"""across: every job has hosts under both leaves, and servers alternate between left and right; apart: each job stays
under one leaf and shares no link; same-hosts: all jobs have the same hosts"""


@dataclass(frozen=True)
class Scene:
    """Jobs that begin together. ``sizes``: model sizes in units of ``elements``; for the rest see `StudySettings`."""

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
        """Topology with 40 Gb/s to hosts, one 10 Gb/s uplink from leaf to leaf, and 1 us per link."""
        hosts = 2 if self.where == "same-hosts" else (4 if self.where == "apart" else 2) * len(self.sizes)
        return f"leaf-spine:leaves=2,spines=1,hosts={hosts},rate=40G,uplink=10G,delay=1us"

    def hosts(self, number: int) -> tuple[tuple[str, ...], str]:
        """Return the workers and the server of a job."""
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
    """A scene with every job's computing time, and the results of each job alone."""

    description: Description
    alone: tuple[JobAlone, ...]
    by_themselves: tuple[JobResult, ...]


def set_up(scene: Scene, seed: int) -> Staged:
    """Measure every job alone, set its computing time for a communication share of ``phi``, and measure it again."""
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
    alone = tuple(JobAlone(took, job.completion_ps) for took, job in zip(takes, own, strict=True))
    return Staged(description, alone, tuple(own))


LEARNT: Final = 3
"""number of rounds after which predictions are available; the steady state begins there, for all policies"""


@dataclass(frozen=True)
class ScenePolicy:
    """A policy for a scene, and its source of information."""

    policy: str
    knowledge: Knowledge = Knowledge.ORACLE
    rotate_rounds: int = 0


@dataclass(frozen=True)
class SceneCell:
    """A scene under one seed, and all policies to run on it."""

    scene: Scene
    seed: int
    ways: tuple[ScenePolicy, ...]
    read_every: str


@record
class JobRow:
    """One job under one policy."""

    policy: str = column("policy")
    knowledge: str = column("told by")
    sizes: str = column("sizes")
    phi: float = column("phi: communication / round, alone", "{:g}")
    where: str
    jitter: float = column("jitter of computing times", percent(0))
    latency: str = column("control latency")
    queues: int = column("queues for jobs")
    rotate_rounds: int = column("rotated every", lambda rounds: f"{rounds} rounds" if rounds else "never")
    seed: int
    job: int
    size: int = column("size")
    priority: int = column("class")
    """class of its gradients at the end, 1..6"""
    alone_ps: int
    """time of all rounds alone"""
    took_ps: int
    slowdown: float = column("time / alone", "{:.3f}")
    """took_ps / alone_ps"""
    steady: float = column("without learning", "{:.3f}")
    """the same ratio without the first three rounds"""
    frames: int
    resends: int
    jain: float = column("Jain's index, lowest seed", "{:.3f}")
    """Jain's index of 1 / slowdown over the jobs of the run"""
    writes: int = column("writes", "{:.0f}")
    """number of switch entries written in the run"""
    readings: int
    """number of counter readings in the run"""
    median_error: float | None = column("median error of predicted starts", percent(2))
    """over the run, as a share of the period; None: there were no predictions"""
    p95_error: float | None = column("95th percentile of errors", percent(1))
    median_lead: float | None = column("known ahead, periods", "{:.2f}")
    in_time: float | None = column("in time", percent(1))
    """share of rounds whose class was written before the first frame"""

    @property
    def way(self) -> str:
        """The policy, followed by its source of information unless that is the oracle."""
        return self.policy if self.knowledge == Knowledge.ORACLE.value else f"{self.policy}, {self.knowledge}"

    @property
    def resent(self) -> float:
        """Share of frames that were sent again."""
        return self.resends / max(1, self.frames)


@record
class JobRoundRow:
    """One round of a job."""

    policy: str = column("policy")
    seed: int
    job: int = column("job")
    round: int = column("round, from 0")
    took_ps: int
    alone_ps: int

    @property
    def slowdown(self) -> float:
        """Ratio to the time of the same round alone."""
        return self.took_ps / self.alone_ps


def run_scene(cell: SceneCell) -> Iterator[JobRow]:
    """Measure the jobs of a scene alone, then run all its policies.

    Raises an error if a sum is wrong, or a link has other bytes than predicted.
    """
    for way, staged, governed in _tried(cell):
        yield from _rows(cell, way, staged, governed)


def run_rounds(cell: SceneCell) -> Iterator[JobRoundRow]:
    """Run a cell; yield its results round by round."""
    for way, staged, governed in _tried(cell):
        for number, (took, alone) in enumerate(zip(governed.run.jobs, staged.by_themselves, strict=True)):
            for place, (mine, its) in enumerate(zip(_each(took), _each(alone), strict=True)):
                yield JobRoundRow(way.policy, cell.seed, number, place, mine, its)


def _tried(cell: SceneCell) -> Iterator[tuple[ScenePolicy, Staged, Governed]]:
    staged = set_up(cell.scene, cell.seed)
    for way in cell.ways:
        governing = Governing(way.policy, way.knowledge, way.rotate_rounds, parse_delay(cell.read_every))
        yield way, staged, run_governed(staged.description, governing, staged.alone)


def scene_cells(settings: StudySettings, part: str) -> list[SceneCell]:
    """Return the cells of a part."""
    every, few = settings.seeds, settings.seeds[: settings.few_seeds]
    base = Scene((1,) * 4, settings.low_phi, settings.elements, settings.rounds, jitter=settings.jitter,
                 latency=settings.latency)  # fmt: skip
    crowded = replace(base, phi=settings.sizes_phi)
    asked, within = ([ScenePolicy(name) for name in names] for names in (settings.policies, settings.within_policies))
    predicted = [ScenePolicy("sjf", Knowledge.PREDICTED)]
    tried: list[tuple[Scene, Sequence[int], Sequence[ScenePolicy]]] = []
    match part:
        case "sizes" if settings.sizes:
            unequal = replace(crowded, sizes=settings.sizes)
            orders = [ScenePolicy(name) for name in ("fifo", "random", "sjf", "reversed", "intensity")]
            tried = [
                (unequal, every, [*orders, *predicted, ScenePolicy("sjf", Knowledge.NONE)]),
                (unequal, few, within),
            ]
        case "queues" if settings.queue_jobs:
            many = replace(base, sizes=(1,) * settings.queue_jobs, phi=settings.queue_phi)
            tried = [(replace(many, queues=queues), few, [ScenePolicy("sjf")]) for queues in settings.queues]
        case "latency":
            tried = [(replace(base, latency=latency), few, predicted) for latency in settings.latencies]
        case "jitter":
            tried = [
                (replace(base, jitter=jitter), every if jitter == settings.jitter else few, predicted)
                for jitter in settings.jitters
            ]
        case "load":
            tried = [(replace(base, phi=phi), every, asked) for phi in settings.phis]
            tried += [(replace(base, phi=phi), few, within) for phi in settings.within_phis]
        case "identical":
            ways = [ScenePolicy(name) for name in ("fifo", "random", "pull-push", "batch")]
            tried = [(replace(base, phi=phi, jitter=0.0), every, ways) for phi in settings.identical_phis]
        case "apart":
            tried = [(replace(base, where="apart"), every, [*asked, *within])]
        case "single":
            tried = [(replace(base, sizes=(1,)), every, [ScenePolicy("fifo"), ScenePolicy("batch")])]
        case "same-hosts":
            tried = [
                (replace(crowded, sizes=(1, 1), where="same-hosts"), every, [ScenePolicy("fifo"), ScenePolicy("sjf")])
            ]
        case "interleaving":
            tried = [
                (replace(crowded, sizes=(1, 1)), few, [ScenePolicy("fifo"), ScenePolicy("batch"), ScenePolicy("sjf")])
            ]
        case "rotation":
            tried = [(crowded, few, [ScenePolicy("sjf", rotate_rounds=rounds) for rounds in settings.rotations])]
    return [
        SceneCell(scene, seed, tuple(ways), settings.read_every)
        for scene, seeds, ways in tried
        for seed in seeds
        if ways
    ]


def _steady(took: JobResult, alone: JobResult) -> float:
    def without_first(job: JobResult) -> int:
        return job.ends_ps[-1] - job.ends_ps[LEARNT - 1]

    return without_first(took) / without_first(alone)


def _rows(cell: SceneCell, way: ScenePolicy, staged: Staged, governed: Governed) -> Iterator[JobRow]:
    scene, told = cell.scene, governed.accuracy
    pairs = list(zip(governed.run.jobs, staged.by_themselves, strict=True))
    slow = [took.completion_ps / alone.completion_ps for took, alone in pairs]
    errors = sorted(told.errors) if told is not None else []
    for number, (took, alone) in enumerate(pairs):
        yield JobRow(
            policy=way.policy,
            knowledge=way.knowledge.value,
            sizes=":".join(map(str, scene.sizes)),
            phi=scene.phi,
            where=scene.where,
            jitter=scene.jitter,
            latency=scene.latency,
            queues=scene.queues,
            rotate_rounds=way.rotate_rounds,
            seed=cell.seed,
            job=number,
            size=scene.sizes[number],
            priority=governed.classes[number],
            alone_ps=alone.completion_ps,
            took_ps=took.completion_ps,
            slowdown=slow[number],
            steady=_steady(took, alone),
            frames=took.frames,
            resends=took.resends,
            jain=jain([1 / slowdown for slowdown in slow]),
            writes=governed.run.writes,
            readings=governed.readings,
            median_error=None if told is None else told.median_error,
            p95_error=errors[min(len(errors) - 1, int(0.95 * len(errors)))] if errors else None,
            median_lead=None if told is None else told.median_lead,
            in_time=None if told is None else told.in_time_share,
        )


def _each(job: JobResult) -> list[int]:
    before = [job.started_ps, *job.ends_ps]
    return [after - start for start, after in zip(before, job.ends_ps, strict=False)]


# Layers of known models over one or more channels, overlapped with computing.


LAYERED_TOPOLOGY: Final = "star:hosts=4,rate=10G"
RATE_BPS: Final = 10_000_000_000


@dataclass(frozen=True)
class LayerCell:
    """One model whose communication takes ``ratio`` times as long as computing, with each number of channels."""

    model: str
    ratio: float
    channels: tuple[int, ...]
    scale: int


@record
class LayerRow:
    """One run."""

    model: str = column("model")
    ratio: float = column("communication / computation", "{:g}")
    """time of an iteration's frames on a host's link, over computing time"""
    channels: int = column("channels")
    """number of channels; 1: first come, first served"""
    iteration_ps: float = column("iteration, us", scaled(1e-6, "{:.1f}"))
    over_bound: float = column("over the bound", "{:.3f}")
    """ratio to the larger of communication and computation"""
    saved: float = column("saved against one channel", percent())
    resend_share: float = column("sent again", percent(2))


def layer_cells(settings: StudySettings) -> list[LayerCell]:
    """Return a cell for every model and ratio."""
    channels = tuple(sorted({1, *settings.layer_channels}))
    return [
        LayerCell(model, ratio, channels, settings.layer_scale)
        for model in settings.layer_models
        for ratio in settings.layer_ratios
    ]


def run_layered(cell: LayerCell) -> Iterator[LayerRow]:
    """Run all numbers of channels, one channel first."""
    bare = LayerDescription(LAYERED_TOPOLOGY, cell.model, 1, scale=cell.scale)
    chunks = sum(-(-size // bare.lanes) for size in bare.elements)
    communication = chunks * frame_time_ps(frame_bytes(bare.lanes), RATE_BPS)
    compute = round(communication / cell.ratio)
    first = None
    for channels in cell.channels:
        result = run_layers(LayerDescription(LAYERED_TOPOLOGY, cell.model, compute, channels, scale=cell.scale))
        first = first or result.iteration_ps
        yield LayerRow(
            cell.model,
            cell.ratio,
            channels,
            result.iteration_ps,
            result.iteration_ps / max(communication, compute),
            1 - result.iteration_ps / first,
            result.resend_share,
        )


# A stale-synchronous parameter server with a straggler: the saving of sending the oldest batch first.


WORKERS: Final = 8
STALE_TOPOLOGY: Final = f"leaf-spine:leaves=2,spines=1,hosts={WORKERS},servers=1,rate=40G,uplink=10G,delay=1us"
STRANGERS: Final = "strangers"
"""first come, first served, among senders that know nothing of each other"""
NO_ORDER: Final = "none"
"""first come, first served"""
MOST_WRITTEN: Final = 3
"""largest staleness for which a controller's entries can distinguish batches"""


@dataclass(frozen=True)
class StaleCell:
    """One job under one seed, with every order of its batches."""

    staleness: int
    straggler: float
    """factor of the computing time of one of the workers"""
    seed: int
    phi: float
    elements: int
    rounds: int
    jitter: float
    latency: str


@record
class StaleRow:
    """One run."""

    staleness: int = column("staleness")
    straggler: float = column("straggler computes longer by", "{:g}")
    order: str = column("order")
    """strangers, none: first come, first served; switch: a register has the newest iteration; controller: entries are
    rewritten as batches advance"""
    phi: float
    seed: int
    took_ps: int = column("time, ms", scaled(1e-9, "{:.3f}"))
    saved: float = column("saved against none", percent())
    saved_strangers: float = column("saved against strangers", percent())
    resend_share: float = column("sent again", percent(2))
    writes: int = column("writes", "{:.0f}")


def stale_cells(settings: StudySettings) -> list[StaleCell]:
    """Return cells for every bound, straggler and seed."""
    how = settings.stale_phi, settings.stale_elements, settings.rounds, settings.jitter, settings.latency
    return [
        StaleCell(staleness, straggler, seed, *how)
        for staleness in settings.stalenesses
        for straggler in settings.stragglers
        for seed in settings.seeds
    ]


def run_stale(cell: StaleCell) -> Iterator[StaleRow]:
    """Run all orders of a cell; the workers share one uplink, and the server is on its other side."""
    hosts = tuple(f"h{WORKERS + number}" for number in range(1, WORKERS + 1))
    bare = JobDescription(hosts, "server1", cell.elements, 1, plan="ps", name="stale")
    takes = round(run(Description(STALE_TOPOLOGY, (bare,), rounds=2)).jobs[0].iteration_ps)
    slow = (1.0,) * (WORKERS - 1) + (cell.straggler,)
    about = replace(with_phi(bare, takes, cell.phi), staleness=cell.staleness, slowdowns=slow)
    orders = (STRANGERS, NO_ORDER, "switch", *(("controller",) if cell.staleness <= MOST_WRITTEN else ()))
    results: dict[str, PrioritiesResult] = {}
    for order in orders:
        description = Description(
            STALE_TOPOLOGY,
            (replace(about, order=order),),
            rounds=cell.rounds,
            jitter=cell.jitter,
            control_latency_ps=parse_delay(cell.latency),
            seed=cell.seed,
        )
        results[order] = run(description)
    took = {order: result.jobs[0].completion_ps for order, result in results.items()}
    for order, result in results.items():
        yield StaleRow(
            staleness=cell.staleness,
            straggler=cell.straggler,
            order=order,
            phi=cell.phi,
            seed=cell.seed,
            took_ps=took[order],
            saved=1 - took[order] / took[NO_ORDER],
            saved_strangers=1 - took[order] / took[STRANGERS],
            resend_share=result.resend_share,
            writes=result.writes,
        )


# Staleness and time to accuracy on the digits, with synchronous, stale-synchronous and asynchronous servers.


LEARNING_WORKERS: Final = 4
NO_BOUND: Final = -1
"""stands for workers that never wait (dist_async)"""
SYNCHRONOUS: Final = 0


@dataclass(frozen=True)
class LearningCell:
    """Training on the digits with one bound of staleness and a straggler, under one seed."""

    staleness: int
    straggler: float
    seed: int
    phi: float
    rounds: int
    jitter: float


@record
class LearningRow:
    """The accuracy of the weights at one time."""

    staleness: int = column("staleness")
    """0: all wait (dist_sync); -1: no worker waits (dist_async)"""
    straggler: float = column("straggler computes longer by", "{:g}")
    seed: int
    rounds: float
    """number of applied gradients over the number of workers"""
    at_ps: int
    accuracy: float = column("accuracy on test images", "{:.3f}")

    @property
    def at_ms(self) -> float:
        """Virtual time, ms."""
        return self.at_ps / 1e9


def learning_cells(settings: StudySettings) -> list[LearningCell]:
    """Return synchronous, bounded and asynchronous cells, with and without the worst straggler."""
    if not settings.learning_rounds:
        return []
    stragglers = sorted({1.0, max(settings.stragglers, default=1.0)})
    bounds = (SYNCHRONOUS, *settings.stalenesses, NO_BOUND)
    return [
        LearningCell(bound, slow, seed, settings.stale_phi, settings.learning_rounds, settings.jitter)
        for bound in bounds
        for slow in stragglers
        for seed in settings.seeds[: settings.few_seeds]
    ]


def run_learning(cell: LearningCell) -> Iterator[LearningRow]:
    """Run a training, with classes by batch unless it is synchronous; the sum of gradients checks its weights."""
    hosts = tuple(f"h{8 + number}" for number in range(1, LEARNING_WORKERS + 1))
    bare = JobDescription(hosts, "server1", 0, 1, plan="ps", model="digits", name="digits")
    takes = round(run(Description(STALE_TOPOLOGY, (bare,), rounds=2)).jobs[0].iteration_ps)
    about = replace(
        with_phi(bare, takes, cell.phi),
        staleness=None if cell.staleness == NO_BOUND else cell.staleness,
        order="none" if cell.staleness == SYNCHRONOUS else "switch",
        slowdowns=(1.0,) * (LEARNING_WORKERS - 1) + (cell.straggler,),
    )
    description = Description(STALE_TOPOLOGY, (about,), rounds=cell.rounds, jitter=cell.jitter, seed=cell.seed)
    for score in run(description).jobs[0].scores:
        yield LearningRow(cell.staleness, cell.straggler, cell.seed, score.rounds, score.at_ps, score.accuracy)
