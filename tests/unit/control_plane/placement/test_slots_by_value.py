"""Assignment of slots: whole trees only, to the tasks that save most."""

from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.placement.policies import Contender, whole_trees


def contender(name, *trees, gain=1.0, workers=4):
    return Contender(name, trees or (("leaf1",),), 1.0, 1.0 + gain, workers)


def test_the_most_worker_seconds_win_and_one_that_saves_nothing_gets_nothing():
    small, large, none = contender("small", gain=1.5), contender("large", workers=16), contender("none", gain=0)
    assert whole_trees([small, large, none], {"leaf1": 1}) == {"large": 0}
    assert whole_trees([small, large, none], {"leaf1": 2}) == {"small": 0, "large": 0}
    assert whole_trees([small, large, none], {}) == {"small": 0, "large": 0}
    assert whole_trees([], {"leaf1": 1}) == {}


def test_a_tree_is_given_whole_and_another_one_taken_where_slots_are():
    wide = contender("wide", ("leaf1", "leaf2", "spine1"), ("leaf1", "leaf2", "spine2"))
    assert whole_trees([wide], {"leaf1": 1, "leaf2": 1, "spine1": 0, "spine2": 1}) == {"wide": 1}
    assert whole_trees([wide], {"leaf1": 1, "leaf2": 0, "spine1": 1, "spine2": 1}) == {}


def test_names_are_unique():
    with pytest.raises(PlanError, match="the same name"):
        whole_trees([contender("a"), contender("a")], {})


SWITCHES = ("leaf1", "leaf2", "spine1")


@given(
    st.lists(
        st.tuples(st.sets(st.sampled_from(SWITCHES), min_size=1), st.floats(0, 3), st.integers(1, 32)), max_size=6
    ),
    st.fixed_dictionaries({name: st.integers(0, 2) for name in SWITCHES}),
)
def test_no_switch_gives_more_than_it_has_and_nobody_who_fits_is_left_out(drawn, ranges):
    jobs = [
        contender(str(number), tuple(sorted(tree)), gain=gain, workers=workers)
        for number, (tree, gain, workers) in enumerate(drawn)
    ]
    chosen = whole_trees(jobs, ranges)
    used = list(chain.from_iterable(job.trees[chosen[job.name]] for job in jobs if job.name in chosen))
    left = {name: ranges[name] - used.count(name) for name in SWITCHES}
    assert min(left.values()) >= 0
    for job in jobs:
        if job.name not in chosen and job.value > 0:
            assert any(left[switch] == 0 for switch in job.trees[0])
    assert whole_trees(jobs[::-1], ranges) == chosen


def test_it_is_near_to_the_best_of_all_subsets():
    """Greedy gets at least 90 % of the best value on average over 20 seeds (exhaustive reference)."""
    import random

    ratios = []
    for seed in range(20):
        draw = random.Random(seed)
        jobs = [
            contender(
                str(n),
                tuple(draw.sample(SWITCHES, draw.choice([1, 1, 3]))),
                gain=draw.random(),
                workers=draw.randint(2, 32),
            )
            for n in range(7)
        ]
        ranges = dict.fromkeys(SWITCHES, 2)
        best = 0.0
        for size in range(8):
            for part in combinations(jobs, size):
                used = list(chain.from_iterable(job.trees[0] for job in part))
                if all(used.count(name) <= 2 for name in SWITCHES):
                    best = max(best, sum(job.value for job in part))
        chosen = whole_trees(jobs, ranges)
        ratios.append(sum(job.value for job in jobs if job.name in chosen) / best)
    assert sum(ratios) / len(ratios) > 0.9
