"""Play a plan of an all-optical spine on packets: circuits, slots as reconfigurations and gates, sums of leaf pairs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from p4reduce.base.output import Progress
from p4reduce.control_plane.counters import Operation, Traffic, add, compare_links, predict
from p4reduce.control_plane.optical.plan import OpticalError
from p4reduce.control_plane.optical.spine import CircuitRun, Pair, Spine, SpinePlan
from p4reduce.control_plane.plans import PlanRequest, TreeLayout
from p4reduce.control_plane.plans.routes import HEADER_BYTES, frame_time_ps
from p4reduce.control_plane.scheduling.view import range_within
from p4reduce.control_plane.tdm.jobs import OpticalNetwork
from p4reduce.group.errors import ClusterError
from p4reduce.network.jobs.network import BLOCK, EmbeddedSwitches, Job, JobNetwork, bundled
from p4reduce.network.virtual import StopReason
from p4reduce.network.virtual.circuits import ALL_QUEUES
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import Hop
from p4reduce.topologies.optical import uplinks, view
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from p4switch.base.values import PS_PER_S

LANES: Final = 256
FIBRE: Final = "200ns"
"""Delay of 40 m of fibre."""
MOST_SLOTS: Final = 256
"""Most slots of one job at a switch."""
FRAMES: Final = 4
"""Frame times that a chunk and its sum take beyond propagation."""
WORDS_KEPT: Final = 4
"""Words in memory for each word that is added: the inputs and the results of both leaves."""
MOST_BYTES: Final = 4 << 30
_FUZZ: Final = 1e-6


@dataclass
class SpinePlayed:
    """Result of a played plan: picoseconds, sums of pairs, frames, and links whose bytes differ from the prediction."""

    predicted_ps: int
    took_ps: int = 0
    sums: int = 0
    wrong: int = 0
    lost: int = 0
    misrouted: int = 0
    resends: int = 0
    differing: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Ratio of the time taken to the time planned."""
        return self.took_ps / self.predicted_ps

    def as_data(self) -> dict[str, Any]:
        """Return plain data."""
        return {**asdict(self), "ratio": self.ratio}


@dataclass
class _Sum:
    """A part of a pair of leaves' sum, over one path between them, from a time on."""

    at_ps: int
    link: Link
    chunks: int
    closed: list[int]
    """Times at which slots within it begin, ps: for a guard time gates are shut and hosts pause, so that no timer
    expires."""
    job: Job | None = None
    given: list[npt.NDArray[np.int32]] = field(default_factory=list)
    got: list[npt.NDArray[np.int32]] = field(default_factory=list)


def spine_of(
    network: OpticalNetwork, topology: Topology, fast: int, slot_s: float, guard_s: float, lanes: int = LANES
) -> Spine:
    """Return a spine with pods as leaves and the overhead of packets: headers, and a slot's wait for its last sum."""
    fibre = max(link.delay_ps for own in uplinks(topology).values() for link in own)
    chunk_s = frame_time_ps(HEADER_BYTES + 4 * lanes, network.port_rate_bps) / PS_PER_S
    lag_s = 3 * fibre / PS_PER_S + FRAMES * chunk_s
    return Spine(network.pods, network.ports, fast, network.delta_s, slot_s, guard_s, lag_s, chunk_s)


class _Player:
    def __init__(self, plan: SpinePlan, topology: Topology, lanes: int, seed: int) -> None:
        self._plan, self._topology, self._lanes = plan, topology, lanes
        self._draw = np.random.default_rng(seed)
        fibres = uplinks(topology)
        self._names = list(fibres)
        self._ports = [[link.port_of(name) for link in own] for name, own in fibres.items()]
        first = next(iter(fibres.values()))[0]
        self._fibre_ps, self._rate = first.delay_ps, first.rate_bps
        self._hosts = [[host.name for host in topology.hosts if topology.neighbour(host.name, 1) == name]
                       for name in self._names]  # fmt: skip
        spine = plan.spine
        self._slot_ps, self._dark_ps, self._delta_ps = (
            round(value * PS_PER_S) for value in (spine.slot_s, spine.guard_s, spine.delta_s)
        )
        self._fixed = self._circuits()
        self.played = SpinePlayed(max(1, round(plan.time_s * PS_PER_S)))

    # --- circuits

    def _link(self, pair: Pair, ports: tuple[int, int], circuits: int = 1) -> Link:
        (a, b), (p, q) = pair, ports
        return Link(self._names[a], self._ports[a][p], self._names[b], self._ports[b][q], circuits * self._rate,
                    2 * self._fibre_ps)  # fmt: skip

    def _circuits(self) -> dict[Pair, Link]:
        """Return the circuits that stay, at ports behind those that rotate; parallel ones are one link."""
        used = Counter[int]()
        links: dict[Pair, Link] = {}
        for a, b in np.argwhere(np.triu(self._plan.circuits)).tolist():
            count, rotating = int(self._plan.circuits[a, b]), self._plan.ports
            links[a, b] = self._link((a, b), (rotating + used[a], rotating + used[b]), count)
            used.update({a: count, b: count})
        return links

    def _turning(self, run: CircuitRun) -> Link:
        return self._link(run.pair, (2 * run.channel, 2 * run.channel + 1))

    def _reconfigure(self, network: JobNetwork) -> None:
        """Schedule all reconfigurations in advance; circuits that stay are not dark."""
        fabric = network.fabric
        fixed = list(self._fixed.values())
        if fixed:
            fabric.reconfigure(None, fixed, 0, self._delta_ps)
        runs = self._plan.runs
        for slot in sorted({lit_run.first for lit_run in runs}):
            lit = [self._turning(lit_run) for lit_run in runs if lit_run.first <= slot < lit_run.first + lit_run.slots]
            fabric.reconfigure(None, [*fixed, *lit], slot * self._slot_ps, self._dark_ps)
        closing = self._fibre_ps
        open_ps = self._slot_ps - self._dark_ps - closing
        gates = [(self._dark_ps, 0), (open_ps, ALL_QUEUES), (closing, 0)]
        if runs:
            for leaf, ports in enumerate(self._ports):
                for port in ports[: self._plan.ports]:
                    fabric.set_gates((self._names[leaf], port), [gate for gate in gates if gate[0]],
                                     longest=HEADER_BYTES + 4 * self._lanes)  # fmt: skip

    # --- sums

    def _sums(self) -> Iterator[_Sum]:
        """Yield the sums, in order within a pair: first on fixed circuits, then in slots, each as full as possible."""
        chunk_s = self._plan.spine.chunk_s
        left = np.ceil(self._plan.work / chunk_s - _FUZZ).astype(np.int64)
        over = np.minimum(left, np.ceil(self._plan.over / chunk_s - _FUZZ).astype(np.int64))
        for pair, link in self._fixed.items():
            if over[pair]:
                yield _Sum(self._delta_ps, link, int(over[pair]), [])
                left[pair] -= over[pair]
        whole = round(self._plan.spine.payload_s / chunk_s)
        for run in sorted(self._plan.runs, key=lambda lit_run: lit_run.first):
            pair = min(run.pair), max(run.pair)
            chunks = min(int(left[pair]), run.slots * whole)
            if chunks:
                left[pair] -= chunks
                begins = run.first * self._slot_ps + max(0, self._dark_ps - self._fibre_ps)
                closed = [(run.first + place) * self._slot_ps for place in range(1, run.slots)]
                yield _Sum(begins, self._turning(run), chunks, closed)
        if np.triu(left).any():
            raise ClusterError("slots: they do not hold all of the work")

    def run(self, progress: Progress | None) -> SpinePlayed:
        """Play the plan from dark circuits to the last sum."""
        sums = sorted(self._sums(), key=lambda sum_: sum_.at_ps)
        self.played.sums = len(sums)
        ways = list(dict.fromkeys(sum_.link for sum_ in sums))
        at = Counter(end for link in ways for end in (link.a, link.b))
        program = bundled(self._lanes)
        slots = min(MOST_SLOTS, range_within(program.slots // max(at.values(), default=1)))
        with EmbeddedSwitches(self._topology, program) as switches:
            requests = [self._request(number, link, slots) for number, link in enumerate(ways, 1)]
            plans = [switches.controller.plan(request, view(self._topology, [link]))
                     for request, link in zip(requests, ways, strict=True)]  # fmt: skip
            switches.controller.install_idle(plans)
            with JobNetwork(switches, queue_frames=1 << 14) as network:
                jobs = {link: network.add(plan, BLOCK) for link, plan in zip(ways, plans, strict=True)}
                network.advance(0)
                self._reconfigure(network)
                self._carry(network, sums, jobs, progress)
                self._count(network, sums)
        return self.played

    def _request(self, number: int, link: Link, slots: int) -> PlanRequest:
        hosts = []
        for end, other in ((link.a, link.b), (link.b, link.a)):
            own = self._hosts[self._names.index(end)]
            hosts.append(own[self._names.index(other) % len(own)])
        layout = TreeLayout(link.b, {hosts[0]: link.a, link.a: link.b, hosts[1]: link.b})
        return PlanRequest("spine", number, workers=tuple(hosts), layout=layout, max_slots=slots)

    def _carry(
        self, network: JobNetwork, sums: Sequence[_Sum], jobs: dict[Link, Job], progress: Progress | None
    ) -> None:
        for number, sum_ in enumerate(sums):
            while network.now < sum_.at_ps:
                network.advance(sum_.at_ps)
            self._post(network, sum_, jobs[sum_.link])
            if progress is not None:
                progress("sums", number, len(sums))
        watch = [index for job in jobs.values() for index in job.endpoints]
        if watch and network.advance(watch=watch) is not StopReason.DONE:
            raise ClusterError("a sum did not come to its end")
        self.played.took_ps = max((network.done_ps(job) for job in jobs.values()), default=0)

    def _post(self, network: JobNetwork, sum_: _Sum, job: Job) -> None:
        sum_.job, size = job, sum_.chunks * self._lanes
        status = network.endpoints.records["status"]
        if any(status[index] == EndpointState.ACTIVE for index in job.endpoints):
            raise ClusterError(
                f"slots: the sum of {sum_.link.a} and {sum_.link.b} before this one has not ended in its slots"
            )
        for index in job.endpoints:
            for at_ps in sum_.closed:
                network.fabric.pause(index, at_ps - self._fibre_ps)
                network.fabric.resume(index, at_ps + self._dark_ps)
        sum_.given = [self._draw.integers(-(1 << 20), 1 << 20, size, dtype=np.int32) for _ in range(2)]
        sum_.got = [np.zeros(size, np.int32) for _ in range(2)]
        for index, given, got in zip(job.members.values(), sum_.given, sum_.got, strict=True):
            network.post(index, Post(Collective.ALL_REDUCE, given.view(np.float32), got.view(np.float32), words=True))

    def _count(self, network: JobNetwork, sums: Sequence[_Sum]) -> None:
        played = self.played
        network.advance(network.now + 100_000_000)
        expected: dict[Hop, Traffic] = {}
        for sum_ in sums:
            assert sum_.job is not None  # noqa: S101
            total = sum_.given[0] + sum_.given[1]
            played.wrong += not all(np.array_equal(got, total) for got in sum_.got)
            expected = add(expected, predict(sum_.job.plan, Operation.ALL_REDUCE, len(total), lead=0))
        links = network.fabric.links.array()
        passive = {node.name for node in self._topology.crossconnects}
        sent = zip(links["inc_first_frames"].tolist(), links["inc_first_bytes"].tolist(), strict=True)
        counted = {
            hop: Traffic(frames, size)
            for hop, (frames, size) in zip(network.fabric.links, sent, strict=True)
            if hop[0] not in passive
        }
        played.differing = compare_links(self._topology, expected, counted)
        played.lost = int(links["dark_lost"].sum() + links["queue_drops"].sum() + links["lost"].sum())
        played.misrouted = int(links["misrouted"].sum())
        played.resends = int(links["inc_resend_frames"].sum())


def play_spine(
    plan: SpinePlan, topology: Topology, *, lanes: int = LANES, seed: int = 1, progress: Progress | None = None
) -> SpinePlayed:
    """Play a plan: every pair of leaves adds up its data, and the sums return to both.

    Parameters
    ----------
    plan, topology
        Plan of a :func:`spine_of`; the ``oxc:`` network that it was made for.
    lanes, seed : int
        Lanes of the P4 program; seed of the hosts' data.
    progress : Progress or None
        Told of sums.

    Raises
    ------
    OpticalError
        The data exceed this machine's memory.
    ClusterError
        A sum does not end, or not within its slots.
    """
    chunks = plan.work.sum() / 2 / plan.spine.chunk_s
    if chunks * lanes * WORDS_KEPT * 4 > MOST_BYTES:
        raise OpticalError(
            f"load: vectors of {chunks * lanes * 4 / 1e9:.3g} GB are too many for packets; take a shorter load or "
            "a lower port_rate"
        )
    return _Player(plan, topology, lanes, seed).run(progress)
