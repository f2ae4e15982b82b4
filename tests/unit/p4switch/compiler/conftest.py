"""Fixtures: devices of test programs, and a separate cache of their machine code."""

from collections.abc import Callable
from pathlib import Path

import pytest

from p4switch.device import Device
from p4switch.program import load_program
from tests.support.bmv2_json import ProgramJson


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("P4REDUCE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(params=["compiled", "interpreted"])
def make(request: pytest.FixtureRequest) -> Callable[[ProgramJson], Device]:
    """Make devices on either executor, as both must behave alike."""

    def device(program: ProgramJson) -> Device:
        return Device(load_program(program.build()), executor=request.param)

    return device
