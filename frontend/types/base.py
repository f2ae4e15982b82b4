"""What every part of the checker shares."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from p4reduce.frontend.diagnostics import Diagnostics
from p4reduce.frontend.syntax.declarations import (
    Action,
    Alias,
    Composite,
    Constant,
    Declaration,
    Enumeration,
    EnumMember,
    Extern,
    Function,
    Instance,
    Package,
    Parameter,
    Program,
    State,
    Table,
    ValueSet,
    Variable,
)
from p4reduce.frontend.types.kinds import Type, TypeTable, TypeVariable
from p4reduce.frontend.types.scope import Scope

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


class CheckerBase:
    """The state of the checker.

    Attributes:
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
