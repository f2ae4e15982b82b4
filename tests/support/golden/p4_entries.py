"""The golden model's table entries, as entries of the P4 program's tables."""

from typing import Final

from p4switch.device import Device
from p4switch.tables.matching import Exact, Lpm, TableEntry
from tests.support.golden.tables import (
    DeadlineEntry,
    EdgeEntry,
    Entry,
    GroupEntry,
    JobEntry,
    PathEntry,
    PeerEntry,
    ReplicaEntry,
    RouteEntry,
)

SETTINGS: Final = "IncIngress.settings"
LOCAL_ADDRESS: Final = "IncIngress.local_address"

_JOB: Final = "IncIngress.aggregate.job"
_PEER: Final = "IncIngress.aggregate.peer"
_DEADLINE: Final = "IncIngress.aggregate.slot.deadline"
_EDGE: Final = "IncIngress.forward.edge"
_ROUTE: Final = "IncIngress.forward.route"
_PATH: Final = "IncIngress.forward.path"
_REPLICA: Final = "IncEgress.depart.replica"

TABLES: Final = (_JOB, _PEER, _DEADLINE, _REPLICA, _EDGE, _ROUTE, _PATH)
"""Tables of `tests.support.golden.tables`' entries, except multicast groups."""


def local_address(ip: int) -> TableEntry:
    """The entry that makes ``ip`` the switch's own."""
    return TableEntry((Exact(ip),), "IncIngress.is_local")


def write_entry(device: Device, entry: Entry, *, insert: bool) -> None:
    """Inserts or deletes ``entry`` in the table (or multicast group) that it belongs to."""
    if isinstance(entry, GroupEntry):
        if insert:
            device.multicast.set(entry.group, entry.copies)
        else:
            device.multicast.delete(entry.group)
        return
    name, row = _row(entry)
    table = device.tables[name]
    (table.insert if insert else table.delete)(row)


def _row(
    entry: JobEntry | PeerEntry | DeadlineEntry | ReplicaEntry | EdgeEntry | RouteEntry | PathEntry,
) -> tuple[str, TableEntry]:
    match entry:
        case JobEntry():
            return _JOB, _job(entry)
        case PeerEntry():
            return _PEER, _peer(entry)
        case DeadlineEntry():
            key = Exact(entry.job), Exact(entry.epoch)
            return _DEADLINE, TableEntry(key, "IncIngress.aggregate.slot.allow", (entry.after_us,))
        case ReplicaEntry():
            addresses = entry.mac, entry.ip, entry.udp
            if entry.to == "parent":
                return _REPLICA, TableEntry((Exact(entry.rid),), "IncEgress.depart.address_parent", addresses)
            if entry.to == "question":
                asked = "IncEgress.depart.address_question"
                return _REPLICA, TableEntry((Exact(entry.rid),), asked, (*addresses, entry.bit))
            if entry.bit:
                told = "IncEgress.depart.address_or_late"
                return _REPLICA, TableEntry((Exact(entry.rid),), told, (*addresses, entry.token, entry.bit))
            if entry.token:
                shown = "IncEgress.depart.address_with_token"
                return _REPLICA, TableEntry((Exact(entry.rid),), shown, (*addresses, entry.token))
            return _REPLICA, TableEntry((Exact(entry.rid),), "IncEgress.depart.address", addresses)
        case EdgeEntry():
            return _EDGE, TableEntry((Exact(entry.port),), "IncIngress.forward.host", (entry.ip,))
        case RouteEntry():
            next_hop = entry.port, entry.mac
            return _ROUTE, TableEntry((Lpm(entry.ip, 32),), "IncIngress.forward.next_hop", next_hop)
        case PathEntry():
            where = Exact(entry.job), Exact(entry.epoch), Exact(entry.ip)
            return _PATH, TableEntry(where, "IncIngress.forward.next_hop", (entry.port, entry.mac))


def peer_counter(device: Device, entry: PeerEntry) -> int:
    """Packets of ``entry`` by the switch's own count."""
    return device.tables[_PEER].read_counter(_peer(entry))[0]


def _peer(entry: PeerEntry) -> TableEntry:
    key = Exact(entry.port), Exact(entry.ip), Exact(entry.job), Exact(entry.epoch)
    name, about = ("child", (entry.bit, int(entry.lowest))) if entry.bit else ("parent", ())
    if entry.token == 0:
        return TableEntry(key, f"IncIngress.aggregate.{name}", about)
    return TableEntry(key, f"IncIngress.aggregate.{name}_with_token", (*about, entry.token))


def _job(entry: JobEntry) -> TableEntry:
    key = Exact(entry.job), Exact(entry.epoch)
    slots = entry.generation, entry.base, entry.slots, entry.full, entry.group, entry.stats
    if entry.parent is None:
        if entry.questions:
            return TableEntry(key, "IncIngress.aggregate.root_with_questions", (*slots, entry.questions, entry.again))
        return TableEntry(key, "IncIngress.aggregate.root", slots)
    up = entry.parent
    about = (*slots, up.port, up.mac, up.ip, up.udp)
    if entry.questions:
        asking = (*about, entry.token, entry.questions, entry.again)
        return TableEntry(key, "IncIngress.aggregate.inner_with_questions", asking)
    if entry.token == 0:
        return TableEntry(key, "IncIngress.aggregate.inner", about)
    return TableEntry(key, "IncIngress.aggregate.inner_with_token", (*about, entry.token))
