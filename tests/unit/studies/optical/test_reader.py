"""Errors that the reader of plans must notice: each of these changes makes a plan wrong."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from p4reduce.control_plane.optical.policies import draw_tasks, groom
from studies.optical.reader import faults
from studies.optical.study import ring


@pytest.fixture(scope="module")
def plans() -> dict[str, Any]:
    network = ring(1)
    tasks = draw_tasks(network, 1, tasks=4, models=3, demand_bps=50 * 10**9)
    return {policy: groom(policy, tasks, network).as_data() for policy in ("spff", "groom-agg")}


def twice(plan: dict[str, Any]) -> None:
    first, second = plan["lightpaths"][:2]
    second["path"], second["first"] = first["path"], first["first"]


def no_fibre(plan: dict[str, Any]) -> None:
    plan["lightpaths"][0]["path"] = ["c0", "c2"]


def same_slot(plan: dict[str, Any]) -> None:
    uses = [use for task in plan["tasks"] for use in task["uses"]]
    one = next(
        use for use in uses if any(other is not use and other["lightpath"] == use["lightpath"] for other in uses)
    )
    other = next(other for other in uses if other is not one and other["lightpath"] == one["lightpath"])
    one["slots"] = other["slots"]


def too_few_slots(plan: dict[str, Any]) -> None:
    plan["tasks"][0]["uses"][0]["slots"] = plan["tasks"][0]["uses"][0]["slots"][:1]


def beyond(plan: dict[str, Any]) -> None:
    plan["lightpaths"][0]["first"] = 4


def transponders(plan: dict[str, Any]) -> None:
    plan["network"]["transponders"] = 1


def cut(plan: dict[str, Any]) -> None:
    plan["tasks"][0]["uses"].pop()


def circle(plan: dict[str, Any]) -> None:
    plan["tasks"][0]["uses"].append(deepcopy(plan["tasks"][0]["uses"][0]))


def blocked(plan: dict[str, Any]) -> None:
    plan["tasks"][0]["admitted"] = False


def idle(plan: dict[str, Any]) -> None:
    plan["lightpaths"].append({"path": ["c0", "c3"], "first": 3, "count": 1})


def said(plan: dict[str, Any]) -> None:
    plan["metrics"]["transponders"] -= 2


@pytest.mark.parametrize("policy", ["spff", "groom-agg"])
@pytest.mark.parametrize(
    "change", [twice, no_fibre, same_slot, too_few_slots, beyond, transponders, cut, circle, blocked, idle, said]
)
def test_a_wrong_plan_is_noticed(plans: dict[str, Any], policy: str, change: Callable[[dict[str, Any]], None]) -> None:
    plan = deepcopy(plans[policy])
    assert not faults(plan)
    change(plan)
    assert faults(plan)
