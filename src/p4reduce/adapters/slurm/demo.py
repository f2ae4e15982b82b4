"""The same jobs with hosts chosen by Slurm and by p4reduce, in virtual time.

Slurm with its daemons and queue, and the ranks' processes are real; links, switches and the jobs' computing are
virtual. Virtual time stands still while Slurm decides, in both schemes, and until all ranks have connected. A job's
completion time (JCT) is the virtual time from its arrival until its last rank leaves; it does not contain the time that
Slurm or the machine takes.
"""

import random
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from p4reduce.adapters.network import EndedJob, SharedNetwork
from p4reduce.adapters.planner import MARK, RING, TREE, Chosen, Planner, request_of
from p4reduce.adapters.slurm.cluster import SlurmCluster
from p4reduce.adapters.slurm.service import OnePlanner, QueuedJob, SlurmClient, SlurmError, SlurmService
from p4reduce.base.output import Progress
from p4reduce.control_plane.placement import PLACEMENTS, Racks
from p4reduce.group.errors import ClusterError
from p4reduce.group.remote import job_folder
from p4reduce.topologies import Topology
from p4switch.base.values import PS_PER_US

# Jobs of the demonstration: their numbers of hosts, arrivals and work.


SIZES: Final = (2, 2, 3, 4, 4, 6, 8)
ELEMENTS: Final = (20_000, 40_000, 61_706, 100_000)
LOAD: Final = 0.7
LINE_BPS: Final = 25e9
"""rate for estimates of jobs' lengths, which determine arrivals"""


@dataclass(frozen=True)
class DemoJob:
    """A job: workers that compute and all-reduce, round by round. Times in virtual picoseconds."""

    number: int
    workers: int
    elements: int
    rounds: int
    training_ps: int
    arrival_ps: int

    @property
    def alone_s(self) -> float:
        """Estimated shortest time of the job, seconds."""
        return self.rounds * (self.training_ps / 1e12 + 32 * self.elements / LINE_BPS)

    @property
    def comment(self) -> str:
        """Comment for Slurm with the parameters of the job."""
        return f"{MARK} elements={self.elements} rounds={self.rounds} training={self.training_ps // PS_PER_US}us"

    def arguments(self, output: str, *, marked: bool, switches: int | None = None) -> list[str]:
        """Return arguments of ``sbatch``. switches: highest number of leaf switches, for which the job waits."""
        rank = [sys.executable, "-m", "p4reduce.adapters.rank"]
        rank += ["--elements", str(self.elements), "--rounds", str(self.rounds)]
        rank += ["--training", f"{self.training_ps // PS_PER_US}us", "--seed", str(self.number)]
        return [
            f"--nodes={self.workers}",
            f"--ntasks={self.workers}",
            f"--job-name=demo-{self.number}",
            f"--output={output}",
            *([f"--comment={self.comment}"] if marked else []),
            *([f"--switches={switches}@6-00:00:00"] if switches is not None else []),
            f"--wrap=exec srun {shlex.join(rank)}",
        ]


def demo_jobs(count: int, hosts: int, seed: int) -> list[DemoJob]:
    """Draw ``count`` jobs for a cluster of ``hosts`` hosts, by arrival; Poisson, at `LOAD` of the hosts' time."""
    draw = random.Random(seed)  # noqa: S311  (a workload)
    jobs: list[DemoJob] = []
    for number in range(1, count + 1):
        workers = min(draw.choice(SIZES), hosts)
        elements = draw.choice(ELEMENTS)
        communication_us = 32e6 * elements / LINE_BPS
        training_ps = round(communication_us * draw.uniform(0.4, 1.6)) * PS_PER_US
        jobs.append(DemoJob(number, workers, elements, draw.randint(3, 10), training_ps, 0))
    busy = sum(job.alone_s * job.workers for job in jobs)
    gap_s = busy / (hosts * LOAD) / max(1, count)
    arrivals, at = [], 0.0
    for _ in jobs:
        arrivals.append(round(at * 1e6) * PS_PER_US)
        at += draw.expovariate(1 / gap_s)
    return [_at(job, arrival) for job, arrival in zip(jobs, arrivals, strict=True)]


def fewest_racks(workers: int, racks: Sequence[int]) -> int:
    """Return the least number of racks with these numbers of hosts that a job needs in an empty cluster."""
    left, used = workers, 0
    for size in sorted(racks, reverse=True):
        if left <= 0:
            break
        left, used = left - size, used + 1
    return used


def _at(job: DemoJob, arrival_ps: int) -> DemoJob:
    return DemoJob(job.number, job.workers, job.elements, job.rounds, job.training_ps, arrival_ps)


SETTLE_S: Final = 180.0
"""wall-clock time for Slurm to react completely to an event"""
RANKS_S: Final = 60.0
"""wall-clock time for ranks to compute"""
_LOOK_S: Final = 0.05
_CYCLES: Final = 3
"""passes of Slurm through its queue: the first may have begun before the last change, a node be free one pass later"""


@dataclass(frozen=True)
class Scheme:
    """A way to choose hosts.

    Attributes
    ----------
    name : str
        Name in tables.
    placement : str
        p4reduce's policy; '': Slurm chooses, by topology/tree (best fit).
    switches : bool
        Whether jobs ask Slurm for the least possible number of leaf switches, and wait for them.
    prefers : tuple of str
        Hosts that Slurm prefers (by the weight of its nodes), as an administrator could have set it.
    """

    name: str
    placement: str = ""
    switches: bool = False
    prefers: tuple[str, ...] = ()


@dataclass(frozen=True)
class DemoResult:
    """The result of a job. Times in virtual picoseconds."""

    job: DemoJob
    begun_ps: int
    ended_ps: int
    plan: str
    planned: tuple[str, ...]
    """chosen hosts in rank order"""
    had: tuple[str, ...]
    """hosts reported by the ranks, in rank order"""
    exact: int
    """number of sums that were exact in every element, over all ranks"""
    error: str = ""

    @property
    def jct_ps(self) -> int:
        """Completion time: from its arrival to its end."""
        return self.ended_ps - self.job.arrival_ps

    @property
    def whole(self) -> bool:
        """Whether the job ran on its chosen hosts, and every sum was exact."""
        return not self.error and self.planned == self.had and self.exact == self.job.rounds * self.job.workers


@dataclass
class SchemeResult:
    """A scheme's jobs, and their total wall-clock time."""

    scheme: Scheme
    jobs: list[DemoResult] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def mean_jct_us(self) -> float:
        """Mean completion time, virtual microseconds."""
        return sum(job.jct_ps for job in self.jobs) / len(self.jobs) / 1e6 if self.jobs else 0.0

    @property
    def mean_wait_us(self) -> float:
        """Mean time until a job begins, virtual microseconds."""
        return sum(job.begun_ps - job.job.arrival_ps for job in self.jobs) / len(self.jobs) / 1e6 if self.jobs else 0.0

    @property
    def whole(self) -> int:
        """Number of jobs that ran on their chosen hosts, with exact sums."""
        return sum(job.whole for job in self.jobs)

    @property
    def trees(self) -> int:
        """Number of jobs that reduced in switches."""
        return sum(job.plan == TREE for job in self.jobs)

    @property
    def rings(self) -> int:
        """Number of jobs that reduced around a ring of hosts."""
        return sum(job.plan == RING for job in self.jobs)

    def racks(self, rack_of: Mapping[str, str]) -> float:
        """Return the mean number of racks of a job."""
        return sum(len({rack_of[host] for host in job.planned}) for job in self.jobs) / max(1, len(self.jobs))


class _Chooser(Protocol):
    """A scheme of choosing hosts: it brings the jobs that Slurm begins into the network."""

    chosen: dict[int, Chosen]
    """hosts by job, once they are known"""

    def settle(self, submitted: Sequence[int]) -> None:
        """Wait until nothing more happens without virtual time passing."""

    def advance(self, until_ps: int | None, patience_s: float) -> list[EndedJob]:
        """Let virtual time pass until a job has left the network, or until a time."""


def run_scheme(
    cluster: SlurmCluster,
    jobs: Sequence[DemoJob],
    scheme: Scheme,
    folder: Path,
    *,
    progress: Progress = lambda label, done, total: None,
) -> SchemeResult:
    """Run all jobs, from the first arrival to the last end. ``folder``: folder for the ranks' output.

    `SlurmError` or `ClusterError` if Slurm or the network stops making progress.
    """
    began = time.monotonic()
    result = SchemeResult(scheme)
    numbers: dict[str, DemoJob] = {}
    ended: dict[str, EndedJob] = {}
    left = sorted(jobs, key=lambda job: (job.arrival_ps, job.number))
    client, racks = cluster.client, Planner(cluster.topology).racks
    sizes = [len(hosts) for hosts in racks.members.values()]
    for host in (worker.name for worker in cluster.topology.workers):  # servers are not nodes
        client.weigh(host, 1 if not scheme.prefers or host in scheme.prefers else 2)
    with OnePlanner(cluster.network), SharedNetwork(cluster.topology, cluster.network) as network:
        chooser = _chooser(cluster, network, scheme, numbers)
        while left or len(ended) < len(numbers):
            while left and left[0].arrival_ps <= network.now_ps:
                job = left.pop(0)
                switches = fewest_racks(job.workers, sizes) if scheme.switches else None
                arguments = job.arguments(str(folder / "job-%j.out"), marked=bool(scheme.placement), switches=switches)
                numbers[job_folder(client.submit(arguments, folder=str(folder)))] = job
            chooser.settle([_number(name) for name in numbers if name not in ended])
            if not network.names and not left and len(ended) < len(numbers):
                waiting = ", ".join(name for name in numbers if name not in ended)
                raise SlurmError(f"{scheme.name}: the queue stands still; these never began: {waiting}")
            until = left[0].arrival_ps if left else None
            for ended_job in chooser.advance(until, RANKS_S):
                ended[ended_job.name] = ended_job
            progress(scheme.name, len(ended), len(jobs))
        chooser.settle([])
    for name, ended_job in ended.items():
        chosen = chooser.chosen[_number(name)]
        result.jobs.append(_result(numbers[name], ended_job, chosen, folder / f"{name}.out"))
    result.wall_s = time.monotonic() - began
    return result


def _result(job: DemoJob, ended: EndedJob, chosen: Chosen, output: Path) -> DemoResult:
    """Make a job's result from the ranks' output: rank, node, exact sums."""
    lines = [line.split() for line in output.read_text("utf-8", errors="replace").splitlines()]
    told = {int(line[0]): (line[1], int(line[2])) for line in lines if len(line) == 3 and line[0].isdecimal()}
    had = tuple(told[rank][0] if rank in told else "?" for rank in range(job.workers))
    exact = sum(count for _, count in told.values())
    return DemoResult(job, ended.begun_ps, ended.ended_ps, chosen.plan, chosen.hosts, had, exact, ended.error)


def _chooser(cluster: SlurmCluster, network: SharedNetwork, scheme: Scheme, jobs: Mapping[str, DemoJob]) -> _Chooser:
    if scheme.placement:
        planner = Planner(cluster.topology, policy=scheme.placement)
        return _Ours(cluster.client, planner, network)
    return _Slurms(cluster.client, Planner(cluster.topology), network, jobs)


def _until(quiet: Callable[[], bool], network: SharedNetwork) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not quiet():
        if time.monotonic() > deadline:
            raise SlurmError(f"Slurm has not settled after {SETTLE_S:g} s; {network.missing() or 'no rank is missing'}")
        time.sleep(_LOOK_S)


class _Ours:
    """Hosts chosen by p4reduce's planner, as in `p4reduce slurm up`."""

    def __init__(self, client: SlurmClient, planner: Planner, network: SharedNetwork) -> None:
        self._service, self._network = SlurmService(client, planner, network), network
        self.chosen: dict[int, Chosen] = {}

    def settle(self, submitted: Sequence[int]) -> None:
        def quiet() -> bool:
            step = self._service.step()
            return not step.busy and not step.changed

        _until(quiet, self._network)
        self.chosen = {number: chosen for number, (chosen, _) in self._service.history.items()}

    def advance(self, until_ps: int | None, patience_s: float) -> list[EndedJob]:
        return _advanced(self._service.advance, self._network, until_ps, patience_s)


class _Slurms:
    """Hosts chosen by Slurm; each job that it begins gets the better of tree and ring on its hosts."""

    def __init__(
        self, client: SlurmClient, planner: Planner, network: SharedNetwork, jobs: Mapping[str, DemoJob]
    ) -> None:
        self._client, self._planner, self._network, self._jobs = client, planner, network, jobs
        self.chosen: dict[int, Chosen] = {}
        self._left: set[int] = set()
        self._seen: object = None
        self._cycles = 0

    def settle(self, submitted: Sequence[int]) -> None:
        def quiet() -> bool:
            known = {job.number: job for job in self._client.jobs()}
            busy = False
            for number in submitted:
                busy |= self._begin(known[number]) if number in known else False
            gone = {number for number in self._left if number not in known or known[number].over}
            busy |= gone != self._left
            self._left -= gone
            states = {number: job.state for number, job in known.items() if number in self._all}
            idle = sum(self._client.nodes().values())
            seen = states, idle
            if seen != self._seen:
                self._seen, self._cycles = seen, self._client.cycles()
                return False
            return not busy and self._is_through([job for job in known.values() if job.number in self._all], idle)

        self._all = {*submitted, *self._left}
        _until(quiet, self._network)

    def advance(self, until_ps: int | None, patience_s: float) -> list[EndedJob]:
        ended = _advanced(self._network.advance, self._network, until_ps, patience_s)
        for job in ended:
            self._network.remove(job.name, job.error or "the job has ended")
            self._planner.end(job.name)
            self._left.add(_number(job.name))
        return ended

    def _begin(self, job: QueuedJob) -> bool:
        """Begin a job that Slurm runs; return whether it is between two states."""
        name = job_folder(job.number)
        if job.state in {"CONFIGURING"}:
            return True
        if job.state != "RUNNING" or job.number in self._left:
            return False
        if job.number not in self.chosen:
            task = request_of(name, self._jobs[name].comment, job.node_count).task
            chosen = self._planner.plan_for(task, job.nodes)
            self._planner.begin(name, task, chosen.hosts)
            self._network.begin(name, chosen.hosts, chosen.plan, chosen.elements)
            self.chosen[job.number] = chosen
            return True
        return not self._network.joined(name)

    def _is_through(self, jobs: list[QueuedJob], idle: int) -> bool:
        """Return whether Slurm has looked at all waiting jobs since the last change, or none of them could begin.

        With an empty network, a job that could begin will begin, so waiting for it is safe.
        """
        if not any(job.state == "PENDING" and job.node_count <= idle for job in jobs):
            return True
        return bool(self._network.names) and self._client.cycles() >= self._cycles + _CYCLES


def _advanced(
    advance: Callable[..., list[EndedJob]], network: SharedNetwork, until_ps: int | None, patience_s: float
) -> list[EndedJob]:
    ended = advance(until_ps, patience_s=patience_s)
    if not ended and network.names and network.missing():
        raise ClusterError(f"no time passes: {network.missing()}")
    return ended


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


# Results of the demonstration: as data, as a table, and failed expectations.


def known_schemes(topology: Topology) -> dict[str, Scheme]:
    """Return schemes by name: Slurm's, then every placement policy."""
    racks = Racks(topology)
    able = [switch for switch in racks.members if switch in racks.capable] or list(racks.members)
    prefers = tuple(host for switch in able for host in racks.members[switch])
    own = (
        Scheme("slurm-tree"),
        Scheme("slurm-switches", switches=True),
        Scheme("slurm-weights", switches=True, prefers=prefers),
    )
    return {scheme.name: scheme for scheme in (*own, *(Scheme(name, name) for name in sorted(PLACEMENTS)))}


def result_data(topology: Topology, results: Sequence[SchemeResult]) -> list[dict[str, Any]]:
    """Return the results as data for JSON."""
    rack_of = Racks(topology).of
    return [
        {
            "scheme": result.scheme.name,
            "chosen_by": "p4reduce" if result.scheme.placement else "slurm",
            "jobs": len(result.jobs),
            "whole": result.whole,
            "mean_jct_us": result.mean_jct_us,
            "mean_wait_us": result.mean_wait_us,
            "racks_a_job": result.racks(rack_of),
            "trees": result.trees,
            "rings": result.rings,
            "sums": sum(job.exact for job in result.jobs),
            "results": [
                {
                    "job": job.job.number,
                    "workers": job.job.workers,
                    "elements": job.job.elements,
                    "rounds": job.job.rounds,
                    "arrival_ps": job.job.arrival_ps,
                    "begun_ps": job.begun_ps,
                    "ended_ps": job.ended_ps,
                    "plan": job.plan,
                    "planned": list(job.planned),
                    "had": list(job.had),
                    "exact": job.exact,
                    "error": job.error,
                }
                for job in result.jobs
            ],
        }
        for result in results
    ]


def result_rows(topology: Topology, results: Sequence[SchemeResult]) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows for a table; times are virtual."""
    rack_of = Racks(topology).of
    columns = [
        "hosts by",
        "mean JCT, us",
        "wait, us",
        "racks a job",
        "trees",
        "rings",
        "on planned hosts, exact",
        "sums",
    ]
    rows = [
        [
            result.scheme.name,
            f"{result.mean_jct_us:.0f}",
            f"{result.mean_wait_us:.0f}",
            f"{result.racks(rack_of):.2f}",
            str(result.trees),
            str(result.rings),
            f"{result.whole} of {len(result.jobs)}",
            str(sum(job.exact for job in result.jobs)),
        ]
        for result in results
    ]
    return columns, rows


def missed(results: Sequence[SchemeResult]) -> list[str]:
    """Return failed expectations, a line each."""
    failures = []
    for result in results:
        wrong = [job for job in result.jobs if not job.whole]
        if wrong:
            why = f" ({wrong[0].error})" if wrong[0].error else ""
            what = f"{len(wrong)} jobs were elsewhere or had inexact sums"
            failures.append(f"{result.scheme.name}: {what}, first job {wrong[0].job.number}{why}")
    ours = next((scheme_result for scheme_result in results if scheme_result.scheme.placement), None)
    if ours is not None and ours.jobs:
        failures += [
            f"{ours.scheme.name} has a mean JCT of {ours.mean_jct_us:.0f} us, "
            f"not below {theirs.mean_jct_us:.0f} us of {theirs.scheme.name}"
            for theirs in results
            if not theirs.scheme.placement and ours.mean_jct_us >= theirs.mean_jct_us
        ]
    return failures
