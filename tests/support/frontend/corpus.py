"""p4c's samples for v1model, where $TESTDATA names p4c's folder of that name."""

import os
from functools import cache
from pathlib import Path

from tests.support.conformance.stf.samples import Sample, find_samples

from p4reduce.frontend.compile import Compilation, compile_file

TESTDATA = Path(os.environ.get("TESTDATA") or "/nonexistent")
THERE = (TESTDATA / "p4_16_samples").is_dir()


def v1model(folder: str) -> list[Path]:
    """The programs of a folder that are for v1model."""
    found = sorted((TESTDATA / folder).glob("*.p4")) if THERE else []
    return [p for p in found if "v1model.p4" in p.read_text(errors="replace") and not p.stem.startswith("psa-")]


def stf_samples() -> list[Sample]:
    """The P4_16 programs with an STF test."""
    found = find_samples(TESTDATA) if THERE else []
    return [s for s in found if s.name.startswith("p4_16_samples/") and not s.options]


def carried(source: Path) -> Path:
    """P4Info of a sample as p4c's tree has it; the file may be missing."""
    return TESTDATA / "p4_16_samples_outputs" / f"{source.name}.p4info.txt"


def programs() -> list[Path]:
    """Programs for v1model in the folders that $PROGRAMS names."""
    folders = [Path(folder) for folder in os.environ.get("PROGRAMS", "").split()]
    found = [p for folder in folders for p in sorted(folder.rglob("*.p4"))]
    return [p for p in found if "V1Switch" in p.read_text(errors="replace")]


@cache
def compiled(path: Path) -> Compilation:
    """A sample, compiled by the front end."""
    return compile_file(path, folders=[path.parent])
