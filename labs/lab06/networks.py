"""The five networks of lab 06: a switch, a chain, a leaf-spine, a random tree, a random graph."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from p4reduce.labs.controllers.networks import told, wired
from p4reduce.labs.frame.draws import Draws
from p4reduce.topologies import Topology

KINDS: Final = ("one switch", "a chain", "a leaf-spine", "a tree", "a graph")
Links = list[tuple[str, str]]
Shape = tuple[int, int, Links]
"""How many switches, how many of them (the first ones) have hosts, and the links between switches."""


def draw(draws: Draws, number: int) -> tuple[Topology, dict[str, Any]]:
    """A network, and the job that is to be installed in it, as the student's code gets it."""
    random = draws.generator(f"network {number}")
    switches, housed, links = _SHAPES[number](random)
    hosts = 0
    for switch in range(1, housed + 1):
        for _ in range(int(random.integers(0 if number else 4, 4 if number else 9))):
            hosts += 1
            links.append((f"h{hosts}", f"s{switch}"))
    for switch in (1, housed):
        hosts += 1
        links.append((f"h{hosts}", f"s{switch}"))
    topology = wired(KINDS[number].replace(" ", "-"), links, random)
    names = [host.name for host in topology.workers]
    # The last two stand behind the first switch and another one: the tree is never a single one where there are more.
    chosen = [name for name in names[:-2] if random.random() < 0.8] + names[-2:]
    job = {
        "job": int(random.integers(1, 1000)),
        "epoch": int(random.integers(2, 1000)),
        "generation": int(random.integers(2, 1 << 20)),
        "base": 16 * int(random.integers(0, 8)),
        "slots": 16,
        "stats": int(random.integers(0, 16)),
        "root": f"s{int(random.integers(1, switches + 1))}",
        "workers": [chosen[int(place)] for place in random.permutation(len(chosen))],
    }
    return topology, {**job, **told(topology)}


def _one(random: np.random.Generator) -> Shape:
    return 1, 1, []


def _chain(random: np.random.Generator) -> Shape:
    count = int(random.integers(3, 6))
    return count, count, [(f"s{number}", f"s{number + 1}") for number in range(1, count)]


def _leaf_spine(random: np.random.Generator) -> Shape:
    leaves, spines = int(random.integers(3, 5)), 2
    pairs = [(leaf, leaves + spine) for leaf in range(1, leaves + 1) for spine in range(1, spines + 1)]
    return leaves + spines, leaves, [(f"s{leaf}", f"s{spine}") for leaf, spine in pairs]


def _tree(random: np.random.Generator) -> Shape:
    count = int(random.integers(6, 9))
    return count, count - 1, [(f"s{number}", f"s{int(random.integers(1, number))}") for number in range(2, count + 1)]


def _graph(random: np.random.Generator) -> Shape:
    count, housed, links = _tree(random)
    known = {frozenset(link) for link in links}
    for _ in range(count):
        a, b = (int(end) for end in random.integers(1, count + 1, 2))
        link = f"s{a}", f"s{b}"
        if a != b and frozenset(link) not in known:
            known.add(frozenset(link))
            links.append(link)
    return count, housed, links


_SHAPES: Final = (_one, _chain, _leaf_spine, _tree, _graph)
