"""The types of P4_16 (specification, section 7). Equal types are one object, so they are compared by ``is``."""

from __future__ import annotations

import operator as op
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar, cast

from p4switch.p4.syntax.tree import Program


@dataclass(frozen=True, eq=False)
class Type:
    """A type."""

    def __str__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, eq=False)
class Named(Type):
    """A type with a name, possibly with arguments."""

    name: str

    def __str__(self) -> str:
        arguments = getattr(self, "arguments", ())
        return self.name if not arguments else f"{self.name}<{', '.join(map(str, arguments))}>"


@dataclass(frozen=True, eq=False)
class Basic(Named):
    """A type without parts: bool, string, void, error, match_kind, and the integers without a width (``int``)."""


@dataclass(frozen=True, eq=False)
class Bits(Type):
    """``bit<width>``, or ``int<width>`` if ``signed``."""

    width: int
    signed: bool

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"

    def wrap(self, number: int) -> int:
        """Returns a number modulo ``2**width``, in the range of the type."""
        number &= (1 << self.width) - 1
        return number - (1 << self.width) if self.signed and self.width and number >> (self.width - 1) else number


@dataclass(frozen=True, eq=False)
class Varbits(Type):
    """``varbit<width>``."""

    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True, eq=False)
class EnumType(Named):
    """An enum; ``base`` is the type of its representation, None without one."""

    declaration: Any
    base: Bits | None
    members: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class NewType(Named):
    """``type base name``."""

    declaration: Any
    base: Type


@dataclass(frozen=True, eq=False)
class CompositeType(Named):
    """A header, struct or header_union (``kind``); ``arguments``: type arguments of a generic type."""

    kind: str
    declaration: Any
    fields: Mapping[str, Type]
    arguments: tuple[Type, ...] = ()


@dataclass(frozen=True, eq=False)
class StackType(Type):
    """``element[size]``: a stack of headers or unions."""

    element: CompositeType
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True, eq=False)
class TupleType(Type):
    """``tuple<…>``, also the type of a list of expressions."""

    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


@dataclass(frozen=True, eq=False)
class RecordType(Type):
    """The type of ``{a = 1}`` until the expected type is known."""

    fields: Mapping[str, Type]

    def __str__(self) -> str:
        return "{" + ", ".join(f"{name}: {kind}" for name, kind in self.fields.items()) + "}"


@dataclass(frozen=True, eq=False)
class SetType(Type):
    """A set of keys: a mask, a range, a value set."""

    element: Type

    def __str__(self) -> str:
        return f"set of {self.element}"


@dataclass(frozen=True, eq=False)
class TypeVariable(Named):
    """A type parameter."""


@dataclass(frozen=True, eq=False)
class DeclaredType(Named):
    """An extern, parser, control, package, table, action or function with its type arguments."""

    kind: str
    declaration: Any
    arguments: tuple[Type, ...] = ()


@dataclass(frozen=True, eq=False)
class ApplyResult(Type):
    """The type of ``table.apply()``, with ``hit``, ``miss`` and ``action_run``."""

    table: Any

    def __str__(self) -> str:
        return f"the result of {self.table.name}.apply()"


@dataclass(frozen=True, eq=False)
class ActionRun(Type):
    """The type of ``table.apply().action_run``."""

    table: Any

    def __str__(self) -> str:
        return f"the action that {self.table.name} ran"


BOOL: Final = Basic("bool")
STRING: Final = Basic("string")
VOID: Final = Basic("void")
ERROR: Final = Basic("error")
MATCH_KIND: Final = Basic("match_kind")
INTEGER: Final = Basic("int")
UNKNOWN: Final = Basic("?")
"""The type of erroneous expressions; no further errors are reported about them."""
ANYTHING: Final = Basic("_")
"""The type of ``default``, ``_`` and ``...``."""
NO_HEADER: Final = Basic("{#}")

Substitution: TypeAlias = Mapping[Type, Type]

WORDS: Final[Mapping[str, Type]] = {t.name: t for t in (BOOL, STRING, VOID, ERROR, MATCH_KIND)}

_bits: dict[tuple[int, bool], Bits] = {}
_varbits: dict[int, Varbits] = {}


def bits(width: int, signed: bool = False) -> Bits:
    """Returns ``bit<width>`` or ``int<width>``."""
    number_type = _bits.get((width, signed))
    if number_type is None:
        number_type = _bits[width, signed] = Bits(width, signed)
    return number_type


def varbits(width: int) -> Varbits:
    """Returns ``varbit<width>``."""
    return _varbits.setdefault(width, Varbits(width))


def variables(names: Iterable[str]) -> list[TypeVariable]:
    """Returns type parameters with these names."""
    return [TypeVariable(name) for name in names]


T = TypeVar("T", bound=Type)


@dataclass
class TypeTable:
    """The composed types of one program, each as one object."""

    _made: dict[tuple[Any, ...], Type] = field(default_factory=dict)

    def tuple_of(self, elements: tuple[Type, ...]) -> TupleType:
        """Returns ``tuple<elements>``."""
        return self._find(("tuple", elements), lambda: TupleType(elements))

    def stack(self, element: CompositeType, size: int) -> StackType:
        """Returns ``element[size]``."""
        return self._find(("stack", element, size), lambda: StackType(element, size))

    def set(self, element: Type) -> SetType:
        """Returns the type of sets of keys of a type."""
        return self._find(("set", element), lambda: SetType(element))

    def declared(self, kind: str, declaration: Any, arguments: tuple[Type, ...] = ()) -> DeclaredType:
        """Returns the type of a declaration with its arguments."""
        key = ("declared", declaration, arguments)
        return self._find(key, lambda: DeclaredType(declaration.name, kind, declaration, arguments))

    def composite(self, declaration: Any, arguments: tuple[Type, ...], fields: Mapping[str, Type]) -> CompositeType:
        """Returns a header, struct or union with its arguments."""
        key = ("composite", declaration, arguments)
        kind = declaration.kind
        return self._find(key, lambda: CompositeType(declaration.name, kind, declaration, fields, arguments))

    def _find(self, key: Any, make: Callable[[], T]) -> T:
        kind = self._made.get(key)
        if kind is None:
            kind = self._made[key] = make()
        return cast(T, kind)

    def substitute(self, kind: Type, by: Substitution) -> Type:
        """Returns a type with its type variables replaced."""
        if not by:
            return kind
        match kind:
            case TypeVariable():
                return by.get(kind, kind)
            case TupleType(elements):
                return self.tuple_of(tuple(self.substitute(e, by) for e in elements))
            case SetType(element):
                return self.set(self.substitute(element, by))
            case StackType(element, size):
                inner = self.substitute(element, by)
                return self.stack(inner, size) if isinstance(inner, CompositeType) else kind
            case CompositeType() if kind.arguments:
                arguments = tuple(self.substitute(a, by) for a in kind.arguments)
                if all(a is b for a, b in zip(arguments, kind.arguments, strict=True)):
                    return kind
                fields = {name: self.substitute(t, by) for name, t in kind.fields.items()}
                return self.composite(kind.declaration, arguments, fields)
            case DeclaredType() if kind.arguments:
                arguments = tuple(self.substitute(a, by) for a in kind.arguments)
                return self.declared(kind.kind, kind.declaration, arguments)
        return kind


def plain(kind: Type) -> Type:
    """Returns the type behind the names that ``type`` declarations gave it."""
    while isinstance(kind, NewType):
        kind = kind.base
    return kind


def width_of(kind: Type) -> int | None:
    """Returns the width of a type in bits (of a varbit or union the greatest); None if it has none."""
    match kind:
        case Bits(width) | Varbits(width):
            return width
        case EnumType(base=Bits(width)):
            return width
        case NewType(base=base):
            return width_of(base)
        case CompositeType(kind="header_union", fields=fields):
            return max((width_of(f) or 0 for f in fields.values()), default=0)
        case CompositeType(fields=fields):
            return _total(list(fields.values()))
        case TupleType(elements):
            return _total(list(elements))
        case StackType(element, size):
            inner = width_of(element)
            return None if inner is None else inner * size
    return 1 if kind is BOOL else None


def _total(kinds: list[Type]) -> int | None:
    widths = [width_of(kind) for kind in kinds]
    return None if None in widths else sum(w for w in widths if w is not None)


def is_header(kind: Type) -> bool:
    """Returns whether a type is a header."""
    return isinstance(kind, CompositeType) and kind.kind == "header"


def is_union(kind: Type) -> bool:
    """Returns whether a type is a header union."""
    return isinstance(kind, CompositeType) and kind.kind == "header_union"


def is_struct(kind: Type) -> bool:
    """Returns whether a type is a struct."""
    return isinstance(kind, CompositeType) and kind.kind == "struct"


# Explicit casts (P4_16 specification, section 8.11).


def why_no_cast(source: Type, target: Type) -> str | None:
    """Returns a hint (may be empty) if a type cannot be cast to another; None if it can."""
    if source is target:
        return None
    if isinstance(source, NewType) or isinstance(target, NewType):
        inner = source.base if isinstance(source, NewType) else source
        outer = target.base if isinstance(target, NewType) else target
        if inner is outer or inner is INTEGER or (isinstance(plain(inner), Bits) and plain(inner) is plain(outer)):
            return None
        return f"Cast to {outer} first." if isinstance(target, NewType) else f"Cast to {inner} first."
    if isinstance(source, EnumType):
        source = source.base or source
    if isinstance(target, EnumType):
        target = target.base or target
    if source is target:
        return None
    if isinstance(source, Bits) and isinstance(target, Bits):
        if source.signed == target.signed or source.width == target.width:
            return None
        return f"Change sign and width one after the other: ({target})(bit<{target.width}>) …"
    if source is INTEGER and (isinstance(target, Bits) or target is INTEGER):
        return None
    if source is BOOL and isinstance(target, Bits):
        return None if target.width == 1 and not target.signed else "Cast to bit<1> first."
    if target is BOOL and (source is INTEGER or isinstance(source, Bits)):
        castable = source is INTEGER or (isinstance(source, Bits) and source.width == 1 and not source.signed)
        return None if castable else "Compare it instead: x != 0."
    if isinstance(source, Bits) and target is INTEGER:
        return "Only numbers known at compile time are of the type int; keep a width."
    return ""


# Compile-time values: results of operators with known operands (P4_16 specification, sections 8 and 18.1).
#
# A value is an int (in the range of its type), a bool, a string, a member of an enum or of ``error``, or, for a
# struct or list, a tuple of values.


MOST_BITS = 1 << 20
"""Largest number of bits of a number without a width; otherwise a few lines could exhaust the memory."""


_TRUTHS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "&&": lambda left, right: left and right, "||": lambda left, right: left or right,
    "==": op.eq, "!=": op.ne, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge,
}  # fmt: skip
_SIMPLE: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": op.add, "|+|": op.add, "-": op.sub, "|-|": op.sub, "&": op.and_, "|": op.or_, "^": op.xor
}  # fmt: skip


def unary(operator: str, operand: Any, kind: Type) -> Any:
    """Returns the value of ``operator operand``, of type ``kind``."""
    if operator == "!":
        return not operand
    number = {"-": -operand, "~": ~operand, "+": operand}[operator]
    return kind.wrap(number) if isinstance(kind, Bits) else number


def binary(operator: str, left: Any, right: Any, left_type: Type, kind: Type) -> Any:
    """Returns the value of ``left operator right``, of type ``kind``; None if there is none (a division by zero)."""
    if operator in _TRUTHS:
        return _TRUTHS[operator](left, right)
    number = _arithmetic(operator, left, right, left_type, kind)
    if number is None:
        return None
    if isinstance(kind, Bits):
        return saturate(number, kind) if operator in ("|+|", "|-|") else kind.wrap(number)
    return number


def _arithmetic(operator: str, left: int, right: int, left_type: Type, kind: Type) -> int | None:
    match operator:
        case "*":
            return None if too_large(operator, left, right) else left * right
        case "/":
            return None if right == 0 else abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        case "%":
            return None if right == 0 else abs(left) % abs(right) * (-1 if left < 0 else 1)
        case "<<":
            if isinstance(kind, Bits) and right >= kind.width:
                return 0
            return None if right < 0 or too_large(operator, left, right) else left << right
        case ">>":
            return left >> right if right >= 0 else None
        case "++" if isinstance(kind, Bits) and isinstance(left_type, Bits):
            low = kind.width - left_type.width
            return (left << low) | (right & ((1 << low) - 1))
    simple = _SIMPLE.get(operator)
    return None if simple is None else simple(left, right)


def too_large(operator: str, left: int, right: int) -> bool:
    """Returns whether a product or a left shift has more bits than a number may have."""
    more = {"*": right.bit_length(), "<<": right}.get(operator)
    return more is not None and bool(left) and left.bit_length() + more > MOST_BITS


def saturate(number: int, kind: Bits) -> int:
    """Returns a number limited to the range of its type."""
    if kind.signed:
        return max(-(1 << (kind.width - 1)), min(number, (1 << (kind.width - 1)) - 1))
    return max(0, min(number, (1 << kind.width) - 1))


def convert(value: Any, source: Type, target: Type) -> Any:
    """Returns a value cast from one type to another; None if the cast does not apply to the value."""
    if isinstance(target, Bits):
        if isinstance(value, bool):
            return int(value)
        return target.wrap(value) if isinstance(value, int) else None
    if target is BOOL:
        return bool(value) if isinstance(value, bool | int) else None
    if target is INTEGER:
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    return value


# Type inference from arguments (P4_16 specification, section 6.7 and appendix on type inference).


class Unifier:
    """Infers the types of type variables.

    Attributes:
        found: the types inferred so far, by variable.
    """

    def __init__(self, types: TypeTable, variables: Sequence[TypeVariable]) -> None:
        self.types = types
        self.variables = frozenset(variables)
        self.found: dict[Type, Type] = {}

    def unify(self, wanted: Type, given: Type) -> bool:
        """Binds variables so that ``wanted`` equals ``given``; returns whether that is possible."""
        if wanted is given or UNKNOWN in (wanted, given):
            return True
        if isinstance(wanted, TypeVariable) and wanted in self.variables:
            return self._bind(wanted, given)
        if given is INTEGER:
            return True  # whether a number fits is checked when it is converted
        match wanted, given:
            case TupleType(), TupleType():
                return self._all(wanted.elements, given.elements)
            case CompositeType(), TupleType() if wanted.kind in ("struct", "header"):
                return self._all(tuple(wanted.fields.values()), given.elements)
            case CompositeType(), RecordType():
                return all(self.unify(t, given.fields[n]) for n, t in wanted.fields.items() if n in given.fields)
            case CompositeType(), CompositeType() if wanted.declaration is given.declaration:
                return self._all(wanted.arguments, given.arguments)
            case StackType(), StackType():
                return wanted.size == given.size and self.unify(wanted.element, given.element)
            case SetType(), SetType():
                return self.unify(wanted.element, given.element)
            case DeclaredType(), DeclaredType() if wanted.declaration is given.declaration:
                return self._all(wanted.arguments, given.arguments)
            case DeclaredType(), DeclaredType() if isinstance(wanted.declaration, Program):
                return self._program(wanted, given)
            case _, EnumType(base=base) if base is wanted:
                return True
        return False

    def _bind(self, variable: TypeVariable, given: Type) -> bool:
        known = self.found.get(variable)
        if known is None or (known is INTEGER and given is not INTEGER):
            self.found[variable] = given
            return True
        if known is given or given is INTEGER:
            return True
        if isinstance(known, TupleType | CompositeType | RecordType) and isinstance(given, TupleType | CompositeType):
            if isinstance(known, TupleType) and isinstance(given, CompositeType):
                self.found[variable] = given
            return True
        return isinstance(given, EnumType) and given.base is known

    def _all(self, wanted: Sequence[Type], given: Sequence[Type]) -> bool:
        return len(wanted) == len(given) and all(self.unify(w, g) for w, g in zip(wanted, given, strict=True))

    def _program(self, wanted: DeclaredType, given: DeclaredType) -> bool:
        """Unifies a parser or control with its type, parameter by parameter."""
        if wanted.kind != given.kind or not isinstance(given.declaration, Program):
            return False
        of_type, of_program = wanted.declaration.parameters, given.declaration.parameters
        if len(of_type) != len(of_program):
            return False
        own = dict(zip(wanted.declaration.type_variables, wanted.arguments, strict=False))
        for left, right in zip(of_type, of_program, strict=True):
            kind = self.types.substitute(left.type, own)
            if left.direction != right.direction or not self.unify(kind, right.type):
                return False
        return True

    def apply(self, kind: Type) -> Type:
        """Returns a type with its variables replaced by the inferred types."""
        return self.types.substitute(kind, self.found)
