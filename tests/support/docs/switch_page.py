"""Checks and updates docs/embedded-switch.md: the LLVM IR that it shows, and the list of unsupported constructs.

An IR block follows a mark ``<!-- ir: function label -->``, the list stands between ``<!-- unsupported: begin -->`` and
``<!-- unsupported: end -->``. ``python -m tests.support.docs.switch_page`` updates the page.
"""

import ast
import re
from collections.abc import Iterable, Iterator

from p4switch.base.files import write_text
from p4switch.compiler import module_text
from p4switch.program import load_program
from tests.support.paths import DATA, ROOT

PAGE = ROOT / "docs/embedded-switch.md"
PROGRAM = DATA / "ten_lines.json"

_LABEL = re.compile(r'^"?([-a-zA-Z$._0-9]+)"?:')
_VALUE = re.compile(r"%\.\d+\b")
_STATE_CELL = re.compile(r"(ptr %state, i64) \d+")


def block_text(module: str, function: str, label: str) -> str:
    """Return one basic block of a module's text: its label and its instructions. Raises KeyError."""
    found: list[str] = []
    inside = False
    for line in module.splitlines():
        if line.startswith("define "):
            inside = f"@{function}(" in line
        start = _LABEL.match(line)
        if found and (start or line.startswith("}")):
            return "\n".join(found) + "\n"
        if found or (inside and start and start[1] == label):
            found.append(line)
    raise KeyError(f"{function} has no block {label!r}")


def renumbered(block: str) -> str:
    """Return a block with values numbered in order of appearance, and without offsets into the state.

    Equal texts mean equal instructions, whatever came before the block and whatever else the state holds.
    """
    numbers: dict[str, str] = {}
    block = _VALUE.sub(lambda found: numbers.setdefault(found[0], f"%.{len(numbers)}"), block)
    return _STATE_CELL.sub(r"\1 cell", block)


# Constructs that the embedded switch refuses, from its source: the first argument of each UnsupportedConstruct.


_TABLES = "UNSUPPORTED"
"""Part of the names of constants that map p4c's terms to those of the message."""


def refused_constructs() -> list[str]:
    """Return the constructs as worded in the messages, sorted; ``...`` stands for inserted values."""
    root = ROOT / "packages/p4switch/src/p4switch"
    found: set[str] = set()
    for folder in ("program", "compiler"):
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
    """Return the text of a string or f-string; None for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in parts)
        case _:
            return None


_IR = re.compile(r"(<!-- ir: (\S+) (\S+) -->\n```llvm\n)(.*?)(```)", re.DOTALL)
_LIST = re.compile(r"(<!-- unsupported: begin -->\n)(.*?)(<!-- unsupported: end -->)", re.DOTALL)


def shown_blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield (function, label, text) of each IR block on the page."""
    return ((found[2], found[3], found[4]) for found in _IR.finditer(page))


def shown_list(page: str) -> list[str]:
    """Return the unsupported constructs that the page lists."""
    found = _LIST.search(page)
    return [] if found is None else [line.removeprefix("- ") for line in found[2].splitlines()]


def refreshed(page: str, module: str, refused: Iterable[str]) -> str:
    """Return the updated page. Raises KeyError if a block that it shows no longer exists."""
    listed = "".join(f"- {words}\n" for words in refused)
    page = _IR.sub(lambda found: found[1] + block_text(module, found[2], found[3]) + found[5], page)
    return _LIST.sub(lambda found: found[1] + listed + found[3], page)


if __name__ == "__main__":
    write_text(PAGE, refreshed(PAGE.read_text("utf-8"), module_text(load_program(PROGRAM)), refused_constructs()))
