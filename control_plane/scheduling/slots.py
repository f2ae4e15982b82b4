"""Slots that a tree needs of every switch of it: rate <= (slots / 2) * payload / round trip."""

import numpy as np

from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.plans.problem import Layout, TreeLayout
from p4reduce.control_plane.plans.routes import Routes
from p4reduce.control_plane.plans.window import all_paths, power_of_two, timing
from p4reduce.control_plane.scheduling.state import range_within
from p4reduce.control_plane.scheduling.view import LEAST_SLOTS, TaskProblem, View


def needed_slots(view: View, round_trip_ps: int) -> int:
    """Slots with which a tree of this round trip carries the task's demand."""
    chunks = -(-view.task.demand_bps * round_trip_ps // (PS_PER_S * view.lanes * 32))
    return max(LEAST_SLOTS, power_of_two(2 * chunks))


def round_trip_ps(view: View, layout: TreeLayout) -> int:
    """Of a tree with explicit paths."""
    return timing(view.problem, layout, all_paths(view.problem, layout)).rtt_ps


def slots_of(view: View, layout: Layout) -> dict[str, int]:
    """What a layout needs of the switches of which it is known how many slots they have."""
    names = layout.aggregators if isinstance(layout, TreeLayout) else ()
    known = [name for name in names if name in view.state.slots]
    if not known or not isinstance(layout, TreeLayout):
        return {}
    return dict.fromkeys(known, needed_slots(view, round_trip_ps(view, layout)))


def most_slots(view: View, upload: Layout, broadcast: Layout) -> int | None:
    """What the upload's job may take at most, so that the broadcast's job finds what it needs; None: any number."""
    second = {} if upload == broadcast else slots_of(view, broadcast)
    shared = [
        range_within((view.state.slots_left(name) or 0) - slots)
        for name, slots in second.items()
        if isinstance(upload, TreeLayout) and name in upload.children
    ]
    return min(shared, default=None)


def short_of_slots(problem: TaskProblem, layout: TreeLayout) -> tuple[int, str] | None:
    """Slots of the poorest switch of a tree, and why they are too few; None when all have enough."""
    left = {name: slots for name in layout.aggregators if (slots := problem.slots_left(name)) is not None}
    if not left:
        return None
    round_trip = round_trip_ps(problem.view, layout)
    needed = needed_slots(problem.view, round_trip)
    poorest = min(left, key=lambda name: left[name])
    if left[poorest] >= needed:
        return None
    return left[poorest], (
        f"task {problem.view.task.name}: switch {poorest} has {left[poorest]} slots left in one range, "
        f"{needed} are needed for its demand over a round trip of {round_trip} ps"
    )


def least_slots(problem: TaskProblem) -> int:
    """No tree of the task needs fewer: its round trip is that of the farthest worker's fastest way at least."""
    view, graph, length = problem.view, problem.view.graph, problem.frame_bytes
    words = np.zeros((len(graph.heads), 3), np.int64)
    words[:, 0] = graph.frame_times(length) + graph.delay_ps
    fastest = Routes(view.state.topology, graph, words)
    ways = (fastest.latency_ps(worker, view.task.server, length) for worker in view.task.workers)
    return needed_slots(view, 2 * max(ways))
