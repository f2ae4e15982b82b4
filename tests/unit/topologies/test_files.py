import pytest
import yaml

from p4reduce.topologies import (
    TopologyError,
    bundled,
    fat_tree,
    leaf_spine,
    load,
    save,
    star,
    to_yaml,
    wan,
    with_capable,
)

EXPLICIT = """
defaults: {rate: 10G, delay: 1us}
nodes:
  - {name: h1, kind: host}
  - {name: ps, kind: host, role: server}
  - {name: s1, kind: switch}
  - {name: s2, kind: switch, capable: false}
links:
  - {a: h1, b: s1}
  - {a: ps, b: s2, rate: 400M}
  - {a: s1, b: s2, delay: 5ns}
"""


@pytest.fixture
def write(tmp_path):
    def _write(text, name="net.yaml"):
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return _write


def test_an_explicit_file(write):
    topology = load(write(EXPLICIT))
    assert topology.name == "net"
    assert [node.name for node in topology.servers] == ["ps"]
    assert [(s.name, s.capable) for s in topology.switches] == [("s1", True), ("s2", False)]
    assert topology.link_between("h1", "s1").rate_bps == 10**10
    assert topology.link_between("ps", "s2").rate_bps == 4 * 10**8
    assert topology.link_between("s1", "s2").delay_ps == 5_000


def test_the_bundled_ones_load():
    names = bundled()
    assert {"star8", "leaf-spine-8", "leaf-spine-16", "fat-tree-4", "nobel-us", "germany50"} <= set(names)
    for name in names:
        topology = load(name)
        assert topology.name == name
        assert topology.servers


@pytest.mark.parametrize(
    "topology",
    [
        star(3),
        leaf_spine(2, 2, 4, servers=1, capable=["spine*"], oversubscription=3),
        fat_tree(4),
        wan("nobel-us", servers=2),
    ],
    ids=lambda topology: topology.name,
)
def test_round_trip(topology, tmp_path):
    path = tmp_path / "copy.yaml"
    save(topology, path)
    assert load(path) == topology
    assert yaml.safe_load(to_yaml(topology))["links"][0]["rate"] == "10G"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("star:hosts=8", star(8)),
        ("leaf-spine:leaves=2,spines=2,hosts=4,rate=10G,delay=1us", leaf_spine(2, 2, 4)),
        ("leaf-spine:leaves=2, spines=3, hosts=4, uplink=40G, servers=1", leaf_spine(2, 3, 4, uplink="40G", servers=1)),
        ("fat-tree:k=4,capable=core*+agg*", fat_tree(4, capable=["core*", "agg*"])),
        ("wan:graph=sndlib/nobel-us,rate=1G", wan("nobel-us", rate="1G")),
        ("star:hosts=8,capable=none", star(8, capable=False)),
    ],
)
def test_specifications(spec, expected):
    topology = load(spec)
    assert topology.name == spec
    assert (topology.nodes, topology.links) == (expected.nodes, expected.links)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere.yaml", "there is no such file"),
        ("a/b", "there is no such file"),
        ("leafspine8", "is no topology: give a YAML file, one of .*leaf-spine-8.*star, leaf-spine, fat-tree, wan"),
        ("leaf-spine:leaves=2,spines=2", "hosts: is missing"),
        ("leaf-spine:leaves=2,spines=2,hosts=none", "hosts: .*valid integer"),
        ("leaf-spine:leaves=2,spines=2,hosts=0", "hosts: .*greater than 0"),
        ("star:hosts=2,speed=10G", "speed: is not known here.*known: .*rate"),
        ("star:hosts=2,rate=10X", "rate: '10X' is not a rate"),
        ("star:hosts=2,delay=10", "delay: '10' is not a delay"),
        ("star:hosts=2,hosts=3", "hosts is given twice"),
        ("star:hosts", "'hosts' is no 'parameter=value'"),
        ("star:hosts=2,capable=leaf*", "capable: .* match no switch"),
        ("wan:graph=nowhere", "graph: topohub .* has no sndlib/nowhere"),
        ("fat-tree:k=5", "even k, not 5"),
    ],
)
def test_sources_that_cannot_be_loaded(source, message):
    with pytest.raises(TopologyError, match=message):
        load(source)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("kind: host}", "kind: router}"),
            r"nodes\[0\].kind: Input should be .*'crossconnect' \(it says 'router'\)",
        ),
        (("rate: 400M", "rate: 400 apples"), r"links\[1\].rate: '400 apples' is not a rate; write for example '10G'"),
        (("delay: 5ns", "delay: 5"), r"links\[2\].delay: 5 is not a delay"),
        (("delay: 5ns", "dealy: 5ns"), r"links\[2\].dealy: is not known here; remove it or correct its name"),
        (("b: s2, delay", "b: s3, delay"), r"links\[2\] \(s1 - s3\): there is no node 's3'"),
        (("defaults: {rate: 10G, delay: 1us}", "defaults: {delay: 1us}"), r"links\[0\] \(h1 - s1\).rate: missing"),
        (("defaults: {rate: 10G, delay: 1us}", "defaults: {rate: 10G}"), r"links\[0\] \(h1 - s1\).delay: missing"),
        (
            ("{name: h1, kind: host}", "{name: h1, kind: host, capable: true}"),
            r"nodes\[0\] \(h1\).capable: hosts cannot",
        ),
        (("{name: s1, kind: switch}", "{name: s1, kind: switch, role: server}"), r"nodes\[2\] \(s1\).role: only hosts"),
        (("name: h1, kind: host", "name: ps, kind: host"), "'ps' is given 2 times"),
        (("name: h1", "name: 1"), r"nodes\[0\].name: Input should be a valid string \(it says 1\)"),
    ],
)
def test_faults_in_files_name_file_field_and_fix(write, change, message):
    path = write(EXPLICIT.replace(*change))
    with pytest.raises(TopologyError, match=message) as caught:
        load(path)
    assert all(line.startswith(str(path)) for line in str(caught.value).splitlines())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this is empty"),
        ("- a\n- b\n", "this is a list"),
        ("nodes: [", "is not YAML"),
        ("builder: ring\nhosts: 4\n", "builder: there is no 'ring'; choose one of star, leaf-spine, fat-tree, wan"),
        ("nodes: []\nlinks: []\n", "there is no host"),
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
        ("[" * 5000, "is not YAML|nested too deeply"),
    ],
)
def test_files_that_are_no_topologies(write, text, message):
    with pytest.raises(TopologyError, match=message):
        load(write(text))


def test_not_text(tmp_path):
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TopologyError, match="is not UTF-8 text"):
        load(path)


def test_aliases_do_not_explode_in_messages(write):
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}, *a{i - 1}]" for i in range(1, 30)]
    with pytest.raises(TopologyError) as caught:
        load(write("\n".join([*lines, "nodes: *a29", "links: []"])))
    assert len(str(caught.value)) < 10_000


def test_another_choice_of_capable_switches():
    topology = leaf_spine(2, 2, 2, servers=1)
    partial = with_capable(topology, ["leaf*"])
    assert [s.name for s in partial.switches if s.capable] == ["leaf1", "leaf2"]
    assert partial.links == topology.links
    assert with_capable(partial, True) == topology
