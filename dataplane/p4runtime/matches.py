"""Match fields: between p4.v1.FieldMatch and the canonical matches of dataplane.tables."""

from collections.abc import Iterable, Sequence

from finsy.proto import p4r

from p4reduce.dataplane.p4runtime.bytestring import decode, encode
from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.p4info import MatchField, TableInfo
from p4reduce.dataplane.tables import Exact, Lpm, Match, Range, Ternary


def decode_matches(table: TableInfo, fields: Iterable[p4r.FieldMatch]) -> tuple[Match, ...]:
    """One match for each field of the table's key, in its order; omitted fields are "don't care".

    Raises:
        P4RuntimeError: INVALID_ARGUMENT: unknown, repeated or missing field, wrong match type, value too wide,
            not canonical (a "don't care" that is spelled out, bits set outside the mask).
    """
    given: dict[int, p4r.FieldMatch] = {}
    for match in fields:
        if match.field_id in given:
            raise _invalid(f"table {table.name!r}: match field {match.field_id} is given twice")
        given[match.field_id] = match
    decoded = tuple(_decode(table, field, given.pop(field.id, None)) for field in table.fields)
    if given:
        known = ", ".join(f"{f.id} ({f.name})" for f in table.fields) or "none"
        raise _invalid(f"table {table.name!r} has no match field {min(given)}; it has {known}")
    return decoded


def encode_matches(table: TableInfo, matches: Sequence[Match]) -> list[p4r.FieldMatch]:
    """The p4.v1.FieldMatch of each field that is not "don't care"."""
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
        raise _invalid(f"{what}: match is {kind or 'unset'}, expected {field.kind}")
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
            raise _invalid(f"table {table.name!r}: exact match field {field.id} ({field.name}) is missing")
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
        raise _invalid(f"{what}: prefix length {prefix} is not in 1..{width}{hint}")
    if value & _ones(width - prefix):
        raise _invalid(f"{what}: bits of {value:#x} behind its prefix of {prefix} bits are set")
    return Lpm(value, prefix)


def _ternary(ternary: p4r.FieldMatch.Ternary, width: int, what: str) -> Ternary:
    value, mask = decode(ternary.value, width, what), decode(ternary.mask, width, f"{what} (mask)")
    if mask == 0:
        raise _invalid(f"{what}: the mask is 0; omit the field to match everything")
    if value & ~mask:
        raise _invalid(f"{what}: bits of {value:#x} outside the mask {mask:#x} are set")
    return Ternary(value, mask)


def _range(span: p4r.FieldMatch.Range, width: int, what: str) -> Range:
    low, high = decode(span.low, width, f"{what} (low)"), decode(span.high, width, f"{what} (high)")
    if low > high:
        raise _invalid(f"{what}: low {low:#x} is above high {high:#x}")
    if low == 0 and high == _ones(width):
        raise _invalid(f"{what}: the range holds every value; omit the field to match everything")
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


def _invalid(message: str) -> P4RuntimeError:
    return P4RuntimeError(Code.INVALID_ARGUMENT, message)
