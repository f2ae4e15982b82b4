"""Marks in which jobs describe themselves: nothing in them is executed, and errors are named."""

import pytest

from p4reduce.adapters.planner import is_marked, request_of
from p4reduce.base.errors import PlanError


def test_a_comment_gives_a_task():
    request = request_of("job-7", "p4reduce elements=61706 rounds=10 training=20us", 4, "vision")
    assert request.task.wanted is not None
    assert (request.task.name, request.task.owner, request.task.wanted.count) == ("job-7", "vision", 4)
    assert (request.task.elements, request.task.rounds, request.task.training_ps) == (61706, 10, 20_000_000)
    assert request.hosts == ()


def test_hosts_may_be_named():
    assert request_of("job-7", "p4reduce elements=1 hosts=h3,h1", 2).hosts == ("h3", "h1")


def test_a_plan_may_be_named():
    assert [request_of("job-7", f"p4reduce elements=1{plan}", 2).plan for plan in ("", " plan=packing")] == [
        "",
        "packing",
    ]


@pytest.mark.parametrize("comment", ["", "p4reducer elements=1", "hello p4reduce", "P4REDUCE"])
def test_others_are_not_marked(comment):
    assert not is_marked(comment)


@pytest.mark.parametrize("comment", ["p4reduce", "p4reduce elements=1", "  p4reduce\nelements=1"])
def test_the_first_word_marks(comment):
    assert is_marked(comment)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "elements"),
        ("elements=x", "elements"),
        ("elements=0", "elements"),
        ("elements=1" + "0" * 30, "elements"),
        ("elements=-5", "elements"),
        ("elements=1 rounds=0", "rounds"),
        ("elements=1 training=soon", "training"),
        ("elements=1 plan=ps", "plan: 'ps' is none of best"),
        ("elements=1 hosts=h1", "hosts"),
        ("elements=1 hosts=h1,h1", "hosts"),
        ("elements=1 $(touch x)", "none of"),
        ("elements=1 name=a'b", "none of"),
    ],
)
def test_what_is_wrong_is_named(words, said):
    with pytest.raises(PlanError, match=said):
        request_of("job-7", f"p4reduce {words}", 2)
