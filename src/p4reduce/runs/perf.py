"""Collectives over a range of sizes, measured as NVIDIA's nccl-tests does: time, algorithm and bus bandwidth, errors.

``algbw`` is the size over the time. ``busbw`` multiplies it by the share that a ring would carry over each link, so
that it can be compared with the links' rate: 2 (n-1)/n for an all-reduce, (n-1)/n for reduce-scatter, all-gather and
all-to-all, 1 for a broadcast (nccl-tests, doc/PERFORMANCE.md). Sums in the network send less than a ring does, so their
busbw may exceed the rate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.group.backend import Options
from p4reduce.group.communicator import Communicator
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.result import CollectiveRecord
from p4reduce.runs.virtual.cluster import Cluster, FlowCluster
from p4switch.base.values import PS_PER_US

TYPES: Final[dict[str, np.dtype[Any]]] = {
    "float": np.dtype(np.float32),
    "half": np.dtype(np.float16),
    "int32": np.dtype(np.int32),
    "bfloat16": np.dtype(np.uint16),
}
"""NumPy types by the names of nccl-tests; bfloat16 as its bits, which a sum widens to float32 and rounds once"""
COLLECTIVES: Final = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all")
BLOCKS: Final = frozenset({"reduce_scatter", "all_gather", "all_to_all"})
"""collectives whose sizes are those of a block for each rank"""
ONE_WAY: Final = frozenset({"all_gather", "all_to_all"})
"""collectives whose result is in another array"""
Progress = Callable[[str, int, int], None]
Values = NDArray[Any]


@dataclass(frozen=True)
class PerfPlan:
    """A measurement: a collective, the type of its elements, sizes, and the repetitions of each."""

    collective: str
    type: str
    sizes: tuple[int, ...]
    """Bytes of each rank's array; for a gather, of the result."""
    iters: int
    warmup: int = 0
    """collectives at each size that are not measured, at the start"""
    root: int = 0
    """root of a broadcast"""
    checked: bool = True
    """whether results are compared with the expected ones"""

    def count(self, size: int, workers: int) -> int:
        """Return the elements of each rank, as nccl-tests counts them: of its block if there are blocks."""
        elements = size // TYPES[self.type].itemsize
        return elements // workers if self.collective in BLOCKS else elements

    def carried(self, size: int, workers: int) -> tuple[str, int, Options]:
        """Return the operation, number of 32-bit elements and options with which ``Communicator`` carries a size."""
        count = self.count(size, workers)
        words = -(-count * TYPES[self.type].itemsize // 4)
        if self.collective == "all_gather":
            return "all_reduce", workers * words, Options(words=True, blocks="all")
        if self.collective == "all_to_all":
            return "all_to_all", workers * words, Options(words=True)
        if self.collective == "broadcast":
            return "broadcast", words, Options(words=True)
        if self.collective == "reduce_scatter":
            return "all_reduce", count * workers, Options(words=self.type == "int32", blocks="own")
        return "all_reduce", count, Options(words=self.type == "int32")


@dataclass(frozen=True)
class Figures:
    """Figures of one way to call a collective at one size."""

    time_us: float
    algbw: float
    """GB/s (10^9 bytes)."""
    busbw: float
    wrong: int | None
    """Number of wrong elements, of all ranks; None if results were not checked."""


@dataclass(frozen=True)
class PerfRow:
    """The figures of one size."""

    engine: str
    """Plan, or another library."""
    size: int
    count: int
    type: str
    redop: str
    root: int
    out_of_place: Figures | None
    in_place: Figures | None


def byte_sizes(first: int, last: int, *, factor: float | None, step: int | None, multiple: int) -> tuple[int, ...]:
    """Return sizes from ``first`` to ``last``, each ``factor`` times or ``step`` more than the one before.

    Each is rounded down to a ``multiple`` (so that blocks are whole), but not below one; duplicates are left out.
    """
    sizes: list[int] = []
    size = first
    while size <= last:
        whole = max(multiple, size // multiple * multiple)
        if whole not in sizes:
            sizes.append(whole)
        size = size + step if step is not None else max(size + 1, int(size * (factor or 2.0)))
    return tuple(sizes)


def bus_factor(collective: str, workers: int) -> float:
    """Return busbw / algbw."""
    share = (workers - 1) / workers
    return {"all_reduce": 2 * share, **dict.fromkeys(BLOCKS, share)}.get(collective, 1.0)


def figures(size: int, time_us: float, collective: str, workers: int, wrong: int | None) -> Figures:
    """Return the bandwidths of ``size`` bytes in ``time_us``."""
    algbw = size / time_us / 1e3
    return Figures(time_us, algbw, algbw * bus_factor(collective, workers), wrong)


def values(rank: int, count: int, kind: str) -> Values:
    """Return the input of a rank: small integers, whose sums are exact in every type and with every plan."""
    pattern = (np.arange(min(count, _PERIOD), dtype=np.int64) * 7 + rank * 13) % 31 - 15
    return np.resize(as_type(pattern, kind), count)


def as_type(numbers: Values, kind: str) -> Values:
    """Return numbers in a type as it is stored: rounded to nearest, ties to even."""
    if kind != "bfloat16":
        return numbers.astype(TYPES[kind])
    bits = numbers.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def as_added(stored: Values, kind: str) -> Values:
    """Return a copy of stored numbers in the type in which they are added up."""
    return (stored.astype(np.uint32) << 16).view(np.float32) if kind == "bfloat16" else stored.copy()


def measure_virtual(experiment: Experiment, plan: PerfPlan, progress: Progress) -> list[PerfRow]:
    """Measure all sizes with one plan in virtual time. Raises as a run does."""
    with Cluster(experiment) as cluster:
        size = cluster.size
        each = plan.warmup + plan.iters
        total = len(plan.sizes) * len(_modes(plan.collective)) * each
        cluster.carrier.on_collective = lambda done: progress(f"{experiment.plan}: {plan.collective}", done, total)
        wrong = cluster.run_threads(lambda comm: [_measure(comm, plan, octets) for octets in plan.sizes])
        records = list(cluster.carrier.records)
    rows = []
    for at, octets in enumerate(plan.sizes):
        measured: dict[bool, Figures] = {}
        for mode, in_place in enumerate(_modes(plan.collective)):
            taken, records = records[plan.warmup : each], records[each:]
            mistakes = sum(by_size[at][mode] for by_size in wrong) if plan.checked else None
            measured[in_place] = figures(octets, _mean_us(taken), plan.collective, size, mistakes)
        rows.append(_row(experiment.plan, plan, octets, size, measured))
    return rows


def measure_flow(experiment: Experiment, plan: PerfPlan, progress: Progress) -> list[PerfRow]:
    """Measure all sizes with one plan in the flow model. Raises as a run does."""
    with FlowCluster(experiment) as cluster:
        rows = []
        for number, octets in enumerate(plan.sizes):
            progress(f"{experiment.plan}: {plan.collective}", number, len(plan.sizes))
            cluster.carrier.move(*plan.carried(octets, cluster.size))
            measured = figures(octets, _mean_us(cluster.carrier.records[-1:]), plan.collective, cluster.size, None)
            rows.append(
                _row(experiment.plan, plan, octets, cluster.size, dict.fromkeys(_modes(plan.collective), measured))
            )
        progress(f"{experiment.plan}: {plan.collective}", len(plan.sizes), len(plan.sizes))
    return rows


def _row(engine: str, plan: PerfPlan, octets: int, workers: int, measured: dict[bool, Figures]) -> PerfRow:
    sums = plan.collective in {"all_reduce", "reduce_scatter"}
    return PerfRow(
        engine=engine,
        size=octets,
        count=plan.count(octets, workers),
        type=plan.type,
        redop="sum" if sums else "none",
        root=plan.root if plan.collective == "broadcast" else -1,
        out_of_place=measured.get(False),
        in_place=measured.get(True),
    )


def _modes(collective: str) -> tuple[bool, ...]:
    """Return whether each mode works in place: out of place first, then in place, as in nccl-tests."""
    return (False,) if collective in ONE_WAY else (False, True)


def _mean_us(records: Sequence[CollectiveRecord]) -> float:
    return sum(record.communication_ps for record in records) / len(records) / PS_PER_US


def _measure(comm: Communicator, plan: PerfPlan, octets: int) -> list[int]:
    """Return the wrong elements of this rank, for each mode."""
    count = plan.count(octets, comm.size)
    by_mode = []
    for in_place in _modes(plan.collective):
        wrong = 0
        for _ in range(plan.warmup + plan.iters):
            wrong = _once(comm, plan, count, in_place=in_place)
        by_mode.append(wrong)
    return by_mode


def _once(comm: Communicator, plan: PerfPlan, count: int, *, in_place: bool) -> int:
    """Carry one collective; return the number of wrong elements of the result, 0 if results are not checked."""
    kind, ranks = plan.type, range(comm.size)
    whole = count if plan.collective not in BLOCKS or plan.collective == "all_gather" else count * comm.size
    given = values(comm.rank, whole, kind)
    if plan.collective in ONE_WAY:
        gathers = plan.collective == "all_gather"
        out = np.empty((comm.size, count), given.dtype)
        result = comm.all_gather(given, out) if gathers else comm.all_to_all(given.reshape(out.shape), out)
        block = slice(None) if gathers else slice(comm.rank * count, (comm.rank + 1) * count)
        return _wrong(plan, result, lambda: np.stack([values(rank, whole, kind)[block] for rank in ranks]))
    if plan.collective == "broadcast":
        target = given if in_place else given.copy()
        comm.broadcast(target, plan.root)
        return _wrong(plan, target, lambda: values(plan.root, count, kind))
    added = given if in_place and kind != "bfloat16" else as_added(given, kind)
    result = comm.reduce_scatter(added) if plan.collective == "reduce_scatter" else comm.all_reduce(added)
    block = slice(comm.rank * count, (comm.rank + 1) * count) if plan.collective == "reduce_scatter" else slice(None)

    def sums() -> Values:
        period = min(whole, _PERIOD)
        numbers = [as_added(values(rank, period, kind), kind).astype(np.int64) for rank in ranks]
        return np.resize(as_type(np.sum(numbers, axis=0), kind), whole)[block]

    untouched = in_place or not plan.checked or bool((given == values(comm.rank, whole, kind)).all())
    return _wrong(plan, as_type(result, kind), sums) if untouched else whole


def _wrong(plan: PerfPlan, result: Values, wanted: Callable[[], Values]) -> int:
    return int(np.count_nonzero(result != wanted())) if plan.checked else 0


_PERIOD: Final = 31 * 64
"""Elements after which values repeat: a multiple of the pattern's period, 31."""
