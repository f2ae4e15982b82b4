"""Children of a run: started by the main thread, stopped together, their last words read from their logs."""

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from p4reduce.fabric.real.errors import RealError

STOP_DEADLINE_S: Final = 10.0
_TAIL_BYTES: Final = 16 * 1024


def start(command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """Start a command of :mod:`~p4reduce.fabric.real.net.enter`; ``options`` are those of :class:`subprocess.Popen`.

    The kernel kills it when the thread that started it ends, however that happens. So only the main thread may: another
    one could end long before the run.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RealError("only the main thread starts programs: they die with the thread that started them")
    return subprocess.Popen(command, **options)


def stop(processes: "Iterable[subprocess.Popen[Any]]", deadline_s: float = STOP_DEADLINE_S) -> None:
    """Ask all to end (SIGTERM), kill those that have not after ``deadline_s``, and reap them."""
    processes = list(processes)
    for process in processes:
        process.terminate()
    end = time.monotonic() + deadline_s
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(0.0, end - time.monotonic()))
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()


def last_lines(log: Path, count: int = 15) -> str:
    """The last lines of a log, without empty ones; a short text when there are none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error.strerror})"
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-count:]) or "(it wrote nothing)"
