"""Protobuf's text format, of messages that are lists of (field, value): strings, numbers, names and messages."""

from typing import Any

Message = list[tuple[str, Any]]


class Word(str):
    """A member of an enum, which stands without quotes; also ``true``."""

    __slots__ = ()


def write(message: Message, indent: str = "") -> str:
    """A message as text; fields stand in the order in which they are given."""
    lines: list[str] = []
    for name, value in message:
        if isinstance(value, list):
            lines.append(f"{indent}{name} {{\n{write(value, indent + '  ')}{indent}}}\n")
        elif isinstance(value, Word):
            lines.append(f"{indent}{name}: {value}\n")
        elif isinstance(value, bytes):
            lines.append(f'{indent}{name}: "{_escaped(value)}"\n')
        elif isinstance(value, str):
            lines.append(f'{indent}{name}: "{_escaped(value.encode())}"\n')
        else:
            lines.append(f"{indent}{name}: {value}\n")
    return "".join(lines)


def _escaped(value: bytes) -> str:
    plain = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(plain.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in value)
