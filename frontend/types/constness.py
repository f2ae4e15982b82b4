"""Whether an expression may be known at compile time though the checker does not know it: constructor parameters."""

from p4reduce.frontend.syntax.declarations import Constant, Parameter
from p4reduce.frontend.syntax.tree import (
    Binary,
    Call,
    Cast,
    Default,
    Expression,
    Index,
    ListOf,
    Member,
    Name,
    Record,
    Slice,
    Ternary,
    Unary,
)


def may_be_constant(node: Expression, known: dict[Expression, bool]) -> bool:
    """Whether it is made of constants and parameters without direction only; ``known``: of its parts, filled here."""
    found = known.get(node)
    if found is None:
        found = known[node] = _may_be(node, known)
    return found


def _may_be(node: Expression, known: dict[Expression, bool]) -> bool:
    if node.value is not None:
        return True
    match node:
        case Name(target=Parameter(direction="")) | Name(target=Constant()):
            return True
        case Unary(operand=operand) | Cast(operand=operand):
            return may_be_constant(operand, known)
        case Binary(left=left, right=right):
            return may_be_constant(left, known) and may_be_constant(right, known)
        case Ternary(condition=condition, yes=yes, no=no):
            return all(may_be_constant(part, known) for part in (condition, yes, no))
        case Member(base=base) | Slice(base=base) | Index(base=base):
            return may_be_constant(base, known)
        case ListOf(items=items):
            return all(may_be_constant(item, known) for item in items)
        case Record(fields=fields):
            return all(may_be_constant(value, known) for _, value in fields)
        case Call(target=target):
            return target is not None and not isinstance(target, str)
        case Default():
            return True
    return False
