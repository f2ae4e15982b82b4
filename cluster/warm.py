"""Compile what is compiled once, so that the first run does not wait for it: ``python -m p4reduce.cluster.warm``."""

import sys
import time

from p4reduce.cluster.experiment import Experiment
from p4reduce.cluster.runner import run_experiment


def warm() -> None:
    """Run each kind of plan once on a tiny tensor; Numba and the P4 compiler keep their machine code on disk."""
    for lanes in (64, 256):
        run_experiment(Experiment(topology="leaf-spine-8", plan="steiner", lanes=lanes, elements=lanes))
    for plan in ("ring", "ps"):
        run_experiment(Experiment(topology="leaf-spine-8", plan=plan, elements=256))


if __name__ == "__main__":
    began = time.monotonic()
    sys.stderr.write("compiling (once) …\n")
    warm()
    sys.stderr.write(f"compiled in {time.monotonic() - began:.0f} s\n")
