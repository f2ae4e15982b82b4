"""Gaps on links, in the golden model and the P4 program at once: who is asked for what, beside which frame."""

from dataclasses import replace

import pytest

from tests.support.golden.frames import Kind, Packet
from tests.support.golden.p4 import ComparedSwitch, P4Backend
from tests.support.golden.reasons import Reason
from tests.support.golden.switch import Outcome
from tests.support.golden.tables import Address, GroupEntry, JobEntry, PeerEntry, ReplicaEntry

IP, MAC = 0x0A800001, 0x02000A800001
PARENT = Address(port=9, mac=0x99, ip=0x0A800009, udp=9400)
JOB, EPOCH, GENERATION, BASE, SLOTS, AGAIN = 5, 2, 100, 40, 16, 10
TOKEN = 0xABCDEF
CHILDREN = {1: 0x0A000001, 2: 0x0A000002}
GROUP, QUESTIONS = 1, 2
LANES = tuple(range(64))

Sent = list[tuple[int, Kind, int, int, int]]
"""Port, type, seq, ``gap`` and ``identification`` of each frame, in order."""


def make_switch(*, inner: bool = False, questions: int = QUESTIONS, again: int = 0) -> ComparedSwitch:
    switch = P4Backend(64, "interpreted").switch(IP, MAC, 0xFF)
    parent, token = (PARENT, TOKEN) if inner else (None, 0)
    about = (JOB, EPOCH, GENERATION, BASE, SLOTS, 0b11, GROUP, 0, parent, token, questions, again)
    switch.write(JobEntry(*about), insert=True)
    for port, ip in CHILDREN.items():
        switch.write(PeerEntry(port, ip, JOB, EPOCH, 1 << (port - 1), port == 1), insert=True)
        switch.write(ReplicaEntry(port, 0x10 + port, ip, 7000 + port, 1 << (port - 1)), insert=True)
        question = ReplicaEntry(0x10 + port, 0x10 + port, ip, 7000 + port, 1 << (port - 1), to="question")
        switch.write(question, insert=True)
    asked: tuple[tuple[int, int], ...] = ((1, 0x11), (2, 0x12))
    if inner:
        asked = ((PARENT.port, 0x20),)
        switch.write(PeerEntry(PARENT.port, PARENT.ip, JOB, EPOCH, 0), insert=True)
        switch.write(ReplicaEntry(0x20, PARENT.mac, PARENT.ip, PARENT.udp, to="parent"), insert=True)
    switch.write(GroupEntry(GROUP, ((1, 1), (2, 2))), insert=True)
    switch.write(GroupEntry(QUESTIONS, ((1, 1), (2, 2), *asked)), insert=True)
    return switch


def push(switch: ComparedSwitch, port: int, seq: int, behind: int = 0, **fields: object) -> Outcome:
    packet = Packet(
        MAC, 0x10 + port, CHILDREN[port], IP, 7000 + port, 9400, Kind.PUSH, JOB, EPOCH, seq, LANES,
        identification=behind & 0xFFFF,
    )  # fmt: skip
    return switch.receive(port, replace(packet, **fields))  # type: ignore[arg-type]


def result(switch: ComparedSwitch, seq: int, behind: int = 0, **fields: object) -> Outcome:
    packet = Packet(
        MAC, PARENT.mac, PARENT.ip, IP, 9400, 9400, Kind.RESULT, JOB, EPOCH, seq, LANES, identification=behind & 0xFFFF
    )
    return switch.receive(PARENT.port, replace(packet, **fields))  # type: ignore[arg-type]


def sent(outcome: Outcome) -> Sent:
    found: Sent = []
    for port, frame in outcome.emitted:
        assert isinstance(frame, Packet)
        found.append((port, frame.kind, frame.seq, frame.gap, frame.identification))
    return sorted(found)


def test_a_contribution_that_was_lost_is_asked_for_when_the_next_comes():
    switch = make_switch()
    assert sent(push(switch, 1, 0)) == []
    assert sent(push(switch, 1, 2, behind=1)) == [(1, Kind.ASK, 1, 1, 0)]
    assert sent(push(switch, 1, 1, behind=-1, resend=True)) == []  # what left before it is in
    assert sent(push(switch, 1, 3, behind=2)) == []


def test_who_does_not_say_what_it_sent_before_is_asked_for_nothing():
    switch = make_switch()
    push(switch, 1, 0)
    assert sent(push(switch, 1, 2)) == []


@pytest.mark.parametrize("inner", [False, True])
def test_the_child_is_asked_beside_the_sum_or_the_result(inner):
    switch = make_switch(inner=inner)
    for seq in (0, 1, 2):
        push(switch, 1, seq, behind=seq and 1)
    push(switch, 2, 0)
    question = (2, Kind.ASK, 1, 1, 0)
    if inner:
        assert sent(push(switch, 2, 2, behind=1)) == [question, (9, Kind.PUSH, 2, 0, 2)]
    else:
        assert sent(push(switch, 2, 2, behind=1)) == [(1, Kind.RESULT, 2, 0, 2), (2, Kind.RESULT, 2, 0, 2), question]


def test_the_parent_is_asked_beside_the_result():
    switch = make_switch(inner=True)
    for seq in (0, 1, 2):
        push(switch, 1, seq, behind=seq and 1)
        push(switch, 2, seq, behind=seq and 1)
    result(switch, 0)
    outcome = result(switch, 2, behind=1)
    assert sent(outcome) == [(1, Kind.RESULT, 2, 0, 2), (2, Kind.RESULT, 2, 0, 2), (9, Kind.ASK, 1, 1, 0)]
    asked = next(frame for port, frame in outcome.emitted if port == PARENT.port)
    assert isinstance(asked, Packet)
    assert (asked.ip_dst, asked.token, asked.lanes, asked.count) == (PARENT.ip, TOKEN, None, 0)
    # The RESULT that comes then says what it said at first; what it tells of is in.
    assert sent(result(switch, 1, behind=1, resend=True)) == [
        (1, Kind.RESULT, 1, 0, 0xFFFF), (2, Kind.RESULT, 1, 0, 0xFFFF)
    ]  # fmt: skip


def test_without_a_group_for_questions_nothing_is_asked_beside_a_sum():
    switch = make_switch(inner=True, questions=0)
    for seq in (0, 1, 2):
        push(switch, 1, seq, behind=seq and 1)
    push(switch, 2, 0)
    assert sent(push(switch, 2, 2, behind=1)) == [(9, Kind.PUSH, 2, 0, 0)]
    assert sent(push(switch, 1, 6, behind=1)) == []


def test_a_job_whose_frames_overtake_each_other_asks_no_more():
    switch = make_switch()
    push(switch, 1, 0)
    assert sent(push(switch, 1, 2, behind=1)) == [(1, Kind.ASK, 1, 1, 0)]
    assert sent(push(switch, 1, 1, behind=1, resend=True)) == []
    assert push(switch, 1, 1, behind=1).refused is Reason.DUPLICATE  # it was late, not lost
    assert sent(push(switch, 1, 5, behind=1)) == []


def test_a_result_that_comes_late_ends_the_questions_to_the_parent():
    switch = make_switch(inner=True)
    for seq in range(4):
        push(switch, 1, seq)
        push(switch, 2, seq)
    assert (9, Kind.ASK, 0, 1, 0) in sent(result(switch, 1, behind=1))
    result(switch, 0, resend=True)
    assert result(switch, 0, behind=1).refused is Reason.RESULT
    assert Kind.ASK not in [kind for _, kind, *_ in sent(result(switch, 3, behind=1))]


def test_a_question_for_a_gap_is_answered_by_what_was_lost_or_not_at_all():
    switch = make_switch(inner=True)
    push(switch, 1, 0)
    push(switch, 2, 0)
    ask = {"kind": Kind.ASK, "lanes": None, "gap": 1, "count": 0, "resend": True}
    assert sent(push(switch, 1, 0, **ask)) == []
    result(switch, 0)
    assert sent(push(switch, 1, 0, **ask)) == [(1, Kind.RESULT, 0, 0, 0)]


def test_a_duplicate_tells_of_the_frame_before_it_too():
    switch = make_switch()
    push(switch, 1, 3)
    assert push(switch, 1, 3, behind=0, resend=True).refused is Reason.DUPLICATE
    assert sent(push(switch, 1, 3, behind=-2, resend=True)) == [(1, Kind.ASK, 5, 1, 0)]


def test_what_was_asked_for_in_vain_is_asked_for_again():
    switch = make_switch(again=AGAIN)
    push(switch, 2, 1)
    push(switch, 1, 0)
    assert sent(push(switch, 1, 2, behind=1)) == [(1, Kind.ASK, 1, 1, 0)]
    asked = [sent(push(switch, 1, seq, behind=1)) for seq in range(3, 14)]
    assert asked == [[]] * 8 + [[(1, Kind.ASK, 1, 1, 0)]] + [[]] * 2


def test_numbers_of_another_epoch_or_iteration_say_nothing():
    switch = make_switch(inner=True)
    for port in (1, 2):
        outcome = push(switch, port, 0)
    assert sent(outcome) == [(9, Kind.PUSH, 0, 0, 0)]
    for port in (1, 2):
        outcome = push(switch, port, 1, iteration=1)
    assert sent(outcome) == [(9, Kind.PUSH, 1, 0, 0)]
    for port in (1, 2):
        outcome = push(switch, port, 2, iteration=1)
    assert sent(outcome) == [(9, Kind.PUSH, 2, 0, 1)]


@pytest.mark.parametrize("behind", [0x7FFF, 0x8000, 0xFFF0, 17, 4096])
def test_an_absurd_number_brings_one_question_at_most(behind):
    switch = make_switch(inner=True)
    push(switch, 1, 0)
    assert len(push(switch, 1, 1, behind=behind).emitted) <= 1
    push(switch, 2, 0)
    assert len(push(switch, 2, 1, behind=behind).emitted) <= 2
    assert len(result(switch, 1, behind=behind).emitted) == 2
