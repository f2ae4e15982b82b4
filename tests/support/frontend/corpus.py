"""p4c's samples for v1model, if $TESTDATA names p4c's testdata folder."""

import os
import re
from functools import cache
from pathlib import Path
from unittest import mock

from p4switch.p4 import compile
from p4switch.p4.compile import Compilation, compile_file, compile_text
from tests.support.conformance.stf.samples import Sample, find_samples

TESTDATA = Path(os.environ.get("TESTDATA") or "/nonexistent")
THERE = (TESTDATA / "p4_16_samples").is_dir()


def v1model(folder: str) -> list[Path]:
    """Return the v1model programs of a folder, except broken links into missing parts of p4c."""
    found = [p for p in sorted((TESTDATA / folder).glob("*.p4")) if p.is_file()] if THERE else []
    return [p for p in found if "v1model.p4" in p.read_text(errors="replace") and not p.stem.startswith("psa-")]


def stf_samples() -> list[Sample]:
    """Return the P4_16 programs with an STF test."""
    found = find_samples(TESTDATA) if THERE else []
    return [s for s in found if s.name.startswith("p4_16_samples/") and not s.options]


def carried(source: Path) -> Path:
    """Return the path of a sample's P4Info in p4c's tree; the file may be missing."""
    return TESTDATA / "p4_16_samples_outputs" / f"{source.name}.p4info.txt"


def middle_end(source: Path) -> Path:
    """Return the path of p4c's middle-end output, as P4: calls inlined, side effects and compound types split."""
    return TESTDATA / "p4_16_samples_outputs" / f"{source.stem}-midend.p4"


def compiled_middle_end(source: Path) -> Compilation:
    """Compile the middle-end output with the front end; its names are full, copies of an action share one."""
    text = middle_end(source).read_text(errors="replace")
    with mock.patch.object(compile, "_check_names"):
        return compile_text(re.sub(r'@name\("(?!\.)', '@name(".', text), source.name)


def programs() -> list[Path]:
    """Return the v1model programs in the folders that $PROGRAMS names."""
    folders = [Path(folder) for folder in os.environ.get("PROGRAMS", "").split()]
    found = [p for folder in folders for p in sorted(folder.rglob("*.p4"))]
    return [p for p in found if "V1Switch" in p.read_text(errors="replace")]


@cache
def compiled(path: Path) -> Compilation:
    """Return a sample compiled by the front end."""
    return compile_file(path, folders=[path.parent])
