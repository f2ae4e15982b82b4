"""Embedded switches in real time: P4 devices between sockets, driven by compiled threads without Python."""

import logging
import os
import select
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, Self, TypeVar

from finsy.proto import p4i

from p4reduce.network.real.io.frames import PORT_COUNTERS
from p4reduce.network.real.io.path import ADDRESSES, DataPath, OpenPort, PortPlan, PortSpec
from p4reduce.network.virtual.counters import ControllerFrame, DeviceCounters, Incidents, LinkCounters, Where
from p4reduce.network.virtual.devices import SwitchDevice
from p4reduce.network.virtual.records import FabricError, Faults
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4switch.abi import CPU_PORT, DROP_PORT, MAX_FRAME_BYTES
from p4switch.device import Device
from p4switch.p4runtime import P4RuntimeError, P4RuntimeServer, StatusCode, Tls
from p4switch.program import Program
from p4switch.traffic import Digest, ExecutorName

# Counters of a real-time switch's port.


@dataclass(frozen=True, slots=True)
class PortCounters:
    """Counters of one port. Bytes are those of frames without FCS; first transmissions are INC without resend flag."""

    sent: LinkCounters
    """Sent frames, as for a link in virtual time; ``delivered`` counts those that the kernel took."""
    received_frames: int
    received_bytes: int
    received_first_frames: int
    received_first_bytes: int
    received_resend_frames: int
    received_resend_bytes: int
    oversize: int
    """Frames longer than ``max_frame``, or shorter than an Ethernet header; dropped."""
    unprogrammed: int
    """Frames received while the switch had no program; dropped."""
    send_failures: int
    """Frames that the kernel refused."""
    waits: int
    """Times that the socket was full and frames waited in the queues."""
    overrun: int
    """Frames that arrived faster than they were read, and were dropped before they were counted."""
    queued: int = 0
    """Frames that wait in its queues now."""


def read_port(port: Any, link: Any, overrun: int) -> PortCounters:
    """Return the counters in a port's records."""
    sent = LinkCounters(**{field.name: int(link[field.name]) for field in fields(LinkCounters)})
    return PortCounters(
        sent=sent, overrun=overrun, queued=int(link["depth"]), **{name: int(port[name]) for name in PORT_COUNTERS}
    )


# Incidents of first transmissions at our ports, by the names of a topology.


def read_incidents(path: DataPath, ports: Iterable[Hop], topology: Topology) -> dict[Where, Incidents]:
    """Return the incidents of a paused or stopped data path; ``ports`` are the names of its links, in order."""
    path.drain()
    names = {node.index if node.is_host else ADDRESSES + node.index: node.name for node in topology.nodes}
    where = list(ports)
    return {
        Where(where[link], names.get(destination, ""), job): seen
        for (link, destination, job), seen in path.recordings.incidents().items()
    }


# The lock under which P4Runtime changes running switches.


class PausingLock:
    """A re-entrant lock for a P4RuntimeServer: while a thread holds it, the switches are paused.

    Pass the same one to ``P4RuntimeServer(lock=...)`` and ``RealSwitches(lock=...)``.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._paths: list[DataPath] = []

    def attach(self, path: DataPath) -> None:
        """Have a data path pause with this lock."""
        with self._lock:
            self._paths.append(path)

    def detach(self, path: DataPath) -> None:
        """Stop pausing a data path with this lock, and resume it."""
        with self._lock:
            if path in self._paths:
                self._paths.remove(path)
                path.resume()

    def __enter__(self) -> bool:
        self._lock.acquire()
        if self._depth == 0:
            try:
                for path in self._paths:
                    path.ask_pause()
                for path in self._paths:
                    path.await_pause()
            except BaseException:
                for path in self._paths:
                    path.resume()
                self._lock.release()
                raise
        self._depth += 1
        return True

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            for path in self._paths:
                path.resume()
        self._lock.release()


# Delivery of compiled code's records to Python: packets for the controller, captured frames.


_LOG = logging.getLogger(__name__)
_REST_MS: Final = 5
"""Milliseconds between two visits, each of which pauses the data path for a moment."""

PacketInHandler = Callable[[str, bytes], object]
"""Called with (switch, frame) for every frame that a switch sends to the controller, in a separate thread."""

DigestHandler = Callable[[str, Digest], object]
"""Called with (switch, digest) for every digest, in a separate thread."""


class Courier:
    """A thread that waits for a data path's notice, and empties its buffers."""

    def __init__(
        self,
        path: DataPath,
        lock: PausingLock,
        on_packet_in: PacketInHandler | None,
        on_digest: DigestHandler | None,
    ) -> None:
        self._path = path
        self._lock = lock
        self._on_packet_in = on_packet_in
        self._on_digest = on_digest
        self._end = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name=f"{path.name} courier", daemon=True)

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and empty the buffers a last time."""
        os.eventfd_write(self._end, 1)
        self._thread.join()
        os.close(self._end)
        self._visit()

    def _run(self) -> None:
        ends = select.poll()
        ends.register(self._end, select.POLLIN)
        news = select.poll()
        for fd in (self._end, self._path.notice):
            news.register(fd, select.POLLIN)
        while not ends.poll(_REST_MS):
            ready = {fd for fd, _ in news.poll()}
            if self._path.notice in ready:
                os.eventfd_read(self._path.notice)
                try:
                    self._visit()
                except FabricError:
                    _LOG.exception("%s", self._path.name)
                    return

    def _visit(self) -> None:
        calls: list[Callable[[], object]] = []
        with self._lock:
            self._path.drain()
            for node, name in enumerate(self._path.node_names):
                if self._on_packet_in is not None:
                    packets = self._path.recordings.packet_ins(node)
                    calls += [partial(self._on_packet_in, name, packet.frame) for packet in packets]
                if self._on_digest is not None:
                    calls += [partial(self._on_digest, name, digest) for digest in self._path.digests(node)]
        for call in calls:
            try:
                call()
            except Exception:
                _LOG.exception("%s: something for the controller was lost", self._path.name)


_T = TypeVar("_T")


class RealSwitches:
    """Switches whose ports are sockets. Use it as a context manager, or call `start` and `stop`.

    Between two ports, frames are processed by the virtual fabric's own code: ingress, replication, eight
    strict-priority queues for each port, egress when a frame leaves its queue, then a link of the given rate and delay
    with the given faults, at whose end the port's socket takes the frame. A port without a rate sends at once; when its
    socket is full, frames wait in the queues.
    """

    def __init__(
        self,
        devices: Mapping[str, SwitchDevice | None],
        ports: Mapping[str, Mapping[int, PortSpec]],
        *,
        faults: Faults | Mapping[Hop, Faults] = Faults(),  # noqa: B008  (immutable)
        delays_ps: int | Mapping[Hop, int] = 0,
        rates_bps: int | Mapping[Hop, int] = 0,
        queue_frames: int = 1024,
        seed: int = 0,
        threads: int = 1,
        max_frame: int = MAX_FRAME_BYTES,
        max_replicas: int = 512,
        rest_us: int = 0,
        lock: PausingLock | None = None,
        on_packet_in: PacketInHandler | None = None,
        on_digest: DigestHandler | None = None,
        packet_in_limit: int = 1024,
    ) -> None:
        """Open all ports; nothing moves before `start`.

        Parameters
        ----------
        devices : mapping of SwitchDevice
            By name; None: the switch has no program yet (`set_device`), and drops all frames.
        ports : mapping of mapping of PortSpec
            The ports of each switch, by number, 0 to 509.
        faults : Faults or mapping of Faults
            Faults of sent frames; for every port alike, or by (switch, port).
        delays_ps : int or mapping of int
            Delay between a port's queue and its socket, picoseconds; for every port alike, or by (switch, port).
        rates_bps : int or mapping of int
            Rate to which a port is shaped, bits per second (with preamble, gap and checksum, as a link); 0: none.
        queue_frames : int
            Frames that each of a port's eight queues holds.
        seed : int
            Seed of the faults.
        threads : int
            Number of threads that share the switches.
        max_frame : int
            Longest frame in bytes, without FCS.
        max_replicas : int
            Largest multicast group.
        rest_us : int
            Microseconds for which frames gather after a busy time: more delay for far less CPU time.
        lock : PausingLock
            Lock whose holders pause the switches: that of the P4RuntimeServer.
        on_packet_in : callable
            Takes frames for the controller; without it, `packet_ins` returns them.
        on_digest : callable
            Takes digests; without it, `digests` returns them.
        packet_in_limit : int
            Frames and digests for the controller that wait for each switch.

        Raises
        ------
        FabricError
            A port cannot be opened, or the parts do not fit each other.
        """
        if not 1 <= threads <= 64:
            raise FabricError(f"threads={threads} is not in 1..64")
        if not 60 <= max_frame <= MAX_FRAME_BYTES:
            raise FabricError(f"max_frame={max_frame} is not in 60..{MAX_FRAME_BYTES}")
        if queue_frames < 1:
            raise FabricError(f"queue_frames={queue_frames}: a queue holds at least one frame")
        self.lock: Final = lock or PausingLock()
        self._on_packet_in, self._on_digest = on_packet_in, on_digest
        self._opened: dict[Hop, OpenPort] = {}
        self._places: dict[Hop, tuple[DataPath, int]] = {}
        self._nodes: dict[str, tuple[DataPath, int]] = {}
        self._paths: list[DataPath] = []
        self._couriers: list[Courier] = []
        self._stopped = False
        every = [(name, number) for name in devices for number in ports.get(name, {})]
        _check_ports(devices, ports, every, (("faults", faults), ("delays_ps", delays_ps), ("rates_bps", rates_bps)))
        try:
            for name, number in every:
                spec = ports[name][number]
                self._opened[name, number] = OpenPort(f"{name}:{number}", spec, max_frame)
            names = list(devices)
            for thread in range(min(threads, max(len(names), 1))):
                share = names[thread::threads]
                mine = [port for port in every if port[0] in share]
                plans = [
                    PortPlan(
                        share.index(port[0]),
                        port[1],
                        self._opened[port],
                        rate_bps=_of(rates_bps, port, 0),
                        delay_ps=_of(delays_ps, port, 0),
                        faults=_of(faults, port, Faults()),
                        draws=every.index(port),
                    )
                    for port in mine
                ]
                path = DataPath(
                    f"switches {', '.join(share[:3])}{'...' if len(share) > 3 else ''}",
                    share,
                    plans,
                    seed=seed,
                    queue_frames=queue_frames,
                    max_frame=max_frame,
                    max_replicas=max_replicas,
                    rest_us=rest_us,
                    packet_in_limit=packet_in_limit,
                )
                self._paths.append(path)
                self._places |= {port: (path, place) for place, port in enumerate(mine)}
                self._nodes |= {name: (path, node) for node, name in enumerate(share)}
            for name, device in devices.items():
                self.set_device(name, device)
        except BaseException:
            self._close()
            raise

    # --- start and stop

    def start(self) -> None:
        """Begin to carry frames."""
        with self.lock:
            for path in self._paths:
                path.start()
                self.lock.attach(path)
        for path in self._paths:
            courier = Courier(path, self.lock, self._on_packet_in, self._on_digest)
            self._couriers.append(courier)
            courier.start()

    def stop(self) -> None:
        """Stop carrying frames, and close all ports; counters can still be read. May be called again."""
        if self._stopped:
            return
        self._stopped = True
        for courier in self._couriers:
            courier.stop()
        self._couriers.clear()
        with self.lock:
            for path in self._paths:
                self.lock.detach(path)
        for path in self._paths:
            path.stop()
        self._close()

    def _close(self) -> None:
        for path in self._paths:
            path.close()
        for opened in self._opened.values():
            opened.close()

    def check(self) -> None:
        """Raise `FabricError` if a data path ended by itself."""
        for path in self._paths:
            path.check()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def paused(self) -> PausingLock:
        """Return a context in which no frame moves; it raises `FabricError` if a data path does not pause in time."""
        return self.lock

    @property
    def data_paths(self) -> tuple[DataPath, ...]:
        """The data paths that drive the switches, one for each thread."""
        return tuple(self._paths)

    def cpu_s(self) -> float:
        """Return the processor time that the data paths have used since `start`, seconds; 0 when they do not run."""
        return sum(path.cpu_s() for path in self._paths)

    # --- changes at run time

    def set_device(self, switch: str, device: SwitchDevice | None) -> None:
        """Have a switch run another program, or none; frames in its queues are dropped."""
        path, node = self._node(switch)
        with self.lock:
            path.set_device(node, device)

    def inject(self, switch: str, port: int, frame: bytes) -> None:
        """Have a frame enter a switch by a port; packet-outs enter by port 510."""
        path, node = self._node(switch)
        with self.lock:
            path.inject(node, port, frame)

    def capture(self, switch: str, port: int, path: str | Path) -> None:
        """Write the frames that pass a port from now on, in both directions, to a pcap file; complete after `stop`."""
        where, place = self._port((switch, port))
        with self.lock:
            where.capture(place, Path(path))

    # --- observation

    def address(self, switch: str, port: int) -> tuple[str, int]:
        """Return (IP address, UDP port) where a UDP port listens, also if it took a free one."""
        self._port((switch, port))
        host, number = self._opened[switch, port].socket.getsockname()[:2]
        return str(host), int(number)

    def port_counters(self) -> dict[Hop, PortCounters]:
        """Return the counters of every port by (switch, port), all of the same moment."""
        with self.lock:
            return {
                port: read_port(path.ports[place], path.links[place], self._opened[port].dropped())
                for port, (path, place) in self._places.items()
            }

    def switch_counters(self, switch: str) -> DeviceCounters:
        """Return the counters of a switch."""
        path, node = self._node(switch)
        with self.lock:
            record = path.nodes[node]
            return DeviceCounters(**{field.name: int(record[field.name]) for field in fields(DeviceCounters)})

    def incidents(self, topology: Topology) -> dict[Where, Incidents]:
        """Return the incidents of INC first transmissions, by port, destination and job, as in virtual time."""
        by_place: dict[Where, Incidents] = {}
        with self.lock:
            for path in self._paths:
                ports = [port for port, (where, _) in self._places.items() if where is path]
                by_place |= read_incidents(path, ports, topology)
        return by_place

    def packet_ins(self, switch: str) -> list[ControllerFrame]:
        """Return and clear the frames that a switch sent to the controller, if there is no ``on_packet_in``."""
        path, node = self._node(switch)
        with self.lock:
            path.drain()
            return path.recordings.packet_ins(node)

    def digests(self, switch: str) -> list[Digest]:
        """Return and clear the digests that a switch sent, if there is no ``on_digest``."""
        path, node = self._node(switch)
        with self.lock:
            path.drain()
            return path.digests(node)

    def _node(self, switch: str) -> tuple[DataPath, int]:
        try:
            return self._nodes[switch]
        except KeyError:
            raise FabricError(f"there is no switch {switch!r}") from None

    def _port(self, port: Hop) -> tuple[DataPath, int]:
        try:
            return self._places[port]
        except KeyError:
            raise FabricError(f"switch {port[0]!r} has no port {port[1]}") from None


def _of(setting: _T | Mapping[Hop, _T], port: Hop, default: _T) -> _T:
    return setting.get(port, default) if isinstance(setting, Mapping) else setting


def _check_ports(
    devices: Mapping[str, object],
    ports: Mapping[str, object],
    every: list[Hop],
    settings: tuple[tuple[str, object], ...],
) -> None:
    """Raise `FabricError` if a port or a setting belongs to no switch."""
    if unknown := sorted(set(ports) - set(devices)):
        raise FabricError(f"ports: there are no switches {unknown}")
    for name, number in every:
        if not 0 <= number < DROP_PORT or number == CPU_PORT:
            raise FabricError(f"ports: {name}:{number}: a port is a number in 0..{CPU_PORT - 1}")
    for what, setting in settings:
        if isinstance(setting, Mapping) and (unknown_ports := sorted(set(setting) - set(every))):
            raise FabricError(f"{what}: there are no ports {unknown_ports}")
        values = setting.values() if isinstance(setting, Mapping) else [setting]
        if any(isinstance(value, int) and value < 0 for value in values):
            raise FabricError(f"{what}: a number is at least 0")


# Real-time switches that a controller can program: one P4Runtime server, with a device for each switch.


IDLE_LOOK_S: Final = 0.1
"""Interval in seconds of the check for idle entries: the resolution of idle time-outs. BMv2 checks once a second."""


class DeviceHost:
    """Devices in wall-clock time, without a program at first. Use as a context manager.

    No thread drives them: the caller runs frames through them (``server.device(...)``) while it holds ``server.lock``.
    """

    def __init__(
        self,
        devices: Mapping[str, int],
        *,
        on_packet_out: Callable[[int, bytes], None],
        address: str = "127.0.0.1:0",
        tls: Tls | None = None,
        executor: ExecutorName = "compiled",
    ) -> None:
        """Set up; ``devices``: P4Runtime's device id of each, by name. All but ``executor`` are for the server."""
        self._ids: Final = dict(devices)
        self._names: Final = {device_id: name for name, device_id in devices.items()}
        self._executor: ExecutorName = executor
        self.lock: Final = PausingLock()
        self.server: Final = P4RuntimeServer(
            address, on_pipeline=self._attach, on_packet_out=on_packet_out, tls=tls, lock=self.lock
        )
        for name, device_id in self._ids.items():
            self.server.add_device(device_id, name=name)
        self._ended = Event()
        self._idle = Thread(target=self._look_for_idle, name="idle", daemon=True)
        self._parts = ExitStack()

    @property
    def targets(self) -> list[tuple[str, str, int]]:
        """(switch, address of its P4Runtime server, device id) of each switch."""
        return [(name, self.server.address, device_id) for name, device_id in self._ids.items()]

    def device(self, name: str) -> Device | None:
        """Return the device of a switch; None before it has a program. Raises KeyError."""
        return self.server.device(self._ids[name])

    def __enter__(self) -> Self:
        with ExitStack() as parts:
            self._start(parts)
            self._idle.start()
            parts.callback(self._idle.join)
            parts.callback(self._ended.set)
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def _start(self, parts: ExitStack) -> None:
        parts.enter_context(self.server)

    def _attach(self, device_id: int, program: Program, p4info: p4i.P4Info) -> Device:
        """Make a switch's device when a program is set; the server calls this under its lock."""
        device = Device(program, name=self._names[device_id], device_id=device_id, executor=self._executor)
        _ = device.runner  # compiles now, so that a program that cannot be compiled is refused at its commit
        return device

    def _look_for_idle(self) -> None:
        while not self._ended.wait(IDLE_LOOK_S):
            self.server.report_idle()


class SwitchHost(DeviceHost):
    """Devices between sockets: compiled threads carry frames, and pause while a thread holds the lock.

    Packet-ins, digests and idle time-outs reach the controllers' streams, packet-outs the switches.
    """

    def __init__(
        self,
        devices: Mapping[str, int],
        ports: Mapping[str, Mapping[int, PortSpec]],
        *,
        address: str = "127.0.0.1:0",
        tls: Tls | None = None,
        **options: Any,
    ) -> None:
        """Open the ``ports`` of each switch; no client is served before the context is entered.

        ``options``: rates, queues and the other arguments of `RealSwitches`. Raises FabricError as it does.
        """
        super().__init__(devices, on_packet_out=self._packet_out, address=address, tls=tls)
        self.switches: Final = RealSwitches(
            dict.fromkeys(self._ids),
            ports,
            lock=self.lock,
            on_packet_in=lambda name, frame: self.server.packet_in(self._ids[name], frame),
            on_digest=lambda name, digest: self.server.learn(self._ids[name], digest),
            **options,
        )

    def check(self) -> None:
        """Raise ``FabricError`` when the switches have stopped by themselves."""
        self.switches.check()

    def _start(self, parts: ExitStack) -> None:
        parts.callback(self.server.stop)  # called last: remaining messages of the switches still find their stream
        parts.enter_context(self.switches)
        self.server.start()

    def _attach(self, device_id: int, program: Program, p4info: p4i.P4Info) -> Device:
        device = super()._attach(device_id, program, p4info)
        self.switches.set_device(self._names[device_id], device)
        return device

    def _packet_out(self, device_id: int, frame: bytes) -> None:
        try:
            self.switches.inject(self._names[device_id], CPU_PORT, frame)
        except FabricError as error:
            raise P4RuntimeError(StatusCode.FAILED_PRECONDITION, str(error)) from None
