"""Jobs that arrive and end, at flow level: an online policy decides which jobs wait, run, and share GPUs.

An iteration is far shorter than a job, so a job advances at its throughput relative to running alone: 1, or the value
for its way of sharing (`p4reduce.control_plane.tdm.pairs`). Schedules change at the end of a round, whose length is
negligible beside hours. GPUs are a pool: the placement of jobs in it is not modelled here.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np

from p4reduce.base.output import Progress
from p4reduce.control_plane.tdm.jobs import TdmError
from p4reduce.control_plane.tdm.pairs import LEAST, TimesAlone, best_sharing, gated_period_s, play
from p4reduce.control_plane.tdm.schedule import Mode

# Arrivals of jobs: durations of Philly's and Helios' traces, Muri's mix of GPUs, Poisson arrivals.


@dataclass(frozen=True)
class Durations:
    """Log-normal seconds of a job that runs alone."""

    mu: float
    sigma: float
    source: str


TRACES: Final = {
    "philly": Durations(6.85, 2.18, "Microsoft Philly (ATC 2019): median 1,186 s, mean 14,613 s, P90 12,860 s"),
    "helios": Durations(5.33, 2.64, "SenseTime Helios (SC 2021), GPU jobs: median 206 s, mean 6,652 s"),
}
GPUS: Final = (1, 4, 8, 16, 32)
SHARES: Final = (0.36, 0.28, 0.31, 0.03, 0.02)
"""Shares of jobs with the numbers of GPUs in ``GPUS``: trace 1 of Muri (SIGCOMM 2022)."""
SIGMA: Final = 0.4
"""Standard deviation of the logarithm of training times of an iteration."""
TRAIN_S: Final = 0.1


@dataclass(frozen=True)
class JobArrival:
    """One job of a trace."""

    arrival_s: float
    gpus: int
    duration_s: float
    """Duration of the whole job, alone on its GPUs."""
    step: TimesAlone
    """Times of an iteration; a job on one GPU does not communicate."""


def draw_trace(trace: str, seed: int, *, jobs: int, gpus: int, load: float, c_over_w: float = 1.0) -> list[JobArrival]:
    """Draw a trace with Poisson arrivals whose GPU seconds are ``load`` times those of the cluster.

    Parameters
    ----------
    trace : str
        Key of :data:`TRACES`.
    seed : int
        Seed of the random numbers; the same seed gives the same jobs at every load.
    jobs, gpus : int
        Number of jobs; GPUs of the cluster. Jobs that need more GPUs are reduced to all of the cluster.
    load : float
        Above 1 the queue grows as long as jobs arrive.
    c_over_w : float
        Communication over training of an iteration.

    Raises
    ------
    TdmError
        For an unknown trace or numbers that are not positive.
    """
    if trace not in TRACES:
        raise TdmError(f"trace: {trace[:40]!r} is none of {', '.join(TRACES)}")
    if not (jobs >= 1 and gpus >= 1 and 0 < load < 100 and 0 <= c_over_w < 1000):
        raise TdmError("trace: jobs, gpus and load must be positive, load below 100, c/w between 0 and 1000")
    random = np.random.default_rng(seed)
    known = TRACES[trace]
    seconds = random.lognormal(known.mu, known.sigma, jobs)
    sizes = random.choice(GPUS, jobs, p=SHARES)
    sizes = np.minimum(sizes, gpus)
    train = TRAIN_S * np.exp(random.normal(0.0, SIGMA, jobs))
    gaps = random.exponential(1.0, jobs)
    at = np.cumsum(gaps) - gaps[0]
    span = float((seconds * sizes).sum()) / (gpus * load)
    at *= span / max(float(at[-1]), 1e-9) if jobs > 1 else 0.0
    return [
        JobArrival(float(t), int(g), float(d), TimesAlone(float(w), float(w) * c_over_w if g > 1 else 0.0))
        for t, g, d, w in zip(at, sizes, seconds, train, strict=True)
    ]


MODES: Final[dict[str, tuple[Mode, ...]]] = {
    "exclusive": (),
    "gated": ("gated",),
    "free": ("free",),
    "pairs": ("gated", "priority", "free"),
}
"""Ways of sharing of each policy; empty: every job has its GPUs for itself."""
GRID: Final = 8
"""Steps per octave to which training times are rounded when pairs are rated."""
WORTH: Final = 0.05
"""Least gain in throughput, in jobs, for which a guest is taken; less is not worth the disturbance."""


@dataclass(eq=False)
class _Running:
    """A running job."""

    number: int
    gpus: int
    step: TimesAlone
    left_s: float
    rate: float = 1.0
    since: float = 0.0
    host: "_Running | None" = None
    """Job on whose GPUs it runs; None: on its own."""
    guests: "list[_Running]" = field(default_factory=list)
    """Jobs on its GPUs, each on others."""
    version: int = 0

    @property
    def room(self) -> int:
        """GPUs without a guest."""
        return self.gpus - sum(guest.gpus for guest in self.guests)


@dataclass
class TraceOutcome:
    """Result of a trace."""

    jct_s: list[float]
    """Completion time of each job: end - arrival."""
    makespan_s: float
    paired: int
    """Jobs that ever shared GPUs."""
    mean_jct_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.mean_jct_s = sum(self.jct_s) / max(1, len(self.jct_s))


def run_trace(arrivals: Sequence[JobArrival], gpus: int, policy: str, progress: Progress | None = None) -> TraceOutcome:
    """Play a trace. First in, first out with backfilling: each job that fits starts, in the order of arrival.

    With sharing, a job for which no GPUs are free joins a running one (`cheapest pair`), the one with the highest joint
    throughput, on GPUs without another guest. When a host ends, its guests keep the GPUs that they are on; a guest
    moves out when GPUs are free for which no job waits.

    Raises
    ------
    TdmError
        For an unknown policy, or a job that needs more GPUs than there are.
    """
    if policy not in MODES:
        raise TdmError(f"policy: {policy[:40]!r} is none of {', '.join(MODES)}")
    if any(arrival.gpus > gpus for arrival in arrivals):
        raise TdmError(f"a job of {max(arrival.gpus for arrival in arrivals)} units for {gpus} GPUs; use more hosts")
    return _Cluster(arrivals, gpus, MODES[policy]).run(progress)


class _Cluster:
    def __init__(self, arrivals: Sequence[JobArrival], gpus: int, modes: tuple[Mode, ...]) -> None:
        self.arrivals, self.modes = arrivals, modes
        self.free, self.now = gpus, 0.0
        self.queue: list[int] = []
        self.hosts: dict[int, _Running] = {}
        self.ends: list[tuple[float, int, int, _Running]] = []
        self.finished = [0.0] * len(arrivals)
        self.paired: set[int] = set()

    def run(self, progress: Progress | None) -> TraceOutcome:
        """Play the whole trace."""
        coming, done = 0, 0
        total = len(self.arrivals)
        while done < total:
            end = self._next_end()
            if coming < total and self.arrivals[coming].arrival_s <= end:
                self.now = self.arrivals[coming].arrival_s
                self.queue.append(coming)
                coming += 1
                self._start(self.queue[-1:])
                continue
            _, _, _, job = heapq.heappop(self.ends)
            self.now = end
            done += 1
            self._finish(job)
            self._start(self.queue)
            self._move_out()
            if progress is not None and (done % 256 == 0 or done == total):
                progress("jobs", done, total)
        jct = [end - arrival.arrival_s for end, arrival in zip(self.finished, self.arrivals, strict=True)]
        return TraceOutcome(jct, max(self.finished, default=0.0), len(self.paired))

    def _next_end(self) -> float:
        while self.ends:
            at, _, version, job = self.ends[0]
            if job.version == version:
                return at
            heapq.heappop(self.ends)
        return math.inf

    def _start(self, waiting: Sequence[int]) -> None:
        started = set()
        refused: set[tuple[int, TimesAlone]] = set()
        for number in waiting:
            arrival = self.arrivals[number]
            job = _Running(number, arrival.gpus, arrival.step, arrival.duration_s, since=self.now)
            if arrival.gpus <= self.free:
                self.free -= arrival.gpus
                self.hosts[number] = job
                self._set_rate(job, 1.0)
                started.add(number)
            elif self.modes and (arrival.gpus, _rounded(arrival.step)) not in refused:
                host = self._host(arrival)
                if host is None:
                    refused.add((arrival.gpus, _rounded(arrival.step)))
                    continue
                job.host = host
                host.guests.append(job)
                self._rate(host)
                self.paired |= {number, host.number}
                started.add(number)
        if started:
            self.queue = [number for number in self.queue if number not in started]

    def _host(self, arrival: JobArrival) -> _Running | None:
        """Return the best running job to join: the largest gain in joint throughput on its GPUs; None if too small."""
        best: tuple[float, int, int] | None = None
        host: _Running | None = None
        for job in self.hosts.values():
            if job.room < arrival.gpus:
                continue
            now = [_rounded(guest.step) for guest in job.guests]
            rates = rated(_rounded(job.step), (*now, _rounded(arrival.step)), self.modes)
            if rates is None:
                continue
            before = rated(_rounded(job.step), tuple(now), self.modes) or (1.0,)
            key = (sum(rates) - sum(before), -job.room, -job.number)
            if key[0] >= self._worth() and (best is None or key > best):
                best, host = key, job
        return host

    def _worth(self) -> float:
        return WORTH if self.modes != ("free",) else -math.inf

    def _rate(self, host: _Running) -> None:
        """Set the throughput of a host and its guests."""
        rates = rated(_rounded(host.step), tuple(_rounded(guest.step) for guest in host.guests), self.modes)
        members = [host, *host.guests]
        for job, rate in zip(members, rates or [1.0 / len(members)] * len(members), strict=True):
            self._set_rate(job, rate)

    def _set_rate(self, job: _Running, rate: float) -> None:
        job.left_s -= (self.now - job.since) * job.rate
        job.since, job.rate = self.now, rate
        job.version += 1
        heapq.heappush(self.ends, (self.now + max(0.0, job.left_s) / rate, job.number, job.version, job))

    def _finish(self, job: _Running) -> None:
        self.finished[job.number] = self.now
        if job.host is not None:
            job.host.guests.remove(job)
            self._rate(job.host)
            return
        del self.hosts[job.number]
        self.free += job.room
        for guest in job.guests:
            self._alone(guest)

    def _alone(self, job: _Running) -> None:
        job.host = None
        self.hosts[job.number] = job
        self._set_rate(job, 1.0)

    def _move_out(self) -> None:
        """Move the slowest guests to free GPUs."""
        while self.free:
            guests = [guest for host in self.hosts.values() for guest in host.guests if guest.gpus <= self.free]
            if not guests:
                return
            guest = min(guests, key=lambda sharer: (sharer.rate, sharer.number))
            host = guest.host
            assert host is not None  # noqa: S101
            host.guests.remove(guest)
            self.free -= guest.gpus
            self._alone(guest)
            self._rate(host)


@cache
def rated(host: TimesAlone, guests: tuple[TimesAlone, ...], modes: tuple[Mode, ...]) -> tuple[float, ...] | None:
    """Return the throughput of a job and its guests, relative to alone; None if one would be below `LEAST`.

    Two jobs share in the best of the modes. More are gated with one period, the longest that the host would have with
    any one guest; or (free) the host is as slow as with the worst of its guests.
    """
    if not guests:
        return (1.0,)
    if modes == ("free",):
        pairs = [play(host, guest, None) for guest in guests]
        return (min(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
    if len(guests) == 1:
        way = best_sharing(host, guests[0], modes)
        return None if way.mode == "exclusive" else way.relative
    period = max(gated_period_s(host, guest) for guest in guests)
    rates = tuple(partner.period_s / period for partner in (host, *guests))
    return rates if min(rates) >= LEAST else None


def _rounded(step: TimesAlone) -> TimesAlone:
    """Round the training time to a grid, so that few different pairs need to be rated."""
    if step.train_s <= 0:
        return step
    scale = 2.0 ** (round(math.log2(step.train_s) * GRID) / GRID) / step.train_s
    return TimesAlone(step.train_s * scale, step.communicate_s * scale)
