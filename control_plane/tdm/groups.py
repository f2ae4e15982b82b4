"""A group of jobs that communicate together: how long they train and communicate, where they lie."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from p4reduce.control_plane.tdm.crossing import cross
from p4reduce.control_plane.tdm.demand import Floats
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.gpus import LEAST, share_gpus
from p4reduce.control_plane.tdm.hosts import busiest_nic_s, on_hosts
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.packing import MOVES, Packed, Part, search
from p4reduce.control_plane.tdm.parts import parts_of
from p4reduce.control_plane.tdm.rounds import communication_s
from p4reduce.control_plane.tdm.seed_placement import SeedGroup, place_seed
from p4reduce.control_plane.tdm.several import split

Group = tuple[int, ...]
"""indices of jobs, ascending"""
NEVER: Final = float("inf")
SHARES: Final = (1.0, 0.75, 0.5)
"""of all GPUs: what is tried for elastic jobs; fewer GPUs are fewer pods to join"""


@dataclass(frozen=True)
class GroupPlan:
    """A group, planned."""

    jobs: Group
    given: tuple[int, ...]
    """g_j"""
    phases: tuple[float, ...]
    """C_t, seconds of each sub-phase; one where chunks are pipelined. Infinite: impossible"""
    training_s: float
    """W"""
    units: tuple[tuple[int, ...], ...] = ()
    """of each job, in each pod"""
    packed: Packed | None = None
    seed: SeedGroup | None = None

    @property
    def communication_s(self) -> float:
        """C."""
        return sum(self.phases)


class GroupPlanner(Protocol):
    """Plans groups; the same group gives the same plans."""

    network: OpticalNetwork

    def options(self, group: Group) -> list[GroupPlan]:
        """Ways to do it, of which one is chosen by what the other group needs; none: impossible."""

    def bound(self, group: Group) -> tuple[float, float]:
        """No plan communicates or trains for less: seconds (C, W)."""


def nic_bound_s(job: TdmJob, network: OpticalNetwork) -> float:
    """What a job's own NICs take at least, pipelined."""
    if job.kind != "a2a":
        return job.bytes / network.nic
    here = min(network.gpus, job.units)
    return 2 * here * (job.units - here) * job.bytes / network.nic


class TreeGroups:
    """Ours: few pods, trees of ToRs, chunk pipelining, local search, several configurations for a2a."""

    def __init__(
        self,
        jobs: Sequence[TdmJob],
        network: OpticalNetwork,
        *,
        moves: int = MOVES,
        restarts: int = 1,
        seed: int = 1,
    ) -> None:
        self.jobs = jobs
        self.network = network
        self.moves, self.restarts, self.seed = moves, restarts, seed
        self._known: dict[Group, list[GroupPlan]] = {}
        self._nic = [nic_bound_s(job, network) for job in jobs]

    def bound(self, group: Group) -> tuple[float, float]:
        """NICs; training on all GPUs."""
        if not group:
            return 0.0, 0.0
        gangs = [j for j in group if not self.jobs[j].elastic]
        elastic = [j for j in group if self.jobs[j].elastic]
        left = self.network.all_gpus - sum(self.jobs[j].units for j in gangs)
        if left < LEAST * len(elastic):
            return NEVER, NEVER
        work = sum(self.jobs[j].work for j in elastic)
        longest = max((self.jobs[j].compute_s for j in gangs), default=0.0)
        return max(self._nic[j] for j in group), max(longest, work / left if elastic else 0.0)

    def options(self, group: Group) -> list[GroupPlan]:
        """One for gangs; for elastic jobs one for each share of the GPUs, and one with whole pods."""
        if group not in self._known:
            self._known[group] = self._options(group)
        return self._known[group]

    def _options(self, group: Group) -> list[GroupPlan]:
        if not group:
            return [GroupPlan((), (), (), 0.0)]
        jobs = [self.jobs[j] for j in group]
        network = self.network
        tried: list[list[int]] = []
        if any(job.elastic for job in jobs):
            for share in SHARES:
                try:
                    tried.append(share_gpus(jobs, int(network.all_gpus * share)))
                except TdmError:
                    continue
            if all(job.elastic for job in jobs) and len(jobs) <= network.pods and network.pod_gpus >= LEAST:
                whole = [network.pod_gpus] * len(jobs)
                for _ in range(network.pods - len(jobs)):
                    most = max(range(len(jobs)), key=lambda j: jobs[j].work / whole[j])
                    whole[most] += network.pod_gpus
                tried.append(whole)
        elif sum(job.units for job in jobs) <= network.all_gpus:
            tried.append([job.units for job in jobs])
        found = []
        for given in tried:
            try:
                plan = self.plan(group, given)
            except TdmError:  # named hosts that two of them want at once: these go into different groups
                if len(jobs) == 1 or not any(job.hosts for job in jobs):
                    raise
                continue
            if plan.communication_s < NEVER:
                found.append(plan)
        return found

    def plan(
        self,
        group: Group,
        given: Sequence[int],
        start: Packed | None = None,
        parts: Sequence[Part] | None = None,
    ) -> GroupPlan:
        """A group with so many units each; from ``start``, and with the ``parts`` given, if they are."""
        jobs = [self.jobs[j] for j in group]
        parts = parts_of(jobs, given, self.network) if parts is None else parts
        slowest = max(self._nic[j] for j in group) * self.network.circuit
        packed = search(
            parts,
            self.network,
            start=start,
            enough=slowest,
            moves=self.moves,
            restarts=self.restarts,
            seed=self.seed,
        )
        return planned(group, jobs, given, parts, packed, self.network)


def planned(
    group: Group,
    jobs: Sequence[TdmJob],
    given: Sequence[int],
    parts: Sequence[Part],
    packed: Packed,
    network: OpticalNetwork,
) -> GroupPlan:
    """A plan from a packing: the time of circuits, or of several configurations, and of NICs."""
    circuits_s = packed.circuit_bytes / network.circuit
    if circuits_s == NEVER:
        circuits_s = _crossing_s(parts, packed, network)
    if network.gpus == 1 and not any(job.hosts for job in jobs):
        nic_s = max(
            (2 * (units - 1) if job.kind == "a2a" else 1) * job.bytes / network.nic
            for job, units in zip(jobs, given, strict=True)
        )
    else:
        nic_s = busiest_nic_s(jobs, on_hosts(jobs, packed.units, network), network)
    training = max(job.compute_on(units) for job, units in zip(jobs, given, strict=True))
    return GroupPlan(group, tuple(given), (max(nic_s, circuits_s),), training, packed.units, packed)


def _crossing_s(parts: Sequence[Part], packed: Packed, network: OpticalNetwork) -> float:
    """Seconds over several configurations or hops, where direct circuits do not do."""
    if network.ports < 1 or not any(part.alltoall for part in parts):
        return NEVER
    try:
        return cross(parts, packed, network).seconds
    except TdmError:
        return NEVER


class SeedGroups:
    """The source's: Algorithm 2, rings and stars, push and pull one after the other."""

    def __init__(self, jobs: Sequence[TdmJob], network: OpticalNetwork, *, direct: bool = False) -> None:
        """``direct``: no group for which some pod has too few ports; otherwise those take several configurations."""
        self.jobs = jobs
        self.network = network
        self.direct = direct
        self._known: dict[Group, list[GroupPlan]] = {}
        self._bounds = TreeGroups(jobs, network)

    def bound(self, group: Group) -> tuple[float, float]:
        """Twice that of pipelined chunks for PS and RAR; a2a has both phases in it already."""
        nic_s, training_s = self._bounds.bound(group)
        if nic_s == NEVER:
            return nic_s, training_s
        times = (self._bounds.bound((j,))[0] * (1 if self.jobs[j].kind == "a2a" else 2) for j in group)
        return max(times, default=0.0), training_s

    def options(self, group: Group) -> list[GroupPlan]:
        """One plan, or none."""
        if group not in self._known:
            self._known[group] = self._options(group)
        return self._known[group]

    def _options(self, group: Group) -> list[GroupPlan]:
        if not group:
            return [GroupPlan((), (), (), 0.0)]
        jobs = [self.jobs[j] for j in group]
        try:
            given = share_gpus(jobs, self.network.all_gpus)
        except TdmError:
            return []
        plan = self.plan(group, given)
        return [] if self.direct and plan.seed is not None and plan.seed.circuits is None else [plan]

    def plan(self, group: Group, given: Sequence[int]) -> GroupPlan:
        """A group with so many units each."""
        jobs = [self.jobs[j] for j in group]
        seed = place_seed(jobs, given, self.network)
        units = tuple(one.units for one in seed.jobs)
        placements = on_hosts(jobs, units, self.network)
        nic_s = 0.0
        for job, placement in zip(jobs, placements, strict=True):
            own = busiest_nic_s([job], [placement], self.network)
            nic_s = max(nic_s, own / (2 if job.kind == "a2a" else 1))
        phases: tuple[float, ...] = (NEVER,)
        if seed.circuits is not None:
            phases = tuple(
                communication_s(sent, np.array(seed.circuits, np.float64), self.network.circuit, nic_s)
                for sent in seed.demand
            )
        elif self.network.ports:
            phases = tuple(self._phase_s(sent, nic_s) for sent in seed.demand)
        training = max(job.compute_on(count) for job, count in zip(jobs, given, strict=True))
        return GroupPlan(group, tuple(given), phases, training, units, seed=seed)

    def _phase_s(self, sent: Floats, nic_s: float) -> float:
        """More neighbours than ports: nothing is said for that; given what ours has, several configurations."""
        cut = split(sent, self.network.ports)
        dark = max(0, len(cut) - 1) * self.network.delta_s
        return max(nic_s, sum(part.bytes for part in cut) / self.network.circuit + dark)
