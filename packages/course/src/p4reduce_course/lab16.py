"""Lab 16: a dead link: fast reroute in the switch, before a controller hears of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

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
            circles: bool = False, blind: str = "", back: str = "", rises: bool = True, again: bool = False,
            reroutes: bool = True, told: bool = True, named: bool = False, addressed: bool = False, kinds: str = "all") -> None:  # fmt: skip
        """Makes a switch with the ways of a setup, and all links up; each named argument selects a mistake."""
        self.type, self.forged, self.marks, self.circles = numbers["sum_type"], forged, marks, circles
        self.blind, self.back, self.rises, self.again, self.reroutes = blind, back, rises, again, reroutes
        self.told, self.named, self.addressed, self.kinds = told, named, addressed, kinds
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
        if head["kind"] in (DOWN, UP) or (self.kinds == "news" and head["kind"] > DOWN):
            if self.addressed and mac(ethernet["dst"]) not in self.ways:
                return Out()
            own = self.named and frame.port == head["port"]
            return self._link(frame, head) if frame.port == WATCH or self.forged or own else Out()
        ways = self.ways.get(mac(ethernet["dst"]))
        if ways is None or (self.kinds == "pushes" and head["kind"] != PUSH):
            return Out()
        first, second = ways
        if first not in self.down and (first != frame.port or "first" in self.back):
            return Out(((first, data),))
        up, other = second not in self.down, second != frame.port or "second" in self.back
        open_ = (up or "link" in self.blind) and (other or "port" in self.blind)
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
    """Returns a frame with news of a link; that of even ports has an address without a way."""
    data = ETHERNET.pack(dst=node(1 if port % 2 else 99), type=own["sum_type"]) + SUM.pack(kind=kind, port=port)
    what = f"{'DOWN' if kind == DOWN else 'UP'} of port {port}" + ("" if by == WATCH else f" by port {by}")
    return Frame(by, data, what, tag)


def push(own: Numbers, to: int, port: int, tag: str, detour: int = 0, kind: int = PUSH, about: int = 0) -> Frame:
    """Returns a PUSH or, with another kind, another frame for a node; ``about``: its field ``port``, which says nothing."""
    head = SUM.pack(kind=kind, detour=detour, port=about, seq=7)
    data = ETHERNET.pack(dst=node(to), type=own["sum_type"]) + head + b"lanes"
    what = f"{'a PUSH' if kind == PUSH else f'a frame of kind {kind}'} by port {port} for node {to}"
    return Frame(port, data, what + (", which took a detour before," if detour else ""), tag)


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
        push(own, 2, WATCH, "up", about=3), link(own, 3, DOWN, "news"), push(own, 1, WATCH, "down", about=3),
        push(own, 1, 1, "down"),
    )  # fmt: skip
    forged = (
        link(own, 3, DOWN, "forged", 1), push(own, 1, 1, "trusted"), link(own, 3, DOWN, "news"), push(own, 1, 1, "down"),
        link(own, 3, UP, "forged", 2), push(own, 1, 1, "trusted"), link(own, 3, UP, "forged", 3),
        push(own, 1, 1, "trusted"), link(own, 3, UP, "news"),
        *(link(own, 3, DOWN, "forged", by) for by in (0, 3, 4, PORTS, WATCH - 1)),
        *(link(own, 3, DOWN, "forged", WATCH ^ 1 << bit) for bit in range(9)), push(own, 1, 1, "trusted"),
    )  # fmt: skip
    others = (0, PORTS - 5, PORTS - 1)  # as far apart as 3 bits tell, and both ends
    news = ((DOWN, "news"), (DOWN, "known"), (UP, "news"))
    last = (*(link(own, port, kind, tag) for port in others for kind, tag in news), push(own, 1, 1, "up"))
    down = (*(link(own, port, DOWN, "news") for port in others), push(own, 1, 1, "up"), push(own, 4, 1, "none"))
    rows = (*_WAYS, (4, 0, PORTS - 1))
    scenarios = [Scenario(ways(*rows), frames) for frames in (first, forged, last, down)]
    random = draws.generator("failures")
    for _ in range(3):
        a, b, c, d = (int(port) for port in random.permutation(PORTS)[:4])
        rows = ((1, a, b), (2, b, a), (3, c, a), (4, d, c))
        scenarios.append(Scenario(ways(*rows), tuple(_drawn(own, random, rows))))
    return scenarios


def _drawn(own: Numbers, random: np.random.Generator, rows: Sequence[tuple[int, int, int]]) -> Iterator[Frame]:
    """Yields news of the ports of some ways, and frames of all kinds for their nodes."""
    down, ports = set[int](), sorted({port for _, *both in rows for port in both})
    for _ in range(50):
        port = int(random.choice(ports))
        if random.random() < 0.25:
            kind = int(random.choice([DOWN, UP]))
            yield link(own, port, kind, "news" if (port in down) != (kind == DOWN) else "known")
            (down.add if kind == DOWN else down.discard)(port)
            continue
        to, first, second = rows[int(random.integers(len(rows)))]
        by, detour = int(random.choice([*ports, PORTS + 4, first, second])), int(random.random() < 0.2)
        if first not in down and first != by:
            tag = "up"
        elif second in down or second == by:
            tag = "none"
        else:
            tag = "twice" if detour else "back" if first not in down else "down"
        kind = int(random.choice([PUSH, PUSH, 0, 2, DOWN - 1, UP + 1, 255, DOWN + 16 * int(random.integers(1, 15))]))
        yield push(own, to, by, tag, detour, kind, int(random.choice([0, first, second, PORTS, 60_000])))


def others(own: Numbers, draws: Draws) -> Sequence[Scenario]:
    """Returns scenarios with frames that are not for this switch."""
    random = draws.generator("others")
    whole = push(own, 1, 1, "")
    types = [ETHERNET.pack(dst=node(1), type=own["sum_type"] ^ 1 << bit) for bit in range(16)]
    strange = (Frame(1, head + whole.data[14:], "a frame of another EtherType") for head in types)
    lengths = (18, ETHERNET.bytes + SUM.bytes - 1)
    short = (Frame(1, whole.data[:length], f"a frame that is cut short after {length} bytes") for length in lengths)
    far = (PORTS, PORTS + 1, 60_000, *((1 << bit) + int(random.integers(PORTS)) for bit in (8, 15)))
    frames = (*strange, push(own, 9, 1, ""), *short, *(link(own, port, DOWN, "") for port in far))
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
        Mistake("only PUSHes are sent on: frames of all other kinds for a node are, too", {"kinds": "pushes"}),
        Mistake("other kinds are taken for news: only DOWN and UP are", {"kinds": "news"}),
        Mistake("DOWN and UP are taken only where table way has their address: they may have any", {"addressed": True}),
        Mistake("DOWN and UP are taken from anyone: only port WATCH may say so", {"forged": True}),
        Mistake("DOWN and UP are taken from the port that they name: only port WATCH may say so", {"named": True}),
        Mistake("the frame was not marked: set detour to 1 when it takes the second way", {"marks": False}),
        Mistake("a frame that took a detour before takes another, and may go round for ever: drop it", {"circles": True}),
        Mistake("the second way was not looked at: it may be down, or the one that the frame came by", {"blind": "link, port"}),
        Mistake("the link of the second way was not looked at: it may be down", {"blind": "link"}),
        *(
            Mistake("the frame went back to the node that sent it: a way is open only if it is not the port that the frame came by", {"back": ways_})
            for ways_ in ("first, second", "first", "second")
        ),
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
