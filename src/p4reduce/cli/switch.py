"""Switches of one process: P4Runtime on one address, packets from sockets, pcap files and controllers."""

import heapq
import ipaddress
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, Self, cast

from p4reduce.base.errors import BadInput
from p4reduce.network.real.io.path import PortSpec
from p4reduce.network.real.switches import DeviceHost, RealSwitches, SwitchHost
from p4reduce.network.virtual.counters import PcapWriter
from p4switch.abi import MAX_FRAME_BYTES, MAX_PORT
from p4switch.base.files import open_file
from p4switch.executor import ExecutorName
from p4switch.p4runtime import Code, P4RuntimeError, Tls

if TYPE_CHECKING:
    from p4reduce.network.real.io.path import PortSpec


# What a user writes for devices, ports and the address to listen on.


MAX_DEVICES: Final = 4096
"""Devices of one process; a guard against a slip in a range."""

_RANGE: Final = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?")


def device_ids(text: str) -> list[int]:
    """Device ids from "1", "1-300" or "1-3,7". Raises BadInput."""
    ids: set[int] = set()
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise BadInput(f"--device-id {text}: {part!r} is neither a number nor a range such as 1-300")
        first, last = int(found[1]), int(found[2] or found[1])
        if not 0 < first <= last < 1 << 64:
            raise BadInput(f"--device-id {text}: {part!r} is empty or not above 0")
        if len(ids) + last - first + 1 > MAX_DEVICES:
            raise BadInput(f"--device-id {text}: more than {MAX_DEVICES} devices in one process")
        ids.update(range(first, last + 1))
    return sorted(ids)


def check_address(address: str, *, secured: bool, insecure: bool) -> None:
    """Refuses addresses that cannot be meant, or that would let anyone on the network program the switch.

    Args:
        address: host:port.
        secured: whether TLS is used.
        insecure: the user insists.

    Raises:
        BadInput.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadInput(f"--grpc-addr {address}: expected host:port, such as 127.0.0.1:9559 (port 0 takes a free one)")
    if not secured and not insecure and not _is_loopback(host):
        raise BadInput(
            f"--grpc-addr {address}: anyone who reaches this address could program the switch; give --tls-cert and"
            " --tls-key (and --tls-ca, so that clients need a certificate), listen on 127.0.0.1, or say --insecure"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def port_file(option: str, text: str, devices: list[int]) -> tuple[int, int, Path]:
    """(device id, port, file) from "3=in.pcap", or "7:3=in.pcap" where there are several devices. Raises BadInput."""
    where, equals, path = text.partition("=")
    if not equals or not path:
        raise BadInput(f"{option} {text}: expected PORT=FILE, or DEVICE:PORT=FILE")
    return *device_port(option, where, devices), Path(path)


def device_port(option: str, text: str, devices: list[int]) -> tuple[int, int]:
    """(device id, port) from "3" or "7:3". Raises BadInput."""
    device, colon, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) >= MAX_PORT:
        raise BadInput(f"{option} {text}: a port is a number in 0..{MAX_PORT - 1}")
    if not colon:
        if len(devices) > 1:
            raise BadInput(f"{option} {text}: there are {len(devices)} devices; say which: {devices[0]}:{text}")
        return devices[0], int(port)
    if not device.isascii() or not device.isdigit() or int(device) not in devices:
        raise BadInput(f"{option} {text}: there is no device {device!r}; see --device-id")
    return int(device), int(port)


_UDP: Final = re.compile(
    r"udp:(?P<local>[^:\[\]]+|\[[^\]]+\]):(?P<port>\d+):(?P<remote>[^:\[\]]+|\[[^\]]+\]):(?P<to>\d+)"
)


def port_spec(text: str) -> "PortSpec":
    """What is behind a port: "veth0", or "udp:127.0.0.1:5001:192.0.2.7:5001" (own address, the other's).

    IPv6 addresses stand in brackets. Raises BadInput.
    """
    from p4reduce.network.real.io.path import Udp, Veth  # noqa: PLC0415  (slow to import)

    if not text.startswith("udp:"):
        return Veth(text, shaped=True)  # whatever the user has put on the interface
    found = _UDP.fullmatch(text)
    if found is None or max(int(found["port"]), int(found["to"])) > 65535:
        raise BadInput(f"-i …@{text}: expected udp:ADDRESS:PORT:ADDRESS:PORT, own address first")
    return Udp((_ip(text, found["local"]), int(found["port"])), (_ip(text, found["remote"]), int(found["to"])))


def _ip(text: str, address: str) -> str:
    try:
        return str(ipaddress.ip_address(address.strip("[]")))
    except ValueError:
        raise BadInput(f"-i …@{text}: {address} is no IP address") from None


# Frames from and to pcap files, for the virtual ports of switches.


PortOf = tuple[int, int]
"""Device id and port."""


@dataclass(frozen=True, slots=True, order=True)
class Arrival:
    """A frame that arrives. ``time_ns``: of the capture; ``order``: of inputs, where times are equal."""

    time_ns: int
    order: int
    device_id: int
    port: int
    frame: bytes


def arrivals(inputs: Iterable[tuple[int, int, Path]]) -> list[Arrival]:
    """The frames of all input files (device id, port, pcap or pcapng) in the order of their time.

    Raises:
        BadInput: a file cannot be read, or holds a frame that is cut or too long.
    """
    return list(heapq.merge(*(sorted(_read(order, *one)) for order, one in enumerate(inputs))))


def _read(order: int, device_id: int, port: int, path: Path) -> Iterator[Arrival]:
    from scapy.error import Scapy_Exception  # noqa: PLC0415  (slow to import)
    from scapy.utils import RawPcapNgReader, RawPcapReader  # noqa: PLC0415

    try:
        open_file(path).close()
        with RawPcapReader(str(path)) as reader:
            next_generation = isinstance(reader, RawPcapNgReader)
            if not next_generation and reader.linktype != 1:
                raise BadInput(f"{path}: link type {reader.linktype}; only Ethernet (1) can be played")
            for number, (frame, about) in enumerate(cast("Iterable[tuple[bytes, Any]]", reader), start=1):
                if len(frame) < about.wirelen:
                    raise BadInput(f"{path}: frame {number} was cut to {len(frame)} bytes when it was captured")
                if len(frame) > MAX_FRAME_BYTES:
                    raise BadInput(f"{path}: frame {number} has {len(frame)} bytes; the limit is {MAX_FRAME_BYTES}")
                if next_generation:
                    time_ns = ((about.tshigh << 32) + about.tslow) * 10**9 // int(about.tsresol)
                else:
                    time_ns = about.sec * 10**9 + about.usec * (1 if reader.nano else 1000)
                yield Arrival(time_ns, order, device_id, port, bytes(frame))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None
    except (Scapy_Exception, EOFError) as error:
        raise BadInput(f"{path}: is no pcap file: {error}") from None


class Recorder:
    """Writes what leaves to one pcap file for each port."""

    def __init__(self, outputs: Iterable[tuple[int, int, Path]]) -> None:
        """Opens the files: (device id, port, path). Raises BadInput."""
        self._writers: dict[PortOf, PcapWriter] = {}
        for device_id, port, path in outputs:
            if (device_id, port) in self._writers:
                raise BadInput(f"{path}: port {port} of device {device_id} is written to a file already")
            try:
                self._writers[device_id, port] = PcapWriter(path)
            except OSError as error:
                raise BadInput(f"{path}: {error.strerror}") from None

    def write(self, device_id: int, port: int, time_ns: int, frame: bytes) -> None:
        """Appends a frame, if this port is recorded."""
        writer = self._writers.get((device_id, port))
        if writer is not None:
            writer.write(time_ns * 1000, frame)

    def flush(self) -> None:
        """Brings everything to the files."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Closes the files."""
        for writer in self._writers.values():
            writer.close()


PIPELINE_LOOK_S: Final = 0.1


@dataclass
class Played:
    """What became of the frames that were played. ``sent``: frames by (device id, port)."""

    frames: int = 0
    dropped: int = 0
    sent: Counter[tuple[int, int]] = field(default_factory=Counter)


class SwitchProcess:
    """Devices and their ports.

    Virtual ports: packets run one at a time, each wholly before the next, under the server's lock. Real ones (sockets):
    compiled threads carry frames, and stand still while anyone holds the lock.
    """

    def __init__(
        self,
        address: str,
        devices: Sequence[int],
        *,
        cpu_port: int,
        executor: ExecutorName = "compiled",
        recorder: Recorder,
        tls: Tls | None = None,
        ports: Mapping[int, Mapping[int, PortSpec]] | None = None,
    ) -> None:
        """``ports``: sockets behind ports, by device and port; all ports are real then.

        Raises FabricError where one cannot be opened.
        """
        ids = {_name(device_id): device_id for device_id in devices}
        self.real: RealSwitches | None = None
        self._host: DeviceHost
        if ports is None:
            self._host = DeviceHost(ids, on_packet_out=self._packet_out, address=address, tls=tls, executor=executor)
        else:
            sockets = {_name(device_id): own for device_id, own in ports.items()}
            self._host = host = SwitchHost(ids, sockets, address=address, tls=tls)
            self.real = host.switches
        self.server: Final = self._host.server
        self._cpu_port = cpu_port
        self._recorder = recorder
        self._started_ns = time.monotonic_ns()

    def __enter__(self) -> Self:
        self._host.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._host.__exit__(None, None, None)
        with self.server.lock:
            self._recorder.close()

    def wait_for_pipelines(self, devices: Sequence[int], stop: Event) -> bool:
        """Waits until all these devices have a pipeline; False where ``stop`` was set before."""
        while any(self.server.device(device_id) is None for device_id in devices):
            if stop.wait(PIPELINE_LOOK_S):
                return False
        return True

    def play(self, frames: Sequence[Arrival], stop: Event) -> Played:
        """Injects frames in order, at once; time stamps are those of the capture, from its first frame on."""
        played = Played()
        for arrival in frames:
            if stop.is_set():
                break
            time_us = (arrival.time_ns - frames[0].time_ns) // 1000
            with self.server.lock:
                ports = self._run(arrival.device_id, arrival.port, arrival.frame, time_us, arrival.time_ns)
            played.frames += 1
            played.dropped += not ports
            played.sent.update((arrival.device_id, port) for port in ports)
        with self.server.lock:
            self._recorder.flush()
        return played

    # --- packets

    def _packet_out(self, device_id: int, frame: bytes) -> None:
        """Called by the server, under its lock."""
        now = time.monotonic_ns() - self._started_ns
        self._run(device_id, self._cpu_port, frame, now // 1000, time.time_ns())
        self._recorder.flush()

    def _run(self, device_id: int, port: int, frame: bytes, time_us: int, time_ns: int) -> list[int]:
        """Runs a frame; the ports by which copies left."""
        device = self.server.device(device_id)
        if device is None:
            raise P4RuntimeError(Code.FAILED_PRECONDITION, f"device {device_id} has no pipeline yet")
        sent = device.inject(port, frame, time_us=time_us)
        for out_port, out in sent:
            if out_port == self._cpu_port:
                self.server.packet_in(device_id, out)
            else:
                self._recorder.write(device_id, out_port, time_ns, out)
        return [out_port for out_port, _ in sent]


def _name(device_id: int) -> str:
    return f"switch{device_id}"


def in_thread(work: Callable[[], None]) -> Thread:
    """Starts a thread that does not keep the process alive."""
    thread = Thread(target=work, name="player", daemon=True)
    thread.start()
    return thread
