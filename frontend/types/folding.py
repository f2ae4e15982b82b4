"""Compile-time values: what operators make of known operands (P4_16 specification, sections 8 and 18.1).

A value is an int (cut to the width of its type), a bool, a string, a member of an enum or of ``error``, or for a
struct or list a tuple of values.
"""

from typing import Any

from p4reduce.frontend.types.kinds import BOOL, INTEGER, Bits, Type

MOST_BITS = 1 << 20
"""Of a number without a width, so that a few lines do not ask for more memory than there is."""


def unary(operator: str, operand: Any, kind: Type) -> Any:
    """The value of ``operator operand``, of type ``kind``."""
    if operator == "!":
        return not operand
    number = {"-": -operand, "~": ~operand, "+": operand}[operator]
    return kind.wrap(number) if isinstance(kind, Bits) else number


def binary(operator: str, left: Any, right: Any, left_type: Type, kind: Type) -> Any:
    """The value of ``left operator right`` of type ``kind``; None where there is none (a division by zero)."""
    match operator:
        case "&&":
            return left and right
        case "||":
            return left or right
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
    number = _arithmetic(operator, left, right, left_type, kind)
    if number is None:
        return None
    if isinstance(kind, Bits):
        return saturate(number, kind) if operator in ("|+|", "|-|") else kind.wrap(number)
    return number


def _arithmetic(operator: str, left: int, right: int, left_type: Type, kind: Type) -> int | None:
    match operator:
        case "+" | "|+|":
            return left + right
        case "-" | "|-|":
            return left - right
        case "*":
            return None if too_large(operator, left, right) else left * right
        case "/":
            return None if right == 0 else abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        case "%":
            return None if right == 0 else abs(left) % abs(right) * (-1 if left < 0 else 1)
        case "<<":
            if isinstance(kind, Bits) and right >= kind.width:
                return 0
            return None if right < 0 or too_large(operator, left, right) else left << right
        case ">>":
            return left >> right if right >= 0 else None
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "++" if isinstance(kind, Bits) and isinstance(left_type, Bits):
            low = kind.width - left_type.width
            return (left << low) | (right & ((1 << low) - 1))
    return None


def too_large(operator: str, left: int, right: int) -> bool:
    """Whether a product or a shift to the left has more bits than a number may have."""
    more = {"*": right.bit_length(), "<<": right}.get(operator)
    return more is not None and bool(left) and left.bit_length() + more > MOST_BITS


def saturate(number: int, kind: Bits) -> int:
    """A number held within the ends of its type."""
    if kind.signed:
        return max(-(1 << (kind.width - 1)), min(number, (1 << (kind.width - 1)) - 1))
    return max(0, min(number, (1 << kind.width) - 1))


def convert(value: Any, source: Type, target: Type) -> Any:
    """A value cast from one type to another; None if that cannot be told here."""
    if isinstance(target, Bits):
        if isinstance(value, bool):
            return int(value)
        return target.wrap(value) if isinstance(value, int) else None
    if target is BOOL:
        return bool(value) if isinstance(value, bool | int) else None
    if target is INTEGER:
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    return value
