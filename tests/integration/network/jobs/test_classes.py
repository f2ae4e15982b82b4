"""Traffic classes end to end on packets: hosts, queues, time-outs, congestion marks."""

from dataclasses import replace

import numpy as np
import pytest
from scapy.utils import RawPcapReader

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.entries import SwitchSettings
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.network.virtual import Faults
from p4reduce.play.priorities.description import Description, JobDescription, with_phi
from p4reduce.play.priorities.run import PrioritiesResult, run
from p4reduce.topologies import load
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from tests.support.classes import plain_frame
from tests.support.golden.frames import with_checksum

HOSTS = "leaf-spine:leaves=2,spines=1,hosts=4,servers=2,rate=40G,uplink=40G"
UPLINK = "leaf-spine:leaves=2,spines=1,hosts=4,servers=4,rate=40G,uplink=10G"
ELEMENTS = 20_000


def at_phi(topology: str, jobs: list[JobDescription], phi: float) -> Description:
    """Run all jobs with a given share of computation, for enough rounds to show who waits."""
    alone = run(Description(topology, (jobs[0],), rounds=3)).jobs[0].iteration_ps
    return Description(topology, tuple(with_phi(job, round(alone), phi) for job in jobs), rounds=6)


def over_alone(description: Description, result: PrioritiesResult) -> list[float]:
    """Return completion times relative to those of the jobs alone."""
    alone = [run(description.only(number)).jobs[0].completion_ps for number in range(len(description.jobs))]
    return [job.completion_ps / own for job, own in zip(result.jobs, alone, strict=True)]


def same_hosts(phi: float) -> Description:
    hosts = ("h1", "h2", "h3")
    return at_phi(HOSTS, [JobDescription(hosts, "server1", ELEMENTS, 0, name=name) for name in "ab"], phi)


def test_two_jobs_on_the_same_hosts():
    description = same_hosts(0.3)
    slow = over_alone(description, run(description, "fifo"))
    high, low = sorted(over_alone(description, run(description, "distinct")))
    assert min(slow) > 1.2
    assert high <= 1.03
    assert low <= 1.07


def test_which_class_all_have_does_not_matter():
    """A single class everywhere changes no time and no byte."""
    results = []
    for priority in (None, 0, 4):
        with (
            EmbeddedSwitches(load(UPLINK), bundled(64)) as switches,
            JobNetwork(switches, faults=Faults(loss=0.005), seed=5) as network,
        ):
            jobs = []
            for number in (1, 2):
                hosts = (f"h{number}", f"h{4 + number}")
                request = PlanRequest("steiner", number, workers=hosts, priority=priority)
                jobs.append(network.add(switches.controller.start_job(request)))
            for job in jobs:
                for rank, index in enumerate(job.members.values()):
                    array = np.arange(ELEMENTS, dtype=np.float32) * (rank + 1)
                    network.post(index, Post(Collective.ALL_REDUCE, array, array))
            network.advance(watch=[index for job in jobs for index in job.endpoints])
            timers = [[int(network.endpoints.records[i][n]) for n in ("rto_min", "done_at")] for i in range(4)]
            results.append((network.fabric.links.array().tolist(), timers))
    assert results[0] == results[1] == results[2]


def test_starved_jobs_do_not_send_again(monkeypatch):
    """Four jobs contend for one uplink; without wider time-outs, low classes would time out while they wait."""
    jobs = [
        JobDescription((f"h{n + 1}", f"h{n + 5}"), f"server{n + 1}", ELEMENTS, 1_000_000, name=str(n)) for n in range(4)
    ]
    description = Description(UPLINK, tuple(jobs), rounds=4)
    covered = run(description, "distinct")
    monkeypatch.setattr("p4reduce.network.jobs.network.ahead_ps", lambda own, others: 0)
    assert covered.resend_share < run(description, "distinct").resend_share
    assert covered.resend_share <= 0.001


@pytest.mark.parametrize("classes", [(1, 6), (4, 4)])
def test_marks_go_by_the_queue_that_is_full(classes):
    """Two jobs on one uplink, one of which queues several frames for each of the other's."""
    settings = SwitchSettings(ecn_threshold=8)
    with (
        EmbeddedSwitches(load(UPLINK), bundled(64), settings=settings) as switches,
        JobNetwork(switches) as network,
    ):
        jobs = []
        for number, (hosts, priority) in enumerate(zip((("h1", "h2", "h3"), ("h4",)), classes, strict=True), 1):
            request = PlanRequest("ps", number, workers=hosts, server=f"server{2 * number}", priority=priority)
            jobs.append(network.add(switches.controller.start_job(request), FixedScale(1.0)))
        for job in jobs:
            for index in job.members.values():
                network.post(index, Post(Collective.PUSH, np.ones(ELEMENTS, np.float32)))
            assert job.server is not None
            network.post(job.server, Post(Collective.PUSH, None, np.zeros(ELEMENTS, np.float32)))
        network.advance(watch=[index for job in jobs for index in job.endpoints])
        marked = [sum(network.status(index).congested for index in job.endpoints) for job in jobs]
    assert marked[0] > 0
    assert (marked[1] > 0) == (classes[0] == classes[1])


def test_a_class_may_change_while_a_job_runs():
    """Hosts and switches follow, and the job's epochs are removed with it."""
    with EmbeddedSwitches(load(UPLINK), bundled(64)) as switches:
        plan = switches.controller.start_job(PlanRequest("steiner", 1, workers=("h1", "h5"), priority=2))
        assert switches.controller.change_priority(plan, 6) == 3
        assert switches.controller.change_priority(plan, 6) == 0
        device = switches.devices()["leaf1"]
        (entry,) = device.tables["IncIngress.traffic_class"].entries()
        assert entry.arguments == (6,)
        assert [switches.controller.change_priority(plan, *to) for to in ((5, 7), (5, 6), (6,), (4, 3))] == [6, 3, 6, 6]
        assert sorted(entry.arguments for entry in device.tables["IncIngress.traffic_class"].entries()) == [(3,), (4,)]
        for wrong in (8, -1):
            with pytest.raises(ControllerError, match="priority"):
                switches.controller.change_priority(plan, wrong)
        switches.controller.uninstall(plan)
        assert list(device.tables["IncIngress.traffic_class"].entries()) == []
        with pytest.raises(ControllerError, match="not installed"):
            switches.controller.change_priority(plan, 3)
        plain = switches.controller.start_job(PlanRequest("steiner", 2, workers=("h1", "h5")))
        with pytest.raises(ControllerError, match="not installed with a priority"):
            switches.controller.change_priority(plain, 3)


def test_jitter_is_the_same_alone_and_among_others():
    description = replace(same_hosts(0.3), jitter=0.1)
    first, second = description.jobs
    assert description.only(1).compute_ps(second, 0, 3) == description.compute_ps(second, 0, 3)
    assert description.compute_ps(first, 0, 3) != description.compute_ps(second, 0, 3)


@pytest.mark.parametrize(("point", "overtakes"), [(46, True), (8, False), (0, False)])
def test_plain_ipv4_waits_in_the_queue_of_its_code_point(tmp_path, point, overtakes):
    """A foreign packet among a job's frames at a congested uplink."""
    settings = SwitchSettings(dscp_classes={46: 6, 8: 1})
    with (
        EmbeddedSwitches(load(UPLINK), bundled(64), settings=settings) as switches,
        JobNetwork(switches) as network,
    ):
        topology = network.fabric.topology
        request = PlanRequest("ps", 1, workers=("h1", "h2", "h3"), server="server2", priority=3)
        job = network.add(switches.controller.start_job(request))
        for index in job.members.values():
            network.post(index, Post(Collective.PUSH, np.ones(ELEMENTS, np.float32)))
        assert job.server is not None
        network.post(job.server, Post(Collective.PUSH, None, np.zeros(ELEMENTS, np.float32)))
        host, leaf, target = (topology.node(name) for name in ("h4", "leaf1", "server2"))
        frame = bytearray(plain_frame(point))
        frame[0:6], frame[6:12] = leaf.mac.to_bytes(6, "big"), host.mac.to_bytes(6, "big")
        frame[26:34] = host.ip.to_bytes(4, "big") + target.ip.to_bytes(4, "big")
        network.fabric.capture("server2", 1, tmp_path / "server2.pcap")
        sent_ps = 100_000_000
        network.fabric.send("h4", with_checksum(bytes(frame)), at_ps=sent_ps)
        network.advance(watch=job.endpoints)
        network.advance()
    arrived = [
        (info.sec * 10**9 + info.usec) * 1000
        for data, info in RawPcapReader(str(tmp_path / "server2.pcap"))
        if data[36:38] == (9).to_bytes(2, "big")
    ]
    assert len(arrived) == 1
    assert (arrived[0] - sent_ps < 5_000_000) == overtakes
