"""Types of operators (P4_16 specification, sections 8.4 to 8.10)."""

from collections.abc import Callable
from typing import Any

from p4switch.p4.diagnostics import Unexpected
from p4switch.p4.syntax.tree import (
    Binary,
    Cast,
    Default,
    Expression,
    ListOf,
    Member,
    Name,
    Number,
    Record,
    Ternary,
    Unary,
)
from p4switch.p4.types.base import Environment, Part
from p4switch.p4.types.kinds import (
    ANYTHING,
    BOOL,
    ERROR,
    INTEGER,
    MOST_BITS,
    NO_HEADER,
    STRING,
    UNKNOWN,
    VOID,
    Bits,
    CompositeType,
    DeclaredType,
    EnumType,
    NewType,
    RecordType,
    SetType,
    StackType,
    TupleType,
    Type,
    TypeVariable,
    Varbits,
    binary,
    bits,
    convert,
    is_header,
    is_struct,
    is_union,
    plain,
    too_large,
    unary,
)

# What may stand where a type is expected (P4_16 specification, sections 8.11 and 8.12).


class Coercion(Part):
    """Implicit conversions."""

    def coerce(self, node: Expression, target: Type, what: str) -> Expression:
        """The expression as one of the type ``target``, or an error that begins with ``what``."""
        source = node.type or UNKNOWN
        if source is target or source is UNKNOWN or target is UNKNOWN or isinstance(target, TypeVariable):
            return node
        if source is INTEGER:
            return self._coerce_number(node, target, what)
        if isinstance(node, ListOf) and isinstance(source, TupleType):
            return self._coerce_list(node, target, what)
        if isinstance(node, Record):
            return self._coerce_record(node, target, what)
        if isinstance(node, Ternary) and isinstance(source, TupleType | RecordType):
            node.yes, node.no = self.coerce(node.yes, target, what), self.coerce(node.no, target, what)
            node.type = target
            return node
        if source is NO_HEADER and isinstance(target, CompositeType) and target.kind != "struct":
            node.type = target
            return node
        if source is ANYTHING and isinstance(node, Default):
            node.type = target
            return node
        if isinstance(source, EnumType) and source.base is target:
            return self._insert_cast(node, target)
        if isinstance(source, TupleType) and isinstance(target, TupleType) and self._alike(source, target):
            node.type = target
            return node
        if isinstance(source, SetType) or isinstance(target, SetType):
            self.error(node.at, f"{what}: a set of keys is no value")
            return node
        self.error(node.at, f"{what} {target}, but this is {source}", mend(source, target, node))
        node.type = UNKNOWN
        return node

    def _alike(self, source: TupleType, target: TupleType) -> bool:
        if len(source.elements) != len(target.elements):
            return False
        return all(a is b or isinstance(b, TypeVariable) for a, b in zip(source.elements, target.elements, strict=True))

    def _insert_cast(self, node: Expression, target: Type) -> Cast:
        made = Cast(node.at, node.end, None, node)
        made.type, made.effects = target, node.effects
        made.value = None if node.value is None else convert(node.value, node.type or UNKNOWN, target)
        return made

    def _coerce_number(self, node: Expression, target: Type, what: str) -> Expression:
        """A number of no width becomes one of the type that is expected."""
        base = target
        if isinstance(target, EnumType) or not isinstance(plain(base), Bits):
            if target is INTEGER:
                return node
            self.error(node.at, f"{what} {target}, but this is a number", mend(INTEGER, target, node))
            node.type = UNKNOWN
            return node
        kind = plain(base)
        if isinstance(target, NewType):
            self.error(node.at, f"{what} {target}, but this is a number", f"Cast it: ({target}) …")
            node.type = UNKNOWN
            return node
        if not isinstance(kind, Bits):
            raise Unexpected
        value = node.value
        if isinstance(value, int):
            self.check_range(node, value, kind)
        self.give(node, target)
        return node

    def check_range(self, node: Expression, value: int, kind: Bits) -> None:
        """A warning if a number does not fit into its width."""
        low = -(1 << (kind.width - 1)) if kind.signed else 0
        high = (1 << (kind.width - kind.signed)) - 1
        if not low <= value <= high:
            need = max(value.bit_length(), 1) + (1 if kind.signed else 0)
            if value < 0 and not kind.signed:
                message = f"{value} is negative, but {kind} is unsigned; {kind.wrap(value)} is taken"
            else:
                message = f"{value} needs {need} bits, but {kind} has {kind.width}; {kind.wrap(value)} is taken"
            self.env.diagnostics.warning(node.at, message)

    def give(self, node: Expression, kind: Type) -> None:
        """Gives a type to numbers of no width within an expression."""
        if node.type is not INTEGER:
            return
        node.type = kind
        base = plain(kind)
        if isinstance(node.value, int) and isinstance(base, Bits):
            node.value = base.wrap(node.value)
        match node:
            case Ternary():
                self.give(node.yes, kind)
                self.give(node.no, kind)
            case Unary():
                self.give(node.operand, kind)
            case Binary() if node.operator in ("<<", ">>"):
                self.give(node.left, kind)
            case Binary():
                self.give(node.left, kind)
                self.give(node.right, kind)

    # --- lists and records

    def _coerce_list(self, node: ListOf, target: Type, what: str) -> Expression:
        fields: list[tuple[str, Type]]
        if isinstance(target, CompositeType) and target.kind in ("struct", "header"):
            fields = list(target.fields.items())
        elif isinstance(target, TupleType):
            fields = [(str(i), t) for i, t in enumerate(target.elements)]
        else:
            self.error(node.at, f"{what} {target}, but this is a list", mend(node.type or UNKNOWN, target, node))
            node.type = UNKNOWN
            return node
        rest = bool(node.items) and isinstance(node.items[-1], Default)
        given = len(node.items) - rest
        if given > len(fields) or (given < len(fields) and not rest):
            names = ", ".join(name for name, _ in fields[:12])
            hint = f"Its fields: {names}." if isinstance(target, CompositeType) else ""
            self.error(node.at, f"{what} {target} with {len(fields)} fields, but this list has {given}", hint)
            node.type = UNKNOWN
            return node
        for number, (name, kind) in enumerate(fields[:given]):
            node.items[number] = self.coerce(node.items[number], kind, f"the field {name!r} is")
        node.type = target
        if rest:
            node.value = None
        else:
            self._value_of_parts(node, node.items)
        return node

    def _coerce_record(self, node: Record, target: Type, what: str) -> Expression:
        if not (isinstance(target, CompositeType) and target.kind in ("struct", "header")):
            self.error(node.at, f"{what} {target}, but this is a list of fields")
            node.type = UNKNOWN
            return node
        given: dict[str, Expression] = {}
        wrong = False
        for position, (name, value) in enumerate(node.fields):
            if name == "...":
                continue
            kind = target.fields.get(name)
            if kind is None:
                hint = f"Its fields: {', '.join(list(target.fields)[:12])}."
                self.error(value.at, f"{target} has no field {name!r}", hint)
                wrong = True
            elif name in given:
                self.error(value.at, f"the field {name!r} is given twice")
                wrong = True
            else:
                given[name] = self.coerce(value, kind, f"the field {name!r} is")
                node.fields[position] = (name, given[name])
        rest = any(name == "..." for name, _ in node.fields)
        missing = [name for name in target.fields if name not in given]
        if missing and not rest and not wrong:
            self.error(
                node.at, f"the fields {', '.join(missing)} of {target} are missing", "Give them, or end with ', ...'."
            )
        node.type = target
        if not missing and not wrong:
            self._value_of_parts(node, [given[name] for name in target.fields])
        return node

    def _value_of_parts(self, node: Expression, parts: list[Expression]) -> None:
        values = tuple(part.value for part in parts)
        node.value = None if any(v is None for v in values) else values


def mend(source: Type, target: Type, node: Any) -> str:
    """How an expression of one type is made to be of another."""
    shown = "x"
    if isinstance(node, Name):
        shown = node.name
    elif isinstance(node, Member):
        shown = _spelled(node)
    bare, wanted = plain(source), plain(target)
    if isinstance(source, NewType) or isinstance(target, NewType):
        return f"Cast it: ({target}) {shown}."
    if isinstance(bare, Bits) and isinstance(wanted, Bits):
        if bare.signed != wanted.signed and bare.width != wanted.width:
            return f"Cast in two steps: ({target})(bit<{wanted.width}>)… changes sign and width one after the other."
        if bare.width > wanted.width and not bare.signed:
            return f"Cast it, which cuts its upper bits: ({target}) {shown}, or {shown}[{wanted.width - 1}:0]."
        return f"Cast it: ({target}) {shown}."
    if wanted is BOOL and isinstance(bare, Bits):
        return f"Compare it: {shown} == 1." if bare.width == 1 else f"Compare it: {shown} != 0."
    if wanted is BOOL and source is INTEGER:
        return "Write true or false."
    if bare is BOOL and isinstance(wanted, Bits):
        return f"Cast it: (bit<1>) {shown}, or {shown} ? 1 : 0."
    if is_header(bare) or is_struct(bare) or is_union(bare):
        return "Name one of its fields." if not isinstance(wanted, CompositeType) else "The two are different types."
    if isinstance(wanted, EnumType) and isinstance(node, Number):
        return f"Name a member: {wanted}.{next(iter(wanted.members), '…')}."
    return ""


def _spelled(node: Member) -> str:
    parts = [node.name]
    base = node.base
    while isinstance(base, Member):
        parts.append(base.name)
        base = base.base
    return ".".join([base.name if isinstance(base, Name) else "…", *reversed(parts)])


SHIFT_BITS = 8
"""Bits of the widest shift amount that the target takes."""


class Operators(Part):
    """Checks operators; ``check`` finds the type of an operand."""

    def __init__(self, env: Environment, coercion: Coercion, check: Callable[[Expression], Type]) -> None:
        super().__init__(env)
        self._coerce = coercion.coerce
        self._give = coercion.give
        self._check = check

    def check_unary(self, node: Unary) -> Type:
        """``!``, ``~``, ``-``, ``+``."""
        kind = self._check(node.operand)
        node.effects = node.operand.effects
        if kind is UNKNOWN:
            return UNKNOWN
        if node.operator == "!":
            if kind is not BOOL:
                hint = "Turn bits over with '~', or compare: x == 0." if isinstance(kind, Bits) else ""
                self.error(node.at, f"'!' is for bool, not for {kind}", hint)
                return UNKNOWN
        elif isinstance(kind, EnumType) and kind.base:
            node.operand = self._coerce(node.operand, kind.base, "an operand is")
            kind = kind.base
        elif not isinstance(kind, Bits) and (kind is not INTEGER or node.operator == "~"):
            hint = "Use '!' for bool." if kind is BOOL else ""
            hint = "Give the number a width: ~8w5." if kind is INTEGER else hint
            self.error(node.at, f"{node.operator!r} is for numbers with a width, not for {kind}", hint)
            return UNKNOWN
        if node.operand.value is not None:
            node.value = unary(node.operator, node.operand.value, kind)
        return kind

    def check_binary(self, node: Binary) -> Type:
        """All operators with two operands."""
        self._check(node.left)
        self._check(node.right)
        node.effects = node.left.effects or node.right.effects
        for side in ("left", "right"):
            operand: Expression = getattr(node, side)
            if isinstance(operand.type, EnumType) and operand.type.base and node.operator not in ("==", "!="):
                setattr(node, side, self._coerce(operand, operand.type.base, "an operand is"))
        left, right = node.left.type or UNKNOWN, node.right.type or UNKNOWN
        if UNKNOWN in (left, right):
            return BOOL if node.operator in _GIVES_BOOL else UNKNOWN
        kind = self._binary_type(node, left, right)
        if kind is not UNKNOWN and node.left.value is not None and node.right.value is not None and kind is not VOID:
            return self._fold(node, kind)
        return kind

    def _fold(self, node: Binary, kind: Type) -> Type:
        """Works out the value of an operator of known operands; its type, UNKNOWN where there is no value."""
        operator, left, right = node.operator, node.left.value, node.right.value
        if operator in ("&&&", ".."):
            return kind
        if operator not in _OF_ANYTHING:
            if not (isinstance(left, int) and isinstance(right, int)):
                return kind
            if operator in ("/", "%") and right == 0:
                self.error(node.at, "a division by zero")
                return UNKNOWN
            if operator in ("/", "%") and kind is INTEGER and (left < 0 or right < 0):
                hint = "Work with the numbers without their signs, and put the sign in front of the result."
                self.error(node.at, f"{operator!r} is not defined for negative numbers", hint)
                return UNKNOWN
            if kind is INTEGER and too_large(operator, left, right):
                self.error(node.at, f"a number may have {MOST_BITS:,} bits, and this has more")
                return UNKNOWN
        node.value = binary(operator, left, right, node.left.type or UNKNOWN, kind)
        return kind

    def _binary_type(self, node: Binary, left: Type, right: Type) -> Type:
        operator = node.operator
        if operator in ("&&", "||"):
            for operand in (left, right):
                if operand is not BOOL:
                    at = node.left if operand is left else node.right
                    hint = mend(operand, BOOL, at)
                    if isinstance(operand, Bits):
                        hint += f" Of bits it is {operator[0]!r}."
                    self.error(at.at, f"{operator!r} is for bool, not for {operand}", hint)
                    return BOOL
            return BOOL
        if operator in ("==", "!="):
            return self._equality(node, left, right)
        if operator in ("<<", ">>"):
            return self._shift(node, left, right)
        if operator == "++":
            return self._concatenation(node, left, right)
        if operator in ("&&&", ".."):
            kind = self._same(node, left, right)
            return UNKNOWN if kind is UNKNOWN else self.env.types.set(kind)
        kind = self._same(node, left, right)
        if kind is UNKNOWN:
            return BOOL if operator in _GIVES_BOOL else UNKNOWN
        if not isinstance(kind, Bits) and kind is not INTEGER:
            hint = f"Cast to {kind.base} first." if isinstance(kind, NewType) else ""
            self.error(node.at, f"{operator!r} is for numbers, not for {kind}", hint)
            return BOOL if operator in _GIVES_BOOL else UNKNOWN
        if operator in ("/", "%") and isinstance(kind, Bits):
            self._division(node, kind)
        if operator in ("|+|", "|-|") and kind is INTEGER:
            self.error(node.at, f"{operator!r} needs numbers with a width", "Write 8w5.")
            return UNKNOWN
        if operator in ("&", "|", "^") and kind is INTEGER and node.left.value is None:
            return UNKNOWN
        return BOOL if operator in _GIVES_BOOL else kind

    def _division(self, node: Binary, kind: Bits) -> None:
        divisor = node.right.value
        if kind.signed and node.left.value is None:
            self.error(node.at, f"{node.operator!r} is not for signed numbers", "Cast to bit<…>, or shift.")
        elif divisor == 0:
            self.error(node.at, "a division by zero")
        elif node.left.value is None and not (isinstance(divisor, int) and divisor & (divisor - 1) == 0):
            hint = "Divide by a power of two, or use x & (n - 1), or a table."
            self.error(node.at, f"the target divides by constants that are powers of two only: {node.operator!r}", hint)

    def _same(self, node: Binary, left: Type, right: Type) -> Type:
        """The one type of both operands."""
        if left is right:
            return left
        if left is INTEGER and isinstance(right, Bits):
            node.left = self._coerce(node.left, right, "an operand is")
            return node.left.type or UNKNOWN
        if right is INTEGER and isinstance(left, Bits):
            node.right = self._coerce(node.right, left, "an operand is")
            return node.right.type or UNKNOWN
        wider = right if isinstance(left, Bits) and isinstance(right, Bits) and right.width > left.width else left
        smaller, at = (left, node.left) if wider is right else (right, node.right)
        hint = mend(smaller, wider, at)
        self.error(node.at, f"{node.operator!r} needs operands of one type: here are {left} and {right}", hint)
        return UNKNOWN

    def _equality(self, node: Binary, left: Type, right: Type) -> Type:
        if left is not right:
            node.left, node.right = self._alike_sides(node, left, right)
            left, right = node.left.type or UNKNOWN, node.right.type or UNKNOWN
        if UNKNOWN in (left, right):
            return BOOL
        kind = plain(left)
        simple = isinstance(kind, Bits | EnumType | Varbits | CompositeType | StackType | TupleType | TypeVariable)
        if not simple and kind not in (BOOL, ERROR, INTEGER, STRING):
            what = "tables, externs and functions" if isinstance(kind, DeclaredType) else str(left)
            self.error(node.at, f"{what} cannot be compared")
        return BOOL

    def _alike_sides(self, node: Binary, left: Type, right: Type) -> tuple[Expression, Expression]:
        if left is INTEGER or isinstance(left, TupleType) or isinstance(node.left.value, tuple):
            return self._coerce(
                node.left, right, f"{node.operator!r} compares values of one type; the other is"
            ), node.right
        if isinstance(left, EnumType) and left.base is right:
            return self._coerce(node.left, right, ""), node.right
        what = f"{node.operator!r} compares values of one type; the other is"
        return node.left, self._coerce(node.right, left, what)

    def _shift(self, node: Binary, left: Type, right: Type) -> Type:
        amount = node.right.value
        if isinstance(amount, int) and amount < 0:
            self.error(node.right.at, "a shift by a negative number", "Shift the other way.")
            return UNKNOWN
        if not isinstance(left, Bits) and left is not INTEGER:
            self.error(node.at, f"{node.operator!r} is for numbers, not for {left}")
            return UNKNOWN
        if isinstance(right, Bits) and right.signed:
            self.error(node.right.at, f"a shift amount is unsigned, not {right}", f"Cast it: (bit<{right.width}>) …")
            return UNKNOWN
        if not isinstance(right, Bits) and right is not INTEGER:
            self.error(node.right.at, f"a shift amount is a number, not {right}")
            return UNKNOWN
        if amount is None:
            if left is INTEGER:
                self.error(node.left.at, "what is shifted by a variable needs a width", "Write 16w1 << x.")
                return UNKNOWN
            if isinstance(right, Bits) and right.width > SHIFT_BITS and node.left.value != 0:
                hint = f"Cast it: (bit<{SHIFT_BITS}>) …"
                self.error(
                    node.right.at, f"the target takes shift amounts of at most {SHIFT_BITS} bits, not {right}", hint
                )
        elif right is INTEGER:
            self._give(node.right, bits(max(amount.bit_length(), 1)))
        return left

    def _concatenation(self, node: Binary, left: Type, right: Type) -> Type:
        for operand, kind in ((node.left, left), (node.right, right)):
            if not isinstance(kind, Bits):
                hint = "Give the number a width: 8w5 ++ x." if kind is INTEGER else ""
                self.error(operand.at, f"'++' joins numbers with a width, not {kind}", hint)
                return UNKNOWN
        if not (isinstance(left, Bits) and isinstance(right, Bits)):
            raise Unexpected
        return bits(left.width + right.width, left.signed)


_OF_ANYTHING = frozenset({"==", "!=", "&&", "||"})
_GIVES_BOOL = frozenset({"==", "!=", "<", "<=", ">", ">=", "&&", "||"})
