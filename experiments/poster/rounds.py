"""A round of one task: what its local models send, what the global model must get, and where results go."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from p4reduce.comm.backend import FloatArray
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.predict import Operation
from p4reduce.jobs.job import Job
from p4reduce.jobs.verify import ExpectedSum, expect_sum
from p4reduce.runs.tensors import tensor
from p4reduce.workers.numbers import FixedScale

NUMBERS: Final = FixedScale(2.0**20)
"""One scale for all: no exponents are agreed ahead, so that what is timed is a model up and a model down"""


@dataclass
class Round:
    """A task that is installed: its jobs, and what its local models send."""

    jobs: list[Job]
    """one that pushes and pulls, or one that pushes and one that pulls; or a ring"""
    inputs: Sequence[FloatArray]
    """of the local models; of a ring, perhaps of its last host too"""
    expected: ExpectedSum
    targets: FloatArray
    """float32, a row for each local model and the last one for the global model"""
    operation: Operation | None = None
    """of its only job where that is one phase of several: PUSH, or PULL of the last row of ``targets``"""

    @property
    def weights(self) -> FloatArray:
        """Those of the global model."""
        weights: FloatArray = self.targets[-1]
        return weights

    @property
    def carried(self) -> list[tuple[Plan, Operation]]:
        """What its plans carry."""
        if self.jobs[0].plan.ring:
            return [(self.jobs[0].plan, Operation.ALL_REDUCE)]
        if self.operation:
            return [(self.jobs[0].plan, self.operation)]
        operations = [Operation.PUSH_PULL] if len(self.jobs) == 1 else [Operation.PUSH, Operation.PULL]
        return [(job.plan, operation) for job, operation in zip(self.jobs, operations, strict=True)]

    def total(self) -> FloatArray:
        """The sum that the global model got: with both in one job its weights 0 became 0 - n * sum / n."""
        negative = self.carried[0][1] is Operation.PUSH_PULL
        return -self.weights if negative else self.weights.copy()

    def check(self) -> None:
        """The sum is right, and everybody has the same weights, byte by byte. Raises ``ClusterError``."""
        plan = self.jobs[0].plan
        ratio = self.expected.deviation(self.total()).worst_ratio
        if ratio > 1:
            raise ClusterError(f"{plan.name}: a sum is {ratio:.3g} times its documented error bound off")
        if self.operation is Operation.PUSH:
            return
        for rank, worker in enumerate(plan.workers):
            if not np.array_equal(self.targets[rank].view(np.uint32), self.weights.view(np.uint32)):
                raise ClusterError(f"{plan.name}: {worker} got other weights than the global model has")


def drawn_round(jobs: list[Job], seed: int, elements: int, lanes: int) -> Round:
    """A round of random gradients, float32 of shape (elements,), the same for a seed."""
    plan = jobs[0].plan
    members = _local_models(plan)
    known = _expected_sum(seed, members, elements, lanes, in_network=plan.in_network)
    return Round(jobs, [_gradient(seed, rank, elements) for rank in range(members)], known, _targets(jobs, elements))


def given_round(jobs: list[Job], inputs: Sequence[FloatArray], lanes: int) -> Round:
    """A round with the local models' own arrays, float32 of one shape (elements,), in rank order."""
    expected = expect_sum(list(inputs), NUMBERS if jobs[0].plan.in_network else None, lanes)
    return Round(jobs, inputs, expected, _targets(jobs, inputs[0].size))


def _targets(jobs: Sequence[Job], elements: int) -> FloatArray:
    return np.zeros((_local_models(jobs[0].plan) + 1, elements), np.float32)


def _local_models(plan: Plan) -> int:
    """How many there are: the last worker of a ring is the global model's host."""
    return len(plan.workers) - bool(plan.ring)


@lru_cache(maxsize=64)
def _gradient(seed: int, rank: int, elements: int) -> FloatArray:
    return tensor(seed, rank, 0, elements)


@lru_cache(maxsize=32)
def _expected_sum(seed: int, members: int, elements: int, lanes: int, *, in_network: bool) -> ExpectedSum:
    inputs = [_gradient(seed, rank, elements) for rank in range(members)]
    return expect_sum(inputs, NUMBERS if in_network else None, lanes)
