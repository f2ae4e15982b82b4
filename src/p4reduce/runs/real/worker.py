"""A worker as a process: ``python -m p4reduce.runs.real.worker [SPEC.json]``.

It reads its description (``ProcessSpec``, JSON) from the file, or as the first line of its input; makes its endpoints,
binds its socket, and reports that. Then it answers every line of its input with one line; both are JSON objects:

| line | answer |
|---|---|
| (start) | ``ready``: its host; ``local``: the address of the socket |
| ``do``: work; ``experiment``, ``sizes`` (a ``WorkCommand``) | ``at``: collectives before, when its data are there |
| … after each collective | ``carried``: a ``CarriedCollective`` |
| … at its end | a ``WorkReport`` |
| ``do``: next | it goes on after ``at`` or ``carried``, at which it waits |
| ``do``: status | ``endpoints``: their status by job; ``port``: its counts; ``cpu_s`` of the process |
| ``do``: finish | the status; then the process ends, as it does at the end of its input |

A line that fails is answered by ``error``. Peers are served until the end, as others may still wait for results that
this worker has. While the work waits for ``next``, ``status`` is answered too.
"""

if __name__ == "__main__":
    import p4reduce.base.short  # noqa: F401

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from p4reduce.base.records import from_json, from_plain, to_plain
from p4reduce.group.backend import FloatArray
from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import ClusterError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.participant import go_through, participation
from p4reduce.runs.real.backend import Counts, ProcessSpec, RealBackend, WorkCommand, WorkReport

Message = dict[str, Any]


class CommandedWorker:
    """Carries out commands, one at a time."""

    def __init__(self, spec: ProcessSpec) -> None:
        self._spec = spec
        self._backend = RealBackend(spec)

    def ready(self) -> Message:
        """Return the first message of a worker."""
        return {"ready": self._spec.host, "local": list(self._backend.port.local)}

    def answer(self, command: Message) -> Message:
        """Carry out a command. Raises ``ValueError`` for an unknown command, and the errors of collectives."""
        what = command.pop("do", None)
        if what == "work":
            if self._backend.observer is not None:
                raise ValueError("do: work, but other work waits for next")
            report: Message = to_plain(self._work(from_plain(WorkCommand, command, "work")))
            return report
        if what in ("status", "finish"):
            endpoints = {str(job): status for job, status in self._backend.statuses().items()}
            counts: Message = to_plain(Counts(endpoints, self._backend.counts(), time.process_time()))
            return counts
        raise ValueError(f"do: {what!r}, must be one of work, status, finish; next while work waits")

    def close(self) -> None:
        """Close the socket."""
        self._backend.close()

    def _work(self, command: WorkCommand) -> WorkReport:
        backend = self._backend
        figures = len(backend.figures)
        experiment = Experiment.model_validate(command.experiment)
        backend.observer = pauses = _Pauses(self, backend, command)
        try:
            sha256 = go_through(participation(Communicator(backend), experiment, command.sizes), pauses.at)
        finally:
            backend.observer = None
        return WorkReport(tuple(backend.figures[figures:]), sha256)


class _Pauses:
    """Reports each step of the work, and waits for the command to go on."""

    def __init__(self, worker: CommandedWorker, backend: RealBackend, command: WorkCommand) -> None:
        self._worker = worker
        self._backend = backend
        self._command = command

    def at(self, done: int) -> None:
        """Report that the data are there, after ``done`` collectives, and wait for ``next``."""
        self._pause({"at": done})

    def given(self, array: FloatArray) -> None:
        """Save the array before the result overwrites it."""
        self._keep(self._command.given, array)

    def got(self, array: FloatArray) -> None:
        """Save the result, report it, and wait for ``next``."""
        self._keep(self._command.got, array)
        self._pause({"carried": to_plain(self._backend.carried[-1])})

    def _pause(self, message: Message) -> None:
        _say(message)
        for line in sys.stdin:
            command = _command(line)
            if command.get("do") == "next":
                return
            _say(self._worker.answer(command))
        raise ClusterError("work: the input ended before the next command")

    @staticmethod
    def _keep(file: str | None, array: FloatArray) -> None:
        if file is not None:
            np.save(Path(file), array)


def _command(line: str) -> Message:
    command: Message = from_json(dict[str, Any], line, "a command")
    return command


def _say(message: Message) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _read_spec(arguments: list[str]) -> ProcessSpec:
    text = Path(arguments[0]).read_text() if arguments else sys.stdin.readline()
    return from_json(ProcessSpec, text, "the description of a worker")


def main(arguments: list[str]) -> int:
    """Serve commands; return the exit code: 0, or 1 if the worker cannot start or its reader has ended."""
    try:
        worker = CommandedWorker(_read_spec(arguments))
    except (OSError, ValueError, TypeError) as error:
        _say({"error": f"cannot start: {error}"})
        return 1
    try:
        _say(worker.ready())
        for line in sys.stdin:
            last = False
            try:
                command = _command(line)
                last = command.get("do") == "finish"
                _say(worker.answer(command))
            except (KeyError, ValueError, TypeError, RuntimeError, OSError, MemoryError) as error:
                _say({"error": f"{type(error).__name__}: {error}"})
            if last:
                break
    except (BrokenPipeError, KeyboardInterrupt):
        return 1  # the process that reads the answers has ended
    finally:
        worker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
