"""Runtime files as in p4lang/tutorials: read, checked against the program, written to a switch, applied to packets."""

import json

import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from p4reduce.base.errors import BadInput, ControllerError
from p4reduce.cli.commands.net import own_programs
from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.runtime_file import RuntimeFileError, SwitchProgram, install, switch_program
from p4reduce.topologies import load
from p4switch.p4.compile import compile_file, json_text
from p4switch.p4runtime import P4RuntimeServer

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dstAddr; bit<48> srcAddr; bit<16> etherType; }
header ipv4_t { bit<64> a; bit<8> ttl; bit<8> protocol; bit<16> sum; bit<32> srcAddr; bit<32> dstAddr; }
struct headers { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata { }
parser MyParser(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
  state start { p.extract(hdr.ethernet); p.extract(hdr.ipv4); transition accept; }
}
control MyVerify(inout headers hdr, inout metadata m) { apply { } }
control MyIngress(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
  action drop() { mark_to_drop(s); }
  action ipv4_forward(bit<48> dstAddr, bit<9> port) {
    s.egress_spec = port; hdr.ethernet.dstAddr = dstAddr; hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
  }
  action multicast(bit<16> group) { s.mcast_grp = group; }
  action mirror(bit<32> session) { clone(CloneType.I2E, session); }
  table ipv4_lpm { key = { hdr.ipv4.dstAddr: lpm; } actions = { ipv4_forward; multicast; drop; NoAction; }
                   default_action = NoAction(); }
  table acl { key = { hdr.ipv4.srcAddr: ternary; hdr.ipv4.protocol: range; } actions = { drop; mirror; NoAction; } }
  apply { ipv4_lpm.apply(); acl.apply(); }
}
control MyEgress(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply { } }
control MyCompute(inout headers hdr, inout metadata m) { apply { } }
control MyDeparser(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
"""
FORWARD = {"dstAddr": "08:00:00:00:01:11", "port": 2}
RUNTIME = {
    "target": "bmv2",
    "p4info": "build/basic.p4.p4info.txt",
    "bmv2_json": "build/basic.json",
    "table_entries": [
        {"table": "MyIngress.ipv4_lpm", "default_action": True, "action_name": "MyIngress.drop", "action_params": {}},
        {"table": "MyIngress.ipv4_lpm", "match": {"hdr.ipv4.dstAddr": ["10.0.1.1", 32]},
         "action_name": "MyIngress.ipv4_forward", "action_params": FORWARD},
        {"table": "MyIngress.ipv4_lpm", "match": {"hdr.ipv4.dstAddr": ["10.0.2.0", 24]},
         "action_name": "MyIngress.multicast", "action_params": {"group": 1}},
        {"table": "MyIngress.acl", "priority": 5, "match": {"hdr.ipv4.srcAddr": ["10.9.0.0", "0xffff0000"],
         "hdr.ipv4.protocol": [6, 17]}, "action_name": "MyIngress.mirror", "action_params": {"session": 5}},
    ],
    "multicast_group_entries": [
        {"multicast_group_id": 1, "replicas": [{"egress_port": 3, "instance": 1}, {"egress_port": 4, "instance": 2}]}
    ],
    "clone_session_entries": [{"clone_session_id": 5, "replicas": [{"egress_port": 7, "instance": 1}]}],
}  # fmt: skip


@pytest.fixture(scope="module")
def exercise(tmp_path_factory):
    """A folder like an exercise of p4lang/tutorials after 'make'."""
    folder = tmp_path_factory.mktemp("basic")
    (folder / "build").mkdir()
    (folder / "pod-topo").mkdir()
    (folder / "basic.p4").write_text(PROGRAM)
    found = compile_file(folder / "basic.p4").require()
    (folder / "build" / "basic.json").write_text(json_text(found.json))
    (folder / "build" / "basic.p4.p4info.txt").write_text(found.p4info())
    return folder


def written(exercise, runtime, name="s1"):
    path = exercise / "pod-topo" / f"{name}-runtime.json"
    path.write_text(runtime if isinstance(runtime, str) else json.dumps(runtime))
    return path


def frame(source="10.0.0.9", destination="10.0.1.1", protocol=1):
    return bytes(Ether(dst="02:00:00:00:00:01") / IP(src=source, dst=destination, proto=protocol, ttl=9))


def test_what_a_runtime_file_says_is_what_packets_meet(exercise, monkeypatch):
    program = switch_program(written(exercise, RUNTIME), None, None)
    devices = []
    with P4RuntimeServer() as server:
        server.add_device(7)
        install({Target("s1", server.address, 7): program}, deadline_s=30)
        devices.append(server.device(7))
    (device,) = devices
    ((port, sent),) = device.inject(1, frame())
    assert port == 2
    assert (Ether(sent).dst, Ether(sent)[IP].ttl) == ("08:00:00:00:01:11", 8)
    assert device.inject(1, frame(destination="10.7.7.7")) == []
    assert sorted(port for port, _ in device.inject(1, frame(destination="10.0.2.77"))) == [3, 4]
    assert sorted(port for port, _ in device.inject(1, frame(source="10.9.3.3", protocol=17))) == [2, 7]
    assert sorted(port for port, _ in device.inject(1, frame(source="10.9.3.3", protocol=18))) == [2]


def entities_of(path):
    program = switch_program(path, None, None)
    return program.entities(program.schema())


def entry(**changes):
    return {**RUNTIME, "table_entries": [{**RUNTIME["table_entries"][1], **changes}]}


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        ("{", "s1-runtime.json: is not JSON"),
        ("[]", "s1-runtime.json: "),
        ({**RUNTIME, "table_entires": []}, "table_entires: Extra inputs are not permitted"),
        ({**RUNTIME, "target": "tofino"}, "target: 'tofino'"),
        ({**RUNTIME, "p4info": "build/other.txt"}, "p4info: build/other.txt: there is no such file"),
        ({**RUNTIME, "bmv2_json": None}, "bmv2_json: is missing"),
        (entry(table="MyIngress.nothing"), r"table_entries\[0\] \(MyIngress.nothing\)"),
        (entry(match={"hdr.ipv4.srcAddr": 1}), "has no key 'hdr.ipv4.srcAddr'; its keys are hdr.ipv4.dstAddr"),
        (entry(match={"hdr.ipv4.dstAddr": ["10.0.1.1", 32, 1]}), "has 3 parts"),
        (entry(match={"hdr.ipv4.dstAddr": ["10.0.1.1", 33]}), r"table_entries\[0\]"),
        (entry(action_name="MyIngress.fly"), "fly"),
        (entry(action_params={**FORWARD, "port": 512}), "512"),
        (entry(action_params={**FORWARD, "port": -1}), "-1"),
        (entry(action_params={"port": 1}), "dstAddr"),
        (entry(action_params={**FORWARD, "port": 10**30}), r"table_entries\[0\]"),
        (entry(default_action=True), "a default action has none"),
    ],
)
def test_what_is_wrong_is_named(exercise, runtime, message):
    path = written(exercise, runtime)
    with pytest.raises(RuntimeFileError, match=message) as caught:
        entities_of(path)
    assert "\n" not in str(caught.value)


def test_an_entry_that_the_switch_refuses_is_named_with_its_file(exercise):
    twice = {**RUNTIME, "table_entries": [RUNTIME["table_entries"][1]] * 2}
    program = switch_program(written(exercise, twice), None, None)
    with P4RuntimeServer() as server:
        server.add_device(1)
        with pytest.raises(ControllerError, match=r"s1-runtime.json: switch s1.*ALREADY_EXISTS"):
            install({Target("s1", server.address, 1): program}, deadline_s=30)


def test_files_go_to_the_switches_that_their_names_say(exercise):
    topology = load("two-racks")
    first, *others = (switch.name for switch in topology.switches)
    written(exercise, RUNTIME).unlink()
    written(exercise, RUNTIME, first)
    found = own_programs(topology, None, None, [exercise / "pod-topo"])
    assert list(found) == [first]
    build = exercise / "build"
    every = own_programs(topology, build / "basic.json", build / "basic.p4.p4info.txt", [exercise / "pod-topo"])
    assert list(every) == [first, *others]
    assert {every[name][2] for name in others} == {None}
    with pytest.raises(BadInput, match=r"expected SWITCH-runtime\.json, for one of"):
        own_programs(topology, None, None, [written(exercise, RUNTIME, "s99")])


def test_a_program_alone_needs_no_file(exercise):
    build = exercise / "build"
    program = SwitchProgram(build / "basic.p4.p4info.txt", build / "basic.json")
    assert program.entities(program.schema()).added == ()
    with pytest.raises(RuntimeFileError, match="No such file"):
        SwitchProgram(build / "no.txt", build / "basic.json").schema()
    with pytest.raises(RuntimeFileError, match="is no P4Info"):
        SwitchProgram(build / "basic.json", build / "basic.json").schema()
