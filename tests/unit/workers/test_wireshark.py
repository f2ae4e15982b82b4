"""The Lua dissector agrees with the wire format: by its text, and by tshark if installed."""

import re
import shutil
import subprocess

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from p4reduce.workers import wire
from p4reduce.workers.scapy_layer import INC, dissector

LINE = re.compile(r'\{ "(\w+)", (\d+), (\d+), ProtoField\.(bool|uint(\d+))\("p4reduce\.(\w+)", ".*?", (.*?)\) \},')
FRAMES = [
    INC(type=1, seq=7, job=3, epoch=2, count=5, iteration=11, exponent=127, lanes=[1, -2, 3]),
    INC(type=2, seq=2**32 - 1, resend=1),
    INC(type=3, seq=0, job=65535, saturated=1, ecn_echo=1, lanes=[2**31 - 1, -(2**31)]),
]


def test_every_field_stands_where_the_wire_format_has_it():
    """Bits are counted here, without the helpers that generate the dissector."""
    found = LINE.findall(dissector())
    at = 0
    for (name, first, size, kind, bits, short, rest), item in zip(found, wire.INC.fields, strict=True):
        assert (name, short) == (item.name, item.name)
        assert (int(first), int(size)) == (at // 8, (at % 8 + item.bits + 7) // 8)
        mask = re.search(r"0x([0-9a-f]+)$", rest)
        whole = ((1 << item.bits) - 1) << (8 * int(size) - at % 8 - item.bits)
        assert (int(mask[1], 16) if mask else (1 << 8 * int(size)) - 1) == whole
        assert kind == "bool" or int(bits) == 8 * int(size)
        at += item.bits
    assert at == 8 * wire.INC.bytes


def test_it_is_asked_for_our_port():
    assert f'DissectorTable.get("udp.port"):add({wire.INC_UDP_PORT}, inc)' in dissector()


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark (apt install tshark)")
def test_tshark_shows_what_was_sent(tmp_path):
    script, capture = tmp_path / "p4reduce.lua", tmp_path / "sent.pcap"
    script.write_text(dissector())
    sent = [Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=9400, dport=9400) / inc for inc in FRAMES]
    foreign = Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=9400, dport=9400) / b"\x21 no version of ours"
    wrpcap(str(capture), [*sent, foreign])
    names = [item.name for item in wire.INC.fields]
    fields = [part for name in (*names, "lanes", "lane") for part in ("-e", f"p4reduce.{name}")]
    command = ["tshark", "-X", f"lua_script:{script}", "-r", capture, "-T", "fields", *fields]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "rror" not in done.stderr
    shown = [line.split("\t") for line in done.stdout.splitlines()]
    for frame, row in zip(sent, shown, strict=False):
        inc = Ether(bytes(frame))[INC]
        assert [int(cell) for cell in row[: len(names)]] == [int(getattr(inc, name)) for name in names]
        lanes = inc.lanes or []
        assert row[len(names) :] == [str(len(lanes)), ",".join(map(str, lanes))]
    assert not "".join(shown[len(sent)])
