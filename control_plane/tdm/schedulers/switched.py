"""Two groups that take turns, each with its own circuits: the source's (`seed`), ours (`tdm`), and `random`."""

from collections.abc import Sequence

from p4reduce.control_plane.tdm.assemble import carry, configurations, placements
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.gpus import release_gpus
from p4reduce.control_plane.tdm.grouping import (
    Partition,
    Rounds,
    hill_climbing,
    process_times,
    random_split,
    search_partition,
)
from p4reduce.control_plane.tdm.groups import GroupPlan, SeedGroups, TreeGroups
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.registry import Options, register_scheduler
from p4reduce.control_plane.tdm.schedule import Cycle, JobPlan, Process, Schedule


@register_scheduler("seed")
def seed(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """The source: Algorithms 1 to 3, then GPUs released where a group waits (g_j <- ceil(g_j W / T))."""
    planner = SeedGroups(jobs, network, direct=options.best)
    rounds = Rounds(jobs, planner, network.delta_s, options.reading)
    found = search_partition(rounds, seed=options.seed) if options.best else hill_climbing(rounds)
    best = _released(found, planner, network, options)
    return two_groups("seed", jobs, network, options, best)


@register_scheduler("tdm")
def tdm(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """Ours: few pods, trees of ToRs, pipelined chunks, flips and swaps from several starts, local search."""
    return two_groups("tdm", jobs, network, options, best_partition(jobs, network, options))


@register_scheduler("random")
def random(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """Groups drawn at random, placed as `tdm` places: what choosing groups is worth."""
    rounds = Rounds(jobs, _trees(jobs, network, options), network.delta_s, options.reading)
    for attempt in range(100):
        drawn = random_split(jobs, network.all_gpus, options.seed * 1000 + attempt)
        found = None if drawn is None else rounds.of(drawn)
        if found is not None:
            return two_groups("random", jobs, network, options, found)
    raise TdmError("no random partition fits the GPUs; use fewer workers, or more hosts")


def best_partition(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Partition:
    """Two groups, as `tdm` chooses them."""
    rounds = Rounds(jobs, _trees(jobs, network, options), network.delta_s, options.reading)
    return search_partition(rounds, restarts=options.restarts, seed=options.seed)


def two_groups(
    policy: str, jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options, partition: Partition
) -> Schedule:
    """A schedule of two processes; of one where a group is empty."""
    times = process_times(partition, network.delta_s, options.reading)
    starts = (0.0, times[0])
    alone = not all(group.jobs for group in partition.groups)
    plans: list[JobPlan] = []
    processes: list[Process] = []
    for number, group in enumerate(partition.groups):
        if not group.jobs:
            continue
        start = 0.0 if alone else starts[number]
        lasts = sum(times) if alone else times[number]
        carried = carry(jobs, group, network)
        process = Process(configurations(carried, start, lasts, network), start, lasts)
        where = placements(jobs, group, network, other_way=number == 1)
        for j, given in zip(group.jobs, group.given, strict=True):
            trained = jobs[j].compute_on(given)
            plans.append(
                JobPlan(
                    jobs[j].name,
                    where[j],
                    cycle=0,
                    process=len(processes),
                    group=number,
                    trees=carried.trees.get(j, ()),
                    ring=carried.rings.get(j),
                    routes=carried.routes.get(j, ()),
                    train_start_s=0.0 if alone else starts[1 - number],
                    train_s=trained,
                    start_s=start + (group.training_s if alone else network.delta_s),
                    duration_s=group.communication_s,
                )
            )
        processes.append(process)
    order = {job.name: place for place, job in enumerate(jobs)}
    plans.sort(key=lambda plan: order[plan.job])
    cycle = Cycle(tuple(job.name for job in jobs), sum(times), "gated")
    return Schedule(
        policy, network, tuple(plans), tuple(processes), (cycle,), sum(times), options.clock, options.guard_s
    )


def _trees(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> TreeGroups:
    return TreeGroups(jobs, network, moves=options.moves, seed=options.seed)


def _released(partition: Partition, planner: SeedGroups, network: OpticalNetwork, options: Options) -> Partition:
    """The end of Algorithm 1; what it evaluates is what it adopts."""
    one, other = partition.groups
    times = process_times(partition, network.delta_s, options.reading)
    found: list[GroupPlan] = []
    for group, window in ((one, times[1]), (other, times[0])):
        own = [planner.jobs[j] for j in group.jobs]
        given = release_gpus(own, group.given, group.training_s, window)
        found.append(planner.plan(group.jobs, given) if group.jobs and given != list(group.given) else group)
    released = Partition((found[0], found[1]), 0.0)
    time = sum(process_times(released, network.delta_s, options.reading))
    return Partition(released.groups, time) if time <= partition.round_s else partition
