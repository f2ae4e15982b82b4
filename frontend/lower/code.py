"""What statements become before they are laid out as a parser, a pipeline or an action."""

from dataclasses import dataclass, field
from typing import Any

from p4reduce.frontend.lower.values import Json


@dataclass(slots=True, eq=False)
class Code:
    """One step."""

    at: int
    end: int


@dataclass(slots=True, eq=False)
class Do(Code):
    """A primitive."""

    operation: str
    parameters: list[Json]


@dataclass(slots=True, eq=False)
class Branch(Code):
    """``if``; the condition is a bool."""

    condition: Json
    yes: list[Code]
    no: list[Code]


@dataclass(slots=True, eq=False)
class Labelled(Code):
    """Steps that ``Leave`` ends early."""

    body: list[Code]
    label: object


@dataclass(slots=True, eq=False)
class Leave(Code):
    """Goes behind the steps with this label."""

    label: object


@dataclass(slots=True, eq=False)
class Stop(Code):
    """``exit``: the end of the pipeline."""


@dataclass(slots=True, eq=False)
class Invoke(Code):
    """An action that is called by name; it stays one, so that people see it."""

    name: str
    body: list[Code]


@dataclass(slots=True, eq=False)
class Apply(Code):
    """A table; what follows a hit, a miss, or each action (by its place in the table's list)."""

    table: Any
    hit: list[Code] | None = None
    miss: list[Code] | None = None
    actions: dict[int, list[Code]] = field(default_factory=dict)
    otherwise: list[Code] | None = None


@dataclass(slots=True, eq=False)
class Case:
    """A case of a select: for each key a value and a mask, or one value set; ``None`` for anything."""

    keys: list[tuple[int, int]] | None
    value_set: str | None
    state: str


@dataclass(slots=True, eq=False)
class Step:
    """A parser's state: what it does, then where it goes.

    Attributes:
        keys: what it goes by, with widths; none: always to the only case.
    """

    name: str
    at: int
    end: int
    body: list[Code]
    keys: list[tuple[Json, int]]
    cases: list[Case]


@dataclass(slots=True, eq=False)
class Graph(Code):
    """A parser: ``accept`` goes on behind it, ``reject`` ends all parsing."""

    steps: dict[str, Step]
    prefix: str
    first: str = "start"
