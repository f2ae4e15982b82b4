"""Files of other programs: their conversion, and errors for those that cannot be read."""

import json
import random

import networkx as nx
import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce.topologies import TopologyError, from_networkx, import_file, load, save, to_networkx

CONTAINERLAB = """
name: lab
topology:
  defaults: {kind: nokia_srlinux}
  nodes:
    leaf1: {}
    leaf2: {kind: nokia_srlinux}
    frr: {kind: linux, image: frr}
    c1: {kind: linux}
    c2: {kind: linux}
  links:
    - endpoints: ["leaf1:e1-1", "frr:eth1"]
    - endpoints: ["leaf2:e1-1", "frr:eth2"]
    - endpoints: ["c1:eth1", "leaf1:e1-2"]
    - type: veth
      endpoints: [{node: c2, interface: eth1}, {node: leaf2, interface: e1-2}]
"""
ASTRA = """5 2 4
3 4
0 3 100Gbps 0.0005ms 0
1 3 100Gbps 0.0005ms 0
2 4 100Gbps 500ns 0
3 4 400Gbps 0.001ms 0.01
"""
SIMAI = """7 2 2 1 8 H100
4 5 6
0 4 2880Gbps 0.000025ms 0
1 4 2880Gbps 0.000025ms 0
2 5 2880Gbps 0.000025ms 0
3 5 2880Gbps 0.000025ms 0
0 6 400Gbps 0.0005ms 0
1 6 400Gbps 0.0005ms 0
2 6 400Gbps 0.0005ms 0
3 6 400Gbps 0.0005ms 0
"""


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["leaf-spine-8", "two-racks", "two-generations", "fat-tree-4", "germany50"])
@pytest.mark.parametrize("form", ["graph", "json", "graphml"])
def test_what_networkx_holds_comes_back_equal(tmp_path, name, form):
    topology = load(name)
    graph = to_networkx(topology)
    if form == "graph":
        back = from_networkx(graph).topology(topology.name, hosts=1, servers=0, rate="1G", delay="1us")
    elif form == "json":
        text = json.dumps(nx.node_link_data(graph, edges="edges"))
        back, left_out = import_file(written(tmp_path, f"{topology.name}.json", text))
        assert left_out == []
    else:
        for _, node in graph.nodes(data=True):
            node.pop("position", None)  # GraphML has no lists
        back, _ = import_file(written(tmp_path, f"{topology.name}.graphml", "\n".join(nx.generate_graphml(graph))))
        assert back.links == topology.links
        return
    assert back == topology


def test_a_graph_of_the_topology_zoo_gets_hosts_rates_and_delays(tmp_path):
    graph = nx.MultiGraph()
    graph.add_node(0, label="New York", Longitude=-74.006, Latitude=40.7128)
    graph.add_node(1, label="Chicago", Longitude=-87.6298, Latitude=41.8781)
    graph.add_node(2, label="Chicago")
    graph.add_edge(0, 1, LinkSpeedRaw=10e9)
    graph.add_edge(0, 1, LinkSpeedRaw=2.5e9)
    graph.add_edge(1, 2)
    path = written(tmp_path, "Zoo.graphml", "\n".join(nx.generate_graphml(graph)))
    topology, left_out = import_file(path, hosts=2, servers=1, rate="40G", delay="3us")
    assert [node.name for node in topology.switches] == ["New-York", "Chicago-1", "Chicago-2"]
    assert (len(topology.workers), len(topology.servers)) == (6, 1)
    far, near = topology.links[-2:]
    assert far.rate_bps == 12_500_000_000
    assert 1_140 < far.delay_ps / 4_900_000 < 1_150  # kilometres between the two cities
    assert (near.rate_bps, near.delay_ps) == (40_000_000_000, 3_000_000)
    assert left_out == ["2 links New-York - Chicago-1 are one, as fast as all"]


def test_linux_nodes_with_one_link_are_hosts(tmp_path):
    topology, left_out = import_file(written(tmp_path, "lab.clab.yml", CONTAINERLAB), rate="25G")
    assert [node.name for node in topology.workers] == ["c1", "c2"]
    assert {node.name for node in topology.switches} == {"leaf1", "leaf2", "frr"}
    assert {link.rate_bps for link in topology.links} == {25_000_000_000}
    assert left_out == []


def test_lists_of_links(tmp_path):
    topology, left_out = import_file(written(tmp_path, "astra.txt", ASTRA))
    assert [node.name for node in topology.workers] == ["h0", "h1", "h2"]
    assert [(link.rate_bps, link.delay_ps) for link in topology.links[-2:]] == [(10**11, 500_000), (4 * 10**11, 10**6)]
    assert left_out == ["error rates of 1 link: say --loss in a run"]
    topology, left_out = import_file(written(tmp_path, "simai.txt", SIMAI))
    assert [node.name for node in topology.nodes] == ["h0", "h1", "h2", "h3", "s6"]
    assert left_out == ["2 NVSwitches with 4 links: they are inside of servers"]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.xyz", "", "say of which format it is"),
        ("a.graphml", "<graphml", "no GraphML"),
        ("a.graphml", "\n".join(nx.generate_graphml(nx.DiGraph([(1, 2)]))), "directed"),
        ("a.json", "[]", "no node-link JSON"),
        ("a.json", "{", "no JSON"),
        (
            "a.json",
            '{"nodes": [{"id": 1}, {"id": 2}], "edges": [{"source": 1, "target": 2, "rate": "x"}]}',
            "not a rate",
        ),
        ("a.json", '{"nodes": [{"id": 1}], "edges": []}', None),
        ("a.json", '{"nodes": [{"id": 1}, {"id": 2}], "edges": []}', "cannot be reached"),
        ("a.yml", "a: [", "line"),
        ("a.yml", "nodes: {}", "no topology file of containerlab"),
        ("a.yml", "topology: {nodes: {a: {}}, links: [{endpoints: ['a:1', 'b:1']}]}", "there is no node 'b'"),
        ("a.yml", "topology: {nodes: {a: {}}, links: [{endpoints: ['a:1']}]}", r"links\[0\]\.endpoints"),
        ("a.txt", "", "line 1: takes"),
        ("a.txt", "2 1 1\n1\n0 1 10Gbps\n", "line 3: takes"),
        ("a.txt", "2 1 1\n1\n0 7 10Gbps 1us 0\n", "line 3: there is no node 7"),
        ("a.txt", "2 1 2\n1\n0 1 10Gbps 1us 0\n", "line 1: says 2 links"),
        ("a.txt", "2 x 2\n1\n0 1 10Gbps 1us 0\n", "line 1: 'x' is no whole number"),
        ("a.txt", "2 1 1\n1\n0 1 10Gbps 1 0\n", "line 3: "),
    ],
)
def test_what_is_wrong_is_one_error(tmp_path, name, text, complaint):
    path = written(tmp_path, name, text)
    if complaint is None:
        assert len(import_file(path)[0].workers) == 1
        return
    with pytest.raises(TopologyError, match=complaint) as error:
        import_file(path)
    assert str(path) in str(error.value)


def test_damaged_files_are_told_of_or_read(tmp_path):
    graph = to_networkx(load("star8"))
    for _, node in graph.nodes(data=True):
        node.pop("position", None)  # GraphML has no lists
    graphml = "\n".join(nx.generate_graphml(graph))
    chance = random.Random(4)
    read, refused = 0, []
    for text, name in ((CONTAINERLAB, "a.yml"), (ASTRA, "a.txt"), (SIMAI, "b.txt"), (graphml, "a.graphml")):
        for _ in range(150):
            at, size = chance.randrange(len(text)), chance.choice((0, 1, 1, 5, 40))
            mark = chance.choice(("", "9", "-", "\0", ":", "[", "<", "999999999999"))
            try:
                import_file(written(tmp_path, name, text[:at] + mark + text[at + size :]))
                read += 1
            except TopologyError as error:
                refused.append(str(error))
    assert all(str(tmp_path) in one for one in refused)
    assert min(read, len(refused)) > 100


def test_the_command_writes_what_load_reads(tmp_path):
    path, out = written(tmp_path, "astra.txt", ASTRA), tmp_path / "astra.yaml"
    done = CliRunner().invoke(app, ["topo", "import", str(path), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "left out: error rates of 1 link" in done.stderr
    assert load(out) == import_file(path)[0]
    printed = CliRunner().invoke(app, ["topo", "import", str(path)])
    assert printed.stdout == out.read_text()
    assert json.loads(CliRunner().invoke(app, ["topo", "import", str(path), "--json"]).stdout)["links"] == 4
    save(load(out), out)
    assert out.read_text() == printed.stdout


@pytest.mark.parametrize("hosts", [10**8, 10**30])
def test_more_hosts_than_addresses_are_refused_before_they_are_made(tmp_path, hosts):
    graph = nx.path_graph(3)
    path = written(tmp_path, "path.json", json.dumps(nx.node_link_data(graph, edges="edges")))
    with pytest.raises(TopologyError, match=r"hosts: 3 switches .* give at most 43690"):
        import_file(path, hosts=hosts)


def test_parallel_links_have_the_longest_delay(tmp_path):
    graph = nx.MultiGraph()
    graph.add_edge(0, 1, rate="10G", delay="1us")
    graph.add_edge(0, 1, rate="40G", delay="7us")
    path = written(tmp_path, "pair.json", json.dumps(nx.node_link_data(graph, edges="edges")))
    topology, left_out = import_file(path)
    (link,) = [link for link in topology.links if {link.a, link.b} == {"0", "1"} or link.rate_bps == 50 * 10**9]
    assert (link.rate_bps, link.delay_ps) == (50 * 10**9, 7_000_000)
    assert left_out == ["2 links 0 - 1 are one, as fast as all"]


def test_an_unknown_format_is_refused_with_those_that_there_are(tmp_path):
    result = CliRunner().invoke(app, ["topo", "import", str(written(tmp_path, "a.txt", ASTRA)), "--format", "visio"])
    assert result.exit_code == 2
    assert "graphml" in result.output
