"""The switches' counters as the P4 program indexes them (p4src/depart.p4, aggregate.p4, refuse.p4)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

import finsy as fy
from finsy.p4entity import P4Entity

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.plan import Plan
from p4reduce.control_plane.plans.routes import hops
from p4reduce.control_plane.predict import Operation, Traffic, exchange
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

TYPES: Final = {"PUSH": 1, "PULL": 2, "RESULT": 3, "ASK": 4}
"""types of INC packets (p4src/headers.p4)"""
REASONS: Final = {
    1: "not IPv4",
    2: "IPv4 checksum",
    3: "IPv4 options",
    4: "time to live",
    5: "no route",
    6: "malformed",
    7: "unknown job or epoch",
    8: "unknown peer",
    9: "wrong type",
    10: "older generation",
    11: "wrong seq",
    12: "wrong kind",
    13: "duplicate",
    14: "unexpected result",
    16: "forged source",
    17: "late",
    18: "wrong token",
}
"""why packets are refused (p4src/refuse.p4)"""

Cells = dict[tuple[str, int], Traffic]
"""(PUSH, PULL or RESULT; 1 for resends else 0) -> traffic"""


@dataclass(frozen=True)
class SwitchCounters:
    """One switch's counters. Bytes are those that packets had when they came in.

    Attributes
    ----------
    link_sent : mapping
        (port, 1 for resends else 0) -> INC packets sent.
    refused : mapping
        Reason -> packets; reasons that never happened are left out.
    jobs_received, jobs_sent : mapping
        Counter cell of a job (``plan.grant.stats``) -> accepted packets, and packets sent from slots.
    peers : mapping
        (job, epoch, node) -> packets that came from a child or parent.
    """

    link_sent: Mapping[tuple[int, int], Traffic]
    refused: Mapping[str, Traffic]
    jobs_received: Mapping[int, Cells]
    jobs_sent: Mapping[int, Cells]
    peers: Mapping[tuple[int, int, str], Traffic]

    def since(self, before: "SwitchCounters") -> "SwitchCounters":
        """What was counted after another reading."""
        refused = {reason: traffic - before.refused.get(reason, Traffic()) for reason, traffic in self.refused.items()}
        return SwitchCounters(
            {key: traffic - before.link_sent.get(key, Traffic()) for key, traffic in self.link_sent.items()},
            {reason: traffic for reason, traffic in refused.items() if traffic.frames},
            _cells_since(self.jobs_received, before.jobs_received),
            _cells_since(self.jobs_sent, before.jobs_sent),
            {key: traffic - before.peers.get(key, Traffic()) for key, traffic in self.peers.items()},
        )


def _cells_since(after: Mapping[int, Cells], before: Mapping[int, Cells]) -> dict[int, Cells]:
    return {
        stats: {key: traffic - before.get(stats, {}).get(key, Traffic()) for key, traffic in cells.items()}
        for stats, cells in after.items()
    }


def requests(topology: Topology, switch: str, plans: Iterable[Plan]) -> list[P4Entity]:
    """What to read of a switch: its ports, its refusals, and the cells of the plans that aggregate there."""
    ports = len(topology.neighbours(switch))
    wanted: list[P4Entity] = [
        fy.P4CounterEntry("link_sent", index=2 * port + resend) for port in range(1, ports + 1) for resend in (0, 1)
    ]
    wanted += [fy.P4CounterEntry("refused", index=reason) for reason in REASONS]
    for plan in plans:
        if switch in plan.by_switch:
            for counter in ("job_received", "job_sent"):
                wanted += [fy.P4CounterEntry(counter, index=index) for index in stats_cells(plan.grant.stats)]
            wanted += [_peer_counter(plan, port, ip) for _, port, ip in _peers(plan, switch)]
    return wanted


def resets(plan: Plan) -> list[fy.P4CounterEntry]:
    """Zeros for the counter cells that a plan takes over from an earlier one."""
    return [
        fy.P4CounterEntry(counter, index=index, data=fy.P4CounterData())
        for counter in ("job_received", "job_sent")
        for index in stats_cells(plan.grant.stats)
    ]


def stats_cells(stats: int) -> list[int]:
    """Indices of a job's cells."""
    return [stats_cell(stats, kind, resend=resend) for kind in TYPES for resend in (False, True)]


def stats_cell(stats: int, kind: str, *, resend: bool) -> int:
    """The cell of a job for one type of packets: 8 * stats + 2 * (type mod 4) + resend."""
    return 8 * stats + 2 * (TYPES[kind] % 4) + resend


def collect(switch: str, plans: Iterable[Plan], read: Iterable[P4Entity]) -> SwitchCounters:
    """The counters from what a switch answered to :func:`requests`."""
    link_sent: dict[tuple[int, int], Traffic] = {}
    refused: dict[str, Traffic] = {}
    jobs: dict[str, dict[int, Cells]] = {"job_received": {}, "job_sent": {}}
    peers: dict[tuple[int, int, str], Traffic] = {}
    names = {(plan.job, plan.epoch, port, ip): name for plan in plans for name, port, ip in _peers(plan, switch)}
    kinds = {number % 4: kind for kind, number in TYPES.items()}
    for entity in read:
        if isinstance(entity, fy.P4DirectCounterEntry):
            match = entity.table_entry.match if entity.table_entry else None
            if match:
                job, epoch = match["job"], match["epoch"]
                name = names.get((job, epoch, match["ingress_port"], match["src"]))
                if name is not None:
                    peers[(job, epoch, name)] = Traffic(entity.packet_count, entity.byte_count)
        elif isinstance(entity, fy.P4CounterEntry) and entity.index is not None:
            traffic = Traffic(entity.packet_count, entity.byte_count)
            if entity.counter_id == "link_sent":
                link_sent[divmod(entity.index, 2)] = traffic
            elif entity.counter_id == "refused":
                if traffic.frames:
                    refused[REASONS[entity.index]] = traffic
            else:
                stats, cell = divmod(entity.index, 8)
                jobs[entity.counter_id].setdefault(stats, {})[(kinds[cell >> 1], cell & 1)] = traffic
    return SwitchCounters(link_sent, refused, jobs["job_received"], jobs["job_sent"], peers)


def _peers(plan: Plan, switch: str) -> list[tuple[str, int, int]]:
    """(name, ingress port, IPv4 address) of an aggregator's children and parent."""
    aggregator = plan.by_switch.get(switch)
    if aggregator is None:
        return []
    addresses = [child.address for child in aggregator.children]
    if aggregator.parent is not None:
        addresses.append(aggregator.parent)
    return [(address.name, address.port, address.ip) for address in addresses]


def _peer_counter(plan: Plan, port: int, ip: int) -> fy.P4DirectCounterEntry:
    match = {"std.ingress_port": port, "hdr.ipv4.src": ip, "hdr.inc.job": plan.job, "hdr.inc.epoch": plan.epoch}
    return fy.P4DirectCounterEntry("peer_received", table_entry=fy.P4TableEntry("peer", match=fy.P4TableMatch(match)))


# Predicted against counted: first transmissions on links and in the switches' own counters.


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
