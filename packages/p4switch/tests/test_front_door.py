"""``Switch``, its fixtures and its command: entries by name, frames in and out, errors that say what would fit."""

import json
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from p4switch import Switch
from p4switch.command import main
from p4switch.tables import EntryExists, NoSuchEntry

HERE = Path(__file__).parent
ROUTER = HERE / "router.p4"
TEN_LINES = HERE.parents[2] / "tests/data/ten_lines.p4"
MAC = "02:00:00:00:00:09"


@pytest.fixture(params=["compiled", "interpreted"])
def switch(request, p4switch):
    return p4switch(ROUTER, executor=request.param)


def packet(to="10.0.1.9", port=80):
    return (
        Ether(dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:00:01") / IP(src="10.9.9.9", dst=to, ttl=64) / UDP(dport=port)
    )


@pytest.mark.parametrize(
    ("key", "arguments"),
    [
        ("10.0.1.0/24", (MAC, 2)),
        (("10.0.1.0", 24), {"port": 2, "mac": MAC}),
        ({"dst": "10.0.1.0/24"}, [0x020000000009, "2"]),
        (["10.0.1.9"], (bytes.fromhex("020000000009"), b"\x02")),
        (0x0A000109, (MAC, "0b10")),
    ],
)
def test_a_route(switch, key, arguments):
    assert switch.send(1, packet()) == []
    switch.insert("route", key, "forward", arguments)
    ((port, frame),) = switch.send(1, packet())
    sent = Ether(frame)
    assert (port, sent.dst, sent[IP].ttl) == (2, MAC, 63)
    assert switch.send(1, bytes(packet())) == [(2, frame)]
    assert switch.send(1, packet("10.0.2.9")) == []
    assert switch.counter("routed").read(2) == (2, 2 * len(packet()))
    switch.remove("route", key)
    assert switch.send(1, packet()) == []
    switch.reset()
    assert switch.counter("routed").read(2) == (0, 0)


def test_ternary_range_optional_and_priorities(switch):
    switch.insert("route", "0.0.0.0/0", "forward", (MAC, 1))
    switch.insert("filter", [("10.0.0.0", "255.0.0.0"), (0, 1023), None], "deny", priority=1)
    assert switch.send(1, packet(port=80)) == []
    assert len(switch.send(1, packet(port=8000))) == 1
    switch.insert("Router.filter", {"src": None, "dport": 80, "protocol": 17}, "permit", priority=2)
    assert len(switch.send(1, packet(port=80))) == 1
    switch.remove("filter", {"src": None, "dport": 80, "protocol": 17}, priority=2)
    assert switch.send(1, packet(port=80)) == []


def test_groups_defaults_and_registers(switch):
    switch.multicast(5, [2, 3, (4, 7)])
    switch.default("route", "flood", [5])
    assert [port for port, _ in switch.send(1, packet())] == [2, 3, 4]
    switch.register("seen").write(1, 41)
    switch.send(1, packet())
    assert switch.register("Router.seen").read(1) == 42


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda s: s.insert("rout", "10.0.0.0/8", "forward", (MAC, 1)), "no table 'rout': did you mean 'route'"),
        (lambda s: s.insert("route", "10.0.0.0/8", "forwards", (MAC, 1)), "did you mean 'forward'"),
        (lambda s: s.insert("route", "10.0.0.0/33", "forward", (MAC, 1)), "at most 32 bits"),
        (lambda s: s.insert("route", "10.0.0.0.0", "forward", (MAC, 1)), "or an IPv4 address"),
        (lambda s: s.insert("route", "10.0.0.0/8", "forward", (MAC,)), "1 are given, 2 are wanted: mac, port"),
        (lambda s: s.insert("route", "10.0.0.0/8", "forward", (MAC, 512)), "port: 512 does not fit 9 bits"),
        (lambda s: s.insert("route", "10.0.0.0/8", "forward", (MAC, -1)), "does not fit 9 bits"),
        (lambda s: s.insert("route", "10.0.0.0/8", "forward", (MAC, True)), "True is no number"),
        (lambda s: s.insert("route", "10.0.0.0/8", "forward", {"port": 1}), "'mac' is missing"),
        (lambda s: s.insert("route", ["10.0.0.0/8", 3], "forward", (MAC, 1)), "2 are given, 1 are wanted: dst"),
        (lambda s: s.insert("route", "10.0.0.0/8", "forward", (MAC, 1), priority=3), "is lpm and has no priorities"),
        (lambda s: s.insert("filter", [None, None, None], "deny"), "priority is missing"),
        (lambda s: s.insert("filter", [None, (9, 2), None], "deny", priority=1), "9 to 2 is no range"),
        (lambda s: s.insert("filter", [(1, 2, 3), None, None], "deny", priority=1), "a pair is wanted"),
        (lambda s: s.register("nothing"), "no register 'nothing'"),
        (lambda s: s.send(512, b""), "port 512 is not in"),
    ],
)
def test_what_does_not_fit_is_named(p4switch, call, says):
    with pytest.raises(ValueError, match=says):
        call(p4switch(ROUTER))


def test_entries_are_there_once(p4switch):
    switch = p4switch(ROUTER)
    switch.insert("route", "10.0.0.0/8", "forward", (MAC, 1))
    with pytest.raises(EntryExists):
        switch.insert("route", "10.0.0.0/8", "forward", (MAC, 2))
    with pytest.raises(NoSuchEntry):
        switch.remove("route", "10.0.0.0/9")


def test_a_trace_is_text(p4switch):
    text = str(p4switch(ROUTER, executor="interpreted").trace(1, packet()))
    assert text.startswith("packet 1: port 1, 42 bytes")
    assert "route" in text
    with pytest.raises(ValueError, match="interpreted"):
        p4switch(ROUTER).trace(1, packet())


def test_a_controller_reads_its_program():
    with Switch(ROUTER).serve() as server, grpc.insecure_channel(server.address) as channel:
        request = p4r.GetForwardingPipelineConfigRequest(device_id=1)
        config = p4r_grpc.P4RuntimeStub(channel).GetForwardingPipelineConfig(request).config
    assert {table.preamble.alias for table in config.p4info.tables} == {"route", "filter"}


def test_the_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(TEN_LINES)]) == 0
    assert main(["compile", str(TEN_LINES)]) == 0
    assert (tmp_path / "ten_lines.json").exists()
    assert (tmp_path / "ten_lines.p4info.txt").exists()
    capsys.readouterr()
    frame = "0309" + "00" * 60
    for program in (str(TEN_LINES), "ten_lines.json"):
        assert main(["run", program, "-p", f"1:{frame}", "-p", f"2:{frame}"]) == 0
        assert capsys.readouterr().out.split() == ["3:03080001" + "00" * 58, "3:03080002" + "00" * 58]
    assert main(["trace", "ten_lines.json", "-p", f"1:{frame}"]) == 0
    assert "left by port 3" in capsys.readouterr().out


def test_a_program_that_fits_a_target_and_one_that_does_not(tmp_path, capsys):
    assert main(["fits", str(TEN_LINES)]) == 0
    assert "ten_lines.p4 on Intel Tofino 2: nothing speaks against it" in capsys.readouterr().out
    twice = TEN_LINES.read_text().replace("seen.write(", "seen.write((bit<32>)s.ingress_port + 1, 7); seen.write(", 1)
    (tmp_path / "twice.p4").write_text(twice)
    assert main(["fits", str(tmp_path / "twice.p4"), "--target", "tofino", "--json"]) == 1
    assert not json.loads(capsys.readouterr().out)["fits"]
    assert main(["fits", str(TEN_LINES), "--target", "abacus"]) == 2
    assert "target: 'abacus' is none of tofino2, tofino, rmt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["check", "absent.p4"], "absent.p4: No such file or directory"),
        (["check", "/dev/zero"], "/dev/zero: Is a device; give a file"),
        (["run", str(TEN_LINES), "-p", "zz"], "--packet zz: give PORT:HEX"),
        (["run", str(TEN_LINES), "-p", "1:0"], "--packet 1:0: give PORT:HEX"),
        (["run", str(TEN_LINES), "-p", "900:00"], "port 900 is not in"),
        (["run", str(TEN_LINES), "-D", "1=2", "-p", "1:00"], "'1' is no name"),
        (["serve", str(TEN_LINES), "--address", "256.0.0.1:1"], "256.0.0.1"),
    ],
)
def test_wrong_words(words, says, capsys):
    assert main(words) == 2
    assert says in capsys.readouterr().err


ALONE = """
import sys
for name in "numba networkx pydantic yaml rich grpc google scipy scapy finsy typer p4reduce".split():
    sys.modules[name] = None
from p4switch import Switch
switch = Switch(sys.argv[1])
print(switch.send(1, bytes([3, 9]) + bytes(60))[0][0])
"""


def test_it_needs_numpy_and_llvmlite_alone():
    done = subprocess.run([sys.executable, "-c", ALONE, str(TEN_LINES)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("3\n", "")
