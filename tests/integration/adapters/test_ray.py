"""A real Ray on this machine; skipped where it is not installed."""

import importlib.util

import pytest

from p4reduce.adapters.planner import request_of
from p4reduce.adapters.ray import LABEL, hosts_of_nodes
from p4reduce.base.errors import PlanError
from p4reduce.topologies import load

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'p4reduce[ray]'"
)


def test_nodes_by_their_labels():
    nodes = [
        {"NodeID": "1", "Alive": True, "Labels": {LABEL: "h1"}},
        {"NodeID": "2", "Alive": False, "Labels": {LABEL: "h2"}},
        {"NodeID": "3", "Alive": True, "Labels": {}},
        {"NodeID": "4", "Alive": True},
    ]
    assert hosts_of_nodes(nodes) == {"1": "h1"}


@needs_ray
def test_jobs_run_on_the_nodes_that_were_chosen():
    from p4reduce.adapters.ray import is_whole, run_jobs
    from p4reduce.adapters.slurm.demo import demo_jobs

    topology = load("leaf-spine:leaves=2,spines=1,hosts=2,rate=25G")
    jobs = {f"ray-{job.number}": job for job in demo_jobs(3, 4, seed=1)}
    results = run_jobs(topology, jobs, "ina-aware")
    assert len(results) == len(jobs)
    assert all(is_whole(one, jobs[one.name]) for one in results), results


def test_a_bad_request_is_refused_before_ray_is_asked():
    with pytest.raises(PlanError):
        request_of("ray-1", "p4reduce elements=0", 2)
