"""Packets that a switch must refuse: forged, malformed, cut off or random, each with the reason that is counted."""

from collections.abc import Callable
from dataclasses import replace

from tests.support.golden.choices import Choices
from tests.support.golden.frames import (
    HEADER_BYTES,
    INC_PORT,
    SEQ_MODULUS,
    Frame,
    Kind,
    Packet,
    decode,
    encode,
    with_checksum,
)
from tests.support.golden.reasons import Reason
from tests.support.golden.switch import GoldenSwitch
from tests.support.golden.tables import JobEntry, PeerEntry
from tests.support.golden.work import noise

STRANGER_IP = 0xC0A80101
"""192.168.1.1, an address of no node"""

Spoof = tuple[int, Frame, Reason]
"""ingress port, frame, and the reason for which it must be refused"""


def spoof(choices: Choices, victim: GoldenSwitch) -> Spoof | None:
    """Return a packet for ``victim``; None if it has no job, or if this kind of packet does not fit its state."""
    peers = [peer for peer in victim.peers.values() if (peer.job, peer.epoch) in victim.jobs]
    if not peers:
        return None
    peer = choices.pick(peers)
    return choices.pick(_SPOOFS)(choices, victim, peer, _honest(choices, victim, peer))


def _honest(choices: Choices, victim: GoldenSwitch, peer: PeerEntry) -> Packet:
    """Return a packet that ``peer`` might send, from which a forged one is made."""
    with_lanes = choices.chance(70)
    job = victim.jobs[peer.job, peer.epoch]
    seqs = [slot.seq for slot in victim.slots.values() if slot.generation == job.generation]
    return Packet(
        eth_dst=victim.mac,
        eth_src=0x020000000000 | peer.ip,
        ip_src=peer.ip,
        ip_dst=victim.ip,
        udp_src=INC_PORT,
        udp_dst=INC_PORT,
        kind=choices.pick([Kind.PUSH, Kind.PULL]) if peer.bit else Kind.RESULT,
        token=peer.token or choices.pick([0, choices.integer(0, 0xFFFFFF)]),
        job=peer.job,
        epoch=peer.epoch,
        seq=choices.pick([choices.integer(0, SEQ_MODULUS - 1), *seqs]),
        lanes=noise(victim.lanes, "spoof", 0, 0, choices.integer(0, 99)) if with_lanes else None,
        count=choices.integer(0, 0xFFFF),
        exponent=choices.integer(0, 255),
        saturated=choices.chance(50),
        resend=choices.chance(50),
        ecn=choices.integer(0, 3),
    )


def _wrong_port(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    port = choices.integer(1, 12)
    return None if _known(victim, port, packet) else (port, packet, Reason.PEER)


def _wrong_source(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    near = choices.pick([STRANGER_IP, victim.ip, peer.ip ^ 1, *victim.routes])
    forged = replace(packet, ip_src=near)
    return None if _known(victim, peer.port, forged) else (peer.port, forged, Reason.PEER)


def _wrong_job(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    forged = replace(packet, job=choices.pick([choices.integer(0, 0xFFFF), *(job for job, _ in victim.jobs)]))
    if (forged.job, forged.epoch) not in victim.jobs:
        return peer.port, forged, Reason.JOB
    return None if _known(victim, peer.port, forged) else (peer.port, forged, Reason.PEER)


def _wrong_epoch(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    forged = replace(packet, epoch=packet.epoch ^ 1 << choices.integer(0, 15))
    return None if (forged.job, forged.epoch) in victim.jobs else (peer.port, forged, Reason.JOB)


def _wrong_type(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    right = (Kind.PUSH, Kind.PULL, Kind.ASK) if peer.bit else (Kind.RESULT, Kind.ASK)
    known = [each for each in Kind if each not in right]
    kind = choices.pick(known) if choices.chance(50) else choices.pick([0, *range(5, 16)])
    return peer.port, replace(packet, kind=kind), Reason.TYPE


def _wrong_token(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    """Forge the token: none, a random one, one with a wrong bit, or that of another peer."""
    others = [each.token for each in victim.peers.values()]
    token = choices.pick([0, choices.integer(1, 0xFFFFFF), peer.token ^ 1 << choices.integer(0, 23), *others])
    if peer.token in (0, token):
        return None
    if peer.bit and choices.chance(40):  # an ASK, which may close a chunk
        packet = replace(packet, kind=Kind.ASK, lanes=None, late=choices.chance(50))
    return peer.port, replace(packet, token=token), Reason.TOKEN


def _other_kind(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    job = victim.jobs[peer.job, peer.epoch]
    slots = [slot for slot in victim.slots.values() if slot.generation == job.generation]
    if not slots or not peer.bit:
        return None
    slot = choices.pick(slots)
    lanes = None if slot.contributed else (0,) * victim.lanes
    forged = choices.pick([
        replace(packet, seq=slot.seq, kind=Kind.PUSH if slot.kind == Kind.PULL else Kind.PULL),
        replace(packet, seq=slot.seq, kind=slot.kind, lanes=lanes),
    ])  # fmt: skip
    return peer.port, forged, Reason.KIND


def _ask_with_lanes(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    return peer.port, replace(packet, kind=Kind.ASK, lanes=(7,) * victim.lanes), Reason.KIND


def _strange_ask(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    """Forge an ASK: from the parent, about a chunk that does not wait for it; from a child, with an impossible seq."""
    forged = replace(packet, kind=Kind.ASK, lanes=None)
    if peer.bit:
        found = _jump(choices, victim, peer, forged)
        return None if found is None or not isinstance(found[1], Packet) else found
    found = _early_result(choices, victim, peer, forged)
    return found


def _jump(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    job = victim.jobs[peer.job, peer.epoch]
    ours = [slot for slot in victim.slots.values() if slot.generation == job.generation]
    newer = [
        index for index in _range(job) if index in victim.slots and victim.slots[index].generation > job.generation
    ]
    if newer and peer.bit:
        return peer.port, replace(packet, seq=(newer[0] - job.base) % job.slots), Reason.GENERATION
    if not ours or not peer.bit:
        return None
    laps = choices.pick([-2, -1, 2, 3, choices.integer(4, 2**20)])
    return peer.port, replace(packet, seq=(choices.pick(ours).seq + laps * job.slots) % SEQ_MODULUS), Reason.SEQ


def _early_result(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    job = victim.jobs[peer.job, peer.epoch]
    waiting = [
        slot.seq
        for slot in victim.slots.values()
        if slot.generation == job.generation and slot.children == job.full and not slot.done
    ]
    return None if peer.bit or packet.seq in waiting else (peer.port, packet, Reason.RESULT)


def _wrong_length(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    raw = bytearray(encode(packet))
    field = choices.pick([16, 38])  # IPv4 total length, UDP length
    wrong = choices.pick([0, int.from_bytes(raw[field : field + 2], "big") + choices.pick([-1, 1, 4]), 0xFFFF])
    raw[field : field + 2] = wrong.to_bytes(2, "big")
    return _malformed(victim, peer, with_checksum(bytes(raw)))


def _wrong_lanes(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    lanes = choices.pick([1, victim.lanes - 1, victim.lanes + 1, 2 * victim.lanes])
    return _malformed(victim, peer, encode(replace(packet, lanes=(1,) * lanes)))


def _lanes_flag(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    raw = bytearray(encode(packet))
    raw[43] ^= 1
    return _malformed(victim, peer, bytes(raw))


def _padded(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    return _malformed(victim, peer, encode(packet) + bytes(choices.integer(1, 40)))


def _truncated(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    raw = encode(packet)
    cut = choices.integer(1, len(raw) - 1) if choices.chance(50) else choices.integer(1, HEADER_BYTES - 1)
    return peer.port, decode(raw[:cut], victim.lanes), Reason.NOT_IPV4 if cut < 34 else Reason.MALFORMED


def _byte(offset: int, wrong: Callable[[Choices], int], reason: Reason) -> "_Make":
    """Return a function that overwrites one byte of a packet and corrects the checksum."""

    def make(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
        raw = bytearray(encode(packet))
        raw[offset] = wrong(choices)
        return peer.port, decode(with_checksum(bytes(raw)), victim.lanes), reason

    return make


def _bad_checksum(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    raw = bytearray(encode(packet))
    raw[choices.pick([*range(15, 20), *range(22, 34)])] ^= 1 << choices.integer(0, 7)
    return peer.port, decode(bytes(raw), victim.lanes), Reason.CHECKSUM


def _random_bytes(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    junk = b"".join(value.to_bytes(4, "big", signed=True) for value in noise(80, "junk", 0, 0, choices.integer(0, 999)))
    keep = choices.pick([0, 36])  # nothing, or up to the UDP destination port
    raw = encode(packet)[:keep] + junk[: choices.integer(4, len(junk))]
    frame = decode(raw, victim.lanes)
    return None if isinstance(frame, Packet) else (peer.port, frame, frame.fault or Reason.MALFORMED)


def _not_for_us(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    if choices.chance(50):
        return peer.port, replace(packet, ip_dst=STRANGER_IP), Reason.NO_ROUTE
    forged = replace(packet, ip_dst=choices.pick([STRANGER_IP, *victim.routes]), ttl=choices.integer(0, 1))
    return peer.port, forged, Reason.TTL


def _from_a_host(choices: Choices, victim: GoldenSwitch, peer: PeerEntry, packet: Packet) -> Spoof | None:
    """Forge the source of a packet from a host to another node: the address of the parent, of a worker, or any."""
    if not victim.edges:
        return None
    edge = choices.pick(list(victim.edges.values()))
    source = choices.pick([peer.ip, peer.ip, victim.ip, edge.ip ^ 1, STRANGER_IP, 0, *victim.routes])
    forged = replace(
        packet,
        ip_src=source,
        ip_dst=choices.pick([STRANGER_IP, *victim.routes]),
        udp_dst=choices.pick([INC_PORT, INC_PORT, choices.integer(0, 0xFFFF)]),
        kind=choices.pick([Kind.RESULT, *Kind]),
        ttl=choices.pick([64, 64, 1, 0]),
    )
    raw = bytearray(encode(forged))
    offset, value = choices.pick([(20, 0), (20, 0), (20, 0x20), (21, 1), (23, 6), (42, 0x21)])  # fragment, TCP, version
    raw[offset] |= value
    return None if source == edge.ip else (edge.port, decode(with_checksum(bytes(raw)), victim.lanes), Reason.SOURCE)


def _malformed(victim: GoldenSwitch, peer: PeerEntry, raw: bytes) -> Spoof:
    return peer.port, decode(raw, victim.lanes), Reason.MALFORMED


def _known(victim: GoldenSwitch, port: int, packet: Packet) -> bool:
    return (port, packet.ip_src, packet.job, packet.epoch) in victim.peers


def _range(job: JobEntry) -> range:
    return range(job.base, job.base + job.slots)


_Make = Callable[[Choices, GoldenSwitch, PeerEntry, Packet], Spoof | None]

_SPOOFS: list[_Make] = [
    _wrong_port, _wrong_source, _wrong_job, _wrong_epoch, _wrong_type, _wrong_token, _other_kind, _jump, _early_result,
    _ask_with_lanes, _strange_ask,
    _wrong_length, _wrong_lanes, _lanes_flag, _padded, _truncated, _bad_checksum, _random_bytes, _not_for_us,
    _from_a_host,
    _byte(12, lambda c: c.integer(9, 255), Reason.NOT_IPV4),
    _byte(14, lambda c: c.pick([0x46, 0x4F, 0x65, 0x05, 0x44]), Reason.OPTIONS),
    _byte(20, lambda c: c.integer(1, 0x1F), Reason.MALFORMED),  # a later fragment
    _byte(23, lambda c: c.pick([1, 6, 18]), Reason.MALFORMED),  # not UDP
    _byte(37, lambda c: c.pick([0, 80]), Reason.MALFORMED),  # not the INC port
    _byte(42, lambda c: c.pick([0x01, 0x21, 0xF2]), Reason.MALFORMED),  # not this version
]  # fmt: skip
