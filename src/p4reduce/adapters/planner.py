"""Hosts for jobs of other schedulers, by the placement policies and queue orders of the orchestrator."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.placement import ClusterView, IterationLoad, Racks, order_named, place, placement_named
from p4reduce.control_plane.placement.policies import sorted_queue, work
from p4reduce.control_plane.plans.best import BEST, FORESTS
from p4reduce.control_plane.scheduling.task import Task, WantedHosts
from p4reduce.control_plane.scheduling.view import NetworkState, Rejection
from p4reduce.topologies import Topology
from p4switch.base.values import parse_delay, short

# Parameters of a job of another scheduler: a comment such as ``p4reduce elements=61706 rounds=10``.


MARK: Final = "p4reduce"
"""first word of the comment of a job that p4reduce places"""


@dataclass(frozen=True)
class Request:
    """A job that waits for hosts: the facts for predictions, and the hosts that it requires, if any."""

    task: Task
    hosts: tuple[str, ...] = ()
    plan: str = ""
    """plan that it requires; '': a tree, or a ring if that is predicted to be faster"""


def is_marked(comment: str) -> bool:
    """Return whether a comment asks p4reduce for hosts."""
    return comment.split(maxsplit=1)[:1] == [MARK]


def request_of(name: str, comment: str, workers: int, owner: str = "") -> Request:
    """Return a job's request from its comment.

    Fields: ``elements`` of the model (float32 or int32), ``rounds``, ``training`` (computing time of a round, such as
    '20us'), ``hosts`` (names separated by commas; without it they are chosen), ``plan`` (one of :data:`ASKED`).
    `PlanError` names the field.
    """
    values: dict[str, Any] = {}
    hosts: tuple[str, ...] = ()
    plan = ""
    known = (*_FIELDS, "hosts", "plan")
    for word in comment.split()[1:]:
        field, equals, text = word.partition("=")
        if not equals or field not in known:
            raise PlanError(
                f"comment: {short(word)} is none of {', '.join(f'{known_field}=…' for known_field in known)}"
            )
        if field == "plan":
            if text not in ASKED:
                raise PlanError(f"comment: plan: {short(text)} is none of {', '.join(ASKED)}")
            plan = text
            continue
        if field == "hosts":
            hosts = tuple(filter(None, text.split(",")))
            if len(hosts) != workers or len(set(hosts)) != workers:
                raise PlanError(
                    f"comment: hosts: the job has {workers} nodes, but {short(text)} names others than so many"
                )
            continue
        key, read = _FIELDS[field]
        try:
            values[key] = read(text)
        except ValueError:
            raise PlanError(f"comment: {field}: {short(text)} is no number as in '{_EXAMPLES[field]}'") from None
    if "elements" not in values:
        raise PlanError("comment: elements: the size of the model is needed, as in 'p4reduce elements=61706 rounds=10'")
    return Request(Task(name, "", (), owner=owner, wanted=WantedHosts(workers), **values), hosts, plan)


_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], int]]]] = {
    "elements": ("elements", int),
    "rounds": ("rounds", int),
    "training": ("training_ps", parse_delay),
}
_EXAMPLES: Final = {"elements": "elements=61706", "rounds": "rounds=10", "training": "training=20us"}


TREE: Final = "steiner"
RING: Final = "ring"
ASKED: Final = (BEST, TREE, RING, *FORESTS)
"""plans that a job may require; plans of several trees use half of a switch's slots together"""


@dataclass(frozen=True)
class Chosen:
    """The hosts of a job in rank order, which is the topology's, and its plan."""

    hosts: tuple[str, ...]
    plan: str
    """plan of the tree, of the trees, or of the ring; '' for a job on one host"""
    elements: int | None = field(default=None, compare=False)
    """number of elements of its collectives; None if unknown"""


class Planner:
    """Chooses hosts for waiting jobs; each host has one slot.

    It tracks the predicted link loads of running jobs. The same jobs in the same order get the same hosts.
    """

    def __init__(
        self, topology: Topology, *, policy: str = "ina-aware", order: str = "fifo", backfill: bool = True
    ) -> None:
        """backfill: later jobs may pass a job that does not fit. `PlanError` for unknown policies and orders."""
        placement_named(policy)
        self.policy, self._order, self._backfill = policy, order_named(order), backfill
        self.racks = Racks(topology)
        self._index = {host.name: number for number, host in enumerate(topology.workers)}
        self._loads: dict[str, IterationLoad] = {}
        self._hosts: dict[str, tuple[str, ...]] = {}
        self._served: dict[str, float] = {}

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts for jobs, in the order of the topology."""
        return tuple(self._index)

    def fault(self, request: Request) -> str:
        """Return why a request can never be satisfied; empty if it may be."""
        unknown = [host for host in request.hosts if host not in self._index]
        if unknown:
            return f"hosts: {unknown[0]!r} is no host of the topology"
        return self._cluster(self.hosts).fault(request.task)

    def choose(self, waiting: Mapping[str, Request], able: Collection[str]) -> tuple[dict[str, Chosen], dict[str, str]]:
        """Choose hosts for as many waiting jobs as possible, by name; also return the reasons why the others wait.

        able: hosts that are up and not used by other schedulers' jobs. Jobs that get hosts count as running from now
        on.
        """
        choices: dict[str, Chosen] = {}
        reasons: dict[str, str] = {}
        tasks = {name: request.task for name, request in waiting.items()}
        for name in sorted_queue(tasks, self._order, self._served):
            try:
                choices[name] = self._choose(waiting[name], able)
            except Rejection as error:
                reasons[name] = str(error)
                if not self._backfill:
                    break
            else:
                self.begin(name, tasks[name], choices[name].hosts)
        return choices, reasons

    def plan_for(self, task: Task, hosts: Collection[str], plan: str = "") -> Chosen:
        """Choose a job's plan for given hosts: ``plan``, or else a tree, or a ring if it is predicted to be faster."""
        ordered = tuple(sorted(hosts, key=self._index.__getitem__))
        if len(ordered) < 2:
            return Chosen(ordered, "")
        chosen = plan or (TREE if self._cluster(self.hosts).load(task, ordered).slots else RING)
        return Chosen(ordered, chosen, task.elements)

    def begin(self, name: str, task: Task, hosts: Collection[str]) -> None:
        """Record that a job has these hosts, whether this planner chose them or not."""
        ordered = tuple(hosts)
        self._loads[name] = self._cluster(self.hosts).load(task, ordered)
        self._hosts[name] = ordered
        self._served[task.owner] = self._served.get(task.owner, 0.0) + work(task)

    def round_done(self, name: str, left: int) -> None:
        """Record that a job has ``left`` rounds to go; unknown jobs are ignored."""
        load = self._loads.get(name)
        if load is not None:
            self._loads[name] = replace(load, rounds=float(max(0, left)))

    def end(self, name: str) -> None:
        """Record that a job has left its hosts; unknown jobs are ignored."""
        self._loads.pop(name, None)
        self._hosts.pop(name, None)

    def _choose(self, request: Request, able: Collection[str]) -> Chosen:
        cluster = self._cluster(able)
        if request.hosts:
            taken = [host for host in request.hosts if not cluster.free.get(host)]
            if taken:
                raise Rejection(f"{request.task.name}: {taken[0]} is not free")
            return self.plan_for(request.task, request.hosts, request.plan)
        try:
            return self.plan_for(request.task, place(request.task, cluster, self.policy).workers, request.plan)
        except Rejection:
            raise
        except PlanError as error:  # a policy of an extension may fail; planning continues
            raise Rejection(f"{request.task.name}: placement {self.policy}: {error}") from error

    def _cluster(self, able: Collection[str]) -> ClusterView:
        used = {host for hosts in self._hosts.values() for host in hosts}
        up = set(able)
        return ClusterView(
            self.racks,
            NetworkState(self.racks.topology),
            slots=dict.fromkeys(self._index, 1),
            free={host: int(host in up and host not in used) for host in self._index},
            running=self._loads,
            hosts={name: dict.fromkeys(hosts, 1) for name, hosts in self._hosts.items()},
            rings=True,
        )
