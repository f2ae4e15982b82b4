"""The endpoints of a plan's hosts: how many chunks they have in flight, how fast they send, when they send again."""

from collections.abc import Iterator
from typing import Final, TypedDict

from p4reduce.base.units import PS_PER_MS, PS_PER_US
from p4reduce.control_plane.frames import frame_time_ps
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.make import HOST_WINDOW
from p4reduce.control_plane.plans.window import ACK_EVERY, with_margin
from p4reduce.workers.endpoints import REACH
from p4reduce.workers.numbers import BlockFloat, FixedScale
from p4reduce.workers.settings import Congestion, HostAddress, Timing
from p4reduce.workers.specs import (
    MAX_RING_WINDOW,
    AllToAllSpec,
    EndpointSpec,
    PsServerSpec,
    PsWorkerSpec,
    RingSpec,
    ServerSpec,
    WorkerSpec,
)

PATIENCE_PS: Final = 60 * 1000 * PS_PER_MS
"""Virtual time without any answer after which a worker gives up: others may compute for as long."""
DRIFT: Final = 8
"""Windows by which one worker of the host-side parameter server may be ahead of another."""
REORDER: Final = 3
"""chunks that must have overtaken one that a worker takes for missing"""
Numbers = BlockFloat | FixedScale
"""How lanes add up in the network."""


def endpoint_specs(
    plan: Plan,
    numbers: Numbers | None,
    *,
    queue_frames: int,
    first_seq: int = 0,
    timing: Timing | None = None,
    congestion: Congestion | None = None,
) -> Iterator[tuple[str, EndpointSpec]]:
    """The endpoint of every host of a plan: of its workers in rank order, then of its server if there is one.

    numbers: needed by plans that aggregate in the network. timing: that of the plan's links if absent. congestion: the
    plan's window, paced as its busiest link, if absent.
    """
    restrained = congestion is None or congestion.adaptive
    sends = timing or timing_of(plan), congestion or Congestion(pace_ps=pace_of(plan))
    common = _Common(job=plan.job, epoch=plan.epoch, lanes=plan.lanes, first_seq=first_seq, priority=plan.priority or 0)
    if plan.ring:
        yield from _of_ring(plan, common, *sends)
    elif plan.mesh:
        yield from _of_mesh(plan, common, *sends)
    elif plan.in_network:
        assert numbers is not None  # noqa: S101
        yield from _of_tree(plan, numbers, common, *sends)
    else:
        yield from _of_star(plan, ps_window(plan, queue_frames, restrained=restrained), common, *sends)


def guesses_of(plan: Plan, numbers: Numbers | None) -> int:
    """First chunks of an all-reduce whose exponents workers may guess; 0: they guess none.

    Each costs a frame without lanes, and some are wrong, so that they are as few as a round trip needs.
    """
    if not isinstance(numbers, BlockFloat) or not numbers.speculates or plan.deadline_ps is not None:
        return 0
    return min(plan.lead, with_margin(plan.window_needed))


def peer_address(plan: Plan, host: str, peer: str) -> HostAddress:
    """Where a host's endpoint sends its frames to a neighbour of the overlay, and what they show each other."""
    address = plan.address(host, peer)
    return HostAddress(address.mac, address.ip, address.udp, plan.token(host, peer))


def parent_address(plan: Plan, worker: str) -> HostAddress:
    """That of whom a worker contributes to."""
    return peer_address(plan, worker, plan.up(worker).name)


def link_address(plan: Plan, host: str) -> HostAddress:
    """A host's own address."""
    node = plan.topology.node(host)
    return HostAddress(node.mac, node.ip)


def server_peers(plan: Plan) -> tuple[HostAddress, ...]:
    """Whom the server of a plan talks to: the root switch, or every worker; nobody where there is no server."""
    if plan.server is None:
        return ()
    below = [plan.root] if plan.in_network else plan.workers
    return tuple(peer_address(plan, plan.server, name) for name in below)


class _Common(TypedDict):
    job: int
    epoch: int
    lanes: int
    first_seq: int
    priority: int


Made = Iterator[tuple[str, EndpointSpec]]


def _of_tree(plan: Plan, numbers: Numbers, common: _Common, timing: Timing, congestion: Congestion) -> Made:
    slots, members, lead = plan.slots, len(plan.workers), plan.lead
    for host in plan.workers:
        yield (
            host,
            WorkerSpec(
                link_address(plan, host),
                parent_address(plan, host),
                slots=slots,
                window=plan.window,
                deadline_ps=plan.deadline_ps,
                levels=plan.aggregators[-1].level + 1,
                members=members,
                numbers=numbers,
                lead=lead,
                guesses=guesses_of(plan, numbers),
                timing=timing,
                congestion=congestion,
                **common,
            ),
        )
    if plan.server is not None:
        own, (root,) = link_address(plan, plan.server), server_peers(plan)
        yield plan.server, ServerSpec(own, root, slots=slots, members=members, numbers=numbers, lead=lead, **common)


def _of_ring(plan: Plan, common: _Common, timing: Timing, congestion: Congestion) -> Made:
    size = len(plan.ring)
    for host in plan.workers:
        rank, own = plan.ring.index(host), link_address(plan, host)
        after, before = plan.ring[(rank + 1) % size], plan.ring[rank - 1]
        yield (
            host,
            RingSpec(
                own,
                *(own if size == 1 else peer_address(plan, host, other) for other in (after, before)),
                rank=rank,
                size=size,
                window=min(max(plan.window, ACK_EVERY + 1), MAX_RING_WINDOW),
                ack_every=ACK_EVERY,
                timing=timing,
                congestion=congestion,
                **common,
            ),
        )


def _of_mesh(plan: Plan, common: _Common, timing: Timing, congestion: Congestion) -> Made:
    size = len(plan.workers)
    for rank, host in enumerate(plan.workers):
        others = (plan.workers[(rank + step) % size] for step in range(1, size))
        yield (
            host,
            AllToAllSpec(
                link_address(plan, host),
                tuple(peer_address(plan, host, other) for other in others),
                rank=rank,
                window=min(max(plan.window, ACK_EVERY + 1), MAX_RING_WINDOW),
                ack_every=ACK_EVERY,
                timing=timing,
                congestion=congestion,
                **common,
            ),
        )


def _of_star(plan: Plan, window: int, common: _Common, timing: Timing, congestion: Congestion) -> Made:
    members = len(plan.workers)
    # Where packets are lost, workers drift apart; a server that remembers more lets the fast ones go on.
    remembered = max(window, min(DRIFT * window, HOST_WINDOW // members))
    reach = min(REACH * window, remembered)
    for host in plan.workers:
        own, server = link_address(plan, host), parent_address(plan, host)
        yield (
            host,
            PsWorkerSpec(
                own,
                server,
                window=window,
                reach=reach,
                members=members,
                timing=timing,
                congestion=congestion,
                **common,
            ),
        )
    assert plan.server is not None  # noqa: S101
    yield plan.server, PsServerSpec(link_address(plan, plan.server), server_peers(plan), window=remembered, **common)


def timing_of(plan: Plan, ahead_ps: int = 0, *, overtaken: bool = False) -> Timing:
    """Time-outs for a plan: a few round trips; of hosts in a circle, never below what queues behind a window may add.

    overtaken: whether its chunks may overtake each other, because their class changes on their way.
    ahead_ps: what frames of jobs of other classes may add (:func:`~p4reduce.jobs.waiting.ahead_ps`).

    They grow little: who waits for a worker that still computes asks again now and then, and goes on at once when it
    comes. A worker gives up after about ``PATIENCE_PS`` without any answer.
    """
    queued = plan.rtt_ps + plan.window * plan.chunk_ps + ahead_ps
    longest = max(10 * PS_PER_MS, 20 * queued)
    if not plan.ring and not plan.mesh:
        return Timing(
            initial_ps=min(4 * queued, longest),
            min_ps=min(4 * plan.rtt_ps + 2 * ahead_ps, longest),
            max_ps=longest,
            retries=max(16, PATIENCE_PS // longest),
            reorder=None if overtaken else REORDER,
        )
    return Timing(
        initial_ps=max(PS_PER_MS, 4 * queued),
        min_ps=max(50 * PS_PER_US, 2 * queued),
        max_ps=longest,
        retries=max(16, PATIENCE_PS // longest),
        **({"reorder": None} if overtaken else {}),
    )


def pace_of(plan: Plan) -> int:
    """Time between chunks for workers whose own links are faster than the plan's busiest one, picoseconds; else 0."""
    if plan.ring:
        return 0  # acknowledgements pace it
    if plan.mesh:
        return plan.chunk_ps // max(1, len(plan.workers) - 1)
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
