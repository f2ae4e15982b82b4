"""BMv2 as a target of conformance tests, driven over Thrift (simple_switch_CLI)."""

import re
from collections.abc import Sequence
from typing import Final

from p4switch.tables import Exact, Lpm, Match, TableEntry, Ternary
from tests.support.conformance.fuzz.shape import Shape
from tests.support.conformance.targets.bmv2_process import DEVICE_ID, Bmv2Process
from tests.support.conformance.targets.packet_stream import PacketStream
from tests.support.conformance.targets.target import Sent

PRIORITY_BASE: Final = 1 << 24
"""Minuend of BMv2 priorities: an entry gets this minus its own priority, as the lower priority wins in BMv2."""
CLONE_GROUP_BASE: Final = 0x4000
"""First multicast group for clone sessions with several copies."""

_HANDLE: Final = re.compile(r"handle (\d+)")
_COUNTER: Final = re.compile(r"\((\d+) bytes, (\d+) packets\)")


class Bmv2:
    """A running simple_switch_grpc. ``send`` queues frames; ``drain`` gives them to the switch one by one."""

    def __init__(self, shape: Shape, process: Bmv2Process) -> None:
        self.name = "bmv2"
        self._shape = shape
        self._cli = process.command_line
        self._stream = PacketStream(process.channel, DEVICE_ID)
        self._pending: Sent = []
        self._sent: Sent = []
        self._entries: dict[tuple[str, object], int] = {}
        self._defaults: set[str] = set()
        self._selector_groups: dict[tuple[str, int], tuple[int, ...]] = {}
        self._groups: dict[int, list[int]] = {}
        self._sessions: set[int] = set()

    @property
    def can_reset(self) -> bool:
        """Whether ``reset`` works: BMv2 1.15 crashes when a selector's group is created after a reset."""
        return not any(table.selects for table in self._shape.tables.values())

    def reset(self) -> None:
        """Restores the initial state; BMv2's reset deletes constant entries, so it is used for programs without."""
        self.drain()
        for session in self._sessions:
            self._cli.run(f"mirroring_delete {session}")
        if self._shape.fixed:
            self._reset_parts()
        else:
            self._cli.run("reset_state")
        for table in self._defaults:
            self._cli.run(f"table_reset_default {table}")
        for value_set in self._shape.value_sets:
            self._cli.run(f"pvs_clear {value_set}")
        for forgotten in (self._entries, self._groups, self._sessions, self._defaults, self._selector_groups):
            forgotten.clear()

    def _reset_parts(self) -> None:
        if self._shape.meters or any(table.profile for table in self._shape.tables.values()):
            raise RuntimeError("a program with constant entries and meters or action profiles cannot be reset")
        for table in self._shape.tables:
            self._cli.run(f"table_clear {table}")
        for register in self._shape.registers:
            self._cli.run(f"register_reset {register}")
        for counter in self._shape.counters:
            self._cli.run(f"counter_reset {counter}")
        for group, nodes in self._groups.items():
            for node in nodes:
                self._cli.run(f"mc_node_dissociate {group} {node}")
                self._cli.run(f"mc_node_destroy {node}")
            self._cli.run(f"mc_mgrp_destroy {group}")

    # --- tables

    def insert(self, table: str, entry: TableEntry) -> None:
        arguments = " ".join(map(str, entry.arguments))
        self._add(f"table_add {table} {entry.action}", table, entry, arguments)

    def insert_indirect(self, table: str, entry: TableEntry, member: int | None, group: int | None) -> None:
        command = "table_indirect_add" if group is None else "table_indirect_add_with_group"
        self._add(f"{command} {table}", table, entry, str(member if group is None else group))

    def _add(self, command: str, table: str, entry: TableEntry, target: str) -> None:
        keys = " ".join(_key(match) for match in entry.match)
        priority = f" {PRIORITY_BASE - entry.priority}" if self._shape.tables[table].has_priority else ""
        answer = self._cli.run(f"{command} {keys} => {target}{priority}")
        self._entries[table, entry.identity] = _handle(answer)

    def modify(self, table: str, entry: TableEntry) -> None:
        arguments = " ".join(map(str, entry.arguments))
        self._cli.run(f"table_modify {table} {entry.action} {self._entries[table, entry.identity]} => {arguments}")

    def delete(self, table: str, entry: TableEntry) -> None:
        command = "table_delete" if self._shape.tables[table].profile is None else "table_indirect_delete"
        self._cli.run(f"{command} {table} {self._entries.pop((table, entry.identity))}")

    def set_default(self, table: str, action: str, arguments: tuple[int, ...]) -> None:
        self._defaults.add(table)
        self._cli.run(f"table_set_default {table} {action} {' '.join(map(str, arguments))}")

    def set_member(self, profile: str, member: int, action: str, arguments: tuple[int, ...]) -> None:
        answer = self._cli.run(f"act_prof_create_member {profile} {action} {' '.join(map(str, arguments))}")
        if _handle(answer) != member:
            raise RuntimeError(f"member {member} of {profile} got another handle: {answer}")

    def set_members(self, profile: str, group: int, members: tuple[int, ...]) -> None:
        if (profile, group) not in self._selector_groups:
            answer = self._cli.run(f"act_prof_create_group {profile}")
            if _handle(answer) != group:
                raise RuntimeError(f"group {group} of {profile} got another handle: {answer}")
        for member in self._selector_groups.get((profile, group), ()):
            self._cli.run(f"act_prof_remove_member_from_group {profile} {member} {group}")
        for member in members:
            self._cli.run(f"act_prof_add_member_to_group {profile} {member} {group}")
        self._selector_groups[profile, group] = members

    def set_direct_meter(self, table: str, entry: TableEntry, committed: int, peak: int) -> None:
        handle = self._entries[table, entry.identity]
        self._cli.run(f"meter_set_rates {self._shape.tables[table].direct_meter} {handle} 0:{committed} 0:{peak}")

    def add_to_value_set(self, name: str, value: int) -> None:
        self._cli.run(f"pvs_add {name} {value}")

    # --- replication

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        for node in self._groups.get(group, ()):
            self._cli.run(f"mc_node_dissociate {group} {node}")
            self._cli.run(f"mc_node_destroy {node}")
        if group not in self._groups:
            self._cli.run(f"mc_mgrp_create {group}")
        self._groups[group] = []
        for port, rid in replicas:
            node = _handle(self._cli.run(f"mc_node_create {rid} {port}"))
            self._cli.run(f"mc_node_associate {group} {node}")
            self._groups[group].append(node)

    def set_clone_session(self, session: int, replicas: Sequence[tuple[int, int]]) -> None:
        if session in self._sessions:
            self._cli.run(f"mirroring_delete {session}")
        self._sessions.add(session)
        if len(replicas) == 1 and replicas[0][1] == 0:
            self._cli.run(f"mirroring_add {session} {replicas[0][0]}")
            return
        self.set_group(CLONE_GROUP_BASE + session, replicas)
        self._cli.run(f"mirroring_add_mc {session} {CLONE_GROUP_BASE + session}")

    def set_clone_group(self, session: int, group: int) -> None:
        self._sessions.add(session)
        self._cli.run(f"mirroring_add_mc {session} {group}")

    # --- state

    def read_register(self, name: str, index: int) -> int:
        return int(self._cli.run(f"register_read {name} {index}").split("=")[1])

    def write_register(self, name: str, index: int, value: int) -> None:
        self._cli.run(f"register_write {name} {index} {value}")

    def read_counter(self, name: str, index: int) -> tuple[int, int]:
        return _counted(self._cli.run(f"counter_read {name} {index}"))

    def read_direct_counter(self, table: str, entry: TableEntry) -> tuple[int, int]:
        counter = self._shape.tables[table].direct_counter
        return _counted(self._cli.run(f"counter_read {counter} {self._entries[table, entry.identity]}"))

    def set_meter(self, name: str, index: int, committed: int, peak: int) -> None:
        self._cli.run(f"meter_set_rates {name} {index} 0:{committed} 0:{peak}")

    # --- frames

    def send(self, port: int, frame: bytes) -> None:
        self._pending.append((port, frame))

    def drain(self) -> Sent:
        for one in self._pending:
            self._sent += self._stream.run([one])
        self._pending.clear()
        sent, self._sent = self._sent, []
        return sent


def _key(match: Match) -> str:
    match match:
        case Exact(value):
            return str(value)
        case Lpm(value, prefix):
            return f"{value}/{prefix}"
        case Ternary(value, mask):
            return f"{value}&&&{mask}"
        case _:
            return f"{match.low}->{match.high}"


def _handle(answer: str) -> int:
    found = _HANDLE.search(answer)
    if found is None:
        raise RuntimeError(f"BMv2 gave no handle: {answer}")
    return int(found[1])


def _counted(answer: str) -> tuple[int, int]:
    found = _COUNTER.search(answer)
    if found is None:
        raise RuntimeError(f"BMv2 gave no counter: {answer}")
    return int(found[2]), int(found[1])
