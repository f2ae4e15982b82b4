"""One switch with a student's entries, and what the P4 program did with each packet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from p4reduce.dataplane.abi import CPU_PORT
from p4reduce.dataplane.device import Device
from p4reduce.dataplane.interpreter.trace import TableApplied
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.trace.entries import Entries
from p4reduce.dataplane.trace.packets import Packet
from p4reduce.dataplane.trace.record import PacketTrace, Recorder
from p4reduce.dataplane.trace.to_text import TextFormat
from p4reduce.labs.lab01.frames import Message, read
from p4reduce.labs.lab01.tree import EPOCH, JOB

LOCAL = "IncIngress.local_address"
JOBS = "IncIngress.aggregate.job"
PEERS = "IncIngress.aggregate.peer"
REPLICAS = "IncEgress.depart.replica"
CHILD = "IncIngress.aggregate.child"
PARENT = "IncIngress.aggregate.parent"
ROOT = "IncIngress.aggregate.root"
INNER = "IncIngress.aggregate.inner"


@dataclass(frozen=True)
class Answer:
    """What a switch did with one packet.

    Attributes:
        refused: the program's reason, 0: not refused.
        sent: (port, frame) of what left, without what went to the controller.
    """

    trace: PacketTrace
    refused: int
    reason: str
    sent: tuple[tuple[int, bytes], ...]

    def table(self, name: str) -> TableApplied | None:
        """What a table did, None where the packet did not come by it."""
        return next((e for e in self.trace.events if isinstance(e, TableApplied) and e.table == name), None)

    def argument(self, table: str, name: str) -> int:
        """An argument of the action that a table ran; 0 where it ran none."""
        applied = self.table(table)
        return 0 if applied is None else dict(applied.arguments).get(name, 0)

    @cached_property
    def messages(self) -> list[tuple[int, Message]]:
        """What left, as INC packets, by port."""
        return [(port, message) for port, data in self.sent if (message := read(data)) is not None]


class Bench:
    """Sends packets into a switch. Raises EntriesError where the switch refuses the entries."""

    def __init__(self, name: str, program: Program, entries: Entries, text: TextFormat) -> None:
        """A switch with empty slots."""
        self.name = name
        self._text = text
        device = Device(program, name=name, executor="interpreted")
        entries.apply(device)
        self._recorder = Recorder(device)

    def send(self, port: int, data: bytes) -> Answer:
        """One frame in by a port."""
        trace = self._recorder.run(Packet(data, port))
        reason = self._text.refusal(trace)
        number = int(reason.partition(",")[0]) if reason else 0
        sent = tuple((s.port, s.frame) for s in trace.sent if s.port != CPU_PORT)
        return Answer(trace, number, reason, sent)


@dataclass(frozen=True)
class Student:
    """The entries of one switch and where they come from."""

    path: Path
    entries: Entries
    job: int = JOB
    epoch: int = EPOCH

    def where(self, table: str) -> str:
        """The place of the first entry of a table; the file where there is none."""
        return next((p.where for p in self.entries.tables if p.table == table), f"{self.path}: table {short(table)}")

    def where_match(self, table: str, match: tuple[int, ...]) -> str:
        """The place of the entry of an exact table with this match; the file where there is none."""
        for placed in self.entries.tables:
            found = getattr(placed.entry, "match", None)
            if placed.table == table and found is not None and tuple(m.value for m in found) == match:
                return placed.where
        return f"{self.path}: table {short(table)} (there is no such entry)"

    def peer(self, port: int, ip: int) -> str:
        """The place of the entry of table `peer` for a neighbour of the lab's job."""
        return self.where_match(PEERS, (port, ip, self.job, self.epoch))


def short(table: str) -> str:
    """The last part of a table's name."""
    return table.rsplit(".", 1)[-1]
