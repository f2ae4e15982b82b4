"""Runs in windows, with a heap for each partition, equal runs in one heap; partitions are as documented."""

from pathlib import Path

import numpy as np
import pytest

from p4reduce.network.virtual import FabricError, Faults, StopReason, VirtualNetwork
from p4reduce.network.virtual.network import SHORT_PS
from p4reduce.network.virtual.synthetic import route_all, senders
from p4reduce.topologies import Topology, TopologyBuilder, leaf_spine
from studies.bench.switch import RackNetwork
from tests.support.effort import examples
from tests.support.partitions import Story, tellings


@pytest.mark.parametrize("first", range(0, examples(40, 1000), 20))
def test_random_networks_with_everything_switched_on(first: int) -> None:
    for seed in range(first, first + 20):
        threads = (1, 2 + 2 * (seed % 2))
        (heap, *windows), _ = tellings(seed, threads)
        for count, told in zip(threads, windows, strict=True):
            for number, (one, other) in enumerate(zip(told, heap, strict=True)):
                assert one == other, f"seed {seed}, {count} threads, run {number}"


def test_captures_have_one_order_whichever_thread_takes_a_partition(tmp_path: Path) -> None:
    """A partition that begins a window is taken by the first thread; here another thread had it before.

    While turns are measured, threads take only their own partitions, so this happens in every run.
    """
    told = []
    for threads in (0, 2):
        (folder := tmp_path / str(threads)).mkdir()
        story = Story(334, folder, threads=threads)
        story.network.timed = threads > 0
        told.append(story.tell())
    assert told[0][-1] == told[1][-1]
    assert len(told[0][-1]) > 0


def test_the_whole_program_with_losses() -> None:
    faults = Faults(loss=0.05, duplicate=0.02, reorder=0.05)
    made = [RackNetwork(5, 3, lanes=64, chunks=40, slots=16, faults=faults, seed=3) for _ in range(3)]
    made[0].network.windows = False
    made[2].network.threads = 3
    for racks in made:
        for _ in range(2):
            assert racks.all_reduce() is StopReason.DONE
    heap, *others = made
    for windows in others:
        assert windows.network.partitions == 5
        assert (windows.network.now, windows.network.events) == (heap.network.now, heap.network.events)
        assert windows.outputs.tobytes() == heap.outputs.tobytes()
        assert dict(windows.network.links) == dict(heap.network.links)


def row(*delays: str, crossconnect: bool = False) -> Topology:
    """Return switches in a row, with a host at each."""
    builder = TopologyBuilder("row")
    for number in range(len(delays) + 1):
        builder.switch(f"s{number}")
        builder.host(f"h{number}")
        builder.link(f"h{number}", f"s{number}", "10G", "0ps")
        if number:
            builder.link(f"s{number - 1}", f"s{number}", "10G", delays[number - 1])
    if crossconnect:
        builder.crossconnect("oxc")
        builder.link("s0", "oxc", "10G", "1us")
    return builder.build()


@pytest.mark.parametrize(
    ("topology", "count"),
    [
        (row(), 1),
        (row("0ps"), 1),
        (row("1us"), 2),
        (row("1us", "0ps", f"{SHORT_PS}ps", f"{SHORT_PS - 1}ps"), 3),
        (row("0ps", crossconnect=True), 2),
        (leaf_spine(3, 2, 2), 5),
    ],
)
def test_a_switch_and_its_hosts_are_a_partition_short_links_join_them(topology: Topology, count: int) -> None:
    network = VirtualNetwork(topology, route_all(topology))
    assert network.partitions == count
    nodes, links = network._wiring.nodes, network._wiring.links
    assert set(nodes["part"].tolist()) == set(range(count))
    for host in topology.hosts:
        [switch] = topology.neighbours(host.name)
        assert network._node(host.name)["part"] == network._node(switch)["part"]
    apart = links["source_part"] != links["target_part"]
    assert np.all(links["delay_ps"][apart] >= SHORT_PS)


def crowd(network_options: dict[str, int]) -> tuple[VirtualNetwork, np.ndarray]:  # type: ignore[type-arg]
    """Every host sends to one at another leaf at the same time, with many late frames: heaps and pools must grow."""
    topology = leaf_spine(4, 2, 4, rate="100G", uplink="100G")
    hosts = [host.name for host in topology.hosts]
    endpoints = senders(topology, hosts)
    endpoints.records["peer"] = [topology.hosts[(index + 5) % len(hosts)].ip for index in range(len(hosts))]
    endpoints.records["length"], endpoints.records["to_send"] = 62, 400
    faults = Faults(reorder=0.9, reorder_delay_ps=500_000_000)
    made = VirtualNetwork(
        topology, route_all(topology), endpoints=endpoints, faults=faults, max_replicas=1, **network_options
    )
    for index in range(len(hosts)):
        made.start(index)
    return made, endpoints.records


@pytest.mark.parametrize("threads", [1, 3])
def test_heaps_that_grow_lose_nothing(threads: int) -> None:
    windows, records = crowd({})
    windows.threads = threads
    heap, others = crowd({})
    heap.windows = False
    capacities = [len(heap) for heap in windows._memory.heaps]
    assert windows.run() is heap.run() is StopReason.QUIET
    assert max(len(heap) for heap in windows._memory.heaps) > max(capacities)
    assert records.tolist() == others.tolist()
    assert (windows.now, windows.events) == (heap.now, heap.events)
    assert windows._memory.world["free_frames"].sum() == len(windows._memory.frames.records)


@pytest.mark.parametrize(("threads", "then"), [(1, 1), (2, 2), (4, 1), (3, 0)])
def test_a_run_that_memory_ended_can_be_repeated_with_more_of_it(threads: int, then: int) -> None:
    """The open part of a window is continued by the same or another number of threads (0: in one heap): nothing happens
    twice, nothing is left out."""
    windows, records = crowd({"memory_limit": 1_200_000})
    windows.threads = threads
    with pytest.raises(FabricError, match="memory_limit"):
        windows.run()
    windows._memory._limit = 1 << 30
    windows.threads, windows.windows = then, then > 0
    assert windows.run() is StopReason.QUIET
    whole, others = crowd({})
    whole.run()
    assert records.tolist() == others.tolist()
    assert dict(windows.links) == dict(whole.links)
