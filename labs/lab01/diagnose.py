"""From what a switch did wrong to the entry that made it so. Each function gives (what to say, where it stands)."""

from __future__ import annotations

from typing import Final

from p4reduce.dataplane.tables import Exact
from p4reduce.dataplane.trace.values import show
from p4reduce.labs.lab01.bench import CHILD, JOBS, LOCAL, PEERS, REPLICAS, Answer, Student
from p4reduce.labs.lab01.frames import End
from p4reduce.labs.lab01.script import Step, end
from p4reduce.labs.lab01.tree import Neighbour, Role
from p4reduce.workers.wire import INC_UDP_PORT

__all__ = ["JOBS", "LOCAL", "PEERS", "copies", "never_full", "refused", "shared_bit", "too_early", "wrong_address"]

Said = tuple[str, str]

_JOB: Final = 7
_PEER: Final = 8
_TYPE: Final = 9
_KIND: Final = 12
_RESULT: Final = 14
"""Reasons of p4src/refuse.p4 that have a message of their own."""


def refused(role: Role, student: Student, step: Step, answer: Answer) -> Said:
    """A packet of a neighbour that the switch should have taken in."""
    sender = step.sender
    local = answer.table(LOCAL)
    if local is not None and not local.hit:
        said = (
            f"table local_address has no entry for {_ip(role.ip)}, {role.name}'s own address: "
            f"{sender.name}'s packet was routed on instead of summed"
        )
        return said, student.where(LOCAL)
    match answer.refused:
        case number if number == _JOB:
            return f"table job has no entry for job {role.job}, epoch {role.epoch}", student.where(JOBS)
        case number if number == _PEER:
            return _unknown(role, student, sender)
        case number if number == _TYPE:
            return _wrong_kind(role, student, sender)
        case number if number == _KIND:
            said = "a first contribution was refused: generation must be 1 or more, since 0 marks empty slots"
            return said, student.where(JOBS)
        case number if number == _RESULT:
            return _unexpected_result(role, student, sender, answer)
    return f"{sender.name}'s packet was refused: {answer.reason}", student.where(JOBS)


def _unknown(role: Role, student: Student, sender: Neighbour) -> Said:
    said = (
        f"table peer has no entry for {sender.name}: port {sender.port}, {_ip(sender.ip)}, "
        f"job {role.job}, epoch {role.epoch}"
    )
    for entry in student.entries.of(PEERS):
        port, ip, *_ = (m.value for m in entry.match if isinstance(m, Exact))
        if ip == sender.ip and port != sender.port:
            said += f". There is one for port {port}, but {sender.name} is behind port {sender.port} of {role.name}"
            return said, student.where_match(PEERS, tuple(m.value for m in entry.match if isinstance(m, Exact)))
        if port == sender.port and ip != sender.ip:
            said += f". There is one for {_ip(ip)} at port {port}"
            return said, student.where_match(PEERS, tuple(m.value for m in entry.match if isinstance(m, Exact)))
    return said, student.peer(sender.port, sender.ip)


def _wrong_kind(role: Role, student: Student, sender: Neighbour) -> Said:
    wanted, found = ("child", "parent") if sender in role.children else ("parent", "child")
    said = (
        f"table peer says that {sender.name} is a {found} of {role.name}, but it is its {wanted}: use action {wanted}"
    )
    return said, student.peer(sender.port, sender.ip)


def _unexpected_result(role: Role, student: Student, sender: Neighbour, answer: Answer) -> Said:
    full = answer.argument(JOBS, "full")
    said = (
        f"the RESULT from {sender.name} was refused ({answer.reason}): the slot was not full ({full:#b}) "
        "or done already. If job is installed as root, it is done too early: an inner switch needs action inner"
    )
    return said, student.where(JOBS)


def bits(role: Role, student: Student) -> dict[str, int]:
    """The bit that table `peer` gives each child; children without an entry are left out."""
    found = {}
    for child in role.children:
        for entry in student.entries.of(PEERS):
            values = tuple(m.value for m in entry.match if isinstance(m, Exact))
            if values == (child.port, child.ip, role.job, role.epoch) and entry.action == CHILD:
                found[child.name] = entry.arguments[0]
    return found


def shared_bit(role: Role, student: Student, step: Step, answer: Answer) -> Said:
    """A first contribution that was taken for a repetition."""
    name = step.sender.name
    said = f"{name}'s contribution was taken for a repetition (refused {answer.reason})"
    return f"{said}: {_sharing(role, student, name)}", student.peer(step.port, step.sender.ip)


def _sharing(role: Role, student: Student, name: str) -> str:
    """Which children have a bit in common with the named one; empty where none has."""
    found = bits(role, student)
    mine = found.get(name, 0)
    others = [other for other, bit in found.items() if other != name and bit & mine]
    if not others:
        return ""
    return (
        f"{name} and {' and '.join(others)} share the bit {mine:#b} in table peer. "
        "Give each child a bit_ of its own: 0b1, 0b10, 0b100 ..."
    )


def _full(student: Student) -> int:
    for entry in student.entries.of(JOBS):
        if tuple(m.value for m in entry.match if isinstance(m, Exact)) == (student.job, student.epoch):
            return entry.arguments[3]
    return 0


def _bits_text(role: Role, student: Student) -> str:
    found = bits(role, student)
    union = 0
    for bit in found.values():
        union |= bit
    listed = ", ".join(f"{name} {bit:#b}" for name, bit in found.items())
    return f"The children's bits are {listed}, together {union:#b}; job's full is {_full(student):#b}"


def too_early(role: Role, student: Student, step: Step) -> Said:
    """Something left before all children had contributed."""
    said = f"{role.name} answered after {step.sender.name}'s contribution already, without waiting for the others. "
    if sharing := _sharing(role, student, step.sender.name):
        return said + sharing, student.peer(step.port, step.sender.ip)
    return said + _bits_text(role, student) + ": full must be all of the bits", student.where(JOBS)


def never_full(role: Role, student: Student) -> Said:
    """Nothing left though all children had contributed."""
    found = bits(role, student)
    for child in role.children:
        if found.get(child.name) == 0:
            said = f"{child.name} has bit_ 0 in table peer: its contribution is added but never noted. Give it a bit"
            return said, student.peer(child.port, child.ip)
    said = f"all children of {role.name} have contributed, but nothing left: the slot waits for ever. "
    return said + _bits_text(role, student) + ": full must be all of the bits and no other", student.where(JOBS)


def copies(role: Role, student: Student, answer: Answer) -> Said | None:
    """The copies of a RESULT: one for each child. None where all is right."""
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
            said = (
                f"table replica has no entry for rid {rid}: the copy for {child.name} (port {child.port}) left with "
                "the addresses of another node, and its host drops it"
            )
            return (said if rid else f"the copy for {child.name} has rid 0: give each copy a rid from 1 up"), where
        sent = [message for port, message in answer.messages if port == child.port]
        wrong = "nothing left" if not sent else wrong_address(sent[0].destination, sent[0].udp, end(child), "")
        if wrong:
            return f"the copy for {child.name} (rid {rid}): {wrong} ({child.name}'s)", where
    if len(replicas) != len(role.children):
        said = f"multicast group {group} has {len(replicas)} copies, but {role.name} has {len(role.children)} children"
        return said, place
    return None


def wrong_address(found: End, udp: int, wanted: End, prefix: str) -> str:
    """The first of MAC, IPv4 and UDP that is not the wanted one; empty where all are."""
    if found.ip != wanted.ip:
        return f"{prefix}ip is {_ip(found.ip)}, expected {_ip(wanted.ip)}"
    if found.mac != wanted.mac:
        return f"{prefix}mac is {show(found.mac, 'mac', 48)}, expected {show(wanted.mac, 'mac', 48)}"
    return f"{prefix}udp is {udp}, expected {INC_UDP_PORT}" if udp != INC_UDP_PORT else ""


def _ip(value: int) -> str:
    return show(value, "ip", 32)
