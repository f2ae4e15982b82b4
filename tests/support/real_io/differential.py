"""Differential test of BMv2 and the embedded switch over veth: the frames leaving each port are compared.

Run it in its own network namespaces (`enter_command`); it prints one line of JSON.
"""

import json
import random
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import P4Program, seeded_key
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.network.jobs.network import EmbeddedSwitches, bundled
from p4reduce.network.real.bmv2 import Bmv2Switches
from p4reduce.network.real.io.path import Veth
from p4reduce.network.real.net import RealNetwork
from p4reduce.network.real.switches import PausingLock, RealSwitches
from p4reduce.topologies import Node, Topology, load
from p4reduce.workers import wire

SWITCH = "s1"
WINDOW = 8
BURST = 8
DEADLINE_S = 60.0
MARK_PORT = 7
ETH_P_ALL = 3
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23


@dataclass
class Outputs:
    """Frames that left by each port, and the P4 program's counters."""

    frames: dict[int, list[bytes]] = field(default_factory=dict)
    counters: Any = None


class Traffic:
    """Random frames: of two jobs (one with a parameter server), between hosts, and invalid ones."""

    def __init__(self, topology: Topology, plans: list[Plan], lanes: int, seed: int) -> None:
        self.topology = topology
        self.plans = plans
        self.lanes = lanes
        self.draw = random.Random(seed)
        self.done = [dict.fromkeys(plan.workers, 0) for plan in plans]

    def burst(self) -> tuple[int, list[bytes]]:
        """Return a port, and frames that arrive there in sequence."""
        host = self.draw.choice(self.topology.hosts)
        made = [self.frame(host) for _ in range(self.draw.randint(1, BURST))]
        return self.topology.port(SWITCH, host.name), made

    def frame(self, host: Node) -> bytes:
        draw = self.draw
        kind = draw.random()
        if kind < 0.05:
            target = draw.choice(self.topology.hosts)
            return self.datagram(host, target.ip, draw.getrandbits(32))
        if kind < 0.08:
            return bytes(12) + b"\x08\x00" + draw.randbytes(draw.randint(0, 200))
        place = draw.randrange(len(self.plans))
        made = bytearray(self.inc(host, place))
        if kind < 0.11:
            at = draw.randrange(14, len(made))
            made[at] ^= 1 << draw.randrange(8)
        elif kind < 0.12:
            del made[draw.randrange(14, len(made)) :]
        return bytes(made)

    def inc(self, host: Node, place: int) -> bytes:
        """Return an INC frame: mostly the host's next one, else an old one, or one with another type or sender."""
        draw, plan, done = self.draw, self.plans[place], self.done[place]
        low = min(done.values())
        own = host.name if host.name in done else plan.workers[0]
        seq, resend, kind = done[own], 0, wire.PacketType.PUSH
        if host.name == plan.server:
            kind, seq = wire.PacketType.RESULT, low - draw.randint(0, 2)
        elif draw.random() < 0.2 or seq >= low + WINDOW:
            seq, resend = low + draw.randint(-3, WINDOW), 1
        else:
            done[own] += 1
        if draw.random() < 0.03:
            kind = draw.choice(list(wire.PacketType))
        if draw.random() < 0.02:
            seq = draw.getrandbits(32)
        up = plan.up(own) if host.name != plan.server else plan.address(host.name, SWITCH)
        values = wire.headers(
            1,
            ethernet_src=host.mac,
            ethernet_dst=up.mac,
            ipv4_src=host.ip if draw.random() < 0.98 else draw.choice(self.topology.hosts).ip,
            ipv4_dst=up.ip,
            ipv4_ttl=64 if draw.random() < 0.99 else draw.randint(0, 2),
            job=plan.job,
            epoch=plan.epoch if draw.random() < 0.98 else plan.epoch + 1,
            type=kind,
            count=1,
            seq=seq % (1 << 32),
            resend=resend,
            iteration=draw.getrandbits(4),
            exponent=draw.getrandbits(8),
            token=plan.token(plan.server if host.name == plan.server else own, SWITCH)
            if draw.random() < 0.97
            else draw.getrandbits(24),
        )
        if kind == wire.PacketType.PULL or draw.random() < 0.1:
            return wire.pack(values).tobytes()
        large = draw.random() < 0.2
        numbers = np.random.default_rng(draw.getrandbits(32))
        limit = 2**31 if large else 2**20
        return wire.pack(values, numbers.integers(-limit, limit, (1, self.lanes)).astype(np.int32)).tobytes()

    def datagram(self, host: Node, ip: int, number: int) -> bytes:
        values = wire.headers(
            1,
            ethernet_src=host.mac,
            ethernet_dst=self.topology.switches[0].mac,
            ipv4_src=host.ip,
            ipv4_dst=ip,
            udp_src_port=MARK_PORT,
            udp_dst_port=MARK_PORT,
            seq=number,
        )
        return wire.pack(values).tobytes()


class Ports:
    """Sockets at the other ends of the switch's interfaces."""

    def __init__(self, network: RealNetwork) -> None:
        self.sockets: dict[int, socket.socket] = {}
        for relay in network.relays:
            first = relay.link.a == SWITCH
            port = relay.link.port_a if first else relay.link.port_b
            one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            one.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            one.bind((relay.a_interface if first else relay.b_interface, ETH_P_ALL))
            one.settimeout(DEADLINE_S)
            self.sockets[port] = one

    def take(self, port: int, into: list[bytes], until: bytes | None = None) -> None:
        """Collect the frames at a port; with ``until``, wait for a frame that ends with these bytes."""
        one = self.sockets[port]
        one.settimeout(DEADLINE_S if until else 0)
        try:
            while True:
                frame = one.recv(4096)
                into.append(frame)
                if until and frame.endswith(until):
                    return
        except BlockingIOError:
            return


def play(traffic: Traffic, ports: Ports, count: int) -> dict[int, list[bytes]]:
    """Send ``count`` frames in bursts; the switch finishes a burst before the next one begins."""
    found: dict[int, list[bytes]] = {port: [] for port in ports.sockets}
    sent = turn = 0
    while sent < count:
        port, frames = traffic.burst()
        for frame in frames:
            ports.sockets[port].send(frame)
        sent += len(frames)
        turn += 1
        settle(traffic, ports, port, turn, found)
        for other, taken in found.items():
            ports.take(other, taken)
    for port in found:  # frames in a port's queues leave before its mark
        settle(traffic, ports, port, turn + port, found)
    return found


def settle(traffic: Traffic, ports: Ports, port: int, number: int, found: dict[int, list[bytes]]) -> None:
    """Send a mark that returns by the same port, and wait for it."""
    host = traffic.topology.node(traffic.topology.neighbour(SWITCH, port))
    mark = traffic.datagram(host, host.ip, number)
    ports.sockets[port].send(mark)
    ports.take(port, found[port], until=mark[42:])


def jobs(controller: Controller, lanes: int) -> list[Plan]:
    workers = ("h1", "h2", "h3")
    return [
        controller.start_job(PlanRequest("steiner", job=1, workers=workers, lanes=lanes, window=WINDOW)),
        controller.start_job(
            PlanRequest("steiner", job=2, workers=workers, server="server1", lanes=lanes, window=WINDOW)
        ),
    ]


def on_bmv2(network: RealNetwork, program: P4Program, run: Callable[[Controller], Outputs]) -> Outputs:
    with (
        tempfile.TemporaryDirectory() as folder,
        Bmv2Switches(network.topology, network.switch_interfaces, Path(folder)) as switches,
    ):
        targets = [Target(*target) for target in switches.targets]
        # The key gives the same tokens as the embedded switch's.
        with Controller(network.topology, targets, program, deadline_s=60.0, token_key=seeded_key(0)) as controller:
            return run(controller)


def on_embedded(network: RealNetwork, program: P4Program, run: Callable[[Controller], Outputs]) -> Outputs:
    lock = PausingLock()
    ports = {name: {port: Veth(one) for port, one in own.items()} for name, own in network.switch_interfaces.items()}
    with (
        EmbeddedSwitches(network.topology, program, lock=lock) as switches,
        RealSwitches(switches.devices(), ports, lock=lock),
    ):
        return run(switches.controller)


def main(options: dict[str, Any]) -> dict[str, Any]:
    """Run ``frames`` frames of ``seed`` at ``lanes`` lanes through both switches; return the differences and counts."""
    topology = load("star:hosts=3,servers=1")
    lanes = options["lanes"]
    program = bundled(lanes)
    with RealNetwork(topology, name="differential", relayed=True) as network:
        ports = Ports(network)

        def run(controller: Controller) -> Outputs:
            traffic = Traffic(topology, jobs(controller, lanes), lanes, options["seed"])
            found = play(traffic, ports, options["frames"])
            return Outputs(found, {name: asdict(own) for name, own in controller.read_counters().items()})

        reference, own = on_bmv2(network, program, run), on_embedded(network, program, run)
    different = {}
    for port, expected in reference.frames.items():
        pairs = zip(expected, own.frames[port], strict=False)
        first = next((k for k, (a, b) in enumerate(pairs) if a != b), None)
        if first is not None or len(expected) != len(own.frames[port]):
            where = min(len(expected), len(own.frames[port])) if first is None else first
            different[port] = [where, *(f[where].hex() if where < len(f) else "" for f in (expected, own.frames[port]))]
    return {
        "left": {port: len(frames) for port, frames in reference.frames.items()},
        "results": sum(frame[42] & 15 == wire.PacketType.RESULT for frame in chain(*reference.frames.values())),
        "different": different,
        "same_counters": reference.counters == own.counters,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
