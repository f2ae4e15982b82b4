"""Forged and damaged frames to a switch in the middle of a job, compared with the golden model at each frame."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.support.golden.choices import SeededChoices
from tests.support.golden.frames import INC_PORT, Frame, Kind, Packet, decode, encode
from tests.support.golden.p4 import ComparedSwitch, P4Backend
from tests.support.golden.spoof import spoof
from tests.support.golden.tables import Address, GroupEntry, JobEntry, PeerEntry, ReplicaEntry, RouteEntry
from tests.support.golden.work import noise

SWITCH_IP: Final = 0x0A800001
PARENT_IP: Final = 0x0A800002
CHILDREN: Final = {port: 0x0A000000 + port for port in (1, 2, 3)}
PARENT_PORT: Final = 4
JOB, EPOCH, SLOTS = 7, 3, 8
TOKENS: Final = {1: 0xABCDEF, 2: 0x000001, PARENT_PORT: 0x800000}
"""tokens by port; the third child has none"""
SOURCE_MAC: Final = 6
"""First byte that is damaged: the Ethernet destination stays, since switches accept any and use it when they reply."""
CHECK_EVERY: Final = 500
"""frames between two comparisons of all slots and counters"""


def victim(lanes: int) -> ComparedSwitch:
    """Return a switch with a job of three children and a parent, and routes to all of them."""
    switch = P4Backend(lanes).switch(SWITCH_IP, 0x020000000000 | SWITCH_IP, 0xFF)
    nodes = {**CHILDREN, PARENT_PORT: PARENT_IP}
    copies = tuple((port, port) for port in CHILDREN)
    parent = Address(PARENT_PORT, 0x020000000000 | PARENT_IP, PARENT_IP, INC_PORT)
    entries = [
        *(RouteEntry(ip, port, 0x020000000000 | ip) for port, ip in nodes.items()),
        *(
            ReplicaEntry(port, 0x020000000000 | ip, ip, INC_PORT, token=TOKENS.get(port, 0))
            for port, ip in CHILDREN.items()
        ),
        GroupEntry(1, copies),
        *(
            PeerEntry(port, ip, JOB, EPOCH, 1 << place, not place, TOKENS.get(port, 0))
            for place, (port, ip) in enumerate(CHILDREN.items())
        ),
        PeerEntry(PARENT_PORT, PARENT_IP, JOB, EPOCH, 0, token=TOKENS[PARENT_PORT]),
        JobEntry(JOB, EPOCH, 1, 0, SLOTS, 0b111, 1, 0, parent, TOKENS[PARENT_PORT]),
    ]
    for entry in entries:
        switch.write(entry, insert=True)
    return switch


def play(count: int, seed: int, lanes: int = 64) -> Iterator[Counter[str]]:
    """Send ``count`` frames; after every comparison yield the counts since the last one, by reason.

    Raises:
        AssertionError: The program and the model differ; the message has the frame.
    """
    choices, switch, happened = SeededChoices(seed), victim(lanes), Counter[str]()
    for number in range(1, count + 1):
        port, frame = _next(choices, switch)
        outcome = switch.receive(port, frame)
        happened["frames"] += 1
        happened[f"frames: {outcome.refused.name if outcome.refused else 'taken or forwarded'}"] += 1
        if number % CHECK_EVERY == 0 or number == count:
            switch.check()
            yield happened
            happened = Counter()


def _next(choices: SeededChoices, switch: ComparedSwitch) -> tuple[int, Frame]:
    """Return a forged frame, a damaged one, or sometimes a valid one, so that slots reach every state."""
    kind = choices.integer(0, 9)
    if kind < 5:
        forged = spoof(choices, switch.golden)
        if forged is not None:
            return forged[0], forged[1]
    honest_port, honest = _honest(choices, switch)
    if kind < 8:
        raw = bytearray(encode(honest))
        for _ in range(choices.integer(1, 8)):
            raw[choices.integer(SOURCE_MAC, min(len(raw), 100) - 1)] ^= 1 << choices.integer(0, 7)
        cut = len(raw) if choices.chance(70) else choices.integer(1, len(raw))
        port = honest_port if choices.chance(70) else choices.integer(0, 12)
        return port, decode(bytes(raw[:cut]), switch.golden.lanes)
    return honest_port, honest


def _honest(choices: SeededChoices, switch: ComparedSwitch) -> tuple[int, Packet]:
    """Return a child's next or repeated push, or the parent's result."""
    port = choices.pick([*CHILDREN, PARENT_PORT])
    lanes = switch.golden.lanes
    known = [slot.seq for slot in switch.golden.slots.values()] or [0]
    seq = choices.pick(known) + choices.integer(0, 1) * SLOTS
    ip = CHILDREN.get(port, PARENT_IP)
    return port, Packet(
        eth_dst=switch.golden.mac,
        eth_src=0x020000000000 | ip,
        ip_src=ip,
        ip_dst=SWITCH_IP,
        udp_src=INC_PORT,
        udp_dst=INC_PORT,
        kind=Kind.PUSH if port in CHILDREN else Kind.RESULT,
        job=JOB,
        epoch=EPOCH,
        seq=(seq if choices.chance(60) else choices.integer(0, 4 * SLOTS)) % 2**32,
        lanes=noise(lanes, "honest", 0, 0, choices.integer(0, 99)) if choices.chance(80) else None,
        count=choices.integer(0, 3),
        exponent=choices.integer(0, 255),
        resend=choices.chance(20),
        token=TOKENS.get(port, 0),
    )
