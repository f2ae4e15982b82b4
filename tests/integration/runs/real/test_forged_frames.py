"""Raw sockets in a host's namespace: frames with forged sources get no farther than the host's switch."""

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce.network.real.bmv2 import find_bmv2
from p4reduce.network.real.net import state, why_not
from p4reduce.topologies import Topology, load
from tests.support.golden.frames import Kind, Packet, encode, with_checksum

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no network namespaces: {REASON}")

DEADLINE_S = 240
TREE = "leaf-spine:leaves=2,spines=1,hosts=2"
SEND = (
    "import socket, sys; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0); s.bind(('eth0', 0x0800)); "
    "[s.send(bytes.fromhex(line)) for line in sys.stdin]"
)
RECEIVE = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
s.bind(('eth0', 0x0800))
s.settimeout(200)
print('ready', flush=True)
while True:
    frame, (_, _, kind, *_) = s.recvfrom(70_000)
    if kind != socket.PACKET_OUTGOING:
        print(frame.hex(), flush=True)
        if frame[18:20] == b'\\xff\\xff':
            break
"""
LAST = 0xFFFF
"""IPv4 identification of the frame that ends a receiver"""


def begin(host: str, program: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "p4reduce.cli.entry", "net", "exec", host, "--"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*command, sys.executable, "-I", "-c", program], text=True, **pipes)


@pytest.fixture
def network(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Topology]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path))
        result = CliRunner().invoke(app, ["net", "up", TREE, "--lanes", "64", "--target", request.param, "--json"])
        assert result.exit_code == 0, result.stderr
        assert len(json.loads(result.stdout)["hosts"]) == 4
        yield load(TREE)
        assert CliRunner().invoke(app, ["net", "down"]).exit_code == 0
        state.remove_stale(also_alive=True)


def packet(topology: Topology, liar: str, source: str, target: str, **fields: int) -> Packet:
    gateway = topology.node(topology.neighbours(liar)[0])
    made = Packet(
        gateway.mac, topology.node(liar).mac, topology.node(source).ip, topology.node(target).ip, 9400, 9400,
        Kind.RESULT, 1, 0, 3, tuple(range(64)), count=2, exponent=130,
    )  # fmt: skip
    return replace(made, **fields)


def changed(frame: Packet, **bytes_at: int) -> bytes:
    """Return a frame with some IPv4 header bytes changed, so that it is no INC packet."""
    raw = bytearray(encode(frame))
    for place, value in bytes_at.items():
        raw[int(place.removeprefix("at"))] = value
    return with_checksum(bytes(raw))


def lies(topology: Topology, liar: str, target: str) -> list[bytes]:
    """Return frames in the name of all others: all types, INC and other ports, other protocols, fragments."""
    made = []
    for node in topology.nodes:
        if node.name == liar:
            continue
        frame = packet(topology, liar, node.name, target)
        made += [encode(replace(frame, kind=kind)) for kind in (*Kind, 0)]
        made += [encode(replace(frame, udp_dst=9500)), encode(replace(frame, lanes=None, resend=True))]
        made += [changed(frame, at23=6), changed(frame, at20=0x20), changed(frame, at21=4)]
    return made


BMV2 = pytest.param(
    "bmv2", marks=[pytest.mark.bmv2, pytest.mark.skipif(find_bmv2() is None, reason="needs simple_switch_grpc")]
)


@pytest.mark.parametrize("network", ["embedded", BMV2], indirect=True)
def test_no_forged_frame_reaches_another_host(network: Topology) -> None:
    """In the same rack and in the other; frames with the true source arrive, also a RESULT."""
    receivers = {target: begin(target, RECEIVE) for target in ("h2", "h4")}
    for receiver in receivers.values():
        assert receiver.stdout is not None
        assert select.select([receiver.stdout], [], [], DEADLINE_S)[0]
        assert receiver.stdout.readline() == "ready\n"
    sent = [lie for target in receivers for lie in lies(network, "h1", target)]
    assert len(sent) > 80
    true = [
        packet(network, "h1", "h1", target, udp_dst=port, identification=last)
        for target in receivers
        for port, last in ((9400, 1), (9500, LAST))
    ]
    frames = [*sent, *map(encode, true)]
    sender = begin("h1", SEND)
    assert sender.communicate("".join(f"{frame.hex()}\n" for frame in frames), timeout=DEADLINE_S) == ("", "")
    for target, receiver in receivers.items():
        out, error = receiver.communicate(timeout=DEADLINE_S)
        assert receiver.returncode == 0, error
        expected = [encode(one)[26:] for one in true if one.ip_dst == network.node(target).ip]
        assert [bytes.fromhex(line)[26:] for line in out.split()] == expected
