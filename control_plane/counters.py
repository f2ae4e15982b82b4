"""The switches' counters as the P4 program indexes them (p4src/depart.p4, aggregate.p4, refuse.p4)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import finsy as fy
from finsy.p4entity import P4Entity

from p4reduce.control_plane.plans.plan import Plan
from p4reduce.control_plane.predict import Traffic
from p4reduce.topologies import Topology

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
