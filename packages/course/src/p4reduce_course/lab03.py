"""Lab 03: a slot: registers that are read, changed and written back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from p4reduce_course.frame.lab import Draws, Lab, Part, Step, Task, run_steps
from p4reduce_course.frame.report import Check, Wrong, counted
from p4reduce_course.p4 import GROUP, LANES, PUSH, RESULT, WRAP, Bench, Lanes, Sum, added, compiled, full, read
from p4reduce_course.sandbox.program import Answer, Parts, StudentProgram

# Grading lab 03: frames, sums and registers against a model that knows no P4.


FILE: Final = "slot.p4"
WORKERS: Final = range(2, 9)
_REGISTERS: Final = tuple(f"sums{lane}" for lane in range(LANES))


@dataclass(frozen=True)
class Numbers:
    """What follows from a student's name."""

    ether_type: int
    slots: int

    @classmethod
    def of(cls, draws: Draws) -> Numbers:
        """The student's numbers."""
        return cls(0x8A00 + draws.integer("ether_type", 1, 0xF0), draws.choice("slots", (4, 8, 16, 32)))


@dataclass(frozen=True)
class Push:
    """A worker's frame; workers count from 1 and sit at the port of their number."""

    worker: int
    seq: int
    lanes: Lanes


Outcome = Literal["repetition", "partial", "complete"]


@dataclass
class Model:
    """What a switch has to remember: who is in, and the sum so far, of each slot."""

    slots: int
    workers: int
    bitmaps: dict[int, int] = field(default_factory=dict)
    sums: dict[int, Lanes] = field(default_factory=dict)

    def push(self, push: Push) -> Outcome:
        """One frame."""
        slot, bit = push.seq % self.slots, 1 << push.worker - 1
        before = self.bitmaps.get(slot, 0)
        if before & bit:
            return "repetition"
        self.sums[slot] = added(self.sums[slot], push.lanes) if before else push.lanes
        complete = before | bit == full(self.workers)
        self.bitmaps[slot] = 0 if complete else before | bit
        return "complete" if complete else "partial"


def grade(task: Task) -> Iterator[Check]:
    """All checks of lab 03."""
    with StudentProgram(task.answers / FILE, seen=task.seen) as program:
        yield from run_steps(task, _Grader(task, program).steps())


@dataclass(frozen=True)
class _Played:
    """A frame with what the switch did and what it had to do.

    Attributes:
        before, after: registers of the slot: bitmap and sums.
        expected: bitmap and sums that the model has.
        left: sum that the chunk before left in the slot; None: no chunk was before.
    """

    push: Push
    answer: Answer
    outcome: Outcome
    before: tuple[int, Lanes]
    after: tuple[int, Lanes]
    expected: tuple[int, Lanes]
    left: Lanes | None

    @property
    def name(self) -> str:
        return f"worker {self.push.worker}'s PUSH of chunk {self.push.seq}"


class _Grader:
    def __init__(self, task: Task, program: StudentProgram) -> None:
        self.task = task
        self.path: Path = task.answers / FILE
        self.numbers = Numbers.of(task.personal)
        self.draws = task.hidden
        self.program = program
        self.parts: Parts | None = None
        self._played: dict[tuple[int, bool], list[_Played]] = {}

    def steps(self) -> list[Step]:
        return [
            Step("packets", "the program compiles", self.compile, gate=True),
            Step("packets", "what is not for the slots is dropped", self.strangers),
            Step("packets", "nothing leaves before all workers are in", self.waits),
            Step("packets", "then every worker gets one RESULT", self.answers),
            Step("sums", "the first use of each slot, 2 to 8 workers", lambda: self.sums(again=False)),
            Step("sums", "slots that are used again", lambda: self.sums(again=True)),
            Step("registers", "bitmap after each frame", self.bitmaps),
            Step("registers", "sums after each frame", self.kept),
            Step("repetitions", "a repetition is dropped", self.repetitions),
            Step("repetitions", "and changes nothing", self.unchanged),
            Step("repetitions", "sums are right all the same", self.sums_with_repetitions),
        ]

    def compile(self) -> None:
        self.parts = compiled(self.task, FILE, self.program)
        self._bench(2)

    def _bench(self, workers: int) -> Bench:
        assert self.parts is not None  # noqa: S101  (a gate before)
        bench = Bench(self.program, self.parts)
        for register in ("bitmaps", *_REGISTERS):
            if (cells := bench.size(register)) < self.numbers.slots:
                said = f"register {register} has {counted(cells, 'cell')}; there are {self.numbers.slots} slots"
                raise Wrong(f"{said}: leave SLOTS as it is, and each register at SLOTS cells", str(self.path))
        for worker in range(1, workers + 1):
            bench.insert("worker", (worker,), "member", (1 << worker - 1, full(workers)))
        bench.group(GROUP, range(1, workers + 1))
        return bench

    # --- frames

    def _pushes(self, workers: int, repeated: bool) -> Iterator[Push]:
        """Two rounds over all slots, workers in another order for each chunk; with repetitions, some come twice."""
        random = self.draws.generator(f"pushes {workers} {repeated}")
        for seq in range(2 * self.numbers.slots if workers in (2, 3) else self.numbers.slots + 2):
            come = [int(number) + 1 for number in random.permutation(workers)]
            if repeated:  # each but the last one twice, somewhere before the last one
                for worker in list(come[:-1]):
                    come.insert(int(random.integers(come.index(worker) + 1, len(come))), worker)
            lanes = {w: tuple(int(v) for v in random.integers(1 << 20, 1 << 32, LANES)) for w in range(1, workers + 1)}
            for worker in come:
                yield Push(worker, seq, lanes[worker])

    def played(self, workers: int, repeated: bool = False) -> list[_Played]:
        if (workers, repeated) not in self._played:
            self._played[workers, repeated] = list(self._play(workers, repeated))
        return self._played[workers, repeated]

    def _play(self, workers: int, repeated: bool) -> Iterator[_Played]:
        bench, model = self._bench(workers), Model(self.numbers.slots, workers)
        lefts: dict[int, Lanes] = {}
        for push in self._pushes(workers, repeated):
            slot = push.seq % self.numbers.slots
            if not model.bitmaps.get(slot) and slot in model.sums:
                lefts[slot] = model.sums[slot]
            before, left = self._slot(bench, slot), lefts.get(slot)
            answer = bench.send(push.worker, Sum(PUSH, push.seq, push.lanes).frame(self.numbers.ether_type))
            outcome = model.push(push)
            expected = (model.bitmaps[slot], model.sums[slot])
            yield _Played(push, answer, outcome, before, self._slot(bench, slot), expected, left)

    @staticmethod
    def _slot(bench: Bench, slot: int) -> tuple[int, Lanes]:
        bitmap, *sums = bench.values(("bitmaps", *_REGISTERS), slot)
        return bitmap, tuple(sums)

    def _wrong(self, said: str) -> Wrong:
        look = f"p4reduce trace {self.path} --entries entries.yaml --packet packets.txt --brief"
        return Wrong(said, str(self.path), look)

    # --- packets

    def strangers(self) -> None:
        bench = self._bench(2)
        ether = self.numbers.ether_type
        lanes = (1, 2, 3, 4)
        for port, data, what in (
            (5, Sum(PUSH, 0, lanes).frame(ether), "a PUSH by a port without a worker"),
            (1, Sum(RESULT, 0, lanes).frame(ether), "a RESULT of a worker"),
            (1, Sum(PUSH, 0, lanes).frame(ether ^ 1), "a frame of another EtherType"),
        ):
            if bench.send(port, data).sent:
                raise self._wrong(f"{what} was sent on; the skeleton drops it: leave the first if as it is")
        if any(bench.cells("bitmaps")):
            raise self._wrong("a frame that is not for the slots changed a bitmap")

    def waits(self) -> None:
        for workers in WORKERS:
            for one in self.played(workers):
                if one.outcome == "partial" and one.answer.sent:
                    raise self._wrong(self._too_early(one, workers))

    def _too_early(self, one: _Played, workers: int) -> str:
        if one.answer.group:
            bitmap = one.expected[0]
            return f"{one.name}: a RESULT left, but only {bitmap:#b} of {full(workers):#b} are in"
        ports = sorted({port for port, _ in one.answer.sent})
        if ports == [0]:
            return (
                f"{one.name} left by port 0: the chunk is not complete, and nobody said where the frame goes: "
                "that means port 0. mark_to_drop(std) is missing"
            )
        said = f"{one.name} left by port {ports[0]}"
        return f"{said} though the chunk is not complete: egress_spec is written behind mark_to_drop"

    def answers(self) -> None:
        for workers in WORKERS:
            for one in self.played(workers):
                if one.outcome == "complete":
                    self._answered(one, workers)

    def _answered(self, one: _Played, workers: int) -> None:
        ports = sorted(port for port, _ in one.answer.sent)
        if ports == list(range(1, workers + 1)):
            headers = [read(data) for _, data in one.answer.sent]
            if any(header is None or header.kind != RESULT or header.seq != one.push.seq for header in headers):
                raise self._wrong(
                    f"{one.name} completed the chunk, but what left is not its RESULT: set kind, leave seq"
                )
            return
        if one.answer.group not in (0, GROUP):
            said = f"{one.name} completed the chunk and was sent to multicast group {one.answer.group}"
            raise self._wrong(f"{said}, which does not exist: the controller made group {GROUP}. It went to nobody")
        if not ports:
            raise self._wrong(self._silent(one, workers))
        said = f"{one.name} completed the chunk; it left by ports {ports}, not once by each of 1 to {workers}"
        raise self._wrong(f"{said}: multicast group {GROUP} has all of them")

    def _silent(self, one: _Played, workers: int) -> str:
        """A chunk that is complete, and nothing left."""
        said = f"{one.name} was the last of {workers}, and nothing left"
        if one.before[0] & 1 << one.push.worker - 1 and one.left is not None:
            said += ": its bit was in the bitmap already, left there by an earlier chunk, so it was taken for a"
            return f"{said} repetition. When a chunk is complete, write 0 to the slot's bitmap"
        if one.after[0] == 0 and one.before[0]:
            said += f", though the slot was cleared: std.mcast_grp = {GROUP} sends to all, and a mark_to_drop behind it"
            return f"{said} takes that back"
        said += f": the bitmap was {one.before[0]:#b} before and is {one.after[0]:#b} after it; when it is"
        return f"{said} {full(workers):#b}, send the RESULT"

    # --- sums

    def sums(self, *, again: bool) -> None:
        for workers in WORKERS:
            for one in self.played(workers):
                if one.outcome == "complete" and (one.push.seq >= self.numbers.slots) == again:
                    self._summed(one)

    def sums_with_repetitions(self) -> None:
        for workers in (2, 5):
            for one in self.played(workers, repeated=True):
                if one.outcome == "complete":
                    self._summed(one)

    def _summed(self, one: _Played) -> None:
        if not one.answer.sent:
            raise self._wrong(f"{one.name} was the last, and no RESULT left: see part packets")
        header = read(one.answer.sent[0][1])
        wanted = one.expected[1]
        if header is None or header.lanes == wanted:
            return
        lane = next(n for n in range(LANES) if header.lanes[n] != wanted[n])
        earlier = one.push.seq - self.numbers.slots
        got = header.lanes[lane]
        said = f"chunk {one.push.seq}: lane{lane} is {got}, expected {wanted[lane]}"
        if one.left is not None and (got - wanted[lane] - one.left[lane]) % WRAP == 0:
            said += (
                f". The slot was used by chunk {earlier} before: what that left was added. The first frame "
                "of a chunk replaces the sums; and write 0 to the bitmap when a chunk is complete"
            )
        elif got == one.push.lanes[lane]:
            said += ": that is what the last worker sent. Read the sums, and add them to its lanes"
        elif got == (wanted[lane] - one.push.lanes[lane]) % WRAP:
            said += ": that is the sum of all others. Add the lane of the last frame, too"
        elif got == WRAP - 1:
            said += ": a sum wraps around at 2^32, + does so"
        raise self._wrong(said)

    # --- registers

    def bitmaps(self) -> None:
        for one in self.played(3):
            if one.after[0] != one.expected[0]:
                said = f"after {one.name} the slot's bitmap is {one.after[0]:#b}, expected {one.expected[0]:#b}"
                if one.outcome == "complete" and one.after[0] == full(3):
                    said += ": the chunk is complete, so write 0 and the slot is free for the next one"
                raise self._wrong(said)

    def kept(self) -> None:
        for one in self.played(3):
            if one.outcome == "partial" and one.after[1] != one.expected[1]:
                said = f"after {one.name} the slot's sums are {one.after[1]}, expected {one.expected[1]}"
                raise self._wrong(f"{said}{self._not_kept(one)}")

    def _not_kept(self, one: _Played) -> str:
        """Why a sum is not in its register."""
        lane = next(n for n in range(LANES) if one.after[1][n] != one.expected[1][n])
        if one.before[0] & 1 << one.push.worker - 1:
            return ": its bit was in the bitmap already, so it was taken for a repetition"
        if one.after[1][lane] == one.before[1][lane]:
            return f": nothing was written to sums{lane}; what is not written to a register is forgotten with the frame"
        if one.after[1][lane] == one.push.lanes[lane]:
            return f": in sums{lane} is what this worker sent alone, without the sum so far"
        return f": look at what was written to sums{lane}"

    # --- repetitions

    def _repeated(self) -> Iterator[_Played]:
        for workers in (2, 5):
            for one in self.played(workers, repeated=True):
                if one.outcome == "repetition":
                    yield one

    def repetitions(self) -> None:
        for one in self._repeated():
            if one.answer.sent and one.after == one.before:
                ports = ", ".join(str(port) for port, _ in one.answer.sent)
                said = f"{one.name} came again, and changed nothing, but left by port {ports}: drop a repetition"
                raise self._wrong(f"{said}, mark_to_drop(std)")
            if one.answer.sent:
                said = (
                    f"{one.name} came again and was taken for another worker's: who is in must be remembered, not how"
                )
                raise self._wrong(f"{said} many. Ask for the sender's bit in the bitmap before anything else")

    def unchanged(self) -> None:
        for one in self._repeated():
            if one.after == one.before:
                continue
            if not one.answer.sent and one.after[1] != one.before[1] and one.after[0] == one.before[0]:
                said = f"{one.name} came again. It was dropped, but its lanes were added: ask for the sender's bit"
                said += " first, whoever else is in, and put the rest into an else"
                raise self._wrong(f"{said}: mark_to_drop does not end the control")
            raise self._wrong(
                f"{one.name} came again, and the slot changed: bitmap {one.before[0]:#b} -> {one.after[0]:#b}. Who is "
                "in must be remembered, not how many: ask for the sender's bit in the bitmap before anything else"
            )


def _parameters(draws: Draws) -> Mapping[str, str]:
    numbers = Numbers.of(draws)
    return {"ether_type": f"{numbers.ether_type:#06x}", "slots": str(numbers.slots)}


def _made(draws: Draws) -> Mapping[str, str]:
    numbers = Numbers.of(draws)
    entries = ["# Three workers, at ports 1 to 3.", "tables:"]
    for port in (1, 2, 3):
        entries.append(f"  - {{table: worker, match: {{std.ingress_port: {port}}}, action: member,")
        entries.append(f"     params: {{bit_: {1 << port - 1:#b}, full: {full(3):#b}}}}}")
    replicas = ", ".join(f"{{port: {port}, rid: 0}}" for port in (1, 2, 3))
    entries += ["multicast:", f"  - {{group: 1, replicas: [{replicas}]}}"]
    packets = ["# Port, frame, remark: chunk 0 of three workers."]
    for port, note in (
        (1, "PUSH of worker 1"),
        (2, "PUSH of worker 2"),
        (2, "the same again"),
        (3, "PUSH of worker 3"),
    ):
        frame = Sum(PUSH, 0, (port, 10 * port, 100 * port, 1000 * port)).frame(numbers.ether_type)
        packets.append(f"{port} {frame.hex()} # {note}")
    return {"entries.yaml": "\n".join(entries) + "\n", "packets.txt": "\n".join(packets) + "\n"}


LAB: Final = Lab(
    number="03",
    name="03-a-slot",
    title="a slot",
    minutes=90,
    parts=(
        Part("packets", "which frames leave, and to whom", 25),
        Part("sums", "what is in them", 35),
        Part("registers", "bitmap and sums after each frame", 15),
        Part("repetitions", "frames that come twice", 25),
    ),
    files=(FILE,),
    grade=grade,
    praise="your switch adds up, each contribution once",
    parameters=_parameters,
    made=_made,
)
