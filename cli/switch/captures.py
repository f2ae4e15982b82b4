"""Frames from and to pcap files, for the virtual ports of switches."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from p4reduce.cli.failures import BadInput
from p4reduce.dataplane.abi import MAX_FRAME_BYTES
from p4reduce.fabric.pcap import PcapWriter

PortOf = tuple[int, int]
"""Device id and port."""


@dataclass(frozen=True, slots=True, order=True)
class Arrival:
    """A frame that arrives. ``time_ns``: of the capture; ``order``: of inputs, where times are equal."""

    time_ns: int
    order: int
    device_id: int
    port: int
    frame: bytes


def arrivals(inputs: Iterable[tuple[int, int, Path]]) -> list[Arrival]:
    """The frames of all input files (device id, port, pcap or pcapng) in the order of their time.

    Raises:
        BadInput: a file cannot be read, or holds a frame that is cut or too long.
    """
    return list(heapq.merge(*(sorted(_read(order, *one)) for order, one in enumerate(inputs))))


def _read(order: int, device_id: int, port: int, path: Path) -> Iterator[Arrival]:
    from scapy.error import Scapy_Exception  # noqa: PLC0415  (slow to import)
    from scapy.utils import RawPcapNgReader, RawPcapReader  # noqa: PLC0415

    try:
        with RawPcapReader(str(path)) as reader:
            next_generation = isinstance(reader, RawPcapNgReader)
            if not next_generation and reader.linktype != 1:
                raise BadInput(f"{path}: link type {reader.linktype}; only Ethernet (1) can be played")
            for number, (frame, about) in enumerate(cast("Iterable[tuple[bytes, Any]]", reader), start=1):
                if len(frame) < about.wirelen:
                    raise BadInput(f"{path}: frame {number} was cut to {len(frame)} bytes when it was captured")
                if len(frame) > MAX_FRAME_BYTES:
                    raise BadInput(f"{path}: frame {number} has {len(frame)} bytes; the limit is {MAX_FRAME_BYTES}")
                if next_generation:
                    time_ns = ((about.tshigh << 32) + about.tslow) * 10**9 // int(about.tsresol)
                else:
                    time_ns = about.sec * 10**9 + about.usec * (1 if reader.nano else 1000)
                yield Arrival(time_ns, order, device_id, port, bytes(frame))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None
    except (Scapy_Exception, EOFError) as error:
        raise BadInput(f"{path}: is no pcap file: {error}") from None


class Recorder:
    """Writes what leaves to one pcap file for each port."""

    def __init__(self, outputs: Iterable[tuple[int, int, Path]]) -> None:
        """Opens the files: (device id, port, path). Raises BadInput."""
        self._writers: dict[PortOf, PcapWriter] = {}
        for device_id, port, path in outputs:
            if (device_id, port) in self._writers:
                raise BadInput(f"{path}: port {port} of device {device_id} is written to a file already")
            try:
                self._writers[device_id, port] = PcapWriter(path)
            except OSError as error:
                raise BadInput(f"{path}: {error.strerror}") from None

    def write(self, device_id: int, port: int, time_ns: int, frame: bytes) -> None:
        """Appends a frame, if this port is recorded."""
        writer = self._writers.get((device_id, port))
        if writer is not None:
            writer.write(time_ns * 1000, frame)

    def flush(self) -> None:
        """Brings everything to the files."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Closes the files."""
        for writer in self._writers.values():
            writer.close()
