"""slurm.conf, topology.conf and job_submit.lua of a topology."""

from pathlib import Path

import pytest

from p4reduce.adapters.slurm.cluster import ClusterPlace, conf_files, topology_conf
from p4reduce.adapters.slurm.service import SlurmError
from p4reduce.control_plane.placement import Racks
from p4reduce.topologies import load
from p4reduce.topologies.datacenter import TopologyBuilder


def place(topology, folder="/tmp/x"):  # noqa: S108  (no file is made)
    ports = {host.name: 30_000 + number for number, host in enumerate(topology.workers)}
    return ClusterPlace(Path(folder), "machine", "me", 29_999, ports)


def lines_of(text):
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_every_worker_is_a_node_and_servers_are_not():
    topology = load("leaf-spine-8")
    lines = lines_of(conf_files(topology, place(topology))["slurm.conf"])
    nodes = [line.split()[0] for line in lines if line.startswith("NodeName")]
    assert nodes == [f"NodeName=h{number}" for number in range(1, 9)]
    assert all("NodeAddr=127.0.0.1" in line for line in lines if line.startswith("NodeName"))


def test_daemons_listen_at_loopback_only():
    topology = load("star8")
    text = conf_files(topology, place(topology))["slurm.conf"]
    assert "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny" in text
    assert "SlurmctldHost=machine(127.0.0.1)" in text


def test_racks_are_leaf_switches():
    lines = lines_of(topology_conf(Racks(load("two-generations"))))
    assert lines == [
        "SwitchName=leaf1 Nodes=h1,h2,h3,h4",
        "SwitchName=leaf2 Nodes=h5,h6,h7,h8",
        "SwitchName=leaf3 Nodes=h9,h10,h11,h12",
        "SwitchName=leaf4 Nodes=h13,h14,h15,h16",
        "SwitchName=tier1-1 Switches=leaf1,leaf2,leaf3,leaf4",
    ]


def test_a_fat_tree_has_pods_and_every_switch_one_parent():
    lines = lines_of(topology_conf(Racks(load("fat-tree-4"))))
    above = [line for line in lines if "Switches=" in line]
    assert len(lines) - len(above) == 8
    children = [child for line in above for child in line.split("Switches=")[1].split(",")]
    assert len(children) == len(set(children))
    assert len(above) == 5
    assert len(above[-1].split("Switches=")[1].split(",")) == 4


def test_one_rack_is_one_switch():
    assert len(lines_of(topology_conf(Racks(load("star8"))))) == 1


@pytest.mark.parametrize("name", ["h 1", "h1,h2", "h[1-2]", "h1\nx", "a=b"])
def test_names_that_slurm_cannot_have(name):
    builder = TopologyBuilder("odd")
    builder.switch("s1")
    try:
        builder.host(name)
        builder.link(name, "s1", "10G", "1us")
        topology = builder.build()
    except Exception as error:  # a refusal by the topology is as good
        assert type(error).__name__ == "TopologyError"  # noqa: PT017
        return
    with pytest.raises(SlurmError, match="nodes and switches"):
        conf_files(topology, place(topology))


@pytest.mark.parametrize("folder", ["/tmp/a b", "/tmp/a\nSlurmUser=root", "/tmp/a#b", '/tmp/"x"'])  # noqa: S108
def test_paths_that_slurm_conf_cannot_have(folder):
    topology = load("star8")
    with pytest.raises(SlurmError, match="TMPDIR"):
        conf_files(topology, place(topology, folder))
