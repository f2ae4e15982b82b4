"""Starting the network's process, so that it outlives whoever started it; of one socket there is one at a time.

The log beside a socket is locked from before the process begins until it has ended: the lock belongs to a descriptor
that starter and process share, so it is held as long as one of them lives, however the other one ended.
"""

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from p4reduce.base.signals import SEEN_S
from p4reduce.comm.errors import ClusterError
from p4reduce.orchestrated.client import AbsentError, RemoteExecutor

READY: Final = "ready\n"
"""what it prints when its socket listens"""
MODULE: Final = "p4reduce.orchestrated"
START_S: Final = 300.0
"""for loading the program into all switches; on a machine's first run it is compiled"""
END_S: Final = 10.0
"""for a process that was told to end"""


class OccupiedError(ClusterError):
    """A network at this socket is being started, or has not ended yet."""


def log_of(path: Path) -> Path:
    """What a network whose socket is at ``path`` writes to standard error."""
    return path.with_name(path.name + ".log")


def join_network(
    path: Path,
    topology: str,
    *,
    lanes: int,
    options: Sequence[str] = (),
    module: str = MODULE,
    patience_s: float = START_S,
) -> RemoteExecutor:
    """The network at a socket, started if there is none; the parameters are those of :func:`start_network`.

    Whoever is at the socket without answering yet is waited for: another call that starts a network, or a process
    whose starter was killed, which ends by itself as soon as it finds that out.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return RemoteExecutor(path)
        except AbsentError:
            try:
                start_network(path, topology, lanes=lanes, options=options, module=module, patience_s=patience_s)
            except OccupiedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(SEEN_S)


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
        Its socket; one that was left by a process that has ended is replaced.
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
    OccupiedError
        When there is such a process already, listening or not.
    ClusterError
        With what it wrote, when it cannot serve.
    """
    command = [sys.executable, "-m", module, "--socket", str(path), "--topology", topology]
    with _locked(path) as lock, log_of(path).open("wb") as errors:
        path.unlink(missing_ok=True)  # nobody else is at it
        process = subprocess.Popen(
            [*command, "--lanes", str(lanes), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=(lock,),
            start_new_session=True,  # Ctrl-C and the death of an orchestrator leave it alone
        )
        try:
            if _is_ready(process, time.monotonic() + patience_s):
                return process
        except BaseException:  # interrupted: it is ours as long as nobody knows of it
            process.kill()
            process.wait()
            path.unlink(missing_ok=True)
            _drop_if_empty(log_of(path))
            raise
        process.kill()
        process.wait()
        path.unlink(missing_ok=True)
    said = log_of(path).read_text("utf-8", "replace").strip().removeprefix("error: ")
    raise ClusterError(f"the network could not be started: {said or f'not ready within {patience_s:g} s'}")


def await_end(path: Path, patience_s: float = END_S) -> None:
    """Wait until the process that was told to end has ended, and remove its log where that is empty.

    A network that was started at the socket meanwhile is left alone.
    """
    deadline = time.monotonic() + patience_s
    while log_of(path).exists() and time.monotonic() < deadline:
        try:
            with _locked(path):
                _drop_if_empty(log_of(path))
                return
        except OccupiedError:
            time.sleep(SEEN_S / 10)


def abandon(path: Path) -> None:
    """Of the process itself, while it holds the lock: remove its log, where that is empty."""
    _drop_if_empty(log_of(path))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The lock of a socket, for oneself and for processes that inherit the descriptor."""
    log = log_of(path)
    while True:
        try:
            lock = os.open(log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ClusterError(f"{log}: {error.strerror}") from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OccupiedError(f"{path}: another network is there, or is being started") from None
            if _is_file(lock, log):
                yield lock
                return
        finally:
            os.close(lock)


def _is_file(descriptor: int, path: Path) -> bool:
    """Whether a file that was opened is the one that is there: whoever had the lock may have removed it."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _drop_if_empty(log: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not log.stat().st_size:
            log.unlink()


def _is_ready(process: subprocess.Popen[bytes], deadline: float) -> bool:
    if process.stdout is None:
        return False
    with process.stdout as output:
        ready: list[IO[bytes]] = []
        while not ready and time.monotonic() < deadline:
            ready = select.select([output], [], [], SEEN_S)[0]
        return bool(ready) and output.readline() == READY.encode()
