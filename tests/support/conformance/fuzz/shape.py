"""The tables and arrays of a program, read from p4c's JSON without the code of the switch under test."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

_SWITCH: Final = re.compile(r"switch_\d+_table")
"""Names of the tables that p4c makes of ``switch`` over a number; control planes do not see them."""


@dataclass(frozen=True)
class Key:
    """A field of a table's key: exact, lpm, ternary or range."""

    kind: str
    width: int


@dataclass(frozen=True)
class ActionShape:
    """An action's name and the widths of its parameters."""

    name: str
    widths: tuple[int, ...]


@dataclass(frozen=True)
class TableShape:
    """A table whose entries may change. ``profile``: its action profile, if it has one; ``selects``: with groups."""

    name: str
    keys: tuple[Key, ...]
    match_type: str
    size: int
    actions: tuple[ActionShape, ...]
    const_default: bool
    direct_counter: str | None
    direct_meter: str | None
    profile: str | None
    selects: bool

    @property
    def has_priority(self) -> bool:
        """Whether the table's entries need a priority."""
        return self.match_type in ("ternary", "range")


TIMES: Final = ("ingress_global_timestamp", "egress_global_timestamp", "enq_timestamp", "deq_timedelta")


@dataclass(frozen=True)
class Shape:
    """Tables by name; sizes of arrays by name; widths of value sets by name.

    Attributes:
        keyless: tables without a key whose default may change.
        fixed: whether some table has constant entries.
        clones: whether some action clones packets.
        timed: registers into which some action writes a time stamp, which differs between switches.
    """

    tables: dict[str, TableShape]
    registers: dict[str, int]
    counters: dict[str, int]
    meters: dict[str, int]
    value_sets: dict[str, int]
    keyless: dict[str, TableShape]
    fixed: bool
    clones: bool
    timed: frozenset[str]

    def untimed(self) -> "Shape":
        """Returns the shape without registers of time stamps, on which switches with different clocks disagree."""
        return replace(self, registers={name: size for name, size in self.registers.items() if name not in self.timed})


def read_shape(path: Path) -> Shape:
    """Returns the shape of a compiled program."""
    return shape_of(json.loads(path.read_text()))


def shape_of(root: Any) -> Shape:
    """Returns the shape of a program whose JSON is loaded already."""
    actions = {
        action["id"]: ActionShape(action["name"], tuple(p["bitwidth"] for p in action["runtime_data"]))
        for action in root["actions"]
    }
    direct = {c["binding"]: c["name"] for c in root["counter_arrays"] if c.get("is_direct")}
    widths = _Widths(root)
    tables = [table for pipeline in root["pipelines"] for table in pipeline["tables"]]
    return Shape(
        tables={
            table["name"]: _table(table, actions, direct, widths)
            for table in tables
            if table["key"] and table.get("entries") is None
        },
        registers={r["name"]: r["size"] for r in root["register_arrays"]},
        counters={c["name"]: c["size"] for c in root["counter_arrays"] if not c.get("is_direct")},
        meters={m["name"]: m["size"] for m in root["meter_arrays"] if not m.get("is_direct")},
        value_sets={v["name"]: v["compressed_bitwidth"] for v in root["parse_vsets"]},
        keyless={
            table["name"]: _table(table, actions, direct, widths)
            for table in tables
            if not table["key"] and not table.get("default_entry", {}).get("action_const", False)
        },
        fixed=any(table.get("entries") is not None and not _SWITCH.fullmatch(table["name"]) for table in tables),
        clones=any(p["op"].startswith("clone_") for action in root["actions"] for p in action["primitives"]),
        timed=frozenset(_timed(root)),
    )


def _timed(root: Any) -> Iterator[str]:
    """Yields names of registers that receive a time stamp, also through fields that the same action assigns."""
    for action in root["actions"]:
        tainted = {("standard_metadata", name) for name in TIMES}
        for primitive in action["primitives"]:
            target, *sources = primitive["parameters"] or [None]
            if any(field in tainted for source in sources for field in _fields(source)):
                if primitive["op"] == "assign":
                    tainted.add(tuple(target["value"]))
                elif primitive["op"] == "register_write":
                    yield target["value"]


def _fields(value: Any) -> Iterator[tuple[str, ...]]:
    """Yields every field in an expression."""
    if isinstance(value, dict):
        if value.get("type") == "field":
            yield tuple(value["value"])
        for inner in value.values():
            yield from _fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _fields(inner)


class _Widths:
    """Field widths by header instance and field name."""

    def __init__(self, root: dict[str, Any]) -> None:
        types = {t["name"]: {field[0]: field[1] for field in t["fields"]} for t in root["header_types"]}
        self._headers = {header["name"]: types[header["header_type"]] for header in root["headers"]}

    def of(self, target: list[str]) -> int:
        header, field = target
        return 1 if field == "$valid$" else int(self._headers[header][field])


def _table(obj: dict[str, Any], actions: dict[int, ActionShape], direct: dict[str, str], widths: _Widths) -> TableShape:
    return TableShape(
        name=obj["name"],
        keys=tuple(Key(key["match_type"], widths.of(key["target"])) for key in obj["key"]),
        match_type=obj["match_type"],
        size=obj["max_size"],
        actions=tuple(actions[ident] for ident in obj["action_ids"]),
        const_default=bool(obj.get("default_entry", {}).get("action_const", False)),
        direct_counter=direct.get(obj["name"]),
        direct_meter=obj.get("direct_meters"),
        profile=obj.get("action_profile"),
        selects=obj["type"] == "indirect_ws",
    )
