"""Syntax trees of declarations (P4_16 specification, sections 7.2, 10, 13 to 16).

``type`` of a declaration is what the checker made of it.
"""

from dataclasses import dataclass, field
from typing import Any

from p4reduce.frontend.syntax.tree import Annotation, Argument, Block, Expression, Node, Statement, Transition, TypeRef


@dataclass(slots=True, eq=False)
class Declaration(Node):
    """Something with a name."""

    name: str
    annotations: list[Annotation]

    def annotation(self, name: str) -> Annotation | None:
        """Its annotation of that name."""
        return next((a for a in self.annotations if a.name == name), None)


@dataclass(slots=True, eq=False)
class Parameter(Declaration):
    """A parameter; ``direction`` is ``in``, ``out``, ``inout`` or empty."""

    direction: str
    ref: TypeRef
    default: Expression | None
    type: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Constant(Declaration):
    """``const T name = value;``."""

    ref: TypeRef
    initial: Expression
    type: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Variable(Declaration):
    """``T name = initial;``."""

    ref: TypeRef
    initial: Expression | None
    type: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Instance(Declaration):
    """``T(arguments) name;``; ``members``: what its block declares, for externs with abstract methods."""

    ref: TypeRef
    arguments: list[Argument]
    members: list[Any] | None
    type: Any = field(default=None, init=False)
    bound: list[Expression | None] = field(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class FieldDecl(Declaration):
    """A field of a header, struct or union."""

    ref: TypeRef


@dataclass(slots=True, eq=False)
class Composite(Declaration):
    """``header``, ``struct`` or ``header_union``; ``kind`` says which."""

    kind: str
    parameters: list[str]
    fields: list[FieldDecl]
    type: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Alias(Declaration):
    """``typedef T name;``, or ``type T name;`` where ``new``."""

    new: bool
    ref: Any
    type: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class EnumMember(Declaration):
    """A member of an enum, of ``error`` or of ``match_kind``."""

    initial: Expression | None
    number: int = field(default=0, init=False)


@dataclass(slots=True, eq=False)
class Enumeration(Declaration):
    """``enum``, ``error`` or ``match_kind``; ``ref``: of a serializable one."""

    kind: str
    ref: TypeRef | None
    members: list[EnumMember]
    type: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Function(Declaration):
    """A function, a method or (without ``result``) a constructor; ``body`` is None for one of the target."""

    result: TypeRef | None
    types: list[str]
    parameters: list[Parameter]
    body: Block | None
    abstract: bool = False
    type: Any = field(default=None, init=False)
    result_type: Any = field(default=None, init=False)
    type_variables: list[Any] = field(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class Extern(Declaration):
    """``extern name<types> { … }``."""

    types: list[str]
    methods: list[Function]
    type: Any = field(default=None, init=False)
    type_variables: list[Any] = field(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class Action(Declaration):
    """``action name(parameters) { … }``."""

    parameters: list[Parameter]
    body: Block


@dataclass(slots=True, eq=False)
class KeyElement(Node):
    """``expression: match_kind;``."""

    expression: Expression
    match: str
    annotations: list[Annotation]


@dataclass(slots=True, eq=False)
class ActionRef(Node):
    """An action in a table's list, perhaps with arguments; ``target``, ``bound`` as in a call."""

    name: str
    rooted: bool
    arguments: list[Argument]
    annotations: list[Annotation]
    target: Any = field(default=None, init=False)
    bound: list[Expression | None] = field(default_factory=list, init=False)

    def has(self, annotation: str) -> bool:
        """Whether it is annotated so."""
        return any(a.name == annotation for a in self.annotations)


@dataclass(slots=True, eq=False)
class Entry(Node):
    """An entry that the program gives a table."""

    keyset: Expression
    action: ActionRef
    annotations: list[Annotation]
    priority: Expression | None
    constant: bool


@dataclass(slots=True, eq=False)
class Property(Declaration):
    """Another property of a table: ``size = 16;``."""

    value: Expression
    constant: bool


@dataclass(slots=True, eq=False)
class Table(Declaration):
    """``table name { … }``."""

    keys: list[KeyElement]
    actions: list[ActionRef]
    default: ActionRef | None
    default_constant: bool
    entries: list[Entry] | None
    properties: dict[str, Property]
    type: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class ValueSet(Declaration):
    """``value_set<T>(size) name;``."""

    ref: TypeRef
    size: Expression
    type: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class State(Declaration):
    """A parser state."""

    items: list[Statement | Declaration]
    transition: Transition | None


@dataclass(slots=True, eq=False)
class Program(Declaration):
    """A parser or control (``kind``), or the type of one where ``body`` is None.

    Attributes:
        constructor: parameters of the constructor.
        locals: declarations within it.
        body: statements of a control; () of a parser.
    """

    kind: str
    types: list[str]
    parameters: list[Parameter]
    constructor: list[Parameter]
    locals: list[Declaration]
    states: list[State]
    body: Block | None
    type: Any = field(default=None, init=False)
    type_variables: list[Any] = field(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class Package(Declaration):
    """``package name<types>(parameters);``."""

    types: list[str]
    parameters: list[Parameter]
    type: Any = field(default=None, init=False)
    type_variables: list[Any] = field(default_factory=list, init=False)
