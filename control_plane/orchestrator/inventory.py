"""What is really installed in the switches, read over P4Runtime, against what plans put there."""

from collections.abc import Iterable, Mapping
from typing import Any

import finsy as fy
from finsy.p4entity import P4Entity

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import PLAN_TABLES, Entity, key, plan_entries, wildcards
from p4reduce.control_plane.plans import Plan

Key = tuple[object, ...]


class Inventory:
    """Everything that plans can have put into switches, at one time."""

    def __init__(self, found: Mapping[str, Iterable[P4Entity]]) -> None:
        self._entries: dict[str, dict[Key, Entity]] = {
            switch: {key(entry): entry for entry in entries if isinstance(entry, Entity)}
            for switch, entries in found.items()
        }

    @classmethod
    def read(cls, controller: Controller) -> "Inventory":
        """Ask all switches; `ControllerError` names one that does not answer."""
        return cls(controller.read([*wildcards(PLAN_TABLES), fy.P4MulticastGroupEntry()]))

    def complete(self, plan: Plan) -> bool:
        """Whether every entry of a plan is in its switch, but for the traffic class, which a job's epochs share."""
        return all(
            key(entry) in self._entries.get(switch, {})
            for switch, entries in plan_entries(plan).items()
            for entry in (*entries.prepare, *entries.activate)
        )

    def strangers(self, plans: Iterable[Plan]) -> dict[str, list[Entity]]:
        """Entries that belong to none of these plans, by switch, in an order in which they can be removed."""
        known: dict[str, set[Key]] = {}
        jobs: set[int] = set()
        for plan in plans:
            jobs.add(plan.job)
            for switch, entries in plan_entries(plan).items():
                known.setdefault(switch, set()).update(map(key, (*entries.activate, *entries.prepare)))
        found: dict[str, list[Entity]] = {}
        for switch, present in self._entries.items():
            extra = [entry for name, entry in present.items() if name not in known.get(switch, set())]
            extra = [entry for entry in extra if not _classifies(entry, jobs)]
            if extra:
                found[switch] = sorted(extra, key=_order)
        return found


def _classifies(entry: Entity, jobs: set[int]) -> bool:
    """Whether an entry is the traffic class of one of these jobs."""
    if not isinstance(entry, fy.P4TableEntry) or entry.match is None or key(entry)[0] != "traffic_class":
        return False
    match: Any = key(entry)[2:]
    return dict(match).get("job") in {(job, 0xFFFF) for job in jobs}


def _order(entry: Entity) -> int:
    """Table `job` first: it lets packets in."""
    table = key(entry)[0]
    return PLAN_TABLES.index(str(table)) if table in PLAN_TABLES else len(PLAN_TABLES)
