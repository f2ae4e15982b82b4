"""Making a plan from a request: lay it out, choose the window, take the switches' resources."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations
from typing import Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.best import BEST, FORESTS, choose
from p4reduce.control_plane.plans.forest import refuse_one_tree
from p4reduce.control_plane.plans.plan import Aggregator, Child, Plan, address
from p4reduce.control_plane.plans.problem import (
    MAX_CHILDREN,
    Layout,
    MeshLayout,
    Pair,
    Path,
    PlanTimes,
    Problem,
    RingLayout,
    TreeLayout,
    all_paths,
    check_forwarding,
    choose_window,
    late_slots,
    planner,
    power_of_two,
    ring_window,
    timing,
)
from p4reduce.control_plane.plans.routes import DEFAULT_LANES, Cost
from p4reduce.control_plane.resources import Grant, Resources, Share
from p4reduce.topologies import Topology
from p4reduce.workers.specs import CLOSED, MOST_CHILDREN
from p4switch.base.values import PS_PER_US

# Checks of a planner's answer. A failure here is a fault of the planner, not of the user.


def check_layout(problem: Problem, layout: Layout) -> None:
    """Raise `PlanError` when a layout does not fit the problem's workers; names the switch or host."""
    if isinstance(layout, TreeLayout):
        _check_tree(problem, layout)
    elif isinstance(layout, RingLayout):
        if sorted(layout.order) != sorted(problem.workers):
            raise PlanError("the planner's ring is not one of the workers, each once")
    elif isinstance(layout, MeshLayout):
        if set(layout.paths) != set(permutations(problem.workers, 2)):
            raise PlanError("the planner's all-to-all has not one path for every ordered pair of workers")
        _check_paths(problem, layout.paths)
    else:
        if missing := [worker for worker in problem.workers if (worker, problem.server) not in layout.paths]:
            raise PlanError(f"the planner has no path from {missing[0]} to the server")
        _check_paths(problem, layout.paths)


def _check_tree(problem: Problem, layout: TreeLayout) -> None:
    children = layout.children
    for name, below in children.items():
        relay = name in problem.workers
        if not relay and name not in problem.capable:
            raise PlanError(f"the planner's tree adds up at {name}, which is no capable switch and no worker")
        if relay and problem.server is not None:
            raise PlanError(f"the planner's tree adds up at worker {name}; with a server only switches do")
        most = MOST_CHILDREN if relay else MAX_CHILDREN
        if not 1 <= len(below) <= most:
            raise PlanError(f"the planner's tree has {len(below)} children at {name}; 1 to {most} are possible")
    reached = {layout.root}
    open_ = [layout.root]
    while open_:
        new = set(children.get(open_.pop(), ())) - reached
        reached |= new
        open_ += new
    if lost := [name for name in (*problem.workers, *layout.parent) if name not in reached]:
        raise PlanError(f"the planner's tree does not connect {lost[0]} to its root {layout.root}")
    if extra := [name for name in layout.parent if name not in children and name not in problem.workers]:
        raise PlanError(f"the planner's tree ends at {extra[0]}, which is no worker of the job")
    if layout.root in layout.parent:
        raise PlanError(f"the planner's tree gives its root {layout.root} a parent")
    if layout.paths is not None:
        edges = [*layout.parent.items(), *([(layout.root, problem.server)] if problem.server else [])]
        if missing := [edge for edge in edges if edge not in layout.paths]:
            raise PlanError(f"the planner's tree has no path from {missing[0][0]} to {missing[0][1]}")
        _check_paths(problem, layout.paths)


def _check_paths(problem: Problem, paths: Mapping[Pair, Path]) -> None:
    """Check that paths are chains of links from end to end, over switches, without a node twice."""
    topology = problem.topology
    for (source, destination), path in paths.items():
        whole = path[:1] == (source,) and path[-1:] == (destination,) and len(path) > 1
        if not whole or len(set(path)) != len(path):
            raise PlanError(f"the planner's path from {source} to {destination} does not lead there: {' '.join(path)}")
        for name in path[1:-1]:
            if topology.node(name).is_host:
                raise PlanError(f"the planner's path from {source} to {destination} passes host {name}")
        for a, b in pairwise(path):
            topology.link_between(a, b)


HOST_WINDOW = 65_536
"""largest number of chunks in flight of a host-side plan, which an endpoint keeps in memory"""
SHARE: Final = 8
"""divisor of the largest free range of slots: a plan takes at most this part for late chunks"""


@dataclass(frozen=True)
class PlanRequest:
    """The requirements of a job.

    Attributes
    ----------
    plan : str
        Name of a registered planner.
    workers : tuple of str or None
        Hosts in rank order; None: all workers of the topology.
    server : str or None
        Host of the parameter server; needed by 'ps' and by push and pull. 'ps' takes the topology's first server
        when none is named.
    lanes : int or None
        32-bit lanes of a full packet; None: those of the switches' program (without one, 256).
    window : int or None
        Chunks in flight; None: chosen from rate and round trip. The number of slots is twice the window, rounded up to
        a power of two; a chosen window gets more slots if switches have plenty (:data:`SHARE`), so that late chunks
        delay no others.
    max_slots : int or None
        Largest number of slots to take in a switch.
    priority : int or None
        0..7, 7 is served first; None: the program's default queue.
    load : mapping
        Load of directed links, bit/s by (node, port).
    udp_ports : mapping
        UDP ports of hosts that do not use INC's default port.
    deadline_ps : int or None
        Time in ps (at least a microsecond) after which an open chunk is closed without missing contributions; None: no
        deadline. Only in the network and without a server. The window is then an eighth of the slots, of which the plan
        takes half of the largest free range if no window is requested.
    layout : Layout or None
        A layout that was made elsewhere (by a scheduling policy); then ``plan`` is only its name.
    elements : int or None
        float32 elements of a typical collective, for plan 'best'; None: a million.
    pace_ps : int or None
        Least time between two chunks, for a tree that shares links with others of its task; None: as links allow.
    part : tuple of int
        Part of a tree among several, as in :class:`~p4reduce.control_plane.plans.plan.Plan`.
    """

    plan: str = "steiner"
    job: int = 1
    epoch: int = 0
    workers: tuple[str, ...] | None = None
    server: str | None = None
    lanes: int | None = None
    cost: Cost = "hops"
    window: int | None = None
    max_slots: int | None = None
    priority: int | None = None
    load: Mapping[tuple[str, int], int] = field(default_factory=dict)
    udp_ports: Mapping[str, int] = field(default_factory=dict)
    deadline_ps: int | None = None
    layout: Layout | None = None
    elements: int | None = None
    pace_ps: int | None = None
    part: tuple[int, int, int] = (0, 1, 1)

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("job", self.job, 0, 65_535),
            ("epoch", self.epoch, 0, 65_535),
            ("priority", self.priority, 0, 7),
            ("window", self.window, 1, 2**30),
            ("max_slots", self.max_slots, 2, 2**31),
            ("deadline_ps", self.deadline_ps, PS_PER_US, 2**62),
            ("elements", self.elements, 1, 2**62),
            ("pace_ps", self.pace_ps, 1, 2**62),
        ):
            if value is not None and not low <= value <= high:
                raise PlanError(f"{name}: {value} is outside {low}..{high}")
        for host, port in self.udp_ports.items():
            if not 1 <= port <= 65_535:
                raise PlanError(f"udp_ports: {port} of {host} is outside 1..65535")


def make_plan(topology: Topology, request: PlanRequest, resources: Resources) -> Plan:
    """Lay out a job and take its resources in the switches; :func:`release_plan` releases them.

    Raises
    ------
    PlanError
        When the request cannot be met; then nothing is taken.
    """
    problem = _problem(topology, request)
    name, layout = _lay_out(problem, request)
    if request.deadline_ps is not None and (not isinstance(layout, TreeLayout) or problem.server is not None):
        raise PlanError(
            f"deadline_ps: plan {request.plan!r}{' with a server' if problem.server else ''} cannot have one: the root "
            "switch of a tree closes chunks; choose steiner, mst or spt, without a server"
        )
    check_layout(problem, layout)
    problem = problem.of(layout)
    paths = all_paths(problem, layout)
    check_forwarding(paths)
    times = _times(request, timing(problem, layout, paths))
    wanted = _wanted(request, layout, times)
    relays = [name for name in layout.aggregators if name in problem.workers] if isinstance(layout, TreeLayout) else []
    if request.deadline_ps is not None and relays:
        raise PlanError(f"deadline_ps: the tree adds up at worker {relays[0]}, and only switches close chunks")
    if request.deadline_ps is not None and isinstance(layout, TreeLayout) and _levels(layout) > CLOSED - 2:
        raise PlanError(f"deadline_ps: a tree of {_levels(layout)} levels of switches has none; at most {CLOSED - 2}")
    plenty = late_slots(times.window, _levels(layout) if isinstance(layout, TreeLayout) else 1)
    slots, grant = _take(problem, request, layout, wanted, plenty, resources)
    aggregators, relays_ = _aggregators(problem, layout, paths, grant, request)
    return Plan(
        name=name,
        topology=topology,
        job=request.job,
        epoch=request.epoch,
        generation=grant.generation,
        workers=problem.workers,
        server=problem.server,
        lanes=problem.lanes,
        aggregators=aggregators,
        relays=relays_,
        paths=paths,
        ring=layout.order if isinstance(layout, RingLayout) else (),
        udp_ports=dict(request.udp_ports),
        priority=request.priority,
        window=_window(request, wanted, slots),
        slots=slots,
        deadline_ps=request.deadline_ps,
        rtt_ps=times.rtt_ps,
        chunk_ps=times.chunk_ps,
        window_needed=times.window,
        window_wanted=wanted,
        grant=grant,
        mesh=isinstance(layout, MeshLayout),
        part=request.part,
    )


def window_range(topology: Topology, request: PlanRequest) -> tuple[int, int]:
    """The least window that keeps a plan's busiest link busy, and the window that it gets when slots are plenty.

    `PlanError` when the request cannot be met.
    """
    problem = _problem(topology, request)
    layout = _lay_out(problem, request)[1]
    check_layout(problem, layout)
    problem = problem.of(layout)
    times = _times(request, timing(problem, layout, all_paths(problem, layout)))
    wanted = _wanted(request, layout, times)
    return min(times.window, wanted), wanted


def release_plan(plan: Plan, resources: Resources) -> None:
    """Release a plan's slots, groups and replication ids (its generation is never used again)."""
    resources.release(plan.grant)


def _problem(topology: Topology, request: PlanRequest) -> Problem:
    workers = request.workers
    if workers is None:
        workers = tuple(host.name for host in topology.workers if host.name != request.server)
    server = request.server
    if server is None and request.plan == "ps" and topology.servers:
        server = topology.servers[0].name
    lanes = DEFAULT_LANES if request.lanes is None else request.lanes
    return Problem(
        topology,
        tuple(workers),
        server,
        lanes,
        request.cost,
        request.load,
        elements=request.elements,
        in_network=request.deadline_ps is not None,
    )


def _lay_out(problem: Problem, request: PlanRequest) -> tuple[str, Layout]:
    """The plan's name, with the choice of 'best' if it chose, and its layout."""
    if request.layout is not None:
        return request.plan, request.layout
    if request.plan in FORESTS:
        raise refuse_one_tree(request.plan)
    if request.plan == BEST:
        name, layout = choose(problem)
        return f"{BEST} ({name})", layout
    return request.plan, planner(request.plan)(problem)


def _times(request: PlanRequest, times: PlanTimes) -> PlanTimes:
    """The times, with chunks at least as far apart as requested."""
    return replace(times, chunk_ps=max(times.chunk_ps, request.pace_ps or 0))


def _wanted(request: PlanRequest, layout: Layout, times: PlanTimes) -> int:
    """The requested window, or a window that keeps links busy."""
    if request.window is not None:
        return request.window
    if isinstance(layout, TreeLayout):
        return choose_window(times.window)
    choose = ring_window if isinstance(layout, RingLayout | MeshLayout) else choose_window
    return min(choose(times.window), HOST_WINDOW)


def _levels(layout: TreeLayout) -> int:
    """Number of levels of switches that aggregate."""

    def level(name: str) -> int:
        return 1 if name == layout.root else 1 + level(layout.parent[name])

    return max(map(level, layout.children))


def _window(request: PlanRequest, wanted: int, slots: int) -> int:
    """Chunks in flight; with a deadline as many as slots allow, so that all chunks with missing workers can be open."""
    if not slots:
        return wanted
    most = slots // _parts(request)
    return most if request.deadline_ps is not None and request.window is None else min(wanted, most)


def _parts(request: PlanRequest) -> int:
    """Number of windows in a plan's slots."""
    return 2 if request.deadline_ps is None else CLOSED


def _take(
    problem: Problem, request: PlanRequest, layout: Layout, wanted: int, plenty: int, resources: Resources
) -> tuple[int, Grant]:
    """Take the resources; returns the number of slots, which the fullest switch may reduce, and the grant.

    Relays use no slots of switches, and get as many as a switch without other jobs would grant.

    plenty: a higher number of slots, used if switches have many.
    """
    if not isinstance(layout, TreeLayout):
        return 0, resources.grant((), 1)
    fan_in = [(name, len(below)) for name, below in layout.children.items() if name not in problem.workers]
    fullest = min((name for name, _ in fan_in), key=resources.largest, default="")
    largest = resources.largest(fullest) if fullest else 1 << (resources.slots.bit_length() - 1)
    parts = _parts(request)
    slots = min(power_of_two(parts * wanted), largest)
    if request.window is None and request.deadline_ps is None:
        slots = max(slots, min(plenty, largest // SHARE))
    elif request.window is None:
        slots = max(slots, largest // 2)
    if request.max_slots is not None:
        slots = min(slots, 1 << (request.max_slots.bit_length() - 1))
    if request.window is not None and request.max_slots is None and slots < parts * request.window:
        raise PlanError(
            f"window: {request.window} chunks in flight need {power_of_two(parts * request.window)} slots, "
            f"but switch {fullest} has at most {slots} in one range; ask for a window of {slots // parts} or less"
        )
    if slots < parts:
        raise PlanError(
            f"switch {fullest}: no {parts} slots in one range are left ({resources.free(fullest)} free); end some jobs"
        )
    return slots, resources.grant(fan_in, slots)


def _aggregators(
    problem: Problem, layout: Layout, paths: Mapping[Pair, Path], grant: Grant, request: PlanRequest
) -> tuple[tuple[Aggregator, ...], tuple[Aggregator, ...]]:
    """Switches and relays, each root first, level by level; children are workers in rank order, then switches."""
    if not isinstance(layout, TreeLayout):
        return (), ()
    udp_ports = request.udp_ports
    shares = {share.switch: share for share in grant.shares}
    order = {worker: position for position, worker in enumerate(problem.workers)}
    adders: tuple[list[Aggregator], list[Aggregator]] = [], []
    level, names = 0, [layout.root]
    while names:
        below: list[str] = []
        for name in names:
            children = sorted(layout.children[name], key=lambda child: (order.get(child, len(order)), child))
            above = problem.server if name == layout.root else layout.parent[name]
            relay = name in order  # a relay contributes as its first child, bit 0
            parent = address(problem.topology, paths[(name, above)], udp_ports) if above else None
            share = Share(name, 0, grant.slots, 0, (0,) * len(children)) if relay else shares[name]
            adders[relay].append(
                Aggregator(
                    name=name,
                    level=level,
                    children=tuple(
                        Child(address(problem.topology, paths[(name, child)], udp_ports), bit, rid, child in order)
                        for bit, (child, rid) in enumerate(zip(children, share.rids, strict=True), start=relay)
                    ),
                    parent=parent,
                    group=share.group,
                    base=share.base,
                    slots=share.slots,
                )
            )
            below += [child for child in children if child in layout.children]
        level, names = level + 1, below
    return tuple(adders[False]), tuple(adders[True])
