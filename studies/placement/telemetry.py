"""The price of telemetry, on packets: how often counters are read, what that costs, and what tasks gain from it.

Background bursts come and go on the uplinks of four leaves. Tasks come one after the other, and `ina-aware` places each
of them in the racks that it believes to be the least loaded. Its information about the background comes from counters
that a `Reader` reads, or from digests that switches send (`DigestLoads`).
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

import numpy as np

from p4reduce.control_plane.connection import LoadDigest, LoadThresholds
from p4reduce.control_plane.placement import ClusterView, Racks, place
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.control_plane.scheduling.task import Task, WantedHosts
from p4reduce.control_plane.scheduling.view import NetworkState
from p4reduce.network.background import Background, BackgroundEndpoints, Demands, SourceOptions
from p4reduce.network.jobs.asynchronous import Clockwork
from p4reduce.network.jobs.network import EmbeddedSwitches, Job, JobNetwork, bundled, watching
from p4reduce.network.virtual import VirtualNetwork
from p4reduce.topologies import Topology, load
from p4reduce.topologies.model import Hop
from p4switch.base.values import PS_PER_S
from studies.frame import column, percent, record, scaled
from studies.placement.calibration import AROUND, LANES, NUMBERS, QUEUE_FRAMES, Trainer, TrainerRun

# Sources of information about background traffic on links: an interface's counter minus the counts of the P4 program,
# or digests from switches.
#
# The first is read over P4Runtime, as the orchestrator's monitor does. The second needs a build of the P4 program that
# sums background bytes in windows and reports links above a threshold (`control_plane/connection.py`).


AGAIN: Final = 4
"""number of windows after which a switch reports a busy link again"""
_PS_PER_US: Final = PS_PER_S // 1_000_000


@dataclass
class Reader:
    """Reads counters and reports the background load of links.

    Attributes
    ----------
    known : dict
        Background load by directed link, bit/s, as last reported to the policy.
    told : int
        Number of reports of a link.
    readings, bytes, cpu_s
        Number of readings; bytes of their P4Runtime messages; their process time.
    newest_ps : int
        Time of the last reading.
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
        """Read the counters now, and report the load since the previous reading."""
        now, others = self.network.now, self._others()
        if self._before and now > self.newest_ps:
            elapsed = now - self.newest_ps
            self.tell({hop: (sent - self._before[hop]) * 8 * PS_PER_S // elapsed for hop, sent in others.items()})
        self._before, self.newest_ps = others, now

    def tell(self, rates: Mapping[Hop, int]) -> None:
        """Report links whose load changed by more than the threshold."""
        for hop, bps in rates.items():
            used = max(0, bps)
            changed = abs(used - self.known.get(hop, 0))
            if changed > self.threshold * self.switches.topology.link_at(*hop).rate_bps:
                self.known[hop] = used
                self.told += 1

    def _others(self) -> dict[Hop, int]:
        """Return the background bytes sent so far, by directed link between switches."""
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
class DigestLoads:
    """Loads of links from digests of switches.

    Attributes
    ----------
    count, bytes, cpu_s
        Number of digests; bytes of their P4Runtime messages; process time of servers and controller from a sent digest
        to its processing.
    """

    thresholds: LoadThresholds
    count: int = 0
    bytes: int = 0
    cpu_s: float = 0.0
    _newest: dict[Hop, LoadDigest] = field(default_factory=dict)

    def take(self, load: LoadDigest) -> None:
        """Store a digest."""
        self.count += 1
        self._newest[load.switch, load.port] = load

    def known(self, now_ps: int) -> dict[Hop, tuple[int, float]]:
        """Return the busy links: background bit/s, and its age in seconds, from the middle of its window."""
        busy = {}
        for hop, link_load in self._newest.items():
            since_us = now_ps // _PS_PER_US - link_load.ended_us
            if link_load.busy and since_us <= self.thresholds.forget_us:
                busy[hop] = link_load.bps, (since_us + link_load.window_us / 2) / 1e6
        return busy


class TellingSwitches(EmbeddedSwitches):
    """Switches that report links between them whose load exceeds a threshold, a share of their rates."""

    def __init__(self, topology: Topology, lanes: int, window_s: float, threshold: float) -> None:
        super().__init__(topology, watching(lanes))
        self.told = DigestLoads(LoadThresholds(round(1e6 * window_s), threshold, threshold / 2, AGAIN))
        between = [
            (switch.name, port)
            for switch in topology.switches
            for port, other in enumerate(topology.neighbours(switch.name), start=1)
            if topology.node(other).is_switch
        ]
        self.controller.watch(self.told.thresholds, between)

    def report(self, network: VirtualNetwork) -> None:
        """Forward digests to the controller one by one, and process them there."""
        before, began = self.learned, time.process_time()
        super().report(network)
        if self.learned == before:
            return
        for link_load in self.controller.link_loads(self.learned):
            self.told.take(link_load)
        self.told.bytes = self.controller.told_bytes
        self.told.cpu_s += time.process_time() - began


Knows = Literal["oracle", "counters", "digests", "nothing"]
"""current bursts; the last reading of counters; the last digests of switches; nothing about the background"""
TOPOLOGY: Final = "leaf-spine:leaves=4,spines=1,hosts=3,rate=100M"
OTHERS: Final = (("h3", "h6"), ("h9", "h12"))
"""source and destination of bursts: from the first leaf to the second, and from the third to the fourth"""
WORKERS: Final = 4
"""number of workers of a task, in two of the four racks: each rack has two hosts for tasks"""
ELEMENTS: Final = 50 * LANES
COMPUTE_S: Final = 0.004
ROUNDS: Final = 20
SHARE: Final = 0.6
"""share of an uplink that a burst takes"""
APART_S: Final = 0.6
"""mean time between tasks; a task alone takes about 0.17 s"""
FIRST_S: Final = 2.0
"""time before the first task"""
DENSE_S: Final = 0.2
"""interval below which only the readings that a placement uses are made"""
_AGAIN_PS: Final = PS_PER_S // 1000


@dataclass(frozen=True)
class Bursting:
    """Background bursts and silences, both ``mean_s`` long on average, and the number of tasks of a run."""

    mean_s: float
    tasks: int


@dataclass(frozen=True)
class TelemetryCell:
    """A run.

    Attributes
    ----------
    bursts : Bursting
        Background bursts.
    knows : Knows
        Information that placements use.
    interval_s : float
        Virtual time between two readings; for digests, the window of a switch.
    threshold : float
        Share of a link's rate by which its background load must change before the reader reports it again; for digests,
        the load from which a switch reports.
    seed : int
        Seed of bursts and arrivals.
    """

    bursts: Bursting
    knows: Knows
    interval_s: float
    threshold: float
    seed: int


@record
class TelemetryRow:
    """Means of a run; values of readings are 0 if nothing is read."""

    burst_s: float = column("bursts, s", "{:g}")
    knows: Knows = column("known by")
    interval_s: float = column("every, s", "{:g}")
    threshold: float = column("threshold", "{:g}")
    seed: int
    jct_s: float = column("mean JCT, ms", scaled(1e3, "{:.1f}"))
    bytes_per_s: float = column("P4Runtime, B/s", "{:.0f}")
    """bytes of serialized P4Runtime reads and answers of all switches, per second"""
    core: float = column("core", percent())
    """process time of a reading (controller and switches' servers, in one process) over the interval; for digests, of
    all digests over the time of the run"""
    told_per_s: float = column("links told/s", "{:.2f}")
    """links reported to the policy, or digests, per second"""
    age_s: float = column("age, s", "{:.3g}")
    """mean age of the information at a placement: since the middle of the last reading's interval, or of the windows of
    the newest digests of busy links"""
    readings: int
    """number of readings, or of digests"""


@dataclass(frozen=True)
class OnOff(Background):
    """Bursts of `OTHERS` at `SHARE` of an uplink's rate; silences are as long on average."""

    mean_s: float = 1.0

    def endpoints(self, topology: Topology) -> BackgroundEndpoints:
        """Return the sources."""
        hosts = tuple(name for pair in OTHERS for name in pair)
        rate = topology.link_at(hosts[0], 1).rate_bps
        length = SourceOptions().frame_bytes
        frames = max(1, round(self.mean_s * SHARE * rate / 8 / (length + AROUND)))
        matrix = np.zeros((len(hosts), len(hosts)))
        for a, b in OTHERS:
            matrix[hosts.index(a), hosts.index(b)] = SHARE / 2 * rate * length / (length + AROUND)
        return BackgroundEndpoints(
            topology, Demands(hosts, matrix), SourceOptions(burst_frames=frames, peak=SHARE), self.seed
        )


def run_telemetry(cell: TelemetryCell) -> list[TelemetryRow]:
    """Run a cell. ``ClusterError`` if a sum is wrong."""
    with (
        _switches(cell) as switches,
        JobNetwork(
            switches,
            queue_frames=QUEUE_FRAMES,
            background=OnOff("gravity", SHARE / 2, cell.seed, mean_s=cell.bursts.mean_s),
        ) as network,
    ):
        return [TelemetryRun(cell, switches, network).run()]


def _switches(cell: TelemetryCell) -> EmbeddedSwitches:
    if cell.knows == "digests":
        return TellingSwitches(load(TOPOLOGY), LANES, cell.interval_s, cell.threshold)
    return EmbeddedSwitches(load(TOPOLOGY), bundled(LANES))


class TelemetryRun:
    """A run of tasks, one after the other; a task that arrives during another is placed, and begins after it."""

    def __init__(self, cell: TelemetryCell, switches: EmbeddedSwitches, network: JobNetwork) -> None:
        self._cell, self._switches, self.network = cell, switches, network
        self.clockwork = Clockwork(network)
        self._reader = Reader(switches, network, cell.threshold)
        self._racks = Racks(switches.topology)
        kept = {name for pair in OTHERS for name in pair}
        self._slots = {host.name: 1 for host in switches.topology.workers if host.name not in kept}
        random = np.random.Generator(np.random.Philox(key=[cell.seed, 1]))
        gaps = APART_S * (0.5 + random.random(cell.bursts.tasks))
        self._arrivals = [round(float(at) * PS_PER_S) for at in FIRST_S + np.cumsum(gaps)]
        self._running: tuple[TrainerRun, Job, Plan] | None = None
        self._jct_s: list[float] = []
        self._ages_s: list[float] = []

    def run(self) -> TelemetryRow:
        """Run until the last task has ended; return the row."""
        cell = self._cell
        dense = cell.interval_s < DENSE_S and cell.threshold == 0
        if cell.knows == "counters":
            self._switches.controller.read_counters()  # the first reading includes one-time costs
            if dense:
                self._read_at_arrivals()
            else:
                self._read_always(0)
        for number, at_ps in enumerate(self._arrivals):
            self.clockwork.at(at_ps, partial(self._arrive, number))
        self.clockwork.run(until=self._is_over)
        self._end(len(self._arrivals) - 1)
        price = self._price(dense)
        return TelemetryRow(
            cell.bursts.mean_s,
            cell.knows,
            cell.interval_s,
            cell.threshold,
            cell.seed,
            statistics.fmean(self._jct_s),
            *price[:3],
            statistics.fmean(self._ages_s) if self._ages_s else 0.0,
            price[3],
        )

    def _price(self, dense: bool) -> tuple[float, float, float, int]:
        """Return P4Runtime bytes, core share and reported links per second, and the number of readings or digests."""
        reader = self._reader
        if isinstance(self._switches, TellingSwitches):
            told, passed_s = self._switches.told, self.network.now / PS_PER_S
            return told.bytes / passed_s, told.cpu_s / passed_s, told.count / passed_s, told.count
        every = self._cell.interval_s * reader.readings
        if not every:
            return 0.0, 0.0, 0.0, 0
        return reader.bytes / every, reader.cpu_s / every, 0.0 if dense else reader.told / every, reader.readings

    # --- readings

    @property
    def _every_ps(self) -> int:
        return round(self._cell.interval_s * PS_PER_S)

    def _read_always(self, number: int) -> None:
        self.clockwork.at((number + 1) * self._every_ps, partial(self._read_always, number + 1))
        if number:
            self._reader.read()

    def _read_at_arrivals(self) -> None:
        """Schedule only the two readings before each arrival, which give the same load as if all were made."""
        newest = [at_ps // self._every_ps for at_ps in self._arrivals]
        for number in sorted({*newest, *(number - 1 for number in newest)}):
            self.clockwork.at(number * self._every_ps, self._reader.read)

    # --- tasks

    def _arrive(self, number: int) -> None:
        now = self.network.now
        task = Task(
            f"task{number}",
            "",
            (),
            ELEMENTS,
            ROUNDS,
            round(COMPUTE_S * PS_PER_S),
            arrival_ps=now,
            wanted=WantedHosts(WORKERS),
        )
        known = self.known()
        if self._cell.knows == "counters":
            self._ages_s.append((now - self._reader.newest_ps + self._every_ps / 2) / PS_PER_S)
        state = NetworkState(self._switches.topology, background_bps=known)
        cluster = ClusterView(self._racks, state, self._slots, dict(self._slots), rings=True)
        self._begin(number, place(task, cluster, "ina-aware").workers)

    def known(self) -> dict[Hop, int]:
        """Return the background load that placement uses now: bit/s by directed link."""
        match self._cell.knows:
            case "oracle":
                return self._bursting()
            case "counters":
                return dict(self._reader.known)
            case "digests":
                assert isinstance(self._switches, TellingSwitches)  # as it was made  # noqa: S101
                known = self._switches.told.known(self.network.now)
                self._ages_s += [age_s for _, age_s in known.values()]
                return {hop: bps for hop, (bps, _) in known.items()}
        return {}

    @property
    def sources(self) -> BackgroundEndpoints:
        """The sources of background traffic."""
        assert isinstance(self.network.endpoints, BackgroundEndpoints)  # as it was made  # noqa: S101
        return self.network.endpoints

    def _bursting(self) -> dict[Hop, int]:
        """Return the current background load, bit/s, from the sources' burst states."""
        bursts = dict(zip(self.sources.hosts, self.sources.in_burst, strict=True))
        return self.taken({a: float(bursts[a]) for a, _ in OTHERS})

    def taken(self, shares: Mapping[str, float]) -> dict[Hop, int]:
        """Return bit/s on uplinks whose sources are in a burst for these shares of the time."""
        topology, loads = self._switches.topology, dict[Hop, int]()
        for a, b in OTHERS:
            if shares[a]:
                up, down = topology.neighbours(a)[0], topology.neighbours(b)[0]
                for hop in ((up, topology.port(up, "spine1")), ("spine1", topology.port("spine1", down))):
                    loads[hop] = round(shares[a] * SHARE * topology.link_at(*hop).rate_bps)
        return loads

    def _begin(self, number: int, hosts: tuple[str, ...]) -> None:
        if not self._end(number - 1):
            self.clockwork.at(self.network.now + _AGAIN_PS, partial(self._begin, number, hosts))
            return
        request = PlanRequest("steiner", job=number + 1, workers=hosts, server=None, lanes=LANES)
        plan = self._switches.controller.start_job(request)
        job = self.network.add(plan, NUMBERS)
        about = Trainer(hosts, "steiner", ELEMENTS, COMPUTE_S, self.network.now / PS_PER_S)
        run = TrainerRun(self.clockwork, job, about, ROUNDS)
        self._running = run, job, plan
        run.begin([run])

    def _end(self, number: int) -> bool:
        """Record the end of a task and remove it; return whether this task and thus all earlier ones have ended."""
        if len(self._jct_s) > number:
            return True
        if len(self._jct_s) < number or not self._is_done():
            return False
        assert self._running is not None  # it is done  # noqa: S101
        run, job, plan = self._running
        self._running = None
        self._jct_s.append((run.ends_ps[-1] - self._arrivals[number]) / PS_PER_S)
        self.network.retire(job)
        self._switches.controller.uninstall(plan)
        return True

    def _is_done(self) -> bool:
        return self._running is not None and len(self._running[0].ends_ps) >= ROUNDS

    def _is_over(self) -> bool:
        return len(self._jct_s) == len(self._arrivals) - 1 and self._is_done()


def telemetry_cells(
    bursts: Sequence[Bursting],
    intervals_s: Sequence[float],
    thresholds: Sequence[float],
    windows_s: Sequence[float],
    seeds: Sequence[int],
) -> list[TelemetryCell]:
    """Return cells: an oracle, nothing known, every interval, thresholds for long intervals, and digests of windows."""
    ways: list[tuple[Knows, float, float]] = [("oracle", 0.0, 0.0), ("nothing", 0.0, 0.0)]
    ways += [("counters", interval, 0.0) for interval in intervals_s]
    ways += [
        ("counters", interval, threshold) for interval in intervals_s if interval >= DENSE_S for threshold in thresholds
    ]
    ways += [("digests", window, SHARE / 2) for window in windows_s]
    return [TelemetryCell(own, *way, seed) for own in bursts for way in ways for seed in seeds]
