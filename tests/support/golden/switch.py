"""The golden model of one switch: the slot machine of the design, in the order in which its prose tells it."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from tests.support.golden.frames import ECN_CAPABLE, ECN_CONGESTED, INC_PORT, SEQ_MODULUS, Frame, Kind, Packet, routed
from tests.support.golden.reasons import Reason, Refused
from tests.support.golden.tables import (
    Address,
    DeadlineEntry,
    EdgeEntry,
    Entry,
    GroupEntry,
    JobEntry,
    PathEntry,
    PeerEntry,
    ReplicaEntry,
    RouteEntry,
)

INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
COUNT_MAX: Final = 2**16 - 1
RESULT_SENT: Final = 2**16 - 1

_K = TypeVar("_K")
_E = TypeVar("_E")

Emission = tuple[int, Frame]
"""(egress port, frame)"""


@dataclass(slots=True)
class Slot:
    """What a switch keeps for one chunk. Generation 0 is never given to a job: an untouched slot."""

    generation: int = 0
    seq: int = 0
    children: int = 0
    count: int = 0
    exponent: int = 0
    kind: int = 0
    saturated: bool = False
    ecn: bool = False
    done: bool = False
    contributed: bool = False  # the contributions carry lanes
    lanes: tuple[int, ...] | None = None  # the sum so far; once done, what the RESULT carries
    absent: int = 0  # children that it was closed without
    opened_us: int = 0  # 0 once it is closed
    width: int = 0  # of the lanes, as in the packets
    number: int = 0  # of its RESULT, among all that this switch has made
    behind: int = 0  # how far the RESULT before it in its job was behind it, as its RESULT says


@dataclass(slots=True)
class Outcome:
    """What came of one frame: the frames that left, or the reason for which it was dropped."""

    emitted: list[Emission] = field(default_factory=list)
    refused: Reason | None = None
    shown: bool = False  # a refused frame that also went to the controller


class GoldenSwitch:
    """One switch: address, tables, slots, counters. ``sample_mask`` thins out what the controller is shown."""

    def __init__(self, ip: int, mac: int, lanes: int, sample_mask: int = 0xFF) -> None:
        self.ip, self.mac, self.lanes, self.sample_mask = ip, mac, lanes, sample_mask
        self.jobs: dict[tuple[int, int], JobEntry] = {}
        self.peers: dict[tuple[int, int, int, int], PeerEntry] = {}
        self.now_us = 0
        self.deadlines: dict[tuple[int, int], DeadlineEntry] = {}
        self.groups: dict[int, GroupEntry] = {}
        self.replicas: dict[int, ReplicaEntry] = {}
        self.edges: dict[int, EdgeEntry] = {}
        self.routes: dict[int, RouteEntry] = {}
        self.paths: dict[tuple[int, int, int], PathEntry] = {}
        self.slots: dict[int, Slot] = {}
        self.results = 0
        self.last_up: dict[int, Last] = {}  # by the job's first slot
        self.last_down: dict[int, Last] = {}
        self.overtaken: dict[int, int] = {}  # by the job's first slot: a generation whose frames overtook each other
        self.refused: Counter[Reason] = Counter()
        self.refused_total = 0
        self.received: Counter[tuple[int, int, bool]] = Counter()
        self.sent: Counter[tuple[int, int, bool]] = Counter()
        self.link_sent: Counter[tuple[int, bool]] = Counter()
        self.peer_received: Counter[PeerEntry] = Counter()

    def write(self, entry: Entry, *, insert: bool) -> None:
        """Inserts or deletes one table entry."""
        match entry:
            case JobEntry():
                _write(self.jobs, (entry.job, entry.epoch), entry, insert)
            case PeerEntry():
                del self.peer_received[entry]  # an entry's counter starts with it
                _write(self.peers, (entry.port, entry.ip, entry.job, entry.epoch), entry, insert)
            case DeadlineEntry():
                _write(self.deadlines, (entry.job, entry.epoch), entry, insert)
            case GroupEntry():
                _write(self.groups, entry.group, entry, insert)
            case ReplicaEntry():
                _write(self.replicas, entry.rid, entry, insert)
            case EdgeEntry():
                _write(self.edges, entry.port, entry, insert)
            case RouteEntry():
                _write(self.routes, entry.ip, entry, insert)
            case PathEntry():
                _write(self.paths, (entry.job, entry.epoch, entry.ip), entry, insert)

    def receive(self, port: int, frame: Frame) -> Outcome:
        """Processes one frame to the end, as one indivisible step."""
        try:
            return Outcome(self._process(port, frame))
        except Refused as refusal:
            self.refused[refusal.reason] += 1
            return Outcome(refused=refusal.reason, shown=self._sampled(refusal.reason))

    def _sampled(self, reason: Reason) -> bool:
        if reason in (Reason.DUPLICATE, Reason.LATE):
            return False
        self.refused_total += 1
        return (self.refused_total - 1) & self.sample_mask == 0

    def _process(self, port: int, frame: Frame) -> list[Emission]:
        if not isinstance(frame, Packet) and frame.fault is not None:
            raise Refused(frame.fault)
        if frame.ip_dst != self.ip:
            return self._route(port, frame)
        if not isinstance(frame, Packet) or frame.udp_dst != INC_PORT:
            raise Refused(Reason.MALFORMED)
        return self._aggregate(port, frame)

    def _route(self, port: int, frame: Frame) -> list[Emission]:
        edge = self.edges.get(port)
        if edge is not None and frame.ip_src != edge.ip:
            raise Refused(Reason.SOURCE)
        if frame.ttl < 2:
            raise Refused(Reason.TTL)
        hop: RouteEntry | PathEntry | None = self.routes.get(frame.ip_dst)
        if frame.inc is not None:
            job, epoch, resend = frame.inc
            hop = self.paths.get((job, epoch, frame.ip_dst), hop)
        if hop is None:
            raise Refused(Reason.NO_ROUTE)
        if frame.inc is not None:
            self.link_sent[hop.port, resend] += 1
        return [(hop.port, routed(frame, hop.mac))]

    def _aggregate(self, port: int, packet: Packet) -> list[Emission]:
        job = self.jobs.get((packet.job, packet.epoch))
        if job is None:
            raise Refused(Reason.JOB)
        peer = self.peers.get((port, packet.ip_src, packet.job, packet.epoch))
        if peer is None:
            raise Refused(Reason.PEER)
        self.peer_received[peer] += 1
        if peer.token not in (0, packet.token) and (peer.bit or packet.kind == Kind.RESULT):
            raise Refused(Reason.TOKEN)
        allowed = (Kind.PUSH, Kind.PULL, Kind.ASK) if peer.bit else (Kind.RESULT, Kind.ASK)
        if packet.kind not in allowed:
            raise Refused(Reason.TYPE)
        index = job.base + packet.seq % job.slots
        slot = self.slots.get(index, Slot())
        if packet.kind == Kind.ASK:
            if packet.lanes is not None:
                raise Refused(Reason.KIND)
            answer = self._asked(job, peer, slot, packet) if peer.bit else self._asked_above(job, slot, packet)
            assert answer.slot is slot or answer.closes, "a question changes nothing but what it closes"
        else:
            try:
                answer = self._contribution(job, peer, slot, packet) if peer.bit else self._result(job, slot, packet)
            except Refused as refusal:
                came = (slot.generation, slot.seq, slot.done) == (job.generation, packet.seq, True)
                if refusal.reason is Reason.DUPLICATE or (refusal.reason is Reason.RESULT and came):
                    self._note_overtaken(job, packet)
                if refusal.reason is not Reason.DUPLICATE or self._gap(job, peer, packet) is None:
                    raise
                answer = _Answer(slot)  # it brings news all the same
        if answer.to == "children" and answer.question is None:
            self.results += 1
            behind = _behind(self.last_down, job, packet)
            answer.slot = replace(answer.slot, number=self.results, behind=behind)
        if answer.question is None:
            answer.behind = answer.slot.behind
            if answer.to == "parent":
                answer.behind = _behind(self.last_up, job, packet)
        if answer.to == "sender" and answer.question is None and packet.kind != Kind.ASK:
            self._note_overtaken(job, packet)
        self.slots[index] = answer.slot
        self.received[job.stats, packet.kind % 4, packet.resend] += 1
        gap = self._gap(job, peer, packet)
        if answer.to == "nobody" and gap is not None:
            return [self._send(job, self._question(job, peer, packet, gap), _back(port, packet))]
        if gap is not None and job.questions and answer.question is None and not answer.resend:
            return self._answer_and_ask(job, peer, port, packet, answer, gap)
        return self._answer(job, port, packet, answer)

    def _note_overtaken(self, job: JobEntry, packet: Packet) -> None:
        """A frame that was not sent again meets what has come already: it was late, and no gap."""
        if job.questions and packet.identification and not packet.resend:
            self.overtaken[job.base] = job.generation

    def _gap(self, job: JobEntry, peer: PeerEntry, packet: Packet) -> int | None:
        """The chunk of the frame before this one on its link, if that frame has been lost."""
        if packet.kind == Kind.ASK or packet.identification == 0 or not job.questions:
            return None
        if self.overtaken.get(job.base) == job.generation:
            return None
        ahead = packet.identification if packet.identification < 2**15 else packet.identification - 2**16
        seq = (packet.seq - ahead) % SEQ_MODULUS
        if self._lacks(job, peer, seq):
            return seq
        further = (packet.seq - job.again) % SEQ_MODULUS
        used = self.slots.get(job.base + further % job.slots, Slot()).generation == job.generation
        return further if job.again and used and not packet.resend and self._lacks(job, peer, further) else None

    def _lacks(self, job: JobEntry, peer: PeerEntry, seq: int) -> bool:
        slot = self.slots.get(job.base + seq % job.slots, Slot())
        current = slot.generation == job.generation
        here, later = current and slot.seq == seq, current and slot.seq == (seq + job.slots) % SEQ_MODULUS
        if peer.bit == 0:
            return here and slot.children == job.full and not slot.done
        return not later and not (here and slot.children & peer.bit)

    def _question(self, job: JobEntry, peer: PeerEntry, packet: Packet, seq: int) -> Packet:
        mask = peer.bit
        return replace(
            packet, eth_src=self.mac, ip_src=self.ip, udp_src=INC_PORT, ttl=64, ecn=ECN_CAPABLE, identification=0,
            udp_checksum=0, kind=Kind.ASK, lanes=None, width=0, late=False, resend=True, saturated=False,
            ecn_echo=False, gap=1, count=0, seq=seq, exponent=mask >> 24, token=mask & 0xFFFFFF if mask else job.token,
        )  # fmt: skip

    def _answer_and_ask(
        self, job: JobEntry, peer: PeerEntry, port: int, packet: Packet, answer: "_Answer", seq: int
    ) -> list[Emission]:
        """A sum or a RESULT, and a question beside it: who gets what of the job's group with questions."""
        fresh, question = self._fresh(job, packet, answer), self._question(job, peer, packet, seq)
        emitted = []
        copies = self.groups[job.questions].copies if job.questions in self.groups else ()
        for out, rid in copies:
            replica = self.replicas.get(rid)
            to = "child" if replica is None else replica.to
            asks = to == "parent" if peer.bit == 0 else to == "question" or (to == "child" and answer.to == "parent")
            if asks and peer.bit and (0 if replica is None else replica.bit) != peer.bit:
                continue
            if replica is not None and (asks or answer.to == "parent"):
                there = Address(out, replica.mac, replica.ip, replica.udp)
                emitted.append(self._send(job, question if asks else fresh, there))
            else:
                emitted.append(self._copy(job, fresh, out, rid, answer.slot.absent))
        return emitted

    def _contribution(self, job: JobEntry, child: PeerEntry, slot: Slot, packet: Packet) -> "_Answer":
        if job.generation < slot.generation:
            raise Refused(Reason.GENERATION)
        if job.generation > slot.generation or packet.seq == (slot.seq + job.slots) % SEQ_MODULUS:
            return self._completed(job, replace(_opened(job.generation, child, packet), opened_us=self.now_us))
        if packet.seq != slot.seq:
            raise Refused(Reason.SEQ)
        if packet.kind != slot.kind or (packet.lanes is not None) != slot.contributed:
            raise Refused(Reason.KIND)
        if not slot.children & child.bit:
            if packet.lanes is not None and packet.width != slot.width:
                raise Refused(Reason.KIND)
            return self._completed(job, _merged(slot, child, packet))
        if slot.done:
            return _Answer(slot, to="sender", resend=True, late=bool(slot.absent & child.bit))
        if slot.absent & child.bit:
            raise Refused(Reason.LATE)
        if slot.children == job.full and _speaks(job, child, slot):
            return _Answer(slot, to="parent", resend=True)
        if packet.late and slot.children != job.full and self._overdue(job, slot):
            return self._closed(job, slot)
        raise Refused(Reason.DUPLICATE)

    def _asked(self, job: JobEntry, child: PeerEntry, slot: Slot, packet: Packet) -> "_Answer":
        """A child lacks the result: ask for its contribution, repeat the result, ask above, or tell who is awaited."""
        if job.generation < slot.generation:
            raise Refused(Reason.GENERATION)
        if job.generation > slot.generation or packet.seq == (slot.seq + job.slots) % SEQ_MODULUS:
            return _Answer(slot, to="sender", question=_Question(0, job.full))
        if packet.seq != slot.seq:
            raise Refused(Reason.SEQ)
        awaited = job.full & ~slot.children
        if awaited & child.bit:
            return _Answer(slot, to="sender", question=_Question(0, awaited))
        if slot.done:
            if packet.count and not self._came_later(job, slot, packet):
                return _Answer(slot, to="sender", question=_Question(RESULT_SENT, 0))
            return _Answer(slot, to="sender", resend=True, late=bool(slot.absent & child.bit))
        if packet.gap:
            return _Answer(slot)
        if not awaited:
            speaks = _speaks(job, child, slot)
            return _Answer(slot, to="parent", question=_Question(packet.count, 0)) if speaks else _Answer(slot)
        if awaited and packet.late and self._overdue(job, slot):
            return self._closed(job, slot)
        return _Answer(slot, to="sender", question=_Question(1, awaited))

    def _came_later(self, job: JobEntry, slot: Slot, packet: Packet) -> bool:
        """Whether the child has a RESULT that left after the one it lacks: links keep the order of frames."""
        ahead = packet.count if packet.count < 2**15 else packet.count - 2**16
        seq = (packet.seq + ahead) % SEQ_MODULUS
        other = self.slots.get(job.base + seq % job.slots, Slot())
        return (other.generation, other.seq) == (job.generation, seq) and other.done and other.number > slot.number

    def _asked_above(self, job: JobEntry, slot: Slot, packet: Packet) -> "_Answer":
        """The parent lacks the sum, or tells whom it or somebody further up waits for."""
        self._expects(job, slot, packet)
        if packet.count == RESULT_SENT:
            return _Answer(slot, to="parent", question=_Question(0, 0))
        if packet.count == 0:
            return _Answer(slot, to="parent", resend=True)
        return _Answer(slot, to="children", question=_Question(min(packet.count + 1, COUNT_MAX), packet.awaited))

    def _overdue(self, job: JobEntry, slot: Slot) -> bool:
        """Open for long enough, and all that are missing took part not long ago."""
        deadline = self.deadlines.get((job.job, job.epoch))
        if deadline is None or self.now_us - slot.opened_us < deadline.after_us:
            return False
        missing, window = job.full & ~slot.children, job.slots // 8
        before = self.slots.get(job.base + (slot.seq - window) % job.slots, Slot())
        if before.generation != job.generation or not before.absent & missing:
            return True
        for shift in range(1, 5):  # in a later one that is done: 1/2 to 1/16 of the window ago
            seq = (slot.seq - (window >> shift)) % SEQ_MODULUS
            later = self.slots.get(job.base + seq % job.slots, Slot())
            known = (later.generation, later.seq) == (job.generation, seq) and later.done
            if known and not later.absent & missing:
                return True
        return False

    def _closed(self, job: JobEntry, slot: Slot) -> "_Answer":
        absent = job.full & ~slot.children
        answer = self._completed(job, replace(slot, children=job.full, absent=absent, opened_us=0))
        answer.closes = True
        return answer

    def _completed(self, job: JobEntry, slot: Slot) -> "_Answer":
        if slot.children != job.full:
            return _Answer(slot)
        if job.parent is not None:
            return _Answer(slot, to="parent")
        return _Answer(replace(slot, done=True), to="children")

    @staticmethod
    def _expects(job: JobEntry, slot: Slot, packet: Packet) -> None:
        expected = (slot.generation, slot.seq) == (job.generation, packet.seq) and slot.children == job.full
        if not expected or slot.done:
            raise Refused(Reason.RESULT)

    def _result(self, job: JobEntry, slot: Slot, packet: Packet) -> "_Answer":
        if packet.late:
            return self._without_us(job, slot, packet)
        self._expects(job, slot, packet)
        done = replace(
            slot,
            count=packet.count,
            exponent=packet.exponent,
            saturated=slot.saturated or packet.saturated,
            ecn=slot.ecn or _congested(packet),
            done=True,
            lanes=packet.lanes,
            width=packet.width,
        )
        return _Answer(done, to="children")

    @staticmethod
    def _without_us(job: JobEntry, slot: Slot, packet: Packet) -> "_Answer":
        """The parent closed the chunk over this switch: nothing of what is below it is in, whatever has come."""
        current, behind = (slot.generation, slot.seq), (job.generation, (packet.seq - job.slots) % SEQ_MODULUS)
        opened = current == (job.generation, packet.seq) and not slot.done
        if slot.generation > job.generation or not (slot.generation < job.generation or current == behind or opened):
            raise Refused(Reason.RESULT)
        done = Slot(
            job.generation, packet.seq, job.full, packet.count, packet.exponent, Kind.PUSH, packet.saturated,
            _congested(packet), True, packet.lanes is not None, packet.lanes, absent=job.full, width=packet.width,
        )  # fmt: skip
        return _Answer(done, to="children")

    def _fresh(self, job: JobEntry, packet: Packet, answer: "_Answer") -> Packet:
        """A new packet of this switch, which says what the slot holds."""
        slot = answer.slot
        if answer.question is not None:
            level, awaited = answer.question.level, answer.question.awaited
            says: dict[str, Any] = {
                "kind": Kind.ASK, "lanes": None, "width": 0, "resend": True, "count": level, "exponent": awaited >> 24,
                "token": awaited & 0xFFFFFF, "saturated": False, "ecn_echo": False, "gap": 0,
            }  # fmt: skip
        else:
            says = {
                "kind": Kind.RESULT if slot.done else slot.kind, "lanes": slot.lanes, "resend": answer.resend,
                "count": slot.count, "exponent": slot.exponent, "saturated": slot.saturated, "ecn_echo": slot.ecn,
                "width": 0 if slot.lanes is None else slot.width, "gap": 0,
            }  # fmt: skip
            if answer.to == "sender":
                says["late"] = answer.late
        if answer.to == "parent":
            says["token"] = job.token
        return replace(
            packet, eth_src=self.mac, ip_src=self.ip, udp_src=INC_PORT, ttl=64, ecn=ECN_CAPABLE,
            identification=answer.behind, udp_checksum=0, **says,
        )  # fmt: skip

    def _answer(self, job: JobEntry, port: int, packet: Packet, answer: "_Answer") -> list[Emission]:
        """The packets that leave."""
        slot, fresh = answer.slot, self._fresh(job, packet, answer)
        match answer.to:
            case "sender":
                return [self._send(job, fresh, _back(port, packet))]
            case "parent":
                assert job.parent is not None
                return [self._send(job, fresh, job.parent)]
            case "children":
                absent = slot.absent if answer.question is None else 0
                return [self._copy(job, fresh, *copy, absent) for copy in self._copies(job)]
            case _:
                return []

    def _copies(self, job: JobEntry) -> tuple[tuple[int, int], ...]:
        group = self.groups.get(job.group)
        return () if group is None else group.copies

    def _copy(self, job: JobEntry, packet: Packet, port: int, rid: int, absent: int) -> Emission:
        replica = self.replicas.get(rid)
        if replica is None:  # not written yet: nobody's packet, with the addresses that came in
            return self._send(job, packet, Address(port, packet.eth_dst, packet.ip_dst, packet.udp_dst))
        if replica.bit:
            packet = replace(packet, late=bool(absent & replica.bit))
        if packet.kind == Kind.RESULT and (replica.bit or replica.token):
            packet = replace(packet, token=replica.token)
        return self._send(job, packet, Address(port, replica.mac, replica.ip, replica.udp))

    def _send(self, job: JobEntry, packet: Packet, to: Address) -> Emission:
        self.sent[job.stats, packet.kind % 4, packet.resend] += 1
        self.link_sent[to.port, packet.resend] += 1
        return to.port, replace(packet, eth_dst=to.mac, ip_dst=to.ip, udp_dst=to.udp)


@dataclass(frozen=True, slots=True)
class _Question:
    """What an ASK says: how many switches up the contribution is in, and which children are awaited there."""

    level: int
    awaited: int


@dataclass(slots=True)
class _Answer:
    """The slot as it is afterwards, and who hears of it; a question in place of what it holds."""

    slot: Slot
    to: str = "nobody"
    resend: bool = False
    question: _Question | None = None
    late: bool = False
    closes: bool = False
    behind: int = 0  # how far the frame before it on its link is behind


Last = tuple[int, int, int]
"""Generation, iteration and seq of the frame that left last."""


def _behind(last: dict[int, Last], job: JobEntry, packet: Packet) -> int:
    """How far the frame that left before this one is behind it, modulo 2**16; this one is the last now."""
    before, last[job.base] = last.get(job.base, (0, 0, 0)), (job.generation, packet.iteration, packet.seq)
    return (packet.seq - before[2]) % (1 << 16) if job.questions and before[:2] == last[job.base][:2] else 0


def _back(port: int, packet: Packet) -> Address:
    return Address(port, packet.eth_src, packet.ip_src, packet.udp_src)


def _speaks(job: JobEntry, child: PeerEntry, slot: Slot) -> bool:
    """Whether a child is the lowest of those whose contributions are in."""
    present = job.full & ~slot.absent
    return child.bit == present & -present if slot.absent else child.lowest


def _opened(generation: int, child: PeerEntry, packet: Packet) -> Slot:
    return Slot(
        generation, packet.seq, child.bit, packet.count, packet.exponent, packet.kind, packet.saturated,
        _congested(packet), False, packet.lanes is not None, packet.lanes, width=packet.width,
    )  # fmt: skip


def _merged(slot: Slot, child: PeerEntry, packet: Packet) -> Slot:
    lanes, overflowed = slot.lanes, False
    if lanes is not None and packet.lanes is not None:
        exact = [a + b for a, b in zip(lanes, packet.lanes, strict=True)]
        least, most = lane_range(slot.width)
        lanes = tuple(min(max(x, least), most) for x in exact)
        overflowed = any(not least <= x <= most for x in exact)
    return replace(
        slot,
        children=slot.children | child.bit,
        count=min(slot.count + packet.count, COUNT_MAX),
        exponent=max(slot.exponent, packet.exponent),
        saturated=slot.saturated or packet.saturated or overflowed,
        ecn=slot.ecn or _congested(packet),
        lanes=lanes,
    )


def lane_range(width: int) -> tuple[int, int]:
    """The ends of a lane."""
    most = (1 << ((32 >> width) - 1)) - 1
    return -most - 1, most


def _congested(packet: Packet) -> bool:
    return packet.ecn_echo or packet.ecn == ECN_CONGESTED


def _write(table: dict[_K, _E], key: _K, entry: _E, insert: bool) -> None:
    if insert:
        assert key not in table, f"an entry with the key {key} is there already"
        table[key] = entry
    else:
        del table[key]
