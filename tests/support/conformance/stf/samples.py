"""The P4 programs with STF tests in p4c's tree, and their compilation."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NEEDS_EXTERNS: Final = frozenset({"extern-funcs-bmv2"})
"""Tests that need a C++ module loaded into BMv2."""

COMPILE_DEADLINE_S: Final = 300.0


@dataclass(frozen=True)
class Sample:
    """A program, its test and its compiler options.

    Attributes:
        name: ``p4_16_samples/ternary2-bmv2``, with a suffix for options.
    """

    name: str
    source: Path
    test: Path
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compiled:
    """Outcome of a compilation: the path of the JSON, or None and the compiler's message."""

    json: Path | None
    message: str = ""


def find_samples(testdata: Path) -> list[Sample]:
    """Returns all v1model programs with an STF test: P4_16 (parser-inline ones with and without inlining) and P4_14.

    Raises:
        FileNotFoundError: ``testdata`` is not p4c's testdata folder.
    """
    if not (testdata / "p4_16_samples").is_dir():
        raise FileNotFoundError(f"{testdata} has no p4_16_samples; TESTDATA is p4c's folder 'testdata'")
    return [*_p4_16(testdata), *_inlined(testdata), *_p4_14(testdata)]


def _p4_16(testdata: Path) -> Iterator[Sample]:
    for folder in ("p4_16_samples", "p4_16_samples/parser-inline"):
        for source, test in _pairs(testdata / folder):
            if "v1model.p4" in source.read_text(errors="replace") and source.stem not in NEEDS_EXTERNS:
                yield Sample(f"{folder}/{source.stem}", source, test)


def _inlined(testdata: Path) -> Iterator[Sample]:
    for source, test in _pairs(testdata / "p4_16_samples/parser-inline"):
        option = "--parser-inline-opt"
        yield Sample(f"p4_16_samples/parser-inline/{source.stem}{option}", source, test, (option,))


def _p4_14(testdata: Path) -> Iterator[Sample]:
    for source, test in _pairs(testdata / "p4_14_samples"):
        yield Sample(f"p4_14_samples/{source.stem}", source, test, ("--std", "p4-14"))


def _pairs(folder: Path) -> Iterator[tuple[Path, Path]]:
    for test in sorted(folder.glob("*.stf")):
        source = test.with_suffix(".p4")
        if source.is_file():
            yield source, test


def compile_sample(p4c: str, sample: Sample, cache: Path) -> Compiled:
    """Compiles once for each compiler, source and set of options; the JSON stays in ``cache``.

    Failures are not cached: a wrong include path may be the cause, and can be corrected.
    """
    output = cache / f"{_key(p4c, sample)}.json"
    if output.is_file():
        return Compiled(output)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        made = Path(folder) / "out.json"
        done = subprocess.run(
            [p4c, *sample.options, "-o", str(made), str(sample.source)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_DEADLINE_S,
            check=False,
        )
        if done.returncode != 0 or not made.is_file():
            return Compiled(None, done.stderr)
        made.replace(output)
    return Compiled(output)


def _key(p4c: str, sample: Sample) -> str:
    compiler = Path(p4c).stat()
    parts = [p4c, str(compiler.st_size), str(compiler.st_mtime_ns), *sample.options]
    digest = hashlib.sha256("\0".join(parts).encode())
    for source in [sample.source, *sorted(sample.source.parent.glob(f"{sample.source.stem}*.p4*"))]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:32]


def default_cache() -> Path:
    """Returns (and makes) the folder of compiled samples: $XDG_CACHE_HOME/p4reduce/stf or ~/.cache/p4reduce/stf."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "p4reduce" / "stf"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
