"""Switches of one process: P4Runtime on one address, packets from sockets, pcap files and controllers."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Final, Self

from p4reduce.cli.switch.captures import Arrival, Recorder
from p4reduce.dataplane.executor import ExecutorName
from p4reduce.dataplane.p4runtime import Code, P4RuntimeError, Tls
from p4reduce.fabric.real.host import DeviceHost, SwitchHost
from p4reduce.fabric.real.io.ports import PortSpec
from p4reduce.fabric.real.switches import RealSwitches

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
