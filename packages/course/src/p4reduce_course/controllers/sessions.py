"""``p4rt``: what a student's controller calls. Each call goes to the switch's own P4Runtime server, over gRPC.

The student's process has no network; the grader's holds the connections, and says what the servers said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

import finsy as fy

from p4reduce.control_plane.connection import Connection, Target
from p4reduce.control_plane.entries import Entity
from p4reduce.control_plane.errors import ControllerError
from p4reduce.control_plane.program import P4Program
from p4reduce.control_plane.slots import SlotState
from p4reduce_course.controllers.diagnose import Book
from p4reduce_course.frame.report import Wrong
from p4reduce_course.sandbox.process import Untold
from p4switch.base.event_loop import EventLoopThread

CALLS: Final = 2_000
"""calls of one controller; a right one takes hundreds"""
PATIENCE: Final = 60
"""calls to dead switches, of 1 ms each, after which a controller is waiting for ever"""
_ENTRIES: Final = 4096
"""of one call"""
_DEADLINE_S: Final = 60.0
"""for a switch in this very process: nothing but a machine that stands still takes as long"""
_KEYS: Final = ({"table", "match", "action", "params"}, {"group", "replicas"})
_SHAPE: Final = "an entry is {'table', 'match', 'action', 'params'} or {'group', 'replicas'}; the skeleton makes them"


class Sessions:
    """One controller's connections to the switches of a network.

    Attributes:
        book: what the switches have taken from it.
        highest: election ids that it became primary with, by switch.
        dead: switches that answer nothing any more.
        asked_dead: calls that met one of them.
        writing: is told of a switch that is about to be written to.
    """

    def __init__(self, targets: Iterable[Target], program: P4Program, passing: Callable[[int], None]) -> None:
        """No switch is connected yet. ``passing``: lets virtual time pass (microseconds) while a call is answered."""
        self.book = Book()
        self.highest: dict[str, int] = {}
        self.dead: set[str] = set()
        self.asked_dead = 0
        self.writing: Callable[[str], None] = lambda _: None
        self._targets = {target.name: target for target in targets}
        self._schema = fy.P4Schema(program.info, program.json)
        self._loop = EventLoopThread("p4reduce-lab-controller")
        self._open: dict[str, Connection] = {}
        self._calls = 0
        self._passing = passing

    def service(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Answers a call of the student's; see :data:`~p4reduce_course.sandbox.process.Service`."""
        self._calls += 1
        if self._calls > CALLS:
            raise Wrong(f"the controller made more than {CALLS} calls of p4rt: does a loop never end?")
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
        """Leaves all switches."""
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
        connection = Connection(target, self._schema, deadline_s=_DEADLINE_S, election_id=election_id)
        try:
            self._loop.run(connection.open(keep=True))
        except ControllerError as error:
            self._loop.run(connection.close())
            raise Untold(self._plain(target, error)) from None
        self._open[switch] = connection
        self.highest[switch] = election_id

    def _insert(self, switch: str, entries: Any) -> None:
        entities = self._entities(entries, whole=True)
        self.writing(switch if isinstance(switch, str) else "")
        target, connection = self._connected(switch)
        try:
            self._loop.run(connection.insert(entities))
        except ControllerError as error:
            raise Untold(self._plain(target, error)) from None
        self.book.add(switch, entities)

    def _delete(self, switch: str, entries: Any) -> None:
        entities = self._entities(entries, whole=False)
        target, connection = self._connected(switch)
        try:
            self._loop.run(connection.delete(entities))
        except ControllerError as error:
            raise Untold(self._plain(target, error)) from None
        self.book.remove(switch, entities)

    def _read(self, switch: str, table: str) -> list[dict[str, Any]]:
        target, connection = self._connected(switch)
        try:
            wanted = fy.P4MulticastGroupEntry() if table == "groups" else fy.P4TableEntry(_text(table))
            found = self._loop.run(connection.read([wanted]))
        except ControllerError as error:
            raise Untold(self._plain(target, error)) from None
        except ValueError as error:
            raise Untold(f"{switch}: {error}") from None
        return [_data(entity) for entity in found if isinstance(entity, Entity)]

    def _slot(self, switch: str, index: int) -> dict[str, int]:
        target, connection = self._connected(switch)
        if not isinstance(index, int) or not 0 <= index < 1 << 31:
            raise Untold(f"{switch}: slot {index!r:.40}: a number")
        try:
            cell = self._loop.run(connection.read_register("slots", index))
        except ControllerError as error:
            raise Untold(self._plain(target, error)) from None
        return {name: int(value) for name, value in asdict(SlotState.unpack(cell or 0)).items()}

    # --- inside

    def _target(self, switch: Any) -> Target:
        if not isinstance(switch, str) or switch not in self._targets:
            raise Untold(f"there is no switch {switch!r:.40}; there are {', '.join(self._targets)}")
        return self._targets[switch]

    def _connected(self, switch: Any) -> tuple[Target, Connection]:
        target = self._target(switch)
        self._answers(switch)
        if switch not in self._open:
            raise Untold(f"{switch}: is not open: p4rt.open({switch!r}, election_id) first")
        return target, self._open[switch]

    def _answers(self, switch: str) -> None:
        """Lets the time of a call pass. Raises Untold where the switch is dead."""
        self._passing(1000 if switch in self.dead else 50)
        if switch in self.dead:
            self.asked_dead += 1
            if self.asked_dead > PATIENCE:
                said = f"the controller has asked switches that are dead {PATIENCE} times, {switch} the last time"
                raise Wrong(f"{said}: waiting for ever. Who does not answer is left out, and not asked again")
            raise Untold(f"{switch}: UNAVAILABLE: no answer within 1 ms; is the switch running?")

    def _entities(self, entries: Any, *, whole: bool) -> list[Entity]:
        if not isinstance(entries, list) or len(entries) > _ENTRIES:
            raise Untold(f"give a list of entries, at most {_ENTRIES}")
        return [self._entity(entry, whole) for entry in entries]

    def _entity(self, entry: Any, whole: bool) -> Entity:
        """An entry of the student's, checked against the program, with full names."""
        if not isinstance(entry, Mapping) or not any(set(entry) <= keys for keys in _KEYS):
            raise Untold(f"{entry!r:.60}: {_SHAPE}")
        try:
            made = _made(entry, whole)
            found = fy.p4entity.decode_entity(made.encode(self._schema), self._schema)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise Untold(f"{_shown(entry)}: {error}") from None
        assert isinstance(found, Entity)  # noqa: S101  (what was encoded)
        return found

    @staticmethod
    def _plain(target: Target, error: ControllerError) -> str:
        """Without the port, which is another one each time."""
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


def _data(entity: Entity) -> dict[str, Any]:
    """An entity as students write it."""
    if isinstance(entity, fy.P4MulticastGroupEntry):
        replicas = [(replica.port, replica.instance) for replica in entity.replicas]  # type: ignore[union-attr]
        return {"group": entity.multicast_group_id, "replicas": replicas}
    assert isinstance(entity, fy.P4TableEntry)  # noqa: S101  (nothing else was asked for)
    action = entity.action if isinstance(entity.action, fy.P4TableAction) else None
    return {
        "table": entity.table_id,
        "match": dict(entity.match or {}),
        "action": action.name if action else None,
        "params": dict(action.args) if action else {},
    }


def _number(value: Any, name: str = "") -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{f'{name}: ' if name else ''}{value!r:.40} is no number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is no name")
    return value


def _shown(entry: Mapping[str, Any]) -> str:
    return f"multicast group {entry['group']!r:.20}" if "group" in entry else f"table {entry.get('table')!r:.40}"
