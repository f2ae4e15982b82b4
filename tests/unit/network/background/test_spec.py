"""Background traffic as text."""

import pytest

from p4reduce.network.background import gravity, parse_background
from p4reduce.network.virtual import FabricError
from p4reduce.topologies import leaf_spine, wan


@pytest.mark.parametrize(
    "text", ["gravity:load=0.3,seed=1", "gravity: load = 0.125 , sigma=0", "sndlib:graph=nobel-us,load=1e-3,seed=7"]
)
def test_text_survives(text):
    found = parse_background(text)
    assert parse_background(str(found)) == found
    assert str(parse_background(str(found))) == str(found)


def test_every_host_takes_part():
    topology = leaf_spine(2, 1, 3, servers=1)
    demands = parse_background("gravity:load=0.25,seed=3").demands(topology)
    wanted = gravity(tuple(host.name for host in topology.hosts), 3).at_load(topology, 0.25)
    assert demands.hosts == wanted.hosts
    assert (demands.bps == wanted.bps).all()
    assert len(parse_background("sndlib:graph=nobel-us,load=0.1").demands(wan("nobel-us")).hosts) == 14


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "'' is none of gravity, sndlib"),
        ("uniform:load=0.3", "'uniform' is none of gravity, sndlib; write for example"),
        ("gravity", "load: is missing"),
        ("gravity:seed=1", "load: is missing, as in 'gravity:load=0.3'"),
        ("sndlib:load=0.1", "graph: is missing, as in 'sndlib:graph=nobel-us'"),
        ("gravity:load=0.3,graph=x", "'graph=x': gravity takes load=…, seed=…, sigma=…"),
        ("gravity:load", "'load': gravity takes"),
        ("gravity:load=0.1,load=0.2", "load: is given twice"),
        ("gravity:load=much", "load: 'much' is no number"),
        ("gravity:load=0", "load: 0 is not between 0 and 1"),
        ("gravity:load=1", "load: 1 is not between 0 and 1"),
        ("gravity:load=nan", "load: nan is not between"),
        ("gravity:load=0.1,seed=1.5", "seed: '1.5' is no whole number"),
        ("gravity:load=0.1,seed=-1", "seed: -1 is not in 0.."),
        ("gravity:load=0.1,seed=" + "9" * 5000, "is not in 0.."),
        ("gravity:load=0.1,sigma=inf", "sigma: inf is not in 0..10"),
    ],
)
def test_a_mistake_is_named_with_its_field(text, complaint):
    with pytest.raises(FabricError) as refused:
        parse_background(text)
    assert complaint in str(refused.value)
    assert len(str(refused.value)) < 300


def test_more_than_bursts_can_carry_and_an_unknown_graph_are_refused():
    topology = leaf_spine(2, 1, 2)
    with pytest.raises(FabricError, match="more than its bursts"):
        parse_background("gravity:load=0.99").endpoints(topology)
    with pytest.raises(FabricError, match="topohub has no 'nowhere'"):
        parse_background("sndlib:graph=nowhere,load=0.1").endpoints(topology)
