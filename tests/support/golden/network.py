"""An adversary's network: every link may lose, repeat, reorder and hold back frames, by choices of a seeded source."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from tests.support.golden.frames import ECN_CONGESTED, SEQ_MODULUS, Frame, Packet
from tests.support.golden.graph import Graph, Node
from tests.support.golden.switch import Emission, GoldenSwitch, Outcome
from tests.support.golden.tables import Entry
from tests.support.golden.witness import Witness

STASH_LIMIT: Final = 64
"""Frames held back at once; more would only dilute them."""


class Switch(Protocol):
    """A switch under test. ``golden`` is the model that it is, or is compared with at every step."""

    golden: GoldenSwitch

    def receive(self, port: int, frame: Frame) -> Outcome:
        """Processes one frame."""

    def write(self, entry: Entry, *, insert: bool) -> None:
        """Inserts or deletes a table entry."""

    def check(self) -> None:
        """Raises AssertionError if slots or counters are not the golden model's."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Of 1: what happens to a frame at the end of a link.

    ``held`` frames come back much later, if ever; ``marked`` ones have crossed a congested queue.
    """

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    held: float = 0.0
    marked: float = 0.0


Endpoint = Callable[[Packet], list[Emission]]


class Network:
    """Frames in flight on the links of ``graph``, and everything that they reach."""

    def __init__(self, graph: Graph, switches: dict[Node, Switch], rng: random.Random) -> None:
        self.graph, self.switches, self.rng = graph, switches, rng
        self.faults: dict[tuple[Node, int], Faults] = {}
        self.faulty = True
        self.endpoints: dict[tuple[Node, int], Endpoint] = {}
        self.events: Counter[str] = Counter()
        self.witness = Witness(graph)
        self._links: dict[tuple[Node, int], list[Frame]] = {end: [] for end in graph.neighbours}
        self._busy: list[tuple[Node, int]] = []  # links with frames, by the end where they arrive
        self._stash: list[tuple[tuple[Node, int], Frame]] = []
        self._watches = {node: SlotWatch() for node in switches}

    @property
    def in_flight(self) -> int:
        """Frames on links, without those held back."""
        return sum(len(self._links[end]) for end in self._busy)

    @property
    def idle(self) -> bool:
        """Whether no frame is on any link."""
        return not self._busy

    def send(self, node: Node, emissions: list[Emission]) -> None:
        """Puts what ``node`` emits on its links."""
        for port, frame in emissions:
            there = self.graph.neighbours.get((node, port))
            assert there is not None, f"{node} sent by port {port}, where it has no link: {frame}"
            self._put((there, self.graph.ports[there][node]), frame)

    def step(self) -> None:
        """Lets one frame arrive somewhere, or be lost on the way."""
        spot = int(self.rng.random() * len(self._busy))
        end = self._busy[spot]
        frames, faults = self._links[end], self.faults.get(end, Faults()) if self.faulty else Faults()
        late = len(frames) > 1 and self.rng.random() < faults.reorder
        frame = frames.pop(int(self.rng.random() * len(frames)) if late else 0)
        self.events["reordered"] += late
        if self.rng.random() < faults.duplicate:
            self.events["duplicated"] += 1
            frames.append(frame)
        if self.rng.random() < faults.held and len(self._stash) < STASH_LIMIT:
            self.events["held"] += 1
            self._stash.append((end, frame))
        if not frames:
            self._busy[spot] = self._busy[-1]
            self._busy.pop()
        if self.rng.random() < faults.marked and isinstance(frame, Packet):
            self.events["marked"] += 1
            frame = replace(frame, ecn=ECN_CONGESTED)
        if self.rng.random() < faults.loss:
            self.events["lost"] += 1
        else:
            self.arrive(*end, frame)

    def arrive(self, node: Node, port: int, frame: Frame) -> Outcome | None:
        """Hands ``frame`` to ``node``; what leaves goes on its links. None where ``node`` is a host."""
        self.events["arrived"] += 1
        if not node.is_switch:
            if isinstance(frame, Packet) and frame.ip_dst == node.ip and (node, frame.job) in self.endpoints:
                self.send(node, self.endpoints[node, frame.job](frame))
            return None
        golden = self.switches[node].golden
        golden.now_us = self.events["arrived"]
        spot = self.witness.before(golden, port, frame)
        outcome = self.switches[node].receive(port, frame)
        if spot is not None and outcome.refused is None:
            assert isinstance(frame, Packet)
            self.witness.after(node, golden, frame, port, spot)
        self.events[outcome.refused.name if outcome.refused else "accepted"] += 1
        self.send(node, outcome.emitted)
        if self.rng.random() < 0.125:
            self._watches[node].look(golden)
        return outcome

    def release(self, everything: bool = False) -> None:
        """Lets frames come back that were held back: one of them, or all."""
        for _ in range(len(self._stash) if everything else min(1, len(self._stash))):
            self._put(*self._stash.pop(int(self.rng.random() * len(self._stash))))

    def restart(self, node: Node, fresh: Switch) -> None:
        """Replaces a switch by one that knows nothing."""
        self.switches[node] = fresh
        self._watches[node] = SlotWatch()

    def _put(self, end: tuple[Node, int], frame: Frame) -> None:
        frames = self._links[end]
        if not frames:
            self._busy.append(end)
        frames.append(frame)


class SlotWatch:
    """Looks at a switch's slots now and then: what has been left behind may never come back."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, int, int, bool]] = {}

    def look(self, golden: GoldenSwitch) -> None:
        """Compares with the look before."""
        for index, slot in golden.slots.items():
            now = (slot.generation, slot.seq, slot.children, slot.done)
            before = self._seen.get(index, now)
            if before != now:
                assert self._follows(before, now), f"slot {index} of {golden.ip:#x} went back from {before} to {now}"
            self._seen[index] = now

    @staticmethod
    def _follows(before: tuple[int, int, int, bool], now: tuple[int, int, int, bool]) -> bool:
        if now[0] != before[0]:
            return now[0] > before[0]
        if now[1] != before[1]:
            return (now[1] - before[1]) % SEQ_MODULUS < SEQ_MODULUS // 2
        return before[2] & now[2] == before[2] and now[3] >= before[3]
