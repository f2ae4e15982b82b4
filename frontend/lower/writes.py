"""What code may write: whether an argument can stand for itself or must be copied in (specification, section 6.7)."""

from collections.abc import Iterator
from typing import Any

from p4reduce.frontend.syntax.declarations import Action, Function, Parameter, Program, Table, Variable
from p4reduce.frontend.syntax.tree import (
    Assign,
    Block,
    Call,
    CallStatement,
    Expression,
    Index,
    Member,
    Name,
    Return,
    Slice,
    Switch,
)
from p4reduce.frontend.types.warnings import nodes


class Writes:
    """Finds what code writes; ``of`` gives left sides, in terms of the code's own names."""

    def __init__(self) -> None:
        self._known: dict[Any, list[Expression]] = {}
        self._named: dict[Any, set[Parameter]] = {}

    def of(self, callee: Action | Function | Program) -> list[Expression]:
        """Every left side and every ``out`` argument in a callee and in what it calls."""
        found = self._known.get(callee)
        if found is None:
            self._known[callee] = []
            found = self._known[callee] = list(self._of_callee(callee))
        return found

    def names(self, callee: Action | Function | Program) -> set[Parameter]:
        """The parameters that a callee names anywhere."""
        found = self._named.get(callee)
        if found is None:
            found = self._named[callee] = {
                node.target for node in nodes(callee) if isinstance(node, Name) and isinstance(node.target, Parameter)
            }
        return found

    def _of_callee(self, callee: Action | Function | Program) -> Iterator[Expression]:
        if isinstance(callee, Program):
            for local in callee.locals:
                if isinstance(local, Action):
                    yield from self._statements(local.body)
                elif isinstance(local, Variable) and local.initial is not None:
                    yield from self._expression(local.initial)
            for state in callee.states:
                for item in state.items:
                    yield from self._statements(item)
        if callee.body is not None:
            yield from self._statements(callee.body)

    def _statements(self, node: Any) -> Iterator[Expression]:
        match node:
            case Block():
                for item in node.items:
                    yield from self._statements(item)
            case Assign():
                yield node.left
                yield from self._expression(node.right)
            case CallStatement():
                yield from self._expression(node.call)
            case Variable():
                if node.initial is not None:
                    yield from self._expression(node.initial)
            case Return():
                if node.value is not None:
                    yield from self._expression(node.value)
            case Switch():
                yield from self._expression(node.subject)
                for case in node.cases:
                    if case.body is not None:
                        yield from self._statements(case.body)
            case _ if hasattr(node, "condition"):
                yield from self._expression(node.condition)
                yield from self._statements(node.yes)
                if node.no is not None:
                    yield from self._statements(node.no)

    def _expression(self, node: Any) -> Iterator[Expression]:
        if not isinstance(node, Expression) or not node.effects:
            return
        if not isinstance(node, Call):
            for name in node.__dataclass_fields__:
                inner = getattr(node, name)
                for part in inner if isinstance(inner, list) else (inner,):
                    yield from self._expression(part[1] if isinstance(part, tuple) else part)
            return
        for value in node.bound:
            if value is not None:
                yield from self._expression(value)
        target = node.target
        parameters = getattr(target, "parameters", [])
        for parameter, value in zip(parameters, node.bound, strict=False):
            if parameter.direction in ("out", "inout") and value is not None:
                yield value
        if isinstance(node.callee, Member):
            yield from self._expression(node.callee.base)
            if isinstance(target, str):
                yield node.callee.base
        if isinstance(target, Action):
            # An action writes what its control can see.
            own = set(target.parameters)
            yield from (e for e in self.of(target) if root(e) not in own)
        elif isinstance(target, Table):
            for ref in target.actions:
                if isinstance(ref.target, Action):
                    own = set(ref.target.parameters)
                    yield from (e for e in self.of(ref.target) if root(e) not in own)
                    for parameter, value in zip(ref.target.parameters, ref.bound, strict=False):
                        if parameter.direction in ("out", "inout") and value is not None:
                            yield value


def root(node: Expression) -> Any:
    """The variable or parameter of which a left side is a part."""
    while isinstance(node, Member | Index | Slice):
        node = node.base
    return node.target if isinstance(node, Name) else None
