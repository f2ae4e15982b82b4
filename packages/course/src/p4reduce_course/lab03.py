"""Lab 03: a slot, made of registers that are read, changed and written back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from p4reduce_course.culprit import FAILED, in_p4, placed
from p4reduce_course.frame.grading import skeleton_of
from p4reduce_course.frame.lab import Draws, GradingTask, Lab, LabPart, LabStep, run_steps
from p4reduce_course.frame.report import Check, Wrong, counted
from p4reduce_course.p4 import (
    GROUP,
    LANES,
    PUSH,
    RESULT,
    WRAP,
    Lanes,
    Members,
    P4Bench,
    Push,
    Strangers,
    Sum,
    SumModel,
    added,
    compiled,
    entries_text,
    new_bench,
    odd_part,
    read,
    shown,
    shrunk,
)
from p4reduce_course.sandbox.program import Compiled, FrameAnswer, Parts, StudentProgram
from p4reduce_course.trail import Departure, Trail

# Grading of lab 03: frames, sums and registers are compared with a model that knows no P4.


FILE: Final = "slot.p4"
WORKERS: Final = range(2, 9)
_MOVED: Final = 5
"""so many workers have bits that do not follow their ports"""
_AHEAD: Final = (3, 5)
"""so many workers are up to SLOTS chunks ahead of each other; others send one chunk after the other"""
_HIGH: Final = 7
"""so many workers have the last chunks that there can be"""
_REGISTERS: Final = tuple(f"sums{lane}" for lane in range(LANES))


_GONE: Final = "the bits of the others are gone. Put the sender's bit in beside them: bitmap | meta.bit_"
_HOW_MANY: Final = (
    "who is in must be remembered, not how many. Put the sender's bit in, bitmap | meta.bit_, and ask for the sender's "
    "bit in the bitmap before anything else"
)


@dataclass(frozen=True)
class StudentNumbers:
    """The EtherType and the number of slots of a student."""

    ether_type: int
    slots: int

    @classmethod
    def of(cls, draws: Draws) -> StudentNumbers:
        """Returns the student's numbers."""
        return cls(0x8A00 + draws.integer("ether_type", 1, 0xF0), draws.choice("slots", (4, 8, 16, 32)))


Outcome = Literal["repetition", "partial", "complete"]


class SlotModel(SumModel):
    """The state of a correct switch with one cell for each slot, which is empty again when all workers are in."""

    def push(self, push: Push) -> Outcome:
        """Takes one frame; returns its outcome."""
        slot = push.seq % self.slots
        if not self.take(slot, push):
            return "repetition"
        if self.bitmaps[slot] != self.full:
            return "partial"
        self.bitmaps[slot] = 0
        return "complete"

    def possible(self, pushes: Sequence[Push]) -> bool:
        """Returns whether real workers could send these frames to an empty switch.

        A worker uses a slot again only when the previous chunk in it is complete, and repeats no complete chunk.
        """
        open_, over = dict[int, tuple[int, int]](), set[int]()
        for push in pushes:
            slot = push.seq % self.slots
            seq, bits = open_.get(slot, (push.seq, 0))
            if seq != push.seq or push.seq in over:
                return False
            open_[slot] = seq, bits | push.bit
            if bits | push.bit == self.full:
                over.add(push.seq)
                del open_[slot]
        return True


def grade(task: GradingTask) -> Iterator[Check]:
    """Yields all checks of lab 03."""
    with StudentProgram(task.answers / FILE, seen=task.seen) as program:
        yield from run_steps(task, _Grader(task, program).steps())


@dataclass(frozen=True)
class _Played:
    """A frame with the results of the switch and of the model.

    Attributes:
        before, after: bitmap and sums in the slot's registers.
        expected: bitmap and sums of the model.
        full: the bits of all workers.
        left: sums that the previous chunk left in the slot; None if there was none.
        odd: what is not as it was in the first wrong frame that left, outside the lab's header; empty if nothing.
        elsewhere: registers and cells outside the slot that changed; empty if they were not watched.
    """

    push: Push
    answer: FrameAnswer
    outcome: Outcome
    before: tuple[int, Lanes]
    after: tuple[int, Lanes]
    expected: tuple[int, Lanes]
    full: int
    left: Lanes | None
    odd: str = ""
    elsewhere: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        return str(self.push)

    @property
    def right_bitmap(self) -> bool:
        return self.after[0] == self.expected[0]

    @property
    def right_sums(self) -> bool:
        """Whether the sums are right; always True for a complete chunk, whose sums no longer matter."""
        return self.outcome == "complete" or self.after[1] == self.expected[1]

    def right_ports(self, workers: int) -> bool:
        ports = sorted(port for port, _ in self.answer.sent)
        return ports == (list(range(1, workers + 1)) if self.outcome == "complete" else [])

    @property
    def taken_for_other(self) -> bool:
        """Whether a complete chunk was taken for an incomplete one, or the reverse."""
        if self.outcome == "complete":
            return self.after[0] == self.full and not self.answer.sent
        return self.answer.group == GROUP

    @property
    def right_header(self) -> bool:
        headers, right = [read(data) for _, data in self.answer.sent], (RESULT, self.push.seq)
        return not self.odd and all(header is not None and (header.kind, header.seq) == right for header in headers)

    @property
    def result(self) -> Lanes | None:
        """The lanes of the frame that left; None if nothing left."""
        header = read(self.answer.sent[0][1]) if self.answer.sent else None
        return None if header is None else header.lanes

    @property
    def right_lanes(self) -> bool:
        return self.result is None or self.result == self.expected[1]


def _deviation(frame: _Played, workers: int) -> Departure:
    """Returns what is wrong with a frame, causes before effects."""
    if frame.elsewhere:
        name, cell = frame.elsewhere[0]
        return Departure("cell", name, cell=cell)
    ports_wrong = not frame.right_ports(workers)
    if frame.outcome == "repetition" or (ports_wrong and frame.taken_for_other):
        return Departure("sent", drop=frame.outcome != "complete") if frame.answer.sent else Departure("dropped")
    if not frame.right_bitmap:
        return Departure("cell", "bitmaps")
    if not frame.right_sums:
        lane = next(n for n in range(LANES) if frame.after[1][n] != frame.expected[1][n])
        return Departure("cell", f"sums{lane}")
    if ports_wrong:
        return Departure("sent", drop=frame.outcome != "complete") if frame.answer.sent else Departure("dropped")
    if not frame.right_header:
        header = read(frame.answer.sent[0][1])
        changed = frame.odd or "sum.seq"
        return Departure("field", "sum.kind" if header is None or header.kind != RESULT else changed)
    lane = next((n for n in range(LANES) if frame.result and frame.result[n] != frame.expected[1][n]), 0)
    return Departure("field", f"sum.lane{lane}")


def _slot(values: Sequence[int]) -> tuple[int, Lanes]:
    """Returns bitmap and sums of a slot."""
    return values[0], tuple(values[1:])


class _Grader:
    def __init__(self, task: GradingTask, program: StudentProgram) -> None:
        self.task = task
        self.path: Path = task.answers / FILE
        self.numbers = StudentNumbers.of(task.personal)
        self.draws = task.hidden
        self.moved = self.draws.integer("moved", 1, 8)
        self.program = program
        self.parts: Parts | None = None
        self._played: dict[tuple[int, bool], list[_Played]] = {}
        self._told: dict[tuple[int, str], Wrong] = {}
        self._brief, self._ran = not task.explain, list[tuple[Sequence[int], bool]]()  # to locate the mistake
        self._small: tuple[int, Sequence[Push], Callable[[_Played, int], bool]] | None = None  # frames of the mistake
        self._likely, self._where = list[int](), ""

    def steps(self) -> list[LabStep]:
        def anew(program: StudentProgram, compilation: Compiled, _: str) -> list[LabStep]:
            other = _Grader(self.task, program)
            other.parts, other._brief = compilation.parts, True
            small = self._small
            if small is None:
                return other.checks()
            return [LabStep("packets", FAILED, lambda: other._replay(*small)), *other.checks()]

        checks = placed(
            self.task,
            self.checks(),
            lambda step: in_p4(self.task, FILE, step, self._ran, self._likely, anew, self._where),
        )
        return [LabStep("packets", "the program compiles", self.compile, gate=True), *checks]

    def checks(self) -> list[LabStep]:
        """Returns all checks of a program that was compiled."""
        return [
            LabStep("packets", "what is not for the slots is dropped", self.strangers),
            LabStep("packets", "nothing leaves before all workers are in", self.waits),
            LabStep("packets", "then every worker gets one RESULT", self.answers),
            LabStep("sums", "the first use of each slot, 2 to 8 workers", lambda: self.sums(again=False)),
            LabStep("sums", "slots that are used again", lambda: self.sums(again=True)),
            LabStep("registers", "bitmap after each frame", self.bitmaps),
            LabStep("registers", "sums after each frame", self.kept),
            LabStep("repetitions", "a repetition is dropped", self.repetitions),
            LabStep("repetitions", "and changes nothing", self.unchanged),
            LabStep("repetitions", "sums are right all the same", self.sums_with_repetitions),
        ]

    def compile(self) -> None:
        self.parts = compiled(self.task, FILE, self.program)
        bench = P4Bench(self.program, self.parts)
        for register in ("bitmaps", *_REGISTERS):
            if (cells := bench.size(register)) < self.numbers.slots:
                message = f"register {register} has {counted(cells, 'cell')}; there are {self.numbers.slots} slots"
                message += ": leave SLOTS as it is, and each register at SLOTS cells"
                raise Wrong(message, str(self.path), f"p4reduce p4 check {self.path}")
        with self._bench(2):
            pass

    def _members(self, workers: int) -> Members:
        return Members(workers, self.moved if workers == _MOVED else 0)

    def _bench(self, workers: int) -> AbstractContextManager[P4Bench]:
        assert self.parts is not None  # noqa: S101  (a gate before)
        return new_bench(self.program, self.parts, self._members(workers))

    # --- frames

    def _pushes(self, workers: int, repeated: bool) -> Iterator[Push]:
        """Yields frames of slots + 2 chunks (2 * slots for 2 or 3 workers); ``repeated``: all but the last twice.

        The lanes of the second chunk are 0, and those of the third are the same for all workers.
        """
        random = self.draws.generator(f"pushes {workers} {repeated}")
        count = 2 * self.numbers.slots if workers in (2, 3) else self.numbers.slots + 2
        first = WRAP - count if workers == _HIGH else 0
        come: list[tuple[int, int]] = []
        if workers in _AHEAD:
            come = list(self._ahead(random, workers, count))
        else:
            come = [(int(number) + 1, seq) for seq in range(count) for number in random.permutation(workers)]
        last = {seq: worker for worker, seq in come}
        for worker, seq in list(come) if repeated else ():  # again before the last one sends
            if worker != last[seq]:
                behind = come.index((worker, seq)) + 1
                come.insert(int(random.integers(behind, come.index((last[seq], seq)) + 1)), (worker, seq))
        lanes = {pair: tuple(int(v) for v in random.integers(1 << 20, 1 << 32, LANES)) for pair in dict.fromkeys(come)}
        lanes |= {pair: (0,) * LANES if pair[1] == 1 else lanes[1, 2] for pair in lanes if pair[1] in (1, 2)}
        for worker, seq in come:
            yield self._members(workers).push(worker, first + seq, lanes[worker, seq])

    def _ahead(self, random: np.random.Generator, workers: int, count: int) -> Iterator[tuple[int, int]]:
        """Yields workers and chunks; those in front have sent all that they may before another one goes on."""
        following, order = dict.fromkeys(range(1, workers + 1), 0), list[int]()
        while (oldest := min(following.values())) < count:
            if not order or oldest == self.numbers.slots:
                order = [int(number) + 1 for number in random.permutation(workers)]
            may = min(oldest + self.numbers.slots, count)
            worker = next(worker for worker in order if following[worker] < may)
            yield worker, following[worker]
            following[worker] += 1

    def played(self, workers: int, repeated: bool = False) -> list[_Played]:
        if (workers, repeated) not in self._played:
            pushes = list(self._pushes(workers, repeated))
            self._played[workers, repeated] = self._play(workers, pushes)
        return self._played[workers, repeated]

    def _play(self, workers: int, pushes: Sequence[Push], everywhere: bool = False) -> list[_Played]:
        """Sends frames to an empty switch; ``everywhere``: whether cells outside the slot are watched, too."""
        played: list[_Played] = []
        full = self._members(workers).full
        model = SlotModel(self.numbers.slots, full)
        lefts: dict[int, Lanes] = {}
        registers = ("bitmaps", *_REGISTERS)
        frames = [
            (
                push.worker,
                push.frame(self.numbers.ether_type),
                [(name, push.seq % self.numbers.slots) for name in registers],
            )
            for push in pushes
        ]
        with self._bench(workers) as bench:
            watched = bench.watch(frames, registers if everywhere else ())
        for push, seen in zip(pushes, watched, strict=True):
            slot = push.seq % self.numbers.slots
            if not model.bitmaps.get(slot) and slot in model.sums:
                lefts[slot] = model.sums[slot]
            elsewhere = tuple((name.rpartition(".")[2], cell) for name, cell in seen.changed if cell != slot)
            outcome = model.push(push)
            expected = (model.bitmaps[slot], model.sums[slot])
            before, after, left = _slot(seen.before), _slot(seen.after), lefts.get(slot)
            came = push.frame(self.numbers.ether_type)
            odd = next(filter(None, (odd_part(data, came) for _, data in seen.answer.sent)), "")
            played.append(_Played(push, seen.answer, outcome, before, after, expected, full, left, odd, elsewhere))
        return played

    def _judge(
        self, name: str, wrong: Callable[[_Played, int], bool], counts: Sequence[int], repeated: bool = False
    ) -> None:
        """Raises Wrong if a frame is wrong, with the fewest frames that show it."""
        for workers in counts:
            for place, frame in enumerate(self.played(workers, repeated)):
                if wrong(frame, workers):
                    if self._brief:
                        raise Wrong("it fails")
                    ran = self.played(workers, repeated)[: place + 1]
                    self._ran = [(other.answer.lines, wrong(other, workers)) for other in ran]
                    pushes = [played.push for played in self.played(workers, repeated)[: place + 1]]
                    raise self._shortest(name, workers, pushes, wrong)

    def _shortest(
        self, name: str, workers: int, pushes: Sequence[Push], wrong: Callable[[_Played, int], bool]
    ) -> Wrong:
        model = SlotModel(self.numbers.slots, self._members(workers).full)

        def fails(candidate: Sequence[Push]) -> bool:
            return model.possible(candidate) and wrong(self._play(workers, candidate)[-1], workers)

        shortest = shrunk(pushes, self.numbers.slots, fails)
        message = ""
        if all(push.seq == shortest[0].seq >= self.numbers.slots for push in shortest):
            first = shortest[0].seq % self.numbers.slots
            lower = [replace(push, seq=first) for push in shortest]
            if fails(lower):
                shortest = lower
            else:
                message = f". The same frames of chunk {first} are right: every index must be slot, seq & (SLOTS - 1)"
        played = self._play(workers, shortest, everywhere=True)
        place = next(place for place, frame in enumerate(played) if self._cause(frame, workers))
        cause = self._cause(played[place], workers)
        message = cause.partition(". ")[0] + message if message else cause
        if place < len(played) - 1:
            message += f". It shows when {played[-1].name} comes: {self._shows(played[-1], workers)}"
        frames = [(frame.push.worker, frame.push.frame(self.numbers.ether_type), frame.name) for frame in played]
        if not self._small:
            self._small = workers, shortest, wrong
            with self._bench(workers) as bench:
                steps = bench.trails([(port, data) for port, data, _ in frames[: place + 1]])
            trail = Trail(
                self.path.read_text("utf-8"), steps, [name for _, _, name in frames], skeleton_of(self.task, FILE)
            )
            self._where, self._likely = trail.where(_deviation(played[place], workers)), list(trail.lines)
        if (workers, message) not in self._told:  # the same mistake keeps the name of its files
            look = shown(self.path, self.task.folder, name, self._members(workers), frames)
            self._told[workers, message] = Wrong(message, str(self.path), *look)
        return self._told[workers, message]

    def _replay(self, workers: int, pushes: Sequence[Push], wrong: Callable[[_Played, int], bool]) -> None:
        if any(wrong(frame, workers) for frame in self._play(workers, pushes)):
            raise Wrong("it fails")

    def _shows(self, frame: _Played, workers: int) -> str:
        """Returns a short text about a wrong frame whose cause is an earlier frame."""
        if not frame.right_ports(workers):
            ports = ", ".join(str(port) for port, _ in frame.answer.sent)
            return f"it left by port {ports}" if ports else "nothing left"
        if not frame.right_lanes:
            return f"lanes {frame.result}, expected {frame.expected[1]}"
        if not frame.right_header:
            return "what left is not its RESULT"
        return (
            f"bitmap {frame.after[0]:#b} and sums {frame.after[1]}, "
            f"expected {frame.expected[0]:#b} and {frame.expected[1]}"
        )

    def _cause(self, frame: _Played, workers: int) -> str:
        """Returns what is wrong with a frame, causes before effects; empty if nothing is wrong."""
        slot = frame.push.seq % self.numbers.slots
        if frame.elsewhere:
            register, cell = frame.elsewhere[0]
            message = f"{frame.name} changed cell {cell} of {register}"
            return f"{message}; its slot is {slot}. Read and write cell slot, seq & (SLOTS - 1), of every register"
        if frame.outcome == "repetition":
            return self._repetition(frame)
        if not frame.right_ports(workers) and frame.taken_for_other:
            return self._too_early(frame) if frame.outcome == "partial" else self._unanswered(frame, workers)
        if not frame.right_bitmap:
            return self._bitmap(frame)
        if not frame.right_sums:
            return self._sums(frame)
        if not frame.right_ports(workers):
            return self._too_early(frame) if frame.outcome == "partial" else self._unanswered(frame, workers)
        if not frame.right_header:
            return self._no_result(frame)
        return "" if frame.right_lanes else self._lanes(frame)

    # --- packets

    def strangers(self) -> None:
        assert self.parts is not None  # noqa: S101  (a gate before)
        registers = ("bitmaps", *_REGISTERS)
        Strangers(self.path, self.task.folder, self.numbers.ether_type, registers).check(self.program, self.parts)

    def waits(self) -> None:
        self._judge("waits", lambda frame, _: frame.outcome == "partial" and bool(frame.answer.sent), WORKERS)

    def _too_early(self, frame: _Played) -> str:
        if frame.answer.group:
            bitmap = frame.expected[0]
            message = f"{frame.name}: a RESULT left, but only {bitmap:#b} of {frame.full:#b} are in"
            return f"{message}. A chunk is complete when its bitmap is meta.full"
        ports = sorted({port for port, _ in frame.answer.sent})
        if ports == [0]:
            return (
                f"{frame.name} left by port 0: the chunk is not complete, and nothing said where the frame goes, "
                "which means port 0. mark_to_drop(std) is missing"
            )
        message = f"{frame.name} left by port {ports[0]} though the chunk is not complete"
        return f"{message}: drop it. Is egress_spec written behind mark_to_drop?"

    def answers(self) -> None:
        def wrong(frame: _Played, workers: int) -> bool:
            return frame.outcome == "complete" and not (frame.right_ports(workers) and frame.right_header)

        self._judge("answers", wrong, WORKERS)

    def _no_result(self, frame: _Played) -> str:
        header = read(frame.answer.sent[0][1])
        message = f"{frame.name} completed the chunk, but what left is not its RESULT"
        if header is None:
            return f"{message}: the frame is shorter than its headers"
        if header.kind != RESULT:
            return f"{message}: set kind; it left as {header.kind}, and RESULT is {RESULT}"
        if header.seq != frame.push.seq:
            return f"{message}: seq left as {header.seq}; leave it"
        return f"{message}: {frame.odd} is not as it came; leave it"

    def _unanswered(self, frame: _Played, workers: int) -> str:
        ports = sorted(port for port, _ in frame.answer.sent)
        if frame.answer.group not in (0, GROUP):
            message = f"{frame.name} completed the chunk and was sent to multicast group {frame.answer.group}"
            return f"{message}, which does not exist: the controller made group {GROUP}. No worker got the RESULT"
        if not ports:
            return self._silent(frame, workers)
        message = f"{frame.name} completed the chunk; it left by ports {ports}, not once by each of 1 to {workers}"
        return f"{message}: std.mcast_grp = {GROUP} sends a copy to each worker"

    def _silent(self, frame: _Played, workers: int) -> str:
        """Returns why nothing left though the chunk is complete."""
        message = f"{frame.name} was the last of {workers}, and nothing left"
        if frame.answer.group == GROUP:
            return f"{message}, though std.mcast_grp was {GROUP} at the end of Slot: what follows it let no copy leave"
        if frame.after[0] == 0 and frame.before[0]:
            message += (
                f", though the slot was cleared: std.mcast_grp = {GROUP} sends to all, and a mark_to_drop behind it"
            )
            return f"{message} takes that back"
        return f"{message}: when the bitmap is {frame.full:#b}, send the RESULT, std.mcast_grp = {GROUP}"

    # --- sums

    def sums(self, *, again: bool) -> None:
        def wrong(frame: _Played, _: int) -> bool:
            mine = frame.outcome == "complete" and (again or frame.left is None)
            return mine and (frame.result is None or not frame.right_lanes)

        self._judge(f"sums-{'again' if again else 'first'}", wrong, WORKERS)

    def sums_with_repetitions(self) -> None:
        def wrong(frame: _Played, _: int) -> bool:
            return frame.outcome == "complete" and (frame.result is None or not frame.right_lanes)

        self._judge("sums-repeated", wrong, (2, 5), repeated=True)

    def _lanes(self, frame: _Played) -> str:
        """Returns why the first wrong lane of a RESULT is not the sum, given that the registers are right."""
        lanes, wanted, mine, before = frame.result, frame.expected[1], frame.push.lanes, frame.before[1]
        assert lanes is not None  # noqa: S101  (it was asked before)
        lane = next(n for n in range(LANES) if lanes[n] != wanted[n])
        got = lanes[lane]
        message = f"{frame.name} completed it: lane{lane} of the RESULT is {got}, expected {wanted[lane]}"
        others = [n for n in range(LANES) if n != lane]
        if got == mine[lane]:
            return f"{message}: that is what the last worker sent. Read the sums, and add them to its lanes"
        if got == before[lane]:
            return f"{message}: that is the sum of all others. Add the lane of the last frame, too"
        if got == WRAP - 1:
            return f"{message}: a sum wraps around at 2^32, + does so"
        return message + self._crossed(lane, got, frame, others)

    @staticmethod
    def _crossed(lane: int, got: int, frame: _Played, others: Sequence[int]) -> str:
        """Returns a text about the other lane or register that got into a sum."""
        mine, before = frame.push.lanes, frame.before[1]
        for other in others:
            if got == (before[lane] + mine[other]) % WRAP:
                return f": that is sums{lane} and lane{other}. Each lane has its own register"
            if got == (before[other] + mine[lane]) % WRAP:
                return f": that is sums{other} and lane{lane}. Each lane has its own register"
            if got in (before[other], mine[other], (before[other] + mine[other]) % WRAP):
                return f": that is lane{other}'s. Each lane has its own register"
        if got == (before[lane] + 2 * mine[lane]) % WRAP:
            return ": the frame's lane was added twice"
        return f": it is neither lane{lane} nor sums{lane} + lane{lane}"

    # --- registers

    def bitmaps(self) -> None:
        self._judge("bitmaps", lambda frame, _: not frame.right_bitmap, (3, _MOVED))

    def _bitmap(self, frame: _Played) -> str:
        got, wanted, before, bit = frame.after[0], frame.expected[0], frame.before[0], frame.push.bit
        message = f"after {frame.name} the slot's bitmap is {got:#b}, expected {wanted:#b}"
        if frame.after == frame.before and not frame.answer.sent and (before or self._keeps(frame)):
            message += (
                f": nothing changed, so it was taken for a repetition. Its own bit, meta.bit_ {bit:#b}, was not in"
            )
            return f"{message}: only that makes a repetition, whatever other bits are in"
        if bit != 1 << frame.push.worker - 1 and got not in (0, before) and not got & bit:
            return f"{message}: the table gives this worker meta.bit_ {bit:#b}; neither its port nor a count tells it"
        if frame.outcome == "complete":
            if got not in (0, before, frame.full) and got in (bit, before + 1, frame.full.bit_count()):
                return f"{message}, and {frame.full:#b} before that: {self._instead(got, before, bit)}"
            return f"{message}: the chunk is complete, so write 0 and the slot is free for the next one"
        if got == before:
            return f"{message}: the sender's bit is not in. Put it in, bitmap | meta.bit_, and write the bitmap back"
        if got == 0:
            return f"{message}: the slot was cleared, and the chunk is not complete"
        if got in (bit, before + 1, wanted.bit_count(), (1 << wanted.bit_count()) - 1):
            return f"{message}: {self._instead(got, before, bit)}"
        return f"{message}: put the sender's bit in, bitmap | meta.bit_, and nothing else"

    def _keeps(self, frame: _Played) -> bool:
        """Returns whether the program writes bitmaps, and did not for this frame."""
        writes = re.compile(r"\bbitmaps\s*\.\s*write\b")
        lines = dict(enumerate(self.path.read_text("utf-8").splitlines(), start=1))
        there = [number for number, line in lines.items() if writes.search(line.partition("//")[0])]
        return bool(there) and not set(there) & set(frame.answer.lines)

    @staticmethod
    def _instead(got: int, before: int, bit: int) -> str:
        """Returns a guess at the value that was written: the last bit alone, a count, or either."""
        if got != bit:
            return _HOW_MANY
        return _GONE if got != before + 1 else f"{_GONE}. Or was it counted? {_HOW_MANY}"

    def kept(self) -> None:
        self._judge("kept", lambda frame, _: frame.outcome == "partial" and not frame.right_sums, (3,))

    def _sums(self, frame: _Played) -> str:
        """Returns why a sum is not in its register."""
        lane = next(n for n in range(LANES) if frame.after[1][n] != frame.expected[1][n])
        got, wanted = frame.after[1][lane], frame.expected[1][lane]
        message = f"after {frame.name} sums{lane} of the slot is {got}, expected {wanted}"
        if frame.left is not None and not frame.before[0] and got == (wanted + frame.left[lane]) % WRAP:
            earlier = frame.push.seq - self.numbers.slots
            message += f". The slot was used by chunk {earlier} before: what that left was added. The first frame"
            return f"{message} of a chunk replaces the sums: add them only where the bitmap is not 0"
        if got == frame.before[1][lane]:
            message += f": nothing was written to sums{lane}"
            return f"{message}; what is not written to a register is forgotten with the frame"
        if got == frame.push.lanes[lane]:
            return f"{message}: that is what this worker sent alone. Read the sum so far, and add it"
        if got == WRAP - 1:
            return f"{message}: a sum wraps around at 2^32, + does so"
        crossed = self._crossed(lane, got, frame, [n for n in range(LANES) if n != lane])
        return f"{message}{crossed}: look at what was written to sums{lane}"

    # --- repetitions

    def repetitions(self) -> None:
        self._judge(
            "repetitions", lambda frame, _: frame.outcome == "repetition" and bool(frame.answer.sent), (2, 5), True
        )

    def unchanged(self) -> None:
        def wrong(frame: _Played, _: int) -> bool:
            return frame.outcome == "repetition" and frame.after != frame.before

        self._judge("unchanged", wrong, (2, 5), True)

    @staticmethod
    def _repetition(frame: _Played) -> str:
        """Returns what is wrong with a repeated frame; empty if nothing is wrong."""
        if frame.after == frame.before:
            if not frame.answer.sent:
                return ""
            ports = ", ".join(str(port) for port, _ in frame.answer.sent)
            message = f"{frame.name} came again, and changed nothing, but left by port {ports}: drop a repetition"
            return f"{message}, mark_to_drop(std)"
        if frame.after[0] == frame.before[0] and not frame.answer.sent:
            lane = next(n for n in range(LANES) if frame.after[1][n] != frame.before[1][n])
            did = f"sums{lane} was changed, {frame.before[1][lane]} -> {frame.after[1][lane]}"
            did = "its lanes were added" if frame.after[1] == added(frame.before[1], frame.push.lanes) else did
            message = f"{frame.name} came again. It was dropped, but {did}: ask for the sender's bit"
            message += " first, whatever other bits are in, and put the rest into an else"
            return f"{message}: mark_to_drop does not end the control"
        message = (
            f"{frame.name} came again and was taken for another one: "
            f"bitmap {frame.before[0]:#b} -> {frame.after[0]:#b}, "
        )
        message += (
            f"sums0 {frame.before[1][0]} -> {frame.after[1][0]}. Who is in must be remembered, not how many: ask for "
        )
        return f"{message}the sender's bit in the bitmap before anything else"


def _parameters(draws: Draws) -> Mapping[str, str]:
    numbers = StudentNumbers.of(draws)
    return {"ether_type": f"{numbers.ether_type:#06x}", "slots": str(numbers.slots)}


def _made(draws: Draws) -> Mapping[str, str]:
    numbers = StudentNumbers.of(draws)
    packets = ["# Port, frame, remark: chunk 0 of three workers."]
    for port, note in (
        (1, "PUSH of worker 1"),
        (2, "PUSH of worker 2"),
        (2, "the same again"),
        (3, "PUSH of worker 3"),
    ):
        frame = Sum(PUSH, 0, (port, 10 * port, 100 * port, 1000 * port)).frame(numbers.ether_type)
        packets.append(f"{port} {frame.hex()} # {note}")
    return {"entries.yaml": entries_text(Members(3)), "packets.txt": "\n".join(packets) + "\n"}


LAB: Final = Lab(
    number="03",
    name="03-a-slot",
    title="a slot",
    minutes=90,
    parts=(
        LabPart("packets", "which frames leave, and to whom", 25),
        LabPart("sums", "what is in them", 35),
        LabPart("registers", "bitmap and sums after each frame", 15),
        LabPart("repetitions", "frames that come twice", 25),
    ),
    files=(FILE,),
    grade=grade,
    praise="your switch adds up, each contribution once",
    parameters=_parameters,
    made=_made,
)
