"""Reading a switch's slots: who has contributed to a chunk, and who is missing."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from p4reduce.control_plane.plans.plan import Aggregator, Child, Plan
from p4reduce.workers.status import WaitStatus

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


# Whom a chunk waits for, as names: the data path's evidence against members of a job that say nothing any more.


def blamed(plan: Plan, seq: int, read: ReadCell) -> frozenset[str]:
    """Workers and switches whose contributions chunk ``seq`` lacks, in the whole tree; nobody where it is done.

    A switch is named with what is missing below it: its link, or itself, may be to blame as well. Where a slot cannot
    be read, all below its switch are named. For plans in the network; of others, hosts know whom they wait for.

    Where a switch has all contributions and no result, its first child is named too: it alone asks on for the others
    (p4src/slot.p4), and if it has died, a result that was lost on the way down never comes.
    """
    silent = {_asks_for_all(plan, aggregator, seq, read) for aggregator in plan.aggregators}
    return frozenset(_missing_names(plan, plan.aggregators[0], seq, read) | (silent - {""}))


def _asks_for_all(plan: Plan, aggregator: Aggregator, seq: int, read: ReadCell) -> str:
    """The worker that has to ask a switch for a result that this waits for, too; "" where it does not."""
    cell = read(aggregator.name, slot_index(aggregator, seq))
    slot = None if cell is None else SlotState.unpack(cell)
    first = min(aggregator.children, key=lambda child: child.bit)
    if slot is None or slot.generation != plan.generation or slot.seq != seq or slot.done or not first.is_worker:
        return ""
    return first.name if all(slot.bitmap & child.mask for child in aggregator.children) else ""


def _missing_names(plan: Plan, aggregator: Aggregator, seq: int, read: ReadCell) -> set[str]:
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
                found |= _missing_names(plan, plan.by_switch[child.name], seq, read)
    return found


def out_of_turn(plan: Plan, seqs: Collection[int], read: ReadCell, *, pulls: bool) -> frozenset[str]:
    """Workers that took slots of chunks which some member still lacks, when it was not their turn.

    seqs: chunks that members lack. pulls: whether the operation's chunks are asked for (PULL), not contributed to.
    A slot that was opened by packets of the other kind is closed to all who say what they should; so is one of a chunk
    that lies a whole lap of the slots ahead, which nobody sends who keeps to the window: at most half of the slots.
    """
    found: set[str] = set()
    for aggregator in plan.aggregators:
        for seq in seqs:
            cell = read(aggregator.name, slot_index(aggregator, seq))
            slot = None if cell is None else SlotState.unpack(cell)
            if slot is None or slot.generation != plan.generation or slot.done:
                continue
            lap = 0 < (slot.seq - seq) & 0xFFFFFFFF < 1 << 31
            if lap or (slot.seq == seq and slot.pull != pulls):
                found |= {child.name for child in aggregator.children if child.is_worker and slot.bitmap & child.mask}
    return frozenset(found)


# Who is awaited, by what switches told the workers that asked (docs/protocol.md, Loss): it needs no registers.


def awaited_at(plan: Plan, worker: str, wait: WaitStatus) -> tuple[str, tuple[str, ...]]:
    """What a WAIT says: a switch, or the server's host, and the nodes whose contributions it lacks.

    Nobody is named where the contributions of all are in, and the answer is on its way or lost.
    """
    above = dict(plan.edges)
    node = worker
    for _ in range(wait.level):
        node = above.get(node, plan.server or node)
    aggregator = plan.by_switch.get(node)
    if aggregator is None:
        names = plan.workers if not plan.in_network else (plan.root,)
        return node, tuple(name for bit, name in enumerate(names) if wait.awaited >> bit & 1)
    return node, tuple(child.name for child in aggregator.children if child.mask & wait.awaited)


def explain_waits(plan: Plan, waits: Mapping[str, WaitStatus | None]) -> list[str]:
    """One line for each switch that somebody was told to wait for, oldest chunk first; ``waits`` by worker.

    Where a switch waits for another one, and workers behind that were told whom it waits for, only that is said: "slot
    17 of leaf2 waits for worker 3 (h3)".
    """
    told = {name: wait for name, wait in waits.items() if wait is not None}
    if not told:
        return []
    oldest = min(wait.seq for wait in told.values())
    found = dict(awaited_at(plan, name, wait) for name, wait in told.items() if wait.seq == oldest)
    lines = []
    for node, names in found.items():
        ends = [name for name in names if not found.get(name)]
        if ends:
            who = ", ".join(_name(plan, name) for name in ends)
            slot = f"slot {slot_index(plan.by_switch[node], oldest)} of " if node in plan.by_switch else ""
            lines.append(f"chunk {oldest}: {slot}{node} waits for {who}")
    return lines


def _name(plan: Plan, node: str) -> str:
    if node in plan.workers:
        return f"worker {plan.workers.index(node)} ({node})"
    behind = [name for name in plan.workers if _is_behind(plan, name, node)]
    return f"the sum of {node}, {len(behind)} workers" if node in plan.by_switch else node


def _is_behind(plan: Plan, worker: str, node: str) -> bool:
    above, at = dict(plan.edges), worker
    while at in above:
        at = above[at]
        if at == node:
            return True
    return False
