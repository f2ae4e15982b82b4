"""A finished plan with all data for switches, workers and predictions. Immutable."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Annotated, Any

from p4reduce.base.errors import PlanError
from p4reduce.base.records import ITEMS, Given
from p4reduce.control_plane.plans.routes import frame_bytes, hops
from p4reduce.control_plane.resources import Grant
from p4reduce.topologies import Topology
from p4reduce.topologies.optical import lit, with_lit
from p4reduce.workers.specs import CLOSED
from p4reduce.workers.wire import INC_UDP_PORT, WORD_BITS
from p4switch.base.values import PS_PER_S, PS_PER_US, table


@dataclass(frozen=True, slots=True)
class Address:
    """The addresses and port with which a node sends a frame to another node.

    ``ip`` and ``udp`` belong to the destination, ``port`` to the sender, ``mac`` to the next node on the path.
    """

    name: str
    ip: int
    udp: int
    port: int
    mac: int


@dataclass(frozen=True, slots=True)
class Child:
    """A child of an aggregator: its address, its bit in the bitmap, and its replication id."""

    address: Address
    bit: int
    rid: int
    is_worker: bool

    @property
    def name(self) -> str:
        """The node's name."""
        return self.address.name

    @property
    def mask(self) -> int:
        """The child's bit as a bitmap."""
        return 1 << self.bit


Parent = Address
"""The parent of an aggregator: a switch, or the parameter server's host."""


@dataclass(frozen=True, slots=True)
class Aggregator:
    """A node that aggregates: a switch, or a worker (a relay), which uses no resources of a switch and is bit 0 of its
    own bitmap. ``parent`` is None at a root without a server; ``level`` is 0 at the root.
    """

    name: str
    level: int
    children: tuple[Child, ...]
    parent: Parent | None
    group: int
    base: int
    slots: int

    @property
    def full(self) -> int:
        """The bitmap of all children."""
        return (1 << len(self.children)) - 1


@dataclass(frozen=True)
class Plan:
    """The aggregation points and paths of one (job, epoch).

    Attributes
    ----------
    name : str
        The planner's name: 'steiner', 'mst', 'spt', 'ring', 'ps' or a plug-in's; 'best (ring)' if 'best' chose it.
    job, epoch, generation : int
        The key of the table entries; the tag of the slots.
    workers : tuple of str
        Hosts in rank order.
    server : str or None
        The parameter server's host; the parent of the root.
    aggregators, relays : tuple of Aggregator
        Switches and workers that aggregate, from the root on, level by level; empty for host-side plans.
    paths : mapping
        (source, destination) -> nodes, for every overlay hop in both directions.
    ring : tuple of str
        Workers in ring order; empty unless the plan is a ring.
    mesh : bool
        Whether the plan is an all-to-all: every worker sends to every other one.
    window, slots : int
        Chunks in flight, and slots in each aggregator; window <= slots / 2, with a deadline slots / 8.
    deadline_ps : int or None
        Time after which a chunk is closed without missing contributions.
    tokens : mapping
        (child, parent) -> their token (`control_plane/entries.py`); empty: no tokens. Left out of :meth:`describe`.
    rtt_ps : int
        Time from sending a full frame to receiving the full answer, all links idle but for this chunk.
    chunk_ps : int
        Time between chunks on the busiest link: the time of all full frames that it carries for a chunk on the
        way up, or on the way down if these are more. Longer if a slower pace was requested.
    window_needed : int
        The window that keeps the busiest link busy.
    window_wanted : int
        The requested window, or a window chosen with a margin; too few slots reduce ``window`` below it.
    slots_rate_bps : int
        Payload rate that ``window`` allows: window * payload / rtt.
    gaps : bool
        Whether the switches can answer questions for frames lost on their links. Left out of :meth:`describe`.
    part : tuple of int
        The plan's part of each tensor (:meth:`part_of`) when several trees share it: the sum of the weights of
        the trees before it, its weight, and the sum of all weights.
    """

    name: str
    topology: Annotated[Topology, Given("topology", lit, with_lit)] = field(repr=False)
    job: int
    epoch: int
    generation: int
    workers: tuple[str, ...]
    server: str | None
    lanes: int
    aggregators: tuple[Aggregator, ...]
    paths: Annotated[Mapping[tuple[str, str], tuple[str, ...]], ITEMS] = field(repr=False)
    ring: tuple[str, ...]
    udp_ports: Mapping[str, int] = field(repr=False)
    priority: int | None
    window: int
    slots: int
    rtt_ps: int
    chunk_ps: int
    window_needed: int
    window_wanted: int
    grant: Grant = field(repr=False)
    mesh: bool = False
    deadline_ps: int | None = None
    tokens: Annotated[Mapping[tuple[str, str], int], ITEMS] = field(default_factory=dict, repr=False)
    relays: tuple[Aggregator, ...] = ()
    part: tuple[int, int, int] = (0, 1, 1)
    gaps: bool = True

    def part_of(self, elements: int, bits: int = WORD_BITS) -> slice:
        """The plan's part of an array: whole chunks, in proportion to its weight; it may be empty for few chunks.

        bits: bits of a lane.
        """
        before, weight, total = self.part
        chunk = self.lanes * (WORD_BITS // bits)
        a, b = (-(-elements // chunk) * ends // total * chunk for ends in (before, before + weight))
        return slice(min(a, elements), min(b, elements))

    @property
    def exchanged(self) -> bool:
        """Whether the hosts exchange data among themselves, without a server: in a ring, in trees, or all to all."""
        return self.server is None

    @property
    def in_network(self) -> bool:
        """Whether integers are added on the way, by switches or by workers that act like switches (relays)."""
        return bool(self.aggregators or self.relays)

    @property
    def root(self) -> str:
        """The root, a switch or a relay; `PlanError` for a plan without aggregation in the network."""
        if not self.in_network:
            raise PlanError(f"plan {self.name!r} has no root: its switches only forward")
        return min((*self.aggregators[:1], *self.relays[:1]), key=lambda adder: adder.level).name

    @property
    def lead(self) -> int:
        """Number of chunks by which exponents are agreed ahead: the largest window that the slots allow."""
        return self.slots // (2 if self.deadline_ps is None else CLOSED)

    def deadline_us(self, aggregator: Aggregator) -> int | None:
        """Microseconds after which a switch closes a chunk without missing contributions: a share for each level."""
        if self.deadline_ps is None:
            return None
        levels = self.aggregators[-1].level + 1
        return max(1, self.deadline_ps * (levels - aggregator.level) // (levels * PS_PER_US))

    @property
    def finds_gaps(self) -> bool:
        """Whether switches ask for frames lost on their links. Not in turns, whose circuits may be dark by then."""
        return self.gaps and self.name != "tdm"

    @property
    def asks_again_after(self) -> int:
        """Chunks after which a switch looks whether its question for a lost frame has brought it.

        Workers send at most half the slots beyond their oldest chunk, so queues are shorter than half the slots, and an
        answer through a full queue comes before this. A slot holds its chunk until the last one of its lap.
        """
        return 3 * self.slots // 4

    @property
    def slots_limited(self) -> bool:
        """Whether the slots, not the links or the request, limit the rate: rate <= (slots / 2) * payload / rtt."""
        return self.in_network and self.window < min(self.window_wanted, self.window_needed)

    @property
    def slots_rate_bps(self) -> int:
        """Payload rate that the window allows, bit/s."""
        return self.window * self.lanes * 32 * PS_PER_S // max(1, self.rtt_ps)

    @property
    def frame_bytes(self) -> int:
        """Bytes of a full frame."""
        return frame_bytes(self.lanes)

    @cached_property
    def by_switch(self) -> Mapping[str, Aggregator]:
        """Aggregating switches by name."""
        return {aggregator.name: aggregator for aggregator in self.aggregators}

    @cached_property
    def parents(self) -> Mapping[str, str]:
        """The overlay's parent of every worker and aggregator; the root's parent is the server, if there is one."""
        adding = (*self.aggregators, *self.relays)
        parents = {child.name: aggregator.name for aggregator in adding for child in aggregator.children}
        if self.server is not None and self.aggregators:
            parents[self.root] = self.server
        return parents

    @cached_property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Overlay edges in the direction of contributions: child to parent, worker to server, host to next host.

        In an all-to-all, every ordered pair of workers.
        """
        if self.mesh:
            return tuple(permutations(self.workers, 2))
        if self.in_network:
            return tuple(self.parents.items())
        if self.ring:
            return tuple((a, b) for a, b in zip(self.ring, (*self.ring[1:], self.ring[0]), strict=True) if a != b)
        return tuple((worker, self.server) for worker in self.workers if self.server is not None)

    def address(self, source: str, destination: str) -> Address:
        """The address with which ``source`` reaches ``destination``; `PlanError` when the plan has no such hop."""
        try:
            path = self.paths[(source, destination)]
        except KeyError:
            raise PlanError(f"plan {self.name!r} of job {self.job} has no hop {source} -> {destination}") from None
        return address(self.topology, path, self.udp_ports)

    def token(self, a: str, b: str) -> int:
        """The token of two neighbours of the overlay; 0 when the plan has no tokens."""
        return self.tokens.get((a, b)) or self.tokens.get((b, a), 0)

    def up(self, node: str) -> Address:
        """The address to which a node sends contributions: its aggregator, the server, or the next in the ring."""
        for child, parent in self.edges:
            if child == node:
                return self.address(child, parent)
        raise PlanError(f"plan {self.name!r} of job {self.job}: {node} sends nothing up")

    def path_hops(self, source: str, destination: str) -> list[tuple[str, int]]:
        """Directed links of an overlay hop, each as (node, port)."""
        return hops(self.topology, self.paths[(source, destination)])

    def workers_below(self, aggregator: str) -> tuple[str, ...]:
        """Workers whose contributions pass through an aggregator, in rank order."""
        below: dict[str, list[str]] = {}
        for child, parent in self.parents.items():
            below.setdefault(parent, []).append(child)
        descendants: set[str] = set()
        open_ = [aggregator]
        while open_:
            descendants.update(under := below.get(open_.pop(), []))
            open_ += under
        return tuple(worker for worker in self.workers if worker in descendants)

    def _repr_html_(self) -> str:
        """A table for notebooks: the aggregators and their children; without aggregation, the paths of the hops."""
        title = f"{self.name} on {self.topology.name}: {len(self.workers)} workers, window {self.window} chunks"
        if not self.in_network:
            hops_of = [(a, b, " > ".join(path)) for (a, b), path in self.paths.items()]
            return table(title, ("from", "to", "path"), hops_of)
        rows = [
            (
                adder.name,
                adder.level,
                adder.parent.name if adder.parent else "-",
                ", ".join(child.name for child in adder.children),
            )
            for adder in (*self.aggregators, *self.relays)
        ]
        return table(title, ("switch", "level", "parent", "children"), rows)

    def describe(self) -> dict[str, Any]:
        """The plan as plain data, for JSON."""
        return {
            "plan": self.name,
            "topology": self.topology.name,
            "job": self.job,
            "epoch": self.epoch,
            "generation": self.generation,
            "workers": list(self.workers),
            "server": self.server,
            "lanes": self.lanes,
            "priority": self.priority,
            "window": self.window,
            "slots": self.slots,
            "rtt_ps": self.rtt_ps,
            "chunk_ps": self.chunk_ps,
            "slots_limited": self.slots_limited,
            "slots_rate_bps": self.slots_rate_bps,
            "ring": list(self.ring),
            "mesh": self.mesh,
            **({} if self.deadline_ps is None else {"deadline_ps": self.deadline_ps}),
            "aggregators": [
                {
                    "switch": aggregator.name,
                    "level": aggregator.level,
                    "parent": aggregator.parent.name if aggregator.parent else None,
                    "parent_port": aggregator.parent.port if aggregator.parent else None,
                    "group": aggregator.group,
                    "base": aggregator.base,
                    "children": [
                        {"node": child.name, "bit": child.bit, "port": child.address.port, "rid": child.rid}
                        for child in aggregator.children
                    ],
                }
                for aggregator in self.aggregators
            ],
            **({"relays": [relay.name for relay in self.relays]} if self.relays else {}),
            "edges": [
                {"child": child, "parent": parent, "path": list(self.paths[(child, parent)])}
                for child, parent in self.edges
            ],
        }


def address(topology: Topology, path: tuple[str, ...], udp_ports: Mapping[str, int]) -> Address:
    """The address with which the first node of a path reaches the last."""
    target = topology.node(path[-1])
    return Address(
        name=target.name,
        ip=target.ip,
        udp=udp_ports.get(target.name, INC_UDP_PORT) if target.is_host else INC_UDP_PORT,
        port=topology.port(path[0], path[1]),
        mac=topology.node(path[1]).mac,
    )
