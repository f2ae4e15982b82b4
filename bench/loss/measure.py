"""One run under faults in virtual time, and what its workers did about them."""

from dataclasses import dataclass
from typing import Final

from p4reduce.control_plane.plans import Plan
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.runner import move_tensors
from p4reduce.runs.summary import network_result
from p4reduce.runs.virtual.cluster import Cluster

LINKS: Final = 20
"""directed tree links that a chunk crosses in leaf-spine-8, up and down"""


@dataclass(frozen=True)
class Measured:
    """ratio: time over the plan's lower bound. asks, waits, needless: questions, WAITs, and answers to questions that
    came after the RESULT had, of each worker for each chunk. differences: from what was predicted. chunks: of the
    tensor.
    """

    ratio: float
    asks: float
    waits: float
    needless: float
    differences: int
    bound_ps: int
    chunks: int
    plan: Plan


def measure(
    plan: str, rate: str, elements: int, seed: int, topology: str, faults: FaultOptions, *, delay: str | None = None
) -> Measured:
    """One all-reduce; ``delay``: of every link, the topology's own if absent."""
    experiment = Experiment.model_validate(
        {
            "plan": plan,
            "rate": rate,
            "delay": delay,
            "elements": elements,
            "seed": seed,
            "topology": topology,
            "faults": faults,
            "lanes": 256,
        }
    )
    with Cluster(experiment) as cluster:
        move_tensors(cluster, None)
        (record,) = cluster.carrier.records
        statuses = cluster.carrier.statuses()
        laid_out = cluster.carrier.jobs[0].plan
        differences = len(network_result(cluster.carrier).prediction_differences)
    each = -(-record.elements // laid_out.lanes)
    chunks = each * len(cluster.workers)
    return Measured(
        ratio=record.communication_ps / record.bound_ps,
        asks=sum(status.asks for status in statuses) / chunks,
        waits=sum(status.waits for status in statuses) / chunks,
        needless=sum(status.spurious for status in statuses) / chunks,
        differences=differences,
        bound_ps=record.bound_ps,
        chunks=each,
        plan=laid_out,
    )


def asks_needed(loss: float, links: int = LINKS) -> float:
    """A(p): rounds of repair that a chunk needs on average, sum over k >= 1 of 1 - (1 - p^k)^L."""
    return sum(1 - (1 - loss**k) ** links for k in range(1, 60)) if loss else 0.0
