"""The embedded switches of a topology, served over P4Runtime on a loopback port, and their controller."""

from types import TracebackType
from typing import Self

from p4reduce.cluster.programs import P4Files
from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import Settings
from p4reduce.dataplane.device import Device
from p4reduce.dataplane.p4runtime import P4RuntimeServer
from p4reduce.fabric import VirtualNetwork
from p4reduce.topologies import Topology

_DEFAULTS = Settings()


class EmbeddedSwitches:
    """One process, one port, a device for each switch. Use as a context manager."""

    def __init__(self, topology: Topology, program: P4Files, *, settings: Settings = _DEFAULTS) -> None:
        self._ids = {switch.name: index + 1 for index, switch in enumerate(topology.switches)}
        self.network: VirtualNetwork | None = None
        """Whose time the switches live in, once there is one."""
        self.server = P4RuntimeServer("127.0.0.1:0", clock=self._now_ns)
        for name, device_id in self._ids.items():
            self.server.add_device(device_id, name=name)
        self.server.start()
        try:
            targets = [Target(name, self.server.address, device_id) for name, device_id in self._ids.items()]
            self.controller = Controller(topology, targets, program.p4info, program.json, settings=settings)
            self.controller.start()
        except BaseException:
            self.server.stop()
            raise

    def devices(self) -> dict[str, Device]:
        """Every switch's device, by name."""
        found = {name: self.server.device(device_id) for name, device_id in self._ids.items()}
        return {name: device for name, device in found.items() if device is not None}

    def report(self, network: VirtualNetwork) -> None:
        """Hand to the controllers' streams what came up: packets at CPU ports, digests, entries that were idle."""
        self.network = network
        for name, device_id in self._ids.items():
            for packet in network.packet_ins(name):
                self.server.packet_in(device_id, packet.frame)
        self.server.report_idle()

    def _now_ns(self) -> int:
        return 0 if self.network is None else self.network.now // 1000

    def close(self) -> None:
        """Disconnect the controller and stop serving."""
        try:
            self.controller.close()
        finally:
            self.server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
