"""Serialization of records: dataclasses as plain data and as JSON, and back.

There is one serializer for messages, databases and files. It follows the fields and types of the dataclass, so no field
can be forgotten. Pydantic does the work; it is imported with the first record, as that takes a quarter of a second.

- A field has its own type in the data: no number is made from text, no whole number from ``1.0`` or ``true``.
  Only a whole number where a float belongs becomes that float.
- Data with a field that the dataclass lacks are refused, and so are data without a field that has no default.
- Tuples are lists in the data, mappings are objects (keys of type int become text), enumerations are their values.
  A mapping with tuples as keys is annotated with :data:`ITEMS`, and a field that the reader supplies with
  :class:`Given`. A field with ``Field(exclude_if=…)`` is absent where that holds, and has a default.
- Floats come back bit for bit. NaN and infinity are written ``NaN``, ``Infinity`` and ``-Infinity``, as Python's json
  writes them; a field that must be finite has a class that refuses them.
- NumPy's float64 is a float. Other scalars and arrays of NumPy are refused when they are written.
"""

import json
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, get_args, overload

from p4reduce.base.errors import BadInput
from p4switch.base.values import one_line, short

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, TypeAdapter, ValidationError, ValidationInfo
    from pydantic_core import core_schema

Record = TypeVar("Record")
SHOWN: Final = 60
"""characters of a value in an error"""


class RecordError(BadInput, ValueError):
    """Data that do not form the expected record. The text names the source, the field and the fault."""


def to_plain(record: Any, kind: Any = None) -> Any:
    """Return a record as plain data that JSON can hold: a dictionary of its fields.

    ``kind``: its type, if that is not the class of ``record``, e.g. ``tuple[Link, ...]``. Raises ``ValueError`` if a
    field has a value of another type.
    """
    return _adapter(cast(Hashable, type(record) if kind is None else kind)).dump_python(
        record, mode="json", warnings="error"
    )


def to_json(record: Any, kind: Any = None) -> str:
    """Return a record as one line of JSON without spaces, fields in order; the same record gives the same text."""
    return json.dumps(to_plain(record, kind), separators=(",", ":"))


def to_file(record: Any, kind: Any = None) -> str:
    """Return a record as the text of a file: JSON, a field on each line, in alphabetical order."""
    return json.dumps(to_plain(record, kind), indent=1, sort_keys=True) + "\n"


@overload
def from_plain(kind: type[Record], data: Any, source: str, **given: Any) -> Record: ...
@overload
def from_plain(kind: Any, data: Any, source: str, **given: Any) -> Any: ...
def from_plain(kind: Any, data: Any, source: str, **given: Any) -> Any:
    """Return the record that :func:`to_plain` wrote.

    Parameters
    ----------
    kind
        Its type: a dataclass, a model of pydantic, or a tuple, list, mapping or union of some.
    data
        The plain data.
    source
        Where the data are from, for errors: a file, a message, a row of a table.
    **given
        Values that the data leave out, by the names of :class:`Given`.

    Raises
    ------
    RecordError
        Names the source, the field and the fault.
    """
    try:
        text = json.dumps(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"{source}: {one_line(error)}") from None
    return from_json(kind, text, source, **given)


@overload
def from_json(kind: type[Record], text: str | bytes, source: str, **given: Any) -> Record: ...
@overload
def from_json(kind: Any, text: str | bytes, source: str, **given: Any) -> Any: ...
def from_json(kind: Any, text: str | bytes, source: str, **given: Any) -> Any:
    """Return the record that :func:`to_json` or :func:`to_file` wrote; parameters and errors as :func:`from_plain`."""
    from pydantic import ValidationError  # noqa: PLC0415  (slow to import)

    try:
        return _adapter(cast(Hashable, kind)).validate_json(text, strict=True, extra="forbid", context=given)
    except ValidationError as error:
        raise RecordError(f"{source}: {_fault(error)}") from None


def _fault(error: "ValidationError") -> str:
    """Return the first fault with its place."""
    first = error.errors(include_url=False)[0]
    fault = f"{first['msg'][:1].lower()}{first['msg'][1:]}, got {short(first['input'])}"
    reason = {
        "json_invalid": first["msg"].replace("Invalid JSON", "is no JSON"),
        "missing": "is missing",
        "unexpected_keyword_argument": "there is no such field",
        "extra_forbidden": "there is no such field",
        "value_error": first["msg"].removeprefix("Value error, "),
    }.get(first["type"], fault)
    return ": ".join(filter(None, (one_line(".".join(map(str, first["loc"])), SHOWN), one_line(reason))))


@cache
def _adapter(kind: Hashable) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter  # noqa: PLC0415  (slow to import)

    return TypeAdapter(cast(Any, kind))


class _Items:
    """Annotates a mapping whose keys are tuples: it is written as a list of [key, value]."""

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "core_schema.CoreSchema":
        from pydantic_core import core_schema  # noqa: PLC0415  (slow to import)

        pairs = handler.generate_schema(list[tuple[get_args(source)]])  # type: ignore[misc]
        return core_schema.no_info_after_validator_function(
            dict,
            pairs,
            serialization=core_schema.wrap_serializer_function_ser_schema(
                lambda mapping, write: write(list(mapping.items())), schema=pairs
            ),
        )


ITEMS: Final = _Items()


@dataclass(frozen=True)
class Given:
    """Annotates a field that plain data leave out, as the reader supplies it: ``from_plain(…, name=value)``.

    ``write`` returns the data that are written for the field; ``read`` returns the field from the reader's value and
    these data.
    """

    name: str
    write: Callable[[Any], Any]
    read: Callable[[Any, Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "core_schema.CoreSchema":
        """Return the schema by which pydantic reads and writes the field."""
        from pydantic_core import core_schema  # noqa: PLC0415  (slow to import)

        return core_schema.with_info_plain_validator_function(
            self._read, serialization=core_schema.plain_serializer_function_ser_schema(self.write)
        )

    def _read(self, value: Any, info: "ValidationInfo") -> Any:
        return self.read((info.context or {})[self.name], value)
