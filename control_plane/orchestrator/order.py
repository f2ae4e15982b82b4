"""What the executor is asked to do for a task."""

from collections import Counter

from p4reduce.control_plane.orchestrator.computing import ComputingManager
from p4reduce.control_plane.orchestrator.executor import Order, Role
from p4reduce.control_plane.placement import reads
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.wanted import Wanted


def order_of(
    task: Task,
    plans: dict[Role, Plan],
    computing: ComputingManager,
    wanted: Wanted | None = None,
    *,
    ranks: tuple[int, ...] = (),
    anew: tuple[str, ...] = (),
    attempt: int = 0,
) -> Order:
    """What the executor is asked to run. ``wanted``: what the task wanted of its hosts, for the data that they read.

    ``ranks``, ``anew`` and ``attempt`` as in the order. In a ring every host adds up about one model, as the server
    does of a tree.
    """
    upload = plans.get("both") or plans["upload"]
    arriving = 1 if upload.in_network or upload.ring else len(task.workers)
    shards = Counter([] if wanted is None else reads(wanted, task.workers))
    return Order(
        task,
        plans,
        {worker: computing.training_ps(task, worker) for worker in task.workers},
        computing.aggregation_ps(task, arriving),
        tuple((home, reader, count * wanted.shard_bytes) for (home, reader), count in shards.items())
        if wanted is not None
        else (),
        ranks=ranks,
        anew=anew,
        attempt=attempt,
    )


def hosts_of(plan: Plan, server: str) -> tuple[str, ...]:
    """The workers of a task in a plan of it; the server's host is a member of its ring."""
    return tuple(host for host in plan.workers if host != server)
