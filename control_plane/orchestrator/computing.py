"""The computing manager: which host runs which models, how loaded it is, and how long training and adding up take."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.scheduling.task import MAX_PS, Task
from p4reduce.topologies import Topology, format_delay

MAX_SLOWDOWN: Final = 1e6
MEASURED_SHARE: Final = 0.3
"""of the newest round in a host's measured slowdown (exponentially weighted)"""


@dataclass(frozen=True)
class HostProfile:
    """What a host can do.

    Attributes
    ----------
    slowdown : float
        Its training time is that of the task times this.
    models : int
        Models that it trains side by side at full speed; with more they share it evenly.
    most_models : int or None
        It takes no more than these; None: no limit.
    add_ps : int
        Picoseconds to add one element of one model that came in to the sum of a task, as a global model's host.
    utility : float or None
        How useful its data are to a global model, for the selection of local models
        (:class:`~p4reduce.control_plane.scheduling.selection.Selection`); any unit, the same at all hosts. None: not
        known.
    slots : int
        Slots (GPUs) that tasks whose hosts are chosen find; those that name their hosts take theirs anyway.
    """

    slowdown: float = 1.0
    models: int = 1
    most_models: int | None = None
    add_ps: int = 0
    utility: float | None = None
    slots: int = 1

    def __post_init__(self) -> None:
        low = self.slowdown <= 0 or self.models < 1 or self.add_ps < 0 or self.slots < 0
        if low or (self.most_models is not None and self.most_models < 1) or (self.utility or 0) < 0:
            raise PlanError(
                f"host profile: slowdown {self.slowdown}, models {self.models}, most_models {self.most_models}, "
                f"add_ps {self.add_ps}, utility {self.utility}, slots {self.slots}: too low"
            )
        if not self.slowdown <= MAX_SLOWDOWN or not isfinite(self.utility or 0):
            raise PlanError(f"host profile: slowdown {self.slowdown}, utility {self.utility}: too high")


class ComputingManager:
    """Knows the hosts. Not thread-safe.

    Parameters
    ----------
    topology : Topology
        Whose hosts compute.
    profiles : mapping of HostProfile
        By host; a host that is not named has the default profile.
    """

    def __init__(self, topology: Topology, profiles: Mapping[str, HostProfile] | None = None) -> None:
        profiles = profiles or {}
        hosts = [host.name for host in topology.hosts]
        if unknown := sorted(set(profiles) - set(hosts)):
            raise PlanError(f"host profiles: topology {topology.name!r} has no host {', '.join(unknown)}")
        self._workers = [host.name for host in topology.workers]
        self._profiles = {host: profiles.get(host, HostProfile()) for host in hosts}
        self._placed: dict[str, Task] = {}
        self._coming: dict[str, list[str]] = {}
        self._load: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self.serving: Counter[str] = Counter()
        """global models by host"""
        self.measured: dict[str, float] = {}
        """training time of hosts over that of their tasks, where rounds have shown it"""
        self.in_turns = False
        """tasks of a host train one at a time: they take turns"""

    def place(self, task: Task, *, even_if_full: bool = False) -> None:
        """A task's local models are trained from now on; nothing when they are already.

        Raises
        ------
        PlanError
            Names a host that trains its most already; with ``even_if_full`` only one that there is not.
        """
        if task.name in self._placed:
            return
        for host in task.workers:
            if self.is_full(host) and not even_if_full:
                raise PlanError(f"host {host} trains {self._load[host]} models already, its most")
        self._placed[task.name] = task
        self._load.update(task.workers)
        self._used.update(dict.fromkeys(task.workers, task.slots))
        self.serving[task.server] += 1

    def release(self, name: str) -> None:
        """A task has ended; nothing when it was not placed."""
        task = self._placed.pop(name, None)
        if task is not None:
            self._load.subtract(task.workers)
            self._used.subtract(dict.fromkeys(task.workers, task.slots))
            self.serving[task.server] -= 1
            more = self._coming.pop(name, [])
            self._load.subtract(more)
            self._used.subtract(dict.fromkeys(more, task.slots))

    def extend(self, task: Task) -> None:
        """A placed task is about to train at the hosts of ``task`` too; `PlanError` names one that is full."""
        if task.name not in self._placed:
            return
        self.settle(self._placed[task.name])
        more = [host for host in task.workers if host not in self._placed[task.name].workers]
        for host in more:
            if self.is_full(host):
                raise PlanError(f"host {host} trains {self._load[host]} models already, its most")
        self._coming[task.name] = more
        self._load.update(more)
        self._used.update(dict.fromkeys(more, task.slots))

    def settle(self, task: Task) -> None:
        """A placed task trains at these hosts, and at no others any more."""
        if task.name in self._placed:
            self.release(task.name)
            self.place(task, even_if_full=True)

    def training_ps(self, task: Task, host: str) -> int:
        """How long a local model trains in one round, with the models that the host trains now.

        `PlanError` when that is longer than a task may take.
        """
        profile = self._profile(host)
        sharing = 1.0 if self.in_turns else max(1.0, self._load[host] / profile.models)
        return _possible(task, f"training at {host}", round(task.training_ps * profile.slowdown * sharing))

    def aggregation_ps(self, task: Task, arriving: int) -> int:
        """How long the server adds up ``arriving`` models in one round: one if the network aggregates, else all.

        `PlanError` when that is longer than a task may take.
        """
        needed = task.elements * arriving * self._profile(task.server).add_ps
        return _possible(task, f"adding up {arriving} models at {task.server}", needed)

    def is_full(self, host: str) -> bool:
        """Whether a host trains its most already."""
        most = self._profile(host).most_models
        return most is not None and self._load[host] >= most

    def slots(self) -> dict[str, int]:
        """Slots of every host for local models."""
        return {host: self._profiles[host].slots for host in self._workers}

    def free_slots(self) -> dict[str, int]:
        """Those that no task has; none at a host that trains its most models."""
        return {
            host: 0 if self.is_full(host) else max(0, self._profiles[host].slots - self._used[host])
            for host in self._workers
        }

    def slowdowns(self) -> dict[str, float]:
        """Training times of hosts over those of usual ones: as measured, else as their profiles say."""
        return {host: self.measured.get(host, self._profiles[host].slowdown) for host in self._workers}

    def measure(self, task: Task, training_ps: Mapping[str, int]) -> dict[str, float]:
        """How long local models of a task trained in a round; returns the new slowdowns of these hosts."""
        if not task.training_ps:
            return {}
        found = {}
        for host, took_ps in training_ps.items():
            now = took_ps / task.training_ps
            self.measured[host] = found[host] = now + (self.measured.get(host, now) - now) * (1 - MEASURED_SHARE)
        return found

    def utility(self, host: str) -> float | None:
        """How useful its data are; None: not known."""
        return self._profile(host).utility

    def hosts(self) -> list[dict[str, Any]]:
        """Every host with the tasks whose models it runs, and its load: models per model at full speed."""
        return [
            {
                "host": host,
                "local": [name for name, task in self._placed.items() if host in task.workers],
                "global": [name for name, task in self._placed.items() if host == task.server],
                "load": self._load[host] / profile.models,
            }
            for host, profile in self._profiles.items()
        ]

    def _profile(self, host: str) -> HostProfile:
        try:
            return self._profiles[host]
        except KeyError:
            raise PlanError(f"{host!r} is no host of the topology") from None


def _possible(task: Task, what: str, needed_ps: int) -> int:
    """A time, if it can be added to others: the fabric has 64 bits for it."""
    if needed_ps > MAX_PS:
        raise PlanError(f"task {task.name}: {what} takes {needed_ps} ps, more than {format_delay(MAX_PS)}")
    return needed_ps
