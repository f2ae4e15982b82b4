"""Which entry point group a registry asks, by its kind."""

import pytest

from p4reduce.base import registry
from p4reduce.base.registry import Registry


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
