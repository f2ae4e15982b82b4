"""What the embedded switch refuses, read from where it refuses it: the first words of each UnsupportedConstruct."""

import ast
from collections.abc import Iterator
from pathlib import Path

_TABLES = "UNSUPPORTED"
"""Constants with this word in their names map p4c's words to those of the message."""


def refused_constructs() -> list[str]:
    """The constructs by the words of their messages, sorted; ``...`` stands for what a message fills in."""
    root = Path(__file__).resolve().parents[1]
    found: set[str] = set()
    for folder in ("model", "compiler"):
        for file in sorted((root / folder).glob("*.py")):
            found |= set(_of_source(ast.parse(file.read_text("utf-8"))))
    return sorted(words for words in found if words.strip(". '"))


def _of_source(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="UnsupportedConstruct"), args=[first, *_]):
                if (words := _words(first)) is not None:
                    yield words
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(values=values)) if _TABLES in name:
                for value in values:
                    if (words := _words(value)) is not None:
                        yield words
            case _:
                pass


def _words(node: ast.expr) -> str | None:
    """The text of a string or f-string; None for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in parts)
        case _:
            return None
