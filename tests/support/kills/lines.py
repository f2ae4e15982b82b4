"""``python -m tests.support.kills.lines``: count the lines of the agreement and of the code that drives it.

The agreement is ``group/agreement.py`` with ``group/membership.py``. A class or function elsewhere drives it if it
names the agreement, one of its events or one of its actions. Printed: lines of each, and of the files that contain
them. Docstrings and comments are counted.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

SOURCE = ROOT / "src/p4reduce"
MODULE = "p4reduce.group.agreement"
ITSELF = (SOURCE / "group/agreement.py", SOURCE / "group/membership.py")


@dataclass(frozen=True)
class AgreementDriver:
    """A class or function that drives the agreement."""

    path: Path
    name: str
    lines: int


def drivers() -> list[AgreementDriver]:
    """Return all drivers, by file."""
    return [driver for path in sorted(SOURCE.rglob("*.py")) if path not in ITSELF for driver in _of(path)]


def lines_of(path: Path) -> int:
    """Return the number of lines of a file."""
    return path.read_text("utf-8").count("\n")


def _of(path: Path) -> Iterator[AgreementDriver]:
    tree = ast.parse(path.read_text("utf-8"))
    names = set(_imported(tree))
    for node in tree.body if names else ():
        used = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and used & names:
            begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield AgreementDriver(path, node.name, (node.end_lineno or begin) - begin + 1)


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield names by which a file knows the agreement, its events and its actions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            package, _, own = MODULE.rpartition(".")
            for alias in node.names:
                if node.module == MODULE or (node.module, alias.name) == (package, own):
                    yield alias.asname or alias.name


def main() -> None:
    """Print all counts."""
    every = drivers()
    for path in ITSELF:
        print(f"{lines_of(path):6,}  {path.relative_to(ROOT)}")
    print(f"{sum(map(lines_of, ITSELF)):6,}  the agreement")
    for driver in every:
        print(f"{driver.lines:6,}  {driver.path.relative_to(ROOT)}: {driver.name}")
    print(f"{sum(driver.lines for driver in every):6,}  what drives it")
    files = sorted({driver.path for driver in every})
    print(f"{sum(map(lines_of, files)):6,}  the {len(files)} files that this is in, whole")


if __name__ == "__main__":
    main()
