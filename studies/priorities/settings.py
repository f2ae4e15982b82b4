"""Every parameter of the study of priorities."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from p4reduce.control_plane.priorities import JOB_CLASSES, PRIORITY_POLICIES
from p4reduce.group.errors import ClusterError
from p4reduce.play.priorities.description import Description, JobDescription, with_phi
from p4reduce.play.priorities.governed import Alone
from p4reduce.play.priorities.models import SHAPES
from p4reduce.play.priorities.run import JobResult, run
from p4reduce.topologies.model import parse_delay

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
