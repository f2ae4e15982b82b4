"""What a device would do with a frame now, statement by statement; the device itself stays as it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.trace import Packet, Recorder, TextFormat
from p4reduce.dataplane.trace.glossary import Glossary
from p4reduce.dataplane.trace.moment import copied
from p4reduce.dataplane.trace.source import Sources


def what_if(device: Device, port: int, frame: bytes, roots: Sequence[Path], glossary: Glossary) -> dict[str, Any]:
    """A frame enters a copy of ``device`` by ``port``: ``port``, ``outcome`` and ``lines`` of the trace.

    ``roots``: folders of the program's sources. Not while the device runs. ``ValueError``: it cannot be copied.
    """
    recorder = Recorder(copied(device))
    found = recorder.run(Packet(frame, port))
    text = TextFormat(device.program, Sources(list(roots)), glossary, all_writes=False)
    return {
        "port": found.port,
        "outcome": text.why(found),
        "lines": [line.plain for line in text.packet(found)],
    }
