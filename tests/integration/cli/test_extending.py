"""A plan, a policy, a topology and a P4 program from outside of the package: the documentation's example."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.paths import ROOT

TEXT = (ROOT / "docs/extending.md").read_text("utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages with the example, laid out as pip would install it.

    Of files that are not Python, setuptools takes only what the project names in package-data.
    """
    site = tmp_path_factory.mktemp("site-packages")
    package, about = site / "my_network", site / "my_network-1.0.dist-info"
    package.mkdir()
    about.mkdir()
    (package / "__init__.py").write_text(block("python"))
    written = tmp_path_factory.mktemp("written")
    (written / "few_slots.p4").write_text(block("p4"))
    for source in (ROOT / "p4src").glob("*.p4"):
        shutil.copy(source, written)
    about_project = tomllib.loads(block("toml"))
    for pattern in about_project["tool"]["setuptools"]["package-data"]["my_network"]:
        for source in written.glob(pattern):
            shutil.copy(source, package)
    project = about_project["project"]
    groups = project["entry-points"]
    groups["p4reduce.plans"] |= {"broken": "my_network:nothing", "ring": "my_network:nothing"}
    lines = [line for group in groups for line in (f"[{group}]", *(f"{n} = {at}" for n, at in groups[group].items()))]
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (about / "entry_points.txt").write_text("\n".join(lines))
    return site


def run(site: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = ":".join([str(site), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONPATH": path}
    return subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, check=False, timeout=300)


def p4reduce(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(site, "-m", "p4reduce.cli.entry", *arguments)


def test_the_example_runs_on_packets(installed: Path, tmp_path: Path) -> None:
    command, *arguments = shlex.split(block("sh"))
    assert command == "p4reduce"
    done = p4reduce(installed, *arguments, "--json", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["experiment"]["plan"] == "lowest"
    assert result["provenance"]["p4_json"].endswith("my_network/few_slots.p4")
    assert "network" in result  # a wrong sum would have ended the run


POLICY = """
from p4reduce.base.errors import PlanError
from p4reduce.control_plane.scheduling import POLICIES, NetworkState, Task, policy_named
from p4reduce.control_plane.plans import PLANS, planner
from p4reduce.topologies import load
network = load("pair:hosts=2,rate=1G")
assert {"lowest", "steiner", "broken"} <= set(PLANS), list(PLANS)
assert "modest" in POLICIES
policy = policy_named("modest")
few = Task("few", server="a1", workers=("a2", "b1"), elements=1000, demand_bps=10**8)
print(policy(few, NetworkState(network)).task.name)
for ask in (lambda: policy(Task("much", "a1", ("a2", "b1"), 1000, demand_bps=2 * 10**9), NetworkState(network)),
            lambda: planner("broken"), lambda: load("pair:hosts=many"), lambda: load("pair:hosts=1,depth=2")):
    try:
        ask()
    except ValueError as error:
        print(str(error).replace("\\n", " "))
print(planner("ring").__module__)
"""


def test_policies_are_known_by_name_and_mistakes_name_the_distribution(installed: Path) -> None:
    done = run(installed, "-c", POLICY)
    assert done.returncode == 0, done.stderr
    few, much, broken, many, depth, ring = done.stdout.splitlines()
    assert few == "few"
    assert "more than is modest" in much
    assert "plan 'broken' of the distribution 'my-network' (my_network:nothing) cannot be loaded" in broken
    assert "hosts: Input should be a valid integer" in many
    assert "depth: " in depth
    assert ring == "p4reduce.control_plane.plans.ring"  # built-in names take precedence


def test_without_the_package_its_names_are_refused(tmp_path: Path) -> None:
    done = p4reduce(tmp_path, "plan", "show", "-t", "pair:hosts=2")
    assert done.returncode == 2
    assert "'pair:hosts=2' is no topology" in done.stderr
