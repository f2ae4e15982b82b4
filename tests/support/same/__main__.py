"""``make same``: run everything, and compare the results with the stored ones, or store them (``--write``)."""

import argparse
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.support.paths import ROOT
from tests.support.same import stored
from tests.support.same.forked import Done, run_all
from tests.support.same.items import all_jobs
from tests.support.same.job import Job
from tests.support.same.stored import differences, written_with

FOLDER: Final = ROOT / "tests/data/same"
KEPT: Final = ROOT / "out/same"
ENVIRONMENT: Final = {
    "COLUMNS": "1000",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MPLBACKEND": "agg",
}
"""Environment of every job, so that output does not depend on the terminal, nor sums on the number of threads."""
ANY_PROCESSOR: Final = {
    "OPENBLAS_CORETYPE": "Prescott",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
}
"""Environment that numpy reads when it is loaded. With it, numpy uses only the instructions that x86-64 processors have
in common: newer ones change the last bit of a product of matrices, and so a digest."""
NOT_PASSED_ON: Final = ("P4REDUCE_", "SLURM", "RAY_", "PMI", "OMPI", "P4C", "SIMPLE_SWITCH", "PYTHONPATH")
"""Prefixes of environment variables that jobs do not inherit, except P4REDUCE_CACHE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if something differs or cannot be run."""
    parser = argparse.ArgumentParser(prog="make same", description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the results instead of comparing them")
    parser.add_argument("--only", metavar="GROUP[,GROUP]", help="only these groups or jobs: runs or runs/steiner")
    parser.add_argument("--cheap", action="store_true", help="run only the jobs of 'make test'")
    parser.add_argument("--jobs", type=int, default=2, help="number of parallel processes")
    parser.add_argument("--keep", type=Path, default=KEPT, help="folder for all results, to compare with diff -r")
    parser.add_argument("--list", action="store_true", help="only list the jobs")
    given = parser.parse_args(arguments)
    jobs = [job for job in all_jobs() if _wanted(job, given)]
    if not jobs:
        parser.error(f"--only {given.only}: groups are {', '.join(dict.fromkeys(job.group for job in all_jobs()))}")
    if given.list:
        print("\n".join(f"{job.group}/{job.name}" for job in jobs))
        return 0
    if any(os.environ.get(name) != value for name, value in ANY_PROCESSOR.items()):
        command = (sys.executable, "-m", "tests.support.same", *(sys.argv[1:] if arguments is None else arguments))
        os.execve(sys.executable, command, os.environ | ANY_PROCESSOR)  # noqa: S606
    whole = not given.cheap and "/" not in (given.only or "")
    if given.write and not whole:
        parser.error("--write stores whole groups: not with --cheap, and not with a job of a group")
    _set_environment()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # exit normally, so that started processes end, too
    done = _run(jobs, given.jobs, given.keep)
    return _judge(done, write=given.write, whole=whole, keep=given.keep)


def _wanted(job: Job, given: argparse.Namespace) -> bool:
    if given.cheap and not job.cheap:
        return False
    return not given.only or any(one in {job.group, f"{job.group}/{job.name}"} for one in given.only.split(","))


def _set_environment() -> None:
    for name in list(os.environ):
        if name.startswith(NOT_PASSED_ON) and name != "P4REDUCE_CACHE":
            del os.environ[name]
    os.environ |= ENVIRONMENT
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _run(jobs: Sequence[Job], at_a_time: int, keep: Path) -> list[Done]:
    """Run jobs with a progress bar on stderr, and keep all output."""
    console = Console(stderr=True, width=100, force_terminal=sys.stderr.isatty())
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    found = []
    for group in {job.group for job in jobs}:
        shutil.rmtree(keep / group, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix="p4reduce-same-"))
    try:
        # No refresh thread, because jobs are forked from this process.
        with Progress(*columns, console=console, auto_refresh=False, disable=not sys.stderr.isatty()) as bar:
            task = bar.add_task("same", total=len(jobs))
            for done in run_all(jobs, at_a_time, scratch):
                found.append(done)
                _keep(done, keep)
                bar.update(task, advance=1, description=f"{done.job.group}/{done.job.name}"[:40])
                bar.refresh()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return found


def _keep(done: Done, keep: Path) -> None:
    folder = keep / done.job.group
    folder.mkdir(parents=True, exist_ok=True)
    for name, outcome in done.outcomes.items():
        text = "".join(f"==== {part}\n{shown}\n" for part, shown in outcome.shown.items())
        (folder / f"{_file_name(name)}.txt").write_text(text)


def _file_name(name: str) -> str:
    return "".join(one if one.isalnum() or one in "-_=.," else "_" for one in name)[:150]


def _judge(done: Sequence[Done], *, write: bool, whole: bool, keep: Path) -> int:
    """Print the differences, or store the results; return the exit code."""
    problems = [f"{one.job.group}/{one.job.name}: {one.problem}" for one in done if one.problem]
    counts: Counter[str] = Counter()
    lines = []
    groups = dict.fromkeys(one.job.group for one in done)
    for group in groups:
        came: stored.Items = {}
        for one in sorted((one for one in done if one.job.group == group), key=lambda one: one.job.name):
            for name, outcome in one.outcomes.items():
                if name in came:
                    problems.append(f"{group}: two items are called {name!r}")
                came[name] = {"digest": outcome.digest(), **outcome.parts}
        counts[group] = len(came)
        found = differences(stored.read(FOLDER / f"{group}.json"), came, whole=whole and not problems)
        lines += [f"{group}: {line}" for line in found]
        if write and not problems:
            stored.write(FOLDER / f"{group}.json", came)
    for line in [*lines, *problems]:
        print(line)
    if write and not problems:
        written_with(FOLDER, write=True)
    elif lines:
        print(f"all that came is in {keep}; the digests were written with {written_with(FOLDER)}")
    cost = Counter[str]()
    for one in done:
        cost[one.job.group] += one.cpu_s
    print("CPU: " + ", ".join(f"{group} {counts[group]} in {cost[group]:.1f} s" for group in groups))
    said = "written" if write else "differ"
    cpu_s = sum(cost.values())
    print(f"{sum(counts.values())} items, {len(lines)} {said}, {len(problems)} problems, {cpu_s:.0f} s of CPU")
    return 1 if problems or (lines and not write) else 0


if __name__ == "__main__":
    sys.exit(main())
