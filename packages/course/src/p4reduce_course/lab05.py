"""Lab 05: exactly once, under loss: a cached RESULT, two cells for a slot, a window."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from p4reduce_course.frame.lab import Draws, Lab, Part, Step, Task, run_steps
from p4reduce_course.frame.report import Check, Wrong
from p4reduce_course.p4 import GROUP, LANES, PUSH, RESULT, Bench, Lanes, Sum, added, compiled, full, read
from p4reduce_course.sandbox.process import StudentCode
from p4reduce_course.sandbox.program import Parts, StudentProgram

# Grading lab 05: the switch by scripts, the worker by ticks, both together under loss.


P4_FILE: Final = "loss.p4"
WORKER_FILE: Final = "worker.py"
WORKERS: Final = 4
TIMEOUT: Final = 12
_DELAY: Final = 2
"""ticks of a link"""
_MOST_TICKS: Final = 3000
_SENDS: Final = {0.0: 1.0, 0.01: 1.4, 0.1: 3.0}
"""frames that workers may send, for each one that they had to, by loss"""


def numbers_of(draws: Draws) -> tuple[int, int]:
    """EtherType and slots of a student."""
    return 0x8B00 + draws.integer("ether_type", 1, 0xF0), draws.choice("slots", (4, 8))


def grade(task: Task) -> Iterator[Check]:
    """All checks of lab 05."""
    with (
        StudentCode(task.answers / WORKER_FILE, seen=task.seen) as code,
        StudentProgram(task.answers / P4_FILE, seen=task.seen) as program,
    ):
        yield from run_steps(task, _Grader(task, code, program).steps())


class _Grader:
    def __init__(self, task: Task, code: StudentCode, program: StudentProgram) -> None:
        self.task = task
        self.path: Path = task.answers / P4_FILE
        self.file = str(task.answers / WORKER_FILE)
        self.code = code
        self.ether_type, self.slots = numbers_of(task.personal)
        self.draws = task.hidden
        self.program = program
        self.parts: Parts | None = None

    def steps(self) -> list[Step]:
        return [
            # Before the gate: it needs no P4.
            Step("worker", "a window of SLOTS chunks", self.window),
            Step("worker", "again after a time-out, and only what is missing", self.again),
            Step("worker", "each chunk by itself", self.each),
            Step("switch", "the program compiles", self.compile, gate=True),
            Step("switch", "sums, cell by cell, twice around", self.sums),
            Step("switch", "a repetition before the end is dropped", self.early),
            Step("switch", "a repetition after it gets the RESULT, alone", self.late),
            Step("switch", "the RESULT stays until everybody has it", self.stays),
            Step("network", "nothing lost", lambda: self.network(0.0)),
            Step("network", "1 % lost, 1 % doubled", lambda: self.network(0.01)),
            Step("network", "10 % lost, 10 % doubled", lambda: self.network(0.1)),
        ]

    # --- the switch

    def compile(self) -> None:
        self.parts = compiled(self.task, P4_FILE, self.program)
        self._bench()

    def _bench(self, workers: int = 3) -> Bench:
        assert self.parts is not None  # noqa: S101  (a gate before)
        bench = Bench(self.program, self.parts)
        for worker in range(1, workers + 1):
            bench.insert("worker", (worker,), "member", (1 << worker - 1, full(workers)))
        bench.group(GROUP, range(1, workers + 1))
        return bench

    def _lanes(self, worker: int, seq: int) -> Lanes:
        random = self.draws.generator(f"lanes {worker} {seq}")
        return tuple(int(value) for value in random.integers(0, 1 << 32, LANES))

    def _sum(self, seq: int, workers: int = 3) -> Lanes:
        total: Lanes = (0,) * LANES
        for worker in range(1, workers + 1):
            total = added(total, self._lanes(worker, seq))
        return total

    def _push(self, bench: Bench, worker: int, seq: int) -> list[tuple[int, Sum | None]]:
        data = Sum(PUSH, seq, self._lanes(worker, seq)).frame(self.ether_type)
        return [(port, read(frame)) for port, frame in bench.send(worker, data).sent]

    def _result(self, sent: Sequence[tuple[int, Sum | None]], ports: Sequence[int], seq: int, what: str) -> None:
        found = sorted(port for port, _ in sent)
        if found != list(ports):
            raise Wrong(f"{what}: frames left by ports {found or 'none'}, expected {list(ports)}", str(self.path))
        for _, header in sent:
            if header is None or header.kind != RESULT or header.seq != seq:
                raise Wrong(f"{what}: what left is not the RESULT of chunk {seq}", str(self.path))
            if header.lanes != self._sum(seq):
                lane = next(n for n in range(LANES) if header.lanes[n] != self._sum(seq)[n])
                said = f"{what}: lane{lane} is {header.lanes[lane]}, expected {self._sum(seq)[lane]}"
                for worker in (1, 2, 3):
                    if header.lanes[lane] == self._lanes(worker, seq)[lane]:
                        said += f", and it is what worker {worker} sent: the sum is in sums{lane}"
                        raise Wrong(said, str(self.path))
                raise Wrong(f"{said}: something was added that does not belong to it, or added twice", str(self.path))

    def sums(self) -> None:
        bench = self._bench()
        for seq in range(4 * self.slots + 1):
            for worker in (2, 1):
                if sent := self._push(bench, worker, seq):
                    raise Wrong(self._too_early(worker, seq, [port for port, _ in sent]), str(self.path))
            self._result(self._push(bench, 3, seq), (1, 2, 3), seq, f"chunk {seq}")

    def _too_early(self, worker: int, seq: int, ports: list[int]) -> str:
        said = f"worker {worker}'s first PUSH of chunk {seq}: the chunk is not complete, and something left"
        if ports != [worker] or seq < self.slots:
            return f"{said} by ports {ports}"
        said += ", as if it were a repetition: its bit is in the cell from"
        if seq < 2 * self.slots:
            return f"{said} chunk {seq - self.slots}. The cell was used again too early: seq & (2 * SLOTS - 1)"
        return f"{said} chunk {seq - 2 * self.slots}. A worker that uses one cell takes its bit out of the other one"

    def early(self) -> None:
        bench = self._bench()
        for seq in range(2 * self.slots + 1):  # the last one in a cell that was done before
            come = (1, 1, 2, 1, 2) if seq in (0, 2 * self.slots) else (1, 2)
            for place, worker in enumerate(come):
                if not (sent := self._push(bench, worker, seq)):
                    continue
                if worker not in come[:place]:
                    raise Wrong(self._too_early(worker, seq, [port for port, _ in sent]), str(self.path))
                said = f"worker {worker}'s PUSH of chunk {seq} came again, and something left before worker 3 was in"
                if seq:
                    said += ". The cell was used before: write 0 to done while the chunk is not complete"
                raise Wrong(said, str(self.path))
            what = f"chunk {seq} after repetitions of workers 1 and 2"
            self._result(self._push(bench, 3, seq), (1, 2, 3), seq, what)

    def late(self) -> None:
        bench = self._bench()
        for seq in range(2 * self.slots):  # each cell
            for worker in (1, 2, 3):
                self._push(bench, worker, seq)
            for worker in (2, 3, 2):
                sent = self._push(bench, worker, seq)
                if not sent:
                    said = f"worker {worker} lost the RESULT of chunk {seq} and asks again; nothing left: the RESULT is"
                    said += " gone. A repetition in a cell that is done is answered from its sums"
                    if seq:
                        said += f". It works for chunk {seq - 1}: has each register 2 * SLOTS cells?"
                    raise Wrong(said, str(self.path))
                self._result(sent, (worker,), seq, f"worker {worker} asks again for chunk {seq}")

    def stays(self) -> None:
        bench, seq = self._bench(), self.slots
        for worker in (1, 2, 3):
            self._push(bench, worker, 0)
        # They have the RESULT of chunk 0 and go on; worker 3 has not.
        answered = [self._push(bench, worker, seq) for worker in (1, 2)]
        sent = self._push(bench, 3, 0)
        try:
            self._result(sent, (3,), 0, f"worker 3 asks for chunk 0 while others are at chunk {seq}")
        except Wrong as wrong:
            said = wrong.finding.said
            if any(answered):
                said += f". Its cell was used again too early: chunk {seq} goes into the other cell"
            elif not sent:
                said += ". Its bit has left the cell, or done has: a worker takes out its own bit, others' stay, and"
                said += " done tells that chunk 0 is complete though bits have left"
            raise Wrong(said, str(self.path)) from None
        self._result(self._push(bench, 3, seq), (1, 2, 3), seq, f"chunk {seq} after that")

    # --- the worker

    def _step(self, rank: int, now: int, results: Sequence[int]) -> list[int]:
        found: Any = self.code.call("step", rank, now, list(results))
        if not isinstance(found, list) or not all(isinstance(c, int) and not isinstance(c, bool) for c in found):
            raise Wrong(f"step returned {str(found)[:60]!r}; return a list of chunks", self.file)
        return found

    def window(self) -> None:
        chunks = 3 * self.slots
        self.code.call("create", 0, chunks, self.slots, TIMEOUT)
        sent = self._step(0, 0, [])
        if sent and max(sent) >= self.slots:
            said = f"with no RESULT yet chunk {max(sent)} was sent; there are {self.slots} slots"
            raise Wrong(f"{said}: it takes the cell of a chunk that others may still ask for", self.file)
        if sorted(sent) != list(range(self.slots)):
            raise Wrong(f"the first tick sent {sent}, expected chunks 0 to {self.slots - 1}", self.file)
        if more := self._step(0, 1, [1, 2]):
            raise Wrong(
                f"chunk 0 is missing, and {more} was sent: the window begins at the oldest without RESULT", self.file
            )
        sent = self._step(0, 2, [0, 1])
        if sorted(sent) != list(range(self.slots, self.slots + 3)):
            raise Wrong(f"RESULTs 0 to 2 are there; {sent} was sent, expected the next 3 chunks", self.file)

    def again(self) -> None:
        self.code.call("create", 1, self.slots, self.slots, TIMEOUT)
        self._step(1, 0, [])
        self._step(1, 1, [chunk for chunk in range(self.slots) if chunk != 2])
        for now in range(2, 2 * TIMEOUT):
            sent, wanted = self._step(1, now, []), [2] if now == TIMEOUT else []
            if sent == wanted:
                continue
            if sent and max(sent) >= self.slots:
                raise Wrong(
                    f"there are {self.slots} chunks, 0 to {self.slots - 1}, and {max(sent)} was sent", self.file
                )
            if len(sent) > 1:
                raise Wrong(
                    f"only chunk 2 is missing, and tick {now} sent {sent}: a storm of what has arrived", self.file
                )
            if now < TIMEOUT or (now > TIMEOUT and sent):
                said = f"chunk 2 was sent again in tick {now}"
                raise Wrong(
                    f"{said}: that is a storm. Wait {TIMEOUT} ticks after each time that it was sent", self.file
                )
            raise Wrong(
                f"chunk 2 was sent in tick 0 and is lost; tick {now} should send it again, and sent {sent}", self.file
            )

    def each(self) -> None:
        """Two chunks are missing that were sent at different times: the older one's time-out is not the other's."""
        later, last = 5, 2 * TIMEOUT
        self.code.call("create", 2, 2 * self.slots, self.slots, TIMEOUT)
        self._step(2, 0, [])
        sent = self._step(2, later, [0])
        if sent != [self.slots]:
            raise Wrong(f"RESULT 0 is there; {sent} was sent, expected chunk {self.slots}", self.file)
        self._step(2, later + 1, [chunk for chunk in range(1, self.slots) if chunk != 1])
        for now in range(later + 2, last):
            sent = sorted(self._step(2, now, []))
            wanted = [1] if now == TIMEOUT else [self.slots] if now == TIMEOUT + later else []
            if sent == wanted:
                continue
            said = f"chunks 1 and {self.slots} are missing, sent in ticks 0 and {later}; tick {now} sent {sent}"
            said += f", expected {wanted}. Each chunk is sent again {TIMEOUT} ticks after it was sent itself"
            raise Wrong(said, self.file)

    # --- both

    def network(self, loss: float) -> None:
        random = self.draws.generator(f"loss {loss}")
        chunks, bench = 5 * self.slots, self._bench(WORKERS)
        up: deque[tuple[int, int, bytes]] = deque()
        down: deque[tuple[int, int, bytes]] = deque()
        there: dict[int, set[int]] = {rank: set() for rank in range(1, WORKERS + 1)}
        frames = 0
        asked: dict[tuple[int, int], int] = {}  # when a worker last sent a chunk
        beyond: list[str] = []  # what workers did that they should not
        storm: list[str] = []
        for rank in there:
            self.code.call("create", 10 + rank, chunks, self.slots, TIMEOUT)

        def put(line: deque[tuple[int, int, bytes]], now: int, rank: int, data: bytes) -> None:
            for _ in range(0 if random.random() < loss else 1 + int(random.random() < loss)):
                line.append((now + _DELAY, rank, data))

        for now in range(_MOST_TICKS):
            came: dict[int, list[int]] = {rank: [] for rank in there}
            while down and down[0][0] <= now:
                _, rank, data = down.popleft()
                header = read(data)
                if header is None or header.kind != RESULT:
                    raise Wrong(f"worker {rank} got a frame that is no RESULT", str(self.path))
                if header.lanes != self._sum(header.seq, WORKERS):
                    said = f"worker {rank} got a wrong sum for chunk {header.seq}"
                    if beyond:
                        raise Wrong(f"{said}: {beyond[0]}", self.file)
                    said += ": a contribution is missing, or in twice, or another chunk's. See part switch"
                    raise Wrong(said, str(self.path))
                there[rank].add(header.seq)
                came[rank].append(header.seq)
            while up and up[0][0] <= now:
                _, rank, data = up.popleft()
                for port, sent in bench.send(rank, data).sent:
                    put(down, now, port, sent)
            for rank, mine in there.items():
                for chunk in self._step(10 + rank, now, came[rank]):
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
                    put(up, now, rank, Sum(PUSH, chunk, self._lanes(rank, chunk)).frame(self.ether_type))
            least = chunks * WORKERS
            if frames > 2 * _SENDS[loss] * least:
                said = f"{frames} frames were sent in {now} ticks, {least} were to be sent"
                raise self._too_many(said, beyond + storm, there, chunks)
            if all(len(mine) == chunks for mine in there.values()):
                break
        waiting = {rank: min(set(range(chunks)) - mine) for rank, mine in there.items() if len(mine) < chunks}
        if waiting:
            said = ", ".join(f"worker {rank} for chunk {chunk}" for rank, chunk in waiting.items())
            raise Wrong(f"after {_MOST_TICKS} ticks these still wait: {said}", str(self.path))
        if frames > _SENDS[loss] * chunks * WORKERS:
            said = f"{frames} frames for {chunks * WORKERS}; {_SENDS[loss]:g} times as many are allowed"
            raise self._too_many(said, beyond + storm, there, chunks)

    def _too_many(self, said: str, workers: list[str], there: dict[int, set[int]], chunks: int) -> Wrong:
        """Frames beyond what loss explains: the worker's fault, or the switch's, which does not answer."""
        if workers:
            said += f": send again only what is missing, and only after the time-out: {workers[0]}"
            return Wrong(said, self.file)
        waits = {rank: min(set(range(chunks)) - mine) for rank, mine in there.items() if len(mine) < chunks}
        if waits:
            rank, chunk = next(iter(waits.items()))
            said += f": worker {rank} asks again and again for chunk {chunk}, as it should, and gets no RESULT"
        return Wrong(f"{said}. See part switch", str(self.path))


def _parameters(draws: Draws) -> Mapping[str, str]:
    ether_type, slots = numbers_of(draws)
    return {"ether_type": f"{ether_type:#06x}", "slots": str(slots)}


LAB: Final = Lab(
    number="05",
    name="05-loss",
    title="loss",
    minutes=90,
    parts=(
        Part("switch", "the P4 alone, frame by frame", 40),
        Part("worker", "the Python alone", 25),
        Part("network", "four workers under loss", 35),
    ),
    files=(P4_FILE, WORKER_FILE),
    grade=grade,
    praise="every sum once, whatever is lost",
    parameters=_parameters,
)
