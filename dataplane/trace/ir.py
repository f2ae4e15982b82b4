"""The LLVM IR of a program as text: what the compiler hands to LLVM, before LLVM's own passes."""

import re

from p4reduce.dataplane.compiler.functions import build_module
from p4reduce.dataplane.model import Program

_QUOTED = re.compile(r'([%@])"([-a-zA-Z$._][-a-zA-Z$._0-9]*)"')
_LABEL = re.compile(r'^"?([-a-zA-Z$._0-9]+)"?:')
_VALUE = re.compile(r"%\.\d+\b")
_STATE_CELL = re.compile(r"(ptr %state, i64) \d+")


def module_text(program: Program) -> str:
    """The whole module; the same on every machine. Names stand without quotes where LLVM needs none.

    Raises:
        UnsupportedConstruct: the program is beyond the compiler.
    """
    lines = [_QUOTED.sub(r"\1\2", line.rstrip()) for line in str(build_module(program)).splitlines()]
    return "\n".join(lines).strip() + "\n"


def block_text(module: str, function: str, label: str) -> str:
    """One basic block of a module's text: its label and its instructions. Raises KeyError."""
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
    """The same with values numbered in the order in which they appear, and without the places of cells in the state.

    Equal texts mean equal instructions, whatever came before the block and whatever else the state holds.
    """
    numbers: dict[str, str] = {}
    block = _VALUE.sub(lambda found: numbers.setdefault(found[0], f"%.{len(numbers)}"), block)
    return _STATE_CELL.sub(r"\1 cell", block)
