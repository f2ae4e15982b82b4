"""Priority policies on a few jobs, and refusals of a plug-in's answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.priorities import (
    PRIORITY_POLICIES,
    Classes,
    Flow,
    JobFacts,
    LaneDirection,
    Order,
    Paces,
    Shifts,
    Situation,
    decide,
)

UPLINK = frozenset({("leaf0", 1)})
US = 1_000_000


def job(name: str, **known: Any) -> JobFacts:
    return JobFacts(name, UPLINK, **known)


def classes(policy: str, *jobs: JobFacts, seed: int = 0, **how: Any) -> dict[str, int]:
    """Return the class of each job's frames, if all its frames have one."""
    decision = decide(policy, Situation(jobs, seed), **how)
    found: dict[str, set[int]] = {}
    for flow, value in decision.classes.items():
        found.setdefault(flow.job, set()).add(value)
    assert all(len(values) == 1 for values in found.values())
    return {name: values.pop() for name, values in found.items()}


@contextmanager
def plugged_in(answer: Any) -> Iterator[str]:
    PRIORITY_POLICIES.add("mine", answer)
    try:
        yield "mine"
    finally:
        del PRIORITY_POLICIES["mine"]


SIZES = [job(name, bytes=size, compute_ps=c * US, communication_ps=size * US) for name, size, c in
         (("a", 4, 1), ("b", 1, 9), ("c", 8, 80), ("d", 2, 1))]  # fmt: skip


def test_sjf_puts_the_fewest_bytes_first() -> None:
    assert classes("sjf", *SIZES) == {"b": 6, "d": 5, "a": 4, "c": 3}


def test_reversed_puts_the_most_bytes_first() -> None:
    assert classes("reversed", *SIZES) == {"c": 6, "a": 5, "d": 4, "b": 3}


def test_intensity_is_compute_for_communication() -> None:
    """Intensities 10, 9, 0.5, 0.25: Crux's order is not by size."""
    assert classes("intensity", *SIZES) == {"c": 6, "b": 5, "d": 4, "a": 3}


def test_equal_sizes_get_distinct_classes_by_their_names() -> None:
    same = [job(name, bytes=7) for name in "xyz"]
    assert classes("sjf", *same) == {"x": 6, "y": 5, "z": 4}


def test_jobs_of_which_nothing_is_known_come_last_and_tie() -> None:
    assert classes("sjf", job("a"), job("b", bytes=5), job("c")) == {"b": 6, "a": 5, "c": 5}
    assert classes("sjf", job("a"), job("b")) == classes("fifo", job("a"), job("b")) == {"a": 6, "b": 6}


def test_srpt_counts_what_is_left() -> None:
    assert classes("srpt", job("a", bytes=100, sent=0.95), job("b", bytes=10)) == {"a": 6, "b": 5}


def test_least_slack_is_the_deadline_less_what_is_left_to_send() -> None:
    late = job("late", deadline_ps=50 * US, communication_ps=40 * US)
    soon = job("soon", deadline_ps=30 * US, communication_ps=10 * US)
    assert classes("slack", soon, late) == {"late": 6, "soon": 5}


def test_aalo_demotes_at_each_threshold() -> None:
    sent = {"a": 0, "b": 32 * 1024 - 1, "c": 32 * 1024, "d": 128 * 1024, "e": 1 << 40}
    found = classes("aalo", *(job(name, attained=value) for name, value in sent.items()))
    assert found == {"a": 6, "b": 6, "c": 5, "d": 4, "e": 1}


def test_pull_before_push_whatever_the_job() -> None:
    found = decide("pull-push", Situation([job("a"), job("b")])).classes
    assert {flow.kind: value for flow, value in found.items()} == {LaneDirection.PULL: 6, LaneDirection.PUSH: 5}


def test_batch_order_ties_identical_jobs_and_tells_their_ways_apart() -> None:
    found = decide("batch", Situation([job("a", newest=3, oldest=3), job("b", newest=3, oldest=3)])).classes
    assert {flow.kind: value for flow, value in found.items()} == {LaneDirection.PULL: 6, LaneDirection.PUSH: 5}


def test_raw_batch_numbers_put_younger_jobs_first_and_relative_ones_do_not() -> None:
    old, young = job("old", newest=90, oldest=90), job("young", newest=1, oldest=1)
    assert decide("batch", Situation([old, young])).of_job("young") == 6
    assert decide("batch", Situation([old, young])).of_job("old") == 4
    relative = decide("batch-relative", Situation([old, young]))
    assert relative.of_job("old") == relative.of_job("young") == 6


def test_random_order_of_two_jobs_does_not_change_when_others_come() -> None:
    few = classes("random", job("a"), job("b"))
    many = classes("random", *(job(name) for name in "abcdef"))
    assert (few["a"] > few["b"]) == (many["a"] > many["b"])


def test_random_order_is_drawn_anew_by_seed() -> None:
    jobs = [job(name) for name in "abcdef"]
    orders = {frozenset(classes("random", *jobs, seed=seed).items()) for seed in range(20)}
    assert len(orders) > 10


def test_rotation_moves_everyone_to_the_front_once() -> None:
    jobs = [job(name, bytes=place) for place, name in enumerate("abc")]
    firsts = [max(classes("sjf", *jobs, turn=turn).items(), key=lambda one: one[1])[0] for turn in range(6)]
    assert firsts == ["a", "b", "c", "a", "b", "c"]


def test_fewer_queues_than_jobs_share_evenly_on_one_link() -> None:
    jobs = [job(name, bytes=place) for place, name in enumerate("abcd")]
    assert classes("sjf", *jobs, queues=2) == {"a": 6, "b": 6, "c": 5, "d": 5}
    assert len(set(classes("sjf", *(job(f"j{n:02}", bytes=n) for n in range(32))).values())) == 6


def test_jobs_that_never_meet_share_a_queue_before_those_that_do() -> None:
    """a and b use one link, c and d another; three queues: of the neighbours, only b and c share no link."""
    other = frozenset({("leaf1", 1)})
    jobs = [job("a", bytes=1), job("b", bytes=2), JobFacts("c", other, bytes=3), JobFacts("d", other, bytes=4)]
    assert classes("sjf", *jobs, queues=3) == {"a": 6, "b": 5, "c": 5, "d": 4}


def test_fair_and_mltcp_give_weights_and_one_class() -> None:
    jobs = Situation([job("a", sent=0.0), job("b", sent=1.0)])
    assert decide("fair", jobs).weights == {"a": 1, "b": 1}
    assert decide("mltcp", jobs).weights == {"a": 0.25, "b": 2.0}
    assert len(set(decide("mltcp", jobs).classes.values())) == 1


def test_no_jobs_and_one_job() -> None:
    for policy in PRIORITY_POLICIES:
        assert decide(policy, Situation([])).classes == {}
        alone = decide(policy, Situation([job("a", bytes=1)]))
        assert set(alone.classes) == {Flow("a", LaneDirection.PULL), Flow("a", LaneDirection.PUSH)}
        assert not alone.shifts


def test_two_jobs_of_one_name_are_refused() -> None:
    with pytest.raises(PlanError, match=r"two jobs are called 'a'; give each its own name"):
        Situation([job("a"), job("a")])


def test_an_unknown_policy_is_named_with_the_known_ones() -> None:
    with pytest.raises(PlanError, match=r"there is no priority policy 'sjff'; choose one of aalo, .*, sjf, "):
        decide("sjff", Situation([]))


@pytest.mark.parametrize("value", [9, 7, 0, -1, True, 3.0, None])
def test_a_plug_in_that_returns_such_a_class_is_refused(value: Any) -> None:
    def answer(situation: Situation) -> Classes:
        return Classes(dict.fromkeys(situation.flows, value))

    with (
        plugged_in(answer) as name,
        pytest.raises(PlanError, match=rf"policy 'mine': class {value} for pull of job 'a', lag 0: jobs have 1\.\.6"),
    ):
        decide(name, Situation([job("a")]))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda s: Classes({}), r"says nothing of pull of job 'a', lag 0; answer for all"),
        (lambda s: Order((s.flows, s.flows[:1])), r"puts pull of job 'a', lag 0, in two places"),
        (lambda s: Order((s.flows, ())), r"a group of its order is empty"),
        (
            lambda s: Classes({**dict.fromkeys(s.flows, 1), Flow("z", LaneDirection.PUSH): 1}),
            r"job 'z', lag 0, which is not",
        ),
        (lambda s: Paces({"a": 0.0}), r"weight 0\.0 of job 'a': must be above 0"),
        (lambda s: Paces({"a": float("nan")}), r"weight nan of job 'a'"),
        (lambda s: Shifts({"a": -5}), r"shift -5 ps of job 'a'"),
        (lambda s: Shifts({"z": 5}), r"names job 'z', which is not in the situation"),
        (lambda s: {"a": 6}, r"returned a dict; return an Order, Classes, Paces or Shifts"),
    ],
)
def test_other_answers_that_do_not_fit_are_refused_with_the_fix(answer: Any, says: str) -> None:
    with plugged_in(answer) as name, pytest.raises(PlanError, match=says):
        decide(name, Situation([job("a")]))


@pytest.mark.parametrize(
    ("known", "says"),
    [({"bytes": -1}, "bytes: -1"), ({"sent": 1.5}, "sent: 1.5"), ({"oldest": 2}, "oldest: 2, newest: 0")],
)
def test_facts_that_cannot_be_are_refused(known: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanError, match=f"job 'a': {says}"):
        job("a", **known)
