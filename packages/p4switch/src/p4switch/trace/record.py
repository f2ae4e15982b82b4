"""Runs packets through the interpreter and records its events for each packet."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from p4switch import abi
from p4switch.base.files import read_bytes
from p4switch.device import Device
from p4switch.interpreter import Event, Interpreter
from p4switch.interpreter.trace import (
    Change,
    HeaderEmitted,
    HeaderExtracted,
    PrimitiveRun,
    StageStarted,
    TableApplied,
    Verdict,
)
from p4switch.program import Program
from p4switch.program.errors import SourceInfo

# Names of fields as in the P4 source: p4c flattens metadata structs into one header, ``scalars``.


_SCALARS: Final = "scalars"
_STANDARD: Final = "standard_metadata."


@dataclass(frozen=True)
class ReadableNames:
    """Readable names: ``meta.refused`` for ``scalars.metadata_t._refused32``, ``std.`` for standard metadata."""

    program: Program

    @cached_property
    def _scalars(self) -> dict[str, str]:
        """Names of scalars: p4c numbers the fields of a flattened struct and appends the number to the name."""
        header = self.program.headers.get(_SCALARS)
        seen: dict[str, int] = {}
        names = {}
        for member in () if header is None else header.type.fields:
            struct, dot, rest = member.name.partition(".")
            if not dot:
                continue
            number = seen.get(struct, 0)
            seen[struct] = number + 1
            plain = rest.removesuffix(str(number)) if rest.startswith("_") else rest
            names[f"{_SCALARS}.{member.name}"] = f"meta.{plain.removeprefix('_')}"
        return names

    def __call__(self, what: str) -> str:
        """Returns the readable name of a field; returns other names unchanged."""
        if what in self._scalars:
            return self._scalars[what]
        if what.startswith(_STANDARD):
            return "std." + what.removeprefix(_STANDARD)
        return what.removeprefix(f"{_SCALARS}.")

    @staticmethod
    def declared(action: str | None) -> bool:
        """Returns whether an action is in the P4 source; p4c names the actions that it makes after file and line."""
        return action is not None and ("." in action or not re.fullmatch(r".*\d+(_\d+)?", action))


# The outcome of a packet, and the statement that decided it.


@dataclass(frozen=True, slots=True)
class Decision:
    """The last statement that wrote a field.

    Attributes:
        action: full name of the action that contains it; None in the parser.
        before, after: the field's values.
    """

    field: str
    before: int
    after: int
    action: str | None
    source: SourceInfo | None


@dataclass(frozen=True, slots=True)
class IngressOutcome:
    """The result of ingress.

    Attributes:
        kind: drop, unicast, multicast.
        target: the port, or the multicast group.
        why: the reason as a sentence.
        decision: the last write of egress_spec or mcast_grp; None if there was none.
        replicas: (port, rid) of the group.
    """

    kind: Literal["drop", "unicast", "multicast"]
    target: int
    why: str
    decision: Decision | None
    replicas: tuple[tuple[int, int], ...] = ()


def outcome_of(events: Iterable[Event], device: Device, left: bool) -> IngressOutcome:
    """Returns the outcome of a packet from its events; ``left``: whether any frame left."""
    events = list(events)
    at, verdict = _last_verdict(events)
    if verdict is None:
        return IngressOutcome("drop", 0, "the packet was dropped before ingress had ended", None)
    program = device.program
    if verdict.kind == "multicast":
        return _multicast(verdict.target, _writer(events[:at], program, "mcast_grp"), device, left)
    decision = _writer(events[:at], program, "egress_spec")
    if verdict.kind == "drop":
        rest = "; copies of it left" if left else ""
        return IngressOutcome("drop", 0, f"dropped: egress_spec is the drop port{_by(decision)}{rest}", decision)
    forgotten = "" if decision is not None else ": no statement wrote egress_spec, which starts at 0"
    rest = "" if left else "; egress dropped it"
    return IngressOutcome(
        "unicast", verdict.target, f"to port {verdict.target}{_by(decision)}{forgotten}{rest}", decision
    )


def _multicast(group: int, decision: Decision | None, device: Device, left: bool) -> IngressOutcome:
    replicas = device.multicast.get(group)
    if group not in device.multicast.groups():
        rest = "; there is no such group, so nothing leaves"
    elif not replicas:
        rest = "; the group has no replicas, so nothing leaves"
    else:
        rest = "" if left else "; egress dropped every copy"
    return IngressOutcome("multicast", group, f"to multicast group {group}{_by(decision)}{rest}", decision, replicas)


def _by(decision: Decision | None) -> str:
    if decision is None:
        return ""
    at = f" ({decision.source})" if decision.source is not None else ""
    who = decision.action if ReadableNames.declared(decision.action) else "the statement"
    return f", by {who}{at}"


def _last_verdict(events: list[Event]) -> tuple[int, Verdict | None]:
    """Returns the last verdict of ingress; a packet that passes ingress again has several."""
    for at in range(len(events) - 1, -1, -1):
        event = events[at]
        if isinstance(event, Verdict) and event.stage == "ingress":
            return at, event
    return len(events), None


def _writer(events: list[Event], program: Program, name: str) -> Decision | None:
    field = program.intrinsic(name)
    decision: Decision | None = None
    action: str | None = None
    for event in events:
        match event:
            case StageStarted("parser"):
                decision, action = None, None
            case TableApplied():
                action = event.action
            case PrimitiveRun():
                for change in event.changes:
                    if field is not None and change.what == str(field):
                        decision = _decision(change, action, event)
            case _:
                pass
    return decision


def _decision(change: Change, action: str | None, event: PrimitiveRun) -> Decision:
    return Decision(change.what, change.before, change.after, action, getattr(event.primitive, "source", None))


# Packets to trace: hexadecimal on the command line, a text file of them, or a pcap file.


_FILE_LIMIT: Final = 64 << 20
"""bytes of a file with packets"""
_PCAP_MAGIC: Final = {0xA1B2C3D4: "microseconds", 0xA1B23C4D: "nanoseconds"}
_PCAPNG: Final = b"\x0a\x0d\x0d\x0a"
_ETHERNET: Final = 1
_LINE = re.compile(r"(?:(\d+)(?:@(\d{1,18}))?\s+)?([0-9A-Fa-f]{2}(?:[\s:]?[0-9A-Fa-f]{2})*)")


class PacketError(ValueError):
    """A packet that cannot be read; the message names the file, the place and the fix."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A frame without FCS. ``port`` is None if it is not given; ``note`` is the comment after it in a text file.

    Attributes:
        time_us: value of every time stamp of the packet, microseconds.
    """

    frame: bytes
    port: int | None = None
    note: str = ""
    time_us: int = 0


def read_packets(source: str) -> list[Packet]:
    """Returns the packets of ``--packet``: those of a file if it exists, else hexadecimal digits.

    A text file holds a packet on each line: ``[port] hexadecimal [# comment]``, or ``port@microseconds ...``.
    Raises PacketError.
    """
    path = Path(source)
    if not source or not os.path.lexists(path):
        digits = re.sub(r"[\s:]", "", source.removeprefix("0x"))
        if not digits or not re.fullmatch(r"(?:[0-9A-Fa-f]{2})+", digits):
            raise PacketError(f"{_cut(source)!r} is neither a file nor an even number of hexadecimal digits")
        return [_checked(Packet(bytes.fromhex(digits)), "--packet")]
    try:
        if path.stat().st_size > _FILE_LIMIT:
            raise PacketError(f"{path}: larger than {_FILE_LIMIT} bytes; take fewer packets")
        data = read_bytes(path)
    except OSError as error:
        raise PacketError(f"{path}: {error.strerror}") from None
    if data[:4] == _PCAPNG:
        raise PacketError(f"{path}: is pcapng; make it pcap: editcap -F pcap {path.name} other.pcap")
    if _byte_order(data):
        packets = _pcap(data, str(path))
    else:
        try:
            packets = parse_packets(data.decode("utf-8"), str(path))
        except UnicodeDecodeError:
            raise PacketError(f"{path}: is neither a pcap file nor text with hexadecimal digits") from None
    if not packets:
        raise PacketError(f"{path}: there is no packet in it")
    return packets


def parse_packets(text: str, name: str) -> list[Packet]:
    """Returns the packets of a text, possibly none; ``name`` is for messages. Raises PacketError."""
    packets = []
    for number, line in enumerate(text.splitlines(), start=1):
        body, _, note = line.partition("#")
        if not body.strip():
            continue
        parsed = _LINE.fullmatch(body.strip())
        if parsed is None:
            raise PacketError(f"{name}, line {number}: expected '[port] hexadecimal digits', found {_cut(line)!r}")
        port = None if parsed[1] is None else int(parsed[1])
        frame = bytes.fromhex(re.sub(r"[\s:]", "", parsed[3]))
        packet = Packet(frame, port, note.strip(), int(parsed[2] or 0))
        packets.append(_checked(packet, f"{name}, line {number}"))
    return packets


def _byte_order(data: bytes) -> str | None:
    for order in ("<", ">"):
        if len(data) >= 24 and struct.unpack_from(f"{order}I", data)[0] in _PCAP_MAGIC:
            return order
    return None


def _pcap(data: bytes, name: str) -> list[Packet]:
    """Returns the frames of a pcap file (draft-ietf-opsawg-pcap); pcapng is not supported."""
    order = _byte_order(data)
    link_type = struct.unpack_from(f"{order}I", data, 20)[0] & 0xFFFF
    if link_type != _ETHERNET:
        raise PacketError(f"{name}: link type {link_type} is not Ethernet (1)")
    packets: list[Packet] = []
    at = 24
    while at < len(data):
        number = len(packets) + 1
        if at + 16 > len(data):
            raise PacketError(f"{name}: packet {number} is cut off; was the capture still running?")
        captured, original = struct.unpack_from(f"{order}II", data, at + 8)
        if captured < original:
            raise PacketError(f"{name}: packet {number} was captured in part; capture with snap length 65535")
        if at + 16 + captured > len(data):
            raise PacketError(f"{name}: packet {number} is cut off; was the capture still running?")
        packets.append(_checked(Packet(data[at + 16 : at + 16 + captured]), f"{name}, packet {number}"))
        at += 16 + captured
    return packets


def _checked(packet: Packet, where: str) -> Packet:
    if len(packet.frame) > abi.MAX_FRAME_BYTES:
        raise PacketError(f"{where}: {len(packet.frame)} bytes; a device takes {abi.MAX_FRAME_BYTES}")
    if packet.port is not None and packet.port > abi.MAX_PORT:
        raise PacketError(f"{where}: port {packet.port} is not in 0..{abi.MAX_PORT}")
    return packet


def _cut(text: str) -> str:
    return text if len(text) <= 200 else text[:40] + "..."


DEFAULT_PORT = 1


@dataclass(frozen=True, slots=True)
class Headers:
    """A frame cut into headers and payload.

    Attributes:
        fields: (header, ((field, value), ...)), in the order of the frame.
        payload: bytes after the headers.
    """

    fields: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    payload: int

    def get(self, header: str) -> dict[str, int] | None:
        """Returns the fields of a header by name; None if the frame lacks the header."""
        return next((dict(values) for name, values in self.fields if name == header), None)


@dataclass(frozen=True, slots=True)
class SentFrame:
    """A frame that left."""

    port: int
    frame: bytes
    headers: Headers


@dataclass(frozen=True, slots=True)
class PacketTrace:
    """The events of one packet, its outcome and the frames that left.

    Attributes:
        number: counts from 1.
        outcome: the result of ingress and its reason.
        sent: frames that left, in their order.
        program: the program that ran, for names.
    """

    number: int
    port: int
    frame: bytes
    note: str
    events: tuple[Event, ...]
    headers: Headers
    outcome: IngressOutcome
    sent: tuple[SentFrame, ...]
    program: Program = field(repr=False, compare=False)

    def __str__(self) -> str:
        """Returns a text for people: a line for each step."""
        from p4switch.trace.to_text import TextFormat  # noqa: PLC0415  (that module imports this one)

        return "\n".join(line.plain for line in TextFormat(self.program).packet(self)).rstrip()

    def _repr_html_(self) -> str:
        """Returns HTML for notebooks."""
        from p4switch.trace.to_data import packet_html  # noqa: PLC0415  (that module imports this one)

        return packet_html(self)


class Recorder:
    """Runs packets one by one on an interpreted device, whose state carries over."""

    def __init__(self, device: Device) -> None:
        """Raises ValueError if the device runs machine code, which reports no events."""
        if not isinstance(device.runner, Interpreter):
            raise ValueError("only a device with executor='interpreted' can be traced")
        self.device = device
        self._interpreter = device.runner
        self._number = 0

    def run(self, packet: Packet, port: int = DEFAULT_PORT, *, time_us: int = 0) -> PacketTrace:
        """Runs one packet; ``port`` and ``time_us`` are defaults for a packet without a port or a time."""
        self._number += 1
        events: list[Event] = []
        at = port if packet.port is None else packet.port
        self._interpreter.trace = events.append
        try:
            sent = self.device.inject(at, packet.frame, time_us=time_us or packet.time_us)
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
        """Runs several packets in their order."""
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


def _sent(sent: list[tuple[int, bytes]], events: list[Event], program: Program) -> tuple[SentFrame, ...]:
    """Cuts frames into the headers that the deparser emitted."""
    emitted: list[list[str]] = []
    for event in events:
        match event:
            case StageStarted("deparser"):
                emitted.append([])
            case HeaderEmitted():
                emitted[-1].append(event.header)
            case _:
                pass
    if len(emitted) != len(sent):  # a frame may have been recirculated
        emitted = [[] for _ in sent]
    return tuple(SentFrame(p, f, cut(f, names, program)) for (p, f), names in zip(sent, emitted, strict=True))


def cut(frame: bytes, names: Iterable[str], program: Program) -> Headers:
    """Cuts a frame into headers; everything from the first header of variable length on is payload."""
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
