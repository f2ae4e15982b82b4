"""From an order without limit to the few queues of a port.

Queue 7 is for tiny frames (barriers, no lanes), queue 0 for plain IPv4 without a class, so jobs have 1..6. The sorted
order is cut where neighbours share fewest links: flows in one queue delay each other only where they meet (Crux,
SIGCOMM'24, section 4.3).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.priorities.answers import Order
from p4reduce.control_plane.priorities.facts import Flow, Situation

TINY_CLASS: Final = 7
PLAIN_CLASS: Final = 0
JOB_CLASSES: Final = range(1, 7)


def cut(order: Order, situation: Situation, queues: int = len(JOB_CLASSES)) -> dict[Flow, int]:
    """The class of every flow: at most ``queues`` of them, from 6 downwards.

    Of all ways to cut the order into so many runs, one in which the pairs of groups that have the same queue share
    fewest links; among these, one whose runs are of most equal length. O(queues * groups**2).
    """
    count = min(len(order.groups), queues)
    if count == 0:
        return {}
    inside = _inside(_shared(order, situation))
    before = _best_cuts(inside, count)
    starts, end = [], len(order.groups)
    for number in range(count, 0, -1):
        start = int(before[number, end])
        starts.append(start)
        end = start
    bounds = [*reversed(starts), len(order.groups)]
    top = JOB_CLASSES[-1]
    return {
        flow: top - place
        for place in range(count)
        for group in order.groups[bounds[place] : bounds[place + 1]]
        for flow in group
    }


def _shared(order: Order, situation: Situation) -> NDArray[np.int64]:
    """How many links each two groups share, over all pairs of their flows, int64 (groups, groups)."""
    names = {hop: place for place, hop in enumerate(sorted({hop for job in situation.jobs for hop in job.links}))}
    uses = np.zeros((len(order.groups), max(len(names), 1)), np.int64)
    for place, group in enumerate(order.groups):
        for flow in group:
            for hop in situation.by_name[flow.job].links:
                uses[place, names[hop]] += 1
    return np.asarray(uses @ uses.T, np.int64)


def _inside(shared: NDArray[np.int64]) -> NDArray[np.int64]:
    """Costs of a run of groups from i up to j, without it: first shared links of its pairs, then its length squared."""
    n = len(shared)
    weight = np.int64(n * n + 1)
    cost = np.zeros((n + 1, n + 1), np.int64)
    for i in range(n):
        # What group j adds to the run that began at i.
        added = np.array([int(shared[i:j, j].sum()) for j in range(i, n)], np.int64)
        lengths = np.arange(1, n - i + 1, dtype=np.int64) ** 2
        cost[i, i + 1 :] = np.cumsum(added) * weight + lengths
    return cost


def _best_cuts(inside: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Where the last of q runs of the first j groups begins when they cost least, int64 (count + 1, n + 1)."""
    n = len(inside) - 1
    never = np.iinfo(np.int64).max // 4
    best, before = np.full((count + 1, n + 1), never, np.int64), np.zeros((count + 1, n + 1), np.int64)
    best[0, 0] = 0
    for number in range(1, count + 1):
        for end in range(number, n + 1):
            totals = best[number - 1, :end] + inside[:end, end]
            before[number, end] = int(totals.argmin())
            best[number, end] = totals.min()
    return before
