"""The local search over sets of switches, started with more switches than it caches distances for."""

import numpy as np
import pytest

from p4reduce.control_plane.plans import steiner
from p4reduce.control_plane.scheduling import NetworkState, Task, policy_named
from p4reduce.topologies import Topology, load


def one_worker_a_rack(topology: Topology) -> Task:
    racks: dict[str, str] = {}
    for host in topology.hosts:
        racks.setdefault(topology.neighbours(host.name)[0], host.name)
    server, *workers = racks.values()
    return Task("t", server, tuple(workers), 1000, demand_bps=10**6)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_room_for_distances_grows_with_the_start(monkeypatch: pytest.MonkeyPatch, asymmetric: bool) -> None:
    topology = load("fat-tree:k=6")
    random = np.random.default_rng(0)
    background = {hop: int(random.integers(0, 3 * 10**9)) for hop in _hops(topology)} if asymmetric else {}
    task, state = one_worker_a_rack(topology), NetworkState(topology, background)
    roomy = policy_named("steiner")(task, state)
    monkeypatch.setattr(steiner, "_ROWS", 4)
    narrow = policy_named("steiner")(task, state)
    assert len(task.workers) > 4
    assert narrow.upload.aggregators
    assert sum(narrow.demand_bps.values()) <= 1.2 * sum(roomy.demand_bps.values())


def _hops(topology: Topology) -> list[tuple[str, int]]:
    return [end for link in topology.links for end in ((link.a, link.port_a), (link.b, link.port_b))]
