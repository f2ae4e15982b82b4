"""Cases for the project's own program: a switch in the middle of two jobs; packets are valid or nearly valid."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from p4switch.tables import Exact, Lpm, TableEntry, Ternary
from tests.support.conformance.fuzz.operations import Insert, Operation, Send, SetDefault, SetGroup
from tests.support.conformance.fuzz.shape import Shape
from tests.support.golden.frames import Kind, Packet, encode

LANES: Final = 64
OWN_ADDRESS: Final = 0x0A800001
CHILDREN: Final = 3
PARENT_PORT: Final = 7
PARENT_ADDRESS: Final = 0x0A800002
GROUP: Final = 5
SLOTS: Final = 4
EDGES: Final = (0, 1, 0x7FFFFFFF, -0x80000000, -1)


def make(shape: Shape, rng: random.Random, packets: int) -> list[Operation]:
    """Returns a case: entries, then packets of two jobs: those of a tree, some resent, and some stray ones."""
    operations = _entries(rng)
    jobs = {job: _chunks(rng, job) for job in (1, 2)}
    last: tuple[int, bytes] | None = None
    for _ in range(packets):
        draw = rng.random()
        if draw < 0.04:
            operations.append(SetDefault("IncIngress.settings", *_settings(rng)))
        if draw < 0.75 or last is None:
            last = next(jobs[rng.choice((1, 2))])
            operations.append(Send(*last))
        elif draw < 0.82:
            operations.append(Send(*last))
        else:
            operations.append(Send(*_stray(rng)))
    return operations


def _chunks(rng: random.Random, job: int) -> Iterator[tuple[int, bytes]]:
    """Yields chunk after chunk: a PUSH or PULL of each child in any order, then, for the inner switch, the RESULT."""
    for seq in itertools.count():
        kind = rng.choice((Kind.PUSH, Kind.PUSH, Kind.PUSH, Kind.PULL))
        lanes = kind == Kind.PUSH and rng.random() < 0.85
        for child in rng.sample(range(CHILDREN), CHILDREN):
            yield child + 1, encode(_packet(rng, child_address(child), kind, job, 0, seq, lanes=lanes))
        if job == 2:
            yield PARENT_PORT, encode(_packet(rng, PARENT_ADDRESS, Kind.RESULT, job, 0, seq, lanes=lanes))


def child_address(child: int) -> int:
    """Returns the IPv4 address of a child."""
    return 0x0A000001 + child


def token_of(address: int) -> int:
    """Returns the token of a neighbour, for jobs that use tokens."""
    return address * 0x9E3779 & 0xFFFFFF


def _entries(rng: random.Random) -> list[Operation]:
    made: list[Operation] = [
        SetDefault("IncIngress.settings", *_settings(rng)),
        Insert("IncIngress.local_address", TableEntry((Exact(OWN_ADDRESS),), "IncIngress.is_local")),
        SetGroup(GROUP, tuple((child + 1, child + 1) for child in range(CHILDREN))),
    ]
    for child in range(CHILDREN):
        address = (0x020000000000 + child, child_address(child), 9400 + child)
        told, arguments = rng.choice((
            ("address", address), ("address_with_token", (*address, token_of(child_address(child)))),
            ("address_or_late", (*address, token_of(child_address(child)), 1 << child)),
        ))  # fmt: skip
        made.append(
            Insert("IncEgress.depart.replica", TableEntry((Exact(child + 1),), f"IncEgress.depart.{told}", arguments))
        )
        next_hop = (child + 1, 0x020000000000 + child)
        made.append(
            Insert(
                "IncIngress.forward.route",
                TableEntry((Lpm(child_address(child), 32),), "IncIngress.forward.next_hop", next_hop),
            )
        )
        if rng.random() < 0.7:
            edge = TableEntry((Exact(child + 1),), "IncIngress.forward.host", (child_address(child),))
            made.append(Insert("IncIngress.forward.edge", edge))
    anywhere = TableEntry((Lpm(0x0A000000, 8),), "IncIngress.forward.next_hop", (6, 0x0200000000FF))
    made.append(Insert("IncIngress.forward.route", anywhere))
    made += _classes(rng)
    for job in (1, 2):
        for epoch in (0, 1):
            made += _job(rng, job, epoch)
    return made


def _settings(rng: random.Random) -> tuple[str, tuple[int, ...]]:
    return "IncIngress.configure", (rng.choice((0, 1, 100)), rng.choice((0, 0, 3)))


def _classes(rng: random.Random) -> list[Operation]:
    made: list[Operation] = []
    for number in range(rng.randrange(4)):
        job = Ternary(1, 1) if rng.random() < 0.5 else Ternary(0, 0)
        match = job, Ternary(rng.randrange(2), 1), Ternary(0, 0)
        entry = TableEntry(match, *_class(rng), number + 1)
        made.append(Insert("IncIngress.traffic_class", entry))
    for point in rng.sample(range(64), rng.randrange(4)):
        entry = TableEntry((Exact(point),), "IncIngress.prioritize", (rng.randrange(8),))
        made.append(Insert("IncIngress.dscp_class", entry))
    return made


def _class(rng: random.Random) -> tuple[str, tuple[int, ...]]:
    """Returns an action that sets a fixed class, or one that depends on the age of the batch."""
    if rng.random() < 0.5:
        return "IncIngress.prioritize", (rng.randrange(8),)
    base = rng.randrange(8)
    return "IncIngress.by_lag", (rng.randrange(2), rng.randrange(3), base, rng.randrange(8 - base))


def _job(rng: random.Random, job: int, epoch: int) -> list[Operation]:
    key = Exact(job), Exact(epoch)
    full = (1 << CHILDREN) - 1
    slots = (job * 16 + epoch + 1, (job - 1) * SLOTS, SLOTS, full, GROUP, job - 1)
    parent = (PARENT_PORT, 0x0200000000AA, PARENT_ADDRESS, 9400)
    known = rng.random() < 0.6
    if job == 1:
        entry = TableEntry(key, "IncIngress.aggregate.root", slots)
    else:
        entry = _known("inner", key, (*slots, *parent), PARENT_ADDRESS, known)
    made: list[Operation] = [Insert("IncIngress.aggregate.job", entry)]
    for child in range(CHILDREN):
        who = Exact(child + 1), Exact(child_address(child)), *key
        entry = _known("child", who, (1 << child, int(child == 0)), child_address(child), known)
        made.append(Insert("IncIngress.aggregate.peer", entry))
    above = Exact(PARENT_PORT), Exact(PARENT_ADDRESS), *key
    made.append(Insert("IncIngress.aggregate.peer", _known("parent", above, (), PARENT_ADDRESS, known)))
    return made


def _known(action: str, key: tuple[Exact, ...], arguments: tuple[int, ...], address: int, known: bool) -> TableEntry:
    """Returns an entry whose action has a token if ``known``."""
    if known:
        return TableEntry(key, f"IncIngress.aggregate.{action}_with_token", (*arguments, token_of(address)))
    return TableEntry(key, f"IncIngress.aggregate.{action}", arguments)


def _stray(rng: random.Random) -> tuple[int, bytes]:
    """Returns a packet of a random sender, job and kind, possibly broken."""
    sender = rng.randrange(CHILDREN + 1)
    port, address = (PARENT_PORT, PARENT_ADDRESS) if sender == CHILDREN else (sender + 1, child_address(sender))
    kind = rng.choice((Kind.PUSH, Kind.PULL, Kind.RESULT, Kind.RESULT, 0, 4, 15))
    packet = _packet(
        rng, address, kind, rng.choice((1, 2, 3)), rng.randrange(2), rng.randrange(8), lanes=rng.random() < 0.7
    )
    if rng.random() < 0.4:
        packet = replace(packet, ip_dst=child_address(rng.randrange(CHILDREN + 2)), ttl=rng.choice((64, 1, 0)))
        if rng.random() < 0.7:
            packet = replace(packet, ip_src=rng.choice((PARENT_ADDRESS, child_address(rng.randrange(CHILDREN)))))
    return port if rng.random() < 0.9 else rng.randrange(8), _broken(rng, encode(packet))


def _packet(rng: random.Random, source: int, kind: int, job: int, epoch: int, seq: int, *, lanes: bool) -> Packet:
    return Packet(
        eth_dst=0x020000000001,
        eth_src=0x020000000002,
        ip_src=source,
        ip_dst=OWN_ADDRESS,
        udp_src=9400,
        udp_dst=9400,
        kind=kind,
        job=job,
        epoch=epoch,
        seq=seq,
        lanes=_lanes(rng) if lanes else None,
        count=rng.randrange(1, 4),
        exponent=rng.randrange(256),
        iteration=rng.choice((0, 1, 2, 3, 7, 0x7FFFFFFF, 0x80000001, 0xFFFFFFFF)),
        resend=rng.random() < 0.1,
        saturated=rng.random() < 0.05,
        ecn_echo=rng.random() < 0.1,
        ecn=rng.randrange(4),
        token=token_of(source) if rng.random() < 0.9 else rng.choice((0, rng.randrange(1 << 24))),
    )


def _lanes(rng: random.Random) -> tuple[int, ...]:
    if rng.random() < 0.5:
        return tuple(rng.randrange(-1000, 1000) for _ in range(LANES))
    return tuple(rng.choice(EDGES) for _ in range(LANES))


def _broken(rng: random.Random, frame: bytes) -> bytes:
    """Returns the frame, sometimes cut, lengthened or with one bit flipped."""
    draw = rng.random()
    if draw < 0.1:
        return frame[: rng.randrange(1, len(frame))]
    if draw < 0.2:
        return frame + rng.randbytes(rng.randrange(1, 20))
    if draw < 0.4:
        changed = bytearray(frame)
        changed[rng.randrange(min(62, len(frame)))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    return frame
