"""The flow-level model compared with schedulers' formulas, and with two jobs simulated event by event."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from p4reduce.control_plane.tdm.jobs import TdmError, TdmJob, parse_network
from p4reduce.control_plane.tdm.pairs import TimesAlone, play
from p4reduce.control_plane.tdm.registry import make_schedule
from p4reduce.control_plane.tdm.schedule import Configuration
from p4reduce.play.turns.flow_model import BYTES, WAYS, Factors, play_flows
from studies.turns.planning import X2, gangs


def named(jobs: Sequence[TdmJob]) -> dict[str, TdmJob]:
    return {job.name: job for job in jobs}


NETWORK = parse_network("oxc:pods=4,hosts=3,ports=2,rate=8G,delta=1ms")


@pytest.mark.parametrize("seed", range(4))
def test_rounds_in_turns_take_what_the_scheduler_says(seed: int) -> None:
    jobs = gangs(X2, seed, sigma=0.3)
    schedule = make_schedule("tdm", jobs, X2)
    played = play_flows(schedule, named(jobs))
    assert played.round_s == pytest.approx(schedule.round_s, rel=0.01)
    more = {way: Factors(1.084, 0.0) for way in WAYS}
    assert played.round_s < play_flows(schedule, named(jobs), factors=more).round_s <= 1.084 * played.round_s + 1e-9


def test_all_together() -> None:
    jobs = gangs(X2, 1, sigma=0.3)
    schedule = make_schedule("no-tdm", jobs, X2)
    assert play_flows(schedule, named(jobs)).round_s == pytest.approx(schedule.round_s, rel=0.2)


def test_two_jobs_that_share_freely() -> None:
    jobs = [TdmJob("a", "ps", 10**8, 0.13, 12), TdmJob("b", "ps", 6 * 10**7, 0.1, 12)]
    schedule = make_schedule("free", jobs, NETWORK)
    alone = [TimesAlone(0.13, 0.1), TimesAlone(0.1, 0.06)]
    expected = play(alone[0], alone[1], None, 80)
    played = play_flows(schedule, named(jobs), rounds=80)
    for name, one, share in zip("ab", alone, expected, strict=True):
        assert one.period_s / played.iteration_s(name) == pytest.approx(share, rel=0.03)


def test_shares_are_max_min_fair() -> None:
    """Two jobs share one of three NICs: by hand, half each there, and the third job alone on its own."""
    jobs = [
        TdmJob("a", "ps", 10**8, 0.0, 2, ("h1", "h2")),
        TdmJob("b", "ps", 10**8, 0.0, 2, ("h1", "h3")),
    ]
    schedule = make_schedule("no-tdm", jobs, parse_network("oxc:pods=1,hosts=3,ports=1,rate=8G"))
    assert play_flows(schedule, named(jobs)).round_s == pytest.approx(0.2)


def test_whole_iterations_of_one_job_after_the_other_with_equal_shares_of_time() -> None:
    jobs = [TdmJob("a", "ps", 10**8, 0.3, 12), TdmJob("b", "ps", 10**8, 0.1, 12)]
    played = play_flows(make_schedule("exclusive", jobs, NETWORK), named(jobs), rounds=20)
    assert played.iteration_s("a") == pytest.approx(2 * 0.4, rel=0.06)
    assert played.iteration_s("b") == pytest.approx(2 * 0.2, rel=0.06)


def test_a_push_ends_before_the_pull_begins() -> None:
    """A single job: twice its bytes over its NICs, plus the lead of both phases."""
    jobs = [TdmJob("a", "ps", 10**8, 0.0, 6)]
    schedule = make_schedule("seed", jobs, NETWORK)
    assert play_flows(schedule, named(jobs)).round_s == pytest.approx(schedule.round_s)
    lead = {**BYTES, "push-pull": Factors(1.0, 0.01)}
    assert play_flows(schedule, named(jobs), factors=lead).round_s == pytest.approx(schedule.round_s + 0.01)


def test_a_job_without_its_circuit() -> None:
    jobs = [TdmJob("a", "ps", 10**8, 0.1, 6)]
    schedule = make_schedule("tdm", jobs, NETWORK)
    lit = Configuration(((0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0)), 0.0, 1.0)
    broken = replace(schedule, processes=(replace(schedule.processes[0], configurations=(lit,)),))
    with pytest.raises(TdmError, match="no circuit joins pods"):
        play_flows(broken, named(jobs))
    with pytest.raises(TdmError, match="at least 1"):
        play_flows(schedule, named(jobs), rounds=0)


def test_sixteen_thousand_gpus() -> None:
    network = parse_network("oxc:pods=128,hosts=16,ports=8,rate=100G,gpus=8")
    random = np.random.default_rng(1)
    jobs = [TdmJob(f"j{x}", "rar", 10**9, float(random.uniform(0.1, 0.2)), 256) for x in range(64)]
    schedule = make_schedule("random", jobs, network)
    assert play_flows(schedule, named(jobs), rounds=1).round_s == pytest.approx(schedule.round_s, rel=0.02)
