"""Running packets through the interpreter and keeping what it says of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.interpreter import Event, Interpreter
from p4reduce.dataplane.interpreter.trace import HeaderEmitted, HeaderExtracted, StageStarted
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.trace.outcome import Outcome, outcome_of
from p4reduce.dataplane.trace.packets import Packet

DEFAULT_PORT = 1


@dataclass(frozen=True, slots=True)
class Headers:
    """A frame as headers.

    Attributes:
        fields: (header, ((field, value), ...)), in the order of the frame.
        payload: bytes behind the headers.
    """

    fields: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    payload: int

    def get(self, header: str) -> dict[str, int] | None:
        """The fields of a header by name; None where the frame has none."""
        return next((dict(values) for name, values in self.fields if name == header), None)


@dataclass(frozen=True, slots=True)
class Sent:
    """A frame that left."""

    port: int
    frame: bytes
    headers: Headers


@dataclass(frozen=True, slots=True)
class PacketTrace:
    """All about one packet.

    Attributes:
        number: counts from 1.
        outcome: what became of it and why.
        sent: frames that left, in their order.
        program: that ran, which names what the events are about.
    """

    number: int
    port: int
    frame: bytes
    note: str
    events: tuple[Event, ...]
    headers: Headers
    outcome: Outcome
    sent: tuple[Sent, ...]
    program: Program = field(repr=False, compare=False)

    def _repr_html_(self) -> str:
        """For notebooks."""
        from p4reduce.dataplane.trace.to_html import packet_html  # noqa: PLC0415  (it knows traces)

        return packet_html(self)


class Recorder:
    """Runs packets one after the other on an interpreted device; its state carries over."""

    def __init__(self, device: Device) -> None:
        """Raises ValueError where the device runs machine code, which tells nothing."""
        if not isinstance(device.runner, Interpreter):
            raise ValueError("only a device with executor='interpreted' can be traced")
        self.device = device
        self._interpreter = device.runner
        self._number = 0

    def run(self, packet: Packet, port: int = DEFAULT_PORT) -> PacketTrace:
        """Sends one packet in; ``port`` holds where the packet itself does not say."""
        self._number += 1
        events: list[Event] = []
        at = port if packet.port is None else packet.port
        self._interpreter.trace = events.append
        try:
            sent = self.device.inject(at, packet.frame)
        finally:
            self._interpreter.trace = None
        program = self.device.program
        return PacketTrace(
            number=self._number,
            port=at,
            frame=packet.frame,
            note=packet.note,
            events=tuple(events),
            headers=_incoming(packet.frame, events, program),
            outcome=outcome_of(events, self.device, bool(sent)),
            sent=_sent(sent, events, program),
            program=program,
        )

    def run_all(self, packets: Iterable[Packet], port: int = DEFAULT_PORT) -> list[PacketTrace]:
        """Several, in their order."""
        return [self.run(packet, port) for packet in packets]


def _incoming(frame: bytes, events: list[Event], program: Program) -> Headers:
    fields, end = [], 0
    for event in events:
        match event:
            case StageStarted("ingress"):
                break
            case HeaderExtracted(header, offset, values):
                fields.append((header, values))
                end = max(end, offset + program.headers[header].bytes)
            case _:
                pass
    return Headers(tuple(fields), len(frame) - end)


def _sent(sent: list[tuple[int, bytes]], events: list[Event], program: Program) -> tuple[Sent, ...]:
    """Frames with the headers that the deparser says it put there."""
    emitted: list[list[str]] = []
    for event in events:
        match event:
            case StageStarted("deparser"):
                emitted.append([])
            case HeaderEmitted():
                emitted[-1].append(event.header)
            case _:
                pass
    if len(emitted) != len(sent):  # a frame may have gone round through the switch again
        emitted = [[] for _ in sent]
    return tuple(Sent(p, f, cut(f, names, program)) for (p, f), names in zip(sent, emitted, strict=True))


def cut(frame: bytes, names: Iterable[str], program: Program) -> Headers:
    """A frame cut into headers; from the first one of variable length on, all is payload."""
    fields, at = [], 0
    for name in names:
        header = program.headers[name]
        if at + header.bytes > len(frame) or getattr(header.type, "varbit", None) is not None:
            break
        number = int.from_bytes(frame[at : at + header.bytes], "big")
        values = tuple(
            (f.name, number >> (header.type.bits - f.offset - f.width) & ((1 << f.width) - 1))
            for f in header.type.fields
        )
        fields.append((name, values))
        at += header.bytes
    return Headers(tuple(fields), len(frame) - at)
