"""Waiting jobs get hosts from placement policies; jobs without hosts get a reason."""

import pytest

from p4reduce.adapters.planner import Planner, request_of
from p4reduce.base.errors import PlanError
from p4reduce.control_plane.placement import PLACEMENTS, Racks
from p4reduce.topologies import load

MARK = "p4reduce elements=61706 rounds=10 training=20us"


def ask(workers, comment=MARK, name="job-1", owner=""):
    return request_of(name, comment, workers, owner)


@pytest.fixture
def two():
    return load("two-generations")


@pytest.mark.parametrize("policy", sorted(PLACEMENTS))
def test_every_policy_gives_different_free_hosts_in_the_order_of_slurm(two, policy):
    planner = Planner(two, policy=policy)
    able = [f"h{number}" for number in (2, 3, 5, 7, 9, 11, 16)]
    found, reasons = planner.choose({f"job-{n}": ask(n, name=f"job-{n}") for n in (2, 3, 4)}, able)
    used = [host for chosen in found.values() for host in chosen.hosts]
    assert len(used) == len(set(used))
    assert set(used) <= set(able)
    assert set(found) | set(reasons) == {"job-2", "job-3", "job-4"}
    for chosen in found.values():
        assert list(chosen.hosts) == sorted(chosen.hosts, key=planner.hosts.index)


def test_large_jobs_go_where_switches_aggregate_and_uplinks_are_fast(two):
    planner = Planner(two)
    found, _ = planner.choose({"job-1": ask(8)}, planner.hosts)
    racks = {Racks(two).of[host] for host in found["job-1"].hosts}
    assert racks == {"leaf3", "leaf4"}
    assert found["job-1"].plan == "steiner"


def test_a_tree_in_part_is_worse_than_a_ring(two):
    planner = Planner(two)
    assert planner.plan_for(ask(8).task, [f"h{n}" for n in range(1, 9)]).plan == "ring"
    assert planner.plan_for(ask(4).task, ["h9", "h10", "h13", "h14"]).plan == "steiner"
    assert planner.plan_for(ask(1).task, ["h9"]).plan == ""


def test_who_does_not_fit_waits_with_a_reason_and_lets_others_pass(two):
    planner = Planner(two)
    requests = {"job-1": ask(9), "job-2": ask(2, name="job-2")}
    found, reasons = planner.choose(requests, ["h1", "h2", "h3"])
    assert set(found) == {"job-2"}
    assert "wants 9 hosts" in reasons["job-1"]


def test_without_backfill_nobody_passes(two):
    planner = Planner(two, backfill=False)
    found, _ = planner.choose({"job-1": ask(9), "job-2": ask(2, name="job-2")}, ["h1", "h2", "h3"])
    assert not found


def test_hosts_come_back(two):
    planner = Planner(two, policy="first-fit")
    assert planner.choose({"job-1": ask(16)}, planner.hosts)[0]
    assert not planner.choose({"job-2": ask(1, name="job-2")}, planner.hosts)[0]
    planner.end("job-1")
    planner.end("job-1")
    assert planner.choose({"job-2": ask(1, name="job-2")}, planner.hosts)[0]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (ask(17), "17 hosts"),
        (ask(65_535), "65535 hosts"),
        (ask(2, f"{MARK} hosts=h1,spine1"), "no host"),
        (ask(2, f"{MARK} hosts=h1,h99"), "h99"),
    ],
)
def test_what_will_never_fit(two, request_, said):
    assert said in Planner(two).fault(request_)


def test_named_hosts_are_waited_for(two):
    planner = Planner(two)
    named = ask(2, f"{MARK} hosts=h16,h3")
    assert "h16 is not free" in planner.choose({"job-1": named}, ["h3"])[1]["job-1"]
    assert planner.choose({"job-1": named}, ["h3", "h16"])[0]["job-1"].hosts == ("h3", "h16")


def test_owners_take_turns(two):
    planner = Planner(two, policy="first-fit", order="fair")
    planner.choose({"job-1": ask(4, name="job-1", owner="a")}, planner.hosts)
    later = {"job-2": ask(12, name="job-2", owner="a"), "job-3": ask(12, name="job-3", owner="b")}
    assert set(planner.choose(later, planner.hosts)[0]) == {"job-3"}


def test_unknown_names_are_refused(two):
    with pytest.raises(PlanError, match="nobody"):
        Planner(two, policy="nobody")
    with pytest.raises(PlanError, match="nobody"):
        Planner(two, order="nobody")


def test_no_jobs():
    planner = Planner(load("star8"))
    assert planner.choose({}, planner.hosts) == ({}, {})
