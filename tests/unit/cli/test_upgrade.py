"""``p4reduce topo upgrade``: which switches to make programmable."""

import json

from typer.testing import CliRunner

from p4reduce.cli.main import app

LEAVES = "leaf-spine:leaves=2,spines=2,hosts=2,servers=0,rate=10G"


def upgrade(*arguments: object):
    return CliRunner().invoke(app, ["topo", "upgrade", *map(str, arguments)])


def test_ours_stands_beside_others_on_packets():
    done = upgrade(f"{LEAVES},capable=none", "--count", 2, "--samples", 2, "-e", 16_384, "--json")
    assert done.exit_code == 0, done.stderr
    choices = {one["by"]: one for one in json.loads(done.stdout)["choices"]}
    assert list(choices) == ["none", "bound", "SOAR", "random 1", "random 2", "all"]
    assert all(one["took_us"] >= one["bound_us"] for one in choices.values())
    bounds = {by: one["bound_us"] for by, one in choices.items()}
    assert bounds["all"] <= bounds["bound"] <= min(bounds["SOAR"], bounds["random 1"]) <= bounds["none"]
    assert bounds["random 1"] <= bounds["random 2"]
    assert len(choices["bound"]["switches"]) == 2
    assert choices["none"]["plan"] == "best (ring)"


def test_bounds_alone():
    done = upgrade(f"{LEAVES},capable=leaf1", "--count", 1, "--samples", 0, "--no-packets", "--json")
    assert done.exit_code == 0, done.stderr
    choices = json.loads(done.stdout)["choices"]
    assert [one["by"] for one in choices] == ["none", "bound", "SOAR", "all"]
    assert "took_us" not in choices[0]


def test_what_it_cannot_answer():
    assert "every switch can aggregate already" in upgrade("leaf-spine-8", "--count", 1).stderr
    assert upgrade("fat-tree:k=16,capable=none", "--count", 1).exit_code == 2
    assert upgrade(f"{LEAVES},capable=none", "--count", 0).exit_code == 2
    assert "workers: 99" in upgrade(f"{LEAVES},capable=none", "-k", 1, "-n", 99).stderr
    assert "--lanes: '3' is none of 64, 256" in upgrade(f"{LEAVES},capable=none", "-k", 1, "-l", 3).stderr
