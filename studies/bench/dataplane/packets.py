"""Nanoseconds per packet: machine code of the whole P4 program, the interpreter, and the work on lanes alone."""

import ctypes
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from p4reduce.network.virtual.records import aligned_bytes
from p4reduce.workers import wire
from p4switch import abi
from p4switch.device import Device
from p4switch.traffic import ExecutorName
from studies.bench import timed
from studies.bench.switch import EPOCH, JOB, Neighbour, aggregate, program

# The measured switch: the root of one job with eight children, and the frames that they send.


CHILDREN: Final = 8
SEQ_OFFSET: Final[int] = wire.FRAME_DTYPE.fields["seq"][1]  # type: ignore[index]
"""Byte of a frame at which the chunk's sequence number starts."""

FRAME_BYTES: Final = 2048
"""bytes of memory for each frame"""

_SWITCH_IP: Final = 0x0A800001
_TOKEN: Final = 0xABCDEF


def host_ip(child: int) -> int:
    """Return the IPv4 address of a child."""
    return 0x0A000001 + child


def root_switch(lanes: int, slots: int, executor: ExecutorName = "compiled") -> Device:
    """Return a root switch with one job that has all ``slots``, for children behind ports 1 to CHILDREN."""
    device = Device(program(lanes, slots), name="bench", executor=executor)
    install(device, slots)
    return device


def install(device: Device, slots: int) -> None:
    """Write the job's entries and multicast group, with tokens if the program supports them."""
    children = [Neighbour(child + 1, 0x020000000000 | host_ip(child), host_ip(child)) for child in range(CHILDREN)]
    known = any(action.name.endswith("_with_token") for action in device.tables["IncIngress.aggregate.peer"].actions)
    aggregate(device, _SWITCH_IP, children, slots, token=_TOKEN if known else 0)


def push_frame(child: int, lanes: int, seq: int = 0) -> bytes:
    """Return a PUSH frame of a child with small numbers in its lanes."""
    headers = wire.headers(
        1,
        ipv4_src=host_ip(child),
        ipv4_dst=_SWITCH_IP,
        job=JOB,
        epoch=EPOCH,
        count=1,
        seq=seq,
        exponent=100,
        token=_TOKEN,
    )
    return wire.pack(headers, np.arange(lanes, dtype=np.int32)[np.newaxis]).tobytes()


def push_frames(lanes: int) -> NDArray[np.uint8]:
    """Return one PUSH of chunk 0 for each child; shape (CHILDREN, bytes)."""
    return np.stack([np.frombuffer(push_frame(child, lanes), dtype=np.uint8) for child in range(CHILDREN)])


def sha256_of_results(lanes: int, slots: int, first: int, chunks: int) -> str:
    """Return the hash of all RESULT frames of the embedded switch, port by port in the order of the chunks."""
    device = root_switch(lanes, slots)
    digests = {child + 1: hashlib.sha256() for child in range(CHILDREN)}
    for seq in range(first, first + chunks):
        for child in range(CHILDREN):
            for port, frame in device.inject(child + 1, push_frame(child, lanes, seq)):
                digests[port].update(frame)
    return join_digests(digests)


def join_digests(digests: dict[int, Any]) -> str:
    """Return one hexadecimal hash of the hashes by port."""
    return hashlib.sha256(b"".join(digests[port].digest() for port in sorted(digests))).hexdigest()


STATE_BYTES: Final = 16
"""bytes of a slot's state beside its lanes: bit<128>"""
ALL_REDUCE: Final = f"all-reduce: {CHILDREN} in, {CHILDREN} out"


@dataclass(frozen=True)
class Speed:
    """Cost of one kind of packet in processor time of one core.

    Attributes:
        what: store: the push that opens a slot. add: a push that is added; nothing leaves. finish: the last push, with
            egress of one or of all copies of the sum. replay: a repeated push, with egress of the cached sum.
            all-reduce: chunk by chunk the pushes of all children and all copies of the result, per push.
        nanoseconds: time per incoming packet.
        slot_bytes: bytes of slots that the packet must read and write.
    """

    what: str
    lanes: int
    slots: int
    nanoseconds: float
    slot_bytes: int

    @property
    def row(self) -> dict[str, Any]:
        """Row for JSON and tables."""
        return {
            "what": self.what,
            "lanes": self.lanes,
            "slots": self.slots,
            "ns_per_packet": self.nanoseconds,
            "packets_per_s": 1e9 / self.nanoseconds,
            "lanes_per_s": self.lanes * 1e9 / self.nanoseconds,
            "slot_bytes_per_s": self.slot_bytes * 1e9 / self.nanoseconds,
        }


class DeviceDriver:
    """Calls a device's machine code from a compiled loop."""

    def __init__(self, device: Device, lanes: int, slots: int) -> None:
        self.slots = slots
        self._device = device  # keeps memory alive that the machine code addresses
        self._loop = _loop(device)
        # Frames and buffers are aligned to cache lines, as in the network.
        frames = push_frames(lanes)
        self._frames = aligned_bytes(CHILDREN * FRAME_BYTES).reshape(CHILDREN, -1)[:, : frames.shape[1]]
        self._frames[:] = frames
        self._io = np.zeros(abi.IO_CELLS, dtype=np.int64)
        self._phv = aligned_bytes(device.phv_bytes)
        self._out = aligned_bytes(device.out_bytes)
        self.outcome = np.zeros(2, dtype=np.int64)
        """Number of packets that ended in a multicast, number of bytes that left egress."""

    def run(self, first: int, children: range, copies: int) -> None:
        """Process ``slots`` chunks from ``first`` on: a PUSH of each of ``children``, then ``copies`` egress passes."""
        buffers = np.array([array.ctypes.data for array in (self._io, self._phv, self._out)], dtype=np.int64)
        span = (first, first + self.slots, children.start, children.stop, copies)
        self._loop(self._frames, span, self._io, buffers, self.outcome)


def _loop(device: Device) -> Callable[..., None]:
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    ingress = ctypes.CFUNCTYPE(number, pointer, pointer, number, pointer, pointer)(device.ingress_address)
    egress = ctypes.CFUNCTYPE(number, pointer, pointer, pointer, pointer)(device.egress_address)
    state = device.state_address
    eg_port, eg_rid, in_port, group = abi.EG_PORT, abi.EG_RID, abi.IN_PORT, abi.OUT_MCAST_GRP

    def loop(frames, span, io, buffers, outcome):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        begin, end, first_child, last_child, copies = span
        for seq in range(begin, end):
            for child in range(first_child, last_child):
                frame = frames[child]
                for i in range(4):
                    frame[SEQ_OFFSET + i] = (seq >> (24 - 8 * i)) & 255
                io[in_port] = child + 1
                ingress(state, frame.ctypes.data, len(frame), buffers[0], buffers[1])
                outcome[0] += io[group] != 0
            for copy in range(copies):
                io[eg_port], io[eg_rid] = copy + 1, copy + 1
                outcome[1] += egress(state, buffers[1], buffers[0], buffers[2])

    compiled: Callable[..., None] = numba.njit(loop)
    return compiled


@numba.njit
def by_hand(frame, slots, result):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Do the work on lanes alone, slot by slot: add big-endian lanes with saturation, write the sums big-endian.

    frame, result: uint32, shape (lanes,). slots: int32, shape (slots, lanes).
    """
    for slot in range(slots.shape[0]):
        for lane in range(slots.shape[1]):
            raw = frame[lane]
            value = np.int32((raw << 24) | ((raw & 0xFF00) << 8) | ((raw >> 8) & 0xFF00) | (raw >> 24))
            old = slots[slot, lane]
            total = np.int32(old + value)
            overflow = (old ^ total) & (value ^ total)
            total = np.int32((old >> 31) ^ 0x7FFFFFFF) if overflow < 0 else total
            slots[slot, lane] = total
            out = np.uint32(total)
            result[lane] = (out << 24) | ((out & 0xFF00) << 8) | ((out >> 8) & 0xFF00) | (out >> 24)


def measure(lanes: int, slots: int, rounds: int, progress: Callable[[], None] = lambda: None) -> list[Speed]:
    """Measure every kind of packet; the least of ``rounds``, to exclude other load on the machine.

    A round goes through all slots, once for each child; ``progress`` is called after each round.

    Raises:
        RuntimeError: the switch finished a wrong number of slots; the figures would be meaningless.
    """
    device = root_switch(lanes, slots)
    driver = DeviceDriver(device, lanes, slots)
    least: dict[str, float] = {}

    def clock(what: str, packets: int, run: Callable[[], object]) -> None:
        least[what] = min(least.get(what, np.inf), timed(run)[0] / packets * 1e9)

    words, results = np.arange(lanes, dtype=np.uint32), np.zeros(lanes, dtype=np.uint32)
    sums = np.zeros((slots, lanes), dtype=np.int32)
    by_hand(words, sums, results)  # compiles it
    driver.run(0, range(CHILDREN), CHILDREN)  # compiles it, and touches all memory
    everyone = range(CHILDREN)
    middle, last = everyone[1:-1], everyone[-1:]
    for number in range(rounds):
        first, copies = (1 + 2 * number) * slots, CHILDREN if number % 2 else 1
        clock("store", slots, partial(driver.run, first, everyone[:1], 0))
        for child in middle:
            clock("add", slots, partial(driver.run, first, range(child, child + 1), 0))
        clock(f"finish, {copies} out", slots, partial(driver.run, first, last, copies))
        clock("replay", slots, partial(driver.run, first, range(2, 3), 1))
        clock(ALL_REDUCE, slots * CHILDREN, partial(driver.run, first + slots, everyone, CHILDREN))
        clock("by hand", slots, partial(by_hand, words, sums, results))
        progress()
    if driver.outcome[0] != (2 * rounds + 1) * slots:
        raise RuntimeError(f"{driver.outcome[0]} of {(2 * rounds + 1) * slots} slots were finished")
    row, lanes_only = 2 * (4 * lanes + STATE_BYTES), 2 * 4 * lanes
    moved = {"store": row // 2, "replay": row // 2, "by hand": lanes_only}
    return [Speed(what, lanes, slots, spent, moved.get(what, row)) for what, spent in least.items()]


def interpreted(lanes: int, chunks: int) -> Speed:
    """Measure the interpreter on ``chunks`` chunks of the all-reduce, driven from Python."""
    slots = 1024
    device = root_switch(lanes, slots, "interpreted")
    frames = [[push_frame(child, lanes, seq) for child in range(CHILDREN)] for seq in range(slots, slots + chunks)]
    device.inject(1, push_frame(0, lanes))  # imports and caches
    copies = 0
    begin = time.thread_time()
    for chunk in frames:
        for child, frame in enumerate(chunk):
            copies += len(device.inject(child + 1, frame))
    spent = (time.thread_time() - begin) / (chunks * CHILDREN) * 1e9
    if copies != chunks * CHILDREN:
        raise RuntimeError(f"the interpreter sent {copies} of {chunks * CHILDREN} results")
    return Speed(f"interpreter, {ALL_REDUCE}", lanes, slots, spent, 2 * (4 * lanes + STATE_BYTES))
