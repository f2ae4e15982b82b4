"""An AI task, as the poster's task manager takes it in."""

from dataclasses import dataclass
from typing import Literal

from p4reduce.control_plane.errors import PlanError

Aggregation = Literal["switches", "hosts"]
"""who adds up the models of a task"""


@dataclass(frozen=True)
class Task:
    """A global model that several local models are trained for.

    Attributes
    ----------
    name : str
        Unique among all tasks.
    server : str
        Host of the global model (G).
    workers : tuple of str
        Hosts of the local models (L1 .. Ln), in rank order; never the server.
    elements : int
        Model size, float32 elements.
    rounds : int
        Iterations: train, upload to G, broadcast from G.
    training_ps : int
        Training time of a local model in one round, picoseconds.
    demand_bps : int
        Bandwidth to reserve on every link of its trees, bit/s; 0 reserves nothing.
    arrival_ps, deadline_ps : int
        Virtual time when it comes, and (None: no limit) when it must have finished.
    priority : int or None
        Queue of its packets, 0..7; None: the program's default.
    aggregation : 'switches', 'hosts' or None
        Who may add up; None: whoever the policy chooses. (The hosts of a running task cannot change between the two.)
    """

    name: str
    server: str
    workers: tuple[str, ...]
    elements: int
    rounds: int = 1
    training_ps: int = 0
    demand_bps: int = 0
    arrival_ps: int = 0
    deadline_ps: int | None = None
    priority: int | None = None
    aggregation: Aggregation | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise PlanError("task: a name is needed")
        if not self.workers:
            raise PlanError(f"task {self.name}: workers: at least one local model is needed")
        if len(set(self.workers)) != len(self.workers) or self.server in self.workers:
            raise PlanError(f"task {self.name}: workers and server must be different hosts, each named once")
        for field, value, least in (
            ("elements", self.elements, 1),
            ("rounds", self.rounds, 1),
            ("training_ps", self.training_ps, 0),
            ("demand_bps", self.demand_bps, 0),
            ("arrival_ps", self.arrival_ps, 0),
        ):
            if value < least:
                raise PlanError(f"task {self.name}: {field}: {value} is below {least}")
        if self.deadline_ps is not None and self.deadline_ps <= self.arrival_ps:
            raise PlanError(f"task {self.name}: deadline_ps: {self.deadline_ps} is not after its arrival")
        if self.priority is not None and not 0 <= self.priority <= 7:
            raise PlanError(f"task {self.name}: priority: {self.priority} is outside 0..7")
        if self.aggregation not in (None, "switches", "hosts"):
            raise PlanError(f"task {self.name}: aggregation: {self.aggregation!r} is neither 'switches' nor 'hosts'")
