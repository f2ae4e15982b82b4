"""``compare`` and ``plan show`` report the best plan's bound; on large networks only on request."""

import json

from typer.testing import CliRunner

from p4reduce.cli.main import app

RACKS = "leaf-spine:leaves=2,spines=2,hosts=2,servers=0,rate=10G,capable=leaf*"
LARGE = "leaf-spine:leaves=29,spines=2,hosts=1,servers=0,rate=10G,capable=spine*"


def p4reduce(*arguments: object):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.stderr
    return done


def test_compare_has_each_plan_over_it(tmp_path):
    done = p4reduce("compare", "-t", RACKS, "-p", "striped,ring", "-e", 65_536, "-o", tmp_path, "--json")
    striped, ring = json.loads(done.stdout)
    assert striped["best_plan_us"] == ring["best_plan_us"] > 0
    assert 1 <= striped["ratio_to_best_plan"] < 1.1 < ring["ratio_to_best_plan"]
    shown = p4reduce("compare", "-t", RACKS, "-p", "ring", "-e", 65_536, "-o", tmp_path)
    assert "the best plan on this network takes at least" in shown.stdout


def test_a_large_network_s_is_not_waited_for(tmp_path):
    (row,) = json.loads(p4reduce("compare", "-t", LARGE, "-p", "spt", "-e", 256, "-o", tmp_path, "--json").stdout)
    assert "best_plan_us" not in row
    assert (
        "best_plan_ps" not in json.loads(p4reduce("plan", "show", "-t", LARGE, "-p", "ring", "--json").stdout)["least"]
    )


def test_plan_show_has_it_beside_the_plan_s_own():
    shown = json.loads(p4reduce("plan", "show", "-t", RACKS, "-p", "ring", "--json").stdout)["least"]
    assert shown["task_ps"] <= shown["best_plan_ps"] < shown["plan_ps"]
