"""Pods around a cross-connect, and the ports that a configuration joins."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.control_plane.plans.routes import BaseRoutes
from p4reduce.topologies import Topology, TopologyError, load, to_yaml
from p4reduce.topologies.files import build
from p4reduce.topologies.optical import Matrix, joined, lay_circuits, oxc, uplinks, view
from tests.support.effort import examples


def matrix(pods: int, *pairs: tuple[int, int]) -> list[list[int]]:
    found = [[0] * pods for _ in range(pods)]
    for i, j in pairs:
        found[i][j] += 1
        found[j][i] += 1
    return found


def test_a_specification_gives_pods_around_a_crossconnect() -> None:
    topology = load("oxc:pods=3,hosts=2,ports=4,rate=25G,port_rate=100G,delay=500ns,gpus=8,delta=1ms,parallel=striped")
    assert [node.name for node in topology.crossconnects] == ["oxc1"]
    assert [node.name for node in topology.switches] == ["tor1", "tor2", "tor3"]
    assert topology.neighbours("tor2") == ("h3", "h4", "oxc1", "oxc1", "oxc1", "oxc1")
    assert topology.link_at("tor2", 6).rate_bps == 100 * 10**9
    assert topology.link_at("h3", 1).rate_bps == 25 * 10**9
    with pytest.raises(TopologyError, match="no address"):
        topology.node("oxc1").ip  # noqa: B018
    assert build_again(topology) == topology
    # Routes lead to the switch's own hosts only; paths beyond the cross-connect come from plans.
    routes = BaseRoutes(topology).of("tor2")
    assert {topology.by_ip[route.value].name: route.neighbour for route in routes} == {"h3": "h3", "h4": "h4"}


def build_again(topology: Topology) -> Topology:
    import yaml

    return build(yaml.safe_load(to_yaml(topology)), "")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("oxc:pods=3,hosts=2", "ports: is missing"),
        ("oxc:pods=3,hosts=2,ports=0", "ports"),
        ("oxc:pods=0,hosts=2,ports=1", "pods"),
        ("oxc:pods=3,hosts=2,ports=3,planes=2", "planes: 2"),
        ("oxc:pods=3,hosts=2,ports=600", "at most 509 ports"),
        ("oxc:pods=3,hosts=2,ports=1,colour=red", "colour"),
    ],
)
def test_what_cannot_be_built_says_why(spec: str, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        load(spec)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ([[0, 1], [1, 0]], "must have 3 rows"),
        ([[0, 1, 0], [0, 0, 0], [0, 0, 0]], "symmetric"),
        ([[0, -1, 0], [-1, 0, 0], [0, 0, 0]], "not negative"),
        ([[1, 0, 0], [0, 0, 0], [0, 0, 0]], "to itself"),
        ([[0, 2, 1], [2, 0, 0], [1, 0, 0]], "tor1 has 2 ports, but 3 circuits"),
    ],
)
def test_what_is_no_configuration_says_why(wanted: Matrix, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        lay_circuits(oxc(3, 1, 2), [wanted])


def test_bonds_are_one_link_and_stripes_are_several() -> None:
    topology = oxc(2, 1, 3, rate="10G", delay="1us")
    [(bond,)] = lay_circuits(topology, [matrix(2, (0, 1), (0, 1), (0, 1))])
    assert (bond.a, bond.port_a, bond.b, bond.port_b) == ("tor1", 2, "tor2", 2)
    assert (bond.rate_bps, bond.delay_ps) == (30 * 10**9, 2_000_000)
    [stripes] = lay_circuits(topology, [matrix(2, (0, 1), (0, 1), (0, 1))], "striped")
    assert [link.port_a for link in stripes] == [2, 3, 4]
    assert {link.rate_bps for link in stripes} == {10 * 10**9}
    with pytest.raises(TopologyError, match="repeats"):
        view(topology, stripes)
    assert view(topology, stripes[1:2]).port("tor1", "tor2") == 3


def test_what_stays_is_at_the_same_ports() -> None:
    topology = oxc(4, 1, 2)
    first = matrix(4, (0, 1), (2, 3), (0, 3))
    second = matrix(4, (1, 2), (0, 3), (2, 3))
    one, other = lay_circuits(topology, [first, second])
    assert {link for link in one if {link.a, link.b} in ({"tor1", "tor4"}, {"tor3", "tor4"})} <= set(other)
    cut_off = view(topology, other)
    assert cut_off.partial
    assert not cut_off.crossconnects


@settings(max_examples=examples(25, 60), deadline=None)
@given(st.data())
def test_every_configuration_is_a_matching_of_ports(data: st.DataObject) -> None:
    pods, planes = data.draw(st.integers(1, 6)), data.draw(st.sampled_from((1, 2)))
    ports = planes * data.draw(st.integers(1, 3))
    topology = oxc(pods, 1, ports, planes=planes)
    pairs = list(combinations(range(pods), 2))
    wanted = []
    for _ in range(data.draw(st.integers(1, 3))):
        left, chosen = [ports] * pods, []
        for i, j in data.draw(st.lists(st.sampled_from(pairs), max_size=12)) if pairs else []:
            if min(left[i], left[j]) > 0:
                chosen.append((i, j))
                left[i] -= 1
                left[j] -= 1
        wanted.append(matrix(pods, *chosen))
    parallel = data.draw(st.sampled_from(("bonded", "striped")))
    fibres = uplinks(topology)
    if planes == 2 and any(_cannot_be_halved(one, ports) for one in wanted):
        with pytest.raises(TopologyError, match="cannot be halved"):
            lay_circuits(topology, wanted, parallel)
        return
    laid = lay_circuits(topology, wanted, parallel)
    for demand, links in zip(wanted, laid, strict=True):
        ends = [end for link in links for end in ((link.a, link.port_a), (link.b, link.port_b))]
        assert len(set(ends)) == len(ends)
        have = [[0] * pods for _ in range(pods)]
        for link in links:
            i, j = (int(name.removeprefix("tor")) - 1 for name in (link.a, link.b))
            count = link.rate_bps // fibres[link.a][0].rate_bps
            have[i][j] += count
            have[j][i] += count
            if count == 1:
                assert topology.neighbour(link.a, link.port_a) == topology.neighbour(link.b, link.port_b)
        assert have == demand


def _cannot_be_halved(wanted: list[list[int]], ports: int) -> bool:
    """By brute force: in no split of the circuits does each pod use at most half of its ports in both planes."""
    edges = [(i, j) for i, row in enumerate(wanted) for j in range(i) for _ in range(row[j])]
    for chosen in range(1 << len(edges)):
        degrees = [[0] * len(wanted), [0] * len(wanted)]
        for place, (i, j) in enumerate(edges):
            degrees[chosen >> place & 1][i] += 1
            degrees[chosen >> place & 1][j] += 1
        if max(*degrees[0], *degrees[1]) <= ports // 2:
            return False
    return True


def test_three_pods_in_a_triangle_do_not_fit_two_planes() -> None:
    topology = oxc(3, 1, 2, planes=2)
    with pytest.raises(TopologyError, match="3 circuits cannot be halved among two planes"):
        lay_circuits(topology, [matrix(3, (0, 1), (1, 2), (0, 2))])
    assert len(lay_circuits(topology, [matrix(3, (0, 1), (1, 2))])[0]) == 2


@settings(max_examples=examples(20, 1000), deadline=None)
@given(pods=st.integers(2, 6), ports=st.sampled_from((1, 2, 4)), data=st.data())
def test_every_pair_is_joined_in_one_configuration(pods: int, ports: int, data: st.DataObject) -> None:
    topology = oxc(pods, 1, ports, planes=data.draw(st.sampled_from((1, 2))) if ports > 1 else 1)
    known = [frozenset((f"tor{i + 1}", f"tor{j + 1}")) for i, j in combinations(range(pods), 2)]
    size = {pair: data.draw(st.sampled_from((0, 1, 1000, 10**30))) for pair in known if data.draw(st.booleans())}
    found = joined(topology, size)
    assert set(found) == set(size)
    for pair, circuits in found.items():
        ends = [end for link in circuits for end in ((link.a, link.port_a), (link.b, link.port_b))]
        assert len(set(ends)) == len(ends)
        assert pair in {frozenset((link.a, link.b)) for link in circuits}
        view(topology, circuits)
    alone = joined(topology, {known[0]: 1})[known[0]]
    assert [link.rate_bps for link in alone] == [ports * uplinks(topology)["tor1"][0].rate_bps], "no port is idle"
