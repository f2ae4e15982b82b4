"""All targets of a network, async: writes to several switches run in parallel."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import finsy as fy
from finsy.p4entity import P4Entity

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane import counters
from p4reduce.control_plane.connection import (
    Connection,
    LoadDigest,
    LoadThresholds,
    PacketIn,
    digest_entry,
    watch_entries,
)
from p4reduce.control_plane.counters import SwitchCounters
from p4reduce.control_plane.entries import (
    BASE_TABLES,
    Entity,
    SwitchSettings,
    base_entries,
    dscp_entries,
    fingerprint,
    key,
    plan_entries,
    priority_entry,
    results_entry,
    settings_entry,
    switches_on_paths,
    wildcards,
)
from p4reduce.control_plane.plans.plan import Plan
from p4reduce.control_plane.plans.routes import BaseRoutes
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4switch.base.closing import Closable
from p4switch.base.event_loop import EventLoopThread

# Detection of restarted switches: a restart removes a random number (nonce) that is stored as a table entry.


LOOK_MS: Final = 250
"""real time in ms between two looks at a switch"""
_DROP_PORT: Final = 511
"""BMv2's drop port"""


@dataclass(frozen=True)
class Found:
    """The result of a look at switches."""

    restarted: tuple[str, ...]
    """switches that were restarted: their entries are gone, and their slots have been reset"""
    silent: Mapping[str, str]
    """switches that do not answer, with the reason"""


def new_nonce() -> int:
    """A random number for one installation, never 0."""
    return 1 + secrets.randbelow((1 << 48) - 1)


def nonce_entry(nonce: int = 0) -> fy.P4TableEntry:
    """The entry that stores a nonce of 48 bits; reads and deletions ignore the number.

    It is a route to 0.0.0.0, the address of no host (RFC 1122, 3.2.1.3), with the nonce as MAC address and a drop port.
    """
    match = fy.P4TableMatch({"hdr.ipv4.dst": (0, 32)})
    return fy.P4TableEntry("route", match=match, action=fy.P4TableAction("next_hop", port=_DROP_PORT, mac=nonce))


def nonce_of(entries: Iterable[P4Entity]) -> int | None:
    """The nonce among entries that were read; None if it is missing."""
    ours = key(nonce_entry())
    for entry in entries:
        if isinstance(entry, fy.P4TableEntry) and isinstance(entry.action, fy.P4TableAction) and key(entry) == ours:
            mac = entry.action.args["mac"]
            return mac if isinstance(mac, int) else None
    return None


R = TypeVar("R")
Work = Callable[[str], Coroutine[Any, Any, R]]

_AT_ONCE: Final = 16
"""largest number of switches worked on at once, so that hundreds in one process answer within their deadlines"""


class Fleet:
    """Programs switches. Everything is async and must stay on one event loop."""

    def __init__(self, topology: Topology, connections: Mapping[str, Connection]) -> None:
        self._topology = topology
        self._connections = connections
        self._priorities: dict[tuple[str, int], tuple[int, int]] = {}  # (switch, job): priority, epochs
        self._results: dict[tuple[str, int], int] = {}  # (switch, job): priority of RESULTs, if different
        self._nonces: dict[str, int] = {}
        self._looking = {switch: asyncio.Lock() for switch in connections}
        self._watched: dict[str, list[Entity]] = {}
        self._settings = SwitchSettings()
        self._routes = BaseRoutes(topology)

    @property
    def read_bytes(self) -> int:
        """Bytes of all reads and their answers so far, serialized."""
        return sum(connection.read_bytes for connection in self._connections.values())

    async def open(self, settings: SwitchSettings, *, keep: bool = False) -> None:
        """Connect to all switches, load the program, install settings and base entries.

        With ``keep`` a switch that runs the program already keeps the entries of plans, and the base entries that are
        right; only missing base entries are added.
        """
        self._settings = settings

        async def start(switch: str) -> None:
            await self._furnish(switch, kept=await self._connections[switch].open(keep=keep))

        await self._each(self._connections, start)

    async def _furnish(self, switch: str, *, kept: bool) -> None:
        """Write settings and base entries, the nonce last; ``kept``: the switch may have some of them."""
        connection = self._connections[switch]
        await connection.modify([settings_entry(self._settings)])
        classes = dscp_entries(self._settings)
        tables = (*BASE_TABLES, "dscp_class") if classes else BASE_TABLES  # other programs may lack it
        present = await connection.read(wildcards(tables)) if kept else []
        nonce = nonce_of(present) or new_nonce()
        entries = (*classes, *base_entries(self._topology, switch, self._routes.of(switch)), nonce_entry(nonce))
        there = {fingerprint(entry) for entry in present}
        wanted = {fingerprint(entry) for entry in entries}
        # Wrong entries are removed first, since the right entry may have the same key.
        wrong = [entry for entry in present if isinstance(entry, Entity) and fingerprint(entry) not in wanted]
        await connection.delete(wrong)
        await connection.insert([entry for entry in entries if fingerprint(entry) not in there])
        self._nonces[switch] = nonce

    async def look(self, switches: Iterable[str]) -> Found:
        """Read the nonces of switches, over a new stream if the old one has ended."""
        restarted, silent = list[str](), dict[str, str]()

        async def look(switch: str) -> None:
            try:
                if await self.began_anew(switch):
                    restarted.append(switch)
            except ControllerError as error:
                silent[switch] = str(error)

        await self._each(switches, look)
        return Found(tuple(sorted(restarted)), silent)

    async def began_anew(self, switch: str) -> bool:
        """Whether a switch has lost its nonce; `ControllerError` when it does not answer."""
        connection = self._connections[switch]
        async with self._looking[switch]:
            await connection.reopen()
            return nonce_of(await connection.read([nonce_entry()])) != self._nonces[switch]

    async def restore(self, switch: str) -> None:
        """Restore a restarted switch: base entries, jobs' traffic classes, and watched links."""
        connection = self._connections[switch]
        async with self._looking[switch]:
            await self._furnish(switch, kept=True)
        jobs = [(job, level) for (at, job), (level, _) in self._priorities.items() if at == switch]
        wanted: list[Entity] = [priority_entry(job, level) for job, level in jobs]
        wanted += [results_entry(job, level) for (at, job), level in self._results.items() if at == switch]
        present = await connection.read(wildcards(["traffic_class"])) if wanted else []
        there = {fingerprint(entry) for entry in present}
        await connection.insert([entry for entry in wanted if fingerprint(entry) not in there])
        if switch in self._watched:
            await connection.subscribe(digest_entry())
            await connection.insert(self._watched[switch])

    async def close(self) -> None:
        """Disconnect from all switches."""
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))

    async def install(self, plan: Plan) -> None:
        """Install a plan; on failure remove the added entries from all switches that answer.

        All entries that have no effect alone are written first, to all switches; then table `job`, which admits the
        job's packets, level by level from the root, so that no parent refuses a partial sum.
        """
        entries = plan_entries(plan)
        done: list[tuple[str, Sequence[Entity]]] = []

        async def add(switch: str, what: Sequence[Entity]) -> None:
            await self._connections[switch].insert(what)
            done.append((switch, what))

        async def prepare(switch: str) -> None:
            if switch in plan.by_switch:
                await self._connections[switch].modify(counters.resets(plan))
            await add(switch, entries[switch].prepare)

        async def prioritize(switch: str) -> None:
            await add(switch, [priority_entry(plan.job, plan.priority or 0)])

        async def activate(switch: str) -> None:
            await add(switch, entries[switch].activate)

        self._check_priority(plan)
        try:
            await self._each(entries, prepare)
            await self._each(self._unclassified(plan), prioritize)
            for level in _levels(plan):
                await self._each(level, activate)
        except (ControllerError, asyncio.CancelledError):
            await self._undo(done)
            raise
        self._count_priority(plan, 1)

    def adopt(self, plan: Plan) -> None:
        """Take over a plan that an earlier controller installed, wholly or in part."""
        self._count_priority(plan, 1)

    async def read(self, entities: Sequence[P4Entity]) -> dict[str, list[P4Entity]]:
        """Read entities from every switch; returns the answers by switch."""

        async def read(switch: str) -> tuple[str, list[P4Entity]]:
            return switch, await self._connections[switch].read(entities)

        return dict(await self._each(self._connections, read))

    def at(self, switch: str) -> Connection:
        """The connection to one switch, for entries of no plan."""
        return self._connections[switch]

    async def uninstall(self, plan: Plan, lost: Collection[str] = ()) -> None:
        """Remove a plan: first table `job`, from the leaves up, then the rest; missing entries are no error.

        ``lost`` switches are not contacted.
        """
        entries = plan_entries(plan)

        async def deactivate(switch: str) -> None:
            await self._connections[switch].delete(entries[switch].activate)

        async def remove(switch: str) -> None:
            await self._connections[switch].delete(entries[switch].prepare)

        there = [switch for switch in entries if switch not in lost]
        for level in reversed(_levels(plan)):
            await self._each([switch for switch in level if switch not in lost], deactivate)

        async def unclassify(switch: str) -> None:
            entries: list[Entity] = [priority_entry(plan.job, plan.priority or 0)]
            results = self._results.pop((switch, plan.job), None)
            if results is not None:
                entries.append(results_entry(plan.job, results))
            await self._connections[switch].delete(entries)

        await self._each(there, remove)
        await self._each([switch for switch in self._classified_alone(plan) if switch not in lost], unclassify)
        self._count_priority(plan, -1)

    async def change_priority(self, plan: Plan, priority: int, results: int) -> int:
        """Give a plan's job other priorities in all switches on its paths; returns the number of entries written."""

        async def change(switch: str) -> int:
            connection, key = self._connections[switch], (switch, plan.job)
            before, users = self._priorities[key]
            apart = self._results.get(key)  # queue of RESULTs; None if it is that of all packets
            written = 0
            if before != priority:
                await connection.modify([priority_entry(plan.job, priority)])
                self._priorities[key], written = (priority, users), written + 1
            if apart is not None and results == priority:
                await connection.delete([results_entry(plan.job, apart)])
                del self._results[key]
                written += 1
            elif results not in (priority, apart):
                write = connection.insert if apart is None else connection.modify
                await write([results_entry(plan.job, results)])
                self._results[key], written = results, written + 1
            return written

        return sum(await self._each(switches_on_paths(plan), change))

    async def install_idle(self, plans: Sequence[Plan]) -> None:
        """Install plans of jobs that send nothing yet, with one write for each switch, in any order among switches.

        A job with a priority must be new to its switches, and in one of the plans only. Counter cells are not reset. On
        failure the entries of the plans are removed from all switches that answer.
        """
        done: list[tuple[str, Sequence[Entity]]] = []

        async def add(switch: str) -> None:
            await self._connections[switch].insert(merged[switch])
            done.append((switch, merged[switch]))

        jobs = [plan.job for plan in plans]
        for plan in plans:
            known = any((switch, plan.job) in self._priorities for switch in switches_on_paths(plan))
            if plan.priority is not None and (known or jobs.count(plan.job) > 1):
                raise ControllerError(f"job {plan.job}: epochs of a job with a priority are installed one by one")
        merged = _merged(plans)
        try:
            await self._each(merged, add)
        except (ControllerError, asyncio.CancelledError):
            await self._undo(done)
            raise
        for plan in plans:
            self._count_priority(plan, 1)

    async def uninstall_idle(self, plans: Sequence[Plan]) -> None:
        """Remove plans of jobs that no longer send, with one write for each switch."""
        merged = _merged(plans)

        async def remove(switch: str) -> None:
            await self._connections[switch].delete(merged[switch])

        await self._each(merged, remove)
        for plan in plans:
            self._count_priority(plan, -1)

    async def read_counters(self, plans: Sequence[Plan], switches: Iterable[str]) -> dict[str, SwitchCounters]:
        """Read the counters of some switches, with the cells of these plans."""

        async def read(switch: str) -> tuple[str, SwitchCounters]:
            wanted: list[P4Entity] = counters.requests(self._topology, switch, plans)
            entities = await self._connections[switch].read(wanted)
            return switch, counters.collect(switch, plans, entities)

        return dict(await self._each(switches, read))

    async def read_register(self, switch: str, register: str, index: int) -> int | None:
        """Read one cell of a register; None when the target cannot read registers."""
        return await self._connections[switch].read_register(register, index)

    async def watch(self, thresholds: LoadThresholds, hops: Collection[Hop]) -> None:
        """Let switches report these links from now on; may be called once."""
        entries = watch_entries(self._topology, thresholds, hops)

        async def begin(switch: str) -> None:
            await self._connections[switch].subscribe(digest_entry())
            await self._connections[switch].insert(entries[switch])
            self._watched[switch] = list(entries[switch])

        await self._each(entries, begin)

    async def take_loads(self, at_least: int) -> list[LoadDigest]:
        """Take the loads reported since the last call, after waiting for ``at_least`` digests since the start."""
        own = self._connections.values()
        while sum(connection.told for connection in own) < at_least:
            for connection in own:
                connection.check("waiting for digests")
                connection.tells.clear()
            waits = [asyncio.ensure_future(connection.tells.wait()) for connection in own]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        loads: list[LoadDigest] = []
        for connection in own:
            loads.extend(connection.loads)
            connection.loads.clear()
        return loads

    @property
    def told_bytes(self) -> int:
        """Bytes of all digests so far, serialized."""
        return sum(connection.told_bytes for connection in self._connections.values())

    async def take_packets(self) -> list[PacketIn]:
        """Take the refused packets that switches have sent since the last call."""
        packets: list[PacketIn] = []
        for connection in self._connections.values():
            packets.extend(connection.packets)
            connection.packets.clear()
        return packets

    async def _undo(self, done: Sequence[tuple[str, Sequence[Entity]]]) -> None:
        """Remove the entries of a failed installation, last first; errors are ignored, as the first one is reported."""
        for switch, what in reversed(done):
            with contextlib.suppress(ControllerError):
                await self._connections[switch].delete(what)

    def _check_priority(self, plan: Plan) -> None:
        for switch in switches_on_paths(plan):
            others = self._priorities.get((switch, plan.job), (plan.priority, 0))
            if plan.priority is not None and others[0] != plan.priority:
                raise ControllerError(
                    f"job {plan.job} has priority {others[0]} in an epoch still installed, not {plan.priority}; "
                    "a job has one priority at a time"
                )

    def _unclassified(self, plan: Plan) -> list[str]:
        """Switches on a plan's paths where no installed epoch of its job uses the job's traffic class."""
        if plan.priority is None:
            return []
        return [switch for switch in switches_on_paths(plan) if (switch, plan.job) not in self._priorities]

    def _classified_alone(self, plan: Plan) -> list[str]:
        """Switches where a plan is the last of its job's epochs that uses the traffic class."""
        if plan.priority is None:
            return []
        return [switch for switch in switches_on_paths(plan) if self._priorities[(switch, plan.job)][1] == 1]

    def _count_priority(self, plan: Plan, change: int) -> None:
        """Count the epochs of a job that use its traffic class: the first adds the entry, the last removes it."""
        for switch in switches_on_paths(plan) if plan.priority is not None else ():
            key = (switch, plan.job)
            users = self._priorities.get(key, (plan.priority, 0))[1] + change
            if users > 0:
                self._priorities[key] = (plan.priority or 0, users)
            else:
                self._priorities.pop(key, None)

    @staticmethod
    async def _each(switches: Iterable[str], work: Work[R]) -> list[R]:
        """Do the same work at several switches; all have finished when the first error is raised."""
        turn = asyncio.Semaphore(_AT_ONCE)

        async def take_turn(switch: str) -> R:
            async with turn:
                return await work(switch)

        outcomes = await asyncio.gather(*(take_turn(switch) for switch in switches), return_exceptions=True)
        done: list[R] = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            done.append(outcome)
        return done


def _merged(plans: Sequence[Plan]) -> dict[str, list[Entity]]:
    """All entries of several plans by switch."""
    merged: dict[str, list[Entity]] = {}
    for plan in plans:
        for switch, own in plan_entries(plan).items():
            merged.setdefault(switch, []).extend((*own.prepare, *own.activate))
        for switch in switches_on_paths(plan) if plan.priority is not None else ():
            merged.setdefault(switch, []).append(priority_entry(plan.job, plan.priority or 0))
    return merged


def _levels(plan: Plan) -> list[list[str]]:
    """Aggregators by level, root first."""
    levels: list[list[str]] = []
    for aggregator in plan.aggregators:
        while len(levels) <= aggregator.level:
            levels.append([])
        levels[aggregator.level].append(aggregator.name)
    return levels


# Periodic looks of a controller at its switches, to find switches that were restarted or do not answer.


LOOK_S: Final = LOOK_MS / 1000
SILENT_S: Final = 1.0
"""seconds without an answer after which a switch counts as silent; also the time-out of a look"""


@dataclass(frozen=True)
class Sighting:
    """An event of a switch: 'anew': it was restarted, and has its base entries again; 'silent': it has not answered for
    ``SILENT_S``; 'answers': it answers after a silence, with all of its entries.
    """

    switch: str
    what: Literal["anew", "silent", "answers"]
    why: str = ""
    """reason why the switch is silent; '' for other events"""


class Lookout(Closable):
    """Reads the nonce of each switch every ``LOOK_S``, over a new stream if the old one has ended.

    It runs beside the controller's other work. Use it as a context manager, or :meth:`close` it before the controller.
    """

    def __init__(
        self, loop: EventLoopThread, fleet: Fleet, switches: Sequence[str], tell: Callable[[Sighting], None]
    ) -> None:
        self._loop, self._fleet, self._tell = loop, fleet, tell
        self._ended = False
        self._following = loop.run(self._start(switches))

    def close(self) -> None:
        """Stop looking; may be called again."""
        self._loop.run(self._stop())

    async def _start(self, switches: Sequence[str]) -> list["asyncio.Task[None]"]:
        return [asyncio.create_task(self._follow(switch)) for switch in switches]

    async def _stop(self) -> None:
        self._ended = True
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)

    async def _follow(self, switch: str) -> None:
        answered, silent = time.monotonic(), False
        while not self._ended:
            await asyncio.sleep(LOOK_S)
            why = await self._look(switch)
            if why is None:
                if silent:
                    self._tell(Sighting(switch, "answers"))
                answered, silent = time.monotonic(), False
            elif not silent and time.monotonic() >= answered + SILENT_S:
                self._tell(Sighting(switch, "silent", why))
                silent = True

    async def _look(self, switch: str) -> str | None:
        """Restore the switch if it was restarted; returns why it did not answer, or None."""
        try:
            async with asyncio.timeout(SILENT_S):
                anew = await self._fleet.began_anew(switch)
            if anew:
                await self._fleet.restore(switch)
                self._tell(Sighting(switch, "anew"))
        except ControllerError as error:
            return str(error)
        except TimeoutError:
            return f"switch {switch}: no answer within {SILENT_S:g} s"
        return None
