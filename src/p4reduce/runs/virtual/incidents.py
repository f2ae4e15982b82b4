"""What happens to hosts, links and switches in virtual time, and when the group's coordinator knows of it.

Members say that they live every ``VIRTUAL_LEASE.beat`` over a control network that takes ``CONTROL_LATENCY_PS`` and
loses nothing; a switch's P4Runtime stream does the same. What ends with its connection open (a host) is known when the
lease has run out and the slots name it; a process that ends closes its connection; switches report a link that is down.
A switch that begins anew is known when the controller looks at it (``LOOK_PS``), and at once when its stream had ended.
A host that joins tells the coordinator, which tells the members. An earlier rank of that host has ended then.
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
"""between two looks of the controller at its switches: as in real time, in units of the lease, which is 1 s there"""
_CUT = Faults(loss=1.0)
_WHOLE = Faults()


@dataclass(frozen=True)
class Incident:
    """What ends at a moment of virtual time: a worker's process, or host, by its host; a switch; a link ``a-b``.

    ``join``: a host begins, or begins anew, and wants to be a member. ``restart``: a switch begins anew, without
    entries and registers, after it was away for ``away_ps``.
    """

    at_ps: int
    kind: Kind
    what: str
    away_ps: int = 0

    @property
    def ends(self) -> Ends:
        """The two nodes of a link."""
        return frozenset(self.what.split("-", 1))

    def check(self, topology: Topology, hosts: Sequence[str]) -> None:
        """`ClusterError` for one that cannot happen."""
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
    """The hosts that join, in the order in which they do."""
    return tuple(
        incident.what for incident in sorted(incidents, key=lambda incident: incident.at_ps) if incident.kind == "join"
    )


@dataclass(frozen=True)
class _Death:
    at_ps: int
    reason: str
    silent: bool
    """its connection stays open: only its lease tells"""


class Health:
    """Which members, switches and links there are in truth, and when the coordinator hears of it.

    hosts: of all ranks: of the ``members`` at the start, then of those that join, in order. leases: of those the
    coordinator knows. faults: of links that are whole.
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
        """whose process was the last to begin at a host"""
        self._came: dict[int, int] = {}
        """who began since, and is no member yet: when the coordinator knows"""
        self._broken: tuple[set[Ends], set[str]] = set(), set()
        """links and switches that are down, known or not"""
        self._agenda = sorted(incidents, key=lambda incident: incident.at_ps)
        for incident in self._agenda:
            incident.check(topology, hosts)
        self._leases = leases
        self._dead: dict[int, _Death] = {}
        self._heard: set[int] = set()  # whose end the coordinator was told
        self._taken: set[int] = set()  # of those, for whom there is going to be a place
        self._gone: list[Event] = []  # who had come, and has ended before there was one
        self._damage: list[tuple[int, Incident]] = []  # of links and switches: when it is known
        self._looks: list[int] = []  # when the controller looks at switches, one of which began anew
        self.links: set[Ends] = set()
        """Links that are known to be down."""
        self.switches: set[str] = set()
        """Switches that are known to have ended."""
        self._patience = VIRTUAL_LEASE.beat

    @property
    def dead(self) -> frozenset[int]:
        """Ranks that have died, known or not."""
        return frozenset(self._dead)

    def unknown(self, members: Iterable[int]) -> tuple[int, ...]:
        """Members that have died, which the coordinator does not know."""
        return tuple(member for member in members if member in self._dead and member not in self._leases.dead)

    def died_before(self, at_ps: int) -> set[int]:
        """Ranks that have died before a time."""
        return {rank for rank, death in self._dead.items() if death.at_ps < at_ps}

    def joins_by(self, at_ps: int) -> bool:
        """Whether the coordinator could tell members by then that a rank joins."""
        told = at_ps - CONTROL_LATENCY_PS
        soon = any(incident.at_ps + CONTROL_LATENCY_PS <= told for incident in self._agenda if incident.kind == "join")
        return soon or bool(self.newcomers(at_ps))

    def newcomers(self, now: int) -> tuple[int, ...]:
        """Ranks that want to join, as far as the members can know by now."""
        return tuple(rank for rank, known in self._came.items() if known + CONTROL_LATENCY_PS <= now)

    def take_in(self, members: Collection[int]) -> None:
        """These, who came, are going to be members: they say that they live from now on."""
        self._taken |= self._came.keys() & members
        self._came = {rank: known for rank, known in self._came.items() if rank not in members}

    def refuse(self, member: int) -> None:
        """Refuse a rank that has come and cannot be a member."""
        self._came.pop(member, None)

    def die(self, rank: int, at_ps: int, reason: str) -> None:
        """A member's process has ended; it closed its connection."""
        self._dead.setdefault(rank, _Death(at_ps, reason, silent=False))

    def next_ps(self, now: int) -> int | None:
        """When the next incident or look is due, picoseconds; None: never."""
        times = [incident.at_ps for incident in self._agenda[:1]] + [at_ps for at_ps, _ in self._damage] + self._looks
        times += [now for _ in self._gone]
        times += [self._dead[member].at_ps + CONTROL_LATENCY_PS for member in self._unheard]
        silent = [member for member in self._leases.alive if member in self._dead and self._dead[member].silent]
        times += [runs_out for member in silent if (runs_out := self._leases.runs_out(member)) > now]
        return max(now, min(times)) if times else None

    def happen(self, network: VirtualNetwork, silence: Callable[[int], None], restart: Callable[[str], None]) -> None:
        """Let what is due by now happen to the network.

        silence: stop a rank's endpoints. restart: a switch loses what was installed.
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
        """Begin a process at a host; one that was there before ends with all its connections."""
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
        """Members, and who is going to be one, as far as the coordinator knows."""
        return {*self._leases.alive, *self._taken} - self._leases.dead.keys()

    def _gave_up(self, rank: int, reason: str) -> bool:
        """Whether a rank that has ended had come, and was no member yet."""
        if self._came.pop(rank, None) is None:
            return False
        self._gone.append(ProcessEnded(rank, reason))
        return True

    def _starts(self, network: VirtualNetwork, incident: Incident, restart: Callable[[str], None]) -> bool:
        """Restart a switch; False: it is away from now on."""
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
        """A node's links are as they were, but for those that are down, or lead to what is."""
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
        """Events that the coordinator hears of by now and has not heard before.

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
        """Ranks whose connection has closed without the coordinator having heard of it."""
        known = self._leases.dead.keys() | self._heard
        return [member for member, death in self._dead.items() if not death.silent and member not in known]

    def again(self, now: int, *, patient: bool) -> int:
        """When to ask again whom others wait for; with ``patient`` less and less often."""
        patience = self._patience
        self._patience *= 2 if patient else 1
        return now + patience

    def begun(self) -> None:
        """Note that a member has begun to wait for others."""
        self._patience = VIRTUAL_LEASE.beat


def _last_beat(rank: int, at_ps: int) -> int:
    """When a member last said that it lives, before it died; members do so at different moments."""
    phase = rank * VIRTUAL_LEASE.beat // 64 % VIRTUAL_LEASE.beat
    return max(0, (at_ps - 1 - phase) // VIRTUAL_LEASE.beat * VIRTUAL_LEASE.beat + phase)
