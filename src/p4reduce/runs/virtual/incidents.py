"""Incidents of hosts, links and switches in virtual time, and when the group's coordinator knows of them.

Members send a heartbeat every ``VIRTUAL_LEASE.beat`` over a control network that takes ``CONTROL_LATENCY_PS`` and loses
nothing; a switch's P4Runtime stream does the same. A host's end leaves its connection open: it is known once the lease
has run out and the slots name it. A process that ends closes its connection. Switches report a link that is down. A
switch's restart is known at the controller's next look (``LOOK_PS``), and at once if its stream had ended. A host that
joins tells the coordinator, which tells the members; an earlier rank of that host has ended then.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from p4reduce.control_plane.fleet import LOOK_MS
from p4reduce.group.agreement import Damaged, Event, ProcessEnded
from p4reduce.group.errors import ClusterError
from p4reduce.group.membership import VIRTUAL_LEASE, Leases
from p4reduce.network.virtual import Faults, VirtualNetwork
from p4reduce.runs.jobs import CONTROL_LATENCY_PS
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.topologies.optical import Ends, is_down

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


@dataclass(frozen=True)
class _Death:
    at_ps: int
    reason: str
    silent: bool
    """whether its connection stays open, so that only its lease shows the death"""


class Health:
    """The true state of members, switches and links, and when the coordinator learns of it.

    hosts: of all ranks (first the ``members`` of the start, then those that join, in order). leases: of the members
    that the coordinator knows. faults: of intact links.
    """

    def __init__(
        self,
        topology: Topology,
        hosts: Sequence[str],
        incidents: Iterable[Incident],
        leases: Leases,
        members: int,
        faults: Faults | Mapping[Hop, Faults] = _WHOLE,
    ) -> None:
        self._topology = topology
        self._faults = faults
        self._newest = members
        self._at = {host: rank for rank, host in enumerate(hosts[:members])}
        """rank of the last process that began at each host"""
        self._came: dict[int, int] = {}
        """ranks that began later and are no members yet, with the time when the coordinator knows"""
        self._broken: tuple[set[Ends], set[str]] = set(), set()
        """links and switches that are down, known or not"""
        self._agenda = sorted(incidents, key=lambda incident: incident.at_ps)
        for incident in self._agenda:
            incident.check(topology, hosts)
        self._leases = leases
        self._dead: dict[int, _Death] = {}
        self._heard: set[int] = set()  # ranks whose end the coordinator was told
        self._taken: set[int] = set()  # ranks of `_came` that the next decision admits
        self._gone: list[Event] = []  # ends of ranks of `_came` that were not admitted
        self._damage: list[tuple[int, Incident]] = []  # of links and switches, with the time when it is known
        self._looks: list[int] = []  # times at which the controller looks at restarted switches
        self.links: set[Ends] = set()
        """Links that are known to be down."""
        self.switches: set[str] = set()
        """Switches that are known to have ended."""
        self._patience = VIRTUAL_LEASE.beat

    @property
    def dead(self) -> frozenset[int]:
        """Return the ranks that have died, known or not."""
        return frozenset(self._dead)

    def unknown(self, members: Iterable[int]) -> tuple[int, ...]:
        """Return the members that have died without the coordinator's knowledge."""
        return tuple(member for member in members if member in self._dead and member not in self._leases.dead)

    def died_before(self, at_ps: int) -> set[int]:
        """Return the ranks that have died before a time."""
        return {rank for rank, death in self._dead.items() if death.at_ps < at_ps}

    def joins_by(self, at_ps: int) -> bool:
        """Return whether the coordinator could tell members by ``at_ps`` that a rank joins."""
        told = at_ps - CONTROL_LATENCY_PS
        soon = any(incident.at_ps + CONTROL_LATENCY_PS <= told for incident in self._agenda if incident.kind == "join")
        return soon or bool(self.newcomers(at_ps))

    def newcomers(self, now: int) -> tuple[int, ...]:
        """Return the ranks that want to join and that the members can know by now."""
        return tuple(rank for rank, known in self._came.items() if known + CONTROL_LATENCY_PS <= now)

    def take_in(self, members: Collection[int]) -> None:
        """Admit ranks that asked to join; from now on they send heartbeats."""
        self._taken |= self._came.keys() & members
        self._came = {rank: known for rank, known in self._came.items() if rank not in members}

    def refuse(self, member: int) -> None:
        """Refuse a rank that asked to join."""
        self._came.pop(member, None)

    def die(self, rank: int, at_ps: int, reason: str) -> None:
        """Note that a member's process has ended and closed its connection."""
        self._dead.setdefault(rank, _Death(at_ps, reason, silent=False))

    def next_ps(self, now: int) -> int | None:
        """Return when the next incident or look is due, picoseconds; None: never."""
        times = [incident.at_ps for incident in self._agenda[:1]] + [at_ps for at_ps, _ in self._damage] + self._looks
        times += [now for _ in self._gone]
        times += [self._dead[member].at_ps + CONTROL_LATENCY_PS for member in self._unheard]
        silent = [member for member in self._leases.alive if member in self._dead and self._dead[member].silent]
        times += [runs_out for member in silent if (runs_out := self._leases.runs_out(member)) > now]
        return max(now, min(times)) if times else None

    def happen(self, network: VirtualNetwork, silence: Callable[[int], None], restart: Callable[[str], None]) -> None:
        """Apply the incidents that are due by now to the network.

        silence: stops a rank's endpoints. restart: makes a switch lose what was installed.
        """
        while self._agenda and self._agenda[0].at_ps <= network.now:
            incident = self._agenda.pop(0)
            if incident.kind == "join":
                self._begin(incident, silence)
                self._mend(network, incident.what)
                continue
            if incident.kind == "restart" and self._starts(network, incident, restart):
                continue
            if incident.kind in {"process", "host"}:
                rank = self._at.get(incident.what)
                reason = "was killed" if incident.kind == "process" else "fell silent"
                if rank is None or self._gave_up(rank, reason):
                    continue  # there is no member yet
                if rank in self._dead or rank not in self._alive:
                    continue
                self._dead[rank] = _Death(incident.at_ps, reason, silent=incident.kind == "host")
                self._leases.heard(rank, _last_beat(rank, incident.at_ps) + CONTROL_LATENCY_PS)
                silence(rank)
            else:
                known = incident.at_ps + CONTROL_LATENCY_PS
                if incident.kind != "link":
                    known = _last_beat(0, incident.at_ps) + CONTROL_LATENCY_PS + VIRTUAL_LEASE.term
                if incident.kind != "restart" or known < incident.at_ps + incident.away_ps + CONTROL_LATENCY_PS:
                    self._damage.append((known, incident))
                links, switches = self._broken
                if incident.kind == "link":
                    links.add(incident.ends)
                else:
                    switches.add(incident.what)
            for link in self._topology.links:
                ends = frozenset((link.a, link.b))
                if incident.what in ends if incident.kind != "link" else incident.ends == ends:
                    for hop in ((link.a, link.port_a), (link.b, link.port_b)):
                        network.set_faults(hop, _CUT)

    def _begin(self, incident: Incident, silence: Callable[[int], None]) -> None:
        """Start a process at a host; an earlier one there ends with all its connections."""
        old = self._at.get(incident.what)
        reason = "was started anew"
        if old is not None and not self._gave_up(old, reason) and old in self._alive:
            self._dead[old] = _Death(incident.at_ps, reason, silent=False)
            silence(old)
        self._at[incident.what] = self._newest
        self._came[self._newest] = incident.at_ps + CONTROL_LATENCY_PS
        self._newest += 1

    @property
    def _alive(self) -> set[int]:
        """Return the members and the ranks being admitted that the coordinator takes for alive."""
        return {*self._leases.alive, *self._taken} - self._leases.dead.keys()

    def _gave_up(self, rank: int, reason: str) -> bool:
        """Note the end of a rank that had asked to join; return False for any other rank."""
        if self._came.pop(rank, None) is None:
            return False
        self._gone.append(ProcessEnded(rank, reason))
        return True

    def _starts(self, network: VirtualNetwork, incident: Incident, restart: Callable[[str], None]) -> bool:
        """Restart a switch; return False if it is away from now on."""
        switch, now = incident.what, incident.at_ps
        _, down = self._broken
        if incident.away_ps and switch not in down:
            back = Incident(now + incident.away_ps, "restart", switch)
            self._agenda = sorted([*self._agenda, back], key=lambda incident: incident.at_ps)
            return False
        restart(switch)
        if switch in down:  # its stream has ended; the controller opens it again
            down.discard(switch)
            self._looks.append(now + CONTROL_LATENCY_PS)
        else:
            self._looks.append((now // LOOK_PS + 1) * LOOK_PS + CONTROL_LATENCY_PS)
        self._mend(network, switch)
        return True

    def _mend(self, network: VirtualNetwork, node: str) -> None:
        """Restore a node's links, except those that are down or lead to a node that is down."""
        down = is_down(*self._broken)
        silent = {host for host, rank in self._at.items() if rank in self._dead}
        for link in self._topology.links:
            if silent & {link.a, link.b}:
                continue
            if node in (link.a, link.b) and not down(link):
                for hop in ((link.a, link.port_a), (link.b, link.port_b)):
                    whole = self._faults if isinstance(self._faults, Faults) else self._faults.get(hop, _WHOLE)
                    network.set_faults(hop, whole)

    def heard_of(self, now: int, look: Callable[[], Collection[str]]) -> list[Event]:
        """Return the events that the coordinator has learned since the last call.

        look: finds the switches that have restarted; the controller restores them.
        """
        events, self._gone = self._gone, []
        for known, incident in [damage for damage in self._damage if damage[0] <= now]:
            self._damage.remove((known, incident))
            if incident.kind == "link":
                self.links.add(incident.ends)
                events.append(Damaged(f"link {incident.what} is down"))
            else:
                self.switches.add(incident.what)
                events.append(Damaged(f"switch {incident.what} has ended"))
        if any(at_ps <= now for at_ps in self._looks):
            self._looks = [at_ps for at_ps in self._looks if at_ps > now]
            for switch in look():
                self.switches.discard(switch)
                self._damage = [
                    damage for damage in self._damage if damage[1].what != switch or damage[1].kind != "restart"
                ]
                events.append(Damaged(f"switch {switch} began anew"))
        for member in self._unheard:
            if self._dead[member].at_ps + CONTROL_LATENCY_PS <= now:
                self._heard.add(member)
                events.append(ProcessEnded(member, self._dead[member].reason))
        return events

    @property
    def _unheard(self) -> list[int]:
        """Return the ranks whose connection has closed without the coordinator's knowledge."""
        known = self._leases.dead.keys() | self._heard
        return [member for member, death in self._dead.items() if not death.silent and member not in known]

    def again(self, now: int, *, patient: bool) -> int:
        """Return when to ask again for blamed members; with ``patient`` at growing intervals."""
        patience = self._patience
        self._patience *= 2 if patient else 1
        return now + patience

    def begun(self) -> None:
        """Note that a member has begun to wait for others."""
        self._patience = VIRTUAL_LEASE.beat


def _last_beat(rank: int, at_ps: int) -> int:
    """Return the time of a member's last heartbeat before ``at_ps``; members send theirs at different moments."""
    phase = rank * VIRTUAL_LEASE.beat // 64 % VIRTUAL_LEASE.beat
    return max(0, (at_ps - 1 - phase) // VIRTUAL_LEASE.beat * VIRTUAL_LEASE.beat + phase)
