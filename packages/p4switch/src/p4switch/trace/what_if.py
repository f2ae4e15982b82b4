"""What a device would do with a frame now, statement by statement; the device itself stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from p4switch.device import Device
from p4switch.trace import Packet, Recorder, TextFormat
from p4switch.trace.to_text import Glossary, Sources

# A switch as it stands at a moment, apart from the one that goes on: to try a packet on it.


def copied(device: Device) -> Device:
    """An interpreted device with the same entries, groups, registers and counters; direct counters begin at 0.

    Meters, profiles of action selectors, value sets and clone sessions are not copied: ValueError for a program that
    has any of them.
    """
    program = device.program
    if device.profiles or device.meters or device.value_sets or program.leaves_path:
        raise ValueError(f"{program.name}: has meters, selectors, value sets or clones, which are not copied")
    found = Device(program, name=device.name, device_id=device.device_id, executor="interpreted")
    for name, table in device.tables.items():
        if table.spec.entries is not None or not table.spec.keys:
            continue
        for entry in table.entries():
            found.tables[name].insert(entry)
    for name, table in device.tables.items():
        default = table.default
        if default.action is not None and default != found.tables[name].default:
            found.tables[name].set_default(default.action, default.arguments)
    for group in device.multicast.groups():
        found.multicast.set(group, device.multicast.get(group))
    for name, register in device.registers.items():
        found.registers[name].take(register)
    for name, counter in device.counters.items():
        found.counters[name].cells[:] = counter.cells
    return found


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
