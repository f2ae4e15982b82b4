"""Types of operators (P4_16 specification, sections 8.4 to 8.10)."""

from p4reduce.frontend.diagnostics import Unexpected
from p4reduce.frontend.syntax.tree import Binary, Expression, Unary
from p4reduce.frontend.types.coercion import Coercion, mend
from p4reduce.frontend.types.folding import MOST_BITS, binary, too_large, unary
from p4reduce.frontend.types.kinds import (
    BOOL,
    ERROR,
    INTEGER,
    STRING,
    UNKNOWN,
    VOID,
    Bits,
    CompositeType,
    DeclaredType,
    EnumType,
    NewType,
    StackType,
    TupleType,
    Type,
    TypeVariable,
    Varbits,
    bits,
    plain,
)

SHIFT_BITS = 8
"""Bits of the widest shift amount that the target takes."""


class OperatorChecker(Coercion):
    """Checks operators."""

    def check(self, node: Expression, expected: Type | None = None) -> Type:
        """See ExpressionChecker."""
        raise NotImplementedError

    def check_unary(self, node: Unary) -> Type:
        """``!``, ``~``, ``-``, ``+``."""
        kind = self.check(node.operand)
        node.effects = node.operand.effects
        if kind is UNKNOWN:
            return UNKNOWN
        if node.operator == "!":
            if kind is not BOOL:
                hint = "Turn bits over with '~', or compare: x == 0." if isinstance(kind, Bits) else ""
                self.error(node.at, f"'!' is for bool, not for {kind}", hint)
                return UNKNOWN
        elif isinstance(kind, EnumType) and kind.base:
            node.operand = self.coerce(node.operand, kind.base, "an operand is")
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
        self.check(node.left)
        self.check(node.right)
        node.effects = node.left.effects or node.right.effects
        for side in ("left", "right"):
            operand: Expression = getattr(node, side)
            if isinstance(operand.type, EnumType) and operand.type.base and node.operator not in ("==", "!="):
                setattr(node, side, self.coerce(operand, operand.type.base, "an operand is"))
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
            return UNKNOWN if kind is UNKNOWN else self.types.set(kind)
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
            node.left = self.coerce(node.left, right, "an operand is")
            return node.left.type or UNKNOWN
        if right is INTEGER and isinstance(left, Bits):
            node.right = self.coerce(node.right, left, "an operand is")
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
            return self.coerce(
                node.left, right, f"{node.operator!r} compares values of one type; the other is"
            ), node.right
        if isinstance(left, EnumType) and left.base is right:
            return self.coerce(node.left, right, ""), node.right
        what = f"{node.operator!r} compares values of one type; the other is"
        return node.left, self.coerce(node.right, left, what)

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
            self.give(node.right, bits(max(amount.bit_length(), 1)))
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
