"""A run that sends itself a signal in a phase: ``python -m tests.support.real.killed JSON PHASE SIGNAL``."""

import json
import os
import sys

from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.run import run_real
from tests.support.real import leftovers

PHASES = ("links", "switches", "workers", "all_reduce")
"""Phases in the order in which a run reaches them."""


def main() -> None:
    given, phase, number = sys.argv[1:]

    def strike(label: str, done: int, total: int) -> None:
        if label.endswith(phase):
            # Otherwise a later check for leftovers would prove nothing.
            assert leftovers.processes(os.environ["XDG_STATE_HOME"])
            os.kill(os.getpid(), int(number))

    run_real(Experiment(**json.loads(given)), progress=strike)


if __name__ == "__main__":
    main()
