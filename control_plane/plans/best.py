"""``best``: the built-in plan with the least predicted time for the job's hosts, size and load."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.forest import (
    MOST_CHUNKS,
    STRIPED,
    TreeShare,
    busiest_ps,
    double_binary_tree,
    halving_doubling,
    hierarchical,
    predicted_forest_ps,
    rina,
    spread_paths,
    striped,
)
from p4reduce.control_plane.plans.packing import PACKING, Packer, fastest_of, packing
from p4reduce.control_plane.plans.problem import (
    Layout,
    Pair,
    Path,
    Problem,
    RingLayout,
    StarLayout,
    TreeLayout,
    all_paths,
    check_forwarding,
    link_frames,
    register,
    timing,
    upward,
)
from p4reduce.control_plane.plans.ring import ps, ring
from p4reduce.control_plane.plans.routes import frame_bytes, path_latency_ps
from p4reduce.control_plane.plans.steiner import steiner
from p4reduce.control_plane.plans.trees import central, finish, mst, spt

BEST: Final = "best"
FORESTS: Final[Mapping[str, Callable[[Problem], list[TreeShare]]]] = {
    STRIPED: striped,
    "rina": rina,
    "hierarchical": hierarchical,
    "halving-doubling": halving_doubling,
    "double-binary-tree": double_binary_tree,
    PACKING: packing,
}
"""plans of several trees at once"""
BY_HOSTS: Final = 0.99
"""share of a tree's best time: a plan in which hosts add must be faster than that"""
WORTH: Final = 0.97
"""share of the best time of one tree: several trees, except a packing, must be faster than that"""
PACKED: Final = 0.985
"""share of the best time of all other plans: a packing, whose prediction is more accurate, must be faster than that"""
MOST_HOSTS: Final = 32
"""number of workers up to which ``best`` tries plans with a tree for each"""
MOST_ROOTS: Final = 64
"""largest number of switches that are tried as the root of a flat tree"""


def predicted_ps(problem: Problem, layout: Layout) -> int:
    """Predicted time in ps of an all-reduce of ``problem.elements`` that begins on an idle network without losses.

    A tree alone has the time of :func:`~p4reduce.control_plane.plans.forest.predicted_forest_ps`. A star or a tree with
    a server sends a chunk of exponents there and back, then C full chunks; the time between these is that of the
    busiest link for all frames of a chunk, up and down, or is set by the slots if they are fewer than the chunks of a
    round trip. A ring of n sends m = ceil(C/n) chunks 2 (n-1) times; frame f of a host leaves b after frame f-1 (b: the
    time of the busiest link for a frame), and not before frame f-m of the previous host has arrived. The last frame
    therefore arrives after the longest chain of k successive hops and 2 (n-1) m - 1 - (k-1) m times b, for the k from 1
    to 2 (n-1) with the largest sum.

    Raises
    ------
    PlanError
        The layout is an all-to-all, which adds nothing up.
    """
    if isinstance(layout, TreeLayout) and problem.server is None:
        return predicted_forest_ps(problem, [TreeShare(layout)])
    problem = problem.of(layout)
    paths = all_paths(problem, layout)
    if isinstance(layout, RingLayout):
        return _ring_ps(problem, layout, paths)
    if not isinstance(layout, TreeLayout | StarLayout):
        raise PlanError("an all-to-all has no time of an all-reduce")
    up = upward(problem, layout, paths)
    between = busiest_ps(problem, link_frames(problem, paths, [*up, *((b, a) for a, b in up)]))
    rtt_ps = timing(problem, layout, paths).rtt_ps
    lead_ps = timing(problem, layout, paths, length=frame_bytes(0)).rtt_ps
    return round((problem.chunks - 1) * max(between, rtt_ps / MOST_CHUNKS)) + rtt_ps + lead_ps


def _ring_ps(problem: Problem, layout: RingLayout, paths: Mapping[Pair, Path]) -> int:
    order = layout.order
    pairs = [(a, b) for a, b in zip(order, (*order[1:], order[0]), strict=True) if a != b]
    if not pairs:
        return 0
    between = busiest_ps(problem, link_frames(problem, paths, pairs))
    of_each = -(-problem.chunks // len(order))
    frames = 2 * (len(order) - 1) * of_each
    hops_ps = [path_latency_ps(problem.topology, paths[pair], problem.frame_bytes) for pair in pairs]
    along = np.cumsum([0, *(hops_ps * 3)])
    slowest_ps = (
        int((along[steps : steps + len(order)] - along[: len(order)]).max())
        + (frames - 1 - (steps - 1) * of_each) * between
        for steps in range(1, 2 * len(order) - 1)
    )
    return round(max(slowest_ps))


def choose(problem: Problem) -> tuple[str, Layout]:
    """The name and layout of the plan with the least predicted time; among equals, the first in the list.

    Plans in the network: ``steiner``, ``spt``, ``mst``, and ``flat``, in which every switch next to workers is a child
    of the root. By hosts: ``ring``, or ``ps`` with a server; they win only if they take less than :data:`BY_HOSTS` of
    the time of a plan in the network, whose sums do not depend on the order of additions. With ``problem.in_network``
    plans by hosts are left out.

    Raises
    ------
    PlanError
        No plan is possible.
    """
    least_ps = floor_ps(problem) if problem.in_network else min(floor_ps(problem), _least_by_hosts_ps(problem))
    candidates: list[tuple[int, str, Layout]] = []
    for name, layout in _in_network(problem):
        candidates.append((predicted_ps(problem, layout), name, layout))
        if candidates[-1][0] * BY_HOSTS <= least_ps:
            return name, layout
    least = min(candidates, key=lambda candidate: candidate[0], default=None)
    if least is not None and (problem.in_network or BY_HOSTS * least[0] <= _least_by_hosts_ps(problem)):
        return least[1], least[2]
    if problem.in_network:
        problem.capable  # noqa: B018  (raises if no switch is capable or reached)
        raise PlanError(
            f"plan best: no switch of topology {problem.topology.name!r} can aggregate, and the job needs one that does"
        )
    name = "ps" if problem.server is not None else "ring"
    by_hosts: Layout = ps(problem) if problem.server is not None else ring(problem)
    if least is None or predicted_ps(problem, by_hosts) < BY_HOSTS * least[0]:
        return name, by_hosts
    return least[1], least[2]


@register(BEST)
def best(problem: Problem) -> Layout:
    """The layout of the built-in plan with the least predicted time (:func:`choose`)."""
    return choose(problem)[1]


def fastest(problem: Problem, *, relays: bool = True) -> tuple[str, list[TreeShare]]:
    """As :func:`choose`, but for a job that may have several trees at once: also the plans of :data:`FORESTS`.

    ``striped``, and plans with a tree for each host, must be 3 % faster than one tree or a plan by hosts, and
    ``packing`` 1.5 % faster than all other plans. Without ``relays`` no host adds inside a tree, and only ``striped``
    is left of these plans.

    Raises
    ------
    PlanError
        No plan is possible.
    """
    name, layout = choose(problem)
    parts, least = [TreeShare(layout)], predicted_ps(problem, layout)
    if PACKED * least <= floor_ps(problem):
        return name, parts
    many = len(problem.workers) > MOST_HOSTS
    for other, plan in FORESTS.items():
        if other == PACKING or (other != STRIPED and (many or not relays)):
            continue
        with suppress(PlanError):
            forest = plan(problem)
            if len(forest) > 1 and (time := predicted_forest_ps(problem, forest)) < WORTH * least:
                name, parts, least = other, forest, time
    if not relays:
        return name, parts
    with suppress(PlanError):
        packer = Packer(problem)
        if packer.least_ps < PACKED * least:
            packed = fastest_of(packer)
            if predicted_forest_ps(problem, packed) < PACKED * least:
                name, parts = PACKING, packed
    return name, parts


def trees_named(name: str, problem: Problem, *, relays: bool = True) -> tuple[str, list[TreeShare]]:
    """The trees of a plan for a job that may have several; a single one without a layout if the plan makes it later.

    The name includes the choice of ``best``, with or without ``relays`` (:func:`fastest`). Raises `PlanError` if the
    plan has no trees here.
    """
    if name in FORESTS:
        return name, FORESTS[name](problem)
    if name == BEST:
        chosen, parts = fastest(problem, relays=relays)
        return f"{BEST} ({chosen})", parts
    return name, [TreeShare(None)]


def floor_ps(problem: Problem) -> int:
    """Lower bound in ps on the time of every plan that adds integers, on an idle network without losses.

    All chunks cross the link of the slowest worker. The first worker must get the exponents of the first chunk, then
    its lanes, from the worker farthest from it.

    Raises
    ------
    PlanError
        Two workers have no path.
    """
    first = problem.workers[0]
    others = problem.workers[1:]
    ways = [
        max((problem.paths.latency_ps(other, first, length) for other in others), default=0)
        for length in (frame_bytes(0), problem.frame_bytes)
    ]
    return sum(ways) + (problem.chunks - 1) * max(problem.chunk_ps((worker, 1)) for worker in problem.workers)


def _in_network(problem: Problem) -> Iterator[tuple[str, Layout]]:
    try:
        problem.capable  # noqa: B018  (raises if no switch is capable)
    except PlanError:
        return
    for name, plan in (("steiner", steiner), ("spt", spt), ("mst", mst)):
        with suppress(PlanError):
            yield name, plan(problem)
    if problem.server is None:
        with suppress(PlanError):
            yield "flat", flat(problem)


def flat(problem: Problem) -> TreeLayout:
    """A tree of two levels: workers below their nearest capable switches, these switches below the fastest root.

    If shortest paths of these switches meet, they are spread over other paths.
    """
    terminals = {worker: problem.paths.nearest(worker, problem.capable) for worker in problem.workers}
    roots = problem.capable
    if len(roots) > MOST_ROOTS:
        roots = tuple(central(problem, dict.fromkeys(terminals.values())))
    trees = []
    for variant in (problem, problem.spreading):
        for root in roots:
            parent = dict(terminals)
            parent.update((switch, root) for switch in terminals.values() if switch != root)
            with suppress(PlanError):
                trees.append(finish(problem, TreeLayout(root, parent, variant.spread)))
    if not trees:
        raise PlanError("no flat tree connects the workers")
    tree = min(trees, key=lambda tree: predicted_ps(problem, tree))
    ways = spread_paths(problem, [edge for edge in tree.parent.items() if edge[0] not in problem.workers])
    spread = replace(tree, paths={edge: ways.get(edge) or problem.paths.path(*edge) for edge in tree.parent.items()})
    with suppress(PlanError):
        check_forwarding(all_paths(problem, spread))
        tree = min((tree, spread), key=lambda tree: predicted_ps(problem, tree))
    return tree


def _least_by_hosts_ps(problem: Problem) -> float:
    """Lower bound in ps on a ring: 2 (n-1) steps, each with the slowest host's frames; 0 with a server.

    The bound avoids the search for a ring, which takes long on large networks, if a ring cannot be faster than a tree.
    """
    n = len(problem.workers)
    if problem.server is not None or n < 2:
        return 0.0
    of_each = -(-problem.chunks // n)
    return 2.0 * (n - 1) * of_each * max(problem.chunk_ps((worker, 1)) for worker in problem.workers)
