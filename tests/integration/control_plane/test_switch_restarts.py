"""Restarts of switches, as seen by their controller in real time over P4Runtime."""

from contextlib import closing

from finsy.proto import p4i, p4r
from google.protobuf import text_format

from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import BASE_TABLES, PLAN_TABLES, fingerprint, wildcards
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.jobs.network import EmbeddedSwitches, bundled
from p4reduce.topologies import load
from p4switch.p4runtime import P4RuntimeServer


def tables(controller, names, switch):
    return {fingerprint(entry) for entry in controller.read(wildcards(names))[switch]}


def test_a_switch_that_began_anew_is_found_and_restored():
    topology = load("leaf-spine:leaves=2,spines=2,hosts=2")
    with closing(EmbeddedSwitches(topology, bundled(64))) as switches:
        controller = switches.controller
        plan = controller.start_job(PlanRequest("steiner", job=1, priority=5))
        base = tables(controller, BASE_TABLES, "leaf1")
        classes = tables(controller, ["traffic_class"], "leaf1")
        assert classes
        assert controller.look().restarted == ()
        switches.restart("leaf1")
        assert not tables(controller, (*BASE_TABLES, *PLAN_TABLES), "leaf1")
        assert controller.look().restarted == ("leaf1",)
        controller.restore("leaf1")
        assert controller.look().restarted == ()
        # Only the nonce differs; of the plan, only its job's class is in these tables.
        assert len(tables(controller, BASE_TABLES, "leaf1") ^ base) == 2
        assert tables(controller, PLAN_TABLES, "leaf1") == classes
        controller.uninstall(plan)
        assert not tables(controller, PLAN_TABLES, "leaf1")
        again = controller.start_job(PlanRequest("steiner", job=1, epoch=1))
        assert again.generation > plan.generation
        controller.restore("leaf1")  # restoring again changes nothing
        assert controller.look().restarted == ()


def served(address="127.0.0.1:0", program=None):
    server = P4RuntimeServer(address)
    server.add_device(1, name="s1")
    server.start()
    if program is not None:
        info = text_format.Parse(program.p4info.decode(), p4i.P4Info())
        server.set_pipeline(1, p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=program.json))
    return server


def test_a_switch_whose_process_ends_is_silent_and_then_found_without_a_program():
    topology, program = load("star:hosts=2"), bundled(64)
    server = served()
    try:
        target = Target("s1", server.address, 1)
        with Controller(topology, [target], program, deadline_s=5) as controller:
            base = tables(controller, BASE_TABLES, "s1")
            server.stop()
            found = controller.look()
            assert found.restarted == ()
            assert "s1" in found.silent["s1"]
            for kept in (None, program):  # program with which the switch is started
                server = served(target.address, kept)
                assert controller.look().restarted == ("s1",)
                controller.restore("s1")
                assert len(tables(controller, BASE_TABLES, "s1") ^ base) == 2
                assert controller.look().restarted == ()
                server.stop()
    finally:
        server.stop()
