"""Runs in the flow model: reports, sums, and refusals."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from p4reduce.base.records import from_json, to_file, to_plain
from p4reduce.group.errors import ClusterError, SaturatedError
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.files import FLOW_COLUMNS, summarize
from p4reduce.runs.jobs import HostFlows, _Line
from p4reduce.runs.perf import COLLECTIVES, PerfPlan, measure_flow, measure_virtual
from p4reduce.runs.result import RunResult
from p4reduce.runs.runner import run_experiment
from p4reduce.runs.virtual.cluster import Cluster, FlowCluster, cluster_of
from p4reduce.runs.virtual.incidents import Incident
from p4reduce.topologies import load
from p4reduce.views.report.page import write_report

SMALL = {"topology": "leaf-spine-8", "elements": 5_000, "time": "flow"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("faults", {"loss": 0.1}),
        ("faults", {"reorder": 0.1}),
        ("deadline", "5ms"),
        ("speculate", True),
        ("on_failure", "shrink"),
        ("p4", "mine.p4"),
    ],
)
def test_what_the_model_does_not_know_is_refused_by_name(field, value):
    name = next(iter(value)) if isinstance(value, dict) else field
    with pytest.raises(ValidationError, match=rf"\b{name}: the flow model"):
        Experiment(**SMALL, **{field: value})


def test_no_packets_are_recorded(tmp_path):
    with pytest.raises(ExperimentError, match="pcap"):
        run_experiment(Experiment(**SMALL), capture=tmp_path / "none.pcap")
    assert not list(tmp_path.iterdir())


def test_a_cluster_of_switches_is_no_flow():
    with pytest.raises(ExperimentError, match="flow"):
        Cluster(Experiment(**SMALL))


def test_a_queue_without_room_is_refused():
    narrow = Experiment(topology="star8", plan="ps", elements=5_000, queue_frames=3)
    assert sum(load.queue_drops for load in run_experiment(narrow).network.links)
    with pytest.raises(ClusterError, match="queue has 3"):
        run_experiment(narrow.model_copy(update={"time": "flow"}))


def test_what_waits_at_its_host_needs_no_queue():
    """The server answers each PULL when its link is free."""
    narrow = Experiment(topology="star:hosts=3", collective="broadcast", elements=5_000, queue_frames=3)
    packets, flow = (run_experiment(narrow.model_copy(update={"time": time})).network for time in ("virtual", "flow"))
    assert not sum(load.queue_drops for load in packets.links)
    assert flow.communication_ps == pytest.approx(packets.communication_ps, abs=2)


def test_a_result_says_what_it_is():
    result = run_experiment(Experiment(**SMALL))
    assert result.experiment["time"] == "flow"
    assert result.provenance["p4_json_sha256"] == "-"
    assert result.flow is not None
    assert result.flow.command in str(result.flow)
    assert result.network.result_sha256 == ""
    assert to_file(from_json(RunResult, to_file(result), "a result")) == to_file(result)
    assert list(summarize(result)) == [*summarize(run_experiment(Experiment(topology="star8"))), *FLOW_COLUMNS]
    assert to_plain(result)["flow"]["settings"] == result.flow.settings


def test_packets_say_nothing_of_a_model():
    result = run_experiment(Experiment(topology="star8", elements=100))
    assert "flow" not in to_plain(result)
    assert "time" not in result.experiment


@pytest.mark.parametrize("plan", ["steiner", "ring", "ps", "striped", "packing"])
def test_bytes_and_times_are_those_of_packets(plan):
    """Small collectives are simulated frame by frame, so times are equal, too."""
    described = {**SMALL, "plan": plan, "repeat": 2}
    flow = run_experiment(Experiment(**described)).network
    packets = run_experiment(Experiment(**{**described, "time": "virtual"})).network
    assert {(load.node, load.port, load.bytes) for load in packets.links if load.bytes} == {
        (load.node, load.port, load.bytes) for load in flow.links if load.bytes
    }
    assert flow.communication_ps == pytest.approx(packets.communication_ps, rel=1e-3)
    assert flow.bound_ps == packets.bound_ps


def test_training_learns_in_the_time_of_the_model():
    digits = {"topology": "star8", "model": "digits", "epochs": 2}
    flow = run_experiment(Experiment(**digits, time="flow"))
    packets = run_experiment(Experiment(**digits))
    assert flow.training.test_accuracy == pytest.approx(packets.training.test_accuracy, abs=0.05)
    assert flow.network.communication_ps == pytest.approx(packets.network.communication_ps, rel=0.02)


def test_collectives_of_a_script_are_added_up():
    """Results are compared with NumPy, by rank."""

    def script(comm):
        mine = np.arange(8, dtype=np.float32) + comm.rank
        words = np.full(3, 10**9 if comm.rank < 2 else 1, np.int32)
        got = {
            "sum": comm.all_reduce(mine.copy()),
            "words": comm.all_reduce(words.copy()),
            "half": comm.all_reduce(mine.astype(np.float16)),
            "root": comm.broadcast(mine.copy(), 2),
            "blocks": comm.all_to_all(mine.copy(), np.empty_like(mine)),
            "gathered": comm.all_gather(mine.copy(), np.empty((4, 8), np.float32)),
            "block": comm.reduce_scatter(mine.copy()).copy(),
            "pair": None,
        }
        with pytest.raises(SaturatedError):
            comm.all_reduce(np.full(2, 2**30, np.int32))
        if comm.rank in (1, 3):
            got["pair"] = comm.group([1, 3]).all_reduce(mine.copy())
        comm.barrier()
        return got, comm.now

    with FlowCluster(Experiment(topology="star:hosts=4", time="flow")) as cluster:
        found = cluster.run_threads(script)
    every = np.stack([np.arange(8, dtype=np.float32) + rank for rank in range(4)])
    for rank, (got, now) in enumerate(found):
        assert (got["sum"] == every.sum(axis=0)).all()
        assert (got["words"] == 2 * 10**9 + 2).all()
        assert (got["half"] == every.sum(axis=0).astype(np.float16)).all()
        assert (got["root"] == every[2]).all()
        assert (got["blocks"] == every[:, 2 * rank : 2 * rank + 2].reshape(-1)).all()
        assert (got["gathered"] == every).all()
        assert (got["block"] == every.sum(axis=0)[2 * rank : 2 * rank + 2]).all()
        assert got["pair"] is None or (got["pair"] == every[1] + every[3]).all()
        assert now == found[0][1] > 0


@pytest.mark.parametrize("followed", [True, False])
def test_what_is_announced_saves_the_round_trips_that_it_saves_on_packets(followed):
    sizes = (20_000, 300, 5_000)

    def script(comm):
        arrays = [np.ones(size, np.float32) for size in sizes]
        calls = zip(arrays, (followed, followed, False), strict=True)
        handles = [comm.all_reduce(array, start=comm.now, followed=told) for array, told in calls]
        for handle in handles:
            handle.wait()
        return [handle.done_s for handle in handles]

    times, spared = [], []
    for time in ("virtual", "flow"):
        with cluster_of(Experiment(topology="star:hosts=3", time=time)) as cluster:
            times.append(cluster.run_threads(script))
            spared.append(cluster.carrier.main.spared)
    assert times[0] == times[1]
    assert spared[0] == spared[1]
    assert (spared[0] > 0) == followed


@pytest.mark.parametrize("dense", [0.0, 0.1, 0.6])
@pytest.mark.parametrize(("events", "near"), [(150_000, 1e-5), (4_000, 0.03)])
def test_zero_chunks_travel_without_lanes(dense, events, near, monkeypatch):
    """As on packets, also if the model simulates only a part of them."""
    monkeypatch.setattr("p4reduce.network.flow.EVENTS", events)
    kept = np.repeat(np.random.default_rng(5).random(500) < dense, 64)

    def script(comm):
        array = np.where(kept, np.float32(comm.rank + 1), np.float32(0))
        comm.all_reduce(array)
        return comm.now

    times, carriers = [], []
    for time in ("virtual", "flow"):
        with cluster_of(Experiment(topology="star:hosts=3", lanes=64, time=time)) as cluster:
            begun = cluster.carrier.now
            times.append(cluster.run_threads(script)[0] - begun / 1e12)
            carriers.append(cluster.carrier)
    assert carriers[1].main.bare == carriers[0].main.bare == 500 - np.count_nonzero(kept) // 64
    assert carriers[1].main.predicted() == carriers[0].main.predicted()
    assert times[1] == pytest.approx(times[0], rel=near)


def test_a_group_that_grows_is_refused():
    with pytest.raises(ExperimentError, match="join"):
        cluster_of(Experiment(**SMALL), incidents=[Incident(1, "join", "h8")])


def test_a_report_says_that_nothing_was_counted(tmp_path):
    path = write_report(tmp_path / "report.html", [run_experiment(Experiment(**SMALL))], title="flows")
    assert "times are of a model" in path.read_text("utf-8")


def test_a_parameter_server_is_served():
    def script(comm):
        mine = np.full(5, comm.rank + 1.0, np.float32)
        if comm.is_server:
            return comm.push(np.zeros(5, np.float32)), comm.pull(mine), comm.push_pull(np.ones(5, np.float32), 0.5)
        comm.push(mine.copy())
        return None, comm.pull(np.zeros(5, np.float32)), comm.push_pull(mine.copy(), 0.5)

    with FlowCluster(Experiment(topology="star:hosts=2,servers=1", time="flow")) as cluster:
        *workers, (pushed, _, weights) = cluster.run_threads(script, server=True)
    assert (pushed == 3.0).all()
    assert all((pulled == 3.0).all() for _, pulled, _ in workers)
    assert (weights == np.float32(1.0 - 0.25 * 3.0)).all()
    assert all((got == weights).all() for _, _, got in workers)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_perf_measures_the_same_collectives(collective):
    """As ``Communicator`` carries them on packets, also for a type other than float32."""
    for kind in ("float", "half", "int32"):
        plan = PerfPlan(collective, kind, (8_192,), 1)
        experiment = Experiment(topology="star:hosts=2", rate="10G")
        (packets,) = measure_virtual(experiment, plan, lambda *_: None)
        (flow,) = measure_flow(experiment.model_copy(update={"time": "flow"}), plan, lambda *_: None)
        assert flow.out_of_place.wrong is None
        assert flow.out_of_place.time_us == pytest.approx(packets.out_of_place.time_us, rel=0.01)
        assert (flow.in_place is None) == (packets.in_place is None)


# Messages of other libraries, such as gloo: flows from host to host.


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=30))
def test_a_link_is_taken_by_one_flow_at_a_time_and_as_early_as_it_may(asked):
    """The reference keeps a set of the occupied picoseconds."""
    line, taken = _Line(), set()
    for at, length in asked:
        begin = line.free(at, length)
        assert begin == next(t for t in itertools.count(at) if taken.isdisjoint(range(t, t + length)))
        line.take(begin, length)
        taken |= {*range(begin, begin + length)}


MIB = 1 << 20


def test_flows_that_share_a_link_follow_one_another_and_others_do_not():
    flows = HostFlows(load("star:hosts=4"), 256, 1024)
    alone, links = flows.move("h1", "h2", MIB, 0)
    assert flows.move("h3", "h4", MIB, 0)[0] == alone  # no link in common
    busy = max(links.values())
    assert flows.move("h1", "h3", MIB, 0)[0] == alone + busy  # the same outgoing link
    assert flows.move("h4", "h3", MIB, 0)[0] == alone  # the same incoming link, before the waiting flow
    assert flows.move("h4", "h3", MIB, 0)[0] == alone + 2 * busy
    assert flows.move("h2", "h1", MIB, 0)[0] == alone  # the other direction of both links
    assert flows.move("h1", "h2", MIB, 10 * alone)[0] == 11 * alone
    assert flows.move("h1", "h2", 4, 5 * alone)[0] < 6 * alone  # requested late, but there is room before


def test_answers_take_links_that_flows_of_the_same_call_need():
    flows = HostFlows(load("star:hosts=4"), 256, 1024)
    alone, links = flows.move("h1", "h2", MIB, 0)
    there, back, apart = flows.move_together(
        [("h1", "h2", MIB, 2 * alone), ("h2", "h1", MIB, 2 * alone), ("h3", "h4", MIB, 2 * alone)]
    )
    full, empty = (62 + 4 * 256 + 24, 62 + 24)  # bytes of frames, with what is between them
    assert apart[0] == 3 * alone
    assert there[0] == back[0]
    assert there[0] - 3 * alone == pytest.approx(max(links.values()) * empty / full, rel=0.01)


@pytest.mark.parametrize("name", ["star8", "leaf-spine-8"])
@pytest.mark.parametrize("octets", [0, 1, 5_000, 3 * MIB])
def test_a_message_takes_the_time_of_its_packets(name, octets):
    """Compared with a broadcast to one host by plan ps, which is carried as packets."""
    hosts = [host.name for host in load(name).workers]
    found, _ = HostFlows(load(name), 256, 1024).move(hosts[0], hosts[1], octets, 0)
    words = max(1, -(-octets // 4))
    packets = run_experiment(
        Experiment(topology=name, workers=2, plan="ps", collective="broadcast", elements=words, repeat=1)
    ).network.collectives[0]
    assert found == pytest.approx(packets.communication_ps, rel=0.05)


def exchange(size, octets, starts, order):
    """Let all ranks of a flow cluster send to each other, calling in ``order``; return when each has its part."""
    with FlowCluster(Experiment(topology=f"star:hosts={size}", time="flow")) as cluster:
        comms = cluster.communicators()
        for comm, start in zip(comms, starts, strict=True):
            comm.compute(start)
        before = [comm.now for comm in comms]
        waits = {rank: comms[rank].moves("all_to_all", {p: octets for p in range(size) if p != rank}) for rank in order}
        for rank in order:
            waits[rank]()
            waits[rank]()  # waiting again changes nothing
        (moved,) = cluster.carrier.moved
        assert (moved.octets, moved.name) == (size * (size - 1) * octets, "all_to_all")
        return [comm.now - one for comm, one in zip(comms, before, strict=True)], moved


def test_the_order_in_which_ranks_note_a_collective_changes_nothing():
    draw = random.Random(7)
    starts = [draw.random() / 1e3 for _ in range(5)]
    orders = list(itertools.islice(itertools.permutations(range(5)), 0, 120, 17))
    found = {repr(exchange(5, 100_000, starts, order)[0]) for order in orders}
    assert len(found) == 1


def test_ranks_that_all_send_to_each_other_keep_their_links_busy():
    times, moved = exchange(8, 500_000, [0.0] * 8, range(8))
    assert max(times) * 1e12 < 1.1 * moved.bound_ps + 20e6
    assert min(times) * 1e12 > 0.9 * moved.bound_ps


def test_messages_meet_by_their_ends_and_tags():
    with FlowCluster(Experiment(topology="star:hosts=3", time="flow")) as cluster:
        a, b, c = cluster.communicators()
        large, small = a.sent(1, MIB, 5, sends=True), a.sent(1, 4, 6, sends=True)
        other = c.sent(1, 4, 6, sends=True)
        b.compute(1.0)
        b.sent(0, 4, 6, sends=False)()  # receives the second message
        after_small = b.now
        small()
        assert a.now == after_small
        b.sent(0, MIB, 5, sends=False)()
        large()
        assert a.now == b.now > after_small
        assert [one.octets for one in cluster.carrier.moved] == [4, MIB]
        b.sent(2, 4, 6, sends=False)()
        other()
        assert c.now > 1.0
        twice = [a.sent(1, 100 * MIB, sends=True), a.sent(1, 8, sends=True)]
        got = [b.sent(0, octets, sends=False) for octets in (100 * MIB, 8)]
        for wait in (*got, *twice):
            wait()
        assert [one.octets for one in cluster.carrier.moved[-2:]] == [100 * MIB, 8]


@pytest.mark.parametrize("peer", [-1, 2, 0])
def test_a_message_to_nobody_is_refused(peer):
    with FlowCluster(Experiment(topology="star:hosts=2", time="flow")) as cluster, pytest.raises(ValueError, match="0"):
        cluster.communicators()[0].sent(peer, 4, sends=True)
