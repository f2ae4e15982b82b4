"""Checks of a plan as printed by `p4reduce optical plan --json`; this code is independent of the planner."""

from collections import Counter
from typing import Any


def faults(plan: dict[str, Any], spectrum: int | None = None) -> list[str]:
    """Return the faults of a plan, in words; ``spectrum``: slices of a flexible grid, None on a fixed grid."""
    network, lightpaths = plan["network"], plan["lightpaths"]
    most = network["wavelengths"] if spectrum is None else spectrum
    fibres = {frozenset(fibre[:2]) for fibre in network["fibres"]}
    wrong, lit, ends, slots = [], Counter[Any](), Counter[str](), Counter[Any]()
    for number, lightpath in enumerate(lightpaths):
        path = lightpath["path"]
        ends.update((path[0], path[-1]))
        if lightpath["first"] < 0 or lightpath["first"] + lightpath["count"] > most:
            wrong.append(f"lightpath {number}: spectrum {lightpath['first']}+{lightpath['count']} of {most}")
        for index in range(1, len(path)):
            fibre = frozenset(path[index - 1 : index + 1])
            if fibre not in fibres:
                wrong.append(f"lightpath {number}: there is no fibre {sorted(fibre)}")
            lit.update((fibre, place) for place in range(lightpath["first"], lightpath["first"] + lightpath["count"]))
    wrong += [f"spectrum {place} of fibre {sorted(fibre)} is used twice" for (fibre, place), n in lit.items() if n > 1]
    if network["transponders"]:
        wrong += [f"{node}: {n} transponders" for node, n in ends.items() if n > network["transponders"]]
    copies = routers = 0
    for task in plan["tasks"]:
        homes = {host: network["hosts"][host] for host in (task["server"], *task["workers"])}
        if not task["admitted"]:
            wrong += [f"{task['name']}: blocked, but has slots"] if task["uses"] else []
            continue
        wanted = max(1, -(-task["demand_bps"] * network["slots"] // network["rate_bps"]))
        for use in task["uses"]:
            slots.update((use["lightpath"], slot) for slot in use["slots"])
            copies += len(lightpaths[use["lightpath"]]["path"]) - 1
            routers += 1
            if len(use["slots"]) != wanted or not all(0 <= slot < network["slots"] for slot in use["slots"]):
                wrong.append(f"{task['name']}: has slots {use['slots']}, wants {wanted}")
        joined = [(use.get("worker"), *_ends(lightpaths[use["lightpath"]])) for use in task["uses"]]
        groups = (
            [None]
            if plan["trees"]
            else [worker for worker in task["workers"] if homes[worker] != homes[task["server"]]]
        )
        for worker in groups:
            edges = [pair for who, *pair in joined if who == worker]
            needed = set(homes.values()) if worker is None else {homes[worker], homes[task["server"]]}
            reached = _reached(homes[task["server"]], edges)
            if not needed <= reached or len(edges) != len(reached) - 1:
                wrong.append(f"{task['name']}: {worker or 'its tree'}: no tree that joins {sorted(needed)}")
    wrong += [f"slot {slot} of lightpath {number} is given twice" for (number, slot), n in slots.items() if n > 1]
    wrong += [
        f"lightpath {number} serves no task"
        for number in range(len(lightpaths))
        if not any(slots[number, s] for s in range(network["slots"]))
    ]
    metrics = plan["metrics"]
    if metrics["transponders"] != sum(ends.values()) or metrics["blocked"] != sum(
        not task["admitted"] for task in plan["tasks"]
    ):
        wrong.append("metrics: transponders or blocked tasks are others than the plan's")
    return wrong


def _ends(lightpath: dict[str, Any]) -> tuple[str, str]:
    return lightpath["path"][0], lightpath["path"][-1]


def _reached(root: str, edges: list[list[str]]) -> set[str]:
    reached = {root}
    for _ in edges:
        for a, b in edges:
            if a in reached or b in reached:
                reached |= {a, b}
    return reached
