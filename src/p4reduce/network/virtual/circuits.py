"""Circuits of optical cross-connects, gates and faults of links: network changes at run time."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.virtual.counters import NetworkCounters, Wiring, set_faults
from p4reduce.network.virtual.kernels.loop import add_event, add_last
from p4reduce.network.virtual.memory import Memory
from p4reduce.network.virtual.records import (
    CIRCUIT,
    EVENT_KINDS,
    GATE,
    GATE_LIST,
    GATES,
    MIRROR,
    NO_LIMIT,
    NONE,
    PRIORITIES,
    RECONFIGURATION,
    TURN,
    FabricError,
    Faults,
)
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import Hop

Turn = tuple[int, int, int, int, int]


class Circuits:
    """Mirror records for the compiled loop (`kernels/loop.py`). A cross-connect begins without circuits."""

    def __init__(self, topology: Topology, wiring: Wiring, memory: Memory) -> None:
        self._topology, self._wiring, self._memory = topology, wiring, memory
        self._rates: Final = wiring.links["rate_bps"].copy()
        self._mirrors = np.zeros(max(len(wiring.links), 1), dtype=MIRROR)
        self._mirrors["circuit"] = self._mirrors["following"] = NONE
        self._turns: NDArray[Any] = np.zeros(1, dtype=TURN)
        self._reconfigurations: NDArray[Any] = np.zeros(1, dtype=RECONFIGURATION)
        self._known: dict[tuple[tuple[Turn, ...], int], int] = {}
        memory.keep("mirrors", self._mirrors)
        self._keep()

    def _keep(self) -> None:
        self._memory.keep("turns", self._turns)
        self._memory.keep("reconfigurations", self._reconfigurations)

    def reconfigure(self, crossconnect: str | None, circuits: Iterable[Link], at_ps: int, dark_ps: int) -> None:
        """Implement ``VirtualNetwork.reconfigure``, at a time that is not past."""
        if dark_ps < 0:
            raise FabricError(f"dark_ps={dark_ps}: mirrors turn in no less than no time")
        turns = self._turned(crossconnect, circuits)
        index = self._known.get((turns, dark_ps))
        if index is None:
            index = self._known[turns, dark_ps] = len(self._known)
            first = len(self._turns)
            self._turns = np.concatenate([self._turns, np.array(turns, dtype=np.int64).view(TURN).reshape(-1)])
            row = np.array([(first, len(turns), dark_ps)], dtype=RECONFIGURATION)
            self._reconfigurations = np.concatenate([self._reconfigurations[:index], row])
            self._keep()
        self._memory.make_space(frames=1)
        add_last(self._memory.world, at_ps, index * EVENT_KINDS + CIRCUIT)

    def check(self, circuits: Iterable[Link]) -> None:
        """Raise `FabricError` for circuits that mirrors cannot make."""
        self._turned(None, circuits)

    def _turned(self, crossconnect: str | None, circuits: Iterable[Link]) -> tuple[Turn, ...]:
        """Return the new turn of every port of a cross-connect; ports without a circuit lead nowhere."""
        wiring = self._wiring
        passive = {wiring.node(node.name) for node in self._topology.crossconnects}
        if crossconnect is not None:
            if wiring.node(crossconnect) not in passive:
                raise FabricError(f"{crossconnect!r} is no cross-connect")
            passive = {wiring.node(crossconnect)}
        if not passive:
            raise FabricError(f"topology {self._topology.name!r} has no cross-connect")
        turns: dict[int, Turn] = {
            uplink: (uplink, NONE, int(self._rates[uplink]), NONE, 0)
            for uplink, target in enumerate(wiring.links["target"].tolist())
            if target in passive
        }
        joined: set[int] = set()
        for link in circuits:
            ends = [wiring.link_from((link.a, link.port_a)), wiring.link_from((link.b, link.port_b))]
            where = f"circuit {link.a} port {link.port_a} - {link.b} port {link.port_b}"
            if any(end not in turns for end in ends):
                raise FabricError(f"{where}: a port does not lead to {crossconnect or 'a cross-connect'}")
            if wiring.links[ends[0]]["target"] != wiring.links[ends[1]]["target"]:
                raise FabricError(f"{where}: its ports lead to different cross-connects")
            if ends[0] == ends[1] or joined & set(ends):
                raise FabricError(f"{where}: a port is joined twice")
            joined.update(ends)
            extra_ps = max(0, link.delay_ps - int(wiring.links["delay_ps"][ends].sum()))
            for own, other in (ends, ends[::-1]):
                turns[own] = (own, other ^ 1, link.rate_bps, int(wiring.links[other]["source"]), extra_ps)
        return tuple(turns.values())


# Gate control lists of output ports (IEEE 802.1Qbv): times at which each queue of a port may send.


ALL_QUEUES: Final = (1 << PRIORITIES) - 1
Gates = Sequence[tuple[int, int]]
"""Entries (duration in picoseconds, open queues as bits) in sequence, repeated from the beginning."""


class GateLists:
    """Gate records for `kernels/wires.py`."""

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
        """Implement ``VirtualNetwork.set_gates``."""
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
            gate_list = np.array([(base_ps % cycle, cycle, first, len(gates), longest)], dtype=GATE_LIST)
            self._lists = np.concatenate([self._lists[: len(self._known) - 1], gate_list])
            self._keep()
        return self._known[key]


# Changes of a network while it runs: circuits, gates and faults of its links.


class Changing(NetworkCounters):
    """Methods of a network that change its links."""

    _circuits: Circuits
    _gates: GateLists
    _seed: int

    def reconfigure(
        self, crossconnect: str | None, circuits: Iterable[Link], at_ps: int | None = None, dark_ps: int = 0
    ) -> None:
        """Join ports of a cross-connect (None: of all) from a time on, and disconnect all its other ports.

        Ports whose circuits change are dark in [at_ps, at_ps + dark_ps), receivers' lock time included. A frame is lost
        if any of its bits is there at that time, or if its bits would be split between two circuits. Circuits that stay
        carry on. If reconfigurations overlap, the later one applies to the ports that it changes.

        circuits: links between switches at ports that lead to the cross-connect, with the rate of both directions
        (:func:`~p4reduce.topologies.optical.lay_circuits`). A delay above the sum of both fibres' delays is that of a
        longer path behind the cross-connect.
        """
        self._circuits.reconfigure(crossconnect, circuits, self._time(at_ps), dark_ps)

    def check_circuits(self, circuits: Iterable[Link]) -> None:
        """Raise `FabricError` for circuits that :meth:`reconfigure` would refuse."""
        self._circuits.check(circuits)

    def set_gates(self, port: Hop, gates: Gates, *, base_ps: int = 0, longest: int | None = None) -> None:
        """Let a switch's port send from a queue only while the queue's gate is open (IEEE 802.1Qbv), from now on.

        gates: (picoseconds, open queues as bits) in turns, aligned to ``base_ps``; empty: always open. longest: bytes
        of the longest frame, which must fit in before a gate closes; ``max_frame`` if None.
        """
        self._gates.set(port, gates, base_ps, longest)

    def set_faults(self, port: Hop, faults: Faults) -> None:
        """Set the faults of frames that leave a node by a port from now on; frames in flight are not affected.

        ``Faults(loss=1)`` cuts a direction of a link. The link's random draws continue where they were.
        """
        set_faults(self._wiring.links, self._wiring.link_places, {port: faults}, self._seed)

    def _time(self, at_ps: int | None) -> int:
        time_ps = self.now if at_ps is None else at_ps
        if time_ps > NO_LIMIT:
            raise FabricError(f"at_ps={time_ps} is beyond the end of virtual time, {NO_LIMIT} ps (53 days)")
        if time_ps < self.now:
            raise FabricError(f"at_ps={time_ps} is past: it is {self.now} ps")
        return time_ps
