"""The certified lower bound of the bytes of a task: a linear program."""

import pytest

from p4reduce.control_plane.plans.routes import chunks, frame_bytes
from p4reduce.control_plane.scheduling import NetworkState, Task, consumed, policy_named
from p4reduce.topologies import leaf_spine, load, with_capable
from studies.poster.cells import least_bytes

COPY = chunks(1000, 64) * frame_bytes(64)


def task(topology, size, first=0):
    hosts = [host.name for host in topology.hosts][first : first + size + 1]
    return Task("task", hosts[0], tuple(hosts[1:]), 1000)


def test_it_is_what_can_be_counted_by_hand():
    """Three leaves, two hosts each: within one rack no spine is needed; over three racks, one copy from each of two
    leaves to a spine, and one from there to the third."""
    topology = leaf_spine(leaves=3, spines=2, hosts=2)
    assert least_bytes(task(topology, 1), topology, 64) == 2 * 2 * COPY
    assert least_bytes(task(topology, 5), topology, 64) == 2 * (3 + 6) * COPY


@pytest.mark.parametrize("spec", ["wan:graph=nobel-us", "fat-tree:k=4", "leaf-spine:leaves=4,spines=2,hosts=3"])
@pytest.mark.parametrize("size", [3, 7])
def test_no_policy_takes_less_and_exact_takes_little_more(spec, size):
    topology = load(spec)
    for first in (0, 2, 4):
        asked = task(topology, size, first)
        bound = least_bytes(asked, topology, 64)
        taken = {
            name: consumed(policy_named(name)(asked, NetworkState(topology), lanes=64), topology) * COPY
            for name in ("spff", "spff-ina", "spt", "overlay-mst", "steiner", "exact")
        }
        assert min(taken.values()) >= bound > 0
        assert taken["exact"] <= 1.1 * bound


def test_it_grows_when_fewer_switches_can_aggregate():
    topology = load("fat-tree:k=4")
    asked = task(topology, 8)
    few = with_capable(topology, [topology.switches[0].name])
    assert least_bytes(asked, few, 64) > least_bytes(asked, topology, 64)
