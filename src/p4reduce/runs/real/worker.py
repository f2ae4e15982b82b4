"""A worker as a process: ``python -m p4reduce.runs.real.worker [SPEC.json]``.

It reads its description (``ProcessSpec``, JSON) from the file, or as the first line of its input; makes its endpoints,
binds its socket, and reports that. Then it answers every line of its input with one line; both are JSON objects:

| line | answer |
|---|---|
| (start) | ``ready``: its host; ``local``: the address of the socket |
| ``do``: prepare; ``elements``, ``turn`` | ``prepared``: the array of the next command of that turn is drawn |
| ``do``: a collective (``COLLECTIVES``, broadcast); ``elements``, ``turn`` | ``carried``: a ``CarriedCollective`` |
| … ``root``, ``learning_rate``, ``save`` (optional) | the array is also written to the file ``save`` (.npy) |
| ``do``: load | ``loaded``: number of training images |
| ``do``: train; ``epochs``, ``served`` | after each collective ``carried``; then it waits for ``do``: next |
| … ``given``, ``got`` (optional) | arrays before and after each are written to these files (.npy) |
| … at its end | ``figures``, and ``sha256`` of the weights |
| ``do``: status | ``endpoints``: their status by job; ``port``: its counts; ``cpu_s`` of the process |
| ``do``: finish | the status; then the process ends, as it does at the end of its input |

A line that fails is answered by ``error``. Peers are served until the end, as others may still wait for results that
this worker has. While a training waits for ``next``, other lines are answered too.
"""

if __name__ == "__main__":
    import p4reduce.base.short  # noqa: F401

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from p4reduce.base.records import from_json, from_plain, to_plain
from p4reduce.group.backend import COLLECTIVES, Asked, FloatArray, Options
from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import ClusterError
from p4reduce.runs.inputs import tensor
from p4reduce.runs.real.backend import Counts, MoveCommand, ProcessSpec, RealBackend, Train, TrainingReport
from p4reduce.workers.training import digits
from p4reduce.workers.training.loops import (
    TrainingOptions,
    TrainingTask,
    train_all_reduce,
    train_parameter_server,
)

Message = dict[str, Any]
_OPERATIONS: Final = (*COLLECTIVES, "broadcast")
_NOTHING: Final = ((-1, 0), np.zeros(0, np.float32))


class CommandedWorker:
    """Carries out commands, one at a time."""

    def __init__(self, spec: ProcessSpec) -> None:
        self._spec = spec
        self._backend = RealBackend(spec)
        self._prepared = _NOTHING

    def ready(self) -> Message:
        """Return the first message of a worker."""
        return {"ready": self._spec.host, "local": list(self._backend.port.local)}

    def answer(self, command: Message) -> Message:
        """Carry out a command. Raises ``ValueError`` for an unknown command, and the errors of collectives."""
        what = command.pop("do", None)
        if what in _OPERATIONS:
            return self._move(str(what), command)
        if what == "prepare":
            self._array(from_plain(MoveCommand, command, "prepare"))
            return {"prepared": self._prepared[0]}
        if what == "load":
            return {"loaded": len(digits.load_digits(self._spec.seed).train)}
        if what == "train":
            report: Message = to_plain(self._train(from_plain(Train, command, "train")))
            return report
        if what in ("status", "finish"):
            endpoints = {str(job): status for job, status in self._backend.statuses().items()}
            counts: Message = to_plain(Counts(endpoints, self._backend.counts(), time.process_time()))
            return counts
        raise ValueError(f"do: {what!r}, must be one of {', '.join(sorted(_OPERATIONS))}, load, train, status, finish")

    def close(self) -> None:
        """Close the socket."""
        self._backend.close()

    def _move(self, operation: str, command: Message) -> Message:
        barrier = operation == "barrier"
        move = from_plain(MoveCommand, {"elements": 1, **command} if barrier else command, operation)
        array = np.zeros(1, np.float32) if barrier else self._array(move)
        self._prepared = _NOTHING  # the result overwrites it
        options = Options(tensor="tensor")
        self._backend.collective(Asked(operation, array, move.root, move.learning_rate, options))
        if move.save is not None:
            np.save(Path(move.save), array)
        return {"carried": to_plain(self._backend.carried[-1])}

    def _array(self, move: MoveCommand) -> FloatArray:
        """Return the array of a turn, drawn once, as drawing takes longer than moving it."""
        key = (move.turn, move.elements)
        if self._prepared[0] != key:
            self._prepared = (key, tensor(self._spec.seed, self._spec.rank, *key))
        return self._prepared[1]

    def _train(self, command: Train) -> TrainingReport:
        spec, backend = self._spec, self._backend
        make_options = TrainingOptions.for_parameter_server if command.served else TrainingOptions
        options = make_options(seed=spec.seed, epochs=command.epochs)
        communicator = Communicator(backend)
        figures = len(backend.figures)
        weights: str | None = None
        backend.observer = _Reports(self, backend, command)
        try:
            if command.served:
                trained = train_parameter_server(communicator, options)
                weights = trained.sha256
            elif not backend.is_server:
                weights = train_all_reduce(communicator, options).sha256
            else:  # the server sums for the others
                task = TrainingTask(options, 0, spec.size)
                for _ in range(task.iterations):
                    communicator.all_reduce(np.zeros(task.model.size, np.float32), name="gradient")
        finally:
            backend.observer = None
        return TrainingReport(tuple(backend.figures[figures:]), weights)


class _Reports:
    """Reports every collective of a training, and waits for the command to go on."""

    def __init__(self, worker: CommandedWorker, backend: RealBackend, command: Train) -> None:
        self._worker = worker
        self._backend = backend
        self._command = command

    def given(self, array: FloatArray) -> None:
        """Save the array before the result overwrites it."""
        self._keep(self._command.given, array)

    def got(self, array: FloatArray) -> None:
        """Save the result, report it, and wait for ``next``."""
        self._keep(self._command.got, array)
        _say({"carried": to_plain(self._backend.carried[-1])})
        for line in sys.stdin:
            command = _command(line)
            if command.get("do") == "next":
                return
            _say(self._worker.answer(command))
        raise ClusterError("train: the input ended before the next command")

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
