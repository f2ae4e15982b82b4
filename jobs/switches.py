"""The embedded switches of a topology, served over P4Runtime on a loopback port, and their controller."""

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Self

from finsy.proto import p4i, p4r
from google.protobuf import text_format

from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import SwitchSettings
from p4reduce.control_plane.program import P4Program
from p4reduce.control_plane.tokens import seeded_key
from p4reduce.dataplane.device import Device
from p4reduce.dataplane.p4runtime import P4RuntimeServer
from p4reduce.fabric import VirtualNetwork
from p4reduce.topologies import Topology

_DEFAULTS = SwitchSettings()
VIRTUAL_DEADLINE_S: Final = 300.0
"""for an answer of switches in virtual time, seconds: nothing of a run may depend on how busy this machine is, and no
network loses an answer between threads. What is left for a deadline to find is a fault, and its error names the switch.
"""


class ServedSwitches:
    """One process, one port, a device for each switch, without a controller. Use as a context manager."""

    def __init__(self, topology: Topology, *, lock: AbstractContextManager[bool] | None = None) -> None:
        self.topology = topology
        self._ids = {switch.name: index + 1 for index, switch in enumerate(topology.switches)}
        self.network: VirtualNetwork | None = None
        """Whose time the switches live in, once there is one."""
        self.learned = 0
        """digests that were handed to controllers' streams"""
        self.server = P4RuntimeServer("127.0.0.1:0", clock=self._now_ns, lock=lock)
        for name, device_id in self._ids.items():
            self.server.add_device(device_id, name=name)
        self.server.start()

    def targets(self) -> list[Target]:
        """Where a controller finds them."""
        return [Target(name, self.server.address, device_id) for name, device_id in self._ids.items()]

    def load(self, program: P4Program) -> None:
        """Start every switch with a program; a controller may load another one later."""
        config = p4r.ForwardingPipelineConfig(
            p4info=text_format.Parse(program.p4info.decode(), p4i.P4Info()), p4_device_config=program.json
        )
        for device_id in self._ids.values():
            self.server.set_pipeline(device_id, config)

    def restart(self, switch: str) -> None:
        """A switch starts anew: it has its program, and nothing that was installed."""
        self.server.restart(self._ids[switch])

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
            for _, digest in network.digests(name):
                self.server.learn(device_id, digest)
                self.learned += 1
        self.server.report_idle()

    def _now_ns(self) -> int:
        return 0 if self.network is None else self.network.now // 1000

    def close(self) -> None:
        """Stop serving."""
        self.server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class EmbeddedSwitches(ServedSwitches):
    """The same with a controller that has loaded the program; ``seed`` is that of its jobs' tokens."""

    def __init__(
        self,
        topology: Topology,
        program: P4Program,
        *,
        settings: SwitchSettings = _DEFAULTS,
        lock: AbstractContextManager[bool] | None = None,
        deadline_s: float = VIRTUAL_DEADLINE_S,
        seed: int = 0,
    ) -> None:
        super().__init__(topology, lock=lock)
        try:
            self.controller = Controller(
                topology,
                self.targets(),
                program,
                settings=settings,
                deadline_s=deadline_s,
                token_key=seeded_key(seed),
            )
            self.controller.start()
        except BaseException:
            self.server.stop()
            raise

    def close(self) -> None:
        """Disconnect the controller and stop serving."""
        try:
            self.controller.close()
        finally:
            super().close()
