"""Whom a chunk waits for, as names: the data path's evidence against members of a job that say nothing any more."""

from p4reduce.control_plane.plans.plan import Aggregator, Plan
from p4reduce.control_plane.slots import ReadCell, SlotState, slot_index


def blamed(plan: Plan, seq: int, read: ReadCell) -> frozenset[str]:
    """Workers and switches whose contributions chunk ``seq`` lacks, in the whole tree; nobody where it is done.

    A switch is named with what is missing below it: its link, or itself, may be to blame as well. Where a slot cannot
    be read, all below its switch are named. For plans in the network; of others, hosts know whom they wait for.
    """
    return frozenset(_missing(plan, plan.aggregators[0], seq, read))


def _missing(plan: Plan, aggregator: Aggregator, seq: int, read: ReadCell) -> set[str]:
    cell = read(aggregator.name, slot_index(aggregator, seq))
    if cell is None:
        return {aggregator.name, *plan.workers_below(aggregator.name)}
    slot = SlotState.unpack(cell)
    ours = slot.generation == plan.generation
    if ours and slot.seq != seq and (slot.seq - seq) & 0xFFFFFFFF < 1 << 31:
        return set()  # a later chunk: this one was done long ago
    there = slot.bitmap if ours and slot.seq == seq else 0
    found: set[str] = set()
    for child in aggregator.children:
        if not there & child.mask:
            found.add(child.name)
            if not child.is_worker:
                found |= _missing(plan, plan.by_switch[child.name], seq, read)
    return found
