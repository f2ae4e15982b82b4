"""The golden model against the design's sentences, one by one."""

from dataclasses import replace

import pytest
from tests.support.golden.frames import ECN_CONGESTED, Kind, Packet
from tests.support.golden.reasons import Reason
from tests.support.golden.switch import GoldenSwitch
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


def test_a_retransmission_is_answered_with_the_cached_result_to_its_sender_only():
    switch = make_switch()
    fill(switch)
    [(port, packet)] = switch.receive(*push(2, resend=True)).emitted
    assert isinstance(packet, Packet)
    assert (port, packet.kind, packet.lanes, packet.resend) == (2, Kind.RESULT, (3, 30), True)
    assert (packet.ip_dst, packet.udp_dst, packet.eth_dst) == (CHILDREN[2], 7002, 0x12)


def test_only_the_lowest_child_makes_the_sum_go_up_again():
    switch = make_switch(PARENT)
    fill(switch)
    assert switch.receive(*push(2)).refused is Reason.DUPLICATE
    assert switch.receive(*push(3)).refused is Reason.DUPLICATE
    [(port, packet)] = switch.receive(*push(1)).emitted
    assert isinstance(packet, Packet)
    assert (port, packet.kind, packet.lanes, packet.resend) == (9, Kind.PUSH, (3, 30), True)


def test_a_retransmission_before_the_slot_is_complete_is_not_added():
    switch = make_switch()
    switch.receive(*push(1))
    assert switch.receive(*push(1)).refused is Reason.DUPLICATE
    assert switch.slots[BASE].lanes == (1, 10)


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
    assert [packet.lanes for _, packet in switch.receive(*push(3)).emitted] == [None]
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
    assert switch.receive(2, packet).refused in (None, Reason.TTL)  # a port of no host
    assert switch.receive(1, replace(packet, ip_src=CHILDREN[1])).refused in (None, Reason.TTL)


def test_the_controller_sees_some_refused_packets_and_no_duplicates():
    switch = make_switch(sample_mask=1)
    stranger = push(1, job=99)
    assert [switch.receive(*stranger).shown for _ in range(4)] == [True, False, True, False]
    switch.receive(*push(1))
    assert not switch.receive(*push(1)).shown
    assert switch.receive(*stranger).shown
