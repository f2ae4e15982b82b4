"""A task in a network as a planner sees it: weights by direction, links with too little left closed."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.graph import Ints, SwitchGraph, switch_graph
from p4reduce.control_plane.plans.problem import Problem
from p4reduce.control_plane.plans.routes import Routes
from p4reduce.control_plane.scheduling.policy import Rejection
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.weights import Weights
from p4reduce.topologies import format_rate

Direction = Literal["upload", "broadcast"]
LEAST_SLOTS = 2
"""slots without which a switch cannot take part in any job"""


@dataclass(frozen=True)
class View:
    """What one decision is made from; reads the state once.

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
        """The task without its network's state; checks the hosts."""
        return Problem(self.state.topology, self.task.workers, self.task.server, self.lanes)

    @cached_property
    def graph(self) -> SwitchGraph:
        """The switches."""
        return switch_graph(self.state.topology)

    @cached_property
    def residual_bps(self) -> Ints:
        """What every arc has left, int64 (m,)."""
        graph, state = self.graph, self.state
        left = graph.rate_bps - graph.by_arc(state.background_bps) - graph.by_arc(state.reserved_bps)
        closed = [graph.arcs[hop] for hop in state.down if hop in graph.arcs]
        left[closed] = 0
        left[graph.reverse[closed]] = 0
        return np.asarray(np.maximum(left, 0), np.int64)

    @cached_property
    def rate_bps(self) -> int:
        """b of the weights: the demand; of a task that reserves nothing, the rate of its slowest host."""
        hosts = (self.task.server, *self.task.workers)
        return self.task.demand_bps or min(self.state.topology.link_at(host, 1).rate_bps for host in hosts)

    def words(self, weights: Weights) -> Ints:
        """The poster's weights of all arcs in the direction of frames, int64 (m, 3)."""
        return weights.words(self.graph, self.residual_bps, self.rate_bps, self.task.demand_bps)

    def check_hosts(self, copies: int = 1) -> None:
        """Raise `Rejection` when a host's link has too little left; the server's carries so many copies."""
        topology = self.state.topology
        for host in (self.task.server, *self.task.workers):
            switch = topology.neighbours(host)[0]
            needed = max(1, self.task.demand_bps * (copies if host == self.task.server else 1))
            for a, b in ((host, switch), (switch, host)):
                self.check_link(a, b, needed)

    def check_link(self, a: str, b: str, needed_bps: int) -> None:
        """Raise `Rejection` when a directed link has less left than needed."""
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
    """A problem whose paths cost what ``words`` say and whose switches have slots left.

    Paths lead from workers to the server. A broadcast is planned as the upload of a network with all links turned
    round, so that the weight of a path is that of the links which the weights then take.

    Attributes
    ----------
    words : int64 (m, 3)
        Weights of arcs in the direction from the workers to the server.
    turned : bool
        Whether the frames go the other way: a broadcast.
    twin : Routes or None
        Paths of the other direction, if they are known.
    left_out : set of str
        Switches that must not aggregate, though they could.
    """

    view: View = field(kw_only=True)
    words: Ints = field(kw_only=True, compare=False)
    turned: bool = field(default=False, kw_only=True)
    twin: Routes | None = field(default=None, kw_only=True, compare=False)
    left_out: frozenset[str] = field(default=frozenset(), kw_only=True)

    @cached_property
    def paths(self) -> Routes:
        """Unique shortest paths under ``words``."""
        return Routes(self.topology, self.view.graph, self.words, self.twin)

    @property
    def spreading(self) -> "Problem":
        """The same: weights know of load already."""
        return self

    @cached_property
    def capable(self) -> tuple[str, ...]:
        """Switches that can aggregate and have slots left."""
        free = self.view.state.slots
        try:
            names = super().capable
        except PlanError as error:
            raise Rejection(f"task {self.view.task.name}: {error}") from None
        if self.left_out:
            names = tuple(name for name in names if name not in self.left_out)
        if not names:
            raise Rejection(
                f"task {self.view.task.name}: switch {min(self.left_out)} has too few slots left, "
                "and no other switch can take its place"
            )
        able = tuple(name for name in names if free.get(name, LEAST_SLOTS) >= LEAST_SLOTS) if free else names
        if not able:
            most = max(names, key=lambda name: free[name])
            raise Rejection(
                f"task {self.view.task.name}: no switch has {LEAST_SLOTS} slots left in one range; "
                f"the most has switch {most}: {free[most]}"
            )
        return able

    @property
    def room(self) -> Ints | None:
        """How many copies of the task's frames fit on every arc, towards the server; None: any number."""
        if not self.view.task.demand_bps:
            return None
        left = self.view.residual_bps // self.view.task.demand_bps
        return left[self.view.graph.reverse] if self.turned else left

    def without(self, switch: str) -> "TaskProblem":
        """The same without an aggregating switch."""
        return replace(self, left_out=self.left_out | {switch})


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
