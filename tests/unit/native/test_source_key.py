"""The key of machine code covers what its kernels bake in, wherever it stands, and nothing else."""

import shutil
from pathlib import Path

import pytest
from tests.support.paths import ROOT

from p4reduce.native.compiler import source_key

FOLDERS = ("base", "native", "workers", "fabric", "topologies", "control_plane/plans/kernels")
FILES = ("dataplane/__init__.py", "dataplane/abi.py", "dataplane/device.py")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copied = tmp_path_factory.mktemp("sources") / "p4reduce"
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copied / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (copied / "dataplane").mkdir()
    for file in FILES:
        shutil.copy(ROOT / file, copied / file)
    return copied


def keys(package: Path, file: str, old: str, new: str) -> dict[str, bool]:
    """Whether the key of each package changes with a file."""
    folders = ("workers", "fabric", "control_plane/plans/kernels")
    before = [source_key(package / folder, package) for folder in folders]
    path = package / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    after = [source_key(package / folder, package) for folder in folders]
    path.write_text(text, "utf-8")
    assert [source_key(package / folder, package) for folder in folders] == before
    return {folder: one != other for folder, one, other in zip(folders, before, after, strict=True)}


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("dataplane/abi.py", "OUT_PRIORITY: Final = 6", "OUT_PRIORITY: Final = 7", {"fabric"}),
        ("workers/wire.py", "9400", "9401", {"workers", "fabric"}),
        ("workers/kernels/frames.py", '"""', '""" ', {"workers", "fabric"}),
        ("fabric/kernels/queues.py", '"""', '""" ', {"fabric"}),
        ("native/memory.py", '"""', '""" ', {"workers", "fabric", "control_plane/plans/kernels"}),
        ("control_plane/plans/kernels/sets.py", '"""', '""" ', {"control_plane/plans/kernels"}),
        ("dataplane/device.py", '"""', '""" ', set()),
        ("fabric/network.py", '"""', '""" ', set()),
    ],
)
def test_what_kernels_bake_in_changes_their_key(
    package: Path, file: str, old: str, new: str, changed: set[str]
) -> None:
    found = keys(package, file, old, new)
    assert {folder for folder, differs in found.items() if differs} == changed
