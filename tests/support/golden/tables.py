"""Table entries as the golden switch understands them; `golden.p4_entries` writes the same ones for P4."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Address:
    """Where a switch sends a packet that it makes itself: port, MAC of the next hop, IPv4 and UDP destination."""

    port: int
    mac: int
    ip: int
    udp: int


@dataclass(frozen=True, slots=True)
class JobEntry:
    """(job, epoch): its slots ``base .. base + slots - 1`` here, its children, and its parent (None: the root)."""

    job: int
    epoch: int
    generation: int
    base: int
    slots: int
    full: int
    group: int
    stats: int
    parent: Address | None
    token: int = 0  # to show to the parent
    questions: int = 0  # the group with questions; 0: none
    again: int = 0  # chunks after which one that has not come is asked for again; 0: never


@dataclass(frozen=True, slots=True)
class PeerEntry:
    """A sender of (job, epoch), known by ingress port and IPv4 source. ``bit`` is 0 for the parent."""

    port: int
    ip: int
    job: int
    epoch: int
    bit: int
    lowest: bool = False
    token: int = 0  # that it must show; 0: none


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A multicast group: one copy for each (port, replication id)."""

    group: int
    copies: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ReplicaEntry:
    """The addresses of the copy with replication id ``rid``.

    to: a child, the parent, or a child to which nothing but a question goes.
    """

    rid: int
    mac: int
    ip: int
    udp: int
    bit: int = 0  # of the child, in a job with a deadline or with questions
    token: int = 0  # to show to it
    to: Literal["child", "parent", "question"] = "child"


@dataclass(frozen=True, slots=True)
class DeadlineEntry:
    """(job, epoch) closes chunks over missing children when they have been open for so many microseconds."""

    job: int
    epoch: int
    after_us: int


@dataclass(frozen=True, slots=True)
class EdgeEntry:
    """The host that stands behind a port."""

    port: int
    ip: int


@dataclass(frozen=True, slots=True)
class RouteEntry:
    """The next hop to one IPv4 address."""

    ip: int
    port: int
    mac: int


@dataclass(frozen=True, slots=True)
class PathEntry:
    """The next hop of (job, epoch)'s packets to one IPv4 address, where it is not the usual one."""

    job: int
    epoch: int
    ip: int
    port: int
    mac: int


Entry = JobEntry | PeerEntry | DeadlineEntry | GroupEntry | ReplicaEntry | EdgeEntry | RouteEntry | PathEntry
