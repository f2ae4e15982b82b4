"""Does a P4Info describe a program? Names, widths and sizes must be those that p4c wrote into the JSON."""

from collections.abc import Mapping
from typing import Final

from p4reduce.dataplane.model import Program
from p4reduce.dataplane.model.control import MatchKind, MatchTable
from p4reduce.dataplane.p4runtime.extern_info import ExternInfo
from p4reduce.dataplane.p4runtime.p4info import FieldKind, Schema, TableInfo, invalid

_KEY_KINDS: Final[Mapping[FieldKind, MatchKind]] = {
    "exact": "exact",
    "lpm": "lpm",
    "ternary": "ternary",
    "range": "range",
    "optional": "ternary",
}


def check_conformity(schema: Schema, program: Program) -> None:
    """Checks that everything P4Info names is in the program, alike.

    Raises:
        P4RuntimeError: INVALID_ARGUMENT, naming the first difference.
    """
    externs = ExternInfo(schema.proto)
    for table in schema.tables.values():
        spec = program.tables.get(table.name)
        if spec is None:
            raise _differs(f"table {table.name!r} is not in it")
        _check_key(table, spec)
        _check_actions(table, spec, program)
        _check_table_externs(table, spec, externs)
        if table.has_counter != (spec.direct_counter is not None):
            raise _differs(f"table {table.name!r} has {'no' if table.has_counter else 'a'} direct counter there")
        if table.idle_timeout and not spec.idle_timeout:
            raise _differs(f"table {table.name!r} has no idle time-outs there")
    _check_externs(externs, program)
    for counter in schema.counters.values():
        array = program.counters.get(counter.name)
        if array is None or array.table is not None or array.size != counter.size:
            raise _differs(f"indirect counter {counter.name!r} of {counter.size} cells is not in it")
    for register in schema.registers.values():
        cells = program.registers.get(register.name)
        if cells is None or cells.size != register.size:
            raise _differs(f"register {register.name!r} of {register.size} cells is not in it")
        if register.type is not None and register.type.width != cells.width:
            raise _differs(f"register {register.name!r} has cells of {cells.width} bits there")


def _check_externs(externs: ExternInfo, program: Program) -> None:
    for meter in externs.meters.values():
        cells = program.meters.get(meter.name)
        if cells is None or cells.table is not None or cells.size != meter.size:
            raise _differs(f"indirect meter {meter.name!r} of {meter.size} cells is not in it")
    learned = {learn_list.name for learn_list in program.learn_lists.values()}
    for what, infos, known in (
        ("action profile", externs.profiles, program.profiles),
        ("value set", externs.value_sets, program.value_sets),
        ("digest", externs.digests, learned),
    ):
        for info in infos.values():
            if info.name not in known:
                raise _differs(f"{what} {info.name!r} is not in it")
    for value_set in externs.value_sets.values():
        if program.value_sets[value_set.name].width != sum(width for _, width in value_set.fields):
            raise _differs(f"value set {value_set.name!r} has another width there")


def _check_table_externs(table: TableInfo, spec: MatchTable, externs: ExternInfo) -> None:
    if (table.id in externs.metered) != (spec.direct_meter is not None):
        raise _differs(f"table {table.name!r} has {'no' if table.id in externs.metered else 'a'} direct meter there")
    profile = externs.implementations.get(table.id)
    if (None if profile is None else profile.name) != spec.profile:
        raise _differs(f"table {table.name!r} has another action profile there")


def _check_key(table: TableInfo, spec: MatchTable) -> None:
    if len(table.fields) != len(spec.keys):
        raise _differs(f"table {table.name!r} has {len(spec.keys)} match fields there")
    for field, key in zip(table.fields, spec.keys, strict=True):
        if field.width != key.width or _KEY_KINDS[field.kind] != key.kind:
            raise _differs(f"match field {field.name!r} of table {table.name!r} is {key.kind}, {key.width} bits there")


def _check_actions(table: TableInfo, spec: MatchTable, program: Program) -> None:
    there = {program.actions[ident].name: program.actions[ident] for ident in spec.actions}
    for ref in table.actions.values():
        action = there.get(ref.action.name)
        if action is None:
            raise _differs(f"table {table.name!r} has no action {ref.action.name!r} there")
        if tuple(p.width for p in action.parameters) != tuple(p.width for p in ref.action.parameters):
            raise _differs(f"action {ref.action.name!r} has other parameters there")


def _differs(message: str) -> Exception:
    return invalid(f"does not describe the program in p4_device_config: {message}")
