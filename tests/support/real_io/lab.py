"""A switch with the real P4 program, and a host behind each of its ports."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.real.io.path import Udp
from p4reduce.network.real.switches import RealSwitches
from p4reduce.workers import wire
from p4switch.device import Device
from p4switch.tables import Exact, Lpm, TableEntry
from studies.bench.switch import EPOCH, JOB, racks, root_switch

LANES = 64
SLOTS = 512
SWITCH = "rack0"
DEADLINE_S = 60.0
_MARK = 0xFFFFFFFF


def device(ports: int) -> Device:
    """Return a switch that aggregates the pushes of all hosts, and routes between the hosts."""
    topology = racks(1, ports)
    made = root_switch(LANES, topology.switches[0], topology.hosts, SLOTS)
    for port, host in enumerate(topology.hosts, start=1):
        set_route(made, host.ip, port, host.mac)
        edge = TableEntry((Exact(port),), "IncIngress.forward.host", (host.ip,))
        made.tables["IncIngress.forward.edge"].insert(edge)
    return made


def set_route(made: Device, ip: int, port: int, mac: int, *, change: bool = False) -> None:
    table = made.tables["IncIngress.forward.route"]
    entry = TableEntry((Lpm(ip, 32),), "IncIngress.forward.next_hop", (port, mac))
    (table.modify if change else table.insert)(entry)


def set_priority(made: Device, keys: tuple[Any, ...], priority: int) -> None:
    made.tables["IncIngress.traffic_class"].insert(TableEntry(keys, "IncIngress.prioritize", (priority,), priority=1))


class Lab:
    """A running switch; ``hosts[p]`` is the socket of the host behind port p."""

    def __init__(self, ports: int, made: Device | None, **options: Any) -> None:
        self.topology = racks(1, ports)
        self.device = made
        self.hosts: dict[int, socket.socket] = {}
        for port in range(1, ports + 1):
            self.hosts[port] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.hosts[port].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self.hosts[port].bind(("127.0.0.1", 0))
            self.hosts[port].settimeout(DEADLINE_S)
        specs = {port: Udp(("127.0.0.1", 0), one.getsockname()) for port, one in self.hosts.items()}
        self.switches = RealSwitches({SWITCH: made}, {SWITCH: specs}, **options)
        for port, one in self.hosts.items():
            one.connect(self.switches.address(SWITCH, port))

    def close(self) -> None:
        self.switches.stop()
        for one in self.hosts.values():
            one.close()

    # --- frames

    def datagram(self, source: int, target: int, *, number: int = 0, size: int = 40, job: int | None = None) -> bytes:
        """Return a UDP frame between two hosts; with ``job``, an INC packet that no switch aggregates."""
        hosts, root = self.topology.hosts, self.topology.switches[0]
        columns = (
            {"job": job, "seq": number} if job is not None else {"udp_src_port": 7, "udp_dst_port": 7, "seq": number}
        )
        values = wire.headers(
            1,
            ethernet_src=hosts[source - 1].mac,
            ethernet_dst=root.mac,
            ipv4_src=hosts[source - 1].ip,
            ipv4_dst=hosts[target - 1].ip,
            **columns,
        )
        return wire.pack(values, np.zeros((1, size), np.int32)).tobytes()

    def push(self, source: int, seq: int, lanes: NDArray[np.int32], *, resend: int = 0) -> bytes:
        """Return a host's contribution."""
        host, root = self.topology.hosts[source - 1], self.topology.switches[0]
        values = wire.headers(
            1,
            ethernet_src=host.mac,
            ethernet_dst=root.mac,
            ipv4_src=host.ip,
            ipv4_dst=root.ip,
            job=JOB,
            epoch=EPOCH,
            count=1,
            seq=seq,
            resend=resend,
        )
        return wire.pack(values, lanes[np.newaxis, :]).tobytes()

    def send(self, port: int, frame: bytes) -> None:
        self.hosts[port].send(frame)

    def receive(self, port: int) -> bytes:
        return self.hosts[port].recv(1 << 16)

    def settle(self, port: int) -> list[bytes]:
        """Wait until the switch has processed all frames from a port, and has sent the resulting frames.

        Returns the frames that had arrived back at the port before.
        """
        self.send(port, self.datagram(port, port, number=_MARK))
        found = []
        while int.from_bytes((frame := self.receive(port))[50:54], "big") != _MARK:
            found.append(frame)
        with self.switches.paused():
            pass  # the loop's iteration is over, so all its frames are sent
        return found

    def waiting(self, port: int) -> list[bytes]:
        """Return the frames that wait at a port's socket."""
        one = self.hosts[port]
        found = []
        one.setblocking(False)
        try:
            while True:
                found.append(one.recv(1 << 16))
        except BlockingIOError:
            return found
        finally:
            one.settimeout(DEADLINE_S)

    def counters(self, port: int) -> Any:
        return self.switches.port_counters()[SWITCH, port]


@contextmanager
def lab(ports: int = 3, **options: Any) -> Iterator[Lab]:
    made = Lab(ports, options.pop("made", device(ports)), **options)
    try:
        made.switches.start()
        yield made
    finally:
        made.close()


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait until another thread has made a condition true."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:g} s for {what}"
        time.sleep(0.002)
