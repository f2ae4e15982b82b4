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


def may_be_constant(node: Expression) -> bool:
    """Whether it is made of constants and parameters without direction only."""
    if node.value is not None:
        return True
    match node:
        case Name(target=Parameter(direction="")) | Name(target=Constant()):
            return True
        case Unary(operand=operand) | Cast(operand=operand):
            return may_be_constant(operand)
        case Binary(left=left, right=right):
            return may_be_constant(left) and may_be_constant(right)
        case Ternary(condition=condition, yes=yes, no=no):
            return may_be_constant(condition) and may_be_constant(yes) and may_be_constant(no)
        case Member(base=base) | Slice(base=base) | Index(base=base):
            return may_be_constant(base)
        case ListOf(items=items):
            return all(may_be_constant(item) for item in items)
        case Record(fields=fields):
            return all(may_be_constant(value) for _, value in fields)
        case Call(target=target):
            return target is not None and not isinstance(target, str)
        case Default():
            return True
    return False
