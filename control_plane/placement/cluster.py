"""The input of placement policies: free slots and speed of hosts, links, running jobs, and forecasts of load."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from p4reduce.base.errors import PlanError
from p4reduce.base.registry import Registry
from p4reduce.control_plane.scheduling.task import Task, WantedHosts
from p4reduce.control_plane.scheduling.view import LEAST_SLOTS, NetworkState, Rejection
from p4reduce.topologies import Topology
from p4switch.base.values import PS_PER_S

# Forecasts of a link's load: plug-ins, compared by their error on samples after the part that they learn from.


Floats = NDArray[np.float64]
LAGS: Final = 16
"""number of samples that AR and boosted trees look back"""
WEIGHT: Final = 0.3
"""weight of the newest sample in EWMA"""


class Forecaster(Protocol):
    """Learns from a history of equally spaced samples, and returns a predictor for ``ahead`` samples ahead.

    Raises `PlanError` if the history is too short.
    """

    def __call__(self, history: Floats, ahead: int) -> Callable[[Floats], float]:
        """Learn from the history; the predictor takes the newest samples, at least ``LAGS`` of them, oldest first."""


FORECASTS: Registry[Forecaster] = Registry("forecast", PlanError)
"""Every known forecast by name; entry points of ``p4reduce.forecasts`` add to it."""


def forecast_named(name: str) -> Forecaster:
    """The forecast with this name; `PlanError` lists the known names."""
    return FORECASTS.named(name)


def learn(name: str, history: Sequence[float] | Floats, ahead: int) -> Callable[[Floats], float]:
    """Let a forecast learn, and return its predictor; `PlanError` for a history that is too short or not finite."""
    given = np.asarray(history, np.float64)
    if ahead < 1:
        raise PlanError(f"forecast {name!r}: {ahead} samples ahead, must be at least 1")
    if given.ndim != 1 or not np.isfinite(given).all():
        raise PlanError(f"forecast {name!r}: the history must be numbers, one after the other")
    least = LAGS + ahead + 1
    if len(given) < least:
        raise PlanError(
            f"forecast {name!r}: the history has {len(given)} samples, {least} are needed: measure longer or more often"
        )
    return forecast_named(name)(given, ahead)


def nrmse(name: str, history: Sequence[float] | Floats, ahead: int, *, learned: float = 0.5) -> float:
    """Root mean square error on the later part of a history, divided by its standard deviation; the mean has about 1.

    Parameters
    ----------
    name : str
        Name of the forecast.
    history : float64 (samples,)
        Equally spaced samples.
    ahead : int
        Number of samples ahead.
    learned : float
        Share of the history from which it learns, the first part.

    Raises
    ------
    PlanError
        One of the parts is too short, or the later part is constant.
    """
    given = np.asarray(history, np.float64)
    cut = round(len(given) * learned)
    predict = learn(name, given[:cut], ahead)
    ends = range(max(cut, LAGS), len(given) - ahead + 1)
    if not ends:
        raise PlanError(f"forecast {name!r}: no sample is left to compare with: measure longer or more often")
    truth = np.array([given[end + ahead - 1] for end in ends])
    if not (spread := float(np.std(truth))):
        raise PlanError(f"forecast {name!r}: the load does not change, so no error can be compared with it")
    predicted = np.array([predict(given[:end]) for end in ends])
    return float(np.sqrt(np.mean((predicted - truth) ** 2)) / spread)


def _mean(history: Floats, ahead: int) -> Callable[[Floats], float]:
    return lambda recent: float(np.mean(history))


def _ewma(history: Floats, ahead: int) -> Callable[[Floats], float]:
    """Exponentially weighted mean; older samples, which would weigh less than 0.1 %, are left out."""
    count = int(np.ceil(np.log(1e-3) / np.log(1 - WEIGHT)))
    weights = WEIGHT * (1 - WEIGHT) ** np.arange(count)[::-1]

    def predict(recent: Floats) -> float:
        own = recent[-count:]
        return float(np.average(own, weights=weights[-len(own) :]))

    return predict


def _windows(history: Floats, ahead: int) -> tuple[Floats, Floats]:
    ends = range(LAGS, len(history) - ahead + 1)
    rows = np.array([history[end - LAGS : end] for end in ends], np.float64)
    return rows, np.array([history[end + ahead - 1] for end in ends], np.float64)


def _autoregressive(history: Floats, ahead: int) -> Callable[[Floats], float]:
    """Least squares from the last `LAGS` samples directly to the predicted one."""
    rows, wanted = _windows(history, ahead)
    coefficients = np.linalg.lstsq(np.column_stack([rows, np.ones(len(rows))]), wanted, rcond=None)[0]
    return lambda recent: float(np.append(recent[-LAGS:], 1.0) @ coefficients)


def _boosted(history: Floats, ahead: int) -> Callable[[Floats], float]:
    """Gradient-boosted trees of scikit-learn over the last `LAGS` samples."""
    try:
        from sklearn.ensemble import GradientBoostingRegressor  # noqa: PLC0415  (an extra)
    except ImportError:
        raise PlanError(
            "forecast 'boosted-trees' needs scikit-learn: pip install 'p4reduce[demo]', or take 'ar'"
        ) from None
    rows, wanted = _windows(history, ahead)
    model: Any = GradientBoostingRegressor(random_state=0)
    model.fit(rows, wanted)
    return lambda recent: float(model.predict(recent[None, -LAGS:])[0])


for _name, _forecast in (("mean", _mean), ("ewma", _ewma), ("ar", _autoregressive), ("boosted-trees", _boosted)):
    FORECASTS.add(_name, _forecast)


# A topology in terms of placement: racks of hosts, and the trees that can join their switches.


MOST_WAYS: Final = 64
"""largest number of ways that are compared for one set of racks"""


@dataclass(frozen=True)
class RackTree:
    """A tree of shortest paths from the switches of racks to a root; ``parent`` by switch, except the root."""

    root: str
    parent: Mapping[str, str]


class Racks:
    """Racks, links and distances of one topology, which do not depend on tasks.

    Links have their index in ``topology.links``; the load of tasks on a link is the same in both directions, as every
    sum goes up and comes down, so directions are not distinguished.

    Attributes
    ----------
    topology : Topology
        The network.
    of : mapping
        The switch of every host.
    members : mapping
        Hosts for local models by switch, in the order of the topology.
    rate_bps : float64 (links,)
        Rate of every link.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology: Final = topology
        self.of: Final[dict[str, str]] = {host.name: topology.neighbours(host.name)[0] for host in topology.hosts}
        self.members: Final[dict[str, list[str]]] = {}
        for host in topology.workers:
            self.members.setdefault(self.of[host.name], []).append(host.name)
        self.rate_bps: Final[Floats] = np.array([link.rate_bps for link in topology.links], np.float64)
        self._link = {
            pair: number for number, link in enumerate(topology.links) for pair in ((link.a, link.b), (link.b, link.a))
        }
        self._switches = {switch.name for switch in topology.switches}
        self._ways: dict[tuple[frozenset[str], frozenset[str]], tuple[RackTree, ...]] = {}
        self._distances: dict[str, dict[str, int]] = {}

    def link(self, a: str, b: str) -> int:
        """Index of the link between two neighbours."""
        return self._link[(a, b)]

    def uplink(self, host: str) -> int:
        """Index of a host's link."""
        return self._link[(host, self.of[host])]

    @cached_property
    def uplinks(self) -> dict[str, list[int]]:
        """Indices of the links of every switch to other switches."""
        return {switch: [self.link(switch, other) for other in self._next(switch)] for switch in sorted(self._switches)}

    @cached_property
    def capable(self) -> frozenset[str]:
        """Switches that can aggregate."""
        return frozenset(switch.name for switch in self.topology.switches if switch.capable)

    def distance(self, a: str, b: str) -> int:
        """Number of links between two switches; a large number if there is no path."""
        return self._from(b).get(a, len(self._switches) + 1)

    def ways(self, switches: Iterable[str], roots: Collection[str] | None = None) -> tuple[RackTree, ...]:
        """The ways to join the switches of some racks, along shortest paths to one root.

        The roots are the switches with the least sum of distances, preferably switches between racks.
        Equal paths count separately, up to `MOST_WAYS` ways. ``roots``: possible roots; None: all switches.
        """
        wanted = frozenset(switches)
        among = frozenset(self._switches if roots is None else roots)
        known = self._ways.get((wanted, among))
        if known is None:
            known = self._ways[(wanted, among)] = self._find(wanted, among)
        return known

    def _find(self, wanted: frozenset[str], roots: frozenset[str]) -> tuple[RackTree, ...]:
        reached = [
            root for root in roots if all(self.distance(switch, root) <= len(self._switches) for switch in wanted)
        ]
        total = {root: sum(self.distance(switch, root) for switch in wanted) for root in reached}
        if not total:
            return ()
        least = min(total.values())
        best = sorted(root for root, distance in total.items() if distance == least)
        best = [root for root in best if root not in wanted] or best
        ways: dict[tuple[str, tuple[tuple[str, str], ...]], RackTree] = {}
        for variant in range(len(self._switches)):
            before = len(ways)
            for root in best:
                parent = self._parents(wanted, root, variant)
                ways.setdefault((root, tuple(sorted(parent.items()))), RackTree(root, parent))
            if len(ways) == before or len(ways) >= MOST_WAYS:
                break
        return tuple(ways.values())[:MOST_WAYS]

    def _parents(self, wanted: frozenset[str], root: str, variant: int) -> dict[str, str]:
        """Next hops to the root; of equal ones the ``variant``-th, at every switch."""
        distances, parent = self._from(root), dict[str, str]()
        for switch in sorted(wanted):
            at = switch
            while at != root and at not in parent:
                nearer = [other for other in self._next(at) if distances.get(other, -1) == distances[at] - 1]
                parent[at] = nearer[variant % len(nearer)]
                at = parent[at]
        return parent

    def _next(self, switch: str) -> list[str]:
        return [other for other in self.topology.neighbours(switch) if other in self._switches]

    def _from(self, root: str) -> dict[str, int]:
        known = self._distances.get(root)
        if known is None:
            known, left = {root: 0}, deque([root])
            while left:
                switch = left.popleft()
                for other in self._next(switch):
                    if other not in known:
                        known[other] = known[switch] + 1
                        left.append(other)
            self._distances[root] = known
        return known


# The load of a job's iteration on links: through a tree of aggregating switches, or around a ring of hosts.


@dataclass(frozen=True)
class IterationLoad:
    """The load of an iteration of a job.

    Attributes
    ----------
    compute_s : float
        Seconds of computation, which the communication follows.
    bits : mapping
        Bits on every link in each direction, by the index of the link.
    slots : tuple of str
        Switches that keep slots for it.
    rounds : float
        Number of iterations left.
    """

    compute_s: float
    bits: Mapping[int, float]
    slots: tuple[str, ...] = ()
    rounds: float = 1.0


@dataclass(frozen=True)
class ModelCopies:
    """Copies of a model on every link in each direction, and the aggregating switches."""

    way: RackTree | None
    copies: Mapping[int, float]
    slots: tuple[str, ...] = field(default=())

    def load(self, bits: float, compute_s: float, rounds: float = 1.0) -> IterationLoad:
        """The load for a model of ``bits`` bits."""
        return IterationLoad(compute_s, {link: bits * times for link, times in self.copies.items()}, self.slots, rounds)


def tree_copies(
    racks: Racks, hosts: Sequence[str], way: RackTree, able: Collection[str], server: str = ""
) -> ModelCopies:
    """Copies of a model on the links of a tree; the same up and down.

    A switch that does not aggregate (not in ``able``) forwards each copy that it gets. A switch with a single child has
    nothing to add, and needs no slots.

    Parameters
    ----------
    racks : Racks
        The network.
    hosts : sequence of str
        Hosts of the workers.
    way : RackTree
        Joins the switches of hosts and server.
    able : collection of str
        Switches that may aggregate.
    server : str
        Host of the global model, which gets the root's sum; '': there is none.
    """
    copies: dict[int, float] = {racks.uplink(host): 1.0 for host in hosts}
    arriving = Counter(racks.of[host] for host in hosts)
    slots = []
    for switch in _deepest_first(way, arriving):
        if arriving[switch] > 1 and switch in able:
            slots.append(switch)
            arriving[switch] = 1
        if switch != way.root:
            up = way.parent[switch]
            copies[racks.link(switch, up)] = float(arriving[switch])
            arriving[up] += arriving[switch]
    if server:
        at, times = racks.of[server], float(arriving[way.root])
        copies[racks.uplink(server)] = copies.get(racks.uplink(server), 0.0) + times
        while at != way.root:  # from the root down to the server; the larger of both directions
            link = racks.link(at, way.parent[at])
            copies[link] = max(copies.get(link, 0.0), times)
            at = way.parent[at]
    return ModelCopies(way, copies, tuple(slots))


def _deepest_first(way: RackTree, switches: Mapping[str, int]) -> list[str]:
    """All switches of a way, children before their parents."""
    depth = {way.root: 0}

    def of(switch: str) -> int:
        if switch not in depth:
            depth[switch] = of(way.parent[switch]) + 1
        return depth[switch]

    return sorted({*switches, *way.parent, way.root}, key=lambda switch: (-of(switch), switch))


def ring_copies(racks: Racks, hosts: Sequence[str], way: RackTree) -> ModelCopies:
    """Copies around a ring from rack to rack along a way: 2 (n - 1) / n of a model on each link.

    Patarasuk and Yuan, 'Bandwidth optimal all-reduce algorithms for clusters of workstations', 2009.
    """
    n = len(hosts)
    if n < 2:
        return ModelCopies(way, {})
    share = 2.0 * (n - 1) / n
    copies = {racks.uplink(host): share for host in hosts}
    copies |= {racks.link(switch, up): share for switch, up in way.parent.items()}
    return ModelCopies(way, copies)


def mesh_copies(racks: Racks, hosts: Sequence[str], way: RackTree) -> ModelCopies:
    """Blocks between every two hosts along a way, there and back (dispatch, combine), each as long as a model."""
    n = len(hosts)
    copies = {racks.uplink(host): 2.0 * (n - 1) for host in hosts}
    below = Counter(racks.of[host] for host in hosts)
    for switch in _deepest_first(way, below):
        if switch != way.root:
            copies[racks.link(switch, way.parent[switch])] = 2.0 * below[switch] * (n - below[switch])
            below[way.parent[switch]] += below[switch]
    return ModelCopies(way, copies)


# Iteration times of jobs that share links, predicted from each job's share of time in communication.


_STEPS: Final = 24
_DAMPING: Final = 0.5
_NEAR: Final = 1e-4
"""relative change of a communication time at which the fixed point is reached"""
FULL: Final = 1e-3
"""share of a link's rate that is left to tasks even if other traffic takes all of it"""


def iteration_times(loads: Sequence[IterationLoad], capacity_bps: Floats) -> Floats:
    """Seconds of an iteration of every job, float64 (jobs,).

    A mean-field fixed point. Job k communicates for M_k of its iteration T_k = C_k + M_k, so another job meets its
    traffic with probability M_k / T_k, and they share a link evenly; a job that other links limit to less than half of
    this link leaves the rest to others:

        S_jl = A_jl (1 + sum over k of M_k / T_k min(1, u_kl / (1 - u_kl))),   M_j = max over links of S_jl
        u_kl = min(1, A_kl / max over links m other than l of S_km)

    A_jl is the time of job j's bits on link l alone. Jobs whose phases lock take longer.

    Parameters
    ----------
    loads : sequence of IterationLoad
        The jobs.
    capacity_bps : float64 (links,)
        Rate of the links that is available to the jobs.
    """
    count = len(loads)
    compute = np.array([load.compute_s for load in loads], np.float64)
    users: dict[int, int] = {}
    alone = np.zeros(count)
    for number, load in enumerate(loads):
        for link, bits in load.bits.items():
            users[link] = users.get(link, 0) + 1
            alone[number] = max(alone[number], bits / capacity_bps[link])
    shared = {link: place for place, link in enumerate(link for link, jobs in users.items() if jobs > 1)}
    if not shared:
        return compute + alone
    takes, elsewhere = np.zeros((count, len(shared))), np.zeros(count)
    for number, load in enumerate(loads):
        for link, bits in load.bits.items():
            if link in shared:
                takes[number, shared[link]] = bits / capacity_bps[link]
            else:
                elsewhere[number] = max(elsewhere[number], bits / capacity_bps[link])
    busy = np.maximum(alone, 1e-12)
    slowed, rows = takes, np.arange(count)
    for _ in range(_STEPS):
        worst = slowed.argmax(axis=1)
        others = np.repeat(np.maximum(slowed[rows, worst], elsewhere)[:, None], len(shared), axis=1)
        rest = slowed.copy()
        rest[rows, worst] = 0.0
        others[rows, worst] = np.maximum(rest.max(axis=1), elsewhere)
        share = np.minimum(takes / np.maximum(others, 1e-12), 1.0)
        weight = np.where(share < 0.5, share / np.maximum(1.0 - share, 0.5), 1.0)
        pressure = weight * (busy / (compute + busy))[:, None]
        slowed = takes * (1.0 + pressure.sum(axis=0)[None, :] - pressure)
        wanted = np.maximum(np.maximum(alone, slowed.max(axis=1)), 1e-12)
        near = bool((np.abs(wanted - busy) <= _NEAR * wanted).all())
        busy = (1 - _DAMPING) * busy + _DAMPING * wanted
        if near:
            break
    return np.asarray(compute + busy, np.float64)


@dataclass(frozen=True)
class ClusterView:
    """A cluster at one time. Policies only read it.

    Attributes
    ----------
    racks : Racks
        Hosts and links.
    network : NetworkState
        Measured load and reservations.
    slots : mapping
        All slots of hosts, in use or not.
    free : mapping
        Free slots of hosts; 0 for a host that may take no further model.
    slowdown : mapping
        Training time at a host divided by that at a standard host; hosts without a value have 1.
    running : mapping of IterationLoad
        Load on links of running tasks, by name.
    hosts : mapping
        Slots of hosts that running tasks take, by name of the task, if known.
    serving : mapping
        Number of global models by host.
    rings : bool
        Whether tasks reduce among themselves: they need no server, and use a ring if no tree is better. Otherwise
        they push to a server and pull from it, and switches without slots forward without aggregation.
    seed : int
        Seed of random policies.
    """

    racks: Racks
    network: NetworkState
    slots: Mapping[str, int]
    free: Mapping[str, int]
    slowdown: Mapping[str, float] = field(default_factory=dict)
    running: Mapping[str, IterationLoad] = field(default_factory=dict)
    hosts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    serving: Mapping[str, int] = field(default_factory=dict)
    rings: bool = False
    seed: int = 0

    @cached_property
    def capacity_bps(self) -> Floats:
        """Available rate of every link in its worse direction, float64 (links,); at least `FULL` of its rate."""
        left = np.array(self.racks.rate_bps)
        for used in (self.network.background_bps, self.network.reserved_bps):
            taken = np.zeros_like(left)
            for (node, port), bps in used.items():
                link = self.racks.link(node, self.racks.topology.neighbour(node, port))
                taken[link] = max(taken[link], bps)
            left -= taken
        for node, port in self.network.down:
            left[self.racks.link(node, self.racks.topology.neighbour(node, port))] = 0.0
        return np.asarray(np.maximum(left, FULL * self.racks.rate_bps), np.float64)

    @cached_property
    def able(self) -> frozenset[str]:
        """Switches that can aggregate and have slots left."""
        return frozenset(name for name in self.racks.capable if self._has_slots(name))

    def _has_slots(self, switch: str) -> bool:
        left = self.network.slots_left(switch)
        return left is None or left >= LEAST_SLOTS

    def room(self, slots: int) -> dict[str, list[str]]:
        """Hosts with ``slots`` free slots, by switch, in the order of the topology; only racks with such hosts."""
        down = {node for node, _ in self.network.down}
        room: dict[str, list[str]] = {}
        for switch, hosts in self.racks.members.items():
            able = [host for host in hosts if self.free.get(host, 0) >= slots and host not in down]
            if able:
                room[switch] = able
        return room

    def check(self, task: Task) -> dict[str, list[str]]:
        """The hosts with free slots for a task, by switch; `Rejection`, with their number, if they are too few."""
        wanted = asked(task)
        room = {
            switch: kept
            for switch, hosts in self.room(task.slots).items()
            if (kept := [host for host in hosts if host != task.server])
        }
        count = sum(map(len, room.values()))
        if count < wanted.count:
            raise Rejection(
                f"task {task.name}: it wants {wanted.count} hosts with {task.slots} free slots each; "
                f"now there are {count}"
            )
        return room

    def fault(self, task: Task) -> str:
        """Reason why no choice will ever be possible, even without other tasks; '' if one may be."""
        wanted = asked(task)
        most = sum(slots >= task.slots for slots in self.slots.values())
        if most < wanted.count:
            return (
                f"it wants {wanted.count} hosts with {task.slots} slots each; the cluster has {most} such hosts: "
                "ask for fewer workers or slots"
            )
        names = self.racks.of
        unknown = [host for host in (*wanted.shards, *([task.server] if task.server else [])) if host not in names]
        return f"{unknown[0]!r} is no host of the topology" if unknown else ""

    # --- predictions

    def load(self, task: Task, hosts: Sequence[str], server: str = "", way: RackTree | None = None) -> IterationLoad:
        """The predicted load of a task at these hosts, over the best tree or, if allowed, ring.

        A task with an ``exchange`` gets the load of that exchange. The best option has the shortest time on its busiest
        link, given the load of running tasks.
        """
        bits = 32.0 * task.elements
        compute = task.training_ps / PS_PER_S * max((self.slowdown.get(host, 1.0) for host in hosts), default=1.0)
        members = (*hosts, *([server] if server else []))
        racks = {self.racks.of[host] for host in members}
        options = []
        if task.exchange is not None:
            copies = {"rar": ring_copies, "a2a": mesh_copies}[task.exchange]
            options += [copies(self.racks, members, candidate) for candidate in self.racks.ways(racks)]
        else:
            trees = self.racks.ways(racks, self.able) if way is None else (way,)
            usable = [tree for tree in trees if tree.root in self.able]
            options += [tree_copies(self.racks, hosts, tree, self.able, server) for tree in usable]
            if self.rings or not options:
                options += [ring_copies(self.racks, hosts, candidate) for candidate in self.racks.ways(racks)]
        if not options:
            raise Rejection(f"task {task.name}: no way joins its hosts")
        best = min(options, key=lambda option: self.lasts(option.copies))
        return best.load(bits, compute, float(task.rounds))

    def lasts(self, copies: Mapping[int, float]) -> float:
        """Relative time of the busiest link for these copies, in any unit: for comparing ways of one task."""
        return max((times / self.capacity_bps[link] * self.crowd(link) for link, times in copies.items()), default=0.0)

    def crowd(self, link: int) -> float:
        """Expected number of tasks that send on a link at the same time, including a new one."""
        return 1.0 + self._users.get(link, 0.0)

    @cached_property
    def _before(self) -> dict[tuple[str, ...], Floats]:
        """Iteration times of sets of running tasks, without a new one."""
        return {}

    @cached_property
    def _users(self) -> dict[int, float]:
        users: dict[int, float] = {}
        for load in self.running.values():
            longest = max((bits / self.capacity_bps[link] for link, bits in load.bits.items()), default=0.0)
            share = longest / (longest + load.compute_s) if longest else 0.0
            for link in load.bits:
                users[link] = users.get(link, 0.0) + share
        return users

    def seconds(self, load: IterationLoad) -> tuple[float, float]:
        """Predicted seconds of a new task's iteration, and the seconds that running tasks lose by it until they end."""
        mine = set(load.bits)
        touched = [other for other in self.running.values() if not mine.isdisjoint(other.bits)]
        if not touched:
            return float(iteration_times([load], self.capacity_bps)[0]), 0.0
        near = mine.union(*(other.bits for other in touched))
        names = [name for name, other in self.running.items() if not near.isdisjoint(other.bits)]
        others = [self.running[name] for name in names]
        after = iteration_times([*others, load], self.capacity_bps)
        key = tuple(names)
        if key not in self._before:
            self._before[key] = iteration_times(others, self.capacity_bps)
        before = self._before[key]
        return float(after[-1]), float(
            sum((a - b) * other.rounds for a, b, other in zip(after, before, others, strict=False))
        )

    def ends(self) -> list[tuple[float, str]]:
        """(seconds until the end, name) of running tasks, as predicted now, the first to end first."""
        names = list(self.running)
        if not names:
            return []
        loads = [self.running[name] for name in names]
        times = iteration_times(loads, self.capacity_bps)
        return sorted((float(load.rounds * lasts), name) for load, lasts, name in zip(loads, times, names, strict=True))

    def without(self, names: Iterable[str]) -> "ClusterView":
        """The cluster after the end of some tasks."""
        gone = set(names)
        free = dict(self.free)
        for name in gone & set(self.hosts):
            for host, slots in self.hosts[name].items():
                free[host] = min(self.slots.get(host, 0), free.get(host, 0) + slots)
        return replace(self, free=free, running={name: load for name, load in self.running.items() if name not in gone})

    def read_seconds(self, wanted: WantedHosts, hosts: Sequence[str]) -> float:
        """Seconds until all workers have their shards, whose reads begin together and share links evenly."""
        carried: dict[int, float] = {}
        for home, reader in reads(wanted, hosts):
            for link in self._path(home, reader):
                carried[link] = carried.get(link, 0.0) + 8.0 * wanted.shard_bytes
        return max((bits / self.capacity_bps[link] for link, bits in carried.items()), default=0.0)

    def _path(self, source: str, target: str) -> list[int]:
        racks = self.racks
        ends = [racks.uplink(source), racks.uplink(target)]
        ways = racks.ways({racks.of[source], racks.of[target]})
        return ends + [racks.link(*pair) for pair in ways[0].parent.items()] if ways else ends


def asked(task: Task) -> WantedHosts:
    """The task's request for hosts; ``ValueError`` for a task that names its hosts."""
    if task.wanted is None:
        raise ValueError(f"task {task.name} names its hosts")
    return task.wanted


def reads(wanted: WantedHosts, hosts: Sequence[str]) -> list[tuple[str, str]]:
    """(home, reader) of every shard that is read over the network.

    Shards at a worker's host belong to this worker; other shards go to workers with the fewest shards.
    """
    if not wanted.shard_bytes:
        return []
    own = dict.fromkeys(hosts, 0)
    for home in wanted.shards:
        if home in own:
            own[home] += 1
    pairs = []
    for home in wanted.shards:
        if home not in own:
            reader = min(hosts, key=lambda host: (own[host], hosts.index(host)))
            own[reader] += 1
            pairs.append((home, reader))
    return pairs


def server_for(cluster: ClusterView, task: Task, hosts: Iterable[str]) -> str:
    """A host for the global model of a task that names none; `Rejection` when no host is left.

    If the topology has hosts for servers, only these are considered. Takes the host with the fewest global models, then
    the host nearest to the workers, then the host with the fewest free slots.
    """
    chosen = list(hosts)
    if task.server:
        return task.server
    topology, racks = cluster.racks.topology, cluster.racks
    down = {node for node, _ in cluster.network.down}
    named = [host.name for host in topology.servers] or [host.name for host in topology.workers]
    free = [host for host in named if host not in chosen and host not in down]
    if not free:
        raise Rejection(f"task {task.name}: server: no host is left for its global model")
    at = [racks.of[host] for host in chosen]
    return min(
        free,
        key=lambda host: (
            cluster.serving.get(host, 0),
            sum(racks.distance(switch, racks.of[host]) for switch in at),
            cluster.free.get(host, 0),
            topology.node(host).index,
        ),
    )
