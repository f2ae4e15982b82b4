"""Plan ``best``: its choice and its predicted time."""

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.plans.best import BEST, FORESTS, choose, flat, floor_ps, predicted_ps
from p4reduce.control_plane.plans.forest import predicted_forest_ps
from p4reduce.control_plane.plans.problem import MeshLayout, Problem, TreeLayout
from p4reduce.control_plane.plans.ring import ring
from p4reduce.control_plane.plans.steiner import steiner
from p4reduce.control_plane.plans.trees import mst, spt
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import load
from tests.support.effort import examples

RACKS = "leaf-spine:leaves=4,spines=2,hosts=4,servers=0,rate=10G,capable="


def problem(spec: str, elements: int = 262_144, **more) -> Problem:
    topology = load(spec)
    return Problem(topology, tuple(host.name for host in topology.workers), elements=elements, **more)


@pytest.mark.parametrize(
    ("capable", "elements", "expected"),
    [
        ("leaf1", 262_144, "ring"),  # one rack of four aggregates: 12 workers would send to it over two links
        ("leaf1", 256, "steiner"),  # a single frame: fewest hops win
        ("leaf*", 262_144, "ring"),  # one tree crosses a link between leaf and spine twice
        ("leaf*", 1_000, "flat"),
        ("spine*", 262_144, "ring"),
        ("all", 262_144, "steiner"),
        ("none", 262_144, "ring"),
    ],
)
def test_it_depends_on_who_aggregates_and_on_the_size(capable, expected, elements):
    assert choose(problem(RACKS + capable, elements))[0] == expected


def test_no_other_plan_is_predicted_to_be_faster():
    for capable, elements in itertools.product(("leaf1", "leaf1+leaf2", "leaf*", "spine*"), (1, 4096, 262_144)):
        given = problem(RACKS + capable, elements)
        least = predicted_ps(given, choose(given)[1])
        assert least <= predicted_ps(given, steiner(given))
        assert least <= predicted_ps(given, ring(given)) / 0.97


def test_the_name_says_what_was_chosen():
    topology = load(RACKS + "leaf1")
    plan = make_plan(topology, PlanRequest(BEST, elements=262_144), Resources())
    assert plan.name == "best (ring)"
    assert plan.ring
    small = make_plan(topology, PlanRequest(BEST, elements=1), Resources())
    assert small.name == "best (steiner)"
    assert small.aggregators


def test_by_switches_only_where_asked():
    given = problem(RACKS + "leaf1", in_network=True)
    assert choose(given)[0] in {"steiner", "spt", "mst", "flat"}
    with pytest.raises(PlanError, match=r"no switch of topology .* can aggregate"):
        choose(problem(RACKS + "none", in_network=True))


def test_with_a_server_it_is_part_of_the_plan():
    topology = load("leaf-spine:leaves=2,spines=1,hosts=2,servers=1,capable=none")
    workers = tuple(host.name for host in topology.workers)
    assert choose(Problem(topology, workers, server=topology.servers[0].name, elements=1))[0] == "ps"


def test_a_flat_tree_has_two_levels():
    layout = flat(problem("fat-tree:k=4"))
    assert isinstance(layout, TreeLayout)
    children = {child for child in layout.parent if child not in layout.parent.values()}
    assert {layout.parent.get(layout.parent[child], layout.root) for child in children} == {layout.root}


def test_an_all_to_all_has_no_prediction():
    given = problem(RACKS + "all")
    with pytest.raises(PlanError, match="all-to-all"):
        predicted_ps(given, MeshLayout({}))


@settings(deadline=None, max_examples=examples(30, 500))
@given(data=st.data())
def test_no_plan_is_predicted_to_be_faster_than_the_floor(data: st.DataObject) -> None:
    """The floor shortens the search: once a tree reaches it, no other plan is examined."""
    leaves, spines, hosts = (data.draw(st.integers(1, most)) for most in (4, 3, 4))
    names = [f"leaf{n + 1}" for n in range(leaves)] + [f"spine{n + 1}" for n in range(spines)]
    able = "+".join(data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))
    topology = load(f"leaf-spine:leaves={leaves},spines={spines},hosts={hosts},servers=0,capable={able}")
    workers = data.draw(st.permutations([host.name for host in topology.workers]))
    assume(len(workers) > 1)
    problem = Problem(topology, tuple(workers), elements=data.draw(st.sampled_from((1, 300, 5000, 10**6))))
    for name, plan in FORESTS.items():
        if name != "packing":
            assert predicted_forest_ps(problem, plan(problem)) >= floor_ps(problem)
    for plan in (steiner, spt, mst, flat):
        assert predicted_ps(problem, plan(problem)) >= floor_ps(problem)
