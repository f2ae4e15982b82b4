"""A switch between veth pairs or between UDP sockets on loopback, and a load for it."""

import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.real.io.frames import BATCH, MSG_TRUNC, PORT
from p4reduce.network.real.io.path import PortSpec, Udp, Veth
from p4reduce.network.real.net.network import add_veth, bring_up, netlink, wait_until_up, without_ipv6
from p4reduce.network.real.switches import RealSwitches
from p4reduce.network.virtual.records import cell_at
from p4reduce.workers import wire
from p4switch.native.compiler import Compiler
from p4switch.native.memory import (
    CONTROL,
    IOVEC,
    MESSAGE,
    MSG_DONTWAIT,
    SOL_UDP,
    UDP_GRO,
    atomic_load,
    clock_ns,
    external,
    gather,
    poll,
    sendmmsg,
    store_be32,
)
from p4switch.tables import Lpm, TableEntry
from studies.bench.switch import EPOCH, JOB, racks, root_switch

# A load for a switch in this process: sends frames into its interfaces, at most as many as its rings hold.
#
# It reads the counters of the switch's ports in memory, so no frame is lost and no response is needed.


recv: Any = external("recv", "int64", "int32", "int64", "uint64", "int32")
"""(socket, buffer, bytes, flags)"""
_compiler = Compiler(Path(__file__).parent)
entry, kernel = _compiler.entry, _compiler.kernel

WINDOW: Final = 512
"""highest number of frames in flight per port"""
SEQ: Final = np.int64(wire.offset(wire.INC, "seq"))
_PAUSE_NS: Final = 20_000
_PATIENCE_NS: Final = 10_000_000_000
_ENDED: Final = -1
_MESSAGE_BYTES: Final = MESSAGE.itemsize
_VECTOR_BYTES: Final = IOVEC.itemsize


@kernel
def _wait(time: int) -> None:
    """Yield the processor for _PAUSE_NS."""
    poll(0, 0, _PAUSE_NS, time)


@kernel
def _forget(fd: int) -> None:
    """Receive and discard all data that is queued at a socket."""
    while recv(fd, 0, 0, MSG_DONTWAIT | MSG_TRUNC) >= 0:
        pass


@kernel
def _numbered(frames: int, frame_cell: int, seq: int, count: int) -> None:
    for place in range(count):
        store_be32(frames + place * frame_cell + SEQ, 0, np.int32(seq + place))


@entry(int, int, int, int, int, int, int, int, int, int, np.dtype(np.int64), int)
def load(
    sockets: int,
    received: int,
    ports: int,
    frames: int,
    frame_cell: int,
    messages: int,
    vectors: int,
    controls: int,
    segments: int,
    datagrams: int,
    limits: Any,
    numbered: int,
) -> int:
    """Send to every port in turn until a deadline; return the number of rounds of BATCH frames per port, or -1.

    sockets, received: addresses of ``ports`` int64: descriptors, and addresses of the counts of received frames.
    frames: ``ports`` times BATCH cells of ``frame_cell`` bytes; their vectors likewise. messages, controls: scratch
    space for BATCH; each message has up to ``segments`` frames. ``datagrams``: the switch's frames come back to the
    sockets, and are discarded. limits: int64 (first seq, CLOCK_MONOTONIC of the deadline, two cells of scratch space).
    ``numbered``: each round has the next BATCH sequence numbers. -1: the switch has stopped receiving.
    """
    time = limits.ctypes.data + 16
    first = limits[0]
    until = limits[1]
    rounds = 0
    base = atomic_load(cell_at(received, 0).value, 0)
    while True:
        sent = rounds * BATCH
        for port in range(ports):
            while sent + BATCH - (atomic_load(cell_at(received, port).value, 0) - base) > WINDOW:
                if clock_ns(time) > until + _PATIENCE_NS:
                    return _ENDED
                _wait(time)
            own = frames + port * BATCH * frame_cell
            if numbered != 0:
                _numbered(own, frame_cell, first + sent, BATCH)
            done = 0
            count = gather(messages, vectors + port * BATCH * _VECTOR_BYTES, controls, BATCH, segments)
            while done < count:
                taken = sendmmsg(cell_at(sockets, port).value, messages + done * _MESSAGE_BYTES, count - done, 0)
                done += max(taken, 0)
            if datagrams != 0:
                _forget(cell_at(sockets, port).value)
        rounds += 1
        if clock_ns(time) > until:
            return rounds


SLOTS: Final = 4096
SWITCH: Final = "rack0"
_ETH_P_ALL: Final = 3
_FIRST_INDEX: Final = 1000
_SETTLE_S: Final = 10.0


@dataclass(frozen=True)
class VethMeasurement:
    """One run. Frames are those that the switch received; ``cpu_s`` is the processor time of its thread."""

    frames: int
    copies: int
    seconds: float
    cpu_s: float
    sleeps: int
    lost: int

    @property
    def kpps(self) -> float:
        """Thousand frames per second of wall-clock time."""
        return self.frames / self.seconds / 1e3

    @property
    def kpps_per_core(self) -> float:
        """Thousand frames per second of the switch's processor time: its throughput on a dedicated core."""
        return self.frames / self.cpu_s / 1e3


class BenchLab:
    """A switch with ``ports`` ports, in the network namespace of this process."""

    def __init__(self, ports: int, lanes: int, *, udp: int = 0, **options: Any) -> None:
        """Open sockets and ports: on UDP sockets with up to ``udp`` datagrams per message, or with 0 on veth pairs."""
        self.topology = racks(1, ports)
        self.lanes = lanes
        self.device = root_switch(lanes, self.topology.switches[0], self.topology.hosts, SLOTS)
        self._route()
        self._sockets: list[socket.socket] = []
        self._udp = udp
        specs: dict[int, PortSpec]
        if udp:
            self._sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(ports)]
            for sock in self._sockets:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
                sock.setsockopt(SOL_UDP, UDP_GRO, int(udp > 1))
                sock.bind(("127.0.0.1", 0))
            specs = {
                port: Udp(("127.0.0.1", 0), sock.getsockname()) for port, sock in enumerate(self._sockets, start=1)
            }
            self.switches = RealSwitches({SWITCH: self.device}, {SWITCH: specs}, **options)
            for port, sock in enumerate(self._sockets, start=1):
                sock.connect(self.switches.address(SWITCH, port))
            path = self.switches.data_paths[0]
            path.ports["segments"] = udp
            return
        without_ipv6()
        with netlink() as route:
            for port in range(1, ports + 1):
                add_veth(route, _FIRST_INDEX + 2 * port, f"s{port}", f"o{port}")
                for name in (f"s{port}", f"o{port}"):
                    bring_up(route, name)
            wait_until_up(route)
        for port in range(1, ports + 1):
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # protocol 0: only for sending
            sock.bind((f"o{port}", 0))
            self._sockets.append(sock)
        specs = {port: Veth(f"s{port}") for port in range(1, ports + 1)}
        self.switches = RealSwitches({SWITCH: self.device}, {SWITCH: specs}, **options)

    def _route(self) -> None:
        table = self.device.tables["IncIngress.forward.route"]
        for port, host in enumerate(self.topology.hosts, start=1):
            table.insert(TableEntry((Lpm(host.ip, 32),), "IncIngress.forward.next_hop", (port, host.mac)))

    def __enter__(self) -> Self:
        nothing = np.zeros(5, np.int64)
        nothing[4] = nothing.ctypes.data
        load(0, nothing[4:].ctypes.data, 0, 0, 0, 0, 0, 0, 1, 0, nothing[:4], False)  # compiles `load`
        self.switches.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.switches.stop()
        if self._udp:
            for sock in self._sockets:
                sock.close()
            return
        with netlink() as route:
            for port, sock in enumerate(self._sockets, start=1):
                sock.close()
                route.link("del", index=_FIRST_INDEX + 2 * port)  # also removes its peer

    def pushes(self) -> NDArray[np.uint8]:
        """Return a contribution of every worker, BATCH times; shape (ports, BATCH, bytes)."""
        root = self.topology.switches[0]
        made = [
            wire.pack(
                wire.headers(
                    BATCH,
                    ethernet_src=host.mac,
                    ethernet_dst=root.mac,
                    ipv4_src=host.ip,
                    ipv4_dst=root.ip,
                    job=JOB,
                    epoch=EPOCH,
                    count=1,
                ),
                np.full((BATCH, self.lanes), 1 + rank, np.int32),
            )
            for rank, host in enumerate(self.topology.hosts)
        ]
        return np.stack(made)

    def datagrams(self) -> NDArray[np.uint8]:
        """Return UDP datagrams of the same size from every host to the next one; shape (ports, BATCH, bytes)."""
        hosts, root = self.topology.hosts, self.topology.switches[0]
        made = [
            wire.pack(
                wire.headers(
                    BATCH,
                    ethernet_src=host.mac,
                    ethernet_dst=root.mac,
                    ipv4_src=host.ip,
                    ipv4_dst=hosts[(rank + 1) % len(hosts)].ip,
                    udp_dst_port=9,
                ),
                np.zeros((BATCH, self.lanes), np.int32),
            )
            for rank, host in enumerate(hosts)
        ]
        return np.stack(made)

    def run(self, frames: NDArray[np.uint8], seconds: float, *, first: int | None = None) -> VethMeasurement:
        """Load every port with its frames for ``seconds``; with ``first``, sequence numbers continue from there."""
        ports = len(self._sockets)
        flat = np.ascontiguousarray(frames)
        cell = flat.shape[-1]
        vectors = np.zeros(ports * BATCH, IOVEC)
        vectors["base"] = flat.ctypes.data + cell * np.arange(ports * BATCH)
        vectors["length"] = cell
        messages, controls = np.zeros(BATCH, MESSAGE), np.zeros(BATCH, CONTROL)
        path = self.switches.data_paths[0]
        offset = dict(PORT.fields or {})["received_frames"][1]
        received = path.ports.ctypes.data + PORT.itemsize * np.arange(ports) + offset
        sockets = np.array([sock.fileno() for sock in self._sockets], np.int64)
        before, cpu, sleeps = self._counts(), self.switches.cpu_s(), int(path.machine[0]["sleeps"])
        began = time.monotonic_ns()
        limits = np.array([first or 0, began + int(seconds * 1e9), 0, 0], np.int64)
        rounds = load(
            sockets.ctypes.data,
            received.ctypes.data,
            ports,
            flat.ctypes.data,
            cell,
            messages.ctypes.data,
            vectors.ctypes.data,
            controls.ctypes.data,
            max(self._udp, 1),
            self._udp,
            limits,
            first is not None,
        )
        if rounds < 0:
            raise RuntimeError("the switch takes nothing in")
        sent = rounds * BATCH * ports
        deadline = time.monotonic() + _SETTLE_S
        while (after := self._counts())[0] - before[0] < sent and time.monotonic() < deadline:
            threading.Event().wait(0.001)
        took = (time.monotonic_ns() - began) / 1e9
        return VethMeasurement(
            frames=after[0] - before[0],
            copies=after[1] - before[1],
            seconds=took,
            cpu_s=self.switches.cpu_s() - cpu,
            sleeps=int(path.machine[0]["sleeps"]) - sleeps,
            lost=sent - (after[0] - before[0]),
        )

    def _counts(self) -> tuple[int, int]:
        seen = self.switches.port_counters().values()
        return sum(port.received_frames for port in seen), sum(port.sent.delivered for port in seen)
