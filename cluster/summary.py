"""From what the network counted to the result of a run."""

import statistics
from typing import Any

from p4reduce.cluster.carrier import Carrier
from p4reduce.cluster.jobs import Job
from p4reduce.cluster.result import CollectiveRecord, LinkLoad, NetworkResult
from p4reduce.control_plane.check import Fate, Incident, compare_counters, compare_links, expected_on_links
from p4reduce.control_plane.counters import SwitchCounters
from p4reduce.control_plane.predict import Hop, Traffic, add
from p4reduce.topologies import Topology


def network_result(carrier: Carrier) -> NetworkResult:
    """What the network did, checked against the predictions. Lets what is under way arrive first."""
    carrier.drain()
    counters = carrier.switches.controller.read_counters()
    predicted = add({}, *(job.predicted() for job in carrier.jobs if job.carried))
    links = _links(carrier, predicted)
    records = carrier.records
    plan = carrier.main.plan
    busiest = max(links, key=lambda load: load.bytes)
    total = sum(load.bytes for load in links)
    median = _median_record(records)
    return NetworkResult(
        plan=plan.name,
        topology=carrier.topology.name,
        workers=len(plan.workers),
        lanes=plan.lanes,
        elements=median.elements if median else 0,
        window=plan.window,
        slots=plan.slots,
        slots_limited=plan.slots_limited,
        rtt_ps=plan.rtt_ps,
        communication_ps=median.communication_ps if median else 0,
        bound_ps=median.bound_ps if median else 0,
        ratio_to_bound=median.communication_ps / median.bound_ps if median and median.bound_ps else 0.0,
        total_bytes=total,
        busiest_bytes=busiest.bytes,
        busiest_link=f"{busiest.node} -> {busiest.peer}",
        bytes_per_iteration=total // max(1, len(records)),
        prediction_differences=_differences(carrier, counters),
        result_sha256=carrier.digest.hexdigest(),
        refused=_refused(counters),
        collectives=list(records),
        links=links,
        tree=[edge for job in carrier.jobs for edge in _edges(job)],
    )


def describe_topology(topology: Topology) -> dict[str, Any]:
    """Nodes and links as plain data, for drawing."""
    return {
        "name": topology.name,
        "nodes": [
            {
                "name": node.name,
                "kind": node.kind,
                "role": node.role,
                "capable": node.capable,
                "position": node.position,
            }
            for node in topology.nodes
        ],
        "links": [
            {"a": link.a, "b": link.b, "rate_bps": link.rate_bps, "delay_ps": link.delay_ps} for link in topology.links
        ],
    }


def _median_record(records: list[CollectiveRecord]) -> CollectiveRecord | None:
    """The record of median communication time, among those that move the most elements."""
    largest = [record for record in records if record.elements == max(one.elements for one in records)]
    if not largest:
        return None
    middle = statistics.median_low(record.communication_ps for record in largest)
    return next(record for record in largest if record.communication_ps == middle)


def _links(carrier: Carrier, predicted: dict[Hop, Traffic]) -> list[LinkLoad]:
    loads = []
    for (node, port), seen in carrier.network.links.items():
        expected = predicted.get((node, port), Traffic())
        loads.append(
            LinkLoad(
                node=node,
                port=port,
                peer=carrier.topology.neighbour(node, port),
                frames=seen.frames,
                bytes=seen.bytes,
                first_frames=seen.inc_first_frames,
                first_bytes=seen.inc_first_bytes,
                resend_frames=seen.inc_resend_frames,
                resend_bytes=seen.inc_resend_bytes,
                predicted_frames=expected.frames,
                predicted_bytes=expected.bytes,
                lost=seen.lost,
                duplicated=seen.duplicated,
                reordered=seen.reordered,
                corrupted=seen.corrupted,
                queue_drops=seen.queue_drops,
                max_queue=seen.max_depth,
                busy_ps=seen.busy_ps,
            )
        )
    return loads


def _differences(carrier: Carrier, counters: dict[str, SwitchCounters]) -> list[str]:
    """First transmissions, predicted against counted: on links by the fabric, at ports by the P4 program."""
    incidents = _incidents(carrier)
    expected = add(
        {},
        *(
            expected_on_links(job.plan, job.predicted(), incidents.get(job.plan.job, []))
            for job in carrier.jobs
            if job.carried
        ),
    )
    counted = {hop: Traffic(seen.inc_first_frames, seen.inc_first_bytes) for hop, seen in carrier.network.links.items()}
    return compare_links(carrier.topology, expected, counted) + compare_counters(carrier.topology, expected, counters)


def _incidents(carrier: Carrier) -> dict[int, list[Incident]]:
    """What happened to first transmissions on their way, by job."""
    found: dict[int, list[Incident]] = {}
    for ((node, port), destination, job), seen in carrier.network.incidents().items():
        for fate, frames, size in (
            (Fate.LOST, seen.lost, seen.lost_bytes),
            (Fate.CORRUPTED, seen.corrupted, seen.corrupted_bytes),
            (Fate.DUPLICATED, seen.duplicated, seen.duplicated_bytes),
            (Fate.QUEUE_DROPPED, seen.queue_dropped, seen.queue_dropped_bytes),
        ):
            if frames:
                found.setdefault(job, []).append(Incident(node, port, destination, fate, frames, size))
    return found


def _refused(counters: dict[str, SwitchCounters]) -> dict[str, dict[str, int]]:
    return {
        name: {reason: traffic.frames for reason, traffic in own.refused.items() if traffic.frames}
        for name, own in counters.items()
        if any(traffic.frames for traffic in own.refused.values())
    }


def _edges(job: Job) -> list[dict[str, Any]]:
    return [
        {"job": job.plan.job, "child": child, "parent": parent, "path": list(job.plan.paths[(child, parent)])}
        for child, parent in job.plan.edges
    ]
