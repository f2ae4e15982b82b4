"""A job in the network: its plan, the endpoints of its hosts, and what it has carried so far."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from p4reduce.control_plane.frames import frame_time_ps
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.make import HOST_WINDOW
from p4reduce.control_plane.plans.plan import Address
from p4reduce.control_plane.plans.window import ACK_EVERY, with_margin
from p4reduce.control_plane.predict import Hop, Operation, Traffic, add, predict
from p4reduce.topologies import Topology
from p4reduce.workers.endpoints import MAX_RING_WINDOW, Endpoints
from p4reduce.workers.numbers import BlockFloat, Numbers
from p4reduce.workers.settings import PS_PER_MS, PS_PER_US, Congestion, HostAddress, Timing

PATIENCE_PS = 60 * 1000 * PS_PER_MS
"""Virtual time without any answer after which a worker gives up: others may compute for as long."""
DRIFT = 8
"""Windows by which one worker of the host-side parameter server may be ahead of another."""
Place = Callable[[str, int], None]
"""Told the host of each endpoint that is made: (host, index)."""


@dataclass
class Job:
    """One installed plan with an endpoint for each of its hosts."""

    plan: Plan
    numbers: Numbers | None
    """How its lanes add up in the network; None: hosts add float32."""
    members: dict[str, int] = field(default_factory=dict)
    """Endpoint of each worker, by host."""
    server: int | None = None
    """Endpoint of the parameter server."""
    carried: list[tuple[Operation, int, int]] = field(default_factory=list)
    """Operation, elements and lead of every collective so far."""

    @property
    def endpoints(self) -> list[int]:
        """All its endpoints."""
        return [*self.members.values(), *([] if self.server is None else [self.server])]

    def note(self, operation: str, elements: int, *, words: bool = False) -> None:
        """Remember a collective for the prediction; ``words``: its lanes were added as they are, without exponents."""
        sums = operation in {"all_reduce", "push", "push_pull"}
        lead = self.plan.window if sums and isinstance(self.numbers, BlockFloat) and not words else 0
        self.carried.append((Operation(operation), elements, lead))

    def predicted(self) -> dict[Hop, Traffic]:
        """First transmissions of all collectives so far, on every directed link."""
        times: dict[tuple[Operation, int, int], int] = {}
        for what in self.carried:
            times[what] = times.get(what, 0) + 1
        parts = []
        for (operation, elements, lead), count in times.items():
            once = predict(self.plan, operation, elements, lead=lead)
            parts.append({hop: Traffic(one.frames * count, one.bytes * count) for hop, one in once.items()})
        return add(*parts)


def add_endpoints(
    job: Job,
    topology: Topology,
    endpoints: Endpoints,
    place: Place,
    *,
    queue_frames: int,
    first_seq: int = 0,
    timing: Timing | None = None,
    congestion: Congestion | None = None,
) -> None:
    """Give every host of the job's plan its endpoint.

    timing: that of the plan's links if absent. congestion: the plan's window, paced as its busiest link, if absent.
    """
    plan = job.plan
    restrained = congestion is None or congestion.adaptive
    if congestion is None:
        congestion = Congestion(pace_ps=pace_of(plan))
    window = ps_window(plan, queue_frames, restrained=restrained)
    maker = _Maker(job, topology, endpoints, window, first_seq, timing or timing_of(plan), congestion)
    for worker in plan.workers:
        if plan.ring:
            index = maker.ring(worker)
        elif plan.in_network:
            index = maker.worker(worker)
        else:
            index = maker.ps_worker(worker)
        job.members[worker] = index
        place(worker, index)
    if plan.server is not None:
        job.server = maker.server() if plan.in_network else maker.ps_server()
        place(plan.server, job.server)


def timing_of(plan: Plan) -> Timing:
    """Time-outs for a plan: a few round trips, but never below what queues behind a window may add.

    They grow little: who waits for a worker that still computes asks again now and then, and goes on at once when it
    comes. A worker gives up after about ``PATIENCE_PS`` without any answer.
    """
    queued = plan.rtt_ps + plan.window * plan.chunk_ps
    longest = max(10 * PS_PER_MS, 20 * queued)
    return Timing(
        initial_ps=max(PS_PER_MS, 4 * queued),
        min_ps=max(50 * PS_PER_US, 2 * queued),
        max_ps=longest,
        retries=max(16, PATIENCE_PS // longest),
    )


def pace_of(plan: Plan) -> int:
    """Time between chunks for workers whose own links are faster than the plan's busiest one, picoseconds; else 0."""
    if plan.ring:
        return 0  # acknowledgements pace it
    links = (plan.topology.link_at(worker, plan.up(worker).port) for worker in plan.workers)
    quickest = min(frame_time_ps(plan.frame_bytes, link.rate_bps) for link in links)
    return plan.chunk_ps if plan.chunk_ps > quickest else 0


def ps_window(plan: Plan, queue_frames: int, *, restrained: bool) -> int:
    """Chunks in flight of each worker of the host-side parameter server.

    What the round trip needs, as trees get it, and at least a share of the queue before the server's link. Workers that
    are not ``restrained``, neither paced nor adaptive, would fill that queue with more than their share of it. What
    the server keeps of all its workers is limited.
    """
    workers = len(plan.workers)
    share = queue_frames // workers
    enough = max(share, with_margin(plan.window_needed)) if restrained else share
    return max(1, min(plan.window, enough, HOST_WINDOW // workers))


@dataclass(frozen=True)
class _Maker:
    job: Job
    topology: Topology
    endpoints: Endpoints
    ps_window: int
    first_seq: int
    timing: Timing
    congestion: Congestion

    @property
    def _common(self) -> Mapping[str, int]:
        plan = self.job.plan
        return {"job": plan.job, "epoch": plan.epoch, "lanes": plan.lanes, "first_seq": self.first_seq}

    def _link(self, host: str) -> HostAddress:
        node = self.topology.node(host)
        return HostAddress(node.mac, node.ip)

    def worker(self, host: str) -> int:
        plan = self.job.plan
        assert self.job.numbers is not None  # noqa: S101
        return self.endpoints.add_worker(
            self._link(host),
            host_address(plan.up(host)),
            slots=plan.slots,
            members=len(plan.workers),
            numbers=self.job.numbers,
            lead=plan.window,
            timing=self.timing,
            congestion=self.congestion,
            **self._common,
        )

    def server(self) -> int:
        plan = self.job.plan
        assert self.job.numbers is not None  # noqa: S101
        assert plan.server is not None  # noqa: S101
        return self.endpoints.add_server(
            self._link(plan.server),
            host_address(plan.address(plan.server, plan.root)),
            slots=plan.slots,
            members=len(plan.workers),
            numbers=self.job.numbers,
            lead=plan.window,
            **self._common,
        )

    def ring(self, host: str) -> int:
        plan = self.job.plan
        place, size = plan.ring.index(host), len(plan.ring)
        following, before = plan.ring[(place + 1) % size], plan.ring[place - 1]
        own = self._link(host)
        return self.endpoints.add_ring(
            own,
            own if size == 1 else host_address(plan.address(host, following)),
            own if size == 1 else host_address(plan.address(host, before)),
            rank=place,
            size=size,
            window=min(max(plan.window, ACK_EVERY + 1), MAX_RING_WINDOW),
            ack_every=ACK_EVERY,
            timing=self.timing,
            congestion=self.congestion,
            **self._common,
        )

    def ps_worker(self, host: str) -> int:
        plan = self.job.plan
        return self.endpoints.add_ps_worker(
            self._link(host),
            host_address(plan.up(host)),
            window=self.ps_window,
            members=len(plan.workers),
            timing=self.timing,
            congestion=self.congestion,
            **self._common,
        )

    def ps_server(self) -> int:
        plan = self.job.plan
        assert plan.server is not None  # noqa: S101
        members = [host_address(plan.address(plan.server, worker)) for worker in plan.workers]
        # Where packets are lost, workers drift apart; a server that remembers more lets the fast ones go on.
        remembered = max(self.ps_window, min(DRIFT * self.ps_window, HOST_WINDOW // len(members)))
        return self.endpoints.add_ps_server(self._link(plan.server), members, window=remembered, **self._common)


def host_address(address: Address) -> HostAddress:
    """Where an endpoint sends its frames."""
    return HostAddress(address.mac, address.ip, address.udp)
