"""What tests and trials do to a network: links that are cut and mended, hosts that end, switches that begin anew."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.orchestrator.executor import ReportKind
from p4reduce.fabric import Faults, VirtualNetwork
from p4reduce.jobs.switches import ServedSwitches
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

_CUT: Final = Faults(loss=1.0)
Die = Callable[[str, str | None], None]
"""Processes at a host end, of a task or of all."""
Tell = Callable[[ReportKind, Mapping[str, Any]], None]
"""Report something: its kind and data."""


class Damage:
    """Has its agenda, and what is down now. ``faults``: of links that are whole; ``die``: ends processes at hosts."""

    def __init__(
        self,
        topology: Topology,
        network: VirtualNetwork,
        switches: ServedSwitches,
        faults: Faults,
        tell: Tell,
        die: Die,
    ) -> None:
        self._topology, self._network, self._switches = topology, network, switches
        self._faults, self._tell, self._die = faults, tell, die
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._entered = 0
        self._cut: set[Hop] = set()
        self._away: dict[str, int] = {}  # switches and hosts, and how many of their absences have not ended
        self._down: set[Hop] = set()

    def down(self) -> set[Hop]:
        """Links without a carrier, both directions."""
        return set(self._down)

    def next_ps(self) -> int | None:
        """When something is due."""
        return min((one[0] for one in self._agenda), default=None)

    def change_link(self, a: str, b: str, *, up: bool, at_ps: int | None = None) -> None:
        """Cut the link of two neighbours, or mend it, now or at a time; frames that are on it arrive."""
        ends = ((a, self._topology.port(a, b)), (b, self._topology.port(b, a)))

        def change() -> None:
            (self._cut.difference_update if up else self._cut.update)(ends)
            self._settle()

        self._enter(f"link {a} - {b}", at_ps, change)

    def end_process(self, host: str, *, task: str, at_ps: int | None = None) -> None:
        """The process of a task at a host ends, now or at a time; its host stays."""
        self._check_host(host)
        self._enter(f"task {task} at {host}", at_ps, lambda: self._die(host, task))

    def end_host(self, host: str, *, at_ps: int | None = None, away_ps: int | None = None) -> None:
        """A host ends, now or at a time, with all processes at it; after ``away_ps``, if given, it is back without."""
        self._check_host(host)
        if away_ps is not None and away_ps < 0:
            raise ClusterError(f"host {host}: away_ps: {away_ps} is below 0")

        def end() -> None:
            self._away[host] = self._away.get(host, 0) + 1
            self._settle()
            self._die(host, None)

        def begin() -> None:
            self._away[host] -= 1
            self._settle()

        at_ps = self._network.now if at_ps is None else at_ps
        self._enter(f"host {host}", at_ps, end)
        if away_ps is not None:
            self._enter(f"host {host}", at_ps + away_ps, begin)

    def _check_host(self, host: str) -> None:
        if host not in {node.name for node in self._topology.hosts}:
            raise ClusterError(f"{host!r} is no host of topology {self._topology.name!r}")

    def restart_switch(self, switch: str, *, at_ps: int | None = None, away_ps: int = 0) -> None:
        """A switch begins anew, now or at a time, without entries and registers, after it was away for so long."""
        if switch not in {node.name for node in self._topology.switches}:
            raise ClusterError(f"{switch!r} is no switch of topology {self._topology.name!r}")
        if away_ps < 0:
            raise ClusterError(f"switch {switch}: away_ps: {away_ps} is below 0")

        def leave() -> None:
            self._away[switch] = self._away.get(switch, 0) + 1
            self._settle()

        def begin() -> None:
            self._switches.restart(switch)
            if away_ps:
                self._away[switch] -= 1
                self._settle()

        at_ps = self._network.now if at_ps is None else at_ps
        if away_ps:
            self._enter(f"switch {switch}", at_ps, leave)
        self._enter(f"switch {switch}", at_ps + away_ps, begin)

    def happen(self) -> None:
        """Do what is due now."""
        while self._agenda and self._agenda[0][0] <= self._network.now:
            self._agenda.pop(0)[2]()

    def _enter(self, what: str, at_ps: int | None, change: Callable[[], None]) -> None:
        now = self._network.now
        at_ps = now if at_ps is None else at_ps
        if at_ps < now:
            raise ClusterError(f"{what}: {at_ps} ps is past: it is {now} ps")
        self._entered += 1
        self._agenda.append((at_ps, self._entered, change))
        self._agenda.sort(key=lambda one: one[:2])

    def _settle(self) -> None:
        """Make links what they are to be by now, and tell of those that changed."""
        for link in self._topology.links:
            ends = ((link.a, link.port_a), (link.b, link.port_b))
            up = self._cut.isdisjoint(ends) and not (self._away.get(link.a) or self._away.get(link.b))
            if up != self._down.isdisjoint(ends):
                for end in ends:
                    self._network.set_faults(end, self._faults if up else _CUT)
                (self._down.difference_update if up else self._down.update)(ends)
                self._tell("link", {"node": link.a, "port": link.port_a, "up": up})
