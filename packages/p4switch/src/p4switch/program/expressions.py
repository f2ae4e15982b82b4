"""Expressions: data are unbounded integers, as in BMv2, and are cut to a width only when they are stored.

A ``DataExpr`` yields an int, a ``BoolExpr`` a bool. No expression has a side effect, so the order of evaluation does
not matter. Every node is hashable; equal nodes are equal expressions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from p4switch.program.errors import Json, ProgramError, UnsupportedConstruct, each, get, pair, source_of

ArithOp: TypeAlias = Literal["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^"]
CompareOp: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
LogicOp: TypeAlias = Literal["and", "or", "==", "!="]
CastOp: TypeAlias = Literal["two_comp_mod", "usat_cast", "sat_cast"]


@dataclass(frozen=True, slots=True)
class Const:
    """An integer constant, possibly negative."""

    value: int


@dataclass(frozen=True, slots=True)
class FieldRef:
    """The value of a field; also the target of an assignment.

    Storing ``v`` leaves ``v mod 2**width``, which reads as two's complement if ``signed``.
    """

    header: str
    name: str
    width: int
    signed: bool = False

    def __str__(self) -> str:
        """``header.name``."""
        return f"{self.header}.{self.name}"


@dataclass(frozen=True, slots=True)
class Valid:
    """A header's validity as the number 0 or 1 (the field ``$valid$``)."""

    header: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the enclosing action, unsigned, given by the table entry."""

    index: int
    width: int


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Bits of the packet ahead of the extracted bytes (parser only); offset and width in bits."""

    offset: int
    width: int


@dataclass(frozen=True, slots=True)
class Arith:
    """``left op right`` on unbounded integers; ``>>`` is floor division by a power of two."""

    op: ArithOp
    left: "DataExpr"
    right: "DataExpr"


@dataclass(frozen=True, slots=True)
class Invert:
    """``~operand``, that is ``-operand - 1``."""

    operand: "DataExpr"


@dataclass(frozen=True, slots=True)
class Cast:
    """``two_comp_mod``: wrap to int<width>; ``usat_cast``, ``sat_cast``: saturate to bit<width>, int<width>."""

    op: CastOp
    operand: "DataExpr"
    width: int


@dataclass(frozen=True, slots=True)
class ToData:
    """A bool as 0 or 1 (``b2d``)."""

    operand: "BoolExpr"


@dataclass(frozen=True, slots=True)
class Select:
    """``condition ? then : otherwise`` on data."""

    condition: "BoolExpr"
    then: "DataExpr"
    otherwise: "DataExpr"


@dataclass(frozen=True, slots=True)
class BoolConst:
    """true or false."""

    value: bool


@dataclass(frozen=True, slots=True)
class ToBool:
    """``operand != 0`` (``d2b``)."""

    operand: "DataExpr"


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of data."""

    op: CompareOp
    left: "DataExpr"
    right: "DataExpr"


@dataclass(frozen=True, slots=True)
class Logic:
    """``and``, ``or``, ``==``, ``!=`` of bools."""

    op: LogicOp
    left: "BoolExpr"
    right: "BoolExpr"


@dataclass(frozen=True, slots=True)
class Not:
    """Negation of a bool."""

    operand: "BoolExpr"


@dataclass(frozen=True, slots=True)
class BoolSelect:
    """``condition ? then : otherwise`` on bools."""

    condition: "BoolExpr"
    then: "BoolExpr"
    otherwise: "BoolExpr"


@dataclass(frozen=True, slots=True)
class HeaderEqual:
    """Whether both headers are valid and all fields agree (two invalid headers differ, as in BMv2)."""

    left: str
    right: str


DataExpr: TypeAlias = Const | FieldRef | Valid | Parameter | Lookahead | Arith | Invert | Cast | ToData | Select
BoolExpr: TypeAlias = BoolConst | ToBool | Compare | Logic | Not | BoolSelect | HeaderEqual
Expr: TypeAlias = DataExpr | BoolExpr


def is_bool(expr: Expr) -> bool:
    """Returns whether an expression yields a bool rather than data."""
    return isinstance(expr, BoolConst | ToBool | Compare | Logic | Not | BoolSelect | HeaderEqual)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Returns the direct operands of an expression."""
    match expr:
        case Arith(left=a, right=b) | Compare(left=a, right=b):
            return (a, b)
        case Logic(left=p, right=q):
            return (p, q)
        case Invert(operand=x) | Cast(operand=x) | ToBool(operand=x):
            return (x,)
        case ToData(operand=p) | Not(operand=p):
            return (p,)
        case Select(condition=c, then=a, otherwise=b):
            return (c, a, b)
        case BoolSelect(condition=c, then=p, otherwise=q):
            return (c, p, q)
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """Yields the distinct nodes of an expression, the expression itself first."""
    seen = {expr}
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        for child in children(node):
            if child not in seen:
                seen.add(child)
                stack.append(child)


# Header types and instances.


FieldKind: TypeAlias = Literal["fixed", "varbit", "length"]

LENGTH_FIELD: Final = "$length$"
"""Name of the hidden field with the length in bits of a header's varbit field."""

LENGTH_WIDTH: Final = 32
"""Bits of that hidden field."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a header type.

    Attributes:
        width: bits.
        kind: ``varbit`` for a field of variable length, whose ``width`` is the longest, ``length`` for the hidden
            field that holds a varbit field's length in bits.
        signed: ``int<width>``: reads give two's complement values.
        offset: bits from the start of the header, most significant bit first.
    """

    name: str
    width: int
    signed: bool
    offset: int
    kind: FieldKind = "fixed"

    @property
    def on_wire(self) -> int:
        """Bits that the field always takes in a packet; offsets of later fields count a ``varbit`` as 0."""
        return self.width if self.kind == "fixed" else 0


@dataclass(frozen=True)
class HeaderType:
    """A header or struct type; fields in the order of declaration.

    A ``varbit`` field comes with a field LENGTH_FIELD (at the end) that holds its present length in bits. Its value is
    the number with its bits, which is below ``2**length``.
    """

    name: str
    fields: tuple[Field, ...]

    @cached_property
    def bits(self) -> int:
        """Sum of the fields' widths, without a varbit field's."""
        return sum(f.on_wire for f in self.fields)

    @cached_property
    def varbit(self) -> Field | None:
        """The field of variable length, or None; ``width`` is its greatest length."""
        return next((f for f in self.fields if f.kind == "varbit"), None)

    @cached_property
    def wire_fields(self) -> tuple[Field, ...]:
        """The fields that a packet holds: all except LENGTH_FIELD."""
        return tuple(f for f in self.fields if f.kind != "length")

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """Fields by name."""
        return {f.name: f for f in self.fields}


@dataclass(frozen=True)
class Header:
    """An instance of a header type.

    Attributes:
        metadata: a struct that is always valid and never on the wire.
        siblings: the other headers of its header union, which become invalid when this one becomes valid.
    """

    name: str
    type: HeaderType = field(repr=False)
    metadata: bool
    siblings: tuple[str, ...] = ()

    def ref(self, field: Field) -> FieldRef:
        """Returns a reference to a field of this header."""
        return FieldRef(self.name, field.name, field.width, field.signed)

    @cached_property
    def refs(self) -> tuple[FieldRef, ...]:
        """References to all fields, in the order of declaration."""
        return tuple(map(self.ref, self.type.fields))

    @property
    def bytes(self) -> int:
        """Bytes on the wire, without a varbit field; a header's bits are a multiple of 8."""
        return self.type.bits // 8

    @property
    def most_bytes(self) -> int:
        """Bytes on the wire with a varbit field of its greatest length."""
        varbit = self.type.varbit
        return (self.type.bits + (0 if varbit is None else varbit.width)) // 8


# Header stacks, header unions and stacks of unions: P4's names for several headers.
#
# They have no storage of their own. A stack consists of its element headers and a hidden metadata field, the number of
# the next free element; the valid header of a union is found by testing its members. So executors handle headers
# only.


NEXT_HEADER: Final = "$next$"
"""Hidden metadata with a field for each stack: the index of its first free element; the size if it is full."""

NEXT_WIDTH: Final = 32


@dataclass(frozen=True, slots=True)
class Union:
    """A header union: header instances by member name."""

    name: str
    members: Mapping[str, str]

    @property
    def headers(self) -> tuple[str, ...]:
        """The instances in the order of declaration."""
        return tuple(self.members.values())


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack of headers, or of unions.

    Attributes:
        elements: the headers of each element: one in a header stack, all members in a stack of unions.
        unions: names of the unions, empty in a header stack.
        next: the index of the first free element.
    """

    name: str
    elements: tuple[tuple[str, ...], ...]
    unions: tuple[str, ...] = ()

    @property
    def next(self) -> FieldRef:
        """The index of the first free element."""
        return FieldRef(NEXT_HEADER, ("union " if self.unions else "") + self.name, NEXT_WIDTH)

    @property
    def size(self) -> int:
        """Number of elements."""
        return len(self.elements)


@dataclass(frozen=True, slots=True)
class HeaderGroups:
    """All header groups of a program, by name."""

    stacks: dict[str, Stack] = field(default_factory=dict)
    unions: dict[str, Union] = field(default_factory=dict)
    union_stacks: dict[str, Stack] = field(default_factory=dict)

    def find(self, kind: str, name: object, where: str) -> Any:
        """Returns a stack, union or union stack by its JSON type and name. Raises ProgramError."""
        tables: dict[str, Mapping[str, Stack | Union]] = {
            "header_stack": self.stacks, "stack": self.stacks, "header_union": self.unions,
            "header_union_stack": self.union_stacks, "union_stack": self.union_stacks,
        }  # fmt: skip
        known = tables[kind]
        if not isinstance(name, str) or name not in known:
            raise ProgramError(f"{where}: unknown {kind} {name!r}")
        return known[name]


def load_groups(root: Json, names: Mapping[int, str]) -> HeaderGroups:
    """Returns the groups of a program; ``names`` are the header instances by id."""
    types = {name: obj for name, _, obj in each(root, "header_union_types", "")}
    groups = HeaderGroups()
    unions_by_id: dict[int, Union] = {}
    for name, where, obj in each(root, "header_unions", "header union"):
        kind = get(obj, "union_type", str, where)
        if kind not in types:
            raise ProgramError(f"{where}: unknown union type {kind!r}")
        labels = [str(pair(item, where)[0]) for item in get(types[kind], "headers", list, where)]
        union = Union(name, dict(zip(labels, _named(obj, "header_ids", names, where), strict=True)))
        groups.unions[name] = unions_by_id[get(obj, "id", int, where)] = union
    for name, where, obj in each(root, "header_stacks", "header stack"):
        headers = tuple((header,) for header in _named(obj, "header_ids", names, where))
        groups.stacks[name] = _checked(Stack(name, headers), obj)
    for name, where, obj in each(root, "header_union_stacks", "header union stack"):
        members = _named(obj, "header_union_ids", {ident: u.name for ident, u in unions_by_id.items()}, where)
        elements = tuple(groups.unions[member].headers for member in members)
        groups.union_stacks[name] = _checked(Stack(name, elements, tuple(members)), obj)
    return groups


def next_header(groups: HeaderGroups) -> Header:
    """Returns the hidden metadata that hold ``next`` of each stack."""
    stacks = [*groups.stacks.values(), *groups.union_stacks.values()]
    fields = tuple(Field(s.next.name, NEXT_WIDTH, False, NEXT_WIDTH * i) for i, s in enumerate(stacks))
    return Header(NEXT_HEADER, HeaderType(NEXT_HEADER, fields), metadata=True)


def _named(obj: Json, key: str, names: Mapping[int, str], where: str) -> list[str]:
    ids = get(obj, key, list, where)
    for ident in ids:
        if ident not in names:
            raise ProgramError(f"{where}: {key} names {ident!r}, which is not declared")
    return [names[ident] for ident in ids]


def _checked(stack: Stack, obj: Json) -> Stack:
    if not stack.elements:
        raise UnsupportedConstruct("header stack without elements", f"{stack.name!r}", source_of(obj))
    return stack


# Operands that are neither numbers nor bools: headers, unions and stacks, possibly chosen at run time.
#
# They are never part of a finished expression. A choice becomes a chain of ``?`` over the fields of every header that
# it may yield. For an index out of range, where BMv2 terminates (std::out_of_range), such a read gives 0 and no header
# is valid.


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of headers or unions by name: the first whose condition holds, else ``otherwise``.

    Attributes:
        kind: whether the names are headers or unions.
        otherwise: the name if no condition holds; None if an index may be out of range.
    """

    kind: Literal["header", "union"]
    cases: tuple[tuple[BoolExpr, str], ...]
    otherwise: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """All names that may be chosen."""
        return tuple(name for _, name in self.cases) + (() if self.otherwise is None else (self.otherwise,))

    @property
    def conditions(self) -> tuple[tuple[BoolExpr, str], ...]:
        """All cases, the last one with a condition that always holds."""
        return self.cases if self.otherwise is None else (*self.cases, (BoolConst(True), self.otherwise))

    def header_of(self, member: Callable[[str], str]) -> "Choice":
        """Returns the choice, by the same conditions, of one header of each union."""
        cases = tuple((condition, member(name)) for condition, name in self.cases)
        return Choice("header", cases, None if self.otherwise is None else member(self.otherwise))

    def data(self, value: Callable[[str], DataExpr]) -> DataExpr:
        """Returns the value of ``value`` for the chosen name; 0 if no name is chosen."""
        result: DataExpr = Const(0) if self.otherwise is None else value(self.otherwise)
        for condition, name in reversed(self.cases):
            result = Select(condition, value(name), result)
        return result

    def truth(self, value: Callable[[str], BoolExpr]) -> BoolExpr:
        """Returns the truth of ``value`` for the chosen name; false if no name is chosen."""
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
    """Returns a choice of one known header or union."""
    return Choice(kind, (), name)


def either(condition: BoolExpr, left: Choice, right: Choice) -> Choice:
    """Returns the choice ``condition ? left : right``."""
    taken: list[tuple[BoolExpr, str]] = [(Logic("and", condition, c), name) for c, name in left.cases]
    if left.otherwise is not None:
        taken.append((condition, left.otherwise))
    return Choice(right.kind, (*taken, *right.cases), right.otherwise)


def element(stack: Stack, index: DataExpr) -> Choice:
    """Returns the element of a stack at an index."""
    names = stack.unions or tuple(headers[0] for headers in stack.elements)
    kind: Literal["header", "union"] = "union" if stack.unions else "header"
    if isinstance(index, Const):
        return Choice(kind, (), names[index.value] if 0 <= index.value < len(names) else None)
    return Choice(kind, tuple((Compare("==", index, Const(i)), name) for i, name in enumerate(names)), None)


def last_element(stack: Stack, header: int = 0) -> Choice:
    """Returns a stack's last element, before ``next`` (of a union, member number ``header``); none if it is empty."""
    cases = tuple((Compare("==", stack.next, Const(i + 1)), names[header]) for i, names in enumerate(stack.elements))
    return Choice("header", cases, None)


def last_index(stack: Stack) -> DataExpr:
    """Returns ``lastIndex``; for an empty stack 2**64 - 1, which is -1 as BMv2's size_t."""
    return Arith("&", Arith("-", stack.next, Const(1)), Const((1 << 64) - 1))


def field_of(choice: Choice, headers: dict[str, Header], name: str) -> DataExpr:
    """Returns a field of a header that is chosen at run time."""
    return choice.data(lambda header: headers[header].ref(headers[header].type.by_name[name]))


def is_valid(choice: Choice, groups: HeaderGroups) -> BoolExpr:
    """Returns ``isValid()``; for a union, whether any member is valid."""
    if choice.kind == "header":
        return choice.truth(lambda name: ToBool(Valid(name)))
    return choice.truth(lambda name: _any(ToBool(Valid(header)) for header in groups.unions[name].headers))


def equal(left: Choice, right: Choice, groups: HeaderGroups) -> BoolExpr:
    """Returns ``left == right``; for unions, whether the same member is valid in both and its fields are equal."""
    if left.kind == "header":
        return left.truth(lambda header: right.truth(lambda other: HeaderEqual(header, other)))
    return left.truth(
        lambda union: right.truth(lambda other: _unions_equal(groups.unions[union], groups.unions[other]))
    )


def unequal(left: Choice, right: Choice, groups: HeaderGroups) -> BoolExpr:
    """Returns ``left != right``."""
    return Not(equal(left, right, groups))


def _any(conditions: Iterable[BoolExpr]) -> BoolExpr:
    result: BoolExpr = BoolConst(False)
    for condition in reversed(list(conditions)):
        result = Logic("or", condition, result)
    return result


def _unions_equal(union: Union, other: Union) -> BoolExpr:
    return _any(HeaderEqual(left, right) for left, right in zip(union.headers, other.headers, strict=True))
