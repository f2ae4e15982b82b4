"""Aggregation trees, and random ones."""

from dataclasses import dataclass

from tests.support.golden.choices import Choices
from tests.support.golden.graph import Node


@dataclass(frozen=True, slots=True)
class Tree:
    """An aggregation tree. ``children``: those of each switch, by their bits; ``server``: the root's parent, if any."""

    root: Node
    children: dict[Node, tuple[Node, ...]]
    server: Node | None

    def parent(self, node: Node) -> Node | None:
        """Return the parent of ``node``; None for a root without a server, and for a node outside the tree."""
        if node == self.root:
            return self.server
        return next((p for p, children in self.children.items() if node in children), None)

    def edges(self) -> list[tuple[Node, Node]]:
        """Return (parent, child) of every edge of the tree, with the edge to the server."""
        edges = [(p, c) for p, children in self.children.items() for c in children]
        return edges if self.server is None else [(self.server, self.root), *edges]

    def members(self) -> list[Node]:
        """Return the workers of the tree."""
        return sorted(c for children in self.children.values() for c in children if not c.is_switch)

    def depth(self) -> int:
        """Return the number of switches on the longest path from a worker to the root."""

        def below(node: Node) -> int:
            return 1 + max(map(below, self.children[node])) if node.is_switch else 0

        return below(self.root)

    def __str__(self) -> str:
        def text(node: Node) -> str:
            return f"{node}({' '.join(map(text, self.children[node]))})" if node.is_switch else str(node)

        return text(self.root) + ("" if self.server is None else f" under {self.server}")


def random_tree(
    choices: Choices, switches: list[Node], workers: list[Node], server: Node | None, *, max_depth: int, max_fan_in: int
) -> Tree:
    """Return a tree of at most ``max_depth`` levels over some of ``switches``, with every worker as a leaf.

    Fan-in is 1..``max_fan_in``. If there are too few switches for that, the root takes the remaining workers.
    """
    order = choices.shuffled(switches)[: choices.integer(1, len(switches))]
    children: dict[Node, list[Node]] = {order[0]: []}
    level = {order[0]: 1}
    for node in order[1:]:
        room = [p for p in children if level[p] < max_depth and len(children[p]) < max_fan_in]
        if room:
            above = choices.pick(room)
            children[above].append(node)
            children[node], level[node] = [], level[above] + 1
    for worker in choices.shuffled(workers):
        empty = [p for p in children if not children[p]]
        room = empty or [p for p in children if len(children[p]) < max_fan_in] or [order[0]]
        children[choices.pick(room)].append(worker)
    _prune(children, order[0])
    return Tree(order[0], {p: tuple(choices.shuffled(c)) for p, c in children.items()}, server)


def without(tree: Tree, worker: Node) -> Tree:
    """Return ``tree`` without one worker, and without the switches that are left without children."""
    children = {p: [c for c in kids if c != worker] for p, kids in tree.children.items()}
    _prune(children, tree.root)
    return Tree(tree.root, {p: tuple(c) for p, c in children.items()}, tree.server)


def _prune(children: dict[Node, list[Node]], root: Node) -> None:
    while barren := [p for p, kids in children.items() if not kids and p != root]:
        for node in barren:
            del children[node]
            for kids in children.values():
                if node in kids:
                    kids.remove(node)
