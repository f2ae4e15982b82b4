"""Embedded switches in real time: P4 devices between sockets, driven by compiled threads without Python."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from p4reduce.dataplane.abi import CPU_PORT, DROP_PORT, MAX_FRAME_BYTES
from p4reduce.dataplane.executor import Digest
from p4reduce.fabric.counters import DeviceCounters, Incidents, Where
from p4reduce.fabric.devices import SwitchDevice
from p4reduce.fabric.errors import FabricError
from p4reduce.fabric.faults import Faults
from p4reduce.fabric.real.io.path import DataPath, PortPlan
from p4reduce.fabric.real.io.ports import OpenPort, PortSpec
from p4reduce.fabric.real.switch_counters import PortCounters, read_port
from p4reduce.fabric.real.switch_courier import Courier, DigestHandler, PacketInHandler
from p4reduce.fabric.real.switch_incidents import read_incidents
from p4reduce.fabric.real.switch_lock import PausingLock
from p4reduce.fabric.recordings import PacketIn
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

_T = TypeVar("_T")


class RealSwitches:
    """Switches whose ports are sockets. Use it as a context manager, or call `start` and `stop`.

    What happens between two ports is the virtual fabric's own code: ingress, replication, eight strict-priority queues
    for each port, egress when a frame leaves its queue, then a link of the given rate and delay with the given faults,
    at whose end the port's socket takes the frame. A port without a rate sends at once; when its socket is full,
    frames wait in the queues.
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
            By name; None: the switch has no program yet (`set_device`), and drops what comes.
        ports : mapping of mapping of PortSpec
            The ports of each switch, by number, 0 to 509.
        faults : Faults or mapping of Faults
            Of what leaves; for every port alike, or by (switch, port).
        delays_ps : int or mapping of int
            Between a port's queue and its socket, picoseconds; likewise.
        rates_bps : int or mapping of int
            To which a port is shaped, bits a second (with preamble, gap and checksum, as a link is); 0: not at all.
        queue_frames : int
            Frames that each of a port's eight queues holds.
        seed : int
            Of the faults.
        threads : int
            How many threads share the switches.
        max_frame : int
            Longest frame in bytes, without FCS.
        max_replicas : int
            Largest multicast group.
        rest_us : int
            Microseconds for which frames gather after a busy time: more delay for far less CPU time.
        lock : PausingLock
            Whose holders have the switches stand still: that of the P4RuntimeServer.
        on_packet_in : callable
            Takes frames for the controller; without it, `packet_ins` gives them.
        on_digest : callable
            Takes digests; without it, `digests` gives them.
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

    # --- life

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def paused(self) -> PausingLock:
        """A context in which no frame moves; raises `FabricError` if a data path does not pause in time."""
        return self.lock

    @property
    def data_paths(self) -> tuple[DataPath, ...]:
        """What drives them: one for each thread."""
        return tuple(self._paths)

    def cpu_s(self) -> float:
        """Processor time that the data paths have used since `start`, seconds; 0 when they do not run."""
        return sum(path.cpu_s() for path in self._paths)

    # --- what is done to them while they run

    def set_device(self, switch: str, device: SwitchDevice | None) -> None:
        """Have a switch run another program, or none; frames in queues are dropped."""
        path, node = self._node(switch)
        with self.lock:
            path.set_device(node, device)

    def inject(self, switch: str, port: int, frame: bytes) -> None:
        """Have a frame enter a switch by a port; packet-out comes by port 510."""
        path, node = self._node(switch)
        with self.lock:
            path.inject(node, port, frame)

    def capture(self, switch: str, port: int, path: str | Path) -> None:
        """Write what passes a port from now on, in both directions, to a pcap file; complete after `stop`."""
        where, place = self._port((switch, port))
        with self.lock:
            where.capture(place, Path(path))

    # --- what is seen

    def address(self, switch: str, port: int) -> tuple[str, int]:
        """Where a UDP port listens: (IP address, UDP port), where it took a free one too."""
        self._port((switch, port))
        host, number = self._opened[switch, port].socket.getsockname()[:2]
        return str(host), int(number)

    def port_counters(self) -> dict[Hop, PortCounters]:
        """Counters of every port by (switch, port), of one moment."""
        with self.lock:
            return {
                port: read_port(path.ports[place], path.links[place], self._opened[port].dropped())
                for port, (path, place) in self._places.items()
            }

    def switch_counters(self, switch: str) -> DeviceCounters:
        """What a switch counted."""
        path, node = self._node(switch)
        with self.lock:
            record = path.nodes[node]
            return DeviceCounters(**{field.name: int(record[field.name]) for field in fields(DeviceCounters)})

    def incidents(self, topology: Topology) -> dict[Where, Incidents]:
        """What happened to first transmissions of INC, by port, destination and job, as in virtual time."""
        found: dict[Where, Incidents] = {}
        with self.lock:
            for path in self._paths:
                ports = [port for port, (where, _) in self._places.items() if where is path]
                found |= read_incidents(path, ports, topology)
        return found

    def packet_ins(self, switch: str) -> list[PacketIn]:
        """Take the frames that a switch sent to the controller since the last call, without ``on_packet_in``."""
        path, node = self._node(switch)
        with self.lock:
            path.drain()
            return path.recordings.packet_ins(node)

    def digests(self, switch: str) -> list[Digest]:
        """Take the digests that a switch sent since the last call, without ``on_digest``."""
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
    """Raise `FabricError` where a port or a setting belongs to nobody."""
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
