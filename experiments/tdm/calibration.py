"""What packets take beyond the bytes of a schedule: headers, and the round trips before the first result.

A schedule reckons with bytes over rates. On packets a vector takes ``frames`` times as long (1,110 bytes on a link for
1,024 of 256 lanes are 1.084) and ``lead_s`` more, both measured here on jobs that have the network to themselves.
"""

from collections.abc import Sequence
from dataclasses import replace

from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.schedule import Configuration, Cycle, JobPlan, Process, Route, Schedule, Tree
from p4reduce.control_plane.tdm.turns import turns_of
from p4reduce.experiments.tdm.factors import WAYS, Factors, FactorsOf, Way, way_of
from p4reduce.experiments.tdm.installing import WORD
from p4reduce.experiments.tdm.packets import LANES, play

SIZES = (400_000, 3_200_000)
"""bytes of the vectors that are measured"""


def measure(network: OpticalNetwork) -> dict[Way, Factors]:
    """Factors of each way in a network of at least two pods, from two sizes each."""
    found: dict[Way, Factors] = {}
    for way in WAYS:
        points = []
        for size in SIZES:
            schedule, job = alone(network, way, size)
            points.append((schedule.round_s, play(schedule, {job.name: job}, rounds=1).round_s))
        (small, took_small), (large, took_large) = points
        frames = (took_large - took_small) / (large - small)
        found[way] = Factors(frames, took_small - frames * small, LANES * WORD)
    return found


def alone(network: OpticalNetwork, way: Way, size: int) -> tuple[Schedule, TdmJob]:
    """A job of one host in each of two pods that only communicates; a round is the seconds of its bytes on a NIC."""
    hosts = (network.host(0, 0), network.host(1, 0))
    circuits = tuple(tuple(int({i, j} == {0, 1}) for j in range(network.pods)) for i in range(network.pods))
    block = size // 4 * 4
    job = TdmJob("alone", "a2a" if way == "all-to-all" else "ps", block, 0.0, 2)
    plan = JobPlan(
        "alone",
        tuple((host, 1) for host in hosts),
        0,
        0,
        0,
        trees=() if way == "all-to-all" else (Tree(0, ((1, 0),), 1.0, pipelined=way == "tree"),),
        routes=(Route((0, 1), 1.0), Route((1, 0), 1.0)) if way == "all-to-all" else (),
    )
    process = Process((Configuration(circuits, 0.0, 1.0),), 0.0, 1.0)
    takes = (1 if way == "tree" else 2) * block / min(network.nic, network.circuit)
    cycle = Cycle(("alone",), 1.0, "gated")
    bonded = replace(network, parallel="bonded")
    return Schedule("alone", bonded, (plan,), (process,), (cycle,), takes), job


def model_round_s(schedule: Schedule, jobs: Sequence[TdmJob], factors: FactorsOf) -> float:
    """t_round of a gated schedule with these factors: sum over k of max(delta + C_k, W of the others).

    C_k is that of the group's longest window as scheduled. Where all communicate at once, training comes before.
    """
    plans = {plan.job: plan for plan in schedule.jobs}
    ways = {job.name: way_of(job, plans[job.name]) for job in jobs}
    groups = turns_of(schedule, schedule.cycles[0])
    sent = [max(factors[ways[name]].of(plans[name].duration_s) for name in own) for own in groups.values()]
    if len(groups) == 1:
        return max(plan.start_s for plan in schedule.jobs) + sent[0]
    trained = [max(plans[name].train_s for name in own) for own in groups.values()]
    circuits = [process.configurations[-1].circuits for process in schedule.processes]
    total = 0.0
    for place, took in enumerate(sent):
        changes = len(circuits) > 1 and circuits[place] != circuits[place - 1]
        others = max(own for other, own in enumerate(trained) if other != place)
        total += max(took + (schedule.network.delta_s if changes else 0.0), others)
    return total
