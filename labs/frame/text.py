"""Words of graders."""

import re
from pathlib import Path


def counted(number: int, what: str) -> str:
    """``1 check``, ``2 checks``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def todo_lines(path: Path) -> list[int]:
    """Lines that still say TODO outside comments; none where the file cannot be read, which is told elsewhere."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [number for number, line in enumerate(lines, start=1) if re.search(r"\bTODO\b", line.partition("#")[0])]
