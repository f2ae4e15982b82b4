"""The golden model compared with the design's statements, one by one."""

from dataclasses import replace

import pytest

from tests.support.golden.frames import ECN_CONGESTED, Kind, Packet
from tests.support.golden.reasons import Reason
from tests.support.golden.switch import RESULT_SENT, GoldenSwitch
from tests.support.golden.tables import Address, EdgeEntry, GroupEntry, JobEntry, PeerEntry, ReplicaEntry, RouteEntry

IP, MAC = 0x0A800001, 0x02000A800001
PARENT = Address(port=9, mac=0x99, ip=0x0A800009, udp=9400)
JOB, EPOCH, GENERATION, BASE, SLOTS = 5, 2, 100, 40, 4
CHILDREN = {1: 0x0A000001, 2: 0x0A000002, 3: 0x0A000003}  # by port; port 1 is the lowest
FULL = 0b111


def make_switch(parent: Address | None = None, sample_mask: int = 0xFF) -> GoldenSwitch:
    switch = GoldenSwitch(IP, MAC, lanes=2, sample_mask=sample_mask)
    install(switch, EPOCH, GENERATION, parent)
    for port, ip in CHILDREN.items():
        switch.write(ReplicaEntry(port, 0x10 + port, ip, 7000 + port), insert=True)
    switch.write(GroupEntry(1, ((1, 1), (2, 2), (3, 3))), insert=True)
    return switch


def install(switch: GoldenSwitch, epoch: int, generation: int, parent: Address | None, job: int = JOB) -> None:
    switch.write(JobEntry(job, epoch, generation, BASE, SLOTS, FULL, 1, 0, parent), insert=True)
    for port, ip in CHILDREN.items():
        switch.write(PeerEntry(port, ip, job, epoch, 1 << (port - 1), port == 1), insert=True)
    if parent is not None:
        switch.write(PeerEntry(parent.port, parent.ip, job, epoch, 0), insert=True)


def push(port: int, seq: int = 0, lanes: tuple[int, ...] | None = (1, 10), **fields: object) -> tuple[int, Packet]:
    packet = Packet(
        MAC, 0x10 + port, CHILDREN[port], IP, 7000 + port, 9400, Kind.PUSH, JOB, EPOCH, seq, lanes, exponent=port
    )
    return port, replace(packet, **fields)  # type: ignore[arg-type]


def ask(port: int, seq: int = 0, **fields: object) -> tuple[int, Packet]:
    """Return an ASK; with ``count`` 0 it requests the RESULT in any case."""
    return push(port, seq, lanes=None, kind=Kind.ASK, resend=True, exponent=0, **{"count": 0} | fields)


def wait(seq: int = 0, level: int = 1, awaited: int = 0b10) -> tuple[int, Packet]:
    """Return the parent's WAIT, or its ASK with level 0."""
    mask = {"exponent": awaited >> 24, "token": awaited & 0xFFFFFF}
    return result(seq, None, kind=Kind.ASK, resend=True, count=level, **mask)


def result(seq: int = 0, lanes: tuple[int, ...] | None = (5, 50), **fields: object) -> tuple[int, Packet]:
    packet = Packet(
        MAC, PARENT.mac, PARENT.ip, IP, 9400, 9400, Kind.RESULT, JOB, EPOCH, seq, lanes, count=9, exponent=200
    )
    return PARENT.port, replace(packet, **fields)  # type: ignore[arg-type]


def fill(switch: GoldenSwitch, seq: int = 0):
    for port in (1, 2):
        assert switch.receive(*push(port, seq)).emitted == []
    return switch.receive(*push(3, seq))


def test_the_root_multicasts_the_sum_to_every_child():
    outcome = fill(make_switch())
    assert [port for port, _ in outcome.emitted] == [1, 2, 3]
    for port, packet in outcome.emitted:
        assert isinstance(packet, Packet)
        assert (packet.kind, packet.lanes, packet.count, packet.exponent) == (Kind.RESULT, (3, 30), 3, 3)
        assert (packet.ip_src, packet.eth_src, packet.udp_src) == (IP, MAC, 9400)
        assert (packet.ip_dst, packet.eth_dst, packet.udp_dst) == (CHILDREN[port], 0x10 + port, 7000 + port)
        assert not packet.resend


def test_an_inner_switch_sends_the_sum_up_once():
    switch = make_switch(PARENT)
    [(port, packet)] = fill(switch).emitted
    assert isinstance(packet, Packet)
    assert (port, packet.kind, packet.lanes, packet.ip_dst) == (9, Kind.PUSH, (3, 30), PARENT.ip)
    assert not packet.resend


def test_a_result_goes_to_the_children_once():
    switch = make_switch(PARENT)
    fill(switch)
    outcome = switch.receive(*result())
    assert [port for port, _ in outcome.emitted] == [1, 2, 3]
    assert {packet.lanes for _, packet in outcome.emitted} == {(5, 50)}
    assert {(packet.count, packet.exponent) for _, packet in outcome.emitted} == {(9, 200)}
    assert switch.receive(*result()).refused is Reason.RESULT


def test_a_result_that_is_not_waited_for_is_refused():
    switch = make_switch(PARENT)
    switch.receive(*push(1))
    assert switch.receive(*result()).refused is Reason.RESULT
    switch.receive(*push(2))
    switch.receive(*push(3))
    assert switch.receive(*result(seq=SLOTS)).refused is Reason.RESULT


def test_who_asks_gets_the_cached_result_and_nobody_else_does():
    switch = make_switch()
    fill(switch)
    [(port, packet)] = switch.receive(*ask(2)).emitted
    assert isinstance(packet, Packet)
    assert (port, packet.kind, packet.lanes, packet.resend) == (2, Kind.RESULT, (3, 30), True)
    assert (packet.ip_dst, packet.udp_dst, packet.eth_dst) == (CHILDREN[2], 7002, 0x12)


def says(outcome) -> list[tuple[int, int, int]]:
    """Return (port, levels up to which the contribution is included, awaited children) of each ASK that leaves."""
    for _, packet in outcome.emitted:
        assert (packet.kind, packet.lanes, packet.resend, packet.ip_src) == (Kind.ASK, None, True, IP)
    return [(port, packet.count, packet.awaited) for port, packet in outcome.emitted]


def test_who_asks_for_what_the_switch_lacks_is_asked_for_it():
    switch = make_switch()
    assert says(switch.receive(*ask(2))) == [(2, 0, FULL)]
    switch.receive(*push(1))
    assert says(switch.receive(*ask(2))) == [(2, 0, 0b110)]
    assert says(switch.receive(*ask(2, SLOTS))) == [(2, 0, FULL)]


def test_who_asks_while_others_are_missing_is_told_to_wait_and_for_whom():
    switch = make_switch()
    switch.receive(*push(1))
    assert says(switch.receive(*ask(1))) == [(1, 1, 0b110)]
    switch.receive(*push(3))
    assert says(switch.receive(*ask(1))) == [(1, 1, 0b010)]


def test_only_the_lowest_child_makes_a_switch_ask_above():
    switch = make_switch(PARENT)
    fill(switch)
    assert switch.receive(*ask(2)).emitted == []
    assert says(switch.receive(*ask(1))) == [(9, 0, 0)]
    assert says(switch.receive(*ask(1, count=7))) == [(9, 7, 0)]


def test_a_result_is_repeated_only_for_a_child_that_has_a_later_one():
    switch = make_switch()
    for seq in (1, 0, 2):
        fill(switch, seq)
    for seq, latest, is_lost in [(0, 2, True), (0, 1, False), (1, 0, True), (1, 2, True), (2, 0, False), (0, 3, False)]:
        outcome = switch.receive(*ask(2, seq, count=(latest - seq) % (1 << 16)))
        if is_lost:
            assert [(packet.kind, packet.seq, packet.resend) for _, packet in outcome.emitted] == [
                (Kind.RESULT, seq, True)
            ]
        else:
            assert says(outcome) == [(2, RESULT_SENT, 0)]


def test_a_switch_asks_its_parent_once_more_when_the_result_was_sent_and_has_not_come():
    switch = make_switch(PARENT)
    fill(switch)
    assert says(switch.receive(*wait(level=RESULT_SENT, awaited=0))) == [(9, 0, 0)]
    switch.receive(*result())
    assert switch.receive(*wait(level=RESULT_SENT, awaited=0)).refused is Reason.RESULT


def test_the_parent_asks_for_the_sum_once_more():
    switch = make_switch(PARENT)
    switch.receive(*push(1))
    assert switch.receive(*wait(level=0)).refused is Reason.RESULT
    switch.receive(*push(2))
    switch.receive(*push(3))
    [(port, packet)] = switch.receive(*wait(level=0)).emitted
    assert isinstance(packet, Packet)
    assert (port, packet.kind, packet.lanes, packet.resend) == (9, Kind.PUSH, (3, 30), True)
    assert packet.token == 0
    switch.receive(*result())
    assert switch.receive(*wait(level=0)).refused is Reason.RESULT


def test_the_parents_wait_goes_to_every_child_one_level_further_down():
    switch = make_switch(PARENT)
    fill(switch)
    awaited = 1 << 31 | 1 << 23 | 1
    assert says(switch.receive(*wait(level=1, awaited=awaited))) == [(port, 2, awaited) for port in CHILDREN]
    assert says(switch.receive(*wait(level=0xFFFE))) == [(port, 0xFFFF, 0b10) for port in CHILDREN]


def test_questions_write_no_slot():
    switch = make_switch(PARENT)
    switch.receive(*push(1))
    before = replace(switch.slots[BASE])
    for question in (ask(1), ask(2), ask(3), wait(level=0), wait(level=1), ask(1, SLOTS), ask(2, 3 * SLOTS)):
        switch.receive(*question)
        assert switch.slots == {BASE: before}


def test_a_question_with_lanes_is_refused():
    switch = make_switch(PARENT)
    fill(switch)
    assert switch.receive(*push(1, kind=Kind.ASK)).refused is Reason.KIND
    assert switch.receive(*result(kind=Kind.ASK)).refused is Reason.KIND


def test_a_question_for_a_strange_chunk_is_refused():
    switch = make_switch()
    fill(switch, SLOTS)
    assert switch.receive(*ask(1, 0)).refused is Reason.SEQ
    assert switch.receive(*ask(1, 3 * SLOTS)).refused is Reason.SEQ
    install(switch, EPOCH + 1, GENERATION + 1, None)
    switch.receive(*push(1, SLOTS, epoch=EPOCH + 1))
    assert switch.receive(*ask(2, SLOTS)).refused is Reason.GENERATION


def test_a_contribution_that_is_in_is_not_added():
    switch = make_switch()
    switch.receive(*push(1))
    assert switch.receive(*push(1)).refused is Reason.DUPLICATE
    assert switch.slots[BASE].lanes == (1, 10)


def test_who_sends_again_without_asking_is_answered_as_one_who_asks():
    switch = make_switch(PARENT)
    fill(switch)
    assert switch.receive(*push(2)).refused is Reason.DUPLICATE
    [(port, packet)] = switch.receive(*push(1)).emitted
    assert isinstance(packet, Packet)
    assert (port, packet.kind, packet.lanes, packet.resend) == (9, Kind.PUSH, (3, 30), True)
    switch.receive(*result())
    [(port, packet)] = switch.receive(*push(2)).emitted
    assert isinstance(packet, Packet)
    assert (port, packet.kind, packet.lanes, packet.resend) == (2, Kind.RESULT, (5, 50), True)


def test_a_slot_goes_on_to_its_next_chunk_and_to_no_other():
    switch = make_switch()
    fill(switch)
    for seq in (2 * SLOTS, -SLOTS % 2**32, 3 * SLOTS):
        assert switch.receive(*push(1, seq)).refused is Reason.SEQ
    assert switch.receive(*push(2, SLOTS, lanes=(4, 4))).refused is None
    assert (switch.slots[BASE].seq, switch.slots[BASE].children, switch.slots[BASE].lanes) == (SLOTS, 2, (4, 4))
    assert switch.receive(*push(1, 0)).refused is Reason.SEQ


def test_sequence_numbers_wrap():
    switch = make_switch()
    last = 2**32 - SLOTS + 1
    fill(switch, last)
    assert switch.receive(*push(1, 1)).refused is None
    assert switch.slots[BASE + 1].seq == 1


def test_a_newer_generation_takes_a_slot_over_and_keeps_it():
    switch = make_switch()
    fill(switch, 1)
    install(switch, EPOCH + 1, GENERATION + 1, None)
    assert switch.receive(*push(1, 17, epoch=EPOCH + 1, lanes=(9, 9))).refused is None
    assert (switch.slots[BASE + 1].seq, switch.slots[BASE + 1].lanes) == (17, (9, 9))
    assert switch.receive(*push(2, 5)).refused is Reason.GENERATION
    assert switch.receive(*push(2, 1)).refused is Reason.GENERATION


@pytest.mark.parametrize(
    "fields", [{"kind": Kind.PULL}, {"lanes": None}, {"kind": Kind.PULL, "lanes": None}], ids=" ".join
)
def test_another_kind_than_the_slots_is_refused(fields):
    switch = make_switch()
    switch.receive(*push(1))
    assert switch.receive(*push(2, **fields)).refused is Reason.KIND


@pytest.mark.parametrize(
    ("sender", "fields", "reason"),
    [
        (push(1), {"job": JOB + 1}, Reason.JOB),
        (push(1), {"epoch": EPOCH + 1}, Reason.JOB),
        (push(1), {"ip_src": CHILDREN[2]}, Reason.PEER),
        ((4, push(1)[1]), {}, Reason.PEER),
        (push(1), {"kind": Kind.RESULT}, Reason.TYPE),
        (push(1), {"kind": 0}, Reason.TYPE),
        (result(), {"kind": Kind.PUSH}, Reason.TYPE),
        (result(), {"kind": Kind.PULL}, Reason.TYPE),
        (push(1), {"udp_dst": 9401}, Reason.MALFORMED),
        (push(1), {"ip_dst": IP + 1}, Reason.NO_ROUTE),
    ],
)
def test_what_does_not_belong_here_changes_nothing_and_is_counted(sender, fields, reason):
    switch = make_switch(PARENT)
    port, packet = sender
    outcome = switch.receive(port, replace(packet, **fields))
    assert (outcome.refused, outcome.emitted) == (reason, [])
    assert switch.refused == {reason: 1}
    assert switch.slots == {}


def test_sums_saturate_at_both_ends_and_say_so():
    switch = make_switch(PARENT)
    switch.receive(*push(1, lanes=(2**31 - 1, -(2**31))))
    assert not switch.slots[BASE].saturated
    switch.receive(*push(2, lanes=(1, -1)))
    [(_, packet)] = switch.receive(*push(3, lanes=(0, 0))).emitted
    assert isinstance(packet, Packet)
    assert (packet.lanes, packet.saturated) == ((2**31 - 1, -(2**31)), True)


def test_a_sum_that_just_fits_is_not_saturated():
    switch = make_switch()
    switch.receive(*push(1, lanes=(2**31 - 2, -(2**31) + 1)))
    switch.receive(*push(2, lanes=(1, -1)))
    assert switch.slots[BASE].lanes == (2**31 - 1, -(2**31))
    assert not switch.slots[BASE].saturated


def test_flags_of_any_contribution_are_passed_on():
    switch = make_switch(PARENT)
    switch.receive(*push(1, saturated=True))
    switch.receive(*push(2, ecn=ECN_CONGESTED))
    [(_, packet)] = switch.receive(*push(3)).emitted
    assert isinstance(packet, Packet)
    assert packet.saturated
    assert packet.ecn_echo
    assert packet.ecn != ECN_CONGESTED
    assert {sent.saturated for _, sent in switch.receive(*result(saturated=False)).emitted} == {True}


def test_the_count_adds_up_and_does_not_wrap():
    switch = make_switch(PARENT)
    switch.receive(*push(1, count=40_000))
    switch.receive(*push(2, count=25_000))
    assert switch.slots[BASE].count == 65_000
    switch.receive(*push(3, count=25_000))
    assert switch.slots[BASE].count == 65_535


def test_a_result_may_come_without_lanes_and_with_lanes_for_a_pull():
    switch = make_switch(PARENT)
    fill(switch)
    assert {packet.lanes for _, packet in switch.receive(*result(lanes=None)).emitted} == {None}
    assert [packet.lanes for _, packet in switch.receive(*ask(3)).emitted] == [None]
    for port in CHILDREN:
        outcome = switch.receive(*push(port, 1, lanes=None, kind=Kind.PULL))
    assert [packet.kind for _, packet in outcome.emitted] == [Kind.PULL]
    assert {packet.lanes for _, packet in switch.receive(*result(1)).emitted} == {(5, 50)}


def test_everything_else_is_routed():
    switch = make_switch()
    switch.write(RouteEntry(0x0A000077, 6, 0x66), insert=True)
    port, packet = push(1, ip_dst=0x0A000077, ttl=9)
    assert switch.receive(port, packet).emitted == [(6, replace(packet, eth_src=MAC, eth_dst=0x66, ttl=8))]
    assert switch.receive(port, replace(packet, ttl=1)).refused is Reason.TTL


@pytest.mark.parametrize("fields", [{}, {"udp_dst": 7000}, {"kind": Kind.RESULT}, {"ttl": 1}], ids=str)
def test_a_host_sends_on_as_nobody_else(fields):
    switch = make_switch()
    switch.write(RouteEntry(0x0A000077, 6, 0x66), insert=True)
    switch.write(EdgeEntry(1, CHILDREN[1]), insert=True)
    _, packet = push(1, ip_dst=0x0A000077, ip_src=PARENT.ip, **fields)
    assert switch.receive(1, packet).refused is Reason.SOURCE
    assert switch.receive(2, packet).refused in (None, Reason.TTL)  # a port without a host
    assert switch.receive(1, replace(packet, ip_src=CHILDREN[1])).refused in (None, Reason.TTL)


def test_the_controller_sees_some_refused_packets_and_no_duplicates():
    switch = make_switch(sample_mask=1)
    stranger = push(1, job=99)
    assert [switch.receive(*stranger).shown for _ in range(4)] == [True, False, True, False]
    switch.receive(*push(1))
    assert not switch.receive(*push(1)).shown
    assert switch.receive(*stranger).shown
