"""Grading lab 10: switches die at moments that a controller cannot know, and sums stay exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from p4reduce.labs.controllers.room import Held, Room
from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.lab import Step, Task, run_steps
from p4reduce.labs.frame.report import Check, Wrong
from p4reduce.labs.lab10.networks import draw
from p4reduce.labs.lab10.play import Play
from p4reduce.labs.sandbox.messages import Remote
from p4reduce.labs.sandbox.process import StudentCode

FILE: Final = "controller.py"
_MOMENTS: Final = 6
"""parts of a sum, in each of which a root dies once"""


def numbers_of(draws: Draws) -> tuple[int, int, int, int]:
    """Of a student: the older controller's election id, first multicast group, replication id and epoch."""
    high, low = draws.integer("election", 20, 900), draws.integer("group", 3, 9)
    return high, low, draws.integer("rid", 10, 30), draws.integer("epoch", 3, 90)


def grade(task: Task) -> Iterator[Check]:
    """All checks of lab 10."""
    with StudentCode(task.answers / FILE, seen=task.seen) as code:
        yield from run_steps(task, _Grader(task, code).steps())


class _Grader:
    def __init__(self, task: Task, code: StudentCode) -> None:
        self.code = code
        self.draws = task.hidden
        self.path = str(task.answers / FILE)
        *held, self.first_epoch = numbers_of(task.personal)
        self.held = Held(*held)

    def steps(self) -> list[Step]:
        part = 100 // _MOMENTS
        return [
            Step("start", "nothing dies", lambda: self._played("start", self.quiet)),
            *(
                Step(
                    "replace",
                    f"the root dies after {number * part} to {(number + 1) * part} % of a sum",
                    lambda number=number: self._played(f"moment {number}", lambda play: self.moment(play, number)),  # type: ignore[misc]
                )
                for number in range(_MOMENTS)
            ),
            Step("replace", "the root dies between two sums", lambda: self._played("between", self.between)),
            Step("again", "the next root dies, too", lambda: self._played("again", self.again)),
            Step("again", "a switch dies while it is written to", lambda: self._played("writing", self.writing)),
            Step("again", "a switch dies that has no part", lambda: self._played("idle", self.idle)),
            Step("leaf", "a leaf dies, and its workers with it", lambda: self._played("leaf", self.leaf)),
            Step("leaf", "a leaf dies between two sums", lambda: self._played("leaf, idle", self.leaf_between)),
        ]

    def _played(self, name: str, act: Callable[[Play], None]) -> None:
        ground = draw(self.draws, name)
        with Room(ground.topology, self.held) as room:

            def ask(function: str, *arguments: Any) -> Any:
                return self.code.call(function, *arguments, Remote("p4rt"), services={"p4rt": room.sessions.service})

            play = Play(ground, room, ask, self.first_epoch, self.path)
            play.sum()
            act(play)
            play.sum()
            play.check_end(room.sessions.dead)

    # --- what happens between a first sum and a last one

    def quiet(self, play: Play) -> None:
        play.sum()
        if play.changes:
            said = f"nothing has died, and tick changed the tree {play.changes} times"
            raise Wrong(f"{said}: each change costs what is on its way", self.path)
        play.room.check_links([play.job], self.path)

    def moment(self, play: Play, number: int) -> None:
        within = self.draws.integer(f"moment {number}", number * 1000, (number + 1) * 1000) / (1000 * _MOMENTS)
        play.room.deaths.append((play.now + int(within * play.took_ps), play.root))
        play.sum()

    def between(self, play: Play) -> None:
        play.room.die(play.root)

    def again(self, play: Play) -> None:
        soon = self.draws.integer("soon", 0, play.took_ps // 2)

        def next_one() -> None:
            if play.changes == 1:
                play.room.deaths.append((play.now + soon, play.root))

        play.changed = next_one
        play.room.deaths.append((play.now + self.draws.integer("first", 0, play.took_ps // 2), play.root))
        play.sum()

    def writing(self, play: Play) -> None:
        spines = play.ground.spines

        def written(switch: str) -> None:
            if switch in spines - play.room.sessions.dead:
                play.room.sessions.writing = lambda _: None
                play.room.die(switch)

        play.room.sessions.writing = written
        play.room.deaths.append((play.now + self.draws.integer("writing", 0, play.took_ps), play.root))
        play.sum()

    def idle(self, play: Play) -> None:
        others = sorted(play.ground.spines - {play.root})
        play.room.deaths.append((play.now + play.took_ps // 3, self.draws.choice("idle", others)))
        play.sum()

    def leaf(self, play: Play) -> None:
        play.room.deaths.append((play.now + self.draws.integer("leaf", 0, play.took_ps), self._leaf(play)))
        play.sum()

    def leaf_between(self, play: Play) -> None:
        play.room.die(self._leaf(play))

    def _leaf(self, play: Play) -> str:
        leaves = [node.name for node in play.ground.topology.switches if node.name not in play.ground.spines]
        return self.draws.choice("which leaf", leaves)
