"""The types of P4_16 (specification, section 7). Equal types are one object, so ``is`` compares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar, cast


@dataclass(frozen=True, eq=False)
class Type:
    """A type."""

    def __str__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, eq=False)
class Basic(Type):
    """A type without parts: bool, string, void, error, match_kind, and the integers of no width (``int``)."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Bits(Type):
    """``bit<width>``, or ``int<width>`` where ``signed``."""

    width: int
    signed: bool

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"

    def wrap(self, number: int) -> int:
        """A number cut to the width."""
        number &= (1 << self.width) - 1
        return number - (1 << self.width) if self.signed and self.width and number >> (self.width - 1) else number


@dataclass(frozen=True, eq=False)
class Varbits(Type):
    """``varbit<width>``."""

    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True, eq=False)
class EnumType(Type):
    """An enum; ``base`` is its representation if it has one."""

    name: str
    declaration: Any
    base: Bits | None
    members: Mapping[str, Any]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class NewType(Type):
    """``type base name``."""

    name: str
    declaration: Any
    base: Type

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class CompositeType(Type):
    """A header, struct or header_union (``kind``); ``arguments``: of a generic one."""

    name: str
    kind: str
    declaration: Any
    fields: Mapping[str, Type]
    arguments: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return self.name if not self.arguments else f"{self.name}<{', '.join(map(str, self.arguments))}>"


@dataclass(frozen=True, eq=False)
class StackType(Type):
    """``element[size]``: a stack of headers or unions."""

    element: CompositeType
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True, eq=False)
class TupleType(Type):
    """``tuple<…>``, also what a list of expressions is."""

    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


@dataclass(frozen=True, eq=False)
class RecordType(Type):
    """What ``{a = 1}`` is until it is known what it is for."""

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
class TypeVariable(Type):
    """A type parameter."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class DeclaredType(Type):
    """An extern, parser, control, package, table, action or function with its type arguments."""

    kind: str
    name: str
    declaration: Any
    arguments: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return self.name if not self.arguments else f"{self.name}<{', '.join(map(str, self.arguments))}>"


@dataclass(frozen=True, eq=False)
class ApplyResult(Type):
    """What ``table.apply()`` gives: ``hit``, ``miss`` and ``action_run``."""

    table: Any

    def __str__(self) -> str:
        return f"the result of {self.table.name}.apply()"


@dataclass(frozen=True, eq=False)
class ActionRun(Type):
    """``table.apply().action_run``."""

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
"""The type of what is wrong; nothing further is said about it."""
ANYTHING: Final = Basic("_")
"""The type of ``default``, ``_`` and ``...``."""
NO_HEADER: Final = Basic("{#}")

Substitution: TypeAlias = Mapping[Type, Type]

WORDS: Final[Mapping[str, Type]] = {t.name: t for t in (BOOL, STRING, VOID, ERROR, MATCH_KIND)}

_bits: dict[tuple[int, bool], Bits] = {}
_varbits: dict[int, Varbits] = {}


def bits(width: int, signed: bool = False) -> Bits:
    """``bit<width>`` or ``int<width>``."""
    found = _bits.get((width, signed))
    if found is None:
        found = _bits[width, signed] = Bits(width, signed)
    return found


def varbits(width: int) -> Varbits:
    """``varbit<width>``."""
    return _varbits.setdefault(width, Varbits(width))


T = TypeVar("T", bound=Type)


@dataclass
class TypeTable:
    """The types of one program that are made of others."""

    _made: dict[tuple[Any, ...], Type] = field(default_factory=dict)

    def tuple_of(self, elements: tuple[Type, ...]) -> TupleType:
        """``tuple<elements>``."""
        return self._find(("tuple", elements), lambda: TupleType(elements))

    def stack(self, element: CompositeType, size: int) -> StackType:
        """``element[size]``."""
        return self._find(("stack", element, size), lambda: StackType(element, size))

    def set(self, element: Type) -> SetType:
        """A set of keys of that type."""
        return self._find(("set", element), lambda: SetType(element))

    def declared(self, kind: str, declaration: Any, arguments: tuple[Type, ...] = ()) -> DeclaredType:
        """The type of a declaration with its arguments."""
        key = ("declared", declaration, arguments)
        return self._find(key, lambda: DeclaredType(kind, declaration.name, declaration, arguments))

    def composite(self, declaration: Any, arguments: tuple[Type, ...], fields: Mapping[str, Type]) -> CompositeType:
        """A header, struct or union with its arguments."""
        key = ("composite", declaration, arguments)
        kind = declaration.kind
        return self._find(key, lambda: CompositeType(declaration.name, kind, declaration, fields, arguments))

    def _find(self, key: Any, make: Callable[[], T]) -> T:
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
        return cast(T, found)

    def substitute(self, kind: Type, by: Substitution) -> Type:
        """A type with its variables replaced."""
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
    """A type without the names that ``type`` gave it, and of an enum with a representation that."""
    while isinstance(kind, NewType):
        kind = kind.base
    return kind


def width_of(kind: Type) -> int | None:
    """Bits of a type, the greatest number for a varbit; None for what has none."""
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
    """Whether it is a header."""
    return isinstance(kind, CompositeType) and kind.kind == "header"


def is_union(kind: Type) -> bool:
    """Whether it is a header union."""
    return isinstance(kind, CompositeType) and kind.kind == "header_union"


def is_struct(kind: Type) -> bool:
    """Whether it is a struct."""
    return isinstance(kind, CompositeType) and kind.kind == "struct"
