"""The price of telemetry, on packets: how often counters are read, what that costs, and what tasks gain from it.

Others' bursts come and go on the uplinks of four leaves. Tasks come one after the other, and `ina-aware` gives each of
them hosts in the racks that it takes for the least loaded. What it knows of others comes from counters that a
`Reader` reads, or from what switches tell by themselves (`DigestLoads`).
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

# What can be known of others on links: an interface's counter less what the P4 program counted, or what switches
# tell.
#
# The first is read over P4Runtime, as the orchestrator's monitor does it. The second are digests of a build of the
# P4 program that adds up others' bytes in windows, and tells of links that pass a threshold
# (`control_plane/connection.py`).


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
class DigestLoads:
    """Loads of links from digests of switches.

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
    _newest: dict[Hop, LoadDigest] = field(default_factory=dict)

    def take(self, load: LoadDigest) -> None:
        """Take in a digest."""
        self.count += 1
        self._newest[load.switch, load.port] = load

    def known(self, now_ps: int) -> dict[Hop, tuple[int, float]]:
        """Links that are taken for busy: bit/s of others, and how old that is in seconds, from its window's middle."""
        busy = {}
        for hop, link_load in self._newest.items():
            since_us = now_ps // _PS_PER_US - link_load.ended_us
            if link_load.busy and since_us <= self.thresholds.forget_us:
                busy[hop] = link_load.bps, (since_us + link_load.window_us / 2) / 1e6
        return busy


class TellingSwitches(EmbeddedSwitches):
    """Switches that tell of all links between them from a threshold on, a share of their rates."""

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
        """Digests go on to the controller one by one, and are read there."""
        before, began = self.learned, time.process_time()
        super().report(network)
        if self.learned == before:
            return
        for link_load in self.controller.link_loads(self.learned):
            self.told.take(link_load)
        self.told.bytes = self.controller.told_bytes
        self.told.cpu_s += time.process_time() - began


Knows = Literal["oracle", "counters", "digests", "nothing"]
"""The bursts that there are at the moment; what was read last; what switches told last; nothing of others."""
TOPOLOGY: Final = "leaf-spine:leaves=4,spines=1,hosts=3,rate=100M"
OTHERS: Final = (("h3", "h6"), ("h9", "h12"))
"""who bursts, and to whom: from the first leaf to the second, from the third to the fourth"""
WORKERS: Final = 4
"""of a task, in two of the four racks: each has two hosts for tasks"""
ELEMENTS: Final = 50 * LANES
COMPUTE_S: Final = 0.004
ROUNDS: Final = 20
SHARE: Final = 0.6
"""of an uplink, that a burst takes"""
APART_S: Final = 0.6
"""mean time from a task to the next; a task that is alone takes about 0.17 s"""
FIRST_S: Final = 2.0
"""before the first task"""
DENSE_S: Final = 0.2
"""below that interval only those readings are made that a placement uses"""
_AGAIN_PS: Final = PS_PER_S // 1000


@dataclass(frozen=True)
class Bursting:
    """Others' bursts and silences, both of so many seconds on average, and the tasks of a run beside them."""

    mean_s: float
    tasks: int


@dataclass(frozen=True)
class TelemetryCell:
    """A run.

    Attributes
    ----------
    bursts : Bursting
        What others do.
    knows : Knows
        What placements go by.
    interval_s : float
        Virtual time between two readings; of digests, that a switch adds up.
    threshold : float
        Share of a link's rate: the reader tells the policy of a link only when what others take of it has changed by
        more than that since it last told. Of digests, the share from which a switch tells.
    seed : int
        Of bursts and arrivals.
    """

    bursts: Bursting
    knows: Knows
    interval_s: float
    threshold: float
    seed: int


@record
class TelemetryRow:
    """Means of a run; 0 where nothing is read."""

    burst_s: float = column("bursts, s", "{:g}")
    knows: Knows = column("known by")
    interval_s: float = column("every, s", "{:g}")
    threshold: float = column("threshold", "{:g}")
    seed: int
    jct_s: float = column("mean JCT, ms", scaled(1e3, "{:.1f}"))
    bytes_per_s: float = column("P4Runtime, B/s", "{:.0f}")
    """of serialized P4Runtime reads and answers, of all switches"""
    core: float = column("core", percent())
    """process time of a reading (controller and switches' servers, in one process) over the interval; of all digests
    over the time of the run"""
    told_per_s: float = column("links told/s", "{:.2f}")
    """links that the policy is told of; digests"""
    age_s: float = column("age, s", "{:.3g}")
    """at a placement, of what it goes by: since the middle of the interval of the newest reading, or of the windows of
    the newest digests of links that are taken for busy"""
    readings: int
    """that were made; digests that came"""


@dataclass(frozen=True)
class OnOff(Background):
    """Bursts of `OTHERS`: at `SHARE` of an uplink's rate, silent for as long on average."""

    mean_s: float = 1.0

    def endpoints(self, topology: Topology) -> BackgroundEndpoints:
        """Make the sources."""
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
    """A run. ``ClusterError`` when a sum is wrong."""
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
    """Tasks that come one after the other; who comes while another runs is placed, and begins when that has ended."""

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
        """Run until the last task has ended."""
        cell = self._cell
        dense = cell.interval_s < DENSE_S and cell.threshold == 0
        if cell.knows == "counters":
            self._switches.controller.read_counters()  # the first one pays for what later ones find made
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
        """Bytes, core and links told a second; readings."""
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
        """Read only twice before each arrival: these readings say what all readings would say."""
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
        """The load that placement knows now: bit/s of others by directed link."""
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
        """The sources of others' traffic."""
        assert isinstance(self.network.endpoints, BackgroundEndpoints)  # as it was made  # noqa: S101
        return self.network.endpoints

    def _bursting(self) -> dict[Hop, int]:
        """The load of others at this moment, bit/s: their sources say whether they are in a burst."""
        bursts = dict(zip(self.sources.hosts, self.sources.in_burst, strict=True))
        return self.taken({a: float(bursts[a]) for a, _ in OTHERS})

    def taken(self, shares: Mapping[str, float]) -> dict[Hop, int]:
        """Bit/s on uplinks where sources are in a burst for these shares of the time."""
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
        """Note when a task ended and remove it; whether it, and with it all before it, has ended."""
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
    """Runs: an oracle, nothing known, every interval, thresholds where all readings are made, digests of windows."""
    ways: list[tuple[Knows, float, float]] = [("oracle", 0.0, 0.0), ("nothing", 0.0, 0.0)]
    ways += [("counters", interval, 0.0) for interval in intervals_s]
    ways += [
        ("counters", interval, threshold) for interval in intervals_s if interval >= DENSE_S for threshold in thresholds
    ]
    ways += [("digests", window, SHARE / 2) for window in windows_s]
    return [TelemetryCell(own, *way, seed) for own in bursts for way in ways for seed in seeds]
