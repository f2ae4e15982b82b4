"""Collectives that do not block: a queue that carries one after the other, and a handle for each."""

import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from p4reduce.base.units import PS_PER_S
from p4reduce.comm.errors import GOES_ON, ClusterError, GroupChanged

T = TypeVar("T")
U = TypeVar("U")
A = TypeVar("A")


class Handle(Generic[T]):
    """One collective that was started. Its arrays are in use until it is done."""

    def __init__(self, reach: Callable[[int], None]) -> None:
        self._reach = reach
        self._over = threading.Event()
        self._guard = threading.Lock()
        self._callbacks: list[Callable[[Handle[T]], None]] = []
        self._result: list[T] = []
        self._done_ps = 0
        self.error: BaseException | None = None
        """Why it failed; None while it is under way, too."""
        self.told: Callable[[BaseException], None] = lambda _: None
        """Hears of the error when ``wait`` raises it."""
        self.is_wanted = False
        """Whether somebody has asked for the result."""
        self.wanted: Callable[[], None] = lambda: None
        """Called when somebody asks for the result while it is not there."""

    @property
    def done(self) -> bool:
        """Whether it is over, well or not."""
        self._want()
        return self._over.is_set()

    @property
    def done_s(self) -> float:
        """When this participant had its result, seconds; 0 before, or where it failed."""
        return self._done_ps / PS_PER_S

    def wait(self, timeout_s: float | None = None) -> T:
        """The result; the participant's clock is then at least where it was there.

        Raises what went wrong, ``TimeoutError`` after ``timeout_s`` of wall-clock time.
        """
        self.settle(timeout_s)
        if self.error is not None:
            self.told(self.error)
            raise self.error
        self.reach()
        return self._result[0]

    def reach(self) -> None:
        """The participant's clock is at least where the result was there; nothing where there is none."""
        self._reach(self._done_ps)

    def settle(self, timeout_s: float | None = None) -> None:
        """Block until it is over, well or not; ``TimeoutError`` after ``timeout_s`` of wall-clock time."""
        self._want()
        if not self._over.wait(timeout_s):
            raise TimeoutError(f"no result after {timeout_s:g} s")

    def when_done(self, callback: "Callable[[Handle[T]], None]") -> None:
        """Call it with this handle when it is over, in the thread that carries collectives out; or now, if it is."""
        with self._guard:
            if not self._over.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def map(self, change: "Callable[[T], U]") -> "Handle[U]":
        """A handle of what ``change`` makes of the result, done when this one is."""
        changed: Handle[U] = Handle(self._reach)

        def told(error: BaseException) -> None:
            self.told(error)  # whatever that is by then

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
        """For who carries it out: it is done."""
        self._result = [result]
        self._done_ps = done_ps
        self._end()

    def fail(self, error: BaseException) -> None:
        """For who carries it out: it failed."""
        self.error = error
        self._end()

    def _end(self) -> None:
        with self._guard:
            self._over.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


@dataclass(frozen=True)
class _Task(Generic[A]):
    """What was submitted. ``about``: what the task before is told of it; ``followed``: it is to be told of the next."""

    run: Callable[[A | None], None]
    handle: "Handle[Any]"
    about: A | None
    followed: bool


class Queue(Generic[A]):
    """Carries out what is submitted, one after the other, in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._tasks: deque[_Task[A]] = deque()
        self._closed = False
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(
        self,
        task: Callable[[A | None], tuple[T, int]],
        reach: Callable[[int], None],
        about: A | None = None,
        *,
        followed: bool = False,
    ) -> Handle[T]:
        """Carry out ``task``, which returns its result and when it was there (ps). ``ClusterError`` once closed.

        followed: it is carried out when the next one is submitted, whose ``about`` it is given; or with None when
        somebody waits for it, or the queue is closed.
        """
        handle: Handle[T] = Handle(reach)
        if os.getpid() != self._process:  # the thread is not in this one
            raise ClusterError("this process was forked after its parent joined the group: only the parent may call")

        def run(ahead: A | None) -> None:
            handle.finish(*task(ahead))

        handle.wanted = self._look_again
        with self._changed:
            if self._closed:
                raise ClusterError("this participant has left the group")
            self._tasks.append(_Task(run, handle, about, followed))
            self._changed.notify_all()
        return handle

    def close(self) -> None:
        """What was submitted is carried out, nothing else; does not wait for it."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def join(self, timeout_s: float) -> bool:
        """Wait until everything was carried out; False when that takes longer."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _look_again(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _next(self) -> tuple[_Task[A], A | None] | None:
        """The next task and what follows it, as far as it is to know; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._tasks or self._closed)
            if not self._tasks:
                return None
            task = self._tasks[0]
            if task.followed:
                self._changed.wait_for(lambda: len(self._tasks) > 1 or task.handle.is_wanted or self._closed)
            self._tasks.popleft()
            # Without being asked for it would depend on how threads are scheduled.
            return task, self._tasks[0].about if task.followed and self._tasks else None

    def _run(self) -> None:
        failed: BaseException | None = None
        while (item := self._next()) is not None:
            task, ahead = item
            if isinstance(failed, ClusterError):
                # The group has failed: nothing that comes after it can be carried out.
                task.handle.fail(type(failed)(str(failed)))
                continue
            try:
                task.run(ahead)
            except (GroupChanged, *GOES_ON) as error:
                # What comes after a change was called by the old group, and is told the same; after the others it is
                # carried.
                task.handle.fail(error)
            except BaseException as error:
                failed = error
                task.handle.fail(error)
