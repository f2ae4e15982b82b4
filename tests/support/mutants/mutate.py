"""Random changes of a JSON document, biased towards documents that a loader still accepts."""

import copy
import random
from typing import Any, Final

INTEGERS: Final = (
    *(-(1 << 63), -1000, -1, 0, 1, 2, 3, 7, 8, 9, 16, 31, 32, 33, 48, 63, 64, 65, 128, 255, 256, 257, 288, 511, 512),
    *(1024, 4097, 1 << 16, 1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 62, 1 << 63, 10**30),
)
STRINGS: Final = ("", "default", "$valid$", "$length$", "$next$", 'a"b', "line\nbreak", "\\", "é", "NoError", "*")
VALUES: Final = (None, True, False, [], {}, 1.5, "0x", *STRINGS, *INTEGERS)

Place = tuple[Any, Any]
"""(list or object, index or key)"""


def places(node: Any, found: list[Place] | None = None) -> list[Place]:
    """Return all values in a document, except source positions."""
    found = [] if found is None else found
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        if key not in ("source_info", "__meta__", "pragmas"):
            found.append((node, key))
            places(value, found)
    return found


def mutated(root: Any, rng: random.Random) -> Any:
    """Return a copy with one to four changes."""
    root = copy.deepcopy(root)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        everywhere = places(root)
        # Sections differ greatly in size: choose a section first, then a place in it.
        section = rng.choice(list(root))
        inside = places(root[section]) or everywhere
        _change(*rng.choice(inside if rng.random() < 0.7 else everywhere), everywhere, rng)
    return root


def _change(parent: Any, key: Any, everywhere: list[Place], rng: random.Random) -> None:
    value = parent[key]
    alike = [p for p in everywhere if p[1] == key and type(p[0][p[1]]) is type(value)]
    kind = rng.random()
    if kind < 0.35 and alike:
        parent[key] = copy.deepcopy(_at(rng.choice(alike)))
    elif kind < 0.75:
        parent[key] = _other(value, everywhere, rng)
    elif kind < 0.82:
        del parent[key]
    elif kind < 0.92 and isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(value))
    elif kind < 0.95 and isinstance(parent, list):
        rng.shuffle(parent)
    elif kind < 0.97:
        parent[key] = _nested(value, rng)
    else:
        parent[key] = copy.deepcopy(rng.choice(VALUES))


def _at(place: Place) -> Any:
    return place[0][place[1]]


def _other(value: Any, everywhere: list[Place], rng: random.Random) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, -value, *rng.sample(INTEGERS, 3)))
    if isinstance(value, str) and value.startswith(("0x", "-0x")):
        return hex(rng.choice((rng.getrandbits(4), rng.getrandbits(16), *rng.sample(INTEGERS, 2))))
    if isinstance(value, str):
        texts = [text for place in everywhere if isinstance(text := _at(place), str) and not text.startswith("0x")]
        return rng.choice(texts if rng.random() < 0.9 else STRINGS)
    same = [_at(place) for place in everywhere if type(_at(place)) is type(value)]
    return copy.deepcopy(rng.choice(same)) if same else rng.choice(VALUES)


def _nested(value: Any, rng: random.Random) -> Any:
    """Wrap an expression in many others."""
    if not isinstance(value, dict) or "type" not in value:
        return value
    for _ in range(rng.choice((3, 90, 120, 400))):
        operation = rng.choice(("+", "&", "<<", ">>", "*", "^"))
        one = {"type": "hexstr", "value": hex(rng.choice((1, 3, 255)))}
        value = {"type": "expression", "value": {"op": operation, "left": value, "right": one}}
    return value
