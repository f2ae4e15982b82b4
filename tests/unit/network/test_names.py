"""The names of ``p4reduce.network.virtual`` are looked up on first use."""

import subprocess
import sys

import pytest

from p4reduce.network import virtual as fabric


def test_every_name_is_there():
    assert all(getattr(fabric, name) is not None for name in fabric.__all__)
    assert fabric.VirtualNetwork.__module__ == "p4reduce.network.virtual.network"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'p4reduce\.network\.virtual' has no attribute 'Nonsense'"):
        fabric.Nonsense  # noqa: B018


def test_real_time_does_not_load_the_compiler():
    code = "import sys, p4reduce.base.errors; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
