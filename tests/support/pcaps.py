"""Reader of capture files."""

import struct
from pathlib import Path
from typing import Final

_FILE_HEADER: Final = 24
_RECORD_HEADER: Final = struct.Struct("<IIII")


def read_frames(path: Path) -> list[bytes]:
    """Return the frames of a file that `PcapWriter` writes; the file may be incomplete."""
    data, at, frames = path.read_bytes(), _FILE_HEADER, []
    while at + _RECORD_HEADER.size <= len(data):
        length = _RECORD_HEADER.unpack_from(data, at)[2]
        at += _RECORD_HEADER.size
        frames.append(data[at : at + length])
        at += length
    return frames
