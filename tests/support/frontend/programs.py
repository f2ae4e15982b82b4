"""Programs of the repository, compiled by the front end."""

from functools import cache
from pathlib import Path
from typing import Final

from p4switch.p4.compile import Compilation, compile_file
from p4switch.program import Program, load_program
from tests.support.paths import ROOT

SUITES: Final = {
    **{p.stem: p for p in sorted((ROOT / "tests/conformance/programs").glob("*.p4"))},
    "constructs": ROOT / "tests/data/constructs.p4",
    "p4reduce-64": ROOT / "p4src/p4reduce.p4",
}
"""The programs that are fuzzed against BMv2, by the name of the suite."""
P4INFO: Final = {
    **{p: p.with_suffix(".p4info.txt") for p in sorted((ROOT / "tests/data").glob("*.p4"))},
    **{
        p: ROOT / f"tests/data/bmv2/{p.stem}.p4info.txt"
        for p in sorted((ROOT / "tests/conformance/programs").glob("*.p4"))
    },
}
"""P4 sources, each with the path of p4c's P4Info for it."""


@cache
def compiled(path: Path) -> Compilation:
    """Return a program of the repository, compiled by the front end."""
    return compile_file(path).require()


@cache
def loaded(name: str) -> Program:
    """Return a suite's program, compiled by the front end."""
    return load_program(compiled(SUITES[name]).json or {})
