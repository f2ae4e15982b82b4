"""Whether a parser comes to an end, and a statement without a ``return``."""

from typing import Any

from p4reduce.frontend.syntax.declarations import State
from p4reduce.frontend.syntax.tree import Block, Default, Exit, If, Return, Switch


def comes_to_an_end(states: dict[str, State]) -> bool:
    """Whether some way from ``start`` comes to an end."""
    seen: set[str] = set()
    stack = ["start"]
    while stack:
        name = stack.pop()
        state = states.get(name)
        if state is None or state.transition is None:
            return True
        if name not in seen:
            seen.add(name)
            stack += [case.state for case in state.transition.cases]
            stack += [state.transition.target] if state.transition.target is not None else []
    return False


def always_returns(node: Any) -> bool:
    """Whether a statement never ends without ``return`` or ``exit``."""
    match node:
        case Return() | Exit():
            return True
        case Block():
            return any(always_returns(item) for item in node.items)
        case If():
            return node.no is not None and always_returns(node.yes) and always_returns(node.no)
        case Switch():
            bodies = [case.body for case in node.cases if case.body is not None]
            has_default = any(isinstance(case.label, Default) for case in node.cases)
            return has_default and bool(bodies) and all(always_returns(body) for body in bodies)
    return False
