"""A schedule in the network: circuits on ports, trees as plans of the P4 program, endpoints at hosts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations
from typing import Final

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.frames import HEADER_BYTES, frame_time_ps
from p4reduce.control_plane.plans import MeshLayout, Plan, PlanRequest, TreeLayout
from p4reduce.control_plane.plans.window import ACK_EVERY
from p4reduce.control_plane.predict import Operation, Traffic, predict
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.schedule import JobPlan, Matrix, Route, Schedule, Tree
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.switches import EmbeddedSwitches
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import Hop
from p4reduce.topologies.optical import lay_circuits, overlay, oxc, view
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, State

Words = npt.NDArray[np.int32]
WORD: Final = 4
"""bytes"""
MOST: Final = 1 << 20
"""of a word that a worker gives: sums of 2,047 workers are exact in int32"""
QUEUES: Final = (2, 3)
"""of the two groups, where gates keep them apart"""
FIRST_IN_QUEUE: Final = 6
"""the queue of a job with priority 0; the next one has the next lower queue"""


def physical(network: OpticalNetwork, delay: str = "1us") -> Topology:
    """Hosts, ToRs and the cross-connect of a network; ``delay`` is that of every fibre."""
    if network.ports < 1:
        raise TdmError("ports: a pod without ports has no circuits; packets need at least one")
    return oxc(
        network.pods,
        network.servers,
        network.ports,
        rate=network.rate_bps,
        port_rate=network.port_rate_bps,
        delay=delay,
    )


@dataclass
class Part:
    """What of a job one plan carries: a stripe of its vector, or all blocks."""

    job: Job
    configuration: int
    """within the job's process; -1: whatever is lit, it crosses no circuit or all configurations have its pairs"""
    operation: Operation
    sources: list[Words]
    targets: list[Words]
    expected: Words
    """(elements,) of a sum, (workers, elements) of blocks"""
    predicted: dict[Hop, Traffic]
    blocked: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict)
    """of blocks that go in several configurations: by configuration, (workers, workers - 1), as `Endpoints.streams`"""
    paces: dict[int, int] = field(default_factory=dict)
    """of blocks, by configuration: picoseconds between chunks of a host"""

    @property
    def elements(self) -> int:
        """Of each worker's array."""
        return int(self.sources[0].size)

    def post(self, network: JobNetwork) -> None:
        """Begin now."""
        collective = Collective[self.operation.name]
        for rank, index in enumerate(self.job.members.values()):
            self.targets[rank][:] = -1
            source, target = (array[rank].view(np.float32) for array in (self.sources, self.targets))
            network.post(index, Post(collective, source, target, words=True))

    def exact(self) -> bool:
        """Whether every worker has what it must have."""
        rows = self.expected if self.expected.ndim > 1 else [self.expected] * len(self.targets)
        return all(np.array_equal(target, row) for target, row in zip(self.targets, rows, strict=True))

    def busy(self, network: JobNetwork) -> list[int]:
        """Endpoints that have not all yet."""
        status = network.endpoints.records["status"]
        return [index for index in self.job.endpoints if status[index] == State.ACTIVE]

    def let(self, network: JobNetwork, configuration: int) -> None:
        """Of blocks that go in several configurations: only those of one of them, from now on."""
        for rank, index in enumerate(self.job.members.values()):
            network.endpoints.streams(index)["blocked"] = self.blocked[configuration][rank]
            network.endpoints.change_pace(index, self.paces[configuration])
            network.fabric.start(index)

    def through(self, network: JobNetwork) -> bool:
        """Whether nothing is under way any more of what may leave now, acknowledgements included."""
        if not self.blocked:
            return not self.busy(network) and not network.lingers(self.job)
        for index in self.job.endpoints:
            streams = network.endpoints.streams(index)
            sending = (streams["blocked"] == 0) & (streams["low"] < streams["end"])
            owing = streams["acks_sent"] < streams["acks_due"]
            if sending.any() or owing.any():
                return False
        return True


@dataclass
class Installed:
    """A job with its plans."""

    job: TdmJob
    plan: JobPlan
    hosts: tuple[str, ...]
    parts: list[Part]

    @property
    def train_s(self) -> float:
        """Seconds of training on GPUs of its own."""
        return self.job.compute_on(sum(units for _, units in self.plan.placement))


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
        self.circuits: list[tuple[Link, ...]] = list(lay_circuits(topology, self.matrices, schedule.network.parallel))
        self._carried: Counter[tuple[int, Link]] = Counter()
        self._number = 0

    def install(self, job: TdmJob, seed: int) -> Installed:
        """One job; `TdmError` or `PlanError` when its plan cannot be carried out on packets."""
        plan = self._schedule.plan(job.name)
        hosts = tuple(host for host, _ in plan.placement)
        if plan.ring is not None or any(not tree.pipelined for tree in plan.trees):
            raise TdmError(
                f"job {job.name!r}: on packets ToRs add up along trees, chunk by chunk; rings of ToRs, and a push that "
                "ends before the pull begins, are of the flow model (tdm plan)"
            )
        draw = np.random.default_rng(seed)
        parts = self._blocks(job, plan, hosts, draw) if job.kind == "a2a" else self._sums(job, plan, hosts, draw)
        return Installed(job, plan, hosts, parts)

    def index(self, plan: JobPlan, configuration: int) -> int:
        """Which of ``circuits`` a configuration of a job's process is."""
        return self.matrices.index(self._schedule.processes[plan.process].configurations[configuration].circuits)

    # --- sums

    def _sums(self, job: TdmJob, plan: JobPlan, hosts: tuple[str, ...], draw: np.random.Generator) -> list[Part]:
        trees = plan.trees or (Tree(self._schedule.network.pod_of(hosts[0]), (), 1.0),)
        elements = max(1, job.bytes // WORD)
        ends = [round(elements * share) for share in np.cumsum([tree.share for tree in trees])]
        parts = []
        for tree, first, end in zip(trees, [0, *ends], ends, strict=False):
            if end <= first:
                continue
            number = self._tree(tree, plan, hosts, end - first)
            sources = _drawn(draw, len(hosts), end - first)
            total: Words = np.asarray(np.sum(sources, axis=0, dtype=np.int64), np.int32)
            parts.append(self._part(number, tree, Operation.ALL_REDUCE, sources, total))
        return parts

    def _part(self, plan: Plan, tree: Tree | None, operation: Operation, sources: list[Words], total: Words) -> Part:
        job = self._network.add(plan)
        predicted = predict(plan, operation, sources[0].size, lead=0)
        targets = [np.full_like(source, -1) for source in sources]
        configuration = tree.configuration if tree is not None and tree.edges else -1
        return Part(job, configuration, operation, sources, targets, total, predicted)

    def _tree(self, tree: Tree, plan: JobPlan, hosts: tuple[str, ...], elements: int) -> Plan:
        network = self._schedule.network
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
        return self._start(plan, PlanRequest("tdm", self._next(), workers=hosts, layout=layout), chosen)

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
        request = PlanRequest("all-to-all", self._next(), workers=hosts, layout=MeshLayout(paths))
        made = self._start(plan, request, links)
        sources = _drawn(draw, len(hosts), block * len(hosts))
        came = np.stack(sources).reshape(len(hosts), len(hosts), block).swapaxes(0, 1).reshape(len(hosts), -1).copy()
        part = self._part(made, None, Operation.ALL_TO_ALL, sources, came)
        size = len(hosts)
        for configuration in sorted(set(at.values()) - {-1}):
            flags = np.zeros((size, size - 1), np.int64)
            for rank, host in enumerate(hosts):
                for step in range(1, size):
                    flags[rank, step - 1] = at[host, hosts[(rank + step) % size]] not in (-1, configuration)
            part.blocked[configuration] = flags
            part.paces[configuration] = _pace(made, {pair for pair, one in at.items() if one in (-1, configuration)})
        return [part]

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


def _pace(plan: Plan, pairs: set[tuple[str, str]]) -> int:
    """Time between new chunks of a host with which the busiest link carries one of each of these pairs, and answers."""
    full: Counter[Hop] = Counter(hop for pair in pairs for hop in plan.path_hops(*pair))
    empty: Counter[Hop] = Counter(hop for a, b in pairs for hop in plan.path_hops(b, a))
    busiest = max(
        count * frame_time_ps(plan.frame_bytes, rate) + -(-empty[hop] * frame_time_ps(HEADER_BYTES, rate) // ACK_EVERY)
        for hop, count in full.items()
        for rate in (plan.topology.link_at(*hop).rate_bps,)
    )
    return busiest // max(Counter(a for a, _ in pairs).values())


def _drawn(draw: np.random.Generator, workers: int, elements: int) -> list[Words]:
    """What workers give: parts of one row of random words, each from another place on."""
    words = draw.integers(-MOST, MOST, elements + workers, dtype=np.int32)
    return [words[rank : rank + elements] for rank in range(workers)]
