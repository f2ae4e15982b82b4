"""``python -m tests.support.conformance.stf P4C TESTDATA [name part ...]``: plays samples, prints a report."""

import concurrent.futures
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

from p4switch.traffic import ExecutorName
from tests.support.conformance.stf.outcome import Outcome, play_sample
from tests.support.conformance.stf.samples import Sample, default_cache, find_samples

EXECUTORS: Final[tuple[ExecutorName, ...]] = ("interpreted", "compiled")
JOBS: Final = 2


def play(p4c: str, sample: Sample, cache: Path) -> list[tuple[str, str, Outcome]]:
    """Returns (sample, executor, outcome) for both executors."""
    return [(sample.name, executor, play_sample(p4c, sample, cache, executor)) for executor in EXECUTORS]


def report(outcomes: list[tuple[str, str, Outcome]]) -> str:
    """Returns a table of totals, then the failures grouped by reason."""
    totals: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    groups: dict[str, list[str]] = defaultdict(list)
    for name, executor, outcome in outcomes:
        suite = name.split("/")[0]
        totals[suite, executor][outcome.verdict] += 1
        if outcome.verdict != "passed":
            groups[f"{outcome.verdict}: {group_of(outcome)}"].append(f"- {name} [{executor}] {outcome.reason[:600]}")
    lines = ["| suite | executor | " + "outcomes |", "|---|---|---|"]
    for (suite, executor), verdicts in sorted(totals.items()):
        lines.append(f"| {suite} | {executor} | {', '.join(f'{n} {v}' for v, n in sorted(verdicts.items()))} |")
    for reason, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        lines += ["", f"## {reason} ({len(members)})", *members]
    return "\n".join(lines)


def group_of(outcome: Outcome) -> str:
    """Returns the key that groups similar failures."""
    if outcome.verdict in ("unsupported", "crashed"):
        return outcome.reason.split(" is not supported")[0].splitlines()[0][:90]
    return ""


def main(arguments: list[str]) -> int:
    """Returns 0 if all passed."""
    p4c, testdata, *parts = arguments
    samples = [s for s in find_samples(Path(testdata)) if not parts or any(part in s.name for part in parts)]
    os.nice(10)
    with concurrent.futures.ProcessPoolExecutor(JOBS) as pool:
        done = list(pool.map(play, [p4c] * len(samples), samples, [default_cache()] * len(samples), chunksize=4))
    outcomes = [outcome for both in done for outcome in both]
    print(report(outcomes))
    return 0 if all(outcome.verdict == "passed" for _, _, outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
