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
    """

    slowdown: float = 1.0
    models: int = 1
    most_models: int | None = None
    add_ps: int = 0
    utility: float | None = None

    def __post_init__(self) -> None:
        low = self.slowdown <= 0 or self.models < 1 or self.add_ps < 0
        if low or (self.most_models is not None and self.most_models < 1) or (self.utility or 0) < 0:
            raise PlanError(
                f"host profile: slowdown {self.slowdown}, models {self.models}, most_models {self.most_models}, "
                f"add_ps {self.add_ps}, utility {self.utility}: too low"
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
        self._profiles = {host: profiles.get(host, HostProfile()) for host in hosts}
        self._placed: dict[str, Task] = {}
        self._load: Counter[str] = Counter()

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

    def release(self, name: str) -> None:
        """A task has ended; nothing when it was not placed."""
        task = self._placed.pop(name, None)
        if task is not None:
            self._load.subtract(task.workers)

    def training_ps(self, task: Task, host: str) -> int:
        """How long a local model trains in one round, with the models that the host trains now.

        `PlanError` when that is longer than a task may take.
        """
        profile = self._profile(host)
        sharing = max(1.0, self._load[host] / profile.models)
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
