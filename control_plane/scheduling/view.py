"""The input and output of scheduling policies: the network's state, link weights, a task's view, and decisions."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import ceil
from typing import Final, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from p4reduce.base.errors import PlanError
from p4reduce.base.registry import Registry
from p4reduce.control_plane.plans.forest import TreeShare
from p4reduce.control_plane.plans.make import PlanRequest
from p4reduce.control_plane.plans.problem import (
    Layout,
    MeshLayout,
    Problem,
    RingLayout,
    TreeLayout,
    all_paths,
    power_of_two,
    timing,
)
from p4reduce.control_plane.plans.ring import streams
from p4reduce.control_plane.plans.routes import (
    HEADER_BYTES,
    Ints,
    Routes,
    SwitchGraph,
    frame_bytes,
    hops,
    switch_graph,
    unique_words,
)
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies import Topology, format_rate
from p4reduce.topologies.model import Hop
from p4switch.base.values import PS_PER_S

# A policy's knowledge of the network: rates, load, reservations, failed links, free slots.


_Key = TypeVar("_Key", Hop, str)


@dataclass
class NetworkState:
    """The state of the network, which changes as tasks come and go; policies only read it.

    Attributes
    ----------
    background_bps : dict
        Measured traffic of no task, bit/s by directed link.
    reserved_bps : dict
        Reservations of tasks, bit/s by directed link.
    down : set
        Links that failed, in both directions.
    slots : dict
        Free slots of switches in one aligned range; other switches have plenty.
    reserved_slots : dict
        Reservations of tasks among these slots.
    """

    topology: Topology
    background_bps: dict[Hop, int] = field(default_factory=dict)
    reserved_bps: dict[Hop, int] = field(default_factory=dict)
    down: set[Hop] = field(default_factory=set)
    slots: dict[str, int] = field(default_factory=dict)
    reserved_slots: dict[str, int] = field(default_factory=dict)

    def residual_bps(self, hop: Hop) -> int:
        """Free rate of a directed link, bit/s; 0 when it is down or full."""
        if hop in self.down:
            return 0
        used = self.background_bps.get(hop, 0) + self.reserved_bps.get(hop, 0)
        return max(0, self.topology.link_at(*hop).rate_bps - used)

    def slots_left(self, switch: str) -> int | None:
        """Slots of a switch without a reservation, a power of two (they come in aligned ranges); None: plenty."""
        free = self.slots.get(switch)
        return None if free is None else range_within(free - self.reserved_slots.get(switch, 0))

    def reserve(self, demand: Mapping[Hop, int], slots: Mapping[str, int] | None = None) -> None:
        """Reserve bandwidth, bit/s by directed link, and slots of switches."""
        _add(self.reserved_bps, demand, 1)
        _add(self.reserved_slots, slots or {}, 1)

    def release(self, demand: Mapping[Hop, int], slots: Mapping[str, int] | None = None) -> None:
        """Release what :meth:`reserve` reserved."""
        _add(self.reserved_bps, demand, -1)
        _add(self.reserved_slots, slots or {}, -1)


def range_within(slots: int) -> int:
    """The largest power of two that does not exceed ``slots``; 0 for none."""
    return 1 << (slots.bit_length() - 1) if slots > 0 else 0


def _add(total: dict[_Key, int], more: Mapping[_Key, int], sign: int) -> None:
    for key, value in more.items():
        left = total.get(key, 0) + sign * value
        if left > 0:
            total[key] = left
        else:
            total.pop(key, None)


@dataclass(frozen=True)
class TreeDecision:
    """The trees of a task.

    ``upload`` carries PUSH to the server (and acknowledgements back); ``broadcast`` carries PULL and the weights. The
    same layout for both means one job that does push_pull; two layouts mean two jobs: one pushes, one pulls.
    ``demand_bps`` is the reservation on every directed link, ``slots`` the slots that its demand needs of switches
    whose free slots are known, for all trees together. The first tree may take at most ``max_slots`` of them (None: any
    number), so that the second finds enough.

    ``parts``: several trees at once over the workers' hosts and G's (:func:`ring_members`), which carry all-reduces,
    each with its part of the model. ``upload`` and ``broadcast`` are then the layout of the first tree, and each tree
    may take ``max_slots``.
    """

    policy: str
    task: Task
    upload: Layout
    broadcast: Layout
    demand_bps: Mapping[Hop, int] = field(default_factory=dict)
    slots: Mapping[str, int] = field(default_factory=dict)
    max_slots: int | None = None
    parts: tuple[TreeShare, ...] = ()

    @property
    def together(self) -> bool:
        """Whether one job does both directions."""
        return self.upload == self.broadcast


class Rejection(PlanError):
    """No tree fits; the message names the link or switch without room."""


class Policy(Protocol):
    """Gives a task its trees, or raises `Rejection`. Must not change the state."""

    def __call__(self, task: Task, state: NetworkState, *, lanes: int = 256) -> TreeDecision:
        """Return the decision for a task."""


POLICIES: Registry[Policy] = Registry("policy", PlanError)
"""Every known policy by name; :func:`register_policy` and entry points of ``p4reduce.policies`` add to it."""
WITHOUT_SERVER: set[str] = set()
"""policies without a job that pushes to G and pulls from it: hosts exchange models among themselves and with G's"""

_P = TypeVar("_P", bound=Callable[..., TreeDecision])


def register_policy(name: str, *, served: bool = True) -> Callable[[_P], _P]:
    """Decorator that registers a policy under ``name``; ``served``: whether workers push to G and pull from it."""

    def add(policy: _P) -> _P:
        POLICIES.add(name, policy)
        if not served:
            WITHOUT_SERVER.add(name)
        return policy

    return add


def check_served(name: str, what: str) -> None:
    """Raise `PlanError` for a policy whose tasks do not support ``what``."""
    if name in WITHOUT_SERVER:
        raise PlanError(
            f"policy {name!r} exchanges models between hosts, but {what} needs tasks that push to their server and "
            f"pull from it; choose one of {', '.join(sorted(POLICIES.keys() - WITHOUT_SERVER))}"
        )


def policy_named(name: str) -> Policy:
    """The policy with this name; `PlanError` lists the known names."""
    return POLICIES.named(name)


# The poster's weights of links: bandwidth and latency.


Floats = npt.NDArray[np.float64]
SCALE: Final = 1_000_000
"""weight 1.0 as an integer"""
_FULL: Final = 1000.0
"""largest value of b / residual in a weight, for links with little free rate"""


@dataclass(frozen=True, slots=True)
class LinkWeights:
    """w = lambda * b / residual + (1 - lambda) * delay / reference, for every directed link; integers of 1 / `SCALE`.

    Attributes
    ----------
    bandwidth : float
        lambda, 0 to 1: the weight of bandwidth against latency.
    reference_ps : int or None
        The delay at which delay / reference is 1; None: the mean delay of the links between switches.

    Raises
    ------
    PlanError
        When a value is out of range.
    """

    bandwidth: float = 0.9
    reference_ps: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.bandwidth <= 1:
            raise PlanError(f"weights: bandwidth (lambda): {self.bandwidth} is outside 0..1")
        if self.reference_ps is not None and self.reference_ps < 1:
            raise PlanError(f"weights: reference_ps: {self.reference_ps} is below 1")

    def words(self, graph: SwitchGraph, residual_bps: Ints, rate_bps: int, demand_bps: int) -> Ints:
        """Weights of all arcs with unique sums (:func:`~p4reduce.control_plane.plans.routes.unique_words`).

        Parameters
        ----------
        graph : SwitchGraph
            m arcs.
        residual_bps : int64 (m,)
            Free rate of every arc.
        rate_bps : int
            b: the rate with which the task sends.
        demand_bps : int
            Reservation of the task: arcs with less free rate are closed (weight -1); full arcs always are.
        """
        bandwidth = np.minimum(_FULL, rate_bps / np.maximum(residual_bps, 1))
        cost = SCALE * (self.bandwidth * bandwidth + self.latency(graph, graph.delay_ps))
        main = np.maximum(1, np.rint(cost)).astype(np.int64)
        main[residual_bps < max(1, demand_bps)] = -1
        return unique_words(graph, main, graph.rate_bps - residual_bps)

    def latency(self, graph: SwitchGraph, delay_ps: Ints) -> Floats:
        """The second term of w for links with these delays."""
        reference = self.reference_ps or (float(graph.delay_ps.mean()) if len(graph.delay_ps) else 1.0)
        return np.asarray((1 - self.bandwidth) * delay_ps / max(reference, 1.0), np.float64)


def hop_words(graph: SwitchGraph, residual_bps: Ints, demand_bps: int) -> Ints:
    """Weights of shortest-path routing: number of links, then delay, then the order of links."""
    main = np.ones(len(graph.heads), np.int64)
    main[residual_bps < max(1, demand_bps)] = -1
    return unique_words(graph, main, np.zeros(len(graph.heads), np.int64))


Direction = Literal["upload", "broadcast"]
DIRECTIONS: Final[tuple[Direction, ...]] = ("upload", "broadcast")
LEAST_SLOTS = 2
"""a switch with fewer slots cannot take part in any job"""


@dataclass(frozen=True)
class View:
    """The input of one decision, computed from the state once.

    Raises
    ------
    PlanError
        When a host of the task is unknown.
    """

    task: Task
    state: NetworkState
    lanes: int

    @cached_property
    def problem(self) -> Problem:
        """The task in the bare network; checks its hosts."""
        return Problem(self.state.topology, self.task.workers, self.task.server, self.lanes)

    @cached_property
    def graph(self) -> SwitchGraph:
        """The switches of the network."""
        return switch_graph(self.state.topology)

    @cached_property
    def residual_bps(self) -> Ints:
        """Free rate of every arc in bit/s, int64 (m,)."""
        graph, state = self.graph, self.state
        left = graph.rate_bps - graph.by_arc(state.background_bps) - graph.by_arc(state.reserved_bps)
        closed = [graph.arcs[hop] for hop in state.down if hop in graph.arcs]
        left[closed] = 0
        left[graph.reverse[closed]] = 0
        return np.asarray(np.maximum(left, 0), np.int64)

    @cached_property
    def rate_bps(self) -> int:
        """b of the weights: the demand; for a task that reserves nothing, the rate of its slowest host."""
        hosts = (self.task.server, *self.task.workers)
        return self.task.reserved_bps or min(self.state.topology.link_at(host, 1).rate_bps for host in hosts)

    def words(self, weights: LinkWeights) -> Ints:
        """The poster's weights of all arcs in the direction of frames, int64 (m, 3)."""
        return weights.words(self.graph, self.residual_bps, self.rate_bps, self.task.reserved_bps)

    def check_hosts(self, copies: int = 1) -> None:
        """Raise `Rejection` when a host's link has too little rate left; the server's link carries ``copies``."""
        topology = self.state.topology
        for host in (self.task.server, *self.task.workers):
            switch = topology.neighbours(host)[0]
            needed = max(1, self.task.reserved_bps * (copies if host == self.task.server else 1))
            for a, b in ((host, switch), (switch, host)):
                self.check_link(a, b, needed)

    def check_link(self, a: str, b: str, needed_bps: int) -> None:
        """Raise `Rejection` when a directed link is down, or has less rate left than needed."""
        topology = self.state.topology
        hop = (a, topology.port(a, b))
        back = (b, topology.port(b, a))
        left = self.state.residual_bps(hop)
        if hop in self.state.down or back in self.state.down:
            raise Rejection(f"task {self.task.name}: link {a} -> {b} is down")
        if left < needed_bps:
            raise Rejection(
                f"task {self.task.name}: link {a} -> {b} has {format_rate(left)}b/s left of "
                f"{format_rate(topology.link_at(*hop).rate_bps)}b/s, {format_rate(needed_bps)}b/s are needed"
            )


@dataclass(frozen=True)
class TaskProblem(Problem):
    """A problem whose path costs are ``words``, and whose capable switches are those with slots left.

    Paths lead from workers to the server. A broadcast is planned as the upload of a network with all links reversed, so
    that a path has the weight of the links that the broadcast's frames take.

    Attributes
    ----------
    words : int64 (m, 3)
        Weights of arcs in the direction from the workers to the server.
    turned : bool
        Whether frames go in the other direction: a broadcast.
    twin : Routes or None
        Paths of the other direction, if they are known.
    both : bool
        Whether one tree serves upload and broadcast, with weights that are equal in both directions.
    taken : mapping
        Copies of the task's frames on directed links in its other tree.
    taken_slots : mapping
        Slots of switches that its other tree needs.
    least_slots : int
        Slots that a switch must have left to aggregate.
    """

    view: View = field(kw_only=True)
    words: Ints = field(kw_only=True, compare=False)
    turned: bool = field(default=False, kw_only=True)
    twin: Routes | None = field(default=None, kw_only=True, compare=False)
    both: bool = field(default=False, kw_only=True)
    taken: Mapping[Hop, int] = field(default_factory=dict, kw_only=True)
    taken_slots: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    least_slots: int = field(default=LEAST_SLOTS, kw_only=True)

    @cached_property
    def paths(self) -> Routes:
        """Unique shortest paths under ``words``."""
        return Routes(self.topology, self.view.graph, self.words, self.twin)

    @property
    def spreading(self) -> "Problem":
        """The problem itself: its weights include the load."""
        return self

    @cached_property
    def capable(self) -> tuple[str, ...]:
        """Switches that can aggregate and have slots left."""
        try:
            names = self.able
        except PlanError as error:
            raise Rejection(f"task {self.view.task.name}: {error}") from None
        if not self.view.state.slots:
            return names
        left = {name: self.slots_left(name) for name in names}
        able = tuple(name for name, slots in left.items() if slots is None or slots >= self.least_slots)
        if not able:
            most = max(names, key=lambda name: left[name] or 0)
            raise Rejection(
                f"task {self.view.task.name}: no switch has {self.least_slots} slots left in one range; "
                f"the most has switch {most}: {left[most]}"
            )
        return able

    def slots_left(self, switch: str) -> int | None:
        """Slots that a switch has left beside the task's other tree; None: plenty."""
        free = self.view.state.slots_left(switch)
        return None if free is None else range_within(free - self.taken_slots.get(switch, 0))

    @property
    def room(self) -> Ints | None:
        """The number of copies of the task's frames that fit on every arc, towards the server; None: any number."""
        if not self.view.task.reserved_bps:
            return None
        graph = self.view.graph
        left = self.view.residual_bps // self.view.task.reserved_bps - graph.by_arc(self.taken)
        return left[graph.reverse] if self.turned else left

    def beside(self, taken: Mapping[Hop, int], slots: Mapping[str, int]) -> "TaskProblem":
        """The problem beside the task's other tree; links to which that tree leaves too little rate are closed."""
        problem = replace(self, taken=taken, taken_slots=slots)
        room = problem.room
        if room is None or not (full := (room < 1) & (self.words[:, 0] >= 0)).any():
            return problem
        words = self.words.copy()
        words[full, 0] = -1
        return replace(problem, words=words, twin=None)

    def both_ways(self) -> "TaskProblem":
        """The problem of one tree for both directions, under the sum of their weights."""
        words, turned = self.words, self.words[self.view.graph.reverse]
        even = words + turned
        even[:, 0] = np.where((words[:, 0] < 0) | (turned[:, 0] < 0), -1, even[:, 0])
        return replace(self, words=even, twin=None, turned=False, both=True)


def problem_of(view: View, words: Ints, direction: Direction, twin: Routes | None = None) -> TaskProblem:
    """The problem of one direction, given the weights of arcs in the direction of the frames."""
    turned = direction == "broadcast"
    own = words
    if turned:
        own = words[view.graph.reverse] if twin is None else twin.inward_words
    base = view.problem
    return TaskProblem(
        base.topology, base.workers, base.server, base.lanes, view=view, words=own, turned=turned, twin=twin
    )


# Paths of all workers of a task to its server.


def check_reach(problem: TaskProblem) -> None:
    """Raise `Rejection` when a worker has no path to the server; names a closed link on the shortest path."""
    routes, graph, view = problem.paths, problem.view.graph, problem.view
    server = graph.index[routes.access(view.task.server)]
    arcs = routes.towards(server).arcs
    for worker in view.task.workers:
        access = graph.index[routes.access(worker)]
        if access != server and arcs[access] < 0:
            free = Routes(view.state.topology, graph, _open(problem.words))
            for hop in hops(problem.topology, free.path(worker, view.task.server))[1:-1]:
                ends = hop[0], problem.topology.neighbour(*hop)
                a, b = ends[::-1] if problem.turned else ends
                taken = problem.taken.get((a, problem.topology.port(a, b)), 0)
                view.check_link(a, b, max(1, (1 + taken) * view.task.reserved_bps))
            raise Rejection(f"task {view.task.name}: no way from {worker} to {view.task.server} is left")


def _open(words: Ints) -> Ints:
    free = words.copy()
    free[:, 0] = np.where(words[:, 0] < 0, 10**9, 1)
    return free


# Slots that a tree needs in each of its switches: rate <= (slots / 2) * payload / round trip.


def needed_slots(view: View, round_trip_ps: int) -> int:
    """Slots with which a tree with this round trip carries the task's demand."""
    chunks = -(-view.task.demand_bps * round_trip_ps // (PS_PER_S * view.lanes * 32))
    return max(LEAST_SLOTS, power_of_two(2 * chunks))


def round_trip_ps(view: View, layout: TreeLayout) -> int:
    """Round trip in ps of a tree with explicit paths."""
    return timing(view.problem, layout, all_paths(view.problem, layout)).rtt_ps


def slots_of(view: View, layout: Layout) -> dict[str, int]:
    """The slots that a layout needs in the switches whose number of slots is known."""
    names = layout.aggregators if isinstance(layout, TreeLayout) else ()
    known = [name for name in names if name in view.state.slots]
    if not known or not isinstance(layout, TreeLayout):
        return {}
    return dict.fromkeys(known, needed_slots(view, round_trip_ps(view, layout)))


def most_slots(view: View, upload: Layout, broadcast: Layout) -> int | None:
    """Largest number of slots for the upload's job that leaves enough for the broadcast's job; None: any number."""
    second = {} if upload == broadcast else slots_of(view, broadcast)
    shared = [
        range_within((view.state.slots_left(name) or 0) - slots)
        for name, slots in second.items()
        if isinstance(upload, TreeLayout) and name in upload.children
    ]
    return min(shared, default=None)


def short_of_slots(problem: TaskProblem, layout: TreeLayout) -> tuple[int, str] | None:
    """Slots of the tree's switch with the fewest, and a message that they are too few; None when all have enough."""
    left = {name: slots for name in layout.aggregators if (slots := problem.slots_left(name)) is not None}
    if not left:
        return None
    round_trip = round_trip_ps(problem.view, layout)
    needed = needed_slots(problem.view, round_trip)
    poorest = min(left, key=lambda name: left[name])
    if left[poorest] >= needed:
        return None
    return left[poorest], (
        f"task {problem.view.task.name}: switch {poorest} has {left[poorest]} slots left in one range, "
        f"{needed} are needed for its demand over a round trip of {round_trip} ps"
    )


def least_slots(problem: TaskProblem) -> int:
    """Lower bound on the slots of the task's trees: the round trip of the farthest worker's fastest path."""
    view, graph, length = problem.view, problem.view.graph, problem.frame_bytes
    words = np.zeros((len(graph.heads), 3), np.int64)
    words[:, 0] = graph.frame_times(length) + graph.delay_ps
    fastest = Routes(view.state.topology, graph, words)
    ways = (fastest.latency_ps(worker, view.task.server, length) for worker in view.task.workers)
    return needed_slots(view, 2 * max(ways))


# The use of the network by a task's trees: copies of a frame on directed links, and reservations.


def copies(task: Task, topology: Topology, layout: Layout, direction: Direction) -> Mapping[Hop, int]:
    """Copies of a full frame of one direction on each directed link: the bandwidth that a layout consumes.

    In a ring every stream counts once for each direction: reduce-scatter, and all-gather.

    Raises
    ------
    PlanError
        When the layout is a tree without explicit paths.
    """
    if layout.paths is None:
        raise PlanError(f"task {task.name}: the layout is no tree or star with explicit paths")
    if isinstance(layout, TreeLayout):
        return layout.crossed(topology)[direction == "broadcast"]
    counts: Counter[Hop] = Counter()
    if isinstance(layout, RingLayout):
        for pair in streams(layout.order):
            counts.update(hops(topology, layout.paths[pair]))
        return dict(counts)
    for (_, destination), path in layout.paths.items():
        if (destination == task.server) == (direction == "upload"):
            counts.update(hops(topology, path))
    return dict(counts)


def loads(decision: TreeDecision, topology: Topology, direction: Direction) -> Mapping[Hop, int | Fraction]:
    """Copies of a frame on each directed link for a decision; several trees count in proportion to their parts.

    The numbers are exact: a float times a rate in bit/s may exceed an integer by its last digit, and round up.
    """
    if not decision.parts:
        layout = decision.upload if direction == "upload" else decision.broadcast
        return copies(decision.task, topology, layout, direction)
    total = sum(part.weight for part in decision.parts)
    weighted: Counter[Hop] = Counter()
    for part in decision.parts:
        if part.layout is not None:
            for hop, times in copies(decision.task, topology, part.layout, direction).items():
                weighted[hop] += times * part.weight
    return {hop: Fraction(times, total) for hop, times in weighted.items()}


def consumed(decision: TreeDecision, topology: Topology) -> int:
    """Copies of a frame on links in both directions, including hosts' links: the poster's consumed bandwidth over b."""
    return ceil(sum(sum(loads(decision, topology, way).values()) for way in DIRECTIONS))


def chunk_bytes(decision: TreeDecision, topology: Topology, lanes: int) -> int:
    """Bytes of one chunk on all links at a fixed scale of numbers, including empty frames, without FCS.

    One job answers a gradient with the sum. Two jobs send an empty frame in the other direction for each full frame: an
    acknowledgement of a push, a request for a pull.
    """
    task = decision.task
    total = consumed(decision, topology) * frame_bytes(lanes)
    if not decision.together:
        acknowledged = copies(task, topology, decision.upload, "broadcast")
        asked = copies(task, topology, decision.broadcast, "upload")
        total += (sum(acknowledged.values()) + sum(asked.values())) * HEADER_BYTES
    return total


def decision_of(policy: str, view: View, upload: Layout, broadcast: Layout) -> TreeDecision:
    """The decision for these layouts, with its reservations: no bandwidth for a task without a demand."""
    task, topology = view.task, view.state.topology
    demand: Counter[Hop] = Counter()
    if task.reserved_bps:
        demand.update(copies(task, topology, upload, "upload"))
        demand.update(copies(task, topology, broadcast, "broadcast"))
    slots = Counter(slots_of(view, upload))
    if broadcast != upload:
        slots.update(slots_of(view, broadcast))
    return TreeDecision(
        policy,
        task,
        upload,
        broadcast,
        {hop: times * task.reserved_bps for hop, times in demand.items()},
        dict(slots),
        most_slots(view, upload, broadcast),
    )


# Conversion of a decision to requests for the controller.


def ring_members(task: Task) -> tuple[str, ...]:
    """Hosts that exchange a task's models, in rank order: hosts of local models, then G's host."""
    return (*task.workers, task.server)


def plan_requests(
    decision: TreeDecision, *, job: int, lanes: int | None = None, priority: int | None = None, epoch: int = 0
) -> list[PlanRequest]:
    """The jobs of a decision: one push_pull job if both trees are equal, else a push job and a pull job.

    A ring is one all_reduce job with G's host as the last worker (:func:`ring_members`); an all-to-all is one job of
    the same hosts. Each of several trees is one all_reduce job.

    Parameters
    ----------
    decision : TreeDecision
        The trees of a task.
    job : int
        Number of the first job; others follow.
    lanes : int or None
        Numbers in a frame; None: those of the switches' program.
    priority : int or None
        Queue; None: the task's priority.
    epoch : int
        Epoch of all jobs.

    Returns
    -------
    list of PlanRequest
        One, or two: upload (push), broadcast (pull); or one for each of several trees.
    """
    exchanged = bool(decision.parts) or isinstance(decision.upload, RingLayout | MeshLayout)
    layouts = [decision.upload] if decision.together else [decision.upload, decision.broadcast]
    parts = decision.parts or [TreeShare(layout) for layout in layouts]
    ends = [0, *accumulate(part.weight for part in parts)]
    return [
        PlanRequest(
            plan=decision.policy,
            job=job + offset,
            epoch=epoch,
            workers=ring_members(decision.task) if exchanged else decision.task.workers,
            server=None if exchanged else decision.task.server,
            lanes=lanes,
            priority=decision.task.priority if priority is None else priority,
            layout=part.layout,
            max_slots=decision.max_slots if offset == 0 or decision.parts else None,
            pace_ps=part.pace_ps,
            part=(ends[offset], part.weight, ends[-1]) if decision.parts else (0, 1, 1),
        )
        for offset, part in enumerate(parts)
    ]
