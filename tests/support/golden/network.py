"""A network whose links may lose, repeat, reorder and hold back frames, as a seed decides."""

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
"""largest number of copies that are held back at once"""


class Switch(Protocol):
    """A switch under test. ``golden``: the model that is the switch itself, or is compared with it at every step."""

    golden: GoldenSwitch

    def receive(self, port: int, frame: Frame) -> Outcome:
        """Process one frame; return what leaves, and why it was refused."""

    def write(self, entry: Entry, *, insert: bool) -> None:
        """Insert or delete a table entry."""

    def check(self) -> None:
        """Raise AssertionError if slots or counters differ from those of the golden model."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities (0 to 1) of what happens to a frame at the end of a link.

    ``held``: a copy of the frame arrives much later, or never. ``marked``: the frame has crossed a congested queue.
    """

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    held: float = 0.0
    marked: float = 0.0


Endpoint = Callable[[Packet], list[Emission]]


class Network:
    """Frames in flight on the links of ``graph``, and the switches and endpoints that receive them."""

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
        """Number of frames on links, without copies that are held back."""
        return sum(len(self._links[end]) for end in self._busy)

    @property
    def idle(self) -> bool:
        """Whether no frame is on any link."""
        return not self._busy

    def send(self, node: Node, emissions: list[Emission]) -> None:
        """Put the frames that ``node`` sends on its links."""
        for port, frame in emissions:
            there = self.graph.neighbours.get((node, port))
            assert there is not None, f"{node} sent by port {port}, where it has no link: {frame}"
            self._put((there, self.graph.ports[there][node]), frame)

    def step(self) -> None:
        """Let one frame arrive, or lose it."""
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
        """Hand ``frame`` to ``node``, and put its answers on links. Return the outcome at a switch; None for a host."""
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
        """Put one copy that was held back, or all of them, on their links."""
        for _ in range(len(self._stash) if everything else min(1, len(self._stash))):
            self._put(*self._stash.pop(int(self.rng.random() * len(self._stash))))

    def restart(self, node: Node, fresh: Switch) -> None:
        """Replace a switch by a fresh one."""
        self.switches[node] = fresh
        self._watches[node] = SlotWatch()

    def _put(self, end: tuple[Node, int], frame: Frame) -> None:
        frames = self._links[end]
        if not frames:
            self._busy.append(end)
        frames.append(frame)


class SlotWatch:
    """Compares the slots of a switch with an earlier look: a slot must not return to an earlier state."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, int, int, bool]] = {}

    def look(self, golden: GoldenSwitch) -> None:
        """Compare the slots with those of the look before. Raises AssertionError."""
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
