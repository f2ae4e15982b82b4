"""The work that a collective over the switches returns: waits, futures and errors as torch expects them."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist

from p4reduce.comm.handles import Handle
from p4reduce.torch_backend.timing import ProcessTime

NO_TIMEOUT: Final = timedelta(0)


class SwitchWork(dist.Work):  # type: ignore[misc]
    """One collective that is under way, or several that count as one.

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
        # An error that is set on a future is a value to C++, which then reads a tensor where there is none. What a
        # callback raises is an error to both.
        self._seen = self._future.then(lambda future: future.wait())
        time.note(self)
        for handle in self._handles:
            handle.when_done(self._one_done)
        if not self._handles:
            self._end()

    def wait(self, timeout: timedelta = NO_TIMEOUT) -> bool:
        """Block until the results are in the tensors; raises what went wrong, ``TimeoutError`` after ``timeout``."""
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
        """The clock is at least where the results were there."""
        if self._error is None:
            for handle in self._handles:
                handle.reach()

    def settle(self) -> None:
        """Block until it is over, well or not."""
        for handle in self._handles:
            handle.settle(None)
        self.reach()

    def get_future(self) -> Any:
        """A future of the tensors."""
        return self._seen

    def is_completed(self) -> bool:
        """Whether it is over, well or not."""
        return bool(self._seen.done())

    def is_success(self) -> bool:
        """Whether the results are there."""
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        """What went wrong."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """The tensors."""
        self.wait()
        return self._tensors

    def synchronize(self) -> None:
        """As ``wait``: there is no stream to synchronize with."""
        self.wait()

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
    """Errors of the network as the kind that torch's own back ends raise."""
    if error is None:
        return None
    if isinstance(error, ValueError | TypeError):
        return error
    found: Exception = dist.DistBackendError(str(error))
    return found
