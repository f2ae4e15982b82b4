"""The value of forecasts of background traffic for tasks, on packets, with bursts that outlast a task.

The runs are those of the telemetry part. Placements use the last reading of counters, a forecast from all readings so
far, the current bursts, or the bursts during the task, which is a perfect forecast.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.placement.cluster import learn
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.topologies import load
from p4reduce.topologies.model import Hop
from p4switch.base.values import PS_PER_S
from studies.frame import column, record, scaled
from studies.placement.calibration import LANES, QUEUE_FRAMES
from studies.placement.telemetry import (
    OTHERS,
    SHARE,
    TOPOLOGY,
    Bursting,
    OnOff,
    TelemetryCell,
    TelemetryRun,
)

EVERY_S: Final = 0.05
"""seconds between two readings"""
TASK_S: Final = 0.2
"""approximate seconds that a task takes, for which the forecast is made"""
AHEAD: Final = 2
"""forecast horizon in readings: the middle of a task"""
KEPT: Final = 256
"""number of last readings from which forecasts are learned"""
MEASURED: Final = "measured"
NOW: Final = "bursts now"
FUTURE: Final = "bursts to come"
WAYS: Final = (MEASURED, "ewma", "ar", NOW, FUTURE)


@dataclass(frozen=True)
class ForesightCell:
    """A run: the background's bursts, and the information that placements use."""

    bursts: Bursting
    way: str
    seed: int


@record
class ForesightRow:
    """The mean completion time of a run."""

    burst_s: float = column("bursts, s", "{:g}")
    way: str = column("placed by")
    seed: int
    jct_s: float = column("mean JCT, ms", scaled(1e3, "{:.1f}"))


def foresight_cells(bursts: Sequence[Bursting], ways: Sequence[str], seeds: Sequence[int]) -> list[ForesightCell]:
    """Return a cell for every way with the same bursts and arrivals."""
    return [ForesightCell(own, way, seed) for own in bursts for way in ways for seed in seeds]


def run_foresight(cell: ForesightCell) -> Iterator[ForesightRow]:
    """Run a cell. ``ClusterError`` if a sum is wrong."""
    about = TelemetryCell(cell.bursts, "nothing", EVERY_S, 0.0, cell.seed)
    background = OnOff("gravity", SHARE / 2, cell.seed, mean_s=cell.bursts.mean_s)
    with (
        EmbeddedSwitches(load(TOPOLOGY), bundled(LANES)) as switches,
        JobNetwork(switches, queue_frames=QUEUE_FRAMES, background=background) as network,
    ):
        run = ForesightRun(about, switches, network, cell.way)
        run.watch(1)
        yield ForesightRow(cell.bursts.mean_s, cell.way, cell.seed, run.run().jct_s)


class ForesightRun(TelemetryRun):
    """A run whose placements use ``way``; all links between switches are read periodically."""

    def __init__(self, cell: TelemetryCell, switches: EmbeddedSwitches, network: JobNetwork, way: str) -> None:
        super().__init__(cell, switches, network)
        self._way = way
        topology = switches.topology
        self._sent: dict[Hop, int] = {
            (switch.name, topology.port(switch.name, other)): 0
            for switch in topology.switches
            for other in topology.neighbours(switch.name)
            if topology.node(other).is_switch
        }
        self._readings: dict[Hop, deque[float]] = {hop: deque(maxlen=KEPT) for hop in self._sent}

    def watch(self, number: int) -> None:
        """Schedule a reading at this multiple of `EVERY_S`, and all later ones."""
        at_ps = round(number * EVERY_S * PS_PER_S)

        def read() -> None:
            for hop, before in self._sent.items():
                link = self.network.fabric.links[hop]
                others = link.bytes - link.inc_first_bytes - link.inc_resend_bytes
                self._readings[hop].append(8 * (others - before) / EVERY_S)
                self._sent[hop] = others
            self.watch(number + 1)

        self.clockwork.at(at_ps, read)

    def known(self) -> dict[Hop, int]:
        """Return the background load that placement uses, bit/s, by the run's way."""
        if self._way in (NOW, FUTURE):
            ahead_ps = round(TASK_S * PS_PER_S) if self._way == FUTURE else 1
            shares = self.sources.busy_shares(self.network.now, ahead_ps)
            by_host = dict(zip(self.sources.hosts, shares, strict=True))
            return self.taken({a: by_host[a] for a, _ in OTHERS})
        loads = {hop: self._of(np.array(readings)) for hop, readings in self._readings.items() if readings}
        return {hop: round(bps) for hop, bps in loads.items() if bps > 0}

    def _of(self, readings: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
        """Return the forecast load of a link from the readings so far; the last reading if they are too few."""
        if self._way == MEASURED or not readings.any():
            return float(readings[-1])
        try:
            return learn(self._way, readings, AHEAD)(readings)
        except PlanError:
            return float(readings[-1])
