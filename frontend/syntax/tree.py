"""Syntax trees: expressions, types and statements (P4_16 specification, sections 7 to 12).

Nodes are compared by identity. The checker writes what it finds out into ``type``, ``value`` and ``target``; nothing
else changes a tree. Declarations are in declarations.py.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from p4reduce.frontend.types.kinds import Type


@dataclass(slots=True, eq=False)
class Node:
    """Anything that stands somewhere: from ``at`` up to ``end``, as source.py counts."""

    at: int
    end: int


@dataclass(slots=True, eq=False)
class Annotation(Node):
    """``@name``, ``@name(…)`` or ``@name[…]``; ``text``: the tokens within the brackets as they were written."""

    name: str
    tokens: list[tuple[str, str, int]]
    brackets: str

    @property
    def string(self) -> str | None:
        """Its only argument, if that is a string."""
        if len(self.tokens) == 1 and self.tokens[0][0] == "string":
            return self.tokens[0][1][1:-1].replace('\\"', '"').replace("\\\\", "\\")
        return None


# --- types as they are written


@dataclass(slots=True, eq=False)
class TypeRef(Node):
    """A type as it is written."""


@dataclass(slots=True, eq=False)
class NumericType(TypeRef):
    """``bit<w>``, ``int<w>``, ``varbit<w>``; ``width`` is None for ``bit`` (1) and ``int`` (any)."""

    kind: str
    width: "Expression | None"


@dataclass(slots=True, eq=False)
class NamedType(TypeRef):
    """A name, perhaps with arguments; ``bool``, ``error``, ``string``, ``void``, ``match_kind`` as well."""

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
    """``_`` as an argument: to be found out."""


# --- expressions


@dataclass(slots=True, eq=False)
class Expression(Node):
    """An expression.

    Attributes:
        type: found by the checker.
        value: its compile-time value, if the checker knows it: int, bool, str or the member of an enum.
        effects: whether its evaluation calls something that may change the state.
    """

    type: "Type | None" = field(default=None, init=False)
    value: Any = field(default=None, init=False)
    effects: bool = field(default=False, init=False)


@dataclass(slots=True, eq=False)
class Number(Expression):
    """A number; ``width`` is None for one of no width."""

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
    """A name, ``this``, or a type in front of a dot; ``target``: what it names."""

    name: str
    rooted: bool = False
    target: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class TypeName(Expression):
    """A type with arguments, or a cast's type, where an expression stands: ``S<bit<8>>.x``, ``error.NoError``."""

    ref: TypeRef


@dataclass(slots=True, eq=False)
class Member(Expression):
    """``base.name``; ``target``: what it names, unless that is a field."""

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
    """``base[high:low]``."""

    base: Expression
    high: Expression
    low: Expression


@dataclass(slots=True, eq=False)
class Unary(Expression):
    """``!``, ``~``, ``-``, ``+``."""

    operator: str
    operand: Expression


@dataclass(slots=True, eq=False)
class Binary(Expression):
    """Two operands; also ``&&&`` and ``..`` of key sets."""

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
    """``(T) operand``, or a conversion that the checker put in (``ref`` is None)."""

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
    """``{#}``."""


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
    """A call for its effect."""

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
class Empty(Statement):
    """``;``."""


@dataclass(slots=True, eq=False)
class SwitchCase(Node):
    """Labels with the block that follows, or None where the next case's block does."""

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
