"""One round of many tasks on packets: their trees installed over P4Runtime, their frames through the P4 program."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from p4reduce.comm.backend import FloatArray
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.check import compare_counters
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.frames import chunks
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.window import power_of_two
from p4reduce.control_plane.predict import Operation, Traffic, add
from p4reduce.control_plane.program import P4Program
from p4reduce.control_plane.scheduling.policy import Decision
from p4reduce.control_plane.scheduling.requests import plan_requests
from p4reduce.experiments.poster.measured import Carried, Measured, count_round, links_since, predict_round
from p4reduce.experiments.poster.rounds import NUMBERS, Round, drawn_round, given_round
from p4reduce.experiments.poster.settings import PosterSettings, Scenario
from p4reduce.fabric import Stop
from p4reduce.fabric.background import Background, Loads, link_loads
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.programs import bundled
from p4reduce.jobs.switches import EmbeddedSwitches
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, State

QUEUE_FRAMES: Final = 1024
WARM_UP_PS: Final = 200_000_000
"""of background traffic before the first task: 0.2 ms"""
MEASURED_PS: Final = 2_000_000_000
"""in which utilisation is measured for the scheduler: 2 ms"""
MOST_TASKS: Final = 32
"""in one network at a time: what endpoints keep in memory"""
TWICE: Final = ("duplicate", "unexpected result")
"""why a switch refuses contributions and results that it has already"""
FIRST_JOB: Final = 1


class TaskNetwork:
    """The switches of a scenario, and rounds of tasks on them. Use as a context manager.

    With :meth:`run` tasks take turns: each round has the links to itself, but for background traffic, while the trees
    of the others are installed beside it. So each is held against its own bound, and all policies meet the same
    conditions. With :meth:`run_at_once` they all begin at one time.

    Parameters
    ----------
    topology : Topology
        The network.
    program : P4Program
        What the switches run.
    elements : int
        Model size.
    load : float
        Of background traffic (:meth:`~p4reduce.fabric.background.Demands.at_load`), 0: none.
    seed : int
        Of tensors and background traffic.
    """

    def __init__(
        self, topology: Topology, program: P4Program, *, elements: int, load: float = 0.0, seed: int = 0
    ) -> None:
        self.topology = topology
        self.elements, self.lanes, self.seed = elements, program.lanes, seed
        self._slots = program.slots
        self._background = Background("gravity", load, seed) if load else None
        self._expected: list[dict[Hop, Traffic]] = []
        self._switches = EmbeddedSwitches(topology, program)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._switches.close()

    def background(self) -> Loads:
        """What background traffic takes of every link, bit/s, measured on its packets; nothing without it."""
        if self._background is None:
            return {}
        with self._network() as network:
            before, since = dict(network.fabric.links), network.now
            network.advance(since + MEASURED_PS)
            return link_loads(network.fabric, before, since)

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

    def run_at_once(self, decisions: Sequence[Decision]) -> tuple[list[int], Measured]:
        """One round of every task, all from the same moment on.

        Returns
        -------
        list of int and Measured
            How long each task took, in their order, picoseconds; what all of them put on links.

        Raises
        ------
        PlanError
            When there are none, or the switches have too few slots for all of them with whole windows.
        ClusterError
            As of :meth:`run`.
        """
        if not decisions:
            raise PlanError("no task to run")
        plans = self._plan_all(decisions)
        if len(plans) < len(decisions):
            self._release(plans)
            raise PlanError(
                f"slots for {len(plans)} of {len(decisions)} tasks; run_at_once() takes what fitting() leaves"
            )
        every = [plan for _, own in plans for plan in own]
        self._switches.controller.install_idle(every)
        with self._network() as network:
            rounds = self._rounds(network, plans)
            before, began = network.fabric.links.array(), network.now
            self._carry(network, rounds)
            for one in rounds:
                one.check()
            done = [network.done_ps(one.jobs[-1]) - began for one in rounds]
            carried = [what for one in rounds for what in one.carried]
            measured = self._count(network, carried, before, max(done))
        self._switches.controller.uninstall_idle(every)
        return done, measured

    def fitting(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Those that switches have slots for, with whole windows, at the same time; the first ones come first."""
        plans = self._plan_all(decisions)
        self._release(plans)
        return [decision for decision, _ in plans]

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

    def check_counters(self, *, resends: bool = False) -> list[str]:
        """Differences between all predictions so far and what the P4 program counted at its ports.

        Where rounds take turns nothing is sent twice, and nothing refused. With ``resends`` a switch may refuse what it
        has already; for any other reason it may not.
        """
        counters = self._switches.controller.read_counters()
        found = compare_counters(self.topology, add({}, *self._expected), counters)
        for name, own in counters.items():
            refused = {reason: seen for reason, seen in own.refused.items() if not (resends and reason in TWICE)}
            if refused:
                found.append(f"{name} refused {refused}")
        return found

    # --- installing

    def _plan_all(self, decisions: Sequence[Decision]) -> list[tuple[Decision, list[Plan]]]:
        plans: list[tuple[Decision, list[Plan]]] = []
        for decision in decisions:
            made = self._plan(decision, FIRST_JOB + 2 * len(plans), alone=False)
            if made is not None:
                plans.append((decision, made))
        return plans

    def _release(self, plans: Sequence[tuple[Decision, list[Plan]]]) -> None:
        for _, own in plans:
            for plan in own:
                self._switches.controller.release(plan)

    def _plan(self, decision: Decision, job: int, *, alone: bool) -> list[Plan] | None:
        """Plans of a task beside those that are there; None when slots are too few for now."""
        controller = self._switches.controller
        plans: list[Plan] = []
        try:
            requests = plan_requests(decision, job=job)
            # Two trees of a task share a switch's slots; and no more than the whole model is ever in flight.
            most = min(power_of_two(2 * chunks(self.elements, self.lanes)), self._slots // power_of_two(len(requests)))
            for request in requests:
                plan = controller.plan(replace(request, max_slots=min(most, request.max_slots or most)))
                # Without aggregation more than this in flight only queues up before the global model's link.
                plans.append(plan if plan.in_network or plan.ring else replace(plan, window=plan.window_needed))
        except PlanError:
            for plan in plans:
                controller.release(plan)
            if alone:
                raise
            return None
        if any(plan.slots_limited and plan.slots < most for plan in plans) and not alone:
            for plan in plans:
                controller.release(plan)
            return None
        return plans

    def _run_installed(
        self, plans: Sequence[tuple[Decision, list[Plan]]], inputs: Sequence[FloatArray] | None
    ) -> Iterator[tuple[FloatArray, Measured]]:
        every = [plan for _, own in plans for plan in own]
        self._switches.controller.install_idle(every)
        with self._network() as network:
            for one in self._rounds(network, plans, inputs):
                yield self._measure(network, one)
        self._switches.controller.uninstall_idle(every)

    def _network(self) -> JobNetwork:
        """One that begins at 0; where there is background traffic, it has been there for a while."""
        network = JobNetwork(self._switches, queue_frames=QUEUE_FRAMES, seed=self.seed, background=self._background)
        if self._background is not None:
            network.advance(WARM_UP_PS)
        return network

    def _rounds(
        self,
        network: JobNetwork,
        plans: Sequence[tuple[Decision, list[Plan]]],
        inputs: Sequence[FloatArray] | None = None,
    ) -> list[Round]:
        rounds = []
        for _, own in plans:
            jobs = [network.add(plan, NUMBERS) for plan in own]
            if inputs is None:
                rounds.append(drawn_round(jobs, self.seed, self.elements, self.lanes))
            else:
                rounds.append(given_round(jobs, inputs, self.lanes))
        return rounds

    # --- one round

    def _measure(self, network: JobNetwork, one: Round) -> tuple[FloatArray, Measured]:
        before, began = network.fabric.links.array(), network.now
        self._carry(network, [one])
        one.check()
        return one.total(), self._count(network, one.carried, before, network.done_ps(one.jobs[-1]) - began)

    def _count(self, network: JobNetwork, carried: Carried, before: NDArray[Any], lasted_ps: int) -> Measured:
        predicted = predict_round(carried, self.elements)
        seen = links_since(network.fabric, before)
        if seen[0] != predicted:
            # What is still on its way belongs to these rounds.
            network.advance(network.now + 2 * max(plan.rtt_ps for plan, _ in carried))
            seen = links_since(network.fabric, before)
        measured, expected = count_round(
            network.fabric, carried, self.elements, predicted=predicted, seen=seen, communication_ps=lasted_ps
        )
        self._expected.append(expected)
        return measured

    def _carry(self, network: JobNetwork, rounds: Sequence[Round]) -> None:
        """All rounds from now on: gradients up and new weights down, chunk by chunk where one tree does both.

        Where there are two, the broadcast of a task begins when its last upload was acknowledged.
        """
        for one in rounds:
            self._post(network, one, 0)
        open_ = [(one, 0) for one in rounds]
        while open_:
            working = [index for one, step in open_ for index in one.jobs[step].endpoints]
            reason = network.advance(watch=working, first=len(open_) > 1)
            following = []
            for one, step in open_:
                states = [State(int(network.endpoints.records[index]["status"])) for index in one.jobs[step].endpoints]
                if reason is not Stop.DONE or State.FAILED in states:
                    raise self._stuck(network, one.jobs[step], reason)
                if State.ACTIVE in states:
                    following.append((one, step))
                elif step + 1 < len(one.jobs):
                    self._post(network, one, step + 1)
                    following.append((one, step + 1))
            open_ = following

    def _post(self, network: JobNetwork, one: Round, step: int) -> None:
        """What a job of a round has to do, and go."""
        job, weights = one.jobs[step], one.weights
        _, operation = one.carried[step]
        if operation is Operation.ALL_REDUCE:
            given = list(one.inputs)
            if len(given) < len(job.members):  # G's host is the last of the ring, and adds nothing
                given.append(np.zeros_like(given[0]))
            for worker, own, result in zip(job.plan.workers, given, one.targets, strict=True):
                network.post(job.members[worker], Post(Collective.ALL_REDUCE, own, result))
            return
        assert job.server is not None  # noqa: S101
        for rank, worker in enumerate(job.plan.workers):
            source = None if operation is Operation.PULL else one.inputs[rank]
            target = None if operation is Operation.PUSH else one.targets[rank]
            network.post(job.members[worker], Post(Collective[operation.name], source, target))
        if operation is Operation.PUSH_PULL:
            # Weights 0 and a rate of n make the new weights minus the sum, which is known.
            served = Post(Collective.PUSH_PULL, None, weights, learning_rate=float(len(one.inputs)))
        elif operation is Operation.PUSH:
            served = Post(Collective.PUSH, None, weights)
        else:
            served = Post(Collective.PULL, weights)
        network.post(job.server, served)

    def _stuck(self, network: JobNetwork, job: Job, reason: Stop) -> ClusterError:
        errors = [status.error for status in network.statuses(job) if status.error]
        return ClusterError(
            f"{job.plan.name} on {self.topology.name}: the round of job {job.plan.job} did not end "
            f"({reason.name.lower()}): {errors[0] if errors else 'an endpoint still waits'}"
        )


def task_network(settings: PosterSettings, scenario: Scenario, topology: Topology, seed: int) -> TaskNetwork:
    """The network of a scenario, whose topology may have been changed, as the experiment asks for it."""
    return TaskNetwork(
        topology,
        bundled(settings.lanes),
        elements=settings.elements,
        load=scenario.load,
        seed=seed,
    )
