"""One switch of the tree, examined packet by packet: what it must do, and what its entries say when it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from p4reduce.dataplane.trace.values import show
from p4reduce.labs.frame.report import Check, Finding
from p4reduce.labs.lab01 import diagnose
from p4reduce.labs.lab01.bench import INNER, ROOT, Answer, Bench, Student
from p4reduce.labs.lab01.frames import End, frame
from p4reduce.labs.lab01.script import Step, end, script, total
from p4reduce.labs.lab01.tree import SLOTS, Role
from p4reduce.workers.wire import PacketType

Look = Callable[[int], str]
"""The command that traces packet number n of the script."""

DUPLICATE: Final = 13


@dataclass(frozen=True)
class Examined:
    """A switch after the script.

    Attributes:
        answers: one for each step.
        fresh: makes the switch anew, with empty slots.
    """

    role: Role
    student: Student
    steps: list[Step]
    answers: list[Answer]
    look: Look
    fresh: Callable[[], Bench]

    def of(self, purpose: str) -> list[tuple[int, Step, Answer]]:
        """Number (from 1), step and answer of the steps with a purpose."""
        pairs = zip(self.steps, self.answers, strict=True)
        return [(n, step, answer) for n, (step, answer) in enumerate(pairs, start=1) if step.purpose == purpose]

    def fail(self, number: int, said: str, where: str) -> Finding:
        """What is wrong, seen in packet ``number`` of the script."""
        return Finding(said, where, self.look(number))


def examine(role: Role, student: Student, fresh: Callable[[], Bench], look: Look) -> list[Check]:
    """All checks of a switch; after the first that fails the others are not tried."""
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
    """What is checked of a switch."""
    return [title for title, _ in _checks(role)]


def _checks(role: Role) -> list[tuple[str, Callable[[Examined], Finding | None]]]:
    children = " and ".join(child.name for child in role.children)
    found: list[tuple[str, Callable[[Examined], Finding | None]]] = [
        (f"takes in what {children} push", _takes_in),
        (f"waits for {children}, then answers once", _waits_for_all),
    ]
    if role.parent is None:
        found.append((f"sends the sum down to {children}", _result_down))
    else:
        found.append((f"sends the sum up to {role.parent.name}", _sum_up))
        found.append(("sends the sum up again when its first child asks again", _up_again))
        found.append((f"sends {role.parent.name}'s RESULT down to {children}", _parents_result_down))
    found.append(("answers a retransmission from its slot, to that child only", _replays))
    found.append(("takes nothing from a wrong port", _wrong_ports))
    found.append((f"remembers the last {SLOTS} chunks", _remembers))
    return found


def _takes_in(examined: Examined) -> Finding | None:
    for number, step, answer in examined.of("push"):
        local = answer.table(diagnose.LOCAL)
        routed = local is not None and not local.hit
        if routed or (answer.refused and answer.refused != DUPLICATE):
            return examined.fail(number, *diagnose.refused(examined.role, examined.student, step, answer))
    return None


def _waits_for_all(examined: Examined) -> Finding | None:
    pushes = examined.of("push")
    for number, step, answer in pushes:
        if answer.refused == DUPLICATE:
            return examined.fail(number, *diagnose.shared_bit(examined.role, examined.student, step, answer))
        last = number == len(pushes)
        if answer.trace.outcome.kind == "drop" and not last:
            continue
        if not last:
            return examined.fail(number, *diagnose.too_early(examined.role, examined.student, step))
        if answer.trace.outcome.kind == "drop":
            return examined.fail(number, *diagnose.never_full(examined.role, examined.student))
    return None


def _installed(answer: Answer) -> str | None:
    """The action that table `job` ran."""
    applied = answer.table(diagnose.JOBS)
    return None if applied is None else applied.action


def _sum_up(examined: Examined) -> Finding | None:
    number, _, answer = examined.of("push")[-1]
    role, parent = examined.role, examined.role.parent
    if parent is None:  # the root has a check of its own
        return None
    where = examined.student.where(diagnose.JOBS)
    if _installed(answer) == ROOT:
        said = (
            f"job is installed as root: {role.name} sent a RESULT down, but {parent.name} above it has not seen the sum"
        )
        return examined.fail(number, f"{said}; an inner switch needs action inner", where)
    if not answer.messages:
        return examined.fail(number, "the sum left by no port; look at parent_port", where)
    port, message = answer.messages[0]
    if port != parent.port:
        said = f"parent_port is {port}, but {parent.name} is behind port {parent.port} of {role.name}"
        return examined.fail(number, said, where)
    wrong = diagnose.wrong_address(message.destination, message.udp, end(parent), "parent_")
    if wrong:
        return examined.fail(number, f"{wrong} ({parent.name}'s)", where)
    if message.type != PacketType.PUSH or message.lanes is None or (message.lanes != total(role)).any():
        return examined.fail(number, "what went up is not the sum of its children's lanes", where)
    return None


def _result_down(examined: Examined) -> Finding | None:
    number, _, answer = examined.of("push")[-1]
    if _installed(answer) == INNER:
        said = "job is installed as inner: the sum went up by a port, but nothing is above the root; use action root"
        return examined.fail(number, said, examined.student.where(diagnose.JOBS))
    return _copies(examined, number, answer)


def _up_again(examined: Examined) -> Finding | None:
    sent = [(number, step) for number, step, answer in examined.of("again") if answer.messages]
    first = examined.of("again")[0][0]
    where = examined.student.where(diagnose.PEERS)
    if not sent:
        said = "no child has lowest: 1. When the partial sum gets lost, nobody makes the switch send it again"
        return examined.fail(first, f"{said}; give one child lowest: 1", where)
    if len(sent) > 1:
        names = " and ".join(step.sender.name for _, step in sent)
        said = f"{names} have lowest: 1: every time-out would send the sum up {len(sent)} times; give it to one child"
        return examined.fail(sent[1][0], said, examined.student.peer(sent[1][1].port, sent[1][1].sender.ip))
    return None


def _parents_result_down(examined: Examined) -> Finding | None:
    number, step, answer = examined.of("result")[0]
    if answer.refused:
        return examined.fail(number, *diagnose.refused(examined.role, examined.student, step, answer))
    return _copies(examined, number, answer)


def _copies(examined: Examined, number: int, answer: Answer) -> Finding | None:
    """One RESULT for each child, by its port and with its addresses."""
    finding = diagnose.copies(examined.role, examined.student, answer)
    if finding is not None:
        return examined.fail(number, *finding)
    for _, message in answer.messages:
        if message.type != PacketType.RESULT or message.lanes is None or (message.lanes != total(examined.role)).any():
            return examined.fail(number, "a copy is not the RESULT with the sum", examined.student.where(diagnose.JOBS))
    return None


def _replays(examined: Examined) -> Finding | None:
    for number, step, answer in examined.of("replay"):
        there = [(port, message.destination) for port, message in answer.messages]
        if there != [(step.port, end(step.sender))]:
            reason = f" (refused {answer.reason})" if answer.refused else ""
            said = f"{step.sender.name} asked again for chunk 0, but the cached RESULT did not go to it alone{reason}"
            return examined.fail(number, said, examined.student.peer(step.port, step.sender.ip))
    return None


def _wrong_ports(examined: Examined) -> Finding | None:
    for number, step, answer in examined.of("wrong"):
        if not answer.refused:
            said = f"{step.note}: it was taken in. An entry of table peer belongs to one neighbour and its one port"
            return examined.fail(number, said, examined.student.peer(step.port, step.sender.ip))
    role = examined.role
    strangers = {n.name: n.ip for n in role.neighbours} | {role.name: role.ip, "a stranger": 0x0A0000FE}
    for port in range(1, len(role.neighbours) + 2):
        for name, ip in strangers.items():
            if (port, ip) in [(n.port, n.ip) for n in role.neighbours]:
                continue
            data = frame(PacketType.PUSH, End(ip, 0x020000000000 | ip), end(role), 1, job=role.job, epoch=role.epoch)
            if not examined.fresh().send(port, data).refused:
                said = (
                    f"a PUSH by port {port} with {name}'s address {show(ip, 'ip', 32)} was taken in; remove the entry"
                )
                look = (
                    f"p4reduce trace --program 64 --entries {examined.student.path} --port {port} --packet {data.hex()}"
                )
                return Finding(said, examined.student.peer(port, ip), look)
    return None


def _remembers(examined: Examined) -> Finding | None:
    """All chunks of a window and the one before are in slots of their own, and the next one takes the oldest's slot."""
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
    return None


def _forgotten(examined: Examined, answer: Answer, said: str) -> Finding:
    base, slots = answer.argument(diagnose.JOBS, "base"), answer.argument(diagnose.JOBS, "slots")
    said += f": job has base {base} and slots {slots}. slots must be {SLOTS} here, and base + slots at most 4096"
    return Finding(said, examined.student.where(diagnose.JOBS))
