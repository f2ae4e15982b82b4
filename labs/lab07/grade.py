"""Grading lab 07: two jobs in one network, packets of others, and a change of epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from p4reduce.labs.controllers.room import Held, Room
from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.lab import Step, Task, run_steps
from p4reduce.labs.frame.report import Check, Wrong
from p4reduce.labs.lab07.networks import KINDS, draw
from p4reduce.labs.lab07.play import Play
from p4reduce.labs.sandbox.messages import Remote
from p4reduce.labs.sandbox.process import StudentCode

FILE: Final = "controller.py"
_TITLES: Final = (
    ("jobs", "entries", "entries of two jobs"),
    ("jobs", "sums", "both add up at once"),
    ("forger", "forged", "forged packets are refused"),
    ("epochs", "change", "one changes while the other goes on"),
    ("epochs", "late", "late packets are refused"),
)


def numbers_of(draws: Draws) -> tuple[int, int, int, int]:
    """Of a student: the older controller's election id, first multicast group, replication id and epoch."""
    high, low = draws.integer("election", 20, 900), draws.integer("group", 3, 9)
    return high, low, draws.integer("rid", 10, 30), draws.integer("epoch", 3, 90)


def grade(task: Task) -> Iterator[Check]:
    """All checks of lab 07."""
    with StudentCode(task.answers / FILE, seen=task.seen) as code:
        yield from run_steps(task, _Grader(task, code).steps())


class _Grader:
    def __init__(self, task: Task, code: StudentCode) -> None:
        self.code = code
        self.draws = task.hidden
        self.path = str(task.answers / FILE)
        self.numbers = numbers_of(task.personal)
        self._known: dict[int, dict[str, Wrong]] = {}

    def steps(self) -> list[Step]:
        return [
            Step(part, f"{kind}: {title}", lambda number=number, act=act: self._check(number, act))  # type: ignore[misc]
            for part, act, title in _TITLES
            for number, kind in enumerate(KINDS)
        ]

    def _check(self, number: int, act: str) -> None:
        if number not in self._known:
            self._known[number] = self._played(number)
        wrong = self._known[number].get(act)
        if wrong is not None:
            raise wrong

    def _played(self, number: int) -> dict[str, Wrong]:
        """What is wrong, by act."""
        scene = draw(self.draws, number)
        *held, first_epoch = self.numbers
        with Room(scene.topology, Held(*held), edges=False) as room:

            def ask(name: str, *arguments: Any) -> Any:
                return self.code.call(name, *arguments, Remote("p4rt"), services={"p4rt": room.sessions.service})

            found: dict[str, Wrong] = {}
            over: Wrong | None = None
            for name, act in Play(scene, room, ask, first_epoch, self.path).acts():
                try:
                    if over is not None:
                        raise over
                    act()
                except Wrong as wrong:
                    found[name] = wrong
                    if name != "entries":  # what is wrong with them shows in what follows
                        over = wrong
            return found
