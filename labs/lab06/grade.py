"""Grading lab 06: trees, the entries that a controller wrote, and the packets that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from p4reduce.control_plane.plans import Plan
from p4reduce.labs.controllers.diagnose import check_entries, check_given
from p4reduce.labs.controllers.networks import layout, plan_of
from p4reduce.labs.controllers.room import Held, Room, drawn
from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.lab import Step, Task, run_steps
from p4reduce.labs.frame.report import Check, Wrong
from p4reduce.labs.lab06.networks import KINDS, draw
from p4reduce.labs.sandbox.messages import Remote
from p4reduce.labs.sandbox.process import StudentCode
from p4reduce.topologies import Topology

FILE: Final = "controller.py"
_ELEMENTS: Final = 64 * 40 - 7
GIVEN: Final = ("generation", "base", "slots", "stats")


def numbers_of(draws: Draws) -> tuple[int, int, int]:
    """Of a student: the older controller's election id, the first multicast group and the first replication id."""
    return draws.integer("election", 20, 900), draws.integer("group", 3, 9), draws.integer("rid", 10, 30)


def grade(task: Task) -> Iterator[Check]:
    """All checks of lab 06."""
    with StudentCode(task.answers / FILE, seen=task.seen) as code:
        yield from run_steps(task, _Grader(task, code).steps())


class _Grader:
    def __init__(self, task: Task, code: StudentCode) -> None:
        self.code = code
        self.draws = task.hidden
        self.path = str(task.answers / FILE)
        self.held = Held(*numbers_of(task.personal))
        self._known: dict[int, tuple[Wrong | None, Wrong | None]] = {}

    def steps(self) -> list[Step]:
        def each(part: str, what: Callable[[int], None]) -> list[Step]:
            return [Step(part, kind, lambda number=number: what(number)) for number, kind in enumerate(KINDS)]  # type: ignore[misc]

        return [*each("tree", self.tree), *each("entries", self.entries), *each("packets", self.packets)]

    # --- the tree

    def tree(self, number: int) -> None:
        topology, job = draw(self.draws, number)
        found, right = self.code.call("tree", job), layout(topology, job["root"], job["workers"]).parent
        if not isinstance(found, dict):
            raise Wrong(f"tree returned a {type(found).__name__}; return a dict, a parent for each node", self.path)
        where = f"{KINDS[number]}, root {job['root']}"
        for node, parent in right.items():
            if node not in found:
                raise Wrong(f"{where}: tree gives {node} no parent; its parent is {parent}", self.path)
            if found[node] != parent:
                raise Wrong(self._other_parent(topology, job, node, str(found[node])[:20], parent), self.path)
        if extra := [str(node)[:20] for node in found if node not in right]:
            why = "the root has no parent" if extra[0] == job["root"] else "no worker of the job is below it"
            raise Wrong(f"{where}: tree gives {extra[0]} a parent: {why}", self.path)

    @staticmethod
    def _other_parent(topology: Topology, job: dict[str, Any], node: str, found: str, right: str) -> str:
        said = f"root {job['root']}: tree gives {node} the parent {found}, expected {right}"
        neighbours = topology.neighbours(node)
        if found not in neighbours:
            return f"{said}: {found} is not behind any port of {node}"
        ports = f"port {neighbours.index(right) + 1}, {found} at port {neighbours.index(found) + 1}"
        return f"{said}, at {ports}: the nearest to the root, of equal ones the one at the lowest port"

    # --- what the controller does

    def entries(self, number: int) -> None:
        if (wrong := self._outcome(number)[0]) is not None:
            raise wrong

    def packets(self, number: int) -> None:
        for wrong in self._outcome(number)[::-1]:
            if wrong is not None:
                raise wrong

    def _outcome(self, number: int) -> tuple[Wrong | None, Wrong | None]:
        """What is wrong with the entries, and with the packets."""
        if number not in self._known:
            topology, job = draw(self.draws, number)
            with Room(topology, self.held) as room:
                try:
                    self.code.call("install", job, Remote("p4rt"), services={"p4rt": room.sessions.service})
                except Wrong as wrong:
                    self._known[number] = wrong, None
                    return self._known[number]
                plan = plan_of(topology, job)
                self._known[number] = self._caught(room, plan, job), self._sent(room, plan)
        return self._known[number]

    def _caught(self, room: Room, plan: Plan, job: dict[str, Any]) -> Wrong | None:
        book = room.sessions.book
        try:
            check_entries(book, plan, self.path)
            check_given(book, plan, GIVEN, job, self.path)
        except Wrong as wrong:
            return wrong
        return None

    def _sent(self, room: Room, plan: Plan) -> Wrong | None:
        inputs, wanted = drawn(self.draws.generator(f"numbers {plan.job}"), len(plan.workers), _ELEMENTS)
        job = room.network.add(plan)
        room.post(job, inputs)
        room.run([job])
        try:
            room.check_sum(job, inputs, wanted, self.path)
            room.check_links([job], self.path)
        except Wrong as wrong:
            return wrong
        return None
