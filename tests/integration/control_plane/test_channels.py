"""Switches at one P4Runtime address share a connection of their controller."""

from pathlib import Path

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.jobs.network import EmbeddedSwitches, ServedSwitches, bundled
from p4reduce.topologies import load
from p4switch.p4runtime import P4RuntimeServer


def connections(port):
    """Return the number of this machine's TCP connections to a port."""
    rows = [
        line.split() for family in ("tcp", "tcp6") for line in Path(f"/proc/net/{family}").read_text().splitlines()[1:]
    ]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def test_connections_do_not_grow_with_switches():
    for topology in ("star:hosts=2", "fat-tree-4"):
        switches = EmbeddedSwitches(load(topology), bundled(64))
        try:
            plan = switches.controller.start_job(PlanRequest("spt", job=1))
            assert connections(switches.server.port) == 1
            switches.controller.uninstall(plan)
        finally:
            switches.close()


def test_all_switches_of_an_address_are_found_again_by_one_new_connection():
    topology, program = load("leaf-spine-8"), bundled(64)
    with (
        ServedSwitches(topology) as switches,
        Controller(topology, switches.targets(), program, deadline_s=2.0) as controller,
    ):
        address = switches.server.address
        switches.server.stop()
        assert set(controller.look().silent) == {switch.name for switch in topology.switches}
        with P4RuntimeServer(address) as server:
            for place, switch in enumerate(topology.switches, start=1):
                server.add_device(place, name=switch.name)
            found = next(found for _ in range(20) if not (found := controller.look()).silent)
            assert set(found.restarted) == {switch.name for switch in topology.switches}
            assert connections(server.port) == 1
