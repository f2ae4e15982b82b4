"""``python -m p4reduce.cli.warm``: compile what is compiled once, so that no test waits for it."""

import argparse
import subprocess
import sys
import time
from typing import Final

from p4reduce.base.output import Output, progress_bar
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4switch.native.objects import prepare

MODULES: Final = (
    "p4reduce.control_plane.tdm.kernels.anneal",
    "p4reduce.network.background.source",
    "p4reduce.network.background.requests",
    "p4reduce.network.virtual.kernels.loop",
    "p4reduce.network.real.io.frames",
    "p4reduce.network.virtual.synthetic",
    "p4reduce.workers.kernels.chunks",
    "p4reduce.workers.kernels.endpoint",
    "p4reduce.workers.udp",
)
"""those that tests use"""


def main() -> int:
    """Compile them and the two P4 programs, and in a process beside them the planners."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    began = time.monotonic()
    with subprocess.Popen([sys.executable, "-m", "p4reduce.cli.warm_planners"]) as planners, progress_bar(Output()):
        prepare(*MODULES)
        for lanes in (64, 256):
            run_experiment(Experiment(topology="leaf-spine-8", plan="steiner", lanes=lanes, elements=lanes))
    sys.stderr.write(f"machine code is ready ({time.monotonic() - began:.0f} s)\n")
    return planners.returncode


if __name__ == "__main__":
    sys.exit(main())
