"""Entry point groups of registries, by kind."""

import re

import pytest

from p4reduce.base import registry
from p4reduce.base.registry import Registry
from p4reduce.control_plane.placement.cluster import FORECASTS
from p4reduce.control_plane.placement.policies import ORDERS, PLACEMENTS
from p4reduce.control_plane.plans import PLANS
from p4reduce.control_plane.priorities import PRIORITY_POLICIES
from p4reduce.control_plane.scheduling import POLICIES
from p4reduce.control_plane.tdm.registry import SCHEDULERS
from p4reduce.network.jobs.network import PROGRAMS
from p4reduce.topologies.files import OTHERS
from studies.compare.protocol import SYSTEMS
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("kind", "group"),
    [("plan", "p4reduce.plans"), ("policy", "p4reduce.policies"), ("priority policy", "p4reduce.priority_policies")],
)
def test_the_group_is_the_plural_of_the_kind(monkeypatch, kind, group):
    asked = []

    def entry_points(*, group):
        asked.append(group)
        return []

    monkeypatch.setattr(registry, "entry_points", entry_points)
    with pytest.raises(KeyError, match=f"there is no {kind} 'x'"):
        Registry(kind, KeyError).named("x")
    assert asked == [group]


def test_the_groups_of_the_page_are_those_that_are_asked():
    registries = (PLANS, POLICIES, PLACEMENTS, FORECASTS, ORDERS, PRIORITY_POLICIES, SCHEDULERS, OTHERS, PROGRAMS)
    page = (ROOT / "docs/extending.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(p4reduce\.\w+)` \|", page, re.M)) == {known.group for known in (*registries, SYSTEMS)}
