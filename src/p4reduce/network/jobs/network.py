"""Jobs in virtual time: endpoints of their hosts, links, the switches' clock, one run loop for all."""

import importlib.resources
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from finsy.proto import p4i
from google.protobuf import text_format

from p4reduce.base.errors import ControllerError
from p4reduce.base.registry import Registry
from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.counters import Operation, Traffic, add, predict
from p4reduce.control_plane.entries import P4Program, SwitchSettings, seeded_key
from p4reduce.control_plane.plans import Plan
from p4reduce.group.errors import ClusterError
from p4reduce.network.jobs.specs import (
    JobNumbers,
    Occupant,
    ahead_ps,
    covers,
    endpoint_specs,
    guesses_of,
    link_address,
    pace_of,
    parent_address,
    server_peers,
    timing_of,
)
from p4reduce.network.virtual import Faults, HostEndpoints, StopReason, VirtualNetwork
from p4reduce.network.virtual.network import threads_for
from p4reduce.network.virtual.records import worker_endpoints
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Post
from p4reduce.workers.records import EndpointKind, EndpointState
from p4reduce.workers.specs import Congestion
from p4reduce.workers.status import EndpointStatus
from p4reduce.workers.wire import WORD_BITS, words_of
from p4switch.base.closing import Closable
from p4switch.base.files import read_bytes
from p4switch.device import Device
from p4switch.p4runtime import P4RuntimeError, P4RuntimeServer
from p4switch.program.errors import ProgramError
from p4switch.program.loader import load_program
from p4switch.program.program import Program

if TYPE_CHECKING:  # without background traffic its machine code is not compiled
    from p4reduce.network.background import Background, Requests

# The P4 program that a run uses: p4c's output from the package, or the user's own.


@cache
def bundled(lanes: int) -> P4Program:
    """Return the program that the package carries for ``lanes`` lanes (64 or 256)."""
    folder = importlib.resources.files("p4reduce.p4src").joinpath("compiled")
    stem = f"p4reduce-{lanes}"
    try:
        return P4Program(
            json=folder.joinpath(f"{stem}.json").read_bytes(),
            p4info=folder.joinpath(f"{stem}.p4info.txt").read_bytes(),
            name=f"p4src/compiled/{stem}.json",
        )
    except FileNotFoundError as error:
        raise ClusterError(f"no compiled program for {lanes} lanes: run 'make p4' ({error})") from error


@cache
def watching(lanes: int) -> P4Program:
    """Compile and return the build of the package's program that reports links' loads by digests."""
    with importlib.resources.as_file(importlib.resources.files("p4reduce.p4src") / "watching.p4") as source:
        return from_source(source, lanes)


def from_files(p4_json: Path, p4_info: Path, lanes: int) -> P4Program:
    """Load the user's own program, for a run with ``lanes`` lanes. Raises ``ProgramError``, which names the file."""
    program = P4Program(json=_content(p4_json), p4info=_content(p4_info), name=str(p4_json))
    try:
        parsed = json.loads(program.json)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProgramError(f"{p4_json}: is not JSON as p4c-bm2-ss writes it: {error}") from None
    if not isinstance(parsed, dict):
        raise ProgramError(
            f"{p4_json}: holds a JSON {type(parsed).__name__}, expected the object that p4c-bm2-ss writes"
        )
    try:
        loaded = load_program(parsed)
    except ProgramError as error:
        raise ProgramError(f"{p4_json}: {error}") from None
    _check_info(p4_info, program.p4info, loaded)
    _check_lanes(p4_json, program, lanes)
    return program


PROGRAMS: Registry[Callable[[int], Path]] = Registry("program", ProgramError)
"""P4 sources of other distributions, from entry points of ``p4reduce.programs``: functions of the lanes."""


def from_source(path: Path, lanes: int) -> P4Program:
    """Compile the user's own program for a run with ``lanes`` lanes. Raises ``P4Error`` or ``ProgramError``.

    ``path`` is P4 source, or the name of an entry point that gives a path to it.
    """
    if not path.is_file():
        if str(path) not in PROGRAMS:
            raise ProgramError(f"{path}: there is no such file")
        path = Path(PROGRAMS[str(path)](lanes))
    from p4switch.p4.compile import compile_file, json_text  # noqa: PLC0415  (the front end only where it is needed)

    compiled = compile_file(path, {"LANES": str(lanes)}).require()
    program = P4Program(json=json_text(compiled.json or {}).encode(), p4info=compiled.p4info().encode(), name=str(path))
    load_program(compiled.json or {})
    _check_lanes(path, program, lanes)
    return program


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}") from None


def _check_info(path: Path, text: bytes, program: Program) -> None:
    """Raise ``ProgramError`` unless P4Info and JSON, which p4c writes together, have the same registers and sizes."""
    try:
        info = text_format.Parse(text.decode(), p4i.P4Info())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ProgramError(f"{path}: is not P4Info in text format: {' '.join(str(error).split())}") from None
    here = {register.preamble.name: register.size for register in info.registers}
    there = {name: register.size for name, register in program.registers.items()}
    differing = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
    if differing:
        raise ProgramError(
            f"{path}: P4Info and JSON do not belong together (register {differing[0]}: "
            f"{here.get(differing[0], 'no')} cells here, {there.get(differing[0], 'none')} in the JSON); "
            "give both from the same run of p4c"
        )


def _check_lanes(path: Path, program: P4Program, lanes: int) -> None:
    try:
        program_lanes = program.lanes
    except ControllerError as error:
        raise ProgramError(str(error)) from None
    if program_lanes != lanes:
        raise ProgramError(
            f"{path}: adds up {program_lanes} lanes, but the run has {lanes}: say --lanes {program_lanes}"
        )


_DEFAULTS = SwitchSettings()
VIRTUAL_DEADLINE_S: Final = 300.0
"""Deadline, seconds, for an answer of switches in virtual time. It is long because no result may depend on this
machine's load, and no answer between threads gets lost. Only a fault exceeds it, and its error names the switch."""


class ServedSwitches:
    """Devices of all switches in one process and on one port, without a controller. Use as a context manager."""

    def __init__(self, topology: Topology, *, lock: AbstractContextManager[bool] | None = None) -> None:
        self.topology = topology
        self._ids = {switch.name: index + 1 for index, switch in enumerate(topology.switches)}
        self.network: VirtualNetwork | None = None
        """Network whose virtual time the switches use; None before there is one."""
        self.learned = 0
        """Digests handed to controllers' streams."""
        self.server = P4RuntimeServer("127.0.0.1:0", clock=self._now_ns, lock=lock)
        for name, device_id in self._ids.items():
            self.server.add_device(device_id, name=name)
        self.server.start()

    def targets(self) -> list[Target]:
        """Return the P4Runtime targets of the switches, for a controller."""
        return [Target(name, self.server.address, device_id) for name, device_id in self._ids.items()]

    def load(self, program: P4Program) -> None:
        """Start every switch with a program; a controller may load another one later.

        Raises ``ControllerError`` if the switches cannot run it.
        """
        try:
            self.server.set_pipeline(self._ids.values(), program.schema.get_pipeline_config())
        except P4RuntimeError as error:
            raise ControllerError(f"{program.name}: {error.message}") from None

    def restart(self, switch: str) -> None:
        """Restart a switch: it keeps its program, but no installed entries."""
        self.server.restart(self._ids[switch])

    def devices(self) -> dict[str, Device]:
        """Return every switch's device, by name."""
        served = {name: self.server.device(device_id) for name, device_id in self._ids.items()}
        return {name: device for name, device in served.items() if device is not None}

    def report(self, network: VirtualNetwork) -> None:
        """Pass events to the controllers' streams: packets at CPU ports, digests, entries that were idle."""
        self.network = network
        for name, device_id in self._ids.items():
            for packet in network.packet_ins(name):
                self.server.packet_in(device_id, packet.frame)
            for _, digest in network.digests(name):
                self.server.learn(device_id, digest)
                self.learned += 1
        self.server.report_idle()

    def _now_ns(self) -> int:
        return 0 if self.network is None else self.network.now // 1000

    def close(self) -> None:
        """Stop serving."""
        self.server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EmbeddedSwitches(ServedSwitches):
    """Served switches with a controller that has loaded the program; ``seed`` is that of its jobs' tokens."""

    def __init__(
        self,
        topology: Topology,
        program: P4Program,
        *,
        settings: SwitchSettings = _DEFAULTS,
        lock: AbstractContextManager[bool] | None = None,
        deadline_s: float = VIRTUAL_DEADLINE_S,
        seed: int = 0,
    ) -> None:
        super().__init__(topology, lock=lock)
        try:
            self.load(program)
            self.controller = Controller(
                topology,
                self.targets(),
                program,
                settings=settings,
                deadline_s=deadline_s,
                keep=True,  # the switches have begun with the program
                token_key=seeded_key(seed),
            )
            self.controller.start()
        except BaseException:
            self.server.stop()
            raise

    def close(self) -> None:
        """Disconnect the controller and stop serving."""
        try:
            self.controller.close()
        finally:
            super().close()


def package_root() -> Path:
    """Return the folder of the package, which holds the P4 sources and the files that p4c made of them."""
    return Path(str(importlib.resources.files("p4reduce")))


# Observers of the virtual-time networks made in this process.


Observer = Callable[["JobNetwork"], None]
"""Called with a network at its time 0, before it has any job."""

_observers: list[Observer] = []


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Call ``observer`` with every network that is made inside, in whichever thread."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def announce(network: "JobNetwork") -> None:
    """Call the observers with the network."""
    for observer in _observers:
        observer(network)


# A job in the network: its plan, the endpoints of its hosts, and the operations carried so far.


@dataclass
class Job:
    """One installed plan with an endpoint for each of its hosts."""

    plan: Plan
    numbers: JobNumbers | None
    """Number format of its lanes in the network; None: hosts add float32."""
    most_lead: int | None = None
    """Chunks ahead of which exponents are agreed on; None: as many as its plan says."""
    pace_ps: int | None = None
    """Time between two chunks of a worker; None: as its plan says."""
    members: dict[str, int] = field(default_factory=dict)
    """Endpoint of each worker, by host."""
    server: int | None = None
    """Endpoint of the parameter server."""
    carried: list[tuple[Operation, int, int]] = field(default_factory=list)
    """Operation, words of a worker's array and lead of every collective so far."""
    spared: int = 0
    """Chunks for whose exponents no PUSH without lanes asked, because the previous operation had agreed on them or
    because guesses made do with fewer."""
    repeated: int = 0
    """Chunks repeated because the exponent that their workers had guessed was wrong."""
    bare: int = 0
    """Chunks of sums sent without lanes, because they are zero at all workers."""
    priority: int = field(init=False)
    """Present class at its hosts: that of its plan, until :meth:`JobNetwork.set_class`."""
    result_priority: int = field(init=False)
    """Present class at its server."""
    guessed: int = field(init=False)
    """First chunks of a sum whose exponents may be guessed; later plans do not change it."""

    def __post_init__(self) -> None:
        self.guessed = guesses_of(self.plan, self.numbers)
        self.priority = self.result_priority = self.plan.priority or 0

    @property
    def endpoints(self) -> list[int]:
        """Indices of all its endpoints."""
        return [*self.members.values(), *([] if self.server is None else [self.server])]

    def place(self, host: str, index: int) -> None:
        """Note the endpoint of a host, in the order of ``endpoint_specs``."""
        if len(self.members) < len(self.plan.workers):
            self.members[host] = index
        else:
            self.server = index

    def lead(self, operation: str, *, words: bool = False) -> int:
        """Return the number of chunks by which a collective agrees on exponents ahead.

        ``words``: its lanes are added as integers, without exponents.
        """
        sums = operation in {"all_reduce", "push", "push_pull"}
        if not sums or words or not isinstance(self.numbers, BlockFloat):
            return 0
        return self.most_lead or self.plan.lead

    def note(self, operation: str, elements: int, *, words: bool = False, bits: int = WORD_BITS) -> None:
        """Record a collective for the prediction; ``words`` as in :meth:`lead`, bits: of its lanes."""
        self.carried.append((Operation(operation), words_of(elements, bits), self.lead(operation, words=words)))

    def predicted(self) -> dict[Hop, Traffic]:
        """Predict the first transmissions of all collectives so far, on every directed link."""
        times: dict[tuple[Operation, int, int], int] = {}
        for what in self.carried:
            times[what] = times.get(what, 0) + 1
        parts = []
        for (operation, elements, lead), count in times.items():
            parts.append(_times(predict(self.plan, operation, elements, lead=lead), count))
        if self.spared or self.bare:  # one frame without lanes up, one down
            parts.append(_times(predict(self.plan, Operation.BARRIER, 1), self.bare - self.spared))
        if self.repeated or self.bare:
            parts.append(_times(predict(self.plan, Operation.ALL_REDUCE, 1, lead=0), self.repeated - self.bare))
        return add(*parts)


def parts_of(trees: Iterable[Job], elements: int, bits: int = WORD_BITS) -> list[tuple[Job, slice]]:
    """Return the trees that carry a part of an array, each with its slice. bits: of its lanes."""
    tree_parts = [(tree, tree.plan.part_of(elements, bits)) for tree in trees]
    return [(tree, part) for tree, part in tree_parts if part.start < part.stop]


def _times(traffic: Mapping[Hop, Traffic], count: int) -> dict[Hop, Traffic]:
    return {hop: Traffic(hop_traffic.frames * count, hop_traffic.bytes * count) for hop, hop_traffic in traffic.items()}


NO_FAULTS: Final = Faults()
BLOCK: Final = BlockFloat()


class JobNetwork(Closable):
    """A network whose hosts carry out jobs; it begins at time 0 without any job. Use as a context manager.

    Not thread-safe, but P4Runtime calls may come at any time. The same calls at the same virtual times give the same
    packets and bytes.

    Parameters
    ----------
    switches : ServedSwitches
        Switches of the topology, with their program. The caller owns them; another network may use them afterwards.
    faults : Faults or mapping of Faults
        Faults of all links, or by the (node, port) that a direction of a link leaves.
    queue_frames : int
        Frames of a port's queue, for each priority.
    seed : int
        Seed of the faults.
    background : Background, Requests or None
        Traffic of others, from time 0 on; None: no other traffic.
    congestion : Congestion or None
        Congestion control of all workers; None: the window of each plan, paced for its busiest link.
    threads : int or None
        Simulation threads, which change no result; None: as many as pay (``network.virtual.network.threads_for``).

    Attributes
    ----------
    endpoints : Endpoints
        Endpoints of all jobs. Indices do not change while a job is there.
    fabric : VirtualNetwork
        Links, queues, counters and the clock.
    hosts : list of str
        The host of each endpoint, by index.
    holds_arrays : bool
        Operations need the arrays that they send and receive; in the flow model their lengths are enough.
    """

    holds_arrays: Final = True

    def __init__(
        self,
        switches: ServedSwitches,
        *,
        faults: Faults | Mapping[Hop, Faults] = NO_FAULTS,
        queue_frames: int = 1024,
        seed: int = 0,
        background: "Background | Requests | None" = None,
        congestion: Congestion | None = None,
        threads: int | None = None,
    ) -> None:
        self.switches, self.topology = switches, switches.topology
        self._queue_frames, self._congestion = queue_frames, congestion
        others = None if background is None else background.endpoints(switches.topology)
        self.endpoints: Endpoints = Endpoints() if others is None else others
        sources = [] if others is None else others.hosts
        self._calls = worker_endpoints() if others is None else others.calls()
        self.hosts = list(sources)
        self._known = len(sources)  # endpoints that the fabric has
        self._reordered = False  # an endpoint of the fabric has changed its class
        self._occupants: dict[int, tuple[Job, Occupant, int]] = {}  # by job ``id``; int: ps that time-outs cover
        self._of_endpoint: dict[int, Occupant] = {}
        self._first_of: dict[int, Job] = {}
        self._speculating: dict[int, Job] = {}
        self._moved = False  # the set of active jobs has changed since workers' covers were set
        self.fabric = VirtualNetwork(
            switches.topology,
            switches.devices(),
            endpoints=self._fabric_endpoints(),
            queue_frames=queue_frames,
            faults=faults,
            seed=seed,
        )
        self.fabric.threads = threads_for(self.fabric.partitions) if threads is None else threads
        switches.network = self.fabric
        for index in range(len(sources)):
            self.fabric.start(index)
        announce(self)

    @property
    def jobs(self) -> list[Job]:
        """Present jobs, the oldest first."""
        return [job for job, _, _ in self._occupants.values()]

    @property
    def now(self) -> int:
        """Virtual time, picoseconds."""
        return self.fabric.now

    def add(
        self,
        plan: Plan,
        numbers: JobNumbers = BLOCK,
        *,
        by_batch: bool = False,
        stranger: bool = False,
        lead: int | None = None,
        server_gives: bool = False,
    ) -> Job:
        """Create the endpoint of every host of a plan. ``numbers``: how lanes add up if switches add them.

        by_batch: the job belongs to a group whose classes change with their batches. Its chunks may overtake each
        other, and its time-outs cover the frames of other jobs before its own even while all have one class.

        stranger: its senders know of no other job, and may take a wait behind jobs of its class for loss. lead: how
        many chunks ahead exponents are agreed on; None: as the plan says. server_gives: its server may contribute its
        own numbers to sums.

        After an error nothing of the job is left.
        """
        job = Job(plan, numbers if plan.in_network else None, lead)
        terms = len(plan.workers) + 1 if server_gives else None
        before = dict(
            enumerate(self.endpoints.records["priority"].tolist())
        )  # also of retired endpoints, whose index a new one takes
        try:
            timing = timing_of(plan, overtaken=True) if by_batch else None
            for host, spec in endpoint_specs(
                plan,
                job.numbers,
                queue_frames=self._queue_frames,
                timing=timing,
                congestion=self._congestion,
                lead=lead,
                terms=terms,
            ):
                try:
                    index = self.endpoints.add(spec)
                finally:
                    if len(self.endpoints) > len(self.hosts):
                        self.hosts.append(host)
                job.place(host, index)
                self._reordered |= spec.priority != before.get(index, spec.priority)
        except BaseException:
            self.retire(job)
            raise
        self._occupy(job, by_batch, knows=not stranger)
        first = next(iter(job.members.values()))
        self._first_of[first] = job
        if job.guessed:
            self._speculating[first] = job
        return job

    def set_class(self, job: Job, priority: int, results: int | None = None) -> None:
        """Set a job's class (0..7) at its hosts; switches use their own table.

        results: class of the server's frames; None: the same. Time-outs cover all classes that the job has had.
        """
        results = priority if results is None else results
        if (priority, results) == (job.priority, job.result_priority):
            return
        for index in job.members.values():
            self.endpoints.change_priority(index, priority)
        if job.server is not None:
            self.endpoints.change_priority(job.server, results)
        job.priority, job.result_priority, self._reordered = priority, results, True
        _, occupant, _ = self._occupants[id(job)]
        lowest = min(occupant.lowest, priority, results)
        highest = max(occupant.highest, priority, results)
        if (lowest, highest) != (occupant.lowest, occupant.highest):
            occupant.lowest, occupant.highest = lowest, highest
            self._cover()
        self._connect()

    @property
    def held(self) -> bool:
        """Whether a viewer may hold the network's time."""
        return self.fabric.pacer is not None

    def post(self, index: int, operation: Post, elements: int = 0) -> None:
        """Give an endpoint its next operation, which begins now. Errors as ``Endpoints.post``.

        elements: as in ``FlowJobs.post``; ignored, because packets need arrays, whose lengths count here.
        """
        del elements
        self.endpoints.post(index, operation)
        record = self.endpoints.records[index]
        chunks = operation.chunks(int(record["lanes"]))
        if index in self._first_of and record["lead"]:  # the other workers know as many
            asked = int(record["lead"] - record["known"])
            self._first_of[index].spared += min(int(record["max_lead"]), chunks) - asked
        occupant = self._of_endpoint.get(index)
        if occupant is not None and chunks > occupant.burst:
            occupant.burst = chunks
            self._cover()
        if occupant is not None and record["kind"] == EndpointKind.WORKER:
            occupant.under_way, self._moved = operation.collective, True
        self._start(index)

    def announce(self, index: int, operation: Post) -> bool:
        """Announce an endpoint's next operation, which must be posted next; see ``Endpoints.announce``."""
        return self.endpoints.announce(index, operation)

    def advance(
        self,
        until_ps: int | None = None,
        watch: Sequence[int] = (),
        *,
        first: bool = False,
        max_events: int | None = None,
        check: Callable[[], None] | None = None,
    ) -> StopReason:
        """Advance the time, and pass events at switches to the controllers.

        Arguments as in ``VirtualNetwork.run``. ``check`` is called about ten times a second; an exception from it ends
        the call between two events.
        """
        self._connect()
        self._wait_for_others()
        with self.switches.server.lock:
            reason = self.fabric.run(
                until_ps,
                watch,
                first=first,
                max_events=max_events,
                progress=None if check is None else lambda _now_ps: check(),
            )
        self.switches.report(self.fabric)
        self._note_sent()
        return reason

    def status(self, index: int) -> EndpointStatus:
        """The present status of an endpoint."""
        return self.endpoints.status(index)

    def statuses(self, job: Job) -> list[EndpointStatus]:
        """The present status of all endpoints of a job."""
        return [self.endpoints.status(index) for index in job.endpoints]

    def failure(self, indices: Sequence[int]) -> str | None:
        """Return the error of the endpoint that gave up at the latest chunk; None if none of these has given up."""
        failed_seq = self.endpoints.records["failed_seq"][list(indices)]
        last = int(failed_seq.argmax())
        return None if failed_seq[last] < 0 else self.status(indices[last]).error or "failed"

    def done_ps(self, job: Job) -> int:
        """Return when the last worker of a job had its result, picoseconds."""
        return max(int(self.endpoints.records[index]["done_at"]) for index in job.members.values())

    def sent(self) -> dict[Hop, int]:
        """Return the bytes sent on each directed link."""
        return dict(zip(self.fabric.links, self.fabric.links.array()["bytes"].tolist(), strict=True))

    def host_sent(self) -> dict[Hop, int]:
        """Return the bytes that hosts sent for jobs, on each of their links."""
        counted = self.fabric.links.array()
        sent = (counted["inc_first_bytes"] + counted["inc_resend_bytes"]).tolist()
        links = zip(self.fabric.links, sent, strict=True)
        return {hop: octets for hop, octets in links if self.topology.node(hop[0]).is_host}

    def set_faults(self, hop: Hop, faults: Faults) -> None:
        """Set a link's faults, as ``VirtualNetwork.set_faults``."""
        self.fabric.set_faults(hop, faults)

    def light(self, circuits: Iterable[Link], dark_ps: int = 0) -> None:
        """Set the circuits, after ``dark_ps`` during which changed ones are dark; as ``VirtualNetwork.reconfigure``."""
        self.fabric.reconfigure(None, circuits, None, dark_ps)

    def check_circuits(self, circuits: Iterable[Link]) -> None:
        """Raise `FabricError` for circuits that :meth:`light` would refuse."""
        self.fabric.check_circuits(circuits)

    def lost_by_circuits(self) -> tuple[int, int]:
        """Return the numbers of frames until now that met a dark port, and that reached the wrong switch."""
        counted = self.fabric.links.array()
        return int(counted["dark_lost"].sum()), int(counted["misrouted"].sum())

    # --- trees that change, and jobs that end

    def restart_seq(self, job: Job) -> int:
        """Return the oldest chunk that any worker of a job lacks, where all continue after a change of epoch."""
        return min(self.endpoints.oldest_missing(index) for index in job.members.values())

    def change_over(self, job: Job, plan: Plan) -> None:
        """Move all endpoints of a job to the next epoch, on another tree, now.

        Errors as ``Endpoints.change_peers`` and ``change_epoch``; after an error, some of the hosts may have changed.
        """
        restart, pace = self.restart_seq(job), pace_of(plan)
        for worker, index in job.members.items():
            self.endpoints.change_peers(index, link_address(plan, worker), [parent_address(plan, worker)])
            self.endpoints.change_epoch(index, plan.epoch, restart)
            self.endpoints.change_pace(index, pace)
        if job.server is not None and plan.server is not None:
            self.endpoints.change_peers(job.server, link_address(plan, plan.server), server_peers(plan))
            self.endpoints.change_epoch(job.server, plan.epoch)
        job.plan = plan
        self._occupy(job)
        for index in job.endpoints:
            self._start(index)

    def give_up(self, job: Job) -> None:
        """Stop all endpoints of a job; frames still in flight are ignored."""
        for index in job.endpoints:
            self.endpoints.give_up(index)

    def lingers(self, job: Job) -> bool:
        """Whether an endpoint of a job may still owe others an answer."""
        return bool(self.endpoints.records["lingering"][job.endpoints].any())

    def retire(self, job: Job) -> None:
        """Free the endpoints of a job; the next endpoints at these hosts take their places."""
        for index in job.endpoints:
            self.endpoints.retire(index, link_address(job.plan, self.hosts[index]))
            self._of_endpoint.pop(index, None)
            self._first_of.pop(index, None)
            self._speculating.pop(index, None)
        if self._occupants.pop(id(job), None) is not None:
            self._cover()

    def close(self) -> None:
        """Finish capture files."""
        self.fabric.close()

    # --- inside

    def _note_sent(self) -> None:
        """Record the members' counters: all members of a job send the same chunks, and the same ones without lanes."""
        for index, job in self._speculating.items():
            job.repeated = int(self.endpoints.records[index]["redone_total"])
        for index, job in self._first_of.items():
            job.bare = int(self.endpoints.records[index]["bare"])

    def _start(self, index: int) -> None:
        self._connect()
        self.fabric.start(index)

    def _occupy(self, job: Job, always: bool = False, *, knows: bool = True) -> None:
        """Record how much of the queues a new job, or a job with a new plan, may fill before others' frames."""
        records = self.endpoints.records[list(job.members.values())]
        window, room = (int(records[name].max()) for name in ("window", "room"))
        made = Occupant(job.plan, window, job.priority, job.priority, always=always, room=room, knows=knows)
        before = self._occupants.get(id(job))
        if before is not None:
            made = replace(before[1], plan=job.plan, window=window, room=room)
            self._moved = True
        self._occupants[id(job)] = job, made, 0 if before is None else before[2]
        self._of_endpoint.update(dict.fromkeys(job.endpoints, made))
        self._cover()

    def _cover(self) -> None:
        """Update the least time-outs of all jobs to cover the frames that may stand before theirs (`specs.covers`)."""
        occupants = [occupant for _, occupant, _ in self._occupants.values()]
        classes = {priority for occupant in occupants for priority in (occupant.lowest, occupant.highest)}
        plain = not any(covered or occupant.always for _, occupant, covered in self._occupants.values())
        if len(classes) == 1 and plain:
            return
        for key, (job, own, covered) in list(self._occupants.items()):
            ahead = ahead_ps(own, (other for other in occupants if other is not own))
            if ahead != covered:
                self._occupants[key] = job, own, ahead
                for index in job.members.values():
                    self.endpoints.change_timing(index, timing_of(job.plan, ahead))

    def _wait_for_others(self) -> None:
        """Update workers' covers: how long the windows of active jobs may keep their chunks waiting."""
        status = self.endpoints.records["status"]
        under_way = [(job, occupant) for job, occupant, _ in self._occupants.values() if occupant.under_way is not None]
        for job, occupant in under_way:
            if not any(status[index] == EndpointState.ACTIVE for index in job.members.values()):
                occupant.under_way, self._moved = None, True
        if not self._moved:
            return
        self._moved = False
        for (job, _), cover in zip(under_way, covers([occupant for _, occupant in under_way]), strict=True):
            for index in job.members.values():
                self.endpoints.change_cover(index, *cover)

    def _connect(self) -> None:
        """Pass new endpoints, and endpoints of another class, to the fabric."""
        if len(self.hosts) > self._known or self._reordered:
            with self.switches.server.lock:
                self.fabric.replace_endpoints(self._fabric_endpoints())
            self._known, self._reordered = len(self.hosts), False

    def _fabric_endpoints(self) -> HostEndpoints:
        return HostEndpoints(self.endpoints.records, tuple(self.hosts), self._calls)
