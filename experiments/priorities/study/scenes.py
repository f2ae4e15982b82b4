"""The networks and jobs of the study: two leaves with one uplink, jobs of three workers and a server."""

from dataclasses import dataclass, replace
from typing import Literal

from p4reduce.experiments.priorities.description import Description, JobDescription, with_phi
from p4reduce.experiments.priorities.knowing import Alone
from p4reduce.experiments.priorities.run import run
from p4reduce.experiments.priorities.stage import JobResult
from p4reduce.topologies.units import parse_delay

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
