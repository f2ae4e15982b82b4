"""From a policy's answer to what is written: a class for every flow, paces, time shifts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.priorities.answers import Answer, Classes, Order, Paces, Shifts, tied
from p4reduce.control_plane.priorities.facts import Flow, Situation
from p4reduce.control_plane.priorities.policy import priority_policy_named
from p4reduce.control_plane.priorities.queues import JOB_CLASSES, cut


@dataclass(frozen=True)
class Decision:
    """What holds from now on, the same in all switches and hosts.

    Attributes
    ----------
    classes : mapping of Flow to int
        1..6 for every flow of every job, the highest first.
    weights : mapping of str to float
        Of jobs that send at their share of common links; empty: at the full rate.
    shifts : mapping of str to int
        By how many picoseconds jobs put off their next flow; those that do not are left out.
    """

    classes: Mapping[Flow, int]
    weights: Mapping[str, float] = field(default_factory=dict)
    shifts: Mapping[str, int] = field(default_factory=dict)

    def of_job(self, name: str) -> int:
        """The highest class of a job: that of its endpoints."""
        return max(value for flow, value in self.classes.items() if flow.job == name)


def decide(policy: str, situation: Situation, *, turn: int = 0, queues: int = len(JOB_CLASSES)) -> Decision:
    """Ask a policy, and check what it says.

    Parameters
    ----------
    policy : str
        Name of a registered policy.
    situation : Situation
        The jobs as they are now.
    turn : int
        By how many places an order is rotated against starvation.
    queues : int
        1..6 queues for jobs.

    Raises
    ------
    PlanError
        Names the policy, the job and what is to be mended: a flow without a class or with one outside 1..6, a pace
        that is no positive number, a shift below 0, an answer about jobs that there are not.
    """
    if not 1 <= queues <= len(JOB_CLASSES):
        raise PlanError(f"queues: {queues}, must be 1..{len(JOB_CLASSES)}: 7 is for tiny frames, 0 for plain IPv4")
    return _checked(policy, situation, priority_policy_named(policy)(situation), turn, queues)


def _checked(name: str, situation: Situation, answer: Answer, turn: int, queues: int) -> Decision:
    match answer:
        case Order():
            _check_flows(name, situation, [flow for group in answer.groups for flow in group])
            if not all(answer.groups):
                raise PlanError(f"priority policy {name!r}: a group of its order is empty; leave it out")
            return Decision(cut(answer.rotated(turn), situation, queues))
        case Classes():
            _check_flows(name, situation, list(answer.by_flow))
            for flow, value in answer.by_flow.items():
                if isinstance(value, bool) or not isinstance(value, int) or value not in JOB_CLASSES:
                    raise PlanError(
                        f"priority policy {name!r}: class {value} for {flow.kind.value} of job {flow.job!r}, lag "
                        f"{flow.lag}: jobs have 1..6 (7: tiny frames, 0: plain IPv4); return one of these, or an Order"
                    )
            return Decision(dict(answer.by_flow))
        case Paces():
            _check_jobs(name, situation, answer.weights)
            for job, weight in answer.weights.items():
                if not (math.isfinite(weight) and weight > 0):
                    raise PlanError(f"priority policy {name!r}: weight {weight} of job {job!r}: must be above 0")
            return Decision(cut(tied(situation), situation), weights=dict(answer.weights))
        case Shifts():
            _check_jobs(name, situation, answer.by_job)
            for job, shift in answer.by_job.items():
                if shift < 0:
                    raise PlanError(
                        f"priority policy {name!r}: shift {shift} ps of job {job!r}: a flow can only be put off; "
                        "return at least 0"
                    )
            shifts = {job: shift for job, shift in answer.by_job.items() if shift}
            return Decision(cut(tied(situation), situation), shifts=shifts)
    raise PlanError(
        f"priority policy {name!r} returned a {type(answer).__name__}; return an Order, Classes, Paces or Shifts"
    )


def _check_flows(name: str, situation: Situation, flows: list[Flow]) -> None:
    wanted, found = set(situation.flows), set(flows)
    for flow in situation.flows:
        if flow not in found:
            raise PlanError(
                f"priority policy {name!r} says nothing of {flow.kind.value} of job {flow.job!r}, lag {flow.lag}; "
                "answer for all flows of the situation"
            )
    for flow in flows:
        if flow not in wanted:
            raise PlanError(
                f"priority policy {name!r} names {flow.kind.value} of job {flow.job!r}, lag {flow.lag}, which is not "
                "in the situation"
            )
    if len(flows) != len(found):
        twice = next(flow for flow in flows if flows.count(flow) > 1)
        raise PlanError(
            f"priority policy {name!r} puts {twice.kind.value} of job {twice.job!r}, lag {twice.lag}, in two places"
        )


def _check_jobs(name: str, situation: Situation, jobs: Mapping[str, object]) -> None:
    for job in jobs:
        if job not in situation.by_name:
            raise PlanError(f"priority policy {name!r} names job {job!r}, which is not in the situation")
