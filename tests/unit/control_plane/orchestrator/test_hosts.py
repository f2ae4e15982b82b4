"""Files with the capabilities of hosts, and the resulting times."""

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator import ComputingManager, HostProfile, TaskError, bundled_hosts, read_hosts
from p4reduce.control_plane.scheduling import Task
from p4reduce.topologies import leaf_spine, load

TOPOLOGY = leaf_spine(leaves=2, spines=1, hosts=2, servers=1)


def written(folder, text):
    path = folder / "hosts.yaml"
    path.write_text(text)
    return path


def test_a_host_has_what_its_entry_says_and_the_default_otherwise(tmp_path):
    path = written(
        tmp_path,
        "default: {add: 2ns, models: 3}\n"
        "hosts: {h1: {slowdown: 2, add: 0}, server1: {add: 150ps, most_models: 4, utility: 1.5}}",
    )
    profiles = read_hosts(path).of(TOPOLOGY)
    assert set(profiles) == {host.name for host in TOPOLOGY.hosts}
    assert profiles["h1"] == HostProfile(slowdown=2.0, models=3)
    assert profiles["h2"] == HostProfile(models=3, add_ps=2000)
    assert profiles["server1"] == HostProfile(models=3, most_models=4, add_ps=150, utility=1.5)


@pytest.mark.parametrize("name", bundled_hosts())
def test_bundled_files_are_for_the_topology_of_their_name(name):
    profiles = read_hosts(name).of(load(name))
    assert any(profile.add_ps for profile in profiles.values())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- a", "expected the keys 'default' (a profile) and 'hosts'"),
        ("h1: {add: 1ns}", "expected the keys 'default' (a profile) and 'hosts'"),
        ("hosts: [", "is not YAML"),
        ("hosts: &a {h1: {}}\ndefault: *a", "aliases (*name) are not allowed"),
        ("hosts: {h1: {}, h1: {}}", "'h1' is given twice"),
        ("hosts: [h1]", "hosts: Input should be a valid dictionary"),
        ("hosts: {h1: 5}", "hosts.h1: Input should be"),
        ("hosts: {h1: {speed: 5}}", "hosts.h1.speed: there is no such field; a profile has slowdown, models, most_mod"),
        ("hosts: {h1: {add: 5}}", "hosts.h1.add: 5 is not a delay; write for example"),
        ("hosts: {h1: {add: -5ns}}", "hosts.h1.add: '-5ns' is not a delay"),
        ("hosts: {h1: {add: 2000s}}", "hosts.h1.add: delay '2000s' is above"),
        ("hosts: {h1: {slowdown: 0}}", "hosts.h1.slowdown: Input should be greater than 0"),
        ("hosts: {h1: {slowdown: .nan}}", "hosts.h1.slowdown: Input should be"),
        ("hosts: {h1: {slowdown: .inf}}", "hosts.h1.slowdown: Input should be"),
        ("hosts: {h1: {slowdown: fast}}", "hosts.h1.slowdown: Input should be a valid number"),
        ("default: {models: 1.5}", "default.models: Input should be a valid integer"),
        ("default: {models: true}", "default.models: Input should be a valid integer"),
        ("default: {most_models: 0}", "default.most_models: Input should be greater than or equal to 1"),
        ("default: {utility: -1}", "default.utility: Input should be greater than or equal to 0"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_field(tmp_path, text, complaint):
    path = written(tmp_path, text)
    with pytest.raises(TaskError) as refused:
        read_hosts(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_unknown_hosts_and_files_are_named(tmp_path):
    path = written(tmp_path, "hosts: {h1: {}, h99: {}}")
    with pytest.raises(TaskError, match=r"hosts\.yaml: hosts\.h99: topology '.*' has no such host; it has "):
        read_hosts(path).of(TOPOLOGY)
    with pytest.raises(TaskError, match=r"none\.yaml: No such file or directory; give a YAML file, or one of leaf-sp"):
        read_hosts(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TaskError, match="is no UTF-8 text"):
        read_hosts(tmp_path / "bytes.yaml")


def test_times_that_no_network_can_count_are_the_tasks_fault():
    slow = HostProfile(slowdown=1e6, add_ps=10**15)
    computing = ComputingManager(TOPOLOGY, dict.fromkeys(("h1", "server1"), slow))
    task = Task("a", "server1", ("h1", "h2"), 1 << 40, training_ps=10**17)
    with pytest.raises(PlanError, match=r"task a: adding up 2 models at server1 takes .* ps, more than 100000s"):
        computing.aggregation_ps(task, 2)
    with pytest.raises(PlanError, match="task a: training at h1 takes"):
        computing.training_ps(task, "h1")
    for wrong in ({"slowdown": float("nan")}, {"slowdown": 1e7}, {"utility": float("inf")}, {"most_models": 0}):
        with pytest.raises(PlanError, match="host profile: "):
            HostProfile(**wrong)
