"""Training jobs and their files, the optical network, and the units of jobs on hosts."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from p4reduce.base.errors import PlanError
from p4reduce.topologies import TopologyError, parse_delay, parse_rate
from p4switch.base.files import read_text
from p4switch.base.safe_yaml import YamlError, read_yaml
from p4switch.base.values import PS_PER_S, short

# Errors of jobs, networks and schedules.


class TdmError(PlanError):
    """Jobs that do not fit a network, or an impossible network; the message names the field and the fix."""


# The computing time of a training step: equation (7).


PASSES: Final = 6
"""K: 2 operations for the forward and 4 for the backward pass of each parameter and token"""
PASSES_RECOMPUTING: Final = 8
"""K if activations are recomputed"""


def training_seconds(
    parameters: float, tokens: float, flops: float, efficiency: float, *, recompute: bool = False
) -> float:
    """Return t_train of (7), K * tokens * Phi / (F_GPU * efficiency), in seconds.

    Algorithm 1 refers to "formula (1)" for training times; equation (7) defines them.

    Parameters
    ----------
    parameters : float
        Phi.
    tokens : float
        Number of tokens of one GPU in a step.
    flops : float
        F_GPU, floating-point operations a second.
    efficiency : float
        Share of F_GPU that is reached, between 0 and 1.
    recompute : bool
        K is 8 with recomputation, else 6.

    Raises
    ------
    ValueError
        When a value is not positive, or the efficiency above 1.
    """
    for name, value in (("parameters", parameters), ("tokens", tokens), ("flops", flops), ("efficiency", efficiency)):
        if not 0 < value < float("inf"):
            raise ValueError(f"{name}: must be positive and finite")
    if efficiency > 1:
        raise ValueError("efficiency: must be at most 1")
    return (PASSES_RECOMPUTING if recompute else PASSES) * tokens * parameters / (flops * efficiency)


Kind = Literal["ps", "rar", "a2a"]
KINDS: Final = ("ps", "rar", "a2a")
MOST_BYTES: Final = 1 << 50
MOST_UNITS: Final = 1 << 20
MOST_SECONDS: Final = 1e6


@dataclass(frozen=True)
class TdmJob:
    """A job whose iteration is ``compute_s`` of training, then one collective of all units.

    ps: units push gradients to one place and pull the sum (here the ToR of a pod, not a host). rar: an all-reduce. Both
    leave the same sum with every unit, so a scheduler may carry either along a tree. a2a: every unit sends to every
    other unit twice (dispatch, combine).
    """

    name: str
    kind: Kind
    bytes: int
    """F. ps, rar: bytes of the vector that is summed (4 for a float32 parameter). a2a: bytes from one unit to *one*
    other unit in one of the two phases"""
    compute_s: float
    """seconds of training in an iteration on ``units`` dedicated GPUs, t_train of (7)"""
    units: int
    """number of GPUs that work in parallel, one unit each"""
    hosts: tuple[str, ...] = ()
    """hosts of the units in their order, if the user names them (``units`` names, possibly repeated); empty: the
    scheduler places the units"""
    elastic: bool = False
    """whether the scheduler may set the number of units, at least 2; training then takes compute_s * units / number"""
    model: str | None = None
    """name in `p4reduce.control_plane.tdm.jobs.MODELS`, for display; None if unknown"""
    arrival_s: float = 0.0
    """seconds after the start at which an online scheduler learns of the job"""
    iterations: int | None = None
    """number of iterations; None: unlimited"""

    def __post_init__(self) -> None:
        where = f"job {self.name[:40]!r}"
        if not self.name or len(self.name) > 200:
            raise TdmError(f"{where}: name: must have 1 to 200 characters")
        if self.kind not in KINDS:
            raise TdmError(f"{where}: kind: {self.kind!r} is none of {', '.join(KINDS)}")
        if not 0 < self.bytes <= MOST_BYTES:
            raise TdmError(f"{where}: bytes: must be between 1 and 2^50")
        for field, value in (("compute", self.compute_s), ("arrival", self.arrival_s)):
            if not (math.isfinite(value) and 0 <= value <= MOST_SECONDS):
                raise TdmError(f"{where}: {field}: must be between 0 and {MOST_SECONDS:.0e} s")
        if not 1 <= self.units <= MOST_UNITS:
            raise TdmError(f"{where}: workers: must be between 1 and 2^20")
        if self.units == 1:
            raise TdmError(f"{where}: workers: one unit has no other to communicate with; give it 2 or leave it out")
        if self.hosts and len(self.hosts) != self.units:
            raise TdmError(f"{where}: workers: {self.units} units, but {len(self.hosts)} names of hosts")
        if self.hosts and self.elastic:
            raise TdmError(f"{where}: elastic: its workers are named, so their number is given; leave one of them out")
        if self.iterations is not None and self.iterations < 1:
            raise TdmError(f"{where}: iterations: must be 1 or more")

    @property
    def work(self) -> float:
        """GPU seconds of an iteration."""
        return self.compute_s * self.units

    def compute_on(self, units: int) -> float:
        """Return the seconds of training in an iteration on ``units`` dedicated GPUs."""
        return self.work / units if self.elastic else self.compute_s


# Models by name: bytes and training time of an iteration.


A100_FLOPS: Final = 312e12
"""operations a second of an A100, dense bfloat16"""


@dataclass(frozen=True)
class JobModel:
    """A model. ``unit_bytes``: what one unit sends, its gradients or (a2a) its data for all others in one phase."""

    kind: Kind
    unit_bytes: int
    compute_s: float
    source: str


MODELS: Final[Mapping[str, JobModel]] = {
    "resnet50": JobModel("rar", 102_000_000, 0.104, "256 images at 2,470/s on an A100: NVIDIA DeepLearningExamples"),
    "vgg16": JobModel("rar", 554_000_000, 0.070, "batch 16: profiles of Muri (SIGCOMM 2022)"),
    "bert-large": JobModel("rar", 1_340_000_000, 0.152, "32 x 512 tokens at 210/s: NVIDIA DeepLearningExamples"),
    "gpt2-1.5b": JobModel("rar", 6_000_000_000, training_seconds(1.5e9, 8192, A100_FLOPS, 0.5), "(7), 8,192 tokens"),
    "dlrm": JobModel("a2a", 54_500_000, 0.004, "64k samples at 16.5 M/s on 8 GPUs: NVIDIA"),
    "moe": JobModel("a2a", 800_000_000, 0.300, "12 layers, top-2, h = 1,024, 0.95 G active parameters, (7)"),
}
"""Gradients are float32. MoE's 1.6 GB for each GPU are dispatch and combine together."""


def model_job(
    name: str,
    model: str,
    units: int,
    *,
    scale: float = 1.0,
    kind: Kind | None = None,
    compute_s: float | None = None,
    hosts: tuple[str, ...] = (),
    elastic: bool = False,
    arrival_s: float = 0.0,
    iterations: int | None = None,
) -> TdmJob:
    """Return a job of a known model.

    Parameters
    ----------
    name, model, units
        Name of the job; name in :data:`MODELS`; number of units.
    scale : float
        Divisor of bytes and times: a 64th of the packets shows the same as all of them.
    kind, compute_s, hosts, elastic, arrival_s, iterations
        As in :class:`TdmJob`; None: the model's.

    Raises
    ------
    TdmError
        For an unknown model, or an invalid job.
    """
    if model not in MODELS:
        raise TdmError(f"job {name[:40]!r}: model: {model[:40]!r} is none of {', '.join(MODELS)}")
    known = MODELS[model]
    chosen = kind or known.kind
    if (chosen == "a2a") != (known.kind == "a2a"):
        raise TdmError(f"job {name[:40]!r}: kind: {model} communicates as {known.kind}, not as {chosen}")
    sent = known.unit_bytes / scale
    size = sent / max(units - 1, 1) if chosen == "a2a" else sent
    trained = known.compute_s / scale if compute_s is None else compute_s
    whole = max(4, round(size / 4) * 4)
    return TdmJob(name, chosen, whole, trained, units, hosts, elastic, model, arrival_s, iterations)


# Files of training jobs: YAML or CSV.


_LIMIT: Final = 4 << 20
_UNITS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _bytes(value: Any) -> Any:
    """Convert '102M' (decimal) or '4MiB' to bytes; return other values unchanged."""
    if not isinstance(value, str):
        return value
    text = value.strip().removesuffix("B") if not value.strip().endswith("iB") else value.strip()
    for unit in sorted(_UNITS, key=len, reverse=True):
        number = text.removesuffix(unit) if unit else text
        if unit and number == text:
            continue
        try:
            return round(float(number) * _UNITS[unit])
        except (ValueError, OverflowError):
            continue
    raise ValueError("is no number of bytes; write for example 102M or 4MiB")


def _seconds(value: Any) -> Any:
    """Convert '104ms' to seconds; a number is in seconds."""
    return parse_delay(value) / PS_PER_S if isinstance(value, str) else value


def _workers(value: Any) -> Any:
    """Convert text of a CSV file to a number of workers or a tuple of names, and a list to a tuple."""
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < 10 else tuple(value.split())
    return tuple(value) if isinstance(value, list) else value


class Formula(BaseModel):
    """The terms of equation (7), given in place of a time."""

    model_config = ConfigDict(extra="forbid")
    parameters: float
    tokens: float
    flops: float
    efficiency: float
    recompute: bool = False


class JobLine(BaseModel):
    """One job of a file."""

    model_config = ConfigDict(extra="forbid")
    name: str
    kind: Kind | None = None
    model: str | None = None
    bytes: Annotated[int | None, BeforeValidator(_bytes)] = None
    compute: Annotated[float | Formula | None, BeforeValidator(_seconds)] = None
    workers: Annotated[int | tuple[str, ...], BeforeValidator(_workers)]
    elastic: bool = False
    arrival: Annotated[float, BeforeValidator(_seconds)] = 0.0
    iterations: int | None = None

    def job(self, scale: float) -> TdmJob:
        """Convert to a job with bytes and times divided by ``scale``; `TdmError` for missing or conflicting fields."""
        where = f"job {self.name[:40]!r}"
        hosts = self.workers if isinstance(self.workers, tuple) else ()
        units = len(hosts) if hosts else self.workers
        assert isinstance(units, int)  # noqa: S101
        compute = self.compute
        if isinstance(compute, Formula):
            try:
                compute = training_seconds(**compute.model_dump())
            except ValueError as error:
                raise TdmError(f"{where}: compute: {error}") from None
        compute = None if compute is None else compute / scale
        if self.model is not None:
            if self.bytes is not None:
                raise TdmError(f"{where}: bytes: model {self.model[:40]!r} has its own; leave one of them out")
            return model_job(
                self.name, self.model, units, scale=scale, kind=self.kind, compute_s=compute, hosts=hosts,
                elastic=self.elastic, arrival_s=self.arrival / scale, iterations=self.iterations,
            )  # fmt: skip
        if self.kind is None or self.bytes is None or compute is None:
            missing = next(name for name in ("kind", "bytes", "compute") if getattr(self, name) is None)
            raise TdmError(f"{where}: {missing}: is missing; give it, or a model that has it")
        size = max(4, round(self.bytes / scale / 4) * 4)
        arrival = self.arrival / scale
        return TdmJob(self.name, self.kind, size, compute, units, hosts, self.elastic, None, arrival, self.iterations)


def read_jobs(path: Path, scale: float = 1.0) -> list[TdmJob]:
    """Read the jobs of a file: CSV if its name ends in '.csv', else YAML with a list 'jobs'.

    Parameters
    ----------
    path : Path
        Path of the file.
    scale : float
        Divisor of bytes and times.

    Raises
    ------
    TdmError
        The message names the file, the job, the field and the fix.
    """
    if scale <= 0:
        raise TdmError(f"scale: {scale:g} must be positive")
    try:
        text = read_text(path)
    except OSError as error:
        raise TdmError(f"{path}: {error.strerror}; 'p4reduce example jobs' prints a file to begin with") from None
    except UnicodeDecodeError:
        raise TdmError(f"{path}: is not UTF-8 text") from None
    if len(text) > _LIMIT:
        raise TdmError(f"{path}: larger than {_LIMIT} bytes")
    jobs = []
    for number, line in enumerate(_csv(text) if path.suffix == ".csv" else _yaml(text, path)):
        try:
            jobs.append(JobLine.model_validate(line).job(scale))
        except ValidationError as error:
            problem = error.errors()[0]
            field = ".".join(str(part) for part in problem["loc"][:1])
            message = problem["msg"].removeprefix("Value error, ")
            raise TdmError(f"{path}: jobs[{number}].{field}: {message} (it says {short(problem['input'])})") from None
        except TdmError as error:
            raise TdmError(f"{path}: {error}") from None
    return jobs


def _yaml(text: str, path: Path) -> list[Any]:
    try:
        data = read_yaml(text, limit=_LIMIT)
    except YamlError as error:
        raise TdmError(f"{path}: {error}") from None
    if not isinstance(data, dict) or set(data) != {"jobs"} or not isinstance(data["jobs"], list):
        raise TdmError(f"{path}: a file of jobs is a mapping with one list, 'jobs'")
    return data["jobs"]


def _csv(text: str) -> list[dict[str, Any]]:
    rows = csv.DictReader(io.StringIO(text))
    return [{key: value for key, value in row.items() if value not in ("", None)} for row in rows]


# The network of jobs: pods around an optical cross-connect.


Parallel = Literal["bonded", "striped"]
_BITS: Final = 8
_MOST: Final = 1 << 16
"""largest number of pods, servers of a pod, and ports: far above any cross-connect that is built"""


@dataclass(frozen=True)
class OpticalNetwork:
    """P pods, each with one ToR switch and its servers; the ToRs are joined by an optical cross-connect (OXC).

    Hosts have the names of `p4reduce.topologies.optical`: 'h1', 'h2', ... pod by pod, ToRs 'tor1', ... in the order of
    pods. Everywhere else a pod is its index, from 0.
    """

    pods: int
    """P, the number of pods"""
    servers: int
    """s, the number of hosts of each pod; each has one NIC"""
    rate_bps: int
    """b, bit/s of a NIC in each direction"""
    ports: int
    """R, ports of each ToR to the OXC; a circuit takes one at both of its ends and is full duplex"""
    port_rate_bps: int
    """B, bit/s of a port to the OXC in each direction"""
    gpus: int = 1
    """number of GPUs of each server; a unit of a job takes one"""
    delta_s: float = 200e-6
    """seconds in which ports whose circuits change carry nothing, including the receivers' lock time"""
    parallel: Parallel = "bonded"
    """whether L circuits between the same pods are one link of L * B (bonded), or L links of B (striped)"""

    def __post_init__(self) -> None:
        for field, least in (("pods", 1), ("servers", 1), ("ports", 0), ("gpus", 1)):
            value = getattr(self, field)
            if not least <= value <= _MOST:
                raise TdmError(f"{field}: {value} is not between {least} and {_MOST}")
        for field in ("rate_bps", "port_rate_bps"):
            if getattr(self, field) <= 0:
                raise TdmError(f"{field}: must be positive; write for example rate=25G")
        if not 0 <= self.delta_s < float("inf"):
            raise TdmError(f"delta: {self.delta_s} s is no duration; write for example delta=200us")
        if self.parallel not in ("bonded", "striped"):
            raise TdmError(f"parallel: {self.parallel!r} is neither bonded nor striped")

    @property
    def pod_gpus(self) -> int:
        """Number of GPUs of a pod."""
        return self.servers * self.gpus

    @property
    def all_gpus(self) -> int:
        """Number of GPUs of all pods."""
        return self.pods * self.pod_gpus

    @property
    def nic(self) -> float:
        """Bytes a second of a NIC in each direction."""
        return self.rate_bps / _BITS

    @property
    def circuit(self) -> float:
        """Bytes a second of one circuit in each direction."""
        return self.port_rate_bps / _BITS

    def host(self, pod: int, server: int) -> str:
        """Return the name of a host from its pod and its server number, both counted from 0."""
        return f"h{pod * self.servers + server + 1}"

    def pod_of(self, host: str) -> int:
        """Return the pod of a host. Raises `TdmError` for an unknown host."""
        digits = host.removeprefix("h")
        known = host.startswith("h") and digits.isascii() and digits.isdecimal() and len(digits) < 10
        number = int(digits) - 1 if known and not digits.startswith("0") else -1
        if not 0 <= number < self.pods * self.servers:
            raise TdmError(f"there is no host {host[:40]!r}; hosts are h1 to h{self.pods * self.servers}")
        return number // self.servers

    def with_delta(self, delta_s: float) -> "OpticalNetwork":
        """Return the same network with another reconfiguration time."""
        return replace(self, delta_s=delta_s)


def parse_network(spec: str) -> OpticalNetwork:
    """Return the network of ``oxc:pods=8,hosts=4,ports=4,rate=25G`` with optional port_rate, delta, gpus and parallel.

    ``port_rate`` is ``rate`` by default. Other parameters of the topology builder of the same name (delay, name,
    capable, planes) do not matter for schedules and are ignored.

    Raises
    ------
    TdmError
        The message names the parameter and the fix.
    """
    kind, colon, rest = spec.partition(":")
    if kind != "oxc" or not colon:
        raise TdmError(f"{spec[:60]!r} is no optical network; write oxc:pods=8,hosts=4,ports=4,rate=25G")
    given: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key or not value:
            raise TdmError(f"{spec[:60]!r}: {item[:40]!r} is no 'parameter=value'")
        if key in given:
            raise TdmError(f"{spec[:60]!r}: {key[:40]} is given twice")
        given[key] = value
    known = {*_COUNTS, "rate", "port_rate", "delta", "parallel", "delay", "name", "capable", "planes"}
    if unknown := given.keys() - known:
        raise TdmError(f"{spec[:60]!r}: {min(unknown)[:40]} is none of {', '.join(sorted(known))}")
    if missing := [name for name in ("pods", "hosts", "ports") if name not in given]:
        raise TdmError(f"{spec[:60]!r}: {missing[0]} is missing")
    try:
        rate = parse_rate(given.get("rate", "10G"))
        port_rate = parse_rate(given["port_rate"]) if "port_rate" in given else rate
        delta = parse_delay(given.get("delta", "200us")) / PS_PER_S
    except (TopologyError, ValueError) as error:
        raise TdmError(f"{spec[:60]!r}: {error}") from None
    values: dict[str, Any] = {
        field: _count(spec, name, given[name]) for name, field in _COUNTS.items() if name in given
    }
    return OpticalNetwork(
        rate_bps=rate,
        port_rate_bps=port_rate,
        delta_s=delta,
        parallel=given.get("parallel", "bonded"),  # type: ignore[arg-type]  # checked when it is made
        **values,
    )


def planes_of(spec: str) -> int:
    """Return the number of cross-connects of a network specification: 1 by default, 2 with ``planes=2``."""
    given = dict(item.partition("=")[::2] for item in spec.partition(":")[2].split(","))
    return _count(spec, "planes", given.get("planes", "1").strip())


_COUNTS: Final = {"pods": "pods", "hosts": "servers", "ports": "ports", "gpus": "gpus"}


def _count(spec: str, name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise TdmError(f"{spec[:60]!r}: {name}: {text[:40]!r} is no whole number")
    return int(text)


# The assignment of units to the servers of a pod, and the load of their NICs.


Placement = tuple[tuple[str, int], ...]


def on_hosts(
    jobs: Sequence[TdmJob], units: Sequence[Sequence[int]], network: OpticalNetwork, *, longest_last: bool = False
) -> list[Placement]:
    """Return (host, units) of each job, given the number of its units in each pod; jobs share no GPU.

    The largest job is placed first, in the fullest server with room for all of it, since units on one server are summed
    before they send. Named hosts are kept. With ``longest_last`` the order among equals is reversed: if two layers of
    jobs are placed in opposite orders, jobs that train long share GPUs with jobs that train short.

    Raises
    ------
    TdmError
        When a named host or a pod has no GPU left.
    """
    free = np.full((network.pods, network.servers), network.gpus, np.int64)
    placed: list[dict[str, int]] = [{} for _ in jobs]
    for job, own in zip(jobs, placed, strict=True):
        for host in job.hosts:
            pod, server = network.pod_of(host), (int(host[1:]) - 1) % network.servers
            free[pod, server] -= 1
            own[host] = own.get(host, 0) + 1
            if free[pod, server] < 0:
                raise TdmError(f"job {job.name[:40]!r}: workers: {host} has no GPU left")
    sign = 1 if longest_last else -1
    order = sorted(range(len(jobs)), key=lambda j: (-units_on_one(units[j], network), sign * jobs[j].compute_s, j))
    order = [j for j in order if not jobs[j].hosts]
    for pod in range(network.pods):
        left = free[pod]
        for j in order:
            wanted = units[j][pod]
            while wanted:
                room = [server for server in range(network.servers) if left[server] >= wanted]
                server = min(room, key=lambda s: left[s]) if room else int(left.argmax())
                took = min(wanted, int(left[server]))
                if not took:
                    raise TdmError(f"job {jobs[j].name[:40]!r}: pod {pod + 1} has no GPU left")
                left[server] -= took
                wanted -= took
                host = network.host(pod, server)
                placed[j][host] = placed[j].get(host, 0) + took
    return [tuple(sorted(own.items(), key=lambda item: int(item[0][1:]))) for own in placed]


def units_on_one(units: Sequence[int], network: OpticalNetwork) -> int:
    """Return the largest number of a job's units that one server may hold; 1 if servers have one GPU."""
    return min(network.gpus, max(units, default=0))


def host_bytes(job: TdmJob, placement: Placement) -> dict[str, int]:
    """Return the bytes of each NIC in an iteration in each direction: (4) for one server, in the corrected reading.

    PS, RAR: the vector up and down; GPUs of one server are summed first. A2A: both phases, to units elsewhere.
    """
    if job.kind != "a2a":
        return {host: job.bytes for host, _ in placement}
    total = sum(units for _, units in placement)
    return {host: 2 * units * (total - units) * job.bytes for host, units in placement}


def busiest_nic_s(jobs: Sequence[TdmJob], placements: Sequence[Placement], network: OpticalNetwork) -> float:
    """Return max over servers of D_server / b, in seconds."""
    carried: dict[str, int] = {}
    for job, placement in zip(jobs, placements, strict=True):
        for host, sent in host_bytes(job, placement).items():
            carried[host] = carried.get(host, 0) + sent
    return max(carried.values(), default=0) / network.nic


def busiest_gpu_s(jobs: Sequence[TdmJob], placements: Sequence[Placement], network: OpticalNetwork) -> float:
    """Return the seconds until all jobs have trained: a server's GPU seconds over its GPUs, or the longest job."""
    work: dict[str, float] = {}
    longest = 0.0
    for job, placement in zip(jobs, placements, strict=True):
        alone = job.compute_on(sum(units for _, units in placement))
        longest = max(longest, alone)
        for host, units in placement:
            work[host] = work.get(host, 0.0) + alone * units / network.gpus
    return max(longest, max(work.values(), default=0.0))


# The number of GPUs of elastic jobs.


LEAST = 2
"""least number of units of an elastic job, since one unit has no other to communicate with"""


def share_gpus(jobs: Sequence[TdmJob], gpus: int) -> list[int]:
    """Return g_j of a group ('utilizing all GPUs', Algorithm 2): elastic jobs share the GPUs that gangs leave.

    Each of these GPUs in turn goes to the elastic job that would train longest, for equal training times.

    Raises
    ------
    TdmError
        When there are not enough GPUs.
    """
    given = [LEAST if job.elastic else job.units for job in jobs]
    left = gpus - sum(given)
    if left < 0:
        raise TdmError(f"{sum(given)} units for {gpus} GPUs; use fewer workers, or more hosts")
    elastic = [j for j, job in enumerate(jobs) if job.elastic]
    for _ in range(left if elastic else 0):
        given[max(elastic, key=lambda j: jobs[j].work / given[j])] += 1
    return given


def release_gpus(jobs: Sequence[TdmJob], given: Sequence[int], training_s: float, window_s: float) -> list[int]:
    """Release GPUs (end of Algorithm 1): g_j <- ceil(g_j W / T) if the group trains for W in a window of T >= W.

    The jobs with the longest training then train for T at most; gangs keep their GPUs.
    """
    if window_s <= training_s:
        return list(given)
    return [
        max(LEAST, min(units, -int(-units * training_s // window_s))) if job.elastic else units
        for job, units in zip(jobs, given, strict=True)
    ]
