"""Lab 13: spreading jobs over uplinks: ECMP by flowlets for data, by the job alone for packets that are aggregated."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from p4reduce_course.bench import (
    ETHERNET,
    Bench,
    Frame,
    Header,
    Mistake,
    Numbers,
    Out,
    Property,
    Scenario,
    Setup,
    fields_of,
)
from p4reduce_course.frame.lab import Draws, Lab, LabPart

DATA: Final = 0
PUSH: Final = 1
RESULT: Final = 2
JOB: Final = Header("job", kind=8, job=16, src=16, dst=16)
FLOWS: Final = 64
_LONGEST: Final = (1 << 47, 1 << 44, 1 << 40)
"""pauses that take most of a time's 48 bits, microseconds"""
_PAUSES: Final = 270
"""so often a flow pauses: its number takes more than 8 bits"""


def crc16(data: bytes) -> int:
    """Returns CRC-16/ARC, which is HashAlgorithm.crc16 of v1model."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


class Spreader:
    """The reference: the switch that the README describes."""

    def __init__(self, numbers: Numbers, setup: Setup, *, whole: bool = True, again: str = "gap", edge: bool = False,
            latest: bool = True, numbered: bool = True, both: bool = True, slots: int = FLOWS,
            results: bool = True, bits: int = 48, apart: bool = True, least: int = 0, width: int = 16, under: bool = False) -> None:  # fmt: skip
        """Makes a switch with the uplinks of a setup; each named argument selects a mistake."""
        self.type, self.gap = numbers["job_type"], numbers["gap"] + (0 if not edge else -1)
        self.whole, self.again, self.latest, self.numbered, self.both = whole, again, latest, numbered, both
        self.results, self.bits, self.apart = results, bits, apart
        self.least, self.width, self.under = least, width, under
        self.ways = next((row["params"]["count"] for row in setup.rows if row["table"] == "spread"), 0)
        self.ports = {row["match"]["meta.way"]: row["params"]["port"] for row in setup.rows if row["table"] == "uplink"}
        self.slots = slots
        self.seen: dict[int, int] = {}
        self.flowlets: dict[int, int] = {}

    def frame(self, frame: Frame) -> Out:
        """Returns the result of one frame."""
        data = frame.data
        if len(data) < ETHERNET.bytes + JOB.bytes or ETHERNET.unpack(data)["type"] != self.type:
            return Out()
        job = JOB.unpack(data[ETHERNET.bytes :])
        if job["kind"] > RESULT:
            return Out()
        of_job = self.whole and (job["kind"] == PUSH or (job["kind"] == RESULT and self.results))
        way = crc16(job["job"].to_bytes(2, "big")) % self.ways
        if not of_job or not self.apart:
            ends = job["src"].to_bytes(2, "big") + (job["dst"].to_bytes(2, "big") if self.both else b"")
            flow = crc16(ends) % self.slots
            number = self.flowlets.get(flow, 0)
            pause = (frame.at_us - self.seen.get(flow, 0)) % (1 << self.bits)
            pause = max(pause, self.least * (flow not in self.seen), (1 << 48) * (self.under and not pause))
            if self.again == "always" or (self.again in ("gap", "lost") and pause > self.gap):
                number = (number + 1) % (1 << self.width)
                self.flowlets[flow] = number if self.again != "lost" else 0
                self.seen[flow] = frame.at_us
            elif self.latest:
                self.seen[flow] = frame.at_us
            way = way if of_job else crc16(ends + (number.to_bytes(2, "big") if self.numbered else b"")) % self.ways
        return Out(((self.ports[way], data),)) if way in self.ports else Out()


def numbers(draws: Draws) -> Numbers:
    """Returns the EtherType, and the pause in microseconds that begins a flowlet."""
    return {"job_type": 0x8C00 + draws.integer("job_type", 1, 0xF0), "gap": 10 * draws.integer("gap", 10, 90)}


def ways(count: int, first: int = 10, *, back: bool = False) -> Setup:
    """Returns a setup with uplinks at a first port and those after it; ``back``: in the reverse order."""
    spread = {"table": "spread", "default": True, "action": "ways", "params": {"count": count}}
    uplinks = [
        {
            "table": "uplink",
            "match": {"meta.way": count - 1 - n if back else n},
            "action": "to",
            "params": {"port": first + n},
        }
        for n in range(count)
    ]
    return Setup((spread, *uplinks))


_NAMES: Final = {DATA: "data", PUSH: "a PUSH", RESULT: "a RESULT"}


def packet(
    own: Numbers, kind: int, job: int, src: int, dst: int, at: int, tag: str, by: int = 1, *, ether_type: int = 0
) -> Frame:
    """Returns a frame of a job from one host to another; ``by``: the port by which it comes in."""
    data = ETHERNET.pack(dst=0x02BB00000000 + by, src=0x02CC00000000 + by, type=ether_type or own["job_type"])
    data += JOB.pack(kind=kind, job=job, src=src, dst=dst) + b"load"
    what = f"{_NAMES.get(kind, f'a frame of kind {kind}')} of job {job} from {src} to {dst} at {at:,} us"
    return Frame(by, data, what + (f" by port {by}" if by > 1 else ""), tag, at)


def jobs(own: Numbers, draws: Draws) -> Sequence[Scenario]:
    """Returns scenarios with PUSHes and RESULTs of many jobs by several workers, over 1 to 40 uplinks."""
    random, scenarios = draws.generator("jobs"), []
    for count in (4, 1, 3, 8, 40):
        frames, at = [], 10_000
        for number in range(24):
            at += int(random.integers(1, 3 * own["gap"]))
            kind = (PUSH, RESULT)[number % 3 == 2]
            job = int(random.integers(1, 5)) if number < 12 else int(random.integers(1 << 16))
            src, dst = (int(value) for value in random.integers(1, 50, 2))
            job = 0 if number > 20 else job
            frames.append(packet(own, kind, job, src, dst, at, "job", int(random.integers(1, 10))))
        first = int(random.integers(10, 400))
        # One job by every uplink: its own is among them.
        frames += [packet(own, (PUSH, RESULT)[count % 2], 1, 1, 2, at, "job", first + n) for n in range(min(count, 8))]
        scenarios.append(Scenario(ways(count, first, back=count > 1), tuple(frames)))
    return scenarios


def flows(own: Numbers, draws: Draws) -> Sequence[Scenario]:
    """Returns scenarios with bursts of data, and pauses of about the length that begins a flowlet, or very long ones.

    Frames of other kinds come between, with the same ends: they are no frames of the flow.
    """
    random, scenarios, gap = draws.generator("flows"), [], own["gap"]
    for count in (8, 5, 2):
        at, frames, ends, newest = 10_000, [], [], dict[int, int]()
        for _ in range(3):
            src, dst = (int(value) for value in random.integers(1, 1 << 16, 2))
            ends += [(src, dst), (src, dst ^ 1), (src, dst ^ 2)]
        ends[-1] = (ends[-1][0], ends[-1][0])
        for number in range(70 + len(_LONGEST)):
            end = ends[int(random.integers(len(ends)))] if 12 < number < 70 else ends[0]
            cell = crc16(end[0].to_bytes(2, "big") + end[1].to_bytes(2, "big")) % FLOWS
            long = [(1 << bits) + gap // 2 for bits in (16, 32, int(random.integers(11, 40)))]
            pauses = (1, gap // 2, gap, gap + 1, 3 * gap, int(random.choice(long)))
            pause = int(random.choice(pauses)) if number > 12 else (gap + 1, gap, 0, gap // 2 + 1)[number % 4]
            pause = _LONGEST[number - 70] + gap // 2 if number >= 70 else pause
            exact = number <= 12 or number >= 70 or random.random() < 0.7
            before, at = at, max(at, newest.get(cell, at) + pause) if exact else at + 1
            tag = "first" if cell not in newest else "next" if at - newest[cell] > gap else "same"
            newest[cell] = at
            job, by = int(random.integers(1, 9)), int(random.integers(1, 10))
            if number and random.random() < 0.4:
                kind, between = int(random.choice([PUSH, RESULT, 3, 255])), int(random.integers(before, at + 1))
                frames.append(packet(own, kind, job, *end, between, "other", by))
            frames.append(packet(own, DATA, job, *end, at, tag, by))
        scenarios.append(Scenario(ways(count, int(random.integers(10, 400)), back=True), tuple(frames)))
    return [*scenarios, *_of_one_flow(own, draws)]


def _of_one_flow(own: Numbers, draws: Draws) -> list[Scenario]:
    """Returns scenarios with a flow's first frame at GAP, then 1 us later, and with a flow that pauses often."""
    random, gap = draws.generator("one flow"), own["gap"]
    while True:
        src, dst = (int(value) for value in random.integers(1, 1 << 16, 2))
        if crc16(struct.pack(">HHH", src, dst, 0)) % 2 != crc16(struct.pack(">HHH", src, dst, 1)) % 2:
            break
    early = [Scenario(ways(2), (packet(own, DATA, 1, src, dst, at, "first"),)) for at in (gap, gap + 1)]
    times = [10_000 + number * (gap + 1) for number in range(_PAUSES)]
    tags = ("first", *["next"] * (_PAUSES - 1))
    often = tuple(
        packet(own, DATA, 1, src, dst, at, tag, 10 + number % 8)
        for number, (at, tag) in enumerate(zip(times, tags, strict=True))
    )
    return [*early, Scenario(ways(8), often)]


def shared(own: Numbers, draws: Draws) -> Sequence[Scenario]:
    """Returns scenarios of two flows with cells 0, 16 or 32 apart: one resumes 1 us after a frame of the other."""
    random, gap, frames, at = draws.generator("shared"), own["gap"], [], 10_000
    for apart in (FLOWS // 2, FLOWS // 4, 0, FLOWS // 2, FLOWS // 4, 0):
        while True:
            first, other = ((int(a), int(b)) for a, b in random.integers(1, 1 << 16, (2, 2)))
            ends = [struct.pack(">HH", *flow) for flow in (first, other)]
            cells = [crc16(end) % FLOWS for end in ends]
            ways_ = [crc16(ends[0] + struct.pack(">H", number)) % 5 for number in (1, 2)]
            ways_ += [crc16(ends[1] + struct.pack(">H", number)) % 5 for number in (0, 1)]
            if (cells[1] - cells[0]) % FLOWS == apart and ways_[0] != ways_[1] and ways_[2] != ways_[3]:
                break
        for flow, pause, tag in ((first, 10 * gap, "first"), (other, gap, "first"), (first, 1, "next")):
            at += pause
            frames.append(packet(own, DATA, 1, *flow, at, tag if apart else "same"))
    return [Scenario(ways(5), tuple(frames[place : place + 3])) for place in range(0, len(frames), 3)]


def others(own: Numbers, draws: Draws) -> Sequence[Scenario]:
    """Returns scenarios with frames that belong to no job: kinds that differ from the three in any of their bits."""
    random = draws.generator("others")
    kinds = (3, *((1 << bit) + int(random.integers(3)) for bit in range(2, 8)), 255)
    frames = [packet(own, kind, 1, 1, 2, 10_000, "") for kind in kinds]
    for bit in range(16):
        frames.append(packet(own, DATA, 1, 1, 2, 10_001, "", ether_type=own["job_type"] ^ 1 << bit))
        frames[-1] = replace(frames[-1], what="a frame of another EtherType")
    frames.append(Frame(1, frames[0].data[: int(random.integers(14, 21))], "a frame that is cut short", "", 10_002))
    return [Scenario(ways(4), tuple(frames))]


def example(own: Numbers) -> Scenario:
    """Returns the example for the lab's copy."""
    times = (10_000, 10_001, 10_002 + own["gap"])
    return Scenario(
        ways(4), (*(packet(own, DATA, 1, 7, 9, at, "") for at in times), packet(own, PUSH, 1, 7, 9, times[2], ""))
    )


BENCH: Final = Bench(
    file="spread.p4",
    reference=Spreader,
    read=lambda frame: fields_of(frame, ETHERNET, JOB),
    numbers=numbers,
    example=example,
    properties=(
        Property("jobs", "what is not of a job is dropped", others),
        Property("jobs", "a job's PUSHes and RESULTs take one way, 1 to 40 uplinks", jobs),
        Property("flowlets", "a flow's first frame", flows, ("first",)),
        Property("flowlets", "frames behind each other stay on their way", flows, ("same",)),
        Property("flowlets", "a pause begins the next flowlet", flows, ("next",)),
        Property("flowlets", "flows of other cells are no pause of this one", shared),
    ),
    mistakes=(
        Mistake("a switch that adds up must see all PUSHes of a job: the way follows from job alone, crc16 of { job }", {"whole": False}),
        Mistake("RESULTs take the way of their job, as PUSHes do", {"results": False}),
        Mistake("a frame within a burst would overtake those before it: count up only after a pause", {"again": "always"}),
        Mistake("the number of the flowlet never grows: count up after a pause of more than GAP, and write it back", {"again": "never"}),
        Mistake("the number of the flowlet is lost with the frame: write it back to flowlets", {"again": "lost"}),
        Mistake("a PUSH and a RESULT are no frames of a flow: only DATA reads and writes its cells", {"apart": False}),
        Mistake("a pause of exactly GAP is none: it must be longer", {"edge": True}),
        Mistake("the pause is that since the latest frame: write the time for every frame, not only for the first of a flowlet", {"latest": False}),
        Mistake("a pause that does not fit into 16 bits is cut short: times have 48 bits, and so has a pause", {"bits": 16}),
        Mistake("a pause that does not fit into 32 bits is cut short: times have 48 bits, and so has a pause", {"bits": 32}),
        Mistake("a pause that does not fit into 40 bits is cut short: times have 48 bits, and so has a pause", {"bits": 40}),
        Mistake("the first frame of a flow is not a special case: in a fresh register the time is 0, and the pause begins there", {"least": 1 << 48}),
        Mistake("two frames in the same microsecond have a pause of 0, and 0 minus something wraps around: compare the pause itself with GAP", {"under": True}),
        Mistake("the number of the flowlet does not fit into 8 bits: it has 16", {"width": 8}),
        Mistake("the number of the flowlet does not fit into 4 bits: it has 16", {"width": 4}),
        Mistake("the number of the flowlet is not in the hash: { src, dst, number }", {"numbered": False}),
        Mistake("dst is not in the hash: flows to other hosts are other flows", {"both": False}),
        Mistake("all flows share one cell: the index is crc16 of { src, dst } modulo FLOWS", {"slots": 1}),
        Mistake("flows share a cell that have two: the index is crc16 of { src, dst } modulo FLOWS, all of them", {"slots": FLOWS // 2}),
    ),
)  # fmt: skip

LAB: Final[Lab] = BENCH.lab(
    "13", "13-spreading-jobs", "spreading jobs", 75,
    (
        LabPart("jobs", "what is added up stays together", 40),
        LabPart("flowlets", "all else is spread, in order", 60),
    ),
    "your switch uses all its uplinks, and no sum is torn apart",
)  # fmt: skip
