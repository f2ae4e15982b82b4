"""Values in the notation of BMv2's JSON (behavioral-model, docs/JSON_format.md, "The type value object")."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from p4switch.p4.types import kinds

Json: TypeAlias = dict[str, Any]

TRUE: Final[Json] = {"type": "bool", "value": True}
FALSE: Final[Json] = {"type": "bool", "value": False}


def hexadecimal(number: int, width: int) -> str:
    """Returns a number in hexadecimal, padded to the whole bytes of its width."""
    digits = 2 * max(-(-width // 8), 1)
    return f"-0x{-number:0{digits}x}" if number < 0 else f"0x{number:0{digits}x}"


def constant(number: int, width: int) -> Json:
    """Returns a constant as JSON; ``width`` in bits."""
    return {"type": "hexstr", "value": hexadecimal(number, width)}


def field(header: str, name: str) -> Json:
    """Returns a reference to a field of a header."""
    return {"type": "field", "value": [header, name]}


def operation(operator: str, left: Json | None, right: Json | None) -> Json:
    """Returns an operator with its operands."""
    return {"type": "expression", "value": {"op": operator, "left": left, "right": right}}


def choice(condition: Json, yes: Json, no: Json) -> Json:
    """Returns ``condition ? yes : no``."""
    return {"type": "expression", "value": {"op": "?", "left": yes, "right": no, "cond": condition}}


def is_constant(json: Json) -> bool:
    """Returns whether an expression is a number or a bool."""
    return json["type"] in ("hexstr", "bool")


def as_data(json: Json, is_bool: bool) -> Json:
    """Returns a bool as a number of one bit; numbers stay as they are."""
    if not is_bool:
        return json
    if json["type"] == "bool":
        return constant(int(json["value"]), 1)
    if json["type"] == "expression" and json["value"].get("op") == "d2b":
        inner: Json = json["value"]["right"]
        return inner
    return operation("b2d", None, json)


def as_parameter(json: Json) -> Json:
    """Returns a value as an argument of a primitive, where BMv2 nests expressions once more and renames types."""
    if json["type"] == "expression":
        return {"type": "expression", "value": json}
    if json["type"] == "local":
        return {"type": "runtime_data", "value": json["value"]}
    if json["type"] == "bool":
        return constant(int(json["value"]), 1)
    return json


def wrapped(json: Json, kind: kinds.Bits) -> Json:
    """Returns a number reduced to its type, because BMv2 computes with unbounded integers."""
    if kind.signed:
        return operation("two_comp_mod", json, constant(kind.width, 32))
    return operation("&", json, constant((1 << kind.width) - 1, kind.width))


def fields_of(json: Any, fields: set[tuple[str, str]]) -> None:
    """Adds every field that an expression reads to ``fields``; ``(header, "*")`` for a whole header."""
    if isinstance(json, dict):
        kind: Any = json.get("type")
        value: Any = json.get("value")
        if kind == "field":
            fields.add((value[0], value[1]))
        elif kind in ("header", "header_stack", "header_union", "header_union_stack"):
            fields.add((value, "*"))
        elif kind in ("stack_field", "union_stack_field"):
            fields.add((value[0], "*"))
        else:
            for inner in json.values():
                fields_of(inner, fields)
    elif isinstance(json, list):
        for inner in json:
            fields_of(inner, fields)


# Places of values: fields, headers, stacks and unions under BMv2's names, and structs of them.


@dataclass(slots=True, eq=False)
class StoragePlace:
    """A typed value that can be read and, for most kinds of place, written.

    Attributes:
        fixed: whether it is the same place for every packet, so that a parameter can be bound to it.
    """

    type: kinds.Type

    @property
    def fixed(self) -> bool:
        """Whether the place is the same for every packet."""
        return isinstance(self, FieldPlace | RuntimeData | HeaderPlace | StackPlace)

    def json(self) -> Json:
        """Returns the value for use in an expression; a bool is converted from its field or argument of one bit."""
        if not isinstance(self, FieldPlace | RuntimeData | ChosenField):
            raise NotImplementedError(type(self).__name__)
        return operation("d2b", None, data_of(self)) if self.type is kinds.BOOL else data_of(self)

    def leaves(self) -> Iterator[tuple[str, str]]:
        """Yields the fields of the place as (header, field); ``*`` is the whole header."""
        return iter(())


@dataclass(slots=True, eq=False)
class Value(StoragePlace):
    """A number or bool without a place: a constant or an expression's result; ``constant``: its value, if known."""

    data: Json
    constant: Any = None

    def json(self) -> Json:
        """See StoragePlace."""
        return self.data


@dataclass(slots=True, eq=False)
class FieldPlace(StoragePlace):
    """A field of a header."""

    header: str
    name: str

    def target(self) -> Json:
        """Returns the field as the target of an assignment."""
        return field(self.header, self.name)

    def leaves(self) -> Iterator[tuple[str, str]]:
        """See StoragePlace."""
        yield self.header, self.name


@dataclass(slots=True, eq=False)
class RuntimeData(StoragePlace):
    """A parameter of an action whose argument the control plane supplies."""

    index: int


@dataclass(slots=True, eq=False)
class HeaderPlace(StoragePlace):
    """A header instance; ``layout``: BMv2's names of its fields by their P4 names."""

    name: str
    layout: dict[str, Any]

    def json(self) -> Json:
        """See StoragePlace."""
        return {"type": "header", "value": self.name}

    def valid(self) -> Json:
        """Returns whether the header is valid."""
        return operation("d2b", None, field(self.name, "$valid$"))

    def leaves(self) -> Iterator[tuple[str, str]]:
        """See StoragePlace."""
        yield self.name, "*"


@dataclass(slots=True, eq=False)
class ChosenHeader(StoragePlace):
    """A header that is chosen at run time: an element of a stack, or a member of a union in a stack.

    Attributes:
        data: the header in BMv2's notation.
        like: a header of the same type with its layout.
        last: (stack, union member or None) if the header is in a stack's last element, else None.
    """

    data: Json
    like: HeaderPlace
    last: tuple[str, str | None] | None = None

    def json(self) -> Json:
        """See StoragePlace."""
        return self.data

    def valid(self) -> Json:
        """Returns whether the header is valid."""
        return operation("valid", None, self.data)


@dataclass(slots=True, eq=False)
class ChosenField(StoragePlace):
    """A field of a header that is chosen at run time."""

    header: ChosenHeader
    name: str

    def target(self) -> Json:
        """Returns the field as the target of an assignment."""
        number = self.header.like.layout["$order$"].index(self.name)
        return operation("access_field", self.header.data, number)

    def key(self) -> Json | None:
        """Returns the field as a key of a select, which BMv2 has only for a stack's last element; else None."""
        if self.header.last is None:
            return None
        stack, member = self.header.last
        if member is None:
            return {"type": "stack_field", "value": [stack, self.name]}
        return {"type": "union_stack_field", "value": [stack, member, self.name]}


@dataclass(slots=True, eq=False)
class UnionPlace(StoragePlace):
    """A header union; ``chosen``: the union in BMv2's notation if it is chosen at run time, else None."""

    name: str
    members: dict[str, StoragePlace]
    chosen: Json | None = None

    @property
    def fixed(self) -> bool:
        """See StoragePlace."""
        return self.chosen is None

    def json(self) -> Json:
        """See StoragePlace."""
        return self.chosen or {"type": "header_union", "value": self.name}

    def leaves(self) -> Iterator[tuple[str, str]]:
        """See StoragePlace."""
        for member in self.members.values():
            yield from member.leaves()


@dataclass(slots=True, eq=False)
class StackPlace(StoragePlace):
    """A stack of headers or unions."""

    name: str
    elements: list[StoragePlace]

    @property
    def of_unions(self) -> bool:
        """Whether the stack's elements are unions."""
        kind = self.type
        return isinstance(kind, kinds.StackType) and kind.element.kind == "header_union"

    def json(self) -> Json:
        """See StoragePlace."""
        return {"type": "header_union_stack" if self.of_unions else "header_stack", "value": self.name}

    def leaves(self) -> Iterator[tuple[str, str]]:
        """See StoragePlace."""
        yield self.name, "*"
        for element in self.elements:
            yield from element.leaves()


@dataclass(slots=True, eq=False)
class StructPlace(StoragePlace):
    """A struct, tuple, list, or list of a header's values; each of its members is a place."""

    members: dict[str, StoragePlace]

    @property
    def fixed(self) -> bool:
        """See StoragePlace."""
        return all(member.fixed for member in self.members.values())

    def leaves(self) -> Iterator[tuple[str, str]]:
        """See StoragePlace."""
        for member in self.members.values():
            yield from member.leaves()


@dataclass(slots=True, eq=False)
class SlicePlace(StoragePlace):
    """Bits ``high`` to ``low`` of a place, as the target of an assignment."""

    base: StoragePlace
    high: int
    low: int


@dataclass(slots=True, eq=False)
class NoHeader(StoragePlace):
    """The invalid header (or union, or stack of invalid headers): ``{#}``."""


def data_of(place: StoragePlace) -> Json:
    """Returns a scalar as a number; a bool becomes a number of one bit."""
    if isinstance(place, FieldPlace | ChosenField):
        return place.target()
    if isinstance(place, RuntimeData):
        return {"type": "local", "value": place.index}
    if isinstance(place, SlicePlace):
        inner = data_of(place.base)
        shifted = operation(">>", inner, constant(place.low, 32)) if place.low else inner
        width = place.high - place.low + 1
        return operation("&", shifted, constant((1 << width) - 1, width))
    return as_data(place.json(), place.type is kinds.BOOL)
