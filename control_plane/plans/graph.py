"""A topology's switches and the links between them as arrays, made once for each topology."""

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.frames import frame_time_ps
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

Ints = npt.NDArray[np.int64]
Short = npt.NDArray[np.int32]
_PLACE_SHIFT: Final = 20


class _Arcs(dict[Hop, int]):
    def __missing__(self, hop: Hop) -> int:
        return -1


@dataclass(frozen=True, eq=False)
class SwitchGraph:
    """Switches and directed links (arcs) in compressed rows: the arcs of switch i are ``starts[i] .. starts[i+1] - 1``.

    Arcs of a switch stand in the order of its ports. n switches, m arcs.

    Attributes
    ----------
    names : tuple of str
        Switches by index.
    starts, heads, tails, reverse : int32
        (n + 1,) and (m,): the rows; where an arc leads and begins; the arc of the same link the other way.
    ports : int32 (m,)
        Port of the switch at which an arc begins.
    place, label : int64 (m,)
        The link's place in the topology, and a hash of its name: to choose among equal paths.
    rate_bps, delay_ps : int64 (m,)
        Of the link.
    capable : tuple of str
        Switches that can aggregate.
    access : mapping
        The switch at which every host hangs; a switch's is itself.
    """

    names: tuple[str, ...]
    starts: Short
    heads: Short
    tails: Short
    reverse: Short
    ports: Short
    place: Ints
    label: Ints
    rate_bps: Ints
    delay_ps: Ints
    capable: tuple[str, ...] = field(repr=False)
    index: Mapping[str, int] = field(repr=False)
    access: Mapping[str, str] = field(repr=False)

    @cached_property
    def arcs(self) -> "dict[Hop, int]":
        """Arc by (switch, port); -1 for links of hosts."""
        tails, ports = self.tails.tolist(), self.ports.tolist()
        return _Arcs(((self.names[tail], port), arc) for arc, (tail, port) in enumerate(zip(tails, ports, strict=True)))

    @cached_property
    def _capable_places(self) -> Short:
        return np.array([self.index[name] for name in self.capable], np.int32)

    def places(self, names: tuple[str, ...]) -> Short:
        """Indices of switches, int32."""
        if names is self.capable:
            return self._capable_places
        return np.array([self.index[name] for name in names], np.int32)

    @cached_property
    def _frame_times(self) -> dict[int, Ints]:
        return {}

    def frame_times(self, length: int) -> Ints:
        """How long a frame of so many bytes occupies every arc, picoseconds, int64 (m,)."""
        if length not in self._frame_times:
            rates, place = np.unique(self.rate_bps, return_inverse=True)
            times = np.array([frame_time_ps(length, int(rate)) for rate in rates], np.int64)
            self._frame_times[length] = times[place] if len(times) else np.zeros(0, np.int64)
        return self._frame_times[length]

    def tie_breaks(self, *, spread: bool) -> Ints:
        """What decides between equal ways, below 2**37, int64 (m,): the link's place (or a hash), then its name."""
        return self._tie_breaks[spread]

    @cached_property
    def _tie_breaks(self) -> tuple[Ints, Ints]:
        first = np.minimum(self.place, 2**16 - 1), self.label >> 16
        low = self.label & ((1 << _PLACE_SHIFT) - 1)
        return (first[0] << _PLACE_SHIFT) + low, (first[1] << _PLACE_SHIFT) + low

    @cached_property
    def _looked_up(self) -> "list[tuple[list[Hop], Ints]]":
        """Links that were asked for last, and their arcs."""
        return []

    def by_arc(self, values: Mapping[Hop, int]) -> Ints:
        """Values of directed links between switches as an array over arcs; 0 where there is none."""
        found = np.zeros(len(self.heads) + 1, np.int64)
        if values:
            found[self._arcs_of(list(values))] = np.fromiter(values.values(), np.int64, len(values))
        return found[:-1]

    def _arcs_of(self, hops: list[Hop]) -> Ints:
        # Mostly they are the same as the last time, and to see that is faster than to look them up.
        for known, arcs in self._looked_up:
            if known == hops:
                return arcs
        arcs = np.fromiter(map(self.arcs.__getitem__, hops), np.int64, len(hops))
        self._looked_up[:] = [(hops, arcs), *self._looked_up[:1]]
        return arcs

    def hop(self, arc: int) -> Hop:
        """The directed link of an arc."""
        return self.names[self.tails[arc]], int(self.ports[arc])


_GRAPHS: dict[int, tuple[Callable[[], Topology | None], SwitchGraph]] = {}


def switch_graph(topology: Topology) -> SwitchGraph:
    """The arrays of a topology; the same object as long as the topology lives."""
    known = _GRAPHS.get(id(topology))
    if known is not None and known[0]() is topology:
        return known[1]
    graph = _compile(topology)
    key = id(topology)

    def forget(reference: Any) -> None:
        if key in _GRAPHS and _GRAPHS[key][0] is reference:
            del _GRAPHS[key]

    _GRAPHS[key] = (weakref.ref(topology, forget), graph)
    return graph


def _compile(topology: Topology) -> SwitchGraph:
    names = tuple(switch.name for switch in topology.switches)
    index = {name: number for number, name in enumerate(names)}
    rows: list[tuple[int, int, int, int, int, int, int]] = []
    for place, link in enumerate(topology.links):
        a, b = index.get(link.a), index.get(link.b)
        if a is not None and b is not None:
            label = crc32(f"{link.a}-{link.b}".encode())
            rows.append((a, link.port_a, b, place, label, link.rate_bps, link.delay_ps))
            rows.append((b, link.port_b, a, place, label, link.rate_bps, link.delay_ps))
    table = np.array(rows, np.int64).reshape(-1, 7)
    order = np.lexsort((table[:, 1], table[:, 0]))
    moved = np.empty(len(order), np.int32)
    moved[order] = np.arange(len(order), dtype=np.int32)
    twin = np.arange(len(order)) ^ 1  # both directions of a link were put in together
    table = table[order]
    starts = np.searchsorted(table[:, 0], np.arange(len(names) + 1))
    return SwitchGraph(
        names=names,
        starts=starts.astype(np.int32),
        heads=table[:, 2].astype(np.int32),
        tails=table[:, 0].astype(np.int32),
        reverse=moved[twin[order]],
        ports=table[:, 1].astype(np.int32),
        place=np.ascontiguousarray(table[:, 3]),
        label=np.ascontiguousarray(table[:, 4]),
        rate_bps=np.ascontiguousarray(table[:, 5]),
        delay_ps=np.ascontiguousarray(table[:, 6]),
        capable=tuple(switch.name for switch in topology.switches if switch.capable),
        index=index,
        access={
            node.name: node.name if node.is_switch else topology.neighbours(node.name)[0]
            for node in topology.nodes
            if not node.is_crossconnect
        },
    )


def same_both_ways(graph: SwitchGraph, words: Ints) -> bool:
    """Whether every link weighs the same in both directions."""
    return bool(np.array_equal(words, words[graph.reverse]))
