"""The works that collectives return: waits, futures and errors as torch expects them."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist

from p4reduce.adapters.torch.process_time import ProcessTime
from p4reduce.group.communicator import Handle

NO_TIMEOUT: Final = timedelta(0)
MOST_UNUSED: Final = 64
"""most works that are kept alive though nothing in Python refers to them"""


class HeldWorks:
    """Works of a process that are kept alive until they are used: C++ may hold them, which Python does not see.

    C++ finds the methods of a work by its Python object. If that object is gone, as happens in DDP's join, C++ would
    wait for ever.
    """

    def __init__(self) -> None:
        self._unused: dict[int, dist.Work] = {}
        self._used = threading.local()
        self._guard = threading.Lock()

    def hold(self, work: dist.Work) -> None:
        """Keep a work alive until `used`, or until ``MOST_UNUSED`` newer works are held."""
        with self._guard:
            self._unused[id(work)] = work
            if len(self._unused) > MOST_UNUSED:
                del self._unused[next(iter(self._unused))]

    def used(self, work: dist.Work) -> None:
        """Note a wait for a work, or a use of its future; it lives until this thread uses another: C++ does both."""
        self._used.last = work
        with self._guard:
            self._unused.pop(id(work), None)

    def let_go(self) -> None:
        """Forget all works."""
        self._used = threading.local()
        with self._guard:
            self._unused.clear()


HELD: Final = HeldWorks()


class HeldWork(dist.Work):  # type: ignore[misc]
    """Base class of works: C++ finds them, and synchronizing with one is waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        HELD.hold(self)

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Block until the work is over; raises its error."""
        HELD.used(self)
        return self._wait(timeout)

    def get_future(self) -> Any:
        """Return a future of the tensors."""
        HELD.used(self)
        return self._future_of()

    def synchronize(self) -> None:
        """As ``wait``: there is no stream to synchronize with."""
        self.wait()

    def block_current_stream(self) -> None:
        """As ``wait``."""
        self.wait()

    def _wait(self, timeout: timedelta) -> bool:
        raise NotImplementedError

    def _future_of(self) -> Any:
        raise NotImplementedError


class SwitchWork(HeldWork):
    """One running collective, or several that count as one.

    ``finish`` puts the results into the tensors, once, when the last one is there.
    """

    def __init__(
        self,
        handles: Sequence[Handle[Any]],
        tensors: list[torch.Tensor],
        finish: Callable[[], None],
        time: ProcessTime,
    ) -> None:
        super().__init__()
        self._handles = list(handles)
        self._time = time
        self._error: Exception | None = None
        self._left = len(self._handles)
        self._tensors = tensors
        self._finish = finish
        self._future: Any = torch.futures.Future()
        # C++ takes an error that is set on a future for a value, and reads a tensor where there is none. An exception
        # of a callback is an error to both Python and C++.
        self._seen = self._future.then(lambda future: future.wait())
        time.note(self)
        for handle in self._handles:
            handle.when_done(self._one_done)
        if not self._handles:
            self._end()

    def _wait(self, timeout: timedelta) -> bool:
        """Wait until the results are in the tensors; raises ``TimeoutError`` after ``timeout``."""
        limit = timeout.total_seconds() if timeout and timeout > NO_TIMEOUT else None
        with self._time.waiting():
            for handle in self._handles:
                handle.settle(limit)
            self._future_done()
        self.reach()
        if self._error is not None:
            raise self._error
        return True

    def reach(self) -> None:
        """Advance the clock at least to the arrival of the results."""
        if self._error is None:
            for handle in self._handles:
                handle.reach()

    def settle(self) -> None:
        """Block until the work is over, successful or not."""
        for handle in self._handles:
            handle.settle(None)
        self.reach()

    def _future_of(self) -> Any:
        return self._seen

    def is_completed(self) -> bool:
        """Whether the work is over, successful or not."""
        return all(handle.done for handle in self._handles) and bool(self._seen.done())

    def is_success(self) -> bool:
        """Whether the results are there."""
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        """Return the error; None if there is none."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """The tensors."""
        self.wait()
        return self._tensors

    def _future_done(self) -> None:
        try:
            self._seen.wait()
        except Exception:
            return

    def _one_done(self, handle: Handle[Any]) -> None:
        self._error = self._error or _as_torch(handle.error)
        self._left -= 1
        if self._left == 0:
            self._end()

    def _end(self) -> None:
        try:
            if self._error is None:
                self._finish()
        except Exception as error:
            self._error = error
        if self._error is None:
            self._future.set_result(self._tensors)
        else:
            self._future.set_exception(self._error)


def _as_torch(error: BaseException | None) -> Exception | None:
    """Return an error of the network as the kind of error that torch's own back ends raise."""
    if error is None:
        return None
    if isinstance(error, ValueError | TypeError):
        return error
    torch_error: Exception = dist.DistBackendError(str(error))
    return torch_error


class GlooWork(HeldWork):
    """A work that gloo carries; a wait for it also takes virtual time: ``waited`` advances the clock."""

    def __init__(self, work: Any, waited: Callable[[], None], time: ProcessTime) -> None:
        super().__init__()
        self._work, self._waited, self._time = work, waited, time
        time.note(self)

    def settle(self) -> None:
        """As ``wait``, but without raising the error of the work."""
        with contextlib.suppress(RuntimeError):
            self.wait()

    def result(self) -> Any:
        """The tensors."""
        self.wait()
        return self._work.result()

    def is_completed(self) -> bool:
        """Whether gloo has completed the work; for a message, True only after a wait for it."""
        return bool(self._work.is_completed())

    def is_success(self) -> bool:
        """Whether gloo's work has succeeded."""
        return bool(self._work.is_success())

    def exception(self) -> Any:
        """Return gloo's error."""
        return self._work.exception()

    def source_rank(self) -> int:
        """The sender of a message that was received."""
        return int(self._work._source_rank())

    _source_rank = source_rank

    def _get_op_type(self) -> Any:
        return self._work._get_op_type()

    def _wait(self, timeout: timedelta) -> bool:
        with self._time.waiting():
            done = bool(self._work.wait(timeout))
        self._waited()
        return done

    def _future_of(self) -> Any:
        return self._work.get_future()


class GlooCall:
    """gloo for one call. ``begun`` is called when gloo has taken it, and returns ``waited`` for its `GlooWork`.

    A call that gloo refuses does not count.
    """

    def __init__(self, gloo: Any, begun: Callable[[], Callable[[], None]], time: ProcessTime) -> None:
        self._gloo, self._begun, self._time = gloo, begun, time

    def __getattr__(self, name: str) -> Callable[..., GlooWork]:
        method = getattr(self._gloo, name)

        def call(*given: Any) -> GlooWork:
            work = method(*given)
            return GlooWork(work, self._begun(), self._time)

        return call


class WorkOfSeveral(HeldWork):
    """Several works that count as one."""

    def __init__(self, works: Sequence[HeldWork], tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self._works = works
        self._tensors = tensors

    def is_completed(self) -> bool:
        """Whether all works are over, successful or not."""
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        """Whether all results are there."""
        return all(work.is_success() for work in self._works)

    def exception(self) -> Any:
        """Return the error of the first work that has one; None if none has."""
        return next((error for work in self._works if (error := work.exception()) is not None), None)

    def result(self) -> list[torch.Tensor]:
        """The tensors."""
        self.wait()
        return self._tensors

    def _wait(self, timeout: timedelta) -> bool:
        for work in self._works:
            work.wait(timeout)
        return True

    def _future_of(self) -> Any:
        every = torch.futures.collect_all([work.get_future() for work in self._works])

        def tensors(future: Any) -> list[torch.Tensor]:
            for part in future.value():
                part.value()  # raises the error
            return self._tensors

        return every.then(tensors)
