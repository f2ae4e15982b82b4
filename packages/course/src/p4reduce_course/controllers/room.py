"""A network in virtual time: an older controller holds it, a student's takes over, jobs run in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.counters import REASONS, compare_links
from p4reduce.control_plane.entries import Entity, wildcards
from p4reduce.control_plane.plans import Plan, PlanRequest, make_plan
from p4reduce.control_plane.plans.problem import TreeLayout
from p4reduce.control_plane.predict import Traffic, add
from p4reduce.control_plane.resources import Resources
from p4reduce.network.jobs.network import Job, JobNetwork
from p4reduce.network.jobs.switches import ServedSwitches, bundled
from p4reduce.network.virtual import Faults, Stop
from p4reduce.topologies import Topology
from p4reduce.topologies.datacenter import TopologyBuilder
from p4reduce.topologies.model import Hop
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, State
from p4reduce.workers.wire import PacketType, headers, pack
from p4reduce_course.controllers.sessions import Sessions
from p4reduce_course.frame.report import Wrong, counted
from p4switch.base.units import PS_PER_MS, PS_PER_US

# Networks that a grader draws, the one tree that each has, and what students are told of them.


LANES: Final = 64
RATE: Final = "10G"
DELAY: Final = "1us"


def wired(name: str, links: Sequence[tuple[str, str]], random: np.random.Generator) -> Topology:
    """A network of switches (``s1``, ...) and hosts (``h1``, ...); its ports are numbered in a drawn order."""
    builder = TopologyBuilder(name)
    nodes = sorted({node for link in links for node in link}, key=lambda node: (node[0], int(node[1:])))
    for node in nodes:
        (builder.host if node.startswith("h") else builder.switch)(node)
    for place in random.permutation(len(links)):
        builder.link(*links[int(place)], RATE, DELAY)
    return builder.build()


def nearest(topology: Topology, root: str, dead: frozenset[str] = frozenset()) -> dict[str, str]:
    """The next switch towards the root, of every other one that reaches it; of equal ones that at the lowest port.

    Breadth first: O(nodes + links).
    """
    distance = {root: 0}
    waiting = deque([root])
    switches = {node.name for node in topology.switches} - dead
    while waiting:
        name = waiting.popleft()
        for other in topology.neighbours(name):
            if other in switches and other not in distance:
                distance[other] = distance[name] + 1
                waiting.append(other)
    return {
        name: next(other for other in topology.neighbours(name) if distance.get(other, -1) == own - 1)
        for name, own in distance.items()
        if name != root
    }


def layout(topology: Topology, root: str, workers: Sequence[str], dead: frozenset[str] = frozenset()) -> TreeLayout:
    """The tree of :func:`nearest`, of those switches that have workers below them."""
    towards, parent = nearest(topology, root, dead), {}
    for worker in workers:
        node, above = worker, topology.neighbours(worker)[0]
        parent[worker] = above
        while above != root and above not in parent:
            node, above = above, towards[above]
            parent[node] = above
    paths = {edge: edge for edge in parent.items()}
    return TreeLayout(root, parent, paths=paths)


def plan_of(topology: Topology, job: dict[str, Any], dead: frozenset[str] = frozenset()) -> Plan:
    """The plan that a job's right entries make; ``job`` as students are told of it."""
    request = PlanRequest(
        "lab",
        job["job"],
        job["epoch"],
        workers=tuple(job["workers"]),
        lanes=LANES,
        window=job["slots"] // 2,
        max_slots=job["slots"],
        layout=layout(topology, job["root"], job["workers"], dead),
    )
    return make_plan(topology, request, Resources(first_generation=max(1, job.get("generation", 1))))


def told(topology: Topology) -> dict[str, Any]:
    """A network as plain data: addresses, and who stands behind which port."""
    switches = {
        node.name: {"ip": node.ip, "mac": node.mac, "ports": dict(enumerate(topology.neighbours(node.name), start=1))}
        for node in topology.switches
    }
    return {"switches": switches, "hosts": {node.name: {"ip": node.ip, "mac": node.mac} for node in topology.hosts}}


LONG_PS: Final = 50 * PS_PER_MS
"""virtual time that a sum may take; a right one takes less than 1 ms"""
_CUT: Final = Faults(loss=1.0)
Words = NDArray[np.int32]


@dataclass(frozen=True)
class Held:
    """What an older controller has: its election id, and the groups and replication ids below these."""

    election: int
    first_group: int
    first_rid: int


class Room:
    """Switches of a topology with their program and base entries; use as a context manager.

    The older controller has installed addresses and routes. ``edges``: whether it has also said which host stands
    behind which port.

    Attributes:
        deaths: (virtual time in picoseconds, switch), in order: switches that are still to die.
    """

    def __init__(self, topology: Topology, held: Held, *, edges: bool = True) -> None:
        program = bundled(LANES)
        with ExitStack() as opened:
            switches = opened.enter_context(ServedSwitches(topology))
            self.topology = topology
            older = Controller(topology, switches.targets(), program, election_id=held.election, deadline_s=60.0)
            opened.enter_context(older)
            for switch in topology.switches:
                older.insert(switch.name, _taken(topology, switch.name, held))
                if not edges:
                    found = older.read(wildcards(["edge"]))[switch.name]
                    older.delete(switch.name, [entry for entry in found if isinstance(entry, Entity)])
            self._switches = switches
            self.deaths: list[tuple[int, str]] = []
            self.network = opened.enter_context(JobNetwork(switches))
            self.sessions = Sessions(switches.targets(), program, self._pass)
            opened.callback(self.sessions.close)
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.close()

    def _pass(self, microseconds: int) -> None:
        """A call of the controller takes time, in which packets go on."""
        self.advance(self.network.now + microseconds * PS_PER_US)

    def advance(self, until_ps: int, watch: Sequence[int] = ()) -> None:
        """Lets virtual time pass, while an endpoint of ``watch`` works; switches die when their time has come."""
        while self.deaths and self.deaths[0][0] <= until_ps:
            at_ps, switch = self.deaths[0]
            if self.network.advance(max(at_ps, self.network.now), watch) is Stop.DONE:
                return
            del self.deaths[0]
            self.die(switch)
        self.network.advance(until_ps, watch)

    def die(self, switch: str) -> None:
        """Nothing passes a switch any more, and it answers no controller."""
        self.sessions.dead.add(switch)
        for link in self.topology.links:
            if switch in (link.a, link.b):
                for hop in ((link.a, link.port_a), (link.b, link.port_b)):
                    self.network.fabric.set_faults(hop, _CUT)

    # --- sums

    def post(self, job: Job, inputs: Sequence[Words]) -> None:
        """Every worker of a job gives its numbers; the sum comes in their place."""
        for index, words in zip(job.members.values(), inputs, strict=True):
            held = words.view(np.float32)
            self.network.post(index, Post(Collective.ALL_REDUCE, held, held, words=True))
        job.note("all_reduce", inputs[0].size, words=True)

    def run(self, jobs: Sequence[Job], until_ps: int = LONG_PS) -> None:
        """Until all sums are there, or that much time is up."""
        watch = [index for job in jobs for index in job.endpoints]
        self.advance(self.network.now + until_ps, watch)

    def waiting(self, job: Job) -> list[str]:
        """Workers of a job that wait, with the chunk that they lack, as texts."""
        found = []
        for worker, index in job.members.items():
            if self.network.endpoints.records[index]["status"] != State.DONE:
                found.append(f"{worker} for chunk {self.network.endpoints.oldest_missing(index)}")
        return found

    def why(self) -> str:
        """What switches have refused, as a text; empty where they have refused nothing."""
        found = [
            f"{switch} refused {counted(count, 'packet')}, reason {reason}: {REASONS[reason]}"
            for switch, counts in self.refused().items()
            for reason, count in counts.items()
        ]
        return "; ".join(found[:3])

    def refused(self) -> dict[str, dict[int, int]]:
        """How many packets every switch has refused, by reason."""
        found = {}
        for name, device in self._switches.devices().items():
            cells = device.counters["IncIngress.refuse.refused"].cells[:, 0].tolist()
            found[name] = {reason: count for reason, count in enumerate(cells) if count and reason in REASONS}
        return found

    def check_sum(self, job: Job, inputs: Sequence[Words], wanted: Words, where: str) -> None:
        """Raises Wrong where a worker waits still, or its sum is not the exact one."""
        if waiting := self.waiting(job):
            said = f"job {job.plan.job}: no sum after {LONG_PS // PS_PER_MS} ms of virtual time: "
            said += ", ".join(waiting[:4]) + (", ..." if len(waiting) > 4 else "")
            if why := self.why():
                said += f". {why}"
            raise Wrong(said, where)
        for worker, words in zip(job.members, inputs, strict=True):
            if not np.array_equal(words, wanted):
                place = int(np.flatnonzero(words != wanted)[0])
                said = f"job {job.plan.job}: {worker} got {words[place]} as element {place}, the sum is {wanted[place]}"
                raise Wrong(f"{said}: a contribution is missing, or in twice, or another job's", where)

    def check_links(self, jobs: Sequence[Job], where: str) -> None:
        """Raises Wrong where a link carried other bytes than the trees make."""
        wrong = compare_links(self.topology, add(*(job.predicted() for job in jobs)), self.first_sent())
        if wrong:
            more = f" (and {len(wrong) - 1} more links)" if len(wrong) > 1 else ""
            raise Wrong(f"{wrong[0]}{more}. What is sent again because nothing came is not counted", where)

    def first_sent(self) -> dict[Hop, Traffic]:
        """First transmissions on every directed link so far."""
        counters = self.network.fabric.links
        return {hop: Traffic(counters[hop].inc_first_frames, counters[hop].inc_first_bytes) for hop in counters}


def drawn(random: np.random.Generator, workers: int, elements: int) -> tuple[list[Words], Words]:
    """What the workers give, and the sum: int32, shape (elements,) each."""
    inputs = [random.integers(-(1 << 20), 1 << 20, elements).astype(np.int32) for _ in range(workers)]
    return inputs, np.sum(inputs, axis=0, dtype=np.int32)


def _taken(topology: Topology, switch: str, held: Held) -> list[Entity]:
    """Groups and replication ids of somebody else."""
    node = topology.node(topology.neighbours(switch)[0])
    found: list[Entity] = [
        fy.P4MulticastGroupEntry(group, replicas=((1, held.first_rid - 1),)) for group in range(1, held.first_group)
    ]
    address = fy.P4TableAction("address", mac=node.mac, ip=node.ip, udp=9400)
    for rid in range(1, held.first_rid):
        match = fy.P4TableMatch({"std.egress_rid": rid})
        found.append(fy.P4TableEntry("replica", match=match, action=address))
    return found


# Packets that somebody sends who may not, and what a switch must say to them.


_WHILE_PS = 500 * PS_PER_US
"""longer than any of these packets is on its way"""


@dataclass(frozen=True)
class Forgery:
    """One packet.

    Attributes:
        said: who sends what, for the finding.
        host, frame: that sends it.
        switch, reason: where it must be refused, and why.
        otherwise: what is wrong where it is not.
    """

    said: str
    host: str
    frame: bytes
    switch: str
    reason: int
    otherwise: str


def packet(
    topology: Topology, host: str, source: str, target: str, *, job: int, epoch: int, seq: int, kind: PacketType
) -> bytes:
    """A packet from a host in the name of ``source``, to the switch ``target``.

    It says that it is a resend, so that it is not among the first transmissions that links count.
    """
    nodes = topology.by_name
    made = headers(
        1,
        ethernet_dst=nodes[topology.neighbours(host)[0]].mac,
        ethernet_src=nodes[host].mac,
        ipv4_src=nodes[source].ip,
        ipv4_dst=nodes[target].ip,
        type=kind,
        job=job,
        epoch=epoch,
        seq=seq,
        count=1,
        resend=1,
    )
    return pack(made, np.full((1, LANES), 1 << 20, np.int32)).tobytes()


def check_refused(room: Room, forgery: Forgery, where: str) -> None:
    """Sends it. Raises Wrong where it is not refused by the right switch, once, for the right reason."""
    before = room.refused()
    room.network.fabric.send(forgery.host, forgery.frame)
    room.network.advance(room.network.now + _WHILE_PS)
    after = room.refused()
    found = {
        (switch, reason): count - before[switch].get(reason, 0)
        for switch, counts in after.items()
        for reason, count in counts.items()
        if count != before[switch].get(reason, 0)
    }
    if found == {(forgery.switch, forgery.reason): 1}:
        return
    wanted = f"{forgery.switch} must refuse it for reason {forgery.reason}, {REASONS[forgery.reason]}"
    if not found:
        raise Wrong(f"{forgery.said}: it was taken in. {wanted}: {forgery.otherwise}", where)
    (switch, reason), _ = next(iter(found.items()))
    said = f"{forgery.said}: {switch} refused it for reason {reason}, {REASONS[reason]}"
    raise Wrong(f"{said}. {wanted}: {forgery.otherwise}", where)
