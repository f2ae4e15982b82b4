"""Tells how a student's Python came to a wrong result: its lines, with the values that they had.

What the lines of a call set and returned is followed back from what is wrong, by the names that each line reads. A line
in a block is told with the condition that let it run, and a line that would have set a value with the condition that
kept it from running: a dynamic slice, as :mod:`p4reduce_course.trail` makes it of P4.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Final

from p4reduce_course.culprit import Origin, explained, lines_left, passes
from p4reduce_course.frame.grading import skeleton_of
from p4reduce_course.frame.lab import GradingTask, LabStep
from p4reduce_course.frame.report import Wrong
from p4reduce_course.python_change import Led, in_python, type_of
from p4reduce_course.python_code import (
    changed_by,
    gone_from,
    is_cut,
    is_maker,
    is_plain,
    is_set_by,
    last_line,
    name_called,
    names_in,
    only_moves,
    parts_about,
    read_parts,
)
from p4reduce_course.sandbox.confine import ProcessLimits
from p4reduce_course.sandbox.lines import ENTRY, IF, MODULE
from p4reduce_course.sandbox.process import LineStep, StudentCode
from p4reduce_course.trail import sentences

_SHOWN: Final = 110
"""most characters of a statement in the text"""
_SEEN: Final = 300
"""most steps that are followed"""
_INPUTS: Final = 4
"""most values of a statement's inputs"""
_WOULD: Final = 2
"""most lines that did not run"""
_OTHERS: Final = 4
"""most switches in a text"""
_FIRST: Final = 5
"""most lines that ran, of what is followed"""
_EARLIER: Final = 4
"""distance, in lines, of what a variable held before something was added to it, and of what the first call set"""
_INSIDE: Final = 0.9
"""distance of the last line of a function that a line calls"""
_DULL: Final = 2.5
"""the same, of a line that computes nothing: a constant, an empty list, a question to the grader"""
_ABOUT: Final = -0.9
"""the same, of a value that contains the name that is wrong"""
_FRAMES: Final = 3
"""most lines that an exception passed"""
MOST: Final = 6
"""most sentences"""
FEWER: Final = 3
"""most sentences behind one about the place of the mistake"""
_LIMITS: Final = ProcessLimits(cpu_s=2)
"""limits of Python that is searched"""
_ASKS: Final = ("insert", "delete", "read", "slot", "open")
_INSERT: Final = "<p4rt.insert>"
_DELETE: Final = "<p4rt.delete>"


@dataclass(frozen=True)
class EntryPlace:
    """An entry of a switch that is wrong.

    Attributes:
        key: its table and the sorted numbers of its match, or its group; only the table for one that is missing.
        fields: what is wrong in it: names of parameters or of keys; nothing if the entry must not be there.
        action: of one that is missing.
        how: ``written``: it is wrong or missing; ``deleted``: it must be there, and was deleted; ``twice``: it was
            written, and is there already; ``asked``: there is no entry: the switch is dead, and was asked.
    """

    switch: str
    key: str
    fields: tuple[str, ...] = ()
    action: str = ""
    how: str = "written"


class WrongEntry(Wrong):
    """Raised by a check for an entry of a switch that a student's controller should have written otherwise."""

    def __init__(self, said: str, where: str, place: EntryPlace) -> None:
        """Takes what is wrong, and the entry."""
        super().__init__(said, where)
        self.place = place


class WrongChange(Wrong):
    """Raised by a check for a call that did something where it had to do nothing: what decided that is wrong."""


def key_of(table: str, *numbers: int) -> str:
    """Returns the key of an entry, as steps of a trail have it."""
    return f"{table} {','.join(map(str, sorted(numbers)))}"


def trail_of(
    task: GradingTask,
    name: str,
    codes: Sequence[StudentCode],
    *,
    anew: bool = False,
    wrong: Wrong | None = None,
    most: int = MOST,
) -> str:
    """Returns sentences about how the last call of the first process came to its result; empty if nothing is known.

    Args:
        task: the submission.
        name: of the file.
        codes: processes that have called it.
        anew: whether the call depends on those before it.
        wrong: what is wrong; an entry of a switch is followed from where it was made.
        most: most sentences.
    """
    try:
        text = (task.answers / name).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    return where_in_python(text, codes[0].trail(anew=anew), skeleton_of(task, name), wrong, most) if codes else ""


def led(
    task: GradingTask, name: str, codes: Sequence[StudentCode], *, anew: bool = False, wrong: Wrong | None = None
) -> Led:
    """Returns the lines that have to do with the result of the last call, and types of variables; as `trail_of`."""
    try:
        text = (task.answers / name).read_text("utf-8")
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return Led()
    slice_ = _Slice(tree, text.split("\n"), codes[0].trail(anew=anew) if codes else [], set(), most=_SEEN)
    try:
        deque(slice_.parts(wrong), 0)
    except RecursionError:
        return Led()
    types: dict[str, set[str]] = {}
    for step in slice_.steps:
        if step.value:
            types.setdefault(step.name, set()).add(type_of(step.value))
    return Led(list(dict.fromkeys([*slice_.visited, *sorted(slice_.told)])), types)


def searched(
    task: GradingTask,
    name: str,
    code: StudentCode,
    checks: Callable[[StudentCode], Sequence[LabStep]],
    *,
    anew: bool = False,
) -> Callable[[LabStep], Origin]:
    """Returns a function that says where a failed check comes from: from the line whose change mends it, or the trail.

    Args:
        task: the submission.
        name: of the file.
        code: the process that has called it.
        checks: returns all checks for another process.
        anew: whether the call depends on those before it.
    """

    def place(step: LabStep) -> Origin:
        file = task.answers / name

        def passes_all(other: StudentCode) -> bool:
            every = checks(other)
            return passes(new_step for new_step in every if new_step.title == step.title) and passes(every)

        near = led(task, name, [code], anew=anew)
        where = in_python(file, skeleton_of(task, name), near, lambda: StudentCode(file, _LIMITS), passes_all)
        return Origin(where, "" if where else trail_of(task, name, [code], anew=anew))

    return place


def located(task: GradingTask, name: str, code: StudentCode, wrong: Wrong, place: str = "") -> Wrong:
    """Returns a finding about a controller with the lines that led to it; ``place``: the line whose change mends it."""
    steps = trail_of(task, name, [code], anew=True, wrong=wrong, most=FEWER if place else MOST)
    text = explained(wrong.finding.said, Origin(place, steps))
    return Wrong(text, wrong.finding.where, wrong.finding.look, wrong.finding.files) if place or steps else wrong


def where_in_python(
    text: str, steps: Sequence[LineStep], given: str = "", wrong: Wrong | None = None, most: int = MOST
) -> str:
    """Returns sentences about how the last call came to its result; empty if nothing is known.

    ``given``: the skeleton, whose lines are followed and not told.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    slice_ = _Slice(tree, text.split("\n"), steps, lines_left(text.split("\n"), given.split("\n")))
    try:
        return sentences(slice_.parts(wrong), most) or gone_from(text, given)
    except RecursionError:
        return ""


@dataclass(frozen=True)
class _Source:
    """A variable that a statement reads: the place of the step that set it, and the keys of it that matter."""

    name: str
    place: int
    fields: tuple[str, ...] = ()


@dataclass
class _Slice:
    tree: ast.Module
    lines: Sequence[str]
    steps: Sequence[LineStep]
    left: set[int]
    """lines that are the skeleton's"""
    told: set[int] = field(default_factory=set)
    most: int = _FIRST
    """most lines that are told, of what is followed"""
    left_out: set[int] = field(default_factory=set)
    """lines that were told with a loop that did not take what is wrong"""
    visited: list[int] = field(default_factory=list)
    """lines of the steps that are followed, and of what is told of them, nearest first"""
    decides: bool = False
    """whether what decided that the call did something is told"""
    about: str = ""
    """a value that is wrong wherever it is, as the name of a dead switch"""

    def parts(self, wrong: Wrong | None) -> Iterator[str]:
        """Yields what led to a mistake; without one, to the result of the last call."""
        self.told = set(self.left)
        if isinstance(wrong, WrongEntry):
            kinds = {"asked": self._asked, "twice": self._twice}
            yield from kinds.get(wrong.place.how, self._entry)(wrong.place)
            return
        ends = [place for place, step in enumerate(self.steps) if not step.name and step.above < 0]
        if isinstance(wrong, WrongChange):
            self.most, self.decides = self.most - 1, True
            yield from (self._sentence(end, ()) for end in ends[-1:])
            yield from self._followed([at for end in ends[-1:] for at in self._decided(end)])
            return
        yield from self._followed([at for end in ends[-1:] for at in self._raised(end)])

    def _decided(self, end: int) -> list[int]:
        """Returns the places where variables were set that the last condition of a call reads."""
        call = self.steps[end].call
        tests = [at for at in range(end) if self.steps[at].call == call and self.steps[at].name == IF]
        test = self._tests.get(self.steps[tests[-1]].line) if tests else None
        read = names_in(test.test) if isinstance(test, ast.If | ast.While) else []
        return [at for name, _ in read if (at := self._origin(end, call, name)) is not None]

    def _raised(self, end: int) -> list[int]:
        """Returns the places where functions ended by the exception that ends a call, innermost first."""
        places = [end]
        while self.steps[end].value.startswith("raises"):
            call = self.steps[end].call
            inside = [at for at in range(end) if self.steps[at].above == call and not self.steps[at].name]
            if not inside or self.steps[inside[-1]].value != self.steps[end].value:
                break
            end = inside[-1]
            places.insert(0, end)
        return places[:_FRAMES]

    # --- entries of switches

    def _asked(self, dead: EntryPlace) -> Iterator[str]:
        """Yields what led to a question to a dead switch."""
        begins = (f"('{dead.switch}'", f"{dead.switch} ")
        asked = [
            at for at, step in enumerate(self.steps) if step.name.startswith("<p4rt.") and step.value.startswith(begins)
        ]
        self.about, self.most = f"'{dead.switch}'", self.most - 1
        for at in asked[-1:]:
            yield f"{self._at(self.steps[at].line)} asks it{self._since(at)}"
            yield from self._followed([at])

    def _twice(self, place: EntryPlace) -> Iterator[str]:
        """Yields what led to an entry that was there already."""
        made = self._calls(_INSERT, place.switch, place.key)
        for at in made[-2:-1]:
            yield f"{self._at(self.steps[at].line)} has inserted it before{self._inputs(self._made(at))}"
        if made:
            yield from self._entry(place)

    def _entry(self, place: EntryPlace) -> Iterator[str]:
        written = self._calls(_INSERT, place.switch, place.key)
        deleted = self._calls(_DELETE, place.switch, place.key)
        if place.how == "deleted" and deleted:
            before = [at for at in written if at < deleted[-1]]
            step = self.steps[deleted[-1]]
            yield f"{self._at(step.line)} deletes it{self._inputs(deleted[-1])}{self._since(deleted[-1])}"
            for at in before[-1:]:
                yield f"before that, {self._at(self.steps[at].line)} inserts it{self._inputs(at)}"
            yield from self._followed([deleted[-1], *before[-1:]])
        elif written:
            at = self._made(written[-1])
            step = self.steps[at]
            what = "makes that entry" if step.name == ENTRY else "inserts it"
            if not place.fields:
                yield from self._not_deleted(place, written[-1])
            yield f"{self._at(step.line)} {what}{self._inputs(at, place.fields)}{self._since(at)}"
            self.told.add(step.line)
            if place.fields:
                yield from self._followed([at], place.fields)
        else:
            yield from self._missing(place)

    def _calls(self, name: str, switch: str, key: str) -> list[int]:
        """Returns the places of calls of p4rt with an entry of a switch."""
        return [
            place
            for place, step in enumerate(self.steps)
            if step.name == name and step.value.partition(" ")[0] == switch and step.value.split(" ", 2)[-1] == key
        ]

    def _made(self, inserted: int) -> int:
        """Returns the place where an inserted entry was made, or that of the insert."""
        number = self.steps[inserted].value.partition(" ")[2].partition(" ")[0]
        made = [at for at in range(inserted) if self.steps[at].name == ENTRY and self.steps[at].value == number]
        return made[-1] if made else inserted

    def _not_deleted(self, place: EntryPlace, inserted: int) -> Iterator[str]:
        """Yields which entries of a switch were deleted after one that should have been, too."""
        after = [
            at
            for at in range(inserted, len(self.steps))
            if self.steps[at].name == _DELETE and self.steps[at].value.partition(" ")[0] == place.switch
        ]
        if not after:
            yield f"nothing deletes an entry of {place.switch} after that"
            yield from self._passed_over("p4rt.delete", place.switch, inserted)
            return
        tables = sorted({self.steps[at].value.split(" ", 2)[-1].partition(" ")[0] for at in after})
        yield (
            f"{self._at(self.steps[after[-1]].line)} deletes {len(after)} entries of {place.switch}, not that one: "
            f"{', '.join(tables)}{self._inputs(after[-1])}"
        )
        yield from self._followed(after[-1:])

    def _passed_over(self, method: str, switch: str, since: int) -> Iterator[str]:
        """Yields why a line with a question to a switch did not run for it: a loop, or a condition."""
        for node in self._statements:
            tests = self._around.get(id(node), ())
            loops = {test.lineno for test in tests if isinstance(test, ast.For)}
            if method not in ast.unparse(node) or not loops:
                continue
            values = [(at, step.value) for at, step in enumerate(self.steps) if step.line in loops and step.name]
            turns = [at for at, value in values if value == repr(switch)]
            if turns and turns[-1] > since:
                for test in tests:
                    place, outcome = self._outcome_of_turn(test, turns[-1])
                    if place is not None and isinstance(test, ast.If) and outcome != self._is_in_body(test, node):
                        why = self._condition(test, place, outcome)
                        yield f"{self._at(node.lineno)} does not run for {switch}: {why}"
            elif names := [value for at, value in values if at > since and value.startswith("'")]:
                yield f"{self._at(min(loops))} takes {', '.join(dict.fromkeys(names))}, not {switch}"

    def _outcome_of_turn(self, test: ast.stmt, begin: int) -> tuple[int | None, bool]:
        """Returns the place of the first outcome of a condition after a step of the same call, and the outcome."""
        for at in range(begin, len(self.steps)):
            step = self.steps[at]
            if step.name == IF and step.call == self.steps[begin].call and step.line == test.lineno:
                return at, step.value == "true"
        return None, False

    def _missing(self, place: EntryPlace) -> Iterator[str]:
        """Yields why an entry was never written."""
        inserts = [at for at, step in enumerate(self.steps) if step.name == _INSERT]
        mine = [at for at in inserts if self.steps[at].value.partition(" ")[0] == place.switch]
        table = place.key.partition(" ")[0]
        makes = [node for node in self._statements if self._names(node, table, place.action)]
        if not mine:
            others = list(dict.fromkeys(self.steps[at].value.partition(" ")[0] for at in inserts))
            shown = ", ".join(others[:_OTHERS]) + (", ..." if len(others) > _OTHERS else "")
            yield f"p4rt.insert was called for {shown or 'no switch'}, never for {place.switch}"
            yield from self._never_inserted(inserts)
            return
        if not makes:
            yield f"no line makes an entry of table {table}" + (f" with action {place.action}" if place.action else "")
        made = [self._made(at) for at in mine]
        calls = {self.steps[at].call for at in made}
        for node in makes[-_WOULD:]:
            ran = [at for at in made if node.lineno <= self.steps[at].line <= last_line(node)]
            if ran:
                yield f"{self._at(node.lineno)} makes {len(ran)} of them for {place.switch}{self._inputs(ran[-1])}"
                yield from self._followed(ran[-1:])
                continue
            why = next((why for call in calls if (why := self._why_not(node, call))), "")
            yield f"{self._at(node.lineno)} would make it, and makes none for {place.switch}{f': {why}' if why else ''}"

    def _never_inserted(self, inserts: Sequence[int]) -> Iterator[str]:
        """Yields the loops and conditions around the calls of p4rt.insert, with the values that loops took."""
        for node in self._statements:
            if "p4rt.insert" not in ast.unparse(node) and not any(self.steps[at].line == node.lineno for at in inserts):
                continue
            function = self._function_of.get(id(node))
            inside = range(function.lineno, (function.end_lineno or 0) + 1) if function is not None else range(0)
            last = max((at for at, step in enumerate(self.steps) if step.line in inside), default=-1)
            if last < 0:
                yield f"{self._at(node.lineno)} did not run: its function was not called"
                continue
            for test in self._around.get(id(node), ()):
                if isinstance(test, ast.For):
                    own = {name.id for name in ast.walk(test.target) if isinstance(name, ast.Name)}
                    took = [step.value for step in self.steps if step.line == test.lineno and step.name in own]
                    taken = ", ".join(dict.fromkeys(took[:_OTHERS])) or "nothing"
                    yield f"{self._at(test.lineno)} takes {taken}{self._inputs_of(test.iter, last)}"
                    read = [self._origin(last + 1, self.steps[last].call, name) for name, _ in names_in(test.iter)]
                    yield from self._followed([at for at in read if at is not None])
            if why := self._why_not(node, self.steps[last].call):
                yield f"{self._at(node.lineno)} does not run: {why}"
            yield from self._followed(inserts[-1:])

    def _names(self, node: ast.stmt, table: str, action: str) -> bool:
        """Returns whether a statement makes entries of a table, with an action if one is named."""
        if table == "group":
            called = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
            return any(isinstance(name, ast.Name) and name.id == "group" for name in called)
        texts = {inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant)}
        return table in texts and (not action or action in texts)

    def _why_not(self, node: ast.stmt, call: int) -> str:
        """Returns the condition that kept a statement from running in a call; empty if none is known."""
        for test in reversed(self._around.get(id(node), ())):
            if isinstance(test, ast.If):
                place, outcome = self._outcome(test, call)
                if place is not None and outcome != self._is_in_body(test, node):
                    return self._condition(test, place, outcome)
            if isinstance(test, ast.For):
                place = self._last_in(call)
                return f"{self._at(test.lineno)} takes none of them{self._inputs_of(test.iter, place)}"
        function = self._function_of.get(id(node))
        for other in ast.walk(function) if function is not None else ():
            if isinstance(other, ast.If) and other.lineno < node.lineno and isinstance(other.body[-1], ast.Return):
                place, outcome = self._outcome(other, call)
                if place is not None and outcome:
                    return f"{self._condition(other, place, True)} and returns"
        return ""

    def _last_in(self, call: int) -> int:
        return next((at for at in range(len(self.steps) - 1, -1, -1) if self.steps[at].call == call), 0)

    # --- values and lines

    def _followed(self, begin: Sequence[int], fields: Sequence[str] = ()) -> Iterator[str]:
        """Yields the lines that made the values of some steps, nearest first; then lines that would have set them."""
        waiting: list[tuple[float, int, tuple[str, ...]]] = [(0.0, place, tuple(fields)) for place in begin]
        seen, would = set(begin), list[tuple[str, int, int]]()
        roots, told = {self._root(place) for place in begin}, 0
        while waiting and len(seen) < _SEEN:
            waiting.sort(key=lambda item: item[0])
            depth, place, about = waiting.pop(0)
            self.visited.append(self.steps[place].line)
            sentence = self._sentence(place, about)
            told += bool(sentence)
            yield sentence
            node = self._node(self.steps[place].line)
            sources = self._parameter(place, about) or self._sources(place, node, about)
            for at in reversed(self._returned(place, node, about)):
                if at not in seen:
                    seen.add(at)
                    later = _DULL if self._is_dull(at) else 0
                    waiting.append((depth + _INSIDE + later, at, about))
            own = changed_by(node)
            for source in sources:
                if source.place not in seen:
                    seen.add(source.place)
                    early = self._root(source.place) == self.steps[0].call and self.steps[0].call not in roots
                    held = self.steps[source.place].name.startswith(f"{MODULE}.")
                    later = _EARLIER if source.name in own or early or held else 1
                    later += _DULL if self._is_dull(source.place) else 0
                    later += _ABOUT if self.about and self.about in self.steps[source.place].value else 0
                    waiting.append((depth + later, source.place, source.fields))
                would.append((source.name, source.place, place))
            if told >= self.most:
                break
        kept = (sentence for item in (would[::-1] if self.about else would) for sentence in self._would(*item))
        yield from islice(kept, _WOULD)

    def _is_dull(self, place: int) -> bool:
        """Returns whether the line of a step sets a constant or an empty container, or only asks the grader."""
        match self._node(self.steps[place].line):
            case (
                ast.Assign(value=value)
                | ast.AnnAssign(value=ast.expr() as value)
                | ast.Return(value=ast.expr() as value)
            ):
                return is_plain(value)
        return False

    def _root(self, place: int) -> int:
        """Returns the grader's call in which a step is."""
        call, at = self.steps[place].call, place
        while at >= 0 and self.steps[at].above >= 0:
            above = self.steps[at].above
            at = next((n for n in range(at - 1, -1, -1) if self.steps[n].call == above), -1)
            call = above
        return call

    def _sentence(self, place: int, fields: Sequence[str]) -> str:
        """Returns what the line of a step set or returned; empty if it was told, or only passes a value on."""
        step = self.steps[place]
        node = self._node(step.line)
        if given := self._given(place):
            return given
        if node is None or step.line in self.told or step.name.startswith("<"):
            return ""
        if only_moves(node):  # of the end of a call that had to do nothing, the condition that let it run matters
            ends = self.decides and step.above < 0 and not step.name and not step.value.startswith("raises")
            since = self._since(place) if ends else ""
            self.told |= {step.line} if since else set()
            return f"{self._at(step.line)} returns {step.value}{since}" if since else ""
        self.told.add(step.line)
        values, since = self._inputs(place, fields), self._since(place)
        if step.name:
            return f"{step.name} is what {self._at(step.line, fields)} sets: {step.value}{values}{since}"
        if step.value.startswith("raises"):
            return f"{self._at(step.line)} {step.value}{values}{since}"
        if isinstance(node, ast.Return):
            return f"{self._at(step.line, fields)} returns {step.value}{values}{since}"
        return ""

    def _given(self, place: int) -> str:
        """Returns the line that gives a parameter, if it computes the argument; empty for any other step."""
        step = self.steps[place]
        argument = self._argument(step)
        node = self._node(step.from_)
        if argument is None or node is None or isinstance(argument, ast.Name) or node.lineno in self.told:
            return ""
        if not (sources := self._parameter(place, ())):
            return ""
        self.told.add(node.lineno)
        return f"{step.name} is what {self._at(step.from_)} gives: {step.value}{self._shown(sources)}"

    def _argument(self, step: LineStep) -> ast.expr | None:
        """Returns the argument for a parameter; None for a step that sets no parameter."""
        function, node = self._functions.get(step.line), self._node(step.from_)
        if function is None or not step.name or step.name.startswith("<") or step.above < 0 or node is None:
            return None
        names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and name_called(call) == function.name:
                given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
                own = names[1:] if names[:1] == ["self"] else names
                return (given | dict(zip(own, call.args, strict=False))).get(step.name)
        return None

    def _returned(self, place: int, node: ast.stmt | None, fields: Sequence[str]) -> list[int]:
        """Returns the places where calls in a statement returned, before a step; of some keys, if there are any."""
        step = self.steps[place]
        if node is None or step.name == ENTRY:
            return []
        parts = [part for part in parts_about(read_parts(node), fields) if isinstance(part, ast.expr)]
        lines = {line for part in parts for line in range(part.lineno, (part.end_lineno or part.lineno) + 1)}
        begin = next((at for at in range(place - 1, -1, -1) if self._is_before(at, step, node)), 0)
        ends = {
            self.steps[at].line: at
            for at in range(begin, place)
            if not self.steps[at].name
            and self.steps[at].above == step.call
            and self.steps[at].from_ in (lines or range(node.lineno, last_line(node) + 1))
        }
        return list(ends.values())

    def _is_before(self, at: int, step: LineStep, node: ast.stmt) -> bool:
        other = self.steps[at]
        return other.call == step.call and other.name != ENTRY and not node.lineno <= other.line <= last_line(node)

    def _sources(self, place: int, node: ast.stmt | None, fields: Sequence[str] = ()) -> list[_Source]:
        """Returns the variables that a statement reads, with the places where they were set last."""
        if node is None:
            return []
        step, parts = self.steps[place], list[ast.AST]()
        if step.name == ENTRY:
            parts = [call for call in ast.walk(node) if isinstance(call, ast.Call) and is_maker(call)]
        elif step.name.startswith("<p4rt."):
            calls = [call for call in ast.walk(node) if isinstance(call, ast.Call) and name_called(call) in _ASKS]
            parts = [call.args[0] for call in calls if call.args]
        parts = parts_about(parts or read_parts(node), fields)
        sources = []
        for name, key in dict.fromkeys(pair for part in parts for pair in names_in(part)):
            keys = (key,) if key else tuple(fields)
            at = self._origin(place, step.call, name, keys)
            if at is not None:
                sources.append(_Source(name, at, keys if self.steps[at].value.startswith("{") else ()))
        return sources

    def _parameter(self, place: int, fields: Sequence[str]) -> list[_Source]:
        """Returns where the argument for a parameter came from; nothing for a step that set no parameter."""
        step = self.steps[place]
        argument, sources = self._argument(step), list[_Source]()
        for name, key in names_in(argument) if argument is not None else ():
            keys = (key,) if key else tuple(fields)
            at = self._origin(place, step.above, name, keys)
            if at is not None:
                sources.append(_Source(name, at, keys if self.steps[at].value.startswith("{") else ()))
        return sources

    def _origin(self, place: int, call: int, name: str, fields: Sequence[str] = ()) -> int | None:
        """Returns the place of the last step before another one that set a variable of a call, or an attribute.

        ``fields``: keys of the variable, if it is a dict; a line that names one of them is preferred.
        """
        attribute = name.removeprefix("self") if name.startswith("self.") else ""
        last = None
        for at in range(place - 1, -1, -1):
            step = self.steps[at]
            if step.name.endswith(attribute) if attribute else (step.call == call and step.name == name):
                last = at if last is None else last
                if not fields or attribute or not step.value.startswith("{") or self._has(step.line, fields):
                    return at
        if last is None and not attribute:
            held = f"{MODULE}.{name}"
            last = next((at for at in range(place - 1, -1, -1) if self.steps[at].name == held), None)
        return last

    def _has(self, line: int, fields: Sequence[str]) -> bool:
        node = self._node(line)
        code = "\n".join(self.lines[node.lineno - 1 : last_line(node)]) if node is not None else ""
        return any(re.search(rf"\b{re.escape(name)}\b", code) for name in fields)

    def _would(self, name: str, since: int, until: int) -> Iterator[str]:
        """Yields lines that would have set a variable between two steps, and did not, with the condition."""
        short = name.removeprefix("self.")
        calls = {self.steps[at].call for at in (since, until)}
        for node in self._statements:
            tests = self._around.get(id(node), ())
            adds = isinstance(node, ast.Expr) and name in changed_by(node)
            if self.about and adds and node.lineno not in self.left_out:
                yield from self._left_out(node, name)
            if not tests or not isinstance(tests[-1], ast.If) or node.lineno in self.told or not is_set_by(node, short):
                continue
            for call in calls:
                place, outcome = self._outcome(tests[-1], call)
                if place is not None and outcome != self._is_in_body(tests[-1], node):
                    self.told.add(node.lineno)
                    why = self._condition(tests[-1], place, outcome)
                    yield f"{self._at(node.lineno)} would change {name}, and does not run: {why}"
                    break

    def _left_out(self, node: ast.stmt, name: str) -> Iterator[str]:
        """Yields a loop around a line that changes a variable, if the loop never took what the mistake is about."""
        for test in self._around.get(id(node), ()):
            if not isinstance(test, ast.For):
                continue
            own = {inner.id for inner in ast.walk(test.target) if isinstance(inner, ast.Name)}
            ran = [at for at, step in enumerate(self.steps) if step.line == test.lineno]
            took = dict.fromkeys(self.steps[at].value for at in ran if self.steps[at].name in own)
            if ran and own and self.about not in took:
                self.left_out.add(node.lineno)
                taken = ", ".join(list(took)[-_OTHERS:]) or "nothing"
                would = f"{self._at(node.lineno)} would change {name} for {self.about}"
                yield f"{would}: {self._at(test.lineno)} took {taken}"

    def _since(self, place: int) -> str:
        """Returns the condition that let the line of a step run; empty if it always runs."""
        node = self._node(self.steps[place].line)
        if node is not None and (behind := self._behind(node, place)):
            return behind
        for test in reversed(self._around.get(id(node), ())) if node is not None else ():
            if isinstance(test, ast.If | ast.While) and not isinstance(test.test, ast.Constant):
                at, outcome = self._outcome(test, self.steps[place].call, place)
                if at is None or test.lineno in self.told:
                    return ""
                self.told.add(test.lineno)
                return f", since {self._condition(test, at, outcome)}"
        return ""

    def _behind(self, node: ast.stmt, place: int) -> str:
        """Returns the condition before a line that would have ended the function or the turn of the loop."""
        function = self._function_of.get(id(node))
        leaves = ast.Break | ast.Continue | ast.Return | ast.Raise
        tests = [
            test
            for test in (ast.walk(function) if function is not None else ())
            if isinstance(test, ast.If) and test.lineno < node.lineno and isinstance(test.body[-1], leaves)
            and self._around.get(id(test)) == self._around.get(id(node))
        ]  # fmt: skip
        for test in sorted(tests, key=lambda other: -other.lineno):
            at, outcome = self._outcome(test, self.steps[place].call, place)
            if at is not None and not outcome and test.lineno not in self.told | self.left:
                self.told.add(test.lineno)
                return f", since {self._condition(test, at, False)}"
        return ""

    def _outcome(self, test: ast.If | ast.While, call: int, before: int | None = None) -> tuple[int | None, bool]:
        """Returns the place of the last outcome of a condition in a call, and the outcome."""
        for at in range((len(self.steps) if before is None else before) - 1, -1, -1):
            step = self.steps[at]
            if step.name == IF and step.call == call and test.lineno <= step.line <= (test.test.end_lineno or 0):
                return at, step.value == "true"
        return None, False

    @staticmethod
    def _is_in_body(test: ast.If, node: ast.stmt) -> bool:
        return test.body[0].lineno <= node.lineno <= (test.body[-1].end_lineno or 0)

    def _condition(self, test: ast.If | ast.While, place: int, outcome: bool) -> str:
        return f"{self._at(test.lineno)} is {str(outcome).lower()}{self._inputs_of(test.test, place)}"

    def _inputs(self, place: int, fields: Sequence[str] = ()) -> str:
        node = self._node(self.steps[place].line)
        return "" if node is None else self._shown(self._sources(place, node, fields))

    def _inputs_of(self, expression: ast.AST, place: int) -> str:
        call = self.steps[place].call
        origins = {name: self._origin(place + 1, call, name) for name, _ in names_in(expression)}
        return self._shown([_Source(name, at) for name, at in origins.items() if at is not None])

    def _shown(self, sources: Sequence[_Source]) -> str:
        values = {source.name: self.steps[source.place].value for source in sources if not self._is_known(source.place)}
        shown = [f"{name} {value}" for name, value in values.items() if value and not is_cut(value)]
        return f" ({', '.join(shown[:_INPUTS])})" if shown else ""

    def _is_known(self, place: int) -> bool:
        """Returns whether a step is a long dict that a function was given, of which only the beginning is known."""
        step = self.steps[place]
        return step.value.endswith("...}") and step.line in self._functions

    # --- the text

    def _at(self, line: int, fields: Sequence[str] = ()) -> str:
        """Returns a line with its statement; of a long one that has a line for one of some keys, this line."""
        node = self._node(line) or self._tests.get(line)
        first, last = (node.lineno, last_line(node)) if node is not None else (line, line)
        self.visited += range(first, last + 1)
        named = [n for n in range(first, last + 1) for key in fields if f'"{key}"' in self.lines[n - 1]]
        if last - first > 1 and named:
            first = last = named[0]
        code = " ".join(" ".join(self.lines[first - 1 : last]).split())
        return f"line {first}, '{code if len(code) <= _SHOWN else code[: _SHOWN - 1] + '…'}'"

    def _node(self, line: int) -> ast.stmt | None:
        return self._by_line.get(line)

    @cached_property
    def _statements(self) -> list[ast.stmt]:
        """The statements without a body."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt) and not hasattr(node, "body")]

    @cached_property
    def _by_line(self) -> dict[int, ast.stmt]:
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.For | ast.While | ast.If | ast.With)]
        return {line: node for node in [*nodes, *self._statements] for line in range(node.lineno, last_line(node) + 1)}

    @cached_property
    def _tests(self) -> dict[int, ast.stmt]:
        return {node.lineno: node for node in ast.walk(self.tree) if isinstance(node, ast.If | ast.While | ast.For)}

    @cached_property
    def _functions(self) -> dict[int, ast.FunctionDef]:
        """The functions by their first line, that of a decorator included."""
        functions = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]
        return {line: node for node in functions for line in (node.lineno, *(d.lineno for d in node.decorator_list))}

    @cached_property
    def _function_of(self) -> dict[int, ast.FunctionDef]:
        innermost: dict[int, ast.FunctionDef] = {}
        for function in self._functions.values():
            for inner in ast.walk(function):
                known = innermost.get(id(inner))
                if known is None or known.lineno < function.lineno:
                    innermost[id(inner)] = function
        return innermost

    @cached_property
    def _around(self) -> dict[int, tuple[ast.stmt, ...]]:
        """By each statement, the conditions and loops around it within its function, outer ones first."""
        around: dict[int, tuple[ast.stmt, ...]] = {}

        def visit(node: ast.AST, above: tuple[ast.stmt, ...]) -> None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.stmt):
                    around[id(child)] = above
                inside = above
                if isinstance(child, ast.If | ast.While | ast.For):
                    inside = (*above, child)
                elif isinstance(child, ast.FunctionDef | ast.ClassDef):
                    inside = ()
                visit(child, inside)

        visit(self.tree, ())
        return around
