"""Plans as table entries, encoded with the P4Info of the compiled programs."""

from importlib import resources
from pathlib import Path

import finsy as fy
import pytest

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.counters import REASONS, TYPES, requests, resets, stats_cells
from p4reduce.control_plane.entries import (
    SwitchSettings,
    base_entries,
    describe,
    dscp_entries,
    forwarding,
    plan_entries,
    priority_entry,
    settings_entry,
    switches_on_paths,
)
from p4reduce.control_plane.plans import PLANS, PlanRequest, make_plan, routes
from p4reduce.control_plane.plans.routes import BaseRoutes, Paths
from p4reduce.control_plane.resources import SLOTS, STATS_JOBS, Resources
from p4reduce.topologies import fat_tree, leaf_spine, load, star
from p4reduce.topologies.model import HOST_BASE, SWITCH_BASE


def plan(topology, name, **request):
    return make_plan(topology, PlanRequest(name, **request), Resources())


@pytest.fixture(params=[64, 256])
def schema(request):
    return fy.P4Schema(Path(str(resources.files("p4reduce.p4src") / f"compiled/p4reduce-{request.param}.p4info.txt")))


def defines(file):
    """Return names and values of simple #define lines of a P4 source."""
    lines = (resources.files("p4reduce.p4src") / file).read_text("utf-8").splitlines()
    words = [line.split() for line in lines if line.startswith("#define ")]
    return {word[1]: word[2] for word in words if len(word) > 2}


def test_constants_are_those_of_the_p4_program(schema):
    sizes, headers, refuse = defines("sizes.p4"), defines("headers.p4"), defines("refuse.p4")
    assert int(sizes["SLOTS"]) == SLOTS == schema.registers["slots"].size
    assert int(sizes["STATS_JOBS"]) == STATS_JOBS
    assert schema.counters["job_sent"].size == STATS_JOBS * int(sizes["STATS_PER_JOB"])
    assert {int(headers[f"TYPE_{kind}"]) for kind in TYPES} == set(TYPES.values())
    assert all(int(headers[f"TYPE_{kind}"]) == number for kind, number in TYPES.items())
    reasons = {
        int(value) for name, value in refuse.items() if name.startswith("REFUSED_") and name != "REFUSED_REASONS"
    }
    assert reasons == set(REASONS)
    assert max(stats_cells(STATS_JOBS - 1)) < schema.counters["job_received"].size


@pytest.mark.parametrize("name", sorted(PLANS))
def test_every_entry_fits_the_program(schema, name):
    topology = load("leaf-spine-8")
    built = plan(topology, name, server="server1" if name != "ring" else None, priority=7)
    base = BaseRoutes(topology)
    for switch in topology.switches:
        for entry in base_entries(topology, switch.name, base.of(switch.name)):
            entry.encode(schema)
    settings_entry(SwitchSettings(5, 7)).encode(schema)
    priority_entry(built.job, 7).encode(schema)
    for switch, entries in plan_entries(built).items():
        for entry in (*entries.prepare, *entries.activate):
            entry.encode(schema)
        for wanted in (*requests(topology, switch, [built]), *resets(built)):
            wanted.encode(schema)


def test_what_an_aggregator_gets():
    built = plan(leaf_spine(2, 1, 2), "spt", job=3, epoch=4)
    entries = plan_entries(built)
    assert list(entries) == ["spine1", "leaf1", "leaf2"]
    assert [describe(entry) for entry in (*entries["leaf2"].prepare, *entries["leaf2"].activate)] == [
        "multicast group 1: port 1 rid 1, port 2 rid 2",
        "multicast group 16385: port 1 rid 1, port 2 rid 2, port 3 rid 32769",
        "replica[std.egress_rid=1] -> address_or_late(mac=0x2000a000003, ip=0xa000003, udp=9400, token=..., bit_=1)",
        "replica[std.egress_rid=2] -> address_or_late(mac=0x2000a000004, ip=0xa000004, udp=9400, token=..., bit_=2)",
        "replica[std.egress_rid=32769] -> address_parent(mac=0x2000a800001, ip=0xa800001, udp=9400)",
        "peer[hdr.inc.job=3, hdr.inc.epoch=4, std.ingress_port=1, hdr.ipv4.src=0xa000003] -> child(bit_=1, lowest=1)",
        "peer[hdr.inc.job=3, hdr.inc.epoch=4, std.ingress_port=2, hdr.ipv4.src=0xa000004] -> child(bit_=2, lowest=0)",
        "peer[hdr.inc.job=3, hdr.inc.epoch=4, std.ingress_port=3, hdr.ipv4.src=0xa800001] -> parent()",
        f"job[hdr.inc.job=3, hdr.inc.epoch=4] -> inner_with_questions(generation=1, base=0, "
        f"slots={built.slots}, full=3, group=1, stats=0, parent_port=3, parent_mac=0x2000a800001, parent_ip=0xa800001, "
        f"parent_udp=9400, token=..., questions=16385, again={built.asks_again_after})",
    ]
    root = entries["spine1"]
    assert [describe(entry) for entry in root.activate] == [
        f"job[hdr.inc.job=3, hdr.inc.epoch=4] -> root_with_questions(generation=1, base=0, slots={built.slots}, "
        f"full=3, group=1, stats=0, questions=16385, again={built.asks_again_after})"
    ]
    groups = [describe(entry) for entry in root.prepare if describe(entry).startswith("multicast")]
    assert groups == [
        "multicast group 1: port 1 rid 1, port 2 rid 2",
        "multicast group 16385: port 1 rid 1, port 2 rid 2, port 1 rid 16385, port 2 rid 16386",
    ]
    assert not any("parent" in describe(entry) for entry in root.prepare)


def test_plain_switches_only_forward():
    built = plan(load("leaf-spine-8-partial"), "spt")
    leaf = plan_entries(built)["leaf1"]
    assert leaf.activate == ()
    assert {entry.table_id for entry in leaf.prepare} == {"path"}
    # Routes to the aggregator and to four workers.
    assert len(leaf.prepare) == 5


@pytest.mark.parametrize("name", ["ring", "ps"])
def test_plans_of_hosts_only_forward(name):
    built = plan(load("leaf-spine-8"), name)
    for entries in plan_entries(built).values():
        assert entries.activate == ()
        assert {entry.table_id for entry in entries.prepare} == {"path"}


@pytest.mark.parametrize("name", sorted(PLANS))
def test_forwarding_leads_along_the_paths(name):
    built = plan(load("nobel-us"), name)
    onward = {(switch, destination): following for switch, destination, following in forwarding(built)}
    assert len(onward) == len(forwarding(built))
    for (source, destination), path in built.paths.items():
        at = path[1]
        seen = [source, at]
        while at != destination:
            at = onward[(at, destination)]
            seen.append(at)
        assert tuple(seen) == path


def looked_up(topology, switch):
    """Return a switch's route for an address by the longest prefix, as the table does."""
    found = {(route.value, route.length): route.neighbour for route in BaseRoutes(topology).of(switch)}

    def look(ip):
        keys = (((ip >> (32 - length)) << (32 - length), length) for length in range(32, -1, -1))
        return next((found[key] for key in keys if key in found), None)

    return look


def check_routes(topology):
    """Check that every switch reaches every node by a shortest path, and has no route for unused addresses."""
    tables = {switch.name: looked_up(topology, switch.name) for switch in topology.switches}
    ways = Paths(topology)
    for destination in (*topology.hosts, *topology.switches):
        for switch in topology.switches:
            at, steps = switch.name, 0
            while at != destination.name:
                at = tables[at](destination.ip)
                steps += 1
                assert steps <= len(topology.switches)
            assert steps == len(ways.path(switch.name, destination.name)) - 1
    for look in tables.values():
        nobody = [len(topology.hosts), len(topology.hosts) + 6, -1]
        assert [look(HOST_BASE + 1 + index) for index in nobody] == [None] * 3
        assert (
            look(SWITCH_BASE) is look(SWITCH_BASE + 1 + len(topology.switches)) is look(0) is look(0xFFFFFFFF) is None
        )


@pytest.mark.parametrize("network", ["fat-tree:k=4,servers=1", "nobel-us", "two-racks", "star:hosts=3", "star:hosts=1"])
def test_base_routes_reach_everything(network, monkeypatch):
    topology = load(network)
    check_routes(topology)
    one_by_one = sum(len(BaseRoutes(topology).of(switch.name)) for switch in topology.switches)
    monkeypatch.setattr(routes, "ONE_BY_ONE", 0)
    for blocks in (128, 8, 1):
        monkeypatch.setattr(routes, "_BLOCKS", blocks)
        check_routes(topology)
    assert sum(len(BaseRoutes(topology).of(switch.name)) for switch in topology.switches) <= one_by_one


def test_base_routes_are_spread_over_parallel_paths(monkeypatch):
    topology = fat_tree(4, servers=1)
    for most in (512, 0):
        monkeypatch.setattr(routes, "ONE_BY_ONE", most)
        look = looked_up(topology, "edge1-1")
        assert {look(host.ip) for host in topology.workers[4:]} == {"agg1-1", "agg1-2"}
        assert BaseRoutes(topology).of("edge1-1") == BaseRoutes(topology).of("edge1-1")


def test_large_networks_have_few_routes():
    topology = fat_tree(12)
    assert len(topology.nodes) > routes.ONE_BY_ONE
    assert (
        max(len(BaseRoutes(topology).of(switch)) for switch in ("edge1-1", "agg1-1", "core1")) < len(topology.nodes) / 4
    )


def test_base_entries():
    topology = leaf_spine(1, 1, 2, capable=["leaf*"])
    base = BaseRoutes(topology)
    leaf = {describe(entry) for entry in base_entries(topology, "leaf1", base.of("leaf1"))}
    assert leaf == {
        "local_address[hdr.ipv4.dst=0xa800002] -> is_local()",
        "edge[std.ingress_port=1] -> host(ip=0xa000001)",
        "edge[std.ingress_port=2] -> host(ip=0xa000002)",
        "route[hdr.ipv4.dst=0xa000001/32] -> next_hop(port=1, mac=0x2000a000001)",
        "route[hdr.ipv4.dst=0xa000002/32] -> next_hop(port=2, mac=0x2000a000002)",
        "route[hdr.ipv4.dst=0xa800001/32] -> next_hop(port=3, mac=0x2000a800001)",
    }
    spine = base_entries(topology, "spine1", base.of("spine1"))
    assert {entry.table_id for entry in spine} == {"route"}


@pytest.mark.parametrize("network", ["leaf-spine-8", "leaf-spine-8-partial", "fat-tree-4", "nobel-us", "two-racks"])
@pytest.mark.parametrize("name", sorted(PLANS))
def test_no_plan_takes_a_host_for_another(network, name):
    """Packets to a switch's own slots bypass `edge`: `peer` must admit only the host's own."""
    topology = load(network)
    server = topology.servers[0].name if topology.servers and name != "ring" else None
    entries = plan_entries(plan(topology, name, server=server))
    for switch, found in entries.items():
        for entry in found.prepare:
            if isinstance(entry, fy.P4TableEntry) and entry.table_id == "peer":
                neighbour = topology.node(topology.neighbour(switch, entry.match["std.ingress_port"]))
                assert neighbour.is_switch or neighbour.ip == entry.match["hdr.ipv4.src"]


@pytest.mark.parametrize("network", ["leaf-spine-8-partial", "fat-tree-4", "germany50"])
def test_every_host_is_known_where_it_stands_before_anything_is_routed(network):
    topology = load(network)
    known = {}
    base = BaseRoutes(topology)
    for switch in (node.name for node in topology.switches):
        entries = base_entries(topology, switch, base.of(switch))
        tables = [entry.table_id for entry in entries]
        assert "edge" not in tables[tables.index("route") :]
        for entry in entries:
            if entry.table_id == "edge":
                known[entry.action.args["ip"]] = topology.neighbour(switch, entry.match["std.ingress_port"])
    assert known == {host.ip: host.name for host in topology.hosts}


def test_priorities_are_set_wherever_a_job_goes():
    built = plan(load("leaf-spine-8-partial"), "spt")
    assert switches_on_paths(built) == ("spine1", "leaf1", "leaf2")
    assert describe(priority_entry(9, 5)) == "traffic_class[hdr.inc.job=9/65535] -> prioritize(priority=5)"
    assert switches_on_paths(plan(star(2), "ring")) == ("s1",)


@pytest.mark.parametrize("classes", [{64: 1}, {-1: 1}, {8: 8}, {8: -1}])
def test_code_points_and_queues_that_there_are_not(classes):
    with pytest.raises(ControllerError, match="dscp_classes"):
        SwitchSettings(dscp_classes=classes)


def test_a_code_point_has_a_queue():
    (entry,) = dscp_entries(SwitchSettings(dscp_classes={46: 5}))
    assert describe(entry) == "dscp_class[hdr.ipv4.dscp=46] -> prioritize(priority=5)"
