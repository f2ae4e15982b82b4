"""The networks and tasks that planning is measured on."""

import random
from collections.abc import Iterator

from p4reduce.control_plane.scheduling import NetworkState, Task
from p4reduce.topologies import Topology, fat_tree, load, with_capable

HOSTS = 16
"""terminals of a task: the server and 15 workers"""


def network(name: str, share: float, seed: int) -> Topology:
    """A fat-tree ('16' is k = 16) or a bundled network; that share of its switches, drawn at random, is capable."""
    topology = fat_tree(int(name)) if name.isdigit() else load(name)
    if share >= 1:
        return topology
    rng = random.Random(seed)  # noqa: S311  (reproducible, not secret)
    return with_capable(topology, [switch.name for switch in topology.switches if rng.random() < share])


def tasks(topology: Topology, count: int, seed: int, hosts: int = HOSTS) -> list[Task]:
    """Tasks of 16 random hosts each, with the model size of LeNet-5."""
    rng = random.Random(seed)  # noqa: S311
    names = [host.name for host in topology.workers]
    drawn = (rng.sample(names, hosts) for _ in range(count))
    return [
        Task(f"task{number}", server, tuple(workers), elements=61_706, demand_bps=10_000_000)
        for number, (server, *workers) in enumerate(drawn)
    ]


def loaded(topology: Topology, seed: int) -> NetworkState:
    """Every direction of every link between switches is used to a random part, up to four fifths."""
    rng = random.Random(seed)  # noqa: S311
    used = {hop: int(rng.random() * 0.8 * topology.link_at(*hop).rate_bps) for hop in _between_switches(topology)}
    return NetworkState(topology, background_bps=used)


def _between_switches(topology: Topology) -> Iterator[tuple[str, int]]:
    for link in topology.links:
        if topology.node(link.a).is_switch and topology.node(link.b).is_switch:
            yield link.a, link.port_a
            yield link.b, link.port_b
