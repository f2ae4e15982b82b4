"""Conversion of STF statements to table entries."""

from collections.abc import Iterable

from p4switch.program.actions import Action, MatchKey
from p4switch.program.program import Program
from p4switch.tables import Exact, Lpm, Match, Range, TableEntry, Ternary
from tests.support.conformance.stf.names import find_action, find_key, find_table
from tests.support.conformance.stf.numbers import parse_lpm, parse_number, parse_ternary
from tests.support.conformance.stf.statements import Add, SetDefault, StfError


def entry_of(program: Program, add: Add) -> tuple[str, TableEntry]:
    """Returns the table and the entry that a statement adds. Omitted keys match anything, omitted exact keys 0.

    Raises:
        StfError: unknown names or numbers out of range.
    """
    table = find_table(program, add.table)
    written = {find_key(table, name): text for name, text in add.keys}
    match = tuple(_match(key, written.get(number)) for number, key in enumerate(table.keys))
    action = find_action(program, table, add.action)
    has_priority = table.kind in ("ternary", "range")
    if has_priority and add.priority is None:
        raise StfError(f"table {table.name} is {table.kind}: the entry needs a priority")
    # Exact and lpm tables have no priority; some tests give one nevertheless, and p4c's runner drops it.
    priority = add.priority if has_priority and add.priority is not None else 0
    return table.name, TableEntry(match, action.name, _arguments(action, add.arguments), priority)


def default_of(program: Program, statement: SetDefault) -> tuple[str, str, tuple[int, ...]]:
    """Returns table, action and arguments of a default action. Raises StfError."""
    table = find_table(program, statement.table)
    action = find_action(program, table, statement.action)
    return table.name, action.name, _arguments(action, statement.arguments)


def _match(key: MatchKey, text: str | None) -> Match:
    ones = (1 << key.width) - 1
    match key.kind:
        case "exact":
            return Exact(parse_number(text or "0") & ones)
        case "ternary":
            value, mask = parse_ternary(text) if text is not None else (0, 0)
            return Ternary(value & mask & ones, mask & ones)
        case "lpm":
            value, prefix = parse_lpm(text) if text is not None else (0, 0)
            if prefix > key.width:
                raise StfError(f"key {key.name}: a prefix of {prefix} bits in {key.width}")
            return Lpm(value & ones & ~((1 << (key.width - prefix)) - 1), prefix)
        case "range":
            if text is not None:
                raise StfError(f"key {key.name}: STF has no ranges")
            return Range(0, ones)


def _arguments(action: Action, written: Iterable[tuple[str, str]]) -> tuple[int, ...]:
    given = {name: parse_number(text) for name, text in written}
    unknown = set(given) - {parameter.name for parameter in action.parameters}
    if unknown:
        raise StfError(f"action {action.name} has no parameter {', '.join(sorted(unknown))}")
    missing = [parameter.name for parameter in action.parameters if parameter.name not in given]
    if missing:
        raise StfError(f"action {action.name}: no value for {', '.join(missing)}")
    return tuple(given[parameter.name] & ((1 << parameter.width) - 1) for parameter in action.parameters)
