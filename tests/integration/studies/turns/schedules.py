"""Hand-made schedules whose times on packets can be calculated on paper."""

from p4reduce.control_plane.tdm.jobs import Kind, OpticalNetwork, TdmJob
from p4reduce.control_plane.tdm.schedule import (
    Clock,
    Configuration,
    Cycle,
    JobPlan,
    Matrix,
    Mode,
    PodRoute,
    PodTree,
    RoundProcess,
    Schedule,
)

GBPS = 10**9
NETWORK = OpticalNetwork(4, 2, 25 * GBPS, 2, 25 * GBPS, delta_s=20e-6)


def job(name: str, size: int, compute_s: float, units: int, kind: Kind = "rar") -> TdmJob:
    return TdmJob(name, kind, size, compute_s, units)


def placed(
    name: str,
    hosts: tuple[str, ...],
    process: int,
    *trees: PodTree,
    routes: tuple[PodRoute, ...] = (),
    group: int | None = None,
    cycle: int = 0,
    priority: int | None = None,
) -> JobPlan:
    return JobPlan(
        name,
        tuple((host, 1) for host in hosts),
        cycle,
        process,
        process if group is None else group,
        trees=trees,
        routes=routes,
        priority=priority,
    )


def schedule(
    plans: tuple[JobPlan, ...],
    matrices: tuple[Matrix, ...],
    round_s: float,
    *,
    network: OpticalNetwork = NETWORK,
    mode: Mode = "gated",
    clock: Clock = "completion",
    guard_s: float = 0.0,
) -> Schedule:
    share = round_s / len(matrices)
    processes = tuple(
        RoundProcess((Configuration(matrix, number * share, share),), number * share, share)
        for number, matrix in enumerate(matrices)
    )
    cycles = (Cycle(tuple(plan.job for plan in plans), round_s, mode),)
    return Schedule("by hand", network, plans, processes, cycles, round_s, clock, guard_s)
