"""Members of a running task: their ranks, who is lost, and what is called so in the database."""

from collections.abc import Collection, Sequence

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop


def ranks_at(before: Sequence[str], ranks: Sequence[int], now: Sequence[str]) -> tuple[int, ...]:
    """The ranks of a task's workers at hosts that it is about to have.

    As many as before: each place keeps its rank, whatever host has it now. Fewer: who is left keeps its own.
    `PlanError` for a host that is new among fewer.

    Parameters
    ----------
    before, ranks
        Its hosts until now, and the rank of each.
    now
        Its hosts from then on.
    """
    if len(now) == len(before):
        return tuple(ranks)
    known = dict(zip(before, ranks, strict=True))
    if unknown := [host for host in now if host not in known]:
        raise PlanError(f"{unknown[0]} had no rank, and would be one of fewer workers")
    return tuple(known[host] for host in now)


def lost_hosts(task: Task, topology: Topology, down: Collection[Hop], died: Collection[str]) -> tuple[str, ...]:
    """Hosts of a task that are lost to it: where its process has died, or that no link leads to any more.

    Of a network that fell apart the part with the global model goes on. Where that model's host is lost itself it is
    the only one that is named: without it nobody goes on.

    ``down`` has the directed links without a carrier, ``died`` the hosts where the task's process has ended.
    """
    reached = _reached(task.server, topology, down) if down else None
    if task.server in died or reached == {task.server}:
        return (task.server,)
    return tuple(host for host in task.workers if host in died or (reached is not None and host not in reached))


def _reached(start: str, topology: Topology, down: Collection[Hop]) -> set[str]:
    """Nodes that a host reaches; other hosts pass nothing on."""
    seen, left = {start}, [start]
    while left:
        node = left.pop()
        for neighbour in topology.neighbours(node):
            if neighbour not in seen and (node, topology.port(node, neighbour)) not in down:
                seen.add(neighbour)
                if not topology.node(neighbour).is_host:
                    left.append(neighbour)
    return seen


def named(task: Task, ranks: Sequence[int], lost: Sequence[str]) -> str:
    """Who was lost, for a reason; empty where nobody was."""
    if not lost:
        return ""
    if lost[0] == task.server:
        return f"the server's host {task.server} is lost, and the global model with it"
    of = dict(zip(task.workers, ranks, strict=True))
    workers = ", ".join(f"{host} (rank {of[host]})" for host in lost)
    return f"worker{'s' if len(lost) > 1 else ''} {workers} {'are' if len(lost) > 1 else 'is'} lost"
