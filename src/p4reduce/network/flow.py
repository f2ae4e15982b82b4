"""Flow model of collectives: how long they take, alone or beside other jobs, without simulating every packet.

Every time follows from documented quantities: the frames of a plan and operation (`control_plane/counters.exchange`),
their time on a link (docs/architecture.md, "Time and bytes"), windows, slots, pace, lead and acknowledgements
(docs/protocol.md). Nothing is fitted. The first chunks of a collective are simulated frame by frame
(`sharing.opening`). After them, the distance between chunks is the time that the busiest link needs for a chunk's
frames, or the distance that the window allows if that is larger. Beside other jobs, a collective flows at its share of
the links (`sharing.rates`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from math import ceil, inf
from typing import Final

import numpy as np

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import Operation, exchange
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.problem import ACK_EVERY
from p4reduce.control_plane.plans.routes import chunks, frame_bytes
from p4reduce.network.jobs.network import Job
from p4reduce.network.jobs.specs import JobNumbers, pace_of, ps_window, timing_of
from p4reduce.network.sharing import Bools, Demand, Ints, StreamFrames, TreeFrames, Waits, WireTimes, opening, rates
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.specs import MAX_RING_WINDOW
from p4switch.base.values import PS_PER_US

EVENTS: Final = 150_000
"""Most events of an opening: about half a second of processor time."""
RING_EVENTS: Final = 1_500_000
"""Most events of the longer of two rings: about five seconds of processor time."""
RING_WINDOWS: Final = 3
"""Windows in a segment that counts as long."""
LEAST_SEGMENT: Final = 4
CLOSE: Final = 1e-6
"""Units; a smaller remainder counts as zero."""
SETTLED: Final = 1.02
"""Factor over the busiest link's time for a chunk; chunks farther apart than this wait for their window."""


@dataclass(frozen=True)
class FlowLoad:
    """Frames that one part of a collective sends."""

    plan: Plan
    frames: TreeFrames | StreamFrames
    units: int
    """Chunks; in a ring or all-to-all, frames of one stream."""
    window: int
    """Most units in flight."""
    busy: Mapping[Hop, float]
    """Time for which one unit occupies each directed link, ps."""
    lead_busy: float
    """Time for which a frame without lanes that is sent ahead occupies the busiest link, ps."""
    step_ps: float = 0.0
    """In a ring, mean time that a frame takes to the next host, ps; otherwise 0."""

    @property
    def busiest(self) -> float:
        """Largest value of ``busy``, ps."""
        return max(self.busy.values(), default=0.0)

    @property
    def segment(self) -> int:
        """Frames of each host's segment in a ring so short that each frame passes once per round; otherwise 0."""
        segment = self.frames.segment if isinstance(self.frames, StreamFrames) else 0
        return segment if self.step_ps > segment * self.busiest else 0

    @property
    def lead(self) -> int:
        """Frames without lanes that are sent ahead."""
        return self.frames.lead if isinstance(self.frames, TreeFrames) else 0

    @property
    def zeros(self) -> int:
        """Units whose frames carry no lanes because they are zero at all workers."""
        zeros = self.frames.zeros if isinstance(self.frames, TreeFrames) else None
        return 0 if zeros is None else int(zeros.sum())

    @property
    def events(self) -> int:
        """Events that one unit causes in an opening."""
        crossed = sum(len(self.plan.paths[edge]) - 1 for edge in self.plan.edges)
        return 2 * crossed + 3 * len(self.plan.workers)


@dataclass(frozen=True)
class Pace:
    """Times of a collective that is alone in the network."""

    total_ps: int
    """From the last participant's call to the last participant's result."""
    head_ps: int
    """Part of ``total_ps`` before the chunks flow."""
    unit_ps: float
    """Distance between units once they flow."""
    deepest: int = 0
    """Most frames that wait before one link at the same time."""
    late: bool = False
    """Whether acknowledgements come so late that packets would be sent again."""


def load_of(
    plan: Plan,
    operation: Operation,
    elements: int,
    wires: WireTimes,
    *,
    lead: int,
    known: int = 0,
    queue_frames: int,
    zeros: Bools | None = None,
    follows: bool = False,
    pace_ps: int | None = None,
) -> FlowLoad:
    """Compute the load of a collective with a plan.

    Parameters
    ----------
    plan : Plan
        Plan of one job.
    operation : Operation
        Operation as the network carries it.
    elements : int
        Numbers of each worker.
    wires : Wires
        Links of the plan's topology, for full frames.
    lead : int
        Chunks whose exponents are agreed on ahead: ``plan.lead`` with block floating point, 0 without.
    known : int
        Number of these chunks whose exponents the previous operation has already agreed on.
    queue_frames : int
        Frames of a switch's queue; a share of it is the least window of a parameter server's worker.
    zeros : array of bool or None
        For each chunk of an all-reduce with exponents, whether it is zero at all workers (docs/protocol.md, "Zero
        chunks"); None: no chunk is.
    follows : bool
        Whether it begins when the previous operation with this plan has ended.
    pace_ps : int or None
        In a tree, time between two chunks of a worker; None: as the plan says.

    Raises
    ------
    PlanError
        When the plan cannot do the operation.
    """
    if plan.mesh != (operation is Operation.ALL_TO_ALL):
        raise PlanError(f"plan {plan.name!r} of job {plan.job} cannot do {operation}")
    if plan.mesh or plan.ring:
        return _streams(plan, operation, elements, wires, follows)
    sent = exchange(plan, operation, elements, lead)
    ahead = sent.up_empty if sent.up_full else 0
    window = plan.window if plan.in_network else ps_window(plan, queue_frames, restrained=True)
    up, down = _copies(plan)
    units = 1 if operation is Operation.BARRIER else chunks(elements, plan.lanes)
    zeros = zeros if zeros is not None and zeros.any() else None
    full_share = 1.0 - (float(zeros.mean()) if zeros is not None else 0.0)

    def busy_ps(hop: Hop) -> float:
        shares = (full_share if full else 0.0 for full in (sent.up_full, sent.down_full))
        times = (share * wires.full[hop] + (1.0 - share) * wires.empty[hop] for share in shares)
        return sum(copies * time for copies, time in zip((up[hop], down[hop]), times, strict=True))

    return FlowLoad(
        plan,
        TreeFrames(
            bool(sent.up_full),
            bool(sent.down_full),
            units,
            lead=max(0, ahead - known),
            distance=ahead,
            most=plan.slots // 2 if plan.in_network else window,
            room=window,
            pace_ps=pace_of(plan) if pace_ps is None else pace_ps,
            merged=plan.in_network or operation is not Operation.PULL,
            timing=timing_of(plan),
            zeros=zeros,
        ),
        units,
        window,
        {hop: busy_ps(hop) for hop in {**up, **down}},
        max(((up[hop] + down[hop]) * wires.empty[hop] for hop in {**up, **down}), default=0),
    )


def _streams(plan: Plan, operation: Operation, elements: int, wires: WireTimes, follows: bool) -> FlowLoad:
    size = len(plan.workers)
    if operation not in (Operation.ALL_REDUCE, Operation.BARRIER, Operation.ALL_TO_ALL):
        raise PlanError(f"a ring does all_reduce, not {operation}; use plan 'ps' or a tree with a server")
    if plan.mesh and elements % size:
        raise PlanError(f"elements: {elements} are no equal blocks for {size} workers")
    segment = 0 if plan.mesh else -(-chunks(1 if operation is Operation.BARRIER else elements, plan.lanes) // size)
    frames = chunks(elements // size, plan.lanes) if plan.mesh else 2 * (size - 1) * segment
    window = min(max(plan.window, ACK_EVERY + 1), MAX_RING_WINDOW)
    data, answers = _copies(plan)
    busy = {
        hop: data[hop] * wires.full[hop] + answers[hop] * wires.empty[hop] / ACK_EVERY for hop in {**data, **answers}
    }
    steps = [
        sum(wires.full[hop] + wires.delay[hop] for hop in plan.path_hops(*edge))
        for edge in (plan.edges if plan.ring else ())
    ]
    step_ps = sum(steps) / max(1, len(steps))
    return FlowLoad(
        plan,
        StreamFrames(frames, segment, window, pace_of(plan), timing_of(plan), follows),
        frames,
        window,
        busy,
        0.0,
        step_ps,
    )


def _copies(plan: Plan) -> tuple[Counter[Hop], Counter[Hop]]:
    """Count the frames of a unit on each directed link: in the direction of contributions, and back."""
    there: Counter[Hop] = Counter()
    back: Counter[Hop] = Counter()
    for a, b in plan.edges:
        there.update(plan.path_hops(a, b))
        back.update(plan.path_hops(b, a))
    return there, back


def paces(loads: Sequence[FlowLoad], wires: WireTimes) -> list[Pace]:
    """Return the times of each part of a collective whose parts begin together in an otherwise empty network."""
    if not loads or not loads[0].busy:  # a single worker
        return [Pace(0, 0, 0.0) for _ in loads]
    busy: Counter[Hop] = Counter()
    for load in loads:
        busy.update(load.busy)
    least = max(busy.values())
    budget = EVENTS // sum(load.events for load in loads)
    counts = [max(1, min(load.units, budget - load.lead)) for load in loads]
    if any(load.lead > budget for load in loads):
        return [_pace_of_large(load, wires, least) for load in loads]
    if loads[0].plan.ring and (lengths := _shorter_segments(loads[0], 2 * budget)):
        return [_pace_of_large_ring(loads[0], wires, least, *lengths)]
    parts = [(load.plan, load.frames, count) for load, count in zip(loads, counts, strict=True)]
    every, deepest, late = opening(parts, wires, 8 * EVENTS)
    for load, done in zip(loads, every, strict=True):
        # If the opening is shorter than the window, a growing queue grows on in proportion to the window.
        reach = min(load.window, load.units) / len(done)
        deepest = max(deepest, min(round(deepest * reach), _standing(load, wires)))
    rests = [load.units - len(done) for load, done in zip(loads, every, strict=True)]
    if any(rests) and any(load.zeros for load in loads):
        units_ps = _sparse_units_ps(loads, every, wires)
        waits = [False] * len(loads)
    else:
        # With several trees, each paced tree keeps to its own share of the links.
        paced = [len(loads) > 1 and load.frames.pace_ps > load.busiest for load in loads]
        floors = [float(load.frames.pace_ps) if own else least for load, own in zip(loads, paced, strict=True)]
        units_ps = [_unit_ps(*part) for part in zip(loads, every, floors, strict=True)]
        waits = [own or unit > SETTLED * least for unit, own in zip(units_ps, paced, strict=True)]
    flow_ps = _flowing_ps(loads, rests, units_ps, waits)
    return [
        replace(_extended(*part, least), deepest=deepest, late=late)
        for part in zip(loads, every, units_ps, flow_ps, waits, strict=True)
    ]


def _shorter_segments(load: FlowLoad, budget: int) -> tuple[int, int] | None:
    """Return two segment lengths for which a ring behaves as it does with its own, within ``budget`` frames per host.

    Either all three lengths hold many windows and differ by whole windows; or none fills a window, and all of them take
    less, or all take more, than one step. None if the budget allows no such lengths, or covers the whole ring.
    """
    if not isinstance(load.frames, StreamFrames) or load.units <= budget // 2:
        return None
    own, most = load.frames.segment, min(load.frames.segment, budget // _steps(load))
    alike = load.segment > 0 or most * load.busiest >= 2 * load.step_ps
    if load.window >= 2 * own and most >= LEAST_SEGMENT and alike:
        return most // 2, most
    period = load.window // ACK_EVERY * ACK_EVERY  # period of acknowledgements in a full window
    most = max(most, min(own, RING_WINDOWS * load.window + period))
    if most < RING_WINDOWS * load.window or most * _steps(load) * load.events > RING_EVENTS:
        return None
    longer = own - -(-(own - most) // period) * period
    return longer - max(1, longer // 2 // period) * period, longer


def _steps(load: FlowLoad) -> int:
    """Return the number of segments that each host sends in a ring all-reduce."""
    return 2 * (len(load.plan.workers) - 1)


def _pace_of_large_ring(load: FlowLoad, wires: WireTimes, least: float, shorter: int, segment: int) -> Pace:
    """Return the pace of a ring with too many frames to simulate, from two rings with shorter segments.

    Hosts are independent in the first step and depend on each other in later ones, so all steps are simulated.
    """
    if not isinstance(load.frames, StreamFrames):
        raise AssertionError("a ring sends streams")
    steps = _steps(load)
    short, long = (
        opening(
            [(load.plan, replace(load.frames, segment=length, size=steps * length, follows=False), steps * length)],
            wires,
            2 * RING_EVENTS,
        )
        for length in (shorter, segment)
    )
    long_ps = int(long.done[0][-1])
    slope_ps = (long_ps - int(short.done[0][-1])) / (segment - shorter)
    total = long_ps + round((load.frames.segment - segment) * slope_ps)
    unit = total / load.units if load.segment else min(max(least, slope_ps / steps), total / load.units)
    head = min(max(0, int(long.done[0][0]) - load.plan.rtt_ps), max(0, total - int(load.units * unit)))
    growing = round(long.deepest * load.frames.segment / segment)
    return Pace(total, head, unit, max(long.deepest, min(growing, _standing(load, wires))), long.late)


def _flowing_ps(
    loads: Sequence[FlowLoad], rests: Sequence[int], units_ps: Sequence[float], waits: Sequence[bool]
) -> list[float]:
    """Return the time, ps, in which ``rests`` more units of each part flow.

    The parts that remain share the freed rate, except those that wait for their window.
    """
    left, flowed_ps, now = list(map(float, rests)), [0.0] * len(loads), 0.0
    while active := [place for place, units in enumerate(left) if units > 0]:
        busy: Counter[Hop] = Counter()
        for place in active:
            busy.update(loads[place].busy)
        least = max(busy.values())
        unit = {place: units_ps[place] if waits[place] or len(active) == len(loads) else least for place in active}
        step = min(left[place] * unit[place] for place in active)
        now += step
        for place in active:
            left[place] -= step / unit[place]
            if left[place] < CLOSE:
                left[place], flowed_ps[place] = 0.0, now
    return flowed_ps


def _extended(load: FlowLoad, done: Ints, unit: float, flow_ps: float, waits: bool, least: float) -> Pace:
    """Extend the times ``done`` of the first units to all units; the remaining units flow for ``flow_ps``.

    unit: time between units, ps. waits: whether a unit waits for its window. least: time between units without waits.
    """
    count, units, window = len(done), load.units, load.window
    if count == units:
        total = int(done[-1])
    elif count <= window and waits and not load.segment:
        total = _in_windows_ps(units, window, unit * window, done, least)
    else:
        # Units that wait for a window, or for a round of a ring, come in runs of that length.
        window = load.segment or window
        rest = (units - count) % window if count > window and waits else 0
        more = int(done[count - 1 - window + rest] - done[count - 1 - window]) if rest else 0
        total = int(done[-1]) + more + round(flow_ps - rest * unit)
    unit = min(unit, total / units)
    return Pace(total, min(max(0, int(done[0]) - load.plan.rtt_ps), total - int(units * unit)), unit)


def _in_windows_ps(units: int, window: int, cycle_ps: float, done: Ints, least: float) -> int:
    """Return when all units are done, ps: one window of units every ``cycle_ps``, units at least ``least`` ps apart."""
    cycles, place = divmod(units - 1, window)
    seen = min(place, len(done) - 1)
    return int(done[seen]) + round((place - seen) * least + cycles * cycle_ps)


def _unit_ps(load: FlowLoad, done: Ints, least: float) -> float:
    """Return the time between units, ps: the median over windows of the opening's second half, or what links allow.

    Where frames of both directions share a link, acknowledgements wait behind data and arrive in bursts, so a fixed
    window leaves links idle at times (Zhang, Shenker, Clark, SIGCOMM 1991). An opening shows this; bytes alone do not.
    """
    if load.segment:
        # While a frame goes round the ring once, each host sends as many segments as there are hosts.
        return max(least, load.step_ps / load.segment, load.plan.rtt_ps / load.window)
    windows = len(done) // 2 // load.window
    if windows:
        ends = done[len(done) - 1 - windows * load.window :: load.window]
        return max(least, float(np.median(np.diff(ends))) / load.window)
    return max(least, load.plan.rtt_ps / load.window)


def _sparse_units_ps(loads: Sequence[FlowLoad], every: Sequence[Ints], wires: WireTimes) -> list[float]:
    """Return the average time between units after the opening, ps, where some units are zero chunks.

    Units with lanes are as far apart as if all units had lanes, units without lanes as if none had. The opening gives
    the factor by which the mix of both kinds takes more or less time than the two kinds one after the other.
    """
    with_lanes, without = zip(*(_kinds_of(load, wires) for load in loads), strict=True)
    units_ps = []
    for load, done, dense, bare in zip(loads, every, paces(with_lanes, wires), paces(without, wires), strict=True):
        zeros = load.frames.zeros if isinstance(load.frames, TreeFrames) else None
        every_ps = np.where(np.zeros(load.units, np.bool_) if zeros is None else zeros, bare.unit_ps, dense.unit_ps)
        begun, rest = every_ps[1 : len(done)].sum(), every_ps[len(done) :]
        factor = float(done[-1] - done[0]) / begun if len(done) > 1 else 1.0
        units_ps.append(factor * float(rest.mean()) if len(rest) else float(every_ps.mean()))
    return units_ps


def _kinds_of(load: FlowLoad, wires: WireTimes) -> tuple[FlowLoad, FlowLoad]:
    """The load with lanes in all units, and the load with lanes in none."""
    if not isinstance(load.frames, TreeFrames):
        raise AssertionError("streams have no exponents that are agreed on")
    there, back = _copies(load.plan)
    busy = [
        {hop: float((there[hop] + back[hop]) * times[hop]) for hop in load.busy} for times in (wires.full, wires.empty)
    ]
    frames = replace(load.frames, zeros=None)
    bare = replace(frames, up_full=False, down_full=False, lead=0, room=frames.most, pace_ps=0)
    return replace(load, frames=frames, busy=busy[0]), replace(load, frames=bare, busy=busy[1], window=frames.most)


def _pace_of_large(load: FlowLoad, wires: WireTimes, least: float) -> Pace:
    """Return the pace if even the lead is too long to simulate, from one round trip of the lead and of a chunk."""
    if not isinstance(load.frames, TreeFrames):
        raise AssertionError("streams have nothing that goes ahead")
    alone = replace(load.frames, lead=0, distance=0, chunks=1)
    bare = replace(alone, up_full=False, down_full=False)
    full, empty = (opening([(load.plan, sent, 1)], wires, 8 * EVENTS).done[0] for sent in (alone, bare))
    unit = max(least, int(full[0]) / load.window)
    head = max(int(empty[0]), round(load.lead * load.lead_busy))
    total = head + _in_windows_ps(load.units, load.window, unit * load.window, full, least)
    return Pace(total, head, min(unit, (total - head) / load.units), _standing(load, wires))


def _standing(load: FlowLoad, wires: WireTimes) -> int:
    """Return the most frames that a window can leave before a link that is slower than its senders."""
    plan = load.plan
    there, back = _copies(plan)
    first = [plan.path_hops(a, b)[0] for a, b in plan.edges if a in plan.workers]
    deepest = 0.0
    for units, times in ((min(load.window, load.units), load.busy), (load.lead, None)):
        lengths = wires.full if times is not None else wires.empty
        apart = max(load.frames.pace_ps if times is not None else 0, min(lengths[hop] for hop in first))
        for hop in {**there, **back}:
            copies = there[hop] + back[hop]
            busy = times[hop] if times is not None else copies * wires.empty[hop]
            if busy > apart and hop[0] not in wires.hosts:
                deepest = max(deepest, copies * units * (1 - apart / busy))
    return int(deepest)


def wires_of(plan: Plan) -> WireTimes:
    """Return the links of a plan's topology with the times of the plan's frames."""
    return WireTimes.of(plan.topology, frame_bytes(plan.lanes))


SMALL: Final = 0.5
"""Picoseconds; a smaller remainder counts as zero."""
TRICKLE: Final = 1e-6
"""Share of its rate that a flow takes from links before it has begun."""


class FlowPhase(Enum):
    """Phases of one job's part of a collective."""

    HEAD = auto()
    """Exponents are agreed on, and the first units are in flight."""
    FLOW = auto()
    """Units flow."""
    TAIL = auto()
    """The answer to the last unit is in flight."""
    DONE = auto()


@dataclass(eq=False)
class FlowPart:
    """One job's part of a collective in progress."""

    pace: Pace
    demand: Demand
    units: float
    """Units, plus the equivalent of the frames without lanes."""
    left: float
    """Remaining picoseconds of the head or tail, or remaining units."""
    tail_ps: float
    head_ps: float
    """Head time with empty queues."""
    time_out_ps: float = inf
    """Time for which a stream waits for the answer to a frame before it has measured any."""
    phase: FlowPhase = FlowPhase.HEAD
    rate: float = 1.0
    """Decrease of ``left`` per picosecond."""

    def next_ps(self, now: int) -> int | None:
        """Return when the phase ends at the present rate; None if it never ends at that rate."""
        return None if self.rate <= 0.0 else now + max(0, ceil(self.left / self.rate))

    def go_on(self) -> None:
        """Enter the next phase."""
        if self.phase is FlowPhase.HEAD:
            self.phase, self.left = FlowPhase.FLOW, float(self.units)
        elif self.phase is FlowPhase.FLOW:
            self.phase, self.rate, self.left = FlowPhase.TAIL, 1.0, self.tail_ps
        else:
            self.phase, self.rate = FlowPhase.DONE, 0.0


@dataclass(eq=False)
class Transfer:
    """A collective, in progress or done."""

    parts: Sequence[FlowPart]
    jobs: Sequence[int]
    begun_ps: int
    done_ps: int | None = None

    @property
    def flowed(self) -> float:
        """Share of the units that have flowed."""
        units = sum(part.units for part in self.parts)
        left = sum(
            part.units if part.phase is FlowPhase.HEAD else part.left if part.phase is FlowPhase.FLOW else 0.0
            for part in self.parts
        )
        return 1.0 - left / units if units else 1.0


@dataclass
class FlowNetwork:
    """Jobs, their collectives in progress, and a clock.

    Parameters
    ----------
    topology : Topology
        Topology of all jobs.
    queue_frames : int
        Frames of a port's queue, for each priority.
    """

    topology: Topology
    queue_frames: int = 1024
    now: int = 0
    """Present time, ps."""
    _wires: dict[int, WireTimes] = field(default_factory=dict)
    _loads: dict[tuple[object, ...], tuple[list[FlowLoad], list[Pace]]] = field(default_factory=dict)
    _ways: dict[int, tuple[Plan, list[frozenset[int]]]] = field(default_factory=dict)
    _links: dict[Hop, int] = field(default_factory=dict)
    _under: list[Transfer] = field(default_factory=list)
    _waits: Waits = field(default_factory=dict)
    _down: set[int] = field(default_factory=set)
    _just_ended: set[int] = field(default_factory=set)
    """Jobs whose last collective ended at the present time."""

    def __post_init__(self) -> None:
        for link in self.topology.links:
            for hop in ((link.a, link.port_a), (link.b, link.port_b)):
                self._links[hop] = len(self._links)
        self._hops = list(self._links)
        self._hosts = frozenset(self._links[host.name, 1] for host in self.topology.hosts)

    def add(self, plan: Plan, numbers: JobNumbers) -> Job:
        """Create a job with its plan. ``numbers``: how lanes add up if switches add them."""
        return Job(plan, numbers if plan.in_network else None)

    def begin(
        self,
        parts: Sequence[tuple[Job, int]],
        operation: Operation,
        *,
        words: bool = False,
        known: int = 0,
        zeros: Sequence[Bools] = (),
    ) -> Transfer:
        """Begin a collective whose parts have their own jobs and elements.

        ``words``: lanes are added as integers. ``known``: chunks whose exponents the previous collective has agreed on.
        ``zeros``: for each part, which of its chunks are zero at all workers; empty: none is.

        Raises
        ------
        PlanError
            When a plan cannot do the operation, windows may fill more of a queue than it has, or round trips are
            longer than time-outs.
        """
        loads, alone = self._alone(parts, operation, words, known, zeros)
        transfer = Transfer(
            [self._part(job, load, pace) for (job, _), load, pace in zip(parts, loads, alone, strict=True)],
            [job.plan.job for job, _ in parts],
            self.now,
        )
        self._under.append(transfer)
        self._settle()
        return transfer

    def advance(self, until_ps: int | None = None, watch: Sequence[Transfer] = ()) -> bool:
        """Advance the clock to ``until_ps``, or until a watched transfer is done (then return True).

        Without either argument, advance until nothing moves. Raises ``PlanError`` as :meth:`begin` does.
        """
        while not any(transfer.done_ps is not None for transfer in watch):
            times = [end for part in self._parts() if (end := part.next_ps(self.now)) is not None]
            soonest = min(times, default=None)
            if soonest is None or (until_ps is not None and until_ps < soonest):
                if until_ps is not None:
                    self._pass(until_ps)
                return False
            self._pass(soonest)
            self._settle()
        return True

    def set_link(self, hop: Hop, *, up: bool) -> None:
        """Set the state of a directed link; frames that have to cross a link that is down stand still."""
        (self._down.discard if up else self._down.add)(self._links[hop])
        self._share()

    def drop(self, transfer: Transfer) -> None:
        """Stop carrying a collective."""
        self._under = [other for other in self._under if other is not transfer]
        self._share()

    def forget(self, job: Job) -> None:
        """Forget the plan of a job that is over."""
        self._ways.pop(id(job.plan), None)
        for key, (loads, _) in list(self._loads.items()):
            if any(load.plan is job.plan for load in loads):
                del self._loads[key]

    def _parts(self) -> list[FlowPart]:
        return [part for transfer in self._under for part in transfer.parts]

    def _alone(
        self, parts: Sequence[tuple[Job, int]], operation: Operation, words: bool, known: int, zeros: Sequence[Bools]
    ) -> tuple[list[FlowLoad], list[Pace]]:
        sparse = [chunks if chunks.any() else None for chunks in zeros] or [None] * len(parts)
        packed = [None if chunks is None else chunks.tobytes() for chunks in sparse]
        follows = parts[0][0].plan.job in self._just_ended
        key = (follows, operation, words, known, *packed, *((id(job.plan), elements) for job, elements in parts))
        if key not in self._loads:
            loads = [
                self._load(job, operation, elements, words, known, chunks, follows)
                for (job, elements), chunks in zip(parts, sparse, strict=True)
            ]
            alone = paces(loads, self._wires[loads[0].plan.lanes])
            deepest = max(pace.deepest for pace in alone)
            if deepest > self.queue_frames:
                raise PlanError(
                    f"up to {deepest} frames wait before a link, whose queue has {self.queue_frames}; "
                    "the flow model knows no lost frames: give a smaller window, or choose time: virtual"
                )
            if any(pace.late for pace in alone):
                raise PlanError(
                    "answers come later than hosts wait for them, so that they ask or send again; "
                    "the flow model knows no such frames: give another window, or choose time: virtual"
                )
            self._loads[key] = loads, alone
        return self._loads[key]

    def _load(
        self,
        job: Job,
        operation: Operation,
        elements: int,
        words: bool,
        known: int,
        zeros: Bools | None,
        follows: bool,
    ) -> FlowLoad:
        plan = job.plan
        wires = self._wires.get(plan.lanes)
        if wires is None:
            wires = self._wires[plan.lanes] = wires_of(plan)
        return load_of(
            plan,
            operation,
            elements,
            wires,
            lead=job.lead(operation, words=words),
            known=known,
            queue_frames=self.queue_frames,
            zeros=zeros,
            follows=follows,
            pace_ps=job.pace_ps,
        )

    def _part(self, job: Job, load: FlowLoad, pace: Pace) -> FlowPart:
        if not pace.total_ps:  # a single worker
            return FlowPart(pace, Demand({}, 0.0, 1.0, 1.0, ()), 0.0, 0.0, 0.0, 0.0)
        busy = {self._links[hop]: taken for hop, taken in load.busy.items()}
        ways = self._ways_of(job.plan)
        most = 1 / pace.unit_ps
        window, rtt_ps = float(load.window), max(1.0, float(job.plan.rtt_ps))
        if isinstance(load.frames, StreamFrames) and 0 < load.frames.segment < window:
            # A host of a ring sends a frame of the next step when a frame of this step has come, so at most one segment
            # per host is in flight. Most of these frames stand where they stand when the ring is alone.
            window = float(min(load.window, max(load.frames.segment, pace.deepest)))
        if load.units < window:  # the whole transfer is in flight at once
            window, rtt_ps = float(load.units), min(rtt_ps, load.units * pace.unit_ps)
        if load.segment:
            size = len(job.plan.ring)
            window, rtt_ps = float(size * load.segment), size * load.step_ps
            ways = [frozenset(self._links[hop] for hop in job.plan.path_hops(*pair)) for pair in job.plan.edges]
        streams = isinstance(load.frames, StreamFrames)
        demand = Demand(busy, most, window, rtt_ps, ways, streams, load.segment > 0, job.priority)
        waits = max((self._wait(job.priority, way) for way in ways), default=0.0)
        # Frames sent ahead take their share of links, too.
        ahead = min(load.lead * load.lead_busy / load.busiest, pace.head_ps / pace.unit_ps) if load.lead else 0.0
        head_ps = pace.head_ps - ahead * pace.unit_ps
        units = load.units + ahead
        tail_ps = max(0.0, pace.total_ps - head_ps - units * pace.unit_ps)
        time_out_ps = timing_of(job.plan).initial_ps if streams else inf
        return FlowPart(pace, demand, units, head_ps + (2 if load.lead else 1) * waits, tail_ps, head_ps, time_out_ps)

    def _wait(self, priority: int, way: frozenset[int]) -> float:
        """Return the time, ps, that a frame now waits on its way there and back."""
        return sum(dict(self._waits[priority, link] for link in way if (priority, link) in self._waits).values())

    def _ways_of(self, plan: Plan) -> list[frozenset[int]]:
        """Return the links that a unit and its answer cross, for each worker."""
        known = self._ways.get(id(plan))
        if known is not None:
            return known[1]
        above = dict(plan.edges)
        ways = []
        for worker in plan.workers if not plan.mesh else ():
            links: set[int] = set()
            name = worker
            while name in above:
                for pair in ((name, above[name]), (above[name], name)):
                    links.update(self._links[hop] for hop in plan.path_hops(*pair))
                name = above[name]
                if plan.ring:
                    break
            ways.append(frozenset(links))
        for pair in plan.edges if plan.mesh else ():
            hops = [*plan.path_hops(*pair), *plan.path_hops(*pair[::-1])]
            ways.append(frozenset(self._links[hop] for hop in hops))
        self._ways[id(plan)] = plan, ways
        return ways

    def _pass(self, to_ps: int) -> None:
        for part in self._parts():
            part.left -= part.rate * (to_ps - self.now)
        if to_ps > self.now:
            self._just_ended.clear()
        self.now = to_ps

    def _settle(self) -> None:
        """End phases that are over."""
        for transfer in self._under:
            for part in transfer.parts:
                while part.phase is not FlowPhase.DONE and part.left <= SMALL * part.rate:
                    part.go_on()
            if all(part.phase is FlowPhase.DONE for part in transfer.parts):
                transfer.done_ps = self.now
                self._just_ended.update(transfer.jobs)
        self._under = [transfer for transfer in self._under if transfer.done_ps is None]
        self._share()

    def _share(self) -> None:
        """Compute the rates of all flows. A head stands still while higher classes leave its links no room."""
        left = [part for part in self._parts() if part.phase is not FlowPhase.DONE]
        for part in left:
            part.rate = 0.0 if part.demand.busy.keys() & self._down else 1.0
        moving = [part for part in left if part.rate and part.phase is not FlowPhase.TAIL]
        demands = [
            part.demand if part.phase is FlowPhase.FLOW else replace(part.demand, most=part.demand.most * TRICKLE)
            for part in moving
        ]
        flow_rates, self._waits = rates(demands, self._hosts)
        self._check_queues()
        self._check_time_outs(moving)
        for part, rate in zip(moving, flow_rates.tolist(), strict=True):
            if part.phase is FlowPhase.FLOW:
                part.rate = rate
            elif rate > 0.0:
                part.rate = 1.0
            else:  # frames that wait before its links now will have left by then
                part.rate, part.left = 0.0, min(part.left, part.head_ps)

    def _check_queues(self) -> None:
        """Raise PlanError if the windows of jobs together need more room before a link than its queue has."""
        for (priority, link), (_, wait) in self._waits.items():
            hop = self._hops[link]
            waiting = round(wait / max(wires.full[hop] for wires in self._wires.values()))
            if waiting > self.queue_frames:
                raise PlanError(
                    f"{waiting} frames of class {priority} wait before the link of {hop[0]} to "
                    f"{self.topology.neighbour(*hop)}, whose queue has {self.queue_frames}; the flow model knows no "
                    "lost frames: give smaller windows, or choose time: virtual"
                )

    def _check_time_outs(self, moving: Sequence[FlowPart]) -> None:
        """Raise PlanError if a ring or all-to-all waits longer than its time-out behind other jobs of its class.

        Time-outs of trees, and of jobs in several classes, cover such waits (network/jobs/specs.py).
        """
        if len({part.demand.priority for part in moving}) > 1:
            return
        for part in moving:
            demand = part.demand
            wait = max((self._wait(demand.priority, way) for way in demand.ways), default=0.0)
            if wait > 0.0 and demand.rtt_ps + wait > part.time_out_ps:
                raise PlanError(
                    f"frames wait {wait / PS_PER_US:.0f} us for those of other jobs, longer than their time-out of "
                    f"{part.time_out_ps / PS_PER_US:.0f} us, so that they are sent again; the flow model knows no such "
                    "frames: give smaller windows, or choose time: virtual"
                )
