"""Frames that are right except for the token, sent under the sender's true address: all are refused.

A host's cable lets an attacker send as that host; so here the host itself is the forger, with the right addresses and
ports.
"""

import random
from collections import Counter
from dataclasses import replace

import pytest

from p4reduce.control_plane.counters import Traffic
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.runs.participant import tensor
from p4reduce.topologies import load
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from tests.integration.runs.test_forged_frames import ELEMENTS, LANES, Network, at_some_time, network, packet, peers
from tests.support.golden.frames import Kind, encode

PLANS = [
    ("leaf-spine-8", "steiner", None),
    ("leaf-spine-8", "spt", "server1"),
    ("leaf-spine-8-partial", "mst", None),
    ("leaf-spine-8", "ring", None),
    ("leaf-spine-8", "ps", "server1"),
]
EACH = 12
"""forged frames from each host to each neighbour of its overlay"""


def kinds(plan: Plan, source: str, target: str) -> tuple[Kind, ...]:
    """Return the packet types that the source may send to the target."""
    if (source, target) not in plan.edges:
        return (Kind.RESULT,)
    return (Kind.PUSH,) if plan.ring else (Kind.PUSH, Kind.PULL, Kind.ASK)


def forgeries(plan: Plan, duration_ps: int, strange: list[int], rng: random.Random):
    """Return frames from every host to all its peers: no token, a guess, one bit off, or another pair's token."""
    made = []
    for host in (host.name for host in plan.topology.hosts):
        for target in sorted(peers(plan).get(host, ())):
            for _ in range(EACH):
                at_ps, seq = at_some_time(plan, duration_ps, rng)
                right = plan.token(host, target)
                guesses = (0, rng.randrange(1 << 24), right ^ 1 << rng.randrange(24), rng.choice(strange))
                token = rng.choice([guess for guess in guesses if guess != right])
                kind = rng.choice(kinds(plan, host, target))
                forged = replace(packet(plan, host, host, target, kind, seq), token=token)
                if kind == Kind.ASK:
                    forged = replace(forged, lanes=None, late=rng.random() < 0.5)
                made.append((at_ps, host, forged))
    return made


@pytest.mark.parametrize(("topology", "plan", "server"), PLANS)
def test_nobody_takes_what_does_not_show_the_token(topology, plan, server):
    """Other pairs' tokens include those of the same job."""
    with network(topology, plan, server) as quiet:
        expected = quiet.all_reduce([])
    with network(topology, plan, server) as attacked:
        others = list(attacked.plan.tokens.values())
        lies = forgeries(attacked.plan, expected.duration_ps, others, random.Random(7))
        found = attacked.all_reduce(lies)
        to_ends = sum(attacked.topology.node(name).is_host for name in _targets(attacked, lies))
    assert len(expected.sums) == 1
    assert found.sums == expected.sums
    refused = Counter[str]()
    for counts in found.switches.values():
        refused.update(counts)
    assert refused == Counter({"wrong token": len(lies) - to_ends}) - Counter()
    assert found.ends - expected.ends == Counter(token=to_ends) - Counter()
    assert len(lies) == EACH * sum(len(peers(attacked.plan).get(host.name, ())) for host in attacked.topology.hosts)


def _targets(attacked: Network, lies):
    names = {node.ip: node.name for node in attacked.topology.nodes}
    return [names[frame.ip_dst] for _, _, frame in lies]


def test_the_same_frame_with_the_token_would_do_harm():
    """Control for the test above: with the token, an early exponent is accepted and costs precision."""
    with network("leaf-spine-8", "steiner", None) as quiet:
        expected = quiet.all_reduce([])
    found = []
    for right in (True, False):
        with network("leaf-spine-8", "steiner", None) as attacked:
            plan, host = attacked.plan, attacked.plan.workers[0]
            target = plan.up(host).name
            token = plan.token(host, target) ^ (0 if right else 1)
            forged = replace(packet(plan, host, host, target, Kind.PUSH, 5), token=token, lanes=None)
            found.append(attacked.all_reduce([(0, host, forged)]).sums == expected.sums)
    assert found == [False, True]


def test_a_former_epochs_token_is_strange_in_the_next_and_in_another_job():
    """Two jobs on the same hosts; the first changes its epoch midway, and old packets are replayed."""
    built = Network(load("leaf-spine-8"), "steiner", None)
    try:
        net, controller = built.network, built.switches.controller
        workers = built.plan.workers
        second = controller.start_job(PlanRequest("spt", job=2, lanes=LANES, workers=workers, window=16))
        jobs = [net.add(built.plan), net.add(second)]
        arrays = [[tensor(1 + number, rank, 0, ELEMENTS) for rank in range(len(workers))] for number in range(2)]
        expected = [sum(part.astype(float) for part in parts) for parts in arrays]
        for job, parts in zip(jobs, arrays, strict=True):
            for worker, part in zip(workers, parts, strict=True):
                net.post(job.members[worker], Post(Collective.ALL_REDUCE, part, part))
        net.advance(until_ps=20_000_000)
        following = controller.start_job(PlanRequest("steiner", epoch=1, lanes=LANES, workers=workers, window=16))
        net.change_over(jobs[0], following)
        before = controller.read_counters()
        rng, sent = random.Random(3), 0
        for worker in workers:
            for plan, former in ((following, built.plan), (following, second), (second, following)):
                parent, was = plan.up(worker).name, former.up(worker).name
                for kind in (Kind.PUSH, Kind.ASK):
                    lanes = tuple(range(LANES)) if kind == Kind.PUSH else None
                    forged = packet(plan, worker, worker, parent, kind, rng.randrange(90))
                    forged = replace(forged, token=former.token(worker, was), lanes=lanes)
                    net.fabric.send(worker, encode(forged), net.now + rng.randrange(10_000_000))
                    sent += 1
        net.advance()
        after = controller.read_counters()
        wrong = sum(
            counts.since(before[name]).refused.get("wrong token", Traffic()).frames for name, counts in after.items()
        )
        assert wrong == sent == 6 * len(workers)
        for job, parts, total in zip(jobs, arrays, expected, strict=True):
            assert len({part.tobytes() for part in parts}) == 1
            assert abs(parts[0] - total).max() < 1e-3
            assert all(status.refused["token"] == 0 for status in net.statuses(job))
    finally:
        built.switches.close()
