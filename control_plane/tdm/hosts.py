"""Which servers of a pod have which units, and what their NICs carry."""

from collections.abc import Sequence

import numpy as np

from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork

Placement = tuple[tuple[str, int], ...]


def on_hosts(
    jobs: Sequence[TdmJob], units: Sequence[Sequence[int]], network: OpticalNetwork, *, longest_last: bool = False
) -> list[Placement]:
    """(host, units) of each job, given how many of its units each pod has; jobs share no GPU.

    Largest first, each into the fullest server that has room for all of it: what a server's GPUs send it adds up
    first. Named hosts are as named. With ``longest_last`` the order among equals is turned round: of two layers of
    jobs, placed each one way, those that train long then share GPUs with those that train short.

    Raises
    ------
    TdmError
        When a named host has no GPU left.
    """
    free = np.full((network.pods, network.servers), network.gpus, np.int64)
    found: list[dict[str, int]] = [{} for _ in jobs]
    for job, own in zip(jobs, found, strict=True):
        for host in job.hosts:
            pod, server = divmod(int(host[1:]) - 1, network.servers) if network.pod_of(host) >= 0 else (0, 0)
            free[pod, server] -= 1
            own[host] = own.get(host, 0) + 1
            if free[pod, server] < 0:
                raise TdmError(f"job {job.name[:40]!r}: workers: {host} has no GPU left")
    sign = 1 if longest_last else -1
    order = sorted(range(len(jobs)), key=lambda j: (-units_on_one(units[j], network), sign * jobs[j].compute_s, j))
    order = [j for j in order if not jobs[j].hosts]
    for pod in range(network.pods):
        left = free[pod]
        for j in order:
            wanted = units[j][pod]
            while wanted:
                room = [server for server in range(network.servers) if left[server] >= wanted]
                server = min(room, key=lambda s: left[s]) if room else int(left.argmax())
                took = min(wanted, int(left[server]))
                if not took:
                    raise TdmError(f"job {jobs[j].name[:40]!r}: pod {pod + 1} has no GPU left")
                left[server] -= took
                wanted -= took
                host = network.host(pod, server)
                found[j][host] = found[j].get(host, 0) + took
    return [tuple(sorted(own.items(), key=lambda item: int(item[0][1:]))) for own in found]


def units_on_one(units: Sequence[int], network: OpticalNetwork) -> int:
    """The most units of a job that one server may have: 1 where servers have one GPU."""
    return min(network.gpus, max(units, default=0))


def host_bytes(job: TdmJob, placement: Placement) -> dict[str, int]:
    """What each NIC carries in an iteration, each way: (4) for one server, in the corrected reading.

    PS, RAR: the vector once up and once down; GPUs of one server add up first. A2A: both phases, to units elsewhere.
    """
    if job.kind != "a2a":
        return {host: job.bytes for host, _ in placement}
    total = sum(units for _, units in placement)
    return {host: 2 * units * (total - units) * job.bytes for host, units in placement}


def busiest_nic_s(jobs: Sequence[TdmJob], placements: Sequence[Placement], network: OpticalNetwork) -> float:
    """max over servers of D_server / b, seconds."""
    carried: dict[str, int] = {}
    for job, placement in zip(jobs, placements, strict=True):
        for host, sent in host_bytes(job, placement).items():
            carried[host] = carried.get(host, 0) + sent
    return max(carried.values(), default=0) / network.nic


def busiest_gpu_s(jobs: Sequence[TdmJob], placements: Sequence[Placement], network: OpticalNetwork) -> float:
    """Seconds until all have trained on shared GPUs: a server's GPU seconds over its GPUs, or the longest job."""
    work: dict[str, float] = {}
    longest = 0.0
    for job, placement in zip(jobs, placements, strict=True):
        alone = job.compute_on(sum(units for _, units in placement))
        longest = max(longest, alone)
        for host, units in placement:
            work[host] = work.get(host, 0.0) + alone * units / network.gpus
    return max(longest, max(work.values(), default=0.0))
