"""A network in which collectives are flows: it knows how long they take, and nothing of packets."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from math import ceil, inf
from typing import Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import Operation
from p4reduce.control_plane.plans import Plan
from p4reduce.network.flow.collective import Load, Pace, load_of, paces, wires_of
from p4reduce.network.flow.fluid import Demand, Waits, rates
from p4reduce.network.flow.frames import Bools, StreamFrames, Wires
from p4reduce.network.jobs.network import Job
from p4reduce.network.jobs.specs import JobNumbers, timing_of
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4switch.base.values import PS_PER_US

SMALL: Final = 0.5
"""ps: less is nothing"""
TRICKLE: Final = 1e-6
"""of its rate: what a flow that has not begun asks of links"""


class Phase(Enum):
    """Of one job's part of a collective."""

    HEAD = auto()
    """exponents are agreed on, and the first units are on their way"""
    FLOW = auto()
    """units flow"""
    TAIL = auto()
    """the last unit is answered"""
    DONE = auto()


@dataclass(eq=False)
class Part:
    """One job's part of a collective that is under way."""

    pace: Pace
    demand: Demand
    units: float
    """with those that frames without lanes are worth"""
    left: float
    """picoseconds of the head or tail, or units that have not flowed"""
    tail_ps: float
    head_ps: float
    """where no queue stands"""
    time_out_ps: float = inf
    """for which a frame's answer is waited before anything was measured"""
    phase: Phase = Phase.HEAD
    rate: float = 1.0
    """of ``left``, for each picosecond"""

    def next_ps(self, now: int) -> int | None:
        """When its phase ends at the rate of now; None: not at that."""
        return None if self.rate <= 0.0 else now + max(0, ceil(self.left / self.rate))

    def go_on(self) -> None:
        """The next phase."""
        if self.phase is Phase.HEAD:
            self.phase, self.left = Phase.FLOW, float(self.units)
        elif self.phase is Phase.FLOW:
            self.phase, self.rate, self.left = Phase.TAIL, 1.0, self.tail_ps
        else:
            self.phase, self.rate = Phase.DONE, 0.0


@dataclass(eq=False)
class Transfer:
    """A collective that is under way, or done."""

    parts: Sequence[Part]
    jobs: Sequence[int]
    begun_ps: int
    done_ps: int | None = None


@dataclass
class FlowNetwork:
    """Jobs, what is under way of their collectives, and a clock.

    Parameters
    ----------
    topology : Topology
        Of all jobs.
    queue_frames : int
        Frames of a port's queue, for each priority.
    """

    topology: Topology
    queue_frames: int = 1024
    now: int = 0
    """ps"""
    _wires: dict[int, Wires] = field(default_factory=dict)
    _loads: dict[tuple[object, ...], tuple[list[Load], list[Pace]]] = field(default_factory=dict)
    _ways: dict[int, tuple[Plan, list[frozenset[int]]]] = field(default_factory=dict)
    _links: dict[Hop, int] = field(default_factory=dict)
    _under: list[Transfer] = field(default_factory=list)
    _waits: Waits = field(default_factory=dict)
    _just_ended: set[int] = field(default_factory=set)
    """jobs whose last collective has ended now"""

    def __post_init__(self) -> None:
        for link in self.topology.links:
            for hop in ((link.a, link.port_a), (link.b, link.port_b)):
                self._links[hop] = len(self._links)
        self._hops = list(self._links)
        self._hosts = frozenset(self._links[host.name, 1] for host in self.topology.hosts)

    def add(self, plan: Plan, numbers: JobNumbers) -> Job:
        """A job with its plan. ``numbers``: how lanes add up where switches do that."""
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
        """Begin a collective whose parts have jobs and elements of their own.

        ``words``: lanes are added as they are; ``known``: chunks whose exponents the collective before has agreed on;
        ``zeros``: of each part, which of its chunks are zero at all workers; empty: none is.

        Raises
        ------
        PlanError
            When a plan cannot do the operation, windows may fill more of a queue than it has, or round trips are
            longer than time-outs.
        """
        loads, alone = self._alone(parts, operation, words, known, zeros)
        found = Transfer(
            [self._part(job, load, pace) for (job, _), load, pace in zip(parts, loads, alone, strict=True)],
            [job.plan.job for job, _ in parts],
            self.now,
        )
        self._under.append(found)
        self._settle()
        return found

    def advance(self, until_ps: int | None = None, watch: Sequence[Transfer] = ()) -> bool:
        """Let time pass: until then, or until one of those watched is done (True). ``PlanError`` as of ``begin``.

        Without both, until nothing moves.
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

    def _parts(self) -> list[Part]:
        return [part for transfer in self._under for part in transfer.parts]

    def _alone(
        self, parts: Sequence[tuple[Job, int]], operation: Operation, words: bool, known: int, zeros: Sequence[Bools]
    ) -> tuple[list[Load], list[Pace]]:
        sparse = [chunks if chunks.any() else None for chunks in zeros] or [None] * len(parts)
        packed = [None if chunks is None else chunks.tobytes() for chunks in sparse]
        follows = parts[0][0].plan.job in self._just_ended
        key = (follows, operation, words, known, *packed, *((id(job.plan), elements) for job, elements in parts))
        if key not in self._loads:
            loads = [
                self._load(job, operation, elements, words, known, chunks, follows)
                for (job, elements), chunks in zip(parts, sparse, strict=True)
            ]
            found = paces(loads, self._wires[loads[0].plan.lanes])
            deepest = max(pace.deepest for pace in found)
            if deepest > self.queue_frames:
                raise PlanError(
                    f"{operation}: up to {deepest} frames wait before a link, whose queue has {self.queue_frames}; "
                    "the flow model knows no lost frames: give a smaller window, or choose time: virtual"
                )
            if any(pace.late for pace in found):
                raise PlanError(
                    f"{operation}: answers come later than hosts wait for them, so that they ask or send again; "
                    "the flow model knows no such frames: give another window, or choose time: virtual"
                )
            self._loads[key] = loads, found
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
    ) -> Load:
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
        )

    def _part(self, job: Job, load: Load, pace: Pace) -> Part:
        if not pace.total_ps:  # one worker by itself
            return Part(pace, Demand({}, 0.0, 1.0, 1.0, ()), 0.0, 0.0, 0.0, 0.0)
        busy = {self._links[hop]: taken for hop, taken in load.busy.items()}
        ways = self._ways_of(job.plan)
        most = 1 / pace.unit_ps
        window, rtt_ps = float(load.window), max(1.0, float(job.plan.rtt_ps))
        if load.units < window:  # all of it is on its way at once
            window, rtt_ps = float(load.units), min(rtt_ps, load.units * pace.unit_ps)
        if load.segment:
            size = len(job.plan.ring)
            window, rtt_ps = float(size * load.segment), size * load.step_ps
            ways = [frozenset(self._links[hop] for hop in job.plan.path_hops(*pair)) for pair in job.plan.edges]
        streams = isinstance(load.frames, StreamFrames)
        demand = Demand(busy, most, window, rtt_ps, ways, streams, load.segment > 0, job.priority)
        waits = max((self._wait(job.priority, way) for way in ways), default=0.0)
        # Frames that go ahead take their share of links, too.
        ahead = min(load.lead * load.lead_busy / load.busiest, pace.head_ps / pace.unit_ps) if load.lead else 0.0
        head_ps = pace.head_ps - ahead * pace.unit_ps
        units = load.units + ahead
        tail_ps = max(0.0, pace.total_ps - head_ps - units * pace.unit_ps)
        time_out_ps = timing_of(job.plan).initial_ps
        return Part(pace, demand, units, head_ps + (2 if load.lead else 1) * waits, tail_ps, head_ps, time_out_ps)

    def _wait(self, priority: int, way: frozenset[int]) -> float:
        """How long a frame waits now that goes there and back, ps."""
        return sum(dict(self._waits[priority, link] for link in way if (priority, link) in self._waits).values())

    def _ways_of(self, plan: Plan) -> list[frozenset[int]]:
        """The links that a unit and its answer cross, for each worker."""
        known = self._ways.get(id(plan))
        if known is not None:
            return known[1]
        above = dict(plan.edges)
        found = []
        for worker in plan.workers if not plan.mesh else ():
            links: set[int] = set()
            name = worker
            while name in above:
                for pair in ((name, above[name]), (above[name], name)):
                    links.update(self._links[hop] for hop in plan.path_hops(*pair))
                name = above[name]
                if plan.ring:
                    break
            found.append(frozenset(links))
        for pair in plan.edges if plan.mesh else ():
            hops = [*plan.path_hops(*pair), *plan.path_hops(*pair[::-1])]
            found.append(frozenset(self._links[hop] for hop in hops))
        self._ways[id(plan)] = plan, found
        return found

    def _pass(self, to_ps: int) -> None:
        for part in self._parts():
            part.left -= part.rate * (to_ps - self.now)
        if to_ps > self.now:
            self._just_ended.clear()
        self.now = to_ps

    def _settle(self) -> None:
        """Phases that are over end."""
        for transfer in self._under:
            for part in transfer.parts:
                while part.phase is not Phase.DONE and part.left <= SMALL * part.rate:
                    part.go_on()
            if all(part.phase is Phase.DONE for part in transfer.parts):
                transfer.done_ps = self.now
                self._just_ended.update(transfer.jobs)
        self._under = [transfer for transfer in self._under if transfer.done_ps is None]
        self._share()

    def _share(self) -> None:
        """Rates of all that flows now. A head stands still while higher classes leave its links no room."""
        moving = [part for part in self._parts() if part.phase in (Phase.HEAD, Phase.FLOW)]
        demands = [
            part.demand if part.phase is Phase.FLOW else replace(part.demand, most=part.demand.most * TRICKLE)
            for part in moving
        ]
        found, self._waits = rates(demands, self._hosts)
        self._check_queues()
        self._check_time_outs(moving)
        for part, rate in zip(moving, found.tolist(), strict=True):
            if part.phase is Phase.FLOW:
                part.rate = rate
            elif rate > 0.0:
                part.rate = 1.0
            else:  # what waits before its links now will have left by then
                part.rate, part.left = 0.0, min(part.left, part.head_ps)

    def _check_queues(self) -> None:
        """Refuse jobs whose windows together need more room before a link than it has."""
        for (priority, link), (_, wait) in self._waits.items():
            hop = self._hops[link]
            waiting = round(wait / max(wires.full[hop] for wires in self._wires.values()))
            if waiting > self.queue_frames:
                raise PlanError(
                    f"{waiting} frames of class {priority} wait before the link of {hop[0]} to "
                    f"{self.topology.neighbour(*hop)}, whose queue has {self.queue_frames}; the flow model knows no "
                    "lost frames: give smaller windows, or choose time: virtual"
                )

    def _check_time_outs(self, moving: Sequence[Part]) -> None:
        """Refuse jobs of one class that wait for each other's frames longer than for answers.

        Time-outs of jobs in several classes cover what may stand before a frame (network/jobs/specs.py).
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
