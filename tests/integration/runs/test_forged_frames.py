"""Hosts that forge sources in virtual time: sums are unchanged, and forged frames are counted where they enter."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.runs.participant import tensor
from p4reduce.topologies import Topology, load
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from tests.support.golden.frames import Kind, Packet, encode

LANES = 64
ELEMENTS = 5000
IDLE = "h5"
"""a host outside of the job"""

Sent = tuple[int, str, Packet]
"""(time in ps, host, frame)"""


@dataclass
class Found:
    """Result of an all-reduce: bytes at each rank, end time, and refusals by endpoints and switches."""

    sums: set[bytes]
    duration_ps: int
    ends: Counter[str] = field(default_factory=Counter)
    switches: dict[str, dict[str, int]] = field(default_factory=dict)


class Network:
    """A job of all workers but one, whose hosts also send given frames."""

    def __init__(self, topology: Topology, plan: str, server: str | None) -> None:
        self.topology = topology
        self.switches = EmbeddedSwitches(topology, bundled(LANES))
        self.network = JobNetwork(self.switches, seed=3)
        workers = tuple(host.name for host in topology.workers if host.name != IDLE)
        request = PlanRequest(plan=plan, lanes=LANES, workers=workers, server=server, window=16)
        self.plan: Plan = self.switches.controller.start_job(request)

    def all_reduce(self, lies: list[Sent]) -> Found:
        """Run one all-reduce (with a server, a training step), and send ``lies`` meanwhile."""
        job = self.network.add(self.plan)
        arrays = [tensor(1, rank, 0, ELEMENTS) for rank, _ in enumerate(self.plan.workers)]
        served = self.plan.in_network and self.plan.server is not None
        collective = Collective.PUSH_PULL if served else Collective.ALL_REDUCE
        for worker, array in zip(self.plan.workers, arrays, strict=True):
            self.network.post(job.members[worker], Post(collective, array, array))
        if job.server is not None:
            arrays.append(tensor(1, len(arrays), 0, ELEMENTS))
            self.network.post(job.server, Post(collective, None, arrays[-1], learning_rate=0.5 * served))
        for at_ps, host, frame in lies:
            self.network.fabric.send(host, encode(frame), at_ps)
        self.network.advance(watch=job.endpoints)
        duration = self.network.now
        self.network.advance()
        found = Found({array.tobytes() for array in arrays}, duration)
        for status in self.network.statuses(job):
            assert status.state is EndpointState.DONE
            found.ends.update({reason: count for reason, count in status.refused.items() if count})
        for name, counters in self.switches.controller.read_counters().items():
            found.switches[name] = {reason: traffic.frames for reason, traffic in counters.refused.items()}
        self.network.retire(job)
        return found


@contextmanager
def network(topology: str, plan: str, server: str | None) -> Iterator[Network]:
    built = Network(load(topology), plan, server)
    try:
        yield built
    finally:
        built.switches.close()


def peers(plan: Plan) -> dict[str, set[str]]:
    """Return, for each node, the nodes that may send to it."""
    found: dict[str, set[str]] = {}
    for child, parent in plan.edges:
        found.setdefault(child, set()).add(parent)
        found.setdefault(parent, set()).add(child)
    return found


def packet(plan: Plan, liar: str, source: str, target: str, kind: int, seq: int) -> Packet:
    """Return a packet from a host, with a given source, about a chunk of a job."""
    topology = plan.topology
    gateway = topology.node(topology.neighbours(liar)[0])
    lanes = tuple(range(1, LANES + 1)) if kind != Kind.PULL else None
    return Packet(
        gateway.mac, topology.node(liar).mac, topology.node(source).ip, topology.node(target).ip, 9400, 9400,
        kind, plan.job, plan.epoch, seq, lanes, count=len(plan.workers), exponent=200,
    )  # fmt: skip


def at_some_time(plan: Plan, duration_ps: int, rng: random.Random) -> tuple[int, int]:
    """Draw a time, and a chunk that is in flight about then."""
    at = rng.random()
    chunks = -(-ELEMENTS // LANES) + plan.window
    return round(at * duration_ps), max(0, round(at * chunks) + rng.randint(-2, plan.window))


def forgeries(plan: Plan, duration_ps: int, rng: random.Random) -> list[Sent]:
    """Return frames from every host in the name of every other's peers, of every type, with and without lanes."""
    made = []
    for liar in plan.topology.hosts:
        for target, known in peers(plan).items():
            for source in sorted(known - {liar.name}):
                for kind in (Kind.RESULT, Kind.RESULT, Kind.PUSH, Kind.PULL):
                    if target == liar.name:
                        continue
                    at_ps, seq = at_some_time(plan, duration_ps, rng)
                    forged = packet(plan, liar.name, source, target, kind, seq)
                    if rng.random() < 0.3:
                        forged = replace(forged, lanes=None)
                    made.append((at_ps, liar.name, forged))
    return made


def entered(topology: Topology, host: str, frame: Packet) -> tuple[str, bool]:
    """Return the switch where a host's frame enters, and whether the frame is for that switch's slots."""
    switch = topology.node(topology.neighbours(host)[0])
    return switch.name, switch.capable and switch.ip == frame.ip_dst


PLANS = [
    ("leaf-spine-8", "steiner", None),
    ("leaf-spine-8", "spt", "server1"),
    ("leaf-spine-8-partial", "mst", None),
    ("leaf-spine-8-partial", "steiner", "server1"),
    ("leaf-spine-8", "ring", None),
    ("leaf-spine-8", "ps", "server1"),
]


@pytest.mark.parametrize(("topology", "plan", "server"), PLANS)
def test_nobody_speaks_in_anothers_name(topology, plan, server):
    with network(topology, plan, server) as quiet:
        expected = quiet.all_reduce([])
    assert len(expected.sums) == 1
    with network(topology, plan, server) as attacked:
        lies = forgeries(attacked.plan, expected.duration_ps, random.Random(1))
        found = attacked.all_reduce(lies)
        counted: dict[str, Counter[str]] = {switch.name: Counter() for switch in attacked.topology.switches}
        for _, host, frame in lies:
            switch, local = entered(attacked.topology, host, frame)
            counted[switch]["unknown peer" if local else "forged source"] += 1
    assert found.sums == expected.sums
    assert found.ends == expected.ends
    assert found.switches == {name: dict(counts) for name, counts in counted.items()}
    assert sum(counts["forged source"] for counts in counted.values()) > 200


@pytest.mark.parametrize(("topology", "plan", "server"), PLANS[:4])
def test_nobody_believes_a_host_that_gives_out_results(topology, plan, server):
    """Sources are true, so frames arrive, but receivers know that they are not from the parent."""
    with network(topology, plan, server) as quiet:
        expected = quiet.all_reduce([])
    rng = random.Random(2)
    with network(topology, plan, server) as attacked:
        lies, to_ends, to_switches = [], Counter[str](), 0
        for liar in (host.name for host in attacked.topology.hosts):
            for target in peers(attacked.plan):
                if target == liar or attacked.plan.parents.get(target) == liar:
                    continue
                at_ps, seq = at_some_time(attacked.plan, expected.duration_ps, rng)
                lies.append((at_ps, liar, packet(attacked.plan, liar, liar, target, Kind.RESULT, seq)))
                if attacked.topology.node(target).is_host:
                    to_ends["type" if target == attacked.plan.server else "peer"] += 1
                else:
                    to_switches += 1
        found = attacked.all_reduce(lies)
    assert found.sums == expected.sums
    assert found.ends == to_ends
    refused = Counter[str]()
    for counts in found.switches.values():
        refused.update(counts)
    assert set(refused) <= {"unknown peer", "wrong token"}
    assert refused.total() == to_switches > 0
