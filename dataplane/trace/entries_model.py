"""What an entries file may say, checked by pydantic; names and widths are checked against the program later."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from p4reduce.dataplane.trace.entries_yaml import Document, EntriesError


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
    """One item of ``tables``. With ``default: true`` it sets what a miss runs, and has no match."""

    table: str
    match: dict[str, str | MatchModel] = Field(default_factory=dict)
    action: str
    params: dict[str, str] = Field(default_factory=dict)
    priority: str | None = None
    default: bool = False


class ReplicaModel(_Strict):
    """One copy of a multicast: by which port, with which replication id (``egress_rid``)."""

    port: str
    rid: str = "0"


class GroupModel(_Strict):
    """One item of ``multicast``."""

    group: str
    replicas: list[ReplicaModel]


class RegisterModel(_Strict):
    """One item of ``registers``: a cell that is preset."""

    register_: str = Field(alias="register")
    index: str
    value: str


class FileModel(_Strict):
    """The whole file."""

    tables: list[EntryModel] = Field(default_factory=list)
    multicast: list[GroupModel] = Field(default_factory=list)
    registers: list[RegisterModel] = Field(default_factory=list)


def check_shape(document: Document) -> FileModel:
    """The file as objects. Raises EntriesError with a line for each thing that is wrong."""
    data = {key: [] if value == "" else value for key, value in document.data.items()}
    try:
        return FileModel.model_validate(_without_empty(data))
    except ValidationError as error:
        lines = list(dict.fromkeys(_explain(document, dict(problem)) for problem in error.errors()))
        raise EntriesError("\n".join(lines[:10])) from None


def _without_empty(data: dict[str, Any]) -> dict[str, Any]:
    """``params:`` with nothing behind it is read as an empty text; it means no parameters."""
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
    """``file, line 7: tables[2] (table job)``."""
    line = document.lines.get((section, number))
    items = document.data.get(section)
    item = items[number] if isinstance(items, list) and number < len(items) else None
    label = ""
    if isinstance(item, dict):
        kind = {"tables": "table", "multicast": "group", "registers": "register"}[section]
        label = f" ({kind} {str(item.get(kind, '?'))[:60]})"
    at = f", line {line}" if line else ""
    return f"{document.name}{at}: {section}[{number}]{label}"
