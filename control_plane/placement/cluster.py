"""What a placement policy knows: free slots of hosts, how fast they are, links, and the jobs that run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.placement.loads import Load, ring_copies, tree_copies
from p4reduce.control_plane.placement.predict import FULL, iteration_times
from p4reduce.control_plane.placement.racks import Floats, Racks, Way
from p4reduce.control_plane.scheduling.policy import Rejection
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.wanted import Wanted

LEAST_SLOTS = 2
"""of a switch, without which it cannot take part in a job"""


@dataclass(frozen=True)
class Cluster:
    """A cluster at one time. Policies only read it.

    Attributes
    ----------
    racks : Racks
        Hosts and links.
    network : NetworkState
        What is measured and reserved of them.
    slots : mapping
        Slots of hosts, those that are in use among them.
    free : mapping
        Free ones. A host that may take no other model has none.
    slowdown : mapping
        Training time at a host over that at a usual one; 1 where it is not named.
    running : mapping of Load
        By task, what those that run put on links.
    hosts : mapping
        By task, the slots of hosts that those which run take, where that is known.
    serving : mapping
        Global models by host.
    rings : bool
        Whether tasks reduce among themselves: they need no server, and one that no tree suits goes round a ring. Else
        they push to a server and pull from it, and frames pass switches without slots unsummed.
    seed : int
        Of policies that draw.
    """

    racks: Racks
    network: NetworkState
    slots: Mapping[str, int]
    free: Mapping[str, int]
    slowdown: Mapping[str, float] = field(default_factory=dict)
    running: Mapping[str, Load] = field(default_factory=dict)
    hosts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    serving: Mapping[str, int] = field(default_factory=dict)
    rings: bool = False
    seed: int = 0

    @cached_property
    def capacity_bps(self) -> Floats:
        """What every link has left in its worse direction, float64 (links,); never less than `FULL` of its rate."""
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
        """Hosts with so many free slots, by switch, in the order of the topology; racks without any are left out."""
        down = {node for node, _ in self.network.down}
        found: dict[str, list[str]] = {}
        for switch, hosts in self.racks.members.items():
            able = [host for host in hosts if self.free.get(host, 0) >= slots and host not in down]
            if able:
                found[switch] = able
        return found

    def check(self, task: Task) -> dict[str, list[str]]:
        """The same, if there are enough; else a `Rejection` that says what is missing."""
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
        """Why no choice will ever be possible, whoever ends; empty where one may be."""
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

    def load(self, task: Task, hosts: Sequence[str], server: str = "", way: Way | None = None) -> Load:
        """What a task would put on links from these hosts: over the best way, through a tree or, if allowed, a ring.

        The best is that whose busiest link is free soonest, given what the tasks that run take of it.
        """
        bits = 32.0 * task.elements
        compute = task.training_ps / PS_PER_S * max((self.slowdown.get(host, 1.0) for host in hosts), default=1.0)
        racks = {self.racks.of[host] for host in (*hosts, *([server] if server else []))}
        options = []
        trees = self.racks.ways(racks, self.able) if way is None else (way,)
        options += [tree_copies(self.racks, hosts, one, self.able, server) for one in trees if one.root in self.able]
        if self.rings or not options:
            options += [ring_copies(self.racks, hosts, one) for one in self.racks.ways(racks)]
        if not options:
            raise Rejection(f"task {task.name}: no way joins its hosts")
        best = min(options, key=lambda one: self.lasts(one.copies))
        return best.load(bits, compute, float(task.rounds))

    def lasts(self, copies: Mapping[int, float]) -> float:
        """How long the busiest link takes for so many copies, in any unit: for comparing ways of one task."""
        return max((times / self.capacity_bps[link] * self.crowd(link) for link, times in copies.items()), default=0.0)

    def crowd(self, link: int) -> float:
        """How many send on a link at a time, with one more."""
        return 1.0 + self._users.get(link, 0.0)

    @cached_property
    def _before(self) -> dict[tuple[str, ...], Floats]:
        """Iteration times of sets of the tasks that run, without a new one."""
        return {}

    @cached_property
    def _users(self) -> dict[int, float]:
        found: dict[int, float] = {}
        for load in self.running.values():
            longest = max((bits / self.capacity_bps[link] for link, bits in load.bits.items()), default=0.0)
            share = longest / (longest + load.compute_s) if longest else 0.0
            for link in load.bits:
                found[link] = found.get(link, 0.0) + share
        return found

    def seconds(self, load: Load) -> tuple[float, float]:
        """Predicted seconds of an iteration of a new task, and what its coming costs the others until they end."""
        mine = set(load.bits)
        touched = [one for one in self.running.values() if not mine.isdisjoint(one.bits)]
        if not touched:
            return float(iteration_times([load], self.capacity_bps)[0]), 0.0
        near = mine.union(*(one.bits for one in touched))
        names = [name for name, one in self.running.items() if not near.isdisjoint(one.bits)]
        others = [self.running[name] for name in names]
        after = iteration_times([*others, load], self.capacity_bps)
        key = tuple(names)
        if key not in self._before:
            self._before[key] = iteration_times(others, self.capacity_bps)
        before = self._before[key]
        return float(after[-1]), float(
            sum((a - b) * one.rounds for a, b, one in zip(after, before, others, strict=False))
        )

    def ends(self) -> list[tuple[float, str]]:
        """(seconds until it ends, name) of the tasks that run, as predicted now, the soonest first."""
        names = list(self.running)
        if not names:
            return []
        loads = [self.running[name] for name in names]
        times = iteration_times(loads, self.capacity_bps)
        return sorted((float(one.rounds * lasts), name) for one, lasts, name in zip(loads, times, names, strict=True))

    def without(self, names: Iterable[str]) -> "Cluster":
        """The cluster when some tasks have ended."""
        gone = set(names)
        free = dict(self.free)
        for name in gone & set(self.hosts):
            for host, slots in self.hosts[name].items():
                free[host] = min(self.slots.get(host, 0), free.get(host, 0) + slots)
        return replace(self, free=free, running={name: one for name, one in self.running.items() if name not in gone})

    def read_seconds(self, wanted: Wanted, hosts: Sequence[str]) -> float:
        """Seconds until all workers have their shards, which begin at one time and share links evenly."""
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


def asked(task: Task) -> Wanted:
    """What a task wants; ``ValueError`` for one that names its hosts."""
    if task.wanted is None:
        raise ValueError(f"task {task.name} names its hosts")
    return task.wanted


def reads(wanted: Wanted, hosts: Sequence[str]) -> list[tuple[str, str]]:
    """(home, reader) of every shard that is read over the network.

    Shards at a worker's own host are its own; the others are dealt to those that have the fewest.
    """
    if not wanted.shard_bytes:
        return []
    own = dict.fromkeys(hosts, 0)
    for home in wanted.shards:
        if home in own:
            own[home] += 1
    found = []
    for home in wanted.shards:
        if home not in own:
            reader = min(hosts, key=lambda host: (own[host], hosts.index(host)))
            own[reader] += 1
            found.append((home, reader))
    return found


def server_for(cluster: Cluster, task: Task, hosts: Iterable[str]) -> str:
    """A host for the global model, where the task names none: `Rejection` when all are taken.

    One that is kept for servers, if there are such; of these the one with the fewest global models, then near to most
    of the workers, then with the fewest free slots, which nobody else can use.
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
