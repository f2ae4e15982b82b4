"""Plan ``striped`` on packets: as fast as links allow, the bytes of a single tree, and predicted link loads."""

import random

import numpy as np
import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.forest import predicted_forest_ps, striped
from p4reduce.control_plane.plans.problem import Problem
from p4reduce.group.errors import SaturatedError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.runs.virtual.cluster import Cluster, build_topology, worker_hosts
from p4reduce.runs.virtual.incidents import Incident

RACKS = "leaf-spine:leaves=4,spines=2,hosts=4,servers=0,rate=10G,capable=leaf*"
ONE_EACH = "leaf-spine:leaves=4,spines=2,hosts=1,servers=0,rate=10G,capable=leaf*"
S_PS = 1024 * (62 + 4 * 256 + 24) * 8 * 100
"""time of all frames of 262,144 elements on a worker's link"""


def run(plan: str, **more):
    return run_experiment(Experiment(**({"topology": RACKS, "elements": 262_144} | more | {"plan": plan}))).network


def test_four_racks_are_as_fast_as_a_worker_s_link():
    striped, steiner = run("striped"), run("steiner")
    assert striped.communication_ps < 1.03 * S_PS < 2.03 * S_PS < steiner.communication_ps
    assert striped.result_sha256 == steiner.result_sha256
    assert striped.prediction_differences == []
    assert striped.plan == "striped"
    assert run("best").plan == "best (striped)"


def test_the_prediction_knows_which_trees_are_on_a_link_at_once():
    """Links of 3 us, with several copies of some trees: a tree ends with its own turn on the busiest link."""
    edges = "+".join(f"edge{pod}-{number}" for pod in (1, 2, 3, 4) for number in (1, 2))
    given = Experiment(
        topology=f"fat-tree:k=4,servers=0,rate=10G,delay=3us,capable={edges}",
        workers=9,
        elements=16_384,
        plan="striped",
    )
    topology = build_topology(given)
    problem = Problem(topology, worker_hosts(topology, 9), lanes=given.lanes, elements=given.elements)
    took = run_experiment(given).network.communication_ps
    assert predicted_forest_ps(problem, striped(problem)) == pytest.approx(took, rel=0.05)


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


def sums(plan, scripts, **more):
    """Return the results of each of four ranks, one in each rack; ``scripts`` are functions of a communicator."""
    experiment = Experiment(topology=ONE_EACH, plan=plan)
    with Cluster(experiment, **more) as cluster:
        return cluster.run_threads(scripts)


def saturating(comm):
    """Run int32 sums that overflow in the first part of the array, then in the last one."""
    said = []
    for at in (0, -1, -1):
        words = np.ones(4 * 256, np.int32)
        words[at] = 2**31 - 1
        try:
            comm.all_reduce(words)
        except SaturatedError as error:
            said.append(str(error))
    fine = comm.all_reduce(np.ones(4 * 256, np.int32))
    return said, fine.tolist() == [4] * 1024


@pytest.mark.parametrize("plan", ["striped", "steiner"])
def test_a_sum_beyond_int32_is_told_whichever_tree_has_it(plan):
    for said, fine in sums(plan, saturating):
        assert len(said) == 3
        assert all("a sum of int32 lies beyond int32" in text for text in said)
        assert fine


def sized(comm):
    """All-reduce arrays with fewer elements than the trees have lanes, over all ranks and over groups."""
    found = [comm.all_reduce(np.full(size, comm.rank + 1, np.float32)).tolist() for size in (1, 3, 255)]
    part = comm.group([0, 2] if comm.rank % 2 == 0 else [1, 3])
    found.append(part.all_reduce(np.full(700, comm.rank, np.float32)).tolist())
    found.append(comm.broadcast(np.full(5, comm.rank, np.float32), root=2).tolist())
    return found


def test_small_arrays_and_groups_of_some_ranks():
    assert sums("striped", sized) == sums("steiner", sized)


def test_a_group_with_incidents_has_these_trees_too():
    incidents = [Incident(10**15, "host", "h1")]

    def ranks(comm):
        return comm.all_reduce(np.full(262_144, comm.rank + 1, np.float32)).tolist()

    assert sums("striped", ranks, incidents=incidents) == sums("steiner", ranks)


def test_a_deadline_is_refused():
    with pytest.raises(PlanError, match="plan striped: several trees have no deadline; choose steiner"):
        run("striped", elements=1000, deadline="500us")
