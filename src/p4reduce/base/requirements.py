"""What this package cannot do without, by its own metadata."""

import importlib.metadata
import re


def requirements() -> tuple[str, ...]:
    """Names of the distributions that p4reduce requires, without extras; none where it is not installed."""
    try:
        lines = importlib.metadata.requires("p4reduce") or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    return tuple(sorted(re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines if "extra ==" not in line))
