"""Common parts of the checker: scopes, the state of a check, and the resolution of written types."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from p4switch.p4.diagnostics import Diagnostics
from p4switch.p4.syntax import tree
from p4switch.p4.types import kinds

# Expressions whose value is known at compile time, but only after constructor parameters are.


def may_be_constant(node: tree.Expression, known: dict[tree.Expression, bool]) -> bool:
    """Returns whether all leaves of an expression are constants or parameters without direction; ``known``: a cache."""
    answer = known.get(node)
    if answer is None:
        answer = known[node] = _may_be(node, known)
    return answer


def _may_be(node: tree.Expression, known: dict[tree.Expression, bool]) -> bool:
    if node.value is not None:
        return True
    match node:
        case tree.Name(target=tree.Parameter(direction="")) | tree.Name(target=tree.Constant()):
            return True
        case tree.Unary(operand=operand) | tree.Cast(operand=operand):
            return may_be_constant(operand, known)
        case tree.Binary(left=left, right=right):
            return may_be_constant(left, known) and may_be_constant(right, known)
        case tree.Ternary(condition=condition, yes=yes, no=no):
            return all(may_be_constant(part, known) for part in (condition, yes, no))
        case tree.Member(base=base) | tree.Slice(base=base) | tree.Index(base=base):
            return may_be_constant(base, known)
        case tree.ListOf(items=items):
            return all(may_be_constant(item, known) for item in items)
        case tree.Record(fields=fields):
            return all(may_be_constant(value, known) for _, value in fields)
        case tree.Call(target=target):
            return target is not None and not isinstance(target, str)
        case tree.Default():
            return True
    return False


# Scopes of names (P4_16 specification, section 6.8).


class Scope:
    """The names of a block, control, parser or program, with the enclosing scope."""

    def __init__(self, parent: "Scope | None" = None) -> None:
        self.parent = parent
        self.names: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """Returns what a name denotes in this or an enclosing scope; None if nothing."""
        scope: Scope | None = self
        while scope is not None:
            declared = scope.names.get(name)
            if declared is not None:
                return declared
            scope = scope.parent
        return None

    def add(self, name: str, what: Any) -> Any:
        """Adds a name; returns what it denotes in this scope already, None if nothing or if both are functions."""
        before = self.names.get(name)
        if isinstance(before, list) and isinstance(what, tree.Function):
            before.append(what)
            return None
        if before is not None:
            return before
        self.names[name] = [what] if isinstance(what, tree.Function) else what
        return None

    def near(self, name: str) -> str:
        """Returns a hint that suggests a similar name; empty if there is none."""
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
    """Returns a hint: a similar name of the known names, or all of them if they are few; may be empty."""
    names = [str(k) for k in known]
    close = get_close_matches(name, names, 1, 0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"There are: {', '.join(names)}." if 0 < len(names) <= 12 else ""


_CALLED = {
    tree.Parameter: "a parameter", tree.Variable: "a variable", tree.Constant: "a constant",
    tree.Instance: "an instance", tree.Action: "an action", tree.Table: "a table", tree.State: "a state",
    tree.ValueSet: "a value set", tree.Composite: "a type", tree.Alias: "a type", tree.Enumeration: "an enum",
    tree.EnumMember: "a member", tree.Extern: "an extern", tree.Program: "a parser or control",
    tree.Package: "a package", tree.Function: "a function", list: "a function", kinds.TypeVariable: "a type",
}  # fmt: skip


def what_is(target: Any) -> str:
    """Returns a description of the object that a name denotes, such as "a table"."""
    if isinstance(target, tree.Program):
        return f"a {target.kind}"
    if isinstance(target, tree.Composite):
        return f"a {target.kind.replace('_', ' ')}"
    return _CALLED.get(type(target), "something else")


class CheckerState:
    """The state of a check, which all parts of the checker share.

    Attributes:
        types: composed types of the program, each as one object.
        globals: the scope of the top level.
        scope: the current scope.
        context: the code that is being checked: ``apply``, ``action``, ``state``, ``function`` or empty.
        loops: number of enclosing loops.
        program: the enclosing parser or control; None at the top level.
        result: return type of the enclosing function; None outside of functions.
    """

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.types = kinds.TypeTable()
        self.globals = Scope()
        self.scope = self.globals
        self.context = ""
        self.loops = 0
        self.program: tree.Program | None = None
        self.result: kinds.Type | None = None
        self.errors: dict[str, tree.EnumMember] = {}
        self.match_kinds: dict[str, tree.EnumMember] = {}

    def named(self, ref: tree.Name | tree.NamedType | tree.ActionRef) -> Any:
        """Returns what a name denotes in the current scope (at the top level after a dot); None if nothing."""
        return (self.globals if ref.rooted else self.scope).find(ref.name)

    @contextmanager
    def inner_scope(self, variables: Sequence[kinds.TypeVariable] = ()) -> Iterator[None]:
        """Opens a scope within the current one, with type parameters."""
        outer, self.scope = self.scope, Scope(self.scope)
        if variables:
            self.scope.names |= {variable.name: variable for variable in variables}
        try:
            yield
        finally:
            self.scope = outer

    def declare(self, declaration: tree.Declaration) -> None:
        """Adds a declaration's name to the current scope; reports an error if the name is taken."""
        before = self.scope.add(declaration.name, declaration)
        if before is not None:
            first = before[0] if isinstance(before, list) else before
            message = f"{declaration.name!r} is declared twice; it is {what_is(first)} already"
            self.diagnostics.error(declaration.at, message, "Give one of the two another name.")


class CheckerPart:
    """Base of the parts of the checker, which share ``env``."""

    def __init__(self, env: CheckerState) -> None:
        self.env = env

    def error(self, at: int, message: str, hint: str = "") -> None:
        """Reports an error."""
        self.env.diagnostics.error(at, message, hint)

    def wrong(self, at: int, message: str, hint: str = "") -> kinds.Type:
        """Reports an error about an expression or type, and returns UNKNOWN."""
        self.error(at, message, hint)
        return kinds.UNKNOWN


# Resolution of written types.


WIDEST = 2048
WIDEST_VARBIT = 1 << 16
"""Bits of the widest field that p4c's back end for BMv2 takes."""
LARGEST_STACK = 4096


class TypeResolver(CheckerPart):
    """Resolves written types.

    ``constant`` returns the compile-time number of an expression; if there is none, it returns None and reports an
    error that begins with its second argument.
    """

    def __init__(self, env: CheckerState, constant: Callable[[tree.Expression, str], int | None]) -> None:
        super().__init__(env)
        self._constant = constant

    def resolve(self, ref: tree.TypeRef) -> kinds.Type:
        """Returns the type that is written; reports an error and returns UNKNOWN if there is none."""
        match ref:
            case tree.NumericType():
                return self._numeric(ref)
            case tree.NamedType():
                return self._named(ref)
            case tree.StackTypeRef():
                return self._stack(ref)
            case tree.TupleTypeRef():
                return self.env.types.tuple_of(tuple(self.resolve(e) for e in ref.elements))
            case tree.AnyType():
                return kinds.UNKNOWN
        return kinds.UNKNOWN

    def _numeric(self, ref: tree.NumericType) -> kinds.Type:
        if ref.width is None:
            return kinds.INTEGER if ref.kind == "int" else kinds.bits(1)
        width = self._constant(ref.width, f"the width of '{ref.kind}<…>'")
        if width is None:
            return kinds.UNKNOWN
        if width < 0 or (width == 0 and ref.kind == "int"):
            return self.wrong(ref.at, f"{ref.kind}<{width}>: a width is at least {int(ref.kind == 'int')}")
        if width > WIDEST and ref.kind != "varbit":
            return self.wrong(
                ref.at,
                f"{ref.kind}<{width}> is too wide: the target takes at most {WIDEST} bits",
                "Use several fields.",
            )
        if width > WIDEST_VARBIT:
            return self.wrong(ref.at, f"varbit<{width}> is too wide: the target takes at most {WIDEST_VARBIT} bits")
        return kinds.varbits(width) if ref.kind == "varbit" else kinds.bits(width, ref.kind == "int")

    def _named(self, ref: tree.NamedType) -> kinds.Type:
        if ref.name in kinds.WORDS:
            return kinds.WORDS[ref.name]
        target = self.env.named(ref)
        if target is None:
            hint = self.env.scope.near(ref.name)
            return self.wrong(ref.at, f"there is no type {ref.name!r}", hint or "Declare it above its first use.")
        arguments = tuple(self.resolve(a) for a in ref.arguments)
        resolved = self.type_of_target(target, arguments, ref)
        if resolved is None:
            return self.wrong(ref.at, f"{ref.name!r} is {what_is(target)}, not a type")
        return resolved

    def type_of_target(self, target: Any, arguments: tuple[kinds.Type, ...], ref: tree.TypeRef) -> kinds.Type | None:
        """Returns the type that a declaration declares, with arguments; None if it declares none."""
        match target:
            case kinds.TypeVariable():
                return target
            case tree.Composite() | tree.Alias() | tree.Enumeration():
                kind: kinds.Type = target.type or kinds.UNKNOWN
                wanted = getattr(kind, "arguments", ()) if isinstance(target, tree.Composite) else ()
            case tree.Extern() | tree.Program() | tree.Package():
                kind = target.type or kinds.UNKNOWN
                wanted = tuple(target.type_variables)
            case _:
                return None
        if not wanted and not arguments:
            return kind
        if not arguments:
            # The arguments of a generic type follow from its use.
            return kind
        if len(wanted) != len(arguments):
            return self.wrong(ref.at, f"{target.name!r} takes {len(wanted)} type arguments, not {len(arguments)}")
        return self.env.types.substitute(kind, dict(zip(wanted, arguments, strict=True)))

    def _stack(self, ref: tree.StackTypeRef) -> kinds.Type:
        element = self.resolve(ref.element)
        size = self._constant(ref.size, "the size of a stack")
        if element is kinds.UNKNOWN or size is None:
            return kinds.UNKNOWN
        if not (isinstance(element, kinds.CompositeType) and (kinds.is_header(element) or kinds.is_union(element))):
            hint = "A stack is made of headers or header unions; for numbers take a register, or several fields."
            return self.wrong(ref.at, f"there is no stack of {element}", hint)
        if not 0 < size <= LARGEST_STACK:
            return self.wrong(ref.size.at, f"a stack has 1 to {LARGEST_STACK} elements, not {size}")
        return self.env.types.stack(element, size)


def describes_instance(kind: kinds.Type) -> bool:
    """Returns whether objects of the type are instances, which no variable can hold."""
    return isinstance(kind, kinds.DeclaredType) and kind.kind in ("extern", "parser", "control", "package")
