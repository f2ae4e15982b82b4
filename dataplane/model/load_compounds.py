"""Primitives on stacks and unions, and ones whose header or field is chosen at run time, as primitives on headers."""

from collections.abc import Callable
from itertools import product

from p4reduce.dataplane.model.actions import Assign, AssignHeader, MoveHeaders, OneOf, Primitive, Several
from p4reduce.dataplane.model.errors import ProgramError, SourceInfo, UnsupportedConstruct
from p4reduce.dataplane.model.expressions import (
    Arith,
    BoolConst,
    BoolExpr,
    Compare,
    Const,
    FieldRef,
    Logic,
    Select,
)
from p4reduce.dataplane.model.groups import Stack
from p4reduce.dataplane.model.headers import LENGTH_FIELD, LENGTH_WIDTH
from p4reduce.dataplane.model.load_expressions import ExpressionLoader
from p4reduce.dataplane.model.load_headers import Scope


def one_of(cases: list[tuple[BoolExpr, Primitive]], source: SourceInfo | None) -> Primitive:
    """The first primitive whose condition holds."""
    if len(cases) == 1 and cases[0][0] == BoolConst(True):
        return cases[0][1]
    return OneOf(tuple(cases), source)


def with_target(expressions: ExpressionLoader, value: object, make: Callable[[FieldRef], Primitive]) -> Primitive:
    """A primitive that writes a field, which may be chosen at run time."""
    return one_of([(condition, make(target)) for condition, target in expressions.target(value)], expressions.source)


def with_header(expressions: ExpressionLoader, value: object, make: Callable[[str], Primitive]) -> Primitive:
    """A primitive on one header, which may be chosen at run time."""
    choice = expressions.header(value)
    return one_of([(condition, make(name)) for condition, name in choice.conditions], expressions.source)


def assign_header(expressions: ExpressionLoader, target: object, origin: object) -> Primitive:
    """``assign_header``."""
    scope, source = expressions.scope, expressions.source
    pairs = product(expressions.header(target).conditions, expressions.header(origin).conditions)
    return one_of(
        [(_both(p, q), _copy(scope, to, of, expressions.where, source)) for (p, to), (q, of) in pairs], source
    )


def assign_union(expressions: ExpressionLoader, target: object, origin: object) -> Primitive:
    """``assign_union``: the members one after the other."""
    source = expressions.source
    pairs = product(expressions.union(target).conditions, expressions.union(origin).conditions)
    cases = [(_both(p, q), _copy_union(expressions, to, of)) for (p, to), (q, of) in pairs]
    return one_of(cases, source)


def assign_stack(expressions: ExpressionLoader, name: str, target: object, origin: object) -> Primitive:
    """``assign_header_stack`` and ``assign_union_stack``: ``next`` and all elements."""
    to, of = expressions.stack(target), expressions.stack(origin)
    if to.size != of.size or bool(to.unions) != bool(of.unions):
        raise ProgramError(f"{expressions.where}: {to.name!r} and {of.name!r} are of different types")
    steps: list[Primitive] = [Assign(to.next, of.next, expressions.source)]
    for ours, theirs in zip(to.elements, of.elements, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            steps.append(_copy(expressions.scope, one, other, expressions.where, expressions.source))
    return Several(name, tuple(steps), expressions.source)


def assign_varbit(expressions: ExpressionLoader, target: object, origin: object) -> Primitive:
    """``assign_VL``: the bits and their number."""
    pairs = product(expressions.target(target), expressions.target(origin))
    return one_of([(_both(p, q), _copy_varbit(expressions, to, of)) for (p, to), (q, of) in pairs], expressions.source)


def _copy_varbit(expressions: ExpressionLoader, to: FieldRef, of: FieldRef) -> Primitive:
    length = Assign(_length(expressions, to), _length(expressions, of), expressions.source)
    return Several("assign_VL", (Assign(to, of, expressions.source), length), expressions.source)


def push(expressions: ExpressionLoader, stack_value: object, count_value: object) -> Primitive:
    """``push_front``: everything moves towards the end, what comes in at the front is invalid."""
    stack, count = expressions.stack(stack_value), _count(expressions, count_value)
    origins = list(range(stack.size))
    for i in range(stack.size - 1, count - 1, -1):
        origins[i], origins[i - count] = origins[i - count], origins[i]
    further: Arith = Arith("+", stack.next, Const(count))
    full = Select(Compare(">", further, Const(stack.size)), Const(stack.size), further)
    return _shift(expressions, "push", stack, origins, range(min(count, stack.size)), Assign(stack.next, full))


def pop(expressions: ExpressionLoader, stack_value: object, count_value: object) -> Primitive:
    """``pop_front``: everything moves towards the front, what is left at the end is invalid."""
    stack, count = expressions.stack(stack_value), _count(expressions, count_value)
    origins = list(range(stack.size))
    kept = max(stack.size - count, 0)
    for i in range(kept):
        origins[i], origins[i + count] = origins[i + count], origins[i]
    less = Select(Compare("<", stack.next, Const(count)), Const(0), Arith("-", stack.next, Const(count)))
    return _shift(expressions, "pop", stack, origins, range(kept, stack.size), Assign(stack.next, less))


def _shift(
    expressions: ExpressionLoader, name: str, stack: Stack, origins: list[int], cleared: range, step: Assign
) -> Primitive:
    if origins == list(range(stack.size)) and not cleared:
        return Several(name, (step,), expressions.source)
    headers = [header for element in stack.elements for header in element]
    moved = [header for i in origins for header in stack.elements[i]]
    # BMv2 does not invalidate the unions that it should (HeaderUnion::mark_invalid does nothing).
    invalid = () if stack.unions else tuple(stack.elements[i][0] for i in cleared)
    return Several(name, (MoveHeaders(tuple(headers), tuple(moved), invalid), step), expressions.source)


def _count(expressions: ExpressionLoader, value: object) -> int:
    count = expressions.data(value)
    if not isinstance(count, Const) or count.value < 0:
        raise UnsupportedConstruct(
            "shift of a stack by a number that is no constant", expressions.where, expressions.source
        )
    return count.value


def _both(left: BoolExpr, right: BoolExpr) -> BoolExpr:
    if left == BoolConst(True):
        return right
    return left if right == BoolConst(True) else Logic("and", left, right)


def _copy(scope: Scope, target: str, origin: str, where: str, source: SourceInfo | None) -> Primitive:
    if scope.headers[target].type.name != scope.headers[origin].type.name:
        raise ProgramError(f"{where}: {target!r} and {origin!r} are of different types")
    return AssignHeader(target, origin, source)


def _copy_union(expressions: ExpressionLoader, target: str, origin: str) -> Primitive:
    unions = expressions.scope.groups.unions
    pairs = zip(unions[target].headers, unions[origin].headers, strict=True)
    steps = tuple(_copy(expressions.scope, to, of, expressions.where, expressions.source) for to, of in pairs)
    return Several("assign_union", steps, expressions.source)


def _length(expressions: ExpressionLoader, field: FieldRef) -> FieldRef:
    kind = expressions.scope.headers[field.header].type
    if kind.varbit is None or kind.varbit.name != field.name:
        raise ProgramError(f"{expressions.where}: {field} is no variable-length field")
    return FieldRef(field.header, LENGTH_FIELD, LENGTH_WIDTH)
