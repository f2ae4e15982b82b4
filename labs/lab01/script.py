"""The packets with which a switch is examined, in their order; ``packets/*.txt`` of the lab holds the same."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from p4reduce.labs.lab01.frames import End, Lanes, contribution, frame
from p4reduce.labs.lab01.tree import Neighbour, Role
from p4reduce.workers.wire import PacketType

Purpose: TypeAlias = Literal["push", "again", "result", "replay", "wrong"]


@dataclass(frozen=True)
class Step:
    """One packet.

    Attributes:
        purpose: ``push`` a first contribution, ``again`` a repetition before the RESULT, ``result`` the RESULT from
            the parent, ``replay`` a repetition after it, ``wrong`` a packet by a port that is not its sender's.
        sender: whose addresses it carries.
    """

    port: int
    frame: bytes
    note: str
    purpose: Purpose
    sender: Neighbour


def script(role: Role) -> list[Step]:
    """All packets for a switch: chunk 0 from every child, its repetitions and its RESULT, then chunk 1 gone astray."""
    return list(_steps(role))


def _steps(role: Role) -> Iterator[Step]:
    for number, child in enumerate(role.children):
        yield _up(role, child, number, "push", f"PUSH of chunk 0 from {child.name}")
    parent = role.parent
    if parent is not None:
        for number, child in enumerate(role.children):
            yield _up(role, child, number, "again", f"the same from {child.name} again: the RESULT is not here yet")
        down = frame(
            PacketType.RESULT,
            end(parent),
            end(role),
            0,
            total(role),
            count=role.workers,
            job=role.job,
            epoch=role.epoch,
        )
        yield Step(parent.port, down, f"RESULT of chunk 0 from {parent.name}", "result", parent)
    for number, child in enumerate(role.children):
        yield _up(role, child, number, "replay", f"the same from {child.name} again: its RESULT got lost")
    other = role.neighbours[1]
    first = role.children[0]
    astray = frame(PacketType.PUSH, end(first), end(role), 1, contribution(0, 1), job=role.job, epoch=role.epoch)
    yield Step(
        other.port, astray, f"PUSH of chunk 1 from {first.name}'s address, but by port {other.port}", "wrong", first
    )
    if parent is not None:
        forged = frame(
            PacketType.RESULT,
            end(parent),
            end(role),
            0,
            total(role),
            count=role.workers,
            job=role.job,
            epoch=role.epoch,
        )
        yield Step(
            first.port, forged, f"RESULT from {parent.name}'s address, but by port {first.port}", "wrong", parent
        )


def _up(role: Role, child: Neighbour, number: int, purpose: Purpose, note: str) -> Step:
    again = purpose != "push"
    lanes = contribution(number, 0)
    sent = frame(PacketType.PUSH, end(child), end(role), 0, lanes, resend=again, job=role.job, epoch=role.epoch)
    return Step(child.port, sent, note, purpose, child)


def total(role: Role) -> Lanes:
    """What the children's contributions of chunk 0 add up to, int32, shape (64,)."""
    lanes = [contribution(number, 0) for number in range(len(role.children))]
    summed: Lanes = np.sum(lanes, axis=0, dtype=np.int32)
    return summed


def end(node: Role | Neighbour) -> End:
    """A node's addresses."""
    return End(node.ip, node.mac)


def as_text(role: Role) -> str:
    """The packets as a file for ``p4reduce trace --packet``."""
    lines = [f"# What the grader sends to {role.name}: port, frame, remark."]
    lines += [f"{step.port} {step.frame.hex()} # {step.note}" for step in script(role)]
    return "\n".join(lines) + "\n"
