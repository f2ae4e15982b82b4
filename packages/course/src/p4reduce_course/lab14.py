"""Lab 14: heavy jobs: a count-min sketch that finds the jobs that send most."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
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

PUSH: Final = 1
ASK: Final = 2
LOAD: Final = Header("load", kind=8, heavy=8, job=32, amount=32, estimate=32)
ROWS: Final = 3
_MOST: Final = (1 << 32) - 1
UP: Final = 9
"""port"""


class Sketch:
    """The reference: the switch that the README describes."""

    def __init__(self, numbers: Numbers, setup: Setup, *, pick: str = "min",
            saturates: bool = True, once: bool = True, equal: bool = True, asks: bool = False, stale: bool = False,
            packets: bool = False, early: bool = False, back: bool = True, all_: bool = True, base: int = 0,
            flags: bool = False, less: bool = False, others: bool = False) -> None:  # fmt: skip
        """Makes a switch with empty rows; named arguments are mistakes."""
        del setup
        self.own = numbers
        self.pick, self.saturates, self.once, self.equal = pick, saturates, once, equal
        self.asks, self.stale, self.packets, self.early, self.back = asks, stale, packets, early, back
        self.all, self.base, self.flags, self.less, self.others = all_, base, flags, less, others
        self.heavy: set[int] = set()
        self.sizes = [numbers[f"cells{row}"] for row in range(ROWS)]
        self.rows = [[0] * size for size in self.sizes]

    def frame(self, frame: Frame) -> Out:
        """Returns the result of one frame."""
        data = frame.data
        if len(data) < ETHERNET.bytes + LOAD.bytes or ETHERNET.unpack(data)["type"] != self.own["load_type"]:
            return Out()
        load = LOAD.unpack(data[ETHERNET.bytes :])
        taken = load["kind"] in (PUSH, ASK)
        if not taken and not self.others:
            return Out()
        cells = [self.base + zlib.crc32(load["job"].to_bytes(4, "big")) % size for size in self.sizes]
        counts = [row[cell] if cell < len(row) else 0 for row, cell in zip(self.rows, cells, strict=True)]
        before, first = self._estimate(counts), counts[0]
        if load["kind"] == PUSH or self.asks or not taken:
            totals = [count + (1 if self.packets else load["amount"]) for count in counts]
            counts = [min(total, _MOST) if self.saturates else total & _MOST for total in totals]
            for row, cell, count in zip(self.rows, cells, counts, strict=True):
                row[cell : cell + 1] = [count] if cell < len(row) else []
        if not taken:
            return Out()
        after = before if self.early else self._estimate(counts)
        before = (after - load["amount"]) & _MOST if self.less else before
        limit = self.own["limit"] + (0 if self.equal else 1)
        heavy = after >= limit
        load["estimate"] = after
        load["heavy"] = 1 if heavy or (self.stale and load["heavy"]) else 0
        known = load["job"] in self.heavy if self.flags else before >= limit
        told = (load["kind"] == PUSH or self.asks) and heavy and not (known and self.once)
        told = told and (self.all or first < limit)
        self.heavy |= {load["job"]} if told else set()
        port = frame.port if load["kind"] == ASK and self.back else UP
        out = data[: ETHERNET.bytes] + LOAD.pack(**load) + data[ETHERNET.bytes + LOAD.bytes :]
        return Out(((port, out),), ((load["job"], after),) if told else ())

    def _estimate(self, counts: list[int]) -> int:
        return {"min": min(counts), "max": max(counts), "first": counts[0]}[self.pick]

    def learned(self, _: tuple[int, ...]) -> Sequence[dict[str, object]]:
        """Returns no entries: the controller only listens."""
        return ()


def numbers(draws: Draws) -> Numbers:
    """Returns the EtherType, the cells of each row, and the amount from which on a job is heavy."""
    return {
        "load_type": 0x8D00 + draws.integer("load_type", 1, 0xF0),
        **{
            f"cells{row}": size for row, size in enumerate(sorted(draws.shuffled("cells", (23, 29, 31, 37, 41))[:ROWS]))
        },
        "limit": 1000 * draws.integer("limit", 20, 90),
    }


def packet(own: Numbers, kind: int, job: int, amount: int, tag: str, *, heavy: int = 0, ether_type: int = 0,
        port: int = 1) -> Frame:  # fmt: skip
    """Returns a frame of a job; where its sender has marked it heavy, it also holds a large estimate."""
    load = LOAD.pack(kind=kind, heavy=heavy, job=job, amount=amount, estimate=_MOST - 1 if heavy else 7)
    names = {PUSH: f"a PUSH of {amount:,} by job {job}", ASK: f"an ASK for job {job}"}
    what = names.get(kind, f"a frame of kind {kind}") + (f" at port {port}" if port != 1 else "")
    what += " (marked heavy by its sender)" if heavy else ""
    ethernet = ETHERNET.pack(dst=0x02BB00000000 + port, src=0x02CC00000000 + port, type=ether_type or own["load_type"])
    return Frame(port, ethernet + load + b"end", what, tag)


def loads(own: Numbers, draws: Draws) -> Sequence[Scenario]:
    """Returns scenarios: few jobs, exact counts; many jobs, few cells; questions in between; amounts near the limit."""
    random, scenarios, limit = draws.generator("loads"), [], own["limit"]
    few = (
        packet(own, PUSH, 1, 500, "light"), packet(own, PUSH, 2, limit - 1, "light"), packet(own, ASK, 1, 0, "ask"),
        packet(own, ASK, 2, limit, "ask"), packet(own, PUSH, 2, 1, "crosses"), packet(own, PUSH, 2, 10, "heavy"),
        packet(own, PUSH, 1, 20, "light", heavy=1), packet(own, ASK, 2, 0, "ask heavy"), packet(own, PUSH, 3, limit, "crosses"),
        packet(own, ASK, 1, 0, "ask", heavy=1), packet(own, ASK, 2, 0, "ask heavy", port=4),
        packet(own, ASK, 3, 0, "ask heavy"), packet(own, PUSH, 1, 0, "light"), packet(own, PUSH, 3, 0, "heavy"),
        packet(own, ASK, 1, 0, "ask", port=300),
    )  # fmt: skip
    scenarios.append(Scenario(Setup(), few))
    for count in (30, 60):
        frames, reference = [], Sketch(own, Setup())
        jobs = [int(value) for value in random.integers(1, 1 << 32, count)]
        for number in range(2 * count):
            job = jobs[number] if number < count else jobs[int(random.integers(count))]
            amount = int(random.choice([limit // 8, limit // 20, limit // 3, 1]))
            mark, port = int(random.choice([0, 0, 1, 255])), int(random.integers(1, 10))
            kind = ASK if number % 5 == 4 else PUSH
            out = reference.frame(packet(own, kind, job, amount, ""))
            heavy = LOAD.unpack(out.sent[0][1][ETHERNET.bytes :])["heavy"]
            tag = "crosses" if out.digests else "heavy" if heavy else "light"
            if kind == ASK:
                tag = "ask heavy" if heavy else "ask"
            frames.append(packet(own, kind, job, amount, tag, heavy=mark, port=port))
        scenarios.append(Scenario(Setup(), tuple(frames)))
    for row in range(ROWS):
        frames = [packet(own, PUSH, _beside(own, row), limit, "crosses"), packet(own, PUSH, 1, limit - 1, "light")]
        scenarios.append(
            Scenario(Setup(), (*frames, packet(own, PUSH, 1, 1, "crosses"), packet(own, PUSH, 1, 1, "heavy")))
        )
    by_others = [packet(own, PUSH, _beside(own, row), limit, "crosses") for row in range(ROWS)]
    scenarios.append(Scenario(Setup(), (*by_others, *2 * [packet(own, PUSH, 1, 1, "heavy")])))
    return scenarios + [_in_last_cell(own, row) for row in range(ROWS)]


def _in_last_cell(own: Numbers, row: int) -> Scenario:
    """Returns two PUSHes of a job whose cell is the last one of a row."""
    last = own[f"cells{row}"] - 1
    job = next(job for job in range(1, 5000) if zlib.crc32(job.to_bytes(4, "big")) % own[f"cells{row}"] == last)
    return Scenario(Setup(), (packet(own, PUSH, job, 1, "light"), packet(own, PUSH, job, 1, "light")))


def _beside(own: Numbers, row: int) -> int:
    """Returns a job that shares its cell with job 1 in one row alone."""
    cells = [
        [zlib.crc32(job.to_bytes(4, "big")) % own[f"cells{number}"] for number in range(ROWS)] for job in range(5000)
    ]
    alike = [[a == b for a, b in zip(cells[1], other, strict=True)] for other in cells]
    return alike.index([number == row for number in range(ROWS)])


def full(own: Numbers, _: Draws) -> Sequence[Scenario]:
    """Returns scenarios with counts at the largest number."""
    frames = (
        packet(own, PUSH, 5, _MOST - 5, ""),
        packet(own, PUSH, 5, 5, ""),
        packet(own, PUSH, 5, 3, "full"),
        packet(own, ASK, 5, 0, "full"),
        packet(own, PUSH, 5, _MOST, "full"),
    )
    return [Scenario(Setup(), frames)]


def others(own: Numbers, draws: Draws) -> Sequence[Scenario]:
    """Returns scenarios with frames that are neither PUSH nor ASK, and a question what they counted."""
    whole, random = packet(own, PUSH, 1, own["limit"], ""), draws.generator("kinds")
    kinds = (0, 3, *((1 << bit) + int(random.integers(3)) for bit in range(2, 8)), 255)
    strange = (packet(own, PUSH, 1, 1, "other", ether_type=own["load_type"] ^ 1 << bit) for bit in range(16))
    frames = (
        packet(own, PUSH, 1, 5, ""),
        *(packet(own, other, 1, own["limit"], "other") for other in kinds),
        *(replace(frame, what="a frame of another EtherType") for frame in strange),
        *(Frame(1, whole.data[:length], f"a PUSH that is cut short after {length} bytes", "other")
          for length in (20, 13, 14, 27)),
        packet(own, ASK, 1, 0, "after"), packet(own, ASK, 0, 0, "after"),
    )  # fmt: skip
    return [Scenario(Setup(), frames)]


def example(own: Numbers) -> Scenario:
    """Returns the example for the lab's copy."""
    return Scenario(
        Setup(), (packet(own, PUSH, 1, 500, ""), packet(own, PUSH, 2, own["limit"], ""), packet(own, ASK, 1, 0, ""))
    )


def smaller(frame: Frame) -> Iterable[Frame]:
    """Yields the frame at port 1, without its sender's mark and with it."""
    what = re.sub(r" at port \d+", "", frame.what)
    unmarked = re.sub(r" \(marked[^)]*\)", "", what)
    mark = ETHERNET.bytes + 1
    if unmarked != what:
        yield replace(frame, port=1, data=frame.data[:mark] + b"\0" + frame.data[mark + 1 :], what=unmarked)
    if what != frame.what:
        yield replace(frame, port=1, what=what)


_MARK: Final = ("load.heavy",)
BENCH: Final = Bench(
    file="heavy.p4",
    reference=Sketch,
    read=lambda frame: fields_of(frame, ETHERNET, LOAD),
    numbers=numbers,
    example=example,
    smaller=smaller,
    properties=(
        Property("count", "a PUSH goes on, with what its job has sent so far", loads, ("light", "crosses", "heavy"), ("ports", "load.estimate")),
        Property("count", "what is neither PUSH nor ASK is dropped", others, ("other",), ("ports", "digests")),
        Property("count", "and counts nothing", others, ("after",), ("ports", "load.estimate")),
        Property("count", "counts end at the largest number", full, ("full",), ("load.estimate",)),
        Property("ask", "an ASK is answered, and counts nothing", loads, ("ask", "ask heavy"), ("ports", "load.estimate")),
        Property("heavy", "who has sent LIMIT is marked", loads, ("crosses", "heavy", "ask heavy"), _MARK),
        Property("heavy", "and no other job", loads, ("light", "ask"), _MARK),
        Property("heavy", "the controller hears of it once", loads, (), ("digests",)),
        Property("heavy", "and not again when counts end", full, (), ("load.heavy", "digests")),
        Property("heavy", "all else of a frame stays as it is", loads),
    ),
    mistakes=(
        Mistake("the estimate is the smallest of the three counts: each is too large where jobs share its cell", {"pick": "max"}),
        Mistake("one row alone counts too much where jobs share its cell: take the smallest of three, each row with a size and a modulus of its own", {"pick": "first"}),
        Mistake("a count wrapped around: add with |+|, which ends at the largest number", {"saturates": False}),
        Mistake("PUSHes of other jobs may have taken a job across LIMIT: what the cells had before says so, a note for each job does not", {"flags": True}),
        Mistake("the estimate before this PUSH is what the cells had: where a count ended at the largest number, amount cannot be taken off it", {"less": True}),
        Mistake("the controller is told of a job that was heavy before: tell it with the PUSH alone that takes the estimate across LIMIT", {"once": False}),
        Mistake("one row says that a job was heavy before: the estimate before is the smallest of three, too", {"all_": False}),
        Mistake("a job that has sent LIMIT exactly is heavy", {"equal": False}),
        Mistake("an ASK was counted: it only reads", {"asks": True}),
        Mistake("heavy was set when the frame came and stayed: a sender may lie, so write 0 or 1 into every frame", {"stale": True}),
        Mistake("a frame that is neither PUSH nor ASK was counted before it was dropped", {"others": True}),
        Mistake("frames were counted: add amount", {"packets": True}),
        Mistake("the estimate is what it was before this PUSH: add first", {"early": True}),
        Mistake("the last cell of a row is never used: cells are numbered from 0, so the base of hash is 0", {"base": 1}),
        Mistake("an ASK is answered: it leaves by the port it came from", {"back": False}),
    ),
)  # fmt: skip

LAB: Final[Lab] = BENCH.lab(
    "14", "14-heavy-jobs", "heavy jobs", 75,
    (
        LabPart("count", "three rows and an estimate", 45),
        LabPart("ask", "reading without counting", 15),
        LabPart("heavy", "who sends most", 40),
    ),
    "your switch finds the heavy jobs in a few cells of memory",
)  # fmt: skip
