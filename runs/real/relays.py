"""The relays of a run: what links of the topology do to frames, done by processes between the kernel's links."""

from types import TracebackType
from typing import Self

from p4reduce.fabric import Incidents, LinkCounters, Where
from p4reduce.fabric.real.relay import Relays
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.wires import RELAYED_FROM_PS, REORDER_DELAY_PS, Wires
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop


class LinkRelays:
    """Carries every link that the wires left cut in two. A context manager; does nothing where there is none."""

    def __init__(self, experiment: Experiment, topology: Topology, wires: Wires) -> None:
        self._topology = topology
        cut = wires.relayed()
        self._ends: list[tuple[Hop, Hop]] = [
            ((one.link.a, one.link.port_a), (one.link.b, one.link.port_b)) for one in cut
        ]
        delays = [one.link.delay_ps if one.link.delay_ps >= RELAYED_FROM_PS else 0 for one in cut]
        self._relays = Relays(
            [(one.a, one.b) for one in cut],
            faults=experiment.faults.on_links(reorder_delay_ps=REORDER_DELAY_PS),
            delay_ps=delays,
            seed=experiment.seed,
        )

    def check(self) -> None:
        """Raise ``FabricError`` when the relays have ended."""
        self._relays.check()

    def links(self) -> dict[Hop, LinkCounters]:
        """What happened to the frames of each directed link."""
        found = {}
        for pair, (a, b) in enumerate(self._ends):
            there, back = self._relays.directions(pair)
            found[a], found[b] = there.out.sent, back.out.sent
        return found

    def incidents(self) -> dict[Where, Incidents]:
        """What happened to first transmissions."""
        return self._relays.incidents(self._ends, self._topology) if self._ends else {}

    def __enter__(self) -> Self:
        if self._ends:
            self._relays.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ends:
            self._relays.stop()
