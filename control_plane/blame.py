"""Whom a chunk waits for, as names: the data path's evidence against members of a job that say nothing any more."""

from p4reduce.control_plane.plans.plan import Aggregator, Plan
from p4reduce.control_plane.slots import ReadCell, SlotState, slot_index


def blamed(plan: Plan, seq: int, read: ReadCell) -> frozenset[str]:
    """Workers and switches whose contributions chunk ``seq`` lacks, in the whole tree; nobody where it is done.

    A switch is named with what is missing below it: its link, or itself, may be to blame as well. Where a slot cannot
    be read, all below its switch are named. For plans in the network; of others, hosts know whom they wait for.

    Where a switch has all contributions and no result, its first child is named too: it alone asks on for the others
    (p4src/slot.p4), and if it has died, a result that was lost on the way down never comes.
    """
    silent = {_asks_for_all(plan, aggregator, seq, read) for aggregator in plan.aggregators}
    return frozenset(_missing(plan, plan.aggregators[0], seq, read) | (silent - {""}))


def _asks_for_all(plan: Plan, aggregator: Aggregator, seq: int, read: ReadCell) -> str:
    """The worker that has to ask a switch for a result that this waits for, too; "" where it does not."""
    cell = read(aggregator.name, slot_index(aggregator, seq))
    slot = None if cell is None else SlotState.unpack(cell)
    first = min(aggregator.children, key=lambda child: child.bit)
    if slot is None or slot.generation != plan.generation or slot.seq != seq or slot.done or not first.is_worker:
        return ""
    return first.name if all(slot.bitmap & child.mask for child in aggregator.children) else ""


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
