"""Depth, size and constants of expressions."""

from p4reduce.dataplane.model.errors import ProgramError
from p4reduce.dataplane.model.expressions import Cast, Const, Expr, Lookahead, children
from p4reduce.dataplane.model.limits import MAX_BITS, MAX_DEPTH, MAX_LOOKAHEAD_OFFSET, MAX_WEIGHT, MAX_WEIGHTS


class ExpressionBudget:
    """What the expressions of a program take together.

    Attributes:
        in_parser: whether an expression may look ahead in the packet.
    """

    def __init__(self) -> None:
        self.in_parser = False
        self._spent = 0
        self._known: dict[int, tuple[Expr, int, int, bool]] = {}

    def check(self, expr: Expr | None, where: str) -> None:
        """Adds an expression. Raises ProgramError."""
        if expr is None:
            return
        weight, looks = self.measure(expr, where)
        if looks and not self.in_parser:
            raise ProgramError(f"{where}: lookahead outside the parser")
        self._spent += weight
        if self._spent > MAX_WEIGHTS:
            raise ProgramError(f"{where}: the expressions of the program have more than {MAX_WEIGHTS} operands")

    def measure(self, expr: Expr, where: str) -> tuple[int, bool]:
        """Operands counted as often as they are written out, and whether it looks ahead. Raises ProgramError.

        Without recursion: what is too deep must be found here.
        """
        stack = [expr]
        while stack:
            node = stack[-1]
            below = children(node)
            missing = [child for child in below if id(child) not in self._known]
            if missing:
                stack += missing
                continue
            stack.pop()
            _check_numbers(node, where)
            parts = [self._known[id(child)] for child in below]
            # The expression is kept beside its measures, so that its id stays its own.
            self._known[id(node)] = (
                node,
                1 + sum(weight for _, weight, _, _ in parts),
                1 + max((depth for _, _, depth, _ in parts), default=0),
                isinstance(node, Lookahead) or any(looks for _, _, _, looks in parts),
            )
        _, weight, depth, looks = self._known[id(expr)]
        if depth > MAX_DEPTH:
            raise ProgramError(f"{where}: an expression {depth} operators deep; the limit is {MAX_DEPTH}")
        if weight > MAX_WEIGHT:
            raise ProgramError(f"{where}: an expression of {weight} operands; the limit is {MAX_WEIGHT}")
        return weight, looks


def _check_numbers(expr: Expr, where: str) -> None:
    match expr:
        case Const(value) if value.bit_length() > MAX_BITS:
            raise ProgramError(f"{where}: a constant of {value.bit_length()} bits; the limit is {MAX_BITS}")
        case Cast(width=width) if not 1 <= width <= MAX_BITS:
            raise ProgramError(f"{where}: a cast to {width} bits, not 1 to {MAX_BITS}")
        case Lookahead(offset, width) if not (0 <= offset <= MAX_LOOKAHEAD_OFFSET and 1 <= width <= MAX_BITS):
            raise ProgramError(f"{where}: lookahead of {width} bits at {offset}")
        case _:
            pass
