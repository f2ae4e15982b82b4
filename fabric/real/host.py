"""Switches in real time that a controller can program: one P4Runtime server, a device for each of them."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final, Self

from finsy.proto import p4i

from p4reduce.dataplane.abi import CPU_PORT
from p4reduce.dataplane.device import Device
from p4reduce.dataplane.executor import ExecutorName
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.p4runtime import Code, P4RuntimeError, P4RuntimeServer, Tls
from p4reduce.fabric.errors import FabricError
from p4reduce.fabric.real.io.ports import PortSpec
from p4reduce.fabric.real.switch_lock import PausingLock
from p4reduce.fabric.real.switches import RealSwitches

IDLE_LOOK_S: Final = 0.1
"""How often entries are looked at for idle time-outs: their resolution. BMv2 looks once a second."""


class DeviceHost:
    """Devices without a program at first, in wall-clock time. Use as a context manager.

    Nothing drives them: whoever has frames runs them through ``server.device(...)`` while it holds ``server.lock``.
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
        """``devices``: P4Runtime's device id of each, by name; all but ``executor`` is of the server."""
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
        """What runs at a switch; None before it has a program. Raises KeyError."""
        return self.server.device(self._ids[name])

    def __enter__(self) -> Self:
        with ExitStack() as parts:
            self._start(parts)
            self._idle.start()
            parts.callback(self._idle.join)
            parts.callback(self._ended.set)
            self._parts = parts.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.close()

    def _start(self, parts: ExitStack) -> None:
        parts.enter_context(self.server)

    def _attach(self, device_id: int, program: Program, p4info: p4i.P4Info) -> Device:
        """Called by the server, under its lock, when a program is set."""
        device = Device(program, name=self._names[device_id], device_id=device_id, executor=self._executor)
        _ = device.runner  # compiles now: a program that cannot be compiled is refused where it is committed
        return device

    def _look_for_idle(self) -> None:
        while not self._ended.wait(IDLE_LOOK_S):
            self.server.report_idle()


class SwitchHost(DeviceHost):
    """The same between sockets: compiled threads carry frames, and stand still while anyone holds the lock.

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
        """Open the ``ports`` of each switch; nobody is served before the context is entered.

        ``options``: rates, queues and what else `RealSwitches` takes. Raises FabricError as it does.
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
        parts.callback(self.server.stop)  # last: what switches still have to say finds its stream
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
            raise P4RuntimeError(Code.FAILED_PRECONDITION, str(error)) from None
