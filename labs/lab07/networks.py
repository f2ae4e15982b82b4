"""The networks of lab 07: every leaf has four hosts, of which one has no part in any job and forges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from p4reduce.labs.controllers.networks import told, wired
from p4reduce.labs.frame.draws import Draws
from p4reduce.topologies import Topology

KINDS: Final = ("a leaf-spine", "a tree")
_HOSTS: Final = 4


@dataclass(frozen=True)
class Scene:
    """A network with two jobs, and what becomes of the first.

    Attributes:
        network: as the student's code gets it; its jobs are the first two.
        changed: the first job after its change: a worker has left, and its root is another switch.
        forgers: a host of each leaf that has no part in a job.
    """

    topology: Topology
    network: dict[str, Any]
    changed: dict[str, Any]
    forgers: dict[str, str]


def draw(draws: Draws, number: int) -> Scene:
    """One of the networks."""
    random = draws.generator(f"network {number}")
    if number == 0:
        leaves = int(random.integers(2, 4))
        links = [(f"s{leaf}", f"s{leaves + spine}") for leaf in range(1, leaves + 1) for spine in (1, 2)]
        roots = [f"s{leaves + 1}", f"s{leaves + 2}", f"s{leaves + 2}"]
    else:  # leaves under two switches that are joined
        leaves = 4
        links = [("s1", "s5"), ("s2", "s5"), ("s3", "s6"), ("s4", "s6"), ("s5", "s6")]
        roots = ["s5", "s6", "s6"]
    hosts: dict[str, list[str]] = {}
    for leaf in range(1, leaves + 1):
        hosts[f"s{leaf}"] = [f"h{_HOSTS * (leaf - 1) + host}" for host in range(1, _HOSTS + 1)]
        links += [(host, f"s{leaf}") for host in hosts[f"s{leaf}"]]
    topology = wired(KINDS[number].replace(" ", "-"), links, random)
    orders = {leaf: [names[int(place)] for place in random.permutation(_HOSTS)] for leaf, names in hosts.items()}
    first = [name for names in orders.values() for name in names[:2]]
    second = [name for names in orders.values() for name in names[1:3]]
    numbers = [int(one) for one in random.choice(1000, 2, replace=False)]
    jobs = [
        {"job": numbers[0], "root": roots[0], "slots": 16, "workers": first},
        {"job": numbers[1], "root": roots[1], "slots": 8, "workers": second},
    ]
    left = first[int(random.integers(0, len(first)))]
    changed = {**jobs[0], "root": roots[2], "workers": [name for name in first if name != left]}
    forgers = {leaf: names[3] for leaf, names in orders.items()}
    return Scene(topology, {"jobs": jobs, **told(topology)}, changed, forgers)
