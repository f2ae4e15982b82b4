"""Dataclasses as plain data that JSON holds, and back: by their fields and types, so that none can be forgotten.

Pydantic does the work. What JSON has no form for says in its annotation how it is written: :data:`ITEMS` and
:class:`Given`.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar, cast

from pydantic import GetCoreSchemaHandler, TypeAdapter, ValidationInfo
from pydantic_core import core_schema

Record = TypeVar("Record")


def plain(record: Any) -> Any:
    """A dataclass as plain data: its fields by name."""
    return _adapter(cast(Hashable, type(record))).dump_python(record, mode="json")


def restore(kind: type[Record], data: Any, **given: Any) -> Record:
    """The inverse of :func:`plain`; ``given`` has what the data leave out (:class:`Given`).

    ``ValueError`` names the field that is missing or has another type; errors of the class itself come as they are.
    """
    found: Record = _adapter(cast(Hashable, kind)).validate_python(data, context=given)
    return found


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, kind))


class _Items:
    """Annotates a mapping whose keys are tuples: it is written as a list of [key, value]."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(
            _as_mapping,
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda mapping: list(mapping.items())),
        )


ITEMS: Final = _Items()


@dataclass(frozen=True)
class Given:
    """Annotates what plain data leave out, as whoever reads them has it: ``restore(…, name=value)``.

    ``write`` makes of it what is written in its place, ``read`` makes it of what the reader has and of that.
    """

    name: str
    write: Callable[[Any], Any]
    read: Callable[[Any, Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """How pydantic reads and writes it."""
        return core_schema.with_info_plain_validator_function(
            self._read, serialization=core_schema.plain_serializer_function_ser_schema(self.write)
        )

    def _read(self, value: Any, info: ValidationInfo) -> Any:
        return self.read((info.context or {})[self.name], value)


def _as_mapping(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value
    return {tuple(key): item for key, item in value}
