"""Plan ``striped``: its trees, their link loads, and networks where it is impossible."""

from collections import Counter

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import parts_bound, plan_bound
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.plans.best import fastest
from p4reduce.control_plane.plans.forest import MOST_TREES, STRIPED, stripes
from p4reduce.control_plane.plans.problem import Problem
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import load

RACKS = "leaf-spine:leaves=4,spines=2,hosts=4,servers=0,rate=10G,capable="
CHUNK_PS = (62 + 4 * 256 + 24) * 8 * 100  # a full frame at 10 Gb/s


def problem(spec: str, elements: int | None = 262_144) -> Problem:
    topology = load(spec)
    return Problem(topology, tuple(host.name for host in topology.workers), elements=elements)


def test_each_rack_s_switch_is_a_root_once():
    layouts = stripes(problem(RACKS + "leaf*"))
    assert [layout.root for layout in layouts] == ["leaf1", "leaf2", "leaf3", "leaf4"]
    for layout in layouts:
        assert Counter(layout.parent.values()) == {f"leaf{n}": 4 + 3 * (f"leaf{n}" == layout.root) for n in range(1, 5)}


def test_the_busiest_link_is_a_worker_s_own():
    given = problem(RACKS + "leaf*")
    resources, parts = Resources(), []
    for job, layout in enumerate(stripes(given), 1):
        plan = make_plan(given.topology, PlanRequest(STRIPED, job=job, layout=layout), resources)
        parts.append((plan, 256))
    found = parts_bound(parts)
    assert (found.time_ps, found.copies) == (4 * CHUNK_PS, 1)  # four chunks, each crosses a worker's link once
    assert plan_bound(parts[0][0], 1024).copies == 3  # all to leaf1, over the link from spine2


def test_one_switch_is_one_tree_and_many_are_a_dozen():
    assert len(stripes(problem("star:hosts=5,servers=0"))) == 1
    assert len(stripes(problem(RACKS + "leaf3"))) == 1
    assert len(stripes(problem("leaf-spine:leaves=16,spines=2,hosts=1,servers=0"))) == MOST_TREES


@pytest.mark.parametrize(
    ("capable", "elements", "name", "trees"),
    [
        ("leaf*", 262_144, STRIPED, 4),
        ("leaf*", 1, "flat", 1),
        ("all", 262_144, "steiner", 1),
        ("leaf1+leaf2", 262_144, "packing", 8),
        ("none", 262_144, "ring", 1),
    ],
)
def test_best_takes_them_where_they_are_faster(capable, elements, name, trees):
    found, layouts = fastest(problem(RACKS + capable, elements))
    assert (found, len(layouts)) == (name, trees)


def test_where_a_job_is_one_tree_it_says_what_to_take():
    topology = load(RACKS + "all")
    with pytest.raises(PlanError, match=r"several trees.*choose steiner here"):
        make_plan(topology, PlanRequest(STRIPED), Resources())
    served = load("leaf-spine:leaves=2,spines=1,hosts=2,servers=1")
    workers = tuple(host.name for host in served.workers)
    with pytest.raises(PlanError, match="a job with a server has one tree"):
        stripes(Problem(served, workers, server=served.servers[0].name))
    with pytest.raises(PlanError, match="can aggregate"):
        stripes(problem(RACKS + "none"))
