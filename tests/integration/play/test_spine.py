"""Circuits and slots between leaves on packets that cross the P4 program."""

from dataclasses import replace

import numpy as np
import pytest

from p4reduce.control_plane.optical.plan import OpticalError
from p4reduce.control_plane.optical.spine import SHARINGS, Sharing, SpinePlan, elephants, plan_spine
from p4reduce.control_plane.tdm.jobs import parse_network
from p4reduce.group.errors import ClusterError
from p4reduce.play.spine import FIBRE, SpinePlayed, play_spine, spine_of
from p4reduce.play.turns.installing import physical

NETWORK = parse_network("oxc:pods=4,hosts=2,ports=4,rate=40G,port_rate=10G,delta=25us")
TOPOLOGY = physical(NETWORK, FIBRE)


def planned(sharing: Sharing, *, fast: int = 2, load_s: float = 0.6e-3, slot_s: float = 40e-6) -> SpinePlan:
    work = elephants(4, 0.8, 3, pairs=3, load_s=4 * load_s)
    return plan_spine(work, spine_of(NETWORK, TOPOLOGY, fast, slot_s, 2e-6), sharing)


def assert_right(played: SpinePlayed) -> None:
    assert (played.wrong, played.lost, played.misrouted, played.resends, played.differing) == (0, 0, 0, 0, [])


@pytest.mark.parametrize("sharing", SHARINGS)
def test_every_sum_is_exact_nothing_is_lost_and_time_is_as_planned(sharing: Sharing) -> None:
    plan = planned(sharing)
    played = play_spine(plan, TOPOLOGY, seed=2)
    assert_right(played)
    assert played.sums >= 6, "each pair of leaves has work"
    assert played.took_ps <= played.predicted_ps + 5_000_000, "never later than planned, but for propagation"
    if sharing == "hybrid":
        assert plan.ports == 2
        assert plan.over.any()
        assert plan.runs


def test_no_timer_runs_out_while_slow_transceivers_are_dark() -> None:
    spine = replace(spine_of(NETWORK, TOPOLOGY, 4, 90e-6, 30e-6), delta_s=60e-6)
    plan = plan_spine(elephants(4, 1.0, 3, pairs=1, load_s=4 * 0.4e-3), spine, "slots")
    assert any(run.slots > 1 for run in plan.runs)
    assert_right(play_spine(plan, TOPOLOGY))


def test_a_pair_with_one_number_and_leaves_without_any() -> None:
    work = np.zeros((4, 4))
    spine = spine_of(NETWORK, TOPOLOGY, 4, 40e-6, 2e-6)
    assert play_spine(plan_spine(work, spine), TOPOLOGY).sums == 0
    work[0, 3] = work[3, 0] = spine.chunk_s / 256
    played = play_spine(plan_spine(work, spine, "slots"), TOPOLOGY)
    assert_right(played)
    assert played.sums == 1


def test_slots_that_are_too_short_for_their_work_are_noticed() -> None:
    plan = planned("slots", fast=4)
    lied = replace(plan, spine=replace(plan.spine, chunk_s=plan.spine.chunk_s / 2))
    with pytest.raises(ClusterError, match="slots"):
        play_spine(lied, TOPOLOGY)


def test_more_than_memory_is_refused() -> None:
    with pytest.raises(OpticalError, match="shorter load"):
        play_spine(planned("slots", load_s=60.0, slot_s=0.1), TOPOLOGY)
