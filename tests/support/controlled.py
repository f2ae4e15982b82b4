"""A controller over embedded switches whose links take no time: frames move one by one, in sending order."""

import struct
from collections import deque
from contextlib import contextmanager
from importlib import resources

from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.counters import Traffic, compare_counters, compare_links
from p4reduce.control_plane.entries import P4Program
from p4switch.p4runtime import P4RuntimeServer

COMPILED = resources.files("p4reduce.p4src") / "compiled"
PROGRAM = P4Program(
    (COMPILED / "p4reduce-64.json").read_bytes(), (COMPILED / "p4reduce-64.p4info.txt").read_bytes(), "p4reduce-64.json"
)
LANES = 64
PUSH, PULL, RESULT = 1, 2, 3


class Network:
    """Switches joined by links that take no time: frames move one by one, in the order in which they are sent."""

    def __init__(self, topology, server):
        self.topology, self.server = topology, server
        self.counted = {}
        self.arrived = {host.name: [] for host in topology.hosts}
        self._moving = deque()

    def send(self, source, address, frame):
        self._put(source, address.port, frame)
        while self._moving:
            node, port, moving = self._moving.popleft()
            if node in self.arrived:
                self.arrived[node].append(moving)
                continue
            device = self.server.device(self.topology.node(node).index + 1)
            for out, copy in device.inject(port, moving):
                if out != 510:
                    self._put(node, out, copy)

    def _put(self, node, port, frame):
        if not frame[43] & 0x08:
            self.counted[(node, port)] = self.counted.get((node, port), Traffic()) + Traffic(1, len(frame))
        link = self.topology.link_at(node, port)
        other = link.other(node)
        assert frame[:6] == self.topology.node(other).mac.to_bytes(6, "big"), "addressed to another node than the next"
        self._moving.append((other, link.port_of(other), frame))


@contextmanager
def controlled(topology, **options):
    with P4RuntimeServer() as server:
        targets = []
        for switch in topology.switches:
            server.add_device(switch.index + 1, name=switch.name)
            targets.append(Target(switch.name, server.address, switch.index + 1))
        with Controller(topology, targets, PROGRAM, **options) as controller:
            yield controller, Network(topology, server)


def frame(plan, source, kind, seq, lanes=None, *, to=None, resend=False):
    """Return a frame to the source's aggregation parent, or to the address ``to``."""
    address = to or plan.up(source)
    node = plan.topology.node(source)
    data = b"" if lanes is None else struct.pack(f">{LANES}i", *lanes)
    flags = resend << 3 | (lanes is not None)
    token = plan.token(source, address.name)
    inc = struct.pack(">BBHHHIII", 1 << 4 | kind, flags, plan.job, plan.epoch, 1, seq, 0, token) + data
    udp = struct.pack(">HHHH", 9400, address.udp, 8 + len(inc), 0) + inc
    head = struct.pack(">BBHHHBBHII", 0x45, 2, 20 + len(udp), 0, 0, 64, 17, 0, node.ip, address.ip)
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = 0xFFFF - ((total & 0xFFFF) + (total >> 16))
    ethernet = address.mac.to_bytes(6, "big") + node.mac.to_bytes(6, "big") + b"\x08\x00"
    return ethernet + head[:10] + struct.pack(">H", checksum) + head[12:] + udp


def seq_of(data):
    return int.from_bytes(data[50:54], "big")


def kind_of(data):
    return data[42] & 0xF


def lanes_of(data):
    return struct.unpack(f">{LANES}i", data[62:])


def contribution(rank, seq):
    return [(rank + 1) * (seq + 1) * (lane - 30) for lane in range(LANES)]


def all_reduce(plan, network, chunks, workers=None):
    """Push every chunk once from every worker; a server, if there is one, sends each sum back."""
    for seq in range(chunks):
        for rank, worker in enumerate(plan.workers):
            if workers is None or worker in workers:
                up = plan.up(worker)
                network.send(worker, up, frame(plan, worker, PUSH, seq, contribution(rank, seq)))
        if plan.server is not None:
            for data in network.arrived[plan.server]:
                assert kind_of(data) == PUSH
                down = plan.address(plan.server, plan.root)
                network.send(plan.server, down, frame(plan, plan.server, RESULT, seq_of(data), lanes_of(data), to=down))
            network.arrived[plan.server].clear()


def check_sums(plan, network, chunks):
    for worker in plan.workers:
        results = network.arrived[worker]
        assert [seq_of(data) for data in results] == list(range(chunks))
        for data in results:
            assert kind_of(data) == RESULT
            seq = seq_of(data)
            parts = [contribution(rank, seq) for rank in range(len(plan.workers))]
            assert lanes_of(data) == tuple(sum(lane) for lane in zip(*parts, strict=True))
        results.clear()


def check_counts(controller, network, expected):
    topology = controller.topology
    counters = controller.read_counters()
    assert compare_links(topology, expected, network.counted) == []
    assert compare_counters(topology, expected, counters) == []
    assert all(not own.refused for own in counters.values())
    return counters
