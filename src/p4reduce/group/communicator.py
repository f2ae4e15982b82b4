"""``Communicator``, the interface of training scripts: collectives on NumPy arrays, blocking or in the background."""

import contextlib
import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Literal, TypeVar, cast, overload
from zlib import crc32

import numpy as np
import numpy.typing as npt

from p4reduce.group.backend import (
    OF_ALL,
    Ahead,
    Array,
    Asked,
    Backend,
    FloatArray,
    Move,
    Options,
    Tally,
    as_words,
    check_array,
)
from p4reduce.group.errors import GOES_ON, ClusterError, GroupChanged
from p4reduce.workers.wire import WIDTHS, WORD_BITS
from p4switch.base.values import PS_PER_S

# Nonblocking collectives: a queue that carries one after the other, and a handle for each.


T = TypeVar("T")
U = TypeVar("U")
Carried = TypeVar("Carried")


class Handle(Generic[T]):
    """A collective that was started without blocking. Its arrays are in use until it is done."""

    def __init__(self, reach: Callable[[int], None]) -> None:
        self._reach = reach
        self._over = threading.Event()
        self._guard = threading.Lock()
        self._callbacks: list[Callable[[Handle[T]], None]] = []
        self._result: list[T] = []
        self._done_ps = 0
        self.error: BaseException | None = None
        """Error of the collective; None if it succeeded or is under way."""
        self.told: Callable[[BaseException], None] = lambda _: None
        """Called with the error when ``wait`` raises it."""
        self.is_wanted = False
        """Whether a caller has asked for the result."""
        self.wanted: Callable[[], None] = lambda: None
        """Called when a caller asks for the result before it is there."""

    @property
    def done(self) -> bool:
        """Return whether the collective has ended, with a result or an error."""
        self._want()
        return self._over.is_set()

    @property
    def done_s(self) -> float:
        """Return when this participant had its result, in seconds of its clock; 0 before that, or if it failed."""
        return self._done_ps / PS_PER_S

    def wait(self, timeout_s: float | None = None) -> T:
        """Block until the result is there and return it; advance the participant's clock to at least that time.

        Raises the error of the collective, or ``TimeoutError`` after ``timeout_s`` of wall-clock time.
        """
        self.settle(timeout_s)
        if self.error is not None:
            self.told(self.error)
            raise self.error
        self.reach()
        return self._result[0]

    def reach(self) -> None:
        """Advance the participant's clock to the time of the result if it is earlier; do nothing without a result."""
        self._reach(self._done_ps)

    def settle(self, timeout_s: float | None = None) -> None:
        """Block until the collective has ended; raise ``TimeoutError`` after ``timeout_s`` of wall-clock time."""
        self._want()
        if not self._over.wait(timeout_s):
            raise TimeoutError(f"no result after {timeout_s:g} s")

    def when_done(self, callback: "Callable[[Handle[T]], None]") -> None:
        """Call ``callback(handle)`` at the end: in the thread that carries collectives, or now if it has ended."""
        with self._guard:
            if not self._over.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def map(self, change: "Callable[[T], U]") -> "Handle[U]":
        """Return a handle whose result is ``change`` of this one's, done when this one is."""
        changed: Handle[U] = Handle(self._reach)

        def told(error: BaseException) -> None:
            self.told(error)  # ``self.told`` is read at the call, as it may change

        changed.told = told
        changed.wanted = self._want

        def pass_on(handle: Handle[T]) -> None:
            if handle.error is not None:
                changed.fail(handle.error)
            else:
                changed.finish(change(handle._result[0]), handle._done_ps)

        self.when_done(pass_on)
        return changed

    def _want(self) -> None:
        if not self._over.is_set():
            self.is_wanted = True
            self.wanted()

    def finish(self, result: T, done_ps: int) -> None:
        """Set the result; called by the thread that carries the collective."""
        self._result = [result]
        self._done_ps = done_ps
        self._end()

    def fail(self, error: BaseException) -> None:
        """Set the error; called by the thread that carries the collective."""
        self.error = error
        self._end()

    def _end(self) -> None:
        with self._guard:
            self._over.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


@dataclass(frozen=True)
class _Task(Generic[Carried]):
    """A submitted task. ``about``: for the task before it; ``followed``: whether it gets the next task's ``about``."""

    run: Callable[[Carried | None], None]
    handle: "Handle[Any]"
    about: Carried | None
    followed: bool


class CollectiveQueue(Generic[Carried]):
    """Carries out submitted tasks one after the other, in its own thread."""

    def __init__(self, name: str) -> None:
        self._tasks: deque[_Task[Carried]] = deque()
        self._closed = False
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(
        self,
        task: Callable[[Carried | None], tuple[T, int]],
        reach: Callable[[int], None],
        about: Carried | None = None,
        *,
        followed: bool = False,
    ) -> Handle[T]:
        """Carry out ``task``, which returns its result and the time of the result (ps).

        Raises ``ClusterError`` once closed.

        followed: the task waits until the next one is submitted, and gets that one's ``about``; it gets None if a
        caller waits for it, or the queue is closed first.
        """
        handle: Handle[T] = Handle(reach)
        if os.getpid() != self._process:  # the queue's thread exists only in the parent
            raise ClusterError("this process was forked after its parent joined the group: only the parent may call")

        def run(ahead: Carried | None) -> None:
            handle.finish(*task(ahead))

        handle.wanted = self._look_again
        with self._changed:
            if self._closed:
                raise ClusterError("this participant has left the group")
            self._tasks.append(_Task(run, handle, about, followed))
            self._changed.notify_all()
        return handle

    def close(self) -> None:
        """Accept no more tasks; those submitted are still carried out. Does not wait for them."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def join(self, timeout_s: float) -> bool:
        """Wait until all tasks are carried out; return False after ``timeout_s``."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _look_again(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _next(self) -> tuple[_Task[Carried], Carried | None] | None:
        """Return the next task, and the ``about`` of the task behind it if it wants that; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._tasks or self._closed)
            if not self._tasks:
                return None
            task = self._tasks[0]
            if task.followed:
                self._changed.wait_for(lambda: len(self._tasks) > 1 or task.handle.is_wanted or self._closed)
            self._tasks.popleft()
            # Only a ``followed`` task gets it: otherwise it would depend on the scheduling of threads.
            return task, self._tasks[0].about if task.followed and self._tasks else None

    def _run(self) -> None:
        failed: BaseException | None = None
        while (item := self._next()) is not None:
            task, ahead = item
            if isinstance(failed, ClusterError):
                # The group has failed, so later calls cannot be carried.
                task.handle.fail(type(failed)(str(failed)))
                continue
            try:
                task.run(ahead)
            except (GroupChanged, *GOES_ON) as error:
                # Calls after a change were made in the old group and get the same error; after other errors they are
                # carried.
                task.handle.fail(error)
            except BaseException as error:
                failed = error
                task.handle.fail(error)


A = TypeVar("A", bound=Array)
LaneBits = Literal[32, 16, 8]
STEP: Final = "p4reduce.step"
"""figure that marks the end of a step"""
MOST_NAME: Final = 200
"""characters of a tensor's name"""
_FIRST_LOOK_S: Final = 0.0002
_LAST_LOOK_S: Final = 0.02
LEAVE_S: Final = 10.0
"""seconds to finish collectives that are under way when a participant leaves"""


class _Steps:
    """Identifies an all-reduce by its place in a step: the number of all-reduces before it, and their elements."""

    def __init__(self) -> None:
        self._known = False
        self._before: list[int] = []

    def next(self) -> None:
        """Note the end of a step; from now on places are known."""
        self._known = True
        self._before.clear()

    def place(self, elements: int) -> str:
        """Return the place of the next all-reduce, of ``elements`` elements; empty if no step has ended yet."""
        place = f"place {len(self._before)} {crc32(repr(self._before).encode()):08x}"
        self._before.append(elements)
        if not self._known:
            self._before.clear()
            return ""
        return place


class Communicator:
    """One participant of a group: a worker, or the parameter server.

    Calls block until this participant has its result, and work in place on the caller's own array (C-contiguous, of any
    shape). With ``start``, a virtual time in seconds, a collective starts then and a call returns a ``Handle`` at once:
    several may be started, and are carried one after the other. All participants of a group make the same calls in the
    same order. In real time ``start`` only makes the call nonblocking.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        patience_s: float | None = None,
        members: Sequence[int] | None = None,
        view: int = 0,
        tally: Tally | None = None,
    ) -> None:
        """Wrap ``backend``; ``members``: of the group if this one joins late; ``view``: number of changes before that.

        tally: that of the group of which this one is a subgroup; None: a new one.
        """
        self._backend = backend
        self.tally = Tally() if tally is None else tally
        """counts of calls in this group and its subgroups"""
        self._tells = tally is None
        self._patience_s = patience_s
        self._queue: CollectiveQueue[Ahead] | None = None
        self._left = False
        self._messenger: Backend | None = None
        self._groups: Counter[tuple[int, ...]] = Counter()
        self._view = view
        self._members = tuple(range(backend.size) if members is None else members)
        self.joined = view > 0
        """Whether this participant joined a running group, and so lacks the state that the others have."""
        self._elements = 0
        self._changed = threading.Lock()
        self._steps = _Steps()

    @property
    def rank(self) -> int:
        """Return the rank in the group (0 .. size-1; the server: ``size``). ``GroupChanged`` may change it."""
        return self.size if self.is_server else self._members.index(self._backend.rank)

    @property
    def size(self) -> int:
        """Return the number of workers, without the server. ``GroupChanged`` may change it."""
        return len(self._members)

    @property
    def members(self) -> tuple[int, ...]:
        """Return the ranks at the start of the workers 0 .. size-1, as of the last ``GroupChanged``."""
        return self._members

    @property
    def contributors(self) -> tuple[int, ...]:
        """Return the members whose arrays are in the result of the last collective, as ranks of the start.

        These are all members, unless one died during the collective: with ``on_failure="shrink"`` it is done again over
        the survivors, unless one of them had its result already.
        """
        return self._backend.contributors

    @property
    def counts(self) -> npt.NDArray[np.uint16]:
        """Return how many arrays are in each element of the last all-reduce's result: uint16, shape (elements,).

        It is ``size`` everywhere, unless a deadline left out late contributions, or members died: the mean is
        ``array.reshape(-1) / np.maximum(comm.counts, 1)``. After a nonblocking collective (``start=``), read it between
        its ``wait`` and the next collective.
        """
        stretches = self._backend.summed or ((self._elements, len(self.contributors)),)
        return np.concatenate([np.full(elements, count, np.uint16) for elements, count in stretches])

    @property
    def is_server(self) -> bool:
        """Return True for the parameter server."""
        return self._backend.is_server

    @property
    def now(self) -> float:
        """Return the virtual time, seconds."""
        return self._backend.now()

    def group(self, ranks: Sequence[int], *, patience_s: float | None = None) -> "Communicator":
        """Make a group of these ranks of this group, in this order; exactly these ranks call it.

        patience_s: as in ``connect``; None: that of this group.

        Raises ``ValueError`` for unknown or repeated ranks, or if this rank is not among them.
        """
        chosen = tuple(ranks)
        if not chosen or len(set(chosen)) != len(chosen) or not all(0 <= rank < self.size for rank in chosen):
            raise ValueError(f"group: ranks {list(chosen)}: must be different ones of 0 to {self.size - 1}")
        if self.rank not in chosen:
            raise ValueError(f"group: rank {self.rank} is not among ranks {list(chosen)}")
        serial = self._groups[chosen]
        self._groups[chosen] += 1
        patience_s = self._patience_s if patience_s is None else patience_s
        return Communicator(self._backend.group(chosen, serial), patience_s=patience_s, tally=self.tally)

    @overload
    def all_reduce(
        self, array: A, *, not_finite: Literal["error", "nan"] = ..., name: str = ..., lane_bits: LaneBits | None = ...
    ) -> A: ...

    @overload
    def all_reduce(
        self,
        array: A,
        *,
        start: float,
        not_finite: Literal["error", "nan"] = ...,
        followed: bool = ...,
        name: str = ...,
        lane_bits: LaneBits | None = ...,
    ) -> Handle[A]: ...

    def all_reduce(
        self,
        array: A,
        *,
        start: float | None = None,
        not_finite: Literal["error", "nan"] = "error",
        followed: bool = False,
        name: str = "",
        lane_bits: LaneBits | None = None,
    ) -> A | Handle[A]:
        """Replace ``array`` by the sum over all workers.

        Its type is float32; float16, which is added as float32 and rounded once; or int32, which is added exactly. An
        int32 sum beyond int32 raises ``SaturatedError`` at all ranks and leaves their arrays unchanged; the next
        collective works. NaN and infinity raise ``ValueError`` with their index. With ``not_finite="nan"`` they are
        carried: in the network, a chunk (``lanes`` elements) that holds one becomes NaN. Raises ``CollectiveError`` if
        the network fails.

        followed: another all-reduce is started before any result is waited for. This one is carried once the next is
        known, and announces the next one's exponents, which saves the next one a round trip if all ranks do so in time.
        In virtual time only.

        name: the tensor's name, the same at all ranks; for runs with a deadline. Late contributions are added to the
        next all-reduce of that name and size. Without a name, they are added to the all-reduce at the same place of the
        next step, if ``step()`` marks steps. If neither is known, they are in no sum, and reported in the result's
        ``network.left_out``.

        lane_bits: bits of each number on the wire, 32, 16 or 8, if switches add up floats; None: that of the run
        (``--lane-bits``). With fewer than 32 bits the sum is rounded (docs/usage.md), and the rounding error of this
        array is added to the next all-reduce of the same name, as above.
        """
        if lane_bits not in (None, *WIDTHS):
            raise ValueError(f"all_reduce: lane_bits: {lane_bits!r}, must be 32, 16 or 8")
        if isinstance(array, np.ndarray) and array.dtype == np.int32 and lane_bits not in (None, WORD_BITS):
            raise ValueError(f"all_reduce: lane_bits: {lane_bits}, but int32 is added exactly, in 32 bits")
        return self._sum(array, start, not_finite=not_finite, followed=followed, name=name, lane_bits=lane_bits or 0)

    @overload
    def reduce_scatter(self, array: A, *, not_finite: Literal["error", "nan"] = ...) -> A: ...

    @overload
    def reduce_scatter(self, array: A, *, start: float, not_finite: Literal["error", "nan"] = ...) -> Handle[A]: ...

    def reduce_scatter(
        self, array: A, *, start: float | None = None, not_finite: Literal["error", "nan"] = "error"
    ) -> A | Handle[A]:
        """Sum ``array`` over all workers and return this rank's block of the sum, one of ``size`` equal blocks.

        The result is a view of the block in ``array``; the other blocks of ``array`` are undefined afterwards. Types
        and ``not_finite`` are those of ``all_reduce``. If a tree of switches adds up in virtual time, each block goes
        to its owner only (docs/plans.md); otherwise this is an all-reduce.
        """
        if isinstance(array, np.ndarray) and array.size % self.size:
            raise ValueError(f"reduce_scatter: {array.size} elements are no {self.size} equal blocks")
        begin = self.now if start is None else start
        begun = cast("Handle[A]", self._sum(array, begin, not_finite=not_finite, blocks="own"))
        share = array.size // self.size
        block = array.reshape(-1)[self.rank * share : (self.rank + 1) * share]
        handle = begun.map(lambda _: cast(A, block))
        return handle.wait() if start is None else handle

    @overload
    def all_gather(self, array: Array, out: A) -> A: ...

    @overload
    def all_gather(self, array: Array, out: A, *, start: float) -> Handle[A]: ...

    def all_gather(self, array: Array, out: A, *, start: float | None = None) -> A | Handle[A]:
        """Fill ``out``, of shape (size, *array.shape), with the arrays of all workers, bit for bit, of any type.

        If a tree of switches adds up in virtual time, each block is multicast from its worker (docs/plans.md);
        otherwise this is a sum of 32-bit words, in which each worker gives zeros for the others' blocks.
        """
        if out.shape != (self.size, *array.shape) or out.dtype != array.dtype or not out.flags.c_contiguous:
            raise ValueError(
                f"all_gather: out is {out.dtype}{list(out.shape)}; must be C-contiguous {array.dtype}"
                f"{[self.size, *array.shape]}"
            )
        words = as_words(array)
        every = np.zeros((self.size, words.size), np.int32)
        every[self.rank] = words

        def gathered() -> A:
            octets = every.view(np.uint8)[:, : array.nbytes]
            out.reshape(self.size, -1).view(np.uint8)[...] = octets
            return out

        if array.nbytes == 0:
            raise ValueError("all_gather: the array is empty")
        chosen = Options(words=True, name="all_gather", blocks="all", patience_s=self._patience_s)
        return self._carry("all_reduce", every.reshape(-1).view(np.float32), gathered, start, options=chosen, of=array)

    @overload
    def all_to_all(self, array: Array, out: A) -> A: ...

    @overload
    def all_to_all(self, array: Array, out: A, *, start: float) -> Handle[A]: ...

    def all_to_all(self, array: Array, out: A, *, start: float | None = None) -> A | Handle[A]:
        """Exchange ``size`` equal blocks: block j of ``array`` goes to worker j, block i of ``out`` comes from i.

        Blocks are moved bit for bit, of any type; ``array`` is not changed.
        """
        if out.shape != array.shape or out.dtype != array.dtype or not out.flags.c_contiguous:
            wanted = f"C-contiguous {array.dtype}{list(array.shape)}"
            raise ValueError(f"all_to_all: out is {out.dtype}{list(out.shape)}; must be {wanted}")
        if array.size == 0 or array.size % self.size:
            raise ValueError(f"all_to_all: {array.size} elements are no {self.size} equal blocks")
        octets = np.ascontiguousarray(array).reshape(self.size, -1).view(np.uint8)
        words = np.zeros((self.size, -(-octets.shape[1] // 4)), np.int32)
        words.view(np.uint8)[:, : octets.shape[1]] = octets

        def exchanged() -> A:
            out.reshape(self.size, -1).view(np.uint8)[...] = words.view(np.uint8)[:, : octets.shape[1]]
            return out

        chosen = Options(words=True, patience_s=self._patience_s)
        return self._carry("all_to_all", words.reshape(-1).view(np.float32), exchanged, start, options=chosen, of=array)

    @overload
    def broadcast(self, array: A, root: int = 0) -> A: ...

    @overload
    def broadcast(self, array: A, root: int = 0, *, start: float) -> Handle[A]: ...

    def broadcast(self, array: A, root: int = 0, *, start: float | None = None) -> A | Handle[A]:
        """Replace every worker's ``array`` by that of worker ``root``, bit for bit, of any type."""
        check_array("broadcast", array, None)
        chosen = Options(words=array.dtype != np.float32, patience_s=self._patience_s)
        if array.dtype.itemsize % 4 == 0:
            flat = array.reshape(-1).view(np.float32)
            return self._carry("broadcast", flat, lambda: array, start, root, options=chosen, of=array)
        words = as_words(array)

        def unpacked() -> A:
            array.reshape(-1).view(np.uint8)[...] = words.view(np.uint8)[: array.nbytes]
            return array

        return self._carry("broadcast", words.view(np.float32), unpacked, start, root, options=chosen, of=array)

    def push(self, array: FloatArray) -> FloatArray:
        """Upload ``array`` (workers), or replace ``array`` by the workers' sum (the server)."""
        return self._served("push", array)

    def pull(self, array: FloatArray) -> FloatArray:
        """Replace ``array`` by the server's, bit for bit (workers), or publish ``array`` (the server)."""
        return self._served("pull", array)

    def push_pull(self, array: FloatArray, learning_rate: float, *, staleness: int | None = 0) -> FloatArray:
        """Make one step of a parameter server, chunk by chunk in the network.

        Workers pass gradients and get weights back; the server passes the weights, which become
        ``w - learning_rate * sum / size``.

        staleness: 0: all wait for each other (`dist_sync`). A bound s: a worker goes on while it is at most s rounds
        ahead of the slowest (stale-synchronous). None: workers never wait (`dist_async`). Unless it is 0, each gradient
        changes the weights on arrival, its worker gets the current weights, and a call of the server ends after as many
        further gradients as there are workers. In virtual time only.
        """
        if not math.isfinite(learning_rate):
            raise ValueError(f"push_pull: learning_rate must be finite, got {learning_rate}")
        if staleness is not None and (isinstance(staleness, bool) or staleness < 0):
            raise ValueError(f"push_pull: staleness must be a number of rounds from 0 on, or None, got {staleness}")
        return self._served("push_pull", array, learning_rate, staleness)

    @overload
    def barrier(self) -> None: ...

    @overload
    def barrier(self, *, start: float) -> Handle[None]: ...

    def barrier(self, *, start: float | None = None) -> Handle[None] | None:
        """Wait until every worker has called this."""
        chosen = Options(patience_s=self._patience_s)
        return self._carry("barrier", np.zeros(1, np.float32), lambda: None, start, options=chosen)

    def compute(self, seconds: float) -> None:
        """Declare ``seconds`` of computation: virtual time passes, wall-clock time does not matter."""
        if not 0 <= seconds < math.inf:
            raise ValueError(f"compute: seconds must be >= 0 and finite, got {seconds}")
        self._backend.compute(seconds)

    def record(self, name: str, value: float) -> None:
        """Record a figure (loss, accuracy …) at the current virtual time for the report.

        Raises ``ValueError`` for NaN and infinity, which JSON cannot hold.
        """
        if name == STEP:
            raise ValueError(f"record: {name!r} is the mark of comm.step(); choose another name")
        if not math.isfinite(value):
            raise ValueError(f"record: {name!r} is {value}; record finite figures only")
        self._backend.record(name, float(value))

    def sent(self, peer: int, octets: int, tag: int = 0, *, sends: bool) -> Callable[[], None]:
        """Record one end of another library's message, to model its time.

        ``peer``: rank in this group; ``sends``: whether the message goes to the peer. The returned function waits for
        the other end's record, and advances the clock to the message's arrival; each end calls it when it waits.
        """
        if not 0 <= peer < self.size:
            raise ValueError(f"peer {peer}: this group has workers 0 to {self.size - 1}")
        ends = (self.rank, peer) if sends else (peer, self.rank)
        key = "{} to {}, tag {}".format(*ends, tag)
        return self._move("send", {peer: octets} if sends else {}, ends, key, tag)

    def moves(self, name: str, sent: Mapping[int, int]) -> Callable[[], None]:
        """Record this rank's part of another library's collective; ``sent``: bytes for ranks of the group.

        All ranks record their parts in the same order. The returned function waits for the others, and advances the
        clock to the time of this rank's result.
        """
        return self._move(name, sent, range(self.size), "all")

    def _move(
        self, name: str, sent: Mapping[int, int], meets: Sequence[int], key: str, tag: int = OF_ALL
    ) -> Callable[[], None]:
        with self._changed:
            self._messenger = self._messenger or self._backend.messenger()
        backend, messenger = self._backend, self._messenger
        if messenger is None:
            return lambda: None
        at_ps = backend.now_ps()
        number = messenger.move(Move(name, at_ps, tuple(sorted(sent.items())), tuple(meets), key, tag))
        over: list[int] = []

        def wait() -> None:
            until = time.monotonic() + (LEAVE_S if self._patience_s is None else self._patience_s)
            look_s = _FIRST_LOOK_S
            while not over and (done_ps := messenger.moved_ps(number)) < 0:
                if time.monotonic() > until:
                    return
                time.sleep(look_s)
                look_s = min(2 * look_s, _LAST_LOOK_S)
            if not over:
                over.append(done_ps)
                backend.reach(done_ps, number)

        return wait

    def step(self) -> None:
        """Mark the end of a step (an iteration of the training), at all ranks; the result then has times by step.

        In a run with a deadline, late contributions of an all-reduce go into the one at the same place of the next
        step. Without marks, the shortest repeating sequence of collectives counts as a step.
        """
        self._backend.record(STEP, 0.0)
        self._steps.next()

    def close(self) -> None:
        """Leave the group; later calls of the others would wait for this one and fail."""
        self._left = True
        if self._queue is not None:
            self._queue.close()
            self._queue.join(LEAVE_S)
        self.tell()
        if self._messenger is not None and self._messenger is not self._backend:
            with contextlib.suppress(ClusterError):  # the group has failed, as the next line reports
                self._messenger.close()
        self._backend.close()

    def tell(self) -> None:
        """Send the counts of calls to the coordinator; later calls do nothing."""
        rows = self.tally.rows() if self._tells else []
        self._tells = False
        if rows:
            with contextlib.suppress(ClusterError):  # the group has failed, as other calls report
                self._backend.tallied(rows)

    def _sum(
        self,
        array: A,
        start: float | None,
        *,
        not_finite: str,
        followed: bool = False,
        name: str = "",
        blocks: Literal["", "own"] = "",
        lane_bits: int = 0,
    ) -> A | Handle[A]:
        """Carry an all-reduce; ``blocks="own"``: each rank needs only its own block of the result."""
        if not isinstance(name, str) or len(name) > MOST_NAME:
            raise ValueError(f"all_reduce: name: a text of at most {MOST_NAME} characters, got {name!r:.60}")
        if isinstance(array, np.ndarray) and array.dtype == np.int32:
            check_array("all_reduce", array, {np.dtype(np.int32)})
            chosen = Options(words=True, patience_s=self._patience_s, tensor=name, blocks=blocks)
            words = array.copy()  # keeps the caller's array if the sum exceeds int32

            def added() -> A:
                array[...] = words
                return array

            flat = words.reshape(-1).view(np.float32)
            return self._carry("all_reduce", flat, added, start, options=chosen, followed=followed, of=array)
        poison = not_finite == "nan"
        chosen = Options(poison=poison, patience_s=self._patience_s, tensor=name, blocks=blocks, lane_bits=lane_bits)
        if isinstance(array, np.ndarray) and array.dtype == np.float16:
            check_array("all_reduce", array, {np.dtype(np.float16)})
            wide = array.astype(np.float32).reshape(-1)

            def narrowed() -> A:
                with np.errstate(over="ignore"):
                    array[...] = wide.reshape(array.shape)
                return array

            return self._carry("all_reduce", wide, narrowed, start, options=chosen, followed=followed, of=array)
        check_array("all_reduce", array, {np.dtype(np.float32)})
        return self._carry(
            "all_reduce", array.reshape(-1), lambda: array, start, options=chosen, followed=followed, of=array
        )

    def _served(
        self, operation: str, array: FloatArray, learning_rate: float = 0.0, staleness: int | None = 0
    ) -> FloatArray:
        check_array(operation, array, {np.dtype(np.float32)})
        chosen = Options(patience_s=self._patience_s, staleness=staleness)
        flat = array.reshape(-1)
        self._carry(operation, flat, lambda: array, None, learning_rate=learning_rate, options=chosen, of=array)
        return array

    def _carry(
        self,
        operation: str,
        flat: FloatArray,
        finish: Callable[[], T],
        start: float | None,
        root: int = 0,
        learning_rate: float = 0.0,
        *,
        options: Options,
        followed: bool = False,
        of: Array | None = None,
    ) -> T | Handle[T]:
        """Carry a collective; return the result of ``finish``, or with ``start`` a handle. of: the caller's array."""
        if self._left:
            raise ClusterError("this participant has left the group")
        called = {"own": "reduce_scatter", "all": "all_gather"}.get(options.blocks, operation)
        self.tally.add(called, "-" if of is None else of.dtype.name, 0 if of is None else of.nbytes)
        if operation == "all_reduce":
            self._elements = flat.size
            options = replace(options, place=self._steps.place(flat.size))
        options = replace(options, view=self._view)
        if operation == "broadcast":
            if not 0 <= root < self.size:
                raise ValueError(f"root {root}: this group has workers 0 to {self.size - 1}")
            root = self._members[root]
        asked = Asked(operation, flat, root, learning_rate, options)
        if start is None and self._queue is None:
            try:
                self._backend.collective(asked)
            except GroupChanged as change:
                self._hear(change)
                raise
            return finish()
        if start is not None and not 0 <= start < math.inf:
            raise ValueError(f"{operation}: start must be >= 0 and finite, got {start}")
        begin = self._backend.now_ps() if start is None else round(start * PS_PER_S)
        told = operation == "all_reduce" and not (options.words or options.blocks)
        about = Ahead(flat, begin, options.poison) if told else None

        def task(ahead: Ahead | None) -> tuple[T, int]:
            late = replace(asked, options=replace(options, ahead=ahead), start_ps=begin)
            done = self._backend.collective(late)
            return finish(), done

        if self._queue is None:
            self._queue = CollectiveQueue(f"collectives-{self.rank}")
        followed = followed and start is not None and self._backend.looks_ahead
        handle = self._queue.submit(task, self._backend.reach, about, followed=followed)
        handle.told = self._told
        return handle.wait() if start is None else handle

    def _told(self, error: BaseException) -> None:
        """Take in an error that the caller of a handle gets now."""
        if isinstance(error, GroupChanged):
            self._hear(error)

    def _hear(self, change: GroupChanged) -> None:
        """Make later calls in the new group; collectives that were started before fail with the same error."""
        with self._changed:
            if change.view > self._view:
                self._view, self._members = change.view, change.members
