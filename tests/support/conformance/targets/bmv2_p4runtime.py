"""BMv2 as a target of conformance tests, driven over P4Runtime alone: no Thrift needed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from finsy.proto import p4i, p4r
from google.protobuf import text_format

from p4switch.tables import Exact, Lpm, Match, Range, TableEntry, Ternary
from tests.support.conformance.targets.bmv2_process import DEVICE_ID, Bmv2Process
from tests.support.conformance.targets.packet_stream import PacketStream
from tests.support.conformance.targets.target import Sent
from tests.support.p4runtime.client import RawClient

STREAM_S: Final = 600.0


class NotOffered(RuntimeError):
    """BMv2's P4Runtime server does not offer this operation."""


class Bmv2OverP4Runtime:
    """A running simple_switch_grpc with a pipeline. ``send`` queues frames; ``drain`` gives them to it one by one.

    Names of tables, actions and counters are those of the P4Info.
    """

    def __init__(self, process: Bmv2Process, json: Path, p4info: str) -> None:
        """Sets the pipeline.

        Raises:
            grpc.RpcError: BMv2 rejects the program with this P4Info.
        """
        self.name = "bmv2"
        self._info = text_format.Parse(p4info, p4i.P4Info())
        self._tables = {table.preamble.name: table for table in self._info.tables}
        self._actions = {action.preamble.name: action for action in self._info.actions}
        self._counters = {counter.preamble.name: counter for counter in self._info.counters}
        self._groups: dict[int, Sequence[tuple[int, int]]] = {}
        self._sessions: set[int] = set()
        self._stream = PacketStream(process.channel, DEVICE_ID)
        self._pending: Sent = []
        self._client = RawClient(process.p4runtime, DEVICE_ID, stream_s=STREAM_S)
        self._client.arbitrate()
        self._client.set_pipeline(
            p4r.ForwardingPipelineConfig(p4info=self._info, p4_device_config=json.read_bytes()), "VERIFY_AND_COMMIT"
        )

    def close(self) -> None:
        """Closes the P4Runtime connection."""
        self._client.__exit__(None, None, None)

    def _write(self, kind: str, **entity: object) -> None:
        update = p4r.Update(type=p4r.Update.Type.Value(kind), entity=p4r.Entity(**entity))
        self._client.write(update)

    # --- tables

    def insert(self, table: str, entry: TableEntry) -> None:
        self._write("INSERT", table_entry=self._entry(table, entry, self._action(entry.action, entry.arguments)))

    def modify(self, table: str, entry: TableEntry) -> None:
        self._write("MODIFY", table_entry=self._entry(table, entry, self._action(entry.action, entry.arguments)))

    def delete(self, table: str, entry: TableEntry) -> None:
        self._write("DELETE", table_entry=self._entry(table, entry))

    def set_default(self, table: str, action: str, arguments: tuple[int, ...]) -> None:
        made = p4r.TableEntry(table_id=self._tables[table].preamble.id, is_default_action=True)
        made.action.action.CopyFrom(self._action(action, arguments))
        self._write("MODIFY", table_entry=made)

    def _entry(self, table: str, entry: TableEntry, action: p4r.Action | None = None) -> p4r.TableEntry:
        info = self._tables[table]
        made = p4r.TableEntry(table_id=info.preamble.id)
        for field, match in zip(info.match_fields, entry.match, strict=True):
            found = _match(field, match)
            if found is not None:
                made.match.append(found)
        kinds = {field.match_type for field in info.match_fields}
        if kinds & {p4i.MatchField.TERNARY, p4i.MatchField.RANGE, p4i.MatchField.OPTIONAL}:
            made.priority = entry.priority + 1  # 0 means no priority
        if action is not None:
            made.action.action.CopyFrom(action)
        return made

    def _action(self, name: str, arguments: Sequence[int]) -> p4r.Action:
        info = self._actions[name]
        made = p4r.Action(action_id=info.preamble.id)
        for parameter, value in zip(info.params, arguments, strict=True):
            made.params.add(param_id=parameter.id, value=_bytes(value))
        return made

    # --- replication

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        made = p4r.MulticastGroupEntry(multicast_group_id=group, replicas=_replicas(replicas))
        entry = p4r.PacketReplicationEngineEntry(multicast_group_entry=made)
        self._write("MODIFY" if group in self._groups else "INSERT", packet_replication_engine_entry=entry)
        self._groups[group] = replicas

    def set_clone_session(self, session: int, replicas: Sequence[tuple[int, int]]) -> None:
        made = p4r.CloneSessionEntry(session_id=session, replicas=_replicas(replicas))
        entry = p4r.PacketReplicationEngineEntry(clone_session_entry=made)
        self._write("MODIFY" if session in self._sessions else "INSERT", packet_replication_engine_entry=entry)
        self._sessions.add(session)

    def set_clone_group(self, session: int, group: int) -> None:
        self.set_clone_session(session, self._groups[group])

    # --- state

    def read_counter(self, name: str, index: int) -> tuple[int, int]:
        entry = p4r.CounterEntry(counter_id=self._counters[name].preamble.id)
        entry.index.index = index
        (found,) = self._client.read(p4r.Entity(counter_entry=entry))
        return found.counter_entry.data.packet_count, found.counter_entry.data.byte_count

    def read_direct_counter(self, table: str, entry: TableEntry) -> tuple[int, int]:
        made = p4r.DirectCounterEntry(table_entry=self._entry(table, entry))
        (found,) = self._client.read(p4r.Entity(direct_counter_entry=made))
        return found.direct_counter_entry.data.packet_count, found.direct_counter_entry.data.byte_count

    def write_register(self, name: str, index: int, value: int) -> None:
        raise NotOffered(f"BMv2 does not write registers over P4Runtime: {name}[{index}] = {value}")

    # --- frames

    def send(self, port: int, frame: bytes) -> None:
        self._pending.append((port, frame))

    def drain(self) -> Sent:
        sent: Sent = []
        for one in self._pending:
            sent += self._stream.run([one])
        self._pending.clear()
        return sent


def _replicas(replicas: Sequence[tuple[int, int]]) -> list[p4r.Replica]:
    return [p4r.Replica(egress_port=port, instance=rid) for port, rid in replicas]


def _bytes(value: int) -> bytes:
    """Returns the canonical bytestring: without leading zero bytes."""
    return value.to_bytes(max(1, -(-value.bit_length() // 8)), "big")


def _match(field: p4i.MatchField, match: Match) -> p4r.FieldMatch | None:
    """Returns one field of a match; None if it matches anything and must be omitted (P4Runtime, section 9.1.1)."""
    made = p4r.FieldMatch(field_id=field.id)
    ones = (1 << field.bitwidth) - 1
    match match:
        case Exact(value):
            made.exact.value = _bytes(value)
        case Lpm(_, 0) | Ternary(_, 0):
            return None
        case Lpm(value, prefix):
            made.lpm.value, made.lpm.prefix_len = _bytes(value), prefix
        case Ternary(value, _) if field.match_type == p4i.MatchField.OPTIONAL:
            made.optional.value = _bytes(value)
        case Ternary(value, mask):
            made.ternary.value, made.ternary.mask = _bytes(value), _bytes(mask)
        case Range(low, high):
            if (low, high) == (0, ones):
                return None
            made.range.low, made.range.high = _bytes(low), _bytes(high)
    return made
