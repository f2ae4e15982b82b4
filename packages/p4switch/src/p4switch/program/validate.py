"""Checks that a program keeps every packet within bounds of memory and time.

p4c's output always passes; a JSON file made by hand may not. Executors rely on these checks and do not repeat them:
the compiler would otherwise make machine code that reads and writes out of bounds.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from p4switch.program import program as model
from p4switch.program.errors import (
    MAX_BITS,
    MAX_FIELD_BITS,
    MAX_INDEX,
    MAX_NODES,
    MAX_NUMBER,
    MAX_STATE_BYTES,
    ProgramError,
)
from p4switch.program.load_expressions import ExpressionBudget

# Checks of the fields that primitives write, and of where each primitive is allowed.


def in_parser(primitive: model.Primitive, where: str) -> None:
    """Refuses primitives that have no meaning in a parser state. Raises ProgramError."""
    if isinstance(primitive, model.Jump | model.JumpIfZero | model.Exit):
        raise ProgramError(f"{where}: {type(primitive).__name__} in the parser")


def check_primitive(primitive: model.Primitive, program: model.Program, budget: ExpressionBudget, where: str) -> None:
    """Checks a primitive and the primitives that it consists of. Raises ProgramError."""
    for expr in model.operands(primitive):
        budget.check(expr, where)
    match primitive:
        case model.Several(
            name="assign_VL", primitives=(model.Assign(target=target, value=model.FieldRef() as origin), _)
        ):
            if target.width < origin.width:
                raise ProgramError(f"{where}: {target} of at most {target.width} bits cannot hold {origin}")
        case model.Several(primitives=steps):
            # Only primitives that come from one primitive of the JSON may write hidden fields.
            for step in steps:
                for expr in model.operands(step):
                    budget.check(expr, where)
                _check_copies(step, program, where)
        case model.OneOf(cases=cases):
            for _, step in cases:
                check_primitive(step, program, budget, where)
        case _:
            written = model.target_of(primitive)
            if written is not None:
                _check_target(written, program, where)
            _check_copies(primitive, program, where)
            _check_extern(primitive, program, where)


def _check_target(target: model.FieldRef, program: model.Program, where: str) -> None:
    varbit = program.headers[target.header].type.varbit
    if target.name == model.LENGTH_FIELD or target.header == model.NEXT_HEADER:
        raise ProgramError(f"{where}: {target} is hidden and cannot be assigned to")
    if varbit is not None and target.name == varbit.name:
        raise ProgramError(f"{where}: {target} has a variable length: only 'assign_VL' may write it")


def _check_copies(primitive: model.Primitive, program: model.Program, where: str) -> None:
    pairs: list[tuple[str, str]] = []
    if isinstance(primitive, model.AssignHeader):
        pairs = [(primitive.target, primitive.origin)]
    elif isinstance(primitive, model.MoveHeaders):
        pairs = list(zip(primitive.targets, primitive.origins, strict=True))
    for target, origin in pairs:
        to, of = program.headers[target], program.headers[origin]
        if to.type != of.type or to.metadata != of.metadata:
            raise ProgramError(f"{where}: {target!r} and {origin!r} are of different types")
        if isinstance(primitive, model.MoveHeaders) and to.metadata:
            raise ProgramError(f"{where}: {target!r} is metadata in a header stack")


def _check_extern(primitive: model.Primitive, program: model.Program, where: str) -> None:
    match primitive:
        case model.Count(counter=name) if program.counters[name].table is not None:
            raise ProgramError(f"{where}: counter {name!r} is a table's direct counter")
        case model.ExecuteMeter(meter=name, target=target):
            if program.meters[name].table is not None:
                raise ProgramError(f"{where}: meter {name!r} is a table's direct meter")
            if target.width > 64:
                raise ProgramError(f"{where}: {target} has {target.width} bits, too many for a color")


# Tables: owners, keys, constant entries, and shared action profiles.


def check_tables(program: model.Program) -> None:
    """Checks all tables. Raises ProgramError."""
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


def _check_table(table: model.MatchTable, program: model.Program, where: str) -> None:
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
        # Members lie in memory as the first table's actions say, and run as this table's actions.
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


def _distinct(program: model.Program, actions: tuple[int, ...], where: str) -> None:
    """Checks that no two actions of a table have the same name, because entries name actions."""
    names = [program.actions[ident].name for ident in actions]
    if len(set(names)) != len(names):
        raise ProgramError(f"{where}: two actions of one name")


def _layouts(program: model.Program, actions: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {program.actions[i].name: tuple(p.width for p in program.actions[i].parameters) for i in actions}


def _check_entry(entry: model.ConstEntry, table: model.MatchTable, where: str) -> None:
    if not 0 <= entry.priority <= MAX_NUMBER:
        raise ProgramError(f"{where}: priority {entry.priority}")
    for match, key in zip(entry.match, table.keys, strict=True):
        _check_match(match, key, where)


def _canonical(match: tuple[int, int], key: model.MatchKey) -> tuple[int, int]:
    return (match[0] >> (key.width - match[1]), match[1]) if key.kind == "lpm" else match


def _check_match(match: tuple[int, int], key: model.MatchKey, where: str) -> None:
    if key.kind == "lpm" and not 0 <= match[1] <= key.width:
        raise ProgramError(f"{where}: {key.name!r}: a prefix of {match[1]} bits of {key.width}")
    if key.kind == "range" and not 0 <= match[0] <= match[1] < 1 << key.width:
        raise ProgramError(f"{where}: {key.name!r}: no range of {key.width} bits: {match[0]:#x} to {match[1]:#x}")


_INTRINSIC_BITS: Final = {
    "ingress_port": 9, "egress_spec": 9, "egress_port": 9, "mcast_grp": 16, "egress_rid": 16, "priority": 8,
    "instance_type": 32, "packet_length": 32, "parser_error": 32, "checksum_error": 32, "ingress_global_timestamp": 64,
    "egress_global_timestamp": 64, "enq_timestamp": 64, "enq_qdepth": 32, "deq_timedelta": 32, "deq_qdepth": 32,
}  # fmt: skip
"""Maximum bits of the fields that the target writes or acts on; its tables of ports and groups set the limits."""

_METER_CELL_BYTES: Final = 80
_COUNTER_CELL_BYTES: Final = 16


def validate(program: model.Program) -> None:
    """Checks a loaded program.

    Raises:
        ProgramError: the program is not p4c's output, or exceeds a limit; the message names the element.
    """
    _check_size(program)
    _check_headers(program)
    _check_intrinsics(program)
    _check_state(program)
    _check_lists(program)
    _check_calculations(program)
    check_tables(program)
    budget = ExpressionBudget()
    _check_parser(program, budget)
    _check_pipelines(program, budget)
    for checksum in program.checksums:
        where = f"checksum {checksum.name!r}"
        _plain(checksum.target, program, where)
        _at_most(checksum.target.width, 64, "bits of the target", where)
        budget.check(checksum.condition, where)


def _at_most(value: int, limit: int, what: str, where: str, least: int = 0) -> None:
    if not least <= value <= limit:
        raise ProgramError(f"{where}: {value} {what}, not {least} to {limit}")


def _plain(field: model.FieldRef, program: model.Program, where: str) -> None:
    """Checks that a field has a fixed width, so that primitives other than whole-field copies may write it."""
    varbit = program.headers[field.header].type.varbit
    if (
        field.name == model.LENGTH_FIELD
        or field.header == model.NEXT_HEADER
        or (varbit is not None and field.name == varbit.name)
    ):
        raise ProgramError(f"{where}: {field} has a variable length or is hidden, and cannot be used here")


def _check_size(program: model.Program) -> None:
    nodes = len(program.headers) + len(program.ingress.nodes) + len(program.egress.nodes)
    nodes += sum(1 + len(s.operations) + len(s.transitions) for s in program.parser.states.values())
    nodes += sum(1 + len(a.primitives) for a in program.actions.values())
    _at_most(nodes, MAX_NODES, "headers, tables, conditions, parser states and primitives", "program")
    for name, code in program.errors.items():
        _at_most(code, MAX_NUMBER, "as its code", f"error {name!r}")


def _check_headers(program: model.Program) -> None:
    total = 0
    for header in program.headers.values():
        where, names = f"header {header.name!r}", set[str]()
        for field in header.type.fields:
            if field.name in names or (field.name == model.LENGTH_FIELD and field.kind != "length"):
                raise ProgramError(f"{where}: more than one field {field.name!r}")
            names.add(field.name)
            _at_most(field.width, MAX_BITS, f"bits of field {field.name!r}", where, 1)
            total += field.width
    _at_most(total, MAX_FIELD_BITS, "bits of all fields together", "headers")
    for name in program.deparser:
        _whole_bytes(program.headers[name], "deparser")
    most = sum(program.headers[name].most_bytes for name in program.deparser)
    _at_most(8 * most, MAX_FIELD_BITS, "bits that it may emit", "deparser")


def _whole_bytes(header: model.Header, where: str) -> None:
    """Refuses headers of other sizes: only metadata, never on the wire, may have them (`load_expressions.py`)."""
    if header.type.bits % 8:
        raise ProgramError(f"{where}: {header.name!r} has {header.type.bits} bits, no whole number of bytes")


def _check_intrinsics(program: model.Program) -> None:
    for name, bits in _INTRINSIC_BITS.items():
        field = program.intrinsic(name)
        if field is not None:
            where = f"{name} ({field})"
            _plain(field, program, where)
            _at_most(field.width, bits, "bits", where, 1)


def _check_state(program: model.Program) -> None:
    total = 0
    for register in program.registers.values():
        where = f"register {register.name!r}"
        _at_most(register.size, MAX_INDEX, "cells", where)
        _at_most(register.width, MAX_BITS, "bits of a cell", where, 1)
        total += register.size * (-(-register.width // 64) * 8 + 64)  # rows are filled to cache lines
    for counter in program.counters.values():
        _at_most(counter.size, MAX_INDEX, "cells", f"counter {counter.name!r}")
        total += counter.size * _COUNTER_CELL_BYTES
    for meter in program.meters.values():
        _at_most(meter.size, MAX_INDEX, "cells", f"meter {meter.name!r}")
        total += meter.size * _METER_CELL_BYTES
    for value_set in program.value_sets.values():
        where = f"value set {value_set.name!r}"
        _at_most(value_set.width, MAX_BITS, "bits", where, 1)
        _at_most(value_set.max_size, MAX_INDEX, "members", where)
        total += value_set.max_size * (-(-value_set.width // 64) * 8)
    _at_most(total, MAX_STATE_BYTES, "bytes of registers, counters, meters and value sets", "program")


def _check_lists(program: model.Program) -> None:
    """Checks field and learn lists: their numbers fit cells of 64 bits, and copies keep plain fields only."""
    for ident, field_list in program.field_lists.items():
        _at_most(ident, MAX_NUMBER, "as its id", "field list")
        for field in field_list.fields:
            _plain(field, program, f"field list {ident}")
    for ident, learn_list in program.learn_lists.items():
        where = f"digest {learn_list.name!r}"
        _at_most(ident, MAX_NUMBER, "as its id", where)
        for element in learn_list.elements:
            _at_most(element.width, MAX_BITS, "bits of an element", where, 1)
            if isinstance(element, model.FieldRef):
                _plain(element, program, where)


def _check_calculations(program: model.Program) -> None:
    selectors = [p.selector for p in program.profiles.values() if p.selector is not None]
    for calculation in (*program.calculations.values(), *selectors):
        where = f"calculation {calculation.name!r}"
        _at_most(sum(_input_bits(calculation, program, where)), MAX_BITS, "bits of inputs", where)


def _input_bits(calculation: model.Calculation, program: model.Program, where: str) -> Iterator[int]:
    for item in calculation.inputs:
        match item:
            case model.ConstInput(width=width):
                _at_most(width, MAX_BITS, "bits of a constant", where, 1)
                yield width
            case model.FieldInput(field):
                if field.name == model.LENGTH_FIELD:
                    raise ProgramError(f"{where}: {field} is hidden")
                yield field.width
            case model.HeaderInput(header):
                yield 8 * program.headers[header].most_bytes


def _check_parser(program: model.Program, budget: ExpressionBudget) -> None:
    for state in program.parser.states.values():
        where = f"parser state {state.name!r}"
        budget.in_parser = True
        for key in state.keys:
            budget.check(key.value if isinstance(key, model.ChosenKey) else key, where)
        for operation in state.operations:
            match operation:
                case model.Extract(header, length):
                    _extracted(program, (header,), where)
                    budget.check(length, where)
                case model.ExtractNext(headers=headers, length=length):
                    _extracted(program, headers, where)
                    budget.check(length, where)
                case model.Set(target, value):
                    _plain(target, program, where)
                    budget.check(value, where)
                case model.Verify(condition, error):
                    budget.check(condition, where)
                    budget.check(error, where)
                case model.Advance(bits):
                    budget.check(bits, where)
                case model.Run(primitive):
                    in_parser(primitive, where)
                    budget.in_parser = False
                    check_primitive(primitive, program, budget, where)
                    budget.in_parser = True
        budget.in_parser = False


def _extracted(program: model.Program, names: Iterable[str], where: str) -> None:
    headers = [program.headers[name] for name in names]
    for header in headers:
        _whole_bytes(header, where)
        if header.type != headers[0].type:
            raise ProgramError(f"{where}: {headers[0].name!r} and {header.name!r} of one stack are of different types")


def _check_pipelines(program: model.Program, budget: ExpressionBudget) -> None:
    for pipeline in (program.ingress, program.egress):
        for node in pipeline.nodes.values():
            if isinstance(node, model.Conditional):
                budget.check(node.condition, f"condition {node.name!r}")
    for action in program.actions.values():
        where = f"action {action.name!r}"
        for parameter in action.parameters:
            _at_most(parameter.width, MAX_BITS, f"bits of parameter {parameter.name!r}", where, 1)
        _at_most(sum(p.width for p in action.parameters), MAX_FIELD_BITS, "bits of all parameters", where)
        for primitive in action.primitives:
            check_primitive(primitive, program, budget, where)
