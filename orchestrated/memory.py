"""Memory for the models of tasks: a task that has none is refused, and the others go on."""

import os
from collections.abc import Iterable

from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.orchestrator.executor import Order


def half_of_memory() -> int:
    """Of this machine, bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def check_memory(order: Order, others: Iterable[Order], most_bytes: int) -> None:
    """`ClusterError` when a task's models and their copies would not fit beside those of the others."""
    needed, used = _model_bytes(order), sum(map(_model_bytes, others))
    if used + needed > most_bytes:
        raise ClusterError(
            f"{needed >> 20} MB for its models are too much: {used >> 20} of {most_bytes >> 20} MB are used"
        )


def _model_bytes(order: Order) -> int:
    """Memory of a task's models: one for each worker, the server's three, and what drawing and checking one takes."""
    return 4 * order.task.elements * (len(order.task.workers) + 7)
