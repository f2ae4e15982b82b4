"""Objects that are there before any packet: instances of externs, parsers and controls, tables and actions."""

from dataclasses import dataclass, field
from typing import Any

from p4reduce.frontend.diagnostics import Unexpected
from p4reduce.frontend.lower.places import Place
from p4reduce.frontend.syntax.declarations import Action, Declaration, Program, Table
from p4reduce.frontend.types.kinds import DeclaredType, Type


class Environment:
    """What declarations are bound to where code is put in; ``types``: of type parameters."""

    def __init__(self, parent: "Environment | None" = None, types: dict[Type, Type] | None = None) -> None:
        self.parent = parent
        self.bound: dict[Any, Any] = {}
        self.types: dict[Type, Type] = types if types is not None else (parent.types if parent is not None else {})

    def find(self, declaration: Any) -> Any:
        """A place or an object; None for what is bound nowhere."""
        scope: Environment | None = self
        while scope is not None:
            found = scope.bound.get(declaration)
            if found is not None:
                return found
            scope = scope.parent
        return None


@dataclass(eq=False)
class Instance:
    """An instance.

    Attributes:
        name: as the control plane knows it.
        arguments: of its constructor.
        path: for names of variables.
    """

    name: str
    type: DeclaredType
    arguments: list[Any]
    declaration: Declaration
    at: int
    path: str = ""
    used: bool = False
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class ProgramInstance(Instance):
    """An instance of a parser or control; ``environment``: of what it declares, made once; ``directly``: what
    is applied in it by its type's name, by the call.
    """

    environment: Environment | None = None
    directly: dict[Any, "ProgramInstance"] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        """What it is an instance of."""
        found = self.type.declaration
        if not isinstance(found, Program):
            raise Unexpected
        return found


@dataclass(eq=False)
class ActionInstance:
    """An action of a control instance, or of the program."""

    name: str
    declaration: Action
    environment: Environment


@dataclass(eq=False)
class TableInstance:
    """A table of a control instance; ``json``: once it is applied."""

    name: str
    declaration: Table
    environment: Environment
    path: str
    json: dict[str, Any] | None = None


@dataclass(eq=False)
class ValueSetInstance:
    """A value set of a parser instance."""

    name: str
    declaration: Any
    json: dict[str, Any] | None = None


@dataclass(eq=False)
class Callee:
    """Code that is being put in: where ``return`` goes, what is copied back.

    Attributes:
        result: where a function's result goes.
        copies: (outer place, inner place) of each ``out`` argument that was copied.
        within: of an action: what it is declared in.
    """

    label: object
    result: Place | None = None
    within: Environment | None = None
    copies: list[tuple[Place, Place]] = field(default_factory=list)
