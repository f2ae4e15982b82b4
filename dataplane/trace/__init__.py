"""What the interpreter did with packets, for people and as JSON; entries files; packets from files."""

from p4reduce.dataplane.trace.entries import Entries, load_entries, parse_entries
from p4reduce.dataplane.trace.entries_yaml import EntriesError
from p4reduce.dataplane.trace.packets import Packet, PacketError, read_packets
from p4reduce.dataplane.trace.record import PacketTrace, Recorder
from p4reduce.dataplane.trace.to_json import packet_json
from p4reduce.dataplane.trace.to_text import TextFormat

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
