"""Packages of an extra are imported only by the features that the extra is for."""

import subprocess
import sys

import pytest

from p4reduce.base import errors

WITHOUT = """
import pkgutil, sys
for name in ("matplotlib", "mpi4py", "pandas", "pyarrow", "ray", "sklearn", "starlette", "topohub", "torch", "uvicorn"):
    sys.modules[name] = None
import p4reduce, p4switch
failed = []
for package in (p4reduce, p4switch):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", failed.append):
        if module.name.rpartition(".")[2] == "__main__":
            continue
        try:
            __import__(module.name)
        except ImportError:
            failed.append(module.name)
print(*sorted(set(failed)), sep="\\n")
"""


def test_a_missing_package_names_its_extra():
    with pytest.raises(errors.MissingPackageError, match=r"^p4reduce_nowhere is not installed: pip install 'p4re"):
        errors.load("p4reduce_nowhere", "wan")
    assert errors.load("json", "wan").dumps([1]) == "[1]"


def test_modules_import_without_the_extras():
    ended = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    failed = {name for name in ended.stdout.split() if not name.startswith("p4reduce.adapters.torch.")}
    assert failed == {"p4reduce.torch", "p4reduce.views.live.application"}
