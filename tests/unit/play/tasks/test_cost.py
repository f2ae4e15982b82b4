"""The cost of a task does not grow with the number of tasks, and measurements are bounded."""

from itertools import pairwise

import pytest

from p4reduce.control_plane.orchestrator import history
from p4reduce.control_plane.orchestrator.history import LinkSample, SwitchSample
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.plans.make import make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.network.jobs.specs import endpoint_specs
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.numbers import BlockFloat
from tests.support.effort import first_of
from tests.support.orchestrated.bench import open_store, two_spines
from tests.support.orchestrated.cost import cost


def test_a_task_costs_the_same_however_many_wait():
    few, many = cost(25), cost(100)
    assert many.calls / 100 <= 1.2 * few.calls / 25 <= 20
    assert many.statements / 100 <= 1.2 * few.statements / 25
    assert many.rows / 100 <= 1.2 * few.rows / 25


@pytest.mark.parametrize(
    ("placement", "order"), first_of([("ina-aware", "fifo"), ("packed", "sjf"), ("random", "fair")])
)
def test_so_does_one_whose_hosts_are_chosen(placement, order):
    few, many = (cost(tasks, placement=placement, order=order) for tasks in (25, 100))
    assert many.calls / 100 <= 1.2 * few.calls / 25 <= 20
    assert many.statements / 100 <= 1.2 * few.statements / 25


def test_measurements_are_thinned_out_and_keep_their_means(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "KEPT_ROWS", 200)
    monkeypatch.setattr(history, "LEAST_TIMES", 20)
    hops = [("leaf1", 1), ("leaf1", 2)]
    with open_store(tmp_path / "t.sqlite") as store:
        for number in range(1, 1001):
            links = [LinkSample(hop, 10 * number, number, number % 2) for hop in hops]
            with store.transaction():
                store.history.add_measurement(number, links, [SwitchSample("leaf1", number, 0, 0, 9)])
        found = store.history.links(*hops[0])
        times = [row["at_ps"] for row in found]
        assert len(times) <= 101
        assert times[0] == 1
        assert times[-20:] == list(range(981, 1001))
        assert [row["bytes"] for row in found] == [10 * at_ps for at_ps in times]
        assert [row["at_ps"] for row in store.history.switches("leaf1")] == times
        for before, after in pairwise(found):
            span = range(before["at_ps"] + 1, after["at_ps"] + 1)
            assert after["utilisation"] == pytest.approx(sum(number % 2 for number in span) / len(span))
        assert store.history.last_links()[0] == 1000


def test_endpoints_that_are_retired_give_their_places_to_others():
    topology = two_spines()
    resources, endpoints, hosts = Resources(), Endpoints(), {}
    lengths = []
    for number in range(5):
        request = PlanRequest("steiner", job=number, workers=("h1", "h3"), server="server1")
        plan = make_plan(topology, request, resources)
        made = {endpoints.add(spec): (host, spec) for host, spec in endpoint_specs(plan, BlockFloat(), queue_frames=64)}
        assert {int(endpoints.records["job"][index]) for index in made} == {number}
        lengths.append(len(endpoints))
        for index, (host, spec) in made.items():
            assert hosts.setdefault(index, host) == host
            endpoints.retire(index, spec.link)
            with pytest.raises(ValueError, match="is retired already"):
                endpoints.retire(index, spec.link)
    assert lengths == [3] * 5
