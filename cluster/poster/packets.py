"""One round of many tasks on packets: their trees installed over P4Runtime, their frames through the P4 program."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import TracebackType
from typing import Final, Self

import numpy as np

from p4reduce.cluster.communicator import FloatArray
from p4reduce.cluster.errors import ClusterError
from p4reduce.cluster.jobs import Job, add_endpoints
from p4reduce.cluster.poster.measured import Measured, count_round, links_since, predict_round
from p4reduce.cluster.programs import P4Files
from p4reduce.cluster.switches import EmbeddedSwitches
from p4reduce.cluster.tensors import tensor
from p4reduce.cluster.verify import ExpectedSum, expect_sum
from p4reduce.control_plane.check import compare_counters
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.predict import Hop, Operation, Traffic, add
from p4reduce.control_plane.scheduling.policy import Decision
from p4reduce.control_plane.scheduling.requests import plan_requests
from p4reduce.fabric import Endpoints as FabricEndpoints
from p4reduce.fabric import Stop, VirtualNetwork
from p4reduce.fabric.background import (
    BackgroundEndpoints,
    Demands,
    Loads,
    SourceOptions,
    background_calls,
    gravity,
    link_loads,
)
from p4reduce.fabric.endpoint_calls import worker_endpoints
from p4reduce.topologies import Topology
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Operation as Post
from p4reduce.workers.records import Collective, State

QUEUE_FRAMES: Final = 1024
NUMBERS: Final = FixedScale(2.0**20)
"""One scale for all: no exponents are agreed ahead, so that what is timed is a model up and a model down"""
WARM_UP_PS: Final = 200_000_000
"""of background traffic before the first task: 0.2 ms"""
MEASURED_PS: Final = 2_000_000_000
"""in which utilisation is measured for the scheduler: 2 ms"""
MOST_TASKS: Final = 16
"""in one network at a time: what endpoints keep in memory"""
FIRST_JOB: Final = 1
DEADLINE_S: Final = 300.0
"""for every answer of a switch: all cores are busy with other pieces of the experiment"""


@dataclass
class _Round:
    """A task that is installed: its jobs, and what its local models send."""

    jobs: list[Job]
    inputs: Sequence[FloatArray]
    expected: ExpectedSum


class TaskNetwork:
    """The switches of a scenario, and rounds of tasks on them. Use as a context manager.

    Tasks take turns: each round has the links to itself, but for background traffic, while the trees of the others
    are installed beside it. So each is held against its own bound, and all policies meet the same conditions.

    Parameters
    ----------
    topology : Topology
        The network.
    program : P4Files
        What the switches run.
    elements, lanes : int
        Model size, lanes of a packet.
    load : float
        Of background traffic (:meth:`~p4reduce.fabric.background.Demands.at_load`), 0: none.
    seed : int
        Of tensors and background traffic.
    """

    def __init__(
        self, topology: Topology, program: P4Files, *, elements: int, lanes: int, load: float = 0.0, seed: int = 0
    ) -> None:
        self.topology = topology
        self.elements, self.lanes, self.seed = elements, lanes, seed
        hosts = tuple(host.name for host in topology.hosts)
        self._demands: Demands | None = gravity(hosts, seed).at_load(topology, load) if load else None
        self._expected: list[dict[Hop, Traffic]] = []
        self._targets = np.zeros((len(hosts), elements), np.float32)
        self._switches = EmbeddedSwitches(topology, program, deadline_s=DEADLINE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._switches.close()

    def background(self) -> Loads:
        """What background traffic takes of every link, bit/s, measured on its packets; nothing without it."""
        if self._demands is None:
            return {}
        network, _ = self._network([], None)
        self._advance(network, WARM_UP_PS)
        before, since = dict(network.links), network.now
        self._advance(network, since + MEASURED_PS)
        return link_loads(network, before, since)

    def run(self, decisions: Sequence[Decision]) -> Iterator[Measured]:
        """One round of every task, in their order.

        Raises
        ------
        ClusterError
            When a round does not end, or a sum is wrong.
        """
        waiting = list(decisions)[::-1]
        while waiting:
            plans: list[tuple[Decision, list[Plan]]] = []
            while waiting and len(plans) < MOST_TASKS:
                made = self._plan(waiting[-1], FIRST_JOB + 2 * len(plans), alone=not plans)
                if made is None:
                    break
                plans.append((waiting.pop(), made))
            yield from (one for _, one in self._run_installed(plans, None))

    def add_up(self, decision: Decision, inputs: Sequence[FloatArray]) -> tuple[FloatArray, Measured]:
        """One round with the local models' own arrays.

        Parameters
        ----------
        decision : Decision
            The trees of a task.
        inputs : sequence of float32, each of shape (elements,)
            What each local model sends, in rank order.

        Returns
        -------
        float32 of shape (elements,) and Measured
            The sum that the global model got, and what it took.
        """
        plans = self._plan(decision, FIRST_JOB, alone=True)
        assert plans is not None  # alone: a plan, or an error  # noqa: S101
        ((total, measured),) = self._run_installed([(decision, plans)], inputs)
        return total, measured

    def check_counters(self) -> list[str]:
        """Differences between all predictions so far and what the P4 program counted at its ports."""
        counters = self._switches.controller.read_counters()
        found = compare_counters(self.topology, add({}, *self._expected), counters)
        refused = {name: own.refused for name, own in counters.items() if own.refused}
        return found + [f"{name} refused {dict(reasons)}" for name, reasons in refused.items()]

    # --- installing

    def _plan(self, decision: Decision, job: int, *, alone: bool) -> list[Plan] | None:
        """Plans of a task beside those that are there; None when slots are too few for now."""
        controller = self._switches.controller
        plans: list[Plan] = []
        try:
            for request in plan_requests(decision, job=job, lanes=self.lanes):
                plan = controller.plan(request)
                # Without aggregation more than this in flight only queues up before the global model's link.
                plans.append(plan if plan.in_network else replace(plan, window=plan.window_needed))
        except PlanError:
            for plan in plans:
                controller.release(plan)
            if alone:
                raise
            return None
        if any(plan.slots_limited for plan in plans) and not alone:
            for plan in plans:
                controller.release(plan)
            return None
        return plans

    def _run_installed(
        self, plans: Sequence[tuple[Decision, list[Plan]]], inputs: Sequence[FloatArray] | None
    ) -> Iterator[tuple[FloatArray, Measured]]:
        every = [plan for _, own in plans for plan in own]
        self._switches.controller.install_idle(every)
        network, rounds = self._network(plans, inputs)
        with network:
            if self._demands is not None:
                self._advance(network, WARM_UP_PS)
            for one in rounds:
                yield self._measure(network, one)
        self._switches.controller.uninstall_idle(every)

    def _network(
        self, plans: Sequence[tuple[Decision, list[Plan]]], inputs: Sequence[FloatArray] | None
    ) -> tuple[VirtualNetwork, list[_Round]]:
        """A network that begins at 0 with the endpoints of these tasks."""
        hosts: list[str] = []
        calls = worker_endpoints()
        if self._demands is None:
            self._endpoints = Endpoints()
        else:
            self._endpoints = BackgroundEndpoints(self.topology, self._demands, SourceOptions(), self.seed)
            hosts, calls = list(self._demands.hosts), background_calls()
        sources = len(hosts)
        rounds = []
        for decision, own in plans:
            jobs = []
            for plan in own:
                job = Job(plan, NUMBERS if plan.in_network else None)
                add_endpoints(
                    job,
                    self.topology,
                    self._endpoints,
                    lambda host, _index: hosts.append(host),
                    queue_frames=QUEUE_FRAMES,
                )
                jobs.append(job)
            rounds.append(self._round(decision, jobs, inputs))
        network = VirtualNetwork(
            self.topology,
            self._switches.devices(),
            endpoints=FabricEndpoints(self._endpoints.records, hosts, calls),
            queue_frames=QUEUE_FRAMES,
            seed=self.seed,
        )
        for index in range(sources):
            network.start(index)
        return network, rounds

    # --- one round

    def _round(self, decision: Decision, jobs: list[Job], inputs: Sequence[FloatArray] | None) -> _Round:
        members, in_network = len(decision.task.workers), jobs[0].plan.in_network
        if inputs is not None:
            return _Round(jobs, inputs, expect_sum(list(inputs), NUMBERS if in_network else None, self.lanes))
        known = _expected_sum(self.seed, members, self.elements, self.lanes, in_network=in_network)
        return _Round(jobs, [_gradient(self.seed, rank, self.elements) for rank in range(members)], known)

    def _measure(self, network: VirtualNetwork, one: _Round) -> tuple[FloatArray, Measured]:
        before = network.links.array()
        began = network.now
        if len(one.jobs) == 1:
            total, done = self._push_pull(network, one)
            operations = [Operation.PUSH_PULL]
        else:
            total, done = self._push_then_pull(network, one)
            operations = [Operation.PUSH, Operation.PULL]
        ratio = one.expected.deviation(total).worst_ratio
        if ratio > 1:
            raise ClusterError(f"{one.jobs[0].plan.name}: a sum is {ratio:.3g} times its documented error bound off")
        carried = [(job.plan, operation) for job, operation in zip(one.jobs, operations, strict=True)]
        predicted = predict_round(carried, self.elements)
        seen = links_since(network, before)
        if seen[0] != predicted:
            # What is still on its way belongs to this round.
            self._advance(network, network.now + 2 * max(plan.rtt_ps for plan, _ in carried))
            seen = links_since(network, before)
        measured, expected = count_round(
            network, carried, self.elements, predicted=predicted, seen=seen, communication_ps=done - began
        )
        self._expected.append(expected)
        return total, measured

    def _push_pull(self, network: VirtualNetwork, one: _Round) -> tuple[FloatArray, int]:
        """Gradients up, new weights down, chunk by chunk: the sum, and when the last local model has all."""
        (job,), weights = one.jobs, self._targets[-1]
        weights[:] = 0
        for rank, worker in enumerate(job.plan.workers):
            self._endpoints.post(job.members[worker], Post(Collective.PUSH_PULL, one.inputs[rank], self._targets[rank]))
        # Weights 0 and a rate of n make the new weights minus the sum, which is known.
        self._serve(job, Post(Collective.PUSH_PULL, None, weights, learning_rate=float(len(one.inputs))))
        self._go(network, job)
        self._check_copies(job, weights)
        return -weights, self._done_at(job)

    def _push_then_pull(self, network: VirtualNetwork, one: _Round) -> tuple[FloatArray, int]:
        """Two trees: the broadcast begins when the last upload was acknowledged."""
        upload, broadcast = one.jobs
        weights = self._targets[-1]
        for rank, worker in enumerate(upload.plan.workers):
            self._endpoints.post(upload.members[worker], Post(Collective.PUSH, one.inputs[rank]))
        self._serve(upload, Post(Collective.PUSH, None, weights))
        self._go(network, upload)
        for rank, worker in enumerate(broadcast.plan.workers):
            self._endpoints.post(broadcast.members[worker], Post(Collective.PULL, None, self._targets[rank]))
        self._serve(broadcast, Post(Collective.PULL, weights))
        self._go(network, broadcast)
        self._check_copies(broadcast, weights)
        return weights.copy(), self._done_at(broadcast)

    def _serve(self, job: Job, operation: Post) -> None:
        assert job.server is not None  # noqa: S101
        self._endpoints.post(job.server, operation)

    def _go(self, network: VirtualNetwork, job: Job) -> None:
        for index in job.endpoints:
            network.start(index)
        with self._switches.server.lock:
            reason = network.run(watch=job.endpoints)
        for index in job.endpoints:
            state = State(int(self._endpoints.records[index]["status"]))
            if reason is not Stop.DONE or state is not State.DONE:
                plan = job.plan
                raise ClusterError(
                    f"{plan.name} on {self.topology.name}: the round of job {plan.job} did not end "
                    f"({reason.name.lower()}): {self._endpoints.status(index).error or 'an endpoint still waits'}"
                )

    def _done_at(self, job: Job) -> int:
        return max(int(self._endpoints.records[index]["done_at"]) for index in job.members.values())

    def _advance(self, network: VirtualNetwork, until_ps: int) -> None:
        with self._switches.server.lock:
            network.run(until_ps)

    def _check_copies(self, job: Job, weights: FloatArray) -> None:
        for rank, worker in enumerate(job.plan.workers):
            if not np.array_equal(self._targets[rank].view(np.uint32), weights.view(np.uint32)):
                raise ClusterError(f"{job.plan.name}: {worker} got other weights than the global model has")


@lru_cache(maxsize=64)
def _gradient(seed: int, rank: int, elements: int) -> FloatArray:
    return tensor(seed, rank, 0, elements)


@lru_cache(maxsize=32)
def _expected_sum(seed: int, members: int, elements: int, lanes: int, *, in_network: bool) -> ExpectedSum:
    inputs = [_gradient(seed, rank, elements) for rank in range(members)]
    return expect_sum(inputs, NUMBERS if in_network else None, lanes)
