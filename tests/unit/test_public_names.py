"""Exports of ``p4reduce``: complete, documented, and imported on first use."""

import subprocess
import sys

import pytest

import p4reduce
from tests.support.paths import ROOT


@pytest.mark.parametrize("name", p4reduce.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert getattr(p4reduce, name)
    if not name.startswith("__"):
        assert f"`{name}" in (ROOT / "docs/api.md").read_text("utf-8")


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="has no attribute 'Carrier'"):
        p4reduce.Carrier  # noqa: B018


def test_importing_the_package_imports_nothing_slow():
    code = "import sys, p4reduce; print(sorted({'numpy', 'numba', 'pydantic', 'finsy', 'grpc'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
