"""Chunks closed by a deadline, packet by packet: the P4 program and the golden model, in both lane builds."""

from dataclasses import replace

import pytest

from tests.support.golden.frames import Kind, Packet
from tests.support.golden.p4 import P4Backend
from tests.support.golden.reasons import Reason
from tests.support.golden.tables import Address, DeadlineEntry, GroupEntry, JobEntry, PeerEntry, ReplicaEntry

IP, MAC, PARENT = 0x0A800001, 0x02000A800001, Address(port=9, mac=0x99, ip=0x0A800009, udp=9400)
CHILDREN = {1: 0x0A000001, 2: 0x0A000002, 3: 0x0A000003}
SLOTS, AFTER_US = 64, 50
WINDOW = SLOTS // 8


class Root:
    """A switch with three children and a deadline."""

    def __init__(self, parent: Address | None = None, lanes: int = 64) -> None:
        self.switch, self.lanes = P4Backend(lanes).switch(IP, MAC, 0xFF), (1,) * lanes
        entries = [JobEntry(5, 2, 100, 0, SLOTS, 0b111, 1, 0, parent), DeadlineEntry(5, 2, AFTER_US)]
        entries += [GroupEntry(1, ((1, 1), (2, 2), (3, 3)))]
        entries += [ReplicaEntry(port, 0x10 + port, ip, 7000 + port, 1 << (port - 1)) for port, ip in CHILDREN.items()]
        entries += [PeerEntry(port, ip, 5, 2, 1 << (port - 1), port == 1) for port, ip in CHILDREN.items()]
        for entry in entries:
            self.switch.write(entry, insert=True)

    def push(self, port: int, seq: int, *, late: bool = False):
        """Return the reaction to a contribution; ``late``: it is a resend, and the chunk may be closed."""
        packet = Packet(
            MAC, 0x10 + port, CHILDREN[port], IP, 7000 + port, 9400, Kind.PUSH, 5, 2, seq, self.lanes, exponent=port
        )  # fmt: skip
        return self.switch.receive(port, replace(packet, late=late, resend=late))

    def wait(self) -> None:
        """Let the deadline of all open chunks pass."""
        self.switch.golden.now_us += 2 * AFTER_US

    def carry(self, seq: int, without: int = 0) -> bool:
        """Push a chunk of all children but one; return whether it is answered once the deadline has passed."""
        there = [port for port in CHILDREN if port != without]
        answers = [self.push(port, seq) for port in there]
        if without:
            assert not any(answer.emitted for answer in answers)
            self.wait()
            answers = [self.push(there[-1], seq, late=True)]
        self.switch.check()
        return bool(answers[-1].emitted)


@pytest.mark.parametrize("lanes", [64, 256])
def test_of_a_sum_that_was_lost_the_lowest_child_that_is_in_has_it_sent_again(lanes):
    switch = Root(PARENT, lanes)
    assert switch.carry(0, without=1)
    assert switch.push(3, 0, late=True).refused is Reason.DUPLICATE
    ((port, sent),) = switch.push(2, 0, late=True).emitted
    assert (port, sent.kind, sent.count, sent.lanes, sent.resend) == (9, Kind.PUSH, 2, (2,) * lanes, True)
    assert switch.push(1, 0).refused is Reason.LATE


@pytest.mark.parametrize("distance", range(1, WINDOW))
@pytest.mark.parametrize("state", ["done", "closed without it", "closed without another one", "open", "missing"])
def test_who_was_left_out_a_window_ago_is_left_out_again_if_it_took_part_since(distance, state):
    switch, seq = Root(), 20
    assert switch.carry(seq - WINDOW, without=1)
    there = seq - distance
    if state == "done":
        assert switch.carry(there)
    elif state == "open":
        switch.push(1, there)
    elif state != "missing":
        assert switch.carry(there, without=1 if state == "closed without it" else 2)
    seen = state in ("done", "closed without another one") and distance in (1, 2, 4)
    assert switch.carry(seq, without=1) == seen


@pytest.mark.parametrize("before", [1, 2])
def test_a_window_ago_only_who_is_missing_now_counts(before):
    switch = Root()
    assert switch.carry(20 - WINDOW, without=before)
    assert switch.carry(20, without=1) == (before != 1)


def test_what_an_earlier_lap_left_in_a_slot_shows_nothing():
    switch, seq = Root(), 3 + SLOTS
    assert switch.carry(seq - 1 - SLOTS)
    assert switch.carry(seq - WINDOW, without=1)
    assert not switch.carry(seq, without=1)


def test_numbers_of_chunks_wrap():
    switch = Root()
    assert switch.carry(2**32 + 2 - WINDOW, without=1)
    assert switch.carry(2**32 - 2)
    assert switch.carry(2, without=1)
