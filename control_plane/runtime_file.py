"""Programs and entries of a switch in the format of p4lang/tutorials and p4-utils: ``s1-runtime.json``.

A file names a program (``p4info``, ``bmv2_json``), and lists ``table_entries``, ``multicast_group_entries`` and
``clone_session_entries``. Values are numbers, or text: MAC and IPv4 addresses, ``0x800``. A match is a value, ``[value,
prefix length]``, ``[value, mask]`` or ``[low, high]``, depending on its kind.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import finsy as fy
from finsy.p4schema import P4MatchType
from google.protobuf import json_format, text_format
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from p4reduce.base.errors import BadInput, ControllerError
from p4reduce.control_plane.connection import Connection, Target
from p4reduce.control_plane.entries import Entity
from p4switch.base.event_loop import EventLoopThread
from p4switch.base.files import read_text

SUFFIX: Final = "-runtime.json"
"""suffix of a file's name, after the name of the switch"""
LARGEST: Final = 64 << 20
"""largest size of a file in bytes"""
Value: TypeAlias = int | str
_PAIRS: Final = {P4MatchType.LPM: "{}/{}", P4MatchType.TERNARY: "{}/&{}", P4MatchType.RANGE: "{}...{}"}
"""format of finsy's text for a match of two numbers, by kind of match"""


class RuntimeFileError(BadInput, ValueError):
    """A file that cannot be used; the message names the file, the entry and the fix."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _TableEntry(_Strict):
    table: str
    match: dict[str, Value | list[Value]] = Field(default_factory=dict)
    action_name: str
    action_params: dict[str, Value] = Field(default_factory=dict)
    default_action: bool = False
    priority: int = 0


class _Replica(_Strict):
    egress_port: int
    instance: int = 0


class _Group(_Strict):
    multicast_group_id: int
    replicas: list[_Replica]


class _Session(_Strict):
    clone_session_id: int
    replicas: list[_Replica]
    packet_length_bytes: int = 0


class _File(_Strict):
    target: str = "bmv2"
    p4info: str | None = None
    bmv2_json: str | None = None
    table_entries: list[_TableEntry] = Field(default_factory=list)
    multicast_group_entries: list[_Group] = Field(default_factory=list)
    clone_session_entries: list[_Session] = Field(default_factory=list)


@dataclass(frozen=True)
class SwitchProgram:
    """A program for a switch, and the file with its table entries."""

    p4info: Path
    p4_json: Path
    runtime: Path | None = None

    def schema(self) -> fy.P4Schema:
        """The program's schema for finsy. Raises ``RuntimeFileError``."""
        try:
            return fy.P4Schema(self.p4info, self.p4_json)
        except OSError as error:
            raise RuntimeFileError(f"{error.filename}: {error.strerror}") from None
        except (ValueError, json_format.ParseError, text_format.ParseError) as error:
            why = " ".join(str(error).split())[:160]
            raise RuntimeFileError(f"{self.p4info}: is no P4Info in text format: {why}") from None

    def entities(self, schema: fy.P4Schema) -> "Entities":
        """Read the entries of ``runtime``, checked against the program. Raises ``RuntimeFileError``."""
        return Entities() if self.runtime is None else _entities(self.runtime, read_runtime(self.runtime), schema)


@dataclass(frozen=True)
class Entities:
    """Entries to add, and default actions to change."""

    added: tuple[Entity, ...] = ()
    defaults: tuple[fy.P4TableEntry, ...] = ()


def switch_program(runtime: Path, p4info: Path | None, p4_json: Path | None) -> SwitchProgram:
    """The program that ``runtime`` names, unless another one is given. Raises ``RuntimeFileError``.

    Paths in the file are relative to the working directory, as in p4lang/tutorials, or to a folder above the file.
    """
    file = read_runtime(runtime)
    if file.target != "bmv2":
        raise RuntimeFileError(f"{runtime}: target: {file.target!r} is not known; 'bmv2' is")
    if p4info is None or p4_json is None:
        p4info, p4_json = _named(runtime, "p4info", file.p4info), _named(runtime, "bmv2_json", file.bmv2_json)
    return SwitchProgram(p4info, p4_json, runtime)


def read_runtime(path: Path) -> _File:
    """Read the file as objects. Raises ``RuntimeFileError``."""
    try:
        if path.stat().st_size > LARGEST:
            raise RuntimeFileError(f"{path}: larger than {LARGEST} bytes")
        return _File.model_validate(json.loads(read_text(path)))
    except OSError as error:
        raise RuntimeFileError(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"] if not str(part).startswith("list["))
        raise RuntimeFileError(f"{path}: {field + ': ' if field else ''}{first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise RuntimeFileError(f"{path}: is not JSON: {error}") from None


def install(targets: dict[Target, SwitchProgram], *, deadline_s: float) -> None:
    """Load each switch's program and write its entries; then disconnect, so that other controllers can connect.

    Raises ``ControllerError``, which names the switch, and ``RuntimeFileError``.
    """
    loop = EventLoopThread("p4reduce-runtime-files")
    try:
        for target, program in targets.items():
            loop.run(_install(target, program, deadline_s))
    finally:
        loop.close()


async def _install(target: Target, program: SwitchProgram, deadline_s: float) -> None:
    schema = program.schema()
    entities = program.entities(schema)
    connection = Connection(target, schema, deadline_s=deadline_s, election_id=1)
    try:
        await connection.open()
        await connection.insert(entities.added)
        await connection.modify(entities.defaults)
    except ControllerError as error:
        raise ControllerError(f"{program.runtime or program.p4_json}: {error}") from error
    finally:
        await connection.close()


def _named(runtime: Path, field: str, path: str | None) -> Path:
    if path is None:
        raise RuntimeFileError(f"{runtime}: {field}: is missing; name the file, or give --p4-json and --p4-info")
    places = [Path.cwd(), *runtime.absolute().parents[:3]]
    for place in places:
        if (place / path).is_file():
            return place / path
    raise RuntimeFileError(f"{runtime}: {field}: {path}: there is no such file here or above {runtime.parent}")


def _entities(path: Path, file: _File, schema: fy.P4Schema) -> Entities:
    added: list[Any] = []
    defaults: list[fy.P4TableEntry] = []
    for number, entry in enumerate(file.table_entries):
        made = _checked(f"{path}: table_entries[{number}] ({entry.table})", schema, lambda e=entry: _table(e, schema))
        (defaults if entry.default_action else added).append(made)
    for number, group in enumerate(file.multicast_group_entries):
        copies = [(copy.egress_port, copy.instance) for copy in group.replicas]
        made = fy.P4MulticastGroupEntry(group.multicast_group_id, replicas=copies)
        added.append(_checked(f"{path}: multicast_group_entries[{number}]", schema, lambda m=made: m))
    for number, session in enumerate(file.clone_session_entries):
        copies = [(copy.egress_port, copy.instance) for copy in session.replicas]
        clone = fy.P4CloneSessionEntry(
            session.clone_session_id, replicas=copies, packet_length_bytes=session.packet_length_bytes
        )
        added.append(_checked(f"{path}: clone_session_entries[{number}]", schema, lambda m=clone: m))
    return Entities(tuple(added), tuple(defaults))


def _checked(where: str, schema: fy.P4Schema, make: Any) -> Any:
    """Return what ``make`` makes, if the program has its tables, fields, actions and widths."""
    try:
        made = make()
        made.encode(schema)
    except (ValueError, KeyError, OverflowError) as error:
        raise RuntimeFileError(f"{where}: {str(error).strip(chr(39))}") from None
    return made


def _table(entry: _TableEntry, schema: fy.P4Schema) -> fy.P4TableEntry:
    fields = {field.name: field for field in schema.tables[entry.table].match_fields}
    if unknown := sorted(entry.match.keys() - fields.keys()):
        raise ValueError(f"match: the table has no key {unknown[0]!r}; its keys are {', '.join(fields) or 'none'}")
    match = {name: _match(name, fields[name].match_type, value) for name, value in entry.match.items()}
    action = fy.P4TableAction(entry.action_name, **entry.action_params)
    if entry.default_action:
        if match:
            raise ValueError("match: a default action has none")
        return fy.P4TableEntry(entry.table, action=action, is_default_action=True)
    return fy.P4TableEntry(entry.table, match=fy.P4TableMatch(match), action=action, priority=entry.priority)


def _match(name: str, kind: P4MatchType | str, value: Value | list[Value]) -> Value:
    parts = value if isinstance(value, list) else [value]
    if len(parts) == 1:
        return parts[0]
    if len(parts) != 2 or kind not in _PAIRS:
        raise ValueError(f"match: {name}: {value} has {len(parts)} parts, but the key is {kind}")
    return _PAIRS[P4MatchType(kind)].format(*parts)
