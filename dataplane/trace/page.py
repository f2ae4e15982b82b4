"""Keeps docs/embedded-switch.md true: the LLVM IR that it shows, and the list of what is refused.

An IR block follows a mark ``<!-- ir: function label -->``, the list stands between ``<!-- unsupported: begin -->`` and
``<!-- unsupported: end -->``. To bring the page up to date:
``python -m p4reduce.dataplane.trace.page tests/data/ten_lines.json docs/embedded-switch.md``
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from p4reduce.base.written import write_text
from p4reduce.dataplane.model import load_program
from p4reduce.dataplane.trace.ir import block_text, module_text
from p4reduce.dataplane.trace.refused import refused_constructs

_IR = re.compile(r"(<!-- ir: (\S+) (\S+) -->\n```llvm\n)(.*?)(```)", re.DOTALL)
_LIST = re.compile(r"(<!-- unsupported: begin -->\n)(.*?)(<!-- unsupported: end -->)", re.DOTALL)


def shown_blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """(function, label, block as the page shows it) of each block."""
    return ((found[2], found[3], found[4]) for found in _IR.finditer(page))


def shown_list(page: str) -> list[str]:
    """The constructs that the page says are refused."""
    found = _LIST.search(page)
    return [] if found is None else [line.removeprefix("- ") for line in found[2].splitlines()]


def refreshed(page: str, module: str, refused: Iterable[str]) -> str:
    """The page as it should be. Raises KeyError where a block that it shows is no more."""
    listed = "".join(f"- {words}\n" for words in refused)
    page = _IR.sub(lambda found: found[1] + block_text(module, found[2], found[3]) + found[5], page)
    return _LIST.sub(lambda found: found[1] + listed + found[3], page)


def main() -> int:
    """Entry point; the exit code."""
    if len(sys.argv) != 3:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    program, page = Path(sys.argv[1]), Path(sys.argv[2])
    text = refreshed(page.read_text("utf-8"), module_text(load_program(program)), refused_constructs())
    write_text(page, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
