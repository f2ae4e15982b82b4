"""The remainder of a damaged network, and the hosts left in it."""

from p4reduce.topologies import load
from p4reduce.topologies.optical import unreachable, without

NETWORK = load("leaf-spine:leaves=2,spines=2,hosts=2")
HOSTS = [host.name for host in NETWORK.workers]


def test_ports_and_nodes_stay_and_hosts_keep_their_link():
    left = without(NETWORK, {frozenset(("leaf1", "spine1"))}, {"spine2", "leaf2"})
    assert {frozenset((link.a, link.b)) for link in left.links} == {
        frozenset((host, f"leaf{1 + (number > 1)}")) for number, host in enumerate(HOSTS)
    }
    for link in left.links:
        assert link == NETWORK.link_between(link.a, link.b)
    assert without(NETWORK) is NETWORK


def test_the_larger_part_goes_on_and_of_equal_ones_the_first():
    assert unreachable(NETWORK, HOSTS) == frozenset()
    assert unreachable(NETWORK, HOSTS, switches={"spine1"}) == frozenset()
    assert unreachable(NETWORK, HOSTS, switches={"spine1", "spine2"}) == {*HOSTS[2:]}
    assert unreachable(NETWORK, HOSTS[1:], switches={"spine1", "spine2"}) == {HOSTS[1]}
    assert unreachable(NETWORK, HOSTS, links={frozenset((HOSTS[0], "leaf1"))}) == {HOSTS[0]}
    assert unreachable(NETWORK, [], switches={"leaf1"}) == frozenset()
