"""Validation of members' messages."""

import pytest

from p4reduce.group.remote import FramingError
from p4reduce.runs.real.presence import MESSAGES, check, joins

BEAT = {"beat": 3, "calls": True, "held": None, "rests": False}
WAIT = {"seq": 1, "level": 0, "awaited": 2, "at_ps": 5}
STOPPED = {"stopped": 4, "finished": 3, "contributors": [0, 2], "operation": None, "root": -1}
NONSENSE = [-1, True, 1.0, float("nan"), 10**30, "3", None, [], {}]


def kind_of(message, **more):
    return check(message, **{"finished": 3, "term": 4, "left": False, "ranks": 3, **more})


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (BEAT, "beat"),
        ({**BEAT, "held": 2, "waits": [0], "told": [None]}, "beat"),
        ({**BEAT, "beat": 9, "waits": [None, 2**32 - 1], "told": [WAIT, WAIT]}, "beat"),
        (STOPPED, "stopped"),
        ({**STOPPED, "stopped": 1, "operation": "all_reduce", "root": 2}, "stopped"),
        ({"array": 4, "failed": None}, "array"),
        ({"left": 3}, "left"),
    ],
    ids=str,
)
def test_what_members_say(message, kind):
    assert type(kind_of(message)) is MESSAGES[kind]


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"join": 0, "pid": 1},
        {"commit": {}, "endpoints": []},
        {**BEAT, "beat": 2},
        {**BEAT, "calls": 1},
        {**BEAT, "rests": None},
        {**BEAT, "held": "x"},
        {"beat": 3},
        {**BEAT, **STOPPED},
        {**BEAT, "more": 1},
        {**BEAT, "told": [None]},
        *({**BEAT, "beat": one} for one in NONSENSE),
        *({**BEAT, "waits": [one], "told": [None]} for one in [*NONSENSE, 2**32] if one is not None),
        *({**BEAT, "waits": one, "told": [None]} for one in NONSENSE),
        *({**BEAT, "waits": [0], "told": one} for one in NONSENSE),
        {**BEAT, "waits": [0]},
        {**BEAT, "waits": [0] * 65, "told": [None] * 65},
        *(
            {**BEAT, "waits": [0], "told": [one]}
            for one in ("x", {}, {"seq": 1}, {**WAIT, "seq": "1"}, {**WAIT, "more": 1})
        ),
        *(
            {**BEAT, "waits": [0], "told": [{**WAIT, **one}]}
            for one in ({"level": 10**30}, {"level": -1}, {"seq": 2**32}, {"level": 0.5}, {"at_ps": float("nan")})
        ),
        {**STOPPED, "stopped": 5},
        {**STOPPED, "stopped": 0},
        {**STOPPED, "finished": 2},
        *({**STOPPED, "stopped": one} for one in NONSENSE),
        *({**STOPPED, "finished": one} for one in NONSENSE),
        *({**STOPPED, "contributors": one} for one in (None, {}, 1, [3], [-1], [True], ["0"], [[0]])),
        {**STOPPED, "operation": 1},
        {**STOPPED, "root": None},
        {"array": 5},
        {"left": 2},
        *({"left": one} for one in NONSENSE),
    ],
    ids=str,
)
def test_what_no_member_says(message):
    with pytest.raises(FramingError):
        kind_of(message)


def test_who_left_does_not_leave_again():
    with pytest.raises(FramingError, match="left twice"):
        kind_of({"left": 3}, left=True)


@pytest.mark.parametrize(("rank", "found"), [(0, 0), (2, 2), (3, None), *((one, None) for one in NONSENSE)], ids=str)
def test_which_rank_a_connection_asks_for(rank, found):
    assert joins({"join": rank}, 3) == found
