"""Algorithm 2: the source's placement of a group of jobs, and the circuits for it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from p4reduce.control_plane.tdm.circuits import least_time
from p4reduce.control_plane.tdm.demand import Floats, both_ways, pair_bytes, pod_bytes
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.ring import form_ring
from p4reduce.control_plane.tdm.schedule import Matrix


@dataclass(frozen=True)
class SeedJob:
    """Where Algorithm 2 puts a job."""

    units: tuple[int, ...]
    """in each pod"""
    ps_pod: int | None = None
    ring: tuple[int, ...] = ()


@dataclass(frozen=True)
class SeedGroup:
    """A group, placed."""

    jobs: tuple[SeedJob, ...]
    """in the order of the jobs given"""
    demand: tuple[Floats, Floats]
    """D^t of the sub-phases, bytes from pod to pod"""
    circuits: Matrix | None
    """L; None where a pod would need more neighbours than it has ports: nothing is said for that"""


def place_seed(jobs: Sequence[TdmJob], given: Sequence[int], network: OpticalNetwork) -> SeedGroup:
    """Place jobs one after the other, those with much traffic first. O(J log J + units P + J P^2).

    As we read it: the PS of a job is in the pod with the least OXC traffic; each unit goes to the pod, among those with
    a free GPU, where max(oxc, tor * B_oxc / B_tor) is least before the job, so units fill that pod, then spill to the
    next. (``exc_rate`` is described as B_oxc / B_tor; a division by that is upside down: both planes are compared in
    seconds only with B_tor / B_oxc.) A PS job's own traffic counts once its pods are known, not before. Capacity is
    checked, traffic is updated after every job, pods that units spill to are in ``root_node``: the printed text misses
    all three.

    Parameters
    ----------
    jobs : sequence of TdmJob
        Of a group.
    given : sequence of int
        g_j, units of each: its own ('gang'), or what :func:`p4reduce.control_plane.tdm.gpus.share_gpus` gave
        ('elastic').
    network : OpticalNetwork
        Its rates and GPUs.

    Raises
    ------
    TdmError
        When there are more units than GPUs.
    """
    pods = network.pods
    if sum(given) > network.all_gpus:
        raise TdmError(f"{sum(given)} units for {network.all_gpus} GPUs; use fewer workers, or more hosts")
    free = [network.pod_gpus] * pods
    named: dict[str, int] = {}
    for host in (host for job in jobs for host in job.hosts):
        free[network.pod_of(host)] -= 1
        named[host] = named.get(host, 0) + 1
        if named[host] > network.gpus:
            raise TdmError(f"workers: {host} is named more often than it has GPUs; name another host")
    oxc, tor = np.zeros(pods), np.zeros(pods)
    ratio = (network.ports * network.circuit) / (network.servers * network.nic) if network.ports else 0.0
    total = (np.zeros((pods, pods)), np.zeros((pods, pods)))
    placed: dict[int, SeedJob] = {}
    order = sorted(range(len(jobs)), key=lambda j: (-_traffic(jobs[j], given[j]), j))
    for j in order:
        job = jobs[j]
        ps_pod = int(oxc.argmin()) if job.kind == "ps" else None
        units = [0] * pods
        for host in job.hosts:
            units[network.pod_of(host)] += 1
        for _ in range(0 if job.hosts else given[j]):
            pod = min((p for p in range(pods) if free[p]), key=lambda p: (max(oxc[p], tor[p] * ratio), p))
            units[pod] += 1
            free[pod] -= 1
        ring = form_ring([p for p in range(pods) if units[p]], total[0] + total[1]) if job.kind == "rar" else ()
        placed[j] = SeedJob(tuple(units), ps_pod, ring)
        tor += pod_bytes(job, units)
        total[0][...] += pair_bytes(job, units, 1, ps_pod=ps_pod, ring=ring)
        total[1][...] += pair_bytes(job, units, 2, ps_pod=ps_pod, ring=ring)
        oxc = both_ways(np.maximum(*total)).sum(axis=1)
    try:
        circuits: Matrix | None = least_time(np.maximum(*total), network.ports).matrix
    except TdmError:
        circuits = None
    return SeedGroup(tuple(placed[j] for j in range(len(jobs))), total, circuits)


def _traffic(job: TdmJob, units: int) -> float:
    """Predicted bytes of a job, for the order."""
    return float(job.bytes) * units * (units - 1 if job.kind == "a2a" else 1)
