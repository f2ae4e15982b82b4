"""What a training script sees: blocking collectives on its own NumPy arrays."""

import math
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


class Backend(Protocol):
    """Carries one participant's calls to the network; see ``comm/rendezvous.py`` and ``comm/remote.py``."""

    rank: int
    size: int
    is_server: bool

    def collective(self, operation: str, array: FloatArray, root: int, learning_rate: float) -> None:
        """Take part in one collective with ``array`` (1-D, C-contiguous, float32), in place; blocks."""

    def compute(self, seconds: float) -> None:
        """Let virtual time pass for this participant."""

    def now(self) -> float:
        """Virtual time of this participant, seconds."""

    def record(self, name: str, value: float) -> None:
        """Keep a figure of the training, with the virtual time and the iteration."""

    def close(self) -> None:
        """Leave the group."""


class Communicator:
    """One participant of a group: a worker, or the parameter server.

    Every call blocks until this participant has its result, and works in place on the caller's own
    array (float32, any shape, C-contiguous). All participants make the same calls in the same order.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def rank(self) -> int:
        """0 .. size-1 for workers; ``size`` for the server."""
        return self._backend.rank

    @property
    def size(self) -> int:
        """Number of workers (the server not counted)."""
        return self._backend.size

    @property
    def is_server(self) -> bool:
        """True for the parameter server's end."""
        return self._backend.is_server

    @property
    def now(self) -> float:
        """Virtual time, seconds."""
        return self._backend.now()

    def all_reduce(self, array: FloatArray) -> FloatArray:
        """Replace ``array`` by the sum over all workers.

        Raises ``ValueError`` for NaN or infinity (the index is named), ``CollectiveError`` when the network gives up.
        """
        return self._call("all_reduce", array)

    def broadcast(self, array: FloatArray, root: int = 0) -> FloatArray:
        """Replace every worker's ``array`` by that of worker ``root``, bit for bit."""
        return self._call("broadcast", array, root=root)

    def push(self, array: FloatArray) -> FloatArray:
        """Workers: upload ``array``. The server: replace ``array`` by the workers' sum."""
        return self._call("push", array)

    def pull(self, array: FloatArray) -> FloatArray:
        """Workers: replace ``array`` by the server's, bit for bit. The server: publish ``array``."""
        return self._call("pull", array)

    def push_pull(self, array: FloatArray, learning_rate: float) -> FloatArray:
        """One step of a parameter server, chunk by chunk in the network.

        Workers pass gradients and get weights back; the server passes the weights, which become
        ``w - learning_rate * sum / size``.
        """
        if not math.isfinite(learning_rate):
            raise ValueError(f"push_pull: learning_rate must be finite, got {learning_rate}")
        return self._call("push_pull", array, learning_rate=learning_rate)

    def barrier(self) -> None:
        """Wait until every worker is here."""
        self._backend.collective("barrier", np.zeros(1, np.float32), 0, 0.0)

    def compute(self, seconds: float) -> None:
        """Declare ``seconds`` of computation: virtual time passes, wall-clock time does not matter."""
        if not 0 <= seconds < math.inf:
            raise ValueError(f"compute: seconds must be >= 0 and finite, got {seconds}")
        self._backend.compute(seconds)

    def record(self, name: str, value: float) -> None:
        """Keep a figure (loss, accuracy …) at the current virtual time for the report.

        Raises ``ValueError`` for NaN and infinity, which JSON cannot hold.
        """
        if not math.isfinite(value):
            raise ValueError(f"record: {name!r} is {value}; record finite figures only")
        self._backend.record(name, float(value))

    def close(self) -> None:
        """Leave the group; later calls of the others would wait for this one and fail."""
        self._backend.close()

    def _call(self, operation: str, array: FloatArray, root: int = 0, learning_rate: float = 0.0) -> FloatArray:
        if not isinstance(array, np.ndarray) or array.dtype != np.float32:
            kind = array.dtype if isinstance(array, np.ndarray) else f"{type(array).__name__}, which is no array"
            mend = "array.astype(np.float32)" if isinstance(array, np.ndarray) else "np.array(value, np.float32)"
            raise TypeError(f"{operation}: expected a float32 array, got {kind}; use {mend}")
        if not array.flags.c_contiguous:
            raise ValueError(f"{operation}: the array must be C-contiguous; use np.ascontiguousarray(array)")
        if array.size == 0:
            raise ValueError(f"{operation}: the array is empty")
        if not array.flags.writeable:
            raise ValueError(f"{operation}: the array is read-only, but results are written in place")
        self._backend.collective(operation, array.reshape(-1), root, learning_rate)
        return array
