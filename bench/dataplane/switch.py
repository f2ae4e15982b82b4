"""The switch that is measured: the root of one job with eight children, and the frames that they send."""

import hashlib
import json
import struct
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
from finsy.proto import p4i
from google.protobuf import text_format
from numpy.typing import NDArray

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.executor import ExecutorName
from p4reduce.dataplane.model import load_program
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.tables import Exact, TableEntry
from p4reduce.workers.wire import FRAME_DTYPE, INC_UDP_PORT

CHILDREN: Final = 8
SEQ_OFFSET: Final[int] = FRAME_DTYPE.fields["seq"][1]  # type: ignore[index]
"""Byte of a frame at which the chunk's sequence number starts."""
SLOT_REGISTERS: Final = "IncIngress.aggregate.slot."
"""Prefix of the register arrays that hold SLOTS cells (p4src/sizes.p4)."""

_SWITCH_IP: Final = 0x0A800001
_JOB, _EPOCH, _GROUP = 3, 1, 5
_AGGREGATE: Final = "IncIngress.aggregate."


def host_ip(child: int) -> int:
    """IPv4 address of a child."""
    return 0x0A000001 + child


def program_json(lanes: int, slots: int) -> dict[str, Any]:
    """p4c's output for a number of lanes, with registers of ``slots`` cells.

    p4c fixes the size of a register array when it compiles, and the repository carries the program with 4,096 slots.
    ``p4c-bm2-ss -DSLOTS=n`` differs from it in ``size`` of the slots' register arrays and in source columns only, so
    that number is replaced here (tests/unit/bench/test_programs.py compares the two where p4c is there).
    """
    text = files("p4reduce").joinpath("p4src", "compiled", f"p4reduce-{lanes}.json").read_text()
    root: dict[str, Any] = json.loads(text)
    for register in root["register_arrays"]:
        if register["name"].startswith(SLOT_REGISTERS):
            register["size"] = slots
    return root


@cache
def program(lanes: int, slots: int) -> Program:
    """The program of ``program_json``, loaded once."""
    return load_program(program_json(lanes, slots))


def p4info(lanes: int, slots: int) -> p4i.P4Info:
    """The P4Info that belongs to ``program_json``."""
    text = files("p4reduce").joinpath("p4src", "compiled", f"p4reduce-{lanes}.p4info.txt").read_text()
    parsed = text_format.Parse(text, p4i.P4Info())
    for register in parsed.registers:
        if register.preamble.name.startswith(SLOT_REGISTERS):
            register.size = slots
    return parsed


def root_switch(lanes: int, slots: int, executor: ExecutorName = "compiled") -> Device:
    """A root switch with one job that has all ``slots``, for children behind ports 1 to CHILDREN."""
    device = Device(program(lanes, slots), name="bench", executor=executor)
    install(device, slots)
    return device


def install(device: Device, slots: int) -> None:
    """Writes the job's entries and multicast group."""
    tables = device.tables
    tables["IncIngress.local_address"].insert(TableEntry((Exact(_SWITCH_IP),), "IncIngress.is_local"))
    job = (7, 0, slots, (1 << CHILDREN) - 1, _GROUP, 2)
    tables[_AGGREGATE + "job"].insert(TableEntry((Exact(_JOB), Exact(_EPOCH)), _AGGREGATE + "root", job))
    for child in range(CHILDREN):
        key = (Exact(child + 1), Exact(host_ip(child)), Exact(_JOB), Exact(_EPOCH))
        tables[_AGGREGATE + "peer"].insert(TableEntry(key, _AGGREGATE + "child", (1 << child, int(child == 0))))
        address = (0x020000000000 | host_ip(child), host_ip(child), INC_UDP_PORT)
        tables["IncEgress.depart.replica"].insert(TableEntry((Exact(child + 1),), "IncEgress.depart.address", address))
    device.multicast.set(_GROUP, [(child + 1, child + 1) for child in range(CHILDREN)])


def push_frame(child: int, lanes: int, seq: int = 0) -> bytes:
    """A PUSH of a child with small numbers in its lanes."""
    payload = np.arange(lanes, dtype=">i4").tobytes()
    inc = struct.pack("!BBHHHIIB3x", 0x11, 1, _JOB, _EPOCH, 1, seq, 0, 100)
    udp = struct.pack("!HHHH", INC_UDP_PORT, INC_UDP_PORT, 8 + len(inc) + len(payload), 0)
    length = 20 + len(udp) + len(inc) + len(payload)
    ip = struct.pack("!BBHHHBBHII", 0x45, 2, length, 0, 0, 64, 17, 0, host_ip(child), _SWITCH_IP)
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack("!H", ~total & 0xFFFF) + ip[12:]
    ethernet = bytes(6) + bytes(6) + b"\x08\x00"
    return ethernet + ip + udp + inc + payload


def push_frames(lanes: int) -> NDArray[np.uint8]:
    """One PUSH of chunk 0 for each child; shape (CHILDREN, bytes)."""
    return np.stack([np.frombuffer(push_frame(child, lanes), dtype=np.uint8) for child in range(CHILDREN)])


def sha256_of_results(lanes: int, slots: int, first: int, chunks: int) -> str:
    """Hash of all RESULT frames, port by port in the order of the chunks, that the embedded switch answers with."""
    device = root_switch(lanes, slots)
    digests = {child + 1: hashlib.sha256() for child in range(CHILDREN)}
    for seq in range(first, first + chunks):
        for child in range(CHILDREN):
            for port, frame in device.inject(child + 1, push_frame(child, lanes, seq)):
                digests[port].update(frame)
    return join_digests(digests)


def join_digests(digests: dict[int, Any]) -> str:
    """One hexadecimal hash of the hashes by port."""
    return hashlib.sha256(b"".join(digests[port].digest() for port in sorted(digests))).hexdigest()
