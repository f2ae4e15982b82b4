"""The workers of a real-time run: processes that are started, spoken to in lines of JSON, watched and ended."""

import json
import math
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from p4reduce.comm.errors import ClusterError
from p4reduce.fabric.real.net.children import last_lines, stop
from p4reduce.runs.real.processor import Idle

Message = dict[str, Any]
Start = Callable[[str, Sequence[str], Mapping[str, Any]], subprocess.Popen[bytes]]
"""Starts a command at a host: (host, argv, keyword arguments of Popen)."""
Watch = Callable[[], None]
"""Called now and then while the group waits; raises when the run cannot go on."""
WATCH_EVERY_S: Final = 0.2
GRACE_S: Final = 3.0
"""between asking a worker to end and ending it"""


class WorkerError(ClusterError):
    """A worker reported that it cannot do what it was told."""

    def __init__(self, host: str, text: str) -> None:
        super().__init__(text)
        self.host = host


class Worker:
    """One process. What it says on standard error goes to its log."""

    def __init__(self, host: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.host = host
        self.process = process
        self.log = log
        self._partial = b""

    def send(self, message: Message) -> None:
        """One line to the process; one that is gone is noticed by whoever waits for its answer."""
        assert self.process.stdin is not None  # noqa: S101  (for the type checker: it is a pipe)
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return

    def read(self) -> list[Message] | None:
        """The messages that have come whole; None at the end of its output."""
        assert self.process.stdout is not None  # noqa: S101
        data = self.process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
        if not data:
            return None
        *lines, self._partial = (self._partial + data).split(b"\n")
        try:
            return [json.loads(line) for line in lines if line.strip()]
        except json.JSONDecodeError as error:
            raise ClusterError(f"worker {self.host} wrote what is no message: {error}{self.last_lines()}") from None

    def ended(self) -> ClusterError:
        """How it ended, with its last lines."""
        code = self.process.wait(GRACE_S)
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return ClusterError(f"worker {self.host} (process {self.process.pid}) ended with {how}{self.last_lines()}")

    def last_lines(self) -> str:
        """The end of its log, on lines of their own."""
        return f"; its last lines:\n{last_lines(self.log)}"


class WorkerGroup:
    """All workers of a run. Use as a context manager: at its end every process is gone."""

    def __init__(self, start: Start, commands: Mapping[str, Sequence[str]], folder: Path, watch: Watch) -> None:
        """Start a process for each host. ``folder`` gets a log of each; ``watch`` looks at everything else."""
        self._watch = watch
        self._selector = selectors.DefaultSelector()
        self._early: dict[str, list[Message]] = {host: [] for host in commands}
        self.workers: dict[str, Worker] = {}
        try:
            for host, command in commands.items():
                log = folder / f"{host}.log"
                with log.open("wb") as errors:
                    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
                    process = start(host, command, pipes)
                worker = self.workers[host] = Worker(host, process, log)
                self._selector.register(process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
        except BaseException:
            self.close()
            raise

    def pids(self) -> dict[str, int]:
        """Process of each host."""
        return {host: worker.process.pid for host, worker in self.workers.items()}

    def tell(self, messages: Mapping[str, Message]) -> None:
        """A line to each of the named workers."""
        for host, message in messages.items():
            self.workers[host].send(message)

    def answers(self, hosts: Sequence[str], what: str, deadline: float, idle_s: float = math.inf) -> dict[str, Message]:
        """One message of each of ``hosts``; ``deadline`` is of ``time.monotonic()``.

        Raises ``ClusterError`` that names who ended or reported an error, who has not answered in time, or who has
        used no processor time for ``idle_s`` seconds (a process that is stopped, or waits for what never comes).
        """
        found: dict[str, Message] = {}
        idle = {host: Idle(self.workers[host].process.pid) for host in hosts} if idle_s < math.inf else {}
        while True:
            for host in hosts:
                if host not in found and self._early[host]:
                    found[host] = self._early[host].pop(0)
                    if "error" in found[host]:
                        raise WorkerError(host, f"{what}: worker {host}: {found[host]['error']}")
            missing = [host for host in hosts if host not in found]
            if not missing:
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                raise ClusterError(
                    f"{what}: no answer of worker {', '.join(missing)} within the run's wall-clock time (--budget-s)"
                )
            for key, _ in self._selector.select(min(left, WATCH_EVERY_S)):
                self._take(key.data)
            self._watch()
            asleep = [host for host in missing if host in idle and idle[host].seconds() > idle_s]
            if asleep:
                raise ClusterError(
                    f"{what}: worker {', '.join(asleep)} has neither answered nor used any processor time for "
                    f"{idle_s:g} s (--budget-s); was it stopped?"
                )

    def _take(self, worker: Worker) -> None:
        messages = worker.read()
        if messages is None:
            raise worker.ended()
        self._early[worker.host] += messages

    def close(self) -> None:
        """End every process."""
        self._selector.close()
        processes = [worker.process for worker in self.workers.values()]
        stop(processes, GRACE_S)
        for process in processes:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    _close(pipe)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        return  # what was still to be written has no reader any more
