"""What can be seen of a network: its clock, counters, captures, packets for the controller, incidents."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from p4reduce.dataplane.executor import Digest
from p4reduce.fabric.counters import DeviceCounters, HostCounters, Incidents, Where
from p4reduce.fabric.devices import SwitchDevice
from p4reduce.fabric.errors import FabricError
from p4reduce.fabric.memory import Memory
from p4reduce.fabric.recordings import PacketIn, Recordings
from p4reduce.fabric.wiring import Wiring
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop


@dataclass(frozen=True, slots=True)
class OnWire:
    """A frame that is on its way: when its last bit arrives (virtual picoseconds), and whether undamaged."""

    arrives_ps: int
    frame: bytes
    damaged: bool


class Seen:
    """The part of a network that only looks."""

    topology: Topology
    _wiring: Wiring
    _recordings: Recordings
    _memory: Memory
    _devices: Mapping[str, SwitchDevice]

    @property
    def now(self) -> int:
        """Virtual time, picoseconds."""
        return int(self._memory.world[0]["now"])

    @property
    def events(self) -> int:
        """Events that have happened so far."""
        return int(self._memory.world[0]["events"])

    def capture(self, node: str, port: int, path: str | Path) -> None:
        """Write what passes a port from now on, in both directions, to a pcap file; complete after each `run`.

        Time stamps are virtual, cut to nanoseconds: of the first bit for frames that leave, of the last for those
        that arrive. Lost and corrupted frames are seen where they leave, and not where they would have arrived.
        """
        link = self._wiring.link_from((node, port))
        links = self._wiring.links
        if links[link]["tap_source"] >= 0:
            raise FabricError(f"port {port} of {node!r} is captured already")
        tap = self._recordings.open(Path(path))
        links[link]["tap_source"] = tap
        links[link ^ 1]["tap_target"] = tap

    def device(self, name: str) -> SwitchDevice | None:
        """What a switch runs; None where no switch has that name."""
        return self._devices.get(name)

    def on_wire(self, port: Hop, most: int = 64) -> list[OnWire]:
        """Frames on the link that leaves a node by a port, the next to arrive first, without those held back.

        Only between two calls of `run`, or from its pacer.
        """
        found: list[OnWire] = []
        pool, place = self._memory.frames, int(self._wiring.links[self._wiring.link_from(port)]["wire_head"])
        while place >= 0 and len(found) < most:
            record, begin = pool.records[place], place * pool.cell_bytes
            frame = pool.cells[begin : begin + int(record["length"])].tobytes()
            found.append(OnWire(int(record["time"]), frame, bool(record["damaged"])))
            place = int(record["next"])
        return found

    def switch_counters(self, name: str) -> DeviceCounters:
        """What a switch counted."""
        record = self._node(name)
        return DeviceCounters(**{field.name: int(record[field.name]) for field in fields(DeviceCounters)})

    def host_counters(self, name: str) -> HostCounters:
        """What a host counted."""
        record = self._node(name)
        return HostCounters(**{field.name: int(record[field.name]) for field in fields(HostCounters)})

    def packet_ins(self, name: str) -> list[PacketIn]:
        """Take the frames that a switch sent to the controller (port 510) since the last call."""
        return self._recordings.packet_ins(self._wiring.node(name))

    def digests(self, name: str) -> list[tuple[int, Digest]]:
        """Take the digests that a switch sent since the last call, each with its time (virtual picoseconds).

        As many wait as ``packet_in_limit`` says; `digest_drops` counts the others.
        """
        tables = self._devices[name].detours
        if tables is None:
            return []
        waiting = self._recordings.digests(self._wiring.node(name))
        return [(one.time_ps, tables.digest(one.learn_list, one.kept)) for one in waiting]

    def digest_drops(self, name: str) -> int:
        """Digests that found ``packet_in_limit`` others waiting."""
        return self._recordings.digest_drops[self._wiring.node(name)]

    def packet_in_drops(self, name: str) -> int:
        """Frames for the controller that found ``packet_in_limit`` others waiting."""
        return self._recordings.packet_in_drops[self._wiring.node(name)]

    def incidents(self) -> dict[Where, Incidents]:
        """What happened to first transmissions of INC, by link, destination and job.

        With these, counts under faults can be compared to predictions exactly: a frame lost on a link is missing on
        all later ones of its path, and so on.
        """
        ports = {place: port for port, place in self._wiring.link_places.items()}
        names = [*(node.name for node in self.topology.nodes), ""]
        return {
            Where(ports[link], names[node], job): seen
            for (link, node, job), seen in self._recordings.incidents().items()
        }

    def _node(self, name: str) -> Any:
        return self._wiring.nodes[self._wiring.node(name)]
