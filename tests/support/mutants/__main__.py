"""``python -m tests.support.mutants``: run many mutated P4 programs, and count the results."""

import argparse
import subprocess
import sys
from collections import Counter

from tests.support.mutants.children import Finding, play


def main() -> int:
    """Run mutants; print failures and the number of each outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.mutants", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--report", type=int, default=1000, help="number of mutants between two printed counts")
    parser.add_argument("--large", type=int, default=0, help="number of additional runs on a fat-tree of 250 hosts")
    options = parser.parse_args()
    counts, bad = Counter[str](), list[Finding]()
    for finding in play(options.first, options.count):
        counts[finding.outcome] += 1
        if finding.outcome not in ("refused", "beyond", "same"):
            bad.append(finding)
            print(f"mutant {finding.seed}: {finding.outcome}: {finding.text}", flush=True)
        if sum(counts.values()) % options.report == 0:
            print(_counted(counts), flush=True)
    print(_counted(counts), flush=True)
    failed = sum(_large_run() != 0 for _ in range(options.large))
    if options.large:
        print(f"{options.large} runs on fat-tree k = 10: {failed} failed")
    return 1 if bad or failed else 0


def _large_run() -> int:
    """Run a network of 125 switches, which starts hundreds of threads before code is linked; return the exit code."""
    command = [sys.executable, "-m", "p4reduce.cli.entry"]
    command += ["run", "-t", "fat-tree:k=10", "--elements", "100"]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode


def _counted(counts: Counter[str]) -> str:
    parts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
    return f"{sum(counts.values())} mutants: {parts}"


if __name__ == "__main__":
    sys.exit(main())
