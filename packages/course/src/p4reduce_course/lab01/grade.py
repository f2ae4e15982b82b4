"""Grading of a folder of lab 01: three files of entries, three switches, four workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from p4reduce.network.jobs.network import package_root
from p4reduce.topologies.files import load
from p4reduce.workers.wire import INC_UDP_PORT, PacketType
from p4reduce_course import catalogue
from p4reduce_course.frame.lab import EXAMPLE, Draws, GradingTask, Question, judge, personal, sheet
from p4reduce_course.frame.report import Check, Finding, counted, todo_lines
from p4reduce_course.lab01.bench import (
    CHILD,
    EPOCH,
    INNER,
    JOB,
    JOBS,
    LANES,
    LOCAL,
    PARENT,
    PEERS,
    REPLICAS,
    ROOT,
    SLOTS,
    BenchNeighbour,
    End,
    PacketAnswer,
    PacketBench,
    PacketStep,
    Role,
    Student,
    end,
    examine_network,
    frame,
    roles,
    script,
    short,
    total,
)
from p4switch.base.values import show
from p4switch.program import Program, load_program
from p4switch.tables import DefaultEntry, Exact
from p4switch.trace.entries import Entries, EntriesError, load_entries
from p4switch.trace.to_text import TextFormat, of_folder

# Functions that find the entry behind a switch's mistake. Each returns (message, place).


Said = tuple[str, str]

_JOB: Final = 7
_PEER: Final = 8
_TYPE: Final = 9
_KIND: Final = 12
_RESULT: Final = 14
"""Reasons of p4src/refuse.p4 for which there is a special message."""


def refused(role: Role, student: Student, step: PacketStep, answer: PacketAnswer) -> Said:
    """Explains why the switch refused a neighbour's packet that it should have accepted."""
    sender = step.sender
    local = answer.table(LOCAL)
    if local is not None and not local.hit:
        problem = (
            f"table local_address has no entry for {_ip(role.ip)}, {role.name}'s own address: "
            f"{sender.name}'s packet was routed on instead of summed"
        )
        return problem, student.where(LOCAL)
    match answer.refused:
        case number if number == _JOB:
            return f"table job has no entry for job {role.job}, epoch {role.epoch}", student.where(JOBS)
        case number if number == _PEER:
            return _unknown(role, student, sender)
        case number if number == _TYPE:
            return _wrong_kind(role, student, sender)
        case number if number == _KIND:
            problem = "a first contribution was refused: generation must be 1 or more, since 0 marks empty slots"
            return problem, student.where(JOBS)
        case number if number == _RESULT:
            return _unexpected_result(role, student, sender, answer)
    return f"{sender.name}'s packet was refused: {answer.reason}", student.where(JOBS)


def _unknown(role: Role, student: Student, sender: BenchNeighbour) -> Said:
    problem = (
        f"table peer has no entry for {sender.name}: port {sender.port}, {_ip(sender.ip)}, "
        f"job {role.job}, epoch {role.epoch}"
    )
    for match, _ in student.matches(PEERS):
        port, ip, *_ = match
        if ip == sender.ip and port != sender.port:
            problem += f". There is one for port {port}, but {sender.name} is behind port {sender.port} of {role.name}"
            return problem, student.where_match(PEERS, match)
        if port == sender.port and ip != sender.ip:
            problem += f". There is one for {_ip(ip)} at port {port}"
            return problem, student.where_match(PEERS, match)
    return problem, student.peer(sender.port, sender.ip)


def _wrong_kind(role: Role, student: Student, sender: BenchNeighbour) -> Said:
    wanted, given = ("child", "parent") if sender in role.children else ("parent", "child")
    problem = (
        f"table peer says that {sender.name} is a {given} of {role.name}, but it is its {wanted}: use action {wanted}"
    )
    return problem, student.peer(sender.port, sender.ip)


def _unexpected_result(role: Role, student: Student, sender: BenchNeighbour, answer: PacketAnswer) -> Said:
    full = answer.argument(JOBS, "full")
    problem = (
        f"the RESULT from {sender.name} was refused ({answer.reason}): the slot was not full ({full:#b}) "
        "or done already. If job is installed as root, it is done too early: an inner switch needs action inner"
    )
    return problem, student.where(JOBS)


def bits(role: Role, student: Student) -> dict[str, int]:
    """Returns the bit that table `peer` gives each child, without children that have no entry."""
    by_child = {}
    for child in role.children:
        for match, entry in student.matches(PEERS):
            if match == (child.port, child.ip, role.job, role.epoch) and entry.action == CHILD:
                by_child[child.name] = entry.arguments[0]
    return by_child


def shared_bit(role: Role, student: Student, step: PacketStep, answer: PacketAnswer) -> Said:
    """Explains why a first contribution was taken for a repetition."""
    name = step.sender.name
    problem = f"{name}'s contribution was taken for a repetition (refused {answer.reason})"
    return f"{problem}: {_sharing(role, student, name)}", student.peer(step.port, step.sender.ip)


def _sharing(role: Role, student: Student, name: str) -> str:
    """Returns which children share a bit with the named one; empty if none does."""
    by_child = bits(role, student)
    mine = by_child.get(name, 0)
    others = [other for other, bit in by_child.items() if other != name and bit & mine]
    if not others:
        return ""
    return (
        f"{name} and {' and '.join(others)} share the bit {mine:#b} in table peer. "
        "Give each child a bit_ of its own: 0b1, 0b10, 0b100 ..."
    )


def _full(student: Student) -> int:
    for match, entry in student.matches(JOBS):
        if match == (student.job, student.epoch):
            return entry.arguments[3]
    return 0


def _bits_text(role: Role, student: Student) -> str:
    by_child = bits(role, student)
    union = 0
    for bit in by_child.values():
        union |= bit
    listed = ", ".join(f"{name} {bit:#b}" for name, bit in by_child.items())
    return f"The children's bits are {listed}, together {union:#b}; job's full is {_full(student):#b}"


def too_early(role: Role, student: Student, step: PacketStep) -> Said:
    """Explains why a frame left before all children had contributed."""
    problem = f"{role.name} answered after {step.sender.name}'s contribution already, without waiting for the others. "
    if sharing := _sharing(role, student, step.sender.name):
        return problem + sharing, student.peer(step.port, step.sender.ip)
    return problem + _bits_text(role, student) + ": full must be all of the bits", student.where(JOBS)


def never_full(role: Role, student: Student) -> Said:
    """Explains why nothing left though all children had contributed."""
    by_child = bits(role, student)
    for child in role.children:
        if by_child.get(child.name) == 0:
            problem = f"{child.name} has bit_ 0 in table peer: its contribution is added but never noted. Give it a bit"
            return problem, student.peer(child.port, child.ip)
    problem = f"all children of {role.name} have contributed, but nothing left: the slot waits for ever. "
    return problem + _bits_text(role, student) + ": full must be all of the bits and no other", student.where(JOBS)


def copies(role: Role, student: Student, answer: PacketAnswer) -> Said | None:
    """Explains what is wrong with the copies of a RESULT, one for each child; None if all are right."""
    group = answer.argument(JOBS, "group")
    place = f"{student.path}: multicast"
    if group == 0:
        return "job has group 0, which means no multicast: give it the number of the group", student.where(JOBS)
    if group not in student.entries.groups:
        return f"job sends RESULTs to multicast group {group}, but the file has no such group", place
    replicas = answer.trace.outcome.replicas
    for child in role.children:
        here = [rid for port, rid in replicas if port == child.port]
        if not here:
            return f"multicast group {group} has no copy for {child.name}: add port {child.port} and a rid", place
        rid = here[0]
        where = student.where_match(REPLICAS, (rid,))
        if rid == 0 or not any(m.match == (Exact(rid),) for m in student.entries.of(REPLICAS)):
            problem = (
                f"table replica has no entry for rid {rid}: the copy for {child.name} (port {child.port}) left with "
                "the addresses of another node, and its host drops it"
            )
            return (problem if rid else f"the copy for {child.name} has rid 0: give each copy a rid from 1 up"), where
        sent = [message for port, message in answer.messages if port == child.port]
        wrong = "nothing left" if not sent else wrong_address(sent[0].destination, sent[0].udp, end(child), "")
        for other in role.children if wrong and sent else ():
            theirs = not wrong_address(sent[0].destination, sent[0].udp, end(other), "")
            if theirs and other is not child and any(pair == (other.port, rid) for pair in replicas):
                problem = (
                    f"multicast group {group} gives the copy for {child.name} (port {child.port}) rid {rid}, which is "
                    f"that of {other.name}: {wrong} ({child.name}'s). Give each copy a rid of its own"
                )
                return problem, place
        if wrong:
            return f"the copy for {child.name} (rid {rid}): {wrong} ({child.name}'s)", where
    if len(replicas) != len(role.children):
        problem = (
            f"multicast group {group} has {len(replicas)} copies, but {role.name} has {len(role.children)} children"
        )
        return problem, place
    return None


def wrong_address(actual: End, udp: int, wanted: End, prefix: str) -> str:
    """Returns the first of MAC, IPv4 and UDP that is wrong; empty if all are right."""
    if actual.ip != wanted.ip:
        return f"{prefix}ip is {_ip(actual.ip)}, expected {_ip(wanted.ip)}"
    if actual.mac != wanted.mac:
        return f"{prefix}mac is {show(actual.mac, 'mac', 48)}, expected {show(wanted.mac, 'mac', 48)}"
    return f"{prefix}udp is {udp}, expected {INC_UDP_PORT}" if udp != INC_UDP_PORT else ""


def _ip(value: int) -> str:
    return show(value, "ip", 32)


Look = Callable[[int], str]
"""Returns the command that traces packet n of the script."""

DUPLICATE: Final = 13


@dataclass(frozen=True)
class Examined:
    """A switch after all packets of the script.

    Attributes:
        answers: the result of each step.
        fresh: makes a new switch with empty slots.
    """

    role: Role
    student: Student
    steps: list[PacketStep]
    answers: list[PacketAnswer]
    look: Look
    fresh: Callable[[], PacketBench]

    def of(self, purpose: str) -> list[tuple[int, PacketStep, PacketAnswer]]:
        """Returns number (from 1), step and result of the steps with a purpose."""
        pairs = zip(self.steps, self.answers, strict=True)
        return [(n, step, answer) for n, (step, answer) in enumerate(pairs, start=1) if step.purpose == purpose]

    def fail(self, number: int, problem: str, where: str) -> Finding:
        """Returns a finding about packet ``number`` of the script."""
        return Finding(problem, where, self.look(number))


def examine(role: Role, student: Student, fresh: Callable[[], PacketBench], look: Look) -> list[Check]:
    """Returns all checks of a switch; after the first failure, the others are not tried."""
    bench = fresh()
    steps = script(role)
    examined = Examined(role, student, steps, [bench.send(s.port, s.frame) for s in steps], look, fresh)
    checks: list[Check] = []
    failed = False
    for title, check in _checks(role):
        finding = None if failed else check(examined)
        checks.append(Check(role.name, title, None if failed else finding is None, finding))
        failed = failed or finding is not None
    return checks


def titles(role: Role) -> list[str]:
    """Returns the titles of a switch's checks."""
    return [title for title, _ in _checks(role)]


def _checks(role: Role) -> list[tuple[str, Callable[[Examined], Finding | None]]]:
    children = " and ".join(child.name for child in role.children)
    checks: list[tuple[str, Callable[[Examined], Finding | None]]] = [
        (f"takes in what {children} push", _takes_in),
        (f"waits for {children}, then answers once", _waits_for_all),
    ]
    if role.parent is None:
        checks.append((f"sends the sum down to {children}", _result_down))
    else:
        checks.append((f"sends the sum up to {role.parent.name}", _sum_up))
        checks.append(("sends the sum up again when its first child asks again", _up_again))
        checks.append((f"sends {role.parent.name}'s RESULT down to {children}", _parents_result_down))
    checks.append(("answers a retransmission from its slot, to that child only", _replays))
    checks.append(("takes nothing from a wrong port or for another node", _wrong_ports))
    checks.append((f"remembers the last {SLOTS} chunks", _remembers))
    return checks


def _takes_in(examined: Examined) -> Finding | None:
    for number, step, answer in examined.of("push"):
        local = answer.table(LOCAL)
        routed = local is not None and not local.hit
        if routed or (answer.refused and answer.refused != DUPLICATE):
            return examined.fail(number, *refused(examined.role, examined.student, step, answer))
    return None


def _waits_for_all(examined: Examined) -> Finding | None:
    pushes = examined.of("push")
    for number, step, answer in pushes:
        if answer.refused == DUPLICATE:
            return examined.fail(number, *shared_bit(examined.role, examined.student, step, answer))
        last = number == len(pushes)
        if answer.trace.outcome.kind == "drop" and not last:
            continue
        if not last:
            return examined.fail(number, *too_early(examined.role, examined.student, step))
        if answer.trace.outcome.kind == "drop":
            return examined.fail(number, *never_full(examined.role, examined.student))
    by_child = bits(examined.role, examined.student)
    for number, step, _ in pushes:
        bit = by_child.get(step.sender.name, 1)
        if bit.bit_count() != 1:
            problem = f"{step.sender.name} has bit_ {bit:#b} in table peer, which is {bit.bit_count()} bits. "
            problem += "Give each child one bit of its own: 0b1, 0b10, 0b100 ..."
            return examined.fail(number, problem, examined.student.peer(step.port, step.sender.ip))
    return None


def _installed(answer: PacketAnswer) -> str | None:
    """Returns the action that table `job` ran."""
    applied = answer.table(JOBS)
    return None if applied is None else applied.action


def _sum_up(examined: Examined) -> Finding | None:
    number, _, answer = examined.of("push")[-1]
    role, parent = examined.role, examined.role.parent
    if parent is None:  # the root has its own check
        return None
    where = examined.student.where(JOBS)
    if _installed(answer) == ROOT:
        problem = (
            f"job is installed as root: {role.name} sent a RESULT down, but {parent.name} above it has not seen the sum"
        )
        return examined.fail(number, f"{problem}; an inner switch needs action inner", where)
    if not answer.messages:
        return examined.fail(number, "the sum left by no port; look at parent_port", where)
    port, message = answer.messages[0]
    if port != parent.port:
        problem = f"parent_port is {port}, but {parent.name} is behind port {parent.port} of {role.name}"
        return examined.fail(number, problem, where)
    wrong = wrong_address(message.destination, message.udp, end(parent), "parent_")
    if wrong:
        return examined.fail(number, f"{wrong} ({parent.name}'s)", where)
    if message.type != PacketType.PUSH or message.lanes is None or (message.lanes != total(role)).any():
        return examined.fail(number, "what went up is not the sum of its children's lanes", where)
    return None


def _result_down(examined: Examined) -> Finding | None:
    number, _, answer = examined.of("push")[-1]
    if _installed(answer) == INNER:
        problem = "job is installed as inner: the sum went up by a port, but nothing is above the root; use action root"
        return examined.fail(number, problem, examined.student.where(JOBS))
    return _copies(examined, number, answer) or _one_lowest(examined, number)


def _one_lowest(examined: Examined, number: int) -> Finding | None:
    """Checks ``lowest`` at the root by the entries, because a root never sends its sum again."""
    role, student = examined.role, examined.student
    children = [(child.port, child.ip, role.job, role.epoch) for child in role.children]
    lowest = sum(e.arguments[1] for match, e in student.matches(PEERS) if match in children and e.action == CHILD)
    if lowest == 1:
        return None
    return examined.fail(number, f"{lowest} children have lowest: 1; give it to one child", student.where(PEERS))


def _up_again(examined: Examined) -> Finding | None:
    sent = [(number, step) for number, step, answer in examined.of("again") if answer.messages]
    first = examined.of("again")[0][0]
    where = examined.student.where(PEERS)
    if not sent:
        problem = "no child has lowest: 1. When the partial sum gets lost, no child makes the switch send it again"
        return examined.fail(first, f"{problem}; give one child lowest: 1", where)
    if len(sent) > 1:
        names = " and ".join(step.sender.name for _, step in sent)
        problem = (
            f"{names} have lowest: 1: every time-out would send the sum up {len(sent)} times; give it to one child"
        )
        return examined.fail(sent[1][0], problem, examined.student.peer(sent[1][1].port, sent[1][1].sender.ip))
    return None


def _parents_result_down(examined: Examined) -> Finding | None:
    number, step, answer = examined.of("result")[0]
    if answer.refused:
        return examined.fail(number, *refused(examined.role, examined.student, step, answer))
    return _copies(examined, number, answer)


def _copies(examined: Examined, number: int, answer: PacketAnswer) -> Finding | None:
    """Checks that each child gets one RESULT, at its port and with its addresses."""
    finding = copies(examined.role, examined.student, answer)
    if finding is not None:
        return examined.fail(number, *finding)
    for _, message in answer.messages:
        if message.type != PacketType.RESULT or message.lanes is None or (message.lanes != total(examined.role)).any():
            return examined.fail(number, "a copy is not the RESULT with the sum", examined.student.where(JOBS))
    return None


def _replays(examined: Examined) -> Finding | None:
    for number, step, answer in examined.of("replay"):
        there = [(port, message.destination) for port, message in answer.messages]
        if there != [(step.port, end(step.sender))]:
            reason = f" (refused {answer.reason})" if answer.refused else ""
            problem = (
                f"{step.sender.name} asked again for chunk 0, but the cached RESULT did not go to it alone{reason}"
            )
            return examined.fail(number, problem, examined.student.peer(step.port, step.sender.ip))
    return None


def _wrong_ports(examined: Examined) -> Finding | None:
    for number, step, answer in examined.of("wrong"):
        if not answer.refused:
            problem = f"{step.note}: it was taken in. An entry of table peer belongs to one neighbour and its one port"
            return examined.fail(number, problem, examined.student.peer(step.port, step.sender.ip))
    return _strangers(examined)


_BEYOND: Final = {
    (LOCAL, "IncIngress.is_local"): "the switch's own address has an entry there",
    (PEERS, CHILD): "neighbours have an entry there",
    (PEERS, PARENT): "neighbours have an entry there",
}
"""actions that a default entry must not run, and why"""


def _strangers(examined: Examined) -> Finding | None:
    """Checks that `local_address` has the switch's own address alone, and `peer` its neighbours at their ports."""
    role, student = examined.role, examined.student
    for placed in student.entries.tables:
        action = placed.entry.action if isinstance(placed.entry, DefaultEntry) else None
        if action is not None and (placed.table, action) in _BEYOND:
            problem = f"table {short(placed.table)} has a default entry, which is for all packets without another: "
            problem += f"{short(action)}. Only {_BEYOND[placed.table, action]}; remove it"
            return Finding(problem, placed.where)
    for match, _ in student.matches(LOCAL):
        if match != (role.ip,):
            problem = f"table local_address has an entry for {_ip(match[0])}, which is not {role.name}'s address"
            problem += ": packets for another node must be routed on. Remove the entry"
            return Finding(problem, student.where_match(LOCAL, match))
    names = {n.ip: f"{n.name} is behind port {n.port}" for n in role.neighbours} | {role.ip: f"that is {role.name}"}
    for (port, ip, *of), entry in student.matches(PEERS):
        if (port, ip) not in [(n.port, n.ip) for n in role.neighbours]:
            problem = f"table peer has an entry for {_ip(ip)} at port {port}: "
            problem += names.get(ip, f"{role.name} has no such neighbour")
            if of != [role.job, role.epoch]:
                problem += f". It is for job {of[0]}, epoch {of[1]}; no other node has an entry for any job. Remove it"
                return Finding(problem, student.where_match(PEERS, (port, ip, *of)))
            problem += ". A packet that is forged so would be taken in; remove the entry"
            kind = PacketType.PUSH if entry.action == CHILD else PacketType.RESULT
            forged = frame(kind, End(ip, 0x020000000000 | ip), end(role), 1, job=role.job, epoch=role.epoch)
            look = f"p4reduce trace --program 64 --entries {student.path} --port {port} --packet {forged.hex()}"
            return Finding(problem, student.peer(port, ip), look)
    return None


def _remembers(examined: Examined) -> Finding | None:
    """Checks that the chunks of a window and the one before have their own slots, and the next takes the oldest's."""
    role, bench = examined.role, examined.fresh()
    for seq in [*range(SLOTS), 0, SLOTS]:
        left = False
        for child in role.children:
            sent = frame(PacketType.PUSH, end(child), end(role), seq, job=role.job, epoch=role.epoch)
            answer = bench.send(child.port, sent)
            left = left or bool(answer.sent)
            if answer.refused and answer.refused != DUPLICATE:
                return _forgotten(examined, answer, f"{child.name}'s chunk {seq} was refused ({answer.reason})")
        if not left:
            return _forgotten(examined, answer, f"nothing left for chunk {seq}, though all children had sent it")
    if answer.argument(JOBS, "slots") != SLOTS:
        return _forgotten(examined, answer, "slots is not as it was given")
    return None


def _forgotten(examined: Examined, answer: PacketAnswer, problem: str) -> Finding:
    base, slots = answer.argument(JOBS, "base"), answer.argument(JOBS, "slots")
    problem += f": job has base {base} and slots {slots}. slots must be {SLOTS} here, and base + slots at most 4096"
    return Finding(problem, examined.student.where(JOBS))


# leaf2 as a colleague left it: complete, but with three wrong values, which differ between students.


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
    """Returns job and epoch of a student's tree; those of the published solution are 1 and 0."""
    if draws == personal(NAME, EXAMPLE):
        return JOB, EPOCH
    return draws.integer("job", 2, 200), draws.integer("epoch", 1, 100)


def leaf2(draws: Draws, mistakes: int = MISTAKES) -> str:
    """Returns the colleague's file; without mistakes, the correct file."""
    job, epoch = job_of(draws)
    values = dict(RIGHT)
    for name in draws.shuffled("mistakes", sorted(WRONG))[:mistakes]:
        values[name] = draws.choice(f"mistake {name}", WRONG[name])
    return HEAD + BODY.format(job=job, epoch=epoch, **values)


# Questions about the traces of leaf1, with answers of one word.


ANSWERS: Final = "answers.yaml"
QUESTIONED: Final = "leaf1"
"""the switch that the questions are about"""
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
        f"{_TRACE}4; only the child with lowest: 1 makes it send again",
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
    """Returns the file that a student fills in."""
    return sheet("Lab 01, step 12: a number or a letter for each TODO.", QUESTIONS, draws)


def questions(path: Path, draws: Draws, traced: Mapping[str, str]) -> Iterator[Check]:
    """Yields one check for each answer; ``traced`` holds the answers that the student's own switch shows."""
    asked = [
        replace(question, right=(traced[question.key],)) if question.key in traced else question
        for question in QUESTIONS
    ]
    return judge("questions", path, asked, draws)


def traced_answers(role: Role, bench: PacketBench) -> dict[str, str]:
    """Returns the answers of a student's leaf1 for packets 2 to 4; its bits and ``lowest`` may differ from the example.

    Empty if the switch does not take in the first two packets, since nothing can be read from it then.
    """
    answers = [bench.send(step.port, step.frame) for step in script(role)[:4]]
    bits = [answer.argument(PEERS, "bit_") for answer in answers[:2]]
    if not all(bits) or any(answer.refused for answer in answers[:2]):
        return {}
    ports = [str(answer.sent[0][0]) if answer.sent else "0" for answer in answers[2:]]
    return {
        "packet_3_leaves_by": ports[0],
        "packet_4_leaves_by": ports[1],
        "bitmap_before": str(bits[0]),
        "bitmap_after": str(bits[0] | bits[1]),
    }


ROOT_SWITCH: Final = "root"
MOST_COPIES: Final = 64
"""most copies of one multicast group, so that grading ends with any file"""


def grade(task: GradingTask) -> Iterator[Check]:
    """Yields all checks, in the order in which a student would repair them."""
    topology = load(catalogue.home(task.lab) / "network.yaml")
    job, epoch = job_of(task.personal)
    tree = roles(topology, ROOT_SWITCH, job, epoch)
    program = load_program(package_root() / "p4src" / "compiled" / f"p4reduce-{LANES}.json")
    text = TextFormat(program, glossary=of_folder(package_root() / "p4src"))
    students: dict[str, Student] = {}
    right = True

    def fresh(name: str) -> PacketBench:
        return PacketBench(name, program, students[name].entries, text)

    for role in tree.values():
        if not task.only & {role.name, "network"}:
            continue
        path = task.answers / f"{role.name}.yaml"
        finding = _read(path, program, text, students, role)
        if finding is not None:
            packets = packets_folder(task.folder) / f"{role.name}.txt"
            look = f"p4reduce trace --program {LANES} --entries {path} --packet {packets} --only 1"
            finding = Finding(finding.said, finding.where, look)
        yield Check(role.name, f"{path.name} can be loaded into a switch", finding is None, finding)
        right = right and finding is None
        for check in _examine(role, students.get(role.name), program, text, task.folder):
            yield check
            right = right and check.passed is True
    if "network" in task.only:
        yield from examine_network(topology, tree, fresh, tried=right)
    if "questions" in task.only:
        asked = tree[QUESTIONED]
        if asked.name not in students:
            _read(task.answers / f"{asked.name}.yaml", program, text, students, asked)
        traced = traced_answers(asked, fresh(asked.name)) if asked.name in students else {}
        for check in questions(task.answers / ANSWERS, task.personal, traced):
            yield _traced(check, task.answers / f"{asked.name}.yaml", packets_folder(task.folder))


def _traced(check: Check, entries: Path, packets: Path) -> Check:
    """Returns a check of an answer, with the command that traces the packet which its question is about."""
    hint = next(question.hint for question in QUESTIONS if check.title == f"question {question.key}")
    if check.finding is None or not hint.startswith(_TRACE):
        return check
    number = hint.removeprefix(_TRACE)[0]
    look = (
        f"p4reduce trace --program {LANES} --entries {entries} --packet {packets / f'{QUESTIONED}.txt'} --only {number}"
    )
    return replace(check, finding=replace(check.finding, look=f"{look} --brief"))


def _examine(role: Role, student: Student | None, program: Program, text: TextFormat, folder: Path) -> list[Check]:
    if student is None:
        return [Check(role.name, title, None) for title in titles(role)]
    packets = packets_folder(folder) / f"{role.name}.txt"

    def look(number: int) -> str:
        return f"p4reduce trace --program {LANES} --entries {student.path} --packet {packets} --only {number}"

    return examine(role, student, lambda: PacketBench(role.name, program, student.entries, text), look)


def packets_folder(folder: Path) -> Path:
    """Returns the folder of packets beside a student's files."""
    return next((path for path in (folder / "packets", folder.parent / "packets") if path.is_dir()), Path("packets"))


def _read(path: Path, program: Program, text: TextFormat, students: dict[str, Student], role: Role) -> Finding | None:
    """Loads a file and tries it on a switch; returns what is wrong with it, or None."""
    todos = todo_lines(path)
    if todos:
        lines = ", ".join(str(line) for line in todos[:8]) + (", ..." if len(todos) > 8 else "")
        still = "still says" if len(todos) == 1 else "still say"
        problem = (
            f"{counted(len(todos), 'line')} {still} TODO (that is how the lab begins): fill them in, see README.md"
        )
        return Finding(problem, f"{path}, line {lines}")
    try:
        entries: Entries = load_entries(path, program)
        PacketBench(path.stem, program, entries, text)
    except EntriesError as error:
        return Finding(str(error))
    for group, replicas in entries.groups.items():
        if len(replicas) > MOST_COPIES:
            problem = f"multicast group {group} makes {len(replicas)} copies; one for each child is enough"
            return Finding(problem, f"{path}: multicast")
    students[path.stem] = Student(path, entries, role.job, role.epoch)
    return None
