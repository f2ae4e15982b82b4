"""The predicted time of a ring equals that of packets, also if hops have unequal lengths and rates."""

import pytest

from p4reduce.control_plane.plans.best import predicted_ps
from p4reduce.control_plane.plans.problem import Problem
from p4reduce.control_plane.plans.ring import ring
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.runs.virtual.cluster import build_topology, worker_hosts


@pytest.mark.parametrize(
    ("topology", "workers", "elements"),
    [
        ("wan:graph=germany50,rate=10G,delay=10us", 4, 65_536),  # hops of 50 to 110 us, segments of 57 us
        ("wan:graph=nobel-us,rate=100G,delay=10us", 5, 1),
        ("leaf-spine:leaves=2,spines=1,hosts=2,servers=0,rate=25G,delay=3us,uplink=10G", 3, 40_000),
        ("star8", 2, 16_384),
    ],
)
def test_a_ring_takes_what_was_predicted(topology, workers, elements):
    experiment = Experiment(topology=topology, plan="ring", workers=workers, elements=elements, lanes=256)
    network = build_topology(experiment)
    problem = Problem(network, worker_hosts(network, workers), elements=elements)
    took = run_experiment(experiment).network.communication_ps
    assert predicted_ps(problem, ring(problem)) == pytest.approx(took, rel=0.006)
