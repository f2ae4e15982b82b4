"""Thousands of histories of the orchestrator: ``python -m tests.support.orchestrated.soak --histories 10000``.

Prints the events that occurred. A history that violates an invariant is printed at the end, with exit code 1.
"""

import argparse
import resource
import sys
import time
from typing import Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.orchestrated.histories import STATISTICS, Histories
from tests.support.orchestrated.turn_histories import TurnHistories

KINDS: Final = {"trees": Histories, "turns": TurnHistories}
"""tasks on dedicated links, and tasks that take turns over a cross-connect"""
BATCH: Final = 250
"""histories of one search: Hypothesis keeps about 60 kB of each until the search ends"""


def main() -> int:
    """Run the soak; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.orchestrated.soak", description=__doc__)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=12, help="most events in a history")
    parser.add_argument("--shrink", action="store_true", help="search for the shortest history with the same violation")
    parser.add_argument("--only", choices=list(KINDS), help="only this kind of history; default: half of each")
    given = parser.parse_args()
    began = time.process_time()
    try:
        kinds = [KINDS[given.only]] if given.only else list(KINDS.values())
        share = -(-given.histories // len(kinds))
        for kind, done in [(kind, done) for kind in kinds for done in range(0, share, BATCH)]:
            run_state_machine_as_test(
                kind,
                settings=settings(
                    max_examples=min(BATCH, share - done),
                    stateful_step_count=given.steps,
                    deadline=None,
                    database=None,
                    phases=(Phase.generate, Phase.shrink) if given.shrink else (Phase.generate,),
                    suppress_health_check=list(HealthCheck),
                ),
            )
    finally:
        for name, count in sorted(STATISTICS.items()):
            sys.stdout.write(f"{name:<40} {count:>12,}\n")
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        sys.stdout.write(f"{'peak memory, MB':<40} {peak_mb:>12,}\n")
        sys.stdout.write(f"{'CPU seconds':<40} {time.process_time() - began:>12,.0f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
