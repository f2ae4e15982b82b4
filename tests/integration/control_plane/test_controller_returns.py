"""A controller that reconnects to running switches: it corrects base entries and leaves plans untouched."""

import finsy as fy

from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import BASE_TABLES, PLAN_TABLES, fingerprint, wildcards
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.topologies import leaf_spine
from tests.support.controlled import PROGRAM, all_reduce, check_sums, controlled


def test_base_entries_that_are_wrong_are_set_right():
    """A reconnecting controller adds, changes and removes base entries, but no entries of plans."""
    topology = leaf_spine(2, 1, 2)

    def tables(controller, names):
        read = controller.read(wildcards(names))
        return {switch: {fingerprint(entry) for entry in entries} for switch, entries in read.items()}

    def entry(table, key, value, action, **arguments):
        return fy.P4TableEntry(table, match=fy.P4TableMatch({key: value}), action=fy.P4TableAction(action, **arguments))

    h1, h3 = topology.node("h1"), topology.node("h3")
    with controlled(topology) as (controller, network):
        right = tables(controller, BASE_TABLES)
        controller.delete("leaf1", [
            entry("edge", "std.ingress_port", 1, "host", ip=h1.ip),
            entry("edge", "std.ingress_port", 2, "host", ip=h1.ip + 1),
            entry("route", "hdr.ipv4.dst", (h3.ip, 32), "next_hop", port=3, mac=1),
        ])  # fmt: skip
        wrong = [
            entry("edge", "std.ingress_port", 1, "host", ip=h3.ip),
            entry("edge", "std.ingress_port", 3, "host", ip=h3.ip),
            entry("route", "hdr.ipv4.dst", (h3.ip, 32), "next_hop", port=1, mac=h1.mac),
            entry("local_address", "hdr.ipv4.dst", h3.ip, "is_local"),
        ]
        controller.insert("leaf1", wrong)
        assert len(tables(controller, BASE_TABLES)["leaf1"] - right["leaf1"]) == len(wrong)
        plan = controller.start_job(PlanRequest("steiner"))
        planned = tables(controller, PLAN_TABLES)
        targets = [Target(one.name, network.server.address, one.index + 1) for one in topology.switches]
        with Controller(topology, targets, PROGRAM, keep=True, election_id=2) as second:
            assert tables(second, BASE_TABLES) == right
            assert tables(second, PLAN_TABLES) == planned
            second.adopt(plan)
            all_reduce(plan, network, 3)
            check_sums(plan, network, 3)
