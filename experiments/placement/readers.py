"""What can be known of others on links: an interface's counter less what the P4 program counted, or what switches tell.

The first is read over P4Runtime, as the orchestrator's monitor does it. The second are digests of a build of the P4
program that adds up others' bytes in windows, and tells of links that pass a threshold (`control_plane/link_loads.py`).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.link_loads import LinkLoad, LoadThresholds
from p4reduce.fabric import VirtualNetwork
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.programs import watching
from p4reduce.jobs.switches import EmbeddedSwitches
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

AGAIN: Final = 4
"""windows after which a switch tells again of a busy link"""
_PS_PER_US: Final = PS_PER_S // 1_000_000


@dataclass
class Reader:
    """Reads counters at times, and says what others take of links.

    Attributes
    ----------
    known : dict
        Bit/s of others by directed link, as the policy was told.
    told : int
        How often it was told of a link.
    readings, bytes, cpu_s
        That were made; of P4Runtime messages; process time.
    newest_ps : int
        When it read last.
    """

    switches: EmbeddedSwitches
    network: JobNetwork
    threshold: float
    known: dict[Hop, int] = field(default_factory=dict)
    told: int = 0
    readings: int = 0
    bytes: int = 0
    cpu_s: float = 0.0
    _before: Mapping[Hop, int] = field(default_factory=dict)
    newest_ps: int = 0

    def read(self) -> None:
        """A reading now; told is what changed since the one before."""
        now, others = self.network.now, self._others()
        if self._before and now > self.newest_ps:
            elapsed = now - self.newest_ps
            self.tell({hop: (sent - self._before[hop]) * 8 * PS_PER_S // elapsed for hop, sent in others.items()})
        self._before, self.newest_ps = others, now

    def tell(self, rates: Mapping[Hop, int]) -> None:
        """Change what the policy knows, of links that changed by more than the threshold."""
        for hop, bps in rates.items():
            used = max(0, bps)
            changed = abs(used - self.known.get(hop, 0))
            if changed > self.threshold * self.switches.topology.link_at(*hop).rate_bps:
                self.known[hop] = used
                self.told += 1

    def _others(self) -> dict[Hop, int]:
        """Bytes that others have sent, by directed link between switches."""
        controller, topology = self.switches.controller, self.switches.topology
        before, began = controller.read_bytes, time.process_time()
        counted = controller.read_counters()
        self.cpu_s += time.process_time() - began
        self.bytes += controller.read_bytes - before
        self.readings += 1
        totals = {
            (switch.name, topology.port(switch.name, other)): 0
            for switch in topology.switches
            for other in topology.neighbours(switch.name)
            if topology.node(other).is_switch
        }
        for hop in totals:
            sent = counted[hop[0]].link_sent
            ours = sum(sent[(hop[1], resend)].bytes for resend in (0, 1))
            totals[hop] = self.network.fabric.links[hop].bytes - ours
        return totals


@dataclass
class Told:
    """What switches have told of links.

    Attributes
    ----------
    count, bytes, cpu_s
        Digests; their P4Runtime messages; process time from a digest that a switch has sent to one that the controller
        has read, in the servers and the controller.
    """

    thresholds: LoadThresholds
    count: int = 0
    bytes: int = 0
    cpu_s: float = 0.0
    _newest: dict[Hop, LinkLoad] = field(default_factory=dict)

    def take(self, load: LinkLoad) -> None:
        """A digest came."""
        self.count += 1
        self._newest[load.switch, load.port] = load

    def known(self, now_ps: int) -> dict[Hop, tuple[int, float]]:
        """Links that are taken for busy: bit/s of others, and how old that is in seconds, from its window's middle."""
        found = {}
        for hop, load in self._newest.items():
            since_us = now_ps // _PS_PER_US - load.ended_us
            if load.busy and since_us <= self.thresholds.forget_us:
                found[hop] = load.bps, (since_us + load.window_us / 2) / 1e6
        return found


class TellingSwitches(EmbeddedSwitches):
    """Switches that tell of all links between them from a threshold on, a share of their rates."""

    def __init__(self, topology: Topology, lanes: int, window_s: float, threshold: float) -> None:
        super().__init__(topology, watching(lanes))
        self.told = Told(LoadThresholds(round(1e6 * window_s), threshold, threshold / 2, AGAIN))
        between = [
            (switch.name, port)
            for switch in topology.switches
            for port, other in enumerate(topology.neighbours(switch.name), start=1)
            if topology.node(other).is_switch
        ]
        self.controller.watch(self.told.thresholds, between)

    def report(self, network: VirtualNetwork) -> None:
        """Digests go on to the controller one by one, and are read there."""
        before, began = self.learned, time.process_time()
        super().report(network)
        if self.learned == before:
            return
        for load in self.controller.link_loads(self.learned):
            self.told.take(load)
        self.told.bytes = self.controller.told_bytes
        self.told.cpu_s += time.process_time() - began
