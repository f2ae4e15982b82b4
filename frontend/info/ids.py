"""Numbers and aliases of P4Runtime's objects (P4Runtime specification, section 6.3)."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

ACTION: Final = 0x01
TABLE: Final = 0x02
VALUE_SET: Final = 0x03
CONTROLLER_HEADER: Final = 0x04
ACTION_PROFILE: Final = 0x11
COUNTER: Final = 0x12
DIRECT_COUNTER: Final = 0x13
METER: Final = 0x14
DIRECT_METER: Final = 0x15
REGISTER: Final = 0x16
DIGEST: Final = 0x17


def one_at_a_time(name: str) -> int:
    """Bob Jenkins's one-at-a-time hash, 32 bits, which p4c numbers objects with."""
    value = 0
    for byte in name.encode():
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    return (value + (value << 15)) & 0xFFFFFFFF


class Symbols:
    """Names of objects by kind, with their ids; numbers are given when the first is asked for."""

    def __init__(self) -> None:
        self._given: dict[int, dict[str, int | None]] = {}
        self._ids: dict[tuple[int, str], int] | None = None
        self._aliases: dict[str, str] = {}

    def add(self, kind: int, name: str, wanted: int | None = None) -> None:
        """An object; ``wanted``: the number of its ``@id``."""
        known = self._given.setdefault(kind, {})
        if wanted is not None:
            wanted = wanted if wanted >> 24 else (kind << 24) | wanted
        if name not in known or known[name] is None:
            known[name] = wanted

    def id(self, kind: int, name: str) -> int:
        """The number of an object: its kind, and 24 bits of its name's hash; the next free one after a clash."""
        if self._ids is None:
            self._ids = self._number()
        return self._ids[kind, name]

    def _number(self) -> dict[tuple[int, str], int]:
        found: dict[tuple[int, str], int] = {}
        taken: set[int] = set()
        for kind, names in self._given.items():
            for name, wanted in names.items():
                if wanted is not None:
                    found[kind, name] = wanted
                    taken.add(wanted)
        for kind in sorted(self._given):
            for name in sorted(n for n, wanted in self._given[kind].items() if wanted is None):
                value = one_at_a_time(name)
                while (kind << 24) | (value & 0xFFFFFF) in taken:
                    value += 1
                found[kind, name] = (kind << 24) | (value & 0xFFFFFF)
                taken.add(found[kind, name])
        return found

    def alias(self, name: str) -> str:
        """The shortest end of a name, cut at dots, that no other object's name has."""
        if not self._aliases:
            self._aliases = shortest_ends({n for names in self._given.values() for n in names})
        return self._aliases[name]


def shortest_ends(names: Iterable[str]) -> dict[str, str]:
    """For each name its shortest end, cut at dots, that is the end of no other."""
    parts = {name: name.split(".") for name in names}
    counts: Counter[str] = Counter()
    for split in parts.values():
        counts.update(".".join(split[i:]) for i in range(len(split)))
    found = {}
    for name, split in parts.items():
        ends = [".".join(split[i:]) for i in range(len(split) - 1, -1, -1)]
        found[name] = next((end for end in ends if counts[end] == 1), name)
    return found
