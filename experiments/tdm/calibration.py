"""What packets take beyond the bytes of a schedule: headers, and the round trips before the first result.

A schedule reckons with bytes over rates. On packets a vector takes ``frames`` times as long (1,110 bytes on a link for
1,024 of 256 lanes are 1.084) and ``lead_s`` more, both measured here on jobs that have the network to themselves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from p4reduce.control_plane.tdm.jobs import Kind, TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.schedule import Configuration, Cycle, JobPlan, Process, Route, Schedule, Tree
from p4reduce.experiments.tdm.packets import play
from p4reduce.experiments.tdm.turns import turns_of

SIZES = (400_000, 3_200_000)
"""bytes of the vectors that are measured"""


@dataclass(frozen=True)
class Factors:
    """Seconds on packets = ``frames`` * seconds of bytes over rates + ``lead_s``."""

    frames: float
    lead_s: float

    def of(self, seconds: float) -> float:
        """Seconds on packets."""
        return self.frames * seconds + self.lead_s if seconds > 0 else 0.0


def measure(network: OpticalNetwork) -> dict[Kind, Factors]:
    """Factors of trees and of all-to-all in a network of at least two pods, from two sizes each."""
    found: dict[Kind, Factors] = {}
    kinds: tuple[Kind, ...] = ("rar", "a2a")
    for kind in kinds:
        points = []
        for size in SIZES:
            schedule, job, ideal_s = alone(network, kind, size)
            points.append((ideal_s, play(schedule, {job.name: job}, rounds=1).round_s))
        (small, took_small), (large, took_large) = points
        frames = (took_large - took_small) / (large - small)
        found[kind] = Factors(frames, took_small - frames * small)
    found["ps"] = found["rar"]
    return found


def alone(network: OpticalNetwork, kind: Kind, size: int) -> tuple[Schedule, TdmJob, float]:
    """A job of one host in each of two pods that only communicates; and the seconds of its bytes on a NIC."""
    hosts = (network.host(0, 0), network.host(1, 0))
    circuits = tuple(tuple(int({i, j} == {0, 1}) for j in range(network.pods)) for i in range(network.pods))
    block = size // 4 * 4
    plan = JobPlan(
        "alone",
        tuple((host, 1) for host in hosts),
        0,
        0,
        0,
        trees=() if kind == "a2a" else (Tree(0, ((1, 0),), 1.0),),
        routes=(Route((0, 1), 1.0), Route((1, 0), 1.0)) if kind == "a2a" else (),
    )
    process = Process((Configuration(circuits, 0.0, 1.0),), 0.0, 1.0)
    rate = min(network.nic, network.circuit)
    schedule = Schedule(
        "alone",
        replace(network, parallel="bonded"),
        (plan,),
        (process,),
        (Cycle(("alone",), 1.0, "gated"),),
        block / rate,
    )
    return schedule, TdmJob("alone", kind, block, 0.0, 2), block / rate


def model_round_s(schedule: Schedule, jobs: Sequence[TdmJob], factors: Mapping[Kind, Factors]) -> float:
    """t_round of a gated schedule with these factors: sum over k of max(delta + C_k, W of the others).

    C_k is that of the group's longest window as scheduled. Where all communicate at once, training comes before.
    """
    kinds = {job.name: job.kind for job in jobs}
    plans = {plan.job: plan for plan in schedule.jobs}
    groups = turns_of(schedule, schedule.cycles[0])
    sent = [max(factors[kinds[name]].of(plans[name].duration_s) for name in own) for own in groups.values()]
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
