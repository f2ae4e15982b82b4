"""A network without packets, in which a changed controller is tried before switches are started for it.

Its switches hold entries, refuse what is there already, and die. A controller that passes here is graded as any other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import finsy as fy
from finsy.p4entity import P4Entity
from finsy.p4schema import P4MatchType

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.entries import Entity, P4Program, key
from p4reduce.control_plane.plans import Plan
from p4reduce.network.jobs.network import Job, bundled
from p4reduce.topologies import Topology
from p4reduce_course.controllers.room import LANES, LONG_PS, Held, Room, Sessions, SwitchLink, Words, taken
from p4reduce_course.culprit import passes
from p4reduce_course.frame.grading import skeleton_of
from p4reduce_course.frame.lab import GradingTask, LabStep
from p4reduce_course.frame.report import Wrong
from p4reduce_course.python_change import in_python
from p4reduce_course.python_trail import led
from p4reduce_course.sandbox.confine import ProcessLimits
from p4reduce_course.sandbox.process import StudentCode, Untold
from p4switch.base.values import PS_PER_US

_SUM_PS: Final = 400 * PS_PER_US
"""virtual time of a sum"""
_FEW: Final = 8
"""most changes that are tried where only packets show the mistake; each takes some 500 ms"""
_GRADED: Final = 2
"""changes that are tried with switches, because they have passed without"""
_CALLS: Final = 600
"""most calls of a controller in a network without packets; a changed loop that does not end is left sooner"""
_LIMITS: Final = ProcessLimits(cpu_s=4)


class _Entries:
    """The entries of a switch, as a :class:`SwitchLink`."""

    def __init__(self, entities: Sequence[Entity]) -> None:
        self._held = {key(entity): entity for entity in entities}

    async def close(self) -> None:
        pass

    async def insert(self, entities: Sequence[Entity]) -> None:
        new = [key(entity) for entity in entities]
        if len(set(new)) < len(new) or not self._held.keys().isdisjoint(new):
            raise ControllerError("ALREADY_EXISTS")
        self._held.update(zip(new, entities, strict=True))

    async def delete(self, entities: Sequence[Entity]) -> None:
        for entity in entities:
            self._held.pop(key(entity), None)

    async def read(self, entities: Sequence[P4Entity]) -> list[P4Entity]:
        tables = {entity.table_id.rpartition(".")[2] for entity in entities if isinstance(entity, fy.P4TableEntry)}
        groups = any(isinstance(entity, fy.P4MulticastGroupEntry) for entity in entities)
        schema = _program().schema
        return [
            fy.p4entity.decode_entity(entity.encode(schema), schema)
            for entity in self._held.values()
            if (entity.table_id.rpartition(".")[2] in tables if isinstance(entity, fy.P4TableEntry) else groups)
        ]

    async def read_register(self, register: str, index: int) -> int | None:
        return None


@functools.cache
def _program() -> P4Program:
    return bundled(LANES)


class _Sessions(Sessions):
    """Sessions with switches that only hold entries."""

    most_calls = _CALLS

    def __init__(self, topology: Topology, held: Held, passing: Callable[[int], None]) -> None:
        targets = [Target(node.name, "", 0) for node in topology.switches]
        super().__init__(targets, _program(), passing)
        self._held = held
        self._entries = {node.name: _Entries(taken(topology, node.name, held)) for node in topology.switches}

    def _linked(self, target: Target, election_id: int) -> SwitchLink:
        if election_id <= self._held.election:
            raise ControllerError("not primary")
        return self._entries[target.name]

    def _entity(self, entry: Any, whole: bool) -> Entity:
        text = repr(entry)
        if len(text) > _LONGEST:
            return self._checked(super()._entity(entry, whole))
        if (text, whole) not in _ENTITIES:
            if len(_ENTITIES) > _KEPT:
                _ENTITIES.clear()
            _ENTITIES[text, whole] = self._checked(super()._entity(entry, whole))
        return _ENTITIES[text, whole]

    def _checked(self, entity: Entity) -> Entity:
        """Returns an entry. Raises Untold if it lacks a key, as a switch refuses it."""
        if isinstance(entity, fy.P4TableEntry):
            fields = list(self._schema.tables[entity.table_id].match_fields)
            if len(entity.match or {}) < sum(field.match_type is P4MatchType.EXACT for field in fields):
                raise Untold(f"{entity.table_id}: a key is missing")
        return entity


_ENTITIES: Final[dict[tuple[str, bool], Entity]] = {}
"""entries by their text, since changed controllers write much the same"""
_KEPT: Final = 20_000
_LONGEST: Final = 500
"""most characters of an entry that is kept"""


class Rehearsal(Room):
    """A room whose switches only hold entries: sums take their time, and are right unless a switch of the tree dies."""

    packets = False

    def __init__(self, topology: Topology, held: Held, *, edges: bool = True) -> None:
        self.topology = topology
        self.deaths: list[tuple[int, str]] = []
        self.sessions = _Sessions(topology, held, self._pass)
        self.network: Any = SimpleNamespace(
            now=0, add=self._add, advance=self.advance, change_over=self._changed, give_up=_nothing, retire=_nothing
        )
        self._ready: dict[int, int] = {}  # when sums are complete, by the job's identity

    def __exit__(self, *_: object) -> None:
        self.sessions.close()

    def _add(self, plan: Plan) -> Job:
        job = Job(plan, None)
        for place, worker in enumerate(plan.workers):
            job.members[worker] = place
        return job

    def _changed(self, job: Job, plan: Plan) -> None:
        job.plan = plan
        self._ready[id(job)] = self.network.now + _SUM_PS

    def advance(self, until_ps: int, watch: Sequence[int] = ()) -> None:
        """Lets time pass; switches die at their times."""
        if watch and self._ready:
            until_ps = min(until_ps, max(self.network.now + PS_PER_US, *self._ready.values()))
        while self.deaths and self.deaths[0][0] <= until_ps:
            self.die(self.deaths.pop(0)[1])
        self.network.now = max(self.network.now, until_ps)

    def die(self, switch: str) -> None:
        """Ends a switch."""
        self.sessions.dead.add(switch)

    def shown(self, wrong: Wrong, *_: object) -> Wrong:
        """Returns a finding as it is."""
        return wrong

    def post(self, job: Job, inputs: Sequence[Words]) -> None:
        """Starts a sum."""
        self._ready[id(job)] = self.network.now + _SUM_PS

    def run(self, jobs: Sequence[Job], until_ps: int = LONG_PS) -> None:
        """Lets sums end."""
        self.advance(self.network.now + min(until_ps, _SUM_PS))

    def waiting(self, job: Job) -> list[str]:
        """Returns the waiting workers of a job, as texts."""
        over = self.network.now >= self._ready[id(job)] and not self.sessions.dead & set(job.plan.by_switch)
        return [] if over else [f"{worker} for chunk 0" for worker in job.members]

    def why(self) -> str:
        """Returns nothing: no packet was refused."""
        return ""

    def check_sum(self, *_: object) -> None:
        """Takes every sum for right."""

    def check_links(self, *_: object) -> None:
        """Takes the bytes of every link for right."""


def _nothing(*_: object) -> None:
    pass


def changed_controller(
    task: GradingTask,
    name: str,
    code: StudentCode,
    wrong: Wrong,
    title: str,
    steps_of: Callable[[GradingTask, StudentCode, type[Room]], Sequence[LabStep]],
    most: int,
) -> str:
    """Returns a sentence about the line where one small change of a controller makes all checks pass, or nothing.

    Args:
        task: the submission.
        name: of the file.
        code: the process that has called it.
        wrong: what is wrong.
        title: of the check that fails.
        steps_of: returns all checks, for a process and a kind of network.
        most: most changes that are tried where the mistake shows without packets.
    """
    quiet, file, graded = replace(task, explain=False), task.answers / name, 0

    def right(other: StudentCode, room: type[Room]) -> bool:
        return all(
            passes(step for step in steps_of(quiet, other, room) if step.title == title or every)
            for every in (False, True)
        )

    def passes_all(other: StudentCode) -> bool:
        nonlocal graded
        if (shows and not right(other, Rehearsal)) or graded >= _GRADED + _FEW * (not shows):
            return False
        graded += 1
        return right(other, Room)

    with StudentCode(file, _LIMITS) as other:
        shows = not right(other, Rehearsal)
    near, most = led(task, name, [code], anew=True, wrong=wrong), most if shows else _FEW
    return in_python(file, skeleton_of(task, name), near, lambda: StudentCode(file, _LIMITS), passes_all, most)
