"""The controller with embedded switches: plans installed over P4Runtime carry packets, and counters are read back."""

from dataclasses import replace

import pytest

from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.counters import Operation, Traffic, add, compare_sent, predict
from p4reduce.control_plane.entries import P4Program, SlotState, plan_entries, slot_index
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import leaf_spine, load, star
from p4reduce.workers.wire import PacketType
from p4switch.p4runtime import P4RuntimeServer
from tests.support.controlled import (
    LANES,
    PROGRAM,
    PUSH,
    RESULT,
    all_reduce,
    check_counts,
    check_sums,
    contribution,
    controlled,
    frame,
)

NETWORKS = [
    "star8",
    "leaf-spine-8",
    "leaf-spine-8-partial",
    "two-racks",
    "leaf-spine:leaves=2,spines=2,hosts=40,servers=1",
]


@pytest.mark.parametrize("served", [False, True], ids=["alone", "server"])
@pytest.mark.parametrize("name", ["steiner", "mst", "spt"])
@pytest.mark.parametrize("network_name", NETWORKS)
def test_trees_add_up_and_every_link_carries_what_was_predicted(network_name, name, served):
    topology = load(network_name)
    with controlled(topology) as (controller, network):
        plan = controller.start_job(PlanRequest(name, server=topology.servers[0].name if served else None))
        chunks = 5
        all_reduce(plan, network, chunks)
        check_sums(plan, network, chunks)
        counters = check_counts(controller, network, predict(plan, "all_reduce", chunks * LANES, lead=0))
        assert compare_sent(plan, [(Operation.ALL_REDUCE, chunks * LANES, 0)], counters) == []
        root = counters[plan.root]
        for child in plan.aggregators[0].children:
            assert root.peers[(1, 0, child.name)].frames == chunks
        received = root.jobs_received[plan.grant.stats]
        assert received[("PUSH", 0)].frames == chunks * len(plan.aggregators[0].children)
        assert received[("RESULT", 0)].frames == (chunks if served else 0)


@pytest.mark.parametrize("name", ["ring", "ps"])
@pytest.mark.parametrize("network_name", ["star8", "leaf-spine-8", "nobel-us"])
def test_plans_of_hosts_go_along_their_paths(network_name, name):
    topology = load(network_name)
    with controlled(topology) as (controller, network):
        plan = controller.start_job(PlanRequest(name))
        expected = {}
        for edge in plan.edges:
            for source, destination in (edge, edge[::-1]):
                address = plan.address(source, destination)
                network.send(source, address, frame(plan, source, PUSH, 0, [7] * LANES, to=address))
                for hop in plan.path_hops(source, destination):
                    expected[hop] = expected.get(hop, Traffic()) + Traffic(1, 318)
        check_counts(controller, network, expected)
        for host in (*plan.workers, *([plan.server] if plan.server else [])):
            assert len(network.arrived[host]) == sum(host in edge for edge in plan.edges)


def test_two_jobs_and_an_epoch_on_the_same_slots():
    topology = leaf_spine(2, 2, 2)
    with controlled(topology) as (controller, network):
        first = controller.start_job(PlanRequest("steiner", job=1, priority=2))
        second = controller.start_job(PlanRequest("mst", job=2, priority=5))
        for plan in (first, second):
            all_reduce(plan, network, 3)
            check_sums(plan, network, 3)
        controller.uninstall(first)
        # The next epoch reuses the previous epoch's slots.
        third = controller.start_job(PlanRequest("steiner", job=1, epoch=1, priority=7))
        assert third.aggregators == first.aggregators
        assert third.generation > second.generation
        all_reduce(third, network, 3)
        check_sums(third, network, 3)
        assert controller.installed == (second, third)
        parts = [predict(plan, "all_reduce", 3 * LANES, lead=0) for plan in (first, second, third)]
        counters = check_counts(controller, network, add(*parts))
        # Job 1's counter cells were reused, and reset to zero.
        assert third.grant.stats == first.grant.stats
        assert compare_sent(third, [(Operation.ALL_REDUCE, 3 * LANES, 0)], counters) == []


def test_nothing_is_left_behind():
    topology = leaf_spine(2, 2, 2)
    with controlled(topology) as (controller, network):
        before = [entries(network.server, switch.index + 1) for switch in topology.switches]
        for name in ("steiner", "mst", "spt", "ring"):
            plan = controller.start_job(PlanRequest(name, priority=1))
            assert [entries(network.server, switch.index + 1) for switch in topology.switches] != before
            controller.uninstall(plan)
            assert [entries(network.server, switch.index + 1) for switch in topology.switches] == before
        assert all(controller.resources.free(switch.name) == 4096 for switch in topology.switches)
        assert controller.installed == ()


def entries(server, device_id):
    """Return the number of entries of each table of a device, and of its multicast groups."""
    device = server.device(device_id)
    sizes = {name: len(list(table.entries())) for name, table in device.tables.items()}
    return sizes, [group for group in range(1, 100) if device.multicast.get(group)]


def test_a_plan_that_is_gone_is_refused():
    topology = star(2)
    with controlled(topology) as (controller, network):
        plan = controller.start_job(PlanRequest("spt"))
        controller.uninstall(plan)
        all_reduce(plan, network, 1)
        assert network.arrived == {"h1": [], "h2": []}
        assert {reason: t.frames for reason, t in controller.read_counters()["s1"].refused.items()} == {
            "unknown job or epoch": 2
        }


def test_strangers_are_refused_and_counted():
    topology = leaf_spine(2, 1, 2)
    with controlled(topology) as (controller, network):
        plan = controller.start_job(PlanRequest("spt", workers=("h1", "h3")))
        address = plan.up("h1")
        network.send("h2", address, frame(plan, "h2", PUSH, 0, contribution(0, 0), to=address))
        refused = controller.read_counters([plan.root])[plan.root].refused
        assert {reason: t.frames for reason, t in refused.items()} == {"unknown peer": 1}


def test_a_half_installed_tree_does_no_harm():
    """Without the root's entry in table `job` chunks wait; after its insertion, two ASKs complete them."""
    topology = leaf_spine(2, 1, 2)
    with controlled(topology) as (controller, network):
        plan = controller.start_job(PlanRequest("spt"))
        activate = plan_entries(plan)["spine1"].activate
        controller.delete("spine1", activate)
        all_reduce(plan, network, 1)
        assert not any(network.arrived.values())
        refused = controller.read_counters(["spine1"])["spine1"].refused
        assert {reason: t.frames for reason, t in refused.items()} == {"unknown job or epoch": 2}
        controller.insert("spine1", activate)
        for worker in ("h1", "h3"):
            network.send(worker, plan.up(worker), frame(plan, worker, PacketType.ASK, 0, resend=True))
        check_sums(plan, network, 1)


def test_who_is_missing():
    topology = leaf_spine(2, 1, 2)
    with controlled(topology) as (controller, network):
        plan = controller.start_job(PlanRequest("spt", job=3))
        all_reduce(plan, network, 1, workers=("h1", "h2", "h4"))
        assert controller.who_is_missing(plan, 0) == "job 3 epoch 0, chunk 0: slot 0 of leaf2 waits for worker 2 (h3)"
        state = SlotState.unpack(controller._read_cell("leaf1", slot_index(plan.by_switch["leaf1"], 0)))
        assert (state.generation, state.seq, state.bitmap, state.done) == (plan.generation, 0, 0b11, False)
        up = plan.up("h3")
        network.send("h3", up, frame(plan, "h3", PUSH, 0, contribution(2, 0)))
        check_sums(plan, network, 1)
        assert "done at every switch" in controller.who_is_missing(plan, 0)


def test_refused_packets_reach_the_controller():
    topology = star(2)
    with controlled(topology) as (controller, network):
        plan = controller.start_job(PlanRequest("spt"))
        stray = frame(plan, "h1", RESULT, 0)
        device = network.server.device(1)
        copies = device.inject(1, stray)
        assert [port for port, _ in copies] == [510]
        assert network.server.packet_in(1, copies[0][1])
        # The next answer on the same connection may overtake the packet, so retry until it arrives.
        packets = []
        for _ in range(1000):
            packets = controller.packet_ins()
            if packets:
                break
            controller.read_counters()
        assert [(p.switch, p.ingress_port, p.reason) for p in packets] == [("s1", 1, 9)]
        assert packets[0].frame == stray


def test_plans_are_installed_once():
    with controlled(star(2)) as (controller, _):
        plan = controller.start_job(PlanRequest("spt", priority=3))
        with pytest.raises(ControllerError, match="job 1 epoch 0 is installed already; use the next epoch"):
            controller.start_job(PlanRequest("ring"))
        assert controller.installed == (plan,)
        with pytest.raises(ControllerError, match="job 1 has priority 3 in an epoch still installed, not 4"):
            controller.start_job(PlanRequest("spt", epoch=1, priority=4))
        with pytest.raises(ControllerError, match="is installed; uninstall it"):
            controller.release(plan)
        other = controller.plan(PlanRequest("spt", epoch=2))
        with pytest.raises(ControllerError, match="epoch 2 is not installed"):
            controller.uninstall(other)
        controller.release(other)
        controller.uninstall(plan)
        assert controller.resources.free("s1") == 4096


def test_a_failed_installation_is_taken_back():
    """Entries that existed before stay; those that the failed installation added are removed."""
    topology = leaf_spine(2, 1, 2)
    with controlled(topology) as (controller, network):
        controller.start_job(PlanRequest("spt", priority=3))
        before = [entries(network.server, switch.index + 1) for switch in topology.switches]
        targets = [Target(one.name, network.server.address, one.index + 1) for one in topology.switches]
        # A restarted controller does not know the plan.
        with Controller(topology, targets, PROGRAM, keep=True, election_id=2) as second:
            second.plan(PlanRequest("spt", job=9))  # so the next plan needs a new group and new replicas
            free = second.resources.free("leaf1")
            with pytest.raises(ControllerError, match=r"switch (spine|leaf)\d .*: adding peer\[hdr.*ALREADY_EXISTS"):
                second.start_job(PlanRequest("spt", priority=3))
            assert [entries(network.server, switch.index + 1) for switch in topology.switches] == before
            assert second.resources.free("leaf1") == free
            assert second.installed == ()


def test_switches_that_do_not_answer():
    topology = star(2)
    with P4RuntimeServer() as server:
        address = server.address
    controller = Controller(topology, [Target("s1", address, 1)], PROGRAM, deadline_s=0.3)
    with pytest.raises(
        ControllerError, match=r"switch s1 \(127.0.0.1:\d+, device 1\): connecting: no answer within 0.3 s"
    ):
        controller.start()
    with pytest.raises(ControllerError, match="does not run"):
        controller.read_counters()


def test_a_device_that_is_not_there():
    with P4RuntimeServer() as server:
        controller = Controller(star(2), [Target("s1", server.address, 7)], PROGRAM)
        with pytest.raises(ControllerError, match=r"switch s1 .* device 7"):
            controller.start()


def test_a_program_that_cannot_be_loaded():
    with P4RuntimeServer() as server:
        server.add_device(1)
        controller = Controller(star(2), [Target("s1", server.address)], replace(PROGRAM, json=b"{}"))
        with pytest.raises(ControllerError, match=r"switch s1 .*: loading the program: INVALID_ARGUMENT"):
            controller.start()


def test_another_controller_is_in_charge():
    topology = star(2)
    with controlled(topology, election_id=5) as (controller, network):
        targets = [Target("s1", network.server.address, 1)]
        second = Controller(topology, targets, PROGRAM, election_id=4)
        with pytest.raises(ControllerError, match=r"another controller is in charge \(election id 5, ours is 4\)"):
            second.start()
        # A higher election id takes over; the first controller then reports that.
        with Controller(topology, targets, PROGRAM, election_id=6) as third:
            third.start_job(PlanRequest("spt"))
            with pytest.raises(ControllerError, match=r"another controller took over|PERMISSION_DENIED"):
                controller.start_job(PlanRequest("spt"))


def test_targets_must_match_the_switches(tmp_path):
    topology = leaf_spine(2, 1, 1)
    with pytest.raises(ControllerError, match="no target for switch leaf1, leaf2"):
        Controller(topology, [Target("spine1", "127.0.0.1:1")], PROGRAM)
    with pytest.raises(ControllerError, match="targets s9 are no switches"):
        Controller(star(2), [Target("s1", "127.0.0.1:1"), Target("s9", "127.0.0.1:1")], PROGRAM)
    with pytest.raises(ControllerError, match="two targets are named s1"):
        Controller(star(2), [Target("s1", "127.0.0.1:1"), Target("s1", "127.0.0.1:2")], PROGRAM)
    with pytest.raises(ControllerError, match="is not P4Info in text format"):
        Controller(star(2), [Target("s1", "127.0.0.1:1")], replace(PROGRAM, p4info=b"tables { oops"))
    with pytest.raises(ControllerError, match="no register 'slots'"):
        Controller(star(2), [Target("s1", "127.0.0.1:1")], replace(PROGRAM, p4info=b""))
    with pytest.raises(ControllerError, match=r": No such file or directory$"):
        P4Program.read(tmp_path / "absent.json", tmp_path / "absent.txt")


def test_lanes_are_those_of_the_program():
    topology = star(2)
    with controlled(topology) as (controller, _):
        assert (controller.program.lanes, controller.program.slots, controller.program.counted_jobs) == (64, 4096, 512)
        with pytest.raises(PlanError, match=r"lanes: 256, but the switches run p4reduce-64\.json, which adds up 64"):
            controller.start_job(PlanRequest("steiner", lanes=256))
        assert controller.resources.free("s1") == 4096
        with pytest.raises(ControllerError, match=r"job 2 epoch 0 has 256 lanes, the program .* 64"):
            controller.install(make_plan(topology, PlanRequest("steiner", job=2, lanes=256), Resources()))
        assert controller.installed == ()
        assert controller.start_job(PlanRequest("steiner")).lanes == 64


@pytest.mark.parametrize("json", [b"", b"[]", b'{"header_types": []}', b'{"header_types": [], "headers": []}'])
def test_a_program_of_another_kind_has_no_lanes(json):
    with pytest.raises(ControllerError, match=r"p4reduce-64\.json: has no header 'lanes'"):
        _ = replace(PROGRAM, json=json).lanes


def test_requests_that_cannot_be_met_take_nothing():
    with controlled(star(40)) as (controller, _):
        with pytest.raises(PlanError, match="bitmap holds 32"):
            controller.start_job(PlanRequest("steiner"))
        assert controller.resources.free("s1") == 4096
        assert controller.installed == ()
