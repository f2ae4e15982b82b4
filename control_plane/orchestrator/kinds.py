"""The kinds of plans that a task may have: whole trees, or its hosts add up. And how long a round takes with each."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.orchestrator.installer import Installer
from p4reduce.control_plane.placement.predict import FULL
from p4reduce.control_plane.plans.make import window_range
from p4reduce.control_plane.plans.problem import RingLayout, TreeLayout
from p4reduce.control_plane.plans.window import power_of_two
from p4reduce.control_plane.scheduling import Decision, Policy, copies, plan_requests, policy_named
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies.model import Hop

MOST_TREES: Final = 4
"""as good as the best, that are looked for"""


@dataclass(frozen=True)
class Kind:
    """A decision for a task.

    Attributes
    ----------
    decision : Decision
        Its layouts.
    switches : mapping
        Slots that it needs of every switch that adds up, for its links to be busy; empty where hosts do.
    """

    decision: Decision
    switches: Mapping[str, int]

    def seconds(self, state: NetworkState, training_s: float) -> float:
        """Of a round alone on what links have left, by its busiest directed link."""
        task, total = self.decision.task, 0.0
        ways = [copies(task, state.topology, self.decision.upload, "upload")]
        ways += [copies(task, state.topology, self.decision.broadcast, "broadcast")]
        if self.decision.together:
            ways = [Counter(ways[0]) + Counter(ways[1])]
        for way in ways:
            total += max((times / _left(state, hop) for hop, times in way.items()), default=0.0)
        bits = 32.0 * task.elements
        if isinstance(self.decision.upload, RingLayout):
            members = len(self.decision.upload.order)
            bits *= (members - 1) / members
        return training_s + bits * total


@dataclass(frozen=True)
class Kinds:
    """``trees``: whole ones that are as good, the best first; ``hosts``: round a ring, or by paths to the server."""

    trees: tuple[Kind, ...]
    hosts: Kind | None


class KindsOf:
    """The kinds of tasks, each found once as long as its hosts and the links that are down stay the same."""

    def __init__(self, installer: Installer, policy: Policy) -> None:
        self._topology = installer.controller.topology
        self._lanes = installer.controller.program.lanes
        self._slots = installer.controller.resources.slots
        self._policy = policy
        self._known: dict[str, tuple[object, Kinds]] = {}

    def of(self, task: Task, state: NetworkState) -> Kinds:
        """Those of a task in a network, ``state`` without what the task has; `PlanError` when there are none."""
        key = (task.workers, task.server, frozenset(state.down))
        known = self._known.get(task.name)
        if known is None or known[0] != key:
            found = Kinds(self._trees(task, state), self._hosts(task, state))
            if not found.trees and found.hosts is None:
                self._policy(task, replace(state, slots={}), lanes=self._lanes)  # it says what is in the way
                raise PlanError(f"task {task.name}: neither a whole tree nor its hosts' links have room for it")
            known = self._known[task.name] = key, found
        return known[1]

    def forget(self, name: str) -> None:
        """A task has ended."""
        self._known.pop(name, None)

    def _trees(self, task: Task, state: NetworkState) -> tuple[Kind, ...]:
        """Trees in a network whose switches have all their slots, then without the switches between racks of those."""
        if task.aggregation == "hosts":
            return ()
        found: list[Kind] = []
        state = replace(state, slots={}, reserved_slots={})
        without: dict[str, int] = {}
        for _ in range(MOST_TREES):
            try:
                asked = replace(task, aggregation="switches")
                decision = self._policy(asked, replace(state, slots=dict(without)), lanes=self._lanes)
                kind = self._kind(decision)
            except PlanError:
                break
            if not kind.switches or any(slots > self._slots for slots in kind.switches.values()):
                break
            if found and kind.seconds(state, 0.0) > 1.001 * found[0].seconds(state, 0.0):
                break
            found.append(kind)
            hosts = {*task.workers, task.server}
            between = [name for name in kind.switches if not hosts & set(self._topology.neighbours(name))]
            if not between:
                break
            without |= dict.fromkeys(between, 0)
        return tuple(found)

    def _hosts(self, task: Task, state: NetworkState) -> Kind | None:
        """A ring, or paths to the server, whichever takes less time; None where neither has room."""
        found = []
        for name in ("ring", "spff") if task.aggregation != "switches" else ():
            try:
                found.append(Kind(policy_named(name)(task, state, lanes=self._lanes), {}))
            except PlanError:
                continue
        return min(found, key=lambda kind: kind.seconds(state, 0.0), default=None)

    def _kind(self, decision: Decision) -> Kind:
        slots: Counter[str] = Counter()
        for request in plan_requests(replace(decision, max_slots=None), job=0, lanes=self._lanes):
            if isinstance(request.layout, TreeLayout):
                least = power_of_two(2 * window_range(self._topology, request)[0])
                slots.update(dict.fromkeys(request.layout.children, least))
        return Kind(decision, dict(slots))


def _left(state: NetworkState, hop: Hop) -> float:
    rate = state.topology.link_at(*hop).rate_bps
    return max(float(state.residual_bps(hop)), FULL * rate)


def training_s(task: Task, slowdown: Mapping[str, float]) -> float:
    """Seconds that the slowest of a task's hosts trains in a round."""
    return task.training_ps / PS_PER_S * max((slowdown.get(host, 1.0) for host in task.workers), default=1.0)
