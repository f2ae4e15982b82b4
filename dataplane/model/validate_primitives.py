"""What primitives may write, and which ones may stand where."""

from collections.abc import Iterator

from p4reduce.dataplane.model.actions import (
    Assertion,
    Assign,
    AssignHeader,
    Count,
    Exit,
    Hash,
    Jump,
    JumpIfZero,
    LogMessage,
    MoveHeaders,
    OneOf,
    Primitive,
    Random,
    RegisterRead,
    RegisterWrite,
    Several,
)
from p4reduce.dataplane.model.errors import ProgramError
from p4reduce.dataplane.model.expressions import Expr, FieldRef
from p4reduce.dataplane.model.groups import NEXT_HEADER
from p4reduce.dataplane.model.headers import LENGTH_FIELD
from p4reduce.dataplane.model.packet_path import Clone, ExecuteMeter, Truncate
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.model.validate_expressions import ExpressionBudget


def in_parser(primitive: Primitive, where: str) -> None:
    """Refuses what has no meaning in a parser state. Raises ProgramError."""
    if isinstance(primitive, Jump | JumpIfZero | Exit):
        raise ProgramError(f"{where}: {type(primitive).__name__} in the parser")


def check_primitive(primitive: Primitive, program: Program, budget: ExpressionBudget, where: str) -> None:
    """One primitive and those that it consists of. Raises ProgramError."""
    for expr in _expressions(primitive):
        budget.check(expr, where)
    match primitive:
        case Several(name="assign_VL", primitives=(Assign(target=target, value=FieldRef() as origin), _)):
            if target.width < origin.width:
                raise ProgramError(f"{where}: {target} of at most {target.width} bits cannot hold {origin}")
        case Several(primitives=steps):
            # Loaded from one primitive of the JSON: only these may write what is hidden.
            for step in steps:
                for expr in _expressions(step):
                    budget.check(expr, where)
                _check_copies(step, program, where)
        case OneOf(cases=cases):
            for _, step in cases:
                check_primitive(step, program, budget, where)
        case (
            Assign(target=target)
            | RegisterRead(target=target)
            | Hash(target=target)
            | Random(target=target)
            | ExecuteMeter(target=target)
        ):
            _check_target(target, program, where)
            _check_extern(primitive, program, where)
        case _:
            _check_copies(primitive, program, where)
            _check_extern(primitive, program, where)


def _check_target(target: FieldRef, program: Program, where: str) -> None:
    varbit = program.headers[target.header].type.varbit
    if target.name == LENGTH_FIELD or target.header == NEXT_HEADER:
        raise ProgramError(f"{where}: {target} is hidden and cannot be assigned to")
    if varbit is not None and target.name == varbit.name:
        raise ProgramError(f"{where}: {target} has a variable length: only 'assign_VL' may write it")


def _check_copies(primitive: Primitive, program: Program, where: str) -> None:
    pairs: list[tuple[str, str]] = []
    if isinstance(primitive, AssignHeader):
        pairs = [(primitive.target, primitive.origin)]
    elif isinstance(primitive, MoveHeaders):
        pairs = list(zip(primitive.targets, primitive.origins, strict=True))
    for target, origin in pairs:
        to, of = program.headers[target], program.headers[origin]
        if to.type != of.type or to.metadata != of.metadata:
            raise ProgramError(f"{where}: {target!r} and {origin!r} are of different types")
        if isinstance(primitive, MoveHeaders) and to.metadata:
            raise ProgramError(f"{where}: {target!r} is metadata in a header stack")


def _check_extern(primitive: Primitive, program: Program, where: str) -> None:
    match primitive:
        case Count(counter=name) if program.counters[name].table is not None:
            raise ProgramError(f"{where}: counter {name!r} is a table's direct counter")
        case ExecuteMeter(meter=name, target=target):
            if program.meters[name].table is not None:
                raise ProgramError(f"{where}: meter {name!r} is a table's direct meter")
            if target.width > 64:
                raise ProgramError(f"{where}: {target} has {target.width} bits, too many for a color")
        case _:
            pass


def _expressions(primitive: Primitive) -> Iterator[Expr]:
    match primitive:
        case Assign(value=value):
            yield value
        case Count(index=index) | RegisterRead(index=index) | ExecuteMeter(index=index):
            yield index
        case RegisterWrite(index=index, value=value):
            yield index
            yield value
        case Hash(base=base, size=size):
            yield base
            yield size
        case Random(low=low, high=high):
            yield low
            yield high
        case JumpIfZero(condition=condition):
            yield condition
        case LogMessage(arguments=arguments):
            yield from arguments
        case Assertion(condition=holds):
            yield holds
        case Clone(session=session):
            yield session
        case Truncate(length=length):
            yield length
        case OneOf(cases=cases):
            yield from (condition for condition, _ in cases)
        case _:
            pass
