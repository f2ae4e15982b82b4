"""Who is awaited, by what switches told the workers that asked (docs/protocol.md, Loss): it needs no registers."""

from collections.abc import Mapping

from p4reduce.control_plane.plans.plan import Plan
from p4reduce.control_plane.slots import slot_index
from p4reduce.workers.status import WaitStatus


def awaited_at(plan: Plan, worker: str, wait: WaitStatus) -> tuple[str, tuple[str, ...]]:
    """What a WAIT says: a switch, or the server's host, and the nodes whose contributions it lacks.

    Nobody is named where the contributions of all are in, and the answer is on its way or lost.
    """
    above = dict(plan.edges)
    node = worker
    for _ in range(wait.level):
        node = above.get(node, plan.server or node)
    aggregator = plan.by_switch.get(node)
    if aggregator is None:
        names = plan.workers if not plan.in_network else (plan.root,)
        return node, tuple(name for bit, name in enumerate(names) if wait.awaited >> bit & 1)
    return node, tuple(child.name for child in aggregator.children if child.mask & wait.awaited)


def explain_waits(plan: Plan, waits: Mapping[str, WaitStatus | None]) -> list[str]:
    """One line for each switch that somebody was told to wait for, oldest chunk first; ``waits`` by worker.

    Where a switch waits for another one, and workers behind that were told whom it waits for, only that is said: "slot
    17 of leaf2 waits for worker 3 (h3)".
    """
    told = {name: wait for name, wait in waits.items() if wait is not None}
    if not told:
        return []
    oldest = min(wait.seq for wait in told.values())
    found = dict(awaited_at(plan, name, wait) for name, wait in told.items() if wait.seq == oldest)
    lines = []
    for node, names in found.items():
        ends = [name for name in names if not found.get(name)]
        if ends:
            who = ", ".join(_name(plan, name) for name in ends)
            slot = f"slot {slot_index(plan.by_switch[node], oldest)} of " if node in plan.by_switch else ""
            lines.append(f"chunk {oldest}: {slot}{node} waits for {who}")
    return lines


def _name(plan: Plan, node: str) -> str:
    if node in plan.workers:
        return f"worker {plan.workers.index(node)} ({node})"
    behind = [name for name in plan.workers if _is_behind(plan, name, node)]
    return f"the sum of {node}, {len(behind)} workers" if node in plan.by_switch else node


def _is_behind(plan: Plan, worker: str, node: str) -> bool:
    above, at = dict(plan.edges), worker
    while at in above:
        at = above[at]
        if at == node:
            return True
    return False
