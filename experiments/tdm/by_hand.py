"""A schedule by hand in which the cross-connect must change: two groups on the same hosts, circuits for one of them."""

from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.schedule import (
    Clock,
    Configuration,
    Cycle,
    JobPlan,
    Matrix,
    Process,
    Schedule,
    Tree,
)

FRAME = 1110 / 1024
"""bytes on a link for a byte of 256 lanes"""
CHAIN: Matrix = ((0, 1, 0, 0), (1, 0, 1, 0), (0, 1, 0, 1), (0, 0, 1, 0))
STAR: Matrix = ((0, 0, 1, 1), (0, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0))


def two_groups(
    network: OpticalNetwork,
    size: int,
    compute_s: float,
    *,
    clock: Clock = "completion",
    round_s: float = 0.0,
    guard_s: float = 0.0,
) -> tuple[Schedule, dict[str, TdmJob]]:
    """A chain of pods, then a star of others, beside a job within a pod; in 4 pods of 2 hosts with 2 ports.

    Parameters
    ----------
    network : OpticalNetwork
        Of 4 pods.
    size, compute_s : int and float
        Bytes and training of each job; the one within a pod sends half.
    clock, round_s, guard_s
        Of the schedule; round_s: 0 is what training, darkness and headers make of it.
    """
    plans = tuple(
        JobPlan(
            name,
            tuple((host, 1) for host in hosts),
            0,
            process,
            process,
            trees=(tree,),
            start_s=process * (round_s / 2 or 1.0),
            duration_s=size / network.nic,
            train_s=compute_s,
        )
        for name, hosts, process, tree in (
            ("a", ("h1", "h3", "h5", "h7"), 0, Tree(1, ((0, 1), (2, 1), (3, 2)), 1.0)),
            ("b", ("h1", "h2", "h5", "h7"), 1, Tree(0, ((2, 0), (3, 0)), 1.0)),
            ("c", ("h3", "h4"), 1, Tree(1, (), 1.0)),
        )
    )
    jobs = {
        plan.job: TdmJob(plan.job, "rar", size // 2 if plan.job == "c" else size, compute_s, len(plan.placement))
        for plan in plans
    }
    took = round_s or 2 * max(compute_s, network.delta_s + size / network.nic * FRAME)
    processes = tuple(
        Process((Configuration(matrix, number * took / 2, took / 2),), number * took / 2, took / 2)
        for number, matrix in enumerate((CHAIN, STAR))
    )
    cycle = Cycle(tuple(jobs), took, "gated")
    return Schedule("by hand", network, plans, processes, (cycle,), took, clock, guard_s), jobs
