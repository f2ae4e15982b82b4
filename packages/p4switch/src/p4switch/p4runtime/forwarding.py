"""A pipeline configuration with the state that controllers read and write through it."""

import hashlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from threading import Lock
from typing import Any, Final, TypeVar

from finsy.proto import p4r

from p4switch.abi import MAX_FRAME_BYTES
from p4switch.device import Device
from p4switch.p4runtime.arbitration import Permit, entity_id, permit_all, table_entry
from p4switch.p4runtime.digest_entries import Clock, DigestEntries
from p4switch.p4runtime.entities import (
    CounterEntries,
    DirectCounterEntries,
    DirectMeterEntries,
    MeterEntries,
    RegisterEntries,
    ReplicationEntries,
    ValueSetEntries,
)
from p4switch.p4runtime.errors import P4RuntimeError, StatusCode, decode, encode
from p4switch.p4runtime.p4info import P4InfoField, ProfileInfo, Schema, check_conformity, load_schema
from p4switch.p4runtime.table_entries import ProfileEntries, TableEntries
from p4switch.p4runtime.updates import Kind, copied, invalid
from p4switch.program import Program, ProgramError, load_program

# Controller headers: conversion between a frame's first bytes and PacketMetadata.


def decode_packet_in(fields: tuple[P4InfoField, ...] | None, frame: bytes) -> p4r.PacketIn | None:
    """Returns a frame that left by the CPU port as PacketIn; None if it is shorter than its header.

    Args:
        fields: fields of the header ``packet_in`` at the frame's beginning; None: the program has no such header.
        frame: the frame without FCS.
    """
    if fields is None:
        return p4r.PacketIn(payload=frame)
    bits = sum(f.width for f in fields)
    size = (bits + 7) // 8
    if len(frame) < size:
        return None
    rest = int.from_bytes(frame[:size], "big") >> (8 * size - bits)
    metadata = []
    for field in reversed(fields):
        value = rest & ((1 << field.width) - 1)
        metadata.append(p4r.PacketMetadata(metadata_id=field.id, value=encode(value)))
        rest >>= field.width
    return p4r.PacketIn(payload=frame[size:], metadata=reversed(metadata))


def encode_packet_out(fields: tuple[P4InfoField, ...] | None, packet: p4r.PacketOut) -> bytes:
    """Returns the frame of a PacketOut, with the header ``packet_out`` in front.

    Raises:
        P4RuntimeError: INVALID_ARGUMENT: a metadata field is unknown, missing, repeated or too wide, or the frame is
            longer than a switch takes.
    """
    values = _metadata(fields or (), packet.metadata)
    number, bits = 0, 0
    for field in fields or ():
        number = number << field.width | values[field.id]
        bits += field.width
    size = (bits + 7) // 8
    if size + len(packet.payload) > MAX_FRAME_BYTES:
        raise invalid(f"packet_out: {size + len(packet.payload)} bytes; the limit is {MAX_FRAME_BYTES}")
    return (number << (8 * size - bits)).to_bytes(size, "big") + packet.payload


def _metadata(fields: tuple[P4InfoField, ...], metadata: Iterable[p4r.PacketMetadata]) -> dict[int, int]:
    by_id = {f.id: f for f in fields}
    values: dict[int, int] = {}
    for item in metadata:
        field = by_id.get(item.metadata_id)
        if field is None:
            raise invalid(f"packet_out: unknown metadata field {item.metadata_id}")
        if field.id in values:
            raise invalid(f"packet_out: metadata field {field.name!r} is given twice")
        values[field.id] = decode(item.value, field.width, f"packet_out, metadata field {field.name!r}")
    for field in fields:
        if field.id not in values:
            raise invalid(f"packet_out: metadata field {field.name!r} is missing")
    return values


_LOG = logging.getLogger(__name__)

_KEPT: Final = 16
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, eq=False)
class LoadedPipeline:
    """A loaded configuration. All devices with the same configuration share it, so it must not be changed."""

    config: p4r.ForwardingPipelineConfig
    program: Program
    schema: Schema


class PipelineLoader:
    """Loads configurations and keeps the latest, because many switches get the same one. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: OrderedDict[bytes, tuple[Program, Schema]] = OrderedDict()
        self._configs: OrderedDict[tuple[bytes, int | None], p4r.ForwardingPipelineConfig] = OrderedDict()

    def load(self, config: p4r.ForwardingPipelineConfig) -> LoadedPipeline:
        """Returns the loaded program and the indexed P4Info of a configuration.

        Raises:
            P4RuntimeError: INVALID_ARGUMENT: malformed, not supported, or P4Info does not describe the program.
        """
        if not config.HasField("p4info"):
            raise invalid("config.p4info is missing")
        if not config.p4_device_config:
            raise invalid("config.p4_device_config is empty; it must be the JSON that p4c-bm2-ss writes")
        key = _digest(config)
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = _load(config)
            program, schema = _latest(self._loaded, key)
            which = key, config.cookie.cookie if config.HasField("cookie") else None
            if which not in self._configs:
                self._configs[which] = copied(config)
            return LoadedPipeline(_latest(self._configs, which), program, schema)


def _latest(kept: "OrderedDict[K, V]", key: K) -> V:
    """Returns the value of a key and marks it as last used; drops the least recently used one if there are too many."""
    kept.move_to_end(key)
    if len(kept) > _KEPT:
        kept.popitem(last=False)
    return kept[key]


def _digest(config: p4r.ForwardingPipelineConfig) -> bytes:
    digest = hashlib.sha256(config.p4info.SerializeToString(deterministic=True))
    digest.update(hashlib.sha256(config.p4_device_config).digest())
    return digest.digest()


def _load(config: p4r.ForwardingPipelineConfig) -> tuple[Program, Schema]:
    schema = load_schema(copied(config.p4info))
    program = _program(config.p4_device_config)
    check_conformity(schema, program)
    return program, schema


def _program(device_config: bytes) -> Program:
    try:
        root = json.loads(device_config)
    except (ValueError, RecursionError) as error:
        raise invalid(f"config.p4_device_config is not the JSON that p4c-bm2-ss writes: {error}") from None
    if not isinstance(root, dict):
        raise invalid(f"config.p4_device_config holds a JSON {type(root).__name__}, expected an object")
    try:
        return load_program(root)
    except ProgramError as error:
        raise invalid(f"config.p4_device_config: {error}") from None
    except Exception as error:
        _LOG.exception("loading a P4 program")
        raise invalid(f"config.p4_device_config cannot be loaded: {type(error).__name__}: {error}") from None


_ALL_ENTRIES: Final = p4r.TableEntry()


class Forwarding:
    """The entities of one device under one pipeline configuration. Not thread-safe: the caller holds a lock.

    Attributes:
        config: the configuration as the controller sent it.
        device: holds the state and runs packets.
        digests: collects the digests of packets.
        timed: whether the program has digests or idle time-outs, which must be polled (``report_idle``).
    """

    def __init__(
        self,
        config: p4r.ForwardingPipelineConfig,
        program: Program,
        schema: Schema,
        device: Device,
        clock: Clock = time.time_ns,
    ) -> None:
        self.config = config
        self.program = program
        self.schema = schema
        self.device = device
        self._profiles = ProfileEntries(schema, device)
        self._tables = TableEntries(schema, device, clock, self._profiles)
        self._registers = RegisterEntries(schema.registers, device)
        self._replication = ReplicationEntries(device)
        self.digests = DigestEntries(schema, clock)
        device.on_digest = self.digests.learn
        self.timed = bool(schema.digests) or any(info.idle_timeout for info in schema.tables.values())
        kinds: dict[str, Any] = {
            "table_entry": self._tables,
            "counter_entry": CounterEntries(schema.counters, device, schema.direct_counters),
            "direct_counter_entry": DirectCounterEntries(schema, device, self._tables),
            "register_entry": self._registers,
            "packet_replication_engine_entry": self._replication,
            "meter_entry": MeterEntries(schema.meters, device, schema.direct_meters),
            "direct_meter_entry": DirectMeterEntries(schema, device, self._tables),
            "value_set_entry": ValueSetEntries(schema, device),
            "digest_entry": self.digests,
        }
        self._kinds: dict[str, tuple[Callable[[Kind, Any], None], Callable[[Any], Iterator[Any]]]] = {
            "action_profile_member": (self._profiles.write_member, self._profiles.read_members),
            "action_profile_group": (self._profiles.write_group, self._profiles.read_groups),
            **{name: (kind.write, kind.read) for name, kind in kinds.items()},
        }
        """Functions that write and read each kind of entity, by its field in p4.v1.Entity."""

    # --- write

    def write(self, updates: Iterable[p4r.Update], permit: Permit = permit_all) -> list[P4RuntimeError | None]:
        """Applies updates in order, each wholly or not at all, and continues after errors.

        Args:
            updates: the updates.
            permit: refuses entities that the client may not write.

        Returns:
            for each update its error, or None.
        """
        return [self._attempt(partial(self._write, update, permit)) for update in updates]

    def write_all(self, updates: Sequence[p4r.Update], permit: Permit = permit_all) -> list[P4RuntimeError | None]:
        """Applies all updates in order, or none of them.

        They are tried first on a copy of the state that they depend on. The device changes only if all succeed there,
        so nothing has to be undone. While the caller holds the lock no packet sees a part of them.

        Returns:
            for each update its error, or None. If one fails, all others are ABORTED.
        """
        trial = self._copy(list(self._met(updates)))
        for index, update in enumerate(updates):
            error = trial.write([update], permit)[0]
            if error is not None:
                aborted = P4RuntimeError(StatusCode.ABORTED, f"not applied, because update {index} of the batch failed")
                return [error if i == index else aborted for i in range(len(updates))]
        return self.write(updates, permit)

    def _met(self, updates: Sequence[p4r.Update]) -> Iterator[p4r.TableEntry]:
        """Yields read requests for the table entries on which the outcome of updates depends.

        For a table: the entries that the updates name if the table has room for all insertions, else the whole table.
        For an action profile whose members, groups or tables are updated: all entries of its tables, because entries
        use members and groups, and their action sets take room in the profile.
        """
        named: dict[int, list[p4r.TableEntry]] = {}
        for update in updates:
            entry = table_entry(update.entity)
            if entry is not None and entry.table_id in self.schema.tables:
                named.setdefault(entry.table_id, []).append(entry)
        kinds = ("action_profile_member", "action_profile_group")
        profiles = {entity_id(u.entity) for u in updates if u.entity.WhichOneof("entity") in kinds}
        profiles |= {profile.id for table_id in named if (profile := self._profile_of(table_id)) is not None}
        for table_id in self.schema.tables:
            profile = self._profile_of(table_id)
            if profile is not None and profile.id in profiles:
                named.pop(table_id, None)
                yield p4r.TableEntry(table_id=table_id)
        for table_id, entries in named.items():
            _, table = self._tables.table(table_id)
            if len(table) + len(entries) > table.spec.max_size:
                yield p4r.TableEntry(table_id=table_id)
                continue
            keys = {(e.priority, *(m.SerializeToString(deterministic=True) for m in e.match)): e for e in entries}
            for entry in keys.values():
                yield p4r.TableEntry(table_id=table_id, match=entry.match, priority=entry.priority)

    def _profile_of(self, table_id: int) -> ProfileInfo | None:
        return self._profiles.profile_of(self.schema.tables[table_id])

    def _copy(self, wanted: Iterable[p4r.TableEntry]) -> "Forwarding":
        """Returns a copy with the same configuration, groups, members and defaults, and the selected entries."""
        device = Device(self.program, name=f"{self.device.name} (trial)", device_id=self.device.device_id)
        copy = Forwarding(self.config, self.program, self.schema, device)
        for error in copy.write(self._configured(wanted)):
            if error is not None:
                raise P4RuntimeError(StatusCode.INTERNAL, f"the forwarding state cannot be copied: {error.message}")
        return copy

    def _write(self, update: p4r.Update, permit: Permit) -> None:
        entity = update.entity
        permit(entity)
        name = entity.WhichOneof("entity") or ""
        if name not in self._kinds:
            raise _unsupported(name)
        self._kinds[name][0](update.type, getattr(entity, name))

    # --- time

    def idle(self) -> Iterator[list[p4r.TableEntry]]:
        """Yields, for each table that has some, the entries that were idle for their time-out; see IdleTimers."""
        return self._tables.idle()

    # --- read

    def read(self, wanted: Iterable[p4r.Entity]) -> tuple[list[p4r.Entity], list[P4RuntimeError | None]]:
        """Returns the entities that requests select.

        Returns:
            the entities of the valid requests, in order; for each request its error, or None.
        """
        entities, errors = self.select(wanted)
        return list(entities), errors

    def select(self, wanted: Iterable[p4r.Entity]) -> tuple[Iterator[p4r.Entity], list[P4RuntimeError | None]]:
        """Selects entities as ``read`` does, with an iterator that makes the messages on demand.

        The iterator needs no lock and shows the state at this call, which copies references and whole arrays only.
        """
        reads: list[Iterator[p4r.Entity]] = []
        errors = [self._attempt(partial(self._collect, entity, reads)) for entity in wanted]
        return chain.from_iterable(reads), errors

    def _collect(self, wanted: p4r.Entity, reads: list[Iterator[p4r.Entity]]) -> None:
        reads.append(self._read(wanted))

    def _read(self, wanted: p4r.Entity) -> Iterator[p4r.Entity]:
        name = wanted.WhichOneof("entity") or ""
        if name == "extern_entry" and wanted.extern_entry.extern_type_id == 0:
            return iter(())  # a program with its own externs is refused
        if name not in self._kinds:
            raise _unsupported(name)
        return (p4r.Entity(**{name: entry}) for entry in self._kinds[name][1](getattr(wanted, name)))

    def _attempt(self, action: Callable[[], object]) -> P4RuntimeError | None:
        try:
            action()
        except P4RuntimeError as error:
            return error
        except Exception as error:
            _LOG.exception("device %s", self.device.name)
            return P4RuntimeError(StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
        return None

    # --- carrying state over to another configuration

    def snapshot(self) -> tuple[list[p4r.Update], list[p4r.Update]]:
        """Returns updates that bring another device into the state of this one.

        Returns:
            (multicast groups, table entries and defaults; counters and registers that are not 0).
        """
        return self._configured(), self._volatile()

    def _configured(self, wanted: Iterable[p4r.TableEntry] = (_ALL_ENTRIES,)) -> list[p4r.Update]:
        """Returns updates for groups, default entries, and the table entries that requests select."""
        everything = p4r.TableEntry(counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig())
        inserted = (
            *(p4r.Entity(packet_replication_engine_entry=e) for e in self._replication.all()),
            *self._read(p4r.Entity(action_profile_member=p4r.ActionProfileMember())),
            *self._read(p4r.Entity(action_profile_group=p4r.ActionProfileGroup())),
            *self._read(p4r.Entity(digest_entry=p4r.DigestEntry())),
            *(p4r.Entity(table_entry=e) for e in self._selected(_merged(w, everything) for w in wanted)),
        )
        value_sets = self._read(p4r.Entity(value_set_entry=p4r.ValueSetEntry()))
        meters = self._read(p4r.Entity(meter_entry=p4r.MeterEntry()))
        modified = (
            *(e for e in value_sets if e.value_set_entry.members),
            *(e for e in meters if e.meter_entry.HasField("config")),
            *(p4r.Entity(table_entry=e) for e in self._tables.changed_defaults()),
        )
        return [p4r.Update(type=p4r.Update.INSERT, entity=e) for e in inserted] + [_modify(e) for e in modified]

    def _selected(self, wanted: Iterable[p4r.TableEntry]) -> list[p4r.TableEntry]:
        """Returns the selected entries, each once, without the program's own; none for a wrong request."""
        entries: dict[bytes, p4r.TableEntry] = {}
        for request in wanted:
            with suppress(P4RuntimeError):
                selected = (e for e in self._tables.read(request) if not e.is_const)
                entries.update((e.SerializeToString(deterministic=True), e) for e in selected)
        return list(entries.values())

    def _volatile(self) -> list[p4r.Update]:
        """Returns updates for counters and registers that are not 0."""
        counters = self._read(p4r.Entity(counter_entry=p4r.CounterEntry()))
        counted = (e for e in counters if e.counter_entry.data.packet_count or e.counter_entry.data.byte_count)
        registers = (p4r.Entity(register_entry=e) for e in self._registers.changed())
        return [_modify(entity) for entity in (*counted, *registers)]


def _merged(first: p4r.TableEntry, second: p4r.TableEntry) -> p4r.TableEntry:
    merged = copied(first)
    merged.MergeFrom(second)
    return merged


def _modify(entity: p4r.Entity) -> p4r.Update:
    return p4r.Update(type=p4r.Update.MODIFY, entity=entity)


def _unsupported(kind: str) -> P4RuntimeError:
    if not kind:
        return invalid("the entity is unset")
    name = "ExternEntry" if kind == "extern_entry" else kind
    return P4RuntimeError(StatusCode.UNIMPLEMENTED, f"{name} is not supported by the embedded switch")
