"""A schedule in the network: circuits on ports, trees as plans of the P4 program, endpoints at hosts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Final

import numpy as np

from p4reduce.control_plane.plans import MeshLayout, Plan, PlanRequest, TreeLayout
from p4reduce.control_plane.predict import Operation, predict
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.schedule import JobPlan, Matrix, Route, Schedule, Tree
from p4reduce.experiments.tdm.parts import Installed, Part, Words
from p4reduce.experiments.tdm.pieces import WHOLE, Piece, pieces_of
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import BLOCK, JobNetwork
from p4reduce.jobs.switches import EmbeddedSwitches
from p4reduce.topologies import Link, Node, Topology, parse_delay
from p4reduce.topologies.model import Hop
from p4reduce.topologies.optical import lay_circuits, overlay, oxc, view
from p4reduce.workers.numbers import FixedScale

WORD: Final = 4
"""bytes"""
MOST: Final = 1 << 20
"""of a word that a worker gives: sums of 2,047 workers are exact in int32"""
FLOAT_SHIFT: Final = 7
"""what is pushed is that much smaller: sums of 2,047 workers are exact in float32, too"""
QUEUES: Final = (2, 3)
"""of the two groups, where gates keep them apart"""
FIRST_IN_QUEUE: Final = 6
"""the queue of a job with priority 0; the next one has the next lower queue"""
MOST_SLOTS: Final = 256
"""of a switch, for all shards of a vector together"""


def physical(network: OpticalNetwork, delay: str = "1us", *, servers: bool = False, planes: int = 1) -> Topology:
    """Hosts, ToRs and the cross-connect of a network; ``delay`` is that of every fibre.

    ``servers``: a host beside each ToR that keeps what is pushed there until it is pulled, with a link as fast as all
    others of its ToR together: (4) counts no bytes for it, so it must not be what anybody waits for. ``planes``: 1 or 2
    cross-connects, to which the ports of a ToR go in turns.
    """
    if network.ports < 1:
        raise TdmError("ports: a pod without ports has no circuits; packets need at least one")
    made = oxc(
        network.pods,
        network.servers,
        network.ports,
        rate=network.rate_bps,
        port_rate=network.port_rate_bps,
        delay=delay,
        planes=planes,
    )
    if not servers:
        return made
    rate = network.servers * network.rate_bps + network.ports * network.port_rate_bps
    first = sum(node.is_host for node in made.nodes)
    nodes, links = list(made.nodes), list(made.links)
    for pod in range(network.pods):
        name, tor = server_of(pod), f"tor{pod + 1}"
        taken = max(link.port_of(tor) for link in made.links if tor in (link.a, link.b))
        nodes.append(Node(name, "host", first + pod, role="server"))
        links.append(Link(name, 1, tor, taken + 1, rate, parse_delay(delay)))
    return Topology(made.name, tuple(nodes), tuple(links))


def server_of(pod: int) -> str:
    """The host beside a ToR."""
    return f"ps{pod + 1}"


def needs_servers(schedule: Schedule) -> bool:
    """Whether something is pushed and pulled later."""
    return any(plan.ring is not None or any(not tree.pipelined for tree in plan.trees) for plan in schedule.jobs)


class Installer:
    """Programs the switches with the plans of a schedule's jobs, and gives hosts their endpoints."""

    def __init__(
        self, topology: Topology, switches: EmbeddedSwitches, network: JobNetwork, schedule: Schedule, *, gates: bool
    ) -> None:
        self._topology, self._switches, self._network, self._schedule = topology, switches, network, schedule
        self._gates = gates
        self.matrices: list[Matrix] = []
        for process in schedule.processes:
            for one in process.configurations:
                if one.circuits not in self.matrices:
                    self.matrices.append(one.circuits)
        self.circuits: list[tuple[Link, ...]] = self.lay()
        self._carried: Counter[tuple[int, Link]] = Counter()
        self._number = 0

    def lay(self) -> list[tuple[Link, ...]]:
        """The circuits of every configuration, at ports; `TopologyError` where planes cannot share them out."""
        return list(lay_circuits(self._topology, self.matrices, self._schedule.network.parallel))

    def pieces(self, plan: JobPlan, pod: int) -> list[Piece]:
        """What carries the vector of a job."""
        return pieces_of(plan, pod)

    def install(self, job: TdmJob, seed: int) -> Installed:
        """One job; `TdmError` or `PlanError` when its plan cannot be carried out on packets."""
        plan = self._schedule.plan(job.name)
        hosts = tuple(host for host, _ in plan.placement)
        draw = np.random.default_rng(seed)
        if job.kind == "a2a":
            return Installed(job, plan, hosts, self._blocks(job, plan, hosts, draw))
        pieces = self.pieces(plan, self._schedule.network.pod_of(hosts[0]))
        together = any(piece.operation is not Operation.ALL_REDUCE for piece in pieces)
        return Installed(job, plan, hosts, self._sums(job, plan, hosts, pieces, draw), together)

    def index(self, plan: JobPlan, configuration: int) -> int:
        """Which of ``circuits`` a configuration of a job's process is."""
        return self.matrices.index(self._schedule.processes[plan.process].configurations[configuration].circuits)

    def rates(self, plan: JobPlan, configuration: int) -> dict[Hop, int]:
        """bit/s of the circuits of a configuration of a job's process, by the (node, port) that they leave."""
        lit = self.circuits[self.index(plan, configuration)]
        return {end: link.rate_bps for link in lit for end in ((link.a, link.port_a), (link.b, link.port_b))}

    # --- sums

    def _sums(
        self, job: TdmJob, plan: JobPlan, hosts: tuple[str, ...], pieces: Sequence[Piece], draw: np.random.Generator
    ) -> list[Part]:
        elements = max(1, job.bytes // WORD)
        words = _drawn(draw, len(hosts), elements)
        parts: list[Part] = []
        carried: dict[tuple[Tree, int], Job] = {}
        stored: dict[tuple[int, int], Words] = {}
        slots = MOST_SLOTS // len({piece.span for piece in pieces})  # shares of one vector share its window too
        for piece in pieces:
            first, end = (round(elements * share) for share in piece.span)
            if end <= first:
                continue
            key = (piece.tree, end - first)
            if key not in carried or piece.operation is Operation.ALL_REDUCE:
                made = self._tree(piece, plan, hosts, end - first, max(2, slots))
                numbers = BLOCK if piece.operation is Operation.ALL_REDUCE else FixedScale(1.0)
                carried[key] = self._network.add(made, numbers)
            sources: list[Words] = [row[first:end] for row in words]
            total: Words = np.asarray(np.sum(sources, axis=0, dtype=np.int64), np.int32)
            kept = None
            if piece.operation is not Operation.ALL_REDUCE:
                sources = [np.asarray(row >> FLOAT_SHIFT, np.float32) for row in sources]
                total = np.asarray(np.sum(sources, axis=0, dtype=np.float64), np.float32)
                kept = stored.setdefault((first, end), np.full_like(total, -1))
            parts.append(self._part(carried[key], piece, sources, total, kept))
        return parts

    def _part(self, job: Job, piece: Piece, sources: list[Words], total: Words, kept: Words | None) -> Part:
        operation = piece.operation
        return Part(
            job,
            1 if operation is Operation.PULL else 0,
            piece.tree.configuration if piece.tree.edges else -1,
            operation,
            [] if operation is Operation.PULL else sources,
            [] if operation is Operation.PUSH else [np.full_like(total, -1) for _ in sources],
            total,
            predict(job.plan, operation, total.size, lead=0),
            stored=kept,
        )

    def _tree(self, piece: Piece, plan: JobPlan, hosts: tuple[str, ...], elements: int, slots: int) -> Plan:
        network, tree = self._schedule.network, piece.tree
        chosen: list[Link] = []
        for child, parent in tree.edges:
            where = self.index(plan, tree.configuration)
            pair = {f"tor{child + 1}", f"tor{parent + 1}"}
            joining = [link for link in self.circuits[where] if {link.a, link.b} == pair]
            if not joining:
                raise TdmError(f"job {plan.job!r}: its tree needs a circuit between pods {child} and {parent}")
            link = min(joining, key=lambda one: self._carried[where, one])
            self._carried[where, link] += elements
            chosen.append(link)
        parents = {host: f"tor{network.pod_of(host) + 1}" for host in hosts}
        parents |= {f"tor{child + 1}": f"tor{parent + 1}" for child, parent in tree.edges}
        layout = TreeLayout(f"tor{tree.root + 1}", parents)
        server = None if piece.operation is Operation.ALL_REDUCE else server_of(tree.root)
        most = None if piece.span == WHOLE else slots
        request = PlanRequest("tdm", self._next(), workers=hosts, server=server, layout=layout, max_slots=most)
        return self._start(plan, request, chosen)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _queue(self, plan: JobPlan) -> int | None:
        if self._gates:
            return QUEUES[plan.group % len(QUEUES)]
        cycle = self._schedule.cycles[plan.cycle]
        if cycle.mode == "priority" and plan.priority is not None:
            return max(0, FIRST_IN_QUEUE - plan.priority)
        return None

    def _start(self, plan: JobPlan, request: PlanRequest, links: Sequence[Link]) -> Plan:
        controller = self._switches.controller
        mesh = isinstance(request.layout, MeshLayout)
        shown = overlay(self._topology, links) if mesh else view(self._topology, links)
        made = controller.plan(replace(request, priority=self._queue(plan)), shown)
        try:
            controller.install(made)
        except BaseException:
            controller.release(made)
            raise
        return made

    # --- blocks

    def _blocks(self, job: TdmJob, plan: JobPlan, hosts: tuple[str, ...], draw: np.random.Generator) -> list[Part]:
        if any(units > 1 for _, units in plan.placement):
            raise TdmError(f"job {job.name!r}: on packets an all-to-all has one unit a host")
        paths, at, links = self._routed(plan, hosts)
        block = max(1, job.bytes // WORD)
        # Dispatch and combine: endpoints of their own, since pairs of a configuration may be in the second phase while
        # others wait for circuits with their first.
        made = [
            self._start(plan, PlanRequest("all-to-all", self._next(), workers=hosts, layout=MeshLayout(paths)), links)
            for _ in range(2)
        ]
        size = len(hosts)
        crossing = sorted(set(at.values()) - {-1})
        first = min(crossing, default=0)
        blocked = {
            number: np.array(
                [
                    [_when(at[host, hosts[(rank + step) % size]], first) != number for step in range(1, size)]
                    for rank, host in enumerate(hosts)
                ],
                np.int64,
            )
            for number in crossing or [0]
        }
        parts = []
        for phase, one in enumerate(made):
            sources = _drawn(draw, size, block * size)
            came = np.stack(sources).reshape(size, size, block).swapaxes(0, 1).reshape(size, -1).copy()
            parts.append(
                Part(
                    self._network.add(one),
                    phase,
                    first if crossing else -1,
                    Operation.ALL_TO_ALL,
                    sources,
                    [np.full_like(source, -1) for source in sources],
                    came,
                    predict(one, Operation.ALL_TO_ALL, block * size, lead=0),
                    blocked=blocked,
                )
            )
        return parts

    def _routed(
        self, plan: JobPlan, hosts: tuple[str, ...]
    ) -> tuple[dict[tuple[str, str], tuple[str, ...]], dict[tuple[str, str], int], list[Link]]:
        """The path of every pair of hosts, its configuration (-1: within a pod), and the circuits of all of them.

        Routes that share a pair of pods take its destinations in turns, as their shares say: switches forward by
        destination.
        """
        network = self._schedule.network
        routes: dict[tuple[int, int], list[Route]] = {}
        for route in plan.routes:
            routes.setdefault((route.path[0], route.path[-1]), []).append(route)
        given: Counter[tuple[tuple[int, int], int]] = Counter()
        onward: dict[tuple[str, str], str] = {}
        paths: dict[tuple[str, str], tuple[str, ...]] = {}
        at: dict[tuple[str, str], int] = {}
        links: dict[tuple[str, str], Link] = {}
        chosen: dict[tuple[int, str], Route] = {}
        for source, target in sorted(permutations(hosts, 2), key=lambda pair: (pair[1], pair[0])):
            pods = network.pod_of(source), network.pod_of(target)
            if pods[0] == pods[1]:
                paths[source, target], at[source, target] = (source, f"tor{pods[0] + 1}", target), -1
                continue
            if not routes.get(pods):
                raise TdmError(f"job {plan.job!r}: no route from pod {pods[0]} to pod {pods[1]}")
            key = (pods[0], target)
            if key not in chosen:
                own = routes[pods]
                best = min(range(len(own)), key=lambda place: (given[pods, place] + 1) / max(own[place].share, 1e-9))
                given[pods, best] += 1
                chosen[key] = own[best]
            route = chosen[key]
            tors = tuple(f"tor{pod + 1}" for pod in route.path)
            for a, b in pairwise(tors):
                if onward.setdefault((a, target), b) != b:
                    raise TdmError(f"job {plan.job!r}: routes to {target} part at {a}; switches forward by destination")
                where = self.index(plan, route.configuration)
                found = [link for link in self.circuits[where] if {link.a, link.b} == {a, b}]
                if not found:
                    raise TdmError(f"job {plan.job!r}: configuration {route.configuration} has no circuit {a} - {b}")
                known = links.setdefault((min(a, b), max(a, b)), found[0])
                if known not in found:
                    raise TdmError(f"job {plan.job!r}: {a} - {b} are joined at different ports in two configurations")
            paths[source, target] = (source, *tors, target)
            at[source, target] = route.configuration
        return paths, at, list(links.values())


def _when(configuration: int, first: int) -> int:
    """Pairs within a pod (-1) go with the first configuration."""
    return first if configuration < 0 else configuration


def _drawn(draw: np.random.Generator, workers: int, elements: int) -> list[Words]:
    """What workers give: parts of one row of random words, each from another place on."""
    words = draw.integers(-MOST, MOST, elements + workers, dtype=np.int32)
    return [words[rank : rank + elements] for rank in range(workers)]
