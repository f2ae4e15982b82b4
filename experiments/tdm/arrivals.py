"""Jobs that come and go, at flow level: who waits, who runs, who shares GPUs with whom (online).

An iteration is far shorter than a job, so a job advances at the throughput it has relative to alone: 1, or what its
way of sharing gives (`p4reduce.control_plane.tdm.pairs`). Schedules change at the end of a round, which is nothing
beside hours. GPUs are a pool: where jobs lie in it is not looked at here.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from p4reduce.base.progress import Progress
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.pairs import Alone, Sharing, best_sharing, play
from p4reduce.control_plane.tdm.schedule import Mode
from p4reduce.experiments.tdm.traces import Arrival

MODES: Final[dict[str, tuple[Mode, ...]]] = {
    "exclusive": (),
    "gated": ("gated",),
    "free": ("free",),
    "pairs": ("gated", "priority", "free"),
}
"""ways of sharing of each policy; none: every job has its GPUs for itself"""
GRID: Final = 8
"""steps of an octave to which training times are rounded where pairs are rated"""
WORTH: Final = 1.05
"""gain that a pair must have: less is not worth the disturbance"""


@dataclass
class _Running:
    """A job that runs."""

    number: int
    gpus: int
    own: int
    """GPUs that it holds; 0 for who joined another one"""
    step: Alone
    left_s: float
    rate: float = 1.0
    since: float = 0.0
    partner: "_Running | None" = None
    version: int = 0


@dataclass
class Outcome:
    """What became of a trace."""

    jct_s: list[float]
    """of each job: end - arrival"""
    makespan_s: float
    paired: int
    """jobs that ever shared GPUs"""
    mean_jct_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.mean_jct_s = sum(self.jct_s) / max(1, len(self.jct_s))


def run_trace(arrivals: Sequence[Arrival], gpus: int, policy: str, progress: Progress | None = None) -> Outcome:
    """Play a trace. First in, first out with backfilling: whoever fits starts, in the order of arrival.

    With sharing, a job for which no GPUs are free joins the running one, of at least its size and not shared yet, with
    which both together gain most (`cheapest pair`); when one ends the other goes on alone.

    Raises
    ------
    TdmError
        For an unknown policy, or a job that needs more GPUs than there are.
    """
    if policy not in MODES:
        raise TdmError(f"policy: {policy[:40]!r} is none of {', '.join(MODES)}")
    if any(one.gpus > gpus for one in arrivals):
        raise TdmError(f"a job of {max(one.gpus for one in arrivals)} units for {gpus} GPUs; use more hosts")
    return _Cluster(arrivals, gpus, MODES[policy]).run(progress)


class _Cluster:
    def __init__(self, arrivals: Sequence[Arrival], gpus: int, modes: tuple[Mode, ...]) -> None:
        self.arrivals, self.modes = arrivals, modes
        self.free, self.now = gpus, 0.0
        self.queue: list[int] = []
        self.alone: dict[int, _Running] = {}
        self.ends: list[tuple[float, int, int, _Running]] = []
        self.finished = [0.0] * len(arrivals)
        self.paired: set[int] = set()

    def run(self, progress: Progress | None) -> Outcome:
        """All of it."""
        coming, done = 0, 0
        total = len(self.arrivals)
        while done < total:
            end = self._next_end()
            if coming < total and self.arrivals[coming].arrival_s <= end:
                self.now = self.arrivals[coming].arrival_s
                self.queue.append(coming)
                coming += 1
                self._start(self.queue[-1:] if self.free or self.modes else [])
                continue
            _, _, _, job = heapq.heappop(self.ends)
            self.now = end
            done += 1
            self._finish(job)
            self._start(self.queue)
            if progress is not None and (done % 256 == 0 or done == total):
                progress("jobs", done, total)
        jct = [end - one.arrival_s for end, one in zip(self.finished, self.arrivals, strict=True)]
        return Outcome(jct, max(self.finished, default=0.0), len(self.paired))

    def _next_end(self) -> float:
        while self.ends:
            at, _, version, job = self.ends[0]
            if job.version == version:
                return at
            heapq.heappop(self.ends)
        return math.inf

    def _start(self, waiting: Sequence[int]) -> None:
        started = set()
        for number in waiting:
            one = self.arrivals[number]
            if one.gpus <= self.free:
                self.free -= one.gpus
                job = _Running(number, one.gpus, one.gpus, one.step, one.duration_s, since=self.now)
                self.alone[number] = job
                self._schedule(job)
                started.add(number)
            elif self.modes and (host := self._host(one)) is not None:
                host_job, way = host
                job = _Running(number, one.gpus, 0, one.step, one.duration_s, since=self.now)
                del self.alone[host_job.number]
                self._set_rate(host_job, way.relative[0], job)
                self._set_rate(job, way.relative[1], host_job)
                self.paired |= {number, host_job.number}
                started.add(number)
        if started:
            self.queue = [number for number in self.queue if number not in started]

    def _host(self, one: Arrival) -> tuple[_Running, Sharing] | None:
        """The running job that it had best join: most gain for both; of equal gain the one that wastes least GPUs."""
        best: tuple[float, int, int] | None = None
        found: tuple[_Running, Sharing] | None = None
        for job in self.alone.values():
            if job.gpus < one.gpus:
                continue
            way = rated(_rounded(job.step), _rounded(one.step), self.modes)
            if way is None:
                continue
            key = (way.gain * one.gpus / job.gpus, -job.gpus, -job.number)
            if best is None or key > best:
                best, found = key, (job, way)
        return found

    def _set_rate(self, job: _Running, rate: float, partner: "_Running | None") -> None:
        job.left_s -= (self.now - job.since) * job.rate
        job.since, job.rate, job.partner = self.now, rate, partner
        self._schedule(job)

    def _schedule(self, job: _Running) -> None:
        job.version += 1
        heapq.heappush(self.ends, (self.now + max(0.0, job.left_s) / job.rate, job.number, job.version, job))

    def _finish(self, job: _Running) -> None:
        self.finished[job.number] = self.now
        other = job.partner
        if other is None:
            self.alone.pop(job.number, None)
            self.free += job.own
            return
        self.free += job.own + other.own - other.gpus  # who is left holds as many as it needs
        other.own = other.gpus
        self._set_rate(other, 1.0, None)
        self.alone[other.number] = other


@cache
def rated(a: Alone, b: Alone, modes: tuple[Mode, ...]) -> Sharing | None:
    """How two jobs share best, or None where it is not worth it: exclusive turns are no gain over waiting."""
    way = Sharing("free", play(a, b, None)) if modes == ("free",) else best_sharing(a, b, modes)
    return way if way.mode != "exclusive" and way.gain >= (0.0 if modes == ("free",) else WORTH) else None


def _rounded(step: Alone) -> Alone:
    """Training time on a grid, so that few different pairs need to be rated."""
    if step.train_s <= 0:
        return step
    scale = 2.0 ** (round(math.log2(step.train_s) * GRID) / GRID) / step.train_s
    return Alone(step.train_s * scale, step.communicate_s * scale)
