"""Play the turns of a schedule on packets: one clock for all, every byte through the P4 program."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise, permutations
from typing import Final, Literal
from zlib import crc32

import numpy as np

from p4reduce.base.output import Progress
from p4reduce.control_plane.counters import Operation
from p4reduce.control_plane.plans import Plan, PlanRequest, TreeLayout
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob
from p4reduce.control_plane.tdm.registry import least_guard_ps
from p4reduce.control_plane.tdm.schedule import JobPlan, Matrix, PodRoute, Schedule
from p4reduce.group.errors import ClusterError
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.network.virtual import Faults, StopReason
from p4reduce.network.virtual.circuits import ALL_QUEUES
from p4reduce.play.turns.acts import ITSELF, Act, Acts, PlayedSchedule, pairs_of
from p4reduce.play.turns.installing import (
    QUEUES,
    Installed,
    Piece,
    SentParts,
    TurnInstaller,
    TurnPart,
    needs_servers,
    physical,
    pieces_of,
    set_paces,
)
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.datacenter import TopologyBuilder
from p4reduce.topologies.model import Hop
from p4reduce.topologies.optical import uplinks
from p4reduce.workers.records import EndpointState
from p4switch.base.values import PS_PER_S

# Comparison of first transmissions on links with the plans' predictions, from one boundary to the next.


class Counting:
    """Counts of frames between boundaries, as differences of two readings of the links' cumulative counters."""

    def __init__(self, network: JobNetwork, jobs: Iterable[Installed]) -> None:
        self._links = network.fabric.links
        passive = {node.name for node in network.fabric.topology.crossconnects}
        self._hops = [hop for hop in self._links if hop[0] not in passive]
        self._places = [place for place, hop in enumerate(self._links) if hop[0] not in passive]
        self._before = self._read()
        self._posted: Counter[int] = Counter()
        self._parts = {id(part): part for job in jobs for part in job.parts}

    def post(self, part: TurnPart) -> None:
        """Count a part that is sent."""
        self._posted[id(part)] += 1

    def boundary(self) -> tuple[int, tuple[str, ...]]:
        """Return the frames since the last boundary, and the links whose frames or bytes differ from the prediction."""
        now = self._read()
        seen = now - self._before
        self._before = now
        wanted: dict[Hop, list[int]] = {hop: [0, 0] for hop in self._hops}
        for key, times in self._posted.items():
            for hop, traffic in self._parts[key].predicted.items():
                if traffic.frames:
                    wanted[hop][0] += times * traffic.frames
                    wanted[hop][1] += times * traffic.bytes
        self._posted.clear()
        differing = tuple(
            f"{hop[0]} port {hop[1]}: predicted {frames} frames, {octets} bytes, counted {own[0]}, {own[1]}"
            for hop, own, (frames, octets) in zip(self._hops, seen.tolist(), wanted.values(), strict=True)
            if own != [frames, octets]
        )
        return int(seen[:, 0].sum()), differing

    def _read(self) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
        counted = self._links.array()
        return np.stack([counted["inc_first_frames"], counted["inc_first_bytes"]], axis=1)[self._places]


Keep = Literal["starts", "pause", "gates"]


class TurnPlayer(Acts[Installed, SentParts]):
    """Player of a schedule in which a process ends when its jobs are done."""

    def __init__(
        self,
        schedule: Schedule,
        installed: Mapping[str, Installed],
        installer: TurnInstaller,
        network: JobNetwork,
        *,
        rounds: int,
        keep: Keep,
        progress: Progress | None,
    ) -> None:
        super().__init__(schedule, installed, rounds)
        self.installer, self.network, self.keep = installer, network, keep
        self._progress = progress
        self._counting = Counting(network, installed.values())

    @property
    def now(self) -> int:
        """Present time, picoseconds."""
        return self.network.now

    def run(self) -> PlayedSchedule:
        """Play all rounds."""
        self.begin()
        self.drive()
        self._settle()
        return self.played

    # --- the clock

    def let_pass(self, until: int | None, under: Sequence[SentParts]) -> None:
        """Let time pass until an endpoint is done, or until the next check for events that endpoints do not report."""
        working = [index for sending in under for index in sending.busy()]
        looks = [self.now + look for sending in under if sending.now and (look := sending.look_ps()) is not None]
        until = min([*looks, *([] if until is None else [until])], default=None)
        if until is None and not working:
            raise ClusterError(ITSELF)
        reason = self.network.advance(until, working, first=True) if working else self.network.advance(until)
        self._check(working, quiet=reason is StopReason.QUIET and until is None)

    def step(self, sending: SentParts) -> None:
        """Begin the next phase of a communication, and count the posted parts."""
        for part in sending.go_on():
            self._counting.post(part)

    def _check(self, working: Sequence[int], *, quiet: bool) -> None:
        records = self.network.endpoints.records
        failed = [index for index in working if records["status"][index] == EndpointState.FAILED]
        if failed or (working and quiet):
            index = (failed or list(working))[0]
            error = self.network.status(index).error or "nothing moves any more"
            raise ClusterError(f"{self.schedule.policy}: {self.network.hosts[index]}: {error}")
        if self._progress is not None:
            self._progress("rounds", len(self.played.rounds_ps), self.rounds)

    # --- implementation of the turns' requests

    def send(self, jobs: Sequence[Installed], configuration: int) -> Sequence[SentParts]:
        """Begin to send, one phase of a job after the other, or of all jobs together if sub-phases are the group's."""
        groups = [jobs] if any(job.together for job in jobs) else [[job] for job in jobs]
        begun = [SentParts(self.network, own, configuration) for own in groups]
        for sending in begun:
            self.step(sending)
        return begun

    def sent(self, jobs: Sequence[Installed], under: Sequence[SentParts], start: int) -> None:
        """Check every sum and block."""
        del jobs, start
        for part in (part for sending in under for part in sending.done):
            self.played.exact &= part.exact() or (part.divided and bool(part.busy(self.network)))

    def ended_ps(self, job: Installed, start: int) -> int:
        """Return when the last worker of a job had its result, picoseconds."""
        return max((self.network.done_ps(part.job) for part in job.parts), default=start)

    def light(self, matrix: Matrix, dark_ps: int) -> None:
        """Schedule the change of circuits in the fabric; the electrical twin has none."""
        if not self.network.fabric.topology.crossconnects:
            return
        index = self.installer.matrices.index(matrix)
        self.network.fabric.reconfigure(None, self.installer.circuits[index], None, dark_ps)

    def boundary(self) -> tuple[int, tuple[str, ...]]:
        """Return the frames since the last boundary, and the links that differ from the plans' predictions."""
        return self._counting.boundary()

    def changes(self, job: Installed, before: Matrix, after: Matrix, configuration: int) -> bool:
        """Return whether circuits change on a job's ports: another bond or port counts as another circuit."""
        pairs = [{f"tor{a + 1}", f"tor{b + 1}"} for a, b in pairs_of(job.plan, configuration)]
        index = self.installer.matrices.index
        stay = set(self.installer.circuits[index(before)])
        return any({link.a, link.b} in pairs and link not in stay for link in self.installer.circuits[index(after)])

    # --- final counts

    def _settle(self) -> None:
        if not self.halted:  # otherwise gates would go on without the cross-connect's clock
            self.network.advance(self.now + 100_000_000)
        _, differing = self._counting.boundary()
        unfinished = any(part.busy(self.network) for job in self.jobs.values() for part in job.parts)
        if not self.played.windows and not unfinished:
            self.played.differing += differing
        links = self.network.fabric.links.array()
        self.played.dark_lost, self.played.misrouted = int(links["dark_lost"].sum()), int(links["misrouted"].sum())
        self.played.lost = int(links["lost"].sum() + links["queue_drops"].sum())
        carriers = {id(part.job): part.job for installed in self.jobs.values() for part in installed.parts}
        statuses = [status for job in carriers.values() for status in self.network.statuses(job)]
        self.played.resends = sum(status.resends for status in statuses)
        self.played.lasted_ps = self.now


# Windows by the clock: circuits change at fixed times, even during transmissions.
#
# Data that a job has not sent when its window ends are treated in one of three ways (`Keep`): with ``starts`` they do
# not wait, and meet dark mirrors or another group's circuits; with ``pause`` the job's endpoints stop a guard before
# the end, until the next window; with ``gates`` the switches' ports to the cross-connect hold back the queue of its
# group.


LONGEST_HEADERS = 62
"""Bytes before the lanes."""
WARM_UP = 2
"""Rounds until all jobs have trained and communicated once."""


class SlottedPlayer(TurnPlayer):
    """A player of schedules with fixed slots; all jobs are in one cycle."""

    def acts(self) -> list[Act[SentParts]]:
        """Make the clock's act, and those of all jobs."""
        schedule = self.schedule
        self.network.advance(self.network.now)  # makes all endpoints known to the fabric
        self._round_ps = round(schedule.round_s * PS_PER_S)
        self._guard_ps = round(schedule.guard_s * PS_PER_S)
        starts = [round(process.start_s * PS_PER_S) for process in schedule.processes]
        self._slots = list(zip(starts, [*starts[1:], self._round_ps], strict=True))
        if self.keep == "gates":
            self._set_gates()
        waiting = [self._slotted(job) for job in self.jobs.values()]
        return [self._ticks(), *waiting]

    def _set_gates(self) -> None:
        """Set the gates: in darkness no group's queue is open, afterwards that of the window's group.

        A port whose circuit stays is never dark.
        """
        closed = ALL_QUEUES & ~sum(1 << queue for queue in QUEUES)
        fabric = self.network.fabric
        # A frame that leaves a switch reaches the mirrors after a fibre's delay.
        fibre = max(link.delay_ps for own in uplinks(fabric.topology).values() for link in own)
        longest = LONGEST_HEADERS + 4 * next(iter(self.jobs.values())).parts[0].job.plan.lanes
        for switch, fibres in uplinks(fabric.topology).items():
            for link in fibres:
                port = (switch, link.port_of(switch))
                entries: list[tuple[int, int]] = []
                for number, (start, end) in enumerate(self._slots):
                    changes = self._circuit(port, number) != self._circuit(port, number - 1)
                    dark = min(self.delta_ps, end - start) if changes else 0
                    open_ = max(0, end - start - dark - fibre)
                    after = end - start - dark - open_
                    gates = ((dark, closed), (open_, closed | 1 << QUEUES[self._group(number)]), (after, closed))
                    entries += [entry for entry in gates if entry[0]]
                fabric.set_gates(port, entries, base_ps=0, longest=longest)

    def _circuit(self, port: Hop, process: int) -> Link | None:
        """Return the circuit of a port in a process, or None."""
        matrix = self.schedule.processes[process].configurations[0].circuits
        lit = self.installer.circuits[self.installer.matrices.index(matrix)]
        return next((link for link in lit if port in ((link.a, link.port_a), (link.b, link.port_b))), None)

    def _group(self, process: int) -> int:
        groups = [job.plan.group for job in self.jobs.values() if job.plan.process == process]
        return groups[0] if groups else 0

    def _window(self, job: Installed, number: int) -> tuple[int, int]:
        """Return when a job's window opens and closes in a round, picoseconds."""
        start, end = self._slots[job.plan.process]
        opens = number * self._round_ps + start + self._dark_ps(job)
        return opens, max(opens, number * self._round_ps + end - self._guard_ps)

    def _dark_ps(self, job: Installed) -> int:
        """Return the picoseconds for which a job's circuits are dark when its process begins."""
        processes = self.schedule.processes
        before = processes[job.plan.process - 1].configurations[0].circuits
        after = processes[job.plan.process].configurations[0].circuits
        return self.delta_ps if self.changes(job, before, after, -1) else 0

    def _ticks(self) -> Act[SentParts]:
        """Run the cross-connect's clock, and schedule the endpoints' pauses."""
        if self.keep == "pause":
            self._pause(0)
        for number in range(self.rounds + WARM_UP):
            base = number * self._round_ps
            for process, (start, _) in enumerate(self._slots):
                yield (base + start, ())
                circuits = self.schedule.processes[process].configurations[0].circuits
                self.reconfigure(circuits, self.delta_ps)
            if self.keep == "pause" and number + 1 < self.rounds + WARM_UP:
                self._pause(number + 1)
            if number < self.rounds:
                self.played.rounds_ps.append(self._round_ps)
        yield ((self.rounds + WARM_UP) * self._round_ps, ())
        self.stopping = self.halted = True

    def _pause(self, number: int) -> None:
        fabric = self.network.fabric
        for job in self.jobs.values():
            opens, closes = self._window(job, number)
            for index in (index for part in job.parts for index in part.job.endpoints):
                if number == 0:
                    fabric.pause(index)
                fabric.resume(index, opens)
                fabric.pause(index, closes)

    def _slotted(self, job: Installed) -> Act[SentParts]:
        """Train, wait for the window, communicate, wait for the window's end."""
        cycle = self.schedule.cycles[job.plan.cycle]
        closes = self._slots[job.plan.process][1]
        yield (closes if closes < self._round_ps else 0, ())
        while not self.stopping:
            self.train([job], cycle)
            yield from self.until_trained([job])
            now = self.network.now
            number = now // self._round_ps
            opens, closes = self._window(job, number)
            if now >= closes:
                opens = self._window(job, number + 1)[0]
            yield (max(now, opens), ())
            yield from self.communicate([job])
            self.finished([job])
            number = (self.network.now - 1) // self._round_ps
            yield (number * self._round_ps + self._slots[job.plan.process][1], ())


# The electrical twin on packets: a spine for each port of a ToR to the cross-connect, with uplinks of the same rate.
#
# Every edge of a tree is several flows, each a share of the vector with a separate tree, over one spine: with
# `eps-ideal` one flow per spine, which models spraying; with `eps-ecmp` a hash picks the spine of each.


ELECTRICAL: Final = ("eps-ideal", "eps-ecmp")
"""Policies whose schedules are for the twin."""


@dataclass(frozen=True)
class Hashing:
    """Choice of spines by `eps-ecmp`: ``flows`` per edge; ``polarized``: the hash does not include the ToR."""

    flows: int = 4
    polarized: bool = False


def twin_of(network: OpticalNetwork, delay: str = "1us") -> Topology:
    """Build the leaf-spine; a circuit's two fibres are the links to a spine and from it."""
    if network.ports < 1:
        raise TdmError("ports: a ToR without ports has no uplinks; packets need at least one")
    builder = TopologyBuilder(f"eps-{network.pods * network.servers}")
    for pod in range(network.pods):
        builder.switch(f"tor{pod + 1}")
    for spine in range(network.ports):
        builder.switch(f"spine{spine + 1}", capable=False)
    for pod in range(network.pods):
        for server in range(network.servers):
            builder.host(network.host(pod, server))
            builder.link(network.host(pod, server), f"tor{pod + 1}", network.rate_bps, delay)
    for pod in range(network.pods):
        for spine in range(network.ports):
            builder.link(f"tor{pod + 1}", f"spine{spine + 1}", network.port_rate_bps, delay)
    return builder.build()


class TwinInstaller(TurnInstaller):
    """An installer without circuits, for electrical twins."""

    hashing = Hashing()
    seed = 1

    def lay(self) -> list[tuple[Link, ...]]:
        """Lay no circuits, in all configurations."""
        return [() for _ in self.matrices]

    def rates(self, plan: JobPlan, configuration: int) -> dict[Hop, int]:
        """Return no rates: links always have their nominal rate."""
        del plan, configuration
        return {}

    def pieces(self, plan: JobPlan, pod: int) -> list[Piece]:
        """Cut every piece into as many flows as an edge has."""
        whole_pieces = pieces_of(plan, pod)
        if any(piece.operation is not Operation.ALL_REDUCE for piece in whole_pieces):
            raise TdmError(f"job {plan.job!r}: the electrical twin adds up along trees, chunk by chunk")
        cut: list[Piece] = []
        for piece in whole_pieces:
            first, last = piece.span
            count = self._flows if piece.tree.edges else 1
            ends = [first + (last - first) * flow / count for flow in range(count + 1)]
            cut += [replace(piece, span=span) for span in pairwise(ends)]
        return cut

    @property
    def _flows(self) -> int:
        network = self._schedule.network
        return network.ports if self._schedule.policy == "eps-ideal" else self.hashing.flows

    def _spine(self, plan: JobPlan, flow: int, source: str) -> str:
        """Return the spine to which a job's ``flow``-th flow goes from a ToR."""
        ports = self._schedule.network.ports
        if self._schedule.policy == "eps-ideal":
            return f"spine{flow % ports + 1}"
        where = "" if self.hashing.polarized else f"@{source}"
        value = crc32(f"{self.seed}/{plan.job}/{flow}{where}".encode())
        value = (value ^ value >> 16) * 0x45D9F3B & 0xFFFFFFFF
        return f"spine{(value ^ value >> 16) % ports + 1}"

    def _tree(self, piece: Piece, plan: JobPlan, hosts: tuple[str, ...], elements: int, slots: int) -> Plan:
        del elements
        network, tree = self._schedule.network, piece.tree
        parents = {host: f"tor{network.pod_of(host) + 1}" for host in hosts}
        parents |= {f"tor{child + 1}": f"tor{parent + 1}" for child, parent in tree.edges}
        flow = round(piece.span[0] * self._flows)
        paths = {
            (child, parent): (child, parent) if child in hosts else (child, self._spine(plan, flow, child), parent)
            for child, parent in parents.items()
        }
        layout = TreeLayout(f"tor{tree.root + 1}", parents, paths=paths)
        return self._start(plan, PlanRequest("eps", self._next(), workers=hosts, layout=layout, max_slots=slots), ())

    def _routed(
        self, plan: JobPlan, own_routes: Sequence[PodRoute], hosts: tuple[str, ...]
    ) -> tuple[dict[tuple[str, str], tuple[str, ...]], dict[tuple[str, str], int], list[Link]]:
        """Route blocks by destination, as switches forward: flows between two pods are those to the target's hosts."""
        del own_routes
        network = self._schedule.network
        paths: dict[tuple[str, str], tuple[str, ...]] = {}
        for source, target in permutations(hosts, 2):
            a, b = (f"tor{network.pod_of(host) + 1}" for host in (source, target))
            up = () if a == b else (a, self._spine(plan, hosts.index(target), a))
            paths[source, target] = (source, *up, b, target)
        return paths, dict.fromkeys(paths, -1), []


# A schedule on packets: jobs train at their hosts and communicate through the P4 program while circuits change.
#
# Training is time at a host; every communicated byte crosses links and switches. A schedule's windows are kept in one
# of three ways (`Keep`): hosts begin when their circuits are lit, endpoints pause outside of their windows, or switches
# hold back the queue of a group behind gates.


KEEPS: Final = ("starts", "pause", "gates")
LANES: Final = 256


def play(
    schedule: Schedule,
    jobs: Mapping[str, TdmJob],
    *,
    rounds: int = 3,
    keep: Keep = "starts",
    lanes: int = LANES,
    delay: str = "1us",
    seed: int = 1,
    loss: float = 0.0,
    planes: int = 1,
    guard: bool = False,
    hashing: Hashing = Hashing(),
    progress: Progress | None = None,
) -> PlayedSchedule:
    """Play some rounds of a schedule.

    Parameters
    ----------
    schedule : Schedule
        Placement and times of jobs; its bytes and times are taken as they are (`model_job(scale=64)` makes small ones).
    jobs : mapping of TdmJob
        By name.
    rounds : int
        Whole rounds after the first one, which begins with its circuits lit.
    keep : str
        How windows are kept.
    lanes : int
        Lanes of the P4 program.
    delay : str
        Delay of every link and fibre.
    seed : int
        Seed of the vectors and of losses.
    loss : float
        Probability for each frame on each link.
    planes : int
        Cross-connects, 1 or 2.
    guard : bool
        With slots: take the guard that the longest path and the queues need (`PlayedSchedule.least_guard_s`), instead
        of the schedule's.
    hashing : Hashing
        Hashing of `eps-ecmp`.
    progress : Progress or None
        Told of every round.

    Raises
    ------
    TdmError
        The schedule cannot be carried out on packets.
    ClusterError
        A job makes no progress any more.
    """
    if rounds < 1:
        raise TdmError(f"rounds: {rounds}; at least 1")
    electrical = schedule.policy in ELECTRICAL
    if electrical and keep == "gates":
        raise TdmError(f"policy {schedule.policy}: the electrical twin has no ports to a cross-connect; keep: starts")
    topology = (
        twin_of(schedule.network, delay)
        if electrical
        else physical(schedule.network, delay, servers=needs_servers(schedule), planes=planes)
    )
    with (
        EmbeddedSwitches(topology, bundled(lanes)) as switches,
        JobNetwork(switches, faults=Faults(loss=loss), seed=seed) as network,
    ):
        made = TwinInstaller if electrical else TurnInstaller
        installer = made(topology, switches, network, schedule, gates=keep == "gates")
        if isinstance(installer, TwinInstaller):
            installer.hashing, installer.seed = hashing, seed
        installed = {
            plan.job: installer.install(jobs[plan.job], seed + number) for number, plan in enumerate(schedule.jobs)
        }
        set_paces(schedule, installed, installer.rates)
        least_s = _least_guard_s(schedule, installed)
        if guard and schedule.clock == "slots":
            _check_guard(schedule, least_s)
            schedule = replace(schedule, guard_s=least_s)
        kind = SlottedPlayer if schedule.clock == "slots" else TurnPlayer
        played = kind(schedule, installed, installer, network, rounds=rounds, keep=keep, progress=progress).run()
        played.guard_s, played.least_guard_s = schedule.guard_s, least_s
        return played


def _least_guard_s(schedule: Schedule, installed: Mapping[str, Installed]) -> float:
    """Return the least guard time, in seconds, that is enough for all jobs that communicate at the same time."""
    groups: dict[tuple[int, int], list[Plan]] = {}
    for plan in schedule.jobs:
        own = groups.setdefault((plan.process, plan.group), [])
        own += [part.job.plan for part in installed[plan.job].parts]
    return max(map(least_guard_ps, groups.values()), default=0) / PS_PER_S


def _check_guard(schedule: Schedule, guard_s: float) -> None:
    slot = min(process.duration_s for process in schedule.processes)
    if guard_s + schedule.network.delta_s >= slot:
        raise TdmError(
            f"guard: {guard_s * 1e6:.1f} us after {schedule.network.delta_s * 1e6:.1f} us of darkness leave nothing of "
            f"a slot of {slot * 1e6:.1f} us; take larger jobs, the clock completion, or say the guard yourself"
        )


# Timeline of a played schedule as SVG: circuits, jobs and darkness.


_ROW, _LEFT, _WIDTH, _TOP = 22, 130, 900, 34
_COLOURS: Final = {"train": "#c9d3e3", "dark": "#20242b"}
_GROUPS: Final = ("#2f6fb0", "#d1782c", "#3f9162", "#8a5aa8")
_STYLE: Final = "font-family:system-ui,sans-serif;font-size:12px"


def gantt_svg(played: PlayedSchedule, groups: dict[str, int], *, title: str = "") -> str:
    """Draw a row for the cross-connect and one for each job: light is training, colour sending, black darkness."""
    end = max((span.end_ps for span in played.spans), default=1)
    jobs = list(groups)
    height = _TOP + _ROW * (len(jobs) + 1) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" height="{height}" style="{_STYLE}">',
        f'<rect width="100%" height="100%" fill="#fff"/><text x="10" y="20">{escape(title or played.policy)}</text>',
    ]
    for row, name in enumerate(["circuits", *jobs]):
        parts.append(f'<text x="10" y="{_TOP + _ROW * row + 15}">{escape(name[:18])}</text>')
    places = {"": 0} | {name: row for row, name in enumerate(jobs, 1)}
    for window in played.windows:
        colour = _GROUPS[window.process % len(_GROUPS)]
        parts.append(_bar(window.start_ps, window.end_ps, end, 0, colour, f"process {window.process}", 0.35))
    for span in played.spans:
        colour = _COLOURS.get(span.what) or _GROUPS[groups.get(span.job, 0) % len(_GROUPS)]
        parts.append(_bar(span.start_ps, span.end_ps, end, places[span.job], colour, f"{span.job} {span.what}"))
    parts += _axis(end, height)
    return "\n".join([*parts, "</svg>", ""])


def _bar(start: int, stop: int, end: int, row: int, colour: str, says: str, opacity: float = 1.0) -> str:
    x, width = _LEFT + start * _WIDTH / end, max(0.5, (stop - start) * _WIDTH / end)
    times = f"{start / 1e6:.1f} to {stop / 1e6:.1f} µs"
    return (
        f'<rect x="{x:.1f}" y="{_TOP + _ROW * row}" width="{width:.1f}" height="{_ROW - 5}" fill="{colour}" '
        f'fill-opacity="{opacity}"><title>{escape(says)}: {times}</title></rect>'
    )


def _axis(end: int, height: int) -> Sequence[str]:
    marks = []
    for step in range(6):
        x = _LEFT + step * _WIDTH / 5
        anchor = "end" if step == 5 else "middle"
        marks.append(
            f'<text x="{x:.0f}" y="{height - 14}" text-anchor="{anchor}">{end * step / 5 / 1e6:,.0f} µs</text>'
        )
    return marks
