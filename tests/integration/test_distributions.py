"""The source distribution and the wheel contain the whole product, and work without the checkout."""

import json
import os
import shutil
import site
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import p4reduce
from tests.support.labs import SOLUTIONS
from tests.support.paths import ROOT

FRESH = "DISTRIBUTIONS" in os.environ
NO_FRESH = "installs from PyPI and compiles everything, which takes minutes: make dist-test"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Both distributions as ``python -m build`` makes them: the wheel from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return source, wheel


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """Wheels of the other distributions: the embedded switch, the course."""
    folder = tmp_path_factory.mktemp("beside")
    for package in ("p4switch", "course"):
        where = str(ROOT / "packages" / package)
        command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), where]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def unpacked(built, beside, tmp_path_factory):
    """The packages of all wheels, unpacked into a folder."""
    folder = tmp_path_factory.mktemp("site")
    for wheel in (built[1], *beside):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)  # noqa: S202  (we have just built it)
    return folder


def packaged():
    """Return the files that belong into the package: all below src/p4reduce/, with links followed."""
    package = ROOT / "src" / "p4reduce"
    found = set()
    for folder, _, names in os.walk(package, followlinks=True):
        if "__pycache__" not in folder:
            found |= {str((Path(folder) / name).relative_to(package.parent)) for name in names}
    return {name for name in found if not name.endswith((".pyc", ".nbi", ".nbc"))}


def test_the_wheel_holds_the_whole_package(built):
    with zipfile.ZipFile(built[1]) as archive:
        names = {name for name in archive.namelist() if name.startswith("p4reduce/")}
    assert names == packaged()


def test_the_wheel_is_light(built):
    """No studies, benchmarks or course; the other wheels have them, as the packages above show."""
    assert len(read_toml("pyproject.toml")["dependencies"]) <= 12
    with zipfile.ZipFile(built[1]) as archive:
        lines = sum(archive.read(name).count(b"\n") for name in archive.namelist() if name.endswith(".py"))
        assert lines < 99_500  # the goal was 90,000 before optical networks, several machines, trees and services


def test_the_source_distribution_holds_every_file_once(built):
    with tarfile.open(built[0]) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert len(names) == len(set(names))
    for name in packaged():
        inside = name.removeprefix("p4reduce/")
        assert (inside in names) != (f"src/{name}" in names), name
    for name in ("Makefile", "LICENSE", "README.md", "CHANGELOG.md", "tests/conftest.py", "docs/usage.md"):
        assert name in names


def test_there_is_one_version(built, beside):
    version = p4reduce.__version__
    assert all(f"p4reduce-{version}" in path.name for path in built)
    assert {path.name.split("-")[1] for path in beside} == {version}
    asked = [read_toml("pyproject.toml")["dependencies"], read_toml("packages/course/pyproject.toml")["dependencies"]]
    assert f"p4switch[server,trace]~={version}" in asked[0]
    assert f"p4reduce~={version}" in asked[1]
    assert f"version: {p4reduce.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## {p4reduce.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def read_toml(path):
    return tomllib.loads((ROOT / path).read_text("utf-8"))["project"]


def run(unpacked, *arguments, folder):
    """Run the command from the unpacked wheel with only the libraries on the path, without the checkout."""
    libraries = site.getsitepackages()[0]
    code = (
        f"import sys; sys.path[1:1] = [{str(unpacked)!r}, {libraries!r}]; from p4reduce.cli.entry import main; main()"
    )
    environment = {**os.environ, "P4REDUCE_CACHE": str(folder / "cache"), "PYTHONPATH": "", "NO_COLOR": "1"}
    base = str(Path(sys.base_prefix) / "bin" / "python3")
    return subprocess.run(
        [base, "-c", code, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_command_works_out_of_the_wheel(unpacked, tmp_path):
    version = run(unpacked, "--version", folder=tmp_path)
    assert (version.returncode, version.stdout) == (0, f"{p4reduce.__version__}\n"), version.stderr
    shown = run(unpacked, "plan", "show", "--plan", "ps", "--json", folder=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)


def test_labs_are_copied_and_graded_out_of_the_wheel(unpacked, tmp_path):
    copied = run(unpacked, "lab", "copy", "01", folder=tmp_path)
    assert copied.returncode == 0, copied.stderr
    (lab,) = tmp_path.glob("01*")
    graded = run(unpacked, "lab", "grade", str(lab), folder=tmp_path)
    assert graded.returncode == 1
    assert "Traceback" not in graded.stderr


@pytest.mark.distributions
@pytest.mark.skipif(not FRESH, reason=NO_FRESH)
@pytest.mark.parametrize("kind", [0, 1], ids=["source", "wheel"])
def test_a_fresh_environment_runs_demo_and_lab(built, beside, kind, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / "bin"
    environment = {**os.environ, "P4REDUCE_CACHE": str(tmp_path / "cache"), "PYTHONPATH": ""}

    def call(*command):
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    installed = call(str(binaries / "pip"), "install", "--quiet", f"{built[kind]}[demo]", *map(str, beside))
    assert installed.returncode == 0, installed.stderr
    command = str(binaries / "p4reduce")
    demo = call(command, "demo", "--out", "out")
    assert demo.returncode == 0, demo.stderr
    provenance = json.loads((tmp_path / "out" / "result.json").read_text())["runs"][0]["provenance"]
    assert provenance["commit"] == f"release {p4reduce.__version__}"
    assert len(provenance["p4_json_sha256"]) == 64
    assert call(command, "lab", "copy", "01").returncode == 0
    (lab,) = tmp_path.glob("01*")
    shutil.copytree(SOLUTIONS / "01", lab / "skeleton", dirs_exist_ok=True)
    assert call(command, "lab", "grade", str(lab)).returncode == 0, lab
