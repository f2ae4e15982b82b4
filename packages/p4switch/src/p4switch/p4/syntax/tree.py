"""Syntax trees: expressions, types, statements and declarations (P4_16 specification, sections 7 to 16).

Nodes are compared by identity. The checker stores its results in attributes such as ``type``, ``value`` and
``target``, and inserts casts; nothing else changes a tree.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from p4switch.p4.types.kinds import Type


@dataclass(slots=True, eq=False)
class Node:
    """A node of a tree, with its place in the source: from position ``at`` up to ``end``."""

    at: int
    end: int


@dataclass(slots=True, eq=False)
class Annotation(Node):
    """``@name``, ``@name(…)`` or ``@name[…]``; ``tokens``: those in the brackets; ``brackets``: the opening one."""

    name: str
    tokens: list[tuple[str, str, int]]
    brackets: str

    @property
    def string(self) -> str | None:
        """The annotation's only argument if that is a string, else None."""
        if len(self.tokens) == 1 and self.tokens[0][0] == "string":
            return self.tokens[0][1][1:-1].replace('\\"', '"').replace("\\\\", "\\")
        return None


# --- written types


@dataclass(slots=True, eq=False)
class TypeRef(Node):
    """A type as written in the source, not yet resolved."""


@dataclass(slots=True, eq=False)
class NumericType(TypeRef):
    """``bit<w>``, ``int<w>``, ``varbit<w>``; ``width`` is None for ``bit`` (1) and ``int`` (any)."""

    kind: str
    width: "Expression | None"


@dataclass(slots=True, eq=False)
class NamedType(TypeRef):
    """A name, possibly with arguments; also ``bool``, ``error``, ``string``, ``void``, ``match_kind``."""

    name: str
    arguments: list[TypeRef]
    rooted: bool = False


@dataclass(slots=True, eq=False)
class StackTypeRef(TypeRef):
    """``T[n]``."""

    element: TypeRef
    size: "Expression"


@dataclass(slots=True, eq=False)
class TupleTypeRef(TypeRef):
    """``tuple<…>``, ``list<…>``; ``kind`` says which."""

    kind: str
    elements: list[TypeRef]


@dataclass(slots=True, eq=False)
class AnyType(TypeRef):
    """``_`` as a type argument: to be inferred."""


# --- expressions


@dataclass(slots=True, eq=False)
class Expression(Node):
    """An expression.

    Attributes:
        type: its type, set by the checker; None before.
        value: its compile-time value, if the checker knows it: int, bool, str or the member of an enum.
        effects: whether its evaluation includes a call that may change state.
    """

    type: "Type | None" = field(default=None, init=False)
    value: Any = field(default=None, init=False)
    effects: bool = field(default=False, init=False)


@dataclass(slots=True, eq=False)
class Number(Expression):
    """A number; ``width`` is None for a number without a width."""

    number: int
    width: int | None
    signed: bool
    base: int


@dataclass(slots=True, eq=False)
class Boolean(Expression):
    """``true``, ``false``."""

    truth: bool


@dataclass(slots=True, eq=False)
class Text(Expression):
    """A string."""

    text: str


@dataclass(slots=True, eq=False)
class Name(Expression):
    """A name, ``this``, or a type in front of a dot; ``target``: the declaration that it denotes."""

    name: str
    rooted: bool = False
    target: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class TypeName(Expression):
    """A type with arguments, or a built-in type, in place of an expression: ``S<bit<8>>.x``."""

    ref: TypeRef


@dataclass(slots=True, eq=False)
class Member(Expression):
    """``base.name``; ``target``: the member of an enum or of ``error`` that it denotes; None for others."""

    base: Expression
    name: str
    target: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Index(Expression):
    """``base[index]``."""

    base: Expression
    index: Expression


@dataclass(slots=True, eq=False)
class Slice(Expression):
    """``base[high:low]``, or ``base[low+:width]``; the checker computes ``high`` of the latter."""

    base: Expression
    high: Expression
    low: Expression
    width: Expression | None = None


@dataclass(slots=True, eq=False)
class Unary(Expression):
    """``!``, ``~``, ``-``, ``+``."""

    operator: str
    operand: Expression


@dataclass(slots=True, eq=False)
class Binary(Expression):
    """An operator with two operands; also ``&&&`` and ``..`` of key sets."""

    operator: str
    left: Expression
    right: Expression


@dataclass(slots=True, eq=False)
class Ternary(Expression):
    """``condition ? yes : no``."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(slots=True, eq=False)
class Cast(Expression):
    """``(T) operand``, or a conversion that the checker inserted (``ref`` is None)."""

    ref: TypeRef | None
    operand: Expression


@dataclass(slots=True, eq=False)
class Argument(Node):
    """An argument of a call; ``value`` is None for ``_``."""

    name: str | None
    value: Expression | None


@dataclass(slots=True, eq=False)
class Call(Expression):
    """``callee<types>(arguments)``, also of a constructor; ``bound``: arguments in the order of parameters."""

    callee: Expression
    types: list[TypeRef]
    arguments: list[Argument]
    target: Any = field(default=None, init=False)
    bound: list[Expression | None] = field(default_factory=list, init=False)
    type_arguments: dict[Any, Any] = field(default_factory=dict, init=False)


@dataclass(slots=True, eq=False)
class ListOf(Expression):
    """``{a, b}``, or ``(a, b)`` of key sets."""

    items: list[Expression]


@dataclass(slots=True, eq=False)
class Record(Expression):
    """``{a = 1, b = 2}``."""

    fields: list[tuple[str, Expression]]


@dataclass(slots=True, eq=False)
class InvalidHeader(Expression):
    """The invalid header ``{#}``."""


@dataclass(slots=True, eq=False)
class Default(Expression):
    """``default`` or ``_`` in a key set; ``...`` in a list."""

    text: str


# --- statements


@dataclass(slots=True, eq=False)
class Statement(Node):
    """A statement."""


@dataclass(slots=True, eq=False)
class Assign(Statement):
    """``left = right;``."""

    left: Expression
    right: Expression


@dataclass(slots=True, eq=False)
class CallStatement(Statement):
    """A call as a statement."""

    call: Call


@dataclass(slots=True, eq=False)
class If(Statement):
    """``if``; ``no`` may be None."""

    condition: Expression
    yes: Statement
    no: Statement | None


@dataclass(slots=True, eq=False)
class Block(Statement):
    """``{ … }``: statements and declarations."""

    items: list[Any]


@dataclass(slots=True, eq=False)
class Return(Statement):
    """``return;``, ``return e;``."""

    value: Expression | None


@dataclass(slots=True, eq=False)
class Exit(Statement):
    """``exit;``."""


@dataclass(slots=True, eq=False)
class For(Statement):
    """``for (initial; condition; updates) body``."""

    initial: list[Any]
    condition: Expression
    updates: list[Statement]
    body: Statement


@dataclass(slots=True, eq=False)
class ForIn(Statement):
    """``for (T name in values) body``; ``..`` of a range is a Binary."""

    variable: "Variable"
    values: Expression
    body: Statement


@dataclass(slots=True, eq=False)
class LeaveLoop(Statement):
    """``break``, ``continue``; ``word`` says which."""

    word: str


@dataclass(slots=True, eq=False)
class Empty(Statement):
    """``;``."""


@dataclass(slots=True, eq=False)
class SwitchCase(Node):
    """A label with its block; ``body`` is None if the next case's block applies."""

    label: Expression
    body: Block | None


@dataclass(slots=True, eq=False)
class Switch(Statement):
    """``switch (e) { … }``."""

    subject: Expression
    cases: list[SwitchCase]


@dataclass(slots=True, eq=False)
class Transition(Node):
    """``transition name;`` or ``transition select (…) { … }``."""

    target: str | None
    keys: list[Expression]
    cases: list["SelectCase"]


@dataclass(slots=True, eq=False)
class SelectCase(Node):
    """``keyset: state;``."""

    keyset: Expression
    state: str


# Syntax trees of declarations (P4_16 specification, sections 7.2, 10, 13 to 16).


@dataclass(slots=True, eq=False)
class Declaration(Node):
    """A named declaration.

    Attributes:
        type: the type that it has or declares, set by the checker.
        type_variables: type parameters of a generic declaration.
    """

    name: str
    annotations: list[Annotation]
    type: Any = field(default=None, init=False)
    type_variables: list[Any] = field(default_factory=list, init=False)

    def annotation(self, name: str) -> Annotation | None:
        """Returns the declaration's first annotation ``@name``; None if there is none."""
        return next((a for a in self.annotations if a.name == name), None)

    @property
    def shown(self) -> str:
        """The name for the control plane: the declaration's @name, else its own name."""
        note = self.annotation("name")
        return (note.string if note is not None else None) or self.name


@dataclass(slots=True, eq=False)
class Parameter(Declaration):
    """A parameter; ``direction`` is ``in``, ``out``, ``inout`` or empty."""

    direction: str
    ref: TypeRef
    default: Expression | None


@dataclass(slots=True, eq=False)
class Constant(Declaration):
    """``const T name = value;``."""

    ref: TypeRef
    initial: Expression


@dataclass(slots=True, eq=False)
class Variable(Declaration):
    """``T name = initial;``."""

    ref: TypeRef
    initial: Expression | None


@dataclass(slots=True, eq=False)
class Instance(Declaration):
    """``T(arguments) name;``; ``members``: declarations in its block, for externs with abstract methods."""

    ref: TypeRef
    arguments: list[Argument]
    members: list[Any] | None
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


@dataclass(slots=True, eq=False)
class Alias(Declaration):
    """``typedef T name;``, or ``type T name;`` if ``new``."""

    new: bool
    ref: Any


@dataclass(slots=True, eq=False)
class EnumMember(Declaration):
    """A member of an enum, of ``error`` or of ``match_kind``."""

    initial: Expression | None
    number: int = field(default=0, init=False)


@dataclass(slots=True, eq=False)
class Enumeration(Declaration):
    """``enum``, ``error`` or ``match_kind``; ``ref``: the type of a serializable enum."""

    kind: str
    ref: TypeRef | None
    members: list[EnumMember]


@dataclass(slots=True, eq=False)
class Function(Declaration):
    """A function, a method or (without ``result``) a constructor; ``body`` is None for a function of the target."""

    result: TypeRef | None
    types: list[str]
    parameters: list[Parameter]
    body: Block | None
    result_type: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Extern(Declaration):
    """``extern name<types> { … }``."""

    types: list[str]
    methods: list[Function]


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
    """An action in a table's list, possibly with arguments; ``target``, ``bound`` as in a call."""

    name: str
    rooted: bool
    arguments: list[Argument]
    annotations: list[Annotation]
    target: Any = field(default=None, init=False)
    bound: list[Expression | None] = field(default_factory=list, init=False)

    def has(self, annotation: str) -> bool:
        """Returns whether the action has an annotation."""
        return any(a.name == annotation for a in self.annotations)


@dataclass(slots=True, eq=False)
class Entry(Node):
    """An entry that a program gives a table."""

    keyset: Expression
    action: ActionRef
    annotations: list[Annotation]
    priority: Expression | None
    rank: int = field(default=0, init=False)
    """Place (from 1) in the order in which the table's entries are tried; set by the checker."""


@dataclass(slots=True, eq=False)
class Property(Declaration):
    """A property of a table that is a plain expression: ``size = 16;``."""

    value: Expression


@dataclass(slots=True, eq=False)
class Table(Declaration):
    """``table name { … }``."""

    keys: list[KeyElement]
    actions: list[ActionRef]
    default: ActionRef | None
    default_constant: bool
    entries: list[Entry] | None
    properties: dict[str, Property]
    entries_constant: bool = False


@dataclass(slots=True, eq=False)
class ValueSet(Declaration):
    """``value_set<T>(size) name;``."""

    ref: TypeRef
    size: Expression


@dataclass(slots=True, eq=False)
class State(Declaration):
    """A parser state."""

    items: list[Statement | Declaration]
    transition: Transition | None


@dataclass(slots=True, eq=False)
class Program(Declaration):
    """A parser or control (``kind``), or the type of one if ``body`` is None.

    Attributes:
        constructor: parameters of the constructor.
        locals: declarations within the parser or control.
        body: apply block of a control; an empty block for a parser.
    """

    kind: str
    types: list[str]
    parameters: list[Parameter]
    constructor: list[Parameter]
    locals: list[Declaration]
    states: list[State]
    body: Block | None


@dataclass(slots=True, eq=False)
class Package(Declaration):
    """``package name<types>(parameters);``."""

    types: list[str]
    parameters: list[Parameter]
