"""Reading a switch's slots: who has contributed to a chunk, and who is missing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from p4reduce.control_plane.plans.plan import Aggregator, Child, Plan

ReadCell = Callable[[str, int], int | None]
"""Switch and index of a slot -> its packed state, or None where the target cannot read registers."""

_LINES: Final = 16
"""lines of a diagnosis that are shown"""


@dataclass(frozen=True, slots=True)
class SlotState:
    """A slot's state as p4src/headers.p4 packs it (slot_t)."""

    generation: int
    seq: int
    bitmap: int
    count: int
    exponent: int
    pull: bool
    has_lanes: bool
    result_lanes: bool
    saturated: bool
    ecn: bool
    done: bool

    @classmethod
    def unpack(cls, cell: int) -> "SlotState":
        """From the 128 bits of a register cell."""
        return cls(
            generation=cell >> 96 & 0xFFFFFFFF,
            seq=cell >> 64 & 0xFFFFFFFF,
            bitmap=cell >> 32 & 0xFFFFFFFF,
            count=cell >> 16 & 0xFFFF,
            exponent=cell >> 8 & 0xFF,
            pull=bool(cell >> 7 & 1),
            has_lanes=bool(cell >> 6 & 1),
            result_lanes=bool(cell >> 5 & 1),
            saturated=bool(cell >> 4 & 1),
            ecn=bool(cell >> 3 & 1),
            done=bool(cell >> 2 & 1),
        )


def slot_index(aggregator: Aggregator, seq: int) -> int:
    """The slot of a chunk in a switch."""
    return aggregator.base + (seq & (aggregator.slots - 1))


def who_is_missing(plan: Plan, seq: int, read: ReadCell) -> str:
    """Why chunk ``seq`` of a job is not done, from the slots of its tree.

    Goes down from the root along the children whose contributions are missing, and names those at which it ends:
    workers that have not sent, switches whose partial sum or result is on its way or lost.

    Returns
    -------
    str
        One line for each switch that is to blame; one line when nobody waits.
    """
    head = f"job {plan.job} epoch {plan.epoch}, chunk {seq}"
    if not plan.in_network:
        return f"{head}: plan {plan.name!r} has no slots in the network; its hosts know who is missing"
    root = plan.aggregators[0]
    lines = _explain(plan, root, seq, read) or [f"done at every switch; a worker that lacks it can ask {root.name}"]
    more = [f"... and {len(lines) - _LINES} more"] if len(lines) > _LINES else []
    return "\n".join(f"{head}: {line}" for line in lines[:_LINES] + more)


def _explain(plan: Plan, aggregator: Aggregator, seq: int, read: ReadCell) -> list[str]:
    """Who keeps a switch and those below it from being done; nothing when they are."""
    index = slot_index(aggregator, seq)
    where = f"slot {index} of {aggregator.name}"
    cell = read(aggregator.name, index)
    if cell is None:
        return [f"{where} cannot be read: its target has no P4Runtime registers (the embedded switch has them)"]
    slot = SlotState.unpack(cell)
    ours = slot.generation == plan.generation
    if ours and slot.seq != seq and (slot.seq - seq) & 0xFFFFFFFF < 1 << 31:
        return []  # a later chunk: this one was done long ago
    bitmap = slot.bitmap if ours and slot.seq == seq else 0
    missing = [child for child in aggregator.children if not bitmap & child.mask]
    if missing:
        return _missing(plan, aggregator, seq, read, missing=missing, where=where)
    if not slot.done and aggregator.parent is not None:
        return [f"{where} has every contribution and waits for the result of {aggregator.parent.name}"]
    below = [plan.by_switch[child.name] for child in aggregator.children if not child.is_worker]
    return [line for child in below for line in _explain(plan, child, seq, read)]


def _missing(
    plan: Plan, aggregator: Aggregator, seq: int, read: ReadCell, *, missing: list[Child], where: str
) -> list[str]:
    """Missing workers by name; for a missing switch, what keeps it."""
    named = [node_name(plan, child.name) for child in missing if child.is_worker]
    lines: list[str] = []
    for child in missing:
        if not child.is_worker:
            below = _explain(plan, plan.by_switch[child.name], seq, read)
            lines += below
            if not below or any(f"result of {aggregator.name}" in line for line in below):
                named.append(f"the partial sum of {child.name}")
    return ([f"{where} waits for {', '.join(named)}"] if named else []) + lines


def node_name(plan: Plan, node: str) -> str:
    """A node as people are told of it: a worker with its rank."""
    return f"worker {plan.workers.index(node)} ({node})" if node in plan.workers else node
