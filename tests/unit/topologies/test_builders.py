import networkx as nx
import pytest

from p4reduce.topologies import (
    Link,
    Node,
    Topology,
    TopologyBuilder,
    TopologyError,
    fat_tree,
    leaf_spine,
    load,
    star,
    wan,
)


def test_addresses_follow_from_the_index():
    topology = leaf_spine(2, 2, 4, servers=1)
    hosts = [host.name for host in topology.hosts]
    assert hosts == [f"h{i}" for i in range(1, 9)] + ["server1"]
    assert topology.node("h1").ip_text == "10.0.0.1"
    assert topology.node("server1").ip == 0x0A000009
    assert topology.node("spine1").ip_text == "10.128.0.1"
    assert topology.node("leaf2").ip_text == "10.128.0.4"
    assert topology.node("leaf2").mac_text == "02:00:0a:80:00:04"
    assert topology.by_ip[0x0A000001].name == "h1"


def test_ports_count_in_the_order_of_links():
    topology = leaf_spine(2, 2, 4, servers=1)
    assert topology.neighbours("leaf1") == ("h1", "h2", "h3", "h4", "spine1", "spine2", "server1")
    assert topology.neighbours("spine2") == ("leaf1", "leaf2")
    assert topology.port("leaf1", "spine2") == 6
    assert topology.neighbour("leaf1", 6) == "spine2"
    assert topology.port("h3", "leaf1") == 1
    link = topology.link_at("spine2", 1)
    assert (link.other("spine2"), link.port_of("leaf1")) == ("leaf1", 6)


def test_what_is_not_there_is_named():
    topology = star(2)
    with pytest.raises(TopologyError, match="no node 'h9'"):
        topology.node("h9")
    with pytest.raises(TopologyError, match=r"no port 3: its ports are 1\.\.2"):
        topology.link_at("s1", 3)
    with pytest.raises(TopologyError, match="no link h1 - h2"):
        topology.port("h1", "h2")


def test_star():
    topology = star(5, rate="25G", delay="200ns", servers=2)
    assert [node.name for node in topology.workers] == ["h1", "h2", "h3", "h4", "h5"]
    assert [node.name for node in topology.servers] == ["server1", "server2"]
    assert {link.rate_bps for link in topology.links} == {25 * 10**9}
    assert {link.delay_ps for link in topology.links} == {200_000}


def test_leaf_spine_uplinks():
    def uplink(**parameters):
        return leaf_spine(2, 2, 4, rate="10G", **parameters).link_between("leaf1", "spine1").rate_bps

    assert uplink() == 10**10
    assert uplink(uplink="40G") == 4 * 10**10
    assert uplink(oversubscription=1) == 2 * 10**10
    assert uplink(oversubscription="4/1") == 5 * 10**9
    assert uplink(oversubscription="3:2") == int(2 * 10**10 * 2 / 3)
    with pytest.raises(TopologyError, match="give one of the two"):
        uplink(uplink="1G", oversubscription=2)
    for bad in (0, -1, "many", "1/0"):
        with pytest.raises(TopologyError, match="oversubscription"):
            uplink(oversubscription=bad)


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_fat_tree(k):
    topology = fat_tree(k)
    assert len(topology.hosts) == k**3 // 4
    assert len(topology.switches) == 5 * k * k // 4
    degrees = {len(topology.neighbours(switch.name)) for switch in topology.switches}
    assert degrees == {k}
    far = nx.shortest_path_length(topology.graph(), "h1", topology.hosts[-1].name)
    assert far == 6


def test_fat_tree_needs_an_even_k():
    with pytest.raises(TopologyError, match="even k, not 3; use 4"):
        fat_tree(3)


def test_capable_switches_by_pattern():
    topology = leaf_spine(3, 2, 1, capable=["leaf*", "spine2"])
    assert [switch.name for switch in topology.switches if switch.capable] == ["spine2", "leaf1", "leaf2", "leaf3"]
    assert not any(switch.capable for switch in star(2, capable=False).switches)
    assert not any(switch.capable for switch in star(2, capable="none").switches)
    assert all(switch.capable for switch in star(2, capable="all").switches)
    with pytest.raises(TopologyError, match=r"\['edge\*'\] match no switch; the switches are s1"):
        star(2, capable="edge*")


@pytest.mark.parametrize(
    ("graph", "switches", "links"), [("nobel-us", 14, 21), ("germany50", 50, 88), ("topozoo/Abilene", 11, 14)]
)
def test_wan(graph, switches, links):
    topology = wan(graph, hosts=2, rate="100G", access_rate="10G", servers=1)
    assert len(topology.switches) == switches
    assert len(topology.workers) == 2 * switches
    assert len(topology.links) == links + 2 * switches + 1
    core = [link for link in topology.links if link.a in {s.name for s in topology.switches}]
    assert {link.rate_bps for link in core} == {10**11}
    assert topology.link_at(topology.hosts[0].name, 1).rate_bps == 10**10


def test_wan_delays_come_from_distances():
    topology = wan("nobel-us")
    # topohub: Palo-Alto - San-Diego is 704.13 km; light in fibre needs 4.9 us/km.
    assert topology.link_between("Palo-Alto", "San-Diego").delay_ps == round(704.13 * 4_900_000)
    assert topology.link_at("Palo-Alto-h1", 1).delay_ps == 1_000_000
    assert wan("nobel-us", delay="5us").link_between("Palo-Alto", "San-Diego").delay_ps == 5_000_000


def test_unknown_wan():
    with pytest.raises(TopologyError, match="has no sndlib/atlantis or topozoo/atlantis"):
        wan("atlantis")
    with pytest.raises(TopologyError, match="has no"):
        wan("../../../etc/passwd")


def test_too_few_of_something():
    with pytest.raises(TopologyError, match="hosts: 0 is too few"):
        star(0)
    with pytest.raises(TopologyError, match="spines: 0 is too few"):
        leaf_spine(2, 0, 2)
    with pytest.raises(TopologyError, match="servers: -1 is too few"):
        star(1, servers=-1)


def test_a_topology_is_immutable_and_comparable():
    topology = star(3)
    assert topology == star(3)
    assert topology != star(4)
    with pytest.raises(AttributeError):
        topology.name = "other"
    with pytest.raises(nx.NetworkXError):
        topology.graph().add_node("x")
    assert topology.graph().copy().nodes["s1"]["capable"] is True


def network(*links, hosts=("h1", "h2"), switches=("s1", "s2")):
    builder = TopologyBuilder("t")
    for host in hosts:
        builder.host(host)
    for switch in switches:
        builder.switch(switch)
    for a, b in links:
        builder.link(a, b, "1G", "1us")
    return builder.build()


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([("h1", "s1"), ("h2", "s2")], "cannot be reached"),
        ([("h1", "s1"), ("h2", "s1"), ("s1", "s1")], "linked to itself"),
        ([("h1", "s1"), ("h2", "s1"), ("s1", "s2"), ("s2", "s1")], "repeats links"),
        ([("h1", "s1"), ("s1", "s2")], "host 'h2' has 0 links"),
        ([("h1", "s1"), ("h2", "s2"), ("h2", "s1"), ("s1", "s2")], "host 'h2' has 2 links"),
        ([("h1", "h2"), ("s1", "s2")], "linked to host"),
        ([("h1", "s1"), ("h2", "s9"), ("s1", "s2")], "there is no node 's9'"),
    ],
)
def test_impossible_networks(links, message):
    with pytest.raises(TopologyError, match=message):
        network(*links)


def test_names_are_checked():
    with pytest.raises(TopologyError, match="given 2 times"):
        network(("h1", "s1"), ("h2", "s1"), ("s1", "s2"), hosts=("h1", "h1"))
    with pytest.raises(TopologyError, match="is no name"):
        network(hosts=("h 1",))
    with pytest.raises(TopologyError, match="there is no switch"):
        network(hosts=("h1",), switches=())


def test_ports_end_at_509():
    assert len(star(509).hosts) == 509
    with pytest.raises(TopologyError, match="'s1' has over 509 links; a switch has at most 509 ports"):
        star(510)


def test_nodes_end_at_131072():
    nodes = (*(Node(f"s{i}", "switch", i, role="switch") for i in range(131_073)), Node("h", "host", 0))
    with pytest.raises(TopologyError, match="131073 nodes of kind switch; addresses allow 131072"):
        Topology("big", nodes, ())


def test_ports_and_indices_cannot_be_made_up():
    nodes = (Node("h1", "host", 0), Node("s1", "switch", 0, role="switch"))
    assert Topology("t", nodes, (Link("h1", 1, "s1", 1, 1, 0),)).port("s1", "h1") == 1
    with pytest.raises(TopologyError, match="port 2 of 's1' must be 1"):
        Topology("t", nodes, (Link("h1", 1, "s1", 2, 1, 0),))
    with pytest.raises(TopologyError, match="rate 0 bit/s must be positive"):
        Topology("t", nodes, (Link("h1", 1, "s1", 1, 0, 0),))
    with pytest.raises(TopologyError, match="must not be negative"):
        Topology("t", nodes, (Link("h1", 1, "s1", 1, 1, -1),))
    with pytest.raises(TopologyError, match="indices of kind host"):
        Topology("t", (Node("h1", "host", 3), nodes[1]), ())
    with pytest.raises(TopologyError, match="cannot aggregate"):
        Topology("t", (Node("h1", "host", 0, capable=True), nodes[1]), ())
    with pytest.raises(TopologyError, match="cannot have the role"):
        Topology("t", (Node("h1", "host", 0, role="switch"), nodes[1]), ())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("star:hosts=99999999", "'s1' has over"),
        ("fat-tree:k=1000000", "one switch too many"),
        ("leaf-spine:leaves=1000000000,spines=1,hosts=1", "one switch too many"),
        ("leaf-spine:leaves=2,spines=1,hosts=1000000000", "has over"),
        ("wan:graph=nobel-us,hosts=1000000000", "has over"),
        ("star:hosts=2,servers=1000000000", "has over"),
    ],
)
def test_what_no_network_may_have_is_refused_before_it_is_built(spec, message):
    with pytest.raises(TopologyError, match=message):
        load(spec)


def test_a_device_is_no_file():
    with pytest.raises(TopologyError, match="/dev/null: is a device or a pipe"):
        load("/dev/null")
