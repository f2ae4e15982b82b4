"""The certified lower bound of the bytes that any tree of a task puts on links: a linear program."""

import math
from typing import Final

from p4reduce.control_plane.frames import chunks, frame_bytes
from p4reduce.control_plane.plans.exact import solve
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import View, problem_of
from p4reduce.control_plane.scheduling.weights import hop_words
from p4reduce.topologies import Topology

_ROUNDING: Final = 1e-6
"""relative, of the solver"""


def least_bytes(task: Task, topology: Topology, lanes: int) -> int:
    """No trees of a task put fewer bytes on links in a round, whatever else uses the network.

    Every link weighs one, nothing is reserved. L copies of a frame must cross links between switches on the way up: L
    is the value of the linear program of :func:`~p4reduce.control_plane.plans.exact.solve` without integrality, rounded
    up since copies are whole. As many must on the way down (the same tree the other way round), and n + 1 cross hosts'
    links in either direction.
    """
    view = View(task, NetworkState(topology), lanes)
    copies = solve(problem_of(view, hop_words(view.graph, view.residual_bps, 0), "upload")).bound
    whole = math.ceil(copies * (1 - _ROUNDING) - _ROUNDING)
    return 2 * (whole + len(task.workers) + 1) * chunks(task.elements, lanes) * frame_bytes(lanes)
