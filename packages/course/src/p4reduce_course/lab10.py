"""Lab 10: a controller that replaces the tree of a dead switch."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from p4reduce.control_plane.plans import Plan
from p4reduce.network.jobs.network import Job
from p4reduce.topologies import Topology
from p4reduce_course.controllers.diagnose import (
    check_apart,
    check_cleared,
    check_entries,
    check_gone,
    check_no_copies,
    check_no_more,
    check_only,
    check_open,
    copies_of,
    peer_of,
    spare_of,
)
from p4reduce_course.controllers.rehearsal import changed_controller
from p4reduce_course.controllers.room import (
    Held,
    Room,
    Words,
    anew_is_right,
    drawn,
    epoch_of,
    parameters_of,
    plan_of,
    told,
    wired,
)
from p4reduce_course.frame.lab import Draws, GradingTask, Lab, LabPart, LabStep, run_steps
from p4reduce_course.frame.report import Check, TooSlow, Wrong, counted
from p4reduce_course.python_trail import WrongChange, WrongEntry, located
from p4reduce_course.sandbox.process import StudentCode
from p4switch.base.values import PS_PER_MS, PS_PER_US

# The networks of lab 10: leaves with workers, and spines, each of which could be the root.


@dataclass(frozen=True)
class LabNetwork:
    """A network with one job, in the form that the student's code gets."""

    topology: Topology
    network: dict[str, Any]
    spines: frozenset[str]

    @property
    def leaves(self) -> list[str]:
        """All switches with hosts."""
        return [node.name for node in self.topology.switches if node.name not in self.spines]


def draw(draws: Draws, name: str) -> LabNetwork:
    """Returns a leaf-spine of 2 or 3 leaves with workers, one with another host alone, and 4 spines."""
    random = draws.generator(f"network {name}")
    leaves, spines = int(random.integers(3, 5)), 4
    order = [f"s{int(place) + 1}" for place in random.permutation(leaves + spines)]  # numbers do not tell who is what
    links = [(leaf, spine) for leaf in order[:leaves] for spine in order[leaves:]]
    behind = [leaf for leaf in order[: leaves - 1] for _ in range(int(random.integers(1, 4)))]
    working, hosts = len(behind), [f"h{int(place) + 1}" for place in random.permutation(len(behind) + 1)]
    links += zip(hosts, [*behind, order[leaves - 1]], strict=True)
    topology = wired("leaf-spine", links, random)
    slots = int(random.choice((16, 32))) if name == "start" else 8  # README's example has 8
    workers = sorted(hosts[:working], key=lambda host: int(host[1:]))
    job = {"job": int(random.integers(1, 1 << 16)), "slots": slots, "workers": workers}
    return LabNetwork(topology, {**job, **told(topology)}, frozenset(order[leaves:]))


# A controller at work in virtual time: running sums, dying switches, and the controller's changes.


TICK_PS: Final = 200 * PS_PER_US
PATIENCE_PS: Final = 16 * PS_PER_MS
"""virtual time after which a sum counts as stuck; a correct controller needs some 7 ms"""
_HASTY_PS: Final = 9 * PS_PER_MS
"""the same, without packets"""
ELEMENTS: Final = 64 * 400 - 5
Ask = Callable[..., Any]


class ControllerPlay:
    """One network with one job, and the student's controller.

    Attributes:
        took_ps: the virtual time of the last sum, picoseconds.
        changes: how often the controller has changed the tree.
        changed: called after each change.
    """

    def __init__(self, ground: LabNetwork, room: Room, ask: Ask, first_epoch: int, where: str) -> None:
        """Makes a play. ``ask(name, *arguments)`` calls a function of the student's, with the room's p4rt."""
        self.ground, self.room, self._ask, self._first_epoch, self._where = ground, room, ask, first_epoch, where
        self.took_ps = self.changes = 0
        self._needless: list[Plan] = []  # plans that were given up although none of their switches was dead
        self.changed: Callable[[], None] = lambda: None
        self._random = np.random.default_rng(ground.network["job"])
        self._about: Plan | None = None  # the plan that was looked at last
        self._epochs: list[int] = []
        self._plans: list[Plan] = []  # plans that workers have used, the newest first
        self._copies: list[dict[str, tuple[int, list[int]]]] = []  # their groups and replication ids

    def begin(self) -> None:
        """Lets the controller install its first tree. Raises Wrong."""
        answer = self._ask("start", self.ground.network)
        check_open(self.room.sessions.highest, self.ground.topology, self._where)
        self._plan = self._about = self._answered("start", answer)
        check_entries(self.room.sessions.book, self._plan, self._where)
        check_apart(self.room.sessions.book, [self._plan], self._where)
        self._plans = [self._plan]
        self._copies = [copies_of(self.room.sessions.book, self._plan)]
        self._spare = spare_of(self.room.sessions.book, self._plan)
        self.job: Job = self.room.network.add(self._plan)
        self._epochs.append(self._plan.epoch)

    def shown(self, wrong: Wrong, home: Path, label: str) -> Wrong:
        """Adds entries and packets of the tree in question to a finding, if there is one."""
        return wrong if self._about is None else self.room.shown(wrong, self._about, home, label)

    @property
    def root(self) -> str:
        """Root of the tree that workers use."""
        return self._plan.root

    @property
    def switches(self) -> frozenset[str]:
        """Switches of the tree that workers use."""
        return frozenset(self._plan.by_switch)

    @property
    def now(self) -> int:
        """Virtual time, picoseconds."""
        return self.room.network.now

    def sum(self) -> None:
        """Runs one sum of all workers, and calls the controller at every tick. Raises Wrong."""
        inputs, _ = drawn(self._random, len(self.ground.network["workers"]), ELEMENTS)
        self._given = dict(zip(self.ground.network["workers"], inputs, strict=True))
        begin = self.now
        self._post()
        while self.room.waiting(self.job):
            self.room.advance(self.now + TICK_PS, self.job.endpoints)
            if self.room.waiting(self.job):
                if self.now > begin + (PATIENCE_PS if self.room.packets else _HASTY_PS):
                    raise self._waits()
                self.tick()
        self.took_ps = self.now - begin
        wanted: Words = np.sum([self._given[worker] for worker in self.job.members], axis=0, dtype=np.int32)
        self.room.check_sum(self.job, self._sums, wanted, self._where)

    def _post(self) -> None:
        """Lets every member give its numbers, from the first chunk on."""
        self._sums = [self._given[worker].copy() for worker in self.job.members]
        self.room.post(self.job, self._sums)

    def tick(self) -> None:
        """Calls the controller's ``tick``, which may change the tree. Raises Wrong."""
        answer = self._ask("tick", self.ground.network, self.now // PS_PER_US)
        if answer is not None:
            self._change(self._answered("tick", answer))

    def with_lost(self, wrong: Wrong) -> Wrong:
        """Returns a finding about a question to a dead switch, with the workers that were to be a part of it there."""
        if not isinstance(wrong, WrongEntry) or wrong.place.how != "asked":
            return wrong
        topology, written = self.ground.topology, self.room.sessions.written
        asked = {row.match["src"] for row in map(peer_of, written) if row is not None}
        behind = topology.neighbours(wrong.place.switch)
        lost = [name for name in self.ground.network["workers"] if name in behind and topology.node(name).ip in asked]
        if not lost:
            return wrong
        first, stop, rest = wrong.finding.said.partition(". ")
        text = f"the entries for it name {' and '.join(lost)}, behind it: no tree has workers of a dead switch"
        return WrongEntry(f"{first}; {text}{stop}{rest}", wrong.finding.where, wrong.place)

    def check_end(self, dead: Collection[str]) -> None:
        """Raises Wrong if a tree was changed without need, or a living switch has entries of an epoch that is over."""
        book = self.room.sessions.book
        check_gone(book, self._plan, self._where, dead, self._epochs)
        check_only(book, [self._plan], self._where, dead)
        for plan, copies in zip(self._plans, self._copies, strict=True):
            living = {name: held for name, held in copies.items() if name not in dead}
            check_no_copies(book, plan, living, self._where, dead)
        check_no_more(book, self._plan, self._spare, self._where, dead)
        if self._needless:
            first = self._needless[0]
            message = f"tick changed the tree of root {first.root}, epoch {first.epoch}, in which no switch was dead"
            message += f"; {counted(len(self._needless), 'change')} of that kind: each costs what is on its way"
            raise WrongChange(f"{message}. Return None unless a switch of the tree that is in use died", self._where)

    def _waits(self) -> Wrong:
        dead = sorted(self.room.sessions.dead)
        message = f"after {PATIENCE_PS // PS_PER_MS} ms of virtual time {self.room.waiting(self.job)[0]} still waits"
        if dead:
            message += f"; {' and '.join(dead)} {'is' if len(dead) == 1 else 'are'} dead"
        lost = [switch for switch in dead if switch in self._plan.by_switch]
        if lost:
            message += f", and tick has not put another tree in the place of that with {lost[0]}: waiting for ever"
        elif why := self.room.why():
            message += f". {why}"
        return Wrong(message, self._where)

    def _change(self, plan: Plan) -> None:
        old, dead = self._plan, self.room.sessions.dead
        self._about = plan
        if plan.epoch in self._epochs:
            message = (
                f"epoch {plan.epoch} again, for a tree with root {plan.root}: packets that were on their way in the "
            )
            raise Wrong(f"{message}tree of {old.root} cannot be told from current ones. Use another epoch", self._where)
        check_entries(self.room.sessions.book, plan, self._where, dead)
        check_apart(self.room.sessions.book, [plan], self._where)
        for earlier in self._plans:
            check_cleared(self.room.sessions.book, earlier, plan, self._where)
        if plan.workers == old.workers:
            self.room.network.change_over(self.job, plan)
        else:  # some sums contain numbers of dead workers: all is sent again without them
            self.room.network.give_up(self.job)
            self.room.network.retire(self.job)
            self.job = self.room.network.add(plan)
            self._post()
        if not dead & set(old.by_switch):
            self._needless.append(old)
        self._epochs.append(plan.epoch)
        self._plan = plan
        self._plans.insert(0, plan)
        self._copies.insert(0, copies_of(self.room.sessions.book, plan))
        self.changes += 1
        self.changed()

    def _answered(self, name: str, answer: Any) -> Plan:
        """Returns the plan that an answer of the student's code describes. Raises Wrong."""
        if not isinstance(answer, dict) or set(answer) != {"epoch", "root"}:
            nothing = ", or None" if name == "tick" else ""
            message = f"{name} returned {answer!r:.60}; return {{'epoch': number, 'root': name of a switch}}{nothing}"
            raise Wrong(message, self._where)
        epoch, root, dead = answer["epoch"], answer["root"], self.room.sessions.dead
        topology, network = self.ground.topology, self.ground.network
        if isinstance(epoch, bool) or not isinstance(epoch, int) or not self._first_epoch <= epoch < 1 << 16:
            message = f"{epoch!r:.40} is no epoch: a number from {self._first_epoch} to 65535"
            raise Wrong(f"{name}: {message}", self._where)
        if not isinstance(root, str) or root not in self.ground.spines:
            raise Wrong(f"{name}: {root!r:.40} is no root; take a spine, a switch without hosts", self._where)
        if root in dead and not self._written(root, epoch):
            message = f"{name} returned the root {root}, which is dead and has nothing of epoch {epoch}"
            raise Wrong(f"{message}: return the root of the tree that you installed", self._where)
        # A switch that dies while a tree is written is still a part of it: the next tick sees it.
        gone = {leaf for leaf in dead if leaf not in self.ground.spines and not self._written(leaf, epoch)}
        staying = [worker for worker in network["workers"] if topology.neighbours(worker)[0] not in gone]
        job = {**network, "epoch": epoch, "root": root, "workers": staying}
        return plan_of(topology, job, frozenset(dead - {root}) & (gone | self.ground.spines))

    def _written(self, switch: str, epoch: int) -> bool:
        """Returns whether the controller has written a switch's entry for an epoch."""
        return (self.ground.network["job"], epoch) in self.room.sessions.book.jobs(switch)


# Grading of lab 10: switches die at moments that a controller cannot know, and sums stay exact.


FILE: Final = "controller.py"
_CHANGES: Final = 120
"""most changes of a controller that are tried; each takes some 40 ms"""
_MOMENTS: Final = 6
"""parts of a sum; a root dies once in each"""


def grade(task: GradingTask) -> Iterator[Check]:
    """Yields all checks of lab 10."""
    with StudentCode(task.answers / FILE, seen=task.seen) as code:
        yield from run_steps(task, _Grader(task, code).steps())


class _Grader:
    def __init__(self, task: GradingTask, code: StudentCode, room: type[Room] = Room) -> None:
        self.task, self.code, self.room = task, code, room
        self.home = task.folder
        self.draws = task.hidden
        self.path = str(task.answers / FILE)
        self.held, self.first_epoch = Held.of(task.personal), epoch_of(task.personal)
        self._before: frozenset[str] = frozenset()  # switches of the last tree
        self._located = not task.explain  # whether the lines of a mistake were told

    def steps(self) -> list[LabStep]:
        part = 100 // _MOMENTS
        moments = [
            self._step(
                "replace",
                f"the root dies after {number * part} to {(number + 1) * part} % of a sum",
                f"moment {number}",
                lambda play, number=number: self.moment(play, number),  # type: ignore[misc]
            )
            for number in range(_MOMENTS)
        ]
        return [
            self._step("start", "nothing dies", "start", self.quiet),
            *moments,
            self._step("replace", "the root dies between two sums", "between", self.between),
            self._step("again", "the next root dies, too", "again", self.again),
            self._step("again", "two switches die while they are written to", "writing", self.writing),
            self._step("again", "switches die that have no part", "idle", self.idle),
            self._step("again", "one root is left, the first", "one left", self.first_left),
            self._step("again", "one root is left, the last", "one left, last", self.last_left),
            self._step("leaf", "a leaf dies, and its workers with it", "leaf", self.leaf),
            self._step("leaf", "a leaf dies between two sums, then the root", "leaf, idle", self.leaf_between),
            self._step("leaf", "a leaf dies while it is written to", "leaf, writing", self.leaf_writing),
            self._step("leaf", "a leaf dies while entries are deleted in it", "leaf, deleting", self.leaf_deleting),
        ]

    def _step(self, part: str, title: str, name: str, act: Callable[[ControllerPlay], None]) -> LabStep:
        """Returns a check that plays a network; its first finding has the lines that led to it."""

        def run() -> None:
            wrong = self._outcome(self.code, name, act, title)
            if wrong is not None:
                raise wrong

        return LabStep(part, title, run)

    def _told(self, wrong: Wrong, name: str, act: Callable[[ControllerPlay], None], title: str) -> Wrong:
        """Returns a finding, the first one with the lines that led to it."""
        if self._located or isinstance(wrong, TooSlow):
            return wrong
        self._located = True
        if self._before:
            with StudentCode(Path(self.path)) as code:
                if self._outcome(code, name, act, title) is None:
                    return anew_is_right(self.task, FILE, "start", wrong)
        place = changed_controller(
            self.task, FILE, self.code, wrong, title, lambda *given: _Grader(*given).steps(), _CHANGES
        )
        return located(self.task, FILE, self.code, wrong, place)

    def _outcome(self, code: StudentCode, name: str, act: Callable[[ControllerPlay], None], title: str) -> Wrong | None:
        """Returns what is wrong with a network, in a process of the student's."""
        ground = draw(self.draws, name)
        with self.room(ground.topology, self.held) as room:

            def ask(function: str, *arguments: Any) -> Any:
                return room.call(code, function, *arguments)

            play = ControllerPlay(ground, room, ask, self.first_epoch, self.path)
            code.begin()
            try:
                play.begin()
                play.sum()
                act(play)
                play.sum()
                play.check_end(room.sessions.dead)
                self._before = play.switches
            except Wrong as wrong:
                label = re.sub(r"\W+", "-", name)
                told = self._told(play.with_lost(wrong), name, act, title)
                if isinstance(wrong, WrongEntry) and wrong.place.how == "asked":  # packets do not show a question
                    told = code.shown(told, self.home, label)
                return code.shown(play.shown(told, self.home, label), self.home, label)
            return None

    # --- events between a first and a last sum

    def quiet(self, play: ControllerPlay) -> None:
        play.sum()
        if play.changes:
            message = f"nothing has died, and tick changed the tree {counted(play.changes, 'time')}"
            raise WrongChange(f"{message}: each change costs what is on its way", self.path)
        play.room.check_links([play.job], self.path)

    def moment(self, play: ControllerPlay, number: int) -> None:
        within = self.draws.integer(f"moment {number}", number * 1000, (number + 1) * 1000) / (1000 * _MOMENTS)
        play.room.deaths.append((play.now + int(within * play.took_ps), play.root))
        play.sum()

    def between(self, play: ControllerPlay) -> None:
        play.room.die(play.root)

    def again(self, play: ControllerPlay) -> None:
        soon = self.draws.integer("soon", 0, play.took_ps // 2)

        def next_one() -> None:
            if play.changes == 1:
                play.room.deaths.append((play.now + soon, play.root))

        play.changed = next_one
        play.room.deaths.append((play.now + self.draws.integer("first", 0, play.took_ps // 2), play.root))
        play.sum()

    def writing(self, play: ControllerPlay) -> None:
        play.room.sessions.writing = self._dying(play, play.ground.spines, deaths=2)
        self._root_dies(play)

    @staticmethod
    def _dying(
        play: ControllerPlay, mortal: Collection[str], number: int = 1, deaths: int = 1
    ) -> Callable[[str], None]:
        """Returns a function that lets some switches die: from the ``number``-th with which it is called on."""
        seen: set[str] = set()

        def called(switch: str) -> None:
            if switch in mortal and switch not in (*seen, *play.room.sessions.dead) and len(seen) < number + deaths - 1:
                seen.add(switch)
                if len(seen) >= number:
                    play.room.die(switch)

        return called

    def _root_dies(self, play: ControllerPlay) -> None:
        play.room.deaths.append((play.now + self.draws.integer("writing", 0, play.took_ps), play.root))
        play.sum()

    def idle(self, play: ControllerPlay) -> None:
        others = sorted(play.ground.spines - {play.root})
        # If possible, a switch of the network before, which a controller that has not forgotten it takes for a part.
        dead = self.draws.choice("idle", [name for name in others if name in self._before] or others)
        leaf = next(name for name in play.ground.leaves if name not in play.switches)
        play.room.deaths.extend((play.now + play.took_ps // 3, name) for name in (dead, leaf))
        play.sum()
        if play.changes:
            message = f"{dead} and {leaf}, which had no part in the tree, died, and tick changed the tree"
            message += f" {counted(play.changes, 'time')}"
            message += ": a change that is not needed costs what is on its way. Return None"
            raise WrongChange(message, self.path)

    def first_left(self, play: ControllerPlay) -> None:
        self._leave(play, 0)

    def last_left(self, play: ControllerPlay) -> None:
        self._leave(play, -1)

    @staticmethod
    def _leave(play: ControllerPlay, place: int) -> None:
        """Lets all spines die but one, which is none of the tree: those without a part first, then the root."""
        others = sorted(play.ground.spines - {play.root})
        idle = [name for name in others if name != others[place]]
        play.room.deaths.extend((play.now + play.took_ps // 3, name) for name in idle)
        play.room.deaths.append((play.now + 2 * play.took_ps // 3, play.root))
        play.sum()

    def leaf(self, play: ControllerPlay) -> None:
        play.room.deaths.append((play.now + self.draws.integer("leaf", 0, play.took_ps), self._leaf(play)))
        play.sum()

    def leaf_between(self, play: ControllerPlay) -> None:
        play.room.die(self._leaf(play))
        play.sum()
        play.room.die(play.root)  # no later tree has the leaf's workers

    def leaf_writing(self, play: ControllerPlay) -> None:
        # The second one, so that another leaf has its entries of a tree that is given up.
        play.room.sessions.writing = self._dying(play, self._leaves(play), 2)
        self._root_dies(play)

    def leaf_deleting(self, play: ControllerPlay) -> None:
        play.room.sessions.deleting = self._dying(play, self._leaves(play))
        self._root_dies(play)

    def _leaf(self, play: ControllerPlay) -> str:
        return self.draws.choice("which leaf", self._leaves(play))

    @staticmethod
    def _leaves(play: ControllerPlay) -> list[str]:
        """Returns the leaves with workers."""
        return [name for name in play.ground.leaves if name in play.switches]


LAB: Final = Lab(
    number="10",
    name="10-failures",
    title="failures",
    minutes=75,
    parts=(
        LabPart("start", "sums while nothing dies", 20),
        LabPart("replace", "the root dies, at any moment", 40),
        LabPart("again", "more than one dies", 20),
        LabPart("leaf", "a switch with workers dies", 20),
    ),
    files=(FILE,),
    grade=grade,
    praise="sums are exact, whichever switch dies when",
    parameters=parameters_of,
)
