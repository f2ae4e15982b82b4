"""Replay of a network's frames and entries to BMv2 and to a fresh embedded switch.

The frames are those of real endpoints and jobs in virtual time, in the order in which they arrived at each switch; the
entries are those that the controller had written by then. Time stamps differ, so jobs must have no deadline.
"""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from finsy.proto import p4r

from p4reduce.control_plane.entries import P4Program
from p4reduce.network.jobs.network import JobNetwork
from p4switch.p4runtime import P4RuntimeServer
from tests.support.conformance.targets.bmv2_process import DEVICE_ID, Bmv2Binaries, running
from tests.support.conformance.targets.packet_stream import PacketStream
from tests.support.conformance.targets.target import Sent
from tests.support.p4runtime.client import RawClient

BATCH: Final = 16
"""Frames given to BMv2 at a time: an output queue holds 64 and drops the rest."""
Entries: TypeAlias = dict[bytes, p4r.Entity]
"""Entities that a controller has written, by their serialised key."""
Step: TypeAlias = Entries | tuple[int, bytes]
"""The switch's entries from now on, or the port and the bytes of a frame that arrives."""


class Recorder:
    """Callback for ``observing`` that records frames and entries at a network's switches; a context manager."""

    def __init__(self, program: P4Program) -> None:
        self.steps: dict[str, list[Step]] = {}
        """Steps of each switch, by its name, in order."""
        self._program = program
        self._clients: dict[str, RawClient] = {}
        self._written: dict[str, Entries] = {}

    def __call__(self, network: JobNetwork) -> None:
        """Attach to a network at its time 0."""
        links = network.fabric.links
        ends = {}
        for link in network.topology.links:
            a, b = (link.a, link.port_a), (link.b, link.port_b)
            ends[links.row(a)], ends[links.row(b)] = b, a
        for target in network.switches.targets():
            self._clients[target.name] = RawClient(target.address, target.device_id, stream_s=None)
            self.steps[target.name], self._written[target.name] = [], {}

        def keep(row: int, time_ps: int, frame: bytes) -> None:
            del time_ps
            node, port = ends[row]
            if node in self.steps:
                self.steps[node].append((port, frame))

        advance = network.advance

        def looking(*arguments: Any, **named: Any) -> Any:
            for switch, client in self._clients.items():
                now = read_entries(client, self._program)
                if now != self._written[switch]:
                    self._written[switch] = now
                    self.steps[switch].append(now)
            return advance(*arguments, **named)

        network.advance = looking  # type: ignore[method-assign]
        network.fabric.film(keep)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            client.__exit__()


def read_entries(client: RawClient, program: P4Program) -> Entries:
    """Return entries and default entries of all tables, and multicast groups."""
    groups = p4r.PacketReplicationEngineEntry(multicast_group_entry=p4r.MulticastGroupEntry())
    asked = [p4r.Entity(table_entry=p4r.TableEntry()), p4r.Entity(packet_replication_engine_entry=groups)]
    tables = [table.preamble.id for table in program.info.tables]
    asked += [p4r.Entity(table_entry=p4r.TableEntry(table_id=one, is_default_action=True)) for one in tables]
    return {_key(entity): entity for entity in client.read(*asked)}


def _key(entity: p4r.Entity) -> bytes:
    key = p4r.Entity()
    key.CopyFrom(entity)
    if key.HasField("table_entry"):
        key.table_entry.ClearField("action")
    else:
        key.packet_replication_engine_entry.multicast_group_entry.ClearField("replicas")
    return key.SerializeToString(deterministic=True)


def updates(before: Entries, after: Entries) -> list[p4r.Update]:
    """Return the updates from one state to another; in an initial, empty state only default entries exist."""
    gone = before.keys() - after.keys()
    found = [p4r.Update(type=p4r.Update.DELETE, entity=entity) for key, entity in before.items() if key in gone]
    for key, entity in after.items():
        if before.get(key) != entity:
            there = key in before or entity.table_entry.is_default_action
            kind = p4r.Update.MODIFY if there else p4r.Update.INSERT
            found.append(p4r.Update(type=kind, entity=entity))
    return found


@dataclass(frozen=True)
class Played:
    """Result of replaying one switch's steps on both switches.

    Attributes:
        frames: number of frames given to both, up to the first difference.
        sent: number of frames that left BMv2.
        different: the first batch whose output differs: index of its first frame, BMv2's frames by port, the embedded
            switch's frames by port; None if all agree.
        counters: packets and bytes of every counter's cells, on BMv2 and on the embedded switch.
    """

    frames: int
    sent: int
    different: tuple[int, dict[int, list[bytes]], dict[int, list[bytes]]] | None
    counters: tuple[list[tuple[int, int]], list[tuple[int, int]]]


def play(switch: str, program: P4Program, steps: list[Step], folder: Path) -> Played:
    """Replay the steps on BMv2 (the program ``switch``) and on an embedded switch; ``folder`` receives the program."""
    path = folder / "program.json"
    path.write_bytes(program.json)
    config = program.schema.get_pipeline_config()
    with running(Bmv2Binaries(switch), path) as process, P4RuntimeServer() as server:
        server.add_device(DEVICE_ID)
        addresses = process.p4runtime, server.address
        theirs, ours = (RawClient(address, DEVICE_ID, stream_s=None) for address in addresses)
        with theirs, ours:
            for client in (theirs, ours):
                client.arbitrate()
                client.set_pipeline(config)
            device = server.device(DEVICE_ID)
            assert device is not None
            stream, before, count, sent = PacketStream(process.channel, DEVICE_ID), Entries(), 0, 0
            for is_entries, run in groupby(steps, key=lambda step: isinstance(step, dict)):
                if is_entries:
                    for entries in run:
                        assert isinstance(entries, dict)
                        for client in (theirs, ours):
                            client.write(*updates(before, entries))
                        before = entries
                    continue
                every = [step for step in run if not isinstance(step, dict)]
                for begin in range(0, len(every), BATCH):
                    frames = every[begin : begin + BATCH]
                    left = by_port(stream.run(frames))
                    own = by_port([one for port, frame in frames for one in device.inject(port, frame)])
                    if left != own:
                        return Played(count, sent, (count, left, own), ([], []))
                    count += len(frames)
                    sent += sum(map(len, left.values()))
            return Played(count, sent, None, (_counters(theirs, program), _counters(ours, program)))


def by_port(sent: Sent) -> dict[int, list[bytes]]:
    """Return the frames of each port, sorted: the order of a multicast group's copies for one port is not defined."""
    found: dict[int, list[bytes]] = {}
    for port, frame in sorted(sent):
        found.setdefault(port, []).append(frame)
    return found


def _counters(client: RawClient, program: P4Program) -> list[tuple[int, int]]:
    asked = [p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=one.preamble.id)) for one in program.info.counters]
    found = sorted(
        (entity.counter_entry for entity in client.read(*asked)), key=lambda one: (one.counter_id, one.index.index)
    )
    return [(one.data.packet_count, one.data.byte_count) for one in found]
