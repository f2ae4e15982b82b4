"""How the JSON is written: one line for each object of a section, so that versions can be compared."""

import json
from typing import Any, Final

_encode: Final = json.JSONEncoder(check_circular=False).encode  # what is compiled is a tree


def json_text(program: dict[str, Any]) -> str:
    """The JSON of a program as text."""
    lines = []
    for name, value in program.items():
        if name == "pipelines":
            shown = _list([_pipeline(item) for item in value])
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            shown = _list([_encode(item) for item in value])
        else:
            shown = _encode(value)
        lines.append(f"{_encode(name)}: {shown}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _pipeline(item: dict[str, Any]) -> str:
    parts = []
    for name, value in item.items():
        inner = isinstance(value, list) and value
        parts.append(f"{_encode(name)}: {_list([_encode(v) for v in value]) if inner else _encode(value)}")
    return "{" + ",\n ".join(parts) + "}"


def _list(items: list[str]) -> str:
    return "[\n  " + ",\n  ".join(items) + "\n ]"
