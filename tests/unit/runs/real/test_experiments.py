"""Descriptions of real-time runs, which do not affect those in virtual time."""

from contextlib import nullcontext

import pytest
from pydantic import ValidationError

from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.network.real.bmv2 import QUEUE_FRAMES
from p4reduce.runs.experiment import REAL_TIME_FIELDS, Experiment, ExperimentError
from p4reduce.runs.real.carry import WINDOW, Assignment
from p4reduce.runs.real.targets import check_growth
from p4reduce.runs.real.wires import UdpWires, needs_relays, shaped_rates
from p4reduce.topologies import load


def test_a_run_in_virtual_time_is_described_without_real_time():
    assert not set(REAL_TIME_FIELDS) & set(Experiment().model_dump())
    assert not set(REAL_TIME_FIELDS) & set(Experiment(budget_s=5).model_dump(mode="json"))


def test_a_run_in_real_time_survives_its_description():
    experiment = Experiment(target="bmv2", unshaped=True, faults={"loss": 0.1})
    assert experiment.time == "real"
    assert Experiment.model_validate(experiment.model_dump(mode="json")) == experiment


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": "bmv2", "time": "virtual"}, "bmv2 knows no virtual time"),
        ({"target": "bmv2", "links": "udp"}, "ports are interfaces"),
        ({"budget_s": 0}, "budget_s"),
    ],
)
def test_what_does_not_go_together_is_refused(given, message):
    with pytest.raises(ValidationError, match=message):
        Experiment(**given)


def test_links_are_shaped_where_software_could_be_faster():
    fast, slow = load("star:hosts=2,rate=10G"), load("star:hosts=2,rate=200M")
    experiment = Experiment(time="real")
    assert shaped_rates(experiment, fast) == {}
    assert set(shaped_rates(experiment, slow).values()) == {200_000_000}
    assert len(shaped_rates(experiment, slow)) == 4
    assert shaped_rates(Experiment(time="real", unshaped=True), slow) == {}


def test_relays_carry_links_that_lose_or_delay():
    near, far = load("star:hosts=2,delay=1us"), load("star:hosts=2,delay=1ms")
    assert not needs_relays(Experiment(time="real"), near)
    assert needs_relays(Experiment(time="real"), far)
    assert needs_relays(Experiment(time="real", faults={"reorder": 0.01}), near)


def test_udp_wires_fit_together_with_and_without_relays():
    topology = load("leaf-spine:leaves=2,spines=1,hosts=1")
    plain = UdpWires(Experiment(time="real", links="udp"), topology)
    assert plain.relayed() == []
    ports = {end: spec for switch in plain.ports().values() for end, spec in switch.items()}
    assert len(ports) > 0
    for link in topology.links:
        ends = [_addresses(plain, node, port) for node, port in ((link.a, link.port_a), (link.b, link.port_b))]
        assert ends[0] == ends[1][::-1]
    relayed = UdpWires(Experiment(time="real", links="udp", faults={"loss": 0.1}), topology)
    for one in relayed.relayed():
        assert _addresses(relayed, one.link.a, one.link.port_a) == (one.a.remote, one.a.local)
        assert _addresses(relayed, one.link.b, one.link.port_b) == (one.b.remote, one.b.local)


def _addresses(wires, node, port):
    """Return (local, remote) of an end of a link."""
    if node in wires.ports():
        spec = wires.ports()[node][port]
        return spec.local, spec.remote
    socket = wires.socket(node)
    return socket.local, socket.remote


def test_hosts_on_udp_links_keep_to_the_rate():
    topology = load("star:hosts=2,rate=200M")
    wires = UdpWires(Experiment(time="real", links="udp"), topology)
    assert {wires.socket(host.name).rate_bps for host in topology.hosts} == {200_000_000}
    assert wires.shaping != "none"
    free = UdpWires(Experiment(time="real", links="udp", unshaped=True), topology)
    assert {free.socket(host.name).rate_bps for host in topology.hosts} == {0}
    assert free.shaping == "none"


def test_bmv2_gets_windows_that_its_queues_hold():
    topology = load("star:hosts=2")
    assert Assignment.of(Experiment(target="bmv2"), topology, several=True).request.window == QUEUE_FRAMES < WINDOW
    assert Assignment.of(Experiment(target="bmv2", window=100), topology, several=True).request.window == 100


@pytest.mark.parametrize(
    ("plan", "collective", "lanes", "refused"),
    [
        ("steiner", "pull", 256, True),
        ("steiner", "broadcast", 256, True),
        ("steiner", "pull", 64, False),
        ("steiner", "push_pull", 256, False),
        ("ps", "pull", 256, False),
    ],
)
def test_bmv2_is_not_asked_for_packets_that_grow_too_long(plan, collective, lanes, refused):
    topology = load("star:hosts=2,servers=1")
    server, workers = topology.servers[0].name, tuple(host.name for host in topology.workers)
    made = make_plan(topology, PlanRequest(plan=plan, workers=workers, server=server, lanes=lanes), Resources())
    with pytest.raises(ExperimentError, match="choose lanes 64") if refused else nullcontext():
        check_growth(made, collective)


def test_who_takes_part():
    topology = load("leaf-spine:leaves=2,spines=1,hosts=2,servers=1")
    plain = Assignment.of(Experiment(workers=3), topology, several=True)
    assert (plain.request.server, plain.request.window, len(plain.request.workers)) == (None, WINDOW, 3)
    served = Assignment.of(Experiment(collective="push_pull", plan="ring", window=4), topology, several=True)
    assert (served.request.plan, served.request.server, served.request.window) == ("ps", topology.servers[0].name, 4)
    spread = Assignment.of(Experiment(collective="broadcast"), topology, several=True)
    assert spread.request.server == spread.workers[0]
    assert spread.request.workers == spread.workers[1:]
    assert [spread.rank(host) for host in (*spread.workers, topology.servers[0].name)] == [0, 1, 2, 3, 4]
