"""Guessed exponents: their saving, the cost of a wrong guess, and how often guesses are wrong in a training."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.counters import plan_bound
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.jobs.asynchronous import Clockwork, TaskChannels
from p4reduce.network.jobs.network import NO_FAULTS, EmbeddedSwitches, JobNetwork, bundled
from p4reduce.network.jobs.specs import JobNumbers, expect_sum
from p4reduce.network.virtual.records import Faults
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import build_topology
from p4reduce.workers.numbers import BlockFloat, FixedScale
from p4reduce.workers.operation import DEPTH, Exponents, Post, exponents_of, guess, missed
from p4reduce.workers.records import Collective
from p4reduce.workers.training.loops import TrainingOptions, TrainingTask, single_threaded_blas

# Consecutive collectives: the cost of a round trip for exponents, and the saving when collectives are announced ahead.


COUNT: Final = 10
ELEMENTS: Final = 262_144
"""1 MiB"""
RATE: Final = "100G"
CASES: Final = (("block", False, None), ("block", True, 1.055), ("fixed", False, None))
"""numbers, whether announced, the highest ratio allowed (it includes the first collective, which is never announced)"""


@dataclass(frozen=True)
class BackToBack:
    """ratio: time of all collectives over ``count`` bounds. spared: chunks without a frame for exponents."""

    ratio: float
    spared: int
    differences: int


def back_to_back(rate: str, elements: int, count: int, *, numbers: str, announced: bool) -> BackToBack:
    """Run ``count`` all-reduces in a row on leaf-spine-8 and check every sum.

    numbers: ``block`` or ``fixed``. announced: each is called while the previous one runs; otherwise when it is done.
    """
    topology = build_topology(Experiment(topology="leaf-spine-8", rate=rate))
    workers = [worker.name for worker in topology.workers]
    scale: JobNumbers = BlockFloat() if numbers == "block" else FixedScale(16384.0)
    rng = np.random.default_rng(1)
    given = [[rng.integers(-8, 8, elements).astype(np.float32) for _ in workers] for _ in range(count)]
    got = [[np.zeros(elements, np.float32) for _ in workers] for _ in range(count)]
    with EmbeddedSwitches(topology, bundled(256)) as switches, JobNetwork(switches) as network:
        clockwork = Clockwork(network)
        request = PlanRequest(plan="steiner", job=1)
        channels = TaskChannels.install(clockwork, switches.controller, request, [None], scale)
        job = channels.jobs[0]

        def post(place: int, number: int) -> None:
            if number < count:
                sum_post = Post(Collective.ALL_REDUCE, given[number][place], got[number][place], number)
                then = (lambda _done: None) if announced else (lambda _done: post(place, number + 1))
                channels.post(workers[place], 0, sum_post, then)

        began = network.now
        for place in range(len(workers)):
            for number in range(count if announced else 1):
                post(place, number)
        clockwork.run()
        took = network.done_ps(job) - began
        for _ in range(count):
            job.note("all_reduce", elements)
        network.advance()
        predicted = job.predicted()
        links = network.fabric.links
        differences = sum(predicted[hop].bytes != link.inc_first_bytes for hop, link in links.items())
        bound = plan_bound(job.plan, elements).time_ps
    for inputs, outputs in zip(given, got, strict=True):
        total = sum(inputs)
        if not all(np.array_equal(output, total) for output in outputs):
            raise AssertionError("a sum is wrong")
    return BackToBack(took / (count * bound), job.spared, differences)


def in_a_row(numbers: str, announced: bool, bar: float | None) -> dict[str, Any]:
    """Measure one of ``CASES``."""
    run = back_to_back(RATE, ELEMENTS, COUNT, numbers=numbers, announced=announced)
    return {
        "rate": RATE,
        "elements": ELEMENTS,
        "numbers": numbers,
        "announced": announced,
        "ratio": round(run.ratio, 4),
        "bar": bar,
        "spared": run.spared,
        "differences": run.differences,
    }


LANES: Final = 256
WORKERS: Final = 8
WRONG: Final = (0, 1, 8, 32)
"""numbers of chunks per all-reduce with wrong guesses"""
LOSSES: Final = (0.001, 0.01, 0.05)
SEEDS: Final = (3, 4, 5)
BAR: Final = 1.055
Floats = NDArray[np.float32]


def random(elements: int, seed: int, count: int) -> Iterator[list[Floats]]:
    """Yield ``count`` all-reduces of random numbers with the same distribution."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield [rng.standard_normal(elements, dtype=np.float32) for _ in range(WORKERS)]


def scaled(wrong: int, count: int) -> Iterator[list[Floats]]:
    """Yield ``count`` all-reduces of whole numbers; their first ``wrong`` chunks grow by 8 bits at each step."""
    rng = np.random.default_rng(1)
    arrays = [rng.integers(-8, 8, ELEMENTS).astype(np.float32) for _ in range(WORKERS)]
    for _ in range(count):
        yield [array.copy() for array in arrays]
        for array in arrays:
            array[: wrong * LANES] *= 2.0**8


def gradients(elements: int) -> Iterator[list[Floats]]:
    """Yield the first ``elements`` of each worker's gradient for all iterations of the digits training."""
    with single_threaded_blas():
        options = TrainingOptions()
        tasks = [TrainingTask(options, rank, WORKERS) for rank in range(WORKERS)]
        parameters = tasks[0].model.initial(options.seed)
        velocity = np.zeros_like(parameters)
        for iteration in range(tasks[0].iterations):
            raw = [np.empty_like(parameters) for _ in tasks]
            for task, gradient in zip(tasks, raw, strict=True):
                task.gradient(parameters, iteration, gradient)
            yield [gradient[:elements].copy() for gradient in raw]
            velocity = np.float32(options.momentum) * velocity + np.sum(raw, axis=0)
            parameters -= np.float32(options.learning_rate / WORKERS) * velocity


@dataclass(frozen=True)
class Guessed:
    """Ratios of all-reduce times to the plan's bound, and the number of repeated chunks in each all-reduce.

    differences: links whose byte counts differ from the prediction. guessed: first chunks whose exponents are guessed.
    """

    ratios: list[float]
    again: list[int]
    differences: int
    guessed: int


def on_packets(
    rounds: Iterator[list[Floats]], *, speculates: bool, faults: Faults = NO_FAULTS, seed: int = 0
) -> Guessed:
    """Run all-reduces one after the other. Raises AssertionError if a sum deviates by more than its error bound."""
    topology = build_topology(Experiment(topology="leaf-spine-8", rate=RATE))
    numbers = BlockFloat(speculates=speculates)
    ratios, again = [], []
    with (
        EmbeddedSwitches(topology, bundled(LANES)) as switches,
        JobNetwork(switches, faults=faults, seed=seed) as network,
    ):
        clockwork = Clockwork(network)
        channels = TaskChannels.install(
            clockwork, switches.controller, PlanRequest(plan="steiner", job=1), [None], numbers
        )
        (job,) = channels.jobs
        for number, given in enumerate(rounds):
            elements = given[0].size
            began, before = network.now, job.repeated
            got = [np.zeros_like(array) for array in given]
            for worker, source, target in zip(job.plan.workers, given, got, strict=True):
                post = Post(Collective.ALL_REDUCE, source, target, number)
                channels.post(worker, 0, post, lambda _done: None)
            clockwork.run()
            ratios.append((network.done_ps(job) - began) / plan_bound(job.plan, elements).time_ps)
            again.append(job.repeated - before)
            job.note("all_reduce", elements)
            expected = expect_sum(given, numbers, LANES, guessed=job.guessed)
            if any(expected.deviation(total).worst_ratio > 1 for total in got):
                raise AssertionError("a sum is wrong")
        network.advance()
        predicted = job.predicted()
        differences = sum(predicted[hop].bytes != link.inc_first_bytes for hop, link in network.fabric.links.items())
    return Guessed(ratios, again, differences, job.guessed)


def wrong_guesses() -> list[dict[str, Any]]:
    """Return rates of wrong guesses for the digits' gradients in the first chunks of an all-reduce, by slack bits."""
    first = on_packets(scaled(0, 2), speculates=True).guessed
    agreed = [
        np.max([exponents_of(gradient, LANES)[:first] for gradient in given], axis=0) for given in gradients(ELEMENTS)
    ]
    rows = []
    for depth in (1, DEPTH):
        for slack in (0, 1, 2):
            larger, smaller, operations = _misses(agreed, depth, slack)
            rows.append({"of": depth, "slack": slack, "larger": larger, "smaller": smaller, "operations": operations})
    return rows


def _misses(agreed: list[Exponents], depth: int, slack: int) -> tuple[float, float, float]:
    """Return means: chunks per all-reduce above their guess, chunks too far below, share of all-reduces with either."""
    seen: deque[Exponents] = deque([agreed[0]], maxlen=depth)
    larger, wrong = [], []
    for truths in agreed[1:]:
        guesses = guess(seen, slack)
        larger.append(np.count_nonzero(truths > guesses))
        wrong.append(np.count_nonzero(missed(guesses, truths)))
        seen.append(truths)
    return (
        round(float(np.mean(larger)), 2),
        round(float(np.mean(wrong) - np.mean(larger)), 2),
        round(float(np.mean(np.array(wrong) > 0)), 2),
    )


def under_loss(elements: int, loss: float) -> dict[str, Any]:
    """Return mean ratios of the second to fourth all-reduce of random numbers on lossy links: guessed and waiting."""
    row: dict[str, Any] = {"elements": elements, "loss": loss}
    for name, speculates in (("guessed", True), ("waiting", False)):
        ratios: list[float] = []
        for seed in SEEDS:
            rounds = random(elements, seed, 4)
            ratios += on_packets(rounds, speculates=speculates, faults=Faults(loss=loss), seed=seed).ratios[1:]
        row[name] = round(float(np.mean(ratios)), 4)
    return row


def guess_cells() -> list[Callable[[], dict[str, Any]]]:
    """Return the cells: all-reduces with given numbers of wrong guesses, and of gradients, guessed and waiting."""
    wrong = [partial(_guesses, f"{count} wrong", partial(scaled, count, 4), True) for count in WRONG]
    return wrong + [partial(_guesses, "gradients", partial(gradients, ELEMENTS), guessed) for guessed in (True, False)]


def _guesses(name: str, rounds: Callable[[], Iterator[list[Floats]]], speculates: bool) -> dict[str, Any]:
    """Measure one cell; the means leave out the first all-reduce of a run, for which there is no guess."""
    run = on_packets(rounds(), speculates=speculates)
    return {
        "inputs": name,
        "speculates": speculates,
        "ratio": round(float(np.mean(run.ratios[1:])), 4),
        "worst": round(max(run.ratios[1:]), 4),
        "again": round(float(np.mean(run.again[1:])), 2),
        "bar": BAR if speculates and name in {"0 wrong", "gradients"} else None,
        "differences": run.differences,
    }
