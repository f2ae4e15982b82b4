"""A schedule played at flow level: max-min shares of NICs and circuits, GPUs that are shared, dark times.

Each job trains, then communicates: a collective is one flow that uses, at the same rate, every NIC and every circuit
that its trees or routes cross. Rates are max-min fair (progressive filling); GPUs divide among those that train there.
Groups that are gated wait for each other, switch, and wait for delta where circuits change. Bytes are multiplied by a
factor: what headers, and the first and last round trips, add on packets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.hosts import host_bytes
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.schedule import JobPlan, Schedule

FRAMES: Final = 1.084
"""bytes on a link over bytes of lanes: frames of 256 lanes"""
_CLOSE: Final = 1e-9
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FlowResult:
    """What became of a schedule."""

    rounds_s: tuple[float, ...]
    """of gated schedules: each round; else empty"""
    iteration_s: Mapping[str, float]
    """mean of whole iterations, the first left out where there are more"""
    dark_s: float
    """during which somebody waited for circuits"""


def play_flows(schedule: Schedule, jobs: Sequence[TdmJob], *, iterations: int = 3, factor: float = 1.0) -> FlowResult:
    """Play a schedule until every job has done so many iterations.

    Parameters
    ----------
    schedule : Schedule
        With one configuration a process; trees, rings or direct routes.
    jobs : sequence of TdmJob
        Of the schedule, in any order.
    iterations : int
        Rounds, where jobs are gated.
    factor : float
        On bytes: 1, or :data:`FRAMES`.

    Raises
    ------
    TdmError
        When a process has several configurations, or a job has a circuit that is not lit.
    """
    if any(len(process.configurations) != 1 for process in schedule.processes):
        raise TdmError("flow model: takes one configuration a process; play this schedule on packets")
    by_name = {job.name: job for job in jobs}
    flows = _Flows(schedule, [by_name[plan.job] for plan in schedule.jobs], factor)
    one_cycle = len(schedule.cycles) == 1 and schedule.cycles[0].mode == "gated"
    barrier = one_cycle and (len(schedule.processes) == 2 or all(plan.train_start_s == 0 for plan in schedule.jobs))
    return _gated(schedule, flows, iterations) if barrier else _free(schedule, flows, iterations)


class _Flows:
    """Who uses what."""

    def __init__(self, schedule: Schedule, jobs: Sequence[TdmJob], factor: float) -> None:
        self.schedule = schedule
        network = schedule.network
        resources: dict[tuple[object, ...], int] = {}
        capacity: list[float] = []
        rows: list[int] = []
        columns: list[int] = []
        shares: list[float] = []
        self.sent = np.zeros(len(jobs))
        for j, (plan, job) in enumerate(zip(schedule.jobs, jobs, strict=True)):
            used = _resources(schedule, plan, job)
            self.sent[j] = factor * max(size for size, _ in used.values())
            for name, (size, rate) in used.items():
                if name not in resources:
                    resources[name] = len(capacity)
                    capacity.append(rate)
                rows.append(j)
                columns.append(resources[name])
                shares.append(factor * size / self.sent[j])
        shape = (len(jobs), len(capacity))
        self.use = csr_matrix((shares, (rows, columns)), shape=shape)
        self.capacity = np.array(capacity)
        hosts = sorted({host for plan in schedule.jobs for host, _ in plan.placement})
        place = {host: number for number, host in enumerate(hosts)}
        at = [
            (j, place[host], units / network.gpus)
            for j, plan in enumerate(schedule.jobs)
            for host, units in plan.placement
        ]
        rows, columns, shares = [a for a, _, _ in at], [b for _, b, _ in at], [c for _, _, c in at]
        self.gpus = csr_matrix((shares, (rows, columns)), shape=(len(jobs), len(hosts)))
        self.train = np.array([plan.train_s for plan in schedule.jobs])

    def rates(self, active: npt.NDArray[np.bool_]) -> Floats:
        """Bytes a second of each flow, max-min fair: the most loaded resource is filled first, and so on."""
        rate = np.zeros(len(active))
        left = self.capacity.copy()
        rising = active.copy()
        while rising.any():
            load = np.asarray(self.use[np.flatnonzero(rising)].sum(axis=0)).ravel()
            room = np.divide(left, load, out=np.full(len(left), np.inf), where=load > 1e-12)
            step = float(room.min())
            rate[rising] += step
            left -= step * load
            full = room <= step * (1 + _CLOSE)
            stopped = np.asarray(self.use[:, np.flatnonzero(full)].sum(axis=1)).ravel() > 0
            rising &= ~stopped
        return rate

    def speeds(self, training: npt.NDArray[np.bool_]) -> Floats:
        """Share of its GPUs that each job has: that of its busiest host."""
        load = np.asarray(self.gpus[np.flatnonzero(training)].sum(axis=0)).ravel()
        busiest = np.maximum(load, 1.0)
        found = np.zeros(len(training))
        for j in np.flatnonzero(training):
            own = self.gpus.indices[self.gpus.indptr[j] : self.gpus.indptr[j + 1]]
            found[j] = 1.0 / float(busiest[own].max())
        return found


def _resources(schedule: Schedule, plan: JobPlan, job: TdmJob) -> dict[tuple[object, ...], tuple[float, float]]:
    """(bytes, bytes a second) of each NIC and each bond of circuits that a job uses."""
    network = schedule.network
    twice = 2.0 if plan.ring or any(not tree.pipelined for tree in plan.trees) else 1.0
    found: dict[tuple[object, ...], tuple[float, float]] = {
        (host,): (twice * size, network.nic) for host, size in host_bytes(job, plan.placement).items()
    }
    lit = schedule.processes[plan.process].configurations[0].circuits
    electrical = not any(map(any, lit))
    pods: dict[int, int] = {}
    for host, units in plan.placement:
        pods[network.pod_of(host)] = pods.get(network.pod_of(host), 0) + units
    sent: dict[tuple[int, int], float] = {}
    for tree in plan.trees:
        for edge in tree.edges:
            sent[edge] = sent.get(edge, 0.0) + twice * tree.share * job.bytes
    if plan.ring:
        order = plan.ring.order
        for a, b in zip(order, (*order[1:], order[0]), strict=True):
            if a != b:
                sent[a, b] = sent.get((a, b), 0.0) + 2.0 * plan.ring.bytes_a_phase
    for route in plan.routes:
        size = 2.0 * job.bytes * pods[route.path[0]] * pods[route.path[-1]] * route.share
        for edge in zip(route.path, route.path[1:], strict=False):
            sent[edge] = sent.get(edge, 0.0) + size
    for (a, b), size in sent.items():
        if electrical:
            continue
        if not lit[a][b]:
            raise TdmError(f"job {plan.job[:40]!r}: no circuit joins pods {a + 1} and {b + 1} in its process")
        pair = (plan.process, min(a, b), max(a, b))
        if plan.trees:  # both directions carry the same
            before = found.get(pair, (0.0, 0.0))[0]
            found[pair] = (before + size, lit[a][b] * network.circuit)
        else:
            found[(*pair, a)] = (size, lit[a][b] * network.circuit)
    return found


def _gated(schedule: Schedule, flows: _Flows, rounds: int) -> FlowResult:
    """Groups in turns, or all together (one process): each waits until the other has done its part."""
    group = np.array([plan.process for plan in schedule.jobs])
    processes = schedule.processes
    lit = [process.configurations[0].circuits for process in processes]
    times, dark_s = [], 0.0
    for _ in range(rounds):
        now = 0.0
        for number in range(len(processes)):
            talks = group == number
            dark = schedule.network.delta_s if lit[number] != lit[number - 1] else 0.0
            dark_s += dark
            sending = dark + _drain(flows, talks)
            trains = _train(flows, ~talks if len(processes) > 1 else talks)
            now += max(sending, trains) if len(processes) > 1 else sending + trains
        times.append(now)
    mean = sum(times) / len(times)
    return FlowResult(tuple(times), {plan.job: mean for plan in schedule.jobs}, dark_s)


def _drain(flows: _Flows, active: npt.NDArray[np.bool_]) -> float:
    left = np.where(active, flows.sent, 0.0)
    now = 0.0
    while (left > 0).any():
        rate = flows.rates(left > 0)
        busy = left > 0
        step = float((left[busy] / rate[busy]).min())
        left = np.where(busy, left - step * rate, 0.0)
        left[left <= _CLOSE * flows.sent] = 0.0
        now += step
    return now


def _train(flows: _Flows, active: npt.NDArray[np.bool_]) -> float:
    left = np.where(active, flows.train, 0.0)
    now = 0.0
    while (left > 0).any():
        busy = left > 0
        speed = flows.speeds(busy)
        step = float((left[busy] / speed[busy]).min())
        left = np.where(busy, left - step * speed, 0.0)
        left[left <= _CLOSE * flows.train] = 0.0
        now += step
    return now


def _free(schedule: Schedule, flows: _Flows, iterations: int) -> FlowResult:
    """Jobs of cycles without a common barrier. Within a gated cycle the next to communicate waits for who does."""
    for cycle in schedule.cycles:
        if cycle.mode not in ("free",) and len(cycle.jobs) > 1:
            raise TdmError(f"flow model: plays gated rounds and free sharing, not mode {cycle.mode}")
    count = len(schedule.jobs)
    phase = np.zeros(count, np.int64)
    left = flows.train.copy()
    done, first, last = np.zeros(count, np.int64), np.zeros(count), np.zeros(count)
    now = 0.0
    while done.min() < iterations:
        training, talking = phase == 0, phase == 1
        speed = flows.speeds(training) + np.where(talking, flows.rates(talking), 0.0)
        step = float((left / speed).min())
        now += step
        left = left - step * speed
        scale = np.where(training, flows.train, flows.sent)
        for j in np.flatnonzero(left <= _CLOSE * scale):
            if phase[j] == 1:
                done[j] += 1
                first[j] = now if done[j] == 1 else first[j]
                last[j] = now
            phase[j] = 1 - phase[j]
            left[j] = flows.train[j] if phase[j] == 0 else flows.sent[j]
    means = np.where(done > 1, (last - first) / np.maximum(done - 1, 1), last)
    return FlowResult((), {plan.job: float(means[j]) for j, plan in enumerate(schedule.jobs)}, 0.0)
