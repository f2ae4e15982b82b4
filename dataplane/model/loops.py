"""Which steps of a program may come again for one packet: found once, so that only those are counted."""

from collections.abc import Mapping, Sequence


def cyclic(following: Mapping[str, Sequence[str | None]]) -> frozenset[str]:
    """The nodes of a graph that lie on a cycle; ``following``: the nodes behind each, None for its end.

    Nodes are removed as long as one has nothing behind it, then as long as one has nothing before it. What is left lies
    on a cycle or on a way between two.
    """
    left = {name: {n for n in names if n is not None} for name, names in following.items()}
    for _ in range(2):
        left = _peeled(left)
        turned: dict[str, set[str]] = {name: set() for name in left}
        for name, names in left.items():
            for other in names:
                turned[other].add(name)
        left = turned
    return frozenset(left)


def _peeled(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Without the nodes from which no cycle can be reached."""
    before: dict[str, list[str]] = {name: [] for name in graph}
    for name, names in graph.items():
        for other in names:
            before[other].append(name)
    open_ways = {name: len(names) for name, names in graph.items()}
    ends = [name for name, count in open_ways.items() if count == 0]
    gone = set(ends)
    while ends:
        for name in before[ends.pop()]:
            open_ways[name] -= 1
            if open_ways[name] == 0:
                gone.add(name)
                ends.append(name)
    return {name: names - gone for name, names in graph.items() if name not in gone}
