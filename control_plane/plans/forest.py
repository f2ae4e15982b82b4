"""Plans of several trees at once, each for a part of the tensor: their load on links, their times, and their choice.

``striped`` has a tree for each switch next to workers. The other plans come from the literature: in them, too, the path
of a block of the tensor is a tree; its inner nodes are workers (relays) and, for ``rina``, switches. Blocks travel
chunk by chunk, so that no step waits for the end of another.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf
from typing import Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.problem import (
    Layout,
    Pair,
    Problem,
    TreeLayout,
    all_paths,
    check_forwarding,
    link_frames,
)
from p4reduce.control_plane.plans.ring import least_loaded, shorten
from p4reduce.control_plane.plans.routes import frame_bytes, frame_time_ps, hops
from p4reduce.control_plane.plans.trees import finish
from p4reduce.control_plane.resources import SLOTS
from p4reduce.topologies.model import Hop

MOST_TREES: Final = 12
"""largest number of trees of a job"""
MOST_BLOCKS: Final = 64
"""largest number of trees of a plan with a tree for each worker"""
STRIPED: Final = "striped"
_NOTHING: Final = 1e-12
MOST_CHUNKS: Final = SLOTS // 2
"""chunks in flight in a tree that has all slots of a switch, two for each chunk"""


@dataclass(frozen=True)
class TreeShare:
    """A tree, or any layout, with its part of each tensor.

    weight: the tree's weight; its part is the weight divided by the sum of weights. pace_ps: least time between two of
    the tree's chunks; None: as its links allow.
    """

    layout: Layout | None
    """None: the planner makes the layout later"""
    weight: int = 1
    pace_ps: int | None = None


def chunks_of(weights: Sequence[int], chunks: int) -> list[int]:
    """Number of chunks of each part, in proportion to its weight."""
    total = sum(weights)
    ends = [chunks * below // total for below in accumulate(weights, initial=0)]
    return [b - a for a, b in pairwise(ends)]


def shares(elements: int, weights: Sequence[int], lanes: int) -> list[tuple[int, int]]:
    """Begin and end of each part of an array (``Plan.part_of``): whole chunks, in proportion to weights."""
    ends = [min(elements, end * lanes) for end in accumulate(chunks_of(weights, -(-elements // lanes)))]
    return list(zip([0, *ends], ends, strict=False))


def tree_frames(problem: Problem, layout: TreeLayout) -> Counter[Hop]:
    """Number of frames on each directed link, up and down, for a chunk of a tree."""
    up = layout.parent.items()
    return link_frames(problem, all_paths(problem.of(layout), layout), [*up, *((b, a) for a, b in up)])


def frames_of(problem: Problem, layouts: Sequence[TreeLayout]) -> Counter[Hop]:
    """Number of frames on each directed link when each tree has a chunk."""
    total: Counter[Hop] = Counter()
    for layout in layouts:
        total.update(tree_frames(problem, layout))
    return total


def busiest_ps(problem: Problem, frames: Mapping[Hop, int]) -> int:
    """Time in ps that the busiest directed link needs for its full frames, at the rate that ``problem.load`` leaves."""
    return max((number * problem.chunk_ps(hop) for hop, number in frames.items()), default=0)


def predicted_forest_ps(problem: Problem, parts: Sequence[TreeShare]) -> int:
    """Predicted time in ps of an all-reduce of ``problem.elements`` in these trees at once, on idle lossless links.

    A worker sends the lanes of a tree after the round trip of the frame with its exponents, which takes longer in some
    trees, and for some workers, than for others. The chunks of each tree therefore begin to arrive at a directed link
    at a different time; the link is busy with them, and the last of them still has to reach the end of its tree. The
    result is the latest end over all links and all trees; a tree's busiest link, its pace and its slots set the spacing
    of its chunks.
    """
    shares = chunks_of([part.weight for part in parts], problem.chunks)
    in_flight = (1 << (slots_of_each(len(parts)).bit_length() - 1)) // 2 if len(parts) > 1 else MOST_CHUNKS
    on_links: dict[Hop, list[_OnLink]] = {}
    last = 0
    for part, count in zip(parts, shares, strict=True):
        if count and isinstance(part.layout, TreeLayout):
            way = _Way(problem.of(part.layout), part.layout)
            starts = way.ends(frame_bytes(0), dict.fromkeys(way.problem.workers, 0))
            between = max(way.busiest_ps, part.pace_ps or 0, way.rtt_ps // in_flight)
            last = max(last, max(way.ends(problem.frame_bytes, starts).values()) + (count - 1) * between)
            for hop, load in way.on_links(starts, count):
                on_links.setdefault(hop, []).append(load)
    for ways in on_links.values():
        if max(tree.begins for tree in ways) + sum(tree.busy for tree in ways) + max(tree.rest for tree in ways) > last:
            last = max(last, round(_end_of_link(ways)))
    return last


def _end_of_link(ways: Sequence["_OnLink"]) -> float:
    """Time in ps when the last of all chunks that cross a link has reached the end of its tree.

    Trees whose frames arrive at the same time share the link in proportion to their remaining load on it. A tree whose
    frames arrive early leaves the link early, so a long remaining path does not count in full.
    """
    left = dict.fromkeys(ways, 1.0)  # the share of a tree's frames that is not sent yet
    now = last = 0.0
    while left:
        there = [tree for tree in left if tree.begins <= now]
        later = min((tree.begins for tree in left if tree.begins > now), default=inf)
        if not there:
            now = later
            continue
        busy = sum(tree.busy for tree in there)
        passed = min(busy * min(left[tree] for tree in there), later - now)
        now += passed
        for tree in there:
            left[tree] -= passed / busy
            if left[tree] < _NOTHING:
                last = max(last, now + tree.rest)
                del left[tree]
    return last


@dataclass(frozen=True, eq=False)
class _OnLink:
    """Chunks of a tree on a directed link, in ps: arrival of the first, time of all, remaining path of the last."""

    begins: int
    busy: int
    rest: int


class _Way:
    """Times of the first chunk of a tree to the root and back, link by link, in ps.

    Several copies of a chunk that cross the same links leave one after the other, so only one link waits for all.
    """

    def __init__(self, problem: Problem, layout: TreeLayout) -> None:
        self.problem = problem
        self._layout = layout
        self._paths = {pair: hops(problem.topology, path) for pair, path in all_paths(problem, layout).items()}
        self._up = list(layout.parent.items())
        self._down = [(b, a) for a, b in self._up]
        self._children: dict[str, list[str]] = {}
        for child, parent in self._up:
            self._children.setdefault(parent, []).append(child)
        self._order = [layout.root]
        for name in self._order:
            self._order += self._children.get(name, [])
        self._copies = {
            True: Counter(hop for pair in self._up for hop in self._paths[pair]),
            False: Counter(hop for pair in self._down for hop in self._paths[pair]),
        }
        self.busiest_ps = busiest_ps(problem, self._copies[True] + self._copies[False])
        at_once = self.ends(problem.frame_bytes, dict.fromkeys(problem.workers, 0))
        self.rtt_ps = max(at_once.values())

    def ends(self, length: int, starts: Mapping[str, int]) -> dict[str, int]:
        """Time when each node has the RESULT of the first chunk, sent at ``starts`` in frames of ``length`` bytes."""
        return self._back(self._there(length, starts), length)

    def on_links(self, starts: Mapping[str, int], count: int) -> Iterator[tuple[Hop, _OnLink]]:
        """The load of ``count`` chunks on each directed link, up and down."""
        length = self.problem.frame_bytes
        there = self._there(length, starts)
        back = self._back(there, length)
        below: dict[str, int] = {}
        for name in reversed(self._order):
            ways = [self._walk_ps((name, child), length, up=False) + below[child] for child in self._below(name)]
            below[name] = max(ways, default=0)
        above = {self._layout.root: below[self._layout.root]}
        for name in self._order[1:]:
            parent = self._layout.parent[name]
            above[name] = self._walk_ps((name, parent), length, up=True) + above[parent]
        yield from self._of_edges(self._up, there, above, count, up=True)
        yield from self._of_edges(self._down, back, below, count, up=False)

    def _of_edges(
        self, edges: Sequence[Pair], begins: Mapping[str, int], then: Mapping[str, int], count: int, *, up: bool
    ) -> Iterator[tuple[Hop, _OnLink]]:
        on_links: dict[Hop, tuple[int, int]] = {}
        for start, end in edges:
            path = self._paths[start, end]
            at, rest = begins[start], then[end] + sum(self._hop_ps(hop) for hop in path)
            for hop in path:
                rest -= self.problem.chunk_ps(hop)
                first, way = on_links.get(hop, (at, rest))
                on_links[hop] = min(first, at), min(way, rest)
                rest -= self._hop_ps(hop) - self.problem.chunk_ps(hop)
                at += self._hop_ps(hop)
        for hop, (first, way) in on_links.items():
            yield hop, _OnLink(first, count * self._copies[up][hop] * self.problem.chunk_ps(hop), way)

    def _there(self, length: int, starts: Mapping[str, int]) -> dict[str, int]:
        """Time when each node has its own contribution and those of all its children."""
        there: dict[str, int] = {}
        for name in reversed(self._order):
            ways = [there[child] + self._walk_ps((child, name), length, up=True) for child in self._below(name)]
            there[name] = max(ways, default=0) if name not in starts else max([starts[name], *ways])
        return there

    def _back(self, there: Mapping[str, int], length: int) -> dict[str, int]:
        """Time when each node has the RESULT."""
        back = {self._layout.root: there[self._layout.root]}
        for name in self._order[1:]:
            parent = self._layout.parent[name]
            back[name] = back[parent] + self._walk_ps((parent, name), length, up=False)
        return back

    def _below(self, name: str) -> list[str]:
        return self._children.get(name, [])

    def _hop_ps(self, hop: Hop) -> int:
        return self.problem.chunk_ps(hop) + self.problem.topology.link_at(*hop).delay_ps

    def _walk_ps(self, edge: Pair, length: int, *, up: bool) -> int:
        """Time from node to node until the last copy has arrived."""
        most = total = 0
        for hop in self._paths[edge]:
            link = self.problem.topology.link_at(*hop)
            frame_ps = frame_time_ps(length, link.rate_bps)
            total += frame_ps + link.delay_ps
            most = max(most, (self._copies[up][hop] - 1) * frame_ps)
        return total + most


def paces(problem: Problem, layouts: Sequence[TreeLayout], weights: Sequence[int]) -> list[int]:
    """Least time in ps between two chunks of each tree, such that all trees end at the same time."""
    total: Counter[Hop] = Counter()
    for layout, weight in zip(layouts, weights, strict=True):
        for hop, number in tree_frames(problem, layout).items():
            total[hop] += number * weight
    busiest = busiest_ps(problem, total)
    return [max(1, busiest // weight) for weight in weights]


def slots_of_each(trees: int, slots: int = SLOTS) -> int:
    """Largest number of slots of a switch for each of several trees; half of all slots stay for other jobs."""
    return slots // max(1, 2 * trees)


def refuse_one_tree(name: str) -> PlanError:
    """The error for a job that can have only one tree, although plan ``name`` consists of several."""
    return PlanError(
        f"plan {name} is several trees, which all-reduces of a whole group have ('run', 'compare', 'sweep', "
        "'launch'; without a deadline); choose steiner here"
    )


# `striped`: each tree has an equal part of the tensor. Each switch that is the nearest one for some worker is the root
# of a tree: workers are children of their nearest switch, and these switches are children of the root. With k roots a
# link to the upper switches carries 1/k of the tensor for each tree that crosses it; a single tree sends the whole
# tensor over the links next to its root.


def striped(problem: Problem) -> list[TreeShare]:
    """The trees of :func:`stripes`, with equal parts."""
    return [TreeShare(layout) for layout in stripes(problem)]


def stripes(problem: Problem) -> list[TreeLayout]:
    """The trees, at most :data:`MOST_TREES`; a single one if all workers have the same nearest switch.

    Raises
    ------
    PlanError
        No switch can aggregate, or the job has a server, at which every tree would have to end.
    """
    if problem.server is not None:
        raise PlanError(f"plan {STRIPED}: a job with a server has one tree, to the server; choose steiner")
    nearest = {worker: problem.paths.nearest(worker, problem.capable) for worker in problem.workers}
    places = list(dict.fromkeys(nearest.values()))
    trees: list[TreeLayout] = []
    for root in places[:MOST_TREES]:
        parent = dict(nearest) | {switch: root for switch in places if switch != root}
        layouts: list[TreeLayout] = []
        for variant in (problem.spreading, problem):
            with suppress(PlanError):
                layouts.append(finish(problem, TreeLayout(root, parent, variant.spread)))
        if not layouts:
            raise PlanError(f"plan {STRIPED}: no tree from {root} connects the workers")
        trees.append(min(layouts, key=lambda tree: busiest_ps(problem, frames_of(problem, [*trees, tree]))))
    return trees


# Plans whose trees have workers as inner nodes. The sum of a block goes up a tree, and the result down.


def halving_doubling(problem: Problem) -> list[TreeShare]:
    """Recursive halving, then doubling: each worker ends up with a block of the sum, and passes it on.

    The first exchange, with half of the tensor, is with a neighbour in the ring's order, and so within a rack if racks
    allow it. The block of worker b moves from worker r to the worker whose number differs in the lowest bit in which r
    differs from b: a binomial tree. Workers beyond a power of two send all their data to an earlier worker. Thakur,
    Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005, 4.5.

    Raises
    ------
    PlanError
        A server, one worker, or more than :data:`MOST_BLOCKS` workers.
    """
    order = _blocks_of(problem, "halving-doubling")
    size = 1 << (len(order).bit_length() - 1)
    trees = []
    for block in range(size):
        above = {rank: rank ^ ((rank ^ block) & -(rank ^ block)) for rank in range(size) if rank != block}
        above |= {rank: rank - size for rank in range(size, len(order))}
        trees.append((order[block], {order[a]: order[b] for a, b in above.items()}))
    return _paced(problem, trees)


def double_binary_tree(problem: Problem) -> list[TreeShare]:
    """Two binary trees with half of the tensor each; a worker is an inner node in at most one of them.

    Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing
    35, 2009, 2.2. The second tree is the first one mirrored, or shifted by one if the number of workers is odd.

    Raises
    ------
    PlanError
        A server, one worker, or more than :data:`MOST_BLOCKS` workers.
    """
    order = _blocks_of(problem, "double-binary-tree")
    first = _binary(order)
    second = _binary(order[::-1] if len(order) % 2 == 0 else (*order[1:], order[0]))
    return _paced(problem, [first, second])


def hierarchical(problem: Problem) -> list[TreeShare]:
    """A ring in each rack and a ring across racks for each position in a rack, block by block.

    Cho, Finkler, Serrano, Kung and Hunter, "BlueConnect", MLSys 2019, 3. A block is summed up along the hosts of each
    rack, then along one host of each rack, and returns on the same path. In a rack with fewer hosts than the largest,
    some hosts take two positions.

    Raises
    ------
    PlanError
        A server, one worker, or more than :data:`MOST_BLOCKS` workers.
    """
    order = _blocks_of(problem, "hierarchical")
    racks: dict[str, list[str]] = {}
    for worker in order:
        racks.setdefault(problem.topology.neighbours(worker)[0], []).append(worker)
    trees = []
    for place in range(max(map(len, racks.values()))):
        turned = [hosts[place % len(hosts) :] + hosts[: place % len(hosts)] for hosts in racks.values()]
        for rotation in range(len(turned)):
            across = turned[rotation:] + turned[:rotation]
            above = {a: b for hosts in turned for a, b in pairwise(hosts[::-1])}
            trees.append(_chain([hosts[0] for hosts in across], above))
    return _paced(problem, trees)


def rina(problem: Problem) -> list[TreeShare]:
    """A ring whose members are racks with an aggregating switch, and the other hosts.

    Chen et al., "Rina: Enhancing Ring-AllReduce with In-network Aggregation in Distributed Model Training", ICNP 2024
    (arXiv 2407.19721), III. Here the member of a rack is its switch, not an agent on a host, which the hosts' links
    would limit. A block travels along the ring from one member to the member before it, and back.

    Raises
    ------
    PlanError
        A server, one worker, or more than :data:`MOST_BLOCKS` workers.
    """
    order = _blocks_of(problem, "rina")
    able = {switch.name for switch in problem.topology.switches if switch.capable}
    above: dict[str, str] = {}
    members: list[str] = []
    for worker in order:
        near = problem.topology.neighbours(worker)[0]
        if near in able:
            above[worker] = near
        if (near if near in able else worker) not in members:
            members.append(near if near in able else worker)
    turns = [members[first:] + members[:first] for first in range(len(members))]
    return _paced(problem, [_chain(turn, above) for turn in turns])


def _blocks_of(problem: Problem, name: str) -> tuple[str, ...]:
    """The workers in the order of the ring."""
    if problem.server is not None:
        raise PlanError(f"plan {name}: a job with a server has one tree, to the server; choose steiner")
    if len(problem.workers) == 1:
        raise PlanError(f"plan {name}: a job of one worker exchanges no blocks; choose steiner or ring")
    if len(problem.workers) > MOST_BLOCKS:
        raise PlanError(
            f"plan {name}: {len(problem.workers)} workers, and each of up to {MOST_BLOCKS} has a tree; choose ring"
        )
    return shorten(problem, tuple(sorted(problem.workers, key=lambda worker: problem.topology.node(worker).index)))


def _chain(names: Sequence[str], above: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The root and the parents of a tree: a path with its root in the middle, and the nodes below it in ``above``."""
    middle = len(names) // 2
    towards = dict(pairwise(names[: middle + 1])) | {a: b for b, a in pairwise(names[middle:])}
    return names[middle], {**above, **towards}


def _binary(order: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The root and the parents of a binary tree over an order whose first, third, fifth … are leaves."""
    above: dict[str, str] = {}

    def root_of(first: int, end: int) -> int:
        """Index of the root of part [first, end) of the order, which divides it at the largest power of two."""
        middle = first + (1 << ((end - first).bit_length() - 1)) - 1
        for a, b in ((first, middle), (middle + 1, end)):
            if b > a:
                above[order[root_of(a, b)]] = order[middle]
        return middle

    return order[root_of(0, len(order))], above


def _paced(problem: Problem, trees: Sequence[tuple[str, Mapping[str, str]]]) -> list[TreeShare]:
    """Trees with equal parts that all end at the same time; at most as many as there are chunks.

    Edges take the paths on which all trees together load links least; they take shortest paths if these load links no
    more, or if switches could not forward the least loaded paths.
    """
    trees = trees[: max(1, problem.chunks)]
    ways = spread_paths(problem, [edge for _, above in trees for edge in above.items()])
    layouts = []
    for root, above in trees:
        variants = [TreeLayout(root, above)]
        spread = TreeLayout(root, above, paths={edge: ways[edge] for edge in above.items()})
        with suppress(PlanError):
            check_forwarding(all_paths(problem, spread))
            variants.insert(0, spread)
        layouts.append(variants)
    shortest, chosen = [variants[-1] for variants in layouts], [variants[0] for variants in layouts]
    if busiest_ps(problem, frames_of(problem, shortest)) <= busiest_ps(problem, frames_of(problem, chosen)):
        chosen = shortest
    return [
        TreeShare(layout, 1, pace)
        for layout, pace in zip(chosen, paces(problem, chosen, [1] * len(chosen)), strict=True)
    ]


def spread_paths(problem: Problem, edges: Sequence[Pair]) -> dict[Pair, tuple[str, ...]]:
    """For each edge, the most used first, the path that adds least to busy links; the way back is the same path."""
    used: Counter[Hop] = Counter()
    paths: dict[Pair, tuple[str, ...]] = {}
    for (a, b), count in Counter(tuple(sorted(edge)) for edge in edges).most_common():
        path = least_loaded(problem, a, b, used)
        paths[a, b], paths[b, a] = path, path[::-1]
        for hop in (*hops(problem.topology, path), *hops(problem.topology, path[::-1])):
            used[hop] += count
    return paths
