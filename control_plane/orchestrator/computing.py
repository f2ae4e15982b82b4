"""The computing manager: which host runs which models, how loaded it is, and how long training and adding up take."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies import Topology


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
    """

    slowdown: float = 1.0
    models: int = 1
    most_models: int | None = None
    add_ps: int = 0

    def __post_init__(self) -> None:
        if self.slowdown <= 0 or self.models < 1 or self.add_ps < 0:
            raise PlanError(
                f"host profile: slowdown {self.slowdown}, models {self.models}, add_ps {self.add_ps}: too low"
            )


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
            most = self._profile(host).most_models
            if most is not None and self._load[host] >= most and not even_if_full:
                raise PlanError(f"host {host} trains {self._load[host]} models already, its most")
        self._placed[task.name] = task
        self._load.update(task.workers)

    def release(self, name: str) -> None:
        """A task has ended; nothing when it was not placed."""
        task = self._placed.pop(name, None)
        if task is not None:
            self._load.subtract(task.workers)

    def training_ps(self, task: Task, host: str) -> int:
        """How long a local model trains in one round, with the models that the host trains now."""
        profile = self._profile(host)
        sharing = max(1.0, self._load[host] / profile.models)
        return round(task.training_ps * profile.slowdown * sharing)

    def aggregation_ps(self, task: Task, arriving: int) -> int:
        """How long the server adds up ``arriving`` models in one round: one if the network aggregates, else all."""
        return task.elements * arriving * self._profile(task.server).add_ps

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
