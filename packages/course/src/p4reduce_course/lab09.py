"""Lab 09: data-parallel training through switches: buckets, their order, integers of 8 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.workers.training.digits import Dataset, Mlp
from p4reduce_course.culprit import Origin, passes, placed, repeated
from p4reduce_course.frame.grading import skeleton_of
from p4reduce_course.frame.lab import Draws, GradingTask, Lab, LabPart, LabStep, run_steps
from p4reduce_course.frame.report import Check, Wrong, counted
from p4reduce_course.python_change import Led, in_python
from p4reduce_course.python_trail import FEWER, MOST, led, trail_of
from p4reduce_course.ranks import LARGEST, Floats, LabRank, Net, Ranks, RanksRun, headroom, least_bytes
from p4reduce_course.sandbox.confine import ProcessLimits

# The models: tensors of a large model for times and bytes, and a small one with its own data for accuracy.

BLOCKS: Final = 16
SMALL: Final = 6
"""small tensors of a block, besides one large tensor"""
STEPS: Final = 80
"""steps of the small training"""
_WORDS, _CLASSES, _HEAD, _LENGTH = 80, 6, 64, 3
_TEXTS, _TESTS, _BATCH = 2000, 500, 64
_RATE: Final = 3.0


@dataclass(frozen=True)
class Backward:
    """One backward pass of a model of many tensors, at all ranks.

    Attributes:
        sizes: elements of the tensors, by index.
        orders: for each rank, indices in the order in which gradients become ready.
        seconds: time that each gradient takes to compute.
    """

    sizes: Sequence[int]
    orders: Sequence[Sequence[int]]
    seconds: Sequence[float]

    @property
    def elements(self) -> int:
        """Number of elements of all tensors."""
        return sum(self.sizes)

    def bound_seconds(self, net: Net) -> float:
        """Returns a lower bound in seconds: all that becomes ready at t or later must cross a link after t."""
        ready = [0.0] * len(self.sizes)
        for order in self.orders:
            now = 0.0
            for index in order:
                now += self.seconds[index]
                ready[index] = max(ready[index], now)
        least, behind = 0.0, 0
        for index in sorted(range(len(ready)), key=lambda tensor: -ready[tensor]):
            behind += self.sizes[index]
            least = max(least, ready[index] + net.wire_seconds(behind))
        return least


def backward_of(net: Net, draws: Draws) -> Backward:
    """Returns a pass over equal blocks of a large tensor and small ones; pairs of blocks are ready in any order."""
    random = draws.generator("tensors")
    block = [int(random.integers(10, 14)) * 1000] + [int(size) for size in random.integers(16, 200, SMALL)]
    sizes = block * BLOCKS
    whole = net.wire_seconds(sum(sizes)) * 1.1
    seconds = [whole * size / sum(sizes) for size in sizes]
    orders = []
    for _ in range(net.workers):
        order: list[int] = []
        for first in reversed(range(0, len(sizes), 2 * len(block))):
            order += [first + int(place) for place in random.permutation(2 * len(block))]
        orders.append(order)
    return Backward(sizes, orders, seconds)


class RanksTask:
    """Classifying texts of a few words, beside a second head whose gradients are large noise.

    A word is in few texts of a batch, so its gradient is small beside that of the second head: a hook that rounds all
    gradients with one scale and forgets the rounding errors learns no word.
    """

    def __init__(self, workers: int, draws: Draws) -> None:
        self.workers = workers
        random = draws.generator("texts")
        meaning = random.normal(0, 1, (_WORDS, _CLASSES))
        words = random.integers(0, _WORDS, (_TEXTS + _TESTS, _LENGTH))
        texts = np.zeros((len(words), _WORDS), np.float32)
        np.add.at(texts, (np.arange(len(words))[:, None], words), 1)
        everything = Dataset(texts, (texts @ meaning).argmax(axis=1))
        self.model = Mlp((_WORDS, _CLASSES))
        self.sizes = [_WORDS * _CLASSES, _CLASSES, _HEAD]
        self._train = everything.take(np.arange(_TEXTS))
        self._test = everything.take(np.arange(_TEXTS, len(words)))
        self._seed = int(random.integers(1 << 31))

    def initial(self) -> list[Floats]:
        """Returns the initial weights, by tensor."""
        return [np.zeros(size, np.float32) for size in self.sizes]

    def gradients(self, weights: Sequence[Floats], rank: int, step: int) -> list[Floats]:
        """Returns the gradients of a rank's batch, by tensor."""
        random = np.random.default_rng((self._seed, step, rank))
        shard = self._train.shard(rank, self.workers)
        batch = shard.take(random.integers(0, len(shard), _BATCH))
        flat = np.empty(self.model.size, np.float32)
        self.model.loss_and_gradient(np.concatenate(weights[:2]), batch.images, batch.labels, flat)
        loud = random.normal(0, 1, _HEAD).astype(np.float32)
        return [flat[: self.sizes[0]], flat[self.sizes[0] :], loud]

    def moved(self, weights: Sequence[Floats], means: Sequence[Floats]) -> list[Floats]:
        """Returns the weights after a step of SGD."""
        return [old - np.float32(_RATE) * mean for old, mean in zip(weights, means, strict=True)]

    def accuracy(self, weights: Sequence[Floats]) -> float:
        """Returns the share of the test data that is classified right."""
        return self.model.accuracy(np.concatenate(weights[:2]), self._test.images, self._test.labels)

    def alone(self, steps: int) -> list[Floats]:
        """Returns the weights after the same training in one process."""
        weights = self.initial()
        for step in range(steps):
            every = [self.gradients(weights, rank, step) for rank in range(self.workers)]
            weights = self.moved(weights, [np.mean(parts, axis=0) for parts in zip(*every, strict=True)])
        return weights


# Explanations of a wrong mean and of a slow step.

_NEAR: Final = 1e-5


def explained_mean(returned: Floats, parts: NDArray[np.float64], rank: int) -> str:
    """Returns what is wrong with the mean of an array (ranks, elements) of gradients; empty if nothing is wrong."""
    n = len(parts)
    mean = parts.mean(axis=0)
    room = _NEAR * float(np.abs(parts).max())

    def like(other: NDArray[np.float64]) -> bool:
        return bool((np.abs(returned - other) <= room).all())

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
    place = int(np.argmax(np.abs(returned - mean)))
    return f"element {place} is {returned[place]:.6g}, the mean is {mean[place]:.6g}"


def explained_time(back: Backward, ran: RanksRun, net: Net, took: float) -> str:
    """Returns why a step took longer than its bound."""
    calls = ran.calls[0]
    trips = len(calls) * net.trip_seconds
    each = back.elements / len(calls)
    if trips > took / 4:
        text = f"{len(calls)} calls, and each takes a round trip of {net.trip_seconds * 1e6:.1f} us however little is"
        return f"{text} in it ({each:.0f} numbers on average). Larger buckets"
    first, computing = calls[0].at_s - ran.began_s, sum(back.seconds)
    if first > computing / 2:
        text = f"the backward pass took {computing * 1e6:.0f} us, and the first of {counted(len(calls), 'call')} was"
        text += f" started after {first * 1e6:.0f} us"
        if (count := calls[0].elements) < back.elements / 2:
            ready = f"so many were ready after {computing * count / back.elements * 1e6:.0f} us"
            return f"{text}. It has {count} numbers, and {ready}: its tensors are late. The last index comes first"
        return f"{text}. Links are idle until then: smaller buckets, each started when it is full"
    return f"{len(calls)} calls of {each:.0f} numbers. What is ready is to be sent while the backward pass goes on"


FILE: Final = "hook.py"
MOST_TIME: Final = 1.35
"""most time of a step, in multiples of its lower bound"""
MOST_BYTES: Final = 1.09
"""most bytes, in multiples of full frames: each call adds a few frames, in which ranks agree on a scale"""
MOST_INT8: Final = 0.3
"""most bytes with int8, in multiples of those of float32"""
MOST_LOST: Final = 0.04
"""most accuracy that may be lost against float32"""
_MORE: Final = {3: 4, 4: 6, 5: 8}
"""numbers of ranks of some checks, by the student's: with 4 or 8, 128 // n is more than 127 // n"""
_ORDERS: Final = 2
"""steps in which gradients become ready in any order"""
_EQUAL: Final = 15
"""steps after which weights are compared"""
_OFF: Final = 0.2
"""largest relative error of the largest gradient, which error feedback hardly changes"""
_FEW: Final = 20
"""steps within which rounding errors must be added"""
_HASTY: Final = 6
"""the same, of a look at changed code"""
_STRICTER: Final = 0.55
"""share of the errors that a check allows: rounding makes half of them, and a mend must not be a lucky one"""
_SHRUNK: Final = 200.0
"""so many times smaller are gradients whose predecessors left larger rounding errors"""
_AFTER: Final = 6
"""steps with smaller gradients, in which even fields that are cut off bring all that was left"""
_LARGE: Final = 40_000
"""elements of a tensor that usually fills a bucket alone"""
_FEWER: Final = 8
"""steps with tensors of `_LARGE` elements"""


_CHANGES: Final = {
    "the mean of two tensors": 220,
    "the next step begins anew": 100,
    "equal weights on all ranks": 20,
    "ready in another order on each rank": 30,
    "bytes on the links": 12,
    "time over the bound": 12,
    "the largest values, on all ranks at once": 150,
    "one scale for all ranks": 120,
    "a quarter of the bytes": 20,
    "what rounding took away comes later": 70,
}
"""most changes that are tried, by the title of the check that fails"""
_LAST: Final = "the model learns as well"
"""title of the check that takes longest"""
_GRADED: Final = 5
"""most changes that are graded because they passed a look"""
_SLOWER: Final = 3
"""by what fewer changes are tried where a look does not show the mistake"""
_JOINED: Final = 4
"""most tensors of a call in a text"""
_BEYOND: Final = 1e9
"""a number of no tensor"""
_LIMITS: Final = ProcessLimits(cpu_s=3)
"""limits of changed code"""


def _joined(sent: Mapping[int, Sequence[Floats]], tensor: int) -> str:
    """Returns how ranks differ in a call in which one of them sends a tensor; empty if they do not.

    ``sent``: what the calls of each rank have sent; of tensor ``i``, some numbers are ``i + 1``, others 0.
    """
    for call, arrays in enumerate(zip(*(sent[rank] for rank in sorted(sent)), strict=False)):
        numbers = [np.rint(np.clip(array[array != 0], -_BEYOND, _BEYOND)).astype(int) for array in arrays]
        held = [list(dict.fromkeys((rounded - 1).tolist())) for rounded in numbers]
        other = next((rank for rank, tensors in enumerate(held) if tensors != held[0]), 0)
        if other and any(tensor in tensors for tensors in held):
            pairs = zip(held[0], held[other], strict=False)
            place = next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), 0)
            first, second = (
                f"{'..., ' if place else ''}{', '.join(map(str, held[rank][place : place + _JOINED]))}, ..."
                for rank in (0, other)
            )
            how = "the same tensors in another order" if sorted(held[0]) == sorted(held[other]) else "other tensors"
            return f": call {call} has {how} on rank {other} ({second}) than on rank 0 ({first})"
    return ""


def net_of(draws: Draws) -> Net:
    """Returns the network of a student."""
    workers, rate = draws.integer("workers", 3, 5), draws.choice("rate", (10, 25))
    return Net(workers, rate, draws.integer("delay", 2, 4) if rate == 10 else 1)


def grade(task: GradingTask) -> Iterator[Check]:
    """Yields all checks of lab 09."""
    with Ranks(task.answers / FILE, task.seen) as ranks:
        steps = repeated(_Grader(task, ranks).steps(), ranks.codes, task.folder)
        yield from run_steps(task, placed(task, steps, lambda step: _place(task, ranks, step)))


def _place(task: GradingTask, ranks: Ranks, step: LabStep) -> Origin:
    """Returns where a failed check comes from: from the line whose change mends its part, and the trail."""
    file, most, where = task.answers / FILE, _CHANGES.get(step.title, 0), ""
    every, few = (trail_of(task, FILE, ranks.codes, anew=True, most=sentences) for sentences in (MOST, FEWER))

    def mine(other: Ranks, **rehearsal: bool) -> list[LabStep]:
        other.rehearsed = bool(rehearsal)
        every = _Grader(task, other, **rehearsal).steps()
        return [new for new in every if (new.part == "int8") == (step.part == "int8") and new.title != _LAST]

    def passes_it(other: Ranks, **rehearsal: bool) -> bool:
        return passes(new for new in mine(other, **rehearsal) if new.title == step.title)

    graded = 0

    def passes_all(other: Ranks) -> bool:
        nonlocal graded
        rehearsed = step.part == "buckets" or passes_it(other, hasty=hasty)
        if not rehearsed or (step.part != "int8" and not passes(mine(other, hasty=True))) or graded >= _GRADED:
            return False
        graded += 1
        return passes_it(other) and passes(mine(other))

    if most:
        near, what = led(task, FILE, ranks.codes, anew=True), "all but part int8, which was not tried"
        other = Ranks(file, {}, _LIMITS)  # not those that are graded: a look must not change what comes after it
        if step.part == "int8":
            near = _beside_right(task, other, near)
            what = "all of part int8 but the training, which was not tried"
        hasty = not passes_it(other, hasty=True)  # a look shows the mistake, too
        spare, most = [other], most if hasty else most // _SLOWER
        where = in_python(
            file, skeleton_of(task, FILE), near, lambda: spare.pop() if spare else Ranks(file, {}, _LIMITS),
            passes_all, most, what,
        )  # fmt: skip
    return Origin(where, few if where else every)


def _beside_right(task: GradingTask, ranks: Ranks, near: Led) -> Led:
    """Returns lines that led to a mistake with int8, those last that also lead to what is right in one step."""
    grader, lines = _Grader(task, ranks), list(near.lines)
    for check in (grader.headroom, grader.mean):
        if passes([LabStep("", "", check)]):
            right = set(led(task, FILE, ranks.codes, anew=True).lines)
            lines.sort(key=right.__contains__)
    return replace(near, lines=lines)


class _Grader:
    def __init__(self, task: GradingTask, ranks: Ranks, *, hasty: bool = False) -> None:
        """Makes the checks; ``hasty``: with fewer steps and less room for errors, which shows most mistakes."""
        self.ranks, self.hasty = ranks, hasty
        self.most = _STRICTER if hasty else 1.0  # errors, in multiples of those that are allowed
        self.net = net_of(task.personal)
        self.draws = task.hidden
        self.path = str(task.answers / FILE)
        self.measured: dict[str, tuple[Backward, RanksRun, float]] = {}

    def steps(self) -> list[LabStep]:
        return [
            LabStep("mean", "the mean of two tensors", self.mean),
            LabStep("mean", "the next step begins anew", self.anew),
            LabStep("mean", "equal weights on all ranks", lambda: self.trained("mean", _EQUAL)),
            LabStep("order", "ready in another order on each rank", self.order),
            LabStep("buckets", "bytes on the links", self.few_bytes),
            LabStep("buckets", "time over the bound", self.time),
            LabStep("int8", "the largest values, on all ranks at once", self.headroom),
            LabStep("int8", "one scale for all ranks", self.scale),
            LabStep("int8", "a quarter of the bytes", self.quarter),
            LabStep("int8", "what rounding took away comes later", self.feedback),
            LabStep("int8", _LAST, lambda: self.trained("int8", STEPS)),
        ]

    def _run(
        self, kind: str, sizes: Sequence[int], steps: int, body: Callable[[LabRank, int], None], workers: int = 0
    ) -> RanksRun:
        def all_steps(rank: LabRank) -> None:
            for step in range(steps):
                body(rank, step)

        return self.ranks.run(replace(self.net, workers=workers or self.net.workers), kind, sizes, steps, all_steps)

    def _means(
        self, kind: str, every: Sequence[Sequence[Sequence[Floats]]]
    ) -> tuple[list[list[list[Floats]]], RanksRun]:
        """Runs the hook on gradients by step, rank and tensor; returns its means by step and rank."""
        means: list[list[list[Floats]]] = [[[] for _ in step] for step in every]

        def body(rank: LabRank, step: int) -> None:
            gradients = every[step][rank.number]
            means[step][rank.number] = rank.backward(gradients, range(len(gradients) - 1, -1, -1))

        sizes = [gradient.size for gradient in every[0][0]]
        return means, self._run(kind, sizes, len(every), body, len(every[0]))

    def _drawn(self, name: str, sizes: Sequence[int], steps: int, workers: int) -> list[list[list[Floats]]]:
        random = self.draws.generator(name)
        return [
            [[random.normal(0, 1, size).astype(np.float32) for size in sizes] for _ in range(workers)]
            for _ in range(steps)
        ]

    def _with_more(self, check: Callable[[int], None]) -> None:
        """Runs a check with the student's number of ranks, and with more. Raises Wrong."""
        own, more = self.net.workers, _MORE[self.net.workers]
        check(own)
        try:
            check(more)
        except Wrong as wrong:
            text = f"with {more} ranks: {wrong.finding.said}. With {own} ranks all was right"
            raise Wrong(f"{text}: network.workers tells how many there are", wrong.finding.where) from None

    # --- mean

    def _exact(self, name: str, steps: int, workers: int, zeros: int | None = None) -> None:
        """Checks means of drawn gradients; those of rank ``zeros`` are all 0. Raises Wrong."""
        every = self._drawn(name, [40, 300, 7], steps, workers)
        if zeros is not None:
            for given in every:
                given[zeros] = [np.zeros_like(gradient) for gradient in given[zeros]]
        returned, _ = self._means("mean", every)
        for step, (given, got) in enumerate(zip(every, returned, strict=True)):
            for rank, means in enumerate(got):
                for index, mean in enumerate(means):
                    parts = np.array([gradients[index] for gradients in given], np.float64)
                    reason = explained_mean(mean, parts, rank)
                    if reason:
                        raise Wrong(f"step {step}, rank {rank}, tensor {index}: {reason}", self.path)

    def mean(self) -> None:
        self._with_more(lambda workers: self._exact("mean", 1, workers))
        try:
            self._exact("mean", 1, self.net.workers, zeros=1)
        except Wrong as wrong:
            text = f"when the gradients of rank 1 are all 0: {wrong.finding.said}. With others all was right"
            raise Wrong(text, wrong.finding.where) from None

    def anew(self) -> None:
        try:
            self._exact("anew", 3, self.net.workers)
        except Wrong as wrong:
            text = wrong.finding.said
            with suppress(Wrong):
                self._exact("anew", 1, self.net.workers)
                text += ". The first step was right: does finish leave something behind?"
            with suppress(Wrong):
                self._exact("anew", 3, self.net.workers)  # the last calls are those that are traced and repeated
            raise Wrong(text, wrong.finding.where) from None

    def trained(self, kind: str, steps: int) -> None:
        task = RanksTask(self.net.workers, self.draws)
        weights = [task.initial() for _ in range(self.net.workers)]

        def body(rank: LabRank, step: int) -> None:
            mine = weights[rank.number]
            means = rank.backward(task.gradients(mine, rank.number, step), (2, 1, 0))
            weights[rank.number] = task.moved(mine, means)

        self._run(kind, task.sizes, steps, body)
        for rank, others in enumerate(weights):
            for index, (first, other) in enumerate(zip(weights[0], others, strict=True)):
                if first.tobytes() != other.tobytes():
                    off = float(np.abs(first - other).max())
                    text = f"after {steps} steps ranks 0 and {rank} differ in tensor {index}, by up to {off:.3g}"
                    raise Wrong(f"{text}: finish must give the same numbers on every rank", self.path)
        accuracy, wanted = task.accuracy(weights[0]), task.accuracy(task.alone(steps))
        if accuracy < wanted - MOST_LOST:
            text = f"after {steps} steps {accuracy:.1%} of the texts are sorted right, with float32 {wanted:.1%}"
            if kind == "int8":
                text += ": small gradients are lost beside large ones. Do they come later (error feedback)?"
            raise Wrong(text, self.path)

    # --- order and buckets

    def order(self) -> None:
        back = backward_of(self.net, self.draws)
        workers, random = self.net.workers, self.draws.generator("any order")
        # No time is measured: all tensors change places, so that buckets of any size become full in any order.
        orders = [[random.permutation(len(back.sizes)).tolist() for _ in range(workers)] for _ in range(_ORDERS)]
        # Element e of tensor i is i + 1 at rank e mod n and 0 at the others: a sum tells which rank gave which tensor.
        given = [
            [np.where(np.arange(size) % workers == rank, index + 1, 0).astype(np.float32) for rank in range(workers)]
            for index, size in enumerate(back.sizes)
        ]

        sent: list[dict[int, list[Floats]]] = [{} for _ in orders]

        def body(rank: LabRank, step: int) -> None:
            sent[step][rank.number] = rank.arrays = []
            means = rank.backward([parts[rank.number] for parts in given], orders[step][rank.number])
            for index, mean in enumerate(means):
                told = np.rint(mean.astype(np.float64) * workers).astype(np.int64) - 1
                if (told == index).all():
                    continue
                place = int(np.flatnonzero(told != index)[0])
                text = f"rank {rank.number}, tensor {index}: element {place} of its mean is wrong"
                if 0 <= told[place] < len(back.sizes):
                    text = f"rank {rank.number}, tensor {index}: in its mean is what rank {place % workers} gave for"
                    text += f" tensor {told[place]}{_joined(sent[step], index)}"
                raise Wrong(
                    f"{text}. Gradients become ready in another order on each rank: buckets hold the same tensors in "
                    "the same order on all of them, and are started in one order",
                    self.path,
                )

        try:
            self._run("mean", back.sizes, _ORDERS, body)
        except Wrong:
            self.mean()  # a mean that is wrong even in one order must be repaired first
            self._run("mean", back.sizes, _ORDERS, body)  # the last calls are those that are traced and repeated
            raise

    @property
    def _look(self) -> str:
        """Returns a command that shows the cost of a small call."""
        net = self.net
        command = f"p4reduce run -t star:hosts={net.workers} --rate {net.rate_gbps}G --delay {net.delay_us}us"
        return f"{command} --elements 100 --repeat 10"

    def _backward(self, kind: str) -> tuple[Backward, RanksRun, float]:
        """Returns a step of the large model, its run and its time in seconds; each kind is run once for all checks."""
        if kind not in self.measured:
            self.measured[kind] = self._measure(kind)
        return self.measured[kind]

    def _measure(self, kind: str) -> tuple[Backward, RanksRun, float]:
        back = backward_of(self.net, self.draws)
        took = [0.0] * self.net.workers

        def body(rank: LabRank, _: int) -> None:
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
        text = f"{ran.busiest_bytes} bytes on the busiest link, {least} fit {back.elements} numbers into full frames"
        each = sum(call.elements for call in calls) / len(calls)
        if sum(call.elements for call in calls) > 1.01 * back.elements:
            text += f": {sum(call.elements for call in calls)} numbers were sent. Send each once"
        else:
            text += f": {len(calls)} calls of {each:.0f} numbers on average, and the last frame of each is sent as"
            text += " if it were full. Larger buckets"
        raise Wrong(text, self.path)

    def time(self) -> None:
        back, ran, took = self._backward("mean")
        bound = back.bound_seconds(self.net)
        if took > MOST_TIME * bound:
            text = f"a step took {took * 1e6:.0f} us, {took / bound:.2f} times its lower bound of {bound * 1e6:.0f} us"
            raise Wrong(
                f"{text}, {MOST_TIME:g} are allowed: {explained_time(back, ran, self.net, took)}", self.path, self._look
            )

    # --- int8

    @property
    def _levels(self) -> int:
        return LARGEST // self.net.workers

    @property
    def _divide(self) -> str:
        return f": that is the sum over all ranks. Divide by their number, {self.net.workers}, once"

    def _is_sum(self, returned: Floats, mean: Floats | NDArray[np.float64]) -> bool:
        """Returns whether a returned mean is about the sum, that is, the mean times the number of ranks."""
        n = self.net.workers
        room = 2 * n * float(np.abs(mean).max()) / self._levels
        large = np.abs(returned - mean).max() > room / n
        return bool(large and np.abs(returned - n * mean).max() <= room)

    def headroom(self) -> None:
        self._with_more(self._headroom)

    def _headroom(self, n: int) -> None:
        random = self.draws.generator("headroom")
        sizes = np.concatenate([np.full(102, 2.5), random.uniform(0.0, 2.5, 202)])
        gradient = (random.choice((-1.0, 1.0), sizes.size) * sizes).astype(np.float32)
        returned, ran = self._means("int8", [[[gradient] for _ in range(n)]])
        levels = LARGEST // n
        largest = max((call.largest for calls in ran.calls for call in calls), default=0)
        off = max(float(np.abs(means[0] - gradient).max()) for means in returned[0])
        if off <= self.most * 2.5 / levels:
            return
        text = f"all ranks have the same numbers from -2.5 to 2.5, and the mean is off by {off:.3g}"
        if n == self.net.workers and self._is_sum(returned[0][0][0], gradient):
            text += self._divide
        elif 0 < largest <= levels / 2:
            text += f": no field holds more than {largest}, and {levels} fit"
            if abs(largest - levels / n) <= 1:
                text += ". The unit follows from the largest of all ranks' values, not from their sum: each has its own"
                text += " place, at the index of its rank"
            else:
                text += ": the unit is too large"
        elif largest * n > LARGEST:
            text += f": a field holds {largest}, and {n} of these add up to {largest * n}, beyond {LARGEST}. It runs"
            text += f" over into its neighbour: {headroom(n)}"
        raise Wrong(text, self.path)

    def scale(self) -> None:
        n, random = self.net.workers, self.draws.generator("scale")
        self._one_scale(random, range(n))
        for first in range(1, n):  # another rank is the largest each time, and the smallest has zeros alone
            self._one_scale(random, [(rank + first) % n for rank in range(n)], zeros=True)
        self._zeros()

    def _one_scale(self, random: np.random.Generator, ranked: Sequence[int], *, zeros: bool = False) -> None:
        """Raises Wrong unless means are right where ranks are of different size: ``ranked``, the smallest first."""
        sizes = {rank: 10.0 ** (place - 2) for place, rank in enumerate(ranked)}
        ranks = [[-np.abs(random.normal(0, sizes[rank], 90)).astype(np.float32)] for rank in sorted(sizes)]
        if zeros:
            ranks[ranked[0]] = [np.zeros(90, np.float32)]
        try:
            returned, ran = self._means("int8", [ranks])
        except Wrong as wrong:
            if not zeros:
                raise
            text = f"all gradients of rank {ranked[0]} are 0, those of others are not: {wrong.finding.said}"
            raise Wrong(text, wrong.finding.where) from None
        parts = np.array([gradients[0] for gradients in ranks], np.float64)
        unit = np.abs(parts).max() / self._levels
        for rank, means in enumerate(returned[0]):
            off = float(np.abs(means[0] - parts.mean(axis=0)).max())
            if off > self.most * unit:
                text = f"ranks have gradients of different size, the largest at rank {ranked[-1]}, and the mean of rank"
                text += f" {rank} is off by {off:.3g}"
                if self._is_sum(means[0], parts.mean(axis=0)):
                    raise Wrong(text + self._divide, self.path)
                if all(call.integers for call in ran.calls[0]):
                    text += ": no rank told the others its largest value. Fields add up only if all have one scale"
                raise Wrong(f"{text}. Take the largest of all ranks, negative ones by their absolute value", self.path)

    def _zeros(self) -> None:
        ones = [np.ones(5, np.float32)]
        text = "in one step all gradients of a bucket are 0, in the next one all are 1:"
        try:
            after, _ = self._means("int8", [[[0 * ones[0]]] * self.net.workers, [ones] * self.net.workers])
        except Wrong as wrong:
            text += f" {wrong.finding.said}. Is something divided by the largest value, 0?"
            raise Wrong(text, wrong.finding.where) from None
        for step in (0, 1):
            mean = after[step][0][0]
            if not np.abs(mean - step).max() <= 1 / self._levels:  # also true for NaN
                raise Wrong(f"{text} the mean of {step} is {mean[0]:.3g}. Is something divided by 0?", self.path)

    def quarter(self) -> None:
        back, ran, _ = self._backward("int8")
        most = MOST_INT8 * least_bytes(back.elements)
        if ran.busiest_bytes > most:
            text = f"{ran.busiest_bytes} bytes on the busiest link, {most:.0f} are allowed"
            if not any(call.integers for call in ran.calls[0]):
                text += ": no call has int32. Four integers of 8 bits fit into a word: pack, README step 5"
            elif sum(call.elements for call in ran.calls[0] if call.integers) >= back.elements:
                text += ": one integer in each word. Four of 8 bits fit: pack"
            else:
                text += f": {len(ran.calls[0])} calls, and each has some frames for itself. Larger buckets"
            raise Wrong(text, self.path)

    def feedback(self) -> None:
        unit = np.float32(1 / self._levels)
        random = self.draws.generator("feedback")
        small = (random.uniform(0.2, 0.4, 63) * random.choice((-1, 1), 63)).astype(np.float32) * unit
        gradient = np.concatenate([np.ones(1, np.float32), small])
        self._comes_later([gradient], _HASTY if self.hasty else _FEW)
        self._outlasts(gradient)
        if self.hasty:
            return
        small = (random.uniform(0.35, 0.4, _LARGE) * random.choice((-1, 1), _LARGE)).astype(np.float32) * unit
        small[0] = 1.0
        self._comes_later([small, small[::-1] * np.float32(1 / 16)], _FEWER)

    def _comes_later(self, gradients: Sequence[Floats], steps: int) -> None:
        """Gives all ranks the same gradients in each step. Raises Wrong unless the means add up to their sum."""
        returned, _ = self._means("int8", [[gradients for _ in range(self.net.workers)]] * steps)
        for index, gradient in enumerate(gradients):
            unit = np.float32(np.abs(gradient).max() / self._levels)
            total = np.array([step[0][index] for step in returned], np.float64).sum(axis=0)
            wanted = steps * gradient.astype(np.float64)
            off = np.abs(total - wanted)
            if off.max() <= self.most * 2 * unit:
                continue
            place, most = int(np.argmax(off)), int(np.argmax(np.abs(gradient)))
            text = f"in {steps} steps the gradients of one weight add up to {wanted[place]:.3g}, its means to"
            text += f" {total[place]:.3g}"
            if self._is_sum(returned[0][0][index], gradient):
                text += self._divide
            elif len(gradients) > 1:
                text += f", with {len(gradients)} tensors of {gradient.size} numbers; with one small one all was right."
                text += " What rounding took away from a bucket comes in the same bucket's next step"
            elif not np.delete(total, most).any():
                text += ": each was less than half a step of the scale, and what rounding took away is lost. Keep it,"
                text += " and add it to the gradient of the next step (error feedback)"
            elif abs(total[most] / wanted[most] - 1) > _OFF:
                text += ": not even the largest gradient comes through, see the checks above"
            else:
                text += ": what rounding took away must be added in the next step, once"
            raise Wrong(text, self.path)

    def _outlasts(self, gradient: Floats) -> None:
        """Raises Wrong unless what one step left comes in steps whose gradients, and so their unit, are far smaller."""
        less = gradient / np.float32(_SHRUNK)
        steps = [gradient, *[less] * _AFTER]
        text = f"in {len(steps)} steps, all but the first with gradients {_SHRUNK:g} times smaller,"
        same = ". With gradients of one size all was right."
        both = f"{same} What rounding took away may be larger than the next gradient: leave headroom for both"
        try:
            returned, ran = self._means("int8", [[[step] for _ in range(self.net.workers)] for step in steps])
        except Wrong as wrong:
            raise Wrong(f"{text} {wrong.finding.said}{both}", wrong.finding.where) from None
        total = np.array([step[0][0] for step in returned], np.float64).sum(axis=0)
        wanted = np.array(steps, np.float64).sum(axis=0)
        off = np.abs(total - wanted)
        if off.max() <= self.most * 2 * np.abs(less).max() / self._levels:
            return
        place = int(np.argmax(off))
        text += f" those of one weight add up to {wanted[place]:.3g}, its means to {total[place]:.3g}"
        largest = max((call.largest for call in ran.calls[0]), default=0)
        if largest * self.net.workers > LARGEST:
            text += f": a field holds {largest}, and {self.net.workers} of these run over into their neighbours{both}"
        else:
            text += (
                f"{same} Is what rounding took away kept as a number, and not in units, which change with the scale?"
            )
        raise Wrong(text, self.path)


def _parameters(draws: Draws) -> Mapping[str, str]:
    net = net_of(draws)
    link = {"rate": f"{net.rate_gbps}G", "delay": f"{net.delay_us}us"}
    return {"workers": str(net.workers), **link, "levels": str(127 // net.workers)}


LAB: Final = Lab(
    number="09",
    name="09-train",
    title="train",
    minutes=90,
    parts=(
        LabPart("mean", "the mean, equal weights on all ranks", 25),
        LabPart("order", "gradients that become ready in any order", 20),
        LabPart("buckets", "bytes on the links, time over the bound", 25),
        LabPart("int8", "a quarter of the bytes, and the model learns as well", 30),
    ),
    files=(FILE,),
    grade=grade,
    praise="equal weights on all ranks, few bytes, little time",
    parameters=_parameters,
)
