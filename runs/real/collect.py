"""From what switches, relays and workers counted to the result of a run in real time."""

import statistics
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from p4reduce.base.units import NS_PER_S
from p4reduce.control_plane.counters import SwitchCounters
from p4reduce.fabric import LinkCounters
from p4reduce.runs.provenance import provenance
from p4reduce.runs.real.carry import RealCluster
from p4reduce.runs.real.group import Message
from p4reduce.runs.real.targets import NO_TRAFFIC
from p4reduce.runs.result import RealRun, RunResult
from p4reduce.runs.summary import Observed, describe_topology, result_of
from p4reduce.runs.training import training_result, without_values
from p4reduce.topologies.model import Hop

BITS_PER_FLOAT = 32
SHOWN = ("resends", "spurious", "congested", "rtt_ps", "rtt_min_ps", "frames_sent")
"""of what an endpoint says of itself, for people who want to know how a window settled"""


def result(cluster: RealCluster, cpu_s: dict[str, float]) -> RunResult:
    """The result of all that ``cluster`` has moved, checked against the predictions.

    Of a training, the accuracy of one process is still missing: it is for who started the session.
    """
    answers = cluster.settle()
    switches = [node.name for node in cluster.topology.switches if node.name not in cluster.lost_switches]
    counters = cluster.target.controller.read_counters(switches)
    links = _links(cluster, answers, counters)
    observed = Observed(
        topology=cluster.topology,
        jobs=[cluster.job],
        links=links,
        incidents=cluster.incidents(),
        counters=counters,
        unseen_losses=_unseen_losses(cluster, answers, counters, links),
        uncounted_queues=cluster.experiment.target == "bmv2",
        interrupted=bool(cluster.decisions or cluster.moved.closed),
    )
    moved, given = cluster.moved, cluster.experiment
    digest = moved.digest.hexdigest()
    # A plan that only reduces carries other collectives host to host, but it is what was asked for.
    found = result_of(observed, moved.records, digest, moved.steps)
    decided = [decision.plain() for decision in cluster.decisions]
    network = replace(found, plan=given.plan, membership=decided, closed=cluster.moved.closed)
    training = None
    if given.model == "digits" or moved.points:
        training = training_result(
            given, moved.points, moved.records, digest, baseline=None, weights=moved.weights_sha256
        )
        network = without_values(network)
    return RunResult(
        experiment=given.model_dump(mode="json"),
        provenance=provenance(cluster.program, given.seed),
        network=network,
        training=training,
        topology=describe_topology(cluster.topology),
        real=_real_run(cluster, answers, links, cpu_s),
    )


def _links(
    cluster: RealCluster, answers: Mapping[str, Message], counters: Mapping[str, SwitchCounters]
) -> dict[Hop, LinkCounters]:
    """Every directed link: what hosts send is counted by their endpoints, the rest by switches, faults by relays."""
    found: dict[Hop, LinkCounters] = {}
    sent = cluster.target.links(counters)
    for link in cluster.topology.links:
        for end in ((link.a, link.port_a), (link.b, link.port_b)):
            found[end] = sent.get(end, NO_TRAFFIC)
    for host, answer in answers.items():
        found[(host, 1)] = _sent_by(answer)
    for end, seen in cluster.relays.links().items():
        found[end] = replace(
            found[end],
            lost=seen.lost,
            duplicated=seen.duplicated,
            reordered=seen.reordered,
            corrupted=seen.corrupted,
            queue_drops=found[end].queue_drops + seen.queue_drops,
        )
    return found


def _sent_by(answer: Message) -> LinkCounters:
    """What the endpoints of a worker sent."""
    endpoints = answer["endpoints"].values()
    frames, octets, again, again_octets = (
        sum(one[name] for one in endpoints) for name in ("frames_sent", "bytes_sent", "resends", "resend_bytes")
    )
    return replace(
        NO_TRAFFIC,
        frames=frames,
        bytes=octets,
        inc_first_frames=frames - again,
        inc_first_bytes=octets - again_octets,
        inc_resend_frames=again,
        inc_resend_bytes=again_octets,
    )


def _unseen_losses(
    cluster: RealCluster,
    answers: Mapping[str, Message],
    counters: Mapping[str, SwitchCounters],
    links: Mapping[Hop, LinkCounters],
) -> bool:
    """Whether somebody received less than was sent to it and not lost on purpose, or nobody can tell."""
    received = cluster.target.received(counters)
    for (node, port), seen in links.items():
        peer = cluster.topology.neighbour(node, port)
        arrived = seen.frames + seen.duplicated - seen.lost - seen.corrupted
        if peer in answers:
            counted = answers[peer]["port"]
            came = counted["first_frames"] + counted["resend_frames"]
        elif arrived == 0:
            continue
        else:
            came = received.get((peer, cluster.topology.port(peer, node)), -1)
        if came != arrived:
            return any(record.resends for record in cluster.moved.records)
    return False


def _real_run(
    cluster: RealCluster, answers: Mapping[str, Message], links: Mapping[Hop, LinkCounters], cpu_s: dict[str, float]
) -> RealRun:
    moved, given = cluster.moved, cluster.experiment
    median_s = statistics.median(record.communication_ps for record in moved.records) / 1e12
    elements = moved.records[0].elements
    into_switches = sum(
        seen.frames
        for (node, port), seen in links.items()
        if not cluster.topology.node(cluster.topology.neighbour(node, port)).is_host
    )
    return RealRun(
        target=given.target,
        links=given.links,
        shaping=cluster.wires.shaping,
        goodput_bps=elements * BITS_PER_FLOAT / median_s,
        packets_per_s=into_switches / (moved.busy_ns / NS_PER_S),
        cpu_s=cpu_s,
        lost=sum(seen.lost for seen in links.values()),
        kernel_drops=cluster.target.kernel_drops() + sum(answer["port"]["dropped"] for answer in answers.values()),
        workers={host: _shown(answer) for host, answer in answers.items()},
        changes=[asdict(one) for one in cluster.resumed],
    )


def _shown(answer: Message) -> dict[str, int]:
    *_, endpoint = answer["endpoints"].values()  # a script's has one for each epoch
    known: dict[str, Any] = {name: endpoint[name] for name in SHOWN}
    window = endpoint["window"]
    settled = {f"window_{name}": round(window[name]) for name in ("lowest", "highest", "mean")}
    causes = {name: window[name] for name in ("cuts", "braked", "lost_by_order", "lost_by_time")}
    return {
        **known,
        "congestion_window": round(window["now"]),
        **settled,
        **causes,
        "kernel_drops": answer["port"]["dropped"],
        "blocked": answer["port"]["blocked"],
    }
