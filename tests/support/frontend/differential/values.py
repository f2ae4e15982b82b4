"""Numbers that matter to a program: those that it compares fields with, and those in its constant entries."""

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.conformance.fuzz.generate import PORTS, number

FEW = 1 << 12
LAST_PORT = 510
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


class Values:
    """Generator of numbers for fields, from p4c's JSON without our own loader."""

    def __init__(self, path: Path) -> None:
        root = json.loads(path.read_text())
        self._of_field: dict[tuple[str, str], set[int]] = defaultdict(set)
        anywhere: set[int] = set()
        for node in _objects(root):
            if node.get("type") == "hexstr" and isinstance(node.get("value"), str):
                anywhere.add(int(node["value"], 16))
            if node.get("op") in COMPARISONS:
                self._compared(node)
        for pipeline in root["pipelines"]:
            for table in pipeline["tables"]:
                for entry in table.get("entries", ()):
                    self._matched(table, entry)
        for state in root["parsers"][0]["parse_states"]:
            for key in state["transition_key"][:1] if len(state["transition_key"]) == 1 else ():
                chosen = [int(t["value"], 16) for t in state["transitions"] if t["type"] == "hexstr"]
                if key["type"] == "field":
                    self._of_field[tuple(key["value"])].update(chosen)
        self._anywhere = sorted(value for value in anywhere if value > 1)
        self.numbers = [value for value in self._anywhere if value < FEW][:16]
        """Small constants, which include the numbers of groups and clone sessions."""

    def _compared(self, node: Any) -> None:
        """Record, for each field in a comparison, its constants and their neighbours."""
        sides = node["left"], node["right"]
        constants = [int(one["value"], 16) for side in sides for one in _objects(side) if one.get("type") == "hexstr"]
        for side in sides:
            for one in _objects(side):
                if one.get("type") == "field":
                    for constant in constants:
                        self._of_field[tuple(one["value"])] |= {constant, constant + 1, max(constant - 1, 0)}

    def _matched(self, table: Any, entry: Any) -> None:
        for key, match in zip(table["key"], entry["match_key"], strict=True):
            for name in ("key", "start", "end"):
                if isinstance(match.get(name), str):
                    self._of_field[tuple(key["target"])].add(int(match[name], 16))

    def port(self, rng: random.Random) -> int:
        """Return an ingress port: mostly one of a few, else one that the program compares with."""
        own = [port for port in self._of_field["standard_metadata", "ingress_port"] if port <= LAST_PORT]
        return rng.choice(sorted(own)) if own and rng.random() < 0.3 else rng.randrange(PORTS)

    def draw(self, rng: random.Random, width: int, field: tuple[str, str] | None = None) -> int:
        """Return a number of ``width`` bits, often a constant of the program, mostly one of this field."""
        ones = (1 << width) - 1
        own = self._of_field.get(field) if field is not None else None
        if own and rng.random() < 0.5:
            return rng.choice(sorted(own)) & ones
        if self._anywhere and rng.random() < 0.15:
            value = rng.choice(self._anywhere)
            if value <= ones:
                return value
        return number(rng, width)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for name, inner in value.items():
            if name != "source_info":
                yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)
