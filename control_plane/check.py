"""Predicted against counted: first transmissions on links and in the switches' own counters."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from p4reduce.control_plane.counters import SwitchCounters
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.paths import hops
from p4reduce.control_plane.plans.plan import Plan
from p4reduce.control_plane.predict import Operation, Traffic, exchange
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop


class Fate(StrEnum):
    """What can happen to a first transmission on a link.

    Links are counted where their sender puts frames on them. A frame that is lost or corrupted there was counted, but
    is missing from the links after it; a duplicate is counted on the links after it only; a frame that a full queue
    dropped is missing from its own link too.
    """

    LOST = "lost"
    CORRUPTED = "corrupted"
    DUPLICATED = "duplicated"
    QUEUE_DROPPED = "queue_dropped"


@dataclass(frozen=True, slots=True)
class Incident:
    """First transmissions to ``destination`` (a node's name) that met a fate at the link from ``node``'s ``port``."""

    node: str
    port: int
    destination: str
    fate: Fate
    frames: int
    bytes: int


def expected_on_links(
    plan: Plan, predicted: Mapping[Hop, Traffic], incidents: Iterable[Incident]
) -> dict[Hop, Traffic]:
    """A prediction corrected for what happened to first transmissions on their way.

    What is lost on one link is missing on the rest of its path, to the end of its overlay hop: there the switch or
    host that adds up waits for a retransmission, and what it then sends is again a first transmission.

    Raises
    ------
    PlanError
        When something happened to a frame where the plan sends none to that destination.
    """
    onward = {(node, path[-1]): following for path in plan.paths.values() for node, following in pairwise(path)}
    total = dict(predicted)
    for incident in incidents:
        rest = _rest(plan, onward, incident)
        skipped = 0 if incident.fate is Fate.QUEUE_DROPPED else 1
        sign = 1 if incident.fate is Fate.DUPLICATED else -1
        change = Traffic(sign * incident.frames, sign * incident.bytes)
        for hop in hops(plan.topology, rest)[skipped:]:
            total[hop] = total.get(hop, Traffic()) + change
    return total


def compare_links(
    topology: Topology, expected: Mapping[Hop, Traffic], counted: Mapping[Hop, Traffic | tuple[int, int]]
) -> list[str]:
    """Differences between expected and counted first transmissions, one line for each directed link; empty: equal."""
    found = []
    for hop in sorted({*expected, *counted}):
        want = expected.get(hop, Traffic())
        have = counted.get(hop, Traffic())
        if not isinstance(have, Traffic):
            have = Traffic(*have)
        if have != want:
            node, port = hop
            found.append(
                f"link {node} -> {topology.neighbour(node, port)} (port {port}): predicted {want.frames} frames, "
                f"{want.bytes} bytes; counted {have.frames} frames, {have.bytes} bytes"
            )
    return found


def compare_counters(
    topology: Topology, expected: Mapping[Hop, Traffic], counters: Mapping[str, SwitchCounters]
) -> list[str]:
    """Differences between expected frames and the switches' counter `link_sent` of first transmissions.

    Only frames: BMv2 counts the bytes that a packet had when it came in.
    """
    found = []
    for switch, own in counters.items():
        for port in range(1, len(topology.neighbours(switch)) + 1):
            want = expected.get((switch, port), Traffic()).frames
            have = own.link_sent[(port, 0)].frames
            if want != have:
                found.append(
                    f"{switch}.link_sent[port {port}, first]: predicted {want} frames, counted {have} "
                    f"(to {topology.neighbour(switch, port)})"
                )
    return found


def compare_sent(
    plan: Plan, collectives: Iterable[tuple[Operation, int, int | None]], counters: Mapping[str, SwitchCounters]
) -> list[str]:
    """Differences between what the aggregators should and did send for the first time (counter `job_sent`).

    Parameters
    ----------
    plan : Plan
        The plan, alone in its job.
    collectives : iterable of (operation, elements, lead)
        What was run since the plan was installed; see :func:`~p4reduce.control_plane.predict.exchange`.
    counters : mapping of str to SwitchCounters
        The aggregators' counters. Frames that a full queue dropped are not in them.
    """
    found = []
    shares = [(operation, exchange(plan, operation, elements, lead)) for operation, elements, lead in collectives]
    pulls = sum(share.up_empty for operation, share in shares if operation is Operation.PULL)
    pushes = sum(share.up_full + share.up_empty for _, share in shares) - pulls
    results = sum(share.down_full + share.down_empty for _, share in shares)
    for aggregator in plan.aggregators:
        own = counters[aggregator.name].jobs_sent[plan.grant.stats]
        up = aggregator.parent is not None
        for kind, want in (
            ("PUSH", pushes if up else 0),
            ("PULL", pulls if up else 0),
            ("RESULT", results * len(aggregator.children)),
        ):
            have = own[(kind, 0)].frames
            if have != want:
                found.append(
                    f"{aggregator.name}.job_sent[job {plan.job}, {kind}, first]: predicted {want}, counted {have}"
                )
    return found


def _rest(plan: Plan, onward: Mapping[tuple[str, str], str], incident: Incident) -> tuple[str, ...]:
    """The path from the incident's node to its destination."""
    path = [incident.node]
    while path[-1] != incident.destination:
        following = onward.get((path[-1], incident.destination))
        if following is None or (len(path) == 1 and plan.topology.port(path[0], following) != incident.port):
            raise PlanError(
                f"a first transmission to {incident.destination} was {incident.fate} at {incident.node} port "
                f"{incident.port}, where plan {plan.name!r} of job {plan.job} sends none"
            )
        path.append(following)
    return tuple(path)
