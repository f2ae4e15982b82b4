"""Names and what they name (P4_16 specification, section 6.8)."""

from difflib import get_close_matches
from typing import Any

from p4reduce.frontend.syntax.declarations import Function


class Scope:
    """The names of a block, control, parser or program, and the scope around it."""

    def __init__(self, parent: "Scope | None" = None) -> None:
        self.parent = parent
        self.names: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """What a name names here or further out; None if nothing."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def outermost(self) -> "Scope":
        """The scope of the program."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def add(self, name: str, what: Any) -> Any:
        """Adds a name; what it named in this scope before, if that is not an overload of the same function."""
        before = self.names.get(name)
        if isinstance(before, list) and isinstance(what, Function):
            before.append(what)
            return None
        if before is not None:
            return before
        self.names[name] = [what] if isinstance(what, Function) else what
        return None

    def near(self, name: str) -> str:
        """A name like the given one, for a hint; may be empty."""
        known: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            known += [other for other in scope.names if not other.startswith("__")]
            scope = scope.parent
        close = [other for other in known if sorted(other) == sorted(name)][:1]
        close = close or get_close_matches(name, known, 1, 0.7)
        if not close:
            close = [other for other in known if other.lower() == name.lower()][:1]
        return f"Did you mean {close[0]!r}?" if close else ""


def near(name: str, known: Any) -> str:
    """The same among given names; lists them if none is alike and they are few."""
    names = [str(k) for k in known]
    close = get_close_matches(name, names, 1, 0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"There are: {', '.join(names)}." if 0 < len(names) <= 12 else ""
