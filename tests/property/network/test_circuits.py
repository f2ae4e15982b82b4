"""Frames are lost iff one of their bits meets a dark mirror: compared with a model of dark intervals."""

from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.network.virtual import StopReason, VirtualNetwork
from p4reduce.network.virtual.synthetic import SyntheticSwitch, frame
from p4reduce.topologies import Link, Topology, TopologyBuilder
from tests.support.effort import examples

RATE = 10**9
LENGTHS = (40, 62, 318)
Port = tuple[int, int]
"""(switch, fibre), both counted from 0"""


@dataclass(frozen=True)
class Change:
    at: int
    dark: int
    circuits: dict[Port, tuple[Port, int]]


def occupied(length: int, rate: int) -> int:
    return -(-(max(length, 60) + 24) * 8 * 10**12 // rate)


def lit(port: Port, changes: list[Change]) -> list[tuple[int, float, Port]]:
    """Return the intervals in which a port is lit, with its partner."""
    found: list[tuple[int, float, Port]] = []
    now: tuple[Port, int] | None = None
    begin = 0
    for change in changes:
        then = change.circuits.get(port)
        if then == now:
            continue
        if now is not None:
            found.append((begin, change.at, now[0]))
        now, begin = then, change.at + change.dark
    if now is not None:
        found.append((begin, float("inf"), now[0]))
    return found


def in_force(port: Port, changes: list[Change], time: int) -> tuple[Port, int] | None:
    """Return the partner requested for a port by all changes before a time."""
    found = None
    for change in changes:
        if change.at < time:
            found = change.circuits.get(port)
    return found


def expected(
    port: Port, fibre_ps: dict[Port, int], sent: list[tuple[int, int]], changes: list[Change]
) -> tuple[int, int, list[Port]]:
    """Return lost frames, misrouted frames, and the ports where the others left."""
    free, lost, misrouted = 0, 0, 0
    came: list[Port] = []
    for time, length in sent:
        start = max(free, time)
        wanted = in_force(port, changes, start)
        free = start + occupied(length, RATE if wanted is None else wanted[1])
        first, last = start + fibre_ps[port], free + fibre_ps[port]
        through = [peer for begin, end, peer in lit(port, changes) if begin <= first and last <= end]
        if not through:
            lost += 1
            continue
        came += through
        meant = in_force(port, changes, time)
        misrouted += meant is None or meant[0][0] != through[0][0]
    return lost, misrouted, came


def build(switches: int, fibres: int, fibre_ps: dict[Port, int]) -> Topology:
    """Build a network in which each switch has a host for each fibre; frames for that host leave by the fibre."""
    builder = TopologyBuilder("mirrors")
    builder.crossconnect("oxc")
    for switch in range(switches):
        builder.switch(f"s{switch}")
    for switch in range(switches):
        for fibre in range(fibres):
            builder.host(f"h{switch}-{fibre}")
            builder.link(f"h{switch}-{fibre}", f"s{switch}", RATE, "1us")
    for switch in range(switches):
        for fibre in range(fibres):
            builder.link(f"s{switch}", "oxc", RATE, f"{fibre_ps[switch, fibre]}ps")
    return builder.build()


@st.composite
def cases(draw: Any) -> tuple[int, int, dict[Port, int], list[Change], dict[Port, list[tuple[int, int]]]]:
    switches, fibres = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    ports = [(switch, fibre) for switch in range(switches) for fibre in range(fibres)]
    delay = st.sampled_from((0, 1, 700_000, 1_000_000))
    fibre_ps = {port: draw(delay) for port in ports}
    changes = []
    at = 0
    for _ in range(draw(st.integers(1, 4))):
        shuffled = draw(st.permutations(ports))
        circuits: dict[Port, tuple[Port, int]] = {}
        for a, b in zip(shuffled[::2], shuffled[1::2], strict=False):
            if a[0] != b[0] and draw(st.integers(0, 3)):
                rate = RATE * draw(st.sampled_from((1, 1, 2)))
                circuits[a], circuits[b] = (b, rate), (a, rate)
        if changes and draw(st.booleans()):
            circuits = dict(changes[-1].circuits)  # the same circuits, some perhaps as wider or narrower bonds
            for a, (b, rate) in changes[-1].circuits.items():
                if a < b and draw(st.integers(0, 2)) == 0:
                    circuits[a], circuits[b] = (b, 3 * RATE - rate), (a, 3 * RATE - rate)
        changes.append(Change(at, draw(st.sampled_from((0, 1, 1_000_000, 5_000_000))), circuits))
        at += draw(st.sampled_from((0, 1, 999_999, 1_000_000, 3_000_000, 6_000_000)))
    # Most frames are timed so that their first or last bit meets a mirror just when it turns.
    sent = {}
    for port in ports:
        times = []
        for _ in range(draw(st.integers(0, 6))):
            length = draw(st.sampled_from(LENGTHS))
            change = draw(st.sampled_from(changes))
            edge = change.at + draw(st.sampled_from((0, change.dark))) - fibre_ps[port]
            early = draw(st.sampled_from((0, occupied(length, RATE), occupied(length, 2 * RATE), 300_000)))
            times.append((max(0, edge - early + draw(st.sampled_from((-1, 0, 0, 1)))), length))
        sent[port] = sorted(times, key=lambda one: one[0])
    return switches, fibres, fibre_ps, changes, sent


@settings(max_examples=examples(60, 150), deadline=None)
@given(cases())
def test_lost_iff_a_bit_meets_a_dark_mirror(case: Any) -> None:
    switches, fibres, fibre_ps, changes, sent = case
    topology = build(switches, fibres, fibre_ps)
    hosts = {(int(host.name[1]), int(host.name[3])): host for host in topology.hosts}
    devices = {
        f"s{switch}": SyntheticSwitch({hosts[switch, fibre].index: fibres + fibre + 1 for fibre in range(fibres)})
        for switch in range(switches)
    }
    network = VirtualNetwork(topology, devices)
    for change in changes:
        links = [
            Link(f"s{a[0]}", fibres + a[1] + 1, f"s{b[0]}", fibres + b[1] + 1, rate, 0)
            for a, (b, rate) in change.circuits.items()
            if a < b
        ]
        network.reconfigure("oxc", links, change.at, change.dark)
    for port, times in sent.items():
        for time, length in times:
            network.inject(f"s{port[0]}", port[1] + 1, frame(hosts[port].ip, max(length, 62))[:length], time)
    assert network.run() is StopReason.QUIET
    arrived: dict[Port, int] = dict.fromkeys(fibre_ps, 0)
    for port, times in sent.items():
        lost, misrouted, came = expected(port, fibre_ps, times, changes)
        counted = network.links[f"s{port[0]}", fibres + port[1] + 1]
        assert (counted.frames, counted.dark_lost, counted.misrouted) == (len(times), lost, misrouted)
        assert counted.delivered == len(times) - lost
        for peer in came:
            arrived[peer] += 1
    for (switch, fibre), count in arrived.items():
        out = network.links["oxc", switch * fibres + fibre + 1]
        assert (out.frames, out.delivered) == (count, count)
