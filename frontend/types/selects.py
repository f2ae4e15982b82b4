"""Checks of transitions: what a parser's ``select`` goes by (P4_16 specification, section 13.6)."""

from typing import Any

from p4reduce.frontend.syntax.declarations import State
from p4reduce.frontend.syntax.tree import Default, ListOf, Transition
from p4reduce.frontend.types.kinds import (
    BOOL,
    ERROR,
    INTEGER,
    UNKNOWN,
    Bits,
    CompositeType,
    EnumType,
    SetType,
    StackType,
    TupleType,
    Type,
    bits,
    plain,
    width_of,
)
from p4reduce.frontend.types.scope import near
from p4reduce.frontend.types.tables import TableChecker


class SelectChecker(TableChecker):
    """Checks transitions."""

    def check_transition(self, item: Transition, names: dict[str, State]) -> None:
        """``transition s;``, ``transition select(…) { … }``; ``names``: the parser's states."""
        if item.target is not None:
            self._state_name(item.target, item.at, names)
            return
        kinds = [self._select_key(key) for key in item.keys]
        for case in item.cases:
            self._state_name(case.state, case.at, names)
            keyset = case.keyset
            keys = keyset.items if isinstance(keyset, ListOf) else [keyset]
            single = len(keys) == 1 and len(kinds) != 1
            if single and self._any_key(keys[0], kinds):
                continue
            if len(keys) != len(kinds):
                self.error(case.at, f"this case has {len(keys)} keys, but 'select' has {len(kinds)}")
                continue
            checked = [self.check_keyset(key, kind) for key, kind in zip(keys, kinds, strict=True)]
            case.keyset = ListOf(keyset.at, keyset.end, checked)

    def _any_key(self, key: Any, kinds: list[Type]) -> bool:
        """``default`` or a value set, which stand for all keys at once."""
        if isinstance(key, Default):
            return True
        self.check(key)
        if not isinstance(key.type, SetType) or not isinstance(key.type.element, TupleType | CompositeType):
            return False
        element = key.type.element
        parts = element.elements if isinstance(element, TupleType) else tuple(element.fields.values())
        widths, wanted = [width_of(part) for part in parts], [width_of(kind) for kind in kinds]
        if widths != wanted and UNKNOWN not in kinds:
            message = f"this value set has keys of {_listed(widths)} bits, but 'select' has keys of {_listed(wanted)}"
            self.error(key.at, message, "Give its type the same fields in the same order.")
        return True

    def _select_key(self, key: Any) -> Type:
        kind = self.check(key)
        bare = plain(kind)
        if kind is INTEGER:
            self.give(key, bits(32))
            self.error(key.at, "a number of no width is no key of 'select'")
            return UNKNOWN
        if kind is not UNKNOWN and not isinstance(bare, Bits | EnumType) and bare is not BOOL and bare is not ERROR:
            hint = "Use its fields." if isinstance(bare, CompositeType | StackType) else ""
            self.error(key.at, f"'select' cannot go by {kind}", hint)
            return UNKNOWN
        return kind

    def _state_name(self, name: str, at: int, names: dict[str, State]) -> None:
        if name not in names and name not in ("accept", "reject"):
            self.error(at, f"there is no state {name!r}", near(name, [*names, "accept", "reject"]))


def _listed(widths: list[int | None]) -> str:
    return ", ".join(str(width) for width in widths)
