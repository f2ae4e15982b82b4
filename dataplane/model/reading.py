"""Access to p4c's JSON with errors that name the place."""

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from p4reduce.dataplane.model.errors import ProgramError, SourceInfo

Json: TypeAlias = Mapping[str, Any]
T = TypeVar("T")


def get(obj: Json, key: str, kind: type[T], where: str) -> T:
    """``obj[key]``, checked to be of a type. Raises ProgramError."""
    if key not in obj:
        raise ProgramError(f"{where}: key {key!r} is missing; is this a BMv2 JSON file written by p4c-bm2-ss?")
    value = obj[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ProgramError(f"{where}: {key!r} is {type(value).__name__}, expected {kind.__name__}")
    return value


def optional(obj: Json, key: str, kind: type[T], where: str) -> T | None:
    """Like get, but None where the key is missing or null."""
    if obj.get(key) is None:
        return None
    return get(obj, key, kind, where)


def objects(obj: Json, key: str, where: str) -> list[Json]:
    """A list of JSON objects; an absent list is empty."""
    items = optional(obj, key, list, where)
    if items is None:
        return []
    for item in items:
        if not isinstance(item, dict):
            raise ProgramError(f"{where}: {key!r} holds {type(item).__name__}, expected objects")
    return items


def source_of(obj: Json) -> SourceInfo | None:
    """The P4 source line of an element, where p4c wrote one."""
    info = obj.get("source_info")
    if not isinstance(info, dict):
        return None
    return SourceInfo(
        str(info.get("filename", "?")),
        int(info.get("line", 0)),
        int(info.get("column", 0)),
        str(info.get("source_fragment", "")),
    )


def hexstr(text: object, where: str) -> int:
    """A number as BMv2 writes it: hexadecimal, ``0x`` optional, a minus sign allowed."""
    if not isinstance(text, str):
        raise ProgramError(f"{where}: {text!r} is not a hexadecimal string")
    try:
        return int(text, 16)
    except ValueError:
        raise ProgramError(f"{where}: {text!r} is not a hexadecimal string") from None


def pair(value: object, where: str) -> tuple[Any, Any]:
    """A JSON array of two."""
    if not isinstance(value, list) or len(value) != 2:
        raise ProgramError(f"{where}: {value!r} is not a pair")
    return value[0], value[1]


def number(value: object, where: str) -> int:
    """An integer of the JSON."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ProgramError(f"{where}: {value!r} is not a number")
    return value
