"""Manifest of the sources from which the programs in tests/data/bmv2 were compiled."""

import json
from pathlib import Path
from typing import Final

from tests.support.conformance.fuzz.recording import sha256

SOURCES: Final = Path(__file__).parent
COMPILED: Final = SOURCES.parents[1] / "data/bmv2"
MANIFEST: Final = COMPILED / "manifest.json"


def programs() -> list[str]:
    """Returns the names of the programs, without suffix."""
    return sorted(source.stem for source in SOURCES.glob("*.p4"))


def hashes(name: str) -> dict[str, str]:
    """Returns the SHA-256 of a program's source and of p4c's output for it."""
    return {
        "source": sha256(SOURCES / f"{name}.p4"),
        "json": sha256(COMPILED / f"{name}.json"),
        "p4info": sha256(COMPILED / f"{name}.p4info.txt"),
    }


def write(p4c: str) -> None:
    """Writes the manifest; ``p4c`` is the compiler's version."""
    made = {"p4c": p4c, "programs": {name: hashes(name) for name in programs()}}
    MANIFEST.write_text(json.dumps(made, indent=2) + "\n")
