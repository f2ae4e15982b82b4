"""Time-outs of trees that share the links of one job."""

from dataclasses import replace

import pytest

from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.network.jobs.specs import timing_of
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.topologies import load

MIXED = "leaf-spine:leaves=4,spines=2,hosts=4,servers=1,rate=10G,capable=leaf1+leaf3+spine2"


@pytest.mark.parametrize("topology", ["star8", "leaf-spine-8", "fat-tree-4"])
def test_a_share_of_the_links_does_not_lengthen_time_outs(topology: str) -> None:
    request = PlanRequest("steiner", job=1)
    own, slow = (make_plan(load(topology), replace(request, pace_ps=pace), Resources()) for pace in (None, 200_000_000))
    assert slow.chunk_ps == 200_000_000
    # Paced chunks wait at their worker, not in a queue: only the window differs.
    assert timing_of(slow).initial_ps <= timing_of(own).initial_ps
    assert timing_of(slow).min_ps == timing_of(own).min_ps


def test_a_small_tree_among_several_repairs_as_soon_as_a_large_one() -> None:
    experiment = Experiment(topology=MIXED, plan="packing", elements=65_536, seed=101, faults={"loss": 0.01})
    assert run_experiment(experiment).network.ratio_to_bound < 5
