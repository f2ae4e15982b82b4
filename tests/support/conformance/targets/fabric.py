"""The embedded switch in the virtual fabric as a target: with queues, links and events instead of Device.inject."""

from pathlib import Path
from typing import Final

from p4reduce.network.virtual import VirtualNetwork
from p4reduce.topologies import TopologyBuilder
from p4switch.program import Program
from tests.support.conformance.targets.embedded import EmbeddedSwitch
from tests.support.conformance.targets.target import Sent
from tests.support.pcaps import read_frames

PORTS: Final = range(1, 9)
"""ports of the switch; frames that leave by other ports are lost"""


class FabricSwitch(EmbeddedSwitch):
    """A one-switch network with a host at each of PORTS; ``send`` runs the network until it is idle."""

    def __init__(self, program: Program, folder: Path) -> None:
        """Builds the network; ``folder`` receives captures."""
        super().__init__(program, "compiled")
        self.name = "fabric"
        builder = TopologyBuilder("one")
        builder.switch("s1")
        for port in PORTS:
            builder.host(f"h{port}")
            builder.link(f"h{port}", "s1", "10G", "1us")
        self.network = VirtualNetwork(builder.build(), {"s1": self.device}, max_frame=9216)
        self._captures = {port: folder / f"{port}.pcap" for port in PORTS}
        self._seen = dict.fromkeys(PORTS, 0)
        for port, path in self._captures.items():
            self.network.capture("s1", port, path)

    def send(self, port: int, frame: bytes) -> None:
        self.network.inject("s1", port, frame)
        self.network.run()
        for _, digest in self.network.digests("s1"):
            self.device.on_digest(digest)

    def drain(self) -> Sent:
        sent: Sent = []
        for port, path in self._captures.items():
            frames = read_frames(path)
            sent += [(port, frame) for frame in frames[self._seen[port] :]]
            self._seen[port] = len(frames)
        return sent
