"""Which switches can aggregate when only a share of them can."""

from collections.abc import Sequence

import numpy as np

from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.scheduling.soar import choose_capable_for
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies import Topology, with_capable


def with_share(topology: Topology, share: float, seed: int, chooser: str, tasks: Sequence[Task]) -> Topology:
    """The topology with only a share of its switches capable.

    Parameters
    ----------
    topology : Topology
        All of its switches may be chosen.
    share : float
        Of its switches, rounded to a whole number; 1: all.
    seed : int
        Of the random order.
    chooser : str
        ``random``: the first of a random order, the same for every share. ``soar``: those that
        :func:`~p4reduce.control_plane.scheduling.soar.choose_capable_for` chooses for all ``tasks`` together; then,
        where it chooses fewer, on in the random order.
    tasks : sequence of Task
        Who will use the network.

    Raises
    ------
    ClusterError
        When the share is of no switch.
    """
    if share >= 1:
        return topology
    names = [switch.name for switch in topology.switches]
    count = round(share * len(names))
    if count == 0:
        raise ClusterError(f"capable: a share of {share} of {len(names)} switches is none; use policy spff")
    order = np.random.Generator(np.random.Philox(key=[seed, 0xCA])).permutation(len(names))
    shuffled = [names[place] for place in order]
    if chooser == "soar":
        best = choose_capable_for(topology, tasks, count)
        shuffled = [*best, *(name for name in shuffled if name not in best)]
    return with_capable(topology, shuffled[:count])
