"""Lab 06: a controller that makes a tree of switches aggregate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from pprint import pformat
from shlex import quote
from typing import Any, Final

import numpy as np

from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.resources import SLOTS, STATS_JOBS
from p4reduce.topologies import Topology
from p4reduce_course.controllers.diagnose import check_entries, check_given, check_needed, check_only
from p4reduce_course.controllers.rehearsal import changed_controller
from p4reduce_course.controllers.room import Held, Room, anew_is_right, drawn, layout, nearest, plan_of, told, wired
from p4reduce_course.culprit import placed
from p4reduce_course.frame.lab import Draws, GradingTask, Lab, LabPart, LabStep, run_steps
from p4reduce_course.frame.report import LOOK, Check, TooSlow, Wrong
from p4reduce_course.python_trail import located, searched
from p4reduce_course.sandbox.process import StudentCode

# The five networks of lab 06: a switch, a chain, a leaf-spine, a random tree, a random graph.


KINDS: Final = ("one switch", "a chain", "a leaf-spine", "a tree", "a graph")
Links = list[tuple[str, str]]
_LEAST: Final = 6
"""fewest switches of a random tree"""
_WIDE: Final = 11
"""the same of a random graph: its tree then has s1, and a switch whose name begins with s1"""
Shape = tuple[int, int, Links]
"""The number of switches, how many of them (the first ones) have hosts, and the links between switches."""


@lru_cache(maxsize=32)
def draw(draws: Draws, number: int) -> tuple[Topology, dict[str, Any]]:
    """Returns a network, and the job to be installed in it, in the form that the student's code gets."""
    random = draws.generator(f"network {number}")
    # The last two networks have the same root, so that a controller that keeps distances by the root's name is wrong.
    root = draws.integer("root", 1, _LEAST) if number >= len(KINDS) - 2 else 0
    topology, job = _drawn(random, number, root)
    while number == len(KINDS) - 1 and not _ports_decide(topology, job, draw(draws, number - 1)[0]):
        topology, job = _drawn(random, number, root)
    job["slots"] = 8 << (draws.integer("slots", 0, 4) + number) % 5  # one size per network
    job["base"] = job["slots"] * (1 + 2 * draws.integer(f"base {number}", 0, SLOTS // job["slots"] // 2 - 1))
    return topology, job


def _ports_decide(topology: Topology, job: dict[str, Any], before: Topology) -> bool:
    """Returns whether the tree of the lowest ports differs from those that other rules give.

    Such rules take, of several parents: the first or the last name; the one that a search comes to first or last; the
    lowest port at the parent's end; the fewest links; the fewest children so far; the distances in the network before.
    """
    root, right = job["root"], layout(topology, job["root"], job["workers"]).parent
    ways, former = nearest(topology, root), nearest(before, root)
    used = [node for node in right if node in ways]
    place = {name: number for number, name in enumerate((root, *ways))}

    def differs(rank: Callable[[str, str], Any]) -> bool:
        return any(min(ways[switch], key=lambda other: rank(switch, other)) != right[switch] for switch in used)

    loads, balanced = dict.fromkeys(place, 0), True
    for switch in used:
        balanced = balanced and min(ways[switch], key=loads.__getitem__) == right[switch]
        loads[right[switch]] += 1
    return not balanced and all(
        (
            differs(lambda _, other: other),
            differs(lambda _, other: [-ord(letter) for letter in other]),
            differs(lambda _, other: place[other]),
            differs(lambda _, other: -place[other]),
            differs(lambda switch, other: topology.neighbours(other).index(switch)),
            differs(lambda _, other: len(topology.neighbours(other))),
            any(former.get(switch) is not None and former[switch][0] != right[switch] for switch in used),
        )
    )


def _drawn(random: np.random.Generator, number: int, root: int) -> tuple[Topology, dict[str, Any]]:
    """Returns a network and a job; ``root``: number of its root, or 0."""
    switches, housed, links = _SHAPES[number](random)
    hosts = 0
    for switch in range(1, housed + 1):
        for _ in range(int(random.integers(0 if number else 4, 4 if number else 9))):
            hosts += 1
            links.append((f"h{hosts}", f"s{switch}"))
    for switch in (1, housed):
        hosts += 1
        links.append((f"h{hosts}", f"s{switch}"))
    topology = wired(KINDS[number].replace(" ", "-"), links, random)
    names = [host.name for host in topology.workers]
    # The last two workers are behind different switches, so that the tree has several switches if it can.
    chosen = [name for name in names[:-2] if random.random() < 0.8] + names[-2:]
    job = {
        "job": int(random.integers(1, 1 << 16)),
        "epoch": int(random.integers(2, 1 << 16)),
        "generation": int(random.integers(2, 1 << 31)),
        "base": 0,
        "slots": 0,
        "stats": int(random.integers(0, STATS_JOBS)),
        "root": f"s{root or int(random.integers(1, switches + 1))}",
        "workers": [chosen[int(place)] for place in random.permutation(len(chosen))],
    }
    return topology, {**job, **told(topology)}


def _one(random: np.random.Generator) -> Shape:
    return 1, 1, []


def _chain(random: np.random.Generator) -> Shape:
    count = int(random.integers(3, 6))
    return count, count, [(f"s{number}", f"s{number + 1}") for number in range(1, count)]


def _leaf_spine(random: np.random.Generator) -> Shape:
    leaves, spines = int(random.integers(3, 5)), 2
    pairs = [(leaf, leaves + spine) for leaf in range(1, leaves + 1) for spine in range(1, spines + 1)]
    return leaves + spines, leaves, [(f"s{leaf}", f"s{spine}") for leaf, spine in pairs]


def _tree(random: np.random.Generator, least: int = _LEAST) -> Shape:
    count = int(random.integers(least, least + 3))
    return count, count - 1, [(f"s{number}", f"s{int(random.integers(1, number))}") for number in range(2, count + 1)]


def _graph(random: np.random.Generator) -> Shape:
    count, housed, links = _tree(random, _WIDE)
    known = {frozenset(link) for link in links}
    for _ in range(2 * _WIDE):
        a, b = (int(end) for end in random.integers(1, count + 1, 2))
        link = f"s{a}", f"s{b}"
        if a != b and frozenset(link) not in known:
            known.add(frozenset(link))
            links.append(link)
    return count, housed, links


_SHAPES: Final = (_one, _chain, _leaf_spine, _tree, _graph)


# Grading of lab 06: trees, the entries that a controller wrote, and the resulting packets.


FILE: Final = "controller.py"
_ELEMENTS: Final = 64 * 40 - 7
GIVEN: Final = ("generation", "base", "slots", "stats")
_CHANGES: Final = 250
"""most changes of the controller that are tried, each without packets"""


def grade(task: GradingTask) -> Iterator[Check]:
    """Yields all checks of lab 06."""
    with StudentCode(task.answers / FILE, seen=task.seen) as code:
        yield from run_steps(task, _Grader(task, code).steps())


class _Grader:
    def __init__(self, task: GradingTask, code: StudentCode, room: type[Room] = Room) -> None:
        self.task, self.code, self.room = task, code, room
        self.home = task.folder
        self.draws = task.hidden
        self.path = str(task.answers / FILE)
        self.held = Held.of(task.personal)
        self._known: dict[int, tuple[Wrong | None, Wrong | None]] = {}
        self._located = not task.explain  # whether the lines of a mistake were told
        self._other_tree = False  # whether a tree is wrong, whose check has looked for the line

    def steps(self) -> list[LabStep]:
        search = searched(self.task, FILE, self.code, lambda code: _Grader(self.task, code).trees())

        def each(part: str, what: Callable[[int], None]) -> list[LabStep]:
            return [LabStep(part, kind, lambda number=number: what(number)) for number, kind in enumerate(KINDS)]  # type: ignore[misc]

        return [
            *placed(self.task, self.trees(), search),
            *each("entries", self.entries),
            *each("packets", self.packets),
        ]

    def trees(self) -> list[LabStep]:
        """Returns the checks that need no network."""
        return [LabStep("tree", kind, lambda number=number: self.tree(number)) for number, kind in enumerate(KINDS)]  # type: ignore[misc]

    # --- the tree

    def tree(self, number: int) -> None:
        try:
            self._tree(self.code, number)
        except Wrong as wrong:
            self._other_tree = True
            earlier = number > 0 and not isinstance(wrong, TooSlow) and self._tree_is_right_alone(number)
            numbers = range(0 if earlier else number, number + 1)
            shown = [(f"network-{each + 1}.txt", draw(self.draws, each)[1]) for each in numbers]
            code = "import ast, controller"
            for name, _ in shown:
                code += f'; network = ast.literal_eval(open("{self.home / LOOK / name}").read())'
                code += "; print(controller.tree(network))"
            look = f"cd {quote(str(Path(self.path).parent))} && python3 -c {quote(code)}"
            files = tuple((name, f"{pformat(job)}\n") for name, job in shown)
            text = anew_is_right(self.task, FILE, "tree", wrong).finding.said if earlier else wrong.finding.said
            raise Wrong(text, wrong.finding.where, look, files) from None

    def _tree_is_right_alone(self, number: int) -> bool:
        """Returns whether the tree of a network is right in a new process."""
        with StudentCode(Path(self.path)) as code:
            try:
                self._tree(code, number)
            except Wrong:
                return False
        return True

    def _tree(self, code: StudentCode, number: int) -> None:
        topology, job = draw(self.draws, number)
        parents, right = code.call("tree", job), layout(topology, job["root"], job["workers"]).parent
        if not isinstance(parents, dict):
            raise Wrong(f"tree returned a {type(parents).__name__}; return a dict, a parent for each node", self.path)
        where = f"{KINDS[number]}, root {job['root']}"
        for node, parent in right.items():
            if node not in parents:
                raise Wrong(f"{where}: tree gives {node} no parent; its parent is {parent}", self.path)
            if not isinstance(parents[node], str):
                kind = type(parents[node]).__name__
                raise Wrong(f"{where}: tree gives {node} a {kind} for its parent; give a name", self.path)
            if parents[node] != parent:
                raise Wrong(self._other_parent(topology, job, node, parents[node][:20], parent), self.path)
        if extra := [str(node)[:20] for node in parents if node not in right]:
            why = "the root has no parent" if extra[0] == job["root"] else "no worker of the job is below it"
            raise Wrong(f"{where}: tree gives {extra[0]} a parent: {why}", self.path)

    @staticmethod
    def _other_parent(topology: Topology, job: dict[str, Any], node: str, chosen: str, right: str) -> str:
        message = f"root {job['root']}: tree gives {node} the parent {chosen}, expected {right}"
        neighbours = topology.neighbours(node)
        if chosen not in neighbours:
            return f"{message}: {chosen} is not behind any port of {node}"
        ports = f"port {neighbours.index(right) + 1}, {chosen} at port {neighbours.index(chosen) + 1}"
        return f"{message}, at {ports}: the nearest to the root, of equal ones the one at the lowest port"

    # --- the controller's entries and their effect

    def entries(self, number: int) -> None:
        if (wrong := self._outcome(number)[0]) is not None:
            raise wrong

    def packets(self, number: int) -> None:
        for wrong in self._outcome(number)[::-1]:
            if wrong is not None:
                raise wrong

    def _outcome(self, number: int) -> tuple[Wrong | None, Wrong | None]:
        """Returns what is wrong with the entries, and what is wrong with the packets."""
        if number not in self._known:
            topology, job = draw(self.draws, number)
            with self.room(topology, self.held) as room:
                self.code.begin()
                try:
                    room.call(self.code, "install", job)
                except Wrong as wrong:
                    self._known[number] = self._shown(wrong, number), None
                    return self._known[number]
                plan = plan_of(topology, job)
                both = self._caught(room, plan, job), self._sent(room, plan)
                first, second = (
                    wrong and room.shown(self._told(wrong, number, place), plan, self.home, f"network-{number + 1}")
                    for place, wrong in enumerate(both)
                )
                self._known[number] = first, second
        return self._known[number]

    def _shown(self, wrong: Wrong, number: int) -> Wrong:
        return self.code.shown(self._told(wrong, number, 0), self.home, f"network-{number + 1}")

    def _told(self, wrong: Wrong, number: int, place: int) -> Wrong:
        """Returns a finding, the first one with the lines that led to it; ``place``: 0 for entries, 1 for packets."""
        if self._located or isinstance(wrong, TooSlow):
            return wrong
        self._located = True
        if number and self._alone(number)[place] is None:
            return anew_is_right(self.task, FILE, "install", wrong)
        return located(self.task, FILE, self.code, wrong, "" if self._other_tree else self._changed(wrong, number))

    def _changed(self, wrong: Wrong, number: int) -> str:
        """Returns a sentence about the line where one small change mends entries and packets, or nothing."""
        return changed_controller(
            self.task, FILE, self.code, wrong, KINDS[number], lambda *given: _Grader(*given).steps(), _CHANGES
        )

    def _alone(self, number: int) -> tuple[Wrong | None, Wrong | None]:
        """Returns what is wrong with the entries of a network in a new process, and with the packets."""
        topology, job = draw(self.draws, number)
        with Room(topology, self.held) as room, StudentCode(Path(self.path)) as code:
            try:
                room.call(code, "install", job)
            except Wrong as wrong:
                return wrong, wrong
            plan = plan_of(topology, job)
            return self._caught(room, plan, job), self._sent(room, plan)

    def _caught(self, room: Room, plan: Plan, job: dict[str, Any]) -> Wrong | None:
        book = room.sessions.book
        try:
            check_entries(book, plan, self.path)
            check_only(book, [plan], self.path)
            check_needed(book, plan, self.path)
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


LAB: Final = Lab(
    number="06",
    name="06-a-tree-by-program",
    title="a tree by program",
    minutes=75,
    parts=(
        LabPart("tree", "who adds up where, in 5 networks", 25),
        LabPart("entries", "what your controller wrote into their switches", 40),
        LabPart("packets", "exact sums, and bytes on every link as predicted", 35),
    ),
    files=(FILE,),
    grade=grade,
    praise="any network, summed up by its switches",
    parameters=lambda draws: Held.of(draws).parameters(),
)
