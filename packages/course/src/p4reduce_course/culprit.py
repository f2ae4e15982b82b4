"""Finds the place in a student's file where one small change makes all checks pass.

Graders name causes that their authors thought of. For all other failures the student's own text is searched: an
operator, a number, a name, a condition or a statement is changed, one place at a time, and the failed check is run
again. If it passes and no other check fails, students are told the place, not the change.

The method is repair by mutation: V. Debroy and W. E. Wong, "Using Mutation to Automatically Suggest Fixes for Faulty
Programs", 2010. Lines that run in failures and seldom elsewhere come first, by Ochiai's measure: R. Abreu, P.
Zoeteweij and A. J. C. van Gemund, "An Evaluation of Similarity Coefficients for Software Fault Localization", 2006.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from p4reduce_course import catalogue
from p4reduce_course.frame.grading import filled, skeleton_of
from p4reduce_course.frame.lab import GradingTask, LabStep
from p4reduce_course.frame.likeness import without_comments
from p4reduce_course.frame.report import TooSlow, Wrong
from p4reduce_course.sandbox.process import StudentCode
from p4reduce_course.sandbox.program import Compiled, StudentProgram

MOST: Final = 360
"""most changes of P4 that are tried; each takes some 15 ms"""
FEW: Final = 120
"""the same, if a cause is known"""
FAILED: Final = "frames that failed"
"""title of a check that repeats them, before others"""
ON_TRAIL: Final = 2.0
"""suspicion of a line that has to do with what is wrong"""
TRACED: Final = "Traced back: "
"""before what the student's own code did, the last step first"""
SHOWN: Final = 70
"""most characters of a line in the message"""


@dataclass(frozen=True)
class Hints:
    """What is known of a failure: numbers that the README names, and names that have to do with what is wrong."""

    numbers: Sequence[int] = ()
    fields: frozenset[str] = frozenset()
    led: Sequence[int] = ()
    """lines that led to what is wrong, nearest first"""


@dataclass(frozen=True)
class Edit:
    """A text with one change.

    Attributes:
        line: the changed line, from 1; of a statement that is added, the line that it follows.
        was: the text that stood there.
        text: the changed text.
        added: whether a statement is added behind the line.
        copied: of a statement that is moved, the text that also keeps it where it was, and the line it follows.
        moved: of statements that are moved, their last line; else 0.
    """

    line: int
    was: str
    text: str
    added: bool = False
    copied: tuple[str, int] | None = None
    moved: int = 0


def culprit(path: Path, edits: Iterable[Edit], mends: Callable[[str], bool], what: str = "all of it") -> str:
    """Returns a sentence about the place; empty if no change helps.

    ``mends``: whether a text passes all checks; ``what``: what such a change mends.
    """
    for edit in edits:
        if mends(edit.text):
            lines, follows = path.read_text("utf-8").removesuffix("\n").split("\n"), edit.line if edit.added else 0
            if edit.copied is not None and mends(edit.copied[0]):  # where it is, it does no harm
                follows = edit.copied[1]
            was, line = (" ".join(code.split())[:SHOWN] for code in (edit.was, lines[(follows or edit.line) - 1]))
            if follows:
                like = f", such as line {edit.line}," if edit.copied is not None else ""
                return f"One more statement after line {follows}{like} mends {what}: {line}"
            if edit.moved > edit.line:
                return f"Lines {edit.line} to {edit.moved} in another place mend {what}: {line}"
            if edit.moved:
                return f"Line {edit.line} in another place mends {what}: {line}"
            return f"A change in line {edit.line} alone, at '{was}', mends {what}: {line}"
    return ""


def passes(steps: Iterable[LabStep]) -> bool:
    """Returns whether all checks pass; what the grader itself cannot check does not."""
    try:
        for step in steps:
            step.run()
    except Exception:  # a failure of the grader at changed code costs no check its finding
        return False
    return True


def suspects(ran: Sequence[tuple[Iterable[int], bool]]) -> dict[int, float]:
    """Returns each line's suspicion from 0 to 1, by Ochiai. ``ran``: the lines of each frame, and whether it failed."""
    bad, good = Counter[int](), Counter[int]()
    for lines, failed in ran:
        (bad if failed else good).update(set(lines))
    failures = sum(failed for _, failed in ran)
    return {line: bad[line] / math.sqrt(failures * (bad[line] + good[line])) for line in bad}


class Origin(NamedTuple):
    """Where a failure comes from: the line whose change mends it, and what the student's own code did before it."""

    change: str = ""
    steps: str = ""


def placed(task: GradingTask, steps: Sequence[LabStep], search: Callable[[LabStep], Origin]) -> list[LabStep]:
    """Returns checks, of which the first that fails also tells where that comes from, which ``search`` returns."""
    if not task.explain:
        return list(steps)
    told: list[LabStep] = []

    def run(step: LabStep) -> None:
        try:
            step.run()
        except Wrong as wrong:
            if told or isinstance(wrong, TooSlow):
                raise
            told.append(step)
            finding = wrong.finding
            text = explained(finding.said, search(step))
            raise Wrong(text, finding.where, finding.look, finding.files) from None

    return [replace(step, run=lambda step=step: run(step)) for step in steps]  # type: ignore[misc]


def explained(said: str, origin: Origin) -> str:
    """Returns a text with the place of the mistake behind its first sentence, and what led there behind all advice."""
    if not any(origin):
        return said
    first, *advice = re.split(r"(?<=[.?!]) (?=[A-Z])", said, maxsplit=1)
    traced = f"{TRACED}{origin.steps}" if origin.steps else ""
    return ". ".join(part.rstrip(".") for part in (first, origin.change, *advice, traced) if part)


def repeated(steps: Sequence[LabStep], codes: Sequence[StudentCode], home: Path) -> list[LabStep]:
    """Returns checks whose findings repeat the calls of the first process, if they have no command of their own."""

    def run(step: LabStep, number: int) -> None:
        try:
            step.run()
        except Wrong as wrong:
            raise (codes[0].shown(wrong, home, f"{step.part}-{number}") if codes else wrong) from None

    return [replace(step, run=lambda step=step, number=number: run(step, number)) for number, step in enumerate(steps)]  # type: ignore[misc]


def in_p4(
    task: GradingTask,
    file: str,
    step: LabStep,
    ran: Sequence[tuple[Iterable[int], bool]],
    likely: Iterable[int],
    anew: Callable[[StudentProgram, Compiled, str], Sequence[LabStep]],
    trail: str,
) -> Origin:
    """Returns where a check of a P4 program fails: the place whose change mends it, or else ``trail``.

    Args:
        task: the submission.
        file: name of the program's file.
        step: the check that fails.
        ran: lines of frames, and whether these failed.
        likely: lines that have to do with what is wrong.
        anew: returns all checks for another text of the program, which has been compiled.
        trail: what the program did.
    """
    path = task.answers / file
    text, given = path.read_text("utf-8"), skeleton_of(task, file)
    with StudentProgram(path) as program:

        def mends(text: str) -> bool:
            compilation = program.compile(text)
            every = [] if compilation.parts is None else anew(program, compilation, text)
            soonest = [new_step for new_step in every if new_step.title in (step.title, FAILED)]
            return bool(every) and passes(soonest) and passes(every)

        try:
            parts = program.compile(text).parts
            runs = [] if parts is None else parts.lines
            suspicious = suspects(ran) or dict.fromkeys(runs, 0.5)
            led, hints = list(likely), hints_of(task, step.title)
            ways = {name for line in led for name in _LEAVES if name in text.splitlines()[line - 1]}
            hints = replace(hints, fields=hints.fields | ways, led=led)
            edits = p4_edits(text, given, suspicious, runs, hints)
            change = culprit(path, islice(edits, MOST), mends)
        except Wrong:  # the process has reached a limit
            change = ""
    return Origin(change, "" if change else trail)


_LEAVES: Final = frozenset(("egress_spec", "egress_port", "mcast_grp", "mark_to_drop"))


def hints_of(task: GradingTask, wrong: str) -> Hints:
    """Returns what a text about a wrong frame and the README say."""
    readme = (catalogue.home(task.lab) / "README.md").read_text("utf-8")
    numbers = [
        int(number, 0) for number in re.findall(r"\b0x[0-9a-fA-F]+\b|\b[1-9]\d{1,8}\b", filled(readme, task.parameters))
    ]
    fields = {part for name in re.findall(r"\b[a-z]\w*(?:\.\w+)*", wrong) for part in (name, name.rpartition(".")[2])}
    fields |= _LEAVES if re.search(r"\b(port|ports|dropped)\b", wrong) else set()
    fields |= {"digest"} if "controller" in wrong else set()
    return Hints(list(numbers)[:_MOST_NUMBERS], frozenset(fields))


_MOST_NUMBERS: Final = 12


def unused(text: str) -> str:
    """Returns a text about registers of a P4 program that are only read or only written; empty if there are none."""
    text, problems = without_comments(text), []
    for name in _Names.of(text).registers:
        read, written = (re.search(rf"\b{name}\s*\.\s*{how}\b", text) is not None for how in ("read", "write"))
        if read != written:
            problems.append(f"register {name} is {'read and never written' if read else 'written and never read'}")
    return "; ".join(problems)


_ALIKE_LINES: Final = 3
"""least lines that make a pattern"""


def unlike(text: str, given: str = "") -> str:
    """Returns a sentence about a line that breaks the pattern of lines alike but for numbers; empty if none does.

    Such lines are copies of each other: Z. Li et al., "CP-Miner: A Tool for Finding Copy-paste and Related Bugs", 2004.
    """
    bare = without_comments(text).splitlines()
    left, alike = lines_left(bare, without_comments(given).splitlines()), defaultdict[str, list[int]](list)
    for number, code in enumerate(bare, start=1):
        if re.search(r"[A-Za-z_]\d", code):
            alike[re.sub(r"\d+", "0", " ".join(code.split()))].append(number)
    best, sentence = 0, ""
    for lines in alike.values():
        digits = {line: re.findall(r"\d+", bare[line - 1]) for line in lines}
        for line in lines if len(lines) >= _ALIKE_LINES else ():
            others = [digits[other] for other in lines if other != line]
            fits = _varying(others)
            if line not in left and len(fits) > best and (wrong := _misfit(others, fits, digits[line])):
                known = " and ".join(str(other) for other in lines if other != line)
                best = len(fits)
                sentence = f"line {line}, '{' '.join(bare[line - 1].split())}', is not like lines {known}: {wrong}"
    return sentence


def _varying(rows: Sequence[Sequence[str]]) -> list[int]:
    """Returns the places of numbers that are the line's own, if all others are the same in all lines."""
    columns = list(zip(*rows, strict=True))
    varying = [place for place, column in enumerate(columns) if len(set(column)) > 1]
    own = {columns[place] for place in varying}
    return varying if len(own) == 1 and len(set(own.pop())) == len(rows) else []


def _misfit(rows: Sequence[Sequence[str]], varying: Sequence[int], mine: Sequence[str]) -> str:
    own = Counter(mine[place] for place in varying).most_common(1)[0][0]
    for place, number in enumerate(mine):
        due = own if place in varying else rows[0][place]
        if number != due:
            return f"it has {number} in place of {due}"
    return ""


# Changes of P4: the text with one token, condition or statement changed.

_TOKEN: Final = re.compile(
    r"bit<\d+>|\|\+\||\|-\||<<|>>|[=!<>]=|&&|\|\||\d+[ws]\w+|0[xb][0-9a-fA-F]+|\d+|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[\w+\])*|\S"
)
_ALIKE: Final = (
    ("==", "!=", "<", "<=", ">", ">="),
    ("+", "-", "|+|", "&", "|", "^"),
    ("&&", "||"),
    ("crc16", "crc32", "csum16", "identity"),
    ("exact", "lpm", "ternary"),
    ("accept", "reject"),
)
_SWAPPED: Final = re.compile(r"\(([^(),]+),\s*([^(),]+)\)")
_STANDARD: Final = {
    "ingress_port": 9, "egress_spec": 9, "egress_port": 9, "mcast_grp": 16, "ingress_global_timestamp": 48,
}  # fmt: skip
_DECLARED: Final = ("header", "struct", "const", "control", "parser", "register", "bit", "state", "typedef")
_NUMBER: Final = re.compile(r"(?:(\d+)([ws]))?(0[xb][0-9a-fA-F]+|\d+)")


@dataclass
class _Names:
    """The names of a program: fields, variables and constants by bits; headers; registers; states; constants."""

    values: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    bits: dict[str, int] = field(default_factory=dict)
    headers: list[str] = field(default_factory=list)
    registers: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> _Names:
        names, types = cls(), dict[str, list[tuple[str, int]]]()
        for kind, name, body in re.findall(r"\b(header|struct)\s+(\w+)\s*\{([^}]*)\}", text):
            types[name] = [(member, int(bits)) for bits, member in re.findall(r"bit<(\d+)>\s*(\w+)\s*;", body)]
            if kind == "struct":
                for of, member in re.findall(r"\b(\w+)\s+(\w+)\s*;", body):
                    if of in types:
                        names.headers.append(f"hdr.{member}")
                        names._add((f"hdr.{member}.{name}", bits) for name, bits in types[of])
                if "hdr" not in "".join(names.headers) or name.startswith("meta"):
                    names._add((f"meta.{member}", bits) for member, bits in types[name])
        names._add((f"std.{name}", bits) for name, bits in _STANDARD.items())
        outside = re.sub(r"\b(?:header|struct)\s+\w+\s*\{[^}]*\}", " ", text)
        declared = re.findall(r"(?<!<)\bbit<(\d+)>\s+(\w+)\s*(?=[;=,)])", outside)
        names._add((name, int(bits)) for bits, name in declared)
        names.registers = re.findall(r"\bregister<[^;]*?>\s*\([^)]*\)\s*(\w+)\s*;", outside)
        names.constants = re.findall(r"\bconst\s+bit<\d+>\s+(\w+)", outside)
        names.states = [name for name in re.findall(r"\bstate\s+(\w+)", text) if name != "start"]
        return names

    def _add(self, pairs: Iterable[tuple[str, int]]) -> None:
        for name, bits in pairs:
            if name not in self.bits:
                self.bits[name] = bits
                self.values[bits].append(name)

    def others(self, name: str, *, cast: bool) -> list[str]:
        """Returns the names that would compile in place of this one."""
        if name in self.bits:
            among = [*self.bits] if cast else self.values[self.bits[name]]
        else:
            among = next((list_ for list_ in (self.headers, self.registers, self.states) if name in list_), [])
        return [other for other in among if other != name]


def _akin(name: str, other: str) -> bool:
    """Returns whether two names differ in digits only, or are fields of one header."""
    return re.sub(r"\d", "", name) == re.sub(r"\d", "", other) or (
        "." in name and name.rpartition(".")[0] == other.rpartition(".")[0]
    )


def p4_edits(
    text: str, given: str, suspicious: Mapping[int, float], runs: Iterable[int], hints: Hints | None = None
) -> Iterator[Edit]:
    """Yields changes of one place, or the same in all alike lines: those of the student's own lines, then likely ones.

    ``runs`` are the lines that can run. A statement on one that is not suspicious did not run and is only moved.
    Nothing is known of other lines: those of the parser, keys of tables, and continued lines.
    """
    names, bare = _Names.of(without_comments(text)), without_comments(text).splitlines()
    left, able = lines_left(bare, without_comments(given).splitlines()), set(runs)
    by_line: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    for place, token, line in tokens_of(text):
        by_line[line].append((place, token, line))
    hints = hints or Hints()
    near = _near(by_line, hints.fields)
    weights = {line: ON_TRAIL * _LED**place for place, line in reversed(list(enumerate(hints.led)))}
    near |= {line: max(near.get(line, _FAR), _STEP) for line in weights}
    for line in by_line:  # the rest of a statement goes with its first line
        first = _first_line(bare, line)
        if line not in able and first in weights:
            weights.setdefault(line, weights[first])
            near[line] = near[first]
    weights = {**suspicious, **weights}
    additions = _Additions(text, bare, names, hints, near)
    ranked: list[tuple[bool, float, Edit]] = []
    for line, tokens in by_line.items():
        if tokens[0][1].partition("<")[0] in _DECLARED:
            continue
        weight, own = weights.get(line, 0.0 if line in able else 0.5), line not in left or "/*" in text
        weight = ON_TRAIL if tokens[0][1] in ("return", "exit") else weight
        kinds: list[tuple[float, Iterator[Edit]]] = [(0.6, _statements(text, line)), (0.5, _moved(text, bare, line))]
        if weight:
            kinds = [
                (1.0, _operators(text, tokens, hints.numbers)),
                (0.9, _named(text, tokens, names, akin=True)),
                (0.8, _conditions(text, tokens)),
                (0.7, _terms(text, tokens, names)),
                *kinds,
                (0.75, additions.next_one(line)),
                (1.2, additions.behind(line) if line in suspicious else iter(())),
                (0.8, _named(text, tokens, names, akin=False, about=_words(bare, line))),
                (0.4, _named(text, tokens, names, akin=False)),
                (0.3, _compared(text, tokens, names)),
            ]
        scored = list[tuple[float, Edit]]()
        for likely, edits in kinds:
            score = (weight or _MOVED) * likely
            for place, edit in enumerate(edits):  # what is near a line tells nothing of statements that are added there
                here = additions.inner(line) * _ADDED**place if edit.added else near.get(line, _FAR) * _LATER**place
                scored.append((score * here, edit))
        scored.sort(key=lambda pair: pair[0], reverse=True)
        ranked += [(own, score * max(_CROWDED, _CROWD**place), edit) for place, (score, edit) in enumerate(scored)]
    ranked.sort(key=lambda candidate: candidate[:2], reverse=True)
    alike = defaultdict[str, list[int]](list)
    for line in by_line:
        alike[re.sub(r"\d", "", " ".join(bare[line - 1].split()))].append(line)
    groups = {lines[0]: lines for lines in alike.values() if len(lines) > 1}
    for _, _, edit in ranked:
        yield edit
        if edit.line in groups and (same := _in_alike_lines(text, edit, groups[edit.line])) is not None:
            yield same


def lines_left(mine: Sequence[str], given: Sequence[str]) -> set[int]:
    """Returns the lines that are the skeleton's, in its order and as deep."""
    blocks = SequenceMatcher(None, [line.rstrip() for line in mine], [line.rstrip() for line in given], autojunk=False)
    return {line + 1 for at, _, size in blocks.get_matching_blocks() for line in range(at, at + size)}


_LED: Final = 0.9
"""weight of a line of the trail, for each that was named before it"""
_MOVED: Final = 0.3
"""weight of a line that did not run"""
_FAR: Final = 0.4
"""weight of a line that has nothing to do with the fields that are wrong"""
_STEP: Final = 0.85
"""weight of a line whose variables are used for such a field, for each line between"""
_LATER: Final = 0.97
"""weight of a change, for each likelier one of its kind in its line"""
_ADDED: Final = 0.8
"""the same, of a statement that is added"""
_INNER: Final = 1.05
"""the same, of a line behind which a statement is added, for each block that encloses it"""
_CROWDED: Final = 0.6
"""least weight of a change that has many likelier ones in its line"""
_CROWD: Final = 0.98
"""weight of a change, for each likelier one in its line"""
_CALLED: Final = re.compile(r"[A-Za-z_]\w*$")


def _near(by_line: Mapping[int, Sequence[tuple[int, str, int]]], fields: Iterable[str]) -> dict[int, float]:
    """Returns the lines that may have to do with some fields: by names that they share, from line to line."""
    weights, weight = dict[int, float](), 1.0
    names, seen = set(fields), set[str]()
    while names:
        seen |= names
        more = set[str]()
        for line, tokens in by_line.items():
            mine = {
                part for _, token, _ in tokens for part in (token, token.rpartition(".")[2], token.partition(".")[0])
            }
            if line not in weights and mine & names:
                weights[line] = weight
                more |= {name for name in mine if _CALLED.match(name)} - _COMMON
        names, weight = more - seen, weight * _STEP
    return weights


_COMMON: Final = frozenset(
    ("hdr", "meta", "std", "if", "else", "read", "write", "apply", "isValid", "setValid", "action")
)


def _first_line(bare: Sequence[str], line: int) -> int:
    """Returns the line in which a line's statement begins."""
    while line > 1 and bare[line - 2].strip() and not bare[line - 2].rstrip().endswith((";", "{", "}", ":")):
        line -= 1
    return line


def _words(bare: Sequence[str], line: int) -> frozenset[str]:
    """Returns the names in a line and beside it."""
    beside = " ".join(bare[max(0, line - 2) : line + 1])
    return frozenset(name for _, token, _ in tokens_of(beside) for name in (token, token.rpartition(".")[0]))


@dataclass
class _Additions:
    """Statements that may be missing behind some line."""

    text: str
    bare: Sequence[str]
    names: _Names
    hints: Hints
    near: Mapping[int, float]

    def next_one(self, line: int) -> Iterator[Edit]:
        """Yields a statement once more, with the next numbers or those before."""
        code = self.bare[line - 1].strip()
        if not code.endswith(";") or code.count(";") > 1 or not re.search(r"[A-Za-z_]\d|\[\d+\]", code):
            return
        there = {" ".join(each.split()) for each in self.bare}
        words = {token for _, token, _ in tokens_of(self.text)}
        for by in (1, -1):
            parts = re.split(r"((?<=[A-Za-z_])\d+\b|(?<=\[)\d+(?=\]))", code)
            other = "".join(str(max(0, int(part) + by)) if part.isdigit() else part for part in parts)
            named = {token for _, token, _ in tokens_of(other) if re.search(r"[A-Za-z_]\d+$", token)}
            if " ".join(other.split()) not in there and named <= words:
                yield self._put(line, other)

    def behind(self, line: int) -> Iterator[Edit]:
        """Yields statements that set what is wrong, or decide where a frame goes: copies, and assignments of names."""
        code = self.bare[line - 1].strip()
        if code.endswith((";", "{")) and not re.match(r"(?:return|exit|action|table|apply|state)\b", code):
            beside = self.bare[max(0, line - _BESIDE) : line + _BESIDE]
            for statement in self._statements:
                target = re.match(r"[\w.\[\]]+(?: =|\()", statement)
                if target is None or not any(each.strip().startswith(target[0]) for each in beside):
                    yield self._put(line, statement)  # what is there already may be wrong, and is not missing

    def inner(self, line: int) -> float:
        """Returns the weight of a line by its depth: what is missing in a branch would often do before it, too."""
        return _INNER ** sum(code.count("{") - code.count("}") for code in self.bare[:line])

    def _put(self, line: int, statement: str) -> Edit:
        lines = self.text.splitlines(keepends=True)
        mine = lines[line - 1]
        space = mine[: len(mine) - len(mine.lstrip())] + ("    " if self.bare[line - 1].rstrip().endswith("{") else "")
        return Edit(line, "", "".join([*lines[:line], f"{space}{statement}\n", *lines[line:]]), added=True)

    @cached_property
    def _statements(self) -> list[str]:
        copies, sources = dict[str, None](), dict[str, None]()
        for code in (" ".join(each.split()) for each in self.bare):
            tokens = [token for _, token, _ in tokens_of(code)]
            if not code.endswith(";") or code.count(";") > 1 or len(tokens) < _LEAST:
                continue
            target = tokens[0] if tokens[1] in ("=", "(") else ""
            if {target, target.rpartition(".")[2]} & self.hints.fields:
                copies[code] = None
        targets = [name for name in self.names.bits if {name, name.removeprefix("hdr.")} & self.hints.fields]
        for target in targets:
            others = self.names.others(target, cast=False)
            others.sort(key=lambda other: other.rpartition(".")[2] != target.rpartition(".")[2])
            sources |= {f"{target} = {other};": None for other in others if not other.startswith(("std.", target))}
        return [*copies, *sources][:_MOST_ADDED]


_BESIDE: Final = 4
"""lines before and after a place, where a statement with the same target is no copy that is missing"""
_LEAST: Final = 3
"""tokens of a statement"""
_MOST_ADDED: Final = 8
"""most statements that are added behind one line"""


def _in_alike_lines(text: str, edit: Edit, alike: Sequence[int]) -> Edit | None:
    """Returns the same change of a token in all of some lines, which differ in digits only; None if there is none."""
    lines, changed = text.splitlines(), edit.text.splitlines()
    if len(lines) != len(changed) or sum(a != b for a, b in zip(lines, changed, strict=True)) != 1:
        return None
    listed = [tokens_of(lines[line - 1]) for line in alike]
    before, after = [token for _, token, _ in listed[0]], [token for _, token, _ in tokens_of(changed[alike[0] - 1])]
    begin = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    fewer = len(before) - len(after)
    if fewer not in (0, 1) or before[begin + 1 :] != after[begin + 1 - fewer :]:
        return None
    for line, line_tokens in zip(alike, listed, strict=True):
        if len(line_tokens) != len(before):
            return None
        at, token, _ = line_tokens[begin]
        mine = {a: c for a, (_, c, _) in zip(before, line_tokens, strict=True)}
        new = "" if fewer else mine.get(after[begin], after[begin])
        lines[line - 1] = lines[line - 1][:at] + new + lines[line - 1][at + len(token) :]
    return Edit(edit.line, edit.was, "\n".join(lines) + "\n")


def tokens_of(text: str) -> list[tuple[int, str, int]]:
    """Returns place, token and line (from 1) of all tokens outside comments and strings."""
    hidden = re.sub(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"|#[^\n]*', lambda at: re.sub(r"[^\n]", " ", at[0]), text, flags=re.S)
    tokens, line, last = [], 1, 0
    for at in _TOKEN.finditer(hidden):
        line += hidden.count("\n", last, at.start())
        last = at.start()
        tokens.append((at.start(), at[0], line))
    return tokens


def _put(text: str, place: int, old: str, new: str, line: int, was: str = "") -> Edit:
    return Edit(line, was or old, text[:place] + new + text[place + len(old) :])


def _operators(text: str, tokens: Sequence[tuple[int, str, int]], numbers: Sequence[int]) -> Iterator[Edit]:
    for at in _CAST.finditer(text, tokens[0][0], tokens[-1][0]):
        yield _put(text, at.start(), at[0], "", tokens[0][2])
    for index, (place, token, line) in enumerate(tokens):
        for alike in _ALIKE:
            word = token.rpartition(".")[2]
            if word in alike and token in (word, f"HashAlgorithm.{word}"):
                for other in alike:
                    if other != word:
                        yield _put(text, place, token, token[: len(token) - len(word)] + other, line)
        if token in ("!", "~") and not (index + 1 < len(tokens) and tokens[index + 1][1] == "="):
            yield _put(text, place, token, "", line)
        if (number := _NUMBER.fullmatch(token)) is not None:
            value, kind = int(number[3], 0), f"{number[1]}{number[2]}" if number[1] else ""
            large = [readme_number for readme_number in numbers if readme_number > _SMALL] if value > _SMALL else []
            for new in dict.fromkeys((value + 1, value - 1, 0, 1, 2 * value, *large)):
                if new >= 0 and new != value:
                    yield _put(text, place, token, f"{kind}{new}", line)
    slice_ = re.compile(r"\[(\d+):(\d+)\]")
    begin, end = tokens[0][0], text.find("\n", tokens[0][0])
    for at in slice_.finditer(text, begin, end if end >= 0 else len(text)):
        for bit in (0, 40):
            yield _put(text, at.start(), at[0], f"[{bit}:{bit}]", tokens[0][2])


_CAST: Final = re.compile(r"\(bit<\d+>\)")
_SMALL: Final = 16
"""numbers above this are also replaced by those that the README names"""
_ASSIGNED: Final = re.compile(r"=\s*([^;{}]+);")
_LIST: Final = re.compile(r"\{([^{};]*,[^{};]*)\}")


def _terms(text: str, tokens: Sequence[tuple[int, str, int]], names: _Names) -> Iterator[Edit]:
    """Yields assignments that also use the variable itself, or one operand only; lists with one more header field."""
    (begin, target, line), end = tokens[0], text.find("\n", tokens[0][0])
    end = end if end >= 0 else len(text)
    if (at := _ASSIGNED.search(text, begin, end)) is not None and target in names.bits:
        for operator in ("+", "|", "&", "|+|"):
            if not re.search(rf"(?<![\w.]){re.escape(target)}(?![\w.])", at[1]):
                yield Edit(line, at[1], f"{text[: at.start(1)]}{target} {operator} ({at[1]}){text[at.end(1) :]}")
        sides = re.split(r"\s(?:\+|-|\||&|\^|\|\+\|)\s", at[1])
        for side in sides if len(sides) == 2 else ():
            yield Edit(line, at[1], text[: at.start(1)] + side + text[at.end(1) :])
    for place, word, at_line in tokens:
        if word == "{" and (inside := _LIST.match(text, place)) is not None:
            there = [member.strip() for member in inside[1].split(",")]
            for number, member in enumerate(there):
                header = [name for name in names.bits if name.rpartition(".")[0] == member.rpartition(".")[0]]
                after = header[header.index(member) + 1 :][:1] if "." in member and member in header else []
                for name in after:
                    if name not in there:
                        more = ", ".join([*there[: number + 1], name, *there[number + 1 :]])
                        yield Edit(at_line, inside[0], f"{text[:place]}{{ {more} }}{text[inside.end() :]}")


_COMPARED_P4: Final = re.compile(r"([\w.]+) (==|!=|<=|>=|<|>) ([\w.]+)")


def _compared(text: str, tokens: Sequence[tuple[int, str, int]], names: _Names) -> Iterator[Edit]:
    """Yields comparisons of some bits of a name, and of another name by another operator."""
    for at in _COMPARED_P4.finditer(text, tokens[0][0], tokens[-1][0]):
        if at[1] in names.bits and at[2] in ("==", "!="):
            for other in names.others(at[1], cast=False):
                yield _put(text, at.start(), at[0], f"({at[1]} & {other}) {at[2]} {at[3]}", tokens[0][2])
        for side in (1, 3):
            for other in names.others(at[side], cast=False) if at[side] in names.bits else ():
                for operator in _ALIKE[0]:
                    if operator != at[2]:
                        parts = [at[1], operator, at[3]]
                        parts[side - 1] = other
                        yield _put(text, at.start(), at[0], " ".join(parts), tokens[0][2])


def _conditions(text: str, tokens: Sequence[tuple[int, str, int]]) -> Iterator[Edit]:
    """Yields an ``if`` negated, always or never true, or without one of its parts."""
    for place, word, line in tokens:
        if word != "if" or (open_ := text.find("(", place)) < 0:
            continue
        depth, parts, begin, end = 0, list[tuple[int, int]](), open_ + 1, len(text)
        for at in range(open_, len(text)):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            if depth == 0:
                end = at
                break
            if depth == 1 and text[at : at + 2] in ("&&", "||"):
                parts.append((begin, at))
                begin = at + 2
        whole = text[open_ + 1 : end]
        parts.append((begin, end))
        for other in (f"!({whole})", "true", "false"):
            yield _put(text, open_ + 1, whole, other, line, "if")
        for number, (first, last) in enumerate(parts if len(parts) > 1 else ()):
            in_line = line + text.count("\n", place, first + len(text[first:last]) - len(text[first:last].lstrip()))
            was = " ".join(text[first:last].split())
            rest = text[last + 2 : end] if number == 0 else text[open_ + 1 : first - 2] + text[last:end]
            yield Edit(in_line, was, text[: open_ + 1] + rest + text[end:])
            yield Edit(in_line, was, text[:first] + f" !({text[first:last]}) " + text[last:])


def _statements(text: str, line: int) -> Iterator[Edit]:
    """Yields a statement left out, or moved by up to four lines."""
    lines = text.splitlines(keepends=True)
    mine = lines[line - 1]
    code = mine.partition("//")[0].strip()
    if not code.endswith(";"):
        return
    rest = [*lines[: line - 1], *lines[line:]]
    yield Edit(line, code, "".join(rest))
    for other in sorted(range(max(1, line - 4), min(len(lines), line + 4) + 1), key=lambda place: abs(place - line)):
        if other != line and not lines[other - 1].strip().startswith(("//", "#")):
            moved = list(rest)
            moved.insert(other - 1, mine)
            place = other - 1 if other < line else other
            kept = "".join([*lines[:place], mine, *lines[place:]])
            yield Edit(line, code, "".join(moved), copied=(kept, place) if place else None, moved=line)


def _moved(text: str, bare: Sequence[str], line: int) -> Iterator[Edit]:
    """Yields several lines moved to another place: a block, a statement of several lines, or two statements."""
    lines, first = text.splitlines(keepends=True), _unit(bare, line)
    if first is None:
        return
    second = _unit(bare, first + 1) if first < len(lines) else None
    code = " ".join(bare[line - 1].split())
    for last in (end for end in (first, second) if end is not None and end > line):
        block, rest = lines[line - 1 : last], [*lines[: line - 1], *lines[last:]]
        places = [place for place in range(max(1, line - _AWAY), min(len(rest), line + _AWAY)) if place != line - 1]
        for place in sorted(places, key=lambda place: abs(place - line + 1)):
            before, after = (part.partition("//")[0].strip() for part in rest[place - 1 : place + 1])
            if before.endswith((";", "{", "}")) and not after.startswith("else"):
                yield Edit(line, code, "".join([*rest[:place], *block, *rest[place:]]), moved=last)


_AWAY: Final = 8
"""most lines by which several are moved"""


def _unit(bare: Sequence[str], line: int) -> int | None:
    """Returns the last line of the statement or block that begins in a line; None if none does."""
    code = bare[line - 1].strip()
    if not re.match(r"(?:if\b|[\w.\[\]]+ = |[\w.]+\()", code):
        return None
    depth = 0
    for number in range(line, len(bare) + 1):
        code = bare[number - 1].strip()
        depth += code.count("{") - code.count("}")
        behind = bare[number].strip() if number < len(bare) else ""
        if depth == 0 and code.endswith((";", "}")) and not behind.startswith("else"):
            return number
        if depth < 0:
            return None
    return None


_INDEX: Final = 32
"""bits of a register's index"""
_CELL: Final = re.compile(r"\.(?:read|write)$")


def _targets(tokens: Sequence[tuple[int, str, int]], names: _Names) -> set[int]:
    """Returns the bits of the names in a line."""
    return {names.bits[token] for _, token, _ in tokens if token in names.bits}


def _named(
    text: str,
    tokens: Sequence[tuple[int, str, int]],
    names: _Names,
    *,
    akin: bool,
    about: frozenset[str] | None = None,
) -> Iterator[Edit]:
    """Yields another name in place of one: a similar name (``akin``) or any other that fits; lists, arguments.

    ``about``: names, to which others are restricted.
    """
    for index, (place, token, line) in enumerate(tokens):
        name, _, method = token.rpartition(".")
        if method in ("setValid", "setInvalid", "isValid", "read", "write", "apply", "extract", "emit", "next"):
            if method.startswith("set"):
                yield _put(text, place, token, f"{name}.{'setInvalid' if method == 'setValid' else 'setValid'}", line)
            rest = f".{method}"
        else:
            name, rest = token, ""
        cast = index > 0 and tokens[index - 1][1] == ")"
        if akin and token[0].isdigit():
            near = _targets(tokens, names) | ({_INDEX} if any(_CELL.search(word) for _, word, _ in tokens) else set())
            width = re.match(r"(\d+)w", token)
            same = names.values[int(width[1])] if width is not None else []
            for other in dict.fromkeys(
                (*same, *names.constants, *(fitting for bits in near for fitting in names.values[bits]))
            ):
                yield _put(text, place, token, other, line)
        for other in names.others(name, cast=cast):
            if _akin(other, name) == akin and (about is None or other in about):
                yield _put(text, place, token, other + rest, line, name)
        if not akin:
            continue
        if method in ("read", "write") and (at := _SWAPPED.match(text, place + len(token))) is not None:
            yield Edit(line, token, f"{text[: at.start()]}({at[2]}, {at[1]}){text[at.end() :]}")
        listed = not index or tokens[index - 1][1] in ("{", ",")
        if listed and index + 1 < len(tokens) and tokens[index + 1][1] == ",":
            comma = tokens[index + 1][0]
            yield Edit(line, token, text[:place] + text[comma + 1 :])  # removed from a list
            behind = _TOKEN.search(text, comma + 1)  # maybe in the next line
            if behind is not None and text[behind.end() :].lstrip()[:1] in (",", "}"):  # exchanged with the next one
                middle = text[comma : behind.start()]
                yield Edit(line, token, f"{text[:place]}{behind[0]}{middle}{token}{text[behind.end() :]}")
