"""Tasks that run in phases, on packets: what hosts add up or pass on is whole before it goes further."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from p4reduce.comm.backend import FloatArray
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.predict import Operation
from p4reduce.control_plane.scheduling.policy import Decision
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.experiments.poster.bounds import limits
from p4reduce.experiments.poster.measured import Measured
from p4reduce.experiments.poster.packets import FIRST_JOB, TaskNetwork
from p4reduce.experiments.poster.rounds import Round
from p4reduce.jobs.verify import expect_sum
from p4reduce.topologies.model import Hop

Held = dict[str, FloatArray]
"""what every host has, by its name"""


@dataclass(frozen=True)
class Phase:
    """Jobs that run at the same time."""

    operation: Operation
    """ALL_REDUCE of rings; PUSH: a host adds what others send to its own; PULL: others get what a host has"""
    decisions: tuple[Decision, ...]


class Phased(Protocol):
    """A task that was admitted, with its phases in order."""

    @property
    def name(self) -> str:
        """Of the policy."""

    @property
    def task(self) -> Task:
        """What asked for it."""

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Each with something to do."""

    @property
    def demand_bps(self) -> Mapping[Hop, int]:
        """What it reserves on every directed link."""


class PhasedNetwork(TaskNetwork):
    """A network that carries tasks of several phases too."""

    def run_phases(
        self, found: Phased, inputs: Sequence[FloatArray]
    ) -> tuple[FloatArray, Measured, tuple[Measured, ...]]:
        """One round: each phase begins when all of the one before have what it gave them; nothing is pipelined.

        What a phase takes is counted until its last host is done. Acknowledgements that are still on their way then
        are waited for, in nobody's time: each phase has the links to itself, like the rounds of :meth:`run`.

        Parameters
        ----------
        found : Phased
            What was admitted.
        inputs : sequence of float32, each of shape (elements,)
            What each local model gives, in rank order; G's host adds nothing.

        Returns
        -------
        float32 of shape (elements,), Measured, tuple of Measured
            The sum that every host got; what the round took; the same of every phase.

        Raises
        ------
        ClusterError
            When a phase does not end, a sum is wrong, or hosts end with different bytes.
        """
        plans = []
        for number, decision in enumerate(decision for phase in found.phases for decision in phase.decisions):
            made = self._plan(decision, FIRST_JOB + number, alone=True)
            assert made is not None  # alone: plans, or an error  # noqa: S101
            plans.append((decision, made))
        every = [plan for _, own in plans for plan in own]
        self._switches.controller.install_idle(every)
        held: Held = dict(zip(found.task.workers, inputs, strict=True))
        held[found.task.server] = np.zeros_like(inputs[0])
        measured = []
        with self._network() as network:
            waiting = iter(self._rounds(network, plans))
            for phase in found.phases:
                rounds = [self._round(next(waiting), phase.operation, held) for _ in phase.decisions]
                before, began = network.fabric.links.array(), network.now
                self._carry(network, rounds)
                for one in rounds:
                    one.check()
                    _keep(one, held)
                done = max(network.done_ps(one.jobs[0]) for one in rounds) - began
                carried = [what for one in rounds for what in one.carried]
                own = self._count(network, carried, before, done)
                allowed = [limits(plan, operation, self.elements) for plan, operation in carried]
                measured.append(
                    replace(
                        own,
                        bound_ps=max(one.bound_ps for one in allowed),
                        ordered_ps=max(one.ordered_ps for one in allowed),
                        chunk_ps=max(one.chunk_ps for one in allowed),
                    )
                )
        self._switches.controller.uninstall_idle(every)
        _check(found, held, inputs, self.lanes)
        return held[found.task.server], _one_after_the_other(measured), tuple(measured)

    def _round(self, idle: Round, operation: Operation, held: Held) -> Round:
        plan = idle.jobs[0].plan
        if operation is Operation.PULL:
            assert plan.server is not None  # noqa: S101
            given = [held[plan.server]]
        else:
            given = [held[host] for host in plan.workers]
        targets = np.zeros((len(plan.workers) + (not plan.ring), self.elements), np.float32)
        if operation is Operation.PULL:
            targets[-1] = given[0]
        return Round(idle.jobs, given, expect_sum(given, None, self.lanes), targets, operation)


def _keep(one: Round, held: Held) -> None:
    """What hosts have after a round."""
    plan = one.jobs[0].plan
    if one.operation is Operation.PUSH:
        assert plan.server is not None  # noqa: S101
        held[plan.server] = held[plan.server] + one.weights
    else:
        held.update({host: one.targets[rank] for rank, host in enumerate(plan.workers)})


def _check(found: Phased, held: Held, inputs: Sequence[FloatArray], lanes: int) -> None:
    total = held[found.task.server]
    ratio = expect_sum(list(inputs), None, lanes).deviation(total).worst_ratio
    if ratio > 1:
        raise ClusterError(f"{found.name}: a sum is {ratio:.3g} times its documented error bound off")
    for worker in found.task.workers:
        if not np.array_equal(held[worker].view(np.uint32), total.view(np.uint32)):
            raise ClusterError(f"{found.name}: {worker} got other weights than the global model has")


def _one_after_the_other(phases: Sequence[Measured]) -> Measured:
    """All numbers of the phases added up."""
    names = [name for name in Measured.__dataclass_fields__ if name != "differences"]
    return Measured(
        **{name: sum(getattr(phase, name) for phase in phases) for name in names},
        differences=tuple(text for phase in phases for text in phase.differences),
    )
