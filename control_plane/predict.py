"""The bytes that a collective puts on every link, before it is run."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.frames import HEADER_BYTES, chunks, frame_bytes
from p4reduce.control_plane.plans.plan import Plan
from p4reduce.control_plane.plans.window import ACK_EVERY
from p4reduce.topologies.model import Hop


class Operation(StrEnum):
    """The collectives."""

    ALL_REDUCE = "all_reduce"
    PUSH = "push"
    PULL = "pull"
    PUSH_PULL = "push_pull"
    BARRIER = "barrier"
    ALL_TO_ALL = "all_to_all"


@dataclass(frozen=True, slots=True)
class Traffic:
    """INC frames sent for the first time, and their bytes without FCS."""

    frames: int = 0
    bytes: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.frames + other.frames, self.bytes + other.bytes)

    def __sub__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.frames - other.frames, self.bytes - other.bytes)


@dataclass(frozen=True, slots=True)
class Exchange:
    """Frames of a collective between a child and its parent: with and without lanes, up and down."""

    up_full: int
    up_empty: int
    down_full: int
    down_empty: int


def exchange(plan: Plan, operation: Operation, elements: int, lead: int | None = None) -> Exchange:
    """The frames on every edge of a tree or star.

    Parameters
    ----------
    plan : Plan
        A plan of a tree or star.
    operation : Operation
        The collective.
    elements : int
        Numbers that each worker gives or gets; not used by a barrier.
    lead : int
        Chunks whose exponent is agreed ahead by an empty PUSH, answered by an empty RESULT (block floating point; all
        chunks if there are fewer). None: the plan's window. 0: a fixed scale. Never sent by a star.

    Raises
    ------
    PlanError
        When the operation needs a server that the plan lacks.
    """
    if operation not in (Operation.ALL_REDUCE, Operation.BARRIER) and plan.server is None:
        raise PlanError(f"{operation} needs a parameter server; the plan of job {plan.job} has none")
    if operation is Operation.BARRIER:
        return Exchange(0, 1, 0, 1)
    full = _chunks(plan, elements)
    if operation is Operation.PULL:
        return Exchange(0, full, full, 0)
    ahead = min(plan.lead if lead is None else lead, full) if plan.in_network else 0
    if operation is Operation.PUSH:
        return Exchange(full, ahead, 0, full + ahead)
    return Exchange(full, ahead, full, ahead)


def predict(plan: Plan, operation: Operation | str, elements: int, *, lead: int | None = None) -> dict[Hop, Traffic]:
    """First transmissions of one collective on every directed link of the topology.

    A ring sends 2 (n-1) ceil(C/n) full frames from every worker to the next, and acknowledges
    :data:`~p4reduce.control_plane.plans.window.ACK_EVERY` of them with one empty frame. Trees and stars: see
    :func:`exchange`, which also explains the parameters. A barrier of a ring is an all-reduce of one element. In an
    all-to-all of n workers ``elements`` are n equal blocks; each ordered pair is a stream of one block's frames,
    acknowledged as in the ring.

    Returns
    -------
    dict
        (node, port) -> Traffic; links that carry nothing are there with zeros.

    Raises
    ------
    PlanError
        When the plan cannot do the operation.
    """
    total = {end: Traffic() for link in plan.topology.links for end in ((link.a, link.port_a), (link.b, link.port_b))}
    for (source, destination), traffic in _flows(plan, Operation(operation), elements, lead).items():
        for hop in plan.path_hops(source, destination):
            total[hop] += traffic
    return total


def _flows(plan: Plan, operation: Operation, elements: int, lead: int | None) -> dict[tuple[str, str], Traffic]:
    """Traffic of every overlay hop."""
    flows: Counter[tuple[str, str, int]] = Counter()
    full, empty = frame_bytes(plan.lanes), HEADER_BYTES
    if plan.mesh != (operation is Operation.ALL_TO_ALL):
        raise PlanError(f"plan {plan.name!r} of job {plan.job} cannot do {operation}")
    if plan.mesh:
        n = len(plan.workers)
        if elements % n:
            raise PlanError(f"elements: {elements} are no equal blocks for {n} workers")
        frames = _chunks(plan, elements // n)
        for source, destination in plan.edges:
            flows[(source, destination, full)] += frames
            flows[(destination, source, empty)] += -(-frames // ACK_EVERY)
    elif plan.ring:
        if operation not in (Operation.ALL_REDUCE, Operation.BARRIER):
            raise PlanError(f"a ring does all_reduce, not {operation}; use plan 'ps' or a tree with a server")
        n = len(plan.ring)
        count = _chunks(plan, 1 if operation is Operation.BARRIER else elements)
        frames = 2 * (n - 1) * -(-count // n)
        for child, parent in plan.edges:
            flows[(child, parent, full)] += frames
            flows[(parent, child, empty)] += -(-frames // ACK_EVERY)
    else:
        share = exchange(plan, operation, elements, lead)
        for child, parent in plan.edges:
            flows[(child, parent, full)] += share.up_full
            flows[(child, parent, empty)] += share.up_empty
            flows[(parent, child, full)] += share.down_full
            flows[(parent, child, empty)] += share.down_empty
    total: dict[tuple[str, str], Traffic] = {}
    for (source, destination, length), frames in flows.items():
        known = total.get((source, destination), Traffic())
        total[(source, destination)] = known + Traffic(frames, frames * length)
    return total


def add(*predictions: Mapping[Hop, Traffic]) -> dict[Hop, Traffic]:
    """The sum of several predictions: of collectives one after the other, or of several jobs."""
    total: dict[Hop, Traffic] = {}
    for prediction in predictions:
        for hop, traffic in prediction.items():
            total[hop] = total.get(hop, Traffic()) + traffic
    return total


def _chunks(plan: Plan, elements: int) -> int:
    if elements < 1:
        raise PlanError(f"elements: {elements} is too few; a collective moves at least one")
    return chunks(elements, plan.lanes)
