"""Relays forward between two ports, both ways, and treat frames as a link does."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from p4reduce.network.real.io.path import Udp
from p4reduce.network.real.relay import Relays
from p4reduce.network.virtual import FabricError
from p4reduce.network.virtual.records import Faults
from p4reduce.topologies import TopologyBuilder
from p4reduce.workers import wire
from p4switch.native.memory import SOL_UDP, UDP_GRO, UDP_SEGMENT
from tests.support.real_io.lab import DEADLINE_S, eventually

PAIR = 2


def frame(number: int) -> bytes:
    return wire.pack(wire.headers(1, seq=number, job=3, ipv4_dst=0x0A000001)).tobytes()


def number(data: bytes) -> int:
    return int.from_bytes(data[50:54], "big")


@contextmanager
def relayed(pairs: int = 1, **options: object) -> Iterator[tuple[Relays, list[socket.socket]]]:
    """Relays, and a socket behind each of their ports: 2k and 2k + 1 belong to pair k."""
    ends = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(PAIR * pairs)]
    try:
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            end.bind(("127.0.0.1", 0))
            end.settimeout(DEADLINE_S)
        specs = [Udp(("127.0.0.1", 0), end.getsockname()) for end in ends]
        with Relays([(specs[2 * k], specs[2 * k + 1]) for k in range(pairs)], **options) as relays:
            for place, end in enumerate(ends):
                end.connect(relays.address(place // PAIR, place % PAIR))
            yield relays, ends
    finally:
        for end in ends:
            end.close()


def test_frames_pass_both_ways_and_are_counted():
    with relayed(2) as (relays, ends):
        for place, end in enumerate(ends):
            end.send(frame(place))
        assert [number(end.recv(2000)) for end in ends] == [1, 0, 3, 2]
        for pair in range(2):
            for way in relays.directions(pair):
                assert (way.into.received_first_frames, way.out.sent.inc_first_frames) == (1, 1)
                assert (way.into.received_bytes, way.out.sent.bytes) == (62, 62)


def test_each_direction_has_its_faults_and_tells_what_it_lost():
    builder = TopologyBuilder("one")
    builder.host("h1")
    builder.switch("s1")
    builder.link("h1", "s1", "1G", "1us")
    with relayed(faults=Faults(loss=0.3, duplicate=0.3), seed=4) as (relays, ends):
        for place in range(100):
            ends[0].send(frame(place))
        for place in range(100):
            ends[1].send(frame(place))
        found = []
        for direction, end in enumerate((ends[1], ends[0])):
            eventually(lambda k=direction: relays.directions(0)[k].into.received_frames == 100, "100 frames")
            sent = relays.directions(0)[direction].out.sent
            found.append([number(end.recv(2000)) for _ in range(sent.delivered)])
            assert sent.frames + sent.duplicated == sent.delivered + sent.lost
            assert min(sent.lost, sent.duplicated) > 10
        assert found[0] != found[1]
        there, back = (way.out.sent.lost for way in relays.directions(0))
        incidents = relays.incidents([(("h1", 1), ("s1", 1))], builder.build())
        told = {where.port: what.lost for where, what in incidents.items()}
        assert told == {("h1", 1): there, ("s1", 1): back}


@pytest.mark.parametrize("gathers", [False, True])
def test_what_comes_as_one_message_leaves_as_the_same_frames_in_order(gathers):
    """The kernels may coalesce datagrams of equal length or not; bytes and order stay."""
    random = np.random.default_rng(5)
    lengths = [*[318] * 130, 62, 318, 1086, 1086, 62, *[62] * 70, 900, *[1500] * 50]
    sent = [frame(place) + random.bytes(length - 62) for place, length in enumerate(lengths)]
    with relayed() as (relays, (first, second)):
        second.setsockopt(SOL_UDP, UDP_GRO, int(gathers))
        at = 0
        while at < len(sent):  # runs of one length, at most 40 of them, in one call
            alike = next((k for k, one in enumerate(sent[at : at + 40]) if len(one) != len(sent[at])), 40)
            size = [(SOL_UDP, UDP_SEGMENT, len(sent[at]).to_bytes(2, sys.byteorder))]
            first.sendmsg(sent[at : at + alike], size)
            at += alike
        found, messages = [], 0
        while len(found) < len(sent):
            data, controls, _, _ = second.recvmsg(1 << 16, 64)
            each = int.from_bytes(controls[0][2], sys.byteorder) if controls else len(data)
            found += [data[begin : begin + each] for begin in range(0, len(data), each)]
            messages += 1
        assert found == sent
        assert messages < len(sent) / 2 if gathers else messages == len(sent)
        there, _ = relays.directions(0)
        assert (there.into.received_frames, there.out.sent.delivered) == (len(sent), len(sent))
        assert there.into.received_bytes == sum(lengths)


def test_a_delay_can_differ_from_pair_to_pair():
    with relayed(2, delay_ps=[0, 20_000_000_000]) as (_, ends):
        ends[2].send(frame(1))
        ends[0].send(frame(2))
        assert number(ends[1].recv(2000)) == 2
        assert number(ends[3].recv(2000)) == 1


def test_settings_must_fit_the_pairs():
    with pytest.raises(FabricError, match="delay_ps: 2 settings for 1 pairs"):
        Relays([("a0", "b0")], delay_ps=[1, 2])
    with pytest.raises(FabricError, match=r"relay 0: interface a0|relay 0: there is no interface a0"):
        Relays([("a0", "b0")])
