"""The same trees on electrical twins, where a hash chooses among equal paths (ECMP): on packets.

Leaf-spine: as many spines as a ToR has ports to the cross-connect, uplinks as fast as those ports. An edge of a tree is
one flow, or several, each a share of the vector with a tree of its own whose path a hash picks. Where the switch is not
in the hash, a later stage picks as the one before did (hash polarization): in a fat-tree a flow then has k/2 cores
instead of (k/2)^2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final
from zlib import crc32

import numpy as np

from p4reduce.base.units import PS_PER_S
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.plans import PlanRequest, TreeLayout
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.registry import Options, make_schedule
from p4reduce.control_plane.tdm.turns import turns_of
from p4reduce.experiments.tdm.cases import Case
from p4reduce.experiments.tdm.packets import LANES, play
from p4reduce.fabric import Stop
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.programs import bundled
from p4reduce.jobs.switches import EmbeddedSwitches
from p4reduce.topologies import Topology, fat_tree, leaf_spine
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective

WORD: Final = 4
Edge = tuple[str, str]
Wanted = tuple[tuple[str, ...], str, dict[str, str], int]
"""hosts, root, parent of every host and switch but the root, elements"""


@dataclass(frozen=True)
class EcmpCase:
    """twin: 'leaf-spine', for the first group of a schedule; 'fat-tree': pairs of hosts across a network of k = 8."""

    twin: str
    flows: int
    polarized: bool
    seed: int
    ports: int = 2
    pods: int = 8
    servers: int = 4
    elements: int = 32_768
    """of a pair in a fat-tree"""


@dataclass(frozen=True)
class EcmpRow:
    """took_s with a hash; ideal_s over circuits of their own (leaf-spine), or on a NIC alone (fat-tree)."""

    twin: str
    flows: int
    polarized: bool
    seed: int
    took_s: float
    ideal_s: float
    exact: bool

    @property
    def ratio(self) -> float:
        """C(ECMP) / C(OXC)."""
        return self.took_s / self.ideal_s


def run_ecmp(case: EcmpCase) -> EcmpRow:
    """One twin, one number of flows."""
    if case.twin == "fat-tree":
        topology = fat_tree(8, rate="25G")
        wanted = _pairs(topology, case)
        alone, exact = _carry(topology, wanted[:1], case, flows=1)
        took, right = _carry(topology, wanted, case, flows=case.flows)
        return EcmpRow(case.twin, case.flows, case.polarized, case.seed, took, alone, exact and right)
    network = OpticalNetwork(case.pods, case.servers, 25 * 10**9, case.ports, 25 * 10**9, delta_s=0.0)
    jobs = Case("ecmp", network, "tdm", case.seed).jobs()
    schedule = make_schedule("tdm", jobs, network, Options(seed=case.seed))
    played = play(schedule, {job.name: job for job in jobs}, rounds=1)
    first, own = next(iter(turns_of(schedule, schedule.cycles[0]).items()))
    ideal = min(window.communicated_ps for window in played.windows if window.process == first) / PS_PER_S
    topology = leaf_spine(case.pods, case.ports, case.servers, rate=network.rate_bps, uplink=network.port_rate_bps)
    sizes = {job.name: job.bytes for job in jobs}
    chosen: list[Wanted] = []
    for name in own:
        plan = schedule.plan(name)
        hosts = tuple(host for host, _ in plan.placement)
        for tree in plan.trees:
            parents = {host: f"leaf{network.pod_of(host) + 1}" for host in hosts}
            parents |= {f"leaf{child + 1}": f"leaf{parent + 1}" for child, parent in tree.edges}
            chosen.append((hosts, f"leaf{tree.root + 1}", parents, round(sizes[name] / WORD * tree.share)))
    took, exact = _carry(topology, chosen, case, flows=case.flows)
    return EcmpRow(case.twin, case.flows, case.polarized, case.seed, took, ideal, exact and played.exact)


def hashed_path(topology: Topology, source: str, target: str, key: str, *, polarized: bool) -> tuple[str, ...]:
    """Switches of a shortest path; at each, a hash of the flow picks among the neighbours that are nearer.

    Without the switch in the hash every stage picks the same one of its ports (``polarized``).
    """
    distance = {target: 0}
    ring = [target]
    while ring:
        outer = []
        for name in ring:
            for other in topology.neighbours(name):
                if other not in distance and topology.node(other).is_switch:
                    distance[other] = distance[name] + 1
                    outer.append(other)
        ring = outer
    path = [source]
    while path[-1] != target:
        here = path[-1]
        nearer = [other for other in topology.neighbours(here) if distance.get(other, len(distance)) < distance[here]]
        text = key if polarized else f"{key}@{here}"
        path.append(nearer[_mixed(text) % len(nearer)])
    return tuple(path)


def _mixed(text: str) -> int:
    value = crc32(text.encode())
    value = (value ^ value >> 16) * 0x45D9F3B & 0xFFFFFFFF
    return value ^ value >> 16


def _pairs(topology: Topology, case: EcmpCase) -> list[Wanted]:
    """Every host with another one, of another pod."""
    names = [host.name for host in topology.hosts]
    draw = np.random.default_rng(case.seed)
    half = len(names) // 2  # the first half of the pods with the second
    others = [names[half + place] for place in draw.permutation(half)]
    found: list[Wanted] = []
    for a, b in zip(names[:half], others, strict=True):
        switches = topology.neighbours(a)[0], topology.neighbours(b)[0]
        parents = {a: switches[0], b: switches[1], switches[1]: switches[0]}
        found.append(((a, b), switches[0], parents, case.elements))
    return found


def _carry(topology: Topology, wanted: Sequence[Wanted], case: EcmpCase, *, flows: int) -> tuple[float, bool]:
    """All of them at once: seconds until the last result, and whether all sums are right."""
    with (
        EmbeddedSwitches(topology, bundled(LANES)) as switches,
        JobNetwork(switches) as network,
    ):
        posted: list[tuple[Job, list[np.ndarray[tuple[int], np.dtype[np.int32]]], int]] = []
        for number, (hosts, root, parents, elements) in enumerate(wanted):
            ends = [elements * flow // flows for flow in range(flows + 1)]
            for flow, (begin, end) in enumerate(pairwise(ends)):
                if end == begin:
                    continue
                paths = {
                    edge: edge
                    if topology.node(edge[0]).is_host
                    else hashed_path(topology, *edge, f"{case.seed}/{number}/{flow}/{edge}", polarized=case.polarized)
                    for edge in parents.items()
                }
                layout = TreeLayout(root, parents, paths=paths)
                # Shares of one vector share its window too.
                request = PlanRequest(
                    "ecmp", 1 + len(posted), workers=hosts, layout=layout, max_slots=max(32, 256 // flows)
                )
                job = network.add(switches.controller.start_job(request))
                results = [np.zeros(end - begin, np.int32) for _ in hosts]
                posted.append((job, results, len(hosts)))
        start = network.now
        for job, results, _ in posted:
            given = np.arange(results[0].size, dtype=np.int32)
            for result, index in zip(results, job.members.values(), strict=True):
                source, target = given.view(np.float32), result.view(np.float32)
                network.post(index, Post(Collective.ALL_REDUCE, source, target, words=True))
        watched = [index for job, _, _ in posted for index in job.endpoints]
        if network.advance(watch=watched) is not Stop.DONE:
            raise ClusterError(f"{case}: nothing moves any more")
        took = max(network.done_ps(job) for job, _, _ in posted) - start
        exact = all(
            np.array_equal(result, count * np.arange(result.size, dtype=np.int32))
            for _, results, count in posted
            for result in results
        )
        return took / PS_PER_S, exact
