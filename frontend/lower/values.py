"""Values as BMv2's JSON writes them (behavioral-model, docs/JSON_format.md, "The type value object")."""

from typing import Any, Final, TypeAlias

from p4reduce.frontend.types.kinds import Bits

Json: TypeAlias = dict[str, Any]

TRUE: Final[Json] = {"type": "bool", "value": True}
FALSE: Final[Json] = {"type": "bool", "value": False}


def hexadecimal(number: int, width: int) -> str:
    """A number with as many digits as bytes of that many bits have."""
    digits = 2 * max(-(-width // 8), 1)
    return f"-0x{-number:0{digits}x}" if number < 0 else f"0x{number:0{digits}x}"


def constant(number: int, width: int) -> Json:
    """A number."""
    return {"type": "hexstr", "value": hexadecimal(number, width)}


def field(header: str, name: str) -> Json:
    """A field of a header."""
    return {"type": "field", "value": [header, name]}


def operation(operator: str, left: Json | None, right: Json | None) -> Json:
    """An operator with its operands."""
    return {"type": "expression", "value": {"op": operator, "left": left, "right": right}}


def choice(condition: Json, yes: Json, no: Json) -> Json:
    """``condition ? yes : no``."""
    return {"type": "expression", "value": {"op": "?", "left": yes, "right": no, "cond": condition}}


def is_constant(json: Json) -> bool:
    """Whether it is a number or bool."""
    return json["type"] in ("hexstr", "bool")


def as_data(json: Json, is_bool: bool) -> Json:
    """A bool as a number of one bit; numbers stay as they are."""
    if not is_bool:
        return json
    if json["type"] == "bool":
        return constant(int(json["value"]), 1)
    if json["type"] == "expression" and json["value"].get("op") == "d2b":
        inner: Json = json["value"]["right"]
        return inner
    return operation("b2d", None, json)


def as_parameter(json: Json) -> Json:
    """An argument of a primitive: BMv2 reads expressions there with one layer more, and other names for parameters."""
    if json["type"] == "expression":
        return {"type": "expression", "value": json}
    if json["type"] == "local":
        return {"type": "runtime_data", "value": json["value"]}
    if json["type"] == "bool":
        return constant(int(json["value"]), 1)
    return json


def wrapped(json: Json, kind: Bits) -> Json:
    """A number cut to its type: BMv2 computes with any number of bits."""
    if kind.signed:
        return operation("two_comp_mod", json, constant(kind.width, 32))
    return operation("&", json, constant((1 << kind.width) - 1, kind.width))


def fields_of(json: Any, found: set[tuple[str, str]]) -> None:
    """Adds every field that an expression reads; ``(header, "*")`` for a header as a whole."""
    if isinstance(json, dict):
        kind: Any = json.get("type")
        value: Any = json.get("value")
        if kind == "field":
            found.add((value[0], value[1]))
        elif kind in ("header", "header_stack", "header_union", "header_union_stack"):
            found.add((value, "*"))
        elif kind in ("stack_field", "union_stack_field"):
            found.add((value[0], "*"))
        else:
            for inner in json.values():
                fields_of(inner, found)
    elif isinstance(json, list):
        for inner in json:
            fields_of(inner, found)
