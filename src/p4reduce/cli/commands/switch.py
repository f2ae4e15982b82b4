"""Switches of one process: P4Runtime on one address, packets from sockets, pcap files and controllers."""

import heapq
import ipaddress
import json
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, Self, cast

from finsy.proto import p4i, p4r
from google.protobuf import text_format

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.signals import SEEN_S
from p4reduce.cli.flags.switch import SwitchFlags
from p4reduce.network.real.io.path import PortSpec, Udp, Veth
from p4reduce.network.real.switches import DeviceHost, RealSwitches, SwitchHost
from p4reduce.network.virtual.counters import PcapWriter
from p4reduce.network.virtual.records import FabricError
from p4switch.abi import CPU_PORT, MAX_FRAME_BYTES, MAX_PORT
from p4switch.base.files import open_file, read_bytes, read_text
from p4switch.base.values import is_loopback
from p4switch.p4runtime import P4RuntimeError, StatusCode, Tls, TlsError
from p4switch.traffic import ExecutorName

# Formats of flags for ports and for the address to listen on.


def check_address(address: str, *, secured: bool, insecure: bool) -> None:
    """Refuse invalid addresses, and addresses with which anyone on the network could program the switch.

    Args:
        address: host:port.
        secured: whether TLS is used.
        insecure: whether the user insists on an address without TLS.

    Raises:
        BadInput.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadInput(f"--grpc-addr {address}: expected host:port, such as 127.0.0.1:9559 (port 0 takes a free one)")
    if not secured and not insecure and not is_loopback(host):
        raise BadInput(
            f"--grpc-addr {address}: anyone who reaches this address could program the switch; give --tls-cert and"
            " --tls-key (and --tls-ca, so that clients need a certificate), listen on 127.0.0.1, or give --insecure"
        )


def port_file(option: str, text: str, devices: list[int]) -> tuple[int, int, Path]:
    """Parse (device id, port, file) from "3=in.pcap", or "7:3=in.pcap" for several devices. Raises BadInput."""
    where, equals, path = text.partition("=")
    if not equals or not path:
        raise BadInput(f"{option} {text}: expected PORT=FILE, or DEVICE:PORT=FILE")
    return *device_port(option, where, devices), Path(path)


def device_port(option: str, text: str, devices: list[int]) -> tuple[int, int]:
    """Parse (device id, port) from "3" or "7:3". Raises BadInput."""
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


def port_spec(text: str) -> PortSpec:
    """Parse a port's peer: "veth0", or "udp:127.0.0.1:5001:192.0.2.7:5001" (own address, peer's address).

    IPv6 addresses are in brackets. Raises BadInput.
    """
    if not text.startswith("udp:"):
        return Veth(text, shaped=True)  # the user may have shaped the interface
    parsed = _UDP.fullmatch(text)
    if parsed is None or max(int(parsed["port"]), int(parsed["to"])) > 65535:
        raise BadInput(f"-i …@{text}: expected udp:ADDRESS:PORT:ADDRESS:PORT, own address first")
    return Udp((_ip(text, parsed["local"]), int(parsed["port"])), (_ip(text, parsed["remote"]), int(parsed["to"])))


def _ip(text: str, address: str) -> str:
    try:
        return str(ipaddress.ip_address(address.strip("[]")))
    except ValueError:
        raise BadInput(f"-i …@{text}: {address} is not an IP address") from None


# Frames from and to pcap files, for the virtual ports of switches.


PortOf = tuple[int, int]
"""device id and port"""


@dataclass(frozen=True, slots=True, order=True)
class FrameArrival:
    """An arriving frame. ``time_ns``: time in the capture; ``order``: index of the input, to order equal times."""

    time_ns: int
    order: int
    device_id: int
    port: int
    frame: bytes


def arrivals(inputs: Iterable[tuple[int, int, Path]]) -> list[FrameArrival]:
    """Return the frames of all input files (device id, port, pcap or pcapng) in the order of their times.

    Raises:
        BadInput: a file cannot be read, or has a frame that is truncated or too long.
    """
    return list(heapq.merge(*(sorted(_read(order, *source)) for order, source in enumerate(inputs))))


def _read(order: int, device_id: int, port: int, path: Path) -> Iterator[FrameArrival]:
    from scapy.error import Scapy_Exception  # noqa: PLC0415  (only where captures are played)
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
                yield FrameArrival(time_ns, order, device_id, port, bytes(frame))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None
    except (Scapy_Exception, EOFError) as error:
        raise BadInput(f"{path}: is not a pcap file: {error}") from None


class PcapRecorder:
    """Writes outgoing frames to a pcap file per port."""

    def __init__(self, outputs: Iterable[tuple[int, int, Path]]) -> None:
        """Open the files: (device id, port, path). Raises BadInput."""
        self._writers: dict[PortOf, PcapWriter] = {}
        for device_id, port, path in outputs:
            if (device_id, port) in self._writers:
                raise BadInput(f"{path}: port {port} of device {device_id} is written to a file already")
            try:
                self._writers[device_id, port] = PcapWriter(path)
            except OSError as error:
                raise BadInput(f"{path}: {error.strerror}") from None

    def write(self, device_id: int, port: int, time_ns: int, frame: bytes) -> None:
        """Append a frame, if this port is recorded."""
        writer = self._writers.get((device_id, port))
        if writer is not None:
            writer.write(time_ns * 1000, frame)

    def flush(self) -> None:
        """Write all buffered frames to the files."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()


PIPELINE_LOOK_S: Final = 0.1


@dataclass
class PlayedFrames:
    """Counts of played frames. ``sent``: frames by (device id, port)."""

    frames: int = 0
    dropped: int = 0
    sent: Counter[tuple[int, int]] = field(default_factory=Counter)


class SwitchProcess:
    """Devices and their ports.

    Virtual ports: packets run one at a time, each completely before the next, under the server's lock. Real ports
    (sockets): compiled threads carry frames, and pause while another thread holds the lock.
    """

    def __init__(
        self,
        address: str,
        devices: Sequence[int],
        *,
        cpu_port: int,
        executor: ExecutorName = "compiled",
        recorder: PcapRecorder,
        tls: Tls | None = None,
        ports: Mapping[int, Mapping[int, PortSpec]] | None = None,
    ) -> None:
        """Create the devices. ``ports``: sockets behind ports, by device and port; then all ports are real.

        Raises FabricError if a socket cannot be opened.
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
        """Wait until all these devices have a pipeline; return False if ``stop`` was set before."""
        while any(self.server.device(device_id) is None for device_id in devices):
            if stop.wait(PIPELINE_LOOK_S):
                return False
        return True

    def play(self, frames: Sequence[FrameArrival], stop: Event) -> PlayedFrames:
        """Inject frames in order, without delay; time stamps are relative to the first frame of the capture."""
        played = PlayedFrames()
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
        """Process a packet-out; the server calls this under its lock."""
        now = time.monotonic_ns() - self._started_ns
        self._run(device_id, self._cpu_port, frame, now // 1000, time.time_ns())
        self._recorder.flush()

    def _run(self, device_id: int, port: int, frame: bytes, time_us: int, time_ns: int) -> list[int]:
        """Process a frame; return the ports by which copies left."""
        device = self.server.device(device_id)
        if device is None:
            raise P4RuntimeError(StatusCode.FAILED_PRECONDITION, f"device {device_id} has no pipeline yet")
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
    """Start a thread that does not keep the process alive."""
    thread = Thread(target=work, name="player", daemon=True)
    thread.start()
    return thread


# ``p4reduce switch``: P4Runtime switches in a separate process.


def switch(flags: SwitchFlags) -> None:
    """Serve until a signal; play the frames of files meanwhile."""
    ids = list(flags.devices)
    tls = _tls(flags.tls_cert, flags.tls_key, flags.tls_ca)
    check_address(flags.address, secured=tls is not None, insecure=flags.insecure)
    config = _config(flags.argument, flags.program, flags.p4info)
    if config is not None and flags.wait_pipeline:
        raise BadInput("--wait-pipeline: the pipeline is set at the start, because a program is given")
    inputs = [port_file("--pcap-in", text, ids) for text in flags.pcap_in]
    outputs = [port_file("--pcap-out", text, ids) for text in flags.pcap_out]
    ports: dict[int, dict[int, PortSpec]] = {}
    for device_id, port, name in _interfaces(flags.interfaces, ids):
        if not flags.use_files:
            if port in ports.setdefault(device_id, {}):
                raise BadInput(f"-i {port}@{name}: port {port} of device {device_id} is an interface already")
            ports[device_id][port] = port_spec(name)
            continue
        inputs += [(device_id, port, path)] if (path := Path(f"{name}_in.pcap")).exists() else []
        outputs.append((device_id, port, Path(f"{name}_out.pcap")))
    if ports:
        _check_real(cpu_port=flags.cpu_port, executor=flags.executor, files=bool(inputs or outputs))
    if flags.once and not inputs:
        raise BadInput("--once: nothing is played; give --pcap-in")
    frames, recorder = arrivals(inputs), PcapRecorder(outputs)
    stop, go = Event(), Event()
    if not flags.wait_signal:
        go.set()
    try:
        process = SwitchProcess(
            flags.address,
            ids,
            cpu_port=flags.cpu_port,
            executor=flags.executor,
            recorder=recorder,
            tls=tls,
            ports=ports or None,
        )
    except FabricError as error:
        raise BadInput(f"-i: {error}") from None
    if config is not None:
        _commit(process, ids, config)
    _handle_signals(stop, go)
    with process:
        say = partial(_say, as_json=flags.as_json)
        real = {} if process.real is None else {"ports": _behind(process.real, ports)}
        say({"event": "listening", "address": process.server.address, "devices": ids, "tls": tls is not None, **real})
        _serve(process, frames, stop=stop, go=go, once=flags.once, say=say)
    if process.real is not None:
        say({"event": "stopped", "ports": _counted(process.real)})


def _serve(
    process: SwitchProcess,
    frames: list[FrameArrival],
    *,
    stop: Event,
    go: Event,
    once: bool,
    say: Callable[[dict[str, object]], None],
) -> None:
    """Play the frames when everything is ready, and serve until ``stop`` is set."""
    failures: list[Exception] = []

    def player() -> None:
        try:
            devices = sorted({arrival.device_id for arrival in frames})
            while not go.wait(0.1):
                if stop.is_set():
                    return
            if not process.wait_for_pipelines(devices, stop):
                return
            played = process.play(frames, stop)
            sent = [{"device": d, "port": p, "frames": n} for (d, p), n in sorted(played.sent.items())]
            say({"event": "played", "frames": played.frames, "dropped": played.dropped, "sent": sent})
        except Exception as error:
            failures.append(error)
            stop.set()
        if once:
            stop.set()

    thread = in_thread(player) if frames or once else None
    # Python runs signal handlers between bytecodes: a signal just before an endless wait would never be handled.
    while not stop.wait(SEEN_S):
        pass
    if thread is not None:
        thread.join()
    if failures:
        raise Failed(f"playing frames: {type(failures[0]).__name__}: {failures[0]}") from failures[0]


def _say(event: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(event), flush=True)
    elif event["event"] == "listening":
        secured = "TLS" if event["tls"] else "no TLS"
        print(f"P4Runtime on {event['address']} ({secured}), devices: {event['devices']}", flush=True)
    elif event["event"] == "stopped":
        for port in cast("list[dict[str, object]]", event["ports"]):
            print("  ".join(f"{name} {value}" for name, value in port.items()), flush=True)
    else:
        print(f"played {event['frames']} frames, {event['dropped']} dropped; sent: {event['sent']}", flush=True)


def _handle_signals(stop: Event, go: Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    signal.signal(signal.SIGUSR1, lambda *_: go.set())


def _tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> Tls | None:
    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None:
        raise BadInput("--tls-cert and --tls-key belong together; --tls-ca needs both")
    try:
        return Tls.from_files(certificate, key, client_ca)
    except TlsError as error:
        raise BadInput(str(error)) from None


def _config(argument: Path | None, option: Path | None, p4info: Path | None) -> p4r.ForwardingPipelineConfig | None:
    if argument is not None and option is not None:
        raise BadInput("--program: the program is given twice")
    program = argument or option
    if program is None:
        if p4info is not None:
            raise BadInput("--p4info: the program itself (P4 source or p4c's JSON) is missing")
        return None
    if program.suffix == ".p4":
        return _compiled(program, p4info)
    p4info = p4info or program.with_suffix(".p4info.txt")
    try:
        text = read_text(p4info)
        if not text.strip():
            raise BadInput(f"{p4info}: is empty; give the P4Info of the program")
        message = text_format.Parse(text, p4i.P4Info())
        return p4r.ForwardingPipelineConfig(p4info=message, p4_device_config=read_bytes(program))
    except OSError as error:
        raise BadInput(f"{error.filename}: {error.strerror}") from None
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise BadInput(f"{p4info}: is not P4Info in text format: {error}") from None


def _compiled(program: Path, p4info: Path | None) -> p4r.ForwardingPipelineConfig:
    from p4switch.p4.compile import compile_file, json_text  # noqa: PLC0415  (the compiler only where it is needed)

    if p4info is not None:
        raise BadInput("--p4info: not with P4 source, which has its own")
    if not program.is_file():
        raise BadInput(f"{program}: no such file")
    compilation = compile_file(program).require()
    message = text_format.Parse(compilation.p4info(), p4i.P4Info())
    return p4r.ForwardingPipelineConfig(p4info=message, p4_device_config=json_text(compilation.json or {}).encode())


def _commit(process: SwitchProcess, ids: list[int], config: p4r.ForwardingPipelineConfig) -> None:
    try:
        process.server.set_pipeline(ids, config)
    except P4RuntimeError as error:
        raise BadInput(error.message) from None


def _interfaces(texts: Sequence[str], ids: list[int]) -> list[tuple[int, int, str]]:
    """Return (device id, port, name) of each -i PORT@NAME."""
    interfaces = []
    for text in texts:
        port, at, name = text.partition("@")
        if not at or not name:
            raise BadInput(f"-i {text}: expected PORT@NAME")
        interfaces.append((*device_port("-i", port, ids), name))
    return interfaces


def _check_real(*, cpu_port: int, executor: str, files: bool) -> None:
    if files:
        raise BadInput("-i: pcap files and interfaces cannot be combined; --use-files reads -i as files")
    if executor != "compiled":
        raise BadInput("--executor interpreted: interfaces need machine code; leave it out, or play pcap files")
    if cpu_port != CPU_PORT:
        raise BadInput(f"--cpu-port {cpu_port}: with interfaces it is {CPU_PORT}")


def _behind(real: RealSwitches, ports: dict[int, dict[int, PortSpec]]) -> list[dict[str, object]]:
    """Return the peer of every port: an interface, or the address at which a UDP port listens."""
    rows: list[dict[str, object]] = []
    for device_id, own in ports.items():
        for port, spec in own.items():
            udp = str(spec).startswith("udp:")
            at = "{}:{}".format(*real.address(f"switch{device_id}", port)) if udp else str(spec)
            rows.append({"device": device_id, "port": port, "at": at})
    return rows


def _counted(real: RealSwitches) -> list[dict[str, object]]:
    """Return the counters of every port."""
    return [
        {
            "device": int(name.removeprefix("switch")),
            "port": port,
            "received": seen.received_frames,
            "sent": seen.sent.delivered,
            "dropped": seen.sent.queue_drops + seen.send_failures + seen.overrun + seen.oversize + seen.unprogrammed,
        }
        for (name, port), seen in real.port_counters().items()
    ]
