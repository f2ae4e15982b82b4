"""Grading a folder of lab 01: three files of entries, three switches, four workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from p4reduce.network.jobs.switches import package_root
from p4reduce.topologies import Topology
from p4reduce.topologies.files import load
from p4reduce_course import catalogue
from p4reduce_course.frame.lab import EXAMPLE, Draws, Question, Task, judge, personal, sheet
from p4reduce_course.frame.report import Check, Finding, counted, todo_lines
from p4reduce_course.lab01.bench import (
    EPOCH,
    JOB,
    LANES,
    SLOTS,
    Bench,
    End,
    Role,
    Student,
    Wire,
    Worker,
    contribution,
    parent_of,
    roles,
)
from p4reduce_course.lab01.switch_checks import examine, titles
from p4switch.program import Program, load_program
from p4switch.trace.entries import Entries, EntriesError, load_entries
from p4switch.trace.to_text import TextFormat, of_folder

# leaf2 as a colleague left it: complete, and three entries wrong, other ones for each student.


NAME: Final = "01-sum-in-a-switch"

HEAD: Final = """\
# Lab 01, leaf2: a colleague's work. It loads, and three values are wrong: find
# them. README.md, step 10. h3 is behind port 1, h4 behind 2, the root behind 3.
"""
BODY: Final = """\
tables:
  - table: local_address
    match: {{hdr.ipv4.dst: 10.128.0.2}}
    action: is_local
  - table: job
    match: {{job: {job}, epoch: {epoch}}}
    action: inner
    params:
      generation: 1
      base: 0
      slots: 16
      full: {full}
      group: 1
      stats: 0
      parent_port: {parent_port}
      parent_mac: {parent_mac}
      parent_ip: 10.128.0.3
      parent_udp: 9400
  - table: peer
    match: {{ingress_port: 1, hdr.ipv4.src: 10.0.0.3, job: {job}, epoch: {epoch}}}
    action: child
    params: {{bit_: 0b01, lowest: 1}}
  - table: peer
    match: {{ingress_port: {h4_port}, hdr.ipv4.src: 10.0.0.4, job: {job}, epoch: {epoch}}}
    action: child
    params: {{bit_: {h4_bit}, lowest: {h4_lowest}}}
  - table: peer
    match: {{ingress_port: 3, hdr.ipv4.src: 10.128.0.3, job: {job}, epoch: {epoch}}}
    action: parent
  - table: replica
    match: {{egress_rid: 1}}
    action: address
    params: {{mac: 02:00:0a:00:00:03, ip: 10.0.0.3, udp: 9400}}
  - table: replica
    match: {{egress_rid: 2}}
    action: address
    params: {{mac: {h4_mac}, ip: 10.0.0.4, udp: 9400}}
multicast:
  - group: 1
    replicas:
      - {{port: 1, rid: 1}}
      - {{port: 2, rid: {h4_rid}}}
"""
RIGHT: Final = {
    "full": "0b11",
    "parent_port": "3",
    "parent_mac": "02:00:0a:80:00:03",
    "h4_port": "2",
    "h4_bit": "0b10",
    "h4_lowest": "0",
    "h4_mac": "02:00:0a:00:00:04",
    "h4_rid": "2",
}
WRONG: Final = {
    "full": ("0b10", "0b111"),
    "parent_port": ("1", "2"),
    "parent_mac": ("02:00:0a:80:00:02", "02:00:0a:00:00:03"),
    "h4_port": ("1", "4"),
    "h4_bit": ("0b01", "0b11"),
    "h4_lowest": ("1",),
    "h4_mac": ("02:00:0a:00:00:03", "02:00:0a:80:00:04"),
    "h4_rid": ("3", "4"),
}
MISTAKES: Final = 3


def job_of(draws: Draws) -> tuple[int, int]:
    """Job and epoch of a student's tree; those of the published solution are 1 and 0."""
    if draws == personal(NAME, EXAMPLE):
        return JOB, EPOCH
    return draws.integer("job", 2, 200), draws.integer("epoch", 1, 100)


def leaf2(draws: Draws, mistakes: int = MISTAKES) -> str:
    """The colleague's file; with no mistakes, what it should be."""
    job, epoch = job_of(draws)
    values = dict(RIGHT)
    for name in draws.shuffled("mistakes", sorted(WRONG))[:mistakes]:
        values[name] = draws.choice(f"mistake {name}", WRONG[name])
    return HEAD + BODY.format(job=job, epoch=epoch, **values)


# What the traces of leaf1 show, in answers of one word.


ANSWERS: Final = "answers.yaml"
_TRACE: Final = "Trace it: make trace N="
QUESTIONS: Final = (
    Question(
        "packet_3_leaves_by",
        "Packet 3 of leaf1 is h1's repetition. By which port does something leave? (0: by none)",
        ("3",),
        f"{_TRACE}3; the outcome is on the last lines",
    ),
    Question(
        "packet_4_leaves_by",
        "And for packet 4, h2's repetition? (0: by none)",
        ("0",),
        f"{_TRACE}4; h2 is not the one with lowest: 1",
    ),
    Question(
        "bitmap_before",
        "What was the slot's bitmap before packet 2 (meta.slot_bitmap in the trace, a number)?",
        ("1", "0b1", "0b01"),
        f"{_TRACE}2; look for meta.slot_bitmap where the bit of the sender is put in",
    ),
    Question("bitmap_after", "And after it?", ("3", "0b11"), f"{_TRACE}2"),
    Question(
        "same_bit",
        "If h1 and h2 had the same bit, what would the switch do with h2's first packet?",
        hint="the slot's bitmap is all it remembers of who is in: see the trace of packet 3",
        options=(
            "take it for a repetition of h1's, and never add it",
            "add it twice",
            "send it on to the root as it is",
        ),
    ),
    Question(
        "why_full",
        "Why is full a bitmap from the table, and not a number of packets to count up to?",
        hint="think of a worker whose packet comes twice while another one's has not come",
        options=(
            "a repetition would be counted as another child's contribution",
            "registers cannot count",
            "a bitmap is shorter than a number",
        ),
    ),
    Question(
        "four_slots",
        "Workers are up to 8 chunks ahead. What happens with slots: 4?",
        hint="chunk n goes to slot n modulo slots; 'remembers the last 16 chunks' shows it",
        options=(
            "chunk 4 needs the slot of chunk 0, which may still be wanted",
            "sums overflow",
            "nothing: 4 divides 8",
        ),
    ),
)


def answer_sheet(draws: Draws) -> str:
    """The file that a student fills in."""
    return sheet("Lab 01, step 12: a number or a letter for each TODO.", QUESTIONS, draws)


def questions(path: Path, draws: Draws) -> Iterator[Check]:
    """One check for each answer."""
    return judge("questions", path, QUESTIONS, draws)


# The whole tree: four workers push chunks they know, and every one of them must get every sum.


CHUNKS: Final = SLOTS + 4
"""some slots are used twice"""
_RUNS: Final = (
    ("every worker gets every sum", 0.0, 0.0),
    ("the same with 1 frame in 10 lost and 1 in 10 doubled", 0.1, 0.1),
)


def examine_network(
    topology: Topology, tree: Mapping[str, Role], fresh: Callable[[str], Bench], *, tried: bool
) -> list[Check]:
    """Both runs; ``tried`` False: not yet, because a switch by itself fails."""
    checks: list[Check] = []
    for title, loss, duplication in _RUNS:
        finding = None
        if tried:
            wire = Wire(topology, {name: fresh(name) for name in tree}, _workers(topology, tree), loss, duplication)
            finding = _judge(wire)
        checks.append(Check("network", title, finding is None if tried else None, finding))
        tried = tried and finding is None
    return checks


def _workers(topology: Topology, tree: Mapping[str, Role]) -> dict[str, Worker]:
    found = {}
    for number, host in enumerate(topology.workers):
        leaf = parent_of(host.name, tree)
        parent = End(leaf.ip, leaf.mac)
        found[host.name] = Worker(host.name, number, End(host.ip, host.mac), parent, CHUNKS, leaf.job, leaf.epoch)
    return found


def _judge(wire: Wire) -> Finding | None:
    finished = wire.run()
    refusals = ", ".join(f"{switch} refused {n} ({why})" for (switch, why), n in wire.refusals.most_common(3))
    for worker in wire.workers.values():
        if worker.wrong:
            return Finding(f"{worker.name} got {worker.wrong[0]}. {refusals}")
    if not finished:
        waiting = ", ".join(f"{w.name} for chunk {w.oldest_missing}" for w in wire.workers.values() if not w.done)
        return Finding(f"these workers wait for ever: {waiting}. {refusals}")
    for seq in range(CHUNKS):
        lanes = [contribution(number, seq) for number in range(len(wire.workers))]
        expected = np.sum(lanes, axis=0, dtype=np.int32)
        for worker in wire.workers.values():
            if not np.array_equal(worker.results[seq], expected):
                return Finding(f"{worker.name} got a wrong sum for chunk {seq}. {refusals}")
    return None


ROOT: Final = "root"
MOST_COPIES: Final = 64
"""of one multicast group: grading must not take for ever, whatever a file says"""


def grade(task: Task) -> Iterator[Check]:
    """Everything that is checked, in the order in which one would repair it."""
    topology = load(catalogue.home(task.lab) / "network.yaml")
    job, epoch = job_of(task.personal)
    tree = roles(topology, ROOT, job, epoch)
    program = load_program(package_root() / "p4src" / "compiled" / f"p4reduce-{LANES}.json")
    text = TextFormat(program, glossary=of_folder(package_root() / "p4src"))
    students: dict[str, Student] = {}
    right = True

    def fresh(name: str) -> Bench:
        return Bench(name, program, students[name].entries, text)

    for role in tree.values():
        if not task.only & {role.name, "network"}:
            continue
        path = task.answers / f"{role.name}.yaml"
        finding = _read(path, program, text, students, role)
        yield Check(role.name, f"{path.name} can be loaded into a switch", finding is None, finding)
        right = right and finding is None
        for check in _examine(role, students.get(role.name), program, text, task.folder):
            yield check
            right = right and check.passed is True
    if "network" in task.only:
        yield from examine_network(topology, tree, fresh, tried=right)
    if "questions" in task.only:
        yield from questions(task.answers / ANSWERS, task.personal)


def _examine(role: Role, student: Student | None, program: Program, text: TextFormat, folder: Path) -> list[Check]:
    if student is None:
        return [Check(role.name, title, None) for title in titles(role)]
    packets = packets_folder(folder) / f"{role.name}.txt"

    def look(number: int) -> str:
        return f"p4reduce trace --program {LANES} --entries {student.path} --packet {packets} --only {number}"

    return examine(role, student, lambda: Bench(role.name, program, student.entries, text), look)


def packets_folder(folder: Path) -> Path:
    """The packets beside a student's files."""
    return next((path for path in (folder / "packets", folder.parent / "packets") if path.is_dir()), Path("packets"))


def _read(path: Path, program: Program, text: TextFormat, students: dict[str, Student], role: Role) -> Finding | None:
    """Loads a file and tries it on a switch; what is wrong with it, or None."""
    todos = todo_lines(path)
    if todos:
        lines = ", ".join(str(line) for line in todos[:8]) + (", ..." if len(todos) > 8 else "")
        still = "still says" if len(todos) == 1 else "still say"
        said = f"{counted(len(todos), 'line')} {still} TODO (that is how the lab begins): fill them in, see README.md"
        return Finding(said, f"{path}, line {lines}")
    try:
        entries: Entries = load_entries(path, program)
        Bench(path.stem, program, entries, text)
    except EntriesError as error:
        return Finding(str(error))
    for group, replicas in entries.groups.items():
        if len(replicas) > MOST_COPIES:
            said = f"multicast group {group} makes {len(replicas)} copies; one for each child is enough"
            return Finding(said, f"{path}: multicast")
    students[path.stem] = Student(path, entries, role.job, role.epoch)
    return None
