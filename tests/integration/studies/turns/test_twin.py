"""Schedules on the electrical twin and on two planes, and computed guard times, on packets."""

from dataclasses import replace

import pytest

from p4reduce.control_plane.tdm.jobs import TdmError, TdmJob, parse_network, planes_of
from p4reduce.control_plane.tdm.registry import TurnOptions, make_schedule
from p4reduce.control_plane.tdm.schedule import PodTree
from p4reduce.play.turns.player import Hashing, play
from p4reduce.topologies import TopologyError
from studies.turns.packets import two_groups
from tests.integration.studies.turns.schedules import NETWORK, job, placed, schedule

PODS = parse_network("oxc:pods=3,hosts=2,ports=2,rate=25G,delta=10us")


def some_jobs():
    return [
        TdmJob("a", "rar", 100_000, 20e-6, 3),
        TdmJob("b", "ps", 60_000, 30e-6, 3),
        TdmJob("e", "a2a", 4_000, 10e-6, 3),
    ]


def sound(played):
    assert played.exact
    assert not played.differing
    assert (played.dark_lost, played.misrouted, played.lost, played.resends) == (0, 0, 0, 0)


def test_the_electrical_twin_carries_the_same_jobs():
    jobs = some_jobs()
    took = {}
    for policy, hashing in (("tdm", Hashing()), ("eps-ideal", Hashing()), ("eps-ecmp", Hashing(1, polarized=True))):
        made = make_schedule(policy, jobs, PODS, TurnOptions(seed=1, flows=hashing.flows, polarized=hashing.polarized))
        played = play(made, {one.name: one for one in jobs}, rounds=1, lanes=64, hashing=hashing)
        sound(played)
        assert played.reconfigurations == 0 or policy == "tdm"
        took[policy] = played.round_s
    assert took["eps-ecmp"] >= took["eps-ideal"]
    with pytest.raises(TdmError, match="has no ports to a cross-connect"):
        play(make_schedule("eps-ideal", jobs, PODS), {one.name: one for one in jobs}, keep="gates", lanes=64)


def test_two_planes_carry_what_one_does_and_odd_cycles_are_refused():
    jobs = some_jobs()
    made = make_schedule("tdm", jobs, PODS, TurnOptions(seed=1))
    by_name = {one.name: one for one in jobs}
    one, two = (play(made, by_name, rounds=1, lanes=64, planes=planes) for planes in (1, 2))
    sound(two)
    assert one.rounds_ps == two.rounds_ps
    assert (planes_of("oxc:pods=3,hosts=2,ports=2,planes=2"), planes_of("oxc:pods=3,hosts=2,ports=2")) == (2, 1)
    ring = ((0, 1, 1), (1, 0, 1), (1, 1, 0))
    hosts = ("h1", "h3", "h5")
    plan = placed("a", hosts, 0, PodTree(0, ((1, 0), (2, 0)), 1.0))
    odd = schedule((plan,), (ring,), 1.0, network=replace(PODS, delta_s=0.0))
    sound(play(odd, {"a": job("a", 10_000, 0.0, 3)}, rounds=1, lanes=64))
    with pytest.raises(TopologyError, match="3 circuits cannot be halved among two planes"):
        play(odd, {"a": job("a", 10_000, 0.0, 3)}, rounds=1, lanes=64, planes=2)


def test_a_guard_that_is_computed_loses_nothing_and_one_that_leaves_nothing_is_refused():
    made, jobs = two_groups(NETWORK, 400_000, 1e-6, clock="slots", round_s=200e-6)
    assert made.guard_s == 0.0
    bare = play(made, jobs, rounds=6, keep="pause")
    assert bare.dark_lost + bare.misrouted > 0
    guarded = play(made, jobs, rounds=6, keep="pause", guard=True)
    sound(guarded)
    assert guarded.guard_s == guarded.least_guard_s > 8e-6
    short, jobs = two_groups(NETWORK, 200_000, 1e-6, clock="slots", round_s=60e-6)
    with pytest.raises(TdmError, match=r"leave nothing of a slot of 30\.0 us"):
        play(short, jobs, rounds=1, keep="pause", guard=True)
