"""Which modules command lines import. Imports nothing of the product itself."""

import contextlib
import importlib
import io
import sys
from collections.abc import Sequence


def imported_by(lines: Sequence[Sequence[str]], names: Sequence[str]) -> list[tuple[object, list[str]]]:
    """For each command line its exit code, and which of some modules it is the first to import.

    They run one after the other in this process: call it in a fresh one.
    """
    entry = importlib.import_module("p4reduce.cli.entry")
    return [_imported_by(entry, line, [name for name in names if name not in sys.modules]) for line in lines]


def _imported_by(entry: object, line: Sequence[str], missing: Sequence[str]) -> tuple[object, list[str]]:
    sys.argv = ["p4reduce", *line]
    code: object = None
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            entry.main()  # type: ignore[attr-defined]
        except SystemExit as end:
            code = end.code
    return code, [name for name in missing if name in sys.modules]
