"""Sharing of links by frames: frame by frame where a collective begins, and as a fluid once frames flow.

**Frame by frame.** A collective begins with a transient: exponents are agreed on, windows open, bursts queue before
shared links. Its first chunks show that transient, and the rate that follows it. They are simulated by a list of
events: a frame takes a link when the frames before it have left, and a sender sends what its window, its pace and its
exponents allow (docs/protocol.md). There are no lanes, headers, tables or faults, so no switch or endpoint is needed.

**As a fluid.** A flow carries units (chunks) at one rate on every link that it uses. How flows of one class share a
link depends on its server:

- A *host* asks its senders in turn, so that flows share its link frame by frame: max-min fair (Bertsekas and Gallager,
  Data Networks, 2nd ed., section 6.5.2).
- A *switch's queue* is first come, first served, and each flow keeps a fixed window in flight. Then x_j = W_j / (rtt_j
  + q_j), where q_j is the wait in the queues on its path, and only a full link has a queue. These rates are unique (Mo
  and Walrand, Fair end-to-end window-based congestion control, 2000).

Higher classes take what they need first; lower ones share what is left.
"""

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.problem import ACK_EVERY
from p4reduce.control_plane.plans.routes import HEADER_BYTES, frame_time_ps
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.specs import Timing

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
NEVER: Final = 1 << 62


@dataclass(frozen=True)
class WireTimes:
    """Time for which frames of two lengths occupy each directed link, and its delay, in picoseconds."""

    full: Mapping[Hop, int]
    empty: Mapping[Hop, int]
    delay: Mapping[Hop, int]
    hosts: frozenset[str]
    """Hosts; they have no queue before their links, because frames are made when the link is free."""

    @classmethod
    def of(cls, topology: Topology, length: int) -> "WireTimes":
        """Return the times on a topology's links; ``length``: bytes of a full frame."""
        full: dict[Hop, int] = {}
        empty: dict[Hop, int] = {}
        delay: dict[Hop, int] = {}
        for link in topology.links:
            times = frame_time_ps(length, link.rate_bps), frame_time_ps(HEADER_BYTES, link.rate_bps)
            for hop in ((link.a, link.port_a), (link.b, link.port_b)):
                full[hop], empty[hop] = times
                delay[hop] = link.delay_ps
        return cls(full, empty, delay, frozenset(host.name for host in topology.hosts))


Way = Sequence[tuple[int, int, int, int]]
"""Links of a path: number, time of a full frame, time of one without lanes, delay."""


Arrived = Callable[..., None]
"""Called when a frame arrives, with the numbers that it was sent with."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame that a sender puts on its host's link."""

    way: Way
    full: bool
    arrived: Arrived
    numbers: tuple[int, ...]


class _Sender(Protocol):
    def next(self, now: int) -> "_Frame | int":
        """Return the frame that may leave now, or the time to ask again; ``NEVER``: after the next arrival."""


@dataclass
class _Host:
    """Senders of a host, which share its link in turn, frame by frame."""

    senders: list[_Sender] = field(default_factory=list)
    turn: int = 0
    asked_at: int = NEVER
    free: int = 0


class _Network:
    """Links and hosts, when each is free, and the events to come."""

    def __init__(self, wires: WireTimes) -> None:
        self._wires = wires
        self._number: dict[Hop, int] = {}
        self._free: list[int] = []
        self._queues: list[deque[int] | None] = []
        """Queues of switches' links; None for hosts' links."""
        self.deepest = 0
        """Most frames that waited before a link at the same time."""
        self.late = False
        """Whether an acknowledgement came after its frame would have been sent again."""
        self._events: list[tuple[int, int, Callable[..., object], tuple[int, ...]]] = []
        self._order = 0
        self.hosts: dict[str, _Host] = {}
        self.now = 0

    def way(self, hops: Sequence[Hop]) -> Way:
        """Return the links of a path."""
        links = []
        for hop in hops:
            number = self._number.setdefault(hop, len(self._free))
            if number == len(self._free):
                self._free.append(0)
                self._queues.append(None if hop[0] in self._wires.hosts else deque())
            links.append((number, self._wires.full[hop], self._wires.empty[hop], self._wires.delay[hop]))
        return links

    def at(self, when: int, call: Callable[..., object], *numbers: int) -> None:
        """Schedule a call; calls of the same time run in the order in which they were scheduled."""
        self._order += 1
        heapq.heappush(self._events, (when, self._order, call, numbers))

    def put(self, way: Way, full: bool, arrived: Arrived, *numbers: int) -> int:
        """Put a frame on the first link of a path; return when that link is free again."""
        number, long, short, delay = way[0]
        begins = max(self.now, self._free[number])
        leaves = self._free[number] = begins + (long if full else short)
        queue = self._queues[number]
        while queue and queue[0] <= self.now:
            queue.popleft()
        if begins > self.now and queue is not None:
            queue.append(begins)
            self.deepest = max(self.deepest, len(queue))
        if len(way) == 1:
            self.at(leaves + delay, arrived, *numbers)
        else:
            self.at(leaves + delay, partial(self.put, way[1:], full, arrived), *numbers)
        return leaves

    def add(self, host: str, sender: _Sender) -> _Host:
        """Add a sender to a host; it begins now."""
        sharing_host = self.hosts.setdefault(host, _Host())
        sharing_host.senders.append(sender)
        self.ask(sharing_host, self.now)
        return sharing_host

    def ask(self, host: _Host, when: int) -> None:
        """Schedule a request for a frame to a host's senders."""
        when = max(when, host.free)
        if when < host.asked_at:
            host.asked_at = when
            self.at(when, lambda: self._ask(host, when))

    def _ask(self, host: _Host, when: int) -> None:
        if host.asked_at != when:
            return
        host.asked_at = NEVER
        count, again = len(host.senders), NEVER
        for step in range(count):
            place = (host.turn + step) % count
            frame = host.senders[place].next(self.now)
            if isinstance(frame, _Frame):
                host.turn = (place + 1) % count
                host.free = self.put(frame.way, frame.full, frame.arrived, *frame.numbers)
                self.ask(host, host.free)
                return
            again = min(again, frame)
        if again < NEVER:
            self.ask(host, again)

    def run(self, until: Callable[[], bool], most: int) -> None:
        """Process events until ``until()`` is true, or at most ``most`` events."""
        events = self._events
        for _ in range(most):
            if not events or until():
                return
            self.now, _, call, numbers = heapq.heappop(events)
            call(*numbers)


@dataclass
class _TimeOut:
    """Time-out of a sender: when it would send a frame again without an answer."""

    timing: Timing
    sent_at: deque[int] = field(default_factory=deque)
    """Send times of frames without an answer, in order."""
    smoothed: int = 0
    """Smoothed round trip, ps."""
    samples: int = 0

    @property
    def _bounded(self) -> int:
        return (
            min(max(self._wanted, self.timing.min_ps), self.timing.max_ps) if self.samples else self.timing.initial_ps
        )

    @property
    def _wanted(self) -> int:
        """Time-out of a tree (workers/kernels/recovery.py, ``learn_trip``)."""
        return 4 * self.smoothed

    def answered(self, now: int, *, sample: bool) -> bool:
        """Take in an answer to a frame of a tree; return whether it is late. ``sample``: it measures the round trip."""
        round_trip = now - self.sent_at.popleft()
        late = round_trip > self._bounded
        if sample:
            change = round_trip - self.smoothed
            self.smoothed += change // (4 if change < 0 else 32) if self.samples else change
            self.samples += 1
        return late


@dataclass
class _StreamTimeOut(_TimeOut):
    """Time-out of a stream, by RFC 6298, section 2."""

    due: int = NEVER
    deviation: int = 0
    sampled_at: int = 0
    shortest: int = NEVER
    """Shortest round trip since the last sample, ps."""

    @property
    def _wanted(self) -> int:
        return self.smoothed + 4 * self.deviation

    def sent(self, now: int) -> None:
        """Take in that a frame leaves."""
        self.sent_at.append(now)
        if self.due == NEVER:
            self.due = now + self._bounded

    def acknowledged(self, count: int, now: int) -> bool:
        """Take in the acknowledgement of ``count`` more frames; return whether it came too late."""
        late = now > self.due
        sent_at = [self.sent_at.popleft() for _ in range(count)][-1]
        self.shortest = min(self.shortest, now - sent_at)
        if sent_at >= self.sampled_at:
            if self.samples == 0 or 2 * self.shortest < self.smoothed:
                self.smoothed, self.deviation = self.shortest, self.shortest // 2
            else:
                self.deviation += (abs(self.smoothed - self.shortest) - self.deviation) // 4
                self.smoothed += (self.shortest - self.smoothed) // 8
            self.samples, self.sampled_at, self.shortest = self.samples + 1, now, NEVER
        self.due = now + self._bounded if self.sent_at else NEVER
        return late


@dataclass(frozen=True)
class TreeFrames:
    """Frames that a collective of a tree or star sends between children and parents for each chunk."""

    up_full: bool
    down_full: bool
    chunks: int
    lead: int
    """Frames without lanes that are sent ahead of all chunks."""
    distance: int
    """Frames by which a chunk's exponent is ahead of the chunk; 0: there are no exponents."""
    most: int
    """A chunk waits for the answer to the frame that is this many before it."""
    room: int
    """Most chunks with lanes in flight."""
    pace_ps: int
    merged: bool
    """Whether an answer waits for all children; a server of hosts answers a PULL at once."""
    timing: Timing
    """Time-outs of a worker."""
    zeros: Bools | None = field(default=None, compare=False)
    """For each chunk, whether it is zero at all workers, so that its frames have no lanes; None: no chunk is."""


@dataclass
class _TreeWorker:
    """Sender of a worker: frames go up in order, and are answered in order. A relay's frames go into its own sum."""

    number: int
    tree: "_Tree"
    sent: int = 0
    answered: int = 0
    pace_at: int = -NEVER
    owes: "deque[_Frame]" = field(default_factory=deque)
    """Sums and answers that a relay has to send."""
    time_out: _TimeOut = field(init=False)

    def __post_init__(self) -> None:
        self.time_out = _TimeOut(self.tree.frames.timing)

    def next(self, now: int) -> "_Frame | int":
        frame_or_time = self._next(now)
        while isinstance(frame_or_time, _Frame) and self.tree.adds_up(self.number):
            self.tree.came_up(self.number, self.number, frame_or_time.numbers[-1])
            frame_or_time = self._next(now)
        return self.owes.popleft() if self.owes else frame_or_time

    def _next(self, now: int) -> "_Frame | int":
        frames, seq, answered, full = self.tree.frames, self.sent, self.answered, self.tree.full
        if seq >= self.tree.last or seq - frames.most >= answered:
            return NEVER
        if seq >= frames.lead and frames.distance and seq - frames.distance >= answered:
            return NEVER
        if full[seq + 1] > full[seq]:
            if full[seq] - full[answered] >= frames.room:
                return NEVER
            if now < self.pace_at:
                return self.pace_at
            if frames.pace_ps:
                self.pace_at = max(self.pace_at, now - frames.pace_ps) + frames.pace_ps
        self.sent = seq + 1
        self.time_out.sent_at.append(now)
        way, parent = self.tree.up.get(self.number, ([], self.number))
        return _Frame(way, self.tree.is_full(seq, frames.up_full), self.tree.came_up, (parent, self.number, seq))


class _Answers:
    """Sender of a server, which its host asks in turn, like workers' senders."""

    def __init__(self) -> None:
        self.frames: deque[_Frame] = deque()

    def next(self, now: int) -> "_Frame | int":
        del now
        return self.frames.popleft() if self.frames else NEVER


class _Tree:
    """A tree or star: workers have the first numbers, then switches and the server."""

    def __init__(self, network: _Network, plan: Plan, frames: TreeFrames, count: int) -> None:
        self.frames, self._network = frames, network
        names = dict.fromkeys([*plan.workers, *(name for edge in plan.edges for name in edge)])
        index = {name: number for number, name in enumerate(names)}
        self.last = frames.lead + count
        with_lanes = np.ones(self.last, np.bool_)
        with_lanes[: frames.lead] = False
        if frames.zeros is not None:
            with_lanes[frames.lead :] = ~frames.zeros[:count]
        self.full: list[int] = [0, *np.cumsum(with_lanes).tolist()]
        """Number of chunks with lanes among the first k frames, by k."""
        self.up: dict[int, tuple[Way, int]] = {}
        self._down: dict[int, list[tuple[Way, int]]] = {}
        for child, parent in plan.edges:
            self.up[index[child]] = network.way(plan.path_hops(child, parent)), index[parent]
            below = self._down.setdefault(index[parent], [])
            below.append((network.way(plan.path_hops(parent, child)), index[child]))
        self._back = {(node, child): way for node, below in self._down.items() for way, child in below}
        workers = len(plan.workers)
        self._missing = {node: [len(below) + (node < workers)] * self.last for node, below in self._down.items()}
        self._done = np.zeros(self.last, np.int64)
        self.left = len(plan.workers) * self.last
        self._workers = [_TreeWorker(number, self) for number in range(len(plan.workers))]
        self._hosts = [network.add(name, end) for name, end in zip(plan.workers, self._workers, strict=True)]
        self._server: tuple[int, _Answers, _Host] | None = None
        if plan.server is not None and plan.server in index:
            answers = _Answers()
            self._server = index[plan.server], answers, network.add(plan.server, answers)

    def done(self) -> Ints:
        """Return when each chunk was done at the last worker, for chunks that are done at all workers."""
        return self._done[self.frames.lead : min(worker.answered for worker in self._workers)]

    def is_full(self, seq: int, direction: bool) -> bool:
        """Return whether a frame has lanes; ``direction``: whether this collective's frames up, or down, have lanes."""
        return direction and self.full[seq + 1] > self.full[seq]

    def adds_up(self, worker: int) -> bool:
        """Return whether a worker is a relay."""
        return worker in self._missing

    def came_up(self, node: int, child: int, seq: int) -> None:
        """Process a child's frame at its parent."""
        frames = self.frames
        if not frames.merged:
            self._put(node, _Frame(self._back[node, child], frames.down_full, self._came_down, (child, seq)))
            return
        missing = self._missing[node]
        missing[seq] -= 1
        if missing[seq]:
            return
        if node in self.up:
            way, parent = self.up[node]
            self._put(node, _Frame(way, self.is_full(seq, frames.up_full), self.came_up, (parent, node, seq)))
        else:
            self._came_down(node, seq)

    def _send_down(self, node: int, seq: int) -> None:
        full = self.is_full(seq, self.frames.down_full)
        for way, child in self._down[node]:
            self._put(node, _Frame(way, full, self._came_down, (child, seq)))

    def _put(self, node: int, frame: "_Frame") -> None:
        """Put a switch's frame on its link; frames of relays and servers wait for their turn at their hosts."""
        if node < len(self._workers):
            self._workers[node].owes.append(frame)
            self._network.ask(self._hosts[node], self._network.now)
        elif self._server is not None and self._server[0] == node:
            _, answers, host = self._server
            answers.frames.append(frame)
            self._network.ask(host, self._network.now)
        else:
            self._network.put(frame.way, frame.full, frame.arrived, *frame.numbers)

    def _came_down(self, node: int, seq: int) -> None:
        if node in self._down:
            self._send_down(node, seq)
        if node >= len(self._workers):
            return
        worker, now = self._workers[node], self._network.now
        self._network.late |= worker.time_out.answered(now, sample=seq >= self.frames.lead)
        worker.answered = seq + 1
        self._done[seq] = now
        self.left -= 1
        self._network.ask(self._hosts[node], now)


@dataclass(frozen=True)
class StreamFrames:
    """Frames that hosts send each other: to the next host in a ring, to every other one in an all-to-all."""

    size: int
    """Frames of a stream."""
    segment: int
    """In a ring, a frame waits for the frame this many before it from the previous host; 0: no wait."""
    window: int
    """Most frames that are not acknowledged."""
    pace_ps: int
    timing: Timing
    """Time-outs of a sender."""
    follows: bool = False
    """Whether it begins when the previous one has just ended, with its last acknowledgements still in flight."""


@dataclass
class _StreamHost:
    """Sender of a host: acknowledgements go first, then frames of its streams in turn."""

    number: int
    streams: "_Streams"
    sent: list[int]
    acknowledged: list[int]
    owes: deque[tuple[int, int, int]] = field(default_factory=deque)
    """Acknowledgements to send: sender, stream, frames."""
    pace_at: int = -NEVER
    turn: int = 0
    time_outs: list[_StreamTimeOut] = field(init=False)
    """Time-outs of its streams."""

    def __post_init__(self) -> None:
        self.time_outs = [_StreamTimeOut(self.streams.frames.timing) for _ in self.sent]

    def next(self, now: int) -> "_Frame | int":
        streams, frames = self.streams, self.streams.frames
        if self.owes:
            sender, stream, count = self.owes.popleft()
            return _Frame(streams.backs[sender][stream], False, streams.acknowledged, (sender, stream, count))
        for step in range(len(self.sent)):
            stream = (self.turn + step) % len(self.sent)
            frame = self.sent[stream]
            if frame >= streams.open or frame - self.acknowledged[stream] >= frames.window:
                continue
            needed = frame - frames.segment if frame % frames.size >= frames.segment > 0 else -1
            if streams.come[self.number - 1][0] <= needed:
                continue
            if now < self.pace_at:
                return self.pace_at
            if frames.pace_ps:
                self.pace_at = max(self.pace_at, now - frames.pace_ps) + frames.pace_ps
            self.turn = (stream + 1) % len(self.sent)
            self.sent[stream] = frame + 1
            self.time_outs[stream].sent(now)
            return _Frame(streams.ways[self.number][stream], True, streams.came, (self.number, stream, frame))
        return NEVER


class _Streams:
    """A ring or an all-to-all."""

    def __init__(self, network: _Network, plan: Plan, frames: StreamFrames, count: int) -> None:
        self.frames, self._network = frames, network
        self._before = count if frames.follows and count == frames.size else 0
        """Frames of the previous collective, which is simulated, too."""
        self._last = self._before + count
        self.open = self._before or count
        """Frames of the collectives that have begun."""
        self._begun = 0
        order = plan.ring or plan.workers
        size = len(order)
        self._steps = (1,) if plan.ring else tuple(range(1, size))
        pairs = [[(order[a], order[(a + step) % size]) for step in self._steps] for a in range(size)]
        self.ways = [[network.way(plan.path_hops(*pair)) for pair in row] for row in pairs]
        self.backs = [[network.way(plan.path_hops(*pair[::-1])) for pair in row] for row in pairs]
        self.come = [[0] * len(self._steps) for _ in order]
        self._done = np.zeros(self._last, np.int64)
        self._each = size * len(self._steps)
        self.left = self._each * self._last
        none = [0] * len(self._steps)
        self._ends = [_StreamHost(number, self, none.copy(), none.copy()) for number in range(size)]
        self._hosts = [network.add(name, end) for name, end in zip(order, self._ends, strict=True)]

    def done(self) -> Ints:
        """Return when the last host had each frame of its streams, for frames that have all arrived."""
        return self._done[self._before : min(map(min, self.come))] - self._begun

    def came(self, sender: int, stream: int, frame: int) -> None:
        """Process a frame at its receiver."""
        receiver = (sender + self._steps[stream]) % len(self._ends)
        self.come[sender][stream] = frame + 1
        self._done[frame] = self._network.now
        self.left -= 1
        position = frame % self.frames.size
        if (position + 1) % ACK_EVERY == 0 or position + 1 == self.frames.size:
            self._ends[receiver].owes.append((sender, stream, frame + 1))
        self._network.ask(self._hosts[receiver], self._network.now)
        if self._before and self.left == self._each * self._before:
            self.open, self._begun = self._last, self._network.now
            for host in self._hosts:
                self._network.ask(host, self._begun)

    def acknowledged(self, sender: int, stream: int, count: int) -> None:
        """Process an acknowledgement at its sender."""
        end, now = self._ends[sender], self._network.now
        self._network.late |= end.time_outs[stream].acknowledged(count - end.acknowledged[stream], now)
        end.acknowledged[stream] = count
        self._network.ask(self._hosts[sender], now)


class Opening(NamedTuple):
    """Result of simulating the first chunks."""

    done: list[Ints]
    """For each part: when the last worker had each of its first chunks; shorter if the events did not reach."""
    deepest: int
    """Most frames that waited before a link at the same time."""
    late: bool
    """Whether acknowledgements of streams came so late that packets would have been sent again needlessly."""


def opening(parts: Sequence[tuple[Plan, TreeFrames | StreamFrames, int]], wires: WireTimes, most: int) -> Opening:
    """Simulate the first chunks of collectives that begin together; return when they are done, ps after the beginning.

    Parameters
    ----------
    parts : sequence of (Plan, TreeFrames or StreamFrames, int)
        Plans on one topology, their frames, and how many of their chunks (for a stream: frames) are simulated.
    wires : Wires
        Times of the topology's links and the frames.
    most : int
        Events after which the simulation stops.
    """
    network = _Network(wires)
    runs: list[_Tree | _Streams] = [
        _Tree(network, plan, sent, count) if isinstance(sent, TreeFrames) else _Streams(network, plan, sent, count)
        for plan, sent, count in parts
    ]
    network.run(lambda: not any(run.left for run in runs), most)
    return Opening([run.done() for run in runs], network.deepest, network.late)


Floats = npt.NDArray[np.float64]
SWEEPS: Final = 30
HALVINGS: Final = 40
CLOSE: Final = 1e-6


@dataclass(frozen=True)
class Demand:
    """Demand of one flow.

    Attributes
    ----------
    busy : mapping
        Link -> how long it is busy with a unit, ps.
    most : float
        Units per picosecond that it would have alone.
    window : float
        Most units in flight.
    rtt_ps : float
        Time until a unit is answered, with empty queues.
    ways : sequence of frozenset
        Links that a unit and its answer cross, for each sender: the slowest path counts.
    streams : bool
        Whether its senders do not wait for each other, so that a window of each stands before a full link even where a
        host lets one of them send less.
    cycle : bool
        Whether its units go round all paths, one after the other, with one window for all: queues share it.
    priority : int
        Its class, 7 first.
    """

    busy: Mapping[int, float]
    most: float
    window: float
    rtt_ps: float
    ways: Sequence[frozenset[int]]
    streams: bool = False
    cycle: bool = False
    priority: int = 0


Waits = dict[tuple[int, int], tuple[int, float]]
"""(class, link) -> the queue in which its frames wait, and how long, ps; the queue is before the first of the links
that fill up alike."""


def rates(demands: Sequence[Demand], hosts: frozenset[int]) -> tuple[Floats, Waits]:
    """Return the units per picosecond of each flow, and how long frames wait.

    hosts: links that a host serves.
    """
    flow_rates = np.zeros(len(demands))
    waits: Waits = {}
    users: dict[int, list[int]] = {}
    for number, demand in enumerate(demands):
        for link in demand.busy:
            users.setdefault(link, []).append(number)
    shared = [link for link, own in users.items() if len(own) > 1]
    left = dict.fromkeys(shared, 1.0)
    for priority in sorted({demand.priority for demand in demands}, reverse=True):
        own = [number for number, demand in enumerate(demands) if demand.priority == priority]
        links = [link for link in shared if any(link in demands[number].busy for number in own)]
        got, waiting = _class([demands[number] for number in own], links, left, hosts)
        flow_rates[own] = got
        waits |= {(priority, link): wait for link, wait in waiting.items()}
        for number, rate in zip(own, got, strict=True):
            for link in links:
                left[link] = max(0.0, left[link] - rate * demands[number].busy.get(link, 0.0))
    return flow_rates, waits


def _class(
    demands: Sequence[Demand], links: Sequence[int], left: dict[int, float], hosts: frozenset[int]
) -> tuple[Floats, dict[int, tuple[int, float]]]:
    """Return rates and waits of one class, from the free share of each link."""
    most = np.array([demand.most for demand in demands])
    starved = [any(left[link] <= CLOSE for link in demand.busy if link in left) for demand in demands]
    most[starved] = 0.0
    busy = np.array([[demand.busy.get(link, 0.0) for link in links] for demand in demands]).reshape(len(demands), -1)
    room = np.array([left[link] for link in links])
    full = most @ busy > room * (1 + CLOSE)
    if not full.any():
        return most, {}
    # Links with the same use fill up alike: one of them stands for all.
    first: dict[tuple[object, ...], int] = {}
    alike: dict[int, int] = {}
    columns: list[int] = []
    for place in np.flatnonzero(full).tolist():
        key = (*busy[:, place].tolist(), float(room[place]), links[place] in hosts)
        if key not in first:
            first[key] = len(columns)
            columns.append(place)
        alike[links[place]] = first[key]
    busy, room = busy[:, columns], room[columns]
    turns = np.array([links[place] in hosts for place in columns])
    queues = np.flatnonzero(~turns).tolist()
    ways = [
        sorted({tuple(sorted({alike[link] for link in way if link in alike})) for way in demand.ways})
        for demand in demands
    ]
    window = np.array([demand.window for demand in demands])
    rtt = np.array([demand.rtt_ps for demand in demands])
    for number, demand in enumerate(demands):
        if demand.cycle:
            queued = max(1, sum(not alike.keys().isdisjoint(way) for way in demand.ways))
            window[number] /= queued
            rtt[number] /= queued
    streams = np.array([demand.streams for demand in demands])
    wait = np.zeros(len(columns))

    def share(*, queued: bool = True) -> Floats:
        """Return the rates, or (queued) the arrival rates before queues."""
        waited = np.array([max((sum(wait[place] for place in way) for way in own), default=0.0) for own in ways])
        held: Floats = np.minimum(most, window / (rtt + waited))
        if not turns.any():
            return held
        shared = _in_turn(held, busy[:, turns], room[turns])
        return np.where(streams, held, shared) if queued else shared

    for _ in range(SWEEPS):
        before = wait.copy()
        for place in queues:
            wait[place] = 0.0
            if share() @ busy[:, place] <= room[place] * (1 + CLOSE):
                continue
            low, high = 0.0, float((window * busy[:, place]).sum() / max(room[place], CLOSE))
            for _ in range(HALVINGS):
                wait[place] = (low + high) / 2
                if share() @ busy[:, place] > room[place]:
                    low = wait[place]
                else:
                    high = wait[place]
            wait[place] = high
        if np.allclose(before, wait, rtol=CLOSE, atol=1.0):
            break
    rate = share(queued=False)
    # Higher classes may leave little room; a new frame waits for those that are there, at the rate of the link.
    wait = np.minimum(wait, window @ busy)
    stands = set(queues)
    return rate, {link: (place, float(wait[place])) for link, place in alike.items() if place in stands}


def _in_turn(most: Floats, busy: Floats, room: Floats) -> Floats:
    """Return max-min fair rates, none above its ``most``: all rise together, until a link is full."""
    rate = np.zeros(len(most))
    rising = np.ones(len(most), np.bool_)
    left = room.copy()
    while rising.any():
        load = busy[rising].sum(axis=0)
        steps = np.divide(left, load, out=np.full(len(left), np.inf), where=load > 0)
        step = min(float(steps.min(initial=np.inf)), float((most - rate)[rising].min()))
        rate[rising] += step
        left = np.maximum(0.0, left - step * load)
        stopped = (rate >= most * (1 - 1e-12)) | (busy[:, (steps <= step * (1 + 1e-12)) & (load > 0)] > 0).any(axis=1)
        rising &= ~stopped
    return rate
