"""Loads an entries file for a program: names become tables and actions, texts become numbers of the right width."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from p4switch.base.files import read_text
from p4switch.base.safe_yaml import PlainNodes
from p4switch.base.values import ValueProblem, find_name, one_line, parse_number
from p4switch.device import Device
from p4switch.program import Program
from p4switch.program.actions import Action, MatchKey, MatchTable
from p4switch.state.device_state import MulticastError
from p4switch.tables import DefaultEntry, Exact, Lpm, Match, Range, TableEntry, TableError, Ternary

# Reading an entries file as data: no tags, no aliases, no guessed types; the line of every item is kept.
#
# Every scalar stays text. Otherwise YAML would read the MAC address ``10:20:30:40:50:10`` as a number of base 60.


FILE_LIMIT: Final = 1 << 20
"""bytes; an entry takes about 150"""


class EntriesError(ValueError):
    """An entries file that cannot be used; each line of the message names the file, the entry and the fix."""


@dataclass(frozen=True)
class Document:
    """The contents of a file.

    Attributes:
        name: the file's name, for messages.
        data: the contents as dicts, lists and strings.
        lines: the line of each item of each top-level list, by (list, number).
    """

    name: str
    data: dict[str, Any]
    lines: dict[tuple[str, int], int]


class _Loader(PlainNodes, yaml.BaseLoader):
    """Loads strings, lists and mappings only."""


def read_document(path: Path) -> Document:
    """Reads a YAML (or JSON) file. Raises EntriesError."""
    try:
        if path.stat().st_size > FILE_LIMIT:
            raise EntriesError(f"{path}: larger than {FILE_LIMIT} bytes; this is no entries file")
        text = read_text(path)
    except OSError as error:
        raise EntriesError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise EntriesError(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start})") from None
    return parse_document(text, str(path))


def parse_document(text: str, name: str) -> Document:
    """Parses a document from text; ``name`` is for messages. Raises EntriesError."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        data = None if node is None else loader.construct_document(node)
    except yaml.YAMLError as error:
        raise EntriesError(f"{name}: is not YAML: {one_line(error)}") from None
    if not isinstance(data, dict):
        content = "empty" if data in (None, "") else f"a {type(data).__name__}"
        raise EntriesError(f"{name}: is {content}; expected 'tables:' and a list of entries")
    return Document(name, {str(key): value for key, value in data.items()}, _lines(node))


def _lines(node: Any) -> dict[tuple[str, int], int]:
    lines = {}
    for key, value in node.value:
        if isinstance(value, yaml.SequenceNode):
            for number, item in enumerate(value.value):
                lines[str(key.value), number] = item.start_mark.line + 1
    return lines


# The format of an entries file, checked by pydantic; names and widths are checked against the program later.


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MatchModel(_Strict):
    """A match field written as a mapping: ``{value: 8, mask: 0xff}``, ``{value: 10.0.0.0, prefix: 8}``,
    ``{low: 1, high: 9}``.
    """

    value: str | None = None
    mask: str | None = None
    prefix: str | None = None
    low: str | None = None
    high: str | None = None


class EntryModel(_Strict):
    """An item of ``tables``. With ``default: true`` it sets the default entry, and has no match."""

    table: str
    match: dict[str, str | MatchModel] = Field(default_factory=dict)
    action: str
    params: dict[str, str] = Field(default_factory=dict)
    priority: str | None = None
    default: bool = False


class ReplicaModel(_Strict):
    """One copy of a multicast: its port and its replication id (``egress_rid``)."""

    port: str
    rid: str = "0"


class GroupModel(_Strict):
    """An item of ``multicast``."""

    group: str
    replicas: list[ReplicaModel]


class RegisterModel(_Strict):
    """An item of ``registers``: the initial value of a cell."""

    register_: str = Field(alias="register")
    index: str
    value: str


class FileModel(_Strict):
    """A whole entries file."""

    tables: list[EntryModel] = Field(default_factory=list)
    multicast: list[GroupModel] = Field(default_factory=list)
    registers: list[RegisterModel] = Field(default_factory=list)


def check_shape(document: Document) -> FileModel:
    """Returns the file as objects. Raises EntriesError with a line for each mistake."""
    data = {key: [] if value == "" else value for key, value in document.data.items()}
    try:
        return FileModel.model_validate(_without_empty(data))
    except ValidationError as error:
        lines = list(dict.fromkeys(_explain(document, dict(problem)) for problem in error.errors()))
        raise EntriesError("\n".join(lines[:10])) from None


def _without_empty(data: dict[str, Any]) -> dict[str, Any]:
    """Reads ``params:`` without a value, which YAML gives as an empty text, as no parameters."""
    items = data.get("tables")
    if not isinstance(items, list):
        return data
    tables = []
    for item in items:
        if isinstance(item, dict):
            tables.append({k: {} if v == "" and k in ("match", "params") else v for k, v in item.items()})
        else:
            tables.append(item)
    return data | {"tables": tables}


def _explain(document: Document, problem: dict[str, Any]) -> str:
    location = [part for part in problem["loc"] if part not in ("str", "MatchModel")]
    where = document.name
    if len(location) > 1 and isinstance(location[1], int):
        where = place(document, str(location[0]), location[1])
        location = location[2:]
    field = ".".join(str(part) for part in location)
    match problem["type"]:
        case "extra_forbidden":
            message = "is not known here; remove it or correct its name"
        case "missing":
            message = "is missing; add it"
        case "list_type":
            message = "must be a list: begin each item with '- '"
        case "dict_type" | "model_type":
            message = "must be a mapping such as 'name: value'"
        case "string_type":
            message = "must be a single value"
        case _:
            message = str(problem["msg"])
    return f"{where}: {field + ' ' if field else ''}{message}"


def place(document: Document, section: str, number: int) -> str:
    """Returns the place of an item, such as ``file, line 7: tables[2] (table job)``."""
    line = document.lines.get((section, number))
    items = document.data.get(section)
    item = items[number] if isinstance(items, list) and number < len(items) else None
    label = ""
    if isinstance(item, dict):
        kind = {"tables": "table", "multicast": "group", "registers": "register"}[section]
        label = f" ({kind} {str(item.get(kind, '?'))[:60]})"
    at = f", line {line}" if line else ""
    return f"{document.name}{at}: {section}[{number}]{label}"


_SHOWN: Final = 10
"""maximum number of problems of one file that are reported at once"""


@dataclass(frozen=True, slots=True)
class PlacedEntry:
    """A table entry with its place in the file; ``where`` is for messages."""

    table: str
    entry: TableEntry | DefaultEntry
    where: str


@dataclass(frozen=True)
class Entries:
    """The entries, groups and registers of a file.

    Attributes:
        tables: entries and defaults, in the order of the file.
        groups: replicas (port, rid) of each multicast group.
        registers: (name, index) -> value.
    """

    name: str
    tables: tuple[PlacedEntry, ...] = ()
    groups: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    registers: dict[tuple[str, int], int] = field(default_factory=dict)

    def of(self, table: str) -> list[TableEntry]:
        """Returns the entries of a table, given by its full name."""
        return [p.entry for p in self.tables if p.table == table and isinstance(p.entry, TableEntry)]

    def apply(self, device: Device, *, over: bool = False) -> None:
        """Applies entries, groups and registers to a device. Raises EntriesError, which names the refused entry.

        ``over``: an entry replaces an existing entry with the same match.
        """
        problems = []
        for placed in self.tables:
            try:
                if isinstance(placed.entry, TableEntry):
                    table = device.tables[placed.table]
                    there = over and any(entry.match == placed.entry.match for entry in table.entries())
                    (table.modify if there else table.insert)(placed.entry)
                elif placed.entry.action is not None:
                    device.tables[placed.table].set_default(placed.entry.action, placed.entry.arguments)
            except TableError as error:
                problems.append(f"{placed.where}: {error}")
        for group, replicas in self.groups.items():
            try:
                device.multicast.set(group, replicas)
            except MulticastError as error:
                problems.append(f"{self.name}: {error}")
        for (register, index), value in self.registers.items():
            device.registers[register].write(index, value)
        _raise(problems)


def load_entries(path: Path, program: Program) -> Entries:
    """Reads an entries file for a program. Raises EntriesError."""
    return resolve(read_document(path), program)


def parse_entries(text: str, program: Program, name: str = "entries") -> Entries:
    """Reads entries from text for a program. Raises EntriesError."""
    return resolve(parse_document(text, name), program)


def resolve(document: Document, program: Program) -> Entries:
    """Returns a document's entries for a program. Raises EntriesError with up to ten problems."""
    file = check_shape(document)
    problems: list[str] = []
    tables: list[PlacedEntry] = []
    for number, item in enumerate(file.tables):
        where = place(document, "tables", number)
        try:
            tables.append(_entry(item, program, where))
        except ValueProblem as problem:
            problems.append(f"{where}: {problem}")
    groups: dict[int, tuple[tuple[int, int], ...]] = {}
    for number, group in enumerate(file.multicast):
        try:
            _group(group, groups)
        except ValueProblem as problem:
            problems.append(f"{place(document, 'multicast', number)}: {problem}")
    registers: dict[tuple[str, int], int] = {}
    for number, cell in enumerate(file.registers):
        try:
            _register(cell, program, registers)
        except ValueProblem as problem:
            problems.append(f"{place(document, 'registers', number)}: {problem}")
    _raise(problems)
    return Entries(document.name, tuple(tables), groups, registers)


def _raise(problems: list[str]) -> None:
    if problems:
        more = [f"... and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise EntriesError("\n".join(problems[:_SHOWN] + more))


def named_tables(program: Program) -> dict[str, MatchTable]:
    """Returns the tables that the P4 program declares, without those that p4c makes for statements."""
    return {name: table for name, table in program.tables.items() if table.keys or not table.const_default}


def _entry(item: EntryModel, program: Program, where: str) -> PlacedEntry:
    spec = program.tables[find_name(item.table, named_tables(program), "table")]
    actions = {program.actions[ident].name: program.actions[ident] for ident in spec.actions}
    action = actions[find_name(item.action, actions, f"action of table {item.table}")]
    arguments = _arguments(item, action)
    if item.default or not spec.keys:
        if item.match:
            raise ValueProblem("match: a default entry (and a table without a key) has none; remove it")
        return PlacedEntry(spec.name, DefaultEntry(action.name, arguments), where)
    match = _matches(item, spec)
    return PlacedEntry(spec.name, TableEntry(match, action.name, arguments, _priority(item, spec)), where)


def _arguments(item: EntryModel, action: Action) -> tuple[int, ...]:
    known = [parameter.name for parameter in action.parameters]
    for name in item.params:
        if name not in known:
            offer = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ValueProblem(f"params: action {item.action} has no parameter {name!r}: {offer}")
    missing = [name for name in known if name not in item.params]
    if missing:
        raise ValueProblem(f"params: {', '.join(missing)} missing: action {item.action} needs {', '.join(known)}")
    return tuple(_number(item.params[p.name], p.width, f"params.{p.name}") for p in action.parameters)


def _priority(item: EntryModel, spec: MatchTable) -> int:
    wanted = spec.kind in ("ternary", "range")
    if wanted and item.priority is None:
        raise ValueProblem(f"priority is missing: table {item.table} is {spec.kind}, the highest number wins")
    if item.priority is None:
        return 0
    if not wanted:
        raise ValueProblem(f"priority: table {item.table} is {spec.kind} and has none; remove it")
    priority = _number(item.priority, 31, "priority")
    if priority == 0:
        raise ValueProblem("priority: must be 1 or more, as in P4Runtime")
    return priority


def _matches(item: EntryModel, spec: MatchTable) -> tuple[Match, ...]:
    names = [key.name for key in spec.keys]
    given: dict[str, str | MatchModel] = {}
    for name, value in item.match.items():
        full = find_name(name, names, f"key of table {item.table}")
        if full in given:
            raise ValueProblem(f"match: {full} is given twice; keep one")
        given[full] = value
    matches = []
    for key in spec.keys:
        if key.name in given:
            matches.append(_match(given[key.name], key))
        elif key.kind in ("exact", "range"):
            raise ValueProblem(f"match: {key.name} is missing: the key of table {item.table} is {', '.join(names)}")
        else:
            matches.append(Lpm(0, 0) if key.kind == "lpm" else Ternary(0, 0))
    return tuple(matches)


def _match(value: str | MatchModel, key: MatchKey) -> Match:
    field = f"match.{key.name}"
    given = _mapping(value, key) if isinstance(value, str) else value
    allowed = {"exact": {"value"}, "lpm": {"value", "prefix"}, "ternary": {"value", "mask"}, "range": {"low", "high"}}
    for name in given.model_fields_set - allowed[key.kind]:
        raise ValueProblem(f"{field}: {name!r} does not go with {key.kind}: write {_form(key)}")
    if key.kind == "range":
        low, high = _needed(given.low, key, field), _needed(given.high, key, field)
        if low > high:
            raise ValueProblem(f"{field}: {low}..{high} is empty; the lower end comes first")
        return Range(low, high)
    number = _needed(given.value, key, field)
    if key.kind == "exact":
        return Exact(number)
    if key.kind == "lpm":
        prefix = key.width if given.prefix is None else _number(given.prefix, 16, f"{field}: prefix")
        if prefix > key.width:
            raise ValueProblem(f"{field}: prefix {prefix} is longer than the key, {key.width} bits")
        return Lpm(number & ~((1 << (key.width - prefix)) - 1), prefix)
    mask = (1 << key.width) - 1 if given.mask is None else _number(given.mask, key.width, f"{field}: mask")
    return Ternary(number & mask, mask)


def _needed(text: str | None, key: MatchKey, field: str) -> int:
    if text is None:
        raise ValueProblem(f"{field}: is incomplete: write {_form(key)}")
    return _number(text, key.width, field)


def _mapping(text: str, key: MatchKey) -> MatchModel:
    """Reads ``10.0.0.0/8``, ``8 &&& 0xff`` and ``1..9`` as mappings."""
    separators = {"lpm": "/", "ternary": "&&&", "range": ".."}
    first, separator, second = text.partition(separators.get(key.kind, "\0"))
    names = {"lpm": ("value", "prefix"), "ternary": ("value", "mask"), "range": ("low", "high")}
    if not separator:
        return MatchModel(low=text, high=text) if key.kind == "range" else MatchModel(value=text)
    first_name, second_name = names[key.kind]
    return MatchModel.model_validate({first_name: first.strip(), second_name: second.strip()})


def _form(key: MatchKey) -> str:
    return {
        "exact": "a value",
        "lpm": "'value/prefix', e.g. 10.0.0.0/8",
        "ternary": "'value &&& mask', e.g. 8 &&& 0xff",
        "range": "'low..high', e.g. 1..9",
    }[key.kind]


def _number(text: str, width: int, field: str) -> int:
    try:
        return parse_number(text, width)
    except ValueProblem as problem:
        raise ValueProblem(f"{field}: {problem}") from None


def _group(item: GroupModel, groups: dict[int, tuple[tuple[int, int], ...]]) -> None:
    number = _number(item.group, 16, "group")
    if number == 0 or number in groups:
        raise ValueProblem(f"group: {number} {'means no multicast' if number == 0 else 'is there already'}; change it")
    replicas = tuple(
        (_number(replica.port, 9, f"replicas[{i}].port"), _number(replica.rid, 16, f"replicas[{i}].rid"))
        for i, replica in enumerate(item.replicas)
    )
    if len(set(replicas)) < len(replicas):
        raise ValueProblem("replicas: two have the same port and rid; give each a rid of its own")
    groups[number] = replicas


def _register(item: RegisterModel, program: Program, registers: dict[tuple[str, int], int]) -> None:
    name = find_name(item.register_, program.registers, "register")
    spec = program.registers[name]
    index = _number(item.index, 32, "index")
    if index >= spec.size:
        raise ValueProblem(f"index: {index} is not in 0..{spec.size - 1}")
    registers[name, index] = _number(item.value, spec.width, "value")
