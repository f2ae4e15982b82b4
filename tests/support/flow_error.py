"""``python -m tests.support.flow_error``: error of the flow model against packets, in random settings.

Each setting is drawn from the seed and its number, run on packets in virtual time, and run in the flow model. Prints
the error of the communication time for each plan, size and delay, the worst settings, and settings that the model
rejects. The exit code is 1 if the mean error exceeds 2 %, one setting exceeds 8 %, or bytes differ from the counters.
With ``--tasks`` each setting is several tasks of the orchestrator; unless a host fails, both must do the same rounds.
Published figures need a seed that was not used in development.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import numpy as np
from rich.progress import track

from p4reduce.base.errors import P4ReduceError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.topologies import Topology, load
from p4switch.base.values import PS_PER_US
from tests.support.flow_jobs import as_flows, on_packets
from tests.support.flow_settings import random_jobs, random_run
from tests.support.flow_tasks import play_tasks, random_tasks, text_of

MEAN: Final = 0.02
WORST: Final = 0.08
RESAMPLES: Final = 10_000
ALONE: Final = "one collective at a time"
TOGETHER: Final = "several jobs at once"
TASKS: Final = "tasks of the orchestrator"
REGIMES: Final = (ALONE, TOGETHER, TASKS, "up to 64 KiB", "above 64 KiB", "delays up to 1 us", "delays above 1 us")


@dataclass(frozen=True)
class Point:
    """One setting, with its communication time in picoseconds on packets and in the model."""

    kind: str
    """plan, or kind of jobs"""
    regimes: tuple[str, ...]
    """kind of setting, class of its size, class of the longest link delay"""
    setting: str
    packets_ps: int
    flow_ps: int
    same_bytes: bool
    refused: str = ""
    """error message with which the model refused; empty if it did not"""
    dropped: int = 0
    """frames that full queues dropped, on packets"""

    @property
    def error(self) -> float:
        """Relative error of the model's time against that on packets."""
        return (self.flow_ps - self.packets_ps) / self.packets_ps if self.packets_ps else float(self.flow_ps > 0)


def _regimes(jobs: str, elements: int, topology: Topology) -> tuple[str, ...]:
    size = REGIMES[3] if 4 * elements <= 65_536 else REGIMES[4]
    longest = max(link.delay_ps for link in topology.links)
    return jobs, size, REGIMES[5] if longest <= PS_PER_US else REGIMES[6]


def run_point(seed: int, number: int, folder: Path) -> Point | None:
    """Run repeated collectives with one plan; None if the plan is impossible on that network."""
    fields = random_run(Random(f"{seed}:{number}"), folder, number)
    setting = ", ".join(f"{name} {value}" for name, value in fields.items() if value is not None)
    try:
        packets = run_experiment(Experiment(**fields)).network
    except P4ReduceError:
        return None
    kind, dropped = packets.plan.split(" ")[0], sum(link.queue_drops for link in packets.links)
    regimes = _regimes(ALONE, fields["elements"], load(fields["topology"]))
    try:
        flow = run_experiment(Experiment(**fields, time="flow")).network
    except P4ReduceError as error:
        return Point(kind, regimes, setting, packets.communication_ps, 0, True, str(error), dropped)
    return Point(
        kind,
        regimes,
        setting,
        packets.communication_ps,
        flow.communication_ps,
        [(load.node, load.port, load.first_bytes) for load in packets.links if load.first_frames]
        == [(load.node, load.port, load.bytes) for load in flow.links if load.frames],
        dropped=dropped,
    )


def jobs_point(seed: int, number: int) -> Point | None:
    """Run several jobs at once; the time is the sum over all jobs and rounds of their collectives' time."""
    setting = random_jobs(Random(f"{seed}:{number}"))
    classes = len({job.priority for job in setting.jobs}) > 1
    kind = "several jobs, in classes" if classes else "several jobs"
    each = [
        f"{job.plan} of {len(job.workers)}, {job.elements} elements, class {job.priority}, {job.rounds} rounds"
        for job in setting.jobs
    ]
    text = f"number {number} on {setting.topology.name}, {setting.lanes} lanes: {'; '.join(each)}"
    regimes = _regimes(TOGETHER, max(job.elements for job in setting.jobs), setting.topology)
    try:
        packets = on_packets(setting)
    except P4ReduceError:
        return None
    try:
        flow = as_flows(setting)
    except P4ReduceError as error:
        return Point(kind, regimes, text, packets.total_ps, 0, True, str(error), packets.dropped)
    return Point(kind, regimes, text, packets.total_ps, flow.total_ps, True, dropped=packets.dropped)


def tasks_point(seed: int, number: int) -> Point | None:
    """Run tasks of the orchestrator; the time is the sum over all rounds from the end of training."""
    setting = random_tasks(Random(f"{seed}:{number}"))
    kind = "tasks, a host ends" if setting.dying else "tasks"
    regimes = _regimes(TASKS, max(task.elements for task in setting.tasks), setting.topology)
    text = f"number {number}, {text_of(setting)}"
    try:
        packets = play_tasks(setting, "virtual")
    except P4ReduceError:
        return None
    try:
        flow = play_tasks(setting, "flow")
    except P4ReduceError as error:
        return Point(kind, regimes, text, packets.communicated_ps, 0, True, str(error))
    same = packets.ended == flow.ended or bool(setting.dying)
    return Point(kind, regimes, text, packets.communicated_ps, flow.communicated_ps, same)


def points(seed: int, count: int, *, tasks: bool = False) -> Iterator[Point]:
    """Yield the first ``count`` settings of a seed: every fourth has several jobs, or all have ``tasks``."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            if tasks:
                point = tasks_point(seed, number)
            else:
                several = number % 4 == 3
                point = jobs_point(seed, number) if several else run_point(seed, number, Path(folder))
            if point is not None:
                yield point


def interval(errors: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean absolute error: bootstrap percentiles (Efron, 1979)."""
    values = np.abs(errors)
    drawn = np.random.default_rng(0).choice(values, (RESAMPLES, len(values))).mean(axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return float(low), float(high)


def report(found: Sequence[Point]) -> bool:
    """Print the errors; return whether they are within the bounds."""
    compared = [point for point in found if not point.refused]
    kinds = sorted({point.kind for point in compared})
    print(f"{'':26}{'settings':>9}{'mean':>9}{'95th':>9}{'worst':>9}{'refused':>9}")
    for kind in [*kinds, *REGIMES, "all"]:
        errors = [abs(point.error) for point in compared if kind in (point.kind, *point.regimes, "all")]
        refused = sum(bool(point.refused) for point in found if kind in (point.kind, *point.regimes, "all"))
        if errors:
            shares = 100 * np.array([np.mean(errors), np.percentile(errors, 95), max(errors)])
            print(f"{kind:26}{len(errors):9}{shares[0]:8.3f}%{shares[1]:8.2f}%{shares[2]:8.2f}%{refused:9}")
    low, high = interval([point.error for point in compared])
    print(f"mean of all: 95 % between {100 * low:.3f} % and {100 * high:.3f} %")
    print(f"{sum(abs(point.error) > WORST for point in compared)} of {len(compared)} above {WORST:.0%}; worst:")
    for point in sorted(compared, key=lambda one: -abs(one.error))[:5]:
        print(f"  {100 * point.error:+.2f} %: {point.setting}; {point.packets_ps / 1e6:.3f} us on packets")
    for point in found:
        if point.refused:
            print(f"refused, {point.dropped} frames dropped on packets: {point.setting}: {point.refused}")
    other = [point for point in compared if not point.same_bytes]
    for point in other:
        print(f"other bytes, or other rounds, than on packets: {point.setting}")
    errors = [abs(point.error) for point in compared]
    return float(np.mean(errors)) <= MEAN and max(errors) <= WORST and not other


def main() -> int:
    """Return 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="number of settings")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", action="store_true", help="run tasks of the orchestrator")
    arguments = parser.parse_args()
    drawn = points(arguments.seed, arguments.count, tasks=arguments.tasks)
    found = list(track(drawn, "packets and flow", total=arguments.count, disable=not sys.stderr.isatty()))
    return 0 if report(found) else 1


if __name__ == "__main__":
    sys.exit(main())
