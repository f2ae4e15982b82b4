"""From types as they are written to types."""

from typing import Any

from p4reduce.frontend.syntax.declarations import Alias, Composite, Enumeration, Extern, Package, Program
from p4reduce.frontend.syntax.tree import (
    AnyType,
    Expression,
    NamedType,
    NumericType,
    StackTypeRef,
    TupleTypeRef,
    TypeRef,
)
from p4reduce.frontend.types.base import CheckerBase, what_is
from p4reduce.frontend.types.kinds import (
    INTEGER,
    UNKNOWN,
    WORDS,
    CompositeType,
    DeclaredType,
    Type,
    TypeVariable,
    bits,
    is_header,
    is_union,
    varbits,
)

WIDEST = 2048
WIDEST_VARBIT = 1 << 16
"""Bits of the widest field that p4c's back end for BMv2 takes."""
LARGEST_STACK = 4096


class TypeResolver(CheckerBase):
    """Resolves types."""

    def constant(self, expression: Expression, what: str) -> int | None:
        """The compile-time number of an expression; None, and an error, if it has none."""
        raise NotImplementedError

    def resolve(self, ref: TypeRef) -> Type:
        """The type that is written there; UNKNOWN, and an error, if there is none."""
        match ref:
            case NumericType():
                return self._numeric(ref)
            case NamedType():
                return self._named(ref)
            case StackTypeRef():
                return self._stack(ref)
            case TupleTypeRef():
                return self.types.tuple_of(tuple(self.resolve(e) for e in ref.elements))
            case AnyType():
                return UNKNOWN
        return UNKNOWN

    def _numeric(self, ref: NumericType) -> Type:
        if ref.width is None:
            return INTEGER if ref.kind == "int" else bits(1)
        width = self.constant(ref.width, f"the width of '{ref.kind}<…>'")
        if width is None:
            return UNKNOWN
        if width < 0 or (width == 0 and ref.kind == "int"):
            self.error(ref.at, f"{ref.kind}<{width}>: a width is at least {int(ref.kind == 'int')}")
            return UNKNOWN
        if width > WIDEST and ref.kind != "varbit":
            self.error(
                ref.at,
                f"{ref.kind}<{width}> is too wide: the target takes at most {WIDEST} bits",
                "Use several fields.",
            )
            return UNKNOWN
        if width > WIDEST_VARBIT:
            self.error(ref.at, f"varbit<{width}> is too wide: the target takes at most {WIDEST_VARBIT} bits")
            return UNKNOWN
        return varbits(width) if ref.kind == "varbit" else bits(width, ref.kind == "int")

    def _named(self, ref: NamedType) -> Type:
        if ref.name in WORDS:
            return WORDS[ref.name]
        target = (self.globals if ref.rooted else self.scope).find(ref.name)
        if target is None:
            hint = self.scope.near(ref.name)
            self.error(ref.at, f"there is no type {ref.name!r}", hint or "Declare it above its first use.")
            return UNKNOWN
        arguments = tuple(self.resolve(a) for a in ref.arguments)
        found = self.type_of_target(target, arguments, ref)
        if found is None:
            self.error(ref.at, f"{ref.name!r} is {what_is(target)}, not a type")
            return UNKNOWN
        return found

    def type_of_target(self, target: Any, arguments: tuple[Type, ...], ref: TypeRef) -> Type | None:
        """The type that a declaration declares, with arguments; None if it declares none."""
        match target:
            case TypeVariable():
                return target
            case Composite() | Alias() | Enumeration():
                kind: Type = target.type or UNKNOWN
                wanted = getattr(kind, "arguments", ()) if isinstance(target, Composite) else ()
            case Extern() | Program() | Package():
                kind = target.type or UNKNOWN
                wanted = tuple(target.type_variables)
            case _:
                return None
        if not wanted and not arguments:
            return kind
        if not arguments:
            # A generic type without arguments: they follow from what it is used for.
            return kind
        if len(wanted) != len(arguments):
            self.error(ref.at, f"{target.name!r} takes {len(wanted)} type arguments, not {len(arguments)}")
            return UNKNOWN
        return self.types.substitute(kind, dict(zip(wanted, arguments, strict=True)))

    def _stack(self, ref: StackTypeRef) -> Type:
        element = self.resolve(ref.element)
        size = self.constant(ref.size, "the size of a stack")
        if element is UNKNOWN or size is None:
            return UNKNOWN
        if not (isinstance(element, CompositeType) and (is_header(element) or is_union(element))):
            hint = "A stack is made of headers or header unions; for numbers take a register, or several fields."
            self.error(ref.at, f"there is no stack of {element}", hint)
            return UNKNOWN
        if not 0 < size <= LARGEST_STACK:
            self.error(ref.size.at, f"a stack has 1 to {LARGEST_STACK} elements, not {size}")
            return UNKNOWN
        return self.types.stack(element, size)

    def describes_instance(self, kind: Type) -> bool:
        """Whether objects of the type are instances, which no variable holds."""
        return isinstance(kind, DeclaredType) and kind.kind in ("extern", "parser", "control", "package")
