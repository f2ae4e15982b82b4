"""What every part of the checker shares: names and what they name, the state of a check, types as they are written."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from p4switch.p4.diagnostics import Diagnostics
from p4switch.p4.syntax.tree import (
    Action,
    Alias,
    AnyType,
    Binary,
    Call,
    Cast,
    Composite,
    Constant,
    Declaration,
    Default,
    Enumeration,
    EnumMember,
    Expression,
    Extern,
    Function,
    Index,
    Instance,
    ListOf,
    Member,
    Name,
    NamedType,
    NumericType,
    Package,
    Parameter,
    Program,
    Record,
    Slice,
    StackTypeRef,
    State,
    Table,
    Ternary,
    TupleTypeRef,
    TypeRef,
    Unary,
    ValueSet,
    Variable,
)
from p4switch.p4.types.kinds import (
    INTEGER,
    UNKNOWN,
    WORDS,
    CompositeType,
    DeclaredType,
    Type,
    TypeTable,
    TypeVariable,
    bits,
    is_header,
    is_union,
    varbits,
)

# Whether an expression may be known at compile time though the checker does not know it: constructor parameters.


def may_be_constant(node: Expression, known: dict[Expression, bool]) -> bool:
    """Whether it is made of constants and parameters without direction only; ``known``: of its parts, filled here."""
    found = known.get(node)
    if found is None:
        found = known[node] = _may_be(node, known)
    return found


def _may_be(node: Expression, known: dict[Expression, bool]) -> bool:
    if node.value is not None:
        return True
    match node:
        case Name(target=Parameter(direction="")) | Name(target=Constant()):
            return True
        case Unary(operand=operand) | Cast(operand=operand):
            return may_be_constant(operand, known)
        case Binary(left=left, right=right):
            return may_be_constant(left, known) and may_be_constant(right, known)
        case Ternary(condition=condition, yes=yes, no=no):
            return all(may_be_constant(part, known) for part in (condition, yes, no))
        case Member(base=base) | Slice(base=base) | Index(base=base):
            return may_be_constant(base, known)
        case ListOf(items=items):
            return all(may_be_constant(item, known) for item in items)
        case Record(fields=fields):
            return all(may_be_constant(value, known) for _, value in fields)
        case Call(target=target):
            return target is not None and not isinstance(target, str)
        case Default():
            return True
    return False


# Names and what they name (P4_16 specification, section 6.8).


class Scope:
    """The names of a block, control, parser or program, and the scope around it."""

    def __init__(self, parent: "Scope | None" = None) -> None:
        self.parent = parent
        self.names: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """What a name names here or further out; None if nothing."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def outermost(self) -> "Scope":
        """The scope of the program."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def add(self, name: str, what: Any) -> Any:
        """Adds a name; what it named in this scope before, if that is not an overload of the same function."""
        before = self.names.get(name)
        if isinstance(before, list) and isinstance(what, Function):
            before.append(what)
            return None
        if before is not None:
            return before
        self.names[name] = [what] if isinstance(what, Function) else what
        return None

    def near(self, name: str) -> str:
        """A name like the given one, for a hint; may be empty."""
        known: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            known += [other for other in scope.names if not other.startswith("__")]
            scope = scope.parent
        close = [other for other in known if sorted(other) == sorted(name)][:1]
        close = close or get_close_matches(name, known, 1, 0.7)
        if not close:
            close = [other for other in known if other.lower() == name.lower()][:1]
        return f"Did you mean {close[0]!r}?" if close else ""


def near(name: str, known: Any) -> str:
    """The same among given names; lists them if none is alike and they are few."""
    names = [str(k) for k in known]
    close = get_close_matches(name, names, 1, 0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"There are: {', '.join(names)}." if 0 < len(names) <= 12 else ""


_CALLED = {
    Parameter: "a parameter",
    Variable: "a variable",
    Constant: "a constant",
    Instance: "an instance",
    Action: "an action",
    Table: "a table",
    State: "a state",
    ValueSet: "a value set",
    Composite: "a type",
    Alias: "a type",
    Enumeration: "an enum",
    EnumMember: "a member",
    Extern: "an extern",
    Program: "a parser or control",
    Package: "a package",
    Function: "a function",
    list: "a function",
    TypeVariable: "a type",
}


def what_is(target: Any) -> str:
    """What a name names, in words."""
    if isinstance(target, Program):
        return f"a {target.kind}"
    if isinstance(target, Composite):
        return f"a {target.kind.replace('_', ' ')}"
    return _CALLED.get(type(target), "something else")


class Environment:
    """Where a check stands, which all parts of the checker share.

    Attributes:
        types: every type of the program, once.
        globals: the scope of the program.
        scope: that of what is being checked.
        context: what statements stand in: ``apply``, ``action``, ``state``, ``function`` or nothing.
        program: the parser or control around.
        result: the type that ``return`` gives, in a function.
    """

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.types = TypeTable()
        self.globals = Scope()
        self.scope = self.globals
        self.context = ""
        self.loops = 0
        self.program: Program | None = None
        self.result: Type | None = None
        self.errors: dict[str, EnumMember] = {}
        self.match_kinds: dict[str, EnumMember] = {}

    def error(self, at: int, message: str, hint: str = "") -> None:
        """Something is wrong."""
        self.diagnostics.error(at, message, hint)

    @contextmanager
    def inner_scope(self) -> Iterator[Scope]:
        """A scope within the present one."""
        outer, self.scope = self.scope, Scope(self.scope)
        try:
            yield self.scope
        finally:
            self.scope = outer

    def declare(self, declaration: Declaration) -> None:
        """Makes a name known in the present scope."""
        before = self.scope.add(declaration.name, declaration)
        if before is not None:
            first = before[0] if isinstance(before, list) else before
            self.error(
                declaration.at,
                f"{declaration.name!r} is declared twice; it is {what_is(first)} already",
                "Give one of the two another name.",
            )


class Part:
    """A part of the checker."""

    def __init__(self, env: Environment) -> None:
        self.env = env

    def error(self, at: int, message: str, hint: str = "") -> None:
        """Something is wrong."""
        self.env.error(at, message, hint)


# From types as they are written to types.


WIDEST = 2048
WIDEST_VARBIT = 1 << 16
"""Bits of the widest field that p4c's back end for BMv2 takes."""
LARGEST_STACK = 4096


class TypeResolver(Part):
    """Resolves types.

    ``constant`` gives the compile-time number of an expression; None, and an error that begins with its second
    argument, if it has none.
    """

    def __init__(self, env: Environment, constant: Callable[[Expression, str], int | None]) -> None:
        super().__init__(env)
        self._constant = constant

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
                return self.env.types.tuple_of(tuple(self.resolve(e) for e in ref.elements))
            case AnyType():
                return UNKNOWN
        return UNKNOWN

    def _numeric(self, ref: NumericType) -> Type:
        if ref.width is None:
            return INTEGER if ref.kind == "int" else bits(1)
        width = self._constant(ref.width, f"the width of '{ref.kind}<…>'")
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
        target = (self.env.globals if ref.rooted else self.env.scope).find(ref.name)
        if target is None:
            hint = self.env.scope.near(ref.name)
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
        return self.env.types.substitute(kind, dict(zip(wanted, arguments, strict=True)))

    def _stack(self, ref: StackTypeRef) -> Type:
        element = self.resolve(ref.element)
        size = self._constant(ref.size, "the size of a stack")
        if element is UNKNOWN or size is None:
            return UNKNOWN
        if not (isinstance(element, CompositeType) and (is_header(element) or is_union(element))):
            hint = "A stack is made of headers or header unions; for numbers take a register, or several fields."
            self.error(ref.at, f"there is no stack of {element}", hint)
            return UNKNOWN
        if not 0 < size <= LARGEST_STACK:
            self.error(ref.size.at, f"a stack has 1 to {LARGEST_STACK} elements, not {size}")
            return UNKNOWN
        return self.env.types.stack(element, size)


def describes_instance(kind: Type) -> bool:
    """Whether objects of the type are instances, which no variable holds."""
    return isinstance(kind, DeclaredType) and kind.kind in ("extern", "parser", "control", "package")
