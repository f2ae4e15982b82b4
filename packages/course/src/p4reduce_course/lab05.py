"""Lab 05: exactly once, under loss: a cached RESULT, two cells for a slot, a window."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from p4reduce_course.culprit import FAILED, Origin, in_p4, placed
from p4reduce_course.frame.grading import skeleton_of
from p4reduce_course.frame.lab import Draws, GradingTask, Lab, LabPart, LabStep, run_steps
from p4reduce_course.frame.report import Check, Wrong, counted
from p4reduce_course.p4 import (
    HIGH,
    LANES,
    PUSH,
    RESULT,
    WRAP,
    Lanes,
    Members,
    Outcome,
    P4Bench,
    Push,
    Strangers,
    Sum,
    TwoCellModel,
    added,
    compiled,
    entries_text,
    new_bench,
    odd_part,
    read,
    shown,
    shrunk,
)
from p4reduce_course.python_trail import searched
from p4reduce_course.sandbox.process import StudentCode
from p4reduce_course.sandbox.program import Compiled, FrameAnswer, Parts, StudentProgram
from p4reduce_course.sandbox.trail import TrailStep
from p4reduce_course.trail import Departure, Trail

# Grading of lab 05: the switch by scripts, the worker by ticks, then both together under loss.


P4_FILE: Final = "loss.p4"
WORKER_FILE: Final = "worker.py"
WORKERS: Final = 4
"""so many workers have bits that do not follow their ports"""
TIMEOUT: Final = 12
"""ticks, in the network; workers that are checked alone have others"""
_TIMEOUTS: Final = range(7, 16)
_ASKED: Final = 12
"""so many time-outs a chunk is lost"""
T = TypeVar("T")
_DELAY: Final = 2
"""ticks that a frame takes on a link"""
_ALONE: Final = 10
"""ranks below this are of workers that are checked alone"""
_PAIR: Final = 100
"""rank of the first of two workers that take turns"""
_MOST_TICKS: Final = 3000
_SENDS: Final = {0.0: 1.0, 0.01: 1.4, 0.1: 3.0}
"""by loss rate, the frames that workers may send for each needed frame"""


def numbers_of(draws: Draws) -> tuple[int, int]:
    """Returns EtherType and number of slots of a student."""
    return 0x8B00 + draws.integer("ether_type", 1, 0xF0), draws.choice("slots", (4, 8))


_REGISTERS: Final = ("bitmaps", *(f"sums{lane}" for lane in range(LANES)), "done")


@dataclass(frozen=True)
class _Played:
    """A frame with the results of the switch and of the model.

    Attributes:
        sent: port, kind, chunk and lanes of each frame that left; the last three are None for a short frame.
        expected: lanes of the RESULT, if one must leave.
        before, after, wanted: bitmap, sums and done of the cell, and the other cell's bitmap. ``wanted`` is from the
            model; the others are empty if the registers were not read.
        lines: lines of the program that the frame ran.
        odd: what is not as it was in the first wrong frame that left, outside the lab's header; empty if nothing.
        elsewhere: registers and cells of other slots that changed, if the registers were read.
    """

    push: Push
    outcome: Outcome
    sent: tuple[tuple[int, tuple[int, int, Lanes] | None], ...]
    expected: Lanes
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    wanted: tuple[int, ...] = ()
    lines: tuple[int, ...] = ()
    odd: str = ""
    elsewhere: tuple[tuple[str, int], ...] = ()

    def right(self, workers: int) -> bool:
        """Returns whether the right frames left."""
        if sorted(port for port, _ in self.sent) != self.ports(workers):
            return False
        return not self.odd and all(header == (RESULT, self.push.seq, self.expected) for _, header in self.sent)

    @property
    def wrong_header(self) -> tuple[int, int, Lanes] | None:
        """The lab's header of the first frame that is no right RESULT; the expected one if all are."""
        right = RESULT, self.push.seq, self.expected
        return next((header for _, header in self.sent if header != right), right)

    def ports(self, workers: int) -> list[int]:
        """Returns the ports by which a frame must leave."""
        if self.outcome == "complete":
            return list(range(1, workers + 1))
        return [self.push.worker] if self.outcome == "late" else []


def grade(task: GradingTask) -> Iterator[Check]:
    """Yields all checks of lab 05."""
    with (
        StudentCode(task.answers / WORKER_FILE, seen=task.seen) as code,
        StudentProgram(task.answers / P4_FILE, seen=task.seen) as program,
    ):
        yield from run_steps(task, _Grader(task, code, program).steps())


class _Grader:
    def __init__(self, task: GradingTask, code: StudentCode, program: StudentProgram) -> None:
        self.task = task
        self.path: Path = task.answers / P4_FILE
        self.file = str(task.answers / WORKER_FILE)
        self.code = code
        self.ether_type, self.slots = numbers_of(task.personal)
        self.draws = task.hidden
        self.moved = self.draws.integer("moved", 1, 8)
        self.timeouts = self.draws.shuffled("timeouts", _TIMEOUTS)[:3]
        self.program = program
        self.parts: Parts | None = None
        self._chunks, self._timeout, self._ticks = 0, 0, dict[int, list[int]]()  # of the last worker; RESULTs by tick
        self._told: dict[tuple[int, str], Wrong] = {}
        self._brief, self._ran = not task.explain, list[tuple[Sequence[int], bool]]()  # to locate the mistake
        self._small, self._likely, self._where = (3, list[Push]()), list[int](), ""  # frames that show a mistake
        self._wrong: Wrong | None = None  # the first mistake of the switch that was found
        self._shared = False  # whether workers are known to share what each should know alone

    def steps(self) -> list[LabStep]:
        # The worker's checks precede the gate, because they need no P4.
        search = searched(
            self.task,
            WORKER_FILE,
            self.code,
            lambda code: _Grader(replace(self.task, explain=False), code, self.program).worker(),
            anew=True,
        )

        def anew(program: StudentProgram, compilation: Compiled, _: str) -> list[LabStep]:
            other = _Grader(self.task, self.code, program)
            other.parts, other._brief = compilation.parts, True
            return other.switch(*self._small)

        worker = placed(self.task, self.worker(), lambda step: Origin() if self._shared else search(step))
        switch = placed(
            self.task,
            self.switch(),
            lambda step: in_p4(self.task, P4_FILE, step, self._ran, self._likely, anew, self._where),
        )
        return [
            *worker,
            LabStep("switch", "the program compiles", self.compile, gate=True),
            *switch,
            LabStep("network", "nothing lost", lambda: self.network(0.0)),
            LabStep("network", "1 % lost, 1 % doubled", lambda: self.network(0.01)),
            LabStep("network", "10 % lost, 10 % doubled", lambda: self.network(0.1)),
        ]

    def switch(self, workers: int = 3, first: Sequence[Push] = ()) -> list[LabStep]:
        """Returns the checks of the switch alone, after it was compiled; ``first``: frames to send first."""
        return [
            *([LabStep("switch", FAILED, lambda: self._replay(workers, first))] if first else []),
            LabStep("switch", "what is not for the slots is dropped", self.strangers),
            LabStep("switch", "sums, cell by cell, twice around", self.sums),
            LabStep("switch", "a repetition before the end is dropped", self.early),
            LabStep("switch", "a repetition after it gets the RESULT, alone", self.late),
            LabStep("switch", "the RESULT stays until every worker has it", self.stays),
        ]

    def worker(self) -> list[LabStep]:
        """Returns the checks of the worker alone."""
        return [
            LabStep("worker", "a window of SLOTS chunks", self.window),
            LabStep("worker", "again after a time-out, and only what is missing", lambda: self._own(self.again)),
            LabStep("worker", "each chunk by itself", lambda: self._own(self.each)),
            LabStep("worker", "each worker by itself", self.turns),
        ]

    # --- the switch

    def compile(self) -> None:
        self.parts = compiled(self.task, P4_FILE, self.program)
        for name, cells in self.parts.registers.items():
            if name.rpartition(".")[2] in _REGISTERS and cells < 2 * self.slots:
                message = (
                    f"register {name.rpartition('.')[2]} has {counted(cells, 'cell')}; there are {self.slots} slots"
                )
                message += " with two cells each: leave SLOTS as it is, and each register at 2 * SLOTS cells"
                raise Wrong(message, str(self.path), f"p4reduce p4 check {self.path}")
        with self._bench():
            pass

    def _bench(self, workers: int = 3) -> AbstractContextManager[P4Bench]:
        assert self.parts is not None  # noqa: S101  (a gate before)
        return new_bench(self.program, self.parts, self._members(workers))

    def _members(self, workers: int) -> Members:
        return Members(workers, self.moved if workers == WORKERS else 0)

    def _lanes(self, worker: int, seq: int) -> Lanes:
        if seq == 1:
            return (0,) * LANES
        random = self.draws.generator(f"lanes {0 if seq == 2 else worker} {seq}")  # of chunk 2, all are alike
        return tuple(int(value) for value in random.integers(0, 1 << 32, LANES))

    def _sum(self, seq: int, workers: int = 3) -> Lanes:
        total: Lanes = (0,) * LANES
        for worker in range(1, workers + 1):
            total = added(total, self._lanes(worker, seq))
        return total

    def _pushes(self, come: Iterable[tuple[int, int]], workers: int = 3) -> list[Push]:
        """Returns frames from (worker, chunk) pairs."""
        return [self._members(workers).push(worker, seq, self._lanes(worker, seq)) for worker, seq in come]

    @property
    def _known(self) -> bool:
        """Whether the program has the registers of the skeleton."""
        assert self.parts is not None  # noqa: S101
        last = [name.rpartition(".")[2] for name in self.parts.registers]
        return all(last.count(name) == 1 for name in _REGISTERS)

    def _play(self, pushes: Sequence[Push], workers: int = 3, inside: bool = False) -> list[_Played]:
        """Sends frames to an empty switch; ``inside``: whether its registers are read, too."""
        model, cells = TwoCellModel(self.slots, self._members(workers).full), 2 * self.slots
        inside = inside and self._known
        frames = [
            (
                push.worker,
                push.frame(self.ether_type),
                [*((name, push.seq % cells) for name in _REGISTERS), ("bitmaps", (push.seq + self.slots) % cells)]
                if inside
                else [],
            )
            for push in pushes
        ]
        with self._bench(workers) as bench:
            watched = bench.watch(frames, _REGISTERS if inside else ())
        played = []
        for push, seen in zip(pushes, watched, strict=True):
            changed = [(name.rpartition(".")[2], cell) for name, cell in seen.changed]
            elsewhere = tuple((name, cell) for name, cell in changed if (cell - push.seq) % self.slots)
            frame = self._one(model, push, seen.answer, tuple(seen.before), tuple(seen.after))
            played.append(replace(frame, elsewhere=elsewhere))
        return played

    def _one(
        self,
        model: TwoCellModel,
        push: Push,
        answer: FrameAnswer,
        before: tuple[int, ...] = (),
        after: tuple[int, ...] = (),
    ) -> _Played:
        outcome = model.push(push)
        cell, other = push.seq % (2 * self.slots), (push.seq + self.slots) % (2 * self.slots)
        sums = model.sums[cell]
        wanted = (model.bitmaps[cell], *sums, model.done[cell], model.bitmaps.get(other, 0))
        headers = ((port, read(data)) for port, data in answer.sent)
        sent = tuple(
            (port, None if header is None else (header.kind, header.seq, header.lanes)) for port, header in headers
        )
        odd = next(filter(None, (odd_part(data, push.frame(self.ether_type)) for _, data in answer.sent)), "")
        return _Played(push, outcome, sent, sums, before, after, wanted, tuple(answer.lines), odd)

    def _replay(self, workers: int, pushes: Sequence[Push]) -> None:
        if not all(frame.right(workers) for frame in self._play(pushes, workers)):
            raise Wrong("it fails")

    def _judge(
        self, name: str, come: Iterable[tuple[int, int]], outcomes: Collection[Outcome], workers: int = 3
    ) -> None:
        """Raises Wrong for a wrong answer to a frame of these outcomes, with the fewest frames that show it.

        ``come``: worker and chunk of each frame.
        """
        pushes = self._pushes(come, workers)
        played = self._play(pushes, workers)
        for place, frame in enumerate(played):
            if frame.outcome in outcomes and not frame.right(workers):
                if self._brief:
                    raise Wrong("it fails")
                self._ran = [(other.lines, not other.right(workers)) for other in played[: place + 1]]
                wrong = self._shortest(name, pushes[: place + 1], workers)
                self._wrong = self._wrong or wrong
                raise wrong

    def _shortest(self, name: str, pushes: Sequence[Push], workers: int) -> Wrong:
        """Returns a finding about the first wrong frame, shown with as few frames as possible."""

        def fails(candidate: Sequence[Push]) -> bool:
            if not TwoCellModel(self.slots, self._members(workers).full).possible(candidate):
                return False
            *others, last = self._play(candidate, workers)
            return last.outcome == outcome and not last.right(workers) and all(frame.right(workers) for frame in others)

        first = next(place for place, frame in enumerate(self._play(pushes, workers)) if not frame.right(workers))
        pushes, outcome = pushes[: first + 1], self._play(pushes[: first + 1], workers)[-1].outcome
        shortest = shrunk(pushes, self.slots, fails)
        for first in (0, 2 * self.slots):  # small numbers of chunks, where the cells are the same
            lower = [replace(push, seq=first + push.seq - HIGH if push.seq >= HIGH else push.seq) for push in shortest]
            if lower != shortest and fails(lower):
                shortest = lower
                break
        played = self._play(shortest, workers, inside=True)
        last = played[-1]
        message = self._said(last, workers)
        with self._bench(workers) as bench:
            trails = bench.trails([(push.worker, push.frame(self.ether_type)) for push in shortest])
        causes = ((frame, self._cause(frame, steps, workers)) for frame, steps in zip(played, trails, strict=True))
        frame, cause = next(((frame, cause) for frame, cause in causes if cause), (last, ""))
        if cause:
            message = f"{message}: {cause}" if frame is last else f"{frame.push}: {cause}. It shows later: {message}"
        frames = [(push.worker, push.frame(self.ether_type), str(push)) for push in shortest]
        self._small = workers, list(shortest)
        place = next(n for n, other in enumerate(played) if other is frame) + 1
        trail = Trail(
            self.path.read_text("utf-8"),
            trails[:place],
            [str(push) for push in shortest],
            skeleton_of(self.task, P4_FILE),
        )
        self._where, self._likely = trail.where(self._deviation(frame, workers)), list(trail.lines)
        if (workers, message) not in self._told:  # the same mistake keeps the name of its files
            look = shown(self.path, self.task.folder, name, self._members(workers), frames)
            self._told[workers, message] = Wrong(message, str(self.path), *look)
        return self._told[workers, message]

    def _deviation(self, frame: _Played, workers: int) -> Departure:
        ports, due = sorted(port for port, _ in frame.sent), frame.ports(workers)
        if frame.right(workers):  # the frame left a wrong state
            own = frame.push.seq % (2 * self.slots)
            cells = [*((name, own) for name in _REGISTERS), ("bitmaps", own ^ self.slots)]
            wrong = [cell for cell, got, right in zip(cells, frame.after, frame.wanted, strict=False) if got != right]
            name, number = wrong[0] if wrong else cells[0]
            return Departure("cell", name, cell=number)
        if ports != due:
            return Departure("sent", drop=not due) if ports else Departure("dropped")
        header = frame.wrong_header
        if header is None or header[0] != RESULT:
            return Departure("field", "sum.kind")
        if header[2] == frame.expected and header[1] == frame.push.seq:
            return Departure("field", frame.odd)
        lane = next((n for n in range(LANES) if header[2][n] != frame.expected[n]), 0)
        return Departure("field", "sum.seq" if header[1] != frame.push.seq else f"sum.lane{lane}")

    def _said(self, frame: _Played, workers: int) -> str:
        """Returns a text about the result of a frame and the right result."""
        ports = sorted(port for port, _ in frame.sent)
        what = {
            "first": f"{frame.push} came, and the chunk is not complete",
            "complete": f"{frame.push} completed the chunk",
            "early": f"{frame.push} came again before the chunk was complete",
            "late": f"worker {frame.push.worker} lost the RESULT of chunk {frame.push.seq} and asks again",
        }[frame.outcome]
        if ports != frame.ports(workers):
            left = f"frames left by ports {ports}" if ports else "nothing left"
            right = f"expected ports {frame.ports(workers)}" if frame.ports(workers) else "drop it"
            gone = frame.outcome == "late" and not ports
            return f"{what}; nothing left: the RESULT is gone" if gone else f"{what}; {left}, {right}"
        header = frame.wrong_header
        if header is None or header[:2] != (RESULT, frame.push.seq):
            shown = "it is too short" if header is None else f"kind {header[0]}, seq {header[1]}"
            return f"{what}; what left is not the RESULT of chunk {frame.push.seq}: {shown}"
        if header[2] == frame.expected:
            return f"{what}; what left is not the frame that came, with the RESULT in it: {frame.odd} was changed"
        lane = next(n for n in range(LANES) if header[2][n] != frame.expected[n])
        return f"{what}; lane{lane} is {header[2][lane]}, expected {frame.expected[lane]}"

    def _cause(self, frame: _Played, steps: Sequence[TrailStep], workers: int) -> str:
        """Returns why a frame was answered wrong, judged by the registers; empty if they do not tell."""
        ports = sorted(port for port, _ in frame.sent)
        if not frame.after:
            return ""
        bitmap, *sums, done, other = frame.after
        right_bitmap, *right_sums, right_done, right_other = frame.wanted
        cell, pair = (seq % (2 * self.slots) for seq in (frame.push.seq, frame.push.seq + self.slots))
        fresh = frame.outcome in ("first", "complete")
        if frame.elsewhere:
            register, number = frame.elsewhere[0]
            message = f"it changed cell {number} of {register}; its cells are {cell} and {pair}"
            return f"{message}: every index is slot, seq & (2 * SLOTS - 1), or other"
        if fresh and frame.after == frame.before:
            if frame.before[0] & frame.push.bit:
                return f"its bit was in the bitmap of cell {cell} already, so it was taken for a repetition"
            touched = {step.cell for step in steps if step.kind in ("read", "write")}
            astray = sorted(touched - {cell} if cell not in touched else touched - {cell, pair})
            if astray and ports == [frame.push.worker]:
                message = "it was taken for a repetition of another chunk, whose cell was used again too early"
                return f"{message}: every index is slot, seq & (2 * SLOTS - 1)"
            if astray:
                message = f"nothing changed in cell {cell}, and cell {astray[0]} was read or written"
                return f"{message}: every index is slot, seq & (2 * SLOTS - 1)"
            message = f"nothing changed, so it was taken for a repetition. Its own bit, meta.bit_ {frame.push.bit:#b}, "
            return f"{message}was not in: only that makes a repetition, whatever other bits are in"
        if not fresh and frame.after != frame.before:
            return "it was added twice: ask for the sender's bit in the bitmap first, and change nothing"
        if other != right_other:
            message = (
                f"the bitmap of the other cell is {other:#b}, expected {right_other:#b}: a worker that uses one cell"
            )
            return f"{message} takes its own bit out of the other one, others & ~meta.bit_"
        if bitmap != right_bitmap:
            message = f"the bitmap of cell {cell} is {bitmap:#b}, expected {right_bitmap:#b}"
            if bitmap == 0 and frame.outcome == "complete":
                return f"{message}: the RESULT must stay until no worker can ask for it. Do not write 0 yourself"
            bit = frame.push.bit
            if bit != 1 << frame.push.worker - 1 and bitmap not in (0, frame.before[0]) and not bitmap & bit:
                return (
                    f"{message}: the table gives this worker meta.bit_ {bit:#b}; neither its port nor a count tells it"
                )
            return f"{message}: put the sender's bit in, bitmap | meta.bit_, and write it to its own cell"
        for lane in range(LANES):
            if sums[lane] != right_sums[lane]:
                return self._sums(frame, lane, cell)
        if done != right_done:
            when = (
                "the chunk is complete" if right_done else "the chunk is not complete, whatever was in this cell before"
            )
            return f"done of cell {cell} is {done}: write {right_done} to done when {when}"
        if frame.right(workers):
            return ""
        if frame.outcome == "late" and not ports:
            message = f"done of cell {cell} is {done}, the bitmap {bitmap:#b}. A repetition in a cell that is done is"
            return f"{message} answered from its sums, even if others went on: std.egress_spec = std.ingress_port"
        if frame.outcome == "late" and ports != [frame.push.worker]:
            return "send the RESULT to this worker alone: std.egress_spec = std.ingress_port"
        if frame.outcome == "complete" and ports != frame.ports(workers):
            return "send the RESULT to all workers: std.mcast_grp = 1"
        if ports == frame.ports(workers) and frame.odd:
            return "leave the Ethernet header as it came" if frame.odd != "payload" else "nothing follows the lanes"
        if frame.outcome in ("first", "early") and ports:
            how = "mark_to_drop(std)" if ports == [0] else "nothing leaves before the bitmap is meta.full"
            return f"its numbers are in the registers, drop the frame: {how}"
        header = frame.wrong_header
        if header is None or header[0] != RESULT:
            return "set kind to RESULT"
        if header[1] != frame.push.seq:
            return "leave seq as it is"
        lane = next(n for n in range(LANES) if header[2][n] != frame.expected[n])
        if header[2][lane] == frame.push.lanes[lane]:
            return f"that is what worker {frame.push.worker} sent: the sum is in sums{lane}"
        other_lane = next((n for n in range(LANES) if header[2][lane] == frame.expected[n]), lane)
        return f"the sum of lane{lane} is in sums{lane}" + (
            f", and what left is lane{other_lane}'s" if other_lane != lane else ""
        )

    def _sums(self, frame: _Played, lane: int, cell: int) -> str:
        """Returns why a sum of a cell is not right."""
        got, wanted, before, mine = (
            frame.after[1 + lane],
            frame.wanted[1 + lane],
            frame.before[1 + lane],
            frame.push.lanes[lane],
        )
        message = f"sums{lane} of cell {cell} is {got}, expected {wanted}"
        if got == before:
            return f"{message}: nothing was written to it"
        if got == mine:
            return f"{message}: that is what this worker sent alone. Read the sum so far, and add it"
        if not frame.before[0] and got == (before + mine) % WRAP:
            return f"{message}: what an earlier chunk left was added. Add only where the bitmap is not 0"
        if got == WRAP - 1:
            return f"{message}: a sum wraps around at 2^32, + does so"
        return f"{message}: something was added that does not belong to it, or added twice"

    def strangers(self) -> None:
        assert self.parts is not None  # noqa: S101  (a gate before)
        Strangers(self.path, self.task.folder, self.ether_type, _REGISTERS).check(self.program, self.parts)

    def sums(self) -> None:
        chunks = range(4 * self.slots + 1)
        come = [(worker, seq) for seq in chunks for worker in (2, 1, 3)]
        self._judge("sums", come, ("first", "complete"))

    def early(self) -> None:
        come: list[tuple[int, int]] = []
        last = 2 * self.slots  # this chunk is in a cell that was done before
        for first in (0, self.slots, last):  # up to SLOTS chunks are in flight together
            workers = (1, 2, 3) if first == self.slots else (1, 1, 2, 1, 2, 3)
            come += [(worker, seq) for worker in workers for seq in range(first, min(first + self.slots, last + 1))]
        self._judge("early", come, ("first", "early", "complete"))

    def late(self) -> None:
        come = [(worker, seq) for seq in range(2 * self.slots) for worker in (1, 2, 3, 4, 2, 3, 2)]  # each cell
        self._judge("late", come, {"late"}, WORKERS)

    def stays(self) -> None:
        # Workers 1 and 2 have the RESULT of chunk 0 and go on; worker 3 lacks it. Then the cell is used again.
        here, other, again = 0, self.slots, HIGH
        come = [(1, here), (2, here), (3, here), (1, other), (2, other), (3, here), (3, other), (2, other)]
        come += [(1, again), (3, other), (2, again), (1, again), (3, again), (2, again)]
        self._judge("stays", come, ("first", "complete", "early", "late"))

    # --- the worker

    def _create(self, rank: int, chunks: int, timeout: int) -> None:
        if rank < _ALONE:
            self.code.begin()
        self.code.call("create", rank, chunks, self.slots, timeout)
        self._chunks, self._timeout, self._ticks = chunks, timeout, {}

    def _step(self, rank: int, now: int, results: Sequence[int]) -> list[int]:
        self._ticks[now] = list(results)
        try:
            sent: Any = self.code.call("step", rank, now, list(results))
        except Wrong as wrong:
            raise self.code.shown(wrong, self.task.folder, f"worker-{rank}") from None
        if not isinstance(sent, list) or not all(isinstance(c, int) and not isinstance(c, bool) for c in sent):
            raise self._misstep(f"step returned {str(sent)[:60]!r}; return a list of chunks")
        return sent

    def _misstep(self, message: str) -> Wrong:
        """Returns a finding about the worker, with the ticks that show it."""
        came = {now: results for now, results in self._ticks.items() if results}
        code = f"from worker import Worker; w = Worker({self._chunks}, {self.slots}, {self._timeout}); came = {came}; "
        ticks = f"{min(self._ticks)}, {max(self._ticks) + 1}" if min(self._ticks) else f"{max(self._ticks) + 1}"
        code += f"[print(t, w.step(t, came.get(t, []))) for t in range({ticks})]"
        return Wrong(message, self.file, f"cd {Path(self.file).parent} && python3 -c '{code}'")

    def window(self) -> None:
        slots, chunks, timeout = self.slots, 3 * self.slots + 1, self.timeouts[0]
        self._create(0, chunks, timeout)
        sent = self._step(0, 0, [])
        if sent and max(sent) >= slots:
            message = f"with no RESULT yet chunk {max(sent)} was sent; there are {slots} slots"
            raise self._misstep(f"{message}: it takes the cell of a chunk that others may still ask for")
        if sorted(sent) != list(range(slots)):
            raise self._misstep(f"the first tick sent {sent}, expected chunks 0 to {slots - 1}")
        if more := self._step(0, 1, [1, 2]):
            if max(more) < slots:
                message = f"{more} were sent in tick 0, and again in tick 1: that is a storm. Wait {timeout} ticks"
                raise self._misstep(f"{message}, and send again only what has no RESULT")
            message = f"chunk 0 is missing, and {more} was sent: the window begins at the oldest without RESULT"
            raise self._misstep(message)
        sent = self._step(0, 2, [0, 1])
        if sorted(sent) != list(range(slots, slots + 3)):
            raise self._misstep(f"RESULTs 0 to 2 are there; {sent} was sent, expected the next 3 chunks")
        there = 3
        for now in range(3, 6):  # all RESULTs of what was sent come, until there is nothing to send
            came, there = list(range(there, min(chunks, slots * (now - 2) + 3))), min(chunks, slots * (now - 2) + 3)
            sent, due = sorted(self._step(0, now, came)), list(range(there, min(chunks, there + slots)))
            if sent != due:
                message = f"there are {chunks} chunks, 0 to {chunks - 1}, and the RESULTs of 0 to {there - 1} are there"
                raise self._misstep(f"{message}; {sent} was sent, expected {due}")

    def again(self) -> None:
        chunks, timeout = self.slots - 1, self.timeouts[1]
        self._create(1, chunks, timeout)
        last = _ASKED * timeout
        for now in range(last):
            came = [chunk for chunk in range(chunks) if chunk != 2] if now == 1 else []
            sent, wanted = sorted(self._step(1, now, came)), [2] if now and now % timeout == 0 else []
            wanted = wanted if now else list(range(chunks))
            if sent == wanted:
                continue
            if sent and max(sent) >= chunks:
                message = f"there are {chunks} chunks, 0 to {chunks - 1}, and {max(sent)} was sent"
                raise self._misstep(message)
            if now == 0:
                raise self._misstep(f"the first tick sent {sent}, expected chunks 0 to {chunks - 1}")
            if set(sent) - {2}:
                message = f"only chunk 2 is missing, and tick {now} sent {sent}: a storm of what has arrived"
                raise self._misstep(message)
            if len(sent) > 1:
                raise self._misstep(f"tick {now} sent chunk 2 more than once: {sent}")
            if sent:
                message = f"chunk 2 was sent again in tick {now}: that is a storm"
                raise self._misstep(f"{message}. Wait {timeout} ticks after each time that it was sent")
            message = f"chunk 2 was sent in tick {now - timeout} and is lost; timeout is {timeout}, so tick {now} "
            raise self._misstep(f"{message}should send it again, and sent []")
        if sent := self._step(1, last, [2]):
            message = f"the RESULT of chunk 2 came in tick {last}, in which it was due again, and {sent} was sent"
            raise self._misstep(f"{message}: take out the RESULTs that came before you ask what is lost")

    def each(self) -> None:
        """Checks a chunk whose time-out differs from that of older missing chunks, since it was sent later."""
        timeout, slots, first = self.timeouts[2], self.slots, self.draws.integer("first tick", 2, 9)
        later, last = first + 5, first + 2 * timeout
        self._create(1, 2 * slots, timeout)
        at_0 = sorted(self._step(1, 0, []))
        self._create(2, 2 * slots, timeout)
        for now in range(first, last):
            results = {later: [0], later + 1: list(range(3, slots))}.get(now, [])
            sent = sorted(self._step(2, now, results))
            due = {first: list(range(slots)), later: [slots], first + timeout: [1, 2], later + timeout: [slots]}
            wanted = due.get(now, [])
            if sent == wanted:
                continue
            if now == first:
                message = f"tick {now} is the worker's first, and sent {sent}, expected {wanted}"
                raise self._misstep(message + (": ticks need not begin with 0" if at_0 == wanted else ""))
            if now == later:
                message = f"the RESULT of chunk 0 came in tick {now}, and {sent} was sent, expected {wanted}"
                raise self._misstep(message)
            message = f"chunks 1 and 2 of tick {first} and {slots} of tick {later} are missing; tick {now} sent {sent}"
            message += f", expected {wanted}. Each chunk is sent again {timeout} ticks after it was sent itself"
            raise self._misstep(message)

    def turns(self) -> None:
        """Checks two workers that take turns: each has chunks, RESULTs and a time-out of its own."""
        self.code.begin()
        if problem := self._turns((0, 1)):
            raise self._mixed() or self.code.shown(Wrong(problem, self.file), self.task.folder, "two-workers")

    def _own(self, check: Callable[[], None]) -> None:
        """Runs a check; if it fails because of what other workers of the process have left, that is told."""
        try:
            check()
        except Wrong as wrong:
            raise self._mixed() or wrong from None

    def _mixed(self) -> Wrong | None:
        """Returns a finding about two workers who are right alone, but not together; None if that is not so."""
        if self._brief or self._anew((0,)) or self._anew((1,)) or not (wrong := self._anew((0, 1))):
            return None
        self._shared = True
        message = (
            f"{wrong.finding.said}. Alone, each of them is right: set what a worker knows in __init__, with self.,"
        )
        message += " not in the class, the module or a default argument, which all workers share"
        return Wrong(message, self.file, wrong.finding.look, wrong.finding.files)

    def _anew(self, which: Sequence[int]) -> Wrong | None:
        """Returns what is wrong with one or both of two workers in a new process; None if nothing is."""
        with StudentCode(Path(self.file)) as code:
            try:
                problem = _Grader(self.task, code, self.program)._turns(which)
            except Wrong as wrong:
                return wrong
            return code.shown(Wrong(problem, self.file), self.task.folder, "two-workers") if problem else None

    def _turns(self, which: Sequence[int]) -> str:
        """Returns what is wrong with one or both of two workers that take turns; empty if nothing is."""
        slots, times = self.slots, self.timeouts[1:]
        chunks, missing = (slots, 2 * slots), ([1], list(range(slots)))
        for each in which:
            self._create(_PAIR + each, chunks[each], times[each])
        for now in range(2 * max(times)):
            for each in which:
                came = [chunk for chunk in range(slots) if chunk != 1] if (each, now) == (0, 1) else []
                due = missing[each] if now % times[each] == 0 else []
                due = due if now else list(range(slots))
                if (sent := sorted(self._step(_PAIR + each, now, came))) != due:
                    both = " and ".join(f"{chunks[n]} chunks and time-out {times[n]}" for n in (0, 1))
                    message = (
                        f"of two workers that take turns, the {('first', 'second')[each]} sent {sent} in tick {now}"
                    )
                    message += f", expected {due}. They have {both}, and only the first gets RESULTs, in tick 1, of all"
                    return f"{message} but chunk 1"
        return ""

    # --- both

    def network(self, loss: float) -> None:
        self.code.begin()
        try:
            with self._bench(WORKERS) as bench:
                self._network(loss, bench)
        except Wrong as wrong:
            raise self.code.shown(wrong, self.task.folder, f"workers-{100 * loss:g}") from None

    def _network(self, loss: float, bench: P4Bench) -> None:
        random = self.draws.generator(f"loss {loss}")
        members = self._members(WORKERS)
        chunks, model = 5 * self.slots + 3, TwoCellModel(self.slots, members.full)
        up: deque[tuple[int, int, Push]] = deque()
        down: deque[tuple[int, int, bytes]] = deque()
        there: dict[int, set[int]] = {rank: set() for rank in range(1, WORKERS + 1)}
        frames = 0
        pushes: list[Push] = []  # frames that reached the switch
        asked: dict[tuple[int, int], int] = {}  # tick at which a worker last sent a chunk
        beyond: list[str] = []  # texts about frames beyond a worker's window
        storm: list[str] = []
        for rank in there:
            self._create(_ALONE + rank, chunks, TIMEOUT)

        def put(line: deque[tuple[int, int, T]], now: int, rank: int, what: T) -> None:
            for _ in range(0 if random.random() < loss else 1 + int(random.random() < loss)):
                line.append((now + _DELAY, rank, what))

        for now in range(_MOST_TICKS):
            came: dict[int, list[int]] = {rank: [] for rank in there}
            while down and down[0][0] <= now:
                _, rank, data = down.popleft()
                header = read(data)
                if header is None or header.kind != RESULT:
                    raise Wrong(f"worker {rank} got a frame that is no RESULT", str(self.path))
                if header.lanes != self._sum(header.seq, WORKERS):
                    message = f"worker {rank} got a wrong sum for chunk {header.seq}"
                    raise Wrong(f"{message}: {beyond[0] if beyond else 'see part switch'}", self.file)
                there[rank].add(header.seq)
                came[rank].append(header.seq)
            while up and up[0][0] <= now:
                _, rank, push = up.popleft()
                pushes.append(push)
                answer = bench.send(rank, push.frame(self.ether_type))
                if not beyond and not self._one(model, push, answer).right(WORKERS):
                    raise self._wrong or self._shortest("network", pushes, WORKERS)
                for port, sent in answer.sent:
                    put(down, now, port, sent)
            for rank, mine in there.items():
                for chunk in self._step(_ALONE + rank, now, came[rank]):
                    if not 0 <= chunk < chunks:
                        raise Wrong(f"worker {rank} sent chunk {chunk} of {chunks}", self.file)
                    oldest = min(set(range(chunks)) - mine, default=chunks)
                    if chunk >= oldest + self.slots:
                        beyond.append(
                            f"worker {rank} sent chunk {chunk} and had no RESULT of {oldest}: beyond the window"
                        )
                    elif now - asked.get((rank, chunk), -TIMEOUT) < TIMEOUT or chunk in mine:
                        storm.append(f"worker {rank} sent chunk {chunk} again too early, or for nothing: a storm")
                    asked[rank, chunk] = now
                    frames += 1
                    put(up, now, rank, members.push(rank, chunk, self._lanes(rank, chunk)))
            least = chunks * WORKERS
            if frames > 2 * _SENDS[loss] * least:
                message = f"{frames} frames were sent in {now} ticks, {least} were to be sent"
                raise self._too_many(message, beyond + storm, asked)
            if all(len(mine) == chunks for mine in there.values()):
                break
        waiting = {rank: min(set(range(chunks)) - mine) for rank, mine in there.items() if len(mine) < chunks}
        if waiting:
            message = ", ".join(f"worker {rank} for chunk {chunk}" for rank, chunk in waiting.items())
            message = f"after {_MOST_TICKS} ticks these still wait: {message}, and send nothing"
            raise Wrong(f"{message}. The switch answered all that came: see part worker", self.file)
        if frames > _SENDS[loss] * chunks * WORKERS:
            message = f"{frames} frames for {chunks * WORKERS}; {_SENDS[loss]:g} times as many are allowed"
            raise self._too_many(message, beyond + storm, asked)

    def _too_many(self, message: str, workers: list[str], asked: Collection[tuple[int, int]]) -> Wrong:
        """Returns a finding about too many frames, all of which the switch answered correctly."""
        for rank, chunk in sorted(asked):
            if chunk and (rank, chunk - 1) not in asked:
                message += f": worker {rank} sent chunk {chunk}, but never chunk {chunk - 1}, which is never complete"
                return Wrong(message, self.file)
        if workers:
            message += f": send again only what is missing, and only after the time-out: {workers[0]}"
        return Wrong(message, self.file)


def _parameters(draws: Draws) -> Mapping[str, str]:
    ether_type, slots = numbers_of(draws)
    return {"ether_type": f"{ether_type:#06x}", "slots": str(slots)}


def _made(draws: Draws) -> Mapping[str, str]:
    ether_type, _ = numbers_of(draws)
    lines = ["# Port, frame, remark: chunk 0 of three workers; then worker 2, which lost the RESULT, asks again."]
    for worker, note in ((1, ""), (2, ""), (2, ", again, before the end"), (3, ""), (2, ", again, after it")):
        push = Members(3).push(worker, 0, (worker, 10 * worker, 100 * worker, 1000 * worker))
        lines.append(f"{worker} {Sum(PUSH, push.seq, push.lanes).frame(ether_type).hex()} # {push}{note}")
    return {"entries.yaml": entries_text(Members(3)), "packets.txt": "\n".join(lines) + "\n"}


LAB: Final = Lab(
    number="05",
    name="05-loss",
    title="loss",
    minutes=90,
    parts=(
        LabPart("switch", "the P4 alone, frame by frame", 40),
        LabPart("worker", "the Python alone", 25),
        LabPart("network", "four workers under loss", 35),
    ),
    files=(P4_FILE, WORKER_FILE),
    grade=grade,
    praise="every sum once, whatever is lost",
    parameters=_parameters,
    made=_made,
)
