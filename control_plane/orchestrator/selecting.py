"""Selection of local models: which of a task's workers take part, in the network as it is when the task is admitted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from zlib import crc32

import numpy as np

from p4reduce.base.safe_yaml import one_line
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.orchestrator.computing import ComputingManager
from p4reduce.control_plane.scheduling.choosers import CHOOSERS, Budget
from p4reduce.control_plane.scheduling.consumption import consumed
from p4reduce.control_plane.scheduling.policy import Decision, Policy
from p4reduce.control_plane.scheduling.selection import Selection
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task

_NO_TREE: Final = 1 << 62
"""copies: more than any budget"""


@dataclass(frozen=True)
class Choice:
    """What was chosen: the task with the chosen as its workers, their trees, and why."""

    task: Task
    decision: Decision
    why: dict[str, Any]


@dataclass(frozen=True)
class _Model:
    host: str
    usefulness: float


class Selector:
    """Chooses among the workers of tasks; the same task in the same network gives the same choice."""

    def __init__(self, policy: Policy, computing: ComputingManager, lanes: int) -> None:
        self._policy = policy
        self._computing = computing
        self._lanes = lanes

    def fault(self, task: Task) -> str:
        """Why no choice will ever be possible; empty where one may be. The task's hosts are the topology's."""
        if task.select is not None and task.select.how == "useful":
            known = dict(task.select.utilities)
            for worker in task.workers:
                if worker not in known and self._computing.utility(worker) is None:
                    return (
                        f"select: how useful the data of {worker} are is not known; say so in the task's "
                        "select.utilities, or as utility in the file for --hosts"
                    )
        return ""

    def choose(self, task: Task, select: Selection, state: NetworkState) -> Choice:
        """Choose now.

        The budget is a share of what everyone would cost in an empty network; what candidates cost is that of the
        policy's trees in the network as it is. Hosts that train their most are no candidates.

        Raises
        ------
        PlanError
            Nobody fits now.
        """
        trees = _Trees(self._policy, task, state, self._lanes)
        everyone = trees.of_all_when_empty()
        allowed = everyone if select.budget is None else round(select.budget * everyone)
        full = [] if select.how == "all" else [host for host in task.workers if self._computing.is_full(host)]
        models = [self._model(select, host) for host in task.workers if host not in full]
        # The generator is that of this task alone, so the choice does not depend on what was chosen before.
        random = np.random.Generator(np.random.Philox(key=[select.seed, crc32(task.name.encode())]))
        members = CHOOSERS[select.how](models, Budget(allowed, trees.cost), random)
        chosen = trees.in_order([model.host for model in members])
        left = [host for host in task.workers if host not in chosen]
        if not chosen:
            reasons = "; ".join(self._why_not(trees, [], host, allowed) for host in left[:1])
            raise PlanError(f"select: no local model fits: {left[0]}: {reasons}")
        why: dict[str, Any] = {"how": select.how, "chosen": list(chosen)}
        if select.budget is not None:
            why |= {"budget": select.budget, "copies": trees.cost(chosen), "allowed": allowed}
        why["copies_of_all"] = everyone
        if select.how == "random":
            why["seed"] = select.seed
        if select.how == "useful":
            why["utilities"] = {model.host: model.usefulness for model in models}
        if left:
            why["left_out"] = {host: self._why_not(trees, chosen, host, allowed) for host in left}
        return Choice(replace(task, workers=chosen, select=None), trees.decision(chosen), why)

    def _model(self, select: Selection, host: str) -> _Model:
        utility = dict(select.utilities).get(host)
        return _Model(host, (self._computing.utility(host) or 0.0) if utility is None else utility)

    def _why_not(self, trees: "_Trees", chosen: Sequence[str], host: str, allowed: int) -> str:
        if self._computing.is_full(host):
            return "trains its most already"
        cost = trees.cost([*chosen, host])
        if cost >= _NO_TREE:
            return trees.refusal([*chosen, host])
        return f"{cost} copies, {allowed} are allowed"


class _Trees:
    """The policy's answers for parts of a task's workers, each asked for once."""

    def __init__(self, policy: Policy, task: Task, state: NetworkState, lanes: int) -> None:
        self._policy, self._task, self._state, self._lanes = policy, task, state, lanes
        self._found: dict[tuple[str, ...], tuple[int, Decision | str]] = {}

    def in_order(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """These hosts in the task's order, which is that of ranks."""
        return tuple(worker for worker in self._task.workers if worker in hosts)

    def of_all_when_empty(self) -> int:
        """Copies of a frame on links, up and down, of everyone in a network that nobody uses."""
        task = replace(self._task, select=None, demand_bps=0)
        empty = NetworkState(self._state.topology)
        return consumed(self._policy(task, empty, lanes=self._lanes), self._state.topology)

    def cost(self, hosts: Sequence[str]) -> int:
        """Copies of a frame on links, up and down, in the network as it is; more than any budget without a tree."""
        return self._ask(hosts)[0]

    def decision(self, hosts: Sequence[str]) -> Decision:
        """The trees; `PlanError` where there are none."""
        found = self._ask(hosts)[1]
        if isinstance(found, str):
            raise PlanError(found)
        return found

    def refusal(self, hosts: Sequence[str]) -> str:
        """Why there are no trees."""
        return str(self._ask(hosts)[1])

    def _ask(self, hosts: Sequence[str]) -> tuple[int, Decision | str]:
        workers = self.in_order(hosts)
        if workers not in self._found:
            task = replace(self._task, workers=workers, select=None)
            try:
                decision = self._policy(task, self._state, lanes=self._lanes)
                self._found[workers] = consumed(decision, self._state.topology), decision
            except PlanError as error:
                self._found[workers] = _NO_TREE, one_line(error)
        return self._found[workers]
