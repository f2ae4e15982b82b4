"""What every job sends at flow level: over which NICs and circuits, in which direction, phase and configuration."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from p4reduce.control_plane.predict import Operation
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.schedule import JobPlan, Matrix, Schedule
from p4reduce.experiments.tdm.factors import Factors, FactorsOf, way_of
from p4reduce.experiments.tdm.pieces import pieces_of

Resource = tuple[object, ...]
"""(host, 'up' or 'down'), or (process, configuration, from pod, to pod)"""
ANSWER = 86 / 1110
"""of the bytes of a full frame of 256 lanes on a link: what an empty one takes, which answers it or asks for it"""


@dataclass(frozen=True)
class Flow:
    """One phase of a job in one configuration: one rate on everything that it uses."""

    job: str
    phase: int
    configuration: int
    """within the job's process; -1: it crosses no circuit"""
    uses: Mapping[Resource, float]
    """bytes"""
    lead_s: float
    """after the last byte"""


def flows_of(schedule: Schedule, plan: JobPlan, job: TdmJob, factors: FactorsOf) -> list[Flow]:
    """Of one job: a flow for each phase and configuration.

    Raises
    ------
    TdmError
        When it has a circuit that is not lit.
    """
    factor = factors[way_of(job, plan)]
    uses = _blocks(schedule.network, plan, job, factor) if job.kind == "a2a" else _sums(schedule, plan, job, factor)
    phases = len({phase for phase, _ in uses})
    return [
        Flow(
            job.name,
            phase,
            configuration,
            {_named(schedule, plan, configuration, name): factor.frames * size for name, size in own.items() if size},
            factor.lead_s / phases,
        )
        for (phase, configuration), own in sorted(uses.items())
        if sum(own.values()) > 0
    ]


def capacity_of(schedule: Schedule, resource: Resource) -> float:
    """Bytes a second."""
    network = schedule.network
    if isinstance(resource[0], str):
        return network.nic
    process, configuration, a, b = resource
    assert isinstance(process, int) and isinstance(configuration, int) and isinstance(a, int)  # noqa: S101, PT018
    assert isinstance(b, int)  # noqa: S101
    return _lit(schedule, process, configuration)[a][b] * network.circuit


Uses = dict[tuple[int, int], defaultdict[Resource, float]]
"""by (phase, configuration)"""


def _sums(schedule: Schedule, plan: JobPlan, job: TdmJob, factor: Factors) -> Uses:
    found: Uses = {}
    network = schedule.network
    hosts = [host for host, _ in plan.placement]
    for piece in pieces_of(plan, network.pod_of(hosts[0])):
        size = factor.padded(job.bytes * (piece.span[1] - piece.span[0]))
        up = size * (ANSWER if piece.operation is Operation.PULL else 1.0)
        down = size * (ANSWER if piece.operation is Operation.PUSH else 1.0)
        configuration = piece.tree.configuration if piece.tree.edges else -1
        own = found.setdefault((int(piece.operation is Operation.PULL), configuration), defaultdict(float))
        for host in hosts:
            own[host, "up"] += up
            own[host, "down"] += down
        for child, parent in piece.tree.edges:
            own[child, parent] += up
            own[parent, child] += down
    return found


def _blocks(network: OpticalNetwork, plan: JobPlan, job: TdmJob, factor: Factors) -> Uses:
    """Pairs within a pod go with those of the first configuration."""
    pods: Counter[int] = Counter()
    for host, units in plan.placement:
        pods[network.pod_of(host)] += units
    block = factor.padded(job.bytes)
    first = min((route.configuration for route in plan.routes), default=-1)
    found: Uses = {}
    for phase in (0, 1):
        for route in plan.routes:
            own = found.setdefault((phase, route.configuration), defaultdict(float))
            a, b = route.path[0], route.path[-1]
            for host, units in plan.placement:
                if network.pod_of(host) == a:
                    own[host, "up"] += units * pods[b] * block * route.share
                if network.pod_of(host) == b:
                    own[host, "down"] += units * pods[a] * block * route.share
            for edge in pairwise(route.path):
                own[edge] += pods[a] * pods[b] * block * route.share
        own = found.setdefault((phase, first), defaultdict(float))
        for host, units in plan.placement:
            for way in ("up", "down"):
                own[host, way] += units * (pods[network.pod_of(host)] - units) * block
    return found


def _named(schedule: Schedule, plan: JobPlan, configuration: int, name: Resource) -> Resource:
    """The same for all who use it: jobs of one process and configuration share circuits."""
    if isinstance(name[0], str):
        return name
    a, b = name
    assert isinstance(a, int) and isinstance(b, int)  # noqa: S101, PT018
    lit = _lit(schedule, plan.process, configuration)
    if not lit[a][b] and any(map(any, lit)):
        raise TdmError(f"job {plan.job[:40]!r}: no circuit joins pods {a + 1} and {b + 1} in its process")
    return (plan.process, configuration, a, b)


def _lit(schedule: Schedule, process: int, configuration: int) -> Matrix:
    return schedule.processes[process].configurations[configuration].circuits


def all_flows(schedule: Schedule, jobs: Mapping[str, TdmJob], factors: FactorsOf) -> Sequence[Flow]:
    """Of all jobs of a schedule."""
    return [flow for plan in schedule.jobs for flow in flows_of(schedule, plan, jobs[plan.job], factors)]
