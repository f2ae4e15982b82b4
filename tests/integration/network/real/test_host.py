"""P4Runtime requests to real-time switches work however they are run: by a command, a network or a run."""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import finsy as fy
import pytest
from finsy.proto import p4r

from p4reduce.cli.commands.switch import PcapRecorder, SwitchProcess
from p4reduce.cli.net_holder import embedded
from p4reduce.network.jobs.network import bundled
from p4reduce.network.real.io.path import PortSpec, Udp
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.targets import EmbeddedTarget
from p4reduce.topologies import load
from p4switch.abi import MAX_FRAME_BYTES
from p4switch.p4runtime import StatusCode
from tests.support.p4runtime.client import RawClient
from tests.support.p4runtime.configs import config, schema
from tests.support.p4runtime.idle import idle_config

DEADLINE_S = 60.0
ETHERNET = bytes.fromhex("00000000000102000000000a0900")
FRAME = ETHERNET + bytes(46)
MILLISECOND = 10**6
TOPOLOGY = load("star:hosts=1,servers=1")  # one switch: device 1
Ports = Mapping[int, PortSpec]


@dataclass
class Running:
    """A running switch: its P4Runtime address, and the UDP port behind each of its ports."""

    address: str
    listening: Callable[[int], tuple[str, int]]


class Sockets:
    """Wires of a run that are sockets of the test."""

    shaping = "none"

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    def ports(self) -> dict[str, Ports]:
        return {TOPOLOGY.switches[0].name: self._ports}


def command(stack: ExitStack, ports: Ports) -> Running:
    """Run ``p4reduce switch``."""
    process = SwitchProcess("127.0.0.1:0", [1], cpu_port=510, recorder=PcapRecorder([]), ports={1: ports})
    stack.enter_context(process)
    return Running(process.server.address, lambda port: process.real.address("switch1", port))


def network(stack: ExitStack, ports: Ports) -> Running:
    """Run ``p4reduce net``."""
    name = TOPOLOGY.switches[0].name
    host = stack.enter_context(embedded(TOPOLOGY, {name: ports}, "127.0.0.1:0"))
    return Running(host.server.address, lambda port: host.switches.address(name, port))


def run(stack: ExitStack, ports: Ports) -> Running:
    """Run ``p4reduce run --time real``; its controller has lost the switches to another one."""
    target = EmbeddedTarget(Experiment(time="real"), TOPOLOGY, bundled(64), Sockets(ports), None)  # type: ignore[arg-type]
    stack.enter_context(target)
    name, address, _ = target.host.targets[0]
    return Running(address, lambda port: target.host.switches.address(name, port))


class World:
    """A running switch with two hosts, and the primary client."""

    def __init__(self, start: Callable[[ExitStack, Ports], Running], stack: ExitStack) -> None:
        self.hosts = {port: stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for port in (1, 2)}
        for one in self.hosts.values():
            one.bind(("127.0.0.1", 0))
            one.settimeout(DEADLINE_S)
        running = start(stack, {port: Udp(("127.0.0.1", 0), one.getsockname()) for port, one in self.hosts.items()})
        for port, one in self.hosts.items():
            one.connect(running.listening(port))
        self.client = stack.enter_context(RawClient(running.address, election_id=1 << 100, stream_s=DEADLINE_S))
        self.client.arbitrate()

    def insert(self, port: int, to: int, *, idle_ns: int = 0) -> None:
        """Forward frames of FRAME's kind from one port to another."""
        made = fy.P4TableEntry(
            "exact_table", match=fy.Match(dst=1, ingress_port=port), action=fy.Action("forward", port=to)
        ).encode(schema())
        made.table_entry.idle_timeout_ns = idle_ns
        self.client.write(p4r.Update(type=p4r.Update.INSERT, entity=made))

    def told(self, kind: str) -> Any:
        """Return the next message of a kind on the stream."""
        while (message := self.client.receive()).WhichOneof("update") != kind:
            pass
        return getattr(message, kind)


@pytest.fixture(scope="module", params=[command, network, run], ids=lambda start: start.__name__)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(request.param, stack)


def test_a_packet_reaches_the_controller(world: World) -> None:
    world.client.set_pipeline(config())
    world.insert(1, 510)
    world.hosts[1].send(FRAME)
    assert world.told("packet").payload.endswith(FRAME)


def test_a_packet_of_the_controller_leaves_by_its_port(world: World) -> None:
    world.client.set_pipeline(config())
    numbers = [(1, (2).to_bytes(1, "big")), (2, b"\0"), (3, b"\0")]
    metadata = [p4r.PacketMetadata(metadata_id=number, value=value) for number, value in numbers]
    packet = p4r.PacketOut(payload=FRAME, metadata=metadata)
    world.client.send(p4r.StreamMessageRequest(packet=packet))
    assert world.hosts[2].recv(1 << 16) == FRAME


def test_a_packet_of_the_controller_that_is_too_short_is_an_error_that_it_is_told(world: World) -> None:
    world.client.set_pipeline(config())
    numbers = [(1, (2).to_bytes(1, "big")), (2, b"\0"), (3, b"\0")]
    metadata = [p4r.PacketMetadata(metadata_id=number, value=value) for number, value in numbers]
    packet = p4r.PacketOut(payload=b"short", metadata=metadata)
    world.client.send(p4r.StreamMessageRequest(packet=packet))
    told = world.told("error")
    assert told.canonical_code == StatusCode.FAILED_PRECONDITION
    assert "is not in 14" in told.message


def test_a_digest_reaches_the_controller(world: World) -> None:
    world.client.set_pipeline(config("control"))
    made = fy.P4DigestEntry("report_t", max_list_size=10, max_timeout_ns=MILLISECOND).encode(schema("control"))
    world.client.write(p4r.Update(type=p4r.Update.INSERT, entity=made))
    world.hosts[1].send(bytes([6, 7, 0, 5]) + bytes(50))
    (sample,) = world.told("digest").data  # the list never fills, so the time-out must send it
    assert sample.struct.members[0].bitstring == b"\x05"


def test_an_entry_that_nothing_hits_is_reported(world: World) -> None:
    world.client.set_pipeline(idle_config())
    world.insert(1, 2, idle_ns=MILLISECOND)
    told = world.told("idle_timeout_notification")
    assert [one.idle_timeout_ns for one in told.table_entry] == [MILLISECOND]
    assert told.timestamp > 10**18  # wall-clock time


def test_frames_up_to_the_switch_s_own_limit_pass(world: World) -> None:
    world.client.set_pipeline(config())
    world.insert(1, 2)
    world.hosts[1].send(ETHERNET + bytes(MAX_FRAME_BYTES + 1 - len(ETHERNET)))
    longest = ETHERNET + bytes(MAX_FRAME_BYTES - len(ETHERNET))
    world.hosts[1].send(longest)
    assert world.hosts[2].recv(1 << 16) == longest
