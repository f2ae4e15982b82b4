"""An AI task, as the poster's task manager takes it in."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Final, Literal

from p4reduce.base.safe_yaml import short
from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.scheduling.selection import Selection
from p4reduce.control_plane.scheduling.wanted import Wanted

MAX_ELEMENTS: Final = 1 << 40
MAX_ROUNDS: Final = (1 << 31) - 1
MAX_PS: Final = 10**17
"""of times: a day; the fabric adds them up in 64 bits"""
MAX_BPS: Final = 10**15
"""as of links"""
MAX_NAME: Final = 128
MAX_SLOTS: Final = 1 << 20
MAX_RESTARTS: Final = 100

Aggregation = Literal["switches", "hosts"]
"""who adds up the models of a task"""
OnFailure = Literal["abort", "raise", "shrink"]
"""what becomes of a running task of which a worker dies: see :attr:`Task.on_failure`"""
Reservation = Literal["peak", "mean"]
"""what is reserved for a task: its demand, or what it takes on average while it trains and communicates"""


@dataclass(frozen=True)
class Task:
    """A global model that several local models are trained for.

    Raises `PlanError` for what no task can be; what a network has no room for is its policies' and hosts' affair.

    Attributes
    ----------
    name : str
        Unique among all tasks; 1 to 128 characters that can be printed.
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
    reservation : 'peak' or 'mean'
        Whether links keep the demand for it all the time, or its mean use (:attr:`reserved_bps`).
    select : Selection or None
        Which of the workers take part is still to be chosen, and how; None: all of them. Policies are asked for
        trees of those that do, without it.
    wanted : Wanted or None
        Its hosts are still to be chosen, and what they must be: there are no ``workers`` then, and the server is ''
        where it is to be chosen, too. Policies are asked for trees when they are, without it.
    owner : str
        Whose task it is, for the order 'fair'.
    slots : int
        Slots (GPUs) of its host that each local model takes.
    on_failure : 'abort', 'raise' or 'shrink'
        What becomes of it, once it runs, when a worker dies or cannot be reached any more. shrink: the others go on.
        raise: it fails at once, and the reason names who died. abort: it fails where its workers cannot be replaced.
    max_restarts : int
        How often it begins anew, from its last checkpoint, where it would fail; never with ``on_failure`` 'raise'.
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
    reservation: Reservation = "peak"
    select: Selection | None = None
    wanted: Wanted | None = None
    owner: str = ""
    slots: int = 1
    on_failure: OnFailure = "abort"
    max_restarts: int = 0

    def __post_init__(self) -> None:
        if not self.name:
            raise PlanError("task: a name is needed")
        if not isinstance(self.name, str) or len(self.name) > MAX_NAME or not self.name.isprintable():
            raise PlanError(f"task: name: {short(self.name)} is no text of at most {MAX_NAME} printable characters")
        for host in (self.server, *self.workers):
            if not isinstance(host, str):
                raise PlanError(f"task {self.name}: workers and server: {short(host)} is no name of a host")
        if not isinstance(self.owner, str) or len(self.owner) > MAX_NAME or not self.owner.isprintable():
            raise PlanError(f"task {self.name}: owner: {short(self.owner)} is no text of at most {MAX_NAME} characters")
        if self.wanted is None and not (self.workers and self.server):
            what = "workers: at least one local model" if self.server else "server: the host of the global model"
            raise PlanError(f"task {self.name}: {what} is needed")
        if self.wanted is not None and (self.workers or self.select is not None):
            raise PlanError(
                f"task {self.name}: workers: a task whose hosts are chosen names none and has no 'select'; "
                "give a number or names"
            )
        if len(set(self.workers)) != len(self.workers) or self.server in self.workers:
            raise PlanError(f"task {self.name}: workers and server must be different hosts, each named once")
        limits: tuple[tuple[str, Any, int, int], ...] = (
            ("elements", self.elements, 1, MAX_ELEMENTS),
            ("rounds", self.rounds, 1, MAX_ROUNDS),
            ("training_ps", self.training_ps, 0, MAX_PS),
            ("demand_bps", self.demand_bps, 0, MAX_BPS),
            ("arrival_ps", self.arrival_ps, 0, MAX_PS),
            ("deadline_ps", self.deadline_ps, 0, MAX_PS),
            ("priority", self.priority, 0, 7),
            ("slots", self.slots, 1, MAX_SLOTS),
            ("max_restarts", self.max_restarts, 0, MAX_RESTARTS),
        )
        for field, value, least, most in limits:
            if value is None and field in ("deadline_ps", "priority"):
                continue
            whole = isinstance(value, Integral) and not isinstance(value, bool)
            if not whole:  # NaN is neither below nor above
                raise PlanError(f"task {self.name}: {field}: {short(value)} is no whole number")
            if value < least:
                raise PlanError(f"task {self.name}: {field}: {short(value)} is below {least}")
            if value > most:
                raise PlanError(f"task {self.name}: {field}: {short(value)} is above {most}")
        if self.deadline_ps is not None and self.deadline_ps <= self.arrival_ps:
            raise PlanError(f"task {self.name}: deadline_ps: {self.deadline_ps} is not after its arrival")
        if self.aggregation not in (None, "switches", "hosts"):
            raise PlanError(
                f"task {self.name}: aggregation: {short(self.aggregation)} is neither 'switches' nor 'hosts'"
            )
        if self.reservation not in ("peak", "mean"):
            raise PlanError(f"task {self.name}: reservation: {short(self.reservation)} is neither 'peak' nor 'mean'")
        if self.on_failure not in ("abort", "raise", "shrink"):
            raise PlanError(
                f"task {self.name}: on_failure: {short(self.on_failure)} is none of 'abort', 'raise' and 'shrink'"
            )
        if self.on_failure == "raise" and self.max_restarts:
            raise PlanError(
                f"task {self.name}: max_restarts: with on_failure 'raise' nothing begins anew; take 'abort' or 'shrink'"
            )
        if self.select is not None:
            try:
                self.select.check_workers(self.workers)
            except PlanError as error:
                raise PlanError(f"task {self.name}: {error}") from None

    @property
    def size(self) -> int:
        """How many local models it has, chosen or not."""
        return len(self.workers) if self.wanted is None else self.wanted.count

    @property
    def reserved_bps(self) -> int:
        """What a link keeps for each copy of the model that crosses it, bit/s: the demand, or its mean over a round.

        A round trains for T and then sends a model of S bits with the demand d, which takes C = S / d: its mean use is
        d * C / (T + C), rounded up. Upload and broadcast may follow each other, which makes rounds longer and the mean
        smaller; that is not counted on.
        """
        if self.reservation == "peak" or not self.demand_bps:
            return self.demand_bps
        model = 32 * self.elements * PS_PER_S
        return -(-self.demand_bps * model // (self.training_ps * self.demand_bps + model))
