"""Whose turn it is in a gated cycle."""

from p4reduce.control_plane.tdm.schedule import Cycle, Schedule


def turns_of(schedule: Schedule, cycle: Cycle) -> dict[int, list[str]]:
    """Jobs that communicate at the same time, by process, or by group where there is one process; in their order.

    One entry where all windows open at once: then everybody trains, and everybody communicates.
    """
    found: dict[int, list[str]] = {}
    together = len({schedule.plan(name).start_s for name in cycle.jobs}) == 1
    for name in cycle.jobs:
        plan = schedule.plan(name)
        group = 0 if together else plan.group
        found.setdefault(plan.process if len(schedule.processes) > 1 else group, []).append(name)
    return {key: found[key] for key in sorted(found)}
