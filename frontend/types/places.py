"""What may be assigned to (P4_16 specification, section 6.6)."""

from p4reduce.frontend.syntax.declarations import Constant, Parameter, ValueSet, Variable
from p4reduce.frontend.syntax.tree import Expression, Index, Member, Name, Slice
from p4reduce.frontend.types.base import what_is
from p4reduce.frontend.types.expressions import ExpressionChecker
from p4reduce.frontend.types.kinds import UNKNOWN, StackType, Type, plain


class PlaceChecker(ExpressionChecker):
    """Checks left-hand sides."""

    def check_place(self, node: Expression, what: str) -> Type:
        """The type of what is assigned to; UNKNOWN, and an error that begins with ``what``, if nothing can be."""
        kind = self.check(node)
        if kind is UNKNOWN:
            return UNKNOWN
        problem = self._problem(node)
        if problem is None:
            return kind
        self.error(node.at, f"{what} cannot be assigned to: {problem[0]}", problem[1])
        return UNKNOWN

    def _problem(self, node: Expression) -> tuple[str, str] | None:
        """Why not, and what to do; None if it can be assigned to."""
        match node:
            case Slice():
                return self._problem(node.base)
            case Index():
                return self._problem(node.base)
            case Member():
                if isinstance(plain(node.base.type or UNKNOWN), StackType):
                    if node.name in ("size", "lastIndex"):
                        return f"{node.name!r} follows from the stack", ""
                    if node.name == "last":
                        return None
                if node.target is not None:
                    return "it is a constant", ""
                return self._problem(node.base)
            case Name():
                return self._problem_of_name(node)
        return "it is no variable, parameter or field", "Only these hold something."

    def _problem_of_name(self, node: Name) -> tuple[str, str] | None:
        target = node.target
        match target:
            case Variable():
                return None
            case Parameter():
                if target.direction in ("out", "inout"):
                    return None
                if target.direction == "in":
                    return f"the parameter {node.name!r} is 'in'", "Declare it 'inout', or copy it into a variable."
                return f"the parameter {node.name!r} has no direction, so it is only read", "Copy it into a variable."
            case Constant():
                return f"{node.name!r} is a constant", ""
            case ValueSet():
                return f"{node.name!r} is a value set, which the control plane fills", ""
        return f"{node.name!r} is {what_is(target)}", ""
