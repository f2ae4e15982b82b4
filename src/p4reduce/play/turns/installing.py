"""Install a schedule in the network: circuits on ports, trees as plans of the P4 program, endpoints at hosts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.counters import Operation, Traffic, predict
from p4reduce.control_plane.plans import MeshLayout, Plan, PlanRequest, TreeLayout
from p4reduce.control_plane.plans.problem import ACK_EVERY
from p4reduce.control_plane.plans.routes import HEADER_BYTES, frame_time_ps
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob
from p4reduce.control_plane.tdm.schedule import Cycle, JobPlan, Matrix, PodRoute, PodTree, Schedule, turns_of
from p4reduce.network.jobs.network import BLOCK, EmbeddedSwitches, Job, JobNetwork
from p4reduce.topologies import Link, Node, Topology, parse_delay
from p4reduce.topologies.model import Hop
from p4reduce.topologies.optical import lay_circuits, overlay, oxc, view
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState

# Parts of a job, each carried by one plan of the P4 program, and their order.


Words = npt.NDArray[Any]
"""int32 or float32: words that switches add as integers, or (pushed) whole numbers, whose sums are exact in float32."""
LOOK_PS: Final = 500_000
"""Interval of checks whether the last blocks of a configuration have arrived, ps."""
OWED_PS: Final = 200_000
"""Interval of checks whether an owed acknowledgement has arrived, ps."""


@dataclass
class TurnPart:
    """A stripe of a vector, a shard of it one way, or all blocks of one phase."""

    job: Job
    phase: int
    """0: at once; 1: when phase 0 is through (a pull after its push, combine after dispatch)."""
    configuration: int
    """Configuration within the job's process; -1: any, because it crosses no circuit or all configurations have its
    pairs."""
    operation: Operation
    sources: list[Words]
    """Arrays of the workers; empty for a pull."""
    targets: list[Words]
    """Arrays of the workers; empty for a push."""
    expected: Words
    """Expected values: (elements,) of a sum, (workers, elements) of blocks."""
    predicted: dict[Hop, Traffic]
    stored: Words | None = None
    """Array of the pod's server, where a push leaves the sum and a pull finds it; None without a server."""
    blocked: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict)
    """For blocks, by configuration: pairs that wait for another one, (workers, workers - 1), as `Endpoints.streams`."""
    paces: dict[int, list[int]] = field(default_factory=dict)
    """For blocks, by configuration: picoseconds between chunks of each host."""

    @property
    def elements(self) -> int:
        """Elements of each worker's array."""
        return int((self.sources or self.targets)[0].size)

    @property
    def divided(self) -> bool:
        """Whether its blocks go in several configurations, so that endpoints are not done at the end of each."""
        return len(self.blocked) > 1

    def in_configuration(self, number: int) -> bool:
        """Return whether some of it is sent in a configuration; -1: in all of them together."""
        if number < 0 or not self.blocked:
            return number < 0 or max(0, self.configuration) == number
        return number in self.blocked

    def begins(self, number: int) -> bool:
        """Return whether this is the first configuration in which some of it is sent."""
        return number < 0 or not self.blocked or number == min(self.blocked)

    def post(self, network: JobNetwork) -> None:
        """Begin to send it."""
        collective = Collective[self.operation.name]
        words = self.operation is not Operation.PUSH
        for target in self.targets:
            target[:] = -1
        if self.job.server is not None and self.stored is not None:
            if self.sources:
                self.stored[:] = -1
            kept = self.stored.view(np.float32)
            given, got = (None, kept) if self.sources else (kept, None)
            network.post(self.job.server, Post(collective, given, got, words=words))
        for rank, index in enumerate(self.job.members.values()):
            own = self.sources[rank].view(np.float32) if self.sources else None
            result = self.targets[rank].view(np.float32) if self.targets else None
            network.post(index, Post(collective, own, result, words=words))

    def exact(self) -> bool:
        """Return whether all hosts have the expected values."""
        if not self.targets:
            return self.stored is not None and np.array_equal(self.stored, self.expected)
        rows = self.expected if self.expected.ndim > 1 else [self.expected] * len(self.targets)
        return all(np.array_equal(target, row) for target, row in zip(self.targets, rows, strict=True))

    def busy(self, network: JobNetwork) -> list[int]:
        """Return the endpoints that are not done yet."""
        status = network.endpoints.records["status"]
        return [index for index in self.job.endpoints if status[index] == EndpointState.ACTIVE]

    def let(self, network: JobNetwork, configuration: int) -> None:
        """Send only the blocks of one configuration, at its pace."""
        for rank, index in enumerate(self.job.members.values()):
            network.endpoints.streams(index)["blocked"] = self.blocked[configuration][rank]
            network.endpoints.change_pace(index, self.paces[configuration][rank])
            network.fabric.start(index)

    def through(self, network: JobNetwork) -> bool:
        """Return whether everything that may leave now is sent and acknowledged."""
        if not self.divided:
            return not self.busy(network) and not network.lingers(self.job)
        for index in self.job.endpoints:
            streams = network.endpoints.streams(index)
            sending = (streams["blocked"] == 0) & (streams["low"] < streams["end"])
            owing = streams["acks_sent"] < streams["acks_due"]
            if sending.any() or owing.any():
                return False
        return True

    def left_ps(self, network: JobNetwork) -> int:
        """Return a lower bound of the time until all blocks that may leave now have left, ps."""
        longest = 0
        for index in self.job.endpoints:
            streams = network.endpoints.streams(index)
            left = np.where(streams["blocked"] == 0, streams["end"] - streams["next"], 0).sum()
            longest = max(longest, int(left) * int(network.endpoints.records[index]["pace"]))
        return longest


@dataclass
class Installed:
    """A job with its plans."""

    job: TdmJob
    plan: JobPlan
    hosts: tuple[str, ...]
    parts: list[TurnPart]
    together: bool = False
    """Whether its second phase begins when all of its group are through with their first, as sub-phases of (1) do."""

    @property
    def local(self) -> bool:
        """Whether it crosses no circuit."""
        return all(part.configuration == -1 for part in self.parts)


class SentParts:
    """Parts of one job, or of a group, phase by phase: a phase is posted when all parts before it are through."""

    def __init__(self, network: JobNetwork, jobs: Sequence[Installed], configuration: int) -> None:
        self._network, self._configuration = network, configuration
        own = [part for job in jobs for part in job.parts if part.in_configuration(configuration)]
        self.phases: Iterator[list[TurnPart]] = iter(
            [[part for part in own if part.phase == phase] for phase in sorted({part.phase for part in own})]
        )
        self.now: list[TurnPart] = []
        self.done: list[TurnPart] = []

    def go_on(self) -> list[TurnPart]:
        """Begin the next phase; return the parts that were posted."""
        self.done += self.now
        self.now = next(self.phases, [])
        posted = [part for part in self.now if part.begins(self._configuration)]
        for part in posted:
            part.post(self._network)
        for part in self.now:
            if part.blocked:
                part.let(self._network, max(self._configuration, min(part.blocked)))
        return posted

    def busy(self) -> list[int]:
        """Return the endpoints of this phase that are not done yet."""
        return [index for part in self.now for index in part.busy(self._network)]

    def look_ps(self) -> int | None:
        """Return the time after which to check whether this phase is through, ps; None: endpoints report it."""
        times = [part.left_ps(self._network) // 2 for part in self.now if part.divided]
        if times:
            return max(LOOK_PS, *times)
        return None if self.busy() else OWED_PS

    def through(self) -> bool:
        """Return whether this phase is through."""
        return all(part.through(self._network) for part in self.now)


# Ways to carry a sum: along one tree; or in shards, pushed to where they are kept and pulled from there.


WHOLE: Final = (0.0, 1.0)


@dataclass(frozen=True)
class Piece:
    """A share of a vector along one tree, one way or both."""

    operation: Operation
    tree: PodTree
    span: tuple[float, float]
    """Share of the vector: from, to."""


def pieces_of(plan: JobPlan, pod: int) -> list[Piece]:
    """Return the pieces that carry the vector of a ps or rar; a job without a tree lies in ``pod``.

    A ring of m ToRs is m shards. In reduce-scatter the k-th shard passes from the pod after k all the way round to k,
    and every ToR adds what its pod sends: a chain, towards k, along the ring. In all-gather it continues from k to the
    pod before it: another chain, along the ring as well. Each circuit carries (m - 1) / m of the vector in both
    sub-phases, in the ring's direction, as in (5); in between, a shard is kept at the ToR of its pod.
    """
    if plan.ring is not None:
        order = plan.ring.order
        size = len(order)
        pieces = []
        for place, root in enumerate(order):
            span = (place / size, (place + 1) / size)
            before = [order[(place + 1 + step) % size] for step in range(size - 1)] + [root]
            after = [root] + [order[(place + 1 + step) % size] for step in range(size - 1)]
            pushes = PodTree(root, tuple(pairwise(before)), span[1] - span[0], plan.ring.configuration, pipelined=False)
            pulls = PodTree(
                root,
                tuple((child, parent) for parent, child in pairwise(after)),
                span[1] - span[0],
                plan.ring.configuration,
                pipelined=False,
            )
            pieces += [Piece(Operation.PUSH, pushes, span), Piece(Operation.PULL, pulls, span)]
        return pieces
    trees = plan.trees or (PodTree(pod, (), 1.0),)
    ends = [0.0]
    for tree in trees:
        ends.append(ends[-1] + tree.share)
    pieces = []
    for tree, span in zip(trees, pairwise(ends), strict=True):
        ways = (Operation.ALL_REDUCE,) if tree.pipelined else (Operation.PUSH, Operation.PULL)
        pieces += [Piece(way, tree, span) for way in ways]
    return pieces


# Send rates of blocks: as fast as the busiest link takes them, with everything that is sent at the same time.
#
# Sums wait for their results, so a window limits their queues. The streams of an all-to-all are paced: two jobs of one
# turn that each took a circuit for themselves would fill its queue. Here all jobs of a turn end together: a job's time
# is that of the busiest link that it crosses, with all jobs' frames on it, and its hosts spread their chunks over that
# time.


Load = Counter[Hop]
"""Picoseconds for which links are busy."""
RatesOf = Callable[[JobPlan, int], Mapping[Hop, int]]
"""Rates, bit/s, of the circuits that are lit in a configuration of a job's process, by the (node, port) they leave."""
PHASES = 2
"""Dispatch and combine: each has half of the time of all jobs of a turn."""


def set_paces(schedule: Schedule, installed: Mapping[str, Installed], rates: RatesOf) -> None:
    """Set the paces of every all-to-all's blocks, configuration by configuration."""
    cycles = turns_by_cycle(schedule)
    if not any(blocked_part.blocked for job in installed.values() for blocked_part in job.parts):
        return
    longest = [busiest(summed(_load(installed[name], 0, rates) for name in turn) for turn in turns) for turns in cycles]
    every = summed(longest)
    for turns, own in zip(cycles, longest, strict=True):
        beside = every - own
        for turn in turns:
            blocks = [
                (installed[name].plan, blocked_part)
                for name in turn
                for blocked_part in installed[name].parts
                if blocked_part.blocked
            ]
            for configuration in sorted({number for _, blocked_part in blocks for number in blocked_part.blocked}):
                total = summed(_load(installed[name], configuration, rates) for name in turn) + beside
                for plan, part in blocks:
                    if configuration in part.blocked:
                        part.paces[configuration] = _paces(part, configuration, total, rates(plan, configuration))


def turns_by_cycle(schedule: Schedule) -> list[list[list[str]]]:
    """Return the names of the jobs that send at the same time, group by group, for each cycle."""
    return [list(_turns(schedule, cycle)) for cycle in schedule.cycles]


def _turns(schedule: Schedule, cycle: Cycle) -> Iterable[list[str]]:
    """Return the groups of jobs that send at the same time; in a cycle that is not gated each job is a group."""
    return turns_of(schedule, cycle).values() if cycle.mode == "gated" else ([name] for name in cycle.jobs)


def _paces(part: TurnPart, configuration: int, total: Load, rates: Mapping[Hop, int]) -> list[int]:
    own = blocks_load(part, configuration, rates)
    takes = max((total[hop] for hop in own), default=0) // PHASES
    chunks = -(-part.elements // (len(part.job.members) * part.job.plan.lanes))
    lit = (part.blocked[configuration] == 0).sum(axis=1)
    return [int(takes // (chunks * count)) if count else 0 for count in lit.tolist()]


def _load(job: Installed, configuration: int, rates: RatesOf) -> Load:
    """Return the load of all phases of a job on every link."""
    lit = rates(job.plan, configuration)
    return summed(
        blocks_load(part, configuration, lit) if part.blocked else _sum_load(part)
        for part in job.parts
        if part.in_configuration(configuration)
    )


def _sum_load(part: TurnPart) -> Load:
    load: Load = Counter()
    for hop, traffic in part.predicted.items():
        if traffic.frames:
            rate = part.job.plan.topology.link_at(*hop).rate_bps
            load[hop] += traffic.frames * frame_time_ps(traffic.bytes // traffic.frames, rate)
    return load


def blocks_load(part: TurnPart, configuration: int, rates: Mapping[Hop, int]) -> Load:
    """Return the load of a configuration's blocks on every link, with their acknowledgements."""
    plan: Plan = part.job.plan
    chunks = -(-part.elements // (len(part.job.members) * plan.lanes))
    hosts = list(part.job.members)
    load: Load = Counter()
    for rank, row in enumerate(part.blocked[configuration].tolist()):
        for step, closed in enumerate(row, 1):
            if closed:
                continue
            pair = hosts[rank], hosts[(rank + step) % len(hosts)]
            for (a, b), frames, length in (
                (pair, chunks, plan.frame_bytes),
                (pair[::-1], -(-chunks // ACK_EVERY), HEADER_BYTES),
            ):
                for hop in plan.path_hops(a, b):
                    # A port has other circuits in other configurations.
                    rate = rates[hop] if hop in rates else plan.topology.link_at(*hop).rate_bps
                    load[hop] += frames * frame_time_ps(length, rate)
    return load


Place = TypeVar("Place")
"""A busy place: a link, or a resource of the flow model."""


def summed(loads: Iterable[Counter[Place]]) -> Counter[Place]:
    """Return how long each place is busy in total, ps."""
    total: Counter[Place] = Counter()
    for load in loads:
        total.update(load)
    return total


def busiest(loads: Iterable[Counter[Place]]) -> Counter[Place]:
    """Return how long each place is busy at most, ps."""
    most: Counter[Place] = Counter()
    for load in loads:
        most |= load
    return most


WORD: Final = 4
"""Bytes of an element."""
MOST: Final = 1 << 20
"""Bound of a worker's words: sums of 2,047 workers are exact in int32."""
FLOAT_SHIFT: Final = 7
"""Bits by which pushed words are smaller: sums of 2,047 workers are exact in float32, too."""
QUEUES: Final = (2, 3)
"""Queues of the two groups, if gates keep them apart."""
FIRST_IN_QUEUE: Final = 6
"""Queue of a job with priority 0; the next priority has the next lower queue."""
MOST_SLOTS: Final = 256
"""Slots of a switch for all shards of a vector together."""


def physical(network: OpticalNetwork, delay: str = "1us", *, servers: bool = False, planes: int = 1) -> Topology:
    """Build hosts, ToRs and the cross-connect of a network; ``delay`` is that of every fibre.

    ``servers``: a host beside each ToR that keeps pushed data until they are pulled, with a link as fast as all others
    of its ToR together: (4) counts no bytes for it, so no job may have to wait for it. ``planes``: 1 or 2
    cross-connects, between which the ports of a ToR alternate.
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
    """Return the name of the host beside a ToR."""
    return f"ps{pod + 1}"


def needs_servers(schedule: Schedule) -> bool:
    """Return whether any data are pushed and pulled later."""
    return any(plan.ring is not None or any(not tree.pipelined for tree in plan.trees) for plan in schedule.jobs)


class TurnInstaller:
    """Installer that programs the switches with the plans of a schedule's jobs, and gives hosts their endpoints."""

    def __init__(
        self, topology: Topology, switches: EmbeddedSwitches, network: JobNetwork, schedule: Schedule, *, gates: bool
    ) -> None:
        self._topology, self._switches, self._network, self._schedule = topology, switches, network, schedule
        self._gates = gates
        self.matrices: list[Matrix] = []
        for process in schedule.processes:
            for configuration in process.configurations:
                if configuration.circuits not in self.matrices:
                    self.matrices.append(configuration.circuits)
        self.circuits: list[tuple[Link, ...]] = self.lay()
        self._carried: Counter[tuple[int, Link]] = Counter()
        self._number = 0

    def lay(self) -> list[tuple[Link, ...]]:
        """Return the circuits of every configuration, at ports; raise `TopologyError` if planes cannot share them."""
        return list(lay_circuits(self._topology, self.matrices, self._schedule.network.parallel))

    def pieces(self, plan: JobPlan, pod: int) -> list[Piece]:
        """Return the pieces that carry the vector of a job."""
        return pieces_of(plan, pod)

    def install(self, job: TdmJob, seed: int) -> Installed:
        """Install one job; raise `TdmError` or `PlanError` if its plan cannot be carried out on packets."""
        plan = self._schedule.plan(job.name)
        hosts = tuple(host for host, _ in plan.placement)
        draw = np.random.default_rng(seed)
        if job.kind == "a2a":
            return Installed(job, plan, hosts, self._blocks(job, plan, hosts, draw))
        pieces = self.pieces(plan, self._schedule.network.pod_of(hosts[0]))
        together = any(piece.operation is not Operation.ALL_REDUCE for piece in pieces)
        return Installed(job, plan, hosts, self._sums(job, plan, hosts, pieces, draw), together)

    def index(self, plan: JobPlan, configuration: int) -> int:
        """Return the index in ``circuits`` of a configuration of a job's process."""
        return self.matrices.index(self._schedule.processes[plan.process].configurations[configuration].circuits)

    def rates(self, plan: JobPlan, configuration: int) -> dict[Hop, int]:
        """Return the rates, bit/s, of a configuration's circuits, by the (node, port) that they leave."""
        lit = self.circuits[self.index(plan, configuration)]
        return {end: link.rate_bps for link in lit for end in ((link.a, link.port_a), (link.b, link.port_b))}

    # --- sums

    def _sums(
        self, job: TdmJob, plan: JobPlan, hosts: tuple[str, ...], pieces: Sequence[Piece], draw: np.random.Generator
    ) -> list[TurnPart]:
        elements = max(1, job.bytes // WORD)
        words = _drawn(draw, len(hosts), elements)
        parts: list[TurnPart] = []
        carried: dict[tuple[PodTree, int], Job] = {}
        stored: dict[tuple[int, int], Words] = {}
        slots = MOST_SLOTS // len({piece.span for piece in pieces})  # shares of one vector also share its window
        spans = sorted({piece.span for piece in pieces})
        lanes = self._switches.controller.program.lanes
        whole = dict(zip(spans, cut_chunks(elements, [end - first for first, end in spans], lanes), strict=True))
        for piece in pieces:
            first, end = whole[piece.span]
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

    def _part(self, job: Job, piece: Piece, sources: list[Words], total: Words, kept: Words | None) -> TurnPart:
        operation = piece.operation
        return TurnPart(
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
            link = min(joining, key=lambda circuit: self._carried[where, circuit])
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

    def _blocks(self, job: TdmJob, plan: JobPlan, hosts: tuple[str, ...], draw: np.random.Generator) -> list[TurnPart]:
        if any(units > 1 for _, units in plan.placement):
            raise TdmError(f"job {job.name!r}: on packets an all-to-all has one unit a host")
        block = max(1, job.bytes // WORD)
        shares = {route.stripe: route.share for route in plan.routes} or {0: 1.0}
        lanes = self._switches.controller.program.lanes
        parts: list[TurnPart] = []
        for stripe, (first, end) in zip(shares, cut_chunks(block, list(shares.values()), lanes), strict=True):
            if end > first:
                routes = [route for route in plan.routes if route.stripe == stripe]
                parts += self._stripe(plan, routes, hosts, end - first, draw)
        return parts

    def _stripe(
        self, plan: JobPlan, routes: Sequence[PodRoute], hosts: tuple[str, ...], block: int, draw: np.random.Generator
    ) -> list[TurnPart]:
        """Return the parts that carry ``block`` elements of every block, along the routes of a stripe."""
        paths, at, links = self._routed(plan, routes, hosts)
        # Dispatch and combine have separate endpoints, since pairs of a configuration may be in the second phase while
        # others wait for circuits in their first.
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
        for phase, block_plan in enumerate(made):
            sources = _drawn(draw, size, block * size)
            came = np.stack(sources).reshape(size, size, block).swapaxes(0, 1).reshape(size, -1).copy()
            parts.append(
                TurnPart(
                    self._network.add(block_plan),
                    phase,
                    first if crossing else -1,
                    Operation.ALL_TO_ALL,
                    sources,
                    [np.full_like(source, -1) for source in sources],
                    came,
                    predict(block_plan, Operation.ALL_TO_ALL, block * size, lead=0),
                    blocked=blocked,
                )
            )
        return parts

    def _routed(
        self, plan: JobPlan, own_routes: Sequence[PodRoute], hosts: tuple[str, ...]
    ) -> tuple[dict[tuple[str, str], tuple[str, ...]], dict[tuple[str, str], int], list[Link]]:
        """Return the path of every pair of hosts, its configuration (-1: within a pod), and all their circuits.

        Routes that share a pair of pods divide its destinations by their shares, because switches forward by
        destination.
        """
        network = self._schedule.network
        routes: dict[tuple[int, int], list[PodRoute]] = {}
        for route in own_routes:
            routes.setdefault((route.path[0], route.path[-1]), []).append(route)
        given: Counter[tuple[tuple[int, int], int]] = Counter()
        onward: dict[tuple[str, str], str] = {}
        paths: dict[tuple[str, str], tuple[str, ...]] = {}
        at: dict[tuple[str, str], int] = {}
        links: dict[tuple[str, str], Link] = {}
        chosen: dict[tuple[int, str], PodRoute] = {}
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
                circuits = [link for link in self.circuits[where] if {link.a, link.b} == {a, b}]
                if not circuits:
                    raise TdmError(f"job {plan.job!r}: configuration {route.configuration} has no circuit {a} - {b}")
                known = links.setdefault((min(a, b), max(a, b)), circuits[0])
                if known not in circuits:
                    raise TdmError(f"job {plan.job!r}: {a} - {b} are joined at different ports in two configurations")
            paths[source, target] = (source, *tors, target)
            at[source, target] = route.configuration
        return paths, at, list(links.values())


def cut_chunks(elements: int, shares: Sequence[float], lanes: int) -> list[tuple[int, int]]:
    """Return the (first, end) of each share of a vector: whole chunks of ``lanes`` elements except in the last one."""
    chunks = -(-elements // lanes)
    ends = [0]
    done = 0.0
    for share in shares:
        done += share
        ends.append(min(elements, round(chunks * done) * lanes))
    ends[-1] = elements
    return list(pairwise(ends))


def _when(configuration: int, first: int) -> int:
    """Return a pair's configuration; pairs within a pod (-1) go with the first."""
    return first if configuration < 0 else configuration


def _drawn(draw: np.random.Generator, workers: int, elements: int) -> list[Words]:
    """Draw the inputs of workers: slices of one row of random words, each with another offset."""
    words = draw.integers(-MOST, MOST, elements + workers, dtype=np.int32)
    return [words[rank : rank + elements] for rank in range(workers)]
