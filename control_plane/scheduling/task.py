"""An AI task, with the parameters of the poster's task manager."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any, Final, Literal, Protocol, TypeVar

import numpy as np

from p4reduce.base.errors import PlanError
from p4switch.base.values import PS_PER_S, short

# The selection of a task's local models.


How = Literal["all", "random", "cheapest", "useful"]
"""a chooser of :data:`~p4reduce.control_plane.scheduling.task.CHOOSERS`"""
HOWS: Final = ("all", "random", "cheapest", "useful")
MAX_SEED: Final = (1 << 63) - 1
MOST_COMPARED: Final = 64
"""largest number of candidates of 'cheapest' and 'useful', which ask the policy for n * (n + 1) / 2 trees"""


@dataclass(frozen=True)
class Selection:
    """The selection of the local models that take part, under a bandwidth budget.

    Attributes
    ----------
    how : str
        'all'; 'random': in a random order while they fit; 'cheapest': in each step the model with the least additional
        cost; 'useful': in each step the model with the largest utility per additional cost.
    budget : float or None
        Share of the traffic of a round of all models in an empty network, 0 < budget <= 1; None for 'all' alone.
    seed : int
        Seed of the order of 'random'.
    utilities : tuple of (host, float)
        Usefulness of a worker's data, for 'useful'; any unit. Workers left out have their host's utility
        (:class:`~p4reduce.control_plane.orchestrator.HostProfile`).
    """

    how: How
    budget: float | None = None
    seed: int = 0
    utilities: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if self.how not in HOWS:
            raise PlanError(f"select.how: {short(self.how)} is none of {', '.join(HOWS)}")
        if self.how == "all" and self.budget is not None:
            raise PlanError("select.budget: 'all' has no budget; leave it out, or choose another way")
        budget: Any = self.budget
        if self.how != "all" and not (_is_real(budget) and 0 < budget <= 1):
            raise PlanError(f"select.budget: {short(self.budget)} is no number above 0, up to 1; write for example 0.4")
        seed: Any = self.seed
        if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= int(seed) <= MAX_SEED:
            raise PlanError(f"select.seed: {short(self.seed)} is no whole number in 0..{MAX_SEED}")
        if self.utilities and self.how != "useful":
            raise PlanError(f"select.utilities: {self.how!r} does not look at them; leave them out, or choose 'useful'")
        host: Any
        for host, utility in self.utilities:
            if not isinstance(host, str) or not _is_real(utility) or utility < 0:
                raise PlanError(f"select.utilities.{short(host)}: {short(utility)} is no number of at least 0")
        if len(dict(self.utilities)) != len(self.utilities):
            raise PlanError("select.utilities: a host is named twice")

    def check_workers(self, workers: tuple[str, ...]) -> None:
        """Raise `PlanError` when the selection does not fit a task with these workers."""
        if unknown := sorted(set(dict(self.utilities)) - set(workers)):
            raise PlanError(f"select.utilities: {short(unknown[0])} is no worker of the task")
        if self.how in ("cheapest", "useful") and len(workers) > MOST_COMPARED:
            raise PlanError(
                f"select.how: {self.how!r} compares at most {MOST_COMPARED} workers, not {len(workers)}; "
                "'random' takes any number"
            )


def _is_real(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and isfinite(value)


# The choice of the models in a round when the bytes of a round are limited.


class Candidate(Protocol):
    """A local model that may take part."""

    @property
    def host(self) -> str:
        """Host of the model."""

    @property
    def usefulness(self) -> float:
        """Usefulness of its data to the global model; any unit, the same for all."""


_C = TypeVar("_C", bound=Candidate)
Cost = Callable[[Sequence[str]], int]
"""function from hosts to the copies of a frame on links, in the trees of their local models and the global model"""


@dataclass(frozen=True)
class Budget:
    """The budget of a round: copies of a frame on links (bytes are copies * chunks * frame length)."""

    copies: int
    cost: Cost

    def allows(self, hosts: Sequence[str]) -> bool:
        """Whether the trees of these local models fit."""
        return self.cost(hosts) <= self.copies


class Chooser(Protocol):
    """Chooses the candidates that take part."""

    def __call__(self, models: Sequence[_C], budget: Budget, random: np.random.Generator) -> list[_C]:
        """Return the chosen candidates."""


def everyone(models: Sequence[_C], budget: Budget, random: np.random.Generator) -> list[_C]:
    """All candidates, whatever their cost: the reference."""
    del budget, random
    return list(models)


def at_random(models: Sequence[_C], budget: Budget, random: np.random.Generator) -> list[_C]:
    """Candidates in a random order, while they fit."""
    return _fill([models[place] for place in random.permutation(len(models))], budget)


def cheapest(models: Sequence[_C], budget: Budget, random: np.random.Generator) -> list[_C]:
    """As many candidates as fit: in each step, the candidate with the least additional cost."""
    del random
    return _greedy(models, budget, lambda _model, extra: -float(extra))


def useful(models: Sequence[_C], budget: Budget, random: np.random.Generator) -> list[_C]:
    """In each step, the fitting candidate with the largest usefulness per additional copy of a frame on links."""
    del random
    return _greedy(models, budget, lambda model, extra: model.usefulness / max(1, extra))


CHOOSERS: dict[str, Chooser] = {"all": everyone, "random": at_random, "cheapest": cheapest, "useful": useful}


def _fill(order: Sequence[_C], budget: Budget) -> list[_C]:
    chosen: list[_C] = []
    for model in order:
        if budget.allows([*(earlier.host for earlier in chosen), model.host]):
            chosen.append(model)
    return chosen


def _greedy(models: Sequence[_C], budget: Budget, score: Callable[[_C, int], float]) -> list[_C]:
    chosen: list[_C] = []
    left = list(models)
    while left:
        hosts = [model.host for model in chosen]
        now = budget.cost(hosts) if hosts else 0
        extra = {model.host: budget.cost([*hosts, model.host]) - now for model in left}
        fitting = [model for model in left if now + extra[model.host] <= budget.copies]
        if not fitting:
            break
        best = max(fitting, key=lambda model: (score(model, extra[model.host]), model.host))
        chosen.append(best)
        left.remove(best)
    return chosen


# The request of a task whose hosts the orchestrator chooses.


MOST_WORKERS: Final = 65_535
"""largest number of workers: ranks are 16 bits on the wire"""
MOST_SHARDS: Final = 1 << 16
MOST_SHARD_BYTES: Final = 1 << 50


@dataclass(frozen=True)
class WantedHosts:
    """A request for hosts, instead of their names.

    Attributes
    ----------
    count : int
        Number of local models, each on a separate host.
    shards : tuple of str
        Home host of every shard of the training data. Shards at a worker's host belong to this worker, the others to
        the workers with the fewest; a worker reads a shard of another host over the network once, before its first
        round. Empty: every host has the data.
    shard_bytes : int
        Bytes of each shard.
    """

    count: int
    shards: tuple[str, ...] = ()
    shard_bytes: int = 0

    def __post_init__(self) -> None:
        limits: tuple[tuple[str, Any, int, int], ...] = (
            ("workers", self.count, 1, MOST_WORKERS),
            ("shard_bytes", self.shard_bytes, 0, MOST_SHARD_BYTES),
        )
        for field, value, least, most in limits:
            whole = isinstance(value, Integral) and not isinstance(value, bool)
            if not whole:  # NaN is neither below nor above
                raise PlanError(f"{field}: {short(value)} is no whole number")
            if not least <= value <= most:
                raise PlanError(f"{field}: {short(value)} is not within {least}..{most}")
        names: Any = self.shards
        if not isinstance(names, tuple) or any(not isinstance(home, str) or not home for home in names):
            raise PlanError(f"shards: {short(self.shards)} is no list of hosts")
        if len(names) > MOST_SHARDS:
            raise PlanError(f"shards: {len(names)} are more than {MOST_SHARDS}")


# Tasks that answer requests instead of training.


LEAST_HZ: Final = 1.0
MOST_HZ: Final = 1e9
MOST_REQUESTS: Final = 1 << 20
"""largest number of requests of a client"""
_FRAMING: Final = 1.1
"""upper bound on (bytes on a link) / (bytes of an answer's numbers): adds headers, gaps, requests"""


@dataclass(frozen=True)
class ServiceRequests:
    """Requests of a task that infers: its workers are clients, and its server answers each of them separately.

    Attributes
    ----------
    rate_hz : float
        Requests per second of each client, a Poisson process; a client sends a request only after the answer to its
        previous request, and the latency counts from the time when the request was due.
    objective_ps : int or None
        Wanted 99th percentile of latencies, from when a request is due to the last frame of its answer.
    seed : int
        Seed of the times of requests.
    """

    rate_hz: float
    objective_ps: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        rate: Any = self.rate_hz
        if not (_is_real(rate) and LEAST_HZ <= rate <= MOST_HZ):
            raise PlanError(
                f"rate: {short(self.rate_hz)} is no number of requests a second in {LEAST_HZ:g}..{MOST_HZ:g}"
            )
        for field, value, least, most in (
            ("objective", 1 if self.objective_ps is None else self.objective_ps, 1, MAX_PS),
            ("seed", self.seed, 0, MAX_SEED),
        ):
            number: Any = value
            if isinstance(number, bool) or not isinstance(number, Integral) or not least <= int(number) <= most:
                raise PlanError(f"{field}: {short(value)} is no whole number within {least}..{most}")


MAX_ELEMENTS: Final = 1 << 40
MAX_ROUNDS: Final = (1 << 31) - 1
MAX_PS: Final = 10**17
"""largest time of a task: 10^17 ps, a little more than a day; the fabric adds times in 64 bits"""
MAX_BPS: Final = 10**15
"""largest demand, the same as for links"""
MAX_NAME: Final = 128
MAX_SLOTS: Final = 1 << 20
MAX_RESTARTS: Final = 100

Aggregation = Literal["switches", "hosts"]
"""the nodes that aggregate the models of a task"""
OnFailure = Literal["abort", "raise", "shrink"]
"""the reaction to the death of a worker: see :attr:`Task.on_failure`"""
Exchange = Literal["rar", "a2a"]
"""the communication among the hosts of a task: see :attr:`Task.exchange`"""
Reservation = Literal["peak", "mean"]
"""the reservation for a task: its demand, or its mean use while it trains and communicates"""


@dataclass(frozen=True)
class Task:
    """A global model that several local models are trained for.

    Raises `PlanError` for invalid values; policies and hosts check whether a network has room for the task.

    Attributes
    ----------
    name : str
        Unique among all tasks; 1 to 128 printable characters.
    server : str
        Host of the global model (G).
    workers : tuple of str
        Hosts of the local models (L1 .. Ln), in rank order; never the server.
    elements : int
        Model size, float32 elements.
    rounds : int
        Number of iterations: train, upload to G, broadcast from G.
    training_ps : int
        Training time of a local model in one round, picoseconds.
    demand_bps : int
        Bandwidth to reserve on every link of its trees, bit/s; 0 reserves nothing.
    arrival_ps, deadline_ps : int
        Virtual time of its arrival, and (None: no limit) when it must have finished.
    priority : int or None
        Queue of its packets, 0..7; None: the program's default.
    aggregation : 'switches', 'hosts' or None
        The nodes that may aggregate; None: the policy chooses. (A running task cannot change between the two.)
    reservation : 'peak' or 'mean'
        Whether links reserve the demand all the time, or the task's mean use (:attr:`reserved_bps`).
    select : Selection or None
        How to choose the workers that take part; None: all of them do. Policies get a task with the chosen
        workers and without a selection.
    wanted : WantedHosts or None
        Request for hosts that are still to be chosen; ``workers`` is then empty, and the server is '' if it is to be
        chosen as well. Policies get the task with its hosts and without the request.
    owner : str
        Owner of the task, for the order 'fair'.
    slots : int
        Slots (GPUs) of its host that each local model takes.
    on_failure : 'abort', 'raise' or 'shrink'
        Reaction to the death or loss of a worker while the task runs. shrink: the other workers continue. raise: the
        task fails at once, and the reason names the lost workers. abort: it fails if its workers cannot be replaced.
    max_restarts : int
        Number of restarts from the last checkpoint instead of a failure; 0 with ``on_failure`` 'raise'.
    serving : ServiceRequests or None
        The task answers requests instead of training. Its ``workers`` are clients, ``elements`` the numbers of an
        answer, ``rounds`` the requests of each client, ``training_ps`` the server's time for one; the server is ''
        if it is to be chosen. None: it trains.
    exchange : 'rar', 'a2a' or None
        Exchange among its hosts, including the global model's, after training: rar: models, in a
        ring; a2a: every host sends ``elements`` numbers to every other one, and gets as many back (dispatch, combine).
        None: the policy chooses.
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
    wanted: WantedHosts | None = None
    owner: str = ""
    slots: int = 1
    on_failure: OnFailure = "abort"
    max_restarts: int = 0
    serving: ServiceRequests | None = None
    exchange: Exchange | None = None

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
        if self.serving is not None:
            self._check_serving()
        elif self.wanted is None and not (self.workers and self.server):
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
        if self.exchange not in (None, "rar", "a2a"):
            raise PlanError(f"task {self.name}: exchange: {short(self.exchange)} is neither 'rar' nor 'a2a'")
        if self.exchange is not None and self.aggregation == "switches":
            raise PlanError(f"task {self.name}: aggregation: hosts of a task of this kind add up; leave it out")
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

    def _check_serving(self) -> None:
        """Raise `PlanError` for fields that a task that answers requests cannot have."""
        if self.wanted is not None or not self.workers:
            raise PlanError(f"task {self.name}: workers: a task that infers names its clients; give names of hosts")
        rounds: Any = self.rounds
        if isinstance(rounds, Integral) and int(rounds) > MOST_REQUESTS:
            raise PlanError(f"task {self.name}: rounds: {short(rounds)} requests are above {MOST_REQUESTS}")
        for field, given in (
            ("select", self.select is not None),
            ("aggregation", self.aggregation is not None),
            ("max_restarts", bool(self.max_restarts)),
            ("on_failure", self.on_failure == "shrink"),
            ("reservation", self.reservation != "peak"),
            ("exchange", self.exchange is not None),
        ):
            if given:
                raise PlanError(f"task {self.name}: {field}: a task that infers has none; leave it out")

    @property
    def kind(self) -> str:
        """Kind of task, as in files: 'training', 'rar', 'a2a' or 'inference'."""
        return "inference" if self.serving is not None else self.exchange or "training"

    @property
    def trainers(self) -> tuple[str, ...]:
        """Hosts that train a local model: the workers of a task that trains."""
        return self.workers if self.serving is None else ()

    @property
    def size(self) -> int:
        """Number of its local models, chosen or not."""
        return len(self.workers) if self.wanted is None else self.wanted.count

    @property
    def reserved_bps(self) -> int:
        """Rate in bit/s that a link reserves for each copy of the model on it: the demand, or its mean over a round.

        A round trains for T and then sends a model of S bits with the demand d, which takes C = S / d: its mean use is
        d * C / (T + C), rounded up. If upload and broadcast follow each other, the mean is smaller, but that is not
        assumed. A task that infers without a demand reserves the rate of the answers to one client.
        """
        if self.serving is not None and not self.demand_bps:
            return min(MAX_BPS, round(self.serving.rate_hz * 32 * self.elements * _FRAMING) + 1)
        if self.reservation == "peak" or not self.demand_bps:
            return self.demand_bps
        model = 32 * self.elements * PS_PER_S
        return -(-self.demand_bps * model // (self.training_ps * self.demand_bps + model))
