"""How many GPUs elastic jobs get."""

from collections.abc import Sequence

from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import TdmJob

LEAST = 2
"""units of an elastic job: one has nobody to communicate with"""


def share_gpus(jobs: Sequence[TdmJob], gpus: int) -> list[int]:
    """g_j of a group ('utilizing all GPUs', Algorithm 2): the rest of gangs is shared so that all train equally long.

    One GPU after the other goes to the elastic job that would train longest.

    Raises
    ------
    TdmError
        When there are not enough GPUs.
    """
    given = [LEAST if job.elastic else job.units for job in jobs]
    left = gpus - sum(given)
    if left < 0:
        raise TdmError(f"{sum(given)} units for {gpus} GPUs; use fewer workers, or more hosts")
    elastic = [j for j, job in enumerate(jobs) if job.elastic]
    for _ in range(left if elastic else 0):
        given[max(elastic, key=lambda j: jobs[j].work / given[j])] += 1
    return given


def release_gpus(jobs: Sequence[TdmJob], given: Sequence[int], training_s: float, window_s: float) -> list[int]:
    """End of Algorithm 1: g_j <- ceil(g_j W / T) where the group trains for W in a window of T >= W.

    Jobs that trained as long as the longest then train for T at most; gangs keep theirs.
    """
    if window_s <= training_s:
        return list(given)
    return [
        max(LEAST, min(units, -int(-units * training_s // window_s))) if job.elastic else units
        for job, units in zip(jobs, given, strict=True)
    ]
