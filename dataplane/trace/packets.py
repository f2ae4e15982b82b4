"""Packets to trace: hexadecimal on the command line, a text file of them, or a pcap file."""

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p4reduce.dataplane import abi

_FILE_LIMIT: Final = 64 << 20
"""bytes of a file with packets"""
_PCAP_MAGIC: Final = {0xA1B2C3D4: "microseconds", 0xA1B23C4D: "nanoseconds"}
_PCAPNG: Final = b"\x0a\x0d\x0d\x0a"
_ETHERNET: Final = 1
_LINE = re.compile(r"(?:(\d+)\s+)?([0-9A-Fa-f]{2}(?:[\s:]?[0-9A-Fa-f]{2})*)")


class PacketError(ValueError):
    """A packet that cannot be read; the text names the file, the place and the fix."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A frame without FCS; ``port`` None: not said. ``note`` is a comment behind it in a text file."""

    frame: bytes
    port: int | None = None
    note: str = ""


def read_packets(source: str) -> list[Packet]:
    """The packets of ``--packet``: a file that exists, else hexadecimal digits.

    A text file holds a packet on each line: ``[port] hexadecimal [# comment]``. Raises PacketError.
    """
    path = Path(source)
    try:
        is_file = path.is_file()
    except OSError:  # longer than a file name may be
        is_file = False
    if not is_file:
        digits = re.sub(r"[\s:]", "", source.removeprefix("0x"))
        if not digits or not re.fullmatch(r"(?:[0-9A-Fa-f]{2})+", digits):
            raise PacketError(f"{_cut(source)!r} is neither a file nor an even number of hexadecimal digits")
        return [_checked(Packet(bytes.fromhex(digits)), "--packet")]
    if path.stat().st_size > _FILE_LIMIT:
        raise PacketError(f"{path}: larger than {_FILE_LIMIT} bytes; take fewer packets")
    data = path.read_bytes()
    if data[:4] == _PCAPNG:
        raise PacketError(f"{path}: is pcapng; make it pcap: editcap -F pcap {path.name} other.pcap")
    packets = _pcap(data, str(path)) if _byte_order(data) else _text(data, str(path))
    if not packets:
        raise PacketError(f"{path}: there is no packet in it")
    return packets


def _text(data: bytes, name: str) -> list[Packet]:
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise PacketError(f"{name}: is neither a pcap file nor text with hexadecimal digits") from None
    packets = []
    for number, line in enumerate(lines, start=1):
        body, _, note = line.partition("#")
        if not body.strip():
            continue
        found = _LINE.fullmatch(body.strip())
        if found is None:
            raise PacketError(f"{name}, line {number}: expected '[port] hexadecimal digits', found {_cut(line)!r}")
        port = None if found[1] is None else int(found[1])
        frame = bytes.fromhex(re.sub(r"[\s:]", "", found[2]))
        packets.append(_checked(Packet(frame, port, note.strip()), f"{name}, line {number}"))
    return packets


def _byte_order(data: bytes) -> str | None:
    for order in ("<", ">"):
        if len(data) >= 24 and struct.unpack_from(f"{order}I", data)[0] in _PCAP_MAGIC:
            return order
    return None


def _pcap(data: bytes, name: str) -> list[Packet]:
    """The frames of a pcap file (draft-ietf-opsawg-pcap); pcapng is not read."""
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
    return text if len(text) <= 40 else text[:40] + "..."
