"""Plan ``striped`` on packets: as fast as links allow, the bytes of one tree, and every byte on links as predicted."""

import random

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment

RACKS = "leaf-spine:leaves=4,spines=2,hosts=4,servers=0,rate=10G,capable=leaf*"
S_PS = 1024 * (62 + 4 * 256 + 24) * 8 * 100
"""of all frames of 262,144 elements on a worker's link"""


def run(plan: str, **more):
    return run_experiment(Experiment(**({"topology": RACKS, "elements": 262_144} | more | {"plan": plan}))).network


def test_four_racks_are_as_fast_as_a_worker_s_link():
    striped, steiner = run("striped"), run("steiner")
    assert striped.communication_ps < 1.03 * S_PS < 2.03 * S_PS < steiner.communication_ps
    assert striped.result_sha256 == steiner.result_sha256
    assert striped.prediction_differences == []
    assert striped.plan == "striped"
    assert run("best").plan == "best (striped)"


@pytest.mark.parametrize("elements", [1, 255, 256, 257, 1024, 1025, 5000])
def test_of_any_size_the_bytes_are_those_of_one_tree(elements):
    striped, steiner = run("striped", elements=elements), run("steiner", elements=elements)
    assert striped.result_sha256 == steiner.result_sha256
    assert striped.prediction_differences == []
    assert striped.communication_ps <= steiner.communication_ps


@pytest.mark.parametrize("seed", range(8))
def test_random_networks_with_losses_doubles_and_overtaking(seed):
    rng = random.Random(seed)
    leaves, spines, hosts = rng.randint(2, 5), rng.randint(1, 3), rng.randint(1, 3)
    more = {
        "topology": f"leaf-spine:leaves={leaves},spines={spines},hosts={hosts},servers=1,rate=10G,capable=leaf*",
        "elements": rng.choice((1, 700, 3000, 20_000)),
        "lanes": rng.choice((64, 256)),
        "repeat": rng.randint(1, 3),
        "seed": seed,
        "faults": {"loss": rng.choice((0.0, 0.02)), "duplicate": 0.02, "reorder": 0.02},
    }
    striped, steiner = run("striped", **more), run("steiner", **more)
    assert striped.result_sha256 == steiner.result_sha256
    assert all(one.max_error is not None and one.failed is None for one in striped.collectives)


def test_training_ends_with_the_weights_of_one_tree():
    found = {}
    for plan in ("striped", "steiner"):
        done = run_experiment(Experiment(topology=RACKS, plan=plan, model="digits", epochs=1, workers=8))
        found[plan] = done.training.weights_sha256
    assert found["striped"] == found["steiner"]


def test_other_collectives_take_one_tree():
    for collective in ("broadcast", "push_pull"):
        more = {"topology": RACKS.replace("servers=0", "servers=1"), "elements": 3000, "collective": collective}
        striped, steiner = run("striped", **more), run("steiner", **more)
        assert striped.result_sha256 == steiner.result_sha256
        assert striped.communication_ps == steiner.communication_ps


@pytest.mark.parametrize("more", [{"deadline": "500us"}, {"on_failure": "shrink"}])
def test_deadlines_and_groups_that_shrink_are_refused(more):
    with pytest.raises(PlanError, match="no deadline, and with on_failure abort only"):
        run("striped", elements=1000, **more)
