"""A network in which collectives are flows: it knows how long they take, and nothing of packets."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import Operation
from p4reduce.control_plane.plans import Plan
from p4reduce.network.flow.collective import Load, Pace, load_of, paces, wires_of
from p4reduce.network.flow.frames import Wires
from p4reduce.network.jobs.network import Job
from p4reduce.network.jobs.specs import JobNumbers
from p4reduce.topologies import Topology


@dataclass
class FlowNetwork:
    """Jobs, and a clock.

    Parameters
    ----------
    topology : Topology
        Of all jobs.
    queue_frames : int
        Frames of a port's queue, for each priority.
    """

    topology: Topology
    queue_frames: int = 1024
    now: int = 0
    """ps"""
    _wires: dict[int, Wires] = field(default_factory=dict)
    _paces: dict[tuple[object, ...], list[Pace]] = field(default_factory=dict)

    def add(self, plan: Plan, numbers: JobNumbers) -> Job:
        """A job with its plan. ``numbers``: how lanes add up where switches do that."""
        return Job(plan, numbers if plan.in_network else None)

    def alone(
        self, parts: Sequence[tuple[Job, int]], operation: Operation, *, words: bool = False, known: int = 0
    ) -> list[Pace]:
        """The time of a collective whose parts have jobs and elements of their own and begin at once.

        ``words``: lanes are added as they are; ``known``: chunks whose exponents the collective before has agreed on.

        Raises
        ------
        PlanError
            When a plan cannot do the operation, or windows may fill more of a queue than it has.
        """
        key = (operation, words, known, *((id(job.plan), elements) for job, elements in parts))
        if key not in self._paces:
            loads = [self._load(job, operation, elements, words, known) for job, elements in parts]
            found = self._paces[key] = paces(loads, self._wires[loads[0].plan.lanes])
            deepest = max(pace.deepest for pace in found)
            if deepest > self.queue_frames:
                raise PlanError(
                    f"{operation}: up to {deepest} frames wait before a link, whose queue has {self.queue_frames}; "
                    "the flow model knows no lost frames: give a smaller window, or choose time: virtual"
                )
        return self._paces[key]

    def _load(self, job: Job, operation: Operation, elements: int, words: bool, known: int) -> Load:
        plan = job.plan
        wires = self._wires.get(plan.lanes)
        if wires is None:
            wires = self._wires[plan.lanes] = wires_of(plan)
        return load_of(
            plan,
            operation,
            elements,
            wires,
            lead=job.lead(operation, words=words),
            known=known,
            queue_frames=self.queue_frames,
        )
