"""The work of each participant of a run, a thread in virtual time or a process in real time, and its plain tensors.

A participation is a generator. It yields whenever its data are there and the network is needed next, so that its caller
may wait for the others, measure, or show progress; then it goes on.
"""

import mmap
import os
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from p4reduce.group.backend import SERVED, FloatArray
from p4reduce.group.communicator import Communicator
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.workers.training import digits
from p4reduce.workers.training.loops import (
    TrainingOptions,
    TrainingTask,
    train_all_reduce,
    train_parameter_server,
)

LEARNING_RATE: Final = 0.1
"""learning rate of a push-pull of plain tensors"""
Participation = Generator[None, None, str | None]
"""returns the SHA-256 of the weights after a training, None for tensors and for a server that only adds up"""


def training_options(experiment: Experiment) -> TrainingOptions:
    """Return the options of a training: gradients are all-reduced, or ``push_pull``ed to a server with the weights.

    Raises ``ExperimentError`` for any other collective.
    """
    if experiment.collective not in {"all_reduce", "push_pull"}:
        raise ExperimentError(f"collective: {experiment.collective} cannot train; choose all_reduce or push_pull")
    served = experiment.collective == "push_pull"
    make_options = TrainingOptions.for_parameter_server if served else TrainingOptions
    return make_options(seed=experiment.seed, epochs=experiment.epochs)


def sizes_of(experiment: Experiment) -> Sequence[int]:
    """Return the elements of each plain tensor that a run moves; none for a training."""
    return [] if experiment.model == "digits" else [experiment.elements] * experiment.repeat


def participation(
    communicator: Communicator, experiment: Experiment, sizes: Sequence[int], room: FloatArray | None = None
) -> Participation:
    """Return the work of one participant: a training, or a collective on a plain tensor of each of ``sizes`` elements.

    It yields before each tensor's collective, and once before a training, whose data are loaded then. room: array that
    holds each tensor in turn; None: new ones.
    """
    if sizes or experiment.model == "tensor":
        return _tensors(communicator, experiment, sizes, room)
    return _training(communicator, experiment)


def go_through(work: Participation, at: Callable[[int], None]) -> str | None:
    """Do the work; call ``at`` with the number of collectives before, whenever it yields. Return its result."""
    done = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: str | None = end.value
            return result
        at(done)
        done += 1


def _tensors(
    communicator: Communicator, experiment: Experiment, sizes: Sequence[int], room: FloatArray | None
) -> Participation:
    operation = experiment.collective
    adds = communicator.is_server and operation not in SERVED
    for turn, elements in enumerate(sizes):
        if adds:
            array = np.zeros(elements, np.float32)
        else:
            array = tensor(experiment.seed, communicator.rank, turn, elements, room)
        yield
        if operation == "all_reduce":
            communicator.all_reduce(array, name="tensor")
        elif operation == "broadcast":
            communicator.broadcast(array)
        elif operation == "all_to_all":
            communicator.all_to_all(array, np.empty_like(array))
        elif operation == "push_pull":
            communicator.push_pull(array, LEARNING_RATE)
        elif operation == "push":
            communicator.push(array)
        else:
            communicator.pull(array)
    return None


def _training(communicator: Communicator, experiment: Experiment) -> Participation:
    options = training_options(experiment)
    digits.load_digits(options.seed)  # the first time reads a file
    yield
    if experiment.collective == "push_pull":
        return train_parameter_server(communicator, options).sha256
    if not communicator.is_server:
        return train_all_reduce(communicator, options).sha256
    task = TrainingTask(options, 0, communicator.size)
    for _ in range(task.iterations):
        communicator.all_reduce(np.zeros(task.model.size, np.float32), name="gradient")
    return None


# The plain tensors that a run without training moves.


BLOCK: Final = 4096
"""number of consecutive elements of a plain tensor with the same scale"""
PERIOD: Final = 1 << 22
"""Elements after which a plain tensor's normal numbers repeat, with other scales, as drawing them is slow."""


def check_memory(elements: int, workers: int, *, filed: bool = False) -> None:
    """Raise `ExperimentError` if the tensors of a run, and their sums, exceed this machine's memory.

    filed: whether the tensors are in files; only the sums for their check are then in memory.
    """
    words = 3 * elements if filed else workers * elements * 2
    needed = words * np.dtype(np.float32).itemsize
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise ExperimentError(
            f"elements: {elements} for {workers} workers need {needed / 1e9:,.0f} GB of memory, this machine has "
            f"{there / 1e9:,.0f}; give a smaller --elements{'' if filed else ', or a folder for them with --arrays'}"
        )


def array_in_file(folder: Path, elements: int) -> FloatArray:
    """Return zeros, float32 of shape (elements,), in a file of that folder that is deleted with the array.

    Raises ``ExperimentError`` if there is no such folder, or no room.
    """
    size = elements * np.dtype(np.float32).itemsize
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            return np.frombuffer(mmap.mmap(file.fileno(), size), np.float32)
    except OSError as error:
        raise ExperimentError(f"arrays: {folder}: {error.strerror}; {size / 1e9:,.3g} GB are for one worker") from None


def tensor(seed: int, rank: int, turn: int, elements: int, out: FloatArray | None = None) -> FloatArray:
    """Return gradient-like values, float32 of shape (elements,): normal, with a scale that differs from block to block.

    out: array for the values; None: a new one.
    """
    random = np.random.Generator(np.random.Philox(key=[seed, rank << 32 | turn]))
    values = np.empty(elements, np.float32) if out is None else out
    first = values[:PERIOD]
    random.standard_normal(len(first), dtype=np.float32, out=first)
    scales = np.exp2(random.integers(-12, 4, -(-elements // BLOCK))).astype(np.float32)
    for begin in range(PERIOD, elements, PERIOD):
        _scale(first, scales[begin // BLOCK :], values[begin : begin + PERIOD])
    _scale(first, scales, first)
    return values


def _scale(values: FloatArray, scales: FloatArray, out: FloatArray) -> None:
    """Write the first of ``values``, with each block times its scale, to ``out``."""
    whole = len(out) // BLOCK
    blocks = values[: whole * BLOCK].reshape(whole, BLOCK)
    np.multiply(blocks, scales[:whole, None], out=out[: whole * BLOCK].reshape(whole, BLOCK))
    np.multiply(values[whole * BLOCK : len(out)], scales[whole : whole + 1], out=out[whole * BLOCK :])
