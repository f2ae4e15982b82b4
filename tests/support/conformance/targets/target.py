"""Interface of a switch under a conformance test."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from p4switch.tables import TableEntry

Sent: TypeAlias = list[tuple[int, bytes]]
"""(port, frame) in the order in which frames left."""


class Target(Protocol):
    """A switch that runs a program. Names are those of the BMv2 JSON; the entry with the higher priority wins."""

    name: str

    def insert(self, table: str, entry: TableEntry) -> None:
        """Adds an entry."""

    def insert_indirect(self, table: str, entry: TableEntry, member: int | None, group: int | None) -> None:
        """Adds an entry that names a member or a group of the table's action profile."""

    def modify(self, table: str, entry: TableEntry) -> None:
        """Gives an entry another action."""

    def delete(self, table: str, entry: TableEntry) -> None:
        """Removes an entry."""

    def set_member(self, profile: str, member: int, action: str, arguments: tuple[int, ...]) -> None:
        """Creates a member of an action profile; members are numbered from 0."""

    def set_members(self, profile: str, group: int, members: tuple[int, ...]) -> None:
        """Sets the members of a group, which the first call creates; groups are numbered from 0."""

    def set_meter(self, name: str, index: int, committed: int, peak: int) -> None:
        """Sets a meter that never refills: ``committed`` packets or bytes are green, ``peak`` are green or yellow."""

    def set_direct_meter(self, table: str, entry: TableEntry, committed: int, peak: int) -> None:
        """Sets the meter of an entry; like that of ``set_meter``, it never refills."""

    def add_to_value_set(self, name: str, value: int) -> None:
        """Adds a value to a parser's value set: its fields, concatenated."""

    def set_default(self, table: str, action: str, arguments: tuple[int, ...]) -> None:
        """Sets a table's default action."""

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Creates or replaces a multicast group: (port, rid) for each copy."""

    def set_clone_session(self, session: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Creates or replaces a clone session; its copies are (port, rid)."""

    def set_clone_group(self, session: int, group: int) -> None:
        """Creates a clone session whose copies are those of a multicast group."""

    def read_register(self, name: str, index: int) -> int:
        """Returns the value of a register's cell."""

    def write_register(self, name: str, index: int, value: int) -> None:
        """Sets a register's cell."""

    def read_counter(self, name: str, index: int) -> tuple[int, int]:
        """Returns packets and bytes of an indirect counter's cell."""

    def read_direct_counter(self, table: str, entry: TableEntry) -> tuple[int, int]:
        """Returns packets and bytes of an entry."""

    def send(self, port: int, frame: bytes) -> None:
        """Gives the switch a frame."""

    def drain(self) -> Sent:
        """Waits until the switch is idle; returns the frames that left since the last call."""
