"""Gate control lists of output ports (IEEE 802.1Qbv): when which of their queues may send."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.fabric.errors import FabricError
from p4reduce.fabric.kernels.loop import add_event
from p4reduce.fabric.memory import Memory
from p4reduce.fabric.records import EVENT_KINDS, GATE, GATE_LIST, GATES, NO_LIMIT, PRIORITIES
from p4reduce.fabric.wiring import Wiring
from p4reduce.topologies.model import Hop

ALL_QUEUES: Final = (1 << PRIORITIES) - 1
Gates = Sequence[tuple[int, int]]
"""(duration in picoseconds, open queues as bits), one after the other, then from the beginning"""


class GateLists:
    """Records for `kernels/gates.py`."""

    def __init__(self, wiring: Wiring, memory: Memory) -> None:
        self._wiring, self._memory = wiring, memory
        self._lists: NDArray[Any] = np.zeros(1, dtype=GATE_LIST)
        self._gates: NDArray[Any] = np.zeros(1, dtype=GATES)
        self._known: dict[tuple[object, ...], int] = {}
        self._keep()

    def _keep(self) -> None:
        self._memory.keep("gate_lists", self._lists)
        self._memory.keep("gates", self._gates)

    def set(self, port: Hop, gates: Gates, base_ps: int, longest: int | None) -> None:
        """As of ``VirtualNetwork.set_gates``."""
        link = self._wiring.links[self._wiring.link_from(port)]
        world = self._memory.world[0]
        if not self._wiring.nodes[link["source"]]["is_switch"]:
            raise FabricError(f"gates: {port[0]!r} is no switch; hosts are paused instead")
        longest = int(world["max_frame"]) if longest is None else longest
        place = self._place(tuple(gates), base_ps, longest) if gates else 0
        link["gates"], link["gate_at"] = place, world["now"]
        self._memory.make_space(frames=1)
        add_event(self._memory.world, int(world["now"]), self._wiring.link_from(port) * EVENT_KINDS + GATE)

    def _place(self, gates: tuple[tuple[int, int], ...], base_ps: int, longest: int) -> int:
        if any(duration <= 0 or not 0 <= queues <= ALL_QUEUES for duration, queues in gates):
            raise FabricError(f"gates: durations must be positive, queues are bits 0..{ALL_QUEUES}")
        cycle = sum(duration for duration, _ in gates)
        if (
            cycle > NO_LIMIT // 8
            or abs(base_ps) > NO_LIMIT // 8
            or not 1 <= longest <= self._memory.world[0]["max_frame"]
        ):
            raise FabricError("gates: a cycle or base beyond virtual time, or a longest frame above max_frame")
        key = (gates, base_ps % cycle, longest)
        if key not in self._known:
            self._known[key] = len(self._known) + 1
            first = len(self._gates)
            until = np.cumsum([duration for duration, _ in gates])
            rows = np.array(list(zip(until.tolist(), (queues for _, queues in gates), strict=True)), dtype=GATES)
            self._gates = np.concatenate([self._gates, rows])
            one = np.array([(base_ps % cycle, cycle, first, len(gates), longest)], dtype=GATE_LIST)
            self._lists = np.concatenate([self._lists[: len(self._known) - 1], one])
            self._keep()
        return self._known[key]
