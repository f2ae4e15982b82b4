"""Both trees of a task, or none where every local model on its own takes fewer bytes."""

import contextlib
from dataclasses import replace

import numpy as np

from p4reduce.control_plane.frames import frame_bytes
from p4reduce.control_plane.plans.graph import Ints
from p4reduce.control_plane.plans.problem import StarLayout, TreeLayout
from p4reduce.control_plane.plans.spt import spt
from p4reduce.control_plane.scheduling.admission import TreePlanner, admitted, passes, tight_links, weight
from p4reduce.control_plane.scheduling.consumption import chunk_bytes, copies, decision_of
from p4reduce.control_plane.scheduling.policy import Decision, Rejection
from p4reduce.control_plane.scheduling.slots import slots_of
from p4reduce.control_plane.scheduling.stars import first_fit, least_copies
from p4reduce.control_plane.scheduling.view import Direction, TaskProblem, View, problem_of

Trees = tuple[TreeLayout, TreeLayout]


def decide_trees(name: str, view: View, planner: TreePlanner, words: Ints) -> Decision:
    """The trees of a task, or its star: that which takes fewer bytes, or fits.

    A star (:func:`~p4reduce.control_plane.scheduling.stars.first_fit`) is what `spff` gives. It wins where few switches
    can aggregate, so that a tree is a detour. What `spff` or `spt` admit is admitted; `Task.aggregation` may rule one
    of the two out.

    Parameters
    ----------
    name : str
        Of the policy.
    view : View
        The task and the network.
    planner : function
        From a problem to a tree.
    words : int64 (m, 3)
        Weights of arcs in the direction of frames.

    Raises
    ------
    Rejection
        Names the link or the switch in the way of the trees.
    """
    view.check_hosts()
    wanted, topology = view.task.aggregation, view.state.topology
    if wanted == "hosts":
        star = first_fit(view)
        return decision_of(name, view, star, star)
    try:
        decision = decision_of(name, view, *_trees(view, planner, words))
    except Rejection:
        if wanted == "switches" or (other := _star(view)) is None:
            raise
        return decision_of(name, view, other, other)
    takes = chunk_bytes(decision, topology, view.lanes)
    least = least_copies(view) * frame_bytes(view.lanes)
    if wanted is None and takes > least and (other := _star(view)) is not None:
        without = decision_of(name, view, other, other)
        most = chunk_bytes(without, topology, view.lanes)
        if takes > most:
            return _one_tree(name, view, planner, words, most) or without
    return decision


def _one_tree(name: str, view: View, planner: TreePlanner, words: Ints, most: int) -> Decision | None:
    """One tree for both directions that takes at most so many bytes a chunk: two jobs cost empty frames beside."""
    try:
        tree = admitted(problem_of(view, words, "upload").both_ways(), planner)
    except Rejection:
        return None
    decision = decision_of(name, view, tree, tree)
    return decision if chunk_bytes(decision, view.state.topology, view.lanes) <= most else None


def _star(view: View) -> StarLayout | None:
    try:
        return first_fit(view)
    except Rejection:
        return None


def _trees(view: View, planner: TreePlanner, words: Ints) -> Trees:
    """By the planner; where its trees do not fit, along shortest paths."""
    try:
        return _of_planner(view, planner, words)
    except Rejection:
        if planner is spt:
            raise
        try:
            return _of_planner(view, spt, words)
        except Rejection:
            pass
        raise


def _of_planner(view: View, planner: TreePlanner, words: Ints) -> Trees:
    """Upload and broadcast: the same tree where that costs a broadcast nothing.

    Both must fit together. The upload is planned first; where it leaves the broadcast no room, that is first, and at
    last both take one tree.
    """
    straight = problem_of(view, words, "upload")
    upload = admitted(straight, planner)
    turned = problem_of(view, words, "broadcast", straight.paths)
    one_fits = passes(turned, upload) and not tight_links(replace(straight, both=True), upload)
    # Weights may agree in both directions where what is left of the links does not.
    if one_fits and np.array_equal(turned.words[:, 0], words[:, 0]):
        return upload, upload
    try:
        broadcast = admitted(_beside(turned, upload), planner)
    except Rejection as rejection:
        if one_fits:
            return upload, upload
        return _otherwise(straight, turned, planner, rejection)
    if one_fits and weight(turned, upload) <= weight(turned, broadcast):
        broadcast = upload
    return upload, broadcast


def _otherwise(straight: TaskProblem, turned: TaskProblem, planner: TreePlanner, rejection: Rejection) -> Trees:
    """The broadcast first; else one tree whose links have room for both."""
    broadcast = admitted(turned, planner)
    with contextlib.suppress(Rejection):
        return admitted(_beside(straight, broadcast), planner), broadcast
    with contextlib.suppress(Rejection):
        both = admitted(straight.both_ways(), planner)
        return both, both
    raise rejection


def _beside(problem: TaskProblem, other: TreeLayout) -> TaskProblem:
    """The problem of one direction, next to the tree of the other."""
    view = problem.view
    direction: Direction = "upload" if problem.turned else "broadcast"
    return problem.beside(copies(view.task, problem.topology, other, direction), slots_of(view, other))
