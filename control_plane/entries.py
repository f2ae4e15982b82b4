"""Entries of plans for the P4 program: tables and multicast groups (names as in p4src/); diagnosis from slots."""

import hashlib
import json
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import finsy as fy
from finsy.p4entity import P4Entity
from finsy.proto import p4i
from google.protobuf import text_format

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.plans.plan import Address, Aggregator, Child, Plan
from p4reduce.control_plane.plans.routes import Route
from p4reduce.control_plane.resources import QUESTIONS, TO_PARENT
from p4reduce.topologies import Topology
from p4reduce.workers.specs import TOKEN_BITS
from p4reduce.workers.status import WaitStatus
from p4reduce.workers.wire import PacketType
from p4switch.base.files import read_bytes

# Diagnosis from a switch's slots: which contributions to a chunk are in, and which are missing.


ReadCell = Callable[[str, int], int | None]
"""Function from switch and slot index to the slot's packed state, or None if the target cannot read registers."""

_LINES: Final = 16
"""largest number of lines of a diagnosis"""


@dataclass(frozen=True, slots=True)
class SlotState:
    """A slot's state as p4src/headers.p4 packs it (slot_t)."""

    generation: int
    seq: int
    bitmap: int
    count: int
    exponent: int
    pull: bool
    has_lanes: bool
    result_lanes: bool
    saturated: bool
    ecn: bool
    done: bool

    @classmethod
    def unpack(cls, cell: int) -> "SlotState":
        """Unpack the 128 bits of a register cell."""
        return cls(
            generation=cell >> 96 & 0xFFFFFFFF,
            seq=cell >> 64 & 0xFFFFFFFF,
            bitmap=cell >> 32 & 0xFFFFFFFF,
            count=cell >> 16 & 0xFFFF,
            exponent=cell >> 8 & 0xFF,
            pull=bool(cell >> 7 & 1),
            has_lanes=bool(cell >> 6 & 1),
            result_lanes=bool(cell >> 5 & 1),
            saturated=bool(cell >> 4 & 1),
            ecn=bool(cell >> 3 & 1),
            done=bool(cell >> 2 & 1),
        )


def slot_index(aggregator: Aggregator, seq: int) -> int:
    """Index of the slot of chunk ``seq`` in a switch."""
    return aggregator.base + (seq & (aggregator.slots - 1))


def who_is_missing(plan: Plan, seq: int, read: ReadCell) -> str:
    """Explain why chunk ``seq`` of a job is not done, from the slots of its tree.

    Follows missing contributions from the root down to their origins: workers that have not sent, switches whose
    partial sum or result is on its way or lost.

    Returns
    -------
    str
        One line for each switch with a cause; one line when the chunk is done at every switch.
    """
    head = f"job {plan.job} epoch {plan.epoch}, chunk {seq}"
    if not plan.in_network:
        return f"{head}: plan {plan.name!r} has no slots in the network; its hosts know who is missing"
    lines = [line for top in _tops(plan) for line in _explain(plan, top, seq, read)] or [
        f"done at every switch; a worker that lacks it can ask {plan.root}"
    ]
    more = [f"... and {len(lines) - _LINES} more"] if len(lines) > _LINES else []
    return "\n".join(f"{head}: {line}" for line in lines[:_LINES] + more)


def _tops(plan: Plan) -> list[Aggregator]:
    """Switches without a switch above them: the root, or switches directly below workers that aggregate."""
    return [
        aggregator
        for aggregator in plan.aggregators
        if aggregator.parent is None or aggregator.parent.name not in plan.by_switch
    ]


def _explain(plan: Plan, aggregator: Aggregator, seq: int, read: ReadCell) -> list[str]:
    """Reasons why a chunk is not done at a switch or below it, one line each; empty when it is done."""
    index = slot_index(aggregator, seq)
    where = f"slot {index} of {aggregator.name}"
    cell = read(aggregator.name, index)
    if cell is None:
        return [f"{where} cannot be read: its target has no P4Runtime registers (the embedded switch has them)"]
    slot = SlotState.unpack(cell)
    ours = slot.generation == plan.generation
    if ours and slot.seq != seq and (slot.seq - seq) & 0xFFFFFFFF < 1 << 31:
        return []  # a later chunk: this one was done long ago
    bitmap = slot.bitmap if ours and slot.seq == seq else 0
    missing = [child for child in aggregator.children if not bitmap & child.mask]
    if missing:
        return _missing(plan, aggregator, seq, read, missing=missing, where=where)
    if not slot.done and aggregator.parent is not None:
        return [f"{where} has every contribution and waits for the result of {aggregator.parent.name}"]
    below = [plan.by_switch[child.name] for child in aggregator.children if not child.is_worker]
    return [line for child in below for line in _explain(plan, child, seq, read)]


def _missing(
    plan: Plan, aggregator: Aggregator, seq: int, read: ReadCell, *, missing: list[Child], where: str
) -> list[str]:
    """Name missing workers; for a missing switch, return the reasons of :func:`_explain`."""
    named = [node_name(plan, child.name) for child in missing if child.is_worker]
    lines: list[str] = []
    for child in missing:
        if not child.is_worker:
            below = _explain(plan, plan.by_switch[child.name], seq, read)
            lines += below
            if not below or any(f"result of {aggregator.name}" in line for line in below):
                named.append(f"the partial sum of {child.name}")
    return ([f"{where} waits for {', '.join(named)}"] if named else []) + lines


def node_name(plan: Plan, node: str) -> str:
    """Name a node in a message: a worker with its rank."""
    return f"worker {plan.workers.index(node)} ({node})" if node in plan.workers else node


# The nodes that a chunk waits for: evidence from the data path that members of a job do not respond.


def blamed(plan: Plan, seq: int, read: ReadCell) -> frozenset[str]:
    """Workers and switches whose contributions chunk ``seq`` lacks, in the whole tree; empty when it is done.

    A switch is named with the nodes missing below it, since its link or the switch itself may be the cause. If a slot
    cannot be read, all workers below its switch are named. Only for plans that aggregate in the network.

    If a switch has all contributions and no result, its first child is named too: only this worker asks for the result
    (p4src/slot.p4), and if it has died, a result that was lost on the way down never comes.

    Slots of workers that aggregate cannot be read, so they and the workers below them are always named, as in a ring.
    """
    silent = {_asks_for_all(plan, aggregator, seq, read) for aggregator in plan.aggregators}
    missing: set[str] = set()
    for top in _tops(plan):
        missing |= _missing_names(plan, top, seq, read)
    return frozenset(missing | (silent - {""}) | relaying(plan))


def relaying(plan: Plan) -> set[str]:
    """Workers that aggregate for others, and their children."""
    return {name for relay in plan.relays for name in (relay.name, *(child.name for child in relay.children))}


def _asks_for_all(plan: Plan, aggregator: Aggregator, seq: int, read: ReadCell) -> str:
    """The worker that must ask a switch for a result that the switch itself still lacks; "" if there is none."""
    cell = read(aggregator.name, slot_index(aggregator, seq))
    slot = None if cell is None else SlotState.unpack(cell)
    first = min(aggregator.children, key=lambda child: child.bit)
    if slot is None or slot.generation != plan.generation or slot.seq != seq or slot.done or not first.is_worker:
        return ""
    return first.name if all(slot.bitmap & child.mask for child in aggregator.children) else ""


def _missing_names(plan: Plan, aggregator: Aggregator, seq: int, read: ReadCell) -> set[str]:
    cell = read(aggregator.name, slot_index(aggregator, seq))
    if cell is None:
        return {aggregator.name, *plan.workers_below(aggregator.name)}
    slot = SlotState.unpack(cell)
    ours = slot.generation == plan.generation
    if ours and slot.seq != seq and (slot.seq - seq) & 0xFFFFFFFF < 1 << 31:
        return set()  # a later chunk: this one was done long ago
    there = slot.bitmap if ours and slot.seq == seq else 0
    missing: set[str] = set()
    for child in aggregator.children:
        if not there & child.mask:
            missing.add(child.name)
            if not child.is_worker:
                missing |= _missing_names(plan, plan.by_switch[child.name], seq, read)
    return missing


def out_of_turn(plan: Plan, seqs: Collection[int], read: ReadCell, *, pulls: bool) -> frozenset[str]:
    """Workers that occupy, out of turn, the slots of chunks that some member still lacks.

    seqs: chunks that members lack. pulls: whether the operation asks for its chunks (PULL) instead of contributing. A
    slot opened by packets of the other kind is closed to workers that send the right kind. A slot is also closed to
    them while it holds a later chunk, which no correct worker sends: the window is at most half of the slots.
    """
    names: set[str] = set()
    for aggregator in plan.aggregators:
        for seq in seqs:
            cell = read(aggregator.name, slot_index(aggregator, seq))
            slot = None if cell is None else SlotState.unpack(cell)
            if slot is None or slot.generation != plan.generation or slot.done:
                continue
            lap = 0 < (slot.seq - seq) & 0xFFFFFFFF < 1 << 31
            if lap or (slot.seq == seq and slot.pull != pulls):
                names |= {child.name for child in aggregator.children if child.is_worker and slot.bitmap & child.mask}
    return frozenset(names)


# Missing contributions from the WAITs that switches send to workers (docs/protocol.md, Loss): needs no registers.


def awaited_at(plan: Plan, worker: str, wait: WaitStatus) -> tuple[str, tuple[str, ...]]:
    """Decode a WAIT: the switch, or the server's host, and the nodes whose contributions it lacks.

    No node is named if all contributions are in, and the answer is on its way or lost.
    """
    above = dict(plan.edges)
    node = worker
    for _ in range(wait.level):
        node = above.get(node, plan.server or node)
    aggregator = plan.by_switch.get(node)
    for relay in plan.relays:
        if relay.name == node:
            below = (child.name for child in relay.children if child.mask & wait.awaited)
            return node, (*((node,) if wait.awaited & 1 else ()), *below)
    if aggregator is None:
        names = plan.workers if not plan.in_network else (plan.root,)
        return node, tuple(name for bit, name in enumerate(names) if wait.awaited >> bit & 1)
    return node, tuple(child.name for child in aggregator.children if child.mask & wait.awaited)


def explain_waits(plan: Plan, waits: Mapping[str, WaitStatus | None]) -> list[str]:
    """One line for each switch that a worker was told to wait for, oldest chunk first; ``waits`` by worker.

    If a switch waits for another switch, whose workers were told what that switch waits for, only the latter is given:
    "slot 17 of leaf2 waits for worker 3 (h3)".
    """
    told = {name: wait for name, wait in waits.items() if wait is not None}
    if not told:
        return []
    oldest = min(wait.seq for wait in told.values())
    awaited = dict(awaited_at(plan, name, wait) for name, wait in told.items() if wait.seq == oldest)
    lines = []
    for node, names in awaited.items():
        ends = [name for name in names if not awaited.get(name)]
        if ends:
            who = ", ".join(_name(plan, name) for name in ends)
            slot = f"slot {slot_index(plan.by_switch[node], oldest)} of " if node in plan.by_switch else ""
            lines.append(f"chunk {oldest}: {slot}{node} waits for {who}")
    return lines


def _name(plan: Plan, node: str) -> str:
    if node in plan.workers:
        return f"worker {plan.workers.index(node)} ({node})"
    behind = [name for name in plan.workers if _is_behind(plan, name, node)]
    return f"the sum of {node}, {len(behind)} workers" if node in plan.by_switch else node


def _is_behind(plan: Plan, worker: str, node: str) -> bool:
    above, at = dict(plan.edges), worker
    while at in above:
        at = above[at]
        if at == node:
            return True
    return False


# The P4 program of a network's switches, with the properties that plans need.


LANES_HEADER: Final = "lanes"
"""the header instance that holds the lanes (p4src/headers.p4)"""
LANE_BITS: Final = 32
CELLS_PER_JOB: Final = 8
"""cells of a job in each counter that is kept by job (p4src/sizes.p4)"""


@dataclass(frozen=True)
class P4Program:
    """p4c's two outputs and their name. Faults in them raise `ControllerError` when the faulty part is used."""

    json: bytes
    """BMv2 JSON."""
    p4info: bytes
    """P4Info, protobuf text format."""
    name: str

    @classmethod
    def read(cls, p4_json: Path, p4_info: Path) -> Self:
        """Read the program from files. `ControllerError` when one cannot be read."""
        try:
            return cls(read_bytes(p4_json), read_bytes(p4_info), str(p4_json))
        except OSError as error:
            raise ControllerError(f"{error.filename}: {error.strerror}") from None

    @property
    def sha256(self) -> str:
        """SHA-256 of the JSON, hexadecimal."""
        return hashlib.sha256(self.json).hexdigest()

    @cached_property
    def info(self) -> p4i.P4Info:
        """The P4Info as a message, which must not be changed."""
        try:
            return text_format.Parse(self.p4info.decode(), p4i.P4Info())
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise ControllerError(f"the P4Info is not P4Info in text format: {error}") from None

    @cached_property
    def schema(self) -> fy.P4Schema:
        """Names and numbers of the P4Info, with the program and its cookie; must not be changed."""
        return fy.P4Schema(self.info, self.json)

    @cached_property
    def lanes(self) -> int:
        """Number of 32-bit lanes of a packet."""
        try:
            loaded: dict[str, Any] = json.loads(self.json)
            types = {kind["name"]: kind for kind in loaded["header_types"]}
            (header,) = (header for header in loaded["headers"] if header["name"] == LANES_HEADER)
            return sum(int(field[1]) for field in types[header["header_type"]]["fields"]) // LANE_BITS
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ControllerError(
                f"{self.name}: has no header {LANES_HEADER!r}: it is not a program like p4src/p4reduce.p4"
            ) from None

    @cached_property
    def narrow(self) -> bool:
        """Whether the program supports lanes narrower than 32 bits: its header has a field for their width."""
        try:
            loaded: dict[str, Any] = json.loads(self.json)
            return any(field[0] == "width" for kind in loaded["header_types"] for field in kind["fields"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return False

    @cached_property
    def slots(self) -> int:
        """Slots of a switch: the size of the register ``slots``."""
        for register in self.info.registers:
            if register.preamble.alias == "slots":
                return int(register.size)
        raise ControllerError("the P4Info has no register 'slots': it is not that of p4src/p4reduce.p4")

    @cached_property
    def counted_jobs(self) -> int:
        """Number of jobs that can have counter cells at one time."""
        for counter in self.info.counters:
            if counter.preamble.alias == "job_received":
                return int(counter.size) // CELLS_PER_JOB
        raise ControllerError("the P4Info has no counter 'job_received': it is not that of p4src/p4reduce.p4")


Entity: TypeAlias = fy.P4TableEntry | fy.P4MulticastGroupEntry | fy.P4CloneSessionEntry

CODE_POINTS = 64
PRIORITIES = 8
"""number of queues of a port"""
BASE_TABLES = ("local_address", "edge", "route")
"""the tables of :func:`base_entries`"""
PLAN_TABLES = ("job", "peer", "replica", "path", "traffic_class")
"""the tables of :func:`plan_entries` and :func:`priority_entry`"""
_ANY_PRIORITY = 10
"""P4Runtime priority of jobs' traffic classes; their matches never overlap, so any positive number is possible"""
_BEFORE_OTHERS = 20
"""P4Runtime priority of classes for some packets of a job, which override the job's class"""


@dataclass(frozen=True, slots=True)
class SwitchSettings:
    """Settings of the program.

    ``ecn_threshold`` is the queue depth (frames) from which packets are marked. The controller gets refused packets
    whose running number has none of the bits of ``sample_mask``. ``dscp_classes`` gives plain IPv4 packets their queue
    (0..7, 7 is served first) by their code point (0..63, RFC 2474); packets with other code points use queue 0.
    """

    ecn_threshold: int = 64
    sample_mask: int = 0xFF
    dscp_classes: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for point, priority in self.dscp_classes.items():
            if not 0 <= point < CODE_POINTS or not 0 <= priority < PRIORITIES:
                raise ControllerError(
                    f"dscp_classes: {point}: {priority}; code points are 0..{CODE_POINTS - 1}, "
                    f"queues 0..{PRIORITIES - 1}"
                )


@dataclass(frozen=True, slots=True)
class SwitchEntries:
    """The entries of a plan in one switch.

    ``prepare`` has no effect alone: without an entry in table `job` a switch refuses the job's packets, and `path` only
    forwards. ``activate`` is the entry in table `job`; it is added last and removed first.
    """

    prepare: tuple[Entity, ...]
    activate: tuple[Entity, ...]


def settings_entry(settings: SwitchSettings) -> fy.P4TableEntry:
    """The default entry of table `settings`."""
    action = fy.P4TableAction("configure", ecn_threshold=settings.ecn_threshold, sample_mask=settings.sample_mask)
    return fy.P4TableEntry("settings", action=action, is_default_action=True)


def dscp_entries(settings: SwitchSettings) -> tuple[Entity, ...]:
    """The entries that assign plain IPv4 packets to queues."""
    return tuple(
        fy.P4TableEntry(
            "dscp_class",
            match=fy.P4TableMatch({"hdr.ipv4.dscp": point}),
            action=fy.P4TableAction("prioritize", priority=priority),
        )
        for point, priority in sorted(settings.dscp_classes.items())
    )


def base_entries(topology: Topology, switch: str, routes: Iterable[Route]) -> tuple[Entity, ...]:
    """Entries of a switch without any plan: its address if it can aggregate, its hosts, and routes to all nodes.

    The hosts at its ports come before the first route, so no frame is forwarded from a port whose host is unknown.

    Parameters
    ----------
    topology : Topology
        The network.
    switch : str
        The switch to program.
    routes : iterable of Route
        Routes of this switch (:class:`~p4reduce.control_plane.plans.routes.BaseRoutes`).
    """
    entries: list[Entity] = []
    node = topology.node(switch)
    if node.capable:
        entries.append(
            fy.P4TableEntry(
                "local_address", match=fy.P4TableMatch({"hdr.ipv4.dst": node.ip}), action=fy.P4TableAction("is_local")
            )
        )
    for port, neighbour in enumerate(topology.neighbours(switch), start=1):
        if topology.node(neighbour).is_host:
            entries.append(
                fy.P4TableEntry(
                    "edge",
                    match=fy.P4TableMatch({"std.ingress_port": port}),
                    action=fy.P4TableAction("host", ip=topology.node(neighbour).ip),
                )
            )
    for route in routes:
        match = fy.P4TableMatch({"hdr.ipv4.dst": (route.value, route.length)})
        way = (
            fy.P4TableAction("unreachable") if route.neighbour is None else _next_hop(topology, switch, route.neighbour)
        )
        entries.append(fy.P4TableEntry("route", match=match, action=way))
    return tuple(entries)


def plan_entries(plan: Plan) -> dict[str, SwitchEntries]:
    """All entries of a plan, by switch; only switches that the plan uses."""
    prepare: dict[str, list[Entity]] = {}
    activate: dict[str, list[Entity]] = {}
    for switch, destination, neighbour in forwarding(plan):
        prepare.setdefault(switch, []).append(_path_entry(plan, switch, destination, neighbour))
    for aggregator in plan.aggregators:
        own = prepare.setdefault(aggregator.name, [])
        own.extend(_group_entries(plan, aggregator))
        own.extend(_replica_entries(plan, aggregator))
        own.extend(_peer_entries(plan, aggregator))
        own.extend(_deadline_entries(plan, aggregator))
        activate[aggregator.name] = [_job_entry(plan, aggregator)]
    return {
        switch: SwitchEntries(tuple(own), tuple(activate.get(switch, ())))
        for switch, own in sorted(prepare.items(), key=lambda item: plan.topology.node(item[0]).index)
    }


def forwarding(plan: Plan) -> list[tuple[str, str, str]]:
    """The forwarding steps of a plan: (switch, destination, next node), without repetitions.

    Every step of every path is pinned, even if the base routes agree: a tree identifies its children by their ingress
    ports, so its paths must not change with the routes.
    """
    steps: dict[tuple[str, str], str] = {}
    for (_, destination), path in plan.paths.items():
        for switch, following in pairwise(path[1:]):
            steps[(switch, destination)] = following
    return [(switch, destination, following) for (switch, destination), following in steps.items()]


def priority_entry(job: int, priority: int) -> fy.P4TableEntry:
    """Put all INC packets of a job into one priority queue (7 is served first)."""
    return _class_entry({"hdr.inc.job": (job, 0xFFFF)}, priority, _ANY_PRIORITY)


def results_entry(job: int, priority: int) -> fy.P4TableEntry:
    """Put the RESULTs of a job, which go down the tree, into another queue than its other packets."""
    match = {"hdr.inc.job": (job, 0xFFFF), "hdr.inc.type": (PacketType.RESULT, 0xF)}
    return _class_entry(match, priority, _BEFORE_OTHERS)


def _class_entry(match: dict[str, tuple[int, int]], priority: int, rank: int) -> fy.P4TableEntry:
    action = fy.P4TableAction("prioritize", priority=priority)
    return fy.P4TableEntry("traffic_class", match=fy.P4TableMatch(match), action=action, priority=rank)


def wildcards(tables: Iterable[str]) -> list[fy.P4TableEntry]:
    """The read requests for all entries of some tables."""
    return [fy.P4TableEntry(table) for table in tables]


def key(entry: P4Entity) -> tuple[object, ...]:
    """The identity of an entry: table, priority and match, or the multicast group's number."""
    if isinstance(entry, fy.P4MulticastGroupEntry):
        return ("multicast group", entry.multicast_group_id)
    if not isinstance(entry, fy.P4TableEntry):
        raise TypeError(f"{type(entry).__name__} is no entry")
    match = {_plain(name): value for name, value in (entry.match or {}).items()}
    return (_plain(entry.table_id), entry.priority, *sorted(match.items()))


def fingerprint(entry: P4Entity) -> tuple[object, ...]:
    """An entry's :func:`key`, followed by its action and arguments."""
    action = entry.action if isinstance(entry, fy.P4TableEntry) else None
    if not isinstance(action, fy.P4TableAction):
        return key(entry)
    return (*key(entry), _plain(action.name), *sorted(action.args.items()))


def _plain(name: str) -> str:
    """A P4 name without the controls that qualify it."""
    return name.rpartition(".")[2]


def switches_on_paths(plan: Plan) -> tuple[str, ...]:
    """Every switch that a plan's frames pass, by index."""
    passed = {name for path in plan.paths.values() for name in path if plan.topology.node(name).is_switch}
    return tuple(switch.name for switch in plan.topology.switches if switch.name in passed)


def describe(entry: Entity) -> str:
    """An entry on one line, for messages and `plan show`; without its token."""
    if isinstance(entry, fy.P4MulticastGroupEntry):
        replicas = ", ".join(f"port {port} rid {rid}" for port, rid in _replicas(entry.replicas))
        return f"multicast group {entry.multicast_group_id}: {replicas}"
    if isinstance(entry, fy.P4CloneSessionEntry):
        return f"clone session {entry.session_id}"
    match = ", ".join(f"{name}={_short(value)}" for name, value in (entry.match or {}).items())
    action = entry.action
    if isinstance(action, fy.P4TableAction):
        told = {name: "..." if name == "token" else _short(value) for name, value in action.args.items()}
        arguments = ", ".join(f"{name}={value}" for name, value in told.items())
        return f"{entry.table_id}[{match or 'default'}] -> {action.name}({arguments})"
    return f"{entry.table_id}[{match or 'default'}]"


def _replicas(replicas: Iterable[object]) -> list[tuple[int, int]]:
    return [(replica[0], replica[1]) for replica in replicas if isinstance(replica, tuple)]


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return "/".join(_short(part) for part in value)
    return f"{value:#x}" if isinstance(value, int) and value > 0xFFFF else str(value)


def _next_hop(topology: Topology, switch: str, neighbour: str) -> fy.P4TableAction:
    return fy.P4TableAction("next_hop", port=topology.port(switch, neighbour), mac=topology.node(neighbour).mac)


def _path_entry(plan: Plan, switch: str, destination: str, neighbour: str) -> fy.P4TableEntry:
    match = _job_match(plan) | {"hdr.ipv4.dst": plan.topology.node(destination).ip}
    action = _next_hop(plan.topology, switch, neighbour)
    return fy.P4TableEntry("path", match=fy.P4TableMatch(match), action=action)


def _group_entries(plan: Plan, aggregator: Aggregator) -> tuple[fy.P4MulticastGroupEntry, ...]:
    """Return the group of the children; in plans that find gaps, also the group with copies for questions.

    A question goes to the parent, or from the root to a child, so the second group has the parent, or each child twice.
    """
    children = tuple((child.address.port, child.rid) for child in aggregator.children)
    group = fy.P4MulticastGroupEntry(aggregator.group, replicas=children)
    if not plan.finds_gaps:
        return (group,)
    if aggregator.parent is None:
        asked = tuple((port, QUESTIONS + rid) for port, rid in children)
    else:
        asked = ((aggregator.parent.port, TO_PARENT + aggregator.group),)
    return group, fy.P4MulticastGroupEntry(QUESTIONS + aggregator.group, replicas=(*children, *asked))


def _replica_entries(plan: Plan, aggregator: Aggregator) -> list[Entity]:
    """Return the address, token and bit of each child, and the entries for a question (`_group_entries`)."""
    entries: list[Entity] = []
    for child in aggregator.children:
        address, token = _addresses(child.address), plan.token(child.name, aggregator.name)
        action = fy.P4TableAction("address_or_late", **address, token=token, bit_=child.mask)
        entries.append(_replica_entry(child.rid, action))
        if plan.finds_gaps and aggregator.parent is None:
            question = fy.P4TableAction("address_question", **address, bit_=child.mask)
            entries.append(_replica_entry(QUESTIONS + child.rid, question))
    if plan.finds_gaps and aggregator.parent is not None:
        action = fy.P4TableAction("address_parent", **_addresses(aggregator.parent))
        entries.append(_replica_entry(TO_PARENT + aggregator.group, action))
    return entries


def _addresses(address: Address) -> dict[str, int]:
    return {"mac": address.mac, "ip": address.ip, "udp": address.udp}


def _replica_entry(rid: int, action: fy.P4TableAction) -> fy.P4TableEntry:
    return fy.P4TableEntry("replica", match=fy.P4TableMatch({"std.egress_rid": rid}), action=action)


def _deadline_entries(plan: Plan, aggregator: Aggregator) -> list[Entity]:
    after_us = plan.deadline_us(aggregator)
    if after_us is None:
        return []
    action = fy.P4TableAction("allow", after=after_us)
    return [fy.P4TableEntry("deadline", match=fy.P4TableMatch(_job_match(plan)), action=action)]


def _peer_entries(plan: Plan, aggregator: Aggregator) -> list[Entity]:
    """Identify children and parent by their ingress port and address: both directions of a hop use the same links."""
    entries: list[Entity] = []
    for child in aggregator.children:
        match = _job_match(plan) | {"std.ingress_port": child.address.port, "hdr.ipv4.src": child.address.ip}
        action = _known("child", plan.token(child.name, aggregator.name), bit_=child.mask, lowest=int(child.bit == 0))
        entries.append(fy.P4TableEntry("peer", match=fy.P4TableMatch(match), action=action))
    if aggregator.parent is not None:
        match = _job_match(plan) | {"std.ingress_port": aggregator.parent.port, "hdr.ipv4.src": aggregator.parent.ip}
        action = _known("parent", plan.token(aggregator.name, aggregator.parent.name))
        entries.append(fy.P4TableEntry("peer", match=fy.P4TableMatch(match), action=action))
    return entries


def _known(name: str, token: int, **arguments: int) -> fy.P4TableAction:
    """An action for a neighbour, with its token if it has one."""
    if token == 0:
        return fy.P4TableAction(name, **arguments)
    return fy.P4TableAction(f"{name}_with_token", **arguments, token=token)


def _job_entry(plan: Plan, aggregator: Aggregator) -> fy.P4TableEntry:
    arguments = {
        "generation": plan.generation,
        "base": aggregator.base,
        "slots": aggregator.slots,
        "full": aggregator.full,
        "group": aggregator.group,
        "stats": plan.grant.stats,
    }
    asking = {"questions": 0, "again": 0}
    if plan.finds_gaps:
        asking = {"questions": QUESTIONS + aggregator.group, "again": plan.asks_again_after}
    action = fy.P4TableAction("root_with_questions", **arguments, **asking)
    if aggregator.parent is not None:
        parent = aggregator.parent
        action = fy.P4TableAction(
            "inner_with_questions",
            **arguments,
            parent_port=parent.port,
            parent_mac=parent.mac,
            parent_ip=parent.ip,
            parent_udp=parent.udp,
            token=plan.token(aggregator.name, parent.name),
            **asking,
        )
    return fy.P4TableEntry("job", match=fy.P4TableMatch(_job_match(plan)), action=action)


def _job_match(plan: Plan) -> dict[str, int]:
    return {"hdr.inc.job": plan.job, "hdr.inc.epoch": plan.epoch}


# Tokens: a child and its parent send them in every packet of a (job, epoch), so that forged packets are refused.
#
# A token is the keyed BLAKE2 hash (RFC 7693) of job, epoch, generation and the two names, cut to the header's 24 bits:
# the same key gives the same tokens in any order, and without the key no token can be derived from other tokens.


KEY_BYTES: Final = 32


def drawn_key() -> bytes:
    """A random key from the operating system, for networks whose packets leave the process."""
    return secrets.token_bytes(KEY_BYTES)


def seeded_key(seed: int) -> bytes:
    """A key that depends on the seed alone, for virtual time, in which equal runs send equal bytes."""
    return blake2b(f"p4reduce tokens of seed {seed}".encode(), digest_size=KEY_BYTES).digest()


def tokens_of(plan: Plan, key: bytes) -> Mapping[tuple[str, str], int]:
    """A token (1 .. 2**24 - 1) for each pair of neighbours of a plan, by the names in ``Plan.edges``.

    Two hosts that are each other's child and parent (in an all-to-all, or a ring of two) share one token.
    """
    tokens: dict[tuple[str, str], int] = {}
    for a, b in plan.edges:
        if (b, a) not in tokens:
            tokens[a, b] = _token(f"{plan.job}/{plan.epoch}/{plan.generation}/{a}/{b}", key)
    return tokens


def _token(what: str, key: bytes) -> int:
    digest = blake2b(what.encode(), key=key, digest_size=8).digest()
    return 1 + int.from_bytes(digest, "big") % ((1 << TOKEN_BITS) - 1)
