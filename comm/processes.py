"""A rank's process: started in a session of its own, read line by line, ended with all that it started."""

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final

from p4reduce.comm.errors import ClusterError

MAX_LINE: Final = 64 * 1024
"""bytes; a longer line is shown in pieces"""
KEPT_LINES: Final = 20
"""of standard error, for the report of a failure"""
OUTPUT_TIMEOUT_S: Final = 2.0
"""for reading what a process wrote before it ended; longer only if one that left its session holds the pipe"""

Emit = Callable[[int, str, str], None]
"""``emit(rank, stream, line)`` with stream 'stdout' or 'stderr'; called from several threads."""


class RankProcess:
    """One rank. ``ended(rank, exit code)`` is called once, from a thread of its own."""

    def __init__(
        self,
        rank: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        emit: Emit,
        ended: Callable[[int, int], None],
    ) -> None:
        self.rank = rank
        self.last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._emit = emit
        self._ended = ended
        self._reaping = threading.Lock()
        try:
            self._process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # so that a rank's own children are ended with it, and Ctrl-C reaches us alone
            )
        except OSError as error:
            raise ClusterError(f"cannot start {command[0]!r}: {error.strerror}") from error
        assert self._process.stdout is not None  # noqa: S101  (for the type checker: both are pipes)
        assert self._process.stderr is not None  # noqa: S101
        self._threads = [
            threading.Thread(target=self._read, args=(self._process.stdout, "stdout"), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stderr, "stderr"), daemon=True),
        ]
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        for thread in (*self._threads, self._waiter):
            thread.start()

    def terminate(self) -> None:
        """Ask the process, and what it started, to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process and what it started."""
        self._signal(signal.SIGKILL)

    def join(self, timeout: float) -> bool:
        """Wait until it has ended and its output is read; False when ``timeout`` seconds were not enough."""
        self._waiter.join(timeout)
        return not self._waiter.is_alive()

    def _signal(self, number: signal.Signals) -> None:
        with self._reaping, contextlib.suppress(ProcessLookupError):
            if self._process.returncode is None:
                os.killpg(self._process.pid, number)

    def _wait(self) -> None:
        # Not reaped yet, its process group cannot be anyone else's: what it left behind is ended safely.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self.kill()
        with self._reaping:
            code = self._process.wait()
        for thread in self._threads:
            thread.join(OUTPUT_TIMEOUT_S)
        self._ended(self.rank, code)

    def _read(self, pipe: IO[bytes], stream: str) -> None:
        with pipe:
            while line := pipe.readline(MAX_LINE):
                text = line.decode(errors="replace").rstrip("\r\n")
                if stream == "stderr":
                    self.last_lines.append(text)
                self._emit(self.rank, stream, text)


def how_ended(code: int) -> str:
    """An exit code, -n for signal n, for people."""
    if code > 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
