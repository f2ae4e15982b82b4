"""A cluster over the lives of its jobs: waiting, placement, concurrent progress, and ends.

Between two events (an arrival, an end) only the jobs' progress changes. The iteration times of jobs that share links
are therefore computed once for each set of jobs, by the fluid model of `calibration.py`; job lengths follow from them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from p4reduce.control_plane.placement import ClusterView, IterationLoad, Racks, place
from p4reduce.control_plane.placement.cluster import ModelCopies, ring_copies, tree_copies
from p4reduce.control_plane.placement.policies import (
    Contender,
    PlacementPolicy,
    order_named,
    sorted_queue,
    whole_trees,
    work,
)
from p4reduce.control_plane.scheduling.task import Task, WantedHosts
from p4reduce.control_plane.scheduling.view import NetworkState, Rejection
from p4switch.base.values import PS_PER_S
from studies.placement.calibration import RING_SHARE, ClusterJob, FluidJob, steady_times
from studies.placement.settings import PLENTY, ClusterScenario

_SLOTS: Final = 2
"""slots of a switch that a job takes, in the count of the policies"""
_RETRIES: Final = 8
"""number of waiting tasks that may be passed over at one time, as in the orchestrator"""
OWNERS: Final = 4
RING_WINDOWS: Final = {25: 4, 100: 2}
"""by rate in Gb/s: ratio of a ring's window to a tree's, as the planner chooses them between racks (powers of two)"""
_AHEAD: Final = 1e-9


@dataclass(frozen=True)
class FinishedJob:
    """A job that has ended. ``racks``: number of racks over which it was spread."""

    name: str
    wait_s: float
    jct_s: float
    slowdown: float
    racks: int
    in_time: bool
    """whether it ended before its deadline: ten times its length alone after its arrival"""


@dataclass
class _Running:
    job: ClusterJob
    hosts: tuple[str, ...]
    began_s: float
    left: float
    trees: tuple[ModelCopies, ...]
    """its trees, best first; empty if no switch on its paths can aggregate"""
    ring: ModelCopies
    ring_weight: float
    """ratio of the link share of its ring's flows to that of a tree's"""
    tree: ModelCopies | None = None
    """its current tree; None: its ring"""
    iteration_s: float = 1.0

    @property
    def choice(self) -> int:
        """Index of its current tree in ``trees``; -1: its ring."""
        return -1 if self.tree is None else [id(tree) for tree in self.trees].index(id(self.tree))

    @property
    def copies(self) -> ModelCopies:
        """Its current load on links."""
        return self.ring if self.tree is None else self.tree

    def flow(self) -> FluidJob:
        bits, copies = self.job.model.bits, self.copies.copies
        share = bits * min(copies.values(), default=1.0) / (1.0 if self.tree is not None else self.ring_weight)
        return FluidJob(self.job.model.compute_s, {link: bits * times for link, times in copies.items()}, share)


@dataclass
class ClusterRun:
    """One run of a scenario.

    Parameters
    ----------
    scenario : ClusterScenario
        The cluster.
    jobs : sequence of ClusterJob
        Jobs by arrival.
    policy : str or function
        A placement policy, or its name.
    order : str
        Order of waiting tasks.
    backfill : bool
        Whether later tasks may pass a task that does not fit.
    """

    scenario: ClusterScenario
    jobs: Sequence[ClusterJob]
    policy: str | PlacementPolicy
    order: str = "fifo"
    backfill: bool = True
    ended: list[FinishedJob] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._state = self.scenario.state()
        self._racks = racks_of(self.scenario)
        self._order = order_named(self.order)
        self._slots = {host.name: 1 for host in self._racks.topology.workers}
        self._free = dict(self._slots)
        self._running: dict[str, _Running] = {}
        self._waiting: dict[str, Task] = {}
        self._by_name = {job.name: job for job in self.jobs}
        self._served: dict[str, float] = {}
        self._known: dict[frozenset[tuple[str, int]], dict[str, float]] = {}
        self._capacity = ClusterView(self._racks, self._state, self._slots, self._free, rings=True).capacity_bps
        self._switches = sorted(self._racks.capable)
        self._now = 0.0

    def run(self) -> list[FinishedJob]:
        """Run all jobs to their ends."""
        coming = sorted(self.jobs, key=lambda job: job.arrival_s)[::-1]
        while coming or self._running:
            arrival = coming[-1].arrival_s if coming else np.inf
            end = min(
                (self._now + job_run.left * job_run.iteration_s for job_run in self._running.values()), default=np.inf
            )
            self._advance(min(arrival, end))
            done = [job_run for job_run in self._running.values() if job_run.left <= _AHEAD * job_run.job.rounds]
            for job_run in done:
                self._end(job_run)
            while coming and coming[-1].arrival_s <= self._now:
                job = coming.pop()
                self._waiting[job.name] = self._task(job)
            self._admit()
            self._give_slots()
            self._find_times()
        return self.ended

    # --- events

    def _advance(self, to_s: float) -> None:
        for job_run in self._running.values():
            job_run.left -= (to_s - self._now) / job_run.iteration_s
        self._now = to_s

    def _end(self, job_run: _Running) -> None:
        job = job_run.job
        del self._running[job.name]
        for host in job_run.hosts:
            self._free[host] = 1
        taken = self._now - job.arrival_s
        racks = len({self._racks.of[host] for host in job_run.hosts})
        in_time = taken <= 10 * job.alone_s
        self.ended.append(
            FinishedJob(job.name, job_run.began_s - job.arrival_s, taken, taken / job.alone_s, racks, in_time)
        )

    def _admit(self) -> None:
        failed = 0
        for name in sorted_queue(self._waiting, self._order, self._served):
            task = self._waiting[name]
            if task.size > sum(self._free.values()):
                failed += 1
                if not self.backfill or failed >= _RETRIES:
                    return
                continue
            try:
                self._begin(task)
            except Rejection:  # the policy prefers to wait
                failed += 1
                if not self.backfill or failed >= _RETRIES:
                    return
                continue
            self._served[task.owner] = self._served.get(task.owner, 0.0) + work(task)
            del self._waiting[name]

    def _begin(self, task: Task) -> None:
        job, cluster = self._by_name[task.name], self._cluster()
        hosts = place(task, cluster, self.policy).workers
        for host in hosts:
            self._free[host] = 0
        racks = {self._racks.of[host] for host in hosts}
        able = self._racks.capable if self.scenario.giving != "ring" else frozenset[str]()
        if self.scenario.giving == "partial":
            able = frozenset(switch for switch in able if self._ranges_left()[switch] > 0)
        trees = [tree_copies(self._racks, hosts, way, able) for way in self._racks.ways(racks, able)]
        rings = [ring_copies(self._racks, hosts, way) for way in self._racks.ways(racks)]
        trees.sort(key=lambda tree: cluster.lasts(tree.copies))
        ring = min(rings, key=lambda way_copies: cluster.lasts(way_copies.copies))
        weight = RING_SHARE * RING_WINDOWS[self.scenario.rate_gbps]
        job_run = _Running(job, hosts, self._now, job.rounds, tuple(trees), ring, weight)
        if self.scenario.giving == "partial":
            job_run.tree = trees[0] if trees else None
        elif self.scenario.giving == "whole":
            left = self._ranges_left()
            able_trees = [tree for tree in trees if all(left[switch] > 0 for switch in tree.slots)]
            if able_trees and self._alone(job_run, able_trees[0]) < self._alone(job_run, ring):
                job_run.tree = able_trees[0]
        self._running[job.name] = job_run

    def _alone(self, job_run: _Running, copies: ModelCopies) -> float:
        bits = job_run.job.model.bits
        longest = max((bits * times / self._capacity[link] for link, times in copies.copies.items()), default=0.0)
        return float(job_run.job.model.compute_s + longest)

    def _give_slots(self) -> None:
        """Reassign trees by value, if the scenario asks for it; otherwise jobs keep what they got at their start."""
        if self.scenario.giving != "value":
            return
        contenders = [
            Contender(
                name,
                tuple(tree.slots for tree in job_run.trees),
                self._alone(job_run, job_run.trees[0]),
                self._alone(job_run, job_run.ring),
                job_run.job.workers,
            )
            for name, job_run in self._running.items()
            if job_run.trees
        ]
        chosen = whole_trees(contenders, dict.fromkeys(self._switches, self.scenario.slots))
        for name, job_run in self._running.items():
            job_run.tree = job_run.trees[chosen[name]] if name in chosen else None

    def _ranges_left(self) -> Counter[str]:
        left = Counter(dict.fromkeys(self._switches, self.scenario.slots))
        for job_run in self._running.values():
            left.subtract(job_run.copies.slots)
        return left

    # --- the policies' view

    def _task(self, job: ClusterJob) -> Task:
        number = int(job.name.removeprefix("job"))
        arrival = round(job.arrival_s * PS_PER_S)
        return Task(
            job.name,
            "",
            (),
            job.model.elements,
            int(job.rounds),
            round(job.model.compute_s * PS_PER_S),
            arrival_ps=arrival,
            deadline_ps=arrival + round(10 * job.alone_s * PS_PER_S),
            priority=number % 8,
            wanted=WantedHosts(job.workers),
            owner=f"owner{number % OWNERS}",
        )

    def _cluster(self) -> ClusterView:
        slots: dict[str, int] = {}
        if self.scenario.slots < PLENTY and self.scenario.giving in ("partial", "whole"):
            slots = {switch: _SLOTS * left for switch, left in self._ranges_left().items()}
        if self.scenario.giving == "ring":
            slots = dict.fromkeys(self._switches, 0)
        state = NetworkState(self._state.topology, background_bps=self._state.background_bps, slots=slots)
        return ClusterView(
            self._racks,
            state,
            self._slots,
            dict(self._free),
            running=self._loads(),
            hosts={name: dict.fromkeys(job_run.hosts, 1) for name, job_run in self._running.items()},
            rings=True,
        )

    def _loads(self) -> Mapping[str, IterationLoad]:
        return {
            name: job_run.copies.load(job_run.job.model.bits, job_run.job.model.compute_s, job_run.left)
            for name, job_run in self._running.items()
        }

    # --- iteration times

    def _find_times(self) -> None:
        for group in self._groups():
            key = frozenset((job_run.job.name, job_run.choice) for job_run in group)
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = dict(
                    zip([job_run.job.name for job_run in group], self._times(group), strict=True)
                )
            for job_run in group:
                job_run.iteration_s = known[job_run.job.name]

    def _times(self, group: Sequence[_Running]) -> list[float]:
        flows = [job_run.flow() for job_run in group]
        if len(group) == 1:
            return [flows[0].alone_s(self._capacity)]
        # Jobs begin at random phases, drawn by the jobs' numbers, so that all policies have the same phases.
        numbers = [int(job_run.job.name.removeprefix("job")) for job_run in group]
        shifts = [np.random.Generator(np.random.Philox(number)).random() for number in numbers]
        shifted = [
            FluidJob(flow.compute_s, flow.bits, flow.stream, begin_s=shift * flow.alone_s(self._capacity))
            for flow, shift in zip(flows, shifts, strict=True)
        ]
        return steady_times(shifted, self._capacity)

    def _groups(self) -> list[list[_Running]]:
        """Return groups of jobs that share links, directly or through other jobs."""
        groups: list[tuple[set[int], list[_Running]]] = []
        for job_run in sorted(self._running.values(), key=lambda job_run: job_run.job.name):
            links, members = set(job_run.copies.copies), [job_run]
            rest = []
            for other, own in groups:
                if links & other:
                    links |= other
                    members = own + members
                else:
                    rest.append((other, own))
            groups = [*rest, (links, members)]
        return [members for _, members in groups]


_RACKS: dict[tuple[str, int, tuple[int, ...]], Racks] = {}


def racks_of(scenario: ClusterScenario) -> Racks:
    """Return the racks of a scenario's topology, built once per process."""
    key = (scenario.network, scenario.rate_gbps, scenario.incapable)
    if key not in _RACKS:
        _RACKS[key] = Racks(scenario.topology())
    return _RACKS[key]
