"""Switches of one process: P4Runtime on one address, packets from sockets, pcap files and controllers."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Final, Self

from finsy.proto import p4i

from p4reduce.cli.switch.captures import Arrival, Recorder
from p4reduce.dataplane.abi import MAX_FRAME_BYTES
from p4reduce.dataplane.device import Device, ExecutorName
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.p4runtime import Code, P4RuntimeError, P4RuntimeServer, Tls
from p4reduce.fabric.errors import FabricError
from p4reduce.fabric.real.io.ports import PortSpec
from p4reduce.fabric.real.switch_lock import PausingLock
from p4reduce.fabric.real.switches import RealSwitches

IDLE_LOOK_SECONDS: Final = 0.1
"""How often entries are looked at for idle time-outs: their resolution. BMv2 looks once a second."""


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
        lock = PausingLock()
        self.server: Final = P4RuntimeServer(
            address, on_pipeline=self._attach, on_packet_out=self._packet_out, tls=tls, clock=time.time_ns, lock=lock
        )
        self.real: Final = None if ports is None else self._real_switches(devices, ports, lock)
        for device_id in devices:
            self.server.add_device(device_id)
        self._cpu_port = cpu_port
        self._executor: ExecutorName = executor
        self._recorder = recorder
        self._started_ns = time.monotonic_ns()
        self._committed = {device_id: Event() for device_id in devices}
        self._stopped = Event()
        self._idle = Thread(target=self._look_for_idle, name="idle", daemon=True)

    def __enter__(self) -> Self:
        self.server.start()
        self._idle.start()
        if self.real is not None:
            self.real.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._idle.join()
        if self.real is not None:
            self.real.stop()
        self.server.stop()
        with self.server.lock:
            self._recorder.close()

    def wait_for_pipelines(self, devices: Sequence[int], stop: Event) -> bool:
        """Waits until all these devices have a pipeline; False where ``stop`` was set before."""
        return all(self._wait(self._committed[device_id], stop) for device_id in devices)

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

    # --- what the server calls, under its lock

    def _attach(self, device_id: int, program: Program, p4info: p4i.P4Info) -> Device:
        device = Device(program, name=f"switch{device_id}", device_id=device_id, executor=self._executor)
        _ = device.runner  # compiles now: a program that cannot be compiled is refused where it is committed
        if self.real is not None:
            self.real.set_device(_name(device_id), device)
        self._committed[device_id].set()
        return device

    def _packet_out(self, device_id: int, frame: bytes) -> None:
        if self.real is not None:
            try:
                self.real.inject(_name(device_id), self._cpu_port, frame)
            except FabricError as error:
                raise P4RuntimeError(Code.FAILED_PRECONDITION, str(error)) from None
            return
        now = time.monotonic_ns() - self._started_ns
        self._run(device_id, self._cpu_port, frame, now // 1000, time.time_ns())
        self._recorder.flush()

    # --- real ports

    def _real_switches(
        self, devices: Sequence[int], ports: Mapping[int, Mapping[int, PortSpec]], lock: PausingLock
    ) -> RealSwitches:
        ids = {_name(device_id): device_id for device_id in devices}
        return RealSwitches(
            dict.fromkeys(ids),
            {_name(device_id): own for device_id, own in ports.items()},
            max_frame=MAX_FRAME_BYTES,
            lock=lock,
            on_packet_in=lambda name, frame: self.server.packet_in(ids[name], frame),
            on_digest=lambda name, digest: self.server.learn(ids[name], digest),
        )

    # --- packets

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

    def _look_for_idle(self) -> None:
        while not self._stopped.wait(IDLE_LOOK_SECONDS):
            self.server.report_idle()

    def _wait(self, event: Event, stop: Event) -> bool:
        while not stop.is_set():
            if event.wait(IDLE_LOOK_SECONDS):
                return True
        return False


def _name(device_id: int) -> str:
    return f"switch{device_id}"


def in_thread(work: Callable[[], None]) -> Thread:
    """Starts a thread that does not keep the process alive."""
    thread = Thread(target=work, name="player", daemon=True)
    thread.start()
    return thread
