"""What a worker process is told: which endpoints it has, how its socket is bound, and what it is to move, as JSON."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from p4reduce.control_plane.plans import Plan
from p4reduce.jobs.job import Job, add_endpoints, timing_of
from p4reduce.topologies import Topology
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.numbers import BlockFloat, FixedScale
from p4reduce.workers.settings import FIXED, PS_PER_MS, Congestion, HostAddress, Timing

SocketAddress = tuple[str, int]
"""IPv4 address and UDP port."""
Make = Literal["add_worker", "add_server", "add_ps_worker", "add_ps_server", "add_ring"]
PATIENCE_S: Final = 60.0
"""After so long without any answer a worker gives up."""
_VALUES: Final = {kind.__name__: kind for kind in (HostAddress, Timing, Congestion, BlockFloat, FixedScale)}
"""What an argument of an endpoint may be, beside integers and lists."""


class EndpointSpec(BaseModel):
    """One endpoint: a method of ``Endpoints`` and its arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    job: int
    serves: bool
    """Whether it is the job's parameter server."""
    ring: bool
    make: Make
    arguments: dict[str, Any]
    """Integers, lists, and dataclasses of ``_VALUES`` as dictionaries with a key ``is``."""

    def add_to(self, endpoints: Endpoints) -> int:
        """Make the endpoint; its index. ``ValueError`` or ``TypeError`` for arguments that it does not take."""
        index: int = getattr(endpoints, self.make)(**{name: _decoded(value) for name, value in self.arguments.items()})
        return index


class SocketSpec(BaseModel):
    """Where the process's socket is: plain UDP, or with ``remote`` a tunnel to a switch port."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    local: SocketAddress
    remote: SocketAddress | None = None
    rate_bps: int = Field(0, ge=0)
    """The process sends no faster than this; 0: as fast as it can."""


class WorkerSpec(BaseModel):
    """All that a worker process needs to know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str
    rank: int = Field(ge=0)
    """0 .. size-1; ``size`` for the host of a parameter server."""
    size: int = Field(ge=1)
    """Number of workers."""
    seed: int = Field(0, ge=0)
    socket: SocketSpec
    endpoints: list[EndpointSpec]
    jobs: dict[str, int]
    """The job that carries an operation: ``all_reduce``, ``push`` …, and ``broadcast/0`` from rank 0."""
    patience_s: float = Field(PATIENCE_S, gt=0)

    @property
    def lanes(self) -> int:
        """Of the longest frame."""
        return max(int(endpoint.arguments["lanes"]) for endpoint in self.endpoints)

    @property
    def address(self) -> HostAddress:
        """The host's own address, which all its endpoints have."""
        found = _decoded(self.endpoints[0].arguments["link"])
        assert isinstance(found, HostAddress)  # noqa: S101
        return found


def endpoint_specs(
    jobs: Iterable[Job],
    topology: Topology,
    *,
    queue_frames: int,
    congestion: Congestion = FIXED,
    timing: Timing | None = None,
) -> dict[str, list[EndpointSpec]]:
    """The endpoints of every host in ``jobs``, made as for virtual time, but described instead of made.

    ``timing`` as ``real_timing`` gives it if absent. Fills in the jobs' ``members`` and ``server`` with the places
    of their endpoints: job by job, and in each job in the order of ``add_endpoints``.
    """
    found: dict[str, list[EndpointSpec]] = {}
    described = _Described()
    hosts: list[str] = []
    for job in jobs:
        first = len(hosts)
        add_endpoints(
            job,
            topology,
            described,
            lambda host, _index: hosts.append(host),
            queue_frames=queue_frames,
            timing=timing or real_timing(job.plan),
            congestion=congestion,
        )
        for index in range(first, len(hosts)):
            make, arguments = described.calls[index]
            spec = EndpointSpec(
                job=job.plan.job,
                serves=index == job.server,
                ring=bool(job.plan.ring),
                make=make,
                arguments={name: _encoded(value) for name, value in arguments.items()},
            )
            found.setdefault(hosts[index], []).append(spec)
    return found


def real_timing(plan: Plan) -> Timing:
    """Time-outs in real time: what processes that share processors wait for each other is in a round trip too."""
    ideal = timing_of(plan)
    longest = max(ideal.max_ps, 500 * PS_PER_MS)
    return dataclasses.replace(
        ideal,
        initial_ps=max(ideal.initial_ps, 100 * PS_PER_MS),
        min_ps=max(ideal.min_ps, 20 * PS_PER_MS),
        max_ps=longest,
        retries=max(16, round(PATIENCE_S * 1000) * PS_PER_MS // longest),
    )


class _Described(Endpoints):
    """Notes what is asked for instead of making it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Make, dict[str, Any]]] = []

    def _note(self, make: Make, names: tuple[str, ...], given: tuple[Any, ...], named: Mapping[str, Any]) -> int:
        self.calls.append((make, {**dict(zip(names, given, strict=True)), **named}))
        return len(self.calls) - 1

    def add_worker(self, *given: Any, **named: Any) -> int:
        return self._note("add_worker", ("link", "parent"), given, named)

    def add_server(self, *given: Any, **named: Any) -> int:
        return self._note("add_server", ("link", "root"), given, named)

    def add_ps_worker(self, *given: Any, **named: Any) -> int:
        return self._note("add_ps_worker", ("link", "server"), given, named)

    def add_ps_server(self, *given: Any, **named: Any) -> int:
        return self._note("add_ps_server", ("link", "members"), given, named)

    def add_ring(self, *given: Any, **named: Any) -> int:
        return self._note("add_ring", ("link", "next", "previous"), given, named)


def _encoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_encoded(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"is": type(value).__name__, **dataclasses.asdict(value)}
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(one) for one in value]
    if isinstance(value, dict):
        kind = _VALUES.get(value.get("is", ""))
        if kind is None:
            raise ValueError(f"endpoint: expected one of {', '.join(_VALUES)}, got {value.get('is')!r}")
        fields = {name: field for name, field in value.items() if name != "is"}
        return kind(**{name: field for name, field in fields.items() if name != "mode"})
    return value
