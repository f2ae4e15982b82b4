"""The switches that lower the best plan's bound most, compared with all possible sets."""

import random
from itertools import combinations

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans import upgrade
from p4reduce.control_plane.plans.upgrade import Upgrade
from p4reduce.topologies import TopologyBuilder, load


def search(spec: str) -> Upgrade:
    topology = load(spec)
    return Upgrade(topology, tuple(host.name for host in topology.workers), 262_144, 256)


def drawn(rng: random.Random) -> Upgrade:
    """Draw a network of a few switches, with or without hosts, some programmable already."""
    builder = TopologyBuilder("drawn")
    switches = [f"s{number}" for number in range(rng.randint(3, 5))]
    for name in switches:
        builder.switch(name, capable=rng.random() < 0.2)
    links = {(name, rng.choice(switches[:place])) for place, name in enumerate(switches) if place}
    links |= {tuple(sorted(rng.sample(switches, 2), reverse=True)) for _ in range(rng.randint(0, 3))}
    hosts = [f"h{number}" for number in range(rng.randint(2, 5))]
    for host in hosts:
        builder.host(host)
        builder.link(host, rng.choice(switches), f"{rng.choice((1, 1, 2))}G", "1us")
    for a, b in sorted(links):
        builder.link(a, b, f"{rng.choice((1, 2))}G", "1us")
    return Upgrade(builder.build(), tuple(hosts), 10_000, 256)


@pytest.mark.parametrize("seed", range(12))
def test_no_set_is_better(seed):
    rng = random.Random(seed)
    given = drawn(rng)
    count = rng.randint(1, 3)
    sets = list(combinations(given.candidates, min(count, len(given.candidates))))
    least = min(given.bound(chosen).bound_ps for chosen in sets)
    assert given.best(count).bound_ps == pytest.approx(least, rel=1e-6)


def test_switches_that_are_alike_are_one_class():
    classes = search("leaf-spine:leaves=4,spines=2,hosts=4,servers=0,capable=none").classes()
    assert sorted(map(sorted, classes)) == [["leaf1", "leaf2", "leaf3", "leaf4"], ["spine1", "spine2"]]
    uneven = search("leaf-spine:leaves=4,spines=2,hosts=4,servers=1,capable=none").classes()
    assert sorted(map(len, uneven)) == [1, 2, 3]  # the server's rack differs from the others


def test_greedy_is_never_worse_than_the_best_of_random_sets(monkeypatch):
    monkeypatch.setattr(upgrade, "MOST_SETS", 0)
    given = search("leaf-spine:leaves=4,spines=2,hosts=4,servers=0,capable=none")
    for count in range(7):
        assert given.best(count).bound_ps <= min(one.bound_ps for one in given.drawn(count, 5, count))


def test_ends():
    given = search("leaf-spine:leaves=2,spines=1,hosts=2,servers=0,capable=none")
    assert given.best(0) == given.bound(())
    assert set(given.best(99).switches) == {"leaf1", "leaf2", "spine1"}
    programs = []
    given.best(1, lambda done, most: programs.append((done, most)))
    assert programs == [(1, 3), (2, 3)]  # a leaf, the spine; at most three sets
    with pytest.raises(PlanError, match="too many switches and racks"):
        search("fat-tree:k=16,capable=none").best(1)


def test_what_is_capable_already_stays():
    given = search("leaf-spine:leaves=2,spines=1,hosts=2,servers=0,capable=leaf1")
    assert set(given.candidates) == {"spine1", "leaf2"}
    assert {node.name for node in given.with_switches(["leaf2"]).switches if node.capable} == {"leaf1", "leaf2"}
