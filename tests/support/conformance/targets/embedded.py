"""The embedded switch as a target of conformance tests."""

from collections.abc import Sequence
from dataclasses import replace

from p4switch.device import Device
from p4switch.program import Program
from p4switch.state.device_state import CloneSession
from p4switch.tables import TableEntry
from p4switch.tables.profile import MeterConfig
from p4switch.traffic import ExecutorName
from tests.support.conformance.targets.target import Sent


class EmbeddedSwitch:
    """A Device; it processes frames as soon as they are sent."""

    def __init__(self, program: Program, executor: ExecutorName) -> None:
        self.name: str = executor
        self.device = Device(program, executor=executor)
        self._sent: Sent = []

    # --- tables

    def insert(self, table: str, entry: TableEntry) -> None:
        self.device.tables[table].insert(entry)

    def insert_indirect(self, table: str, entry: TableEntry, member: int | None, group: int | None) -> None:
        self.device.tables[table].insert(replace(entry, member=member, group=group))

    def modify(self, table: str, entry: TableEntry) -> None:
        self.device.tables[table].modify(entry)

    def delete(self, table: str, entry: TableEntry) -> None:
        self.device.tables[table].delete(entry)

    def set_default(self, table: str, action: str, arguments: tuple[int, ...]) -> None:
        self.device.tables[table].set_default(action, arguments)

    def set_member(self, profile: str, member: int, action: str, arguments: tuple[int, ...]) -> None:
        self.device.state.profiles[profile].insert_member(member, action, arguments)

    def set_members(self, profile: str, group: int, members: tuple[int, ...]) -> None:
        target, weighted = self.device.state.profiles[profile], [(member, 1) for member in members]
        (target.modify_group if group in target.groups else target.insert_group)(group, weighted)

    # --- replication

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        self.device.multicast.set(group, replicas)

    def set_clone_session(self, session: int, replicas: Sequence[tuple[int, int]]) -> None:
        self.device.state.clone_sessions.set(session, replicas)

    def set_clone_group(self, session: int, group: int) -> None:
        self.device.state.clone_sessions.configure(session, CloneSession(group=group))

    # --- state

    def set_meter(self, name: str, index: int, committed: int, peak: int) -> None:
        self.device.state.meters[name].write(index, MeterConfig(0, committed, 0, peak))

    def set_direct_meter(self, table: str, entry: TableEntry, committed: int, peak: int) -> None:
        self.device.tables[table].write_meter(entry, MeterConfig(0, committed, 0, peak))

    def add_to_value_set(self, name: str, value: int) -> None:
        value_set = self.device.state.value_sets[name]
        value_set.set((*value_set.values, value))

    def read_register(self, name: str, index: int) -> int:
        return self.device.registers[name].read(index)

    def write_register(self, name: str, index: int, value: int) -> None:
        self.device.registers[name].write(index, value)

    def read_counter(self, name: str, index: int) -> tuple[int, int]:
        return self.device.counters[name].read(index)

    def read_direct_counter(self, table: str, entry: TableEntry) -> tuple[int, int]:
        return self.device.tables[table].read_counter(entry)

    # --- frames

    def send(self, port: int, frame: bytes) -> None:
        self._sent += self.device.inject(port, frame)

    def drain(self) -> Sent:
        sent, self._sent = self._sent, []
        return sent
