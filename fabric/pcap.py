"""Writing pcap files with nanosecond time stamps, which Wireshark, tcpdump and Scapy open.

Format: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/ (magic number 0xA1B23C4D, link type 1: Ethernet).
"""

import struct
from pathlib import Path
from types import TracebackType
from typing import Final

from p4reduce.base.units import NS_PER_S, PS_PER_NS
from p4reduce.base.written import naming

MAGIC_NANOSECONDS: Final = 0xA1B23C4D
SNAP_LENGTH: Final = 65535
LINKTYPE_ETHERNET: Final = 1

_FILE_HEADER: Final = struct.Struct("<IHHiIII")
_RECORD_HEADER: Final = struct.Struct("<IIII")


class PcapWriter:
    """A pcap file that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb")
        self._file.write(_FILE_HEADER.pack(MAGIC_NANOSECONDS, 2, 4, 0, 0, SNAP_LENGTH, LINKTYPE_ETHERNET))

    def write(self, time_ps: int, frame: bytes) -> None:
        """Append a frame; its time is cut to whole nanoseconds."""
        seconds, nanoseconds = divmod(time_ps // PS_PER_NS, NS_PER_S)
        with naming(self.path):
            self._file.write(_RECORD_HEADER.pack(seconds, nanoseconds, len(frame), len(frame)) + frame)

    def flush(self) -> None:
        """Bring everything to the file."""
        with naming(self.path):
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        with naming(self.path):
            self._file.close()

    def __enter__(self) -> "PcapWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_frames(path: Path) -> list[bytes]:
    """The frames of a file that `PcapWriter` wrote, as far as it is written."""
    data, at, frames = path.read_bytes(), _FILE_HEADER.size, []
    while at + _RECORD_HEADER.size <= len(data):
        length = _RECORD_HEADER.unpack_from(data, at)[2]
        at += _RECORD_HEADER.size
        frames.append(data[at : at + length])
        at += length
    return frames
