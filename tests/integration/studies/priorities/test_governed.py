"""Policies on packets for jobs that share an uplink, informed by an oracle, by counters or not at all."""

from dataclasses import replace

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.priorities import PRIORITY_POLICIES, Classes
from p4reduce.play.priorities.description import Description, JobDescription, with_phi
from p4reduce.play.priorities.governed import Governed, Governing, JobAlone, Knowledge, run_governed
from p4reduce.play.priorities.run import run
from p4switch.base.values import PS_PER_MS, PS_PER_US

SMALL = 16_384
"""elements: a round of communication takes 60 us, so runs take a fraction of a second"""
EVERY_PS = 8 * PS_PER_US


def described(
    sizes: list[int], phi: float = 0.4, rounds: int = 8, plan: str = "steiner", **how: object
) -> tuple[Description, list[JobAlone]]:
    """Jobs of 3 workers and a server across two leaves with one 10G uplink, and each of them alone."""
    network = f"leaf-spine:leaves=2,spines=1,hosts={2 * len(sizes)},rate=40G,uplink=10G,delay=1us"
    jobs, alone = [], []
    for number, size in enumerate(sizes):
        a, b = 2 * number + 1, 2 * (number + len(sizes)) + 1
        job = JobDescription((f"h{a}", f"h{a + 1}", f"h{b}"), f"h{b + 1}", SMALL * size, 0, plan, name=f"h{a}")
        takes = round(run(Description(network, (job,), rounds=2)).jobs[0].iteration_ps)
        jobs.append(with_phi(job, takes, phi))
        alone.append(JobAlone(takes, 0))
    description = replace(Description(network, tuple(jobs), rounds=rounds), **how)  # type: ignore[arg-type]
    for number in range(len(jobs)):
        done = run(description.only(number)).jobs[0].completion_ps
        alone[number] = replace(alone[number], completion_ps=done)
    return description, alone


def slowdowns(found: Governed, alone: list[JobAlone]) -> list[float]:
    return [job.completion_ps / one.completion_ps for job, one in zip(found.run.jobs, alone, strict=True)]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def test_a_distinct_order_interleaves_identical_jobs_and_first_come_does_not() -> None:
    description, alone = described([1, 1, 1], phi=0.3)
    fifo = slowdowns(run_governed(description, Governing("fifo"), alone), alone)
    distinct = slowdowns(run_governed(description, Governing("random"), alone), alone)
    assert mean(fifo) > 1.3
    assert max(distinct) < 1.15


def test_the_shortest_first_from_predicted_sizes_is_near_the_oracle_and_nobody_told_is_first_come() -> None:
    description, alone = described([1, 2], phi=0.5, control_latency_ps=5 * PS_PER_US)
    found = {
        knowledge: run_governed(description, Governing("sjf", knowledge, every_ps=EVERY_PS), alone)
        for knowledge in Knowledge
    }
    means = {knowledge: mean(slowdowns(one, alone)) for knowledge, one in found.items()}
    assert means[Knowledge.ORACLE] < means[Knowledge.NONE] - 0.05
    assert means[Knowledge.PREDICTED] < means[Knowledge.ORACLE] + 0.05
    told = found[Knowledge.PREDICTED].accuracy
    assert told is not None
    assert told.rounds == 2 * 6
    assert told.median_error < 0.03
    assert told.in_time_share == 1
    assert 0.2 < told.median_lead < 0.6
    fifo = run_governed(description, Governing("fifo"), alone)
    assert [job.ends_ps for job in found[Knowledge.NONE].run.jobs] == [job.ends_ps for job in fifo.run.jobs]


def test_what_is_written_later_than_a_period_is_late_and_nothing_breaks() -> None:
    description, alone = described([1, 2], rounds=4, control_latency_ps=2 * PS_PER_MS)
    found = run_governed(description, Governing("sjf", Knowledge.PREDICTED), alone)
    assert found.accuracy is not None
    assert found.accuracy.in_time_share == 0


@pytest.mark.parametrize("policy", ["slack", "mltcp", "aalo", "fair", "batch", "cassini"])
def test_every_sum_is_exact_under_policies_that_change_their_mind(policy: str) -> None:
    """`run_governed` compares every weight and every link's bytes; jobs start midway, computing times vary."""
    description, alone = described([1, 2], jitter=0.3, rounds=5)
    late = replace(description.jobs[1], start_ps=500 * PS_PER_US)
    description = replace(description, jobs=(description.jobs[0], late))
    found = run_governed(description, Governing(policy), alone)
    assert [len(job.ends_ps) for job in found.run.jobs] == [5, 5]


def test_jobs_given_in_another_order_fare_the_same() -> None:
    description, alone = described([1, 2, 4], rounds=4)
    one = slowdowns(run_governed(description, Governing("sjf"), alone), alone)
    turned = replace(description, jobs=description.jobs[::-1])
    other = slowdowns(run_governed(turned, Governing("sjf"), alone[::-1]), alone[::-1])
    assert other[::-1] == pytest.approx(one, rel=0.005)


def test_more_jobs_than_classes_and_rotation() -> None:
    description, alone = described([1] * 7, phi=0.1, rounds=3)
    still = run_governed(description, Governing("random"), alone)
    turning = run_governed(description, Governing("random", rotate_rounds=1), alone)
    assert still.run.writes == 0 or still.run.writes < turning.run.writes
    assert max(slowdowns(still, alone)) < 1.6


def test_a_plug_in_with_class_nine_ends_the_run_with_its_name() -> None:
    description, alone = described([1], rounds=1)
    PRIORITY_POLICIES.add("nine", lambda situation: Classes(dict.fromkeys(situation.flows, 9)))
    try:
        with pytest.raises(PlanError, match=r"priority policy 'nine': class 9 for pull of job 'job0000'"):
            run_governed(description, Governing("nine"), alone)
    finally:
        del PRIORITY_POLICIES["nine"]


def test_governing_is_checked() -> None:
    with pytest.raises(ValueError, match="rotate_rounds: -1, must be at least 0"):
        Governing(rotate_rounds=-1)
    with pytest.raises(ValueError, match="every_ps: 5, must be at least"):
        Governing(every_ps=5)


def test_jobs_of_several_trees_are_put_in_order_as_others_are() -> None:
    """The run checks sums and bytes on all links."""
    description, alone = described([1, 2], phi=0.5, rounds=5, control_latency_ps=5 * PS_PER_US, plan="rina")
    found = run_governed(description, Governing("sjf", Knowledge.PREDICTED, every_ps=EVERY_PS), alone)
    assert found.classes == (6, 5)
    fair = run_governed(description, Governing("fair"), alone)
    assert slowdowns(found, alone)[0] < slowdowns(fair, alone)[0] - 0.05
    assert found.accuracy is not None
    assert found.accuracy.median_error < 0.05
