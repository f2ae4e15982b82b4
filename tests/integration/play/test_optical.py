"""Grooming plans on packets that cross the P4 program."""

import pytest

from p4reduce.control_plane.optical.plan import OpticalError
from p4reduce.control_plane.optical.policies import GroomingOptions, draw_tasks, groom, laid_anew, regroom
from p4reduce.play.optical import OpticalPlayed, play
from studies.optical.study import ring


def played(policy: str, *, at_once: bool = False, elements: int = 9_000) -> tuple[OpticalPlayed, int]:
    network = ring(2)
    tasks = draw_tasks(network, 2, tasks=6, models=3, elements=elements, demand_bps=25 * 10**9)
    plan = groom(policy, tasks, network, GroomingOptions(moves=30))
    assert not plan.blocked
    return play(plan, at_once=at_once, seed=3), len(plan.lightpaths)


@pytest.mark.parametrize(("policy", "at_once"), [("groom-agg", False), ("opaque-agg", False), ("best", True)])
def test_every_lightpath_carries_what_was_predicted_and_every_sum_is_exact(policy: str, at_once: bool) -> None:
    found, lightpaths = played(policy, at_once=at_once)
    assert len(found.tasks) == 6
    assert found.exact
    assert len(found.lightpath_bytes) == lightpaths
    assert found.lightpath_bytes == found.predicted_bytes
    assert min(found.lightpath_bytes) > 0
    assert (found.differing, found.lost, found.misrouted, found.resends) == ([], 0, 0, 0)
    if not at_once:  # together they share hosts' links, which the formula ignores
        assert found.worst < 0.02


def test_one_number_and_a_wrong_sum_is_seen() -> None:
    found, _ = played("groom-agg", elements=1)
    assert found.exact
    assert found.lightpath_bytes == found.predicted_bytes
    found.tasks[0].exact = False
    assert not found.exact


def test_what_stays_goes_on_while_the_ports_of_others_are_dark() -> None:
    network = ring(0)
    tasks = draw_tasks(network, 0, tasks=6, models=2, elements=9_000, demand_bps=50 * 10**9)
    before = groom("opaque-agg", tasks, network)
    after = regroom(before, GroomingOptions(moves=150, budget=0), 1.0)
    anew = laid_anew(before, after)
    assert 0 < len(anew) < 6, "both kinds are there"
    found = play(after, before=before, dark_ps=50 * 10**9)
    assert sorted(one.task for one in found.tasks) == [task.name for task in tasks]
    assert found.exact
    assert found.lightpath_bytes == found.predicted_bytes
    assert (found.differing, found.lost, found.misrouted, found.resends) == ([], 0, 0, 0)


def test_flows_are_refused() -> None:
    network = ring(2)
    with pytest.raises(OpticalError, match="forward by destination"):
        play(groom("spff", draw_tasks(network, 2, tasks=1, models=2), network))
