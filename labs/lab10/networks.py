"""The networks of lab 10: leaves with workers, and spines of which each one could be the root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from p4reduce.labs.controllers.networks import told, wired
from p4reduce.labs.frame.draws import Draws
from p4reduce.topologies import Topology


@dataclass(frozen=True)
class Ground:
    """A network with one job, as the student's code gets it."""

    topology: Topology
    network: dict[str, Any]
    spines: frozenset[str]


def draw(draws: Draws, name: str) -> Ground:
    """A leaf-spine of 2 or 3 leaves and 4 spines."""
    random = draws.generator(f"network {name}")
    leaves, spines, hosts = int(random.integers(2, 4)), 4, 0
    order = [f"s{int(place) + 1}" for place in random.permutation(leaves + spines)]  # numbers do not tell who is what
    links = [(leaf, spine) for leaf in order[:leaves] for spine in order[leaves:]]
    for leaf in order[:leaves]:
        for _ in range(int(random.integers(1, 4))):
            hosts += 1
            links.append((f"h{hosts}", leaf))
    topology = wired("leaf-spine", links, random)
    job = {"job": int(random.integers(1, 1000)), "slots": 8, "workers": [host.name for host in topology.workers]}
    return Ground(topology, {**job, **told(topology)}, frozenset(order[leaves:]))
