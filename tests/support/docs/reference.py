"""Tables of docs/ that are generated from the code; ``python -m tests.support.docs.reference`` updates them.

A table stands between ``<!-- reference: NAME -->`` and ``<!-- reference: end -->``.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from p4reduce.topologies import bundled, load
from p4reduce.workers.records import Refusal
from p4switch.base.files import write_text
from tests.support.paths import ROOT

_TABLE: Final = re.compile(r"(<!-- reference: (?!end)(\S+) -->\n)(.*?)(<!-- reference: end -->)", re.DOTALL)
_REASON: Final = re.compile(r"^#define REFUSED_(\w+) +(\d+) +// (.+)$", re.M)
_DESCRIPTION: Final = re.compile(r"^description: (.+)$", re.M)


def reasons() -> Iterator[tuple[object, ...]]:
    """Yield numbers, names and meanings of the refusals in p4src/refuse.p4, and their names at endpoints."""
    yield "number", "name", "a switch refuses", "at endpoints"
    ends = {int(reason): f"`{reason.name.lower()}`" for reason in Refusal}
    for name, number, meaning in _REASON.findall((ROOT / "p4src/refuse.p4").read_text("utf-8")):
        yield number, f"`{name.lower()}`", meaning, ends.get(int(number), "-")


def topologies() -> Iterator[tuple[object, ...]]:
    """Yield names, sizes and descriptions of the bundled topologies."""
    yield "name", "workers", "servers", "switches", "capable", "description"
    for name in bundled():
        network = load(name)
        counts = (len(nodes) for nodes in (network.workers, network.servers, network.switches))
        text = (ROOT / f"topologies/{name}.yaml").read_text("utf-8")
        yield f"`{name}`", *counts, sum(node.capable for node in network.switches), *_DESCRIPTION.findall(text)


TABLES: Final[dict[str, Callable[[], Iterable[tuple[object, ...]]]]] = {"reasons": reasons, "topologies": topologies}


def table(name: str) -> str:
    """Return a table in Markdown. Raises KeyError."""
    head, *rows = TABLES[name]()
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def pages() -> Iterator[tuple[Path, str, str]]:
    """Yield path, text and updated text of each page with such tables."""
    for page in sorted(ROOT.glob("docs/*.md")):
        text = page.read_text("utf-8")
        if _TABLE.search(text):
            yield page, text, _TABLE.sub(lambda found: found[1] + table(found[2]) + found[4], text)


if __name__ == "__main__":
    for path, _, fresh in pages():
        write_text(path, fresh)
