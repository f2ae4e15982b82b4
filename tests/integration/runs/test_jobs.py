"""Jobs that share switches: at the same time, and in sequence on the same slots."""

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from p4reduce.control_plane.entries import SwitchSettings
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.jobs.network import EmbeddedSwitches, Job, JobNetwork, bundled
from p4reduce.network.virtual import Faults
from p4reduce.runs.participant import tensor
from p4reduce.topologies import load
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from p4reduce.workers.scapy_layer import INC

ELEMENTS = 6000
FAULTS = Faults(loss=0.02, duplicate=0.02, reorder=0.02)
TREE = {"leaf-spine-8": ("steiner", "mst"), "two-racks": ("spt", "steiner")}


class Network:
    """Switches, hosts, and jobs by number."""

    def __init__(self, topology: str, faults: Faults, settings: SwitchSettings) -> None:
        self.topology = load(topology)
        self.switches = EmbeddedSwitches(self.topology, bundled(64), settings=settings)
        self.network = JobNetwork(self.switches, faults=faults, seed=3)

    def start(self, number: int, plan: str, workers: tuple[str, ...] | None = None, **more: int) -> Job:
        request = PlanRequest(plan=plan, job=number, lanes=64, workers=workers, **more)
        return self.network.add(self.switches.controller.start_job(request))

    def all_reduce(self, *jobs: Job) -> list[np.ndarray]:
        """Run all jobs at the same time; return every job's sum."""
        arrays = {}
        for job in jobs:
            for rank, worker in enumerate(job.plan.workers):
                array = tensor(job.plan.job, rank, 0, ELEMENTS)
                arrays[job.plan.job, rank] = array
                self.network.post(job.members[worker], Post(Collective.ALL_REDUCE, array, array))
        self.network.advance(watch=[index for job in jobs for index in job.endpoints])
        results = []
        for job in jobs:
            for rank, worker in enumerate(job.plan.workers):
                assert self.network.status(job.members[worker]).state is EndpointState.DONE
                assert arrays[job.plan.job, rank].tobytes() == arrays[job.plan.job, 0].tobytes()
            results.append(arrays[job.plan.job, 0])
        return results


@contextmanager
def network(topology: str, faults: Faults = FAULTS, settings: SwitchSettings = SwitchSettings()) -> Iterator[Network]:
    built = Network(topology, faults, settings)
    try:
        yield built
    finally:
        built.switches.close()


def alone(topology: str, number: int, plan: str, workers: tuple[str, ...] | None = None) -> np.ndarray:
    with network(topology, Faults()) as quiet:
        return quiet.all_reduce(quiet.start(number, plan, workers))[0]


@pytest.mark.parametrize("topology", TREE)
def test_two_jobs_at_once_change_no_byte_of_each_other(topology):
    one, two = TREE[topology]
    some = tuple(host.name for host in load(topology).workers)[1:]
    expected = [alone(topology, 1, one), alone(topology, 2, two, some)]
    with network(topology) as shared:
        found = shared.all_reduce(shared.start(1, one), shared.start(2, two, some))
    for have, want in zip(found, expected, strict=True):
        assert have.tobytes() == want.tobytes()


def test_a_new_job_on_the_slots_that_an_old_one_left():
    with network("leaf-spine-8") as shared:
        old = shared.start(1, "steiner")
        shared.all_reduce(old)
        shared.switches.controller.uninstall(old.plan)
        new = shared.start(7, "steiner")
        assert [part.base for part in new.plan.aggregators] == [part.base for part in old.plan.aggregators]
        assert new.plan.generation > old.plan.generation
        found = shared.all_reduce(new)
    assert found[0].tobytes() == alone("leaf-spine-8", 7, "steiner").tobytes()


SHARED_UPLINK = "leaf-spine:leaves=2,spines=1,hosts=2,rate=10G,uplink=10G,delay=1us"
ACROSS = (("h1", "h3"), ("h2", "h4"))
"""Two jobs with a worker under each leaf; each alone could saturate the leaves' only uplinks."""


def finish_times(first_priority: int, second_priority: int) -> tuple[int, int]:
    """Return when two equal jobs that start together over the same uplinks are done, in ps."""
    with network(SHARED_UPLINK, Faults()) as shared:
        jobs = [
            shared.start(number, "ring", workers, priority=priority, window=64)
            for number, (workers, priority) in enumerate(
                zip(ACROSS, (first_priority, second_priority), strict=True), start=1
            )
        ]
        shared.all_reduce(*jobs)
        one, two = (max(shared.network.status(i).done_at_ps for i in job.endpoints) for job in jobs)
        return one, two


def test_the_job_of_higher_priority_leaves_first():
    one, two = finish_times(7, 0)
    assert one < 0.7 * two
    one, two = finish_times(0, 7)
    assert two < 0.7 * one


def test_without_priorities_two_equal_jobs_share_the_link():
    one, two = finish_times(3, 3)
    assert abs(one - two) < 0.1 * max(one, two)


@pytest.mark.parametrize(("threshold", "marked"), [(4, True), (1000, False)])
def test_congestion_is_marked_from_queue_depth_and_echoed_to_the_workers(threshold, marked):
    """Four workers behind a plain switch share its uplink to the root: their contributions queue there."""
    topology = "leaf-spine:leaves=2,spines=1,hosts=4,rate=10G,uplink=10G,capable=spine*"
    with network(topology, Faults(), SwitchSettings(ecn_threshold=threshold)) as shared:
        job = shared.start(1, "steiner", window=64)
        shared.all_reduce(job)
        congested = sum(shared.network.status(index).congested for index in job.endpoints)
        depth = max(link.max_depth for link in shared.network.fabric.links.values())
    assert depth > 4
    assert (congested > 0) == marked


def test_a_refused_packet_is_counted_and_shown_to_the_controller():
    with network("leaf-spine-8", Faults(), SwitchSettings(sample_mask=0)) as shared:
        job = shared.start(1, "steiner")
        shared.all_reduce(job)
        before = shared.switches.controller.read_counters()
        parent = job.plan.up("h1")
        stranger = INC(type="PUSH", job=1, epoch=job.plan.epoch, seq=0, count=1)
        frame = bytes(
            Ether(src="02:00:0a:00:00:05", dst=parent.mac.to_bytes(6, "big").hex(":"))
            / IP(src="10.0.0.5", dst=str(IPv4Address(parent.ip)))
            / UDP(sport=9400, dport=9400, chksum=0)
            / stranger
        )
        shared.network.fabric.send("h1", frame)
        shared.network.advance()
        after = shared.switches.controller.read_counters()
        shown = shared.switches.controller.packet_ins()
    assert after[parent.name].since(before[parent.name]).refused["unknown peer"].frames == 1
    assert [(packet.switch, packet.reason) for packet in shown] == [(parent.name, 8)]
    assert shown[0].frame.endswith(frame[14:])
