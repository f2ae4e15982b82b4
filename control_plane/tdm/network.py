"""The network that jobs are scheduled in: pods around an optical cross-connect."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from p4reduce.control_plane.tdm.jobs import TdmError, TdmJob
from p4reduce.topologies import TopologyError, parse_delay, parse_rate
from p4switch.base.units import PS_PER_S

Parallel = Literal["bonded", "striped"]
_BITS: Final = 8
_MOST: Final = 1 << 16
"""pods, servers of a pod, ports: far above any cross-connect that is built"""


@dataclass(frozen=True)
class OpticalNetwork:
    """P pods; each is one ToR switch and its servers; ToRs meet in an optical cross-connect (OXC).

    Hosts are named as `p4reduce.topologies.optical` names them: 'h1', 'h2', ... pod by pod, ToRs 'tor1', ... in the
    order of pods. Everywhere else a pod is its index, from 0.
    """

    pods: int
    """P"""
    servers: int
    """s, hosts of each pod; each has one NIC"""
    rate_bps: int
    """b, bit/s of a NIC, each way"""
    ports: int
    """R, ports of each ToR to the OXC; a circuit takes one at both of its ends and is full duplex"""
    port_rate_bps: int
    """B, bit/s of a port to the OXC, each way"""
    gpus: int = 1
    """of each server; a unit of a job takes one"""
    delta_s: float = 200e-6
    """seconds for which ports whose circuits change carry nothing, lock time of receivers included"""
    parallel: Parallel = "bonded"
    """L circuits between the same pods are one link of L * B (bonded), or L links of B (striped)"""

    def __post_init__(self) -> None:
        for field, least in (("pods", 1), ("servers", 1), ("ports", 0), ("gpus", 1)):
            value = getattr(self, field)
            if not least <= value <= _MOST:
                raise TdmError(f"{field}: {value} is not between {least} and {_MOST}")
        for field in ("rate_bps", "port_rate_bps"):
            if getattr(self, field) <= 0:
                raise TdmError(f"{field}: must be positive; write for example rate=25G")
        if not 0 <= self.delta_s < float("inf"):
            raise TdmError(f"delta: {self.delta_s} s is no duration; write for example delta=200us")
        if self.parallel not in ("bonded", "striped"):
            raise TdmError(f"parallel: {self.parallel!r} is neither bonded nor striped")

    @property
    def pod_gpus(self) -> int:
        """GPUs of a pod."""
        return self.servers * self.gpus

    @property
    def all_gpus(self) -> int:
        """GPUs of all pods."""
        return self.pods * self.pod_gpus

    @property
    def nic(self) -> float:
        """Bytes a second of a NIC, each way."""
        return self.rate_bps / _BITS

    @property
    def circuit(self) -> float:
        """Bytes a second of one circuit, each way."""
        return self.port_rate_bps / _BITS

    def host(self, pod: int, server: int) -> str:
        """The name of a pod's host, both counted from 0."""
        return f"h{pod * self.servers + server + 1}"

    def pod_of(self, host: str) -> int:
        """The pod of a host. Raises `TdmError` for a name that is none."""
        digits = host.removeprefix("h")
        known = host.startswith("h") and digits.isascii() and digits.isdecimal() and len(digits) < 10
        number = int(digits) - 1 if known and not digits.startswith("0") else -1
        if not 0 <= number < self.pods * self.servers:
            raise TdmError(f"there is no host {host[:40]!r}; hosts are h1 to h{self.pods * self.servers}")
        return number // self.servers

    def with_delta(self, delta_s: float) -> "OpticalNetwork":
        """The same with another time of reconfiguration."""
        return replace(self, delta_s=delta_s)


def parse_network(spec: str) -> OpticalNetwork:
    """The network of ``oxc:pods=8,hosts=4,ports=4,rate=25G`` with, as wanted, port_rate, delta, gpus and parallel.

    ``port_rate`` is ``rate`` unless it is given. Other parameters of the topology builder of the same name (delay,
    name, capable, planes) say nothing about schedules and are passed over.

    Raises
    ------
    TdmError
        Names the parameter and the fix.
    """
    kind, colon, rest = spec.partition(":")
    if kind != "oxc" or not colon:
        raise TdmError(f"{spec[:60]!r} is no optical network; write oxc:pods=8,hosts=4,ports=4,rate=25G")
    given: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key or not value:
            raise TdmError(f"{spec[:60]!r}: {item[:40]!r} is no 'parameter=value'")
        if key in given:
            raise TdmError(f"{spec[:60]!r}: {key[:40]} is given twice")
        given[key] = value
    known = {*_COUNTS, "rate", "port_rate", "delta", "parallel", "delay", "name", "capable", "planes"}
    if unknown := given.keys() - known:
        raise TdmError(f"{spec[:60]!r}: {min(unknown)[:40]} is none of {', '.join(sorted(known))}")
    if missing := [name for name in ("pods", "hosts", "ports") if name not in given]:
        raise TdmError(f"{spec[:60]!r}: {missing[0]} is missing")
    try:
        rate = parse_rate(given.get("rate", "10G"))
        port_rate = parse_rate(given["port_rate"]) if "port_rate" in given else rate
        delta = parse_delay(given.get("delta", "200us")) / PS_PER_S
    except (TopologyError, ValueError) as error:
        raise TdmError(f"{spec[:60]!r}: {error}") from None
    values: dict[str, Any] = {
        field: _count(spec, name, given[name]) for name, field in _COUNTS.items() if name in given
    }
    return OpticalNetwork(
        rate_bps=rate,
        port_rate_bps=port_rate,
        delta_s=delta,
        parallel=given.get("parallel", "bonded"),  # type: ignore[arg-type]  # checked when it is made
        **values,
    )


def planes_of(spec: str) -> int:
    """How many cross-connects a network has that :func:`parse_network` can read: 1 unless it says ``planes=2``."""
    given = dict(item.partition("=")[::2] for item in spec.partition(":")[2].split(","))
    return _count(spec, "planes", given.get("planes", "1").strip())


_COUNTS: Final = {"pods": "pods", "hosts": "servers", "ports": "ports", "gpus": "gpus"}


def _count(spec: str, name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise TdmError(f"{spec[:60]!r}: {name}: {text[:40]!r} is no whole number")
    return int(text)


# Which servers of a pod have which units, and what their NICs carry.


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


# How many GPUs elastic jobs get.


LEAST = 2
"""units of an elastic job: one has nobody to communicate with"""


def share_gpus(jobs: Sequence[TdmJob], gpus: int) -> list[int]:
    """g_j of a group ('utilizing all GPUs', Algorithm 2): the rest of gangs is shared so that all train equally long.

    One GPU after the other goes to the elastic job that would train longest.

    Raises
    ------
    TdmError
        When there are not enough GPUs.
    """
    given = [LEAST if job.elastic else job.units for job in jobs]
    left = gpus - sum(given)
    if left < 0:
        raise TdmError(f"{sum(given)} units for {gpus} GPUs; use fewer workers, or more hosts")
    elastic = [j for j, job in enumerate(jobs) if job.elastic]
    for _ in range(left if elastic else 0):
        given[max(elastic, key=lambda j: jobs[j].work / given[j])] += 1
    return given


def release_gpus(jobs: Sequence[TdmJob], given: Sequence[int], training_s: float, window_s: float) -> list[int]:
    """End of Algorithm 1: g_j <- ceil(g_j W / T) where the group trains for W in a window of T >= W.

    Jobs that trained as long as the longest then train for T at most; gangs keep theirs.
    """
    if window_s <= training_s:
        return list(given)
    return [
        max(LEAST, min(units, -int(-units * training_s // window_s))) if job.elastic else units
        for job, units in zip(jobs, given, strict=True)
    ]
