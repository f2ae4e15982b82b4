"""An entries file against a program: names become tables and actions, texts become numbers of the right width."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.model.actions import Action
from p4reduce.dataplane.model.control import MatchKey, MatchTable
from p4reduce.dataplane.state.multicast import MulticastError
from p4reduce.dataplane.tables import DefaultEntry, Exact, Lpm, Match, Range, TableEntry, TableError, Ternary
from p4reduce.dataplane.trace.entries_model import (
    EntryModel,
    GroupModel,
    MatchModel,
    RegisterModel,
    check_shape,
    place,
)
from p4reduce.dataplane.trace.entries_yaml import Document, EntriesError, parse_document, read_document
from p4reduce.dataplane.trace.values import ValueProblem, parse_number

_SHOWN: Final = 10
"""problems of one file that are told at once"""


@dataclass(frozen=True, slots=True)
class Placed:
    """An entry of a table with the place in its file; ``where`` is for messages."""

    table: str
    entry: TableEntry | DefaultEntry
    where: str


@dataclass(frozen=True)
class Entries:
    """What a file puts into a device.

    Attributes:
        tables: entries and defaults, as they stand in the file.
        groups: replicas (port, rid) of each multicast group.
        registers: (name, index) -> value.
    """

    name: str
    tables: tuple[Placed, ...] = ()
    groups: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    registers: dict[tuple[str, int], int] = field(default_factory=dict)

    def of(self, table: str) -> list[TableEntry]:
        """The entries of a table, by its full name."""
        return [p.entry for p in self.tables if p.table == table and isinstance(p.entry, TableEntry)]

    def apply(self, device: Device) -> None:
        """Puts everything into a device. Raises EntriesError, naming the entry that the device refuses."""
        problems = []
        for placed in self.tables:
            try:
                if isinstance(placed.entry, TableEntry):
                    device.tables[placed.table].insert(placed.entry)
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
    """The same from text. Raises EntriesError."""
    return resolve(parse_document(text, name), program)


def resolve(document: Document, program: Program) -> Entries:
    """A document's entries for a program. Raises EntriesError, with up to ten problems."""
    file = check_shape(document)
    problems: list[str] = []
    tables: list[Placed] = []
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


def find_name(wanted: str, known: Iterable[str], what: str) -> str:
    """A full name by itself or by its last parts (``job`` for ``IncIngress.aggregate.job``). Raises ValueProblem."""
    names = list(dict.fromkeys(known))
    if wanted in names:
        return wanted
    fitting = [name for name in names if name.endswith(f".{wanted}")]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise ValueProblem(f"{what} {wanted!r} could be {' or '.join(fitting)}: write more of the name")
    short = {name.rsplit(".", 1)[-1] for name in names} | set(names)
    close = difflib.get_close_matches(wanted, sorted(short), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(names) or '(none)'}"
    raise ValueProblem(f"there is no {what} {wanted!r}: {hint}")


def named_tables(program: Program) -> dict[str, MatchTable]:
    """Tables that the P4 program declares, without those into which p4c wraps statements."""
    return {name: table for name, table in program.tables.items() if table.keys or not table.const_default}


def _entry(item: EntryModel, program: Program, where: str) -> Placed:
    spec = program.tables[find_name(item.table, named_tables(program), "table")]
    actions = {program.actions[ident].name: program.actions[ident] for ident in spec.actions}
    action = actions[find_name(item.action, actions, f"action of table {item.table}")]
    arguments = _arguments(item, action)
    if item.default or not spec.keys:
        if item.match:
            raise ValueProblem("match: a default entry (and a table without a key) has none; remove it")
        return Placed(spec.name, DefaultEntry(action.name, arguments), where)
    match = _matches(item, spec)
    return Placed(spec.name, TableEntry(match, action.name, arguments, _priority(item, spec)), where)


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
    found = []
    for key in spec.keys:
        if key.name in given:
            found.append(_match(given[key.name], key))
        elif key.kind in ("exact", "range"):
            raise ValueProblem(f"match: {key.name} is missing: the key of table {item.table} is {', '.join(names)}")
        else:
            found.append(Lpm(0, 0) if key.kind == "lpm" else Ternary(0, 0))
    return tuple(found)


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
    """``10.0.0.0/8``, ``8 &&& 0xff`` and ``1..9`` as the mappings they stand for."""
    separators = {"lpm": "/", "ternary": "&&&", "range": ".."}
    first, found, second = text.partition(separators.get(key.kind, "\0"))
    names = {"lpm": ("value", "prefix"), "ternary": ("value", "mask"), "range": ("low", "high")}
    if not found:
        return MatchModel(low=text, high=text) if key.kind == "range" else MatchModel(value=text)
    one, two = names[key.kind]
    return MatchModel.model_validate({one: first.strip(), two: second.strip()})


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
