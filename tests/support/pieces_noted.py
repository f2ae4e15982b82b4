"""Log of a sweep's pieces as they are computed: lines in ``$PIECES/HOSTNAME`` with the piece and its CPU seconds.

It is a preload of Dask's workers, or runs as ``python -m tests.support.pieces_noted sweep ...`` in place of ``p4reduce
sweep ...``. With ``$WAITS`` each piece first waits that many seconds, as on a slower machine. A piece of the seed
``$POISON`` kills its process.
"""

import os
import runpy
import signal
import socket
import time
from pathlib import Path

from p4reduce.runs import runner
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.result import RunResult

made = runner.run_experiment


def note(experiment: Experiment) -> RunResult:
    began = time.process_time()
    if str(experiment.seed) == os.environ.get("POISON"):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(float(os.environ.get("WAITS", "0")))
    result = made(experiment)
    with (Path(os.environ["PIECES"]) / socket.gethostname()).open("a") as file:
        file.write(f"{experiment.plan} {experiment.elements} {experiment.seed} {time.process_time() - began:.6f}\n")
    return result


if "PIECES" in os.environ:
    runner.run_experiment = note


def read(folder: Path) -> dict[str, list[tuple[str, float]]]:
    """Return the pieces of each machine, with their CPU seconds."""
    found = {}
    for path in folder.iterdir():
        rows = (line.rpartition(" ") for line in path.read_text().splitlines())
        found[path.name] = [(piece, float(seconds)) for piece, _, seconds in rows]
    return found


if __name__ == "__main__":
    runpy.run_module("p4reduce.cli.entry", run_name="__main__")
