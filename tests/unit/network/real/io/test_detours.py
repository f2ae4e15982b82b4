"""Programs that clone, resubmit and recirculate behave in real time as with `Device.inject`."""

import json

import pytest

from p4switch.device import Device
from p4switch.program import load_program
from tests.support.p4runtime.configs import json_path
from tests.support.real_io.lab import SWITCH, Lab, lab

PORTS = 6


def made(name: str) -> Device:
    found = Device(load_program(json.loads(json_path(name).read_text())))
    found.multicast.set(1, [(2, 7), (3, 8), (3, 9)])
    found.clone_sessions.set(5, [(4, 1), (5, 2)])
    return found


@pytest.fixture(scope="module")
def net():
    with lab(PORTS, made=made("paths")) as running:
        yield running


def collect(net: Lab, expected: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    return sorted((port, net.receive(port)) for port, _ in expected if port <= PORTS)


@pytest.mark.parametrize("operation", range(12))
@pytest.mark.parametrize("session", [0, 5, 6])
def test_every_way_through_the_program(net, operation, session):
    twin = made("paths")
    frame = bytes((operation, 3)) + session.to_bytes(2, "big") + bytes(range(40))
    expected = twin.inject(1, frame)
    net.send(1, frame)
    assert collect(net, expected) == sorted(one for one in expected if one[0] <= PORTS)
    with net.switches.paused():
        assert all(net.waiting(port) == [] for port in net.hosts)
    assert net.switches.switch_counters(SWITCH).passes > 0
