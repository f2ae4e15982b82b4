"""The virtual time of a process, which computation between collectives advances."""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import torch

from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import ClusterError
from p4reduce.group.remote import COMPUTE

# The virtual time of computation between two collectives, by the setting ``P4REDUCE_COMPUTE``:
#
# - ``declared`` (the default): computation takes no virtual time but that of ``compute`` and ``time_backward``.
# - ``measured`` or ``measured:FACTOR``: processor time of the calling thread between two collectives, times FACTOR.
#
# In real time, computation takes its actual time.


class _Pending(Protocol):
    def settle(self) -> None:
        """Block until the collective is over, and advance the clock to its end."""


class ProcessTime:
    """The virtual clock of this process, as all its groups see it."""

    def __init__(self, world: Communicator, factor: float | None) -> None:
        self._world = world
        self._factor = factor
        self._joined: list[_Pending] = []
        self._since = threading.local()

    @property
    def now(self) -> float:
        """Virtual time in seconds; waits for collectives that the end of a backward pass waited for."""
        self._join()
        self._measure()
        return self._world.now

    def compute(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._join()
        self._world.compute(seconds)

    def step(self) -> None:
        """End a step; collectives that its backward pass waited for belong to it."""
        self._join()
        self._measure()
        self._world.step()

    def note(self, work: _Pending) -> None:
        """Note that a collective was started; inside a backward pass C++ waits for it before the pass ends.

        Python does not see that wait, so the clock catches up when it is next read after the pass.
        """
        if torch._C._current_graph_task_id() >= 0:
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(lambda: self._joined.append(work))

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Exclude processor time inside this context from the measured computation."""
        self._measure()
        try:
            yield
        finally:
            self._since.cpu_s = time.thread_time()

    def _join(self) -> None:
        while self._joined:
            self._joined.pop(0).settle()

    def _measure(self) -> None:
        if self._factor is None:
            return
        now = time.thread_time()
        passed = now - getattr(self._since, "cpu_s", now)
        self._since.cpu_s = now
        if passed > 0:
            self._world.compute(passed * self._factor)


def factor_of(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return the factor of measured computation; None: it is declared. Raises ``ClusterError`` for a wrong setting."""
    text = environment.get(COMPUTE, "declared")
    kind, _, number = text.partition(":")
    try:
        factor = float(number) if number else 1.0
    except ValueError:
        factor = -1.0
    if kind == "declared" and not number:
        return None
    if kind == "measured" and 0 < factor < float("inf"):
        return factor
    raise ClusterError(f"{COMPUTE}: {text!r}; must be 'declared', 'measured' or 'measured:FACTOR' with FACTOR above 0")


def time_backward(model: torch.nn.Module, seconds: float, clock: ProcessTime) -> list[Any]:
    """Let each backward pass of ``model`` take ``seconds``, spread over its parameters by their size.

    A parameter's share has passed when its gradient is ready, so a bucket's collective starts with its last gradient.
    Returns the hooks' handles, to be removed.
    """
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    total = sum(parameter.numel() for parameter in wanted)
    seen = weakref.ref(clock)

    def share(size: int) -> Any:
        def passed(gradient: torch.Tensor) -> None:
            live_clock = seen()
            if live_clock is not None:
                live_clock.compute(seconds * size / total)

        return passed

    return [parameter.register_hook(share(parameter.numel())) for parameter in wanted]
