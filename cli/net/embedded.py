"""The switches of a topology on the embedded switch, between interfaces, for any P4Runtime controller."""

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Final

from finsy.proto import p4i

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.p4runtime import P4RuntimeServer
from p4reduce.fabric.queues import CPU_PORT
from p4reduce.fabric.real.io.ports import Veth
from p4reduce.fabric.real.switch_lock import PausingLock
from p4reduce.fabric.real.switches import RealSwitches
from p4reduce.topologies import Topology

ADDRESS: Final = "127.0.0.1:9559"
"""P4Runtime's own port; in a network namespace of ours nobody else has it."""
IDLE_LOOK_S: Final = 0.1
"""How often entries are looked at for idle time-outs: their resolution."""


class EmbeddedSwitches:
    """One P4Runtime server with a device for each switch, without a program at first. Use as a context manager."""

    def __init__(
        self, topology: Topology, interfaces: Mapping[str, Mapping[int, str]], *, shaped: bool, address: str = ADDRESS
    ) -> None:
        self._ids: Final = {switch.name: switch.index + 1 for switch in topology.switches}
        self._names: Final = {device_id: name for name, device_id in self._ids.items()}
        ports = {
            name: {port: Veth(interface, shaped=shaped) for port, interface in own.items()}
            for name, own in interfaces.items()
        }
        lock = PausingLock()
        self._server = P4RuntimeServer(
            address, on_pipeline=self._attach, on_packet_out=self._packet_out, clock=time.time_ns, lock=lock
        )
        for name, device_id in self._ids.items():
            self._server.add_device(device_id, name=name)
        self._switches = RealSwitches(
            dict.fromkeys(self._ids),
            ports,
            lock=lock,
            on_packet_in=lambda name, frame: self._server.packet_in(self._ids[name], frame),
        )
        self._stopped = threading.Event()
        self._idle = threading.Thread(target=self._look_for_idle, name="idle", daemon=True)
        self._parts = ExitStack()

    @property
    def targets(self) -> list[tuple[str, str, int]]:
        """(switch, address of its P4Runtime server, device id) of each switch."""
        return [(name, self._server.address, device_id) for name, device_id in self._ids.items()]

    def check(self) -> None:
        """Raise ``FabricError`` when the switches have stopped by themselves."""
        self._switches.check()

    def __enter__(self) -> "EmbeddedSwitches":
        try:
            self._parts.enter_context(self._switches)
            self._parts.enter_context(self._server)
        except BaseException:
            self._parts.close()
            raise
        self._idle.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._idle.join()
        self._parts.close()

    def _attach(self, device_id: int, program: Program, p4info: p4i.P4Info) -> Device:
        """Called by the server, under its lock, when a controller sets a program."""
        name = self._names[device_id]
        device = Device(program, name=name, device_id=device_id)
        self._switches.set_device(name, device)
        return device

    def _packet_out(self, device_id: int, frame: bytes) -> None:
        self._switches.inject(self._names[device_id], CPU_PORT, frame)

    def _look_for_idle(self) -> None:
        while not self._stopped.wait(IDLE_LOOK_S):
            self._server.report_idle()
