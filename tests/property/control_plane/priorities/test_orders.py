"""Properties of every policy and every cut, compared with independent references."""

import itertools
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.control_plane.priorities import (
    PRIORITY_POLICIES,
    Flow,
    JobFacts,
    LaneDirection,
    Order,
    Situation,
    cut,
    decide,
    jain,
)
from tests.support.effort import examples

LINKS = [("s", port) for port in range(4)]


@st.composite
def jobs_of(draw: st.DrawFn, most: int = 12) -> list[JobFacts]:
    maybe = st.none() | st.integers(0, 5)
    made = []
    for number in range(draw(st.integers(0, most))):
        oldest = draw(st.integers(0, 3))
        made.append(
            JobFacts(
                f"job{number}",
                frozenset(draw(st.sets(st.sampled_from(LINKS)))),
                period_ps=draw(st.none() | st.integers(1, 10**12)),
                compute_ps=draw(maybe),
                communication_ps=draw(maybe),
                bytes=draw(maybe),
                sent=draw(st.sampled_from([0.0, 0.5, 1.0])),
                attained=draw(st.integers(0, 10**7)),
                next_ps=draw(st.none() | st.integers(-5, 5)),
                deadline_ps=draw(maybe),
                newest=oldest + draw(st.integers(0, 5)),
                oldest=oldest,
            )
        )
    return made


@settings(deadline=None, max_examples=examples(25, 60))
@given(jobs_of(most=8), st.randoms(use_true_random=False), st.integers(0, 9), st.integers(1, 6), st.integers(0, 3))
def test_every_policy_classifies_all_flows_alike_in_whatever_order_jobs_are_given(
    jobs: list[JobFacts], random: object, turn: int, queues: int, seed: int
) -> None:
    shuffled = list(jobs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for policy in PRIORITY_POLICIES:
        one = decide(policy, Situation(jobs, seed), turn=turn, queues=queues)
        assert one == decide(policy, Situation(shuffled, seed), turn=turn, queues=queues)
        assert set(one.classes) == {flow for job in jobs for flow in job.flows}
        assert set(one.classes.values()) <= set(range(1, 7))


@settings(deadline=None, max_examples=examples(25, 60))
@given(st.lists(st.frozensets(st.sampled_from(LINKS)), min_size=1, max_size=8), st.integers(1, 6))
def test_no_other_cut_shares_fewer_links(links: list[frozenset[tuple[str, int]]], queues: int) -> None:
    """All cuts are tried; costs are summed pair by pair. Every job has one flow."""
    names = [f"j{place}" for place in range(len(links))]
    situation = Situation(JobFacts(name, own) for name, own in zip(names, links, strict=True))
    order = Order(tuple((Flow(name, LaneDirection.PUSH),) for name in names))
    found = cut(order, situation, queues)
    classes = [found[Flow(name, LaneDirection.PUSH)] for name in names]
    assert classes == sorted(classes, reverse=True)
    assert classes[0] == 6
    assert len(set(classes)) == min(queues, len(names)) == 6 - classes[-1] + 1

    def cost(parts: list[int]) -> int:
        return sum(
            len(links[i] & links[j]) for i, j in itertools.combinations(range(len(links)), 2) if parts[i] == parts[j]
        )

    runs = min(queues, len(names))
    every = [
        [sum(place >= bound for bound in places) for place in range(len(names))]
        for places in itertools.combinations(range(1, len(names)), runs - 1)
    ]
    assert cost(classes) == min(map(cost, every))


@settings(deadline=None)
@given(jobs_of())
def test_batch_order_is_that_of_all_pairs(jobs: list[JobFacts]) -> None:
    """Smaller batches first, and within a batch pulls before pushes, for all pairs of frames."""
    classes = decide("batch", Situation(jobs)).classes
    batch = {job.name: job.newest for job in jobs}
    for one, other in itertools.combinations(classes, 2):
        first, second = batch[one.job] - one.lag, batch[other.job] - other.lag
        if first < second or (first == second and (one.kind, other.kind) == (LaneDirection.PULL, LaneDirection.PUSH)):
            assert classes[one] >= classes[other]
        elif first == second and one.kind is other.kind:
            assert classes[one] == classes[other]


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**30), max_size=20))
def test_jain_is_the_exact_index(values: list[int]) -> None:
    squares = sum(Fraction(value) ** 2 for value in values)
    exact = Fraction(sum(values)) ** 2 / (len(values) * squares) if squares else Fraction(1)
    assert abs(jain([float(value) for value in values]) - float(exact)) < 1e-9
