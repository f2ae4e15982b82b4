"""Starting the network's process, so that it outlives whoever started it."""

import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from p4reduce.base.signals import SEEN_S
from p4reduce.comm.errors import ClusterError

READY: Final = "ready\n"
"""what it prints when its socket listens"""
MODULE: Final = "p4reduce.orchestrated"
START_S: Final = 300.0
"""for loading the program into all switches; on a machine's first run it is compiled"""


def start_network(
    path: Path,
    topology: str,
    *,
    lanes: int,
    options: Sequence[str] = (),
    module: str = MODULE,
    patience_s: float = START_S,
) -> subprocess.Popen[bytes]:
    """Start the process that serves a topology at ``path``, in a session of its own, and wait until it listens.

    Parameters
    ----------
    path : Path
        Its socket; a file that nobody listens at is replaced.
    topology : str
        File, bundled name or builder with parameters.
    lanes : int
        Of its switches' program.
    options : sequence of str
        Further flags of ``python -m p4reduce.orchestrated``.
    module : str
        Another one that is run in its place, and takes the same flags.
    patience_s : float
        Seconds to wait.

    Raises
    ------
    ClusterError
        With what it wrote, when it cannot serve.
    """
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", module, "--socket", str(path), "--topology", topology]
    log = path.with_name(path.name + ".log")
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*command, "--lanes", str(lanes), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C and the death of an orchestrator leave it alone
        )
    if _is_ready(process, time.monotonic() + patience_s):
        return process
    process.kill()
    process.wait()
    said = log.read_text("utf-8", "replace").strip().removeprefix("error: ")
    raise ClusterError(f"the network could not be started: {said or f'not ready within {patience_s:g} s'}")


def _is_ready(process: subprocess.Popen[bytes], deadline: float) -> bool:
    if process.stdout is None:
        return False
    with process.stdout as output:
        ready: list[IO[bytes]] = []
        while not ready and time.monotonic() < deadline:
            ready = select.select([output], [], [], SEEN_S)[0]
        return bool(ready) and output.readline() == READY.encode()
