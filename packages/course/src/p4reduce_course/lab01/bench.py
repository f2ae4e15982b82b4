"""One switch with a student's entries, and the results of the P4 program for each packet."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from p4reduce.topologies import Topology
from p4reduce.topologies.model import TopologyError
from p4reduce.workers import wire
from p4reduce.workers.wire import INC_UDP_PORT, PacketType
from p4reduce_course.frame.report import Check, Finding
from p4switch.abi import CPU_PORT
from p4switch.device import Device
from p4switch.interpreter.trace import TableApplied
from p4switch.program import Program
from p4switch.tables import Exact, TableEntry
from p4switch.trace.entries import Entries
from p4switch.trace.record import Packet, PacketTrace, Recorder
from p4switch.trace.to_text import TextFormat

# The roles of switches in a lab's tree, with the addresses that frames must carry.


JOB: Final = 1
EPOCH: Final = 0
SLOTS: Final = 16
WINDOW: Final = SLOTS // 2
LANES: Final = 64


@dataclass(frozen=True, slots=True)
class BenchNeighbour:
    """A node next to a switch; ``port`` is the switch's port."""

    name: str
    ip: int
    mac: int
    port: int


@dataclass(frozen=True, slots=True)
class Role:
    """The role of a switch in the tree.

    Attributes:
        children: the children, in the order of their ports.
        parent: the parent; None at the root.
        workers: number of hosts below the switch.
        job, epoch: job and epoch of the tree.
    """

    name: str
    ip: int
    mac: int
    children: tuple[BenchNeighbour, ...]
    parent: BenchNeighbour | None
    workers: int
    job: int = JOB
    epoch: int = EPOCH

    @property
    def neighbours(self) -> tuple[BenchNeighbour, ...]:
        """Children, then the parent."""
        return self.children if self.parent is None else (*self.children, self.parent)


def roles(topology: Topology, root: str, job: int = JOB, epoch: int = EPOCH) -> dict[str, Role]:
    """Returns the role of each switch in the tree below ``root``; the topology must be a tree."""
    by_name: dict[str, Role] = {}
    _visit(topology, root, None, by_name)
    return {switch.name: replace(by_name[switch.name], job=job, epoch=epoch) for switch in topology.switches}


def _visit(topology: Topology, name: str, parent: str | None, by_name: dict[str, Role]) -> int:
    children, workers = [], 0
    for other in topology.neighbours(name):
        if other == parent:
            continue
        children.append(_neighbour(topology, name, other))
        workers += 1 if topology.node(other).is_host else _visit(topology, other, name, by_name)
    node = topology.node(name)
    above = None if parent is None else _neighbour(topology, name, parent)
    by_name[name] = Role(name, node.ip, node.mac, tuple(children), above, workers)
    return workers


def _neighbour(topology: Topology, name: str, other: str) -> BenchNeighbour:
    node = topology.node(other)
    return BenchNeighbour(other, node.ip, node.mac, topology.port(name, other))


def parent_of(worker: str, tree: Mapping[str, Role]) -> Role:
    """Returns the switch to which a worker sends."""
    return next(role for role in tree.values() if worker in (child.name for child in role.children))


# INC frames of a lab's job, written and read by the wire format.


Lanes = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class End:
    """The addresses of one end of a hop."""

    ip: int
    mac: int


@dataclass(frozen=True)
class FrameMessage:
    """The contents of a frame.

    Attributes:
        lanes: int32, shape (64,), or None.
    """

    type: int
    seq: int
    count: int
    resend: bool
    source: End
    destination: End
    udp: int
    lanes: Lanes | None


def frame(
    kind: PacketType,
    source: End,
    destination: End,
    seq: int,
    lanes: Lanes | None = None,
    *,
    count: int = 1,
    resend: bool = False,
    job: int = JOB,
    epoch: int = EPOCH,
) -> bytes:
    """Returns a frame from one end of a hop to the other."""
    headers = wire.headers(
        1,
        ethernet_src=source.mac,
        ethernet_dst=destination.mac,
        ipv4_src=source.ip,
        ipv4_dst=destination.ip,
        type=int(kind),
        job=job,
        epoch=epoch,
        seq=seq,
        count=count,
        resend=int(resend),
    )
    packed = wire.pack(headers, None if lanes is None else lanes.reshape(1, LANES))
    return bytes(packed[0])


def read(data: bytes) -> FrameMessage | None:
    """Returns the contents of a frame; None if it is not an INC frame of the lab's length."""
    if len(data) not in (wire.frame_bytes(0), wire.frame_bytes(LANES)):
        return None
    headers, lanes = wire.unpack(np.frombuffer(data, np.uint8).reshape(1, -1))
    h = headers[0]
    return FrameMessage(
        type=int(h["type"]),
        seq=int(h["seq"]),
        count=int(h["count"]),
        resend=bool(h["resend"]),
        source=End(int(h["ipv4_src"]), int(h["ethernet_src"])),
        destination=End(int(h["ipv4_dst"]), int(h["ethernet_dst"])),
        udp=int(h["udp_dst_port"]),
        lanes=lanes[0] if lanes.shape[1] else None,
    )


def contribution(worker: int, seq: int) -> Lanes:
    """Returns the lanes that a worker pushes, int32, shape (64,): numbers that the grader can recompute."""
    return np.random.default_rng((worker, seq)).integers(-(1 << 24), 1 << 24, LANES, dtype=np.int32)


LOCAL = "IncIngress.local_address"
JOBS = "IncIngress.aggregate.job"
PEERS = "IncIngress.aggregate.peer"
REPLICAS = "IncEgress.depart.replica"
CHILD = "IncIngress.aggregate.child"
PARENT = "IncIngress.aggregate.parent"
ROOT = "IncIngress.aggregate.root"
INNER = "IncIngress.aggregate.inner"


@dataclass(frozen=True)
class PacketAnswer:
    """The result of one packet in a switch.

    Attributes:
        refused: the program's reason for refusing it; 0: not refused.
        sent: (port, frame) of each frame that left, except frames to the controller.
    """

    trace: PacketTrace
    refused: int
    reason: str
    sent: tuple[tuple[int, bytes], ...]

    def table(self, name: str) -> TableApplied | None:
        """Returns the event of a table; None if the packet did not reach it."""
        return next((e for e in self.trace.events if isinstance(e, TableApplied) and e.table == name), None)

    def argument(self, table: str, name: str) -> int:
        """Returns an argument of the action that a table ran; 0 if it ran none."""
        applied = self.table(table)
        return 0 if applied is None else dict(applied.arguments).get(name, 0)

    @cached_property
    def messages(self) -> list[tuple[int, FrameMessage]]:
        """Returns the INC packets that left, with their ports."""
        return [(port, message) for port, data in self.sent if (message := read(data)) is not None]


class PacketBench:
    """Sends packets into a switch. Raises EntriesError if the switch refuses the entries."""

    def __init__(self, name: str, program: Program, entries: Entries, text: TextFormat) -> None:
        """Makes a switch with empty slots."""
        self.name = name
        self._text = text
        device = Device(program, name=name, executor="interpreted")
        entries.apply(device)
        self._recorder = Recorder(device)

    def send(self, port: int, data: bytes) -> PacketAnswer:
        """Sends one frame into a port; returns the result."""
        trace = self._recorder.run(Packet(data, port))
        reason = self._text.refusal(trace)
        number = int(reason.partition(",")[0]) if reason else 0
        sent = tuple((s.port, s.frame) for s in trace.sent if s.port != CPU_PORT)
        return PacketAnswer(trace, number, reason, sent)


@dataclass(frozen=True)
class Student:
    """The entries of one switch, and their file."""

    path: Path
    entries: Entries
    job: int = JOB
    epoch: int = EPOCH

    def matches(self, table: str) -> list[tuple[tuple[int, ...], TableEntry]]:
        """Returns the entries of an exact table, each behind its match."""
        return [(tuple(m.value for m in e.match if isinstance(m, Exact)), e) for e in self.entries.of(table)]

    def where(self, table: str) -> str:
        """Returns the place of the first entry of a table; the file if there is none."""
        return next((p.where for p in self.entries.tables if p.table == table), f"{self.path}: table {short(table)}")

    def where_match(self, table: str, match: tuple[int, ...]) -> str:
        """Returns the place of the entry of an exact table with this match; the file if there is none."""
        for placed in self.entries.tables:
            entry_match = getattr(placed.entry, "match", None)
            if placed.table == table and entry_match is not None and tuple(m.value for m in entry_match) == match:
                return placed.where
        return f"{self.path}: table {short(table)} (there is no such entry)"

    def peer(self, port: int, ip: int) -> str:
        """Returns the place of the entry of table `peer` for a neighbour of the lab's job."""
        return self.where_match(PEERS, (port, ip, self.job, self.epoch))


def short(table: str) -> str:
    """Returns the last part of a table's name."""
    return table.rsplit(".", 1)[-1]


# The packets that test a switch, in their order; ``packets/*.txt`` of the lab holds the same.


Purpose: TypeAlias = Literal["push", "again", "result", "replay", "wrong"]


@dataclass(frozen=True)
class PacketStep:
    """One packet.

    Attributes:
        purpose: ``push`` a first contribution, ``again`` a repetition before the RESULT, ``result`` the RESULT from
            the parent, ``replay`` a repetition after it, ``wrong`` a packet at a port that is not its sender's.
        sender: the node whose addresses the packet carries.
    """

    port: int
    frame: bytes
    note: str
    purpose: Purpose
    sender: BenchNeighbour


def script(role: Role) -> list[PacketStep]:
    """Returns all packets for a switch: chunk 0 of every child, repetitions, its RESULT, then a misdirected chunk 1."""
    return list(_steps(role))


def _steps(role: Role) -> Iterator[PacketStep]:
    for number, child in enumerate(role.children):
        yield _up(role, child, number, "push", f"PUSH of chunk 0 from {child.name}")
    parent = role.parent
    if parent is not None:
        for number, child in enumerate(role.children):
            yield _up(role, child, number, "again", f"the same from {child.name} again: the RESULT is not here yet")
        down = frame(
            PacketType.RESULT,
            end(parent),
            end(role),
            0,
            total(role),
            count=role.workers,
            job=role.job,
            epoch=role.epoch,
        )
        yield PacketStep(parent.port, down, f"RESULT of chunk 0 from {parent.name}", "result", parent)
    for number, child in enumerate(role.children):
        yield _up(role, child, number, "replay", f"the same from {child.name} again: its RESULT got lost")
    other = role.neighbours[1]
    first = role.children[0]
    astray = frame(PacketType.PUSH, end(first), end(role), 1, contribution(0, 1), job=role.job, epoch=role.epoch)
    yield PacketStep(
        other.port, astray, f"PUSH of chunk 1 from {first.name}'s address, but by port {other.port}", "wrong", first
    )
    if parent is not None:
        forged = frame(
            PacketType.RESULT,
            end(parent),
            end(role),
            0,
            total(role),
            count=role.workers,
            job=role.job,
            epoch=role.epoch,
        )
        yield PacketStep(
            first.port, forged, f"RESULT from {parent.name}'s address, but by port {first.port}", "wrong", parent
        )


def _up(role: Role, child: BenchNeighbour, number: int, purpose: Purpose, note: str) -> PacketStep:
    again = purpose != "push"
    lanes = contribution(number, 0)
    sent = frame(PacketType.PUSH, end(child), end(role), 0, lanes, resend=again, job=role.job, epoch=role.epoch)
    return PacketStep(child.port, sent, note, purpose, child)


def total(role: Role) -> Lanes:
    """Returns the sum of the children's contributions to chunk 0, int32, shape (64,)."""
    lanes = [contribution(number, 0) for number in range(len(role.children))]
    summed: Lanes = np.sum(lanes, axis=0, dtype=np.int32)
    return summed


def end(node: Role | BenchNeighbour) -> End:
    """Returns a node's addresses."""
    return End(node.ip, node.mac)


def as_text(role: Role) -> str:
    """Returns the packets as a file for ``p4reduce trace --packet``."""
    lines = [f"# What the grader sends to {role.name}: port, frame, remark."]
    lines += [f"{step.port} {step.frame.hex()} # {step.note}" for step in script(role)]
    return "\n".join(lines) + "\n"


# A simple worker of a lab. It keeps a window of chunks, and resends the oldest missing chunk when no frame is left.


class BenchWorker:
    """Pushes chunks 0..n-1 and collects their RESULTs.

    Attributes:
        results: lanes by chunk.
        wrong: frames that should not have come, as texts.
    """

    def __init__(
        self, name: str, number: int, own: End, parent: End, chunks: int, job: int = JOB, epoch: int = EPOCH
    ) -> None:
        """Makes a worker that has sent nothing yet."""
        self.name = name
        self._number = number
        self._own = own
        self._parent = parent
        self._chunks = chunks
        self._next = 0
        self._job = job
        self._epoch = epoch
        self.results: dict[int, Lanes] = {}
        self.wrong: list[str] = []

    @property
    def oldest_missing(self) -> int:
        """The first chunk without RESULT; the number of chunks if none is missing."""
        return next((seq for seq in range(self._chunks) if seq not in self.results), self._chunks)

    @property
    def done(self) -> bool:
        """Whether all RESULTs are there."""
        return len(self.results) == self._chunks

    def due(self) -> Iterator[bytes]:
        """Yields the frames that the window allows now."""
        while self._next < min(self._chunks, self.oldest_missing + WINDOW):
            yield self._push(self._next, resend=False)
            self._next += 1

    def again(self) -> bytes:
        """Returns the frame that resends the oldest chunk without RESULT."""
        return self._push(self.oldest_missing, resend=True)

    def receive(self, data: bytes) -> None:
        """Takes a frame from the network."""
        message = read(data)
        if message is None or message.type != PacketType.RESULT or message.lanes is None:
            self.wrong.append("a frame that is no RESULT")
        elif message.destination != self._own or message.udp != INC_UDP_PORT:
            pass  # for another host: a network card would drop it
        elif message.source != self._parent:
            self.wrong.append(f"a RESULT of chunk {message.seq} that is not from its leaf")
        elif message.seq in self.results and not np.array_equal(self.results[message.seq], message.lanes):
            self.wrong.append(f"two different RESULTs of chunk {message.seq}")
        else:
            self.results[message.seq] = message.lanes

    def _push(self, seq: int, *, resend: bool) -> bytes:
        lanes = contribution(self._number, seq)
        return frame(
            PacketType.PUSH, self._own, self._parent, seq, lanes, resend=resend, job=self._job, epoch=self._epoch
        )


# A small deterministic wire between switches and workers: frames one by one, some lost or doubled.


_MOST_FRAMES: Final = 4_000
"""Most frames of a run. Correct runs need less than a tenth; entries that send frames in circles exceed it."""
_MOST_QUIET: Final = 200


@dataclass
class Wire:
    """Carries frames until all workers are done or retransmissions no longer help.

    Attributes:
        loss, duplicate: probabilities for each frame on each link, drawn from ``seed``.
        refusals: number of refused packets by (switch, reason).
    """

    topology: Topology
    switches: Mapping[str, PacketBench]
    workers: Mapping[str, BenchWorker]
    loss: float = 0.0
    duplicate: float = 0.0
    seed: int = 1
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)
    frames: int = 0

    def run(self) -> bool:
        """Runs the network; returns whether every worker got every RESULT."""
        self._draws = np.random.default_rng(self.seed)
        self._queue: deque[tuple[str, int, bytes]] = deque()
        for _ in range(_MOST_QUIET):
            self._exchange()
            waiting = [worker for worker in self.workers.values() if not worker.done]
            if not waiting or self.frames >= _MOST_FRAMES:
                break
            for worker in waiting:
                self._send(worker.name, 1, worker.again())
        return all(worker.done for worker in self.workers.values())

    def _exchange(self) -> None:
        self._let_send()
        while self._queue and self.frames < _MOST_FRAMES:
            name, port, data = self._queue.popleft()
            if name in self.workers:
                self.workers[name].receive(data)
                self._let_send()
            else:
                self._switch(name, port, data)

    def _let_send(self) -> None:
        for worker in self.workers.values():
            for data in worker.due():
                self._send(worker.name, 1, data)

    def _switch(self, name: str, port: int, data: bytes) -> None:
        answer = self.switches[name].send(port, data)
        if answer.refused:
            self.refusals[name, answer.reason] += 1
        for out, sent in answer.sent:
            self._send(name, out, sent)

    def _send(self, name: str, port: int, data: bytes) -> None:
        self.frames += 1
        try:
            link = self.topology.link_at(name, port)
        except TopologyError:
            return  # no device is plugged in there
        other = link.other(name)
        copies = 0 if self._draws.random() < self.loss else 1 + int(self._draws.random() < self.duplicate)
        for _ in range(copies):
            self._queue.append((other, link.port_of(other), data))


# The whole tree: four workers push known chunks, and each must get every sum.


CHUNKS: Final = SLOTS + 4
"""chunks of each worker, more than slots, so that some slots are used twice"""
_RUNS: Final = (
    ("every worker gets every sum", 0.0, 0.0),
    ("the same with 1 frame in 10 lost and 1 in 10 doubled", 0.1, 0.1),
)


def examine_network(
    topology: Topology, tree: Mapping[str, Role], fresh: Callable[[str], PacketBench], *, tried: bool
) -> list[Check]:
    """Runs both networks; with ``tried`` False they are skipped, because a switch fails its own checks."""
    checks: list[Check] = []
    for title, loss, duplication in _RUNS:
        finding = None
        if tried:
            wire = Wire(topology, {name: fresh(name) for name in tree}, _workers(topology, tree), loss, duplication)
            finding = _judge(wire)
        checks.append(Check("network", title, finding is None if tried else None, finding))
        tried = tried and finding is None
    return checks


def _workers(topology: Topology, tree: Mapping[str, Role]) -> dict[str, BenchWorker]:
    workers = {}
    for number, host in enumerate(topology.workers):
        leaf = parent_of(host.name, tree)
        parent = End(leaf.ip, leaf.mac)
        workers[host.name] = BenchWorker(
            host.name, number, End(host.ip, host.mac), parent, CHUNKS, leaf.job, leaf.epoch
        )
    return workers


def _judge(wire: Wire) -> Finding | None:
    finished = wire.run()
    refusals = ", ".join(f"{switch} refused {n} ({why})" for (switch, why), n in wire.refusals.most_common(3))
    for worker in wire.workers.values():
        if worker.wrong:
            return Finding(f"{worker.name} got {worker.wrong[0]}. {refusals}")
    if not finished:
        waiting = ", ".join(f"{w.name} for chunk {w.oldest_missing}" for w in wire.workers.values() if not w.done)
        return Finding(f"these workers wait for ever: {waiting}. {refusals}")
    for seq in range(CHUNKS):
        lanes = [contribution(number, seq) for number in range(len(wire.workers))]
        expected = np.sum(lanes, axis=0, dtype=np.int32)
        for worker in wire.workers.values():
            if not np.array_equal(worker.results[seq], expected):
                return Finding(f"{worker.name} got a wrong sum for chunk {seq}. {refusals}")
    return None
