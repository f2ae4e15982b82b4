"""Tables: whose they are, what their keys and constant entries hold, what shares an action profile."""

from p4reduce.dataplane.model.control import ConstEntry, MatchKey, MatchTable
from p4reduce.dataplane.model.errors import ProgramError
from p4reduce.dataplane.model.limits import MAX_FIELD_BITS, MAX_INDEX, MAX_NUMBER
from p4reduce.dataplane.model.program import Program


def check_tables(program: Program) -> None:
    """All tables. Raises ProgramError."""
    twice = sorted(program.ingress.tables.keys() & program.egress.tables.keys())
    if twice:
        raise ProgramError(f"table {twice[0]!r}: in both pipelines")
    for table in program.tables.values():
        _check_table(table, program, f"table {table.name!r}")
    for counter in program.counters.values():
        if counter.table is not None and counter.table not in program.tables:
            raise ProgramError(f"counter {counter.name!r}: there is no table {counter.table!r}")
    for meter in program.meters.values():
        if meter.table is not None and (
            meter.table not in program.tables or program.tables[meter.table].direct_meter != meter.name
        ):
            raise ProgramError(f"meter {meter.name!r}: table {meter.table!r} does not use it")
    for profile in program.profiles.values():
        _distinct(program, profile.actions, f"action profile {profile.name!r}")


def _check_table(table: MatchTable, program: Program, where: str) -> None:
    if not 1 <= table.max_size <= MAX_INDEX:
        raise ProgramError(f"{where}: room for {table.max_size} entries")
    bits = sum(key.width for key in table.keys)
    if bits > MAX_FIELD_BITS:
        raise ProgramError(f"{where}: a key of {bits} bits; the limit is {MAX_FIELD_BITS}")
    _distinct(program, table.actions, where)
    if table.direct_meter is not None:
        meter = program.meters[table.direct_meter]
        if meter.table != table.name or meter.target is None:
            raise ProgramError(f"{where}: meter {meter.name!r} is not its direct meter")
        if meter.target.width > 64:
            raise ProgramError(f"{where}: {meter.target} has {meter.target.width} bits, too many for a color")
    if table.profile is not None:
        # Members lie in memory as the first table's actions say, and run as this table's.
        first = program.profiles[table.profile].actions
        if _layouts(program, first) != _layouts(program, table.actions):
            raise ProgramError(f"{where}: shares {table.profile!r} with a table of other actions")
    entries = table.entries or ()
    if len(entries) > table.max_size:
        raise ProgramError(f"{where}: {len(entries)} constant entries, room for {table.max_size}")
    if entries and not table.keys:
        raise ProgramError(f"{where}: constant entries without a key")
    seen = set[tuple[tuple[int, int], ...]]()
    for number, entry in enumerate(entries):
        here = f"{where}, constant entry {number}"
        _check_entry(entry, table, here)
        match = tuple(_canonical(m, key) for m, key in zip(entry.match, table.keys, strict=True))
        if table.kind in ("exact", "lpm") and match in seen:
            raise ProgramError(f"{here}: matches what an earlier one does")
        seen.add(match)


def _distinct(program: Program, actions: tuple[int, ...], where: str) -> None:
    """Entries name actions, so no two of a table have one name."""
    names = [program.actions[ident].name for ident in actions]
    if len(set(names)) != len(names):
        raise ProgramError(f"{where}: two actions of one name")


def _layouts(program: Program, actions: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {program.actions[i].name: tuple(p.width for p in program.actions[i].parameters) for i in actions}


def _check_entry(entry: ConstEntry, table: MatchTable, where: str) -> None:
    if not 0 <= entry.priority <= MAX_NUMBER:
        raise ProgramError(f"{where}: priority {entry.priority}")
    for match, key in zip(entry.match, table.keys, strict=True):
        _check_match(match, key, where)


def _canonical(match: tuple[int, int], key: MatchKey) -> tuple[int, int]:
    return (match[0] >> (key.width - match[1]), match[1]) if key.kind == "lpm" else match


def _check_match(match: tuple[int, int], key: MatchKey, where: str) -> None:
    if key.kind == "lpm" and not 0 <= match[1] <= key.width:
        raise ProgramError(f"{where}: {key.name!r}: a prefix of {match[1]} bits of {key.width}")
    if key.kind == "range" and not 0 <= match[0] <= match[1] < 1 << key.width:
        raise ProgramError(f"{where}: {key.name!r}: no range of {key.width} bits: {match[0]:#x} to {match[1]:#x}")
