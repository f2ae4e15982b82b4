"""What an expression may name besides numbers and bools: headers, unions and stacks, also ones chosen at run time.

They never are part of a finished expression. A choice becomes a chain of ``?`` over the fields of every header that it
may yield. Where an index is out of range BMv2 ends (std::out_of_range): here such a read gives 0, and nothing is valid.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from p4reduce.dataplane.model.expressions import (
    Arith,
    BoolConst,
    BoolExpr,
    BoolSelect,
    Compare,
    Const,
    DataExpr,
    FieldRef,
    HeaderEqual,
    Logic,
    Not,
    Select,
    ToBool,
    Valid,
)
from p4reduce.dataplane.model.groups import HeaderGroups, Stack, Union
from p4reduce.dataplane.model.headers import Header


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several headers or unions, by name: that of the first condition that holds, else the last one.

    Attributes:
        kind: what the names name.
        otherwise: None where no condition holds for an index out of range.
    """

    kind: Literal["header", "union"]
    cases: tuple[tuple[BoolExpr, str], ...]
    otherwise: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """All that it may be."""
        return tuple(name for _, name in self.cases) + (() if self.otherwise is None else (self.otherwise,))

    @property
    def conditions(self) -> tuple[tuple[BoolExpr, str], ...]:
        """The cases with the last one's condition, which always holds."""
        return self.cases if self.otherwise is None else (*self.cases, (BoolConst(True), self.otherwise))

    def header_of(self, member: Callable[[str], str]) -> "Choice":
        """The choice by the same conditions among headers, one of each union."""
        cases = tuple((condition, member(name)) for condition, name in self.cases)
        return Choice("header", cases, None if self.otherwise is None else member(self.otherwise))

    def data(self, value: Callable[[str], DataExpr]) -> DataExpr:
        """What ``value`` gives for the one that is chosen; 0 for none."""
        result: DataExpr = Const(0) if self.otherwise is None else value(self.otherwise)
        for condition, name in reversed(self.cases):
            result = Select(condition, value(name), result)
        return result

    def truth(self, value: Callable[[str], BoolExpr]) -> BoolExpr:
        """Alike for bools; false for none."""
        result: BoolExpr = BoolConst(False) if self.otherwise is None else value(self.otherwise)
        for condition, name in reversed(self.cases):
            result = BoolSelect(condition, value(name), result)
        return result


@dataclass(frozen=True, slots=True)
class StackName:
    """A stack of headers or unions."""

    stack: Stack


Named = Choice | StackName


def named(kind: Literal["header", "union"], name: str) -> Choice:
    """A header or union that is known."""
    return Choice(kind, (), name)


def either(condition: BoolExpr, left: Choice, right: Choice) -> Choice:
    """``condition ? left : right``."""
    taken: list[tuple[BoolExpr, str]] = [(Logic("and", condition, c), name) for c, name in left.cases]
    if left.otherwise is not None:
        taken.append((condition, left.otherwise))
    return Choice(right.kind, (*taken, *right.cases), right.otherwise)


def element(stack: Stack, index: DataExpr) -> Choice:
    """The element of a stack at an index."""
    names = stack.unions or tuple(headers[0] for headers in stack.elements)
    kind: Literal["header", "union"] = "union" if stack.unions else "header"
    if isinstance(index, Const):
        return Choice(kind, (), names[index.value] if 0 <= index.value < len(names) else None)
    return Choice(kind, tuple((Compare("==", index, Const(i)), name) for i, name in enumerate(names)), None)


def last_element(stack: Stack, header: int = 0) -> Choice:
    """The element before ``next``, and of a union the member with that number. None in an empty stack."""
    cases = tuple((Compare("==", stack.next, Const(i + 1)), names[header]) for i, names in enumerate(stack.elements))
    return Choice("header", cases, None)


def last_index(stack: Stack) -> DataExpr:
    """``lastIndex``; of an empty stack 2**64 - 1, the -1 that a size_t holds in BMv2."""
    return Arith("&", Arith("-", stack.next, Const(1)), Const((1 << 64) - 1))


def field_of(choice: Choice, headers: dict[str, Header], name: str) -> DataExpr:
    """A field of a header that is chosen at run time."""

    def value(header: str) -> DataExpr:
        field = headers[header].type.by_name[name]
        return FieldRef(header, name, field.width, field.signed)

    return choice.data(value)


def is_valid(choice: Choice, groups: HeaderGroups) -> BoolExpr:
    """``isValid()``: of a union, whether any member is."""
    if choice.kind == "header":
        return choice.truth(lambda name: ToBool(Valid(name)))
    return choice.truth(lambda name: _any_valid(groups.unions[name]))


def equal(left: Choice, right: Choice, groups: HeaderGroups) -> BoolExpr:
    """``left == right``: of unions, whether the same member is valid in both, with the same fields."""
    if left.kind == "header":
        return left.truth(lambda one: right.truth(lambda other: HeaderEqual(one, other)))
    return left.truth(lambda one: right.truth(lambda other: _unions_equal(groups.unions[one], groups.unions[other])))


def unequal(left: Choice, right: Choice, groups: HeaderGroups) -> BoolExpr:
    """``left != right``."""
    return Not(equal(left, right, groups))


def _any_valid(union: Union) -> BoolExpr:
    result: BoolExpr = BoolConst(False)
    for header in reversed(union.headers):
        result = Logic("or", ToBool(Valid(header)), result)
    return result


def _unions_equal(one: Union, other: Union) -> BoolExpr:
    result: BoolExpr = BoolConst(False)
    for left, right in reversed(list(zip(one.headers, other.headers, strict=True))):
        result = Logic("or", HeaderEqual(left, right), result)
    return result
