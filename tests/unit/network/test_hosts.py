"""Hosts and endpoints: turns, timers, stop conditions, and callers' mistakes."""

from collections.abc import Sequence

import numpy as np
import pytest

from p4reduce.network.virtual import FabricError, HostEndpoints, StopReason, VirtualNetwork
from p4reduce.network.virtual.synthetic import SyntheticSwitch, frame, route_all, senders
from p4reduce.topologies import Topology, star

LENGTH, ON_LINK_PS = 101, 100_000
"""101 bytes and 24 of overhead are 1000 bits: 100 ns at 10 Gb/s"""


def network_of(
    topology: Topology, hosts: Sequence[str], counts: Sequence[int], **fields: int
) -> tuple[VirtualNetwork, HostEndpoints]:
    """Return a network with an endpoint on each of ``hosts`` that sends ``count`` frames to the last host."""
    endpoints = senders(topology, hosts)
    endpoints.records["peer"] = topology.hosts[-1].ip
    endpoints.records["length"] = LENGTH
    endpoints.records["to_send"] = counts
    for name, value in fields.items():
        endpoints.records[name] = value
    return VirtualNetwork(topology, route_all(topology), endpoints=endpoints), endpoints


def test_endpoints_of_a_host_take_turns() -> None:
    network, endpoints = network_of(star(2), ["h1", "h1", "h1"], [1000, 1000, 3])
    for index in range(3):
        network.start(index)
    network.run(until_ps=10 * ON_LINK_PS - 1)
    assert endpoints.records["sent"].tolist() == [4, 3, 3]
    network.run()
    assert network.links["h1", 1].frames == 2003
    assert network.links["h1", 1].busy_ps == 2003 * ON_LINK_PS


def test_the_highest_class_is_asked_first_and_within_it_in_turn() -> None:
    network, endpoints = network_of(star(2), ["h1"] * 4, [1000] * 4)
    endpoints.records["priority"] = [1, 5, 5, 0]
    network.reorder_endpoints()
    for index in range(4):
        network.start(index)
    network.run(until_ps=11 * ON_LINK_PS - 1)
    assert endpoints.records["sent"].tolist() == [1, 5, 5, 0]  # the first started alone
    endpoints.records["to_send"][[1, 2]] = 0
    network.run(until_ps=20 * ON_LINK_PS - 1)
    assert endpoints.records["sent"].tolist() == [10, 5, 5, 0]


def test_one_class_is_as_no_class_and_turns_go_on_when_endpoints_come() -> None:
    orders = []
    for priority in (0, 6):
        network, endpoints = network_of(star(2), ["h1"] * 3, [1000] * 3)
        endpoints.records["priority"] = priority
        network.reorder_endpoints()
        for index in range(3):
            network.start(index)
        seen = []
        for frames in range(1, 9):
            network.run(until_ps=frames * ON_LINK_PS - 1)
            if frames == 4:
                network.reorder_endpoints()
            seen.append(endpoints.records["sent"].tolist())
        orders.append(seen)
    assert orders[0] == orders[1]
    assert [max(counts) - min(counts) for counts in orders[0]] == [1, 1, 0, 1, 1, 0, 1, 1]


def test_a_class_that_no_host_has_is_refused() -> None:
    network, endpoints = network_of(star(2), ["h1"], [1])
    endpoints.records["priority"] = 8
    with pytest.raises(FabricError, match="endpoint 0: class 8"):
        network.reorder_endpoints()


def test_frames_are_pulled_only_when_the_link_is_free() -> None:
    network, endpoints = network_of(star(2), ["h1"], [50])
    network.start(0)
    for sent in (1, 2, 3):
        network.run(until_ps=sent * ON_LINK_PS - 1)
        assert endpoints.records["sent"][0] == sent


def test_what_python_sends_goes_first() -> None:
    network, endpoints = network_of(star(2), ["h1"], [50])
    network.start(0, at_ps=5)
    for _ in range(4):
        network.send("h1", frame(0x0A000002, LENGTH), at_ps=5)
    network.run(until_ps=5 + 5 * ON_LINK_PS - 1)
    assert endpoints.records["sent"][0] == 1
    assert network.links["h1", 1].frames == 5


def test_a_timer_wakes_an_endpoint() -> None:
    gap_ps = 7_000_000
    network, endpoints = network_of(star(2), ["h1"], [10], gap_ps=gap_ps)
    network.start(0, at_ps=123)
    network.run(until_ps=123 + 3 * gap_ps - 1)
    assert endpoints.records["sent"][0] == 3
    network.run(until_ps=123 + 3 * gap_ps)
    assert endpoints.records["sent"][0] == 4
    network.run()
    assert endpoints.records["sent"][0] == 10
    assert endpoints.records["expired"][0] == 9


def test_a_deadline_that_stays_past_does_not_stop_time() -> None:
    """An endpoint that wants to send every picosecond, over a link that takes longer."""
    topology = star(2, rate="1G")
    network, endpoints = network_of(topology, ["h1"], [10], gap_ps=1)
    network.start(0)
    assert network.run(max_events=10_000) is StopReason.QUIET
    assert endpoints.records["sent"][0] == 10
    assert network.links["h1", 1].busy_ps == 10 * 10 * ON_LINK_PS


def test_a_frame_is_offered_until_somebody_takes_it() -> None:
    topology = star(2)
    endpoints = senders(topology, ["h2", "h2"])
    endpoints.records["ip"][0] = 1  # not the frames' destination address
    network = VirtualNetwork(topology, route_all(topology), endpoints=endpoints)
    network.send("h1", frame(topology.node("h2").ip))
    network.inject("h2", 1, frame(99))
    network.run()
    assert endpoints.records["received"].tolist() == [0, 1]
    assert (network.host_counters("h2").claimed, network.host_counters("h2").unclaimed) == (1, 1)


def test_endpoints_receive_before_they_start_and_send_after() -> None:
    topology = star(2)
    endpoints = senders(topology, ["h2"])
    endpoints.records["peer"] = topology.node("h1").ip
    endpoints.records["length"] = LENGTH
    endpoints.records["to_send"] = 2
    network = VirtualNetwork(topology, route_all(topology), endpoints=endpoints)
    network.send("h1", frame(topology.node("h2").ip))
    network.run()
    assert endpoints.records[["received", "sent"]][0].tolist() == (1, 0)
    network.start(0)
    network.run()
    assert endpoints.records["sent"][0] == 2


def test_a_run_ends_when_the_watched_are_done() -> None:
    network, endpoints = network_of(star(3), ["h1", "h2"], [5, 500])
    network.start(0)
    network.start(1, at_ps=50)
    assert network.run(watch=[0]) is StopReason.DONE
    assert endpoints.records["sent"].tolist() == [5, 4]  # 50 ps before the fifth
    assert network.run(watch=[0]) is StopReason.DONE
    assert network.run(watch=[1, 0]) is StopReason.DONE
    assert endpoints.records["sent"][1] == 500
    assert network.links["h3", 1].frames == 0


def test_an_endpoint_that_is_still_to_start_counts_as_working() -> None:
    network, endpoints = network_of(star(2), ["h1"], [5])
    endpoints.records["status"] = 0
    network.start(0, at_ps=1_000_000)
    assert network.run(until_ps=999, watch=[0]) is StopReason.TIME
    network.run(watch=[0])
    assert network.now >= 1_000_000


def test_nothing_more_happens() -> None:
    network, _ = network_of(star(2), ["h1"], [5], expected=1)
    network.start(0)
    assert network.run(watch=[0]) is StopReason.QUIET


def test_more_work_after_the_first_is_done() -> None:
    network, endpoints = network_of(star(2), ["h1"], [5])
    network.start(0)
    network.run()
    endpoints.records["to_send"] = 8
    endpoints.records["status"] = 1
    network.start(0, at_ps=network.now + 1000)
    assert network.run(watch=[0]) is StopReason.DONE
    assert endpoints.records["sent"][0] == 8


def test_endpoints_can_be_added() -> None:
    topology = star(2)
    network, endpoints = network_of(topology, ["h1"], [1000])
    network.start(0)
    network.run(until_ps=10 * ON_LINK_PS - 1)
    more = senders(topology, ["h1", "h1", "h2"])
    more.records[:1] = endpoints.records
    more.records["peer"][1], more.records["length"][1], more.records["to_send"][1] = topology.node("h2").ip, LENGTH, 4
    network.replace_endpoints(more)
    network.start(1)
    network.run()
    assert more.records["sent"].tolist() == [1000, 4, 0]
    assert more.records["received"].tolist() == [0, 0, 1004]
    with pytest.raises(FabricError, match="first 3"):
        network.replace_endpoints(endpoints)


def test_progress_and_most_events() -> None:
    network, endpoints = network_of(star(2), ["h1"], [200_000])
    network.start(0)
    assert network.run(max_events=1000) is StopReason.EVENTS
    assert network.events == 1000
    times: list[int] = []
    assert network.run(progress=times.append) is StopReason.QUIET
    assert len(times) >= 2
    assert times == sorted(times)
    assert endpoints.records["sent"][0] == 200_000


def test_long_lines_hold_many_frames_on_the_way() -> None:
    topology = star(2, rate="100G", delay="1ms")
    network, endpoints = network_of(topology, ["h1", "h2"], [20_000, 0])
    network.start(0)
    network.run(until_ps=20_000 * 10_000)
    assert network.links["h1", 1].frames == 20_000
    assert network.links["h1", 1].delivered == 0
    network.run()
    assert endpoints.records["received"][1] == 20_000


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda n: n.start(1), "no endpoint 1"),
        (lambda n: n.run(watch=[-1]), "no endpoint -1"),
        (lambda n: n.send("s1", bytes(60)), "'s1' is a switch"),
        (lambda n: n.send("h9", bytes(60)), "no node 'h9'"),
        (lambda n: n.send("h1", bytes(1601)), "max_frame=1600"),
        (lambda n: n.send("h1", b""), "0 bytes"),
        (lambda n: n.inject("s1", 512, bytes(60)), "port 512"),
        (lambda n: n.capture("h1", 2, "/nowhere"), "'h1' has no link at port 2"),
        (lambda n: n.switch_counters("h7"), "no node 'h7'"),
    ],
)
def test_mistakes_are_named(call: object, said: str) -> None:
    network, _ = network_of(star(2), ["h1"], [5])
    with pytest.raises(FabricError, match=said):
        call(network)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"devices": {}}, r"switches \['s1'\] have none"),
        ({"devices": {"s1": SyntheticSwitch({}), "s2": SyntheticSwitch({})}}, r"no switches \['s2'\]"),
        ({"max_frame": 9217}, "max_frame=9217"),
        ({"max_replicas": 0}, "max_replicas=0"),
        ({"queue_frames": 0}, "queue_frames=0"),
        ({"pipeline_delay_ps": {"s2": 1}}, "pipeline_delay_ps"),
        ({"pipeline_delay_ps": -1}, "pipeline_delay_ps"),
        ({"memory_limit": 1000}, "memory_limit"),
    ],
)
def test_parts_that_do_not_fit(options: dict[str, object], said: str) -> None:
    arguments: dict[str, object] = {"devices": {"s1": SyntheticSwitch({})}, **options}
    with pytest.raises(FabricError, match=said):
        VirtualNetwork(star(2), **arguments)  # type: ignore[arg-type]


def test_endpoints_that_do_not_fit() -> None:
    topology = star(2)
    calls = senders(topology, ["h1"]).calls
    records = np.zeros(4, dtype=[("status", np.int64)])
    with pytest.raises(FabricError, match="4 records for 1 hosts"):
        HostEndpoints(records, ["h1"], calls)
    with pytest.raises(FabricError, match="contiguous"):
        HostEndpoints(records[::2], ["h1", "h2"], calls)
    with pytest.raises(FabricError, match="no host 's1'"):
        VirtualNetwork(topology, route_all(topology), endpoints=HostEndpoints(records[:1], ["s1"], calls))
