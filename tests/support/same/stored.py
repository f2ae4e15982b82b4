"""Stored results: a file for each group, a line for each item, so that ``git diff`` shows the changed items."""

import json
import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

LIBRARIES: Final = ("numpy", "scipy", "networkx", "typer", "click", "rich", "pydantic", "hypothesis", "matplotlib")
"""Libraries on which the results may depend."""
_ENVIRONMENT: Final = "written-with.json"
_SHOWN: Final = 4
"""number of differing parts of an item that are reported"""


Items = dict[str, dict[str, Any]]
"""Digest and parts of a group's items, by name."""


def read(path: Path) -> Items:
    """Return the items of a file; none if it does not exist."""
    return json.loads(path.read_text()) if path.exists() else {}


def write(path: Path, items: Items) -> None:
    """Write items, one a line, sorted by name."""
    lines = [f"{json.dumps(name)}: {json.dumps(item)}" for name, item in sorted(items.items())]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def differences(stored: Items, came: Items, *, whole: bool) -> Iterator[str]:
    """Yield a line for each item that differs; with ``whole``, also for missing items."""
    for name, item in sorted(came.items()):
        if name not in stored:
            yield f"{name}: is new"
        elif json.loads(json.dumps(item)) != stored[name]:
            yield f"{name}: {_parts(stored[name], item)}"
    for name in sorted(stored.keys() - came.keys()) if whole else ():
        yield f"{name}: did not come"


def _parts(stored: dict[str, Any], item: dict[str, Any]) -> str:
    """Return a description of the first differing parts."""
    names = [name for name in {**stored, **item} if name != "digest" and stored.get(name) != item.get(name)]
    told = [f"{name} {_value(item, name)}, was {_value(stored, name)}" for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        told.append(f"and {len(names) - _SHOWN} more")
    return "; ".join(told) or "differs in what no part shows"


def _value(item: dict[str, Any], name: str) -> str:
    return json.dumps(item[name]) if name in item else "absent"


def written_with(folder: Path, *, write: bool = False) -> str:
    """Return the versions with which the digests were written, where they differ from the present ones."""
    here = {"python": platform.python_version(), "machine": platform.machine()}
    here |= {name: version(name) for name in LIBRARIES}
    path = folder / _ENVIRONMENT
    if write:
        path.write_text(json.dumps(here, indent=1) + "\n")
    then = json.loads(path.read_text()) if path.exists() else {}
    others = [f"{name} {there} (here {here.get(name)})" for name, there in then.items() if here.get(name) != there]
    return ", ".join(others) if others else "the versions that are here"
