"""The circuits of optical cross-connects, and when they change."""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.fabric.errors import FabricError
from p4reduce.fabric.kernels.loop import add_last
from p4reduce.fabric.memory import Memory
from p4reduce.fabric.records import CIRCUIT, EVENT_KINDS, MIRROR, NONE, RECONFIGURATION, TURN
from p4reduce.fabric.wiring import Wiring
from p4reduce.topologies import Link, Topology

Turn = tuple[int, int, int, int]


class Circuits:
    """What mirrors do: records for `kernels/circuits.py`. A cross-connect begins without any circuit."""

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
        """As of ``VirtualNetwork.reconfigure``, at a time that is not past."""
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
        """`FabricError` for circuits that mirrors cannot make."""
        self._turned(None, circuits)

    def _turned(self, crossconnect: str | None, circuits: Iterable[Link]) -> tuple[Turn, ...]:
        """For every port of a cross-connect where it leads."""
        wiring = self._wiring
        passive = {wiring.node(node.name) for node in self._topology.crossconnects}
        if crossconnect is not None:
            if wiring.node(crossconnect) not in passive:
                raise FabricError(f"{crossconnect!r} is no cross-connect")
            passive = {wiring.node(crossconnect)}
        if not passive:
            raise FabricError(f"topology {self._topology.name!r} has no cross-connect")
        turns: dict[int, Turn] = {
            uplink: (uplink, NONE, int(self._rates[uplink]), NONE)
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
            for own, other in (ends, ends[::-1]):
                turns[own] = (own, other ^ 1, link.rate_bps, int(wiring.links[other]["source"]))
        return tuple(turns.values())
