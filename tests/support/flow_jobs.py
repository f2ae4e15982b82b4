"""Several jobs that alternate computation and all-reduce, on packets and in the flow model, with their times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from p4reduce.control_plane.counters import Operation
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.plans.make import make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.network.flow import FlowNetwork, Transfer
from p4reduce.network.jobs.network import BLOCK, EmbeddedSwitches, Job, JobNetwork, bundled
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from tests.support.flow_settings import JobsSetting


@dataclass
class Rounds:
    """Communication time of each job, summed over its rounds, in ps."""

    communicated_ps: list[int] = field(default_factory=list)
    dropped: int = 0

    @property
    def total_ps(self) -> int:
        """Communication time of all jobs in ps."""
        return sum(self.communicated_ps)


def _play(
    setting: JobsSetting,
    now: Callable[[], int],
    begin: Callable[[int, int], None],
    advance: Callable[[int | None, Sequence[int]], None],
    ended: Callable[[int], int | None],
) -> list[int]:
    """Run all rounds; return the communication time of each job in ps.

    ``begin(job, round)`` starts a collective, ``advance(until, jobs)`` stops when one of them is done, ``ended(job)``
    returns the end time or None.
    """
    start = now()
    due = {number: start + job.start_ps + job.compute_ps for number, job in enumerate(setting.jobs)}
    began: dict[int, int] = {}
    done, communicated = [0] * len(setting.jobs), [0] * len(setting.jobs)
    while due or began:
        for number in [number for number, at in due.items() if at <= now()]:
            del due[number]
            began[number] = now()
            begin(number, done[number])
        advance(min(due.values(), default=None), list(began))
        for number in list(began):
            end = ended(number)
            if end is None:
                continue
            communicated[number] += end - began.pop(number)
            done[number] += 1
            if done[number] < setting.jobs[number].rounds:
                due[number] = end + setting.jobs[number].compute_ps
    return communicated


def _requests(setting: JobsSetting) -> list[PlanRequest]:
    return [
        PlanRequest(plan=job.plan, job=number + 1, workers=job.workers, priority=job.priority, lanes=setting.lanes)
        for number, job in enumerate(setting.jobs)
    ]


def on_packets(setting: JobsSetting) -> Rounds:
    """Run the jobs on packets in virtual time."""
    program = bundled(setting.lanes)
    with EmbeddedSwitches(setting.topology, program) as switches, JobNetwork(switches) as network:
        jobs = [network.add(switches.controller.start_job(request)) for request in _requests(setting)]
        arrays = [[np.ones(job.elements, np.float32) for _ in job.workers] for job in setting.jobs]

        def begin(number: int, turn: int) -> None:
            for index, array in zip(jobs[number].members.values(), arrays[number], strict=True):
                network.post(index, Post(Collective.ALL_REDUCE, array, array, turn))

        def advance(until: int | None, under: Sequence[int]) -> None:
            watch = [index for number in under for index in jobs[number].endpoints]
            network.advance(until, watch, first=bool(watch))

        def ended(number: int) -> int | None:
            if any(network.status(index).state is not EndpointState.DONE for index in jobs[number].members.values()):
                return None
            return network.done_ps(jobs[number])

        communicated = _play(setting, lambda: network.now, begin, advance, ended)
        return Rounds(communicated, sum(link.queue_drops for link in network.fabric.links.values()))


def as_flows(setting: JobsSetting) -> Rounds:
    """Run the jobs in the flow model."""
    network, resources = FlowNetwork(setting.topology), Resources()
    jobs: list[Job] = [
        network.add(make_plan(setting.topology, request, resources), BLOCK) for request in _requests(setting)
    ]
    under: dict[int, Transfer] = {}

    def begin(number: int, turn: int) -> None:
        del turn
        under[number] = network.begin([(jobs[number], setting.jobs[number].elements)], Operation.ALL_REDUCE)

    def advance(until: int | None, watched: Sequence[int]) -> None:
        network.advance(until, [under[number] for number in watched])

    return Rounds(_play(setting, lambda: network.now, begin, advance, lambda number: under[number].done_ps))
