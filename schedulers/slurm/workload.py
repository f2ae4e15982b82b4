"""Jobs of the demonstration: who wants how many hosts, when, and what they do there."""

import random
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from p4reduce.base.units import PS_PER_US
from p4reduce.schedulers.marks import MARK

SIZES: Final = (2, 2, 3, 4, 4, 6, 8)
ELEMENTS: Final = (20_000, 40_000, 61_706, 100_000)
LOAD: Final = 0.7
LINE_BPS: Final = 25e9
"""rate that lengths are estimated with, for arrivals"""


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
        """Seconds that it takes at best, about."""
        return self.rounds * (self.training_ps / 1e12 + 32 * self.elements / LINE_BPS)

    @property
    def comment(self) -> str:
        """What it says of itself."""
        return f"{MARK} elements={self.elements} rounds={self.rounds} training={self.training_ps // PS_PER_US}us"

    def arguments(self, output: str, *, marked: bool, switches: int | None = None) -> list[str]:
        """Of ``sbatch``. switches: at most so many leaf switches, however long that takes."""
        rank = [sys.executable, "-m", "p4reduce.schedulers.rank"]
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
    """So many jobs for a cluster of so many hosts, by arrival; Poisson, at `LOAD` of the hosts' time."""
    draw = random.Random(seed)  # noqa: S311  (a workload)
    found: list[DemoJob] = []
    for number in range(1, count + 1):
        workers = min(draw.choice(SIZES), hosts)
        elements = draw.choice(ELEMENTS)
        communication_us = 32e6 * elements / LINE_BPS
        training_ps = round(communication_us * draw.uniform(0.4, 1.6)) * PS_PER_US
        found.append(DemoJob(number, workers, elements, draw.randint(3, 10), training_ps, 0))
    busy = sum(job.alone_s * job.workers for job in found)
    gap_s = busy / (hosts * LOAD) / max(1, count)
    arrivals, at = [], 0.0
    for _ in found:
        arrivals.append(round(at * 1e6) * PS_PER_US)
        at += draw.expovariate(1 / gap_s)
    return [_at(job, arrival) for job, arrival in zip(found, arrivals, strict=True)]


def fewest_racks(workers: int, racks: Sequence[int]) -> int:
    """Racks of so many hosts each that a job needs at least, in an empty cluster."""
    left, used = workers, 0
    for size in sorted(racks, reverse=True):
        if left <= 0:
            break
        left, used = left - size, used + 1
    return used


def _at(job: DemoJob, arrival_ps: int) -> DemoJob:
    return DemoJob(job.number, job.workers, job.elements, job.rounds, job.training_ps, arrival_ps)
