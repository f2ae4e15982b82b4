"""A flow-level model for models that packets cannot reach, calibrated against packets.

T(C) = f * (bound(C_0) + (C - C_0) * chunk): the bound of the trees, which grows by what a chunk takes on their busiest
link, times one factor f for each policy: what packets take over the bound on average (queues, windows). The factor is
calibrated on models of the experiment's size; the error is that of other rounds on packets, with a larger model.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from p4reduce.control_plane.frames import chunks
from p4reduce.experiments.poster.units import FINISHED, Row

MODELS: Final = {
    "LeNet-5": 61_706,
    "ResNet-50": 25_600_000,
    "BERT-base": 110_000_000,
    "VGG-16": 138_000_000,
    "BERT-large": 340_000_000,
    "GPT-2": 1_500_000_000,
}
"""parameters"""


@dataclass(frozen=True)
class FlowModel:
    """One policy in one scenario with one number of local models."""

    policy: str
    factor: float
    """f"""
    tasks: int
    """rounds that it was calibrated on"""
    checked: int
    """rounds of the larger model that it was held against"""
    checked_elements: int
    mean_error: float
    """mean of |T - packets| / packets over them"""
    worst_error: float
    predictions_ms: dict[str, float]
    """mean communication of a round by model"""


def calibrate_flow(
    small: Sequence[Row], large: Sequence[Row], *, elements: int, large_elements: int, lanes: int
) -> list[FlowModel]:
    """A model for every policy that is in both sets of rows; ``large`` are rounds of ``large_elements``."""
    made = []
    for policy in dict.fromkeys(row.policy for row in large):
        known = [row for row in small if row.policy == policy and row.status == FINISHED]
        held = [row for row in large if row.policy == policy and row.status == FINISHED]
        if not known or not held:
            continue
        factor = statistics.fmean(row.communication_ps / row.bound_ps for row in known)
        more = chunks(large_elements, lanes) - chunks(elements, lanes)
        by_task = {(row.seed, row.task): row for row in known}
        errors = []
        for row in held:
            base = by_task[row.seed, row.task]
            errors.append(abs(_time(base, factor, more) / row.communication_ps - 1))
        predictions = {
            name: statistics.fmean(_time(row, factor, chunks(size, lanes) - chunks(elements, lanes)) for row in known)
            / 1e9
            for name, size in MODELS.items()
        }
        made.append(
            FlowModel(
                policy=policy,
                factor=factor,
                tasks=len(known),
                checked=len(held),
                checked_elements=large_elements,
                mean_error=statistics.fmean(errors),
                worst_error=max(errors),
                predictions_ms=predictions,
            )
        )
    return made


def _time(row: Row, factor: float, more_chunks: int) -> float:
    """Predicted time of the row's trees with so many chunks more, picoseconds."""
    return factor * (row.bound_ps + more_chunks * row.chunk_ps)
