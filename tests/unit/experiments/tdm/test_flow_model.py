"""The flow-level model against what schedulers predict by formula, and against two jobs played event by event."""

import numpy as np
import pytest

from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import parse_network
from p4reduce.control_plane.tdm.pairs import Alone, play
from p4reduce.control_plane.tdm.registry import make_schedule
from p4reduce.experiments.tdm.flow_model import play_flows
from p4reduce.experiments.tdm.instances import X2, gangs

NETWORK = parse_network("oxc:pods=4,hosts=3,ports=2,rate=8G,delta=1ms")


@pytest.mark.parametrize("seed", range(4))
def test_rounds_in_turns_take_what_the_scheduler_says(seed: int) -> None:
    jobs = gangs(X2, seed, sigma=0.3)
    schedule = make_schedule("tdm", jobs, X2)
    played = play_flows(schedule, jobs)
    assert played.rounds_s[1] == pytest.approx(schedule.round_s, rel=0.01)
    assert play_flows(schedule, jobs, factor=1.084).rounds_s[1] <= 1.084 * played.rounds_s[1] * (1 + 1e-9)


def test_all_together() -> None:
    jobs = gangs(X2, 1, sigma=0.3)
    schedule = make_schedule("no-tdm", jobs, X2)
    assert play_flows(schedule, jobs).rounds_s[0] == pytest.approx(schedule.round_s, rel=0.2)


def test_two_jobs_that_share_freely() -> None:
    jobs = [TdmJob("a", "ps", 10**8, 0.13, 12), TdmJob("b", "ps", 6 * 10**7, 0.1, 12)]
    schedule = make_schedule("free", jobs, NETWORK)
    alone = [Alone(0.13, 0.1), Alone(0.1, 0.06)]
    expected = play(alone[0], alone[1], None, 80)
    played = play_flows(schedule, jobs, iterations=80).iteration_s
    for name, one, share in zip("ab", alone, expected, strict=True):
        assert one.period_s / played[name] == pytest.approx(share, rel=0.03)


def test_shares_are_max_min_fair() -> None:
    """Two jobs on one NIC of three: by hand, half each there, and the third alone on its own."""
    jobs = [
        TdmJob("a", "ps", 10**8, 0.0, 2, ("h1", "h2")),
        TdmJob("b", "ps", 10**8, 0.0, 2, ("h1", "h3")),
    ]
    schedule = make_schedule("no-tdm", jobs, parse_network("oxc:pods=1,hosts=3,ports=1,rate=8G"))
    assert play_flows(schedule, jobs).rounds_s[0] == pytest.approx(0.2)


def test_what_it_cannot_play() -> None:
    jobs = [TdmJob("a", "ps", 10**8, 0.13, 12), TdmJob("b", "ps", 10**8, 0.13, 12)]
    with pytest.raises(TdmError, match="mode exclusive"):
        play_flows(make_schedule("exclusive", jobs, NETWORK), jobs)


def test_sixteen_thousand_gpus() -> None:
    network = parse_network("oxc:pods=128,hosts=16,ports=8,rate=100G,gpus=8")
    random = np.random.default_rng(1)
    jobs = [TdmJob(f"j{x}", "rar", 10**9, float(random.uniform(0.1, 0.2)), 256) for x in range(64)]
    schedule = make_schedule("random", jobs, network)
    assert play_flows(schedule, jobs, iterations=1).rounds_s[0] == pytest.approx(schedule.round_s, rel=0.02)
