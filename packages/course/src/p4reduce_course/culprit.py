"""Finds the place in a student's file where one small change makes all checks pass.

Graders name causes that their authors thought of. For all other failures the student's own text is searched: an
operator, a number, a name, a condition or a statement is changed, one place at a time, and the failed check is run
again. If it passes and no other check fails, students are told the place, not the change.

The method is repair by mutation: V. Debroy and W. E. Wong, "Using Mutation to Automatically Suggest Fixes for Faulty
Programs", 2010. Lines that run in failures and seldom elsewhere come first, by Ochiai's measure: R. Abreu, P.
Zoeteweij and A. J. C. van Gemund, "An Evaluation of Similarity Coefficients for Software Fault Localization", 2006.
"""

from __future__ import annotations

import ast
import copy
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile, zip_longest
from pathlib import Path
from typing import Any, Final

from p4reduce_course.frame.lab import Step
from p4reduce_course.frame.likeness import without_comments
from p4reduce_course.frame.report import Wrong
from p4reduce_course.sandbox.confine import Limits
from p4reduce_course.sandbox.process import StudentCode

MOST: Final = 240
"""most changes of P4 that are tried; each takes some 15 ms"""
_MOST_PYTHON: Final = 120
_FIRST: Final = 8
"""lines whose changes are all tried before those of the next lines"""
_SHOWN: Final = 70
"""most characters of a line in the message"""
_LIMITS: Final = Limits(cpu_s=2)
"""limits of Python that is searched"""
_KINDS: Final = 4
"""kinds of changes of Python"""
_ENDED: Final = 2
"""processes that may end before the search does"""


@dataclass(frozen=True)
class Edit:
    """A text with one change: the changed line (from 1), and the text that stood there."""

    line: int
    was: str
    text: str


def culprit(path: Path, edits: Iterable[Edit], mends: Callable[[str], bool]) -> str:
    """Returns a sentence about the place; empty if no change helps. ``mends``: whether a text passes all checks."""
    for edit in edits:
        if mends(edit.text):
            line = path.read_text("utf-8").splitlines()[edit.line - 1]
            was, line = (" ".join(one.split())[:_SHOWN] for one in (edit.was, line))
            return f"A change in line {edit.line} alone, at '{was}', mends all of it: {line}"
    return ""


def passes(steps: Iterable[Step]) -> bool:
    """Returns whether all checks pass."""
    try:
        for step in steps:
            step.run()
    except Wrong:
        return False
    return True


def suspects(ran: Sequence[tuple[Iterable[int], bool]]) -> dict[int, float]:
    """Returns each line's suspicion from 0 to 1, by Ochiai. ``ran``: the lines of each frame, and whether it failed."""
    bad, good = Counter[int](), Counter[int]()
    for lines, failed in ran:
        (bad if failed else good).update(set(lines))
    failures = sum(failed for _, failed in ran)
    return {line: bad[line] / math.sqrt(failures * (bad[line] + good[line])) for line in bad}


def placed(file: Path, given: str, steps: Sequence[Step], anew: Callable[[StudentCode], Sequence[Step]]) -> list[Step]:
    """Returns checks of Python, of which the first that fails also tells the place of the mistake.

    Args:
        file: the student's file.
        given: text of the skeleton, whose lines are not changed.
        steps: the checks.
        anew: returns all checks for another process.
    """
    told: list[Step] = []

    def run(step: Step) -> None:
        try:
            step.run()
        except Wrong as wrong:
            if told:
                raise
            told.append(step)
            found = wrong.finding
            place = _in_python(file, given, step, anew)
            raise Wrong(
                f"{found.said}. {place}" if place else found.said, found.where, found.look, found.files
            ) from None

    return [replace(step, run=lambda step=step: run(step)) for step in steps]  # type: ignore[misc]


def _in_python(file: Path, given: str, step: Step, anew: Callable[[StudentCode], Sequence[Step]]) -> str:
    ended = 0
    code = StudentCode(file, _LIMITS)

    def mends(text: str) -> bool:
        nonlocal code, ended
        if code.ended:  # a changed loop did not end
            ended += 1
            code.close()
            code = StudentCode(file, _LIMITS)
        try:
            code.load(text)
        except Wrong:
            return False
        every = anew(code)
        return passes(one for one in every if one.title == step.title) and passes(every)

    try:
        return culprit(
            file,
            takewhile(lambda _: ended < _ENDED, islice(python_edits(file.read_text("utf-8"), given), _MOST_PYTHON)),
            mends,
        )
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ""
    finally:
        code.close()


def unused(text: str) -> str:
    """Returns a text about registers of a P4 program that are only read or only written; empty if there are none."""
    text, found = without_comments(text), []
    for name in _Names.of(text).registers:
        read, written = (re.search(rf"\b{name}\s*\.\s*{how}\b", text) is not None for how in ("read", "write"))
        if read != written:
            found.append(f"register {name} is {'read and never written' if read else 'written and never read'}")
    return "; ".join(found)


# Changes of Python: the syntax tree with one node changed.

_COMPARED: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_ADDED: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv)
_FUNCTIONS: Final = (
    ("floor", "ceil", "rint", "trunc", "round"),
    ("min", "max", "sum", "len"),
    ("any", "all"),
    ("isnan", "isfinite", "isinf"),
)


def python_edits(text: str, given: str = "") -> Iterator[Edit]:
    """Yields changes outside the skeleton, likely kinds first; changes in loops, which may not end, come last."""
    left = {line.strip() for line in given.splitlines()}
    tree, lines = ast.parse(text), text.splitlines()
    looped = {id(inner) for loop in ast.walk(tree) if isinstance(loop, ast.While) for inner in ast.walk(loop)}
    places = {id(node): place for place, node in enumerate(ast.walk(tree))}
    changes = sorted(_python_changes(tree), key=lambda one: one[0] + _KINDS * (id(one[1]) in looped))
    for _, node, name, value in changes:
        if lines[getattr(node, "lineno", 1) - 1].strip() in left:
            continue
        other = copy.deepcopy(tree)
        mine: Any = next(islice(ast.walk(other), places[id(node)], None))
        if name:
            setattr(mine, name, value)
        else:  # the node is replaced by another one
            mine.__class__, mine.__dict__ = type(value), dict(vars(value))
        line = getattr(node, "lineno", 1)
        was = ast.get_source_segment(text, node) or lines[line - 1].strip()
        yield Edit(line, " ".join(was.split())[:_SHOWN], ast.unparse(ast.fix_missing_locations(other)) + "\n")


def _python_changes(tree: ast.AST) -> Iterator[tuple[int, ast.AST, str, Any]]:
    """Yields kind, node, and the field with its new value; without a field, the value replaces the node."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp() | ast.AugAssign():
                yield from ((1, node, "op", one()) for one in _ADDED if not isinstance(node.op, one))
                if isinstance(node, ast.BinOp):
                    yield from ((2, node, "", one) for one in (node.left, node.right))
            case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() | ast.Eq() | ast.NotEq() as is_]):
                yield from ((0, node, "ops", [one()]) for one in _COMPARED if not isinstance(is_, one))
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                half = value / 2 if value % 2 else value // 2
                for new in dict.fromkeys((value + 1, value - 1, -value, 2 * value, half)):
                    if new != value:
                        yield 0, node, "value", new
            case ast.UnaryOp():
                yield 0, node, "", node.operand
            case ast.Attribute(attr=name) | ast.Name(id=name) if any(name in alike for alike in _FUNCTIONS):
                key = "attr" if isinstance(node, ast.Attribute) else "id"
                yield from (
                    (0, node, key, one) for alike in _FUNCTIONS if name in alike for one in alike if one != name
                )
            case ast.Call(args=[first, *_] as given):
                for place, one in enumerate(given):
                    yield 1, node, "args", [*given[:place], ast.UnaryOp(ast.USub(), one), *given[place + 1 :]]
                yield 2, node, "", first
            case ast.If() | ast.While() | ast.IfExp():
                yield 1, node, "test", ast.UnaryOp(ast.Not(), node.test)
            case ast.BoolOp():
                yield 1, node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()
    for function in (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)):
        names = [one for one in ast.walk(function) if isinstance(one, ast.Name)]
        own = [one.arg for one in function.args.args] + [one.id for one in names if isinstance(one.ctx, ast.Store)]
        for one in names:
            if isinstance(one.ctx, ast.Load) and one.id in own:
                yield from ((3, one, "id", new) for new in dict.fromkeys(own) if new != one.id)


# Changes of P4: the text with one token, condition or statement changed.

_TOKEN: Final = re.compile(
    r"\|\+\||\|-\||<<|>>|[=!<>]=|&&|\|\||\d+[ws]\w+|0[xb][0-9a-fA-F]+|\d+|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[\w+\])*|\S"
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
        found, types = cls(), dict[str, list[tuple[str, int]]]()
        for kind, name, body in re.findall(r"\b(header|struct)\s+(\w+)\s*\{([^}]*)\}", text):
            types[name] = [(one, int(bits)) for bits, one in re.findall(r"bit<(\d+)>\s*(\w+)\s*;", body)]
            if kind == "struct":
                for of, one in re.findall(r"\b(\w+)\s+(\w+)\s*;", body):
                    if of in types:
                        found.headers.append(f"hdr.{one}")
                        found._add((f"hdr.{one}.{name}", bits) for name, bits in types[of])
                if "hdr" not in "".join(found.headers) or name.startswith("meta"):
                    found._add((f"meta.{one}", bits) for one, bits in types[name])
        found._add((f"std.{name}", bits) for name, bits in _STANDARD.items())
        outside = re.sub(r"\b(?:header|struct)\s+\w+\s*\{[^}]*\}", " ", text)
        declared = re.findall(r"(?<!<)\bbit<(\d+)>\s+(\w+)\s*(?=[;=,)])", outside)
        found._add((name, int(bits)) for bits, name in declared)
        found.registers = re.findall(r"\bregister<[^;]*?>\s*\([^)]*\)\s*(\w+)\s*;", outside)
        found.constants = re.findall(r"\bconst\s+bit<\d+>\s+(\w+)", outside)
        found.states = [name for name in re.findall(r"\bstate\s+(\w+)", text) if name != "start"]
        return found

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
        return [one for one in among if one != name]


def _akin(one: str, other: str) -> bool:
    """Returns whether two names differ in digits only, or are fields of one header."""
    return re.sub(r"\d", "", one) == re.sub(r"\d", "", other) or (
        "." in one and one.rpartition(".")[0] == other.rpartition(".")[0]
    )


def p4_edits(text: str, given: str, suspicious: Mapping[int, float], runs: Iterable[int]) -> Iterator[Edit]:
    """Yields changes of one place: the student's own lines first, then by suspicion, then by kind.

    ``runs`` are the lines that can run. A statement on one that is not suspicious did not run and is only moved.
    Nothing is known of other lines: those of the parser, keys of tables, and continued lines.
    """
    names, bare = _Names.of(without_comments(text)), without_comments(text).splitlines()
    known, able = Counter(" ".join(line.split()) for line in without_comments(given).splitlines()), set(runs)
    by_line: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    for place, token, line in _tokens(text):
        by_line[line].append((place, token, line))
    ranked = []
    for line, found in by_line.items():
        plain = " ".join(bare[line - 1].split()) if text.count("/*") == 0 else ""
        known[plain] -= 1
        if found[0][1] not in _DECLARED:
            own = known[plain] < 0
            ranked.append((own, suspicious.get(line, 0.0 if line in able else 0.5), -line))
    ranked.sort(reverse=True)
    last: list[Iterator[Edit]] = []
    for begin in range(0, len(ranked), _FIRST):
        mine = [-minus for _, weight, minus in ranked[begin : begin + _FIRST] if weight]
        last += [_statements(text, -minus) for _, weight, minus in ranked[begin : begin + _FIRST] if not weight]
        last += [_named(text, by_line[line], names, akin=False) for line in mine]
        for kind in (
            lambda line: (
                *_conditions(text, by_line[line]),
                *_operators(text, by_line[line]),
                *_terms(text, by_line[line], names),
            ),
            lambda line: (*_named(text, by_line[line], names, akin=True), *_statements(text, line)),
        ):
            yield from (edit for row in zip_longest(*map(kind, mine)) for edit in row if edit is not None)
    yield from (edit for row in zip_longest(*last) for edit in row if edit is not None)


def _tokens(text: str) -> list[tuple[int, str, int]]:
    """Returns place, token and line (from 1) of all tokens outside comments and strings."""
    hidden = re.sub(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"|#[^\n]*', lambda at: re.sub(r"[^\n]", " ", at[0]), text, flags=re.S)
    found, line, last = [], 1, 0
    for at in _TOKEN.finditer(hidden):
        line += hidden.count("\n", last, at.start())
        last = at.start()
        found.append((at.start(), at[0], line))
    return found


def _put(text: str, place: int, old: str, new: str, line: int, was: str = "") -> Edit:
    return Edit(line, was or old, text[:place] + new + text[place + len(old) :])


def _operators(text: str, found: Sequence[tuple[int, str, int]]) -> Iterator[Edit]:
    for index, (place, token, line) in enumerate(found):
        for alike in _ALIKE:
            word = token.rpartition(".")[2]
            if word in alike and token in (word, f"HashAlgorithm.{word}"):
                for other in alike:
                    if other != word:
                        yield _put(text, place, token, token[: len(token) - len(word)] + other, line)
        if token in ("!", "~") and not (index + 1 < len(found) and found[index + 1][1] == "="):
            yield _put(text, place, token, "", line)
        if (number := _NUMBER.fullmatch(token)) is not None:
            value, kind = int(number[3], 0), f"{number[1]}{number[2]}" if number[1] else ""
            for one in dict.fromkeys((value + 1, value - 1, 0, 1, 2 * value)):
                if one >= 0 and one != value:
                    yield _put(text, place, token, f"{kind}{one}", line)
    slice_ = re.compile(r"\[(\d+):(\d+)\]")
    begin, end = found[0][0], text.find("\n", found[0][0])
    for at in slice_.finditer(text, begin, end if end >= 0 else len(text)):
        for bit in (0, 40):
            yield _put(text, at.start(), at[0], f"[{bit}:{bit}]", found[0][2])


_ASSIGNED: Final = re.compile(r"=\s*([^;{}]+);")
_LIST: Final = re.compile(r"\{([^{};]*,[^{};]*)\}")


def _terms(text: str, found: Sequence[tuple[int, str, int]], names: _Names) -> Iterator[Edit]:
    """Yields assignments that also use the variable itself, or one operand only; lists with one more header field."""
    (begin, target, line), end = found[0], text.find("\n", found[0][0])
    end = end if end >= 0 else len(text)
    if (at := _ASSIGNED.search(text, begin, end)) is not None and target in names.bits:
        for operator in ("+", "|", "&", "|+|"):
            if not re.search(rf"(?<![\w.]){re.escape(target)}(?![\w.])", at[1]):
                yield Edit(line, at[1], f"{text[: at.start(1)]}{target} {operator} ({at[1]}){text[at.end(1) :]}")
        sides = re.split(r"\s(?:\+|-|\||&|\^|\|\+\|)\s", at[1])
        for side in sides if len(sides) == 2 else ():
            yield Edit(line, at[1], text[: at.start(1)] + side + text[at.end(1) :])
    for place, word, at_line in found:
        if word == "{" and (inside := _LIST.match(text, place)) is not None:
            there = [one.strip() for one in inside[1].split(",")]
            for number, one in enumerate(there):
                header = [name for name in names.bits if name.rpartition(".")[0] == one.rpartition(".")[0]]
                after = header[header.index(one) + 1 :][:1] if "." in one and one in header else []
                for name in after:
                    if name not in there:
                        more = ", ".join([*there[: number + 1], name, *there[number + 1 :]])
                        yield Edit(at_line, inside[0], f"{text[:place]}{{ {more} }}{text[inside.end() :]}")


def _conditions(text: str, found: Sequence[tuple[int, str, int]]) -> Iterator[Edit]:
    """Yields an ``if`` negated, always or never true, or without one of its parts."""
    for place, word, line in found:
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
    for other in range(max(1, line - 4), min(len(lines), line + 4) + 1):
        if other != line and not lines[other - 1].strip().startswith(("//", "#")):
            moved = list(rest)
            moved.insert(other - 1, mine)
            yield Edit(line, code, "".join(moved))


def _named(text: str, found: Sequence[tuple[int, str, int]], names: _Names, *, akin: bool) -> Iterator[Edit]:
    """Yields another name in place of one: a similar name (``akin``) or any other that fits; lists, arguments."""
    for index, (place, token, line) in enumerate(found):
        name, _, method = token.rpartition(".")
        if method in ("setValid", "setInvalid", "isValid", "read", "write", "apply", "extract", "emit", "next"):
            if method.startswith("set"):
                yield _put(text, place, token, f"{name}.{'setInvalid' if method == 'setValid' else 'setValid'}", line)
            rest = f".{method}"
        else:
            name, rest = token, ""
        cast = index > 0 and found[index - 1][1] == ")"
        if not akin and token[0].isdigit():
            for other in names.constants:
                yield _put(text, place, token, other, line)
        for other in names.others(name, cast=cast):
            if _akin(other, name) == akin:
                yield _put(text, place, token, other + rest, line, name)
        if not akin:
            continue
        if method in ("read", "write") and (at := _SWAPPED.match(text, place + len(token))) is not None:
            yield Edit(line, token, f"{text[: at.start()]}({at[2]}, {at[1]}){text[at.end() :]}")
        if index + 1 < len(found) and found[index + 1][1] == "," and index and found[index - 1][1] in ("{", ","):
            yield Edit(line, token, text[:place] + text[found[index + 1][0] + 1 :])  # removed from a list
