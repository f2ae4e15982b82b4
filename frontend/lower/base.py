"""What every part of the lowering shares."""

from typing import Any

from p4reduce.frontend.diagnostics import Diagnostics, SourceFault, Unexpected
from p4reduce.frontend.lower.code import Code, Do
from p4reduce.frontend.lower.objects import Callee, Environment
from p4reduce.frontend.lower.places import FieldPlace, Place, Value
from p4reduce.frontend.lower.storage import Storage, bits_of, storage_width
from p4reduce.frontend.lower.values import FALSE, TRUE, Json, constant
from p4reduce.frontend.syntax.declarations import EnumMember
from p4reduce.frontend.syntax.tree import Binary, Cast, Expression, Index, ListOf, Member, Name, Slice, Ternary, Unary
from p4reduce.frontend.types.constness import may_be_constant
from p4reduce.frontend.types.folding import binary, convert, unary
from p4reduce.frontend.types.kinds import BOOL, Bits, CompositeType, EnumType, Type, TypeTable, plain


class LoweringBase:
    """The state of the lowering.

    Attributes:
        out: where steps go now.
        environment: what names are bound to now.
        where: ``parser``, ``control``, ``action``, ``checksum`` or ``deparser``.
        path: the prefix of names of variables.
        callees: what is being put in, from the outermost.
        block: ``ingress`` or ``egress``, the parser, and so on: which of the program's blocks it is.
    """

    def __init__(self, diagnostics: Diagnostics, types: TypeTable, storage: Storage) -> None:
        self.diagnostics = diagnostics
        self.types = types
        self.storage = storage
        self.out: list[Code] = []
        self.environment = Environment()
        self.where = ""
        self.block = ""
        self.path = ""
        self.callees: list[Callee] = []
        self._foldable: dict[Expression, bool] = {}
        self.enums: dict[str, list[tuple[str, int]]] = {}

    def type_of(self, node: Expression) -> Type:
        """The type of an expression, with type parameters put in."""
        kind = node.type
        if kind is None:
            raise Unexpected
        return self.types.substitute(kind, self.environment.types) if self.environment.types else kind

    def do(self, at: Expression | Code | Any, operation: str, *parameters: Json) -> None:
        """Adds a primitive."""
        self.out.append(Do(at.at, at.end, operation, list(parameters)))

    def temporary(self, kind: Type, name: str = "tmp") -> FieldPlace:
        """A new scalar."""
        return self.storage.scalar(name, kind)

    # --- constants

    def known(self, value: Any, kind: Type) -> Value:
        """A compile-time value as a place."""
        bare = plain(kind)
        if isinstance(value, bool) and bare is BOOL:
            return Value(kind, TRUE if value else FALSE, value)
        if isinstance(value, EnumMember):
            return Value(kind, constant(self.member_number(value, bare), 32), value)
        number = bits_of(bare)
        width = number.width if number is not None else max(int(value).bit_length(), 1)
        return Value(kind, constant(int(value), width), value)

    def member_number(self, member: EnumMember, kind: Type) -> int:
        """The number of an error, or of a member of an enum; the JSON lists those that are used."""
        if isinstance(kind, EnumType) and kind.base is not None and member.initial is not None:
            return int(member.initial.value)
        if isinstance(kind, EnumType):
            self.enums.setdefault(kind.name, [(m.name, m.number) for m in kind.members.values()])
        return member.number

    def evaluate(self, node: Expression | None) -> Any:
        """The compile-time value of an expression with constructor parameters put in; None if it has none."""
        if node is None:
            return None
        if node.value is not None:
            return node.value
        kind = plain(node.type) if node.type is not None else None
        match node:
            case Name():
                bound = self.environment.find(node.target)
                return bound.constant if isinstance(bound, Value) else None
            case Cast(operand=operand):
                value = self.evaluate(operand)
                return None if value is None or kind is None else convert(value, operand.type or kind, kind)
            case Unary(operator=operator, operand=operand):
                value = self.evaluate(operand)
                return None if value is None or kind is None else unary(operator, value, kind)
            case Binary(operator=operator, left=left, right=right):
                one, other = self.evaluate(left), self.evaluate(right)
                if one is None or other is None or kind is None or left.type is None or operator in ("&&&", ".."):
                    return None
                return binary(operator, one, other, left.type, kind)
            case Ternary(condition=condition, yes=yes, no=no):
                truth = self.evaluate(condition)
                return None if truth is None else self.evaluate(yes if truth else no)
            case ListOf(items=items):
                values = tuple(self.evaluate(item) for item in items)
                return None if any(v is None for v in values) else values
            case Member(base=base, name=name):
                value = self.evaluate(base)
                bare = plain(base.type) if base.type is not None else None
                if isinstance(value, tuple) and isinstance(bare, CompositeType):
                    return value[list(bare.fields).index(name)]
            case Index(base=base, index=index):
                value, position = self.evaluate(base), self.evaluate(index)
                if isinstance(value, tuple) and isinstance(position, int):
                    return value[position]
            case Slice(base=base, high=high, low=low):
                value = self.evaluate(base)
                if isinstance(value, int):
                    return (value >> low.value) & ((1 << (high.value - low.value + 1)) - 1)
        return None

    def may_be_known(self, node: Expression) -> bool:
        """Whether constructor parameters may give an expression a compile-time value."""
        return may_be_constant(node, self._foldable)

    def number(self, node: Expression | None, what: str, at: int) -> int:
        """A compile-time number, or a fault."""
        value = self.evaluate(node)
        if not isinstance(value, int):
            raise SourceFault(node.at if node is not None else at, f"{what} must be known when the program is compiled")
        return int(value)

    def width(self, kind: Type) -> int:
        """Bits of a scalar."""
        return storage_width(kind)

    def as_bits(self, kind: Type) -> Bits:
        """A type as a number."""
        found = bits_of(kind)
        if found is None:
            raise Unexpected
        return found

    def place(self, node: Expression) -> Place:
        """See ExpressionLowering."""
        raise NotImplementedError
