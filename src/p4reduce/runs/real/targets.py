"""Targets that execute the P4 program in real time (the embedded switch, or BMv2), and their counts."""

import queue
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import reduce
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from p4reduce.base.records import from_plain, to_plain
from p4reduce.control_plane.connection import ControllerTls, Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.counters import SwitchCounters
from p4reduce.control_plane.entries import P4Program
from p4reduce.control_plane.fleet import Sighting
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.routes import LANE_BYTES
from p4reduce.group import transport
from p4reduce.group.errors import ClusterError
from p4reduce.group.membership import OnFailure
from p4reduce.network.real.bmv2 import GROWTH_BYTES, Bmv2Switches
from p4reduce.network.real.switches import PortCounters, SwitchHost
from p4reduce.network.virtual import Incidents, LinkCounters, Where
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.machines import START_S, Agents
from p4reduce.runs.real.backend import REST_US
from p4reduce.runs.real.coordinator import Trees
from p4reduce.runs.real.part import Counted, merged
from p4reduce.runs.real.presence import Presence, Signs
from p4reduce.runs.real.wires import (
    MachineWires,
    RelaySights,
    VethWires,
    Wires,
    shaped_rates,
)
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

CONTROL_DEADLINE_S: Final = 30.0
"""seconds for a switch's answer, which may wait for a busy processor"""
NO_TRAFFIC: Final = LinkCounters(**dict.fromkeys((field.name for field in fields(LinkCounters)), 0))
BMV2_LOG: Final = "warn"
CERTIFICATE_NAME: Final = "p4reduce"
"""name in the group's certificate (``transport.make_key``)"""
LATE_CLOCK_S: Final = 20.0
"""seconds by which a machine's clock may be behind: the group's certificate is not valid before it was made"""


class RealTarget(Protocol):
    """Running switches with a controller. Use as a context manager."""

    controller: Controller

    @property
    def processes(self) -> list[int]:
        """Return the IDs of processes that only execute switches; empty if the session executes them."""

    def process_of(self, switch: str) -> int | None:
        """Return the process that executes only this switch; None if there is none or it has ended."""

    def check(self) -> None:
        """Raise if a switch has ended."""

    def ended(self) -> Collection[str]:
        """Return the switches that have ended by themselves; raise if all have ended together."""

    def links(self, counters: Mapping[str, SwitchCounters]) -> dict[Hop, LinkCounters]:
        """Return the counts of the links that leave switches; ``counters`` are the P4 program's."""

    def received(self, counters: Mapping[str, SwitchCounters]) -> dict[Hop, int]:
        """Return the frames received at each port, as far as known."""

    def kernel_drops(self) -> int:
        """Return the frames that the kernel dropped, as far as known."""

    def incidents(self) -> dict[Where, Incidents]:
        """Return losses and duplicates of first transmissions at switches' ports, as far as known."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class _Threads(ABC):
    """Switches that are threads of this process or of agents: none of them ends alone."""

    @property
    def processes(self) -> list[int]:
        """Return no processes: switches are threads."""
        return []

    def process_of(self, switch: str) -> int | None:
        """Return None: switches are threads."""
        return None

    @abstractmethod
    def check(self) -> None:
        """Raise if the threads have ended."""

    @abstractmethod
    def _ports(self) -> Mapping[Hop, PortCounters]:
        """Return the counts of the ports."""

    def ended(self) -> Collection[str]:
        """Return no switches: `check` raises for all of them."""
        self.check()
        return ()

    def links(self, counters: Mapping[str, SwitchCounters]) -> dict[Hop, LinkCounters]:
        """Return the frames that each port sent."""
        return {port: seen.sent for port, seen in self._ports().items()}

    def received(self, counters: Mapping[str, SwitchCounters]) -> dict[Hop, int]:
        """Return the frames that each port received."""
        return {port: seen.received_frames for port, seen in self._ports().items()}

    def kernel_drops(self) -> int:
        """Return the frames that could not be received or sent at the ports."""
        return sum(seen.overrun + seen.send_failures for seen in self._ports().values())


class EmbeddedTarget(_Threads):
    """Embedded switches in this process: their data paths are threads that need no Python."""

    def __init__(
        self, experiment: Experiment, topology: Topology, program: P4Program, wires: Wires, capture: Path | None
    ) -> None:
        self._parts = ExitStack()
        self._topology = topology
        ports = wires.ports()
        own = {(switch, port) for switch, numbers in ports.items() for port in numbers}
        self.host = host = SwitchHost(
            {switch.name: switch.index + 1 for switch in topology.switches},
            ports,
            rates_bps={end: rate for end, rate in shaped_rates(experiment, topology).items() if end in own},
            queue_frames=experiment.queue_frames,
            seed=experiment.seed,
            rest_us=REST_US,
        )
        """P4Runtime server and switches."""
        self._switches = host.switches
        try:
            self._parts.enter_context(host)
            self.controller = self._parts.enter_context(_controller(topology, host.targets, program))
            if capture is not None:
                worker = topology.workers[0].name
                switch = topology.neighbour(worker, 1)
                self._switches.capture(switch, topology.port(switch, worker), capture)
        except BaseException:
            self._parts.close()
            raise

    def check(self) -> None:
        """Raise ``FabricError`` if a data path has ended."""
        self._switches.check()

    def _ports(self) -> Mapping[Hop, PortCounters]:
        return self._switches.port_counters()

    def incidents(self) -> dict[Where, Incidents]:
        """Return the first transmissions that found a port's queue full."""
        return self._switches.incidents(self._topology)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()


class Bmv2Target:
    """A simple_switch_grpc process for each switch."""

    def __init__(self, topology: Topology, program: P4Program, wires: VethWires, folder: Path) -> None:
        self._parts = ExitStack()
        self._topology = topology
        interfaces = wires.network.switch_interfaces
        try:
            self._switches = self._parts.enter_context(Bmv2Switches(topology, interfaces, folder, log_level=BMV2_LOG))
            self.controller = self._parts.enter_context(
                _controller(topology, self._switches.targets, program, GROWTH_BYTES)
            )
        except BaseException:
            self._parts.close()
            raise

    @property
    def processes(self) -> list[int]:
        """Return the processes of the switches that have not ended."""
        gone = self._switches.ended()
        return [pid for name, pid in self._switches.pids.items() if name not in gone]

    def process_of(self, switch: str) -> int | None:
        """Return the switch's BMv2 process, or None if it has ended."""
        return None if switch in self._switches.ended() else self._switches.pids[switch]

    def check(self) -> None:
        """Raise ``RealError`` with the last lines of a switch if it has ended."""
        self._switches.check()

    def ended(self) -> Collection[str]:
        """Return the switches whose process has ended."""
        return self._switches.ended()

    def links(self, counters: Mapping[str, SwitchCounters]) -> dict[Hop, LinkCounters]:
        """Return the links as the P4 program counted."""
        return program_links(self._topology, counters)

    def received(self, counters: Mapping[str, SwitchCounters]) -> dict[Hop, int]:
        """Return no counts: frames that BMv2 loses before ingress are not counted."""
        return {}

    def kernel_drops(self) -> int:
        """Return 0: the kernel's drops are not counted."""
        return 0

    def incidents(self) -> dict[Where, Incidents]:
        """Return no incidents: BMv2's losses are not recorded."""
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()


def program_links(topology: Topology, counters: Mapping[str, SwitchCounters]) -> dict[Hop, LinkCounters]:
    """Return links as the P4 program counted; its bytes are those at ingress, and on BMv2 packets keep their length."""
    links = {}
    for switch, own in counters.items():
        for port in range(1, len(topology.neighbours(switch)) + 1):
            first, again = own.link_sent[(port, 0)], own.link_sent[(port, 1)]
            links[switch, port] = replace(
                NO_TRAFFIC,
                frames=first.frames + again.frames,
                bytes=first.bytes + again.bytes,
                inc_first_frames=first.frames,
                inc_first_bytes=first.bytes,
                inc_resend_frames=again.frames,
                inc_resend_bytes=again.bytes,
            )
    return links


# Switches on several machines, each of which executes its part (part.py).


class MachineTarget(_Threads):
    """Switches on several machines, run by agents; the controller reaches them by mutual TLS."""

    def __init__(
        self,
        topology: Topology,
        program: P4Program,
        wires: MachineWires,
        agents: Agents,
        name: str,
        growth_bytes: int | None,
    ) -> None:
        """Start each machine's part; ``name`` of the run. Raises ``ClusterError`` if a machine cannot.

        growth_bytes: bytes by which a switch can lengthen a packet; None: any number.
        """
        self._agents, self._topology = agents, topology
        pem = transport.make_key()
        key, certificate = transport.halves(pem)
        for number, agent in enumerate(agents.every):
            if agent.offset_s < -LATE_CLOCK_S:
                raise ClusterError(
                    f"{agent.machine.name}: its clock is {agent.offset_s:.1f} s from ours, too far for TLS: run chrony "
                    "or ntpd"
                )
            agent.ask("part", share=to_plain(wires.share(agent, number)), pem=pem, name=name)
        tls = ControllerTls(certificate, certificate, key, server_name=CERTIFICATE_NAME)
        targets = []
        for agent in agents.every:
            answer = agent.answer("part", START_S)
            if "error" in answer:
                raise ClusterError(f"{agent.machine.name}: {answer['error']}")
            address = answer["p4runtime"]
            targets += [Target(switch, address[switch], id_, tls) for switch, id_ in wires.devices(agent).items()]
        self.controller = Controller(
            topology, targets, program, deadline_s=CONTROL_DEADLINE_S, growth_bytes=growth_bytes
        )
        self.relays: RelaySights = _MachineRelays(self)

    def check(self) -> None:
        """Raise `ClusterError` if an agent, and with it its switches, has ended."""
        self._agents.check()

    def cpu_s(self) -> float:
        """Return the CPU seconds of all agents since they began."""
        return sum(counts.cpu_s for counts in self.counted())

    def counted(self) -> list[Counted]:
        """Return the counts of each machine."""
        for agent in self._agents.every:
            agent.ask("count")
        every = self._agents.every
        return [from_plain(Counted, agent.answer("counted"), f"{agent.machine.name}: counts") for agent in every]

    def _ports(self) -> Mapping[Hop, PortCounters]:
        return {hop: seen for counts in self.counted() for hop, seen in counts.ports.items()}

    def links(self, counters: Mapping[str, SwitchCounters]) -> dict[Hop, LinkCounters]:
        """Return the links as the ports counted, or as the P4 program counted if no port does."""
        return super().links(counters) or program_links(self._topology, counters)

    def incidents(self) -> dict[Where, Incidents]:
        """Return the incidents of first transmissions of switches and relays."""
        return reduce(merged, (counts.incidents for counts in self.counted()))

    def __enter__(self) -> Self:
        self.controller.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.controller.__exit__(None, None, None)


class _MachineRelays:
    """The relays of all machines."""

    def __init__(self, target: MachineTarget) -> None:
        self._target = target

    def check(self) -> None:
        """Do nothing: the target checks the agents."""

    def links(self) -> dict[Hop, LinkCounters]:
        """Return the counts of the frames of each directed link."""
        return {hop: seen for counts in self._target.counted() for hop, seen in counts.relayed.items()}

    def incidents(self) -> dict[Where, Incidents]:
        """Return no incidents: the target returns those of relays too."""
        return {}


def _controller(
    topology: Topology, targets: Sequence[tuple[str, str, int]], program: P4Program, growth_bytes: int | None = None
) -> Controller:
    """Return a controller that has connected and loaded the program."""
    switches = [Target(*target) for target in targets]
    return Controller(topology, switches, program, deadline_s=CONTROL_DEADLINE_S, growth_bytes=growth_bytes)


def check_growth(plan: Plan, collective: str) -> None:
    """Raise ``ExperimentError`` if BMv2 could not carry ``collective`` by ``plan``.

    A pull has no lanes. Switches merge pulls that come in time, but answer a repeated pull alone, with lanes added.
    """
    growth = LANE_BYTES * plan.lanes
    if plan.in_network and collective in {"pull", "broadcast"} and growth > GROWTH_BYTES:
        raise ExperimentError(
            f"lanes: {plan.lanes}, but BMv2 ends when a packet grows by more than {GROWTH_BYTES} bytes, and answers to "
            f"repeated pulls grow by {growth}: choose lanes 64, a plan of hosts (ps), or the embedded target"
        )


# Damage since the last look: links and switches that have ended, switches that have restarted.


IDLE_S: Final = 0.5
"""seconds without CPU time after which a silent switch, for which members wait, counts as lost"""


class RealDamage:
    """Reports damage to the ``trees``, and wakes the ``presence`` on every event. Use as a context manager.

    In a run with ``on_failure`` "abort", an ended switch raises, and links that are down are not reported.
    """

    def __init__(
        self,
        target: RealTarget,
        wires: Wires,
        relays: RelaySights,
        trees: Trees,
        presence: Presence,
        on_failure: OnFailure,
    ) -> None:
        self._target, self._wires, self._relays = target, wires, relays
        self._trees, self._presence, self._on_failure = trees, presence, on_failure
        self._apart = bool(target.processes)  # switches are not part of this process, and may fall silent
        self._ended: set[str] = set()
        self._silent: dict[str, tuple[float, Signs]] = {}  # since when it has used no CPU time
        self._sightings: queue.SimpleQueue[Sighting] = queue.SimpleQueue()
        self._parts = ExitStack()
        if wires.events is not None:
            presence.wake_for(wires.events)
        for pid in target.processes:
            presence.wake_at_end(pid)

    def news(self) -> list[str]:
        """Return the damage since the last call. Raises if the run cannot go on."""
        self._relays.check()
        if self._on_failure == "abort":
            self._target.check()
            news = []
        else:
            news = [*self._switches_ended(), *self._links_cut()]
        while not self._sightings.empty():
            news += self._heard(self._sightings.get())
        return news + self._fell_silent()

    def __enter__(self) -> Self:
        self._parts.enter_context(self._target.controller.look_out(self._saw))
        return self

    def __exit__(self, *_: object) -> None:
        self._parts.close()

    def _saw(self, sighting: Sighting) -> None:
        """Take a sighting, in the controller's thread."""
        self._sightings.put(sighting)
        self._presence.wake()

    def _switches_ended(self) -> list[str]:
        ended = [name for name in self._target.ended() if name not in self._ended]
        self._ended.update(ended)
        return [self._lose(name, "has ended") for name in ended if name not in self._trees.reach.switches]

    def _links_cut(self) -> list[str]:
        reach = self._trees.reach
        links = [ends for ends in self._wires.cut() if ends not in reach.links]
        reach.links.update(links)
        return [f"link {'-'.join(sorted(ends))} is down" for ends in links if not ends & reach.switches]

    def _heard(self, sighting: Sighting) -> list[str]:
        switch = sighting.switch
        if sighting.what == "silent":
            if (pid := self._target.process_of(switch)) is not None:
                self._silent[switch] = (time.monotonic(), Signs(pid))
            elif self._apart and switch not in self._trees.reach.switches:  # a process that this run did not start
                return [self._lose(switch, "does not answer")]
            return []
        self._silent.pop(switch, None)
        if sighting.what == "answers":
            return []
        self._trees.begin_anew(switch)
        return [f"switch {switch} began anew"]

    def _fell_silent(self) -> list[str]:
        """Lose the switches that run but do nothing while members wait; return the causes."""
        now, news = time.monotonic(), []
        for switch, (since, signs) in list(self._silent.items()):
            if signs.seen():
                self._silent[switch] = (now, signs)
            elif now - since > IDLE_S and self._presence.late:
                del self._silent[switch]
                news.append(self._lose(switch, "does not answer"))
        return news

    def _lose(self, switch: str, how: str) -> str:
        self._trees.lose(switch)
        return f"switch {switch} {how}"
