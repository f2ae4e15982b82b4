"""Captures on the command line, and the folder of the dissector."""

import json

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.utils import wrpcap
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce.workers.scapy_layer import INC, dissector

APP = app


def call(*arguments, env=None):
    return CliRunner().invoke(APP, ["pcap", *map(str, arguments)], env=env)


@pytest.fixture
def capture(tmp_path):
    path = tmp_path / "some.pcap"
    head = Ether() / IP(src="10.0.0.1", dst="10.128.0.1") / UDP(sport=9400, dport=9400)
    first, second, third = head / INC(seq=7, job=3, lanes=[5, 6]), Ether() / ARP(), head / INC(type=3, seq=8, resend=1)
    for frame, time in ((first, 1), (second, 1.000002), (third, 1.000005)):
        frame.time = time
    wrpcap(str(path), [first, second, third])
    return path


def test_a_line_for_each_packet(capture):
    lines = call(capture, env={"COLUMNS": "100"}).stdout.splitlines()
    assert [line.split("B  ")[1] for line in lines[::2]] == [
        "10.0.0.1 > 10.128.0.1  PUSH job 3 epoch 0 chunk 7, 2 lanes",
        "10.0.0.1 > 10.128.0.1  RESULT job 0 epoch 0 chunk 8, 0 lanes, resend",
    ]
    assert lines[0].split()[:4] == ["0.000", "us", "70", "B"]
    assert "ARP" in lines[1]
    assert lines[2].split()[0] == "5.000"


def test_fields_as_json(capture):
    rows = json.loads(call(capture, "--json").stdout)
    assert [row.get("seq") for row in rows] == [7, None, 8]
    assert rows[0]["lanes"] == 2
    assert rows[2]["time_ns"] - rows[0]["time_ns"] == 5000


def test_the_dissector_is_printed_and_installed(tmp_path):
    assert call("--dissector").stdout == dissector()
    done = call("--install", "--json", env={"HOME": str(tmp_path)})
    path = tmp_path / ".local/lib/wireshark/plugins/p4reduce.lua"
    assert json.loads(done.stdout) == {"dissector": str(path)}
    assert path.read_text() == dissector()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is not a pcap file"), (b"text\n" * 9, "is not a pcap file"), (None, "ends within")],
)
def test_what_is_no_capture(tmp_path, capture, content, message):
    path = tmp_path / "odd.pcap"
    path.write_bytes(capture.read_bytes()[:-3] if content is None else content)
    done = call(path)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [(), ("--dissector", "--install"), (__file__, "--install")])
def test_one_thing_at_a_time(arguments):
    done = call(*arguments)
    assert done.exit_code == 2
    assert "give one of: pcap files" in done.stderr
