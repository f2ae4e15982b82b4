"""Helpers for writing every kind of entity."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias, TypeVar

from finsy.proto import p4r
from google.protobuf.message import Message

from p4switch.p4runtime.errors import P4RuntimeError, StatusCode, decode, encode
from p4switch.p4runtime.p4info import ActionInfo, MatchField, TableInfo
from p4switch.state import MulticastError
from p4switch.tables import (
    EntryExists,
    Exact,
    Lpm,
    Match,
    NoSuchEntry,
    Range,
    TableError,
    TableFull,
    TableIsConst,
    Ternary,
)
from p4switch.tables.matching import StillUsed
from p4switch.tables.profile import MeterError

Kind: TypeAlias = p4r.Update.Type.ValueType
"""INSERT, MODIFY or DELETE."""
M = TypeVar("M", bound=Message)

MAX_INT64 = (1 << 63) - 1


def invalid(message: str) -> P4RuntimeError:
    """Returns an INVALID_ARGUMENT error."""
    return P4RuntimeError(StatusCode.INVALID_ARGUMENT, message)


def copied(message: M) -> M:
    """Returns an independent copy of a message."""
    kept = type(message)()
    kept.CopyFrom(message)
    return kept


def check_update_type(kind: Kind, what: str) -> None:
    """Raises INVALID_ARGUMENT unless ``kind`` is INSERT, MODIFY or DELETE."""
    if kind not in (p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE):
        raise invalid(f"{what}: update type {kind} is not INSERT, MODIFY or DELETE")


def check_modify_only(kind: Kind, what: str) -> None:
    """Raises INVALID_ARGUMENT unless ``kind`` is MODIFY."""
    check_update_type(kind, what)
    if kind != p4r.Update.MODIFY:
        raise invalid(f"{what} can only be modified: {p4r.Update.Type.Name(kind)} is not supported")


def check_index(index: int, size: int, what: str) -> None:
    """Raises INVALID_ARGUMENT for a negative index, OUT_OF_RANGE for an index beyond the last cell."""
    if index < 0:
        raise invalid(f"{what}: index {index} is negative")
    if index >= size:
        raise P4RuntimeError(StatusCode.OUT_OF_RANGE, f"{what}: index {index} is not in 0..{size - 1}")


def counter_values(data: p4r.CounterData, what: str) -> tuple[int, int]:
    """Returns (packets, bytes). Raises INVALID_ARGUMENT if one is negative."""
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid(f"{what}: counts are negative")
    return data.packet_count, data.byte_count


def counter_data(packets: int, octets: int) -> p4r.CounterData:
    """Returns the CounterData of a cell; its numbers are int64, so counts of 2**63 and more show as 2**63 - 1."""
    return p4r.CounterData(packet_count=min(packets, MAX_INT64), byte_count=min(octets, MAX_INT64))


def decode_arguments(info: ActionInfo, action: p4r.Action) -> tuple[int, ...]:
    """Returns the arguments of an action in the order of its parameters. Raises INVALID_ARGUMENT."""
    given = {p.param_id: p.value for p in action.params}
    expected = [p.id for p in info.parameters]
    if len(action.params) != len(expected) or sorted(given) != sorted(expected):
        names = ", ".join(f"{p.id} ({p.name})" for p in info.parameters) or "none"
        raise invalid(f"action {info.name!r} got parameters {[p.param_id for p in action.params]}; it takes {names}")
    return tuple(decode(given[p.id], p.width, f"action {info.name!r}, parameter {p.name!r}") for p in info.parameters)


@contextmanager
def state_errors() -> Iterator[None]:
    """Turns errors of the device's state into P4RuntimeErrors."""
    try:
        yield
    except (TableError, MulticastError, MeterError) as error:
        raise P4RuntimeError(_CODES.get(type(error), StatusCode.INVALID_ARGUMENT), str(error)) from None


_CODES: Final[Mapping[type[Exception], StatusCode]] = {
    EntryExists: StatusCode.ALREADY_EXISTS,
    NoSuchEntry: StatusCode.NOT_FOUND,
    TableFull: StatusCode.RESOURCE_EXHAUSTED,
    TableIsConst: StatusCode.PERMISSION_DENIED,
    StillUsed: StatusCode.UNKNOWN,  # PI translates BMv2's MBR_STILL_USED to this code
}


# Match fields: conversion between p4.v1.FieldMatch and the canonical matches of p4switch.tables.


def decode_matches(table: TableInfo, fields: Iterable[p4r.FieldMatch]) -> tuple[Match, ...]:
    """Returns one match for each field of the table's key, in its order; an omitted field is "don't care".

    Raises:
        P4RuntimeError: INVALID_ARGUMENT: a field is unknown, repeated or missing, has a wrong match type or a value
            too wide, or is not canonical (a "don't care" that is spelled out, bits set outside the mask).
    """
    given: dict[int, p4r.FieldMatch] = {}
    for match in fields:
        if match.field_id in given:
            raise invalid(f"table {table.name!r}: match field {match.field_id} is given twice")
        given[match.field_id] = match
    decoded = tuple(_decode(table, field, given.pop(field.id, None)) for field in table.fields)
    if given:
        known = ", ".join(f"{f.id} ({f.name})" for f in table.fields) or "none"
        raise invalid(f"table {table.name!r} has no match field {min(given)}; it has {known}")
    return decoded


def encode_matches(table: TableInfo, matches: Sequence[Match]) -> list[p4r.FieldMatch]:
    """Returns the p4.v1.FieldMatch of each field that is not "don't care"."""
    encoded = []
    for field, match in zip(table.fields, matches, strict=True):
        message = _encode(field, match)
        if message is not None:
            encoded.append(message)
    return encoded


def _decode(table: TableInfo, field: MatchField, given: p4r.FieldMatch | None) -> Match:
    if given is None:
        return _dont_care(table, field)
    what = f"table {table.name!r}, match field {field.name!r}"
    kind = given.WhichOneof("field_match_type")
    if kind != field.kind:
        raise invalid(f"{what}: match is {kind or 'unset'}, expected {field.kind}")
    match kind:
        case "exact":
            return Exact(decode(given.exact.value, field.width, what))
        case "lpm":
            return _lpm(given.lpm, field.width, what)
        case "ternary":
            return _ternary(given.ternary, field.width, what)
        case "range":
            return _range(given.range, field.width, what)
        case _:
            return Ternary(decode(given.optional.value, field.width, what), _ones(field.width))


def _dont_care(table: TableInfo, field: MatchField) -> Match:
    match field.kind:
        case "exact":
            raise invalid(f"table {table.name!r}: exact match field {field.id} ({field.name}) is missing")
        case "lpm":
            return Lpm(0, 0)
        case "range":
            return Range(0, _ones(field.width))
        case _:
            return Ternary(0, 0)


def _lpm(lpm: p4r.FieldMatch.LPM, width: int, what: str) -> Lpm:
    value, prefix = decode(lpm.value, width, what), lpm.prefix_len
    if not 1 <= prefix <= width:
        hint = "; omit the field to match everything" if prefix == 0 else ""
        raise invalid(f"{what}: prefix length {prefix} is not in 1..{width}{hint}")
    if value & _ones(width - prefix):
        raise invalid(f"{what}: bits of {value:#x} behind its prefix of {prefix} bits are set")
    return Lpm(value, prefix)


def _ternary(ternary: p4r.FieldMatch.Ternary, width: int, what: str) -> Ternary:
    value, mask = decode(ternary.value, width, what), decode(ternary.mask, width, f"{what} (mask)")
    if mask == 0:
        raise invalid(f"{what}: the mask is 0; omit the field to match everything")
    if value & ~mask:
        raise invalid(f"{what}: bits of {value:#x} outside the mask {mask:#x} are set")
    return Ternary(value, mask)


def _range(span: p4r.FieldMatch.Range, width: int, what: str) -> Range:
    low, high = decode(span.low, width, f"{what} (low)"), decode(span.high, width, f"{what} (high)")
    if low > high:
        raise invalid(f"{what}: low {low:#x} is above high {high:#x}")
    if low == 0 and high == _ones(width):
        raise invalid(f"{what}: the range holds every value; omit the field to match everything")
    return Range(low, high)


def _encode(field: MatchField, match: Match) -> p4r.FieldMatch | None:
    message = p4r.FieldMatch(field_id=field.id)
    match match:
        case Exact(value):
            message.exact.value = encode(value)
        case Lpm(value, prefix):
            if prefix == 0:
                return None
            message.lpm.value, message.lpm.prefix_len = encode(value), prefix
        case Ternary(value, mask):
            if mask == 0:
                return None
            if field.kind == "optional":
                message.optional.value = encode(value)
            else:
                message.ternary.value, message.ternary.mask = encode(value), encode(mask)
        case Range(low, high):
            if low == 0 and high == _ones(field.width):
                return None
            message.range.low, message.range.high = encode(low), encode(high)
    return message


def _ones(width: int) -> int:
    return (1 << width) - 1
