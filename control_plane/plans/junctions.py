"""Where terminals join a tree that has paths already: an edge that the tree uses costs nothing more."""

from collections.abc import Sequence

import numpy as np

from p4reduce.control_plane.plans.kernels.jit import FAR
from p4reduce.control_plane.plans.problem import Problem


def junctions(problem: Problem, root: str, terminals: Sequence[str]) -> tuple[str, ...]:
    """The switches at which terminals join a tree that grows from its root.

    The terminal nearest to any switch on paths that are used already is joined there, until all are (Takahashi and
    Matsuyama, An approximate solution for the Steiner problem in graphs, 1980); only capable switches count, since
    another one would not merge what it gets.

    Parameters
    ----------
    problem : Problem
        Whose paths count, from the terminals to the root.
    root : str
        Where the tree begins.
    terminals : sequence of str
        Switches.

    Returns
    -------
    tuple of str
        Each once, in the order in which they are found; terminals among them are left out.
    """
    routes, index = problem.paths, problem.paths.graph.index
    able = np.zeros(len(routes.graph.names), np.bool_)
    able[routes.graph.places(problem.capable)] = True
    waiting = [name for name in dict.fromkeys(terminals) if name != root]
    if not waiting:
        return ()
    costs = np.stack([routes.away(index[name]).costs for name in waiting])
    nearest, at = costs[:, index[root]].copy(), np.full(len(waiting), index[root], np.int64)
    open_ = np.ones(len(waiting), np.bool_)
    used, found = {index[root]}, dict.fromkeys((root,))
    while open_.any():
        row = int(np.where(open_, nearest, FAR + 1).argmin())
        if nearest[row] >= FAR:
            break  # there is no way: whoever takes these paths says so
        open_[row] = False
        found[routes.graph.names[at[row]]] = None
        path = (index[name] for name in routes.switches(index[waiting[row]], int(at[row])))
        for place in [place for place in path if able[place] and place not in used]:
            used.add(place)
            closer = costs[:, place] < nearest
            nearest[closer], at[closer] = costs[closer, place], place
    known = {root, *terminals}
    return tuple(name for name in found if name not in known)
