"""The event queue against Python's heapq."""

import heapq
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.network.virtual.kernels.events import push, remove_first, replace_first
from p4reduce.network.virtual.records import EVENT, WORLD
from tests.support.effort import examples

operations = st.lists(
    st.tuples(st.sampled_from(("push", "push", "remove", "replace")), st.integers(0, 20)), max_size=200
)


def queue() -> tuple[Any, Any]:
    heap = np.zeros(256, dtype=EVENT)
    world = np.zeros(1, dtype=WORLD)
    world["heap"] = heap.ctypes.data
    return world[0], heap


@settings(max_examples=examples(80, 200), deadline=None)
@given(operations)
def test_same_order_as_heapq(todo: list[tuple[str, int]]) -> None:
    world, heap = queue()
    oracle: list[tuple[int, int, int, int]] = []
    for number, (operation, time) in enumerate(todo):
        event = (time, number // 3, number, 1000 + number)
        if operation == "push":
            push(world, *event)
            heapq.heappush(oracle, event)
        elif oracle and operation == "remove":
            remove_first(world)
            heapq.heappop(oracle)
        elif oracle:
            replace_first(world, *event)
            heapq.heapreplace(oracle, event)
        assert world["heap_size"] == len(oracle)
        if oracle:
            assert heap[0].tolist() == oracle[0]
