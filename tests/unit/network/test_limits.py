"""Values beyond the fabric's number ranges are refused by name: queues, delays, the end of virtual time."""

import pytest
from pydantic import ValidationError

from p4reduce.network.virtual import FabricError, VirtualNetwork
from p4reduce.network.virtual.records import NO_LIMIT
from p4reduce.network.virtual.synthetic import route_all, senders
from p4reduce.runs.experiment import Experiment
from p4reduce.topologies import Topology, TopologyBuilder


def line(delay: str = "1us") -> Topology:
    builder = TopologyBuilder("line")
    builder.host("h1")
    builder.switch("s1")
    builder.host("h2")
    builder.link("h1", "s1", "10G", delay)
    builder.link("s1", "h2", "10G", delay)
    return builder.build()


@pytest.mark.parametrize("frames", [0, -1, 2**31, 2**63, 10**30])
def test_queues_of_no_size_that_fits(frames: int) -> None:
    with pytest.raises(FabricError, match="queue_frames"):
        VirtualNetwork(line(), route_all(line()), queue_frames=frames)
    with pytest.raises(ValidationError, match="queue_frames"):
        Experiment(queue_frames=frames)


@pytest.mark.parametrize("time_ps", [2**62, 2**63, 10**30])
def test_times_beyond_the_end_are_not_called_past(time_ps: int) -> None:
    network = VirtualNetwork(line(), route_all(line()), endpoints=senders(line(), ["h1"]))
    with pytest.raises(FabricError, match="beyond the end of virtual time"):
        network.start(0, at_ps=time_ps)
    with pytest.raises(FabricError, match="past"):
        network.start(0, at_ps=-1)


def test_a_run_that_reaches_the_end_of_virtual_time_says_so() -> None:
    topology = line("1000s")
    endpoints = senders(topology, ["h1", "h2"])
    endpoints.records["peer"] = topology.node("h2").ip
    endpoints.records["length"] = 318
    endpoints.records["to_send"] = 1, 0
    endpoints.records["expected"] = 0, 1
    network = VirtualNetwork(topology, route_all(topology), endpoints=endpoints)
    network.start(0, at_ps=NO_LIMIT - 1500 * 10**12)
    with pytest.raises(FabricError, match="virtual time has reached its end"):
        network.run(watch=[0, 1])
