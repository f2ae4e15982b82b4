"""A task in a network as a planner sees it: weights by direction, links with too little left closed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.graph import Ints, SwitchGraph, switch_graph
from p4reduce.control_plane.plans.problem import Problem
from p4reduce.control_plane.plans.routes import Routes
from p4reduce.control_plane.scheduling.policy import Rejection
from p4reduce.control_plane.scheduling.state import NetworkState, range_within
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.weights import Weights
from p4reduce.topologies import format_rate
from p4reduce.topologies.model import Hop

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
        return self.task.reserved_bps or min(self.state.topology.link_at(host, 1).rate_bps for host in hosts)

    def words(self, weights: Weights) -> Ints:
        """The poster's weights of all arcs in the direction of frames, int64 (m, 3)."""
        return weights.words(self.graph, self.residual_bps, self.rate_bps, self.task.reserved_bps)

    def check_hosts(self, copies: int = 1) -> None:
        """Raise `Rejection` when a host's link has too little left; the server's carries so many copies."""
        topology = self.state.topology
        for host in (self.task.server, *self.task.workers):
            switch = topology.neighbours(host)[0]
            needed = max(1, self.task.reserved_bps * (copies if host == self.task.server else 1))
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
    both : bool
        Whether the frames go both ways: one tree for upload and broadcast, and weights that are the same both ways.
    taken : mapping
        Copies of the task's frames that its other tree puts on directed links.
    taken_slots : mapping
        Slots that its other tree needs of switches.
    least_slots : int
        What a switch must have left to aggregate.
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
        """The same: weights know of load already."""
        return self

    @cached_property
    def capable(self) -> tuple[str, ...]:
        """Switches that can aggregate and have slots left."""
        try:
            names = super().capable
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
        """How many copies of the task's frames fit on every arc, towards the server; None: any number."""
        if not self.view.task.reserved_bps:
            return None
        graph = self.view.graph
        left = self.view.residual_bps // self.view.task.reserved_bps - graph.by_arc(self.taken)
        return left[graph.reverse] if self.turned else left

    def beside(self, taken: Mapping[Hop, int], slots: Mapping[str, int]) -> "TaskProblem":
        """The same next to the task's other tree: links that this leaves too little are closed."""
        problem = replace(self, taken=taken, taken_slots=slots)
        room = problem.room
        if room is None or not (full := (room < 1) & (self.words[:, 0] >= 0)).any():
            return problem
        words = self.words.copy()
        words[full, 0] = -1
        return replace(problem, words=words, twin=None)

    def both_ways(self) -> "TaskProblem":
        """The problem of one tree for both directions, under the sum of the weights of these."""
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
