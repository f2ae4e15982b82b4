"""Ranks of a training: the student's code runs in one process per rank, and P4 switches in virtual time join them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from p4reduce.group.communicator import Communicator, Handle
from p4reduce.group.errors import ClusterError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce_course.frame.report import Wrong
from p4reduce_course.sandbox.confine import ProcessLimits
from p4reduce_course.sandbox.messages import Remote
from p4reduce_course.sandbox.process import StudentCode, Untold

Floats = NDArray[np.float32]
LANES: Final = 256
HEADERS: Final = 62
GAP: Final = 24
_CALLS: Final = 8
"""most calls of a hook for each tensor and step; more calls mean an endless loop"""
_ELEMENTS: Final = 4
"""most numbers that a hook sends in a step, in multiples of the tensors' elements"""
LARGEST: Final = 127
"""largest number of a field of 8 bits"""
_LIMITS: Final = ProcessLimits(cpu_s=6, wall_s=60.0)


@dataclass(frozen=True)
class Net:
    """A star of workers around one switch.

    Attributes:
        rate_gbps, delay_us: rate and delay of every link.
    """

    workers: int
    rate_gbps: int
    delay_us: int

    def experiment(self) -> Experiment:
        """Returns the network as an experiment."""
        return Experiment(
            topology=f"star:hosts={self.workers}",
            plan="steiner",
            lanes=LANES,
            rate=f"{self.rate_gbps}G",
            delay=f"{self.delay_us}us",
        )

    def wire_seconds(self, elements: float) -> float:
        """Returns the least time in seconds of ``elements`` numbers on one direction of a link."""
        return elements / LANES * (GAP + HEADERS + 4 * LANES) * 8 / (self.rate_gbps * 1e9)

    @property
    def trip_seconds(self) -> float:
        """Seconds from the first bit of a full frame to the last bit of its sum, in an empty network."""
        return 2 * (self.wire_seconds(LANES) + self.delay_us * 1e-6)


def least_bytes(elements: int) -> int:
    """Returns the bytes of full frames that hold ``elements`` numbers."""
    return -(-elements // LANES) * (HEADERS + 4 * LANES)


@dataclass(frozen=True)
class Started:
    """A call of a rank: number of elements, their type, time in seconds, and the largest field of packed integers."""

    elements: int
    integers: bool
    at_s: float
    largest: int = 0

    @property
    def kind(self) -> str:
        """Number and type of the elements, as text."""
        return f"{self.elements} {'int32' if self.integers else 'float32'}"


@dataclass
class LabRank:
    """One rank while a job runs.

    Attributes:
        most_calls, most_elements: most calls and elements that the rank may start.
        calls: the calls that the rank has started, in order.
        began_s: start of its backward pass, seconds of virtual time.
        failed: the network's error, if there was one.
        arrays: what the rank's calls have sent, if it is kept.
    """

    number: int
    net: Net
    comm: Communicator
    code: StudentCode
    most_calls: int
    most_elements: int
    calls: list[Started] = field(default_factory=list)
    began_s: float = 0.0
    failed: str = ""
    arrays: list[NDArray[Any]] | None = None
    _kind: str = ""
    _handles: dict[int, Handle[Any]] = field(default_factory=dict)

    def create(self, kind: str, sizes: Sequence[int]) -> None:
        """Makes the student's hook for tensors of these sizes."""
        self._kind = kind
        network = Remote("network", rank=self.number, workers=self.net.workers)
        self._call("create", kind, network, list(sizes))

    def backward(
        self, gradients: Sequence[Floats], order: Sequence[int], seconds: Sequence[float] = ()
    ) -> list[Floats]:
        """Passes gradients to the hook in the order in which they become ready; returns the hook's means."""
        for index in order:
            if seconds:
                self.comm.compute(seconds[index])
            self._call("ready", index, gradients[index])
        means = self._call("finish")
        path = str(self.code.file)
        if not isinstance(means, list) or len(means) != len(gradients):
            shown = f"{len(means)} items" if isinstance(means, list) else f"{means!r}"[:40]
            raise Wrong(f"finish returned {shown}; return a list of {len(gradients)} arrays, by index", path)
        for index, (mean, gradient) in enumerate(zip(means, gradients, strict=True)):
            if not isinstance(mean, np.ndarray) or mean.dtype.kind != "f" or mean.shape != gradient.shape:
                shape = f"{mean.dtype}{list(mean.shape)}" if isinstance(mean, np.ndarray) else type(mean).__name__
                text = f"finish returned {shape} for tensor {index}; return floats of shape {list(gradient.shape)}"
                raise Wrong(f"{text}, as it came", path)
            if self._kind == "int8" and mean.dtype != np.float32:
                raise Wrong(f"finish returned {mean.dtype} for tensor {index}; return the mean as float32", path)
        return [np.asarray(mean, np.float32) for mean in means]

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return self.code.call(name, *arguments, services={"network": self._network})
        except Wrong as wrong:
            if self.failed:  # the network's error, which the student's code passed on as an exception
                raise ClusterError(self.failed) from wrong
            raise

    # --- calls of the network by the student's code

    def _network(self, method: str, *arguments: Any, **named: Any) -> Any:
        if method == "start":
            return self._start(*arguments, **named)
        if method == "wait":
            return self._wait(*arguments, **named)
        raise Untold(f"network.{method}: a network has start(array) and wait(number)")

    def _start(self, array: Any) -> int:
        if not isinstance(array, np.ndarray) or array.dtype not in (np.float32, np.int32) or array.ndim != 1:
            shown = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
            raise Untold(f"network.start: float32 or int32 in one dimension, not {shown}; use .astype and .reshape(-1)")
        if not array.size or not np.isfinite(array).all():
            raise Untold("network.start: " + ("NaN or infinity cannot be added" if array.size else "an empty array"))
        if len(self.calls) >= self.most_calls:
            raise Untold(f"network.start: {self.most_calls} calls were made already; is there a loop?")
        if sum(call.elements for call in self.calls) + array.size > self.most_elements:
            raise Untold(f"network.start: {self.most_elements} numbers are more than any hook needs; is there a loop?")
        integers = array.dtype == np.int32
        largest = int(np.abs(fields(array)).max()) if integers else 0
        self.calls.append(Started(array.size, integers, self.comm.now, largest))
        if self.arrays is not None:
            self.arrays.append(array.copy())  # the sum takes its place
        self._handles[len(self.calls)] = self.comm.all_reduce(array, start=self.comm.now)
        return len(self.calls)

    def _wait(self, number: Any) -> Any:
        handle = self._handles.pop(number, None) if isinstance(number, int) else None
        if handle is None:
            raise Untold(f"network.wait({str(number)[:20]}): that is no number of a start, or was waited for already")
        try:
            return handle.wait()
        except ClusterError as error:
            self.failed = str(error)
            raise Untold(self.failed) from None


@dataclass(frozen=True)
class RanksRun:
    """The result of a run of all ranks.

    Attributes:
        calls: the calls of each rank.
        began_s: start of rank 0's backward pass, seconds of virtual time.
        busiest_bytes: bytes on the busiest direction of a link.
    """

    calls: Sequence[Sequence[Started]]
    began_s: float
    busiest_bytes: int


class Ranks:
    """Runs the student's file in one process per rank. Use it as a context manager."""

    def __init__(self, file: Path, seen: dict[str, None], limits: ProcessLimits = _LIMITS) -> None:
        """Starts no process yet. ``seen``: the ways of confinement that took effect are added here."""
        self._file, self._seen, self._limits = file, seen, limits
        self._text = ""
        self.rehearsed = False  # whether arrays are added here, without a network and in no time
        self.codes: list[StudentCode] = []
        self._held = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all processes."""
        self._held.close()

    @property
    def ended(self) -> bool:
        """Whether a process has ended."""
        return any(code.ended for code in self.codes)

    def load(self, text: str) -> None:
        """Loads a text in the place of the file, in all processes. Raises Wrong."""
        self._text = text
        for code in self.codes:
            code.load(text)

    def run(self, net: Net, kind: str, sizes: Sequence[int], steps: int, body: Callable[[LabRank], None]) -> RanksRun:
        """Runs ``body`` for all ranks at the same time. Raises Wrong."""
        while len(self.codes) < net.workers:
            self.codes.append(self._held.enter_context(StudentCode(self._file, self._limits, self._seen)))
            self.codes[-1].start()  # in this thread, because a process ends with the thread that started it
            if self._text:
                self.codes[-1].load(self._text)
        ranks: dict[int, LabRank] = {}
        elements = _ELEMENTS * (sum(sizes) + LANES) * steps
        guard = threading.Lock()

        def rank_of(comm: Any) -> None:
            code = self.codes[comm.rank]
            code.begin()
            rank = LabRank(comm.rank, net, comm, code, _CALLS * (len(sizes) + 1) * steps, elements)
            with guard:
                ranks[comm.rank] = rank
            rank.create(kind, sizes)
            body(rank)

        if self.rehearsed:
            Rehearsed(net.workers).run(rank_of)
            return RanksRun([ranks[number].calls for number in sorted(ranks)], 0.0, 0)
        with Cluster(net.experiment()) as cluster:
            try:
                cluster.run_threads(rank_of)
            except ClusterError as error:
                raise Wrong(_disagreement(ranks, str(error), len(sizes)), str(self._file)) from None
            cluster.carrier.drain()
            links = cluster.carrier.network.fabric.links
            busiest = max(links[hop].bytes for hop in links)
        return RanksRun([ranks[number].calls for number in sorted(ranks)], ranks[0].began_s, busiest)


class Rehearsed:
    """Adds the arrays of ranks as a network does, in no time: for a look at changed code before it is graded."""

    def __init__(self, workers: int) -> None:
        """Begins with no call."""
        self.workers = workers
        self._given: list[dict[int, NDArray[Any]]] = []  # by call and rank
        self._changed = threading.Condition()
        self._ended = set[int]()  # ranks that give no more arrays
        self._failed = False

    def run(self, function: Callable[[_RehearsedRank], None]) -> None:
        """Runs a function for all ranks at the same time. Raises the first exception, or Wrong if calls differ."""
        first: list[BaseException] = []

        def of(rank: int) -> None:
            try:
                function(_RehearsedRank(rank, self))
            except BaseException as error:
                first.append(error)
            with self._changed:
                self._ended.add(rank)
                self._failed = bool(first)
                self._changed.notify_all()

        threads = [threading.Thread(target=of, args=(rank,)) for rank in range(self.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if first:
            raise first[0] if isinstance(first[0], Wrong) else Wrong(str(first[0]))

    def give(self, rank: int, array: NDArray[Any]) -> int:
        """Takes a rank's next array; returns the number of the call."""
        with self._changed:
            number = next((n for n, given in enumerate(self._given) if rank not in given), len(self._given))
            if number == len(self._given):
                self._given.append({})
            self._given[number][rank] = array.copy()
            self._changed.notify_all()
            return number

    def sum(self, number: int) -> NDArray[Any]:
        """Returns the sum of a call when all ranks have given their arrays. Raises ClusterError."""
        with self._changed:
            given = self._given[number]
            self._changed.wait_for(lambda: len(given) == self.workers or self._failed or self._ended - given.keys())
            arrays = [given[rank] for rank in sorted(given)]
        if len(arrays) < self.workers or len({(array.dtype, array.size) for array in arrays}) > 1:
            raise ClusterError("ranks differ in their calls")
        total: Any = np.sum(arrays, axis=0, dtype=np.float64 if arrays[0].dtype == np.float32 else np.int64)
        if arrays[0].dtype == np.int32 and np.abs(total).max() > np.iinfo(np.int32).max:
            raise ClusterError("beyond int32")
        whole: NDArray[Any] = total.astype(arrays[0].dtype)
        return whole


@dataclass(frozen=True)
class _RehearsedRank:
    """A rank, with the methods of a communicator that `LabRank` calls."""

    rank: int
    group: Rehearsed
    now: float = 0.0

    def compute(self, seconds: float) -> None:
        pass

    def all_reduce(self, array: NDArray[Any], *, start: float) -> SimpleNamespace:
        number = self.group.give(self.rank, array)
        return SimpleNamespace(wait=lambda: self.group.sum(number))


def fields(words: NDArray[np.int32]) -> NDArray[np.int64]:
    """Returns the four signed 8-bit integers of each word, in the order of the skeleton's ``pack``."""
    octets = (words.astype(np.int64) + 0x80808080).astype(np.uint32).view(np.uint8)
    return octets.astype(np.int64) - 128


def headroom(workers: int) -> str:
    """Returns what a field may hold at each rank, as advice."""
    return f"leave headroom, {LARGEST} // {workers} = {LARGEST // workers} fits into a field of each rank"


def _disagreement(ranks: Mapping[int, LabRank], error: str, tensors: int) -> str:
    """Returns a text about the first call in which the ranks differ; one tensor has one order."""
    logs = {number: rank.calls for number, rank in sorted(ranks.items())}
    advice = (
        "Gradients become ready in another order on each rank, calls must not: "
        "start bucket k only when it is full and bucket k - 1 has been started"
        if tensors > 1
        else "Calls follow from the sizes of the tensors, not from what is in them"
    )
    shortest = min(len(log) for log in logs.values())
    for place in range(shortest):
        kinds = {number: log[place].kind for number, log in logs.items()}
        other = next((number for number, kind in kinds.items() if kind != kinds[0]), None)
        if other is not None:
            text = f"call {place} of rank 0 has {kinds[0]}, that of rank {other} has {kinds[other]}"
            return (
                f"{text}: the ranks {'call in different orders' if tensors > 1 else 'make different calls'}. {advice}"
            )
    if "left the group" in error:
        short = next(number for number, log in logs.items() if len(log) == shortest)
        text = f"rank {short} made {shortest} calls, and others wait for it to make one more"
        return f"{text}. Every rank makes the same calls in the same order. {advice}"
    largest = max((call.largest for log in logs.values() for call in log), default=0)
    if "beyond int32" in error:
        return (
            f"the last field of a word holds up to {largest} at each of {len(logs)} ranks, and their sum runs over the "
            f"end of the word: {headroom(len(logs))}"
        )
    return f"the network could not carry a call out: {error}"
