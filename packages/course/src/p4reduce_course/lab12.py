"""Lab 12: a switch that learns the addresses of workers, and tells its controller who has joined, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    Row,
    Scenario,
    Setup,
    fields_of,
    mac,
)
from p4reduce_course.frame.lab import Draws, Lab, LabPart

HELLO: Final = Header("hello", job=16, worker=8)
_PORTS: Final = range(1, 7)
_GROUP_BIT: Final = 1 << 40
_TYPES: Final = (0x0800, 0x0806, 0x88B5)
"""EtherTypes of frames that are no HELLOs"""
_ALL: Final = 0xFFFFFFFFFFFF


class Learning:
    """The reference: the switch and the controller that the README describes."""

    def __init__(self, numbers: Numbers, setup: Setup, *, back: bool = False, hairpin: bool = False,
            groups: bool = False, every: bool = False, moves: bool = True, hellos_go: bool = False,
            keeps: bool = True, renumbers: bool = True, floods: bool = True, either: bool = False) -> None:  # fmt: skip
        """Makes a switch that knows no worker; each named argument selects a mistake."""
        self.type, self.group = numbers["hello_type"], setup.groups[numbers["group"]]
        self.back, self.hairpin, self.groups, self.every, self.moves = back, hairpin, groups, every, moves
        self.hellos_go, self.keeps, self.renumbers, self.floods = hellos_go, keeps, renumbers, floods
        self.either = either
        self.known: dict[int, tuple[int, int]] = {}

    def frame(self, frame: Frame) -> Out:
        """Returns the result of one frame."""
        data, port = frame.data, frame.port
        if len(data) < ETHERNET.bytes:
            return Out()
        ethernet = ETHERNET.unpack(data)
        hello = ethernet["type"] == self.type
        if (hello and len(data) < ETHERNET.bytes + HELLO.bytes) or (ethernet["src"] & _GROUP_BIT and not self.groups):
            return Out()
        there, number = self.known.get(ethernet["src"], (None, 0))
        worker = HELLO.unpack(data[ETHERNET.bytes :])["worker"] if hello else number if self.keeps else 0
        new = there is None or (there != port and self.moves) or (hello and worker != number and self.renumbers)
        digests = ((ethernet["src"], port, worker),) if new or self.every else ()
        if (hello and not self.hellos_go) or (digests and self.either):
            return Out((), digests)
        to = self.known.get(ethernet["dst"])
        if to is not None:
            return Out(((to[0], data),) if to[0] != port or self.hairpin else (), digests)
        ports = [member for member in self.group if member != port or self.back] if self.floods else []
        return Out(tuple((member, data) for member in ports), digests)

    def learned(self, digest: tuple[int, ...]) -> Sequence[Row]:
        """Returns the controller's entries for a digest."""
        if len(digest) != 3:
            return ()
        address, port, worker = digest
        self.known[address] = port, worker
        return (
            {"table": "known", "match": {"hdr.ethernet.src": mac(address)}, "action": "at",
             "params": {"port": port, "worker": worker}},
            {"table": "forward", "match": {"hdr.ethernet.dst": mac(address)}, "action": "to", "params": {"port": port}},
        )  # fmt: skip


def numbers(draws: Draws) -> Numbers:
    """Returns the EtherType of a HELLO, and the group of all ports."""
    return {"hello_type": 0x8B00 + draws.integer("hello_type", 1, 0xF0), "group": draws.integer("group", 2, 200)}


def address(worker: int) -> int:
    """Returns the address of a worker: a local one, or a vendor's."""
    return {6: 0x00163E000000, 7: 0xFE0000000000}.get(worker, 0x020000000000) + worker


def data(worker: int, to: int, port: int, kind: str, *, source: int = 0, ether_type: int = _TYPES[0],
        payload: bytes = b"data") -> Frame:  # fmt: skip
    """Returns a frame of a worker."""
    frame = ETHERNET.pack(dst=to, src=source or address(worker), type=ether_type) + payload
    whose, whom = "a group" if source else f"worker {worker}", "all" if to >> 40 & 1 else f"worker {to & 0xFF}"
    odd = f" of EtherType {ether_type:#06x}" if ether_type not in _TYPES else ""
    odd += f" with {len(payload)} bytes behind Ethernet" if payload != b"data" else ""
    return Frame(port, frame, f"a frame of {whose} at port {port} to {whom}{odd}", kind)


def hello(own: Numbers, worker: int, port: int, kind: str, number: int | None = None, *, to: int = _ALL, source: int = 0,
        job: int = 1, padding: int = 0) -> Frame:  # fmt: skip
    """Returns the HELLO with which a worker joins; ``padding``: bytes of Ethernet behind it."""
    frame = ETHERNET.pack(dst=to, src=source or address(worker), type=own["hello_type"])
    what = f"a HELLO of {'a group' if source else f'worker {worker}'} at port {port}"
    what += f" with number {number}" if number is not None else ""
    what += "" if to == _ALL else f" to worker {to & 0xFF}"
    frame += HELLO.pack(job=job, worker=worker if number is None else number) + bytes(padding)
    return Frame(port, frame, what + (f" and {padding} bytes behind it" if padding else ""), kind)


def meetings(own: Numbers, draws: Draws) -> Sequence[Scenario]:
    """Returns scenarios in which workers join, talk, move and get other numbers."""
    everywhere = Setup((), {own["group"]: [*_PORTS]})
    first = (
        hello(own, 1, 1, "hello"), hello(own, 1, 1, "again"), data(2, address(1), 2, "new"),
        data(2, address(1), 2, "direct"), data(1, address(3), 1, "flood"), hello(own, 2, 2, "renumbered", 9),
        data(2, address(1), 4, "moved"), data(1, address(2), 1, "direct"), hello(own, 4, 1, "hello"),
        data(4, address(1), 1, "same side"), data(0, address(1), 3, "group", source=_GROUP_BIT | address(5)),
        data(1, _GROUP_BIT | address(9), 1, "flood"), hello(own, 2, 4, "again", 9),
        hello(own, 2, 4, "renumbered", 0), cut(own, 7, 16), hello(own, 2, 5, "elsewhere", 0),
        hello(own, 0, 3, "group", 5, source=_GROUP_BIT | address(5)), cut(own, 1, 14), cut(own, 7, 13),
        hello(own, 1, 1, "again", to=address(2)), data(0, address(1), 3, "group", source=0x01005E000001),
        data(1, address(2), 1, "direct", ether_type=own["hello_type"] ^ 1),
        data(3, address(1), 1, "new"), data(2, address(1), 1, "moved"),
    )  # fmt: skip
    second = (
        hello(own, 1, 1, "hello", 255), hello(own, 2, 2, "hello"), hello(own, 4, 6, "hello", 0), hello(own, 2, 5, "elsewhere", 77),
        hello(own, 2, 5, "renumbered", 78, padding=43), data(1, address(2), 1, "direct", payload=b""),
        data(1, address(2), 1, "direct", payload=b"ab"), data(3, _ALL, 3, "new"), data(3, _ALL, 3, "flood"),
        data(0, address(5), 3, "group", source=_GROUP_BIT | address(5)),
        data(0, address(1), 3, "group", source=0x333300000001), data(0, address(1), 3, "group", source=_ALL),
        *(data(1, address(2), 1, "direct", ether_type=own["hello_type"] ^ 1 << bit) for bit in range(16)),
    )  # fmt: skip
    scenarios = [Scenario(everywhere, first), Scenario(everywhere, second)]
    random = draws.generator("meetings")
    for _ in range(3):
        at: dict[int, int] = {}
        names: dict[int, int] = {}
        frames = []
        for _n in range(30):
            worker, to = (int(value) for value in random.integers(1, 8, 2))
            moves = worker in at and random.random() < 0.15
            port = int(random.choice(_PORTS)) if worker not in at or moves else at[worker]
            moved = worker in at and at[worker] != port
            if random.random() < 0.3:
                number = int(random.integers(256))
                if worker in at and random.random() < 0.4:
                    number = names.get(worker, 0)
                renumbered = "again" if names.get(worker, 0) == number else "renumbered"
                kind = "hello" if worker not in at else "elsewhere" if moved else renumbered
                whom = address(to) if random.random() < 0.5 else _ALL
                frames.append(hello(own, worker, port, kind, number, to=whom, job=int(random.integers(1, 1 << 16))))
                names[worker] = number
            else:
                kind = "new" if worker not in at else "moved" if moved else ""
                here = {**at, worker: port}
                kind = kind or ("flood" if to not in at else "same side" if here[to] == port else "direct")
                frames.append(data(worker, address(to), port, kind, ether_type=int(random.choice(_TYPES))))
            at[worker] = port
        scenarios.append(Scenario(everywhere, tuple(frames)))
    return scenarios


def cut(own: Numbers, worker: int, length: int) -> Frame:
    """Returns the first bytes of a HELLO, by port 1."""
    whole = hello(own, worker, 1, "cut")
    return replace(whole, data=whole.data[:length], what=f"a HELLO that is cut short after {length} bytes")


def example(own: Numbers) -> Scenario:
    """Returns the example for the lab's copy: worker 1 is known."""
    learning = Learning(own, Setup((), {own["group"]: [*_PORTS]}))
    setup = Setup((), {own["group"]: [*_PORTS]}).learned(learning.learned((address(1), 1, 1)))
    return Scenario(setup, (hello(own, 2, 2, ""), data(2, address(1), 2, ""), data(1, address(3), 1, "")))


BENCH: Final = Bench(
    file="learn.p4",
    reference=Learning,
    read=lambda frame: fields_of(frame, ETHERNET),
    numbers=numbers,
    example=example,
    properties=(
        Property("forward", "a known destination gets the frame alone", meetings, ("direct",), ("ports", "frames")),
        Property("forward", "an unknown one is looked for at all other ports", meetings, ("flood",), ("ports", "frames")),
        Property("forward", "nothing goes back where it came from", meetings, ("same side",), ("ports",)),
        Property("forward", "and so for new and moved workers", meetings, ("new", "moved"), ("ports", "frames")),
        Property("learn", "the controller hears of a new source", meetings, ("new",), ("digests",)),
        Property("learn", "and of one that has moved", meetings, ("moved", "elsewhere"), ("digests",)),
        Property("learn", "and of nothing twice", meetings, ("direct", "flood", "same side", "again"), ("digests",)),
        Property("join", "a HELLO tells the worker's number", meetings, ("hello", "renumbered"), ("digests",)),
        Property("join", "and goes no further", meetings, ("hello", "renumbered", "again", "elsewhere"), ("ports",)),
        Property("join", "a HELLO that is cut short does nothing", meetings, ("cut",), ("ports", "digests")),
        Property("join", "addresses of groups do not join", meetings, ("group",)),
    ),
    mistakes=(
        Mistake("a flooded frame must not go back by the port it came from: compare both ports in egress", {"back": True}),
        Mistake("sender and receiver are behind the same port: drop the frame, the receiver has it", {"hairpin": True}),
        Mistake("a source with the group bit (bit 40) is no worker's address: drop the frame, learn nothing", {"groups": True}),
        Mistake("a digest for every frame floods the controller: ask known first", {"every": True}),
        Mistake("known holds the port, too: where it is another one, the worker has moved", {"moves": False}),
        Mistake("a HELLO is for the controller alone: drop it", {"hellos_go": True}),
        Mistake("a frame that is no HELLO does not know the worker's number: tell the one in known", {"keeps": False}),
        Mistake("a HELLO with another number than known has is told, too", {"renumbers": False}),
        Mistake("a frame goes on all the same when the controller is told of its sender", {"either": True}),
        Mistake("an unknown destination is looked for: std.mcast_grp is the group of all ports", {"floods": False}),
    ),
)  # fmt: skip

LAB: Final[Lab] = BENCH.lab(
    "12", "12-learning-workers", "learning workers", 75,
    (
        LabPart("forward", "who gets a frame", 35),
        LabPart("learn", "what the controller hears", 35),
        LabPart("join", "workers that say who they are", 30),
    ),
    "your switch knows its workers without being told",
)  # fmt: skip
