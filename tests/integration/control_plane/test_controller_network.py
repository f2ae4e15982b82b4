"""The controller against embedded switches: plans installed over P4Runtime carry packets, and counters come back."""

import struct
from collections import deque
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources

import pytest

from p4reduce.control_plane.check import compare_counters, compare_links, compare_sent
from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import plan_entries
from p4reduce.control_plane.errors import ControllerError, PlanError
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.predict import Operation, Traffic, add, predict
from p4reduce.control_plane.program import P4Program
from p4reduce.control_plane.resources import Resources
from p4reduce.dataplane.p4runtime import P4RuntimeServer
from p4reduce.topologies import leaf_spine, load, star

COMPILED = resources.files("p4reduce.p4src") / "compiled"
PROGRAM = P4Program(
    (COMPILED / "p4reduce-64.json").read_bytes(), (COMPILED / "p4reduce-64.p4info.txt").read_bytes(), "p4reduce-64.json"
)
LANES = 64
PUSH, PULL, RESULT = 1, 2, 3


class Network:
    """Switches joined by links without time: frames move one by one in the order in which they are sent."""

    def __init__(self, topology, server):
        self.topology, self.server = topology, server
        self.counted = {}
        self.arrived = {host.name: [] for host in topology.hosts}
        self._moving = deque()

    def send(self, source, address, frame):
        self._put(source, address.port, frame)
        while self._moving:
            node, port, moving = self._moving.popleft()
            if node in self.arrived:
                self.arrived[node].append(moving)
                continue
            device = self.server.device(self.topology.node(node).index + 1)
            for out, copy in device.inject(port, moving):
                if out != 510:
                    self._put(node, out, copy)

    def _put(self, node, port, frame):
        if not frame[43] & 0x08:
            self.counted[(node, port)] = self.counted.get((node, port), Traffic()) + Traffic(1, len(frame))
        link = self.topology.link_at(node, port)
        other = link.other(node)
        assert frame[:6] == self.topology.node(other).mac.to_bytes(6, "big"), "addressed to another node than the next"
        self._moving.append((other, link.port_of(other), frame))


@contextmanager
def controlled(topology, **options):
    with P4RuntimeServer() as server:
        targets = []
        for switch in topology.switches:
            server.add_device(switch.index + 1, name=switch.name)
            targets.append(Target(switch.name, server.address, switch.index + 1))
        with Controller(topology, targets, PROGRAM, **options) as controller:
            yield controller, Network(topology, server)


def frame(plan, source, kind, seq, lanes=None, *, to=None, resend=False):
    """A frame to where the source sends contributions, or to the address ``to``."""
    address = to or plan.up(source)
    node = plan.topology.node(source)
    data = b"" if lanes is None else struct.pack(f">{LANES}i", *lanes)
    flags = resend << 3 | (lanes is not None)
    inc = struct.pack(">BBHHHIIBBH", 1 << 4 | kind, flags, plan.job, plan.epoch, 1, seq, 0, 0, 0, 0) + data
    udp = struct.pack(">HHHH", 9400, address.udp, 8 + len(inc), 0) + inc
    head = struct.pack(">BBHHHBBHII", 0x45, 2, 20 + len(udp), 0, 0, 64, 17, 0, node.ip, address.ip)
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = 0xFFFF - ((total & 0xFFFF) + (total >> 16))
    ethernet = address.mac.to_bytes(6, "big") + node.mac.to_bytes(6, "big") + b"\x08\x00"
    return ethernet + head[:10] + struct.pack(">H", checksum) + head[12:] + udp


def seq_of(data):
    return int.from_bytes(data[50:54], "big")


def kind_of(data):
    return data[42] & 0xF


def lanes_of(data):
    return struct.unpack(f">{LANES}i", data[62:])


def contribution(rank, seq):
    return [(rank + 1) * (seq + 1) * (lane - 30) for lane in range(LANES)]


def all_reduce(plan, network, chunks, workers=None):
    """Every worker pushes every chunk once; a server, if there is one, sends each sum back."""
    for seq in range(chunks):
        for rank, worker in enumerate(plan.workers):
            if workers is None or worker in workers:
                up = plan.up(worker)
                network.send(worker, up, frame(plan, worker, PUSH, seq, contribution(rank, seq)))
        if plan.server is not None:
            for data in network.arrived[plan.server]:
                assert kind_of(data) == PUSH
                down = plan.address(plan.server, plan.root)
                network.send(plan.server, down, frame(plan, plan.server, RESULT, seq_of(data), lanes_of(data), to=down))
            network.arrived[plan.server].clear()


def check_sums(plan, network, chunks):
    for worker in plan.workers:
        results = network.arrived[worker]
        assert [seq_of(data) for data in results] == list(range(chunks))
        for data in results:
            assert kind_of(data) == RESULT
            seq = seq_of(data)
            parts = [contribution(rank, seq) for rank in range(len(plan.workers))]
            assert lanes_of(data) == tuple(sum(lane) for lane in zip(*parts, strict=True))
        results.clear()


def check_counts(controller, network, expected):
    topology = controller.topology
    counters = controller.read_counters()
    assert compare_links(topology, expected, network.counted) == []
    assert compare_counters(topology, expected, counters) == []
    assert all(not own.refused for own in counters.values())
    return counters


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
        # The next epoch takes the very slots that the last one left behind.
        third = controller.start_job(PlanRequest("steiner", job=1, epoch=1, priority=7))
        assert third.aggregators == first.aggregators
        assert third.generation > second.generation
        all_reduce(third, network, 3)
        check_sums(third, network, 3)
        assert controller.installed == (second, third)
        parts = [predict(plan, "all_reduce", 3 * LANES, lead=0) for plan in (first, second, third)]
        counters = check_counts(controller, network, add(*parts))
        # The counter cells of job 1 were taken over, and began again at zero.
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
    """How many entries each table of a device has, and its multicast groups."""
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
    """Without the root's entry in table `job` chunks wait; once it is there, a retransmission brings them through."""
    topology = leaf_spine(2, 1, 2)
    with controlled(topology) as (controller, network):
        plan = controller.start_job(PlanRequest("spt"))
        root = controller._fleet._connections["spine1"]
        activate = plan_entries(plan)["spine1"].activate
        controller._loop.run(root.delete(activate))
        all_reduce(plan, network, 1)
        assert not any(network.arrived.values())
        refused = controller.read_counters(["spine1"])["spine1"].refused
        assert {reason: t.frames for reason, t in refused.items()} == {"unknown job or epoch": 2}
        controller._loop.run(root.insert(activate))
        for rank, worker in ((0, "h1"), (2, "h3")):
            up = plan.up(worker)
            network.send(worker, up, frame(plan, worker, PUSH, 0, contribution(rank, 0), resend=True))
        check_sums(plan, network, 1)


def test_who_is_missing():
    topology = leaf_spine(2, 1, 2)
    with controlled(topology) as (controller, network):
        plan = controller.start_job(PlanRequest("spt", job=3))
        all_reduce(plan, network, 1, workers=("h1", "h2", "h4"))
        assert controller.who_is_missing(plan, 0) == "job 3 epoch 0, chunk 0: slot 0 of leaf2 waits for worker 2 (h3)"
        state = controller.read_slot(plan, "leaf1", 0)
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
        # The next answer on the same connection may overtake the packet, so ask until it is there.
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
    """What is there already, by whoever, stays; what the failed installation added is gone."""
    topology = leaf_spine(2, 1, 2)
    with controlled(topology) as (controller, network):
        controller.start_job(PlanRequest("spt", priority=3))
        before = [entries(network.server, switch.index + 1) for switch in topology.switches]
        free = controller.resources.free("leaf1")
        controller._installed.clear()  # forget it, as a controller that restarted would
        controller._fleet._priorities.clear()
        with pytest.raises(ControllerError, match=r"switch (spine1|leaf1|leaf2) .*: adding peer\[hdr.*ALREADY_EXISTS"):
            controller.start_job(PlanRequest("spt", priority=3))
        assert [entries(network.server, switch.index + 1) for switch in topology.switches] == before
        assert controller.resources.free("leaf1") == free
        assert controller.installed == ()


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
        # A higher election id takes over; the first one then says so.
        with Controller(topology, targets, PROGRAM, election_id=6) as third:
            third.start_job(PlanRequest("spt"))
            with pytest.raises(ControllerError, match=r"another controller took over|PERMISSION_DENIED"):
                controller.start_job(PlanRequest("spt"))


def test_targets_must_match_the_switches(tmp_path):
    topology = leaf_spine(2, 1, 1)
    with pytest.raises(ControllerError, match="no target for switch leaf1, leaf2"):
        Controller(topology, [Target("spine1", "x:1")], PROGRAM)
    with pytest.raises(ControllerError, match="targets s9 are no switches"):
        Controller(star(2), [Target("s1", "x:1"), Target("s9", "x:1")], PROGRAM)
    with pytest.raises(ControllerError, match="two targets are named s1"):
        Controller(star(2), [Target("s1", "x:1"), Target("s1", "x:2")], PROGRAM)
    with pytest.raises(ControllerError, match="is not P4Info in text format"):
        Controller(star(2), [Target("s1", "x:1")], replace(PROGRAM, p4info=b"tables { oops"))
    with pytest.raises(ControllerError, match="no register 'slots'"):
        Controller(star(2), [Target("s1", "x:1")], replace(PROGRAM, p4info=b""))
    with pytest.raises(ControllerError, match="cannot read the P4 program"):
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
