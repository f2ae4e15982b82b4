"""Incidents of hosts, links and switches in virtual time, and when the group's coordinator knows of them.

Members send a heartbeat every ``VIRTUAL_LEASE.beat`` over a control network that takes ``CONTROL_LATENCY_PS`` and loses
nothing; a switch's P4Runtime stream does the same. A host's end leaves its connection open: it is known once the lease
has run out and the slots name it. A process that ends closes its connection. Switches report a link that is down. A
switch's restart is known at the controller's next look (``LOOK_PS``), and at once if its stream had ended. A host that
joins tells the coordinator, which tells the members; an earlier rank of that host has ended then.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from p4reduce.control_plane.entries import switches_on_paths
from p4reduce.control_plane.fleet import LOOK_MS
from p4reduce.group.agreement import Damaged, Event, ProcessEnded
from p4reduce.group.errors import ClusterError
from p4reduce.group.membership import VIRTUAL_LEASE
from p4reduce.network.virtual import Faults
from p4reduce.runs.jobs import CONTROL_LATENCY_PS
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import Hop
from p4reduce.topologies.optical import Ends, is_down

if TYPE_CHECKING:
    from p4reduce.runs.virtual.surviving import SurvivingCarrier

Kind = Literal["process", "host", "switch", "link", "join", "restart"]
LOOK_PS: Final = VIRTUAL_LEASE.term * LOOK_MS // 1000
"""interval of the controller's looks at its switches: as in real time, where a lease is 1 s, in units of the lease"""
_CUT = Faults(loss=1.0)
_WHOLE = Faults()


@dataclass(frozen=True)
class Incident:
    """An incident in virtual time: the end of a worker's process or host (by host), of a switch, or of a link ``a-b``.

    ``join``: a host starts, or restarts, and wants to be a member. ``restart``: a switch restarts without entries and
    registers, after it was away for ``away_ps``.
    """

    at_ps: int
    kind: Kind
    what: str
    away_ps: int = 0

    @property
    def ends(self) -> Ends:
        """Return the two nodes of a link."""
        return frozenset(self.what.split("-", 1))

    def check(self, topology: Topology, hosts: Sequence[str]) -> None:
        """Raise `ClusterError` for an incident that cannot happen."""
        switches = {node.name for node in topology.switches}
        known: Collection[object] = {
            "process": hosts,
            "host": hosts,
            "switch": switches,
            "restart": switches,
            "link": {frozenset((link.a, link.b)) for link in topology.links},
            "join": {node.name for node in topology.workers},
        }[self.kind]
        if (self.ends if self.kind == "link" else self.what) not in known:
            kind = {"join": "host for workers", "restart": "switch"}.get(self.kind, self.kind)
            raise ClusterError(f"incident at {self.at_ps} ps: {self.what!r} is no {kind} of this run")


def joining(incidents: Iterable[Incident]) -> tuple[str, ...]:
    """Return the hosts that join, in order of time."""
    return tuple(
        incident.what for incident in sorted(incidents, key=lambda incident: incident.at_ps) if incident.kind == "join"
    )


class Health:
    """The true state of members, switches and links, and when the coordinator learns of it.

    ``faults``: of intact links.
    """

    def __init__(
        self, carrier: "SurvivingCarrier", incidents: Iterable[Incident], faults: Faults | Mapping[Hop, Faults]
    ) -> None:
        self._carrier, self._faults = carrier, faults
        self._topology, self._leases, self._reach = carrier.topology, carrier.agreement.leases, carrier.reach
        self._newest = len(carrier.workers)
        self._at = {host: rank for rank, host in enumerate(carrier.workers)}
        """rank of the last process that began at each host"""
        self._broken: tuple[set[Ends], set[str]] = set(), set()
        """links and switches that are down, known or not"""
        self._agenda = sorted(incidents, key=lambda incident: incident.at_ps)
        self.dead: dict[int, int] = {}
        """Ranks that have died, known or not, with the time."""
        self.came: dict[int, int] = {}
        """Ranks that began later and are no members yet, with the time when the coordinator knows."""
        self._news: list[tuple[int, ProcessEnded | Incident | None]] = []
        """what the coordinator learns, with the time: ends, damage, or (None) what it finds by looking at switches"""
        self._patience = VIRTUAL_LEASE.beat
        self.again_ps: int | None = None
        """When to ask again for blamed members, picoseconds; None: not before there is news."""

    def joins_by(self, at_ps: int) -> bool:
        """Return whether the coordinator could tell members by ``at_ps`` that a rank joins."""
        soon = [incident.at_ps + CONTROL_LATENCY_PS for incident in self._agenda if incident.kind == "join"]
        return any(known + CONTROL_LATENCY_PS <= at_ps for known in (*soon, *self.came.values()))

    def newcomers(self) -> tuple[int, ...]:
        """Return the ranks that could join now: the members know of them and reach them."""
        told, hosts = self._carrier.now - CONTROL_LATENCY_PS, self._carrier.everybody
        there = [hosts[member] for member in self._carrier.agreement.survivors[:1]]
        came = [rank for rank, known in self.came.items() if known <= told and there]
        return tuple(rank for rank in came if not self._reach.apart([*there, hosts[rank]]))

    def die(self, rank: int, at_ps: int, reason: str) -> None:
        """Note that a rank's process has ended and closed its connection."""
        if rank not in self.dead:
            self.dead[rank] = at_ps
            self._news.append((at_ps + CONTROL_LATENCY_PS, ProcessEnded(rank, reason)))

    def next_ps(self, now: int) -> int | None:
        """Return when the next incident or look is due, picoseconds; None: never."""
        times = [incident.at_ps for incident in self._agenda[:1]] + [known for known, _ in self._news]
        times += [] if self.again_ps is None else [self.again_ps]
        ends = [self._leases.runs_out(member) for member in self._leases.alive if member in self.dead]
        times += [runs_out for runs_out in ends if runs_out > now]
        return max(now, min(times)) if times else None

    def happen(self) -> None:
        """Apply the incidents that are due by now to the network."""
        while self._agenda and self._agenda[0].at_ps <= self._carrier.now:
            incident = self._agenda.pop(0)
            match incident.kind:
                case "join":  # an earlier process there ends with all its connections
                    self._end(incident, "was started anew")
                    self._at[incident.what] = self._newest
                    self.came[self._newest] = incident.at_ps + CONTROL_LATENCY_PS
                    self._newest += 1
                    self._mend(incident.what)
                case "process" | "host":
                    if self._end(incident, "was killed" if incident.kind == "process" else "fell silent"):
                        self._cut(incident)
                case "link":
                    self._broken[0].add(incident.ends)
                    self._news.append((incident.at_ps + CONTROL_LATENCY_PS, incident))
                    self._cut(incident)
                case "restart" if not incident.away_ps or incident.what in self._broken[1]:
                    self._restart(incident)
                case _:
                    self._lose(incident)
                    self._cut(incident)

    def _end(self, incident: Incident, reason: str) -> bool:
        """End the last process at a host; return False if no member or rank being admitted was running there."""
        rank, at_ps = self._at.get(incident.what), incident.at_ps
        if rank is None or (rank in self.dead and incident.kind != "join"):
            return False
        if self.came.pop(rank, None) is not None:  # the members do not know it yet
            self._news.append((at_ps, ProcessEnded(rank, reason)))
            return False
        if incident.kind == "host":
            self.dead[rank] = at_ps
            self._leases.heard(rank, _last_beat(rank, at_ps) + CONTROL_LATENCY_PS)
        else:
            self.dead.pop(rank, None)  # a host that fell silent closes its connection as it starts anew
            self.die(rank, at_ps, reason)
        self._carrier.pause(incident.what)
        return True

    def _lose(self, incident: Incident) -> None:
        """Note that a switch is away; it counts as lost once its lease has run out, unless it is back before."""
        known = _last_beat(0, incident.at_ps) + CONTROL_LATENCY_PS + VIRTUAL_LEASE.term
        back = incident.at_ps + incident.away_ps
        if incident.kind == "switch" or known < back + CONTROL_LATENCY_PS:
            self._news.append((known, incident))
        if incident.kind == "restart":
            self._agenda.append(Incident(back, "restart", incident.what))
            self._agenda.sort(key=lambda incident: incident.at_ps)
        self._broken[1].add(incident.what)

    def _restart(self, incident: Incident) -> None:
        """Restart a switch; the controller looks at it at once if it has to open its stream again."""
        switch, at_ps = incident.what, incident.at_ps
        self._carrier.switches.restart(switch)
        looks_ps = at_ps if switch in self._broken[1] else (at_ps // LOOK_PS + 1) * LOOK_PS
        self._broken[1].discard(switch)
        self._news.append((looks_ps + CONTROL_LATENCY_PS, None))
        self._mend(switch)

    def _cut(self, incident: Incident) -> None:
        """Cut a link, or all links of a node."""
        for link in self._topology.links:
            ends = frozenset((link.a, link.b))
            if incident.what in ends if incident.kind != "link" else incident.ends == ends:
                self._set_faults(link, _CUT)

    def _mend(self, node: str) -> None:
        """Restore a node's links, except those that are down or lead to a node that is down."""
        down = is_down(*self._broken)
        silent = {host for host, rank in self._at.items() if rank in self.dead}
        for link in self._topology.links:
            if node in (link.a, link.b) and not silent & {link.a, link.b} and not down(link):
                self._set_faults(link, self._faults)

    def _set_faults(self, link: Link, faults: Faults | Mapping[Hop, Faults]) -> None:
        for hop in ((link.a, link.port_a), (link.b, link.port_b)):
            own = faults if isinstance(faults, Faults) else faults.get(hop, _WHOLE)
            self._carrier.network.fabric.set_faults(hop, own)

    def beat(self, now: int) -> None:
        """Extend the leases of all living members."""
        for member in self._leases.alive:
            if member not in self.dead:
                self._leases.heard(member, now)
        self.again_ps = None

    def heard_of(self, now: int) -> list[Event]:
        """Return the events that the coordinator has learned since the last call."""
        events: list[Event] = []
        due = [news for known, news in self._news if known <= now]
        self._news = [news for news in self._news if news[0] > now]
        for news in due:
            match news:
                case ProcessEnded():
                    events.append(news)
                case Incident(kind="link"):
                    self._reach.links.add(news.ends)
                    events.append(Damaged(f"link {news.what} is down"))
                case Incident():
                    self._reach.switches.add(news.what)
                    events.append(Damaged(f"switch {news.what} has ended"))
                case None:
                    events += self._look()
        return events

    def _look(self) -> list[Event]:
        """Restore the switches that have restarted and are not away again; their plans are lost."""
        controller = self._carrier.switches.controller
        restarted = {*controller.look().restarted} - self._broken[1]
        for switch in restarted:
            controller.restore(switch)
        self._reach.switches -= restarted
        self._news = [(at, of) for at, of in self._news if not (isinstance(of, Incident) and of.what in restarted)]
        lost = [plan for plan in controller.installed if restarted & {*switches_on_paths(plan)}]
        self._carrier.lapsed |= {(plan.job, plan.epoch) for plan in lost}
        return [Damaged(f"switch {switch} began anew") for switch in sorted(restarted)]

    def ask_again(self, now: int, *, patient: bool) -> None:
        """Have blamed members looked for again; with ``patient`` at growing intervals."""
        self.again_ps = now + self._patience
        self._patience *= 2 if patient else 1

    def begun(self) -> None:
        """Note that a member has begun to wait for others."""
        self._patience = VIRTUAL_LEASE.beat


def _last_beat(rank: int, at_ps: int) -> int:
    """Return the time of a member's last heartbeat before ``at_ps``; members send theirs at different moments."""
    phase = rank * VIRTUAL_LEASE.beat // 64 % VIRTUAL_LEASE.beat
    return max(0, (at_ps - 1 - phase) // VIRTUAL_LEASE.beat * VIRTUAL_LEASE.beat + phase)
