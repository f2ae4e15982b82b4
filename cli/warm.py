"""Compile what is compiled once, so that the first run does not wait for it: ``make demo`` and ``make test`` do.

``python -m p4reduce.cli.warm [virtual] [real]``: virtual time, sockets; both if none is named.
"""

import sys
import time
from typing import Final

from p4reduce.cli.output import Output
from p4reduce.cli.progress import progress_bar
from p4reduce.native.objects import prepare
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment

VIRTUAL: Final = ("fabric.loop", "workers.endpoint", "workers.kernels")
REAL: Final = (*VIRTUAL, "workers.udp.loop", "fabric.real.io.drive", "fabric.background.endpoints", "fabric.synthetic")
PARTS: Final = {"virtual": VIRTUAL, "real": REAL}
"""modules with machine code, by what needs them"""


def main(names: list[str]) -> int:
    """Compile the named parts. Exit status 2 for an unknown name."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.stderr.write(f"{unknown[0]}: choose of {', '.join(PARTS)}\n")
        return 2
    began = time.monotonic()
    modules = sorted({f"p4reduce.{module}" for name in names or PARTS for module in PARTS[name]})
    with progress_bar(Output()):
        prepare(*modules)
        for lanes in (64, 256):  # the two P4 programs
            run_experiment(Experiment(topology="leaf-spine-8", plan="steiner", lanes=lanes, elements=lanes))
    sys.stderr.write(f"machine code is ready ({time.monotonic() - began:.0f} s)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
