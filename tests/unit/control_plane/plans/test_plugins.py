"""User-defined planners."""

import re

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans import PLANS, PlanRequest, RingLayout, StarLayout, TreeLayout, make_plan, register
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import leaf_spine, star
from tests.support.paths import ROOT


@pytest.fixture
def planned():
    """Plan with a layout that a given planner returns."""

    def _plan(layout, topology=None, **request):
        register("mine")(layout if callable(layout) else lambda _problem: layout)
        return make_plan(topology or leaf_spine(2, 1, 2), PlanRequest("mine", **request), Resources())

    yield _plan
    PLANS.pop("mine", None)


def test_the_example_of_the_documentation():
    text = (ROOT / "docs" / "plans.md").read_text("utf-8")
    examples = [code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "@register" in code]
    assert len(examples) == 1
    try:
        exec(compile(examples[0], "docs/plans.md", "exec"), {})  # noqa: S102
        plan = make_plan(leaf_spine(2, 1, 20), PlanRequest("mine"), Resources())
        assert plan.root == "spine1"
        assert max(len(aggregator.children) for aggregator in plan.aggregators) == 32
    finally:
        PLANS.pop("mine", None)


def test_names_are_taken_once():
    with pytest.raises(ValueError, match="there is a plan 'ring' already"):
        register("ring")(lambda problem: RingLayout(problem.workers, {}))


HOSTS = ("h1", "h2", "h3", "h4")
CYCLE = {"leaf2": "spine1", "spine1": "leaf2"}
ALL_AT_LEAF2 = {**dict.fromkeys(HOSTS, "leaf2"), "leaf2": "leaf1"}


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (TreeLayout("leaf1", dict.fromkeys(HOSTS[:3], "leaf1")), "does not connect h4 to its root leaf1"),
        (TreeLayout("leaf1", dict.fromkeys(HOSTS, "leaf2")), "has 0 children at leaf1"),
        (TreeLayout("h5", dict.fromkeys(HOSTS, "h5")), "adds up at h5, which is no capable switch and no worker"),
        (
            TreeLayout("leaf1", {**dict.fromkeys(HOSTS[:2], "leaf1"), **dict.fromkeys(HOSTS[2:], "leaf2"), **CYCLE}),
            "does not connect h3",
        ),
        (TreeLayout("leaf1", {**dict.fromkeys(HOSTS, "leaf1"), "spine1": "leaf1"}), "ends at spine1, which"),
        (TreeLayout("leaf1", {**ALL_AT_LEAF2, "leaf1": "leaf2"}), "gives its root leaf1 a parent"),
        (RingLayout(("h1", "h2"), {}), "ring is not one of the workers"),
        (StarLayout({("h1", "h4"): ("h1", "leaf1", "h4")}), "no path from h1 to the server"),
    ],
)  # fmt: skip
def test_wrong_answers_are_caught(planned, layout, message):
    with pytest.raises(PlanError, match=message):
        planned(layout)


def test_too_many_children_are_caught(planned):
    with pytest.raises(PlanError, match="has 33 children at s1; 1 to 32 are possible"):
        planned(lambda problem: TreeLayout("s1", dict.fromkeys(problem.workers, "s1")), star(33))
