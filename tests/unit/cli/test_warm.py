"""Machine code compiled ahead of time: it exists, and nothing else is compiled."""

import re
from importlib.util import find_spec

import pytest

from p4reduce.cli.warm import MODULES
from tests.support.paths import ROOT


@pytest.mark.parametrize("module", MODULES)
def test_modules_are_there(module):
    assert find_spec(module) is not None


def test_every_module_with_machine_code_is_compiled_ahead():
    found = {
        "p4reduce." + ".".join(path.relative_to(ROOT / "src/p4reduce").with_suffix("").parts)
        for folder in ("control_plane", "network", "workers")
        for path in (ROOT / "src/p4reduce" / folder).rglob("*.py")
        if re.search(r"^(@|.*= )entry\(", path.read_text("utf-8"), re.MULTILINE)
    }
    assert found == set(MODULES)
