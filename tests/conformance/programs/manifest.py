"""Which sources the compiled programs in tests/data/bmv2 were made from."""

import json
from pathlib import Path
from typing import Final

from tests.support.conformance.fuzz.recording import sha256

SOURCES: Final = Path(__file__).parent
COMPILED: Final = SOURCES.parents[1] / "data/bmv2"
MANIFEST: Final = COMPILED / "manifest.json"


def programs() -> list[str]:
    """Names of the programs, without ending."""
    return sorted(source.stem for source in SOURCES.glob("*.p4"))


def hashes(name: str) -> dict[str, str]:
    """SHA-256 of a program's source and of what p4c made of it."""
    return {
        "source": sha256(SOURCES / f"{name}.p4"),
        "json": sha256(COMPILED / f"{name}.json"),
        "p4info": sha256(COMPILED / f"{name}.p4info.txt"),
    }


def write(p4c: str) -> None:
    """Writes the manifest; ``p4c`` is its version."""
    made = {"p4c": p4c, "programs": {name: hashes(name) for name in programs()}}
    MANIFEST.write_text(json.dumps(made, indent=2) + "\n")
