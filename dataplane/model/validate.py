"""What a program must hold so that every packet stays within its memory and its time.

p4c's output always does; a JSON file made by hand may not. Executors rely on what is checked here and check nothing
again: the compiler makes machine code that would read and write out of bounds.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from p4reduce.dataplane.model.control import Conditional
from p4reduce.dataplane.model.errors import ProgramError
from p4reduce.dataplane.model.expressions import FieldRef
from p4reduce.dataplane.model.externs import Calculation, ConstInput, FieldInput, HeaderInput
from p4reduce.dataplane.model.groups import NEXT_HEADER
from p4reduce.dataplane.model.headers import LENGTH_FIELD, Header
from p4reduce.dataplane.model.limits import (
    MAX_BITS,
    MAX_FIELD_BITS,
    MAX_INDEX,
    MAX_NODES,
    MAX_NUMBER,
    MAX_STATE_BYTES,
)
from p4reduce.dataplane.model.parser import Advance, ChosenKey, Extract, ExtractNext, Run, Set, Verify
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.model.validate_expressions import ExpressionBudget
from p4reduce.dataplane.model.validate_primitives import check_primitive, in_parser
from p4reduce.dataplane.model.validate_tables import check_tables

_INTRINSIC_BITS: Final = {
    "ingress_port": 9,
    "egress_spec": 9,
    "egress_port": 9,
    "mcast_grp": 16,
    "egress_rid": 16,
    "priority": 8,
    "instance_type": 32,
    "packet_length": 32,
    "parser_error": 32,
    "checksum_error": 32,
    "ingress_global_timestamp": 64,
    "egress_global_timestamp": 64,
    "enq_timestamp": 64,
    "enq_qdepth": 32,
    "deq_timedelta": 32,
    "deq_qdepth": 32,
}
"""Most bits of the fields that the target writes or acts on; its tables of ports and groups have such a size."""

_METER_CELL_BYTES: Final = 80
_COUNTER_CELL_BYTES: Final = 16


def validate(program: Program) -> None:
    """Checks a program that was loaded.

    Raises:
        ProgramError: it is not what p4c writes, or asks for too much; names the element.
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


def _plain(field: FieldRef, program: Program, where: str) -> None:
    """A field of its own, with one width: not one that only whole-field copies and extraction may change."""
    varbit = program.headers[field.header].type.varbit
    if field.name == LENGTH_FIELD or field.header == NEXT_HEADER or (varbit is not None and field.name == varbit.name):
        raise ProgramError(f"{where}: {field} has a variable length or is hidden, and cannot be used here")


def _check_size(program: Program) -> None:
    nodes = len(program.headers) + len(program.ingress.nodes) + len(program.egress.nodes)
    nodes += sum(1 + len(s.operations) + len(s.transitions) for s in program.parser.states.values())
    nodes += sum(1 + len(a.primitives) for a in program.actions.values())
    _at_most(nodes, MAX_NODES, "headers, tables, conditions, parser states and primitives", "program")
    for name, code in program.errors.items():
        _at_most(code, MAX_NUMBER, "as its code", f"error {name!r}")


def _check_headers(program: Program) -> None:
    total = 0
    for header in program.headers.values():
        where, names = f"header {header.name!r}", set[str]()
        for field in header.type.fields:
            if field.name in names or (field.name == LENGTH_FIELD and field.kind != "length"):
                raise ProgramError(f"{where}: more than one field {field.name!r}")
            names.add(field.name)
            _at_most(field.width, MAX_BITS, f"bits of field {field.name!r}", where, 1)
            total += field.width
    _at_most(total, MAX_FIELD_BITS, "bits of all fields together", "headers")
    for name in program.deparser:
        _whole_bytes(program.headers[name], "deparser")
    most = sum(program.headers[name].most_bytes for name in program.deparser)
    _at_most(8 * most, MAX_FIELD_BITS, "bits that it may emit", "deparser")


def _whole_bytes(header: Header, where: str) -> None:
    """Only metadata may have other sizes (load_headers.py), and metadata are never on the wire."""
    if header.type.bits % 8:
        raise ProgramError(f"{where}: {header.name!r} has {header.type.bits} bits, no whole number of bytes")


def _check_intrinsics(program: Program) -> None:
    for name, bits in _INTRINSIC_BITS.items():
        field = program.intrinsic(name)
        if field is not None:
            where = f"{name} ({field})"
            _plain(field, program, where)
            _at_most(field.width, bits, "bits", where, 1)


def _check_state(program: Program) -> None:
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


def _check_lists(program: Program) -> None:
    """Numbers of lists travel in cells of 64 bits; copies keep plain fields only."""
    for ident, field_list in program.field_lists.items():
        _at_most(ident, MAX_NUMBER, "as its id", "field list")
        for field in field_list.fields:
            _plain(field, program, f"field list {ident}")
    for ident, learn_list in program.learn_lists.items():
        where = f"digest {learn_list.name!r}"
        _at_most(ident, MAX_NUMBER, "as its id", where)
        for element in learn_list.elements:
            _at_most(element.width, MAX_BITS, "bits of an element", where, 1)
            if isinstance(element, FieldRef):
                _plain(element, program, where)


def _check_calculations(program: Program) -> None:
    selectors = [p.selector for p in program.profiles.values() if p.selector is not None]
    for calculation in (*program.calculations.values(), *selectors):
        where = f"calculation {calculation.name!r}"
        _at_most(sum(_input_bits(calculation, program, where)), MAX_BITS, "bits of inputs", where)


def _input_bits(calculation: Calculation, program: Program, where: str) -> Iterator[int]:
    for item in calculation.inputs:
        match item:
            case ConstInput(width=width):
                _at_most(width, MAX_BITS, "bits of a constant", where, 1)
                yield width
            case FieldInput(field):
                if field.name == LENGTH_FIELD:
                    raise ProgramError(f"{where}: {field} is hidden")
                yield field.width
            case HeaderInput(header):
                yield 8 * program.headers[header].most_bytes


def _check_parser(program: Program, budget: ExpressionBudget) -> None:
    for state in program.parser.states.values():
        where = f"parser state {state.name!r}"
        budget.in_parser = True
        for key in state.keys:
            budget.check(key.value if isinstance(key, ChosenKey) else key, where)
        for operation in state.operations:
            match operation:
                case Extract(header, length):
                    _extracted(program, (header,), where)
                    budget.check(length, where)
                case ExtractNext(headers=headers, length=length):
                    _extracted(program, headers, where)
                    budget.check(length, where)
                case Set(target, value):
                    _plain(target, program, where)
                    budget.check(value, where)
                case Verify(condition, error):
                    budget.check(condition, where)
                    budget.check(error, where)
                case Advance(bits):
                    budget.check(bits, where)
                case Run(primitive):
                    in_parser(primitive, where)
                    budget.in_parser = False
                    check_primitive(primitive, program, budget, where)
                    budget.in_parser = True
        budget.in_parser = False


def _extracted(program: Program, names: Iterable[str], where: str) -> None:
    headers = [program.headers[name] for name in names]
    for header in headers:
        _whole_bytes(header, where)
        if header.type != headers[0].type:
            raise ProgramError(f"{where}: {headers[0].name!r} and {header.name!r} of one stack are of different types")


def _check_pipelines(program: Program, budget: ExpressionBudget) -> None:
    for pipeline in (program.ingress, program.egress):
        for node in pipeline.nodes.values():
            if isinstance(node, Conditional):
                budget.check(node.condition, f"condition {node.name!r}")
    for action in program.actions.values():
        where = f"action {action.name!r}"
        for parameter in action.parameters:
            _at_most(parameter.width, MAX_BITS, f"bits of parameter {parameter.name!r}", where, 1)
        _at_most(sum(p.width for p in action.parameters), MAX_FIELD_BITS, "bits of all parameters", where)
        for primitive in action.primitives:
            check_primitive(primitive, program, budget, where)
