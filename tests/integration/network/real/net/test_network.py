"""Networks of namespaces: frames that a host sends appear at the switch's port, and nothing is left behind.

Each test runs a function of this file in a separate process and separate namespaces.
"""

import errno
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from p4reduce.base.errors import RealError
from p4reduce.network.real.net import RealNetwork, enter_command, is_entered, why_not
from p4reduce.network.real.net import network as interfaces
from p4reduce.topologies import Topology, TopologyBuilder, load

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no network namespaces: {REASON}")

DEADLINE_S = 240
STAR = "star:hosts=2,rate=200M"
TREE = "leaf-spine:leaves=2,spines=1,hosts=1,rate=200M"
ETH_P_IP = 0x0800
UDP_PORT = 9400
SO_NO_CHECK = 11
SEND = (
    "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, 11, 1); "
    "s.bind(('', 9400)); s.sendto(sys.argv[2].encode(), (sys.argv[1], 9400))"
)
RECEIVE = (
    "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 9400)); s.settimeout(200); "
    "print('ready', flush=True); print(*s.recvfrom(100))"
)


def run_entered(case: str, *arguments: str, prefix: tuple[str, ...] = ()) -> str:
    command = [*prefix, *enter_command([sys.executable, __file__, case, *arguments])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def packets(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
    opened.bind((interface, ETH_P_IP))
    opened.settimeout(200)
    return opened


def incoming(port: socket.socket) -> bytes:
    while True:
        frame, address = port.recvfrom(70_000)
        if address[2] != socket.PACKET_OUTGOING:
            return frame


def forward(frame: bytes, topology: Topology, host: str) -> bytes:
    """Set the MACs of the next hop, as a switch would."""
    return topology.node(host).mac.to_bytes(6, "big") + frame[:6] + frame[12:]


def a_host_sends_and_another_receives(spec: str) -> None:
    topology = load(spec)
    with RealNetwork(topology, name="test", shape=True) as network:
        assert network.shaping.shaped == 2 * len(topology.links)
        out, into = packets(network.switch_interfaces["s1"][1]), packets(network.switch_interfaces["s1"][2])
        receiver = network.popen("h2", [sys.executable, "-c", RECEIVE], stdout=subprocess.PIPE, text=True)
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        network.popen("h1", [sys.executable, "-c", SEND, "10.0.0.2", "hello"])
        frame = incoming(out)
        assert frame[:6] == topology.node("s1").mac.to_bytes(6, "big")
        assert frame[6:12] == topology.node("h1").mac.to_bytes(6, "big")
        assert frame[26:34] == bytes([10, 0, 0, 1, 10, 0, 0, 2])
        assert frame[34:] == struct.pack("!HHHH", UDP_PORT, UDP_PORT, 13, 0) + b"hello"  # checksum 0 means none
        into.send(forward(frame, topology, "h2"))
        assert receiver.communicate(timeout=200)[0] == "b'hello' ('10.0.0.1', 9400)\n"
        # An aggregating switch has its own address.
        network.popen("h1", [sys.executable, "-c", SEND, topology.node("s1").ip_text, "push"])
        assert incoming(out)[:6] == topology.node("s1").mac.to_bytes(6, "big")
    assert names() == ["lo"]


def tcp_crosses_without_offloads(spec: str) -> None:
    """A Python relay forwards whole segments: none exceeds a frame, and every checksum is right."""
    topology = load(spec)
    with RealNetwork(topology, name="test") as network:
        ends = {host: packets(network.switch_interfaces["s1"][port]) for port, host in ((1, "h1"), (2, "h2"))}
        serve = (
            "import socket; s = socket.create_server(('', 5000)); print('ready', flush=True); "
            "c, _ = s.accept(); n = 0\nwhile d := c.recv(65536): n += len(d)\nprint(n)"
        )
        server = network.popen("h2", [sys.executable, "-c", serve], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        send = "import socket; s = socket.create_connection(('10.0.0.2', 5000)); s.sendall(bytes(300000)); s.close()"
        client = network.popen("h1", [sys.executable, "-c", send])
        watch = os.pidfd_open(server.pid)
        longest = 0
        while True:
            ready, _, _ = select.select([*ends.values(), watch], [], [], 200)
            assert ready, "nothing moves"
            if watch in ready:
                break
            for host, other in (("h1", "h2"), ("h2", "h1")):
                if ends[host] in ready:
                    frame, address = ends[host].recvfrom(70_000)
                    if address[2] != socket.PACKET_OUTGOING:
                        longest = max(longest, len(frame))
                        ends[other].send(forward(frame, topology, other))
        assert server.stdout.read() == "300000\n"
        assert longest == 1514
        client.kill()
        client.wait()


def every_link_carries(spec: str, *, relayed: bool) -> None:
    """Frames sent into one end of a link, or of half a link, leave at the other end."""
    topology = load(spec)
    with RealNetwork(topology, name="test", shape=True, relayed=relayed) as network:
        assert len(network.relays) == (len(topology.links) if relayed else 0)
        pairs = []
        for relay in network.relays:
            for node, port, half in (
                (relay.link.a, relay.link.port_a, relay.a_interface),
                (relay.link.b, relay.link.port_b, relay.b_interface),
            ):
                if topology.node(node).is_switch:
                    pairs.append((network.switch_interfaces[node][port], half))
        if not network.relays:
            pairs = [
                (network.switch_interfaces[link.a][link.port_a], network.switch_interfaces[link.b][link.port_b])
                for link in topology.links
                if topology.node(link.a).is_switch and topology.node(link.b).is_switch
            ]
        assert pairs
        for number, (one, other) in enumerate(pairs):
            for source, target in ((one, other), (other, one)):
                opened = packets(target)
                frame = bytes(12) + struct.pack("!HI", ETH_P_IP, number) + bytes(50)
                packets(source).send(frame)
                assert incoming(opened) == frame


def names() -> list[str]:
    return sorted(name for _, name in socket.if_nameindex())


def odd_names_become_numbers() -> None:
    builder = TopologyBuilder("odd")
    builder.switch("a-switch-with-a-long-name")
    builder.switch("s1")
    builder.host("h1")
    builder.link("s1", "a-switch-with-a-long-name", "1G", "1us")
    builder.link("h1", "a-switch-with-a-long-name", "1G", "1us")
    with RealNetwork(builder.build(), name="test") as network:
        assert network.switch_interfaces == {"a-switch-with-a-long-name": {1: "s1-1", 2: "s1-2"}, "s1": {1: "s2-1"}}


def programs_are_refused_from_threads(spec: str) -> None:
    with RealNetwork(load(spec), name="test") as network:
        errors: list[str] = []

        def attempt() -> None:
            try:
                network.popen("h1", ["true"])
            except RealError as error:
                errors.append(str(error))

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        assert "main thread" in errors[0]
        assert network.popen("h1", ["no-such-program"], stderr=subprocess.DEVNULL).wait(200) == 127


def a_host_runs_for_ever(spec: str) -> None:
    with RealNetwork(load(spec), name="test") as network:
        child = network.popen("h1", [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"])
        child.wait()


class NoTokenBucket:
    """Answer of a kernel without tbf, which this kernel may have."""

    def __init__(self) -> None:
        self.status: dict[str, bool] = {}

    def nlm_request(self, *_: object) -> None:
        raise NetlinkError(errno.ENOENT)


def what_the_kernel_refuses_is_an_error() -> None:
    with pytest.raises(RealError, match="cannot shape links: 'modprobe sch_tbf'"):
        interfaces.shape(NoTokenBucket(), 1, 10**8, 10)
    with pytest.raises(RealError, match="the kernel refused to build the network: File exists"):
        shape_twice()
    with interfaces.netlink() as route, pytest.raises(RealError, match="there is no interface 'nosuch'"):
        interfaces.index_of(route, "nosuch")


def shape_twice() -> None:
    with interfaces.netlink() as route:
        for _ in range(2):
            assert interfaces.shape(route, interfaces.index_of(route, "lo"), 10**8, 10)


def one_after_the_other() -> None:
    """Run several checks in one process, since starting a process costs more."""
    for spec, relayed in ((TREE, False), (TREE, True), (STAR, True)):
        every_link_carries(spec, relayed=relayed)
        assert names() == ["lo"]
    odd_names_become_numbers()
    programs_are_refused_from_threads(STAR)
    what_the_kernel_refuses_is_an_error()
    assert names() == ["lo"]


def test_a_host_sends_and_another_receives() -> None:
    run_entered(a_host_sends_and_another_receives.__name__, STAR)


def test_a_host_sends_and_another_receives_in_a_user_namespace() -> None:
    from tests.support.real import rootless  # imported here, as the file also runs as a script

    if (reason := rootless.why_not()) is not None:
        pytest.skip(reason)
    run_entered(a_host_sends_and_another_receives.__name__, STAR, prefix=rootless.prefix())


def test_tcp_crosses_without_offloads() -> None:
    run_entered(tcp_crosses_without_offloads.__name__, STAR)


def test_links_names_and_programs() -> None:
    run_entered(one_after_the_other.__name__)


@pytest.mark.parametrize(
    ("number", "why"),
    [(errno.EPERM, "only root may make"), (errno.EOPNOTSUPP, "modprobe vxlan"), (errno.EBUSY, "VXLAN")],
)
def test_why_there_are_no_tunnels_is_said(monkeypatch: pytest.MonkeyPatch, number: int, why: str) -> None:
    def refuse(*_: object) -> None:
        raise NetlinkError(number)

    monkeypatch.setattr(interfaces, "add_tunnel", refuse)
    assert why in str(interfaces.why_no_tunnels())


def test_nothing_is_built_outside() -> None:
    assert not is_entered()
    with pytest.raises(RealError, match="enter_command"), RealNetwork(load(STAR), name="test"):
        pass


def test_a_killed_run_takes_its_programs_with_it() -> None:
    command = enter_command([sys.executable, __file__, a_host_runs_for_ever.__name__, STAR])
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline() == "up\n"
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    assert len(children) == 1
    ended = os.pidfd_open(int(children[0]))
    os.kill(run.pid, signal.SIGKILL)
    assert select.select([ended], [], [], DEADLINE_S)[0], "the program in the host outlived its run"
    run.wait()


if __name__ == "__main__":
    chosen: Callable[..., None] = globals()[sys.argv[1]]
    chosen(*sys.argv[2:])
