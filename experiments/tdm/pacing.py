"""How fast hosts send blocks: as fast as the busiest link takes them, with all that is sent at the same time.

Sums wait for their results, so a window bounds what of them queues. The streams of an all-to-all are paced: two jobs of
one turn that each took a circuit for themselves would fill its queue. Here all of a turn end together: a job's time is
that of the busiest link that it crosses, with everybody's frames on it, and its hosts spread their chunks over that.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from p4reduce.control_plane.frames import HEADER_BYTES, frame_time_ps
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.window import ACK_EVERY
from p4reduce.control_plane.tdm.schedule import Cycle, JobPlan, Schedule
from p4reduce.control_plane.tdm.turns import turns_of
from p4reduce.experiments.tdm.parts import Installed, Part
from p4reduce.topologies.model import Hop

Load = Counter[Hop]
"""picoseconds that links are busy"""
RatesOf = Callable[[JobPlan, int], Mapping[Hop, int]]
"""bit/s of the circuits that are lit in a configuration of a job's process, by the (node, port) that they leave"""
PHASES = 2
"""dispatch, combine: each has half of the time that all of a turn take"""


def set_paces(schedule: Schedule, installed: Mapping[str, Installed], rates: RatesOf) -> None:
    """Give the blocks of every all-to-all their paces, configuration by configuration."""
    turns = {number: list(_turns(schedule, cycle)) for number, cycle in enumerate(schedule.cycles)}
    for cycle, own in turns.items():
        for turn in own:
            blocks = [(installed[name].plan, one) for name in turn for one in installed[name].parts if one.blocked]
            for configuration in sorted({number for _, one in blocks for number in one.blocked}):
                total = _sum(_load(installed[name], configuration, rates) for name in turn)
                for number, others in turns.items():
                    if number != cycle:
                        total += _busiest(_sum(_load(installed[name], 0, rates) for name in other) for other in others)
                for plan, part in blocks:
                    if configuration in part.blocked:
                        part.paces[configuration] = _paces(part, configuration, total, rates(plan, configuration))


def _turns(schedule: Schedule, cycle: Cycle) -> Iterable[list[str]]:
    """Who sends at the same time; where nobody is gated, each for itself: nobody knows of others."""
    return turns_of(schedule, cycle).values() if cycle.mode == "gated" else ([name] for name in cycle.jobs)


def _paces(part: Part, configuration: int, total: Load, rates: Mapping[Hop, int]) -> list[int]:
    own = blocks_load(part, configuration, rates)
    takes = max((total[hop] for hop in own), default=0) // PHASES
    chunks = -(-part.elements // (len(part.job.members) * part.job.plan.lanes))
    lit = (part.blocked[configuration] == 0).sum(axis=1)
    return [int(takes // (chunks * count)) if count else 0 for count in lit.tolist()]


def _load(one: Installed, configuration: int, rates: RatesOf) -> Load:
    """All phases of a job on every link."""
    lit = rates(one.plan, configuration)
    return _sum(
        blocks_load(part, configuration, lit) if part.blocked else _sum_load(part)
        for part in one.parts
        if part.in_configuration(configuration)
    )


def _sum_load(part: Part) -> Load:
    found: Load = Counter()
    for hop, traffic in part.predicted.items():
        if traffic.frames:
            rate = part.job.plan.topology.link_at(*hop).rate_bps
            found[hop] += traffic.frames * frame_time_ps(traffic.bytes // traffic.frames, rate)
    return found


def blocks_load(part: Part, configuration: int, rates: Mapping[Hop, int]) -> Load:
    """What the blocks of a configuration take on every link, with what acknowledges them."""
    plan: Plan = part.job.plan
    chunks = -(-part.elements // (len(part.job.members) * plan.lanes))
    hosts = list(part.job.members)
    found: Load = Counter()
    for rank, row in enumerate(part.blocked[configuration].tolist()):
        for step, closed in enumerate(row, 1):
            if closed:
                continue
            pair = hosts[rank], hosts[(rank + step) % len(hosts)]
            for (a, b), frames, length in (
                (pair, chunks, plan.frame_bytes),
                (pair[::-1], -(-chunks // ACK_EVERY), HEADER_BYTES),
            ):
                for hop in plan.path_hops(a, b):
                    # A port has other circuits in other configurations.
                    rate = rates[hop] if hop in rates else plan.topology.link_at(*hop).rate_bps
                    found[hop] += frames * frame_time_ps(length, rate)
    return found


def _sum(loads: Iterable[Load]) -> Load:
    found: Load = Counter()
    for load in loads:
        found.update(load)
    return found


def _busiest(loads: Iterable[Load]) -> Load:
    found: Load = Counter()
    for load in loads:
        for hop, value in load.items():
            found[hop] = max(found[hop], value)
    return found
