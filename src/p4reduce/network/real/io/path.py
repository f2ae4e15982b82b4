"""A data path: the thread that runs the compiled loop, and its memory."""

import contextlib
import errno
import fcntl
import ipaddress
import logging
import mmap
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.real.io.frames import (
    BATCH,
    CONTROL_WORDS,
    DATAGRAMS,
    ETHERNET_BYTES,
    FULL,
    MACHINE,
    MESSAGES,
    MOVE,
    PAUSE,
    PORT,
    RING,
    STOP,
    STOPPED,
    drive,
)
from p4reduce.network.virtual.counters import Recordings
from p4reduce.network.virtual.devices import Shadows, SwitchDevice
from p4reduce.network.virtual.kernels.events import link_key, threshold
from p4reduce.network.virtual.kernels.loop import add_event
from p4reduce.network.virtual.memory import Memory
from p4reduce.network.virtual.records import (
    CELL,
    ENTRY,
    EVENT_KINDS,
    LINK,
    NODE,
    NONE,
    PRIORITIES,
    QUEUE,
    FabricError,
    Faults,
    aligned_bytes,
)
from p4switch.abi import MAX_FRAME_BYTES
from p4switch.native.memory import (
    CONTROL,
    GATHERED_BYTES,
    IOVEC,
    MESSAGE,
    POLLFD,
    POLLIN,
    SEGMENTS,
    SOL_UDP,
    TIMESPEC,
    UDP_GRO,
)
from p4switch.traffic import Digest

# Ports of real-time switches: their specifications, and the sockets opened for them.


RING_FRAMES: Final = 1024
"""Frames that wait in the kernel for each port."""
SOCKET_BYTES: Final = 4 << 20
"""Bytes of a datagram socket's buffers, each way; the system may allow less."""

# linux/if_packet.h; Python's socket module lacks most of these.
_ETH_P_ALL: Final = 0x0003
_SOL_PACKET: Final = 263
_PACKET_ADD_MEMBERSHIP: Final = 1
_PACKET_RX_RING: Final = 5
_PACKET_STATISTICS: Final = 6
_PACKET_VERSION: Final = 10
_PACKET_QDISC_BYPASS: Final = 20
_PACKET_IGNORE_OUTGOING: Final = 23
_PACKET_MR_PROMISC: Final = 1
_TPACKET_V2: Final = 1
_RING_HEADER: Final = 128
"""Bytes of a slot reserved for the kernel's header, more than it needs."""
_BLOCK_BYTES: Final = 1 << 16
_SIOCGIFMTU: Final = 0x8921
_BEYOND_MTU: Final = 18
"""Bytes of a frame beyond the MTU: Ethernet header and VLAN tag."""
_SO_RCVBUFFORCE: Final = 33
_SO_SNDBUFFORCE: Final = 32
_SO_MEMINFO: Final = 55
_MEMINFO_WORDS: Final = 9
_MEMINFO_DROPS: Final = 8


@dataclass(frozen=True, slots=True)
class Veth:
    """A network interface, most often one end of a veth pair, in the network namespace of this process.

    ``shaped``: sent frames go through the interface's queueing discipline, which is bypassed otherwise.
    """

    interface: str
    shaped: bool = False

    def __str__(self) -> str:
        return self.interface


@dataclass(frozen=True, slots=True)
class Udp:
    """A UDP socket, one Ethernet frame in each datagram, for use without root or between two machines.

    ``local``, ``remote``: (IP address, UDP port); local port 0 takes a free one.
    """

    local: tuple[str, int]
    remote: tuple[str, int]

    def __str__(self) -> str:
        return f"udp:{self.local[0]}:{self.local[1]}:{self.remote[0]}:{self.remote[1]}"


PortSpec: TypeAlias = Veth | Udp


class OpenPort:
    """Socket of a port, and its ring if it has one."""

    def __init__(self, name: str, spec: PortSpec, max_frame: int) -> None:
        """Open a port; ``name`` is for messages. Raises `FabricError` if the system refuses."""
        self.spec = spec
        self.ring: NDArray[np.uint8] | None = None
        self.ring_bytes = 0
        self.ring_frames = 0
        self._mapped: mmap.mmap | None = None
        self._dropped = 0
        try:
            if isinstance(spec, Veth):
                self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            else:
                version = ipaddress.ip_address(spec.local[0]).version
                self.socket = socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
        except (OSError, ValueError) as error:
            raise FabricError(_why(name, spec, error)) from None
        try:
            self.socket.setblocking(False)
            if isinstance(spec, Veth):
                self._open_interface(spec, max_frame)
            else:
                self._open_datagrams(spec)
        except (OSError, ValueError) as error:
            self.close()
            raise FabricError(_why(name, spec, error)) from None

    def _open_interface(self, spec: Veth, max_frame: int) -> None:
        packet_socket = self.socket
        packet_socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        packet_socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        if not spec.shaped:
            packet_socket.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, 1)
        # A slot holds the longest frame of the interface, not that of a switch, which would take 16 MB for every port.
        longest = min(max_frame, _mtu(packet_socket, spec.interface) + _BEYOND_MTU)
        self.ring_bytes = 1 << (longest + _RING_HEADER - 1).bit_length()
        blocks = RING_FRAMES * self.ring_bytes // _BLOCK_BYTES
        self.ring_frames = RING_FRAMES
        request = struct.pack("IIII", _BLOCK_BYTES, blocks, self.ring_bytes, self.ring_frames)
        packet_socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, request)
        self._mapped = mmap.mmap(packet_socket.fileno(), blocks * _BLOCK_BYTES)
        self.ring = np.frombuffer(self._mapped, dtype=np.uint8)
        packet_socket.bind((spec.interface, _ETH_P_ALL))
        index = socket.if_nametoindex(spec.interface)
        membership = struct.pack("iHH8s", index, _PACKET_MR_PROMISC, 0, b"")
        packet_socket.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, membership)

    def _open_datagrams(self, spec: Udp) -> None:
        for forced, plain in ((_SO_RCVBUFFORCE, socket.SO_RCVBUF), (_SO_SNDBUFFORCE, socket.SO_SNDBUF)):
            try:
                self.socket.setsockopt(socket.SOL_SOCKET, forced, SOCKET_BYTES)
            except PermissionError:
                self.socket.setsockopt(socket.SOL_SOCKET, plain, SOCKET_BYTES)
        with contextlib.suppress(OSError):  # older kernels deliver datagrams one by one
            self.socket.setsockopt(SOL_UDP, UDP_GRO, 1)
        self.socket.bind(spec.local)
        self.socket.connect(spec.remote)
        drop_waiting(self.socket)

    def dropped(self) -> int:
        """Return the frames so far that found the ring or the socket's buffer full."""
        if self.ring is not None:
            # Reading this option sets the kernel's count to 0.
            self._dropped += struct.unpack("II", self.socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
        elif self.socket.fileno() >= 0:
            info = self.socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * _MEMINFO_WORDS)
            self._dropped = struct.unpack(f"{_MEMINFO_WORDS}I", info)[_MEMINFO_DROPS]
        return self._dropped

    def close(self) -> None:
        """Close the socket and unmap the ring. Compiled code must not use them any more."""
        if self.socket.fileno() >= 0:
            self.dropped()
        self.ring = None
        if self._mapped is not None:
            self._mapped.close()
            self._mapped = None
        self.socket.close()


def drop_waiting(udp_socket: socket.socket) -> None:
    """Drop datagrams that came before the socket was connected: they may be from others than its peer."""
    came = select.poll()
    came.register(udp_socket, select.POLLIN)
    while came.poll(0):
        with contextlib.suppress(OSError):  # the peer is not there yet
            udp_socket.recv(1)


def _mtu(packet_socket: socket.socket, interface: str) -> int:
    answer = fcntl.ioctl(packet_socket, _SIOCGIFMTU, struct.pack("16si20x", interface.encode(), 0))
    return int(struct.unpack_from("i", answer, 16)[0])


def _why(name: str, spec: PortSpec, error: OSError | ValueError) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(spec, Veth) and number in {errno.EPERM, errno.EACCES}:
        return (
            f"port {name}: interface {spec}: packet sockets need root or CAP_NET_RAW: "
            "run as root, in a user namespace of your own, or use udp ports"
        )
    if isinstance(spec, Veth) and number in {errno.ENODEV, errno.ENXIO}:
        return f"port {name}: there is no interface {spec} in this network namespace; see: ip link"
    if number == errno.EADDRINUSE:
        return f"port {name}: {spec}: the local address is in use; choose another UDP port"
    return f"port {name}: {spec}: {error}"


_LOG = logging.getLogger(__name__)

ADDRESSES: Final = 65534
"""Nodes of each kind that an address can name: incidents number hosts from 0 on, switches from ADDRESSES on."""
PAUSE_DEADLINE_S: Final = 30.0
_LOOK_S: Final = 0.05
_MEMORY_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class PortPlan:
    """One port of a data path.

    node, number : its node, and its number in the P4 program.
    relay : None; for a node that is no switch, the place of the port by which it passes frames on.
    rate_bps : 0: as fast as the socket takes frames.
    delay_ps : from the last bit's leaving the queue to the socket.
    draws : number of its stream of random draws.
    """

    node: int
    number: int
    opened: OpenPort
    relay: int | None = None
    rate_bps: int = 0
    delay_ps: int = 0
    faults: Faults = Faults()  # noqa: RUF009  (immutable)
    draws: int = 0


class DataPath:
    """Ports and nodes that one thread drives.

    Other threads may touch ``links``, ``nodes``, ``ports`` only while it is paused or stopped; reading a counter is
    always harmless.
    """

    def __init__(
        self,
        name: str,
        nodes: Sequence[str],
        ports: Sequence[PortPlan],
        *,
        seed: int,
        queue_frames: int,
        max_frame: int,
        max_replicas: int,
        rest_us: int,
        packet_in_limit: int,
    ) -> None:
        """Lay out the memory; `start` begins to carry frames. ``nodes`` with relaying ports are no switches."""
        self.name = name
        self.node_names = tuple(nodes)
        self._plans = tuple(ports)
        self._max_replicas, self._max_frame = max_replicas, max_frame
        self.nodes: NDArray[Any] = np.zeros(max(len(nodes), 1), dtype=NODE)
        self.links: NDArray[Any] = np.zeros(max(len(ports), 1), dtype=LINK)
        self.ports: NDArray[Any] = np.zeros(max(len(ports), 1), dtype=PORT)
        self._lay(seed, queue_frames)
        self._devices: dict[int, SwitchDevice] = {}
        self._shadows = Shadows({})
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._parked = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._resume = os.eventfd(0, os.EFD_CLOEXEC)
        self.notice = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoch_ns = time.monotonic_ns()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._paused = False
        self._make_machine(rest_us)
        self._memory = self._make_memory()
        epoch_ps = time.time_ns() * 1000
        self.recordings = Recordings(self._memory, len(self.node_names), packet_in_limit, epoch_ps=epoch_ps)

    # --- memory

    def _lay(self, seed: int, queue_frames: int) -> None:
        for place, plan in enumerate(self._plans):
            port, link = self.ports[place], self.links[place]
            port["fd"], port["node"], port["number"] = plan.opened.socket.fileno(), plan.node, plan.number
            port["link"], port["relay"], port["tap"] = place, NONE if plan.relay is None else plan.relay, NONE
            port["kind"] = DATAGRAMS if plan.opened.ring is None else RING
            port["segments"] = SEGMENTS if plan.opened.ring is None else 1
            if plan.opened.ring is not None:
                port["ring"] = plan.opened.ring.ctypes.data
                port["ring_frames"], port["ring_bytes"] = plan.opened.ring_frames, plan.opened.ring_bytes
            self.nodes[plan.node]["is_switch"] = int(plan.relay is None)
            link["rate_bps"], link["delay_ps"] = plan.rate_bps, plan.delay_ps
            link["source"], link["source_port"], link["target_port"] = plan.node, plan.number, place
            if plan.faults.any:
                link["faulty"] = 1
                link["key"] = link_key(seed, plan.draws)
                link["extra_delay_ps"] = plan.faults.reorder_delay_ps
                link["p_loss"] = threshold(plan.faults.loss)
                link["p_duplicate"] = threshold(plan.faults.duplicate)
                link["p_reorder"] = threshold(plan.faults.reorder)
                link["p_corrupt"] = threshold(plan.faults.corrupt)
        self.links["last_length"] = NONE
        for name in ("wire_head", "wire_tail", "sent_head", "tap_source", "tap_target"):
            self.links[name] = NONE
        self.links["capacity"] = queue_frames
        np.maximum.at(self.nodes["ports"], self.ports["node"], self.ports["number"] + 1)
        self.nodes["first_port"] = np.cumsum(self.nodes["ports"]) - self.nodes["ports"]
        self._cells = np.zeros(max(int(self.nodes["ports"].sum()), 1), dtype=CELL)
        self._cells["value"] = NONE
        if self._plans:
            self._cells["value"][self.nodes["first_port"][self.ports["node"]] + self.ports["number"]] = np.arange(
                len(self._plans)
            )
        self._queues = np.zeros(PRIORITIES * len(self.links), dtype=QUEUE)
        self._addresses = np.zeros(2 * ADDRESSES, dtype=CELL)
        self._addresses["value"] = np.arange(2 * ADDRESSES)

    def _make_machine(self, rest_us: int) -> None:
        count = len(self._plans)
        self.control: NDArray[np.int64] = np.zeros(CONTROL_WORDS, dtype=np.int64)
        self._polls = np.zeros(count + 1, dtype=POLLFD)
        self._dirty = np.zeros(count + 1, dtype=CELL)
        self._time = np.zeros(2, dtype=TIMESPEC)
        self._vectors = np.zeros(BATCH + MESSAGES, dtype=IOVEC)
        self._messages = np.zeros(BATCH + MESSAGES, dtype=MESSAGE)
        self._controls = np.zeros(BATCH + MESSAGES, dtype=CONTROL)
        cell = GATHERED_BYTES
        self._inbox = aligned_bytes(MESSAGES * cell)
        into, places = slice(BATCH, BATCH + MESSAGES), np.arange(BATCH, BATCH + MESSAGES)
        self._vectors["base"][into] = self._inbox.ctypes.data + np.arange(MESSAGES) * cell
        self._vectors["length"][into] = cell
        self._messages["iov"][into] = self._vectors.ctypes.data + places * IOVEC.itemsize
        self._messages["iov_count"][into] = 1
        self._messages["control"][into] = self._controls.ctypes.data + places * CONTROL.itemsize
        self._messages["control_length"][into] = CONTROL.itemsize
        self.machine: NDArray[Any] = np.zeros(1, dtype=MACHINE)
        machine = self.machine[0]
        for name, array in (
            ("ports", self.ports),
            ("polls", self._polls),
            ("dirty", self._dirty),
            ("sending", self._messages),
            ("sending_vectors", self._vectors),
            ("sending_controls", self._controls),
            ("receiving", self._messages[BATCH:]),
            ("inbox", self._inbox),
            ("time", self._time),
            ("control", self.control),
        ):
            machine[name] = array.ctypes.data
        machine["port_count"], machine["inbox_cell"] = count, cell
        machine["rest_ns"] = rest_us * 1000
        machine["wake_fd"], machine["notice_fd"] = self._wake, self.notice
        machine["parked_fd"], machine["resume_fd"] = self._parked, self._resume
        machine["epoch_ns"] = self._epoch_ns
        self._polls["fd"][:count] = self.ports["fd"][:count]
        self._polls["fd"][count] = self._wake
        machine["polled"] = int(np.count_nonzero(self.ports["kind"][:count] == DATAGRAMS))

    def _clear(self) -> None:
        """Empty all queues."""
        self._queues[:] = 0
        self.links["wire_head"] = self.links["wire_tail"] = NONE
        for name in ("backlog", "depth", "waking", "free_at"):
            self.links[name] = 0
        blocked = np.flatnonzero(self.ports["blocked"])
        for name in ("send_count", "dirty", "blocked", "wake_due"):
            self.ports[name] = 0
        self._polls["events"] = POLLIN
        self.machine[0]["polled"] -= len(blocked)
        self.machine[0]["dirty_count"] = 0

    def _make_memory(self) -> Memory:
        """Make pools that fit the devices; frames in queues and on links are dropped."""
        self._clear()
        shorter = MAX_FRAME_BYTES - self._max_frame
        devices = self._devices.values()
        detours = [device.detours for device in devices if device.detours is not None]
        memory = Memory(
            max_frame=self._max_frame,
            frame_bytes=max([self._max_frame, *(device.out_bytes - shorter for device in devices)]),
            phv_bytes=max([0, *(device.phv_bytes - shorter for device in devices)]),
            max_replicas=self._max_replicas,
            limit=_MEMORY_BYTES,
            detours=bool(detours),
            kept_bytes=max((detour.kept_bytes for detour in detours), default=0),
        )
        memory.world[0]["node_count"] = len(self.node_names)
        for name, array in (
            ("links", self.links),
            ("nodes", self.nodes),
            ("ports", self._cells),
            ("queues", self._queues),
            ("hosts", self._addresses),
            ("switches", self._addresses[ADDRESSES:]),
        ):
            memory.keep(name, array)
        memory.world[0]["host_count"] = memory.world[0]["switch_count"] = ADDRESSES
        return memory

    # --- the thread

    def start(self) -> None:
        """Begin to carry frames."""
        self.control[STOP] = 1
        drive(self._memory.world, self.machine)  # compiles it, so that the first frame need not wait
        self.control[STOP] = 0
        self._thread = threading.Thread(target=self._run, name=f"{self.name} data path", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while (reason := drive(self._memory.world, self.machine)) != STOPPED:
                if reason == FULL:
                    self._memory.make_space()
                    self.drain()
                    os.eventfd_write(self.notice, 1)  # wakes the reader of the drained records
                else:
                    self.control[MOVE] = 0
        except BaseException as error:
            _LOG.exception("%s: the data path ended", self.name)
            self._failure = error

    def stop(self) -> None:
        """Stop carrying frames, wait for the thread, and drain its records."""
        self.control[STOP] = 1
        if self._thread is not None:
            os.eventfd_write(self._wake, 1)
            self._thread.join()
            self._thread = None
            self.drain()

    def close(self) -> None:
        """Close the file descriptors and capture files; `stop` comes first."""
        for fd in (self._wake, self._parked, self._resume, self.notice):
            os.close(fd)
        self.recordings.close()

    @property
    def running(self) -> bool:
        """Whether the thread carries frames."""
        return self._thread is not None and self._thread.is_alive()

    def cpu_s(self) -> float:
        """Return the processor time that the thread has used so far, seconds; 0 when it does not run."""
        if self._thread is None or self._thread.ident is None or not self._thread.is_alive():
            return 0.0
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident))

    def check(self) -> None:
        """Raise `FabricError` if the thread ended by itself."""
        if self._failure is not None:
            raise FabricError(f"{self.name}: the data path ended: {self._failure}") from self._failure

    def ask_pause(self) -> None:
        """Begin a pause; `await_pause` waits for it. Not for two threads at once."""
        if self.running:
            self.control[PAUSE] = 1
            os.eventfd_write(self._wake, 1)
            self._paused = True

    def await_pause(self) -> None:
        """Wait until the thread carries no frame. Raises `FabricError` after PAUSE_DEADLINE_S."""
        if not self._paused:
            return
        deadline = time.monotonic() + PAUSE_DEADLINE_S
        poll = select.poll()
        poll.register(self._parked, select.POLLIN)
        while not poll.poll(_LOOK_S * 1000):
            if not self.running:
                self._paused = False
                return
            if time.monotonic() > deadline:
                # The loop's state is not known any more, so make it end at its next check.
                self._failure = FabricError(f"{self.name}: it did not pause within {PAUSE_DEADLINE_S:g} s")
                self.control[STOP] = 1
                self.resume()
                raise self._failure
        os.eventfd_read(self._parked)

    def resume(self) -> None:
        """End a pause, in which the devices' tables may have moved."""
        if self._paused:
            self._paused = False
            self._refresh_shadows()
            self.control[PAUSE] = 0
            os.eventfd_write(self._resume, 1)

    # --- while it is paused

    def set_device(self, node: int, device: SwitchDevice | None) -> None:
        """Run another program at a node, or none; frames in its queues are dropped."""
        record = self.nodes[node]
        if device is None:
            self._devices.pop(node, None)
            record["ingress"] = 0
            return
        record["ingress"], record["egress"], record["state"] = (
            device.ingress_address,
            device.egress_address,
            device.state_address,
        )
        record["groups"] = device.multicast.index.ctypes.data
        record["replicas"] = device.multicast.replicas.ctypes.data
        record["detours"] = int(device.detours is not None)
        if device.detours is not None:
            sessions = device.detours.sessions
            record["sessions"] = sessions.rows.ctypes.data
            record["session_groups"] = sessions.copies.index.ctypes.data
            record["session_replicas"] = sessions.copies.replicas.ctypes.data
        self._devices[node] = device
        self._shadows = Shadows({self.node_names[place]: device for place, device in self._devices.items()})
        self._refresh_shadows()
        self.drain()
        memory = self._make_memory()
        memory.world[0]["now"] = self._memory.world[0]["now"]
        self._memory = memory
        self.recordings.follow(memory)
        self.control[MOVE] = int(self.running)

    def inject(self, node: int, port: int, frame: bytes) -> None:
        """Have a frame enter a node by a port (any number, the controller's too), as soon as the pause ends."""
        if not ETHERNET_BYTES <= len(frame) <= self._max_frame:
            raise FabricError(f"a frame of {len(frame)} bytes is not in {ETHERNET_BYTES}..{self._max_frame}")
        if self.nodes[node]["ingress"] == 0:
            raise FabricError(f"{self.node_names[node]!r} has no program")
        place = self._memory.place_frame(frame)
        record = self._memory.frames.records[place]
        record["node"], record["port"] = node, port
        add_event(self._memory.world, int(self._memory.world[0]["now"]), place * EVENT_KINDS + ENTRY)

    def capture(self, port: int, path: Path) -> None:
        """Write the frames that pass a port from now on, in both directions, to a pcap file."""
        if self.ports[port]["tap"] != NONE:
            raise FabricError(f"{path}: this port is captured already")
        tap = self.recordings.open(path)
        self.ports[port]["tap"] = self.links[port]["tap_source"] = tap

    def digests(self, node: int) -> list[Digest]:
        """Return and clear the digests that a node sent."""
        device = self._devices.get(node)
        waiting = self.recordings.digests(node)
        if device is None or device.detours is None:
            return []
        return [device.detours.digest(digest.learn_list, digest.kept) for digest in waiting]

    def drain(self) -> None:
        """Process and clear the loop's records: packets for the controller, captures, incidents."""
        self.recordings.drain()
        self.machine[0]["noticed"] = 0

    def _refresh_shadows(self) -> None:
        for place in self._devices:
            self.nodes[place]["peek_state"] = self._shadows.address(self.node_names[place])
