"""Fixtures for testing P4 programs with pytest; pytest finds them once p4switch is installed.

::

    def test_forwards(p4switch):
        switch = p4switch("my.p4")
        switch.insert("ipv4_lpm", "10.0.1.0/24", "forward", (2,))
        assert switch.send(1, packet) == [(2, expected)]
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from p4switch.program.program import Program
    from p4switch.switch import Switch


@pytest.fixture(scope="session")
def p4program() -> "Callable[..., Program]":
    """Compile and load a program once for all tests: ``p4program("my.p4", LANES="64")``; keywords define macros."""
    loaded: dict[tuple[str, frozenset[tuple[str, str]]], Program] = {}

    def load(path: str | Path, **defines: str) -> "Program":
        key = str(Path(path).resolve()), frozenset(defines.items())
        if key not in loaded:
            from p4switch import compile_p4  # noqa: PLC0415  (slow, and not needed by other tests)
            from p4switch.program import load_program  # noqa: PLC0415

            loaded[key] = load_program(Path(path)) if str(path).endswith(".json") else compile_p4(path, defines)
        return loaded[key]

    return load


@pytest.fixture
def p4switch(p4program: "Callable[..., Program]") -> "Callable[..., Switch]":
    """Make a switch with empty tables: ``p4switch("my.p4")``; the program is compiled once for all tests."""

    def make(path: str | Path, *, executor: Any = "compiled", **defines: str) -> "Switch":
        from p4switch.switch import Switch  # noqa: PLC0415

        return Switch(p4program(path, **defines), executor=executor)

    return make
