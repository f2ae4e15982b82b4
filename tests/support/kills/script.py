"""The script that ranks run while others die, and its expected results: integers, whose sums are exact everywhere.

It shares no code with the tested package: arrays come from a hash of (seed, operation, rank), sums from Python's
integers.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

KINDS = ("float", "float", "int", "broadcast", "gather", "barrier")


def given(seed: int, operation: int, rank: int, elements: int) -> list[int]:
    """Return a rank's contribution: small integers, different in every element."""
    block = hashlib.shake_128(f"{seed}/{operation}/{rank}".encode()).digest(2 * elements)
    return [int.from_bytes(block[2 * i : 2 * i + 2], "big") % 2000 - 1000 for i in range(elements)]


def kind_of(seed: int, operation: int) -> str:
    """Return the kind of an operation's collective."""
    return KINDS[hashlib.sha256(f"{seed}:{operation}".encode()).digest()[0] % len(KINDS)]


@dataclass
class Got:
    """Observations of one rank, in order."""

    results: list[tuple[int, tuple[int, ...], list[int]]] = field(default_factory=list)
    """(operation, reported contributors, array)"""
    changes: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    """(operation that was not carried out, view, members)"""
    begun: tuple[int, ...] = ()
    """Members when the rank began or joined."""
    joined: bool = False
    ended: str = ""


UNKNOWN = -1
"""operation of a joined rank that has not received the others' state yet"""


def play(
    comm: Any,
    seed: int,
    operations: int,
    elements: int,
    got: Got,
    pause_s: float = 0.0,
    before_each: Callable[[int], None] = lambda operation: None,
) -> None:
    """Run one rank's script: collectives in order, each repeated until it is done; ``got`` collects the results.

    The script's state is the number of the operation, which joining ranks get from the first rank.
    """
    from p4reduce.group.errors import ClusterError, GroupChanged

    got.begun, got.joined = comm.members, comm.joined
    me, operation = comm.members[comm.rank], UNKNOWN if comm.joined else 0
    told = not comm.joined
    while operation < operations:
        if not told:
            if operation == UNKNOWN and comm.rank == 0:
                raise ClusterError("nobody who has the state is left")
            before_each(operation)
            state = np.array([operation], np.int64)
            try:
                comm.broadcast(state, root=0)
            except GroupChanged as change:
                got.changes.append((operation, change.view, change.members))
            else:
                operation, told = int(state[0]), True
            continue
        kind = kind_of(seed, operation)
        array = np.array(given(seed, operation, me, elements), np.int32 if kind == "int" else np.float32)
        before = array.copy()
        before_each(operation)
        if pause_s:
            comm.compute(pause_s * ((me * 7 + operation * 3) % 5) / 5)
        try:
            if kind in {"float", "int"}:
                comm.all_reduce(array)
            elif kind == "broadcast":
                comm.broadcast(array, root=0)
            elif kind == "gather":
                members = comm.members
                out = np.zeros((comm.size, elements), np.float32)
                comm.all_gather(array, out)
                whole = np.zeros((64, elements), np.float32)  # indexed by initial rank
                for place, member in enumerate(members):
                    whole[member] = out[place]
                array = whole.reshape(-1)
            else:
                comm.barrier()
                array = np.zeros(0, np.float32)
        except GroupChanged as change:
            if not np.array_equal(array, before):
                raise AssertionError(f"operation {operation} was not carried out, but changed its array") from None
            got.changes.append((operation, change.view, change.members))
            told = not change.joined
            continue
        got.results.append((operation, comm.contributors, [int(value) for value in array]))
        operation += 1
    got.ended = "well"


def wanted(seed: int, operation: int, contributors: tuple[int, ...], elements: int, root: int) -> list[int]:
    """Return the exact result for a set of contributors (initial ranks); ``root`` is the root of a broadcast."""
    kind = kind_of(seed, operation)
    if kind in {"float", "int"}:
        columns = zip(*(given(seed, operation, rank, elements) for rank in contributors), strict=True)
        return [sum(column) for column in columns]
    if kind == "broadcast":
        return given(seed, operation, root, elements)
    if kind == "gather":
        empty = [0] * elements
        rows = (given(seed, operation, rank, elements) if rank in contributors else empty for rank in range(64))
        return [value for row in rows for value in row]
    return []
