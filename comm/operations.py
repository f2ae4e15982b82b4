"""How a participant's call becomes an operation of its endpoint."""

from typing import Final

from p4reduce.comm.backend import PLAIN, FloatArray, Options
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective

COLLECTIVES: Final = {
    "all_reduce": Collective.ALL_REDUCE,
    "push": Collective.PUSH,
    "pull": Collective.PULL,
    "push_pull": Collective.PUSH_PULL,
    "barrier": Collective.BARRIER,
    "all_to_all": Collective.ALL_TO_ALL,
}
"""By the names of ``Communicator``; a broadcast is carried as a pull."""


def as_carried(operation: str, *, ring: bool) -> str:
    """The collective that carries a call: a broadcast pulls from its root; a ring's barrier all-reduces one element."""
    if operation == "broadcast":
        return "pull"
    return "all_reduce" if operation == "barrier" and ring else operation


def part(
    collective: Collective,
    array: FloatArray,
    iteration: int,
    learning_rate: float,
    options: Options = PLAIN,
    *,
    serves: bool,
) -> Post:
    """What one participant gives and gets, in ``array`` (workers/operation.py has the table).

    serves: it is the job's server, of a host-side all-reduce too, whose sum it takes.
    """
    source: FloatArray | None = None
    target: FloatArray | None = None
    if collective is Collective.ALL_REDUCE:
        source, target = (None, array) if serves else (array, array)
    elif collective is Collective.PUSH:
        source, target = (None, array) if serves else (array, None)
    elif collective is Collective.PULL:
        source, target = (array, None) if serves else (None, array)
    elif collective is Collective.PUSH_PULL:
        source, target = (None, array) if serves else (array, array)
    elif collective is Collective.ALL_TO_ALL:
        source, target = array.copy(), array  # blocks come while others still leave
    sums = collective is Collective.ALL_REDUCE
    return Post(
        collective,
        source,
        target,
        iteration,
        learning_rate,
        words=options.words and (sums or collective is Collective.PULL),
        poison=options.poison and sums,
    )
