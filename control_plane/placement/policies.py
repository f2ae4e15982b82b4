"""The order of waiting tasks, the distribution of switch slots, and the built-in placement policies."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import inf
from typing import Any, Final, Protocol, TypeVar
from zlib import crc32

import numpy as np

from p4reduce.base.errors import PlanError
from p4reduce.base.registry import Registry
from p4reduce.control_plane.placement.cluster import ClusterView, IterationLoad, asked, server_for
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import Rejection
from p4switch.base.values import PS_PER_S

# The order in which waiting tasks are tried, by columns of the database, so that no order reads all tasks.


LINE_BPS: Final = 10**10
"""rate in bit/s with which a task's communication is estimated; only the order of the estimates matters"""


@dataclass(frozen=True)
class QueueOrder:
    """``key``: rank of a task, the smallest is tried first, ties by arrival. ``by_owner``: owners take turns.

    The owner with the least service so far comes first, then the key; the service of a task is its estimated work.
    """

    key: Callable[[Task], float]
    by_owner: bool = False


def work(task: Task) -> float:
    """Estimated worker-seconds of a task: the oracle of 'sjf', and the measure of 'fair'."""
    communication = 2 * 32 * task.elements / LINE_BPS
    return task.size * task.rounds * (task.training_ps / PS_PER_S + communication)


def seconds(task: Task) -> float:
    """Estimated seconds of a task."""
    return work(task) / task.size


ORDERS: Registry[QueueOrder] = Registry("queue order", PlanError)
"""Every known order by name; entry points of ``p4reduce.queue_orders`` add to it."""
for _name, _order in (
    ("fifo", QueueOrder(lambda task: 0.0)),
    ("fair", QueueOrder(lambda task: 0.0, by_owner=True)),
    ("priority", QueueOrder(lambda task: -float(task.priority or 0))),
    ("edf", QueueOrder(lambda task: float("inf") if task.deadline_ps is None else float(task.deadline_ps))),
    ("sjf", QueueOrder(seconds)),
):
    ORDERS.add(_name, _order)


def order_named(name: str) -> QueueOrder:
    """The order with this name; `PlanError` lists the known names."""
    return ORDERS.named(name)


def sorted_queue(tasks: Mapping[str, Task], order: QueueOrder, served: Mapping[str, float]) -> list[str]:
    """Names of waiting tasks in an order; ``served``: service of owners so far. For models without a database."""
    return sorted(
        tasks,
        key=lambda name: (
            served.get(tasks[name].owner, 0.0) if order.by_owner else 0.0,
            order.key(tasks[name]),
            tasks[name].arrival_ps,
        ),
    )


# The distribution of switch slots: whole trees for the tasks that gain most from them, rings for the others.


@dataclass(frozen=True)
class Contender:
    """A task that could have a tree.

    Attributes
    ----------
    name : str
        Unique; breaks ties.
    trees : tuple of tuples of str
        Equally good trees; for each tree the switches in which it needs slots.
    tree_s, ring_s : float
        Seconds of an iteration through the tree, and without it.
    workers : int
        Number of hosts that it keeps busy.
    ranges : int
        Number of ranges, in the unit of :func:`whole_trees`, that it needs in each switch of a tree.
    keeps : bool
        Whether it keeps its first tree regardless of the value, because it has or will have it and cannot change now.
    """

    name: str
    trees: tuple[tuple[str, ...], ...]
    tree_s: float
    ring_s: float
    workers: int = 1
    ranges: int = 1
    keeps: bool = False

    @property
    def value(self) -> float:
        """Worker-seconds that a second of its tree saves.

        The value is not divided by the slots of the tree, since that gave longer completion times in the flow model.
        """
        return (self.ring_s / self.tree_s - 1.0) * self.workers


def whole_trees(contenders: Sequence[Contender], ranges: Mapping[str, int]) -> dict[str, int]:
    """Distribute whole trees: returns the index of the chosen tree for each task that gets one.

    In a part of a tree, switches without slots forward all copies, which is more traffic than in a ring. In the order
    of their values, tasks take the slots of a tree if all are free; a task that gains nothing gets none. This is a
    greedy solution of a multidimensional knapsack problem, computed again at every arrival and end.

    Parameters
    ----------
    contenders : sequence of Contender
        All tasks, including those that have slots now.
    ranges : mapping
        Ranges of slots by switch; other switches have plenty.
    """
    names = [contender.name for contender in contenders]
    if len(set(names)) != len(names):
        raise PlanError("slots: contenders have the same name")
    left, chosen = dict(ranges), dict[str, int]()
    for contender in sorted(contenders, key=lambda contender: (not contender.keeps, -contender.value, contender.name)):
        able = [
            place
            for place, tree in enumerate(contender.trees)
            if all(left.get(switch, contender.ranges) >= contender.ranges for switch in tree)
        ]
        if contender.keeps and contender.trees:
            able = [0]
        if (contender.value > 0 or contender.keeps) and able:
            # the tree whose scarcest switch has most left
            best = max(
                able,
                key=lambda place: (min((left.get(at, 1 << 30) for at in contender.trees[place]), default=0), -place),
            )
            chosen[contender.name] = best
            for switch in contender.trees[best]:
                if switch in left:
                    left[switch] -= contender.ranges
    return chosen


# Shares of racks by a dynamic programme over racks and workers, as in NetPack.


_CROSSING = 1.0
"""cost of an additional rack, in whole models on an idle uplink"""


def cheapest_shares(cluster: ClusterView, task: Task, room: Mapping[str, Sequence[str]]) -> dict[str, int] | None:
    """The cheapest numbers of workers in each rack; None when the racks have too few hosts.

    best[w] is the least cost of w workers in the racks so far, and each rack adds cost(rack, w): its upward traffic
    takes copies / residual of its best uplink, with 1 copy if its switch aggregates, else w. A rack with all workers
    sends nothing up if its switch aggregates. Shards that a share must read from other hosts cost their time on the
    rack's best uplink, spread over the rounds. Time: racks * workers * hosts of a rack. After Li et al., 'NetPack',
    ASPLOS 2024, whose dynamic programme also chooses parameter servers, and ignores the reading of data.
    """
    count, capacity = asked(task).count, cluster.capacity_bps
    bits = 32.0 * task.elements
    held = Counter(asked(task).shards)
    each = sum(held.values()) / count
    shard_bits = 8.0 * asked(task).shard_bytes / task.rounds
    best: list[float] = [0.0] + [inf] * count
    taken: list[list[int]] = []
    for switch, hosts in room.items():
        uplinks = cluster.racks.uplinks[switch]
        seconds = min((bits / capacity[link] * cluster.crowd(link) for link in uplinks), default=inf)
        alone = bits / cluster.racks.rate_bps[cluster.racks.uplink(hosts[0])]
        able = switch in cluster.able
        local = list(accumulate(sorted((held[host] for host in hosts), reverse=True), initial=0))
        read_s = shard_bits * max(seconds / bits, alone / bits)
        now, row = list(best), [0] * (count + 1)
        for total in range(1, count + 1):
            for own in range(1, min(total, len(hosts)) + 1):
                copies = 1 if able else own
                inside = own == count and able
                crossing = 0.0 if inside else max(alone * _CROSSING, copies * seconds)
                left_over = (len(hosts) - own) * alone * 1e-3  # best fit among equals
                reading = max(0.0, own * each - local[own]) * read_s
                cost = best[total - own] + crossing + reading + left_over
                if cost < now[total]:
                    now[total], row[total] = cost, own
        best = now
        taken.append(row)
    if best[count] == inf:
        return None
    share: dict[str, int] = {}
    for switch, row in zip(reversed(list(room)), reversed(taken), strict=True):
        if row[count]:
            share[switch] = row[count]
            count -= row[count]
    return share


# Placement policies: plug-ins that choose the hosts of a task.


@dataclass(frozen=True)
class Placement:
    """The hosts of a task in rank order, the host of its global model, and the reasons."""

    workers: tuple[str, ...]
    server: str
    why: Mapping[str, Any] = field(default_factory=dict)

    def of(self, task: Task) -> Task:
        """The task with these hosts."""
        return replace(task, workers=self.workers, server=self.server, wanted=None)


class PlacementPolicy(Protocol):
    """Chooses hosts for the local models of a task, in rank order, with reasons.

    Raises :class:`~p4reduce.control_plane.scheduling.view.Rejection` when there is no room now. Must not change the
    cluster. The same task in the same cluster gives the same hosts.
    """

    def __call__(self, task: Task, cluster: ClusterView) -> tuple[Sequence[str], Mapping[str, Any]]:
        """Return the hosts and the reasons."""


PLACEMENTS: Registry[PlacementPolicy] = Registry("placement", PlanError)
"""Every known policy by name; :func:`register_placement` and entry points of ``p4reduce.placements`` add to it."""

_P = TypeVar("_P", bound=Callable[..., Any])


def register_placement(name: str) -> Callable[[_P], _P]:
    """Decorator that registers a placement policy under ``name``."""

    def add(policy: _P) -> _P:
        PLACEMENTS.add(name, policy)
        return policy

    return add


def placement_named(name: str) -> PlacementPolicy:
    """The policy with this name; `PlanError` lists the known names."""
    return PLACEMENTS.named(name)


def place(task: Task, cluster: ClusterView, policy: str | PlacementPolicy) -> Placement:
    """Choose hosts for a task by a policy, and check the policy's answer.

    Raises
    ------
    PlanError
        There is no room now, or the policy answered with hosts that the task cannot have.
    """
    room = {host for hosts in cluster.check(task).values() for host in hosts}
    chosen = placement_named(policy) if isinstance(policy, str) else policy
    workers, why = chosen(task, cluster)
    assert task.wanted is not None  # checked by the cluster  # noqa: S101
    if len(workers) != task.wanted.count or len(set(workers)) != len(workers) or not set(workers) <= room:
        raise PlanError(f"task {task.name}: placement {policy!r} answered with hosts that it cannot have")
    server = "" if cluster.rings else server_for(cluster, task, workers)
    racks: dict[str, int] = {}
    for host in workers:
        racks[cluster.racks.of[host]] = racks.get(cluster.racks.of[host], 0) + 1
    return Placement(tuple(workers), server, {"workers": list(workers), "server": server, "racks": racks, **why})


# Possible shares of racks for a task, and the choice of hosts within racks.


Room = Mapping[str, Sequence[str]]
Share = dict[str, int]
"""number of hosts of each rack, by switch"""

SAME_SPEED: Final = 0.05
"""largest relative difference of slowdowns between hosts of equal speed"""
MOST: Final = 32
"""largest number of candidates that are compared"""


def shards_by_rack(task: Task, room: Room) -> dict[str, int]:
    """Number of shards of a task's data at hosts with room for it, by rack."""
    held = Counter(asked(task).shards)
    return {switch: sum(held[host] for host in hosts) for switch, hosts in room.items()}


def with_data(task: Task, hosts: Sequence[str], count: int) -> list[str]:
    """``count`` of some hosts, in their order: the hosts with most of a task's shards, then the first hosts."""
    held = Counter(asked(task).shards)
    ranked = sorted(range(len(hosts)), key=lambda place: (-held[hosts[place]], place))
    return [hosts[place] for place in sorted(ranked[:count])]


def packed_share(cluster: ClusterView, task: Task, room: Room, allowed: Iterable[str] | None = None) -> Share | None:
    """The share with the fewest racks; among equals, the racks with most of its shards, then the best fit.

    The best fit is the smallest rack that is large enough, else the largest and racks near it. ``allowed``: only these
    racks. Returns None if they have too few hosts.
    """
    count, data = asked(task).count, shards_by_rack(task, room)
    left = {switch: len(room[switch]) for switch in (room if allowed is None else allowed) if switch in room}
    if sum(left.values()) < count:
        return None
    share: Share = {}
    near = dict.fromkeys(left, 0)  # links to the farthest rack of the share
    while count:
        fits = [switch for switch, hosts in left.items() if hosts >= count]
        nearest = min(near.values())
        close = [switch for switch in fits if near[switch] == nearest]
        if close:
            chosen = min(close, key=lambda switch: (-data[switch], left[switch], switch))
        else:
            among = [switch for switch in left if near[switch] == nearest]
            among = _of_the_fewest(left, count, among) or among
            chosen = min(among, key=lambda switch: (-data[switch], -left[switch], switch))
        share[chosen] = min(count, left.pop(chosen))
        count -= share[chosen]
        near = {switch: max(near[switch], cluster.racks.distance(switch, chosen)) for switch in left}
    return share


def _of_the_fewest(left: Mapping[str, int], count: int, among: Sequence[str]) -> list[str]:
    """The largest of some racks, and the racks that can replace it without more racks in total.

    ``left``: hosts of all racks, each fewer than ``count``; together they have enough.
    """
    sizes = sorted(left.values(), reverse=True)
    needed = next(number for number, total in enumerate(accumulate(sizes), 1) if total >= count)
    largest = max(left[switch] for switch in among)

    def most_with(switch: str) -> int:
        """Number of hosts in ``needed`` racks: the rack ``switch`` and the largest other racks."""
        others = sum(sizes[: needed - 1]) if left[switch] < sizes[needed - 1] else sum(sizes[:needed]) - left[switch]
        return left[switch] + others

    return [switch for switch in among if left[switch] == largest or most_with(switch) >= count]


def filled_share(room: Room, count: int, order: Sequence[str]) -> Share:
    """Fill rack after rack in this order."""
    share: Share = {}
    for switch in order:
        taken = min(count, len(room[switch]))
        if taken:
            share[switch] = taken
            count -= taken
    return share


def _quickest(cluster: ClusterView, room: Room, count: int) -> dict[str, list[str]] | None:
    """The room without hosts slower than the last of the ``count`` fastest; None if no host is slower."""
    factors = sorted(cluster.slowdown.get(host, 1.0) for hosts in room.values() for host in hosts)
    most = factors[count - 1] * (1 + SAME_SPEED)
    if factors[-1] <= most:
        return None
    left = {
        switch: [host for host in hosts if cluster.slowdown.get(host, 1.0) <= most] for switch, hosts in room.items()
    }
    return {switch: hosts for switch, hosts in left.items() if hosts}


def hosts_of(cluster: ClusterView, task: Task, room: Room, share: Share) -> list[str]:
    """The hosts of a share, in the order of racks: in each rack the fastest, then the hosts with most shards."""
    held = Counter(asked(task).shards)
    hosts: list[str] = []
    for switch in sorted(share, key=list(room).index):
        ranked = sorted(
            range(len(room[switch])),
            key=lambda place: (cluster.slowdown.get(room[switch][place], 1.0), -held[room[switch][place]], place),
        )
        hosts += [room[switch][place] for place in sorted(ranked[: share[switch]])]
    return hosts


def shares(cluster: ClusterView, task: Task, room: Room) -> list[Share]:
    """Different shares of racks for a task, the packed one first; at most `MOST`."""
    count = asked(task).count
    capacity = cluster.capacity_bps
    up = {switch: sum(capacity[link] for link in cluster.racks.uplinks[switch]) for switch in room}
    at_home = shards_by_rack(task, room)
    slow = {
        switch: sorted(cluster.slowdown.get(host, 1.0) for host in room[switch])[min(count, len(room[switch])) - 1]
        for switch in room
    }
    able = cluster.able
    users = {switch: sum(cluster.crowd(link) for link in cluster.racks.uplinks[switch]) for switch in room}
    orders: list[Callable[[str], tuple[object, ...]]] = [
        lambda switch: (-up[switch], -len(room[switch]), switch),
        lambda switch: (switch not in able, -len(room[switch]), switch),
        lambda switch: (switch not in able, -up[switch], -len(room[switch]), switch),
        lambda switch: (users[switch], -len(room[switch]), switch),
        lambda switch: (-at_home[switch], -len(room[switch]), switch),
        lambda switch: (slow[switch], -len(room[switch]), switch),
    ]
    candidates: list[Share | None] = [packed_share(cluster, task, room)]
    candidates += [
        {switch: count} for switch in sorted(room, key=lambda name: len(room[name])) if len(room[switch]) >= count
    ]
    for key in orders:
        order = sorted(room, key=key)
        candidates.append(filled_share(room, count, order))
        for racks in range(1, len(order)):  # the best fit among the first racks that suffice
            if sum(len(room[switch]) for switch in order[:racks]) >= count:
                candidates += [packed_share(cluster, task, room, order[:more]) for more in (racks, racks + 1)]
                break
    candidates.append(cheapest_shares(cluster, task, room))
    quick = _quickest(cluster, room, count)
    if quick is not None:
        candidates.append(packed_share(cluster, task, quick))
    unique: dict[tuple[tuple[str, int], ...], Share] = {}
    for share in candidates:
        if share is not None:
            unique.setdefault(tuple(sorted(share.items())), share)
    return list(unique.values())[:MOST]


# `first-fit`: the first hosts with room, in the order of the topology.


@register_placement("first-fit")
def first_fit(task: Task, cluster: ClusterView) -> tuple[Sequence[str], Mapping[str, Any]]:
    """Fills rack after rack, racks with most of its shards first; in the last rack, prefers hosts with shards."""
    room = cluster.check(task)
    data = shards_by_rack(task, room)
    share = filled_share(room, asked(task).count, sorted(room, key=lambda switch: -data[switch]))
    return [host for switch, hosts in room.items() for host in with_data(task, hosts, share.get(switch, 0))], {}


# `random`: any hosts with room, drawn for every task.


@register_placement("random")
def random_hosts(task: Task, cluster: ClusterView) -> tuple[Sequence[str], Mapping[str, Any]]:
    """Hosts with shards first, others at random; the generator depends on the task, not on other choices."""
    hosts = [host for rack in cluster.check(task).values() for host in rack]
    random = np.random.Generator(np.random.Philox(key=[cluster.seed, crc32(task.name.encode())]))
    held, count = Counter(asked(task).shards), asked(task).count
    if held:
        drawn = random.permutation(len(hosts))
        chosen = sorted(drawn, key=lambda place: -held[hosts[place]])[:count]
    else:
        chosen = list(random.choice(len(hosts), count, replace=False))
    return [hosts[place] for place in sorted(chosen)], {"seed": cluster.seed}


# `spread`: as many racks as possible, evenly: a failing rack costs each task least.


@register_placement("spread")
def spread(task: Task, cluster: ClusterView) -> tuple[Sequence[str], Mapping[str, Any]]:
    """In each step, a host of the rack with fewest hosts of the task, then with most shards, then with most room."""
    room = cluster.check(task)
    taken = dict.fromkeys(room, 0)
    held = Counter(asked(task).shards)
    data = {switch: sorted((held[host] for host in hosts), reverse=True) for switch, hosts in room.items()}
    for _ in range(asked(task).count):
        able = [switch for switch in room if taken[switch] < len(room[switch])]
        taken[min(able, key=lambda at: (taken[at], -data[at][taken[at]], taken[at] - len(room[at]), at))] += 1
    return [host for switch, hosts in room.items() for host in with_data(task, hosts, taken[switch])], {}


# `netpack`: shares of racks by a dynamic programme that minimizes the traffic from racks to upper switches.


@register_placement("netpack")
def netpack(task: Task, cluster: ClusterView) -> tuple[Sequence[str], Mapping[str, Any]]:
    """The shares of :func:`cheapest_shares`."""
    room = cluster.check(task)
    share = cheapest_shares(cluster, task, room)
    if share is None:
        raise Rejection(f"task {task.name}: too few hosts")
    return hosts_of(cluster, task, room, share), {}


# `packed`: the fewest racks, the best fit among them; considers only distances and the location of data.


@register_placement("packed")
def packed(task: Task, cluster: ClusterView) -> tuple[Sequence[str], Mapping[str, Any]]:
    """Hosts of the packed share: in each rack hosts with its shards, then the first in the topology, at any speed."""
    room = cluster.check(task)
    share = packed_share(cluster, task, room)
    if share is None:
        raise Rejection(f"task {task.name}: too few hosts")
    return [host for switch, hosts in room.items() for host in with_data(task, hosts, share.get(switch, 0))], {}


# `cassini`: near hosts whose links are shared with tasks of compatible phases.


@register_placement("cassini")
def cassini(task: Task, cluster: ClusterView) -> tuple[Sequence[str], Mapping[str, Any]]:
    """The share with the highest compatibility; among equals the fewest racks, the least reading, then the packed one.

    A link is compatible with its tasks if their times on it fit one after the other into a period: 1 - max(0, sum of
    comm / period - 1), the score of the best rotation for commensurable periods. The worst link counts. Rajasekaran et
    al., 'CASSINI', NSDI 2024.
    """
    room = cluster.check(task)
    options = shares(cluster, task, room)
    scores, read_s = [], []
    for share in options:
        hosts = hosts_of(cluster, task, room, share)
        server = "" if cluster.rings else server_for(cluster, task, hosts)
        scores.append(_compatibility(cluster, cluster.load(task, hosts, server)))
        read_s.append(cluster.read_seconds(asked(task), hosts))
    best = min(
        range(len(options)), key=lambda place: (-round(scores[place], 3), len(options[place]), read_s[place], place)
    )
    why = {"candidates": len(options), "compatibility": scores[best], "packed_compatibility": scores[0]}
    return hosts_of(cluster, task, room, options[best]), why


def _compatibility(cluster: ClusterView, load: IterationLoad) -> float:
    worst = 1.0
    for link in load.bits:
        jobs = [job for job in (*cluster.running.values(), load) if link in job.bits]
        busy = sum(_share(cluster, job, link) for job in jobs)
        worst = min(worst, 1.0 - max(0.0, busy - 1.0))
    return worst


def _share(cluster: ClusterView, load: IterationLoad, link: int) -> float:
    """Share of a task's period, if it were alone, in which it uses a link."""
    longest = max(bits / cluster.capacity_bps[other] for other, bits in load.bits.items())
    return float(load.bits[link] / cluster.capacity_bps[link] / (load.compute_s + longest))


LOOKED_AHEAD = 4
"""largest number of other tasks' ends that are considered for waiting"""
WORTH_WAITING = 0.7
"""share of the present cost below which waiting pays; below 1, since other tasks may take the freed hosts"""
EQUAL = 0.005
"""relative difference of predicted costs that counts as equal: the prediction is not more accurate"""


@register_placement("ina-aware")
def ina_aware(task: Task, cluster: ClusterView) -> tuple[Sequence[str], Mapping[str, Any]]:
    """Compares candidates by the time until the task ends, plus the time that other tasks lose until they end.

    The prediction covers iteration times with the switches' free slots, the rates that background traffic leaves,
    running tasks, slow hosts, and the reading of remote shards. Among equal candidates, the share is taken that leaves
    the better racks to other tasks, then the share that leaves the fewest hosts in racks taken in part, then the share
    with the fewest racks, then the packed share.
    """
    room = cluster.check(task)
    options = shares(cluster, task, room)
    costs = [cost_of(task, cluster, hosts_of(cluster, task, room, share)) for share in options]
    _wait(task, cluster, min(total for total, _ in costs))
    least = min(total for total, _ in costs)
    best = min(
        (place for place, (total, _) in enumerate(costs) if total <= least * (1 + EQUAL)),
        key=lambda place: (worth(cluster, options[place]), broken(room, options[place]), len(options[place]), place),
    )
    why = {"candidates": len(options), "cost_s": costs[best][0], "packed_cost_s": costs[0][0], **costs[best][1]}
    return hosts_of(cluster, task, room, options[best]), why


def _wait(task: Task, cluster: ClusterView, now_s: float) -> None:
    """Raise `Rejection` if the task would end much sooner by waiting for one of the next ends of other tasks."""
    if now_s * WORTH_WAITING <= _least_s(task, cluster):
        return
    gone: list[str] = []
    for end_s, name in cluster.ends()[:LOOKED_AHEAD]:
        gone.append(name)
        if end_s >= now_s * WORTH_WAITING:
            return
        later = cluster.without(gone)
        room = later.room(task.slots)
        costs = (cost_of(task, later, hosts_of(later, task, room, share))[0] for share in shares(later, task, room))
        cost_s = min(costs)
        if end_s + cost_s < now_s * WORTH_WAITING:
            raise Rejection(
                f"task {task.name}: it waits for {name}: on its hosts it is predicted to end in "
                f"{end_s + cost_s:.3g} s, now in {now_s:.3g} s"
            )


def _least_s(task: Task, cluster: ClusterView) -> float:
    """Lower bound in seconds at any hosts: computing at the fastest or a standard host, sending on the fastest link."""
    sending = 32.0 * task.elements / float(cluster.racks.rate_bps.max())
    return task.rounds * (task.training_ps / PS_PER_S * min(1.0, *cluster.slowdown.values(), 1.0) + sending)


def cost_of(task: Task, cluster: ClusterView, hosts: Sequence[str]) -> tuple[float, dict[str, Any]]:
    """Predicted seconds until the task ends at these hosts, including other tasks' losses; and the components."""
    server = "" if cluster.rings else server_for(cluster, task, hosts)
    iteration, others = cluster.seconds(cluster.load(task, hosts, server))
    reading = cluster.read_seconds(asked(task), hosts)
    total = task.rounds * iteration + reading + max(others, 0.0)
    return max(total, 1 / PS_PER_S), {"iteration_s": iteration, "others_s": others, "reading_s": reading}


def worth(cluster: ClusterView, share: Share) -> float:
    """Value of the hosts to other tasks: highest for racks that aggregate and have free uplinks."""
    return round(sum(own * rack_worth(cluster, switch) for switch, own in share.items()) / sum(share.values()), 2)


def rack_worth(cluster: ClusterView, switch: str) -> float:
    """0 to 2: whether the switch of a rack aggregates, plus the share of its uplinks that background traffic leaves."""
    links = cluster.racks.uplinks[switch]
    left = (
        sum(cluster.capacity_bps[link] for link in links) / sum(cluster.racks.rate_bps[link] for link in links)
        if links
        else 1.0
    )
    return float(left) + (switch in cluster.racks.capable)


def broken(room: Mapping[str, Sequence[str]], share: Share) -> int:
    """Number of hosts left in racks that the task takes in part; large tasks will lack them."""
    return sum(len(room[switch]) - own for switch, own in share.items())
