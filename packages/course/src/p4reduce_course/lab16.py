"""Lab 16: a dead link: fast reroute in the switch, before a controller hears of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from p4reduce_course.bench import (
    ETHERNET,
    Bench,
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

PUSH: Final = 1
DOWN: Final = 8
UP: Final = 9
SUM: Final = Header("sum", kind=8, detour=8, port=16, seq=32)
WATCH: Final = 510
"""port of the watcher of the links"""
PORTS: Final = 16


class Survivor:
    """The reference: the switch that the README describes."""

    def __init__(self, numbers: Numbers, setup: Setup, *, forged: bool = False, marks: bool = True,
            circles: bool = False, blind: bool = False, back: bool = False, rises: bool = True, again: bool = False,
            reroutes: bool = True, told: bool = True) -> None:  # fmt: skip
        """Makes a switch with the ways of a setup, and all links up; each named argument selects a mistake."""
        self.type, self.forged, self.marks, self.circles = numbers["sum_type"], forged, marks, circles
        self.blind, self.back, self.rises, self.again, self.reroutes = blind, back, rises, again, reroutes
        self.told = told
        self.ways = {
            row["match"]["hdr.ethernet.dst"]: (row["params"]["first"], row["params"]["second"]) for row in setup.rows
        }
        self.down: set[int] = set()

    def frame(self, frame: Frame) -> Out:
        """Returns the result of one frame."""
        data = frame.data
        if len(data) < ETHERNET.bytes + SUM.bytes:
            return Out()
        ethernet, head, rest = (
            ETHERNET.unpack(data),
            SUM.unpack(data[ETHERNET.bytes :]),
            data[ETHERNET.bytes + SUM.bytes :],
        )
        if ethernet["type"] != self.type:
            return Out()
        if head["kind"] in (DOWN, UP):
            return self._link(frame, head) if frame.port == WATCH or self.forged else Out()
        ways = self.ways.get(mac(ethernet["dst"]))
        if ways is None:
            return Out()
        first, second = ways
        if first not in self.down and (first != frame.port or self.back):
            return Out(((first, data),))
        open_ = self.blind or (second not in self.down and (second != frame.port or self.back))
        if not self.reroutes or not open_ or (head["detour"] and not self.circles):
            return Out()
        head["detour"] = 1 if self.marks else head["detour"]
        return Out(((second, ETHERNET.pack(**ethernet) + SUM.pack(**head) + rest),))

    def _link(self, frame: Frame, head: dict[str, int]) -> Out:
        port = head["port"]
        if port >= PORTS or (head["kind"] == UP and not self.rises):
            return Out()
        news = (port in self.down) != (head["kind"] == DOWN)
        (self.down.add if head["kind"] == DOWN else self.down.discard)(port)
        told = self.told and (news or self.again)
        return Out((), ((port, int(head["kind"] == DOWN)),) if told else ())

    def learned(self, _: tuple[int, ...]) -> Sequence[dict[str, object]]:
        """Returns no entries: the controller works out new trees later (lab 10)."""
        return ()


def numbers(draws: Draws) -> Numbers:
    """Returns the EtherType."""
    return {"sum_type": 0x8F00 + draws.integer("sum_type", 1, 0xF0)}


def node(number: int) -> int:
    """Returns the address of a parent or a worker."""
    return 0x02AA00000000 + number


def link(own: Numbers, port: int, kind: int, tag: str, by: int = WATCH) -> Frame:
    """Returns a frame with news of a link."""
    data = ETHERNET.pack(dst=node(1), type=own["sum_type"]) + SUM.pack(kind=kind, port=port)
    what = f"{'DOWN' if kind == DOWN else 'UP'} of port {port}" + ("" if by == WATCH else f" by port {by}")
    return Frame(by, data, what, tag)


def push(own: Numbers, to: int, port: int, tag: str, detour: int = 0) -> Frame:
    """Returns a PUSH."""
    data = ETHERNET.pack(dst=node(to), type=own["sum_type"]) + SUM.pack(kind=PUSH, detour=detour, seq=7) + b"lanes"
    return Frame(
        port, data, f"a PUSH by port {port} for node {to}" + (", which took a detour before," if detour else ""), tag
    )


def ways(*rows: tuple[int, int, int]) -> Setup:
    """Returns a setup from (node, first port, second port) rows."""
    return Setup(tuple(
        {"table": "way", "match": {"hdr.ethernet.dst": mac(node(to))}, "action": "ways",
         "params": {"first": first, "second": second}}
        for to, first, second in rows
    ))  # fmt: skip


_WAYS: Final = ((1, 3, 4), (2, 4, 3), (3, 5, 3))


def failures(own: Numbers, draws: Draws) -> Sequence[Scenario]:
    """Returns scenarios in which links fail and come back while PUSHes go on."""
    first = (
        push(own, 1, 1, "up"), push(own, 1, 3, "back"), push(own, 1, 3, "twice", 1), link(own, 3, DOWN, "news"),
        push(own, 1, 1, "down"), push(own, 2, 1, "up"), push(own, 1, 1, "twice", 1), push(own, 2, 1, "up", 1),
        link(own, 3, DOWN, "known"), push(own, 1, 4, "none"), link(own, 4, DOWN, "news"), push(own, 1, 1, "none"),
        push(own, 2, 1, "none"), link(own, 3, UP, "news"), push(own, 1, 1, "up"), push(own, 2, 1, "down"),
        link(own, 3, UP, "known"), link(own, 4, UP, "news"), push(own, 2, 1, "up"),
    )  # fmt: skip
    forged = (
        link(own, 3, DOWN, "forged", 1), push(own, 1, 1, "trusted"), link(own, 3, DOWN, "news"), push(own, 1, 1, "down"),
        link(own, 3, UP, "forged", 2), push(own, 1, 1, "trusted"),
    )  # fmt: skip
    last = tuple(link(own, PORTS - 1, kind, tag) for kind, tag in ((DOWN, "news"), (DOWN, "known"), (UP, "news")))
    scenarios = [Scenario(ways(*_WAYS), first), Scenario(ways(*_WAYS), forged), Scenario(ways(*_WAYS), last)]
    random = draws.generator("failures")
    for _ in range(3):
        frames, down = [], set[int]()
        for _n in range(50):
            port = int(random.integers(3, 6))
            if random.random() < 0.25:
                kind = int(random.choice([DOWN, UP]))
                frames.append(link(own, port, kind, "news" if (port in down) != (kind == DOWN) else "known"))
                (down.add if kind == DOWN else down.discard)(port)
                continue
            to, first_port, other = _WAYS[int(random.integers(3))]
            by, detour = int(random.choice([1, 2, first_port, other])), int(random.random() < 0.2)
            if first_port not in down and first_port != by:
                tag = "up"
            elif other in down or other == by:
                tag = "none"
            else:
                tag = "twice" if detour else "back" if first_port not in down else "down"
            frames.append(push(own, to, by, tag, detour))
        scenarios.append(Scenario(ways(*_WAYS), tuple(frames)))
    return scenarios


def others(own: Numbers, _: Draws) -> Sequence[Scenario]:
    """Returns scenarios with frames that are not for this switch."""
    whole = push(own, 1, 1, "")
    strange = Frame(
        1, ETHERNET.pack(dst=node(1), type=own["sum_type"] ^ 1) + whole.data[14:], "a frame of another EtherType"
    )
    short, far = Frame(1, whole.data[:18], "a frame that is cut short"), (PORTS, PORTS + 1, 60_000)
    frames = (strange, push(own, 9, 1, ""), short, *(link(own, port, DOWN, "") for port in far))
    return [Scenario(ways(*_WAYS), frames)]


def example(own: Numbers) -> Scenario:
    """Returns the example for the lab's copy."""
    return Scenario(
        ways(*_WAYS), (push(own, 1, 1, ""), link(own, 3, DOWN, ""), push(own, 1, 1, ""), push(own, 1, 1, "", 1))
    )


BENCH: Final = Bench(
    file="survive.p4",
    reference=Survivor,
    read=lambda frame: fields_of(frame, ETHERNET, SUM),
    numbers=numbers,
    example=example,
    properties=(
        Property("ways", "what has no way is dropped", others),
        Property("ways", "the first way while it is up", failures, ("up",)),
        Property("news", "DOWN and UP from the watcher, and no further", failures, ("news", "known"), ("ports",)),
        Property("news", "no other port says that a link is down", failures, ("forged", "trusted")),
        Property("news", "the controller hears of each change once", failures, ("news", "known"), ("digests",)),
        Property("detour", "the second way while the first is down", failures, ("down",), ("ports",)),
        Property("detour", "nothing goes back where it came from", failures, ("back",), ("ports",)),
        Property("detour", "and none is left: dropped", failures, ("none",), ("ports",)),
        Property("detour", "a detour is marked", failures, ("down", "back")),
        Property("detour", "and taken once", failures, ("twice",), ("ports",)),
    ),
    mistakes=(
        Mistake("nothing is ever sent by the second way", {"reroutes": False}),
        Mistake("DOWN and UP are taken from anyone: only port WATCH may say so", {"forged": True}),
        Mistake("the frame was not marked: set detour to 1 when it takes the second way", {"marks": False}),
        Mistake("a frame that took a detour before takes another, and may go round for ever: drop it", {"circles": True}),
        Mistake("the second way was not looked at: it may be down, or the one that the frame came by", {"blind": True}),
        Mistake("the frame went back to the node that sent it: a way is open only if it is not the port that the frame came by", {"back": True}),
        Mistake("UP is not heard: write 0 into the port's cell", {"rises": False}),
        Mistake("the controller hears of what it knows: tell it only where the cell changes", {"again": True}),
        Mistake("the controller hears nothing: digest<news_t>(1, { port, 1 or 0 })", {"told": False}),
    ),
)  # fmt: skip

LAB: Final[Lab] = BENCH.lab(
    "16", "16-a-dead-link", "a dead link", 75,
    (
        LabPart("ways", "while all is well", 20),
        LabPart("news", "who says that a link is down", 30),
        LabPart("detour", "what happens then", 50),
    ),
    "your switch goes on while the controller still thinks",
)  # fmt: skip
