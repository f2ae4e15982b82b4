"""A network in virtual time that a student's controller takes over from an older controller to run jobs."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Final, Protocol, Self

import finsy as fy
import numpy as np
from finsy.p4entity import P4Entity
from numpy.typing import NDArray

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.connection import Connection, Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.counters import REASONS, Traffic, add, compare_links
from p4reduce.control_plane.entries import Entity, P4Program, SlotState, key, wildcards
from p4reduce.control_plane.plans import Plan, PlanRequest, make_plan
from p4reduce.control_plane.plans.problem import TreeLayout
from p4reduce.control_plane.resources import Resources
from p4reduce.network.jobs.network import VIRTUAL_DEADLINE_S, Job, JobNetwork, ServedSwitches, bundled
from p4reduce.network.virtual import Faults, StopReason
from p4reduce.topologies import Topology
from p4reduce.topologies.datacenter import TopologyBuilder
from p4reduce.topologies.model import Hop
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from p4reduce.workers.wire import PacketType, headers, pack
from p4reduce_course.controllers.diagnose import Book, entry_key, replicas_of
from p4reduce_course.frame.lab import Draws, GradingTask
from p4reduce_course.frame.report import LOOK, TooSlow, Wrong, counted
from p4reduce_course.python_code import kept_by
from p4reduce_course.python_trail import EntryPlace, WrongEntry
from p4reduce_course.sandbox.messages import Remote
from p4reduce_course.sandbox.process import StudentCode, Untold
from p4switch.base.event_loop import EventLoopThread
from p4switch.base.values import PS_PER_MS, PS_PER_US
from p4switch.tables import Lpm, Match

# ``p4rt``: the calls of a student's controller. Each call goes to the switch's own P4Runtime server, over gRPC.
#
# The student's process has no network; the grader's process holds the connections and passes on the answers.


CALLS: Final = 2_000
"""most calls of one controller; a correct controller makes hundreds"""
PATIENCE: Final = 8
"""most calls to one dead switch, of 1 ms each; a controller that makes more waits for ever"""
AGAIN: Final = 2
"""most calls of the student's functions that ask one dead switch: a write may fail before a question finds it dead"""
_WRITES: Final = frozenset({"insert", "delete"})
_ENTRIES: Final = 4096
"""most entries of one call"""
_DEADLINE_S: Final = VIRTUAL_DEADLINE_S
"""time limit of a call; the switch is in this process, so only a stalled machine reaches it"""
_UNDONE: Final = re.compile(r"\b(?:CANCELLED|DEADLINE_EXCEEDED|UNAVAILABLE|no answer within|the stream ended)\b")
"""in errors of calls that a switch of this process has not answered, which it always does in time"""
_KEYS: Final = ({"table", "match", "action", "params"}, {"group", "replicas"})
_NONCE: Final = (Lpm(0, 32),)
"""key of the restart entry of ``p4reduce.control_plane.fleet``, whose number differs from run to run"""
_SHAPE: Final = "an entry is {'table', 'match', 'action', 'params'} or {'group', 'replicas'}; the skeleton makes them"


class SwitchLink(Protocol):
    """What a controller's session asks of a switch; every method raises ControllerError."""

    async def close(self) -> None:
        """Disconnects."""

    async def insert(self, entities: Sequence[Entity]) -> None:
        """Adds all entries, or none after an error."""

    async def delete(self, entities: Sequence[Entity]) -> None:
        """Removes entries; missing entries are no error."""

    async def read(self, entities: Sequence[P4Entity]) -> list[P4Entity]:
        """Returns the entries that some patterns name."""

    async def read_register(self, register: str, index: int) -> int | None:
        """Returns a cell of a register."""


class Sessions:
    """The connections of one controller to the switches of a network.

    Attributes:
        most_calls: most calls of the controller.
        book: the entries that the switches accepted from the controller.
        highest: by switch, the election id with which the controller became primary.
        dead: switches that no longer answer.
        asked_dead: number of calls to each dead switch.
        turn: number of the student's function that is running; it counts the calls of such functions.
        asked_in: by dead switch, the turns in which it was asked, and whether by a question, which is no write.
        writing: called with a switch that is about to be written to.
        deleting: called with a switch whose entries are about to be deleted.
        written: the entries of the last call, if it writes any.
    """

    most_calls = CALLS

    def __init__(self, targets: Iterable[Target], program: P4Program, passing: Callable[[int], None]) -> None:
        """Connects no switch yet. ``passing``: lets virtual time pass (microseconds) while a call is answered."""
        self.book = Book()
        self.highest: dict[str, int] = {}
        self.dead: set[str] = set()
        self.asked_dead: dict[str, int] = {}
        self.turn = 0
        self.asked_in: dict[str, dict[int, bool]] = {}
        self.writing: Callable[[str], None] = lambda _: None
        self.deleting: Callable[[str], None] = lambda _: None
        self._targets = {target.name: target for target in targets}
        self._schema = program.schema
        self._loop = EventLoopThread("p4reduce-lab-controller")
        self.written: Sequence[Entity] = ()
        self._open: dict[str, SwitchLink] = {}
        self._refusal: tuple[str, EntryPlace] | None = None  # text of the last call's error, and the entry
        self._calls = 0
        self._method = ""  # of the last call
        self._passing = passing

    def service(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Answers a call from the student's code; see :data:`~p4reduce_course.sandbox.process.Service`."""
        self._calls += 1
        self.written, self._refusal, self._method = (), None, method
        if self._calls > self.most_calls:
            raise Wrong(f"the controller made more than {self.most_calls} calls of p4rt: does a loop never end?")
        known: dict[str, Callable[..., Any]] = {
            "open": self._connect,
            "insert": self._insert,
            "delete": self._delete,
            "read": self._read,
            "slot": self._slot,
        }
        if method not in known:
            raise Untold(f"p4rt has no {method}; it has {', '.join(known)}")
        return known[method](*arguments, **named)

    def close(self) -> None:
        """Closes the connections to all switches."""
        try:
            for connection in self._open.values():
                self._loop.run(connection.close())
        finally:
            self._loop.close()

    # --- the calls

    def _connect(self, switch: str, election_id: int) -> None:
        if not isinstance(election_id, int) or isinstance(election_id, bool) or not 0 < election_id < 1 << 128:
            raise Untold(f"{switch}: election id {election_id!r:.40}: a number from 1 to 2^128 - 1")
        target = self._target(switch)
        self._answers(switch)
        if switch in self._open:
            raise Untold(f"{switch}: is open already")
        try:
            self._open[switch] = self._linked(target, election_id)
        except ControllerError as error:
            raise self._refused(
                target, error, "; an older controller holds it: open it with a higher election id"
            ) from None
        self.highest[switch] = election_id

    def _linked(self, target: Target, election_id: int) -> SwitchLink:
        """Returns an open connection to a switch. Raises ControllerError."""
        connection = Connection(target, self._schema, deadline_s=_DEADLINE_S, election_id=election_id)
        try:
            self._loop.run(connection.open(keep=True))
        except ControllerError:
            self._loop.run(connection.close())
            raise
        return connection

    def _insert(self, switch: str, entries: Any) -> None:
        self.written = entities = self._entities(entries, whole=True)
        self.writing(switch if isinstance(switch, str) else "")
        target, connection = self._connected(switch)
        try:
            self._loop.run(connection.insert(entities))
        except ControllerError as error:
            refused = self._refused(target, error)
            if (place := self._there(switch, entities)) is not None:
                self._refusal = str(refused), place
            raise refused from None
        self.book.add(switch, entities)

    def _there(self, switch: str, entities: Sequence[Entity]) -> EntryPlace | None:
        """Returns the first of some entries that the controller has written before, or twice at once."""
        known = set(self.book.held.get(switch, {}))
        for entity in entities:
            if key(entity) in known:
                keys = self._schema.tables[entity.table_id].match_fields if isinstance(entity, fy.P4TableEntry) else ()
                names = tuple(field.name for field in keys) or ("group",)
                return EntryPlace(switch, entry_key(entity), names, how="twice")
            known.add(key(entity))
        return None

    def about(self, wrong: Wrong) -> Wrong:
        """Returns what ended a call of the student's, with the entry if the error of an entry ended it."""
        if self._refusal is None or self._refusal[0] not in wrong.finding.said:
            return wrong
        return WrongEntry(wrong.finding.said, wrong.finding.where, self._refusal[1])

    def _delete(self, switch: str, entries: Any) -> None:
        entities = self._entities(entries, whole=False)
        self.deleting(switch if isinstance(switch, str) else "")
        target, connection = self._connected(switch)
        own = self.book.held.get(switch, {})
        other = [entity for entity in entities if key(entity) not in own]
        try:
            there = {key(entity) for entity in self._loop.run(connection.read(_wildcards(other)))} if other else set()
            self._loop.run(connection.delete(entities))
        except ControllerError as error:
            raise self._refused(target, error) from None
        self.book.remove(switch, entities)
        self.book.taken += [(switch, entity) for entity in other if key(entity) in there]

    def _read(self, switch: str, table: str) -> list[dict[str, Any]]:
        target, connection = self._connected(switch)
        try:
            wanted = fy.P4MulticastGroupEntry() if table == "groups" else fy.P4TableEntry(_text(table))
            entities = self._loop.run(connection.read([wanted]))
        except ControllerError as error:
            raise self._refused(target, error) from None
        except ValueError as error:
            raise Untold(f"{switch}: {error}") from None
        return [self._data(entity) for entity in entities if isinstance(entity, Entity)]

    def _slot(self, switch: str, index: int) -> dict[str, int]:
        target, connection = self._connected(switch)
        if not isinstance(index, int) or not 0 <= index < 1 << 31:
            raise Untold(f"{switch}: slot {index!r:.40}: a number")
        try:
            cell = self._loop.run(connection.read_register("slots", index))
        except ControllerError as error:
            raise self._refused(target, error) from None
        return {name: int(value) for name, value in asdict(SlotState.unpack(cell or 0)).items()}

    # --- inside

    def _target(self, switch: Any) -> Target:
        if not isinstance(switch, str) or switch not in self._targets:
            raise Untold(f"there is no switch {switch!r:.40}; there are {', '.join(self._targets)}")
        return self._targets[switch]

    def _connected(self, switch: Any) -> tuple[Target, SwitchLink]:
        target = self._target(switch)
        self._answers(switch)
        if switch not in self._open:
            raise Untold(f"{switch}: is not open: p4rt.open({switch!r}, election_id) first")
        return target, self._open[switch]

    def _answers(self, switch: str) -> None:
        """Lets the time of a call pass. Raises Untold if the switch is dead, Wrong after too many calls to it."""
        self._passing(1000 if switch in self.dead else 50)
        if switch in self.dead:
            self.asked_dead[switch] = self.asked_dead.get(switch, 0) + 1
            if self.asked_dead[switch] > PATIENCE:
                problem = f"the controller has asked {switch}, which is dead, more than {PATIENCE} times"
                problem += ": waiting for ever. Leave out a switch that does not answer; do not ask it again"
                raise WrongEntry(problem, "", EntryPlace(switch, "", how="asked"))
            turns = self.asked_in.setdefault(switch, {})
            known = any(question for turn, question in turns.items() if turn < self.turn)
            turns[self.turn] = turns.get(self.turn, False) or self._method not in _WRITES
            if known or len(turns) > AGAIN:
                problem = f"the controller has asked {switch}, which is dead, in {len(turns)} calls of its functions, "
                problem += "and waited 1 ms each time: it stays dead. Remember who did not answer; do not ask it again"
                raise WrongEntry(problem, "", EntryPlace(switch, "", how="asked"))
            raise Untold(f"{switch}: UNAVAILABLE: no answer within 1 ms; is the switch running?")

    def _entities(self, entries: Any, *, whole: bool) -> list[Entity]:
        if not isinstance(entries, list) or len(entries) > _ENTRIES:
            raise Untold(f"give a list of entries, at most {_ENTRIES}")
        return [self._entity(entry, whole) for entry in entries]

    def _entity(self, entry: Any, whole: bool) -> Entity:
        """Returns a student's entry with full names, checked against the program."""
        if not isinstance(entry, Mapping) or not any(set(entry) <= keys for keys in _KEYS):
            raise Untold(f"{entry!r:.60}: {_SHAPE}")
        try:
            made = _made(entry, whole)
            entity = fy.p4entity.decode_entity(made.encode(self._schema), self._schema)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise Untold(f"{_shown(entry)}: {error}") from None
        assert isinstance(entity, Entity)  # noqa: S101  (what was encoded)
        return entity

    def _data(self, entity: Entity) -> dict[str, Any]:
        """Returns an entity in the form that students write, with the full names of its keys."""
        if isinstance(entity, fy.P4MulticastGroupEntry):
            return {"group": entity.multicast_group_id, "replicas": replicas_of(entity)}
        assert isinstance(entity, fy.P4TableEntry)  # noqa: S101  (nothing else was asked for)
        names = {field.alias: field.name for field in self._schema.tables[entity.table_id].match_fields}
        action = entity.action if isinstance(entity.action, fy.P4TableAction) else None
        return {
            "table": entity.table_id,
            "match": {names[short]: value for short, value in dict(entity.match or {}).items()},
            "action": action.name if action else None,
            "params": dict(action.args) if action else {},
        }

    def _refused(self, target: Target, error: ControllerError, more: str = "") -> Exception:
        """Returns a switch's error for the student's code; a finding if the machine was too busy for an answer."""
        text = self._plain(target, error)
        return TooSlow(f"a call of p4rt was not answered: {text}") if _UNDONE.search(text) else Untold(text + more)

    @staticmethod
    def _plain(target: Target, error: ControllerError) -> str:
        """Returns an error's text without the port, which differs from run to run."""
        text = str(error).replace(f"switch {target.name} ({target.address}, device {target.device_id})", target.name)
        return text.replace("; stop it", ": the highest one is, and only it may write")


def _made(entry: Mapping[str, Any], whole: bool) -> Entity:
    if "group" in entry:
        replicas = tuple((_number(port), _number(rid)) for port, rid in entry.get("replicas") or ())
        return fy.P4MulticastGroupEntry(_number(entry["group"]), replicas=replicas)
    match = {_text(name): _number(value, name) for name, value in dict(entry["match"]).items()}
    made = fy.P4TableEntry(_text(entry["table"]), match=fy.P4TableMatch(match))
    if whole or entry.get("action") is not None:
        params = {_text(name): _number(value, name) for name, value in dict(entry.get("params") or {}).items()}
        made.action = fy.P4TableAction(_text(entry["action"]), **params)
    return made


def _wildcards(entities: Iterable[Entity]) -> list[P4Entity]:
    """Returns the read requests for all entries of the tables that some entries are in, and for groups."""
    tables = dict.fromkeys(entity.table_id for entity in entities if isinstance(entity, fy.P4TableEntry))
    groups = any(isinstance(entity, fy.P4MulticastGroupEntry) for entity in entities)
    return [*wildcards(tables), *([fy.P4MulticastGroupEntry()] if groups else [])]


def _number(value: Any, name: str = "") -> int:
    """Returns a number of an entry; True is 1, as everywhere in Python. Raises ValueError."""
    if not isinstance(value, int):
        raise ValueError(f"{f'{name}: ' if name else ''}{value!r:.40} is no number")
    return int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is no name")
    return value


def _shown(entry: Mapping[str, Any]) -> str:
    return f"multicast group {entry['group']!r:.20}" if "group" in entry else f"table {entry.get('table')!r:.40}"


# Networks that a grader draws, the unique tree of each, and the description that students get.


LANES: Final = 64
RATE: Final = "10G"
DELAY: Final = "1us"


def wired(name: str, links: Sequence[tuple[str, str]], random: np.random.Generator) -> Topology:
    """Returns a network of switches (``s1``, ...) and hosts (``h1``, ...) whose ports are in a drawn order."""
    builder = TopologyBuilder(name)
    nodes = sorted({node for link in links for node in link}, key=lambda node: (node[0], int(node[1:])))
    for node in nodes:
        (builder.host if node.startswith("h") else builder.switch)(node)
    for place in random.permutation(len(links)):
        builder.link(*links[int(place)], RATE, DELAY)
    return builder.build()


def nearest(topology: Topology, root: str, dead: frozenset[str] = frozenset()) -> dict[str, list[str]]:
    """Returns, for every switch that reaches the root, the next switches towards it, by their ports.

    Breadth first: O(nodes + links).
    """
    distance = {root: 0}
    waiting = deque([root])
    switches = {node.name for node in topology.switches} - dead
    while waiting:
        name = waiting.popleft()
        for other in topology.neighbours(name):
            if other in switches and other not in distance:
                distance[other] = distance[name] + 1
                waiting.append(other)
    return {
        name: [other for other in topology.neighbours(name) if distance.get(other, -1) == own - 1]
        for name, own in distance.items()
        if name != root
    }


def layout(topology: Topology, root: str, workers: Sequence[str], dead: frozenset[str] = frozenset()) -> TreeLayout:
    """Returns the tree of the first of the :func:`nearest` switches, without switches that have no workers below."""
    towards, parent = nearest(topology, root, dead), {}
    for worker in workers:
        node, above = worker, topology.neighbours(worker)[0]
        parent[worker] = above
        while above != root and above not in parent:
            node, above = above, towards[above][0]
            parent[node] = above
    paths = {edge: edge for edge in parent.items()}
    return TreeLayout(root, parent, paths=paths)


def plan_of(topology: Topology, job: dict[str, Any], dead: frozenset[str] = frozenset()) -> Plan:
    """Returns the plan whose entries are right for a job; ``job`` has the form that students get."""
    request = PlanRequest(
        "lab",
        job["job"],
        job["epoch"],
        workers=tuple(job["workers"]),
        lanes=LANES,
        window=job["slots"] // 2,
        max_slots=job["slots"],
        layout=layout(topology, job["root"], job["workers"], dead),
    )
    return make_plan(topology, request, Resources(first_generation=max(1, job.get("generation", 1))))


def told(topology: Topology) -> dict[str, Any]:
    """Returns a network as plain data: addresses, and the node behind each port."""
    switches = {
        node.name: {"ip": node.ip, "mac": node.mac, "ports": dict(enumerate(topology.neighbours(node.name), start=1))}
        for node in topology.switches
    }
    return {"switches": switches, "hosts": {node.name: {"ip": node.ip, "mac": node.mac} for node in topology.hosts}}


LONG_PS: Final = 50 * PS_PER_MS
"""most virtual time of a sum; correct sums take less than 1 ms"""
_CUT: Final = Faults(loss=1.0)
Words = NDArray[np.int32]


@dataclass(frozen=True)
class Held:
    """The older controller's election id, and the first group and replication id that it does not use."""

    election: int
    first_group: int
    first_rid: int

    @classmethod
    def of(cls, draws: Draws) -> Held:
        """Returns the numbers for a student."""
        return cls(draws.integer("election", 20, 900), draws.integer("group", 3, 9), draws.integer("rid", 10, 30))

    def parameters(self) -> dict[str, str]:
        """Returns the numbers as parameters for README and skeleton."""
        return {"election": str(self.election), "group": str(self.first_group), "rid": str(self.first_rid)}


def epoch_of(draws: Draws) -> int:
    """Returns the first epoch of a student's jobs."""
    return draws.integer("epoch", 3, 90)


def parameters_of(draws: Draws) -> dict[str, str]:
    """Returns the older controller's numbers and the first epoch, as parameters for README and skeleton."""
    return {**Held.of(draws).parameters(), "epoch": str(epoch_of(draws))}


class Room:
    """Switches of a topology with their program and base entries. Use it as a context manager.

    The older controller has installed addresses and routes. ``edges``: whether it has also installed which host is
    behind which port.

    Attributes:
        deaths: (virtual time in picoseconds, switch), in order: switches that will die.
        packets: whether packets travel.
    """

    packets = True

    def __init__(self, topology: Topology, held: Held, *, edges: bool = True) -> None:
        program = bundled(LANES)
        with ExitStack() as opened:
            switches = opened.enter_context(ServedSwitches(topology))
            self.topology = topology
            switches.load(program)  # so that no call has to carry it
            targets = switches.targets()
            older = Controller(topology, targets, program, election_id=held.election, deadline_s=_DEADLINE_S, keep=True)
            opened.enter_context(older)
            for switch in topology.switches:
                older.insert(switch.name, taken(topology, switch.name, held))
                if not edges:
                    entries = older.read(wildcards(["edge"]))[switch.name]
                    older.delete(switch.name, [entry for entry in entries if isinstance(entry, Entity)])
            self._switches = switches
            self.deaths: list[tuple[int, str]] = []
            self.network = opened.enter_context(JobNetwork(switches))
            self.sessions = Sessions(switches.targets(), program, self._pass)
            opened.callback(self.sessions.close)
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _pass(self, microseconds: int) -> None:
        """Lets the time of a controller's call pass while packets travel."""
        self.advance(self.network.now + microseconds * PS_PER_US)

    def advance(self, until_ps: int, watch: Sequence[int] = ()) -> None:
        """Runs until ``until_ps``, or until all endpoints of ``watch`` are done; switches die at their times."""
        while self.deaths and self.deaths[0][0] <= until_ps:
            at_ps, switch = self.deaths[0]
            if self.network.advance(max(at_ps, self.network.now), watch) is StopReason.DONE:
                return
            del self.deaths[0]
            self.die(switch)
        self.network.advance(until_ps, watch)

    def die(self, switch: str) -> None:
        """Ends a switch: it forwards no packets and answers no controller."""
        self.sessions.dead.add(switch)
        for link in self.topology.links:
            if switch in (link.a, link.b):
                for hop in ((link.a, link.port_a), (link.b, link.port_b)):
                    self.network.fabric.set_faults(hop, _CUT)

    def call(self, code: StudentCode, name: str, *arguments: Any) -> Any:
        """Calls a function of a student's controller, which asks this room's switches. Raises Wrong."""
        self.sessions.turn += 1
        try:
            return code.call(name, *arguments, Remote("p4rt"), services={"p4rt": self.sessions.service})
        except Wrong as wrong:
            raise self.sessions.about(wrong) from None

    # --- for findings

    def shown(self, wrong: Wrong, plan: Plan, home: Path, label: str) -> Wrong:
        """Adds to a finding one switch's entries, and the packets of one chunk in the order in which they reach it.

        It chooses the first of the plan's switches that the finding names. ``label``: the network's name in file names.
        """
        named = [name for name in re.findall(r"\bs\d+\b", wrong.finding.said) if name in plan.by_switch]
        if wrong.finding.look or not plan.by_switch or isinstance(wrong, TooSlow):
            return wrong
        name = named[0] if named else plan.root
        at, file = plan.by_switch[name], f"{label}-{name}"
        lines = ["# Port, frame, remark: one chunk; children first."]
        senders = [(child.address, PacketType.PUSH) for child in at.children]
        for sender, kind in senders if at.parent is None else [*senders, (at.parent, PacketType.RESULT)]:
            made = headers(
                1,
                ethernet_dst=self.topology.node(name).mac,
                ethernet_src=sender.mac,
                ipv4_src=sender.ip,
                ipv4_dst=self.topology.node(name).ip,
                type=kind,
                job=plan.job,
                epoch=plan.epoch,
                seq=0,
                count=1,
            )
            frame = pack(made, np.full((1, LANES), len(lines), np.int32)).tobytes()
            lines.append(f"{sender.port} {frame.hex()} # {kind.name} of {sender.name}")
        entries, packets = (quote(f"{home / LOOK / file}.{kind}") for kind in ("yaml", "txt"))
        look = f"p4reduce trace --program {LANES} --entries {entries} --packet {packets}"
        files = ((f"{file}.yaml", self._entries_text(name)), (f"{file}.txt", "\n".join(lines) + "\n"))
        return Wrong(wrong.finding.said, wrong.finding.where, f"{look} --brief", files)

    def _entries_text(self, name: str) -> str:
        """Returns a switch's entries as a file for ``p4reduce trace``, without the number that marks restarts."""
        device = self._switches.devices()[name]
        actions = {action.name: action for action in device.program.actions.values()}
        lines = [f"# The entries of {name}.", "tables:"]
        for table in device.tables.values():
            for entry in table.entries() if table.spec.keys and not table.spec.entries else ():
                if entry.match == _NONCE:
                    continue
                keys = (key.name.rpartition(".")[2] if key.name.count(".") < 2 else key.name for key in table.spec.keys)
                match = ", ".join(
                    f"{key}: {_match_text(key_match)}" for key, key_match in zip(keys, entry.match, strict=True)
                )
                names = [parameter.name for parameter in actions[entry.action].parameters]
                params = ", ".join(f"{key}: {value}" for key, value in zip(names, entry.arguments, strict=True))
                lines.append(f"  - {{table: {table.spec.name.rpartition('.')[2]}, match: {{{match}}},")
                lines.append(f"     action: {entry.action.rpartition('.')[2]}, params: {{{params}}}}}")
        lines.append("multicast:")
        for number, copies in self.sessions.book.groups(name).items():
            replicas = ", ".join(f"{{port: {port}, rid: {rid}}}" for port, rid in copies)
            lines.append(f"  - {{group: {number}, replicas: [{replicas}]}}")
        return "\n".join(lines if lines[-1] != "multicast:" else lines[:-1]) + "\n"

    # --- sums

    def post(self, job: Job, inputs: Sequence[Words]) -> None:
        """Starts an all-reduce in which each worker of a job contributes one input; the sum replaces it."""
        for index, words in zip(job.members.values(), inputs, strict=True):
            held = words.view(np.float32)
            self.network.post(index, Post(Collective.ALL_REDUCE, held, held, words=True))
        job.note("all_reduce", inputs[0].size, words=True)

    def run(self, jobs: Sequence[Job], until_ps: int = LONG_PS) -> None:
        """Runs until all sums are complete, or until this virtual time."""
        watch = [index for job in jobs for index in job.endpoints]
        self.advance(self.network.now + until_ps, watch)

    def waiting(self, job: Job) -> list[str]:
        """Returns the waiting workers of a job, with the chunk that they lack, as texts."""
        waiting = []
        for worker, index in job.members.items():
            if self.network.endpoints.records[index]["status"] != EndpointState.DONE:
                waiting.append(f"{worker} for chunk {self.network.endpoints.oldest_missing(index)}")
        return waiting

    def why(self) -> str:
        """Returns a text about the packets that switches refused; empty if there are none."""
        refusals = [
            f"{switch} refused {counted(count, 'packet')}, reason {reason}: {REASONS[reason]}"
            for switch, counts in self.refused().items()
            for reason, count in counts.items()
        ]
        return "; ".join(refusals[:3])

    def refused(self) -> dict[str, dict[int, int]]:
        """Returns the number of refused packets for each switch, by reason."""
        by_switch = {}
        for name, device in self._switches.devices().items():
            cells = device.counters["IncIngress.refuse.refused"].cells[:, 0].tolist()
            by_switch[name] = {reason: count for reason, count in enumerate(cells) if count and reason in REASONS}
        return by_switch

    def check_sum(self, job: Job, inputs: Sequence[Words], wanted: Words, where: str) -> None:
        """Raises Wrong if a worker still waits, or its sum is not exact."""
        if waiting := self.waiting(job):
            problem = f"job {job.plan.job}: no sum after {LONG_PS // PS_PER_MS} ms of virtual time: "
            problem += ", ".join(waiting[:4]) + (", ..." if len(waiting) > 4 else "")
            if why := self.why():
                problem += f". {why}"
            raise Wrong(problem, where)
        for worker, words in zip(job.members, inputs, strict=True):
            if not np.array_equal(words, wanted):
                place = int(np.flatnonzero(words != wanted)[0])
                problem = (
                    f"job {job.plan.job}: {worker} got {words[place]} as element {place}, the sum is {wanted[place]}"
                )
                raise Wrong(f"{problem}: a contribution is missing, or in twice, or another job's", where)

    def check_links(self, jobs: Sequence[Job], where: str) -> None:
        """Raises Wrong if a link carried other bytes than the trees predict."""
        wrong = compare_links(self.topology, add(*(job.predicted() for job in jobs)), self.first_sent())
        if wrong:
            more = f" (and {len(wrong) - 1} more links)" if len(wrong) > 1 else ""
            raise Wrong(f"{wrong[0]}{more}. What is sent again because nothing came is not counted", where)

    def first_sent(self) -> dict[Hop, Traffic]:
        """Returns the first transmissions on every directed link so far."""
        counters = self.network.fabric.links
        return {hop: Traffic(counters[hop].inc_first_frames, counters[hop].inc_first_bytes) for hop in counters}


def anew_is_right(task: GradingTask, name: str, function: str, wrong: Wrong) -> Wrong:
    """Returns a finding about a network that is right in a new process, with what the file keeps from call to call."""
    text = (
        f"{wrong.finding.said}. In a new process the same network is right: {function} must forget the network before"
    )
    try:
        tree = ast.parse((task.answers / name).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError):
        tree = ast.Module([], [])
    if kept := kept_by(tree, function):
        text += f". {function} does not empty {', '.join(kept)}"
    return Wrong(text, wrong.finding.where, wrong.finding.look, wrong.finding.files)


def _match_text(match: Match) -> str:
    return f"{match.value}/{match.prefix}" if isinstance(match, Lpm) else str(getattr(match, "value", match))


def drawn(random: np.random.Generator, workers: int, elements: int) -> tuple[list[Words], Words]:
    """Returns the workers' inputs and their sum: int32, shape (elements,) each."""
    inputs = [random.integers(-(1 << 20), 1 << 20, elements).astype(np.int32) for _ in range(workers)]
    return inputs, np.sum(inputs, axis=0, dtype=np.int32)


def taken(topology: Topology, switch: str, held: Held) -> list[Entity]:
    """Returns groups and replication ids that the older controller holds."""
    node = topology.node(topology.neighbours(switch)[0])
    entities: list[Entity] = [
        fy.P4MulticastGroupEntry(group, replicas=((1, held.first_rid - 1),)) for group in range(1, held.first_group)
    ]
    address = fy.P4TableAction("address", mac=node.mac, ip=node.ip, udp=9400)
    for rid in range(1, held.first_rid):
        match = fy.P4TableMatch({"std.egress_rid": rid})
        entities.append(fy.P4TableEntry("replica", match=match, action=address))
    return entities


# Forged packets, and the reasons for which a switch must refuse them.


_WHILE_PS = 500 * PS_PER_US
"""virtual time to wait for a forged packet, longer than any such packet takes"""


@dataclass(frozen=True)
class Forgery:
    """A forged packet.

    Attributes:
        said: sender and contents as a text for the finding.
        host, frame: the host that sends it, and the packet.
        switch, reason: the switch that must refuse it, and the reason.
        otherwise: the student's mistake if the switch does not refuse the packet.
        place: the entry that would be wrong then.
    """

    said: str
    host: str
    frame: bytes
    switch: str
    reason: int
    otherwise: str
    place: EntryPlace | None = None


def packet(
    topology: Topology, host: str, source: str, target: str, *, job: int, epoch: int, seq: int, kind: PacketType
) -> bytes:
    """Returns a packet that ``host`` sends to the switch ``target`` with the addresses of ``source``.

    It is marked as a resend, so that it does not count among the first transmissions of links.
    """
    nodes = topology.by_name
    made = headers(
        1,
        ethernet_dst=nodes[topology.neighbours(host)[0]].mac,
        ethernet_src=nodes[host].mac,
        ipv4_src=nodes[source].ip,
        ipv4_dst=nodes[target].ip,
        type=kind,
        job=job,
        epoch=epoch,
        seq=seq,
        count=1,
        resend=1,
    )
    return pack(made, np.full((1, LANES), 1 << 20, np.int32)).tobytes()


def check_refused(room: Room, forgery: Forgery, where: str) -> None:
    """Sends the packet. Raises Wrong unless the right switch refuses it once, for the right reason."""
    if not room.packets:
        return
    before = room.refused()
    room.network.fabric.send(forgery.host, forgery.frame)
    room.network.advance(room.network.now + _WHILE_PS)
    after = room.refused()
    refusals = {
        (switch, reason): count - before[switch].get(reason, 0)
        for switch, counts in after.items()
        for reason, count in counts.items()
        if count != before[switch].get(reason, 0)
    }
    if refusals == {(forgery.switch, forgery.reason): 1}:
        return
    wanted = f"{forgery.switch} must refuse it for reason {forgery.reason}, {REASONS[forgery.reason]}"
    problem = f"{forgery.said}: it was taken in"
    if refusals:
        (switch, reason), _ = next(iter(refusals.items()))
        problem = f"{forgery.said}: {switch} refused it for reason {reason}, {REASONS[reason]}"
    problem += f". {wanted}: {forgery.otherwise}"
    if forgery.place is not None:
        raise WrongEntry(problem, where, forgery.place)
    raise Wrong(problem, where)
