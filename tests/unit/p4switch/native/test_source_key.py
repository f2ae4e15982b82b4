"""The key of machine code covers everything compiled into its kernels, wherever it is, and nothing else."""

import importlib
import shutil
from pathlib import Path

import pytest

from p4reduce.cli.warm import MODULES
from p4switch.native.compiler import source_key
from p4switch.native.objects import entries_of
from tests.support.paths import ROOT

SWITCH = ROOT / "packages/p4switch/src"
FOLDERS = ("base", "control_plane/plans/kernels", "network", "topologies", "workers")
FILES = ("p4switch/__init__.py", "p4switch/abi.py", "p4switch/device.py")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with copies of the kernels' sources, in both packages."""
    copied = tmp_path_factory.mktemp("sources")
    unwanted = shutil.ignore_patterns("__pycache__")
    for folder in FOLDERS:
        shutil.copytree(ROOT / "src/p4reduce" / folder, copied / "p4reduce" / folder, ignore=unwanted)
    for folder in ("base", "native"):
        shutil.copytree(SWITCH / "p4switch" / folder, copied / "p4switch" / folder, ignore=unwanted)
    for file in FILES:
        shutil.copy(SWITCH / file, copied / file)
    for package in ("", "control_plane", "control_plane/plans"):
        (copied / "p4reduce" / package / "__init__.py").touch()
    return copied


def keys(packages: Path, file: str, old: str, new: str) -> dict[str, bool]:
    """Return, for each folder with kernels, whether its key changes with a file."""
    folders = ("workers", "network", "control_plane/plans/kernels")

    def all_keys() -> list[str]:
        return [source_key(packages / "p4reduce" / folder, packages / "p4switch") for folder in folders]

    before = all_keys()
    path = packages / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    after = all_keys()
    path.write_text(text, "utf-8")
    assert all_keys() == before
    return {folder: one != other for folder, one, other in zip(folders, before, after, strict=True)}


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("p4switch/abi.py", "OUT_PRIORITY: Final = 6", "OUT_PRIORITY: Final = 7", {"network"}),
        ("p4reduce/workers/wire.py", "9400", "9401", {"workers", "network"}),
        ("p4reduce/workers/kernels/frames.py", '"""', '""" ', {"workers", "network"}),
        ("p4reduce/network/virtual/kernels/wires.py", '"""', '""" ', {"network"}),
        ("p4switch/native/memory.py", '"""', '""" ', {"workers", "network", "control_plane/plans/kernels"}),
        ("p4reduce/control_plane/plans/kernels/shortest.py", '"""', '""" ', {"control_plane/plans/kernels"}),
        ("p4switch/device.py", '"""', '""" ', set()),
        ("p4reduce/network/virtual/network.py", '"""', '""" ', set()),
    ],
)
def test_what_kernels_bake_in_changes_their_key(
    packages: Path, file: str, old: str, new: str, changed: set[str]
) -> None:
    found = keys(packages, file, old, new)
    assert {folder for folder, differs in found.items() if differs} == changed


@pytest.mark.parametrize("module", MODULES)
def test_a_module_with_kernels_stands_in_the_folder_that_its_key_is_of(module):
    """Otherwise an edit would leave its old machine code in use."""
    file = Path(str(importlib.import_module(module).__file__))
    assert entries_of(module)
    assert {file.is_relative_to(entry.compiler._sources) for entry in entries_of(module)} == {True}
