"""Lab 15: the slow link: in-band telemetry, with which packets report where they waited."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from p4reduce_course.bench import (
    ETHERNET,
    Bench,
    Fields,
    Frame,
    Header,
    Mistake,
    Numbers,
    Out,
    Property,
    Scenario,
    Setup,
    fields_of,
    mac,
)
from p4reduce_course.frame.lab import Draws, Lab, LabPart

TEL: Final = Header("tel", type=16, count=8, worst_us=32, worst_by=16)
HOP: Final = Header("hop", switch=16, time_us=32)
ROOM: Final = 4
_MANY: Final = (5, 6, 8, 16, 128)
"""numbers of records beyond the room: the next ones, and some whose lower bits are 0"""
_WORD: Final = (1 << 32) - 1
_INC: Final = 0x88B5
_INNER: Final = (0x0800, 0x0806, 0x86DD, _INC)
"""EtherTypes of frames without telemetry"""
_TYPES: Final = 0x8E00
"""first EtherType of telemetry"""


class Telling:
    """The reference: the switch that the README describes."""

    def __init__(self, numbers: Numbers, setup: Setup, *, oldest: bool = False, latest: bool = False,
            first: bool = False, before: bool = False, bounded: bool = True, restores: bool = True,
            strips: bool = True, again: bool = False, own_last: bool = True, told: bool = True,
            pushes: bool = True, bare: bool = False, clears: bool = False) -> None:  # fmt: skip
        """Makes a switch with the ports and roles of a setup; each named argument selects a mistake."""
        self.own, self.oldest, self.latest, self.first, self.before = numbers, oldest, latest, first, before
        self.bounded, self.restores, self.strips, self.again = bounded, restores, strips, again
        self.own_last, self.told, self.pushes, self.bare, self.clears = own_last, told, pushes, bare, clears
        self.sources = {row["match"]["std.ingress_port"] for row in setup.rows if row["table"] == "source"}
        self.sinks = {row["match"]["std.egress_spec"] for row in setup.rows if row["table"] == "sink"}
        self.ways = {
            row["match"]["hdr.ethernet.dst"]: row["params"]["port"] for row in setup.rows if row["table"] == "way"
        }

    def frame(self, frame: Frame) -> Out:
        """Returns the result of one frame."""
        data, kind = frame.data, self.own["tel_type"]
        if len(data) < ETHERNET.bytes:
            return Out()
        ethernet, rest = ETHERNET.unpack(data), data[ETHERNET.bytes :]
        tel: dict[str, int] | None = None
        hops: list[dict[str, int]] = []
        if ethernet["type"] == kind:
            if len(rest) < TEL.bytes:
                return Out()
            tel, rest = TEL.unpack(rest), rest[TEL.bytes :]
            if tel["count"] > ROOM or len(rest) < tel["count"] * HOP.bytes:
                return Out()
            for _ in range(tel["count"]):
                hops.append(HOP.unpack(rest))
                rest = rest[HOP.bytes :]
        port = self.ways.get(mac(ethernet["dst"]))
        if port is None:
            return Out()
        if frame.port in self.sources and (tel is None or self.again):
            if tel is None:
                tel = {"type": ethernet["type"], "count": 0, "worst_us": 0, "worst_by": 0}
            tel, hops = {**tel, "count": 0, "worst_us": 0, "worst_by": 0}, []
            ethernet["type"] = kind
        reached = port in self.sinks
        if tel is None and reached and self.bare:
            return Out(((port, ETHERNET.pack(**{**ethernet, "type": 0}) + rest),), ((0, 0),))
        if tel is None:
            return Out(((port, data),))
        if not hops and self.clears:
            tel["worst_us"], tel["worst_by"] = 0, 0
        if self.own_last or not reached:
            now = frame.at_us & _WORD
            if hops or self.first:
                gap = (now - (hops[-1 if self.oldest else 0]["time_us"] if hops else 0)) & _WORD
                if gap > tel["worst_us"] or self.latest:
                    by = hops[0]["switch"] if self.before and hops else self.own["me"]
                    tel["worst_us"], tel["worst_by"] = gap, by
            if self.pushes:
                hops = [{"switch": self.own["me"], "time_us": now}, *hops][:ROOM]
                tel["count"] = tel["count"] + 1 if not self.bounded else min(tel["count"] + 1, ROOM)
        told = ((tel["worst_by"], tel["worst_us"]),) if reached and self.told else ()
        if reached and self.strips:
            ethernet["type"] = tel["type"] if self.restores else kind
            return Out(((port, ETHERNET.pack(**ethernet) + rest),), told)
        records = b"".join(HOP.pack(**hop) for hop in hops)
        return Out(((port, ETHERNET.pack(**ethernet) + TEL.pack(**tel) + records + rest),), told)

    def learned(self, _: tuple[int, ...]) -> Sequence[dict[str, object]]:
        """Returns no entries: the controller only listens."""
        return ()


def numbers(draws: Draws) -> Numbers:
    """Returns the EtherType, and the switch's own number."""
    return {"tel_type": _TYPES + draws.integer("tel_type", 1, 0xF0), "me": draws.integer("me", 100, 60_000)}


def read(data: bytes) -> Fields:
    """Returns a frame's fields; records are called hop1, hop2, ..., the newest first."""
    if data[12:13] != bytes([_TYPES >> 8]):
        return fields_of(data, ETHERNET)
    count = fields_of(data, ETHERNET, TEL).get("tel.count", 0)
    names = [Header(f"hop{number + 1}", **HOP.bits) for number in range(min(int(count), ROOM))]
    return fields_of(data, ETHERNET, TEL, *names)


def named(field: str) -> str:
    """Returns a field's name in the skeleton: ``hops[0].switch_`` for ``hop1.switch``."""
    at = re.fullmatch(r"hop(\d)\.(\w+)", field)
    return field if at is None else f"hops[{int(at[1]) - 1}].{'switch_' if at[2] == 'switch' else at[2]}"


NEAR: Final = 0x02AA00000001
FAR: Final = 0x02AA00000002


def ports(source: int, near: int, far: int) -> Setup:
    """Returns entries for a worker that sends, one that receives, and a way to further switches, at these ports."""
    return Setup((
        {"table": "way", "match": {"hdr.ethernet.dst": mac(NEAR)}, "action": "to", "params": {"port": near}},
        {"table": "way", "match": {"hdr.ethernet.dst": mac(FAR)}, "action": "to", "params": {"port": far}},
        {"table": "source", "match": {"std.ingress_port": source}, "action": "begin"},
        {"table": "sink", "match": {"std.egress_spec": near}, "action": "end"},
    ))  # fmt: skip


_SETUP: Final = ports(1, 2, 3)
"""port 4 leads to further switches, too"""


def plain(port: int, to: int, at: int, tag: str, *, ether_type: int = _INC) -> Frame:
    """Returns a frame without telemetry."""
    where = "a worker here" if to == NEAR else "a worker far away" if to == FAR else "an unknown address"
    frame = ETHERNET.pack(dst=to, src=0x02CC00000001, type=ether_type) + b"sums"
    return Frame(port, frame, f"a plain frame by port {port} for {where}", tag, at)


def telling(own: Numbers, port: int, to: int, at: int, tag: str, hops: Sequence[tuple[int, int]], worst: tuple[int, int] = (0, 0),
        count: int = -1, *, ether_type: int = _INC) -> Frame:  # fmt: skip
    """Returns a frame with records, the newest first."""
    tel = TEL.pack(type=ether_type, count=len(hops) if count < 0 else count, worst_us=worst[0], worst_by=worst[1])
    frame = ETHERNET.pack(dst=to, src=0x02CC00000001, type=own["tel_type"]) + tel
    frame += b"".join(HOP.pack(switch=switch, time_us=time & _WORD) for switch, time in hops) + b"sums"
    where = "a worker here" if to == NEAR else "a worker far away" if to == FAR else "an unknown address"
    passed = f"{len(hops)} record{'' if len(hops) == 1 else 's'}"
    return Frame(port, frame, f"a frame with {passed} by port {port} for {where} at {at:,} us", tag, at)


def travels(own: Numbers, draws: Draws) -> Sequence[Scenario]:
    """Returns scenarios with frames of sources, frames on their way, and frames that arrive."""
    random = draws.generator("travels")
    frames = [
        plain(4, FAR, 50, "plain"), plain(1, FAR, 1000, "source"), plain(1, NEAR, 1000, "sink"),
        plain(4, NEAR, 60, "plain"), plain(3, NEAR, 70, "plain", ether_type=0x0800), plain(2, FAR, 80, "plain"),
        *(plain(4, FAR, 90, "plain", ether_type=own["tel_type"] ^ 1 << bit) for bit in range(16)),
        plain(1, FAR, 1000, "source", ether_type=0x0800), plain(1, NEAR, 1000, "sink", ether_type=0x0806),
        telling(own, 1, FAR, 9_000, "twice", [(7, 8_000)], (10, 3)), telling(own, 1, FAR, 9_000, "twice", [], (10, 3)),
        telling(own, 1, NEAR, 9_000, "sink", [], (10, 3)), telling(own, 4, NEAR, 9_000, "sink", [], (10, 3)),
        telling(own, 4, FAR, 2_000, "record", [(7, 1_990)], (30, 7)),
        telling(own, 4, FAR, 2_000, "worst", [(7, 1_900)], (30, 7)),
        telling(own, 4, FAR, 2_000, "worst", [(7, 1_950), (8, 1_000)], (30, 8)),
        telling(own, 4, FAR, 2_000, "worst", [(7, 1_970)], (30, 8)),
        telling(own, 4, FAR, 3_000, "first", [], (0, 0)), telling(own, 4, FAR, 3_000, "first", [], (30, 8)),
        telling(own, 4, FAR, 2_000, "worst", [(7, 2_000)], (0, 0)),
        telling(own, 4, FAR, 500_000, "worst", [(7, 100_000)], (30, 8)),
        telling(own, 4, FAR, 1 << 31, "worst", [(7, 0)], (30, 8)),
        telling(own, 4, FAR, 500_000, "worst", [(7, 499_000)], (400_000, 8)),
        telling(own, 4, FAR, (1 << 32) + 5, "worst", [(7, (1 << 32) - 6)], (3, 8)),
        telling(own, 4, FAR, 2_000, "full", [(9, 1_990), (8, 1_980), (7, 1_970), (6, 1_960)], (30, 8)),
        telling(own, 4, NEAR, 2_000, "sink", [(9, 1_500)], (30, 8)),
        telling(own, 4, NEAR, 2_000, "sink", [(9, 1_500)], (30, 8), ether_type=0x0806),
        telling(own, 4, NEAR, 2_000, "sink", [(9, 1_990), (8, 1_980), (7, 1_970), (6, 1_960)], (30, 8)),
        Frame(4, ETHERNET.pack(dst=FAR, src=0x02CC00000001, type=_INC), "a plain frame without data by port 4", "plain", 95),
        plain(3, FAR, 100, "plain"), telling(own, 3, FAR, 2_000, "worst", [(7, 1_900)], (30, 7)),
        telling(own, 2, NEAR, 2_000, "sink", [(9, 1_500)], (30, 8)),
    ]  # fmt: skip
    scenarios, frames = [Scenario(_SETUP, tuple(frames))], []
    source, near, far, *elsewhere = (int(port) for port in random.permutation(range(1, 10)))
    for number in range(24):
        at = int(random.integers(10_000, 1 << 40))
        count, newest = int(random.integers(0, 5)), at
        hops: list[tuple[int, int]] = []
        for _ in range(count):
            newest -= int(random.integers(0, _WORD if not hops and number % 4 == 3 else 900))
            hops.append((int(random.integers(1, 1 << 16)), newest))
        worst = (int(random.integers(0, _WORD if number % 6 == 5 else 900)), int(random.integers(1, 1 << 16)))
        to = NEAR if number % 3 == 0 else FAR
        tag = "sink" if to == NEAR else "full" if count == ROOM else "worst" if hops else "first"
        port, ether_type = int(random.choice([source, *elsewhere])), int(random.choice(_INNER))
        frames.append(telling(own, port, to, at, tag, hops, worst, ether_type=ether_type))
        port, tag = (source, "sink" if to == NEAR else "source") if number % 2 else (elsewhere[0], "plain")
        frames.append(plain(port, to, at, tag, ether_type=ether_type))
    return [*scenarios, Scenario(ports(source, near, far), tuple(frames))]


def others(own: Numbers, _: Draws) -> Sequence[Scenario]:
    """Returns scenarios with frames that cannot be read, or that have no way."""
    frames = []
    for port, to in ((4, FAR), (1, NEAR)):
        whole = telling(own, port, to, 2_000, "", [(9, 1_990), (8, 1_980)], (30, 8))
        frames += [
            Frame(port, whole.data[:length], f"a frame with two records, cut short after {length} bytes", "cut", 2_000)
            for length in (13, 20, 24, 30)
        ]
        frames += [
            telling(own, port, to, 2_000, "cut", [(n, 1_990) for n in range(many)], count=many) for many in _MANY
        ]
        frames.append(plain(port, 0x02AA00000009, 5, "no way"))
        frames.append(telling(own, port, 0x02AA00000009, 5, "no way", [(1, 1)]))
    nowhere = [frame for frame in frames if frame.kind == "no way"]
    # Port 0 is a sink: a frame without a way has this port as long as the program writes none.
    return [Scenario(_SETUP, tuple(frames)), Scenario(ports(1, 0, 3), tuple(nowhere))]


def example(own: Numbers) -> Scenario:
    """Returns the example for the lab's copy."""
    return Scenario(_SETUP, (plain(1, FAR, 1000, ""), telling(own, 4, FAR, 2_000, "", [(7, 1_900)], (30, 8)),
                             telling(own, 4, NEAR, 2_000, "", [(9, 1_500)], (30, 8))))  # fmt: skip


_RECORD: Final = ("tel.count", "hop1", "hop2", "hop3", "hop4")


_UNDER_WAY: Final = ("source", "record", "worst", "first", "full", "twice")
BENCH: Final = Bench(
    file="telemetry.p4",
    reference=Telling,
    read=read,
    named=named,
    numbers=numbers,
    example=example,
    properties=(
        Property("frame", "what cannot be read is dropped", others, ("cut",), ("ports", "digests")),
        Property("frame", "what has no way is dropped", others, ("no way",), ("ports", "digests")),
        Property("frame", "a plain frame from elsewhere stays as it is", travels, ("plain",)),
        Property("source", "a plain frame of a source gets telemetry", travels, ("source",), ("ports", "ethernet", "tel.type", "tel.count")),
        Property("source", "one that has it keeps it", travels, ("twice",), ("tel", "hop2")),
        Property("record", "each switch puts its record in front", travels, ("source", "record", "worst", "first"), ("ports", *_RECORD)),
        Property("record", "there is room for four", travels, ("full",), ("ports", "ethernet", "tel.type", *_RECORD, "payload")),
        Property("worst", "the first switch has no link to judge", travels, ("first", "source"), ("tel",)),
        Property("worst", "the slowest link so far", travels, ("record", "worst", "full"), ("tel.worst_us", "tel.worst_by")),
        Property("sink", "the controller hears of the slowest link", travels, ("sink",), ("digests",)),
        Property("sink", "and of nothing under way", travels, _UNDER_WAY, ("digests",)),
        Property("sink", "the receiver gets the plain frame", travels, ("sink",), ("ports", "frames")),
    ),
    mistakes=(
        Mistake("the time in question is that of the newest record, hops[0], before yours is put in", {"oldest": True}),
        Mistake("worst is the largest so far: write it only where this link took longer", {"latest": True}),
        Mistake("a frame without records has not crossed a link yet: ask for count first", {"first": True}),
        Mistake("a frame without records may have a worst link all the same: leave worst_us and worst_by as they came", {"clears": True}),
        Mistake("a frame without telemetry has nothing to tell or to take off: apply sink only where tel is valid", {"bare": True}),
        Mistake("worst_by is the switch at the end of the slow link, which is this one, ME", {"before": True}),
        Mistake("four records are there at most: count must not grow beyond 4", {"bounded": False}),
        Mistake("the EtherType that tel.type keeps is not put back", {"restores": False}),
        Mistake("the receiver must not see telemetry: make tel and all records invalid", {"strips": False}),
        Mistake("telemetry was begun again: a source's frame that has it keeps it", {"again": True}),
        Mistake("the last link counts, too: judge it before the sink takes the telemetry off", {"own_last": False}),
        Mistake("the controller hears nothing: digest<slow_t>(1, { worst_by, worst_us }) at a sink", {"told": False}),
        Mistake("no record was put in: push_front(1), then set it valid and fill it", {"pushes": False}),
    ),
)  # fmt: skip

LAB: Final[Lab] = BENCH.lab(
    "15", "15-the-slow-link", "the slow link", 90,
    (
        LabPart("frame", "what goes on", 15),
        LabPart("source", "where telemetry begins", 15),
        LabPart("record", "what each switch adds", 25),
        LabPart("worst", "the slowest link so far", 25),
        LabPart("sink", "where it ends", 20),
    ),
    "your packets say which link is slow",
)  # fmt: skip
