"""Tests with a real Ray on this machine (skipped if not installed), and with a fake Ray for names and failures."""

import importlib.util
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from p4reduce.adapters.network import SharedNetwork
from p4reduce.adapters.planner import Planner, request_of
from p4reduce.adapters.rank import take_part
from p4reduce.adapters.ray import LABEL, RayJobs, hosts_of_nodes
from p4reduce.base.errors import PlanError
from p4reduce.group.errors import ClusterError
from p4reduce.group.remote import connect
from p4reduce.topologies import load
from tests.integration.adapters.test_network import HOSTILE

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'p4reduce[ray]'"
)


def test_nodes_by_their_labels():
    nodes = [
        {"NodeID": "1", "Alive": True, "Labels": {LABEL: "h1"}},
        {"NodeID": "2", "Alive": False, "Labels": {LABEL: "h2"}},
        {"NodeID": "3", "Alive": True, "Labels": {}},
        {"NodeID": "4", "Alive": True},
    ]
    assert hosts_of_nodes(nodes) == {"1": "h1"}


@needs_ray
def test_jobs_run_on_the_nodes_that_were_chosen():
    from p4reduce.adapters.ray import is_whole, run_jobs
    from p4reduce.adapters.slurm.demo import demo_jobs

    topology = load("leaf-spine:leaves=2,spines=1,hosts=2,rate=25G")
    jobs = {f"ray-{job.number}": job for job in demo_jobs(3, 4, seed=1)}
    results = run_jobs(topology, jobs, "ina-aware")
    assert len(results) == len(jobs)
    assert all(is_whole(one, jobs[one.name]) for one in results), results


def test_a_bad_request_is_refused_before_ray_is_asked():
    with pytest.raises(PlanError):
        request_of("ray-1", "p4reduce elements=0", 2)


class FakeRay:
    """Stand-in for Ray: a rank is a thread at the node that its bundle asks for."""

    class RayError(Exception):
        pass

    def __init__(self, hosts, monkeypatch):
        self.hosts, self.refuses, self.groups, self.exceptions = hosts, False, [], self
        self._here = threading.local()
        self._pool = ThreadPoolExecutor(8)
        util = SimpleNamespace(placement_group=self.placement_group, remove_placement_group=self.groups.remove)
        strategies = SimpleNamespace(PlacementGroupSchedulingStrategy=lambda group, placement_group_bundle_index: (
            group[placement_group_bundle_index][LABEL]
        ))  # fmt: skip
        monkeypatch.setitem(sys.modules, "ray", self)
        monkeypatch.setitem(sys.modules, "ray.util", SimpleNamespace(placement_group=util))
        monkeypatch.setitem(sys.modules, "ray.util.placement_group", util)
        monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", strategies)

    def nodes(self):
        return [{"NodeID": f"node of {host}", "Alive": True, "Labels": {LABEL: host}} for host in self.hosts]

    def placement_group(self, bundles, bundle_label_selector):
        if self.refuses:
            raise self.RayError("no such nodes")
        self.groups.append(bundle_label_selector)
        return bundle_label_selector

    def remote(self, **_options):
        return lambda function: SimpleNamespace(
            options=lambda scheduling_strategy: SimpleNamespace(
                remote=lambda *given: self._pool.submit(self._at, scheduling_strategy, function, *given)
            )
        )

    def _at(self, host, function, *given):
        self._here.host = host
        return function(*given)

    def get_runtime_context(self):
        return SimpleNamespace(get_node_id=lambda: f"node of {self._here.host}")

    def get(self, waits, timeout):
        return [one.result(timeout) for one in waits]


@pytest.fixture
def ray(monkeypatch, tmp_path_factory):
    topology = load("leaf-spine:leaves=2,spines=1,hosts=2,rate=25G")
    fake = FakeRay([host.name for host in topology.workers], monkeypatch)
    with SharedNetwork(topology, tmp_path_factory.mktemp("n")) as network:
        yield fake, network, RayJobs(Planner(topology), network)


def sums(environment):
    comm = connect(environment)
    exact = take_part(comm, 600, 2, 0.0, 1)
    comm.close()
    return exact


def test_what_jobs_are_called_does_no_harm(ray):
    """A printable name is accepted; others are refused with a printable message."""
    fake, network, jobs = ray
    ended, refused = [], {}
    for name in HOSTILE:
        try:
            request = request_of(name, "p4reduce elements=600 rounds=2", 2)
        except PlanError as error:
            refused[name] = str(error)
            continue
        assert jobs.begin({name: request}, sums) == {}
        (result,) = jobs.next_ended()
        ended.append(result.name)
        assert (result.had, result.returned) == (result.chosen.hosts, (2, 2))
        assert (network.names, fake.groups, list(network.folder.iterdir())) == ([], [], [])
    assert {*ended, *refused} == {*HOSTILE}
    assert all(text.isprintable() and len(text) < 200 for text in refused.values())
    assert all(name.isprintable() for name in ended)
    assert {"../x", "$(id)"} <= {*ended}


def test_an_error_of_ray_names_the_job(ray):
    fake, network, jobs = ray

    def dies_at_the_end(environment):
        sums(environment)
        raise fake.RayError("its node is gone")

    jobs.begin({"../x": request_of("../x", "p4reduce elements=600 rounds=2", 2)}, dies_at_the_end)
    with pytest.raises(ClusterError, match=r"\.\./x: its node is gone"):
        jobs.next_ended()
    assert (network.names, fake.groups) == ([], [])


def test_what_ray_refuses_leaves_nothing(ray):
    """Jobs that would begin after a refused one do not keep their hosts either."""
    fake, network, jobs = ray
    pairs = {name: request_of(name, "p4reduce elements=600 rounds=2", 2) for name in "ab"}
    fake.refuses = True
    with pytest.raises(fake.RayError):
        jobs.begin(pairs, sums)
    assert (network.names, list(network.folder.iterdir())) == ([], [])
    fake.refuses = False
    assert jobs.begin({"c": request_of("c", "p4reduce elements=600 rounds=2", 4)}, sums) == {}, "all hosts are free"
    (result,) = jobs.next_ended()
    assert result.returned == (2, 2, 2, 2)
