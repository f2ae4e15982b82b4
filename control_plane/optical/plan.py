"""The result of a grooming policy: lightpaths, their use by each task, and the cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from p4reduce.base.errors import BadInput
from p4reduce.control_plane.plans import TreeLayout
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies.wdm import SURFACING_PS, Wdm
from p4switch.base.values import PS_PER_S

BYTES: Final = 4
"""bytes of an element of a model"""


class OpticalError(BadInput, ValueError):
    """An impossible request to the optical layer; the message names the field and the fix."""


@dataclass(frozen=True)
class Lightpath:
    """The same spectrum on every fibre of a path of nodes, in both directions."""

    path: tuple[str, ...]
    first: int
    """wavelength, or first slice of a flexible grid, from 0"""
    count: int = 1
    """number of slices"""

    @property
    def hops(self) -> int:
        """Number of fibres."""
        return len(self.path) - 1


@dataclass(frozen=True)
class Use:
    """Slots of a lightpath that one edge of a tree, or one flow, uses."""

    lightpath: int
    slots: tuple[int, ...]
    worker: str = ""
    """worker of the flow; '' for an edge of a tree"""


@dataclass(frozen=True)
class GroomingPlan:
    """Lightpaths for tasks.

    Attributes
    ----------
    uses : tuple of tuple of Use
        Uses of each task; () for a blocked task.
    admitted : tuple of bool
        Whether each task is admitted; a task is admitted as a whole, or blocked.
    trees : bool
        Whether a task's uses are the edges of one tree whose routers aggregate; else they are flows, in their
        order from the worker to the global model.
    bound : float
        Lower bound of :attr:`cost`; 0: unknown.
    """

    network: Wdm
    policy: str
    tasks: tuple[Task, ...]
    lightpaths: tuple[Lightpath, ...]
    uses: tuple[tuple[Use, ...], ...]
    admitted: tuple[bool, ...]
    trees: bool
    bound: float = 0.0

    @property
    def blocked(self) -> int:
        """Number of blocked tasks."""
        return self.admitted.count(False)

    @property
    def transponders(self) -> int:
        """Number of transponders of all nodes."""
        return 2 * len(self.lightpaths)

    @property
    def fibre_copies(self) -> int:
        """Number of fibres that copies of a model cross in one direction, for all tasks."""
        return sum(self.lightpaths[use.lightpath].hops for own in self.uses for use in own)

    @property
    def cost(self) -> float:
        """Cost of the lightpaths: 10 for a transponder, 1 for a wavelength on a fibre."""
        return sum(20.0 + lightpath.hops for lightpath in self.lightpaths)

    @cached_property
    def _at(self) -> Counter[str]:
        return Counter(end for lightpath in self.lightpaths for end in (lightpath.path[0], lightpath.path[-1]))

    def edges(self, task: int) -> list[tuple[str, str, int]]:
        """Return the edges of a task's tree: (child, parent, lightpath), parents first."""
        beside: dict[str, list[tuple[str, int]]] = {}
        for use in self.uses[task]:
            path = self.lightpaths[use.lightpath].path
            beside.setdefault(path[0], []).append((path[-1], use.lightpath))
            beside.setdefault(path[-1], []).append((path[0], use.lightpath))
        root = self.network.home[self.tasks[task].server]
        edges: list[tuple[str, str, int]] = []
        seen, open_ = {root}, [root]
        for node in open_:
            for other, number in beside.get(node, ()):
                if other not in seen:
                    seen.add(other)
                    open_.append(other)
                    edges.append((other, node, number))
        return edges

    def layout(self, task: int) -> TreeLayout:
        """Return a task's tree; routers with workers and routers where branches meet aggregate, others forward."""
        own_task, home = self.tasks[task], self.network.home
        above = {child: parent for child, parent, _ in self.edges(task)}
        below = Counter(above.values()) + Counter(home[worker] for worker in own_task.workers)
        root = home[own_task.server]
        joints = {root} | {node for node, count in below.items() if count > 1}
        joints |= {home[worker] for worker in own_task.workers if home[worker] != root}
        parent: dict[str, str] = {worker: home[worker] for worker in own_task.workers}
        full: dict[tuple[str, str], tuple[str, ...]] = {
            pair: pair for pair in [*parent.items(), (root, own_task.server)]
        }
        for node in joints - {root}:
            path = [node, above[node]]
            while path[-1] not in joints:
                path.append(above[path[-1]])
            parent[node] = path[-1]
            full[node, path[-1]] = tuple(path)
        return TreeLayout(root, parent, paths=full)

    def depths_ps(self, task: int) -> dict[str, int]:
        """Return the propagation in ps to the server from each router of a task's tree, or from each worker's flow."""
        numbers = [self._delay_ps(lightpath) for lightpath in self.lightpaths]
        if not self.trees:
            flows = dict.fromkeys(self.tasks[task].workers, 0)
            for use in self.uses[task]:
                flows[use.worker] += numbers[use.lightpath]
            return flows
        depths = {self.network.home[self.tasks[task].server]: 0}
        for child, parent, number in self.edges(task):
            depths[child] = depths[parent] + numbers[number]
        return depths

    def latency_ps(self, task: int, *, bytes_: int | None = None) -> int:
        """Return the time in ps of the longest path there and back, and of the model's transmission.

        A tree sends one copy at the rate of its slots, flows send a copy for each worker at the access rate. A fibre
        takes 4.9 us for a kilometre, a lightpath 2 us beyond its fibres. ``bytes_``: size of the model as sent.
        """
        own_task = self.tasks[task]
        size = BYTES * own_task.elements if bytes_ is None else bytes_
        access = min(self.network.base.link_at(host, 1).rate_bps for host in (own_task.server, *own_task.workers))
        if self.trees:
            rate = min(access, slots_of(own_task, self.network) * self.network.rate_bps // self.network.slots)
            copies = 1
        else:
            rate, copies = access, len(own_task.workers)
        return 2 * max(self.depths_ps(task).values()) + copies * size * 8 * PS_PER_S // rate

    def _delay_ps(self, lightpath: Lightpath) -> int:
        return self.network.delay_ps(lightpath.path) + SURFACING_PS

    def metrics(self) -> dict[str, float]:
        """Return figures for tables; bytes and times are means over admitted tasks, 0 if there are none."""
        network = self.network
        done = [place for place, yes in enumerate(self.admitted) if yes]
        sizes = [2 * BYTES * task.elements for task in self.tasks]
        slots = sum(len(use.slots) for own in self.uses for use in own)

        def mean(values: Sequence[float]) -> float:
            return sum(values) / len(values) if values else 0.0

        return {
            "tasks": len(self.tasks),
            "blocked": self.blocked,
            "lightpaths": len(self.lightpaths),
            "transponders": self.transponders,
            "most_at_a_node": max(self._at.values(), default=0),
            "wavelengths": len(
                {
                    place
                    for lightpath in self.lightpaths
                    for place in range(lightpath.first, lightpath.first + lightpath.count)
                }
            ),
            "wavelength_links": sum(lightpath.hops * lightpath.count for lightpath in self.lightpaths),
            "bypassed": mean([float(lightpath.hops > 1) for lightpath in self.lightpaths]),
            "fill": slots / (network.slots * len(self.lightpaths)) if self.lightpaths else 0.0,
            "fibre_bytes": mean(
                [sizes[t] * sum(self.lightpaths[use.lightpath].hops for use in self.uses[t]) for t in done]
            ),
            "router_bytes": mean([sizes[t] * len(self.uses[t]) for t in done]),
            "latency_ms": mean([self.latency_ps(t) / 1e9 for t in done]),
            "cost": self.cost,
            "bound": self.bound,
        }

    def as_data(self) -> dict[str, Any]:
        """Return complete plain data, sufficient to check the plan."""
        network = self.network
        return {
            "policy": self.policy,
            "network": {
                "name": network.base.name,
                "wavelengths": network.wavelengths,
                "slots": network.slots,
                "rate_bps": network.rate_bps,
                "transponders": network.transponders,
                "fibres": [[fibre.a, fibre.b, round(network.km((fibre.a, fibre.b)), 3)] for fibre in network.fibres],
                "hosts": dict(network.home),
            },
            "trees": self.trees,
            "metrics": self.metrics(),
            "lightpaths": [
                {"path": list(lightpath.path), "first": lightpath.first, "count": lightpath.count}
                for lightpath in self.lightpaths
            ],
            "tasks": [
                {
                    "name": task.name,
                    "server": task.server,
                    "workers": list(task.workers),
                    "demand_bps": task.demand_bps,
                    "admitted": yes,
                    "latency_ms": self.latency_ps(place) / 1e9 if yes else None,
                    "uses": [
                        {"lightpath": use.lightpath, "slots": list(use.slots)}
                        | ({"worker": use.worker} if use.worker else {})
                        for use in own
                    ],
                }
                for place, (task, own, yes) in enumerate(zip(self.tasks, self.uses, self.admitted, strict=True))
            ],
        }


def slots_of(task: Task, network: Wdm) -> int:
    """Return d, the slots that one copy of a task's model takes of a lightpath, at least one."""
    return max(1, -(-task.demand_bps * network.slots // network.rate_bps))


def check_tasks(tasks: Sequence[Task], network: Wdm) -> None:
    """Raise `OpticalError` for a task that is impossible in this network."""
    homes: Mapping[str, str] = network.home
    for task in tasks:
        if task.wanted is not None or task.select is not None:
            raise OpticalError(f"task {task.name}: workers: name the hosts; grooming chooses none")
        if unknown := [host for host in (task.server, *task.workers) if host not in homes]:
            raise OpticalError(f"task {task.name}: {unknown[0]} is no host of {network.base.name}")
        if slots_of(task, network) > network.slots:
            raise OpticalError(
                f"task {task.name}: demand: {task.demand_bps} bit/s is more than a lightpath has "
                f"({network.rate_bps}); give less, or a higher rate"
            )
