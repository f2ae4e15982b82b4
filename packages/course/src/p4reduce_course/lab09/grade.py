"""Grading lab 09: hooks of all ranks beside each other, over switches in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce_course.frame.lab import Draws, Step, Task, run_steps
from p4reduce_course.frame.report import Check, Wrong, counted
from p4reduce_course.lab09 import ranks as model
from p4reduce_course.lab09.ranks import Backward, Floats, Net, Ran, Rank, Ranks, least_bytes

# Why a mean is wrong, or a step slow.


_NEAR: Final = 1e-5


def explained_mean(found: Floats, parts: NDArray[np.float64], rank: int) -> str:
    """What is wrong with the mean of what the ranks gave, an array (ranks, elements); empty: nothing."""
    n = len(parts)
    mean = parts.mean(axis=0)
    room = _NEAR * float(np.abs(parts).max())

    def like(other: NDArray[np.float64]) -> bool:
        return bool((np.abs(found - other) <= room).all())

    if like(mean):
        return ""
    known = (
        (mean / n, f"the mean was divided twice: it is 1/{n} of the mean. Divide by the number of ranks once"),
        (mean * n, f"that is the sum. The switch adds; divide by the number of ranks, {n}, once"),
        (parts[rank], "that is this rank's own gradient. It must cross the network, and the sum come back"),
    )
    for other, why in known:
        if like(other):
            return why
    place = int(np.argmax(np.abs(found - mean)))
    return f"element {place} is {found[place]:.6g}, the mean is {mean[place]:.6g}"


def explained_time(back: Backward, ran: Ran, net: Net, took: float) -> str:
    """Where the time of a step over its bound went."""
    calls = ran.calls[0]
    trips = len(calls) * net.trip_seconds
    each = back.elements / len(calls)
    if trips > took / 4:
        said = f"{len(calls)} calls, and each takes a round trip of {net.trip_seconds * 1e6:.1f} us however little is"
        return f"{said} in it ({each:.0f} numbers on average). Larger buckets"
    first, computing = calls[0].at_s - ran.began_s, sum(back.seconds)
    if first > computing / 2:
        said = f"the backward pass took {computing * 1e6:.0f} us, and the first of {counted(len(calls), 'call')} was"
        said += f" started after {first * 1e6:.0f} us"
        return f"{said}. Links are idle until then: smaller buckets, each started when it is full"
    return f"{len(calls)} calls of {each:.0f} numbers. What is ready is to be sent while the backward pass goes on"


FILE: Final = "hook.py"
MOST_TIME: Final = 1.35
"""of a step over its lower bound"""
MOST_BYTES: Final = 1.09
"""over full frames: each call has some frames more, in which ranks agree on a scale"""
MOST_INT8: Final = 0.3
"""of the bytes of float32"""
MOST_LOST: Final = 0.04
"""accuracy, against float32"""
_EQUAL: Final = 15
"""steps after which weights are compared"""
_SUMS: Final = 127
"""of a field of 8 bits"""
_OFF: Final = 0.2
"""of the largest gradient, which error feedback hardly touches"""
_FEW: Final = 20
"""steps in which what rounding takes away must come"""


def net_of(draws: Draws) -> Net:
    """The network of a student."""
    workers, rate = draws.integer("workers", 3, 5), draws.choice("rate", (10, 25))
    return Net(workers, rate, draws.integer("delay", 2, 4) if rate == 10 else 1)


def grade(task: Task) -> Iterator[Check]:
    """All checks of lab 09."""
    with Ranks(task.answers / FILE, task.seen) as ranks:
        yield from run_steps(task, _Grader(task, ranks).steps())


class _Grader:
    def __init__(self, task: Task, ranks: Ranks) -> None:
        self.ranks = ranks
        self.net = net_of(task.personal)
        self.draws = task.hidden
        self.path = str(task.answers / FILE)
        self.measured: dict[str, tuple[model.Backward, Ran, float]] = {}

    def steps(self) -> list[Step]:
        return [
            Step("mean", "the mean of two tensors", self.mean),
            Step("mean", "the next step begins anew", self.anew),
            Step("mean", "equal weights on all ranks", lambda: self.trained("mean", _EQUAL)),
            Step("order", "ready in another order on each rank", self.order),
            Step("buckets", "bytes on the links", self.few_bytes),
            Step("buckets", "time over the bound", self.time),
            Step("int8", "the largest values, on all ranks at once", self.headroom),
            Step("int8", "one scale for all ranks", self.scale),
            Step("int8", "a quarter of the bytes", self.quarter),
            Step("int8", "what rounding took away comes later", self.feedback),
            Step("int8", "the model learns as well", lambda: self.trained("int8", model.STEPS)),
        ]

    def _run(self, kind: str, sizes: Sequence[int], steps: int, body: Callable[[Rank, int], None]) -> Ran:
        def all_steps(rank: Rank) -> None:
            for step in range(steps):
                body(rank, step)

        return self.ranks.run(self.net, kind, sizes, steps, all_steps)

    def _means(self, kind: str, every: Sequence[Sequence[Sequence[Floats]]]) -> tuple[list[list[list[Floats]]], Ran]:
        """What the hook gives for gradients by step, rank and tensor: by step and rank."""
        found: list[list[list[Floats]]] = [[[] for _ in range(self.net.workers)] for _ in every]

        def body(rank: Rank, step: int) -> None:
            gradients = every[step][rank.number]
            found[step][rank.number] = rank.backward(gradients, range(len(gradients) - 1, -1, -1))

        sizes = [gradient.size for gradient in every[0][0]]
        return found, self._run(kind, sizes, len(every), body)

    def _drawn(self, name: str, sizes: Sequence[int], steps: int, spread: float = 1.0) -> list[list[list[Floats]]]:
        random = self.draws.generator(name)
        return [
            [[random.normal(0, spread, size).astype(np.float32) for size in sizes] for _ in range(self.net.workers)]
            for _ in range(steps)
        ]

    # --- mean

    def _exact(self, name: str, steps: int) -> None:
        every = self._drawn(name, [40, 300, 7], steps)
        found, _ = self._means("mean", every)
        for step, (given, got) in enumerate(zip(every, found, strict=True)):
            for rank, means in enumerate(got):
                for index, mean in enumerate(means):
                    parts = np.array([gradients[index] for gradients in given], np.float64)
                    said = explained_mean(mean, parts, rank)
                    if said:
                        raise Wrong(f"step {step}, rank {rank}, tensor {index}: {said}", self.path)

    def mean(self) -> None:
        self._exact("mean", 1)

    def anew(self) -> None:
        try:
            self._exact("anew", 3)
        except Wrong as wrong:
            said = wrong.finding.said
            with suppress(Wrong):
                self._exact("anew", 1)
                said += ". The first step was right: does finish leave something behind?"
            raise Wrong(said, wrong.finding.where) from None

    def trained(self, kind: str, steps: int) -> None:
        task = model.Task(self.net.workers, self.draws)
        weights = [task.initial() for _ in range(self.net.workers)]

        def body(rank: Rank, step: int) -> None:
            mine = weights[rank.number]
            means = rank.backward(task.gradients(mine, rank.number, step), (2, 1, 0))
            weights[rank.number] = task.moved(mine, means)

        self._run(kind, task.sizes, steps, body)
        for rank, others in enumerate(weights):
            for index, (one, other) in enumerate(zip(weights[0], others, strict=True)):
                if one.tobytes() != other.tobytes():
                    off = float(np.abs(one - other).max())
                    said = f"after {steps} steps ranks 0 and {rank} differ in tensor {index}, by up to {off:.3g}"
                    raise Wrong(f"{said}: finish must give the same numbers on every rank", self.path)
        found, wanted = task.accuracy(weights[0]), task.accuracy(task.alone(steps))
        if found < wanted - MOST_LOST:
            said = f"after {steps} steps {found:.1%} of the texts are sorted right, with float32 {wanted:.1%}"
            if kind == "int8":
                said += ": small gradients are lost beside large ones. Do they come later (error feedback)?"
            raise Wrong(said, self.path)

    # --- order and buckets

    def order(self) -> None:
        back = model.backward_of(self.net, self.draws)
        workers = self.net.workers
        # Element e of tensor i is i + 1 at rank e mod n, 0 at the others: a sum tells who gave which tensor.
        given = [
            [np.where(np.arange(size) % workers == rank, index + 1, 0).astype(np.float32) for rank in range(workers)]
            for index, size in enumerate(back.sizes)
        ]

        def body(rank: Rank, _: int) -> None:
            means = rank.backward([parts[rank.number] for parts in given], back.orders[rank.number])
            for index, mean in enumerate(means):
                told = np.rint(mean.astype(np.float64) * workers).astype(np.int64) - 1
                if (told == index).all():
                    continue
                place = int(np.flatnonzero(told != index)[0])
                said = f"rank {rank.number}, tensor {index}: element {place} of its mean is wrong"
                if 0 <= told[place] < len(back.sizes):
                    said = f"rank {rank.number}, tensor {index}: in its mean is what rank {place % workers} gave for"
                    said += f" tensor {told[place]}"
                raise Wrong(
                    f"{said}. Gradients become ready in another order on each rank: buckets hold the same tensors in "
                    "the same order on all of them, and are started in one order",
                    self.path,
                )

        try:
            self._run("mean", back.sizes, 1, body)
        except Wrong:
            self.mean()  # where the mean is wrong in one order, too, that is to be mended first
            raise

    @property
    def _look(self) -> str:
        """What a small call costs."""
        net = self.net
        said = f"p4reduce run -t star:hosts={net.workers} --rate {net.rate_gbps}G --delay {net.delay_us}us"
        return f"{said} --elements 100 --repeat 10"

    def _backward(self, kind: str) -> tuple[model.Backward, Ran, float]:
        """One step of the large model, and its time: the same whoever asks."""
        if kind not in self.measured:
            self.measured[kind] = self._measure(kind)
        return self.measured[kind]

    def _measure(self, kind: str) -> tuple[model.Backward, Ran, float]:
        back = model.backward_of(self.net, self.draws)
        took = [0.0] * self.net.workers

        def body(rank: Rank, _: int) -> None:
            random = self.draws.generator(f"values {rank.number}")
            flat = random.standard_normal(back.elements, np.float32)
            gradients = np.split(flat, np.cumsum(back.sizes)[:-1])
            began = rank.comm.now
            rank.began_s = began
            rank.backward(gradients, back.orders[rank.number], back.seconds)
            took[rank.number] = rank.comm.now - began

        return back, self._run(kind, back.sizes, 1, body), max(took)

    def few_bytes(self) -> None:
        back, ran, _ = self._backward("mean")
        least = least_bytes(back.elements)
        if ran.busiest_bytes <= MOST_BYTES * least:
            return
        calls = ran.calls[0]
        said = f"{ran.busiest_bytes} bytes on the busiest link, {least} fit {back.elements} numbers into full frames"
        each = sum(call.elements for call in calls) / len(calls)
        if sum(call.elements for call in calls) > 1.01 * back.elements:
            said += f": {sum(call.elements for call in calls)} numbers were sent. Send each once"
        else:
            said += f": {len(calls)} calls of {each:.0f} numbers on average, and the last frame of each is sent as"
            said += " if it were full. Larger buckets"
        raise Wrong(said, self.path)

    def time(self) -> None:
        back, ran, took = self._backward("mean")
        bound = back.bound_seconds(self.net)
        if took > MOST_TIME * bound:
            said = f"a step took {took * 1e6:.0f} us, {took / bound:.2f} times its lower bound of {bound * 1e6:.0f} us"
            raise Wrong(
                f"{said}, {MOST_TIME:g} are allowed: {explained_time(back, ran, self.net, took)}", self.path, self._look
            )

    # --- int8

    @property
    def _levels(self) -> int:
        return _SUMS // self.net.workers

    @property
    def _divide(self) -> str:
        return f": that is the sum over all ranks. Divide by their number, {self.net.workers}, once"

    def _is_sum(self, found: Floats, mean: Floats | NDArray[np.float64]) -> bool:
        """Whether a mean is about as many times too large as there are ranks."""
        n = self.net.workers
        room = 2 * n * float(np.abs(mean).max()) / self._levels
        large = np.abs(found - mean).max() > room / n
        return bool(large and np.abs(found - n * mean).max() <= room)

    def headroom(self) -> None:
        random = self.draws.generator("headroom")
        signs = random.choice((-1.0, 1.0), 203).astype(np.float32)
        every = [[[signs * np.float32(2.5)] for _ in range(self.net.workers)]]
        found, ran = self._means("int8", every)
        largest = max((call.largest for calls in ran.calls for call in calls), default=0)
        off = max(float(np.abs(means[0] - every[0][0][0]).max()) for means in found[0])
        if off <= 2.5 / self._levels:
            return
        said = f"all ranks have +2.5 and -2.5, and the mean is off by {off:.3g}"
        if self._is_sum(found[0][0][0], signs * 2.5):
            said += self._divide
        elif largest * self.net.workers > _SUMS:
            said += f": a field holds {largest}, and {self.net.workers} of these add up to"
            said += f" {largest * self.net.workers}, beyond {_SUMS}. It runs over into its neighbour: leave headroom"
        raise Wrong(said, self.path)

    def scale(self) -> None:
        random = self.draws.generator("scale")
        every = [
            [[random.normal(0, 10.0 ** (rank - 2), 90).astype(np.float32)] for rank in range(self.net.workers)]
            for _ in range(2)
        ]
        found, ran = self._means("int8", every[:1])
        parts = np.array([gradients[0] for gradients in every[0]], np.float64)
        unit = np.abs(parts).max() / self._levels
        for rank, means in enumerate(found[0]):
            off = float(np.abs(means[0] - parts.mean(axis=0)).max())
            if off > unit:
                said = f"ranks have gradients of different size, and the mean of rank {rank} is off by {off:.3g}"
                if self._is_sum(means[0], parts.mean(axis=0)):
                    raise Wrong(said + self._divide, self.path)
                if all(call.integers for call in ran.calls[0]):
                    said += ": nobody told the others a largest value. Fields can be added only if all have one scale"
                raise Wrong(f"{said}. Take the largest of all ranks", self.path)

    def quarter(self) -> None:
        back, ran, _ = self._backward("int8")
        most = MOST_INT8 * least_bytes(back.elements)
        if ran.busiest_bytes > most:
            said = f"{ran.busiest_bytes} bytes on the busiest link, {most:.0f} are allowed"
            if not any(call.integers for call in ran.calls[0]):
                said += ": no call has int32. Four integers of 8 bits fit into a word: pack, README step 5"
            elif sum(call.elements for call in ran.calls[0] if call.integers) >= back.elements:
                said += ": one integer in each word. Four of 8 bits fit: pack"
            else:
                said += f": {len(ran.calls[0])} calls, and each has some frames for itself. Larger buckets"
            raise Wrong(said, self.path)

    def feedback(self) -> None:
        unit = np.float32(1 / self._levels)
        random = self.draws.generator("feedback")
        small = (random.uniform(0.2, 0.4, 63) * random.choice((-1, 1), 63)).astype(np.float32) * unit
        gradient = np.concatenate([np.ones(1, np.float32), small])
        found, _ = self._means("int8", [[[gradient] for _ in range(self.net.workers)]] * _FEW)
        total = np.array([step[0][0] for step in found], np.float64).sum(axis=0)
        wanted = _FEW * gradient.astype(np.float64)
        off = np.abs(total - wanted)
        if off.max() <= 2 * unit:
            return
        place = int(np.argmax(off))
        said = f"in {_FEW} steps the gradients of one weight add up to {wanted[place]:.3g}, its means to"
        said += f" {total[place]:.3g}"
        if self._is_sum(found[0][0][0], gradient):
            said += self._divide
        elif not total[1:].any():
            said += ": each was less than half a step of the scale, and what rounding took away is lost. Keep it, and"
            said += " add it to the gradient of the next step (error feedback)"
        elif abs(total[0] / wanted[0] - 1) > _OFF:
            said += ": not even the largest gradient comes through, see the checks above"
        else:
            said += ": what rounding took away must be added in the next step, once"
        raise Wrong(said, self.path)
