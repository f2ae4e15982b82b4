"""What a worker process is told: which endpoints it has, how its socket is bound, and what it is to move, as JSON."""

import dataclasses
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Discriminator, Field

from p4reduce.control_plane.plans import Plan
from p4reduce.group.membership import OnFailure
from p4reduce.network.jobs.specs import timing_of
from p4reduce.workers.specs import EndpointSpec, HostAddress, ServerSpec, Timing, WorkerSpec
from p4switch.base.units import PS_PER_MS

SocketAddress = tuple[str, int]
"""IPv4 address and UDP port."""
PATIENCE_S: Final = 60.0
"""After so long without any answer a worker gives up."""


class SocketSpec(BaseModel):
    """Where the process's socket is: plain UDP, or with ``remote`` a tunnel to a switch port."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    local: SocketAddress
    remote: SocketAddress | None = None
    rate_bps: int = Field(0, ge=0)
    """The process sends no faster than this; 0: as fast as it can."""


class ProcessSpec(BaseModel):
    """All that a worker process needs to know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str
    rank: int = Field(ge=0)
    """0 .. size-1; ``size`` for the host of a parameter server."""
    size: int = Field(ge=1)
    """Number of workers, with those that may join."""
    seed: int = Field(0, ge=0)
    socket: SocketSpec
    endpoints: list[Annotated[EndpointSpec, Discriminator("kind")]]
    jobs: dict[str, int]
    """The job that carries an operation: ``all_reduce``, ``push`` …, and ``broadcast/0`` from rank 0."""
    patience_s: float = Field(PATIENCE_S, gt=0)
    quorum: int = Field(1, ge=1)
    """Contributions that are enough, where endpoints are of a job with a deadline."""
    records: str | None = None
    """File in which its endpoints' records are kept, for those who look on."""

    @property
    def lanes(self) -> int:
        """Of the longest frame."""
        return max(endpoint.lanes for endpoint in self.endpoints)

    @property
    def address(self) -> HostAddress:
        """The host's own address, which all its endpoints have."""
        return self.endpoints[0].link


class ScriptSpec(BaseModel):
    """What a user's script is told, beside what a worker is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    worker: ProcessSpec
    folder: str
    """Where it leaves its report."""
    coordinator: str
    """Path of the coordinator's socket (runs/real/coordinator.py)."""
    on_failure: OnFailure = "abort"
    members: tuple[int, ...] = ()
    """Who takes part at first; nobody: this one joins, and its endpoint is that of the group that takes it in."""
    grows: bool = False
    """Whether others may join."""

    @staticmethod
    def report(rank: int) -> str:
        """What it leaves behind."""
        return f"rank-{rank}.report"


def for_bmv2(spec: EndpointSpec, *, growth: int, most: int | None) -> EndpointSpec:
    """An endpoint as BMv2 needs it, which makes a packet longer by ``growth`` bytes at most.

    most: chunks on their way where a deadline keeps more than those open; None: as many.
    """
    if isinstance(spec, WorkerSpec | ServerSpec) and 4 * spec.lanes > growth:
        spec = dataclasses.replace(spec, repeats=True)
    if isinstance(spec, WorkerSpec) and spec.closes and most is not None:
        spec = dataclasses.replace(spec, window=min(most, spec.most))
    return spec


def real_timing(plan: Plan) -> Timing:
    """Time-outs in real time: what processes that share processors wait for each other is in a round trip too."""
    ideal = timing_of(plan)
    longest = max(ideal.max_ps, 500 * PS_PER_MS)
    # Questions cost little, so that workers of trees and stars may ask early; in a circle whole frames go again.
    asks = not plan.ring and not plan.mesh
    return dataclasses.replace(
        ideal,
        initial_ps=max(ideal.initial_ps, (20 if asks else 100) * PS_PER_MS),
        min_ps=max(ideal.min_ps, (2 if asks else 20) * PS_PER_MS),
        max_ps=longest,
        retries=max(16, round(PATIENCE_S * 1000) * PS_PER_MS // longest),
    )
