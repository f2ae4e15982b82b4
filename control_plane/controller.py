"""The controller: plans jobs, programs switches over P4Runtime, and reads their counters. Blocking."""

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Self

import finsy as fy
from finsy.p4entity import P4Entity

from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.control_plane.connection import (
    DIGEST,
    Channels,
    Connection,
    LoadDigest,
    LoadThresholds,
    PacketIn,
    Target,
    targets_by_name,
)
from p4reduce.control_plane.counters import SwitchCounters
from p4reduce.control_plane.entries import (
    LANE_BITS,
    PRIORITIES,
    Entity,
    P4Program,
    SwitchSettings,
    blamed,
    drawn_key,
    out_of_turn,
    tokens_of,
    who_is_missing,
)
from p4reduce.control_plane.fleet import Fleet, Found, Lookout, Sighting
from p4reduce.control_plane.plans import Plan, PlanRequest, make_plan, release_plan
from p4reduce.control_plane.plans.routes import LANE_BYTES
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4switch.base.closing import Closable
from p4switch.base.event_loop import EventLoopThread


class Controller(Closable):
    """Programs every switch of a topology with one P4 program.

    Use it as a context manager, or call :meth:`start` and :meth:`close`. Methods block, may be called from any thread,
    and give up at the deadline with an error that names the switch.

        with Controller(topology, targets, program) as controller:
            plan = controller.start_job(PlanRequest("steiner", job=1))
            ...
            controller.uninstall(plan)

    Parameters
    ----------
    topology : Topology
        The network.
    targets : iterable of Target
        The P4Runtime address of each switch.
    program : P4Program
        The program of the switches; it defines the lanes, slots and counters of jobs.
    settings : SwitchSettings
        ECN threshold and sampling of refused packets.
    deadline_s : float
        Seconds within which a switch must answer; large requests get more time, by their size.
    first_generation : int
        Generation of the first plan: above all generations that these switches have seen, if they kept running.
    election_id : int
        P4Runtime's election id: the controller with the highest id is in charge.
    keep : bool
        Whether switches that run the program already keep their entries, and get only those base entries (own address,
        hosts, routes) that are missing or wrong. A restarted controller uses it, and takes over plans with
        :meth:`adopt`.
    slots : int or None
        Slots of every switch that jobs may use; None: all of the program's slots.
    token_key : bytes or None
        Key of the plans' tokens, at most 64 bytes; None: a random key. Virtual time needs the same key in every run.
    growth_bytes : int or None
        Bytes by which a switch can lengthen a packet; None: any number. A switch that cannot answer a question with a
        full frame asks for no frames lost on its links.

    Raises
    ------
    ControllerError
        When the program is not the project's, or targets and switches do not match.
    """

    def __init__(
        self,
        topology: Topology,
        targets: Iterable[Target],
        program: P4Program,
        *,
        settings: SwitchSettings = SwitchSettings(),  # noqa: B008  (immutable)
        deadline_s: float = 10.0,
        first_generation: int = 1,
        election_id: int = 1,
        keep: bool = False,
        slots: int | None = None,
        token_key: bytes | None = None,
        growth_bytes: int | None = None,
    ) -> None:
        if slots is not None and not 2 <= slots <= program.slots:
            raise ControllerError(f"slots: {slots}, must be 2..{program.slots}, those of the program's switches")
        self.topology = topology
        self.targets = targets_by_name(targets, [switch.name for switch in topology.switches])
        self.program = program
        self._settings = settings
        self._deadline_s = deadline_s
        self._election_id = election_id
        self._keep = keep
        self._token_key = drawn_key() if token_key is None else token_key
        self._gaps = growth_bytes is None or LANE_BYTES * program.lanes <= growth_bytes
        self.resources = Resources(program.slots if slots is None else slots, first_generation, program.counted_jobs)
        self._installed: dict[tuple[int, int], Plan] = {}
        self._lock = threading.RLock()
        self._loop: EventLoopThread | None = None
        self._fleet: Fleet | None = None

    @property
    def installed(self) -> tuple[Plan, ...]:
        """The plans that are installed now."""
        return tuple(self._installed.values())

    @property
    def read_bytes(self) -> int:
        """Bytes of all P4Runtime reads and their answers so far, as serialized messages without transport headers."""
        with self._lock:
            return self._run_fleet()[1].read_bytes

    def start(self) -> None:
        """Connect to every switch, load the program, install base entries. `ControllerError` names a failed switch."""
        with self._lock:
            if self._loop is not None:
                raise ControllerError("the controller runs already")
            self._loop = EventLoopThread("p4reduce-controller")
            try:
                self._fleet = self._loop.run(self._open())
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Disconnect; the switches keep what is installed. No effect if the controller does not run."""
        with self._lock:
            loop, fleet = self._loop, self._fleet
            self._loop = self._fleet = None
            if loop is not None:
                try:
                    if fleet is not None:
                        loop.run(fleet.close())
                finally:
                    loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def plan(self, request: PlanRequest, view: Topology | None = None) -> Plan:
        """Lay out a job and take its resources; then :meth:`install` or :meth:`release` it. Raises `PlanError`.

        The plan has the program's lanes; a request for other lanes is refused. view: the lit part of the topology
        (:func:`~p4reduce.topologies.optical.view`).
        """
        lanes = self.program.lanes
        if request.lanes not in (None, lanes):
            raise PlanError(f"lanes: {request.lanes}, but the switches run {self.program.name}, which adds up {lanes}")
        with self._lock:
            plan = make_plan(self.topology if view is None else view, replace(request, lanes=lanes), self.resources)
            return replace(plan, tokens=tokens_of(plan, self._token_key), gaps=self._gaps)

    def check_lane_bits(self, bits: int) -> None:
        """Raise `PlanError` if the switches' program has no lanes of ``bits`` bits (``docs/protocol.md``)."""
        if bits != LANE_BITS and not self.program.narrow:
            raise PlanError(
                f"lane_bits: {bits}, but the switches run {self.program.name}, which adds up lanes of {LANE_BITS} bits "
                "only: its header has no field 'width' (INC version 2); choose 32, or a program that has it"
            )

    def release(self, plan: Plan) -> None:
        """Release the resources of a plan that is not installed."""
        with self._lock:
            if self._installed.get((plan.job, plan.epoch)) is plan:
                raise ControllerError(f"job {plan.job} epoch {plan.epoch} is installed; uninstall it")
            release_plan(plan, self.resources)

    def look(self, switches: Collection[str] | None = None) -> Found:
        """Find switches that were restarted since their installation, or do not answer; by default look at all.

        Each switch has a nonce among its entries, which a restart removes. A stream that has ended is opened again
        first. Call :meth:`restore` for restarted switches; plans that use them must continue in a new epoch.
        """
        with self._lock:
            loop, fleet = self._run_fleet()
            return loop.run(fleet.look(self.targets if switches is None else switches))

    def restore(self, switch: str) -> None:
        """Install a restarted switch's base entries again; `ControllerError` when it does not answer."""
        with self._lock:
            loop, fleet = self._run_fleet()
            loop.run(fleet.restore(switch))

    def look_out(self, tell: Callable[[Sighting], None]) -> Lookout:
        """Look at all switches periodically, and :meth:`restore` restarted ones, until the lookout is closed.

        ``tell`` is called for each restarted or silent switch, in a thread of the controller; it must not block. Other
        methods may be called meanwhile.
        """
        with self._lock:
            return Lookout(*self._run_fleet(), tuple(self.targets), tell)

    def install(self, plan: Plan) -> None:
        """Program the switches with a plan. Only adds entries; after an error none of them is left.

        Raises
        ------
        ControllerError
            Names the switch, the table and the entry; or the (job, epoch) is taken, or the plan has other lanes than
            the program.
        """
        if plan.lanes != self.program.lanes:
            raise ControllerError(
                f"job {plan.job} epoch {plan.epoch} has {plan.lanes} lanes, the program of the switches adds up "
                f"{self.program.lanes}"
            )
        with self._lock:
            key = (plan.job, plan.epoch)
            if key in self._installed:
                raise ControllerError(f"job {plan.job} epoch {plan.epoch} is installed already; use the next epoch")
            loop, fleet = self._run_fleet()
            loop.run(fleet.install(plan))
            self._installed[key] = plan

    def adopt(self, plan: Plan) -> None:
        """Take over a plan that an earlier controller installed, wholly or in part; writes nothing.

        Raises
        ------
        ControllerError
            The (job, epoch) is installed.
        PlanError
            A switch has given the plan's resources to another plan.
        """
        with self._lock:
            key = (plan.job, plan.epoch)
            if key in self._installed:
                raise ControllerError(f"job {plan.job} epoch {plan.epoch} is installed already")
            _, fleet = self._run_fleet()
            self.resources.adopt(plan.grant)
            fleet.adopt(plan)
            self._installed[key] = plan

    def read(self, entities: Sequence[P4Entity]) -> dict[str, list[P4Entity]]:
        """Read these P4Runtime entities from every switch; returns the answers by switch."""
        with self._lock:
            loop, fleet = self._run_fleet()
            return loop.run(fleet.read(entities))

    def insert(self, switch: str, entries: Sequence[Entity]) -> None:
        """Add entries that belong to no plan to a switch, in this order."""
        with self._lock:
            loop, fleet = self._run_fleet()
            loop.run(fleet.at(switch).insert(entries))

    def modify(self, switch: str, entries: Sequence[fy.P4TableEntry]) -> None:
        """Change the actions of a switch's entries that belong to no plan."""
        with self._lock:
            loop, fleet = self._run_fleet()
            loop.run(fleet.at(switch).modify(entries))

    def delete(self, switch: str, entries: Sequence[Entity]) -> None:
        """Remove entries that belong to no plan from a switch, in this order."""
        with self._lock:
            loop, fleet = self._run_fleet()
            loop.run(fleet.at(switch).delete(entries))

    def uninstall(self, plan: Plan, lost: Collection[str] = ()) -> None:
        """Remove a plan and release its resources. Only deletes entries; ``lost`` switches are not contacted."""
        with self._lock:
            if self._installed.get((plan.job, plan.epoch)) is not plan:
                raise ControllerError(f"this plan of job {plan.job} epoch {plan.epoch} is not installed")
            loop, fleet = self._run_fleet()
            loop.run(fleet.uninstall(plan, lost))
            del self._installed[(plan.job, plan.epoch)]
            release_plan(plan, self.resources)

    def change_priority(self, plan: Plan, priority: int, results: int | None = None) -> int:
        """Move the packets of an installed plan's job, in all its epochs, to another queue (0..7).

        results: the queue of its RESULTs (sent down the tree); None: ``priority``. Returns the number of entries
        written in the switches on its paths. The plan must have been installed with a priority.
        """
        for value in (priority, *(() if results is None else (results,))):
            if not 0 <= value < PRIORITIES:
                raise ControllerError(f"priority: {value}, must be 0..{PRIORITIES - 1}")
        with self._lock:
            if self._installed.get((plan.job, plan.epoch)) is not plan or plan.priority is None:
                raise ControllerError(f"job {plan.job} epoch {plan.epoch} is not installed with a priority")
            loop, fleet = self._run_fleet()
            return loop.run(fleet.change_priority(plan, priority, priority if results is None else results))

    def install_idle(self, plans: Sequence[Plan]) -> None:
        """Install several plans of jobs that send nothing yet, with far fewer writes than one at a time.

        The counter cells of the jobs are not reset. A job with a priority must be new, and in one of the plans only.
        Raises the errors of :meth:`install`; after an error no entries of the plans are left.
        """
        with self._lock:
            for plan in plans:
                if (plan.job, plan.epoch) in self._installed:
                    raise ControllerError(f"job {plan.job} epoch {plan.epoch} is installed already")
            loop, fleet = self._run_fleet()
            loop.run(fleet.install_idle(plans))
            self._installed.update({(plan.job, plan.epoch): plan for plan in plans})

    def uninstall_idle(self, plans: Sequence[Plan]) -> None:
        """Remove several plans of jobs that no longer send, at once, and release their resources."""
        with self._lock:
            loop, fleet = self._run_fleet()
            loop.run(fleet.uninstall_idle(plans))
            for plan in plans:
                del self._installed[(plan.job, plan.epoch)]
                release_plan(plan, self.resources)

    def start_job(self, request: PlanRequest, view: Topology | None = None) -> Plan:
        """Call :meth:`plan` and :meth:`install`; after an error nothing is taken."""
        with self._lock:
            plan = self.plan(request, view)
            try:
                self.install(plan)
            except BaseException:
                release_plan(plan, self.resources)
                raise
            return plan

    def read_counters(self, switches: Sequence[str] | None = None) -> dict[str, SwitchCounters]:
        """Read the counters of switches (by default of all), with the cells of all installed plans."""
        with self._lock:
            loop, fleet = self._run_fleet()
            names = list(self.targets) if switches is None else list(switches)
            return loop.run(fleet.read_counters(self.installed, names))

    def who_is_missing(self, plan: Plan, seq: int) -> str:
        """Explain which contributions chunk ``seq`` waits for, from the switches' slots; one line for each switch."""
        return who_is_missing(plan, seq, self._read_cell)

    def blamed(self, plan: Plan, seq: int) -> frozenset[str]:
        """The workers and switches that chunk ``seq`` waits for (:func:`~p4reduce.control_plane.entries.blamed`)."""
        return blamed(plan, seq, self._read_cell)

    def out_of_turn(self, plan: Plan, seqs: Collection[int], *, pulls: bool) -> frozenset[str]:
        """Workers that block other workers' slots (:func:`~p4reduce.control_plane.entries.out_of_turn`)."""
        return out_of_turn(plan, seqs, self._read_cell, pulls=pulls)

    def watch(self, thresholds: LoadThresholds, hops: Collection[Hop]) -> None:
        """Let switches report the load of directed links (switch, port). May be called once.

        ``ControllerError`` when the program cannot watch links (`p4reduce.network.jobs.network.watching` builds one).
        """
        if not any(digest.preamble.alias == DIGEST for digest in self.program.info.digests):
            raise ControllerError(f"{self.program.name}: does not watch links; use the build of p4src/watching.p4")
        with self._lock:
            loop, fleet = self._run_fleet()
            loop.run(fleet.watch(thresholds, hops))

    def link_loads(self, at_least: int = 0) -> list[LoadDigest]:
        """Link loads that switches have reported since the last call, in order for each switch.

        Waits up to the deadline until ``at_least`` digests have come since the start, for callers that know how many
        were sent.
        """
        with self._lock:
            loop, fleet = self._run_fleet()
            try:
                return loop.run(asyncio.wait_for(fleet.take_loads(at_least), self._deadline_s))
            except TimeoutError:
                raise ControllerError(f"of {at_least} digests some did not come in {self._deadline_s:.3g} s") from None

    @property
    def told_bytes(self) -> int:
        """Bytes of all link load digests so far, as serialized messages without transport headers."""
        with self._lock:
            return self._run_fleet()[1].told_bytes

    def packet_ins(self) -> list[PacketIn]:
        """Refused packets that switches have sent since the last call (sampled by the program)."""
        with self._lock:
            loop, fleet = self._run_fleet()
            return loop.run(fleet.take_packets())

    def _read_cell(self, switch: str, index: int) -> int | None:
        with self._lock:
            loop, fleet = self._run_fleet()
            return loop.run(fleet.read_register(switch, "slots", index))

    async def _open(self) -> Fleet:
        channels = Channels()
        connections = {
            name: Connection(
                target,
                self.program.schema,
                deadline_s=self._deadline_s,
                election_id=self._election_id,
                channels=channels,
            )
            for name, target in self.targets.items()
        }
        fleet = Fleet(self.topology, connections)
        try:
            await fleet.open(self._settings, keep=self._keep)
        except BaseException:
            await fleet.close()
            raise
        return fleet

    def _run_fleet(self) -> tuple[EventLoopThread, Fleet]:
        if self._loop is None or self._fleet is None:
            raise ControllerError("the controller does not run: call start() first, or use it in a 'with' statement")
        return self._loop, self._fleet


__all__ = ["Controller", "PlanError", "Target"]
