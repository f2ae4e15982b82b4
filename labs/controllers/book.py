"""What a student's controller has installed: as the switches took it, with the names of the P4 program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import finsy as fy

from p4reduce.control_plane.entries import Entity, key


@dataclass(frozen=True)
class Row:
    """An entry of a table: its key, its action and the action's parameters."""

    match: dict[str, Any]
    action: str
    params: dict[str, int]


@dataclass
class Book:
    """Entries by switch.

    Attributes:
        early: (switch, job, epoch, group) of entries of table job that came before their group.
        ever: (switch, job, epoch) -> the parameters of its entry of table job, as it was last.
    """

    held: dict[str, dict[tuple[object, ...], Entity]] = field(default_factory=dict)
    early: list[tuple[str, int, int, int]] = field(default_factory=list)
    ever: dict[tuple[str, int, int], dict[str, int]] = field(default_factory=dict)

    def add(self, switch: str, entities: Iterable[Entity]) -> None:
        """Entries that a switch took, in this order."""
        held = self.held.setdefault(switch, {})
        for entity in entities:
            held[key(entity)] = entity
            row = _row(entity, "job")
            if row is not None:
                named = switch, row.match["job"], row.match["epoch"]
                self.ever[named] = row.params
                if self.group(switch, row.params["group"]) is None:
                    self.early.append((*named, row.params["group"]))

    def remove(self, switch: str, entities: Iterable[Entity]) -> None:
        """Entries that it has no more."""
        for entity in entities:
            self.held.get(switch, {}).pop(key(entity), None)

    def rows(self, switch: str, table: str) -> Iterator[Row]:
        """The entries of a table."""
        for entity in self.held.get(switch, {}).values():
            row = _row(entity, table)
            if row is not None:
                yield row

    def jobs(self, switch: str) -> dict[tuple[int, int], Row]:
        """Table job, by job and epoch."""
        return {(row.match["job"], row.match["epoch"]): row for row in self.rows(switch, "job")}

    def peers(self, switch: str, job: int, epoch: int) -> dict[tuple[int, int], Row]:
        """Table peer of a job's epoch, by ingress port and source address."""
        rows = self.rows(switch, "peer")
        mine = (row for row in rows if (row.match["job"], row.match["epoch"]) == (job, epoch))
        return {(row.match["ingress_port"], row.match["src"]): row for row in mine}

    def group(self, switch: str, number: int) -> list[tuple[int, int]] | None:
        """(port, replication id) of a multicast group; None: there is none."""
        for entity in self.held.get(switch, {}).values():
            if isinstance(entity, fy.P4MulticastGroupEntry) and entity.multicast_group_id == number:
                return [(replica.port, replica.instance) for replica in entity.replicas]  # type: ignore[union-attr]
        return None

    def replica(self, switch: str, rid: int) -> Row | None:
        """The entry of table replica for a replication id."""
        return next((row for row in self.rows(switch, "replica") if row.match["egress_rid"] == rid), None)


def _row(entity: Entity, table: str) -> Row | None:
    if not isinstance(entity, fy.P4TableEntry) or entity.table_id.rpartition(".")[2] != table:
        return None
    if not isinstance(entity.action, fy.P4TableAction):
        return None
    match = {name.rpartition(".")[2]: value for name, value in (entity.match or {}).items()}
    return Row(match, entity.action.name.rpartition(".")[2], dict(entity.action.args))
