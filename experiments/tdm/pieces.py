"""How a sum is carried: along one tree; or pushed to where it is kept and pulled from there, in shards."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from p4reduce.control_plane.predict import Operation
from p4reduce.control_plane.tdm.schedule import JobPlan, Tree

WHOLE: Final = (0.0, 1.0)


@dataclass(frozen=True)
class Piece:
    """A share of a vector along one tree, one way or both."""

    operation: Operation
    tree: Tree
    span: tuple[float, float]
    """of the vector: from, to"""


def pieces_of(plan: JobPlan, pod: int) -> list[Piece]:
    """What carries the vector of a ps or rar; a job without a tree lies in ``pod``.

    A ring of m ToRs is m shards. In reduce-scatter the k-th passes from the pod after k all the way round to k, and
    every ToR adds what its pod sends: a chain, towards k, along the ring. In all-gather it goes on from k to the pod
    before it: another chain, along the ring as well. Each circuit carries (m - 1) / m of the vector in both sub-phases,
    in the ring's direction, as (5) has it; a shard is kept at the ToR of its pod in between.
    """
    if plan.ring is not None:
        order = plan.ring.order
        size = len(order)
        found = []
        for place, root in enumerate(order):
            span = (place / size, (place + 1) / size)
            before = [order[(place + 1 + step) % size] for step in range(size - 1)] + [root]
            after = [root] + [order[(place + 1 + step) % size] for step in range(size - 1)]
            pushes = Tree(root, tuple(pairwise(before)), span[1] - span[0], plan.ring.configuration, pipelined=False)
            pulls = Tree(
                root,
                tuple((child, parent) for parent, child in pairwise(after)),
                span[1] - span[0],
                plan.ring.configuration,
                pipelined=False,
            )
            found += [Piece(Operation.PUSH, pushes, span), Piece(Operation.PULL, pulls, span)]
        return found
    trees = plan.trees or (Tree(pod, (), 1.0),)
    ends = [0.0]
    for tree in trees:
        ends.append(ends[-1] + tree.share)
    found = []
    for tree, span in zip(trees, pairwise(ends), strict=True):
        ways = (Operation.ALL_REDUCE,) if tree.pipelined else (Operation.PUSH, Operation.PULL)
        found += [Piece(way, tree, span) for way in ways]
    return found
