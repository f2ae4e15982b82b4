"""Traces of packets through the interpreter, for people and as JSON; entries files; packets from files."""

from p4switch.trace.entries import Entries, EntriesError, load_entries, parse_entries
from p4switch.trace.record import Packet, PacketError, PacketTrace, Recorder, read_packets
from p4switch.trace.to_data import packet_json
from p4switch.trace.to_text import TextFormat

__all__ = [
    "Entries",
    "EntriesError",
    "Packet",
    "PacketError",
    "PacketTrace",
    "Recorder",
    "TextFormat",
    "load_entries",
    "packet_json",
    "parse_entries",
    "read_packets",
]
