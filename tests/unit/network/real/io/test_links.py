"""A port's link in real time: rate, delay, strict priorities, ECN and faults, as in virtual time.

Times have lower bounds only: a busy machine makes everything later, and nothing earlier.
"""

import time
from itertools import pairwise

import numpy as np
from scapy.utils import RawPcapReader

from p4reduce.network.virtual.records import Faults
from p4switch.base.values import PS_PER_S
from p4switch.tables import Ternary
from tests.support.real_io.lab import SWITCH, Lab, device, lab, set_priority

FRAME = 62 + 4 * 40
ON_LINK = FRAME + 24


def number(frame: bytes) -> int:
    return int.from_bytes(frame[50:54], "big")


def through(net: Lab, count: int, *, first: int = 0, job: int | None = None) -> list[bytes]:
    """Send frames into port 1 at once; return those that leave by port 2."""
    frames = [net.datagram(1, 2, number=first + place, job=job) for place in range(count)]
    with net.switches.paused():
        for frame in frames:
            net.switches.inject(SWITCH, 1, frame)
    return frames


def test_a_port_with_a_rate_sends_no_faster_and_in_order(tmp_path):
    rate = 2_000_000
    each_ns = ON_LINK * 8 * 10**9 // rate
    with lab(2, rates_bps={(SWITCH, 2): rate}) as net:
        with net.switches.paused():
            net.switches.capture(SWITCH, 2, tmp_path / "port.pcap")
        through(net, 50)
        found = [net.receive(2) for _ in range(50)]
        seen = net.counters(2).sent
    assert list(map(number, found)) == list(range(50))
    # Departure times on the switches' clock.
    with RawPcapReader(str(tmp_path / "port.pcap")) as frames:
        left = [meta.sec * 10**9 + meta.usec for _, meta in frames]
    assert [later - sooner for sooner, later in pairwise(left)] == [each_ns] * 49
    assert seen.busy_ps == 50 * ON_LINK * 8 * PS_PER_S // rate
    assert seen.max_depth == 49


def test_a_delay_is_kept_for_every_frame():
    with lab(2, delays_ps={(SWITCH, 2): 50_000_000_000}) as net:
        for place in range(3):
            began = time.monotonic()
            net.send(1, net.datagram(1, 2, number=place))
            assert number(net.receive(2)) == place
            assert time.monotonic() - began >= 0.05


def test_the_higher_priority_leaves_first_and_full_queues_drop_their_last():
    made = device(2)
    set_priority(made, (Ternary(9, 0xFFFF), Ternary(0, 0), Ternary(0, 0)), 7)
    with lab(2, made=made, rates_bps={(SWITCH, 2): 10_000_000}, queue_frames=20) as net:
        with net.switches.paused():
            through(net, 30)
            through(net, 5, first=100, job=9)
        # The first was on the link when the others arrived; 20 of these found a place.
        expected = [0, *range(100, 105), *range(1, 21)]
        assert [number(net.receive(2)) for _ in expected] == expected
        net.settle(1)
        seen = net.counters(2).sent
        assert seen.queue_drops == 9
        assert seen.frames == len(expected)


def test_frames_that_meet_a_long_queue_are_marked():
    made = device(2)
    made.tables["IncIngress.settings"].set_default("IncIngress.configure", (5, 0xFF))
    with lab(2, made=made, rates_bps={(SWITCH, 2): 10_000_000}) as net:
        through(net, 12, job=9)
        marks = [net.receive(2)[15] & 3 == 3 for _ in range(12)]
    # Frame k finds k - 1 others waiting, and marks are set from a depth of five on.
    assert marks == [place - 1 >= 5 for place in range(12)]


def outcome(seed: int, faults: Faults) -> tuple[list[int], object]:
    with lab(2, faults={(SWITCH, 2): faults}, seed=seed) as net:
        through(net, 200)
        net.settle(1)
        seen = net.counters(2).sent
        found = [number(net.receive(2)) for _ in range(seen.delivered)]
        assert net.waiting(2) == []
    return found, seen


def test_losses_duplicates_and_damage_are_drawn_from_the_seed_and_counted():
    faults = Faults(loss=0.2, duplicate=0.2, corrupt=0.1)
    found, seen = outcome(5, faults)
    assert (found, seen) == outcome(5, faults)
    assert found != outcome(6, faults)[0]
    assert found == sorted(found)
    assert min(seen.lost, seen.duplicated, seen.corrupted) > 5
    assert seen.frames + seen.duplicated == seen.delivered + seen.lost + seen.corrupted
    assert seen.delivered == len(found)


def test_reordered_frames_are_late_and_none_is_missing():
    with lab(2, faults={(SWITCH, 2): Faults(reorder=0.3, reorder_delay_ps=20_000_000_000)}, seed=1) as net:
        through(net, 100)
        found = [number(net.receive(2)) for _ in range(100)]
        seen = net.counters(2).sent
    assert sorted(found) == list(range(100))
    assert found != sorted(found)
    assert seen.reordered > 10


def test_incidents_tell_whose_first_transmissions_were_lost():
    with lab(2, faults={(SWITCH, 2): Faults(loss=0.3)}, seed=2) as net:
        through(net, 100, job=9)
        net.settle(1)
        seen, incidents = net.counters(2).sent, net.switches.incidents(net.topology)
        [(where, what)] = incidents.items()
        assert (where.port, where.destination, where.job) == ((SWITCH, 2), net.topology.hosts[1].name, 9)
        assert (what.lost, what.lost_bytes) == (seen.lost, seen.lost * FRAME)
        assert seen.lost > 10
        assert np.unique([number(net.receive(2)) for _ in range(seen.delivered)]).size == 100 - seen.lost
