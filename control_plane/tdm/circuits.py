"""Circuits for a demand: how many join which pods, so that the slowest pair is done soonest.

"Determine the OXC topology by F" is all that Algorithm 2 says. For direct circuits the least time is exact: T is
feasible if every ToR has the ports, sum_j ceil(D_ij / (T B)) <= R, and the least feasible T is some D_ij / (l B) with
l <= R, found by binary search among those.
"""

from dataclasses import dataclass

import numpy as np

from p4reduce.control_plane.tdm.demand import Floats, both_ways
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.schedule import Matrix

_SLACK = 1.0 - 1e-12
"""D / T may come out a hair above the whole number that it is"""


@dataclass(frozen=True)
class Circuits:
    """A configuration for a demand."""

    matrix: Matrix
    bytes: float
    """over a circuit of the busiest pair, T * B; 0 where nothing is sent"""


def least_time(demand: Floats, ports: int) -> Circuits:
    """The circuits with which the busiest pair of pods is done soonest, one circuit for each pair at least.

    O(P^2 R log(P R)).

    Parameters
    ----------
    demand : float64 (pods, pods)
        Bytes; of both directions the larger counts.
    ports : int
        R.

    Raises
    ------
    TdmError
        When a pod has more neighbours than ports: direct circuits do not do then.
    """
    wanted = both_ways(demand)
    neighbours = (wanted > 0).sum(axis=1)
    worst = int(neighbours.argmax()) if len(neighbours) else 0
    if len(neighbours) and neighbours[worst] > ports:
        raise TdmError(
            f"pod {worst + 1} would need circuits to {neighbours[worst]} pods and has {ports} ports; place jobs in "
            "fewer pods, or give ToRs more ports"
        )
    used = wanted[wanted > 0]
    if not len(used):
        return Circuits(_matrix(np.zeros(wanted.shape, np.int64)), 0.0)
    times = np.unique(np.divide.outer(np.unique(used), np.arange(1, ports + 1)))
    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        if (_needed(wanted, times[middle]).sum(axis=1) <= ports).all():
            high = middle
        else:
            low = middle + 1
    return Circuits(_matrix(_needed(wanted, times[low])), float(times[low]))


def check_matrix(matrix: Matrix, ports: int) -> None:
    """Raise `TdmError` for what no OXC can connect: not symmetric, a loop, a negative number, too many ports."""
    pods = len(matrix)
    for i, row in enumerate(matrix):
        if len(row) != pods:
            raise TdmError(f"circuits: row {i + 1} has {len(row)} numbers; {pods} pods need {pods}")
        if row[i]:
            raise TdmError(f"circuits: pod {i + 1} would be joined to itself")
        if min(row) < 0:
            raise TdmError(f"circuits: row {i + 1} has a negative number")
        if sum(row) > ports:
            raise TdmError(f"circuits: pod {i + 1} needs {sum(row)} ports and has {ports}")
        for j in range(i):
            if row[j] != matrix[j][i]:
                raise TdmError(f"circuits: {row[j]} from pod {i + 1} to {j + 1}, but {matrix[j][i]} back")


def matching_of(matrix: Matrix, ports: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The OXC's connections: ((pod, port), (pod, port)) of every circuit, ports from 0, each used once.

    Raises `TdmError` where there is no such matching.
    """
    check_matrix(matrix, ports)
    taken = [0] * len(matrix)
    found = []
    for i, row in enumerate(matrix):
        for j in range(i + 1, len(matrix)):
            for _ in range(row[j]):
                found.append(((i, taken[i]), (j, taken[j])))
                taken[i] += 1
                taken[j] += 1
    return found


def _needed(wanted: Floats, time: float) -> "np.typing.NDArray[np.int64]":
    return np.ceil(wanted / time * _SLACK).astype(np.int64)


def _matrix(values: "np.typing.NDArray[np.int64]") -> Matrix:
    return tuple(tuple(int(value) for value in row) for row in values)
