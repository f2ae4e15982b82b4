"""Tells where a program first departs from what is needed: the student's own line, with the values it had.

The steps of the failing frame are followed back from what is wrong: the last statement that set it, the conditions
and tables that let it run, and the registers and frames from which its value and theirs came. Lines that would have
set a value are named with the condition that kept them from running. This is a relevant slice: B. Korel and J. Laski,
"Dynamic Program Slicing", 1988; T. Gyimothy, A. Beszedes and I. Forgacs, "An Efficient Relevant Slicing Method for
Debugging", 1999.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice, takewhile
from typing import Final, Literal

from p4reduce_course.culprit import lines_left, tokens_of
from p4reduce_course.frame.likeness import without_comments
from p4reduce_course.sandbox.trail import BEYOND, TrailStep
from p4switch.program.program import MOST_IDLE_STEPS

_STATES: Final = 5
"""most states of a parser in the text"""
_PARTS: Final = 8
"""most sentences"""
_SHOWN: Final = 90
"""most characters of a statement in the text"""
_INPUTS: Final = 4
"""most values of a statement's inputs"""
_KEPT: Final = 2
"""most lines that did not run"""
_PLAIN: Final = ("line ", "no line ", "the ", "parsing ", "before that", "nothing ")
"""beginnings of sentences that take a capital; others begin with a name of the program"""
_TEMPORARY: Final = re.compile(r"(?:^|[._])(?:tmp|hasReturned|hasExited|retval|key)(?:_\d+)?$")
_TIMEOUT: Final = "ParserTimeout"
"""error of a parser that goes round and round"""
_ROUND: Final = 100
"""most visits of a parser's states in which its round is looked for"""
_PORTS: Final = ("std.egress_spec", "std.mcast_grp")


@dataclass(frozen=True)
class Departure:
    """What is wrong with a frame.

    Attributes:
        kind: ``dropped``: it must leave; ``sent``: it must be dropped, or leave by other ports; ``field``: a field has
            a wrong value as it left; ``cell``: a register has; ``silent``, ``told``: a digest is missing, or too much;
            ``digest``: an element of a digest is wrong.
        name: the field, or the register.
        element: of a digest, from 0.
        drop: whether a frame that was sent must be dropped.
        cell: of the register; None: the one that was written last.
    """

    kind: Literal["dropped", "sent", "field", "cell", "silent", "told", "digest"]
    name: str = ""
    element: int = 0
    drop: bool = False
    cell: int | None = None


@dataclass(frozen=True)
class _Within:
    """A block that encloses a line: a branch of the ``if`` in a line, or an action."""

    line: int
    branch: bool
    action: str = ""


@dataclass(frozen=True)
class Trail:
    """The steps of some frames in a program, the last of which is wrong.

    Attributes:
        text: the program.
        frames: steps of each frame.
        names: names of the frames.
        given: the skeleton, whose lines are followed, but are no sources that need telling.
    """

    text: str
    frames: Sequence[Sequence[TrailStep]]
    names: Sequence[str]
    given: str = ""
    _open: list[TrailStep] = field(default_factory=list)
    """steps that were told, the sources of which have not been"""
    _since_told: list[TrailStep] = field(default_factory=list)
    """conditions that were told as what let a line run"""
    lines: dict[int, None] = field(default_factory=dict)
    """lines that the last text named, in its order"""
    wrong: set[str] = field(default_factory=set)
    """names of what is wrong, as they stand in the program"""

    def where(self, wrong: Departure) -> str:
        """Returns sentences about the place where the last frame departs; empty if nothing is known."""
        self.lines.clear()
        self.wrong.clear()
        self._open.clear()
        self._since_told.clear()
        return sentences(chain(self._parts(wrong), self._sources()))

    def undone(self, wrong: Departure) -> str:
        """Returns which line dropped the last frame under a condition, and which sent it all the same; or empty."""
        decided = [step for step in self._steps if step.name in _PORTS and step.line] if wrong.drop else []
        moved = next(
            (at for at in reversed(range(len(decided))) if decided[at].kind != "drop" and decided[at].after), 0
        )
        drops = [step for step in decided[:moved] if step.kind == "drop" and self._within.get(step.line)]
        if not drops:
            return ""
        sends = f"{self._at(decided[moved].line)}, which runs after it, sends the frame all the same"
        return f"{self._at(drops[-1].line)} drops it, and {sends}: a port that is set later wins over mark_to_drop"

    def _parts(self, wrong: Departure) -> Iterator[str]:
        match wrong.kind:
            case "dropped":
                yield from self._dropped()
            case "sent":
                yield from self._sent(wrong.drop)
            case "field":
                yield from self._headers() or self._field(wrong.name)
            case "cell":
                written = [step for step in self._steps if step.kind == "write" and step.name == wrong.name]
                there = written if wrong.cell is None else [step for step in written if step.cell == wrong.cell]
                if there:
                    yield from self._set(there[-1], f"cell {there[-1].cell} of {wrong.name}")
                else:
                    call = rf"\b{wrong.name}\s*\.\s*write\s*\("
                    elsewhere = (self._set(step, f"cell {step.cell} of {wrong.name}") for step in written[-1:])
                    kept = list(self._kept(call, f"write {wrong.name}", quiet=bool(written)))
                    yield from kept or chain.from_iterable(elsewhere)
            case "silent":
                yield from self._failed()
                yield from self._kept(r"\bdigest\s*[<(]", "tell the controller")
            case "told":
                digest = next((step for step in self._steps if step.kind == "digest"), None)
                if digest is not None:
                    yield f"{self._at(digest.line)} tells it{self._since(digest)}"
            case "digest":
                digest = next((step for step in self._steps if step.kind == "digest"), None)
                if digest is not None and wrong.element < len(digest.reads):
                    before = self._steps[: self._steps.index(digest)]
                    name, value = digest.reads[wrong.element]
                    yield f"{self._at(digest.line)} tells {name}, which is {_number(value)}"
                    self.wrong.add(self._local(name))
                    yield from self._field(name, before)

    # --- what happened

    @property
    def _steps(self) -> Sequence[TrailStep]:
        return self.frames[-1]

    @property
    def endless(self) -> bool:
        """Whether the switch had to end the parser, which went round and round."""
        return any(step.kind == "error" and step.text == _TIMEOUT for step in self._steps)

    def _failed(self) -> Iterator[str]:
        yield from (self._way(step) for step in self._steps if step.kind == "error")

    def _dropped(self) -> Iterator[str]:
        yield from self._failed()
        verdict = next((step for step in self._steps if step.kind == "verdict"), None)
        decided = [step for step in self._steps if step.kind == "drop" or step.name in _PORTS]
        if not decided:
            return
        last = decided[-1]
        if verdict is not None and verdict.text == "multicast":
            last = next((step for step in reversed(decided) if step.name == "std.mcast_grp"), last)
            yield f"{self._at(last.line)} sends it to multicast group {verdict.after}, from which no copy left"
            return
        self._open.append(last)
        since = self._since(last)
        yield f"{self._at(last.line)} drops it{since}"
        if not since:
            yield from self._kept(r"\.(?:egress_spec|mcast_grp)\s*=(?!=)", "send it", quiet=True)

    def _way(self, error: TrailStep) -> str:
        """Returns the states through which a frame went to an error of the parser."""
        if error.text == _TIMEOUT:
            return self._round(error)
        states = [f"{step.name}{self._on(step)}" for step in self._steps if step.kind == "select"]
        states = [*states[:_STATES], "..."] if len(states) > _STATES + 1 else states
        went = f"went through {', '.join(states)} and " if states else ""
        return f"the parser {went}ended in state {error.name} with error {error.text}"

    def _round(self, error: TrailStep) -> str:
        """Returns the states that lead to each other, or one that leads to itself, until the switch ends that."""
        before = reversed(self._steps[: self._steps.index(error)])
        names = dict[str, str]()
        for step in islice(takewhile(lambda step: step.kind == "select", before), _ROUND):
            names[step.name] = self._on(step) if names.get(step.name, self._on(step)) == self._on(step) else ""
        states = [f"{name}{on}" for name, on in reversed(names.items())]
        shown = ", ".join([*states[:_STATES], *["..."] * (len(states) > _STATES)])
        lead = f"state {shown} leads to itself" if len(states) == 1 else f"states {shown} lead to each other"
        stops = f"until the switch stops it after {MOST_IDLE_STEPS:,} visits, with error {error.text}"
        return f"the parser does not end: {lead} {stops}"

    @staticmethod
    def _on(step: TrailStep) -> str:
        return f" (select on {', '.join(hex(value) for _, value in step.reads)})" if step.reads else ""

    def _sent(self, drop: bool) -> Iterator[str]:
        decided = [step for step in self._steps if step.name in _PORTS and (step.kind != "drop" or step.line)]
        moved = [step for step in decided if step.kind != "drop" and step.after]
        if moved:
            yield from self._set(moved[-1], moved[-1].name)
        elif decided and decided[-1].kind == "drop":
            yield f"{self._at(decided[-1].line)} drops it{self._since(decided[-1])}"
        else:
            yield "no line that ran says where it goes: egress_spec begins as 0, which is a port"
        if drop:
            yield from self._kept(r"\bmark_to_drop\s*\(", "drop it", quiet=True)
        else:
            yield from self._kept(r"\.(?:egress_spec|mcast_grp)\s*=(?!=)", "send it elsewhere", quiet=True)

    def _field(self, name: str, steps: Sequence[TrailStep] | None = None) -> Iterator[str]:
        steps = self._steps if steps is None else steps
        written = [step for step in steps if step.kind in ("set", "read") and step.name == name]
        if written:
            yield from self._set(written[-1], name)
            return
        if name == "payload":
            yield from self._behind(steps)
            return
        header = name.rpartition(".")[0]
        taken = [step.name for step in steps if step.kind == "extract"]
        if header and header not in taken and not name.startswith(("std.", "meta.")):
            yield from self._path(header)
        updates = list(self._updated(name, steps))
        yield from updates
        known, whole = _in_code(name), rf"(?<![\w.])(?:hdr\.)?{re.escape(header)}\s*=(?!=)|\.(?:push_front|pop_front)\("
        quiet = bool(updates) or (bool(header) and re.search(whole, self._code) is not None)
        yield from self._kept(rf"(?<![\w.]){known}\s*=(?!=)|[(,]\s*{known}\s*[,)]", f"set {name}", quiet=quiet)

    def _behind(self, steps: Sequence[TrailStep]) -> Iterator[str]:
        """Yields the headers in front of the payload, which no line sets: it follows what the deparser emits."""
        left = list(dict.fromkeys(step.name for step in steps if step.kind == "emit"))
        gone = dict[str, bool]()
        for step in steps:
            if step.kind == "set" and step.name.endswith(".isValid()"):
                gone[step.name.removesuffix(".isValid()")] = not step.after
        came = [step.name for step in steps if step.kind == "extract"]
        invalid = [name for name in dict.fromkeys((*came, *gone)) if gone.get(name) and name not in left]
        if left:
            made = f"; {', '.join(invalid)} {'was' if len(invalid) == 1 else 'were'} made invalid" if invalid else ""
            last = next((s for s in reversed(steps) if s.name.removesuffix(".isValid()") in invalid and s.line), None)
            made += f", the last in {self._at(last.line)}" if last is not None and len(invalid) > 1 else ""
            valid = f"{', '.join(left)} {'is' if len(left) == 1 else 'are'} valid at the end"
            yield f"{valid} and emitted in front of the payload{made}"

    def _updated(self, name: str, steps: Sequence[TrailStep]) -> Iterator[str]:
        """Yields the statements that compute a checksum into a field, with the condition that kept them from it."""
        for line in sorted(self._checksums):
            code = self._statement(line)
            asked = re.match(
                rf"\s*update_checksum\w*\s*\(\s*(.*?),\s*\{{[^}}]*\}},\s*{_in_code(name)}\s*[,)]", code, re.S
            )
            if asked is None:
                continue
            header = re.fullmatch(r"(?:hdr\.)?([\w.\[\]]+)\.isValid\(\)", asked[1])
            if header is None or header[1] not in self._headers_of:
                yield f"{self._at(line)} sets {name} if {' '.join(asked[1].split())}"
            elif self._is_valid(header[1], steps):
                yield f"{self._at(line)} sets {name}"
            else:
                path = "".join(f"; {part}" for part in self._path(header[1]) if not self._valid(header[1], steps))
                yield f"{self._at(line)} would set {name}, and does not: {header[1]} is not valid{path}"

    @staticmethod
    def _is_valid(header: str, steps: Sequence[TrailStep]) -> bool:
        """Returns whether a header is valid at the end of some steps."""
        valid = False
        for step in steps:
            if step.kind == "extract" and step.name == header:
                valid = True
            elif step.name == f"{header}.isValid()" and step.kind == "set":
                valid = bool(step.after)
        return valid

    def _path(self, header: str) -> Iterator[str]:
        ways = [step for step in self._steps if step.kind in ("select", "error")]
        if ways:
            last = ways[-1]
            if last.text == _TIMEOUT:
                yield f"the parser did not extract {header}; {self._round(last)}"
                return
            how = f"ended with error {last.text}" if last.kind == "error" else f"went to {last.text}"
            yield f"the parser did not extract {header}: state {last.name}{self._on(last)} {how}"

    def _headers(self) -> list[str]:
        """Returns what is wrong with the headers that the deparser emitted; nothing if they are those that came."""
        came = [step.name for step in self._steps if step.kind == "extract"]
        left = list(dict.fromkeys(step.name for step in self._steps if step.kind == "emit"))
        both = [name for name in left if name in came]
        order = [name for name in came if name in both]
        if both != order:
            return [f"the deparser emits {', '.join(left)}; the frame came as {', '.join(came)}: the order differs"]
        valid = dict.fromkeys(came, True)
        for step in self._steps:
            if step.kind == "set" and step.name.endswith(".isValid()"):
                valid[step.name.removesuffix(".isValid()")] = bool(step.after)
        lost = [name for name, is_valid in valid.items() if is_valid and name not in left and left]
        return [f"{', '.join(lost)} is valid at the end, and no emit puts it into the frame"] if lost else []

    def _set(self, step: TrailStep, name: str) -> Iterator[str]:
        if step.kind == "read":
            yield f"{name} is what {self._at(step.line)} {self._cell(step)}"
            self._open.append(step)
            return
        change = f"leaves {name} at {_number(step.after)}"
        if step.before != step.after:
            change = f"sets {name} from {_number(step.before)} to {_number(step.after)}"
        self._open.append(step)
        yield f"{self._at(step.line)} {change}{self._since(step)}"
        yield from self._would(name, self._steps[self._steps.index(step) :])

    def _cell(self, step: TrailStep) -> str:
        """Returns what a read of a register gave, and who wrote that."""
        if step.text.endswith(BEYOND):
            return f"reads from cell {step.cell} of {step.text}: it stays {_number(step.after)}"
        told = f"reads from cell {step.cell} of {step.text}: {_number(step.after)}"
        place = self._steps.index(step)
        for number in range(len(self.frames) - 1, -1, -1):
            steps = self.frames[number] if number < len(self.frames) - 1 else self._steps[:place]
            for earlier in reversed(steps):
                if (earlier.kind, earlier.name, earlier.cell) == ("write", step.text, step.cell):
                    who = f"by {self.names[number]} " if number < len(self.frames) - 1 else ""
                    return f"{told}, written {who}in {self._at(earlier.line)}"
        return f"{told}, as nothing has written it"

    def _sources(self) -> Iterator[str]:
        """Yields where the values came from that the steps which were told looked at, nearest first."""
        seen = set[int]()
        while self._open:
            current = self._open.pop(0)
            place = next((n for n, other in enumerate(self._steps) if other is current), len(self._steps))
            before = self._steps[:place]
            for name, value in (*current.reads, *self._keys(current)):
                origin = next((s for s in reversed(before) if s.kind in ("set", "read") and s.name == name), None)
                if origin is None and self._is_variable(self._local(name), current.line):
                    yield f"no line that ran sets {self._local(name)} before {self._at(current.line)}"
                header = name.rpartition(".")[0]
                if origin is None and header in self._headers_of and not self._valid(header, before):
                    yield from self._path(header)
                if origin is not None and id(origin) not in seen:
                    seen.add(id(origin))
                    yield from self._source(origin, value, current)

    def _source(self, origin: TrailStep, value: int, reader: TrailStep) -> Iterator[str]:
        """Yields how a value came to be that a later step read."""
        name = self._local(origin.name)
        self._open.insert(0, origin)
        if not _TEMPORARY.search(origin.name) and origin.line not in (0, reader.line, *self._left):
            inputs = [f"{self._local(name)} {_number(known)}" for name, known in self._inputs(origin).items()]
            how = f"sets: {_number(value)}" + (f" ({', '.join(inputs)})" if 0 < len(inputs) <= _INPUTS else "")
            how = self._cell(origin) if origin.kind == "read" else how
            yield f"{name} is what {self._at(origin.line)} {how}{self._since(origin)}"
        between = takewhile(lambda step: step is not reader, self._steps[self._steps.index(origin) :])
        yield from self._would(name, list(between))

    def _inputs(self, step: TrailStep) -> dict[str, int]:
        """Returns names and values that a step read, with those of temporary variables in their place."""
        read = dict[str, int]()
        before = self._steps[: self._steps.index(step)]
        for name, value in step.reads:
            made = next((s for s in reversed(before) if s.kind == "set" and s.name == name), None)
            if not _TEMPORARY.search(name):
                read[name] = value
            elif made is not None:
                read |= self._inputs(made)
        return read

    def _would(self, name: str, between: Sequence[TrailStep]) -> Iterator[str]:
        """Yields lines that would have set a variable, and did not, behind a condition that some steps decided."""
        ran = {step.line for step in between}
        setting = {step.line for step in between if self._local(step.name) == name}
        for line, code in enumerate(self._bare, start=1):
            blocks = self._within.get(line, ())
            if not blocks or blocks[-1].action or line in setting:
                continue
            spans, actions = set(self._spans(blocks[-1].line)), {within.action for within in blocks if within.action}
            if not re.search(rf"(?<![\w.]){_in_code(name)}\s*=(?!=)", code):
                continue
            decided = self._decided(blocks[-1].line) if ran & spans else None
            if decided is None and any(a.action in actions for at in ran for a in self._within.get(at, ()) if a.action):
                decided = self._skipped(blocks[-1], name)
            if decided is not None and bool(decided.after) != blocks[-1].branch:
                why = self._condition(decided, bool(decided.after)).removeprefix(f"{self._at(line)} is ")
                yield f"{self._at(line)} would set {name}, and does not run: {why}"

    def _skipped(self, within: _Within, name: str) -> TrailStep:
        """Returns the condition of a block of an action that did not run; the compiler leaves no step for these."""
        words = re.findall(r"[A-Za-z_]\w*(?:\.\w+)*", self._statement(within.line).partition("{")[0])
        last = {self._local(step.name): step.after for step in self._steps if step.kind in ("set", "read")}
        last |= {
            word: int(self._valid(word.removesuffix(".isValid").removeprefix("hdr."), self._steps))
            for word in words
            if word.endswith(".isValid")
        }
        reads = [(word, last[word]) for word in dict.fromkeys(words) if word in last and word != name]
        return TrailStep("if", within.line, "", 0, int(not within.branch), -1, reads, "")

    @cached_property
    def _headers_of(self) -> set[str]:
        """Names of headers, as far as steps or the program tell."""
        declared = set(re.findall(r"\b\w+_t\s+(\w+)\s*;", self._code))
        stacks = re.findall(r"\b\w+\s*\[(\d+)\]\s+(\w+)\s*;", self._code)
        return declared | {f"{name}[{place}]" for size, name in stacks for place in range(min(int(size), _STATES))}

    @staticmethod
    def _valid(header: str, steps: Sequence[TrailStep]) -> bool:
        return any(
            (step.kind == "extract" and step.name == header) or step.name == f"{header}.isValid()" for step in steps
        )

    def _is_variable(self, name: str, line: int) -> bool:
        """Returns whether a name in a line is a variable of a control, and no parameter of the line's action."""
        actions = [within.action for within in self._within.get(line, ()) if within.action]
        mine = rf"\baction\s+(?:{'|'.join(actions)})\s*\([^)]*\b{re.escape(name)}\b"
        if not re.fullmatch(r"\w+", name) or (actions and re.search(mine, self._code)):
            return False
        outside = re.sub(r"\b(?:header|struct)\s+\w+\s*\{[^}]*\}", " ", self._code)
        return re.search(rf"\bbit<\d+>\s+{name}\s*;", outside) is not None

    def _keys(self, step: TrailStep) -> list[tuple[str, int]]:
        """Returns the key by which a table ran the action of a step; nothing if the step is in no action."""
        actions = {within.action for within in self._within.get(step.line, ()) if within.action}
        ran = [other for other in self._steps if other.kind == "table" and other.text in actions]
        return ran[-1].reads if ran else []

    # --- why it ran, or did not

    def _since(self, step: TrailStep) -> str:
        """Returns the condition or the table that let a step run; empty if it always runs."""
        for within in reversed(self._within.get(step.line, ())):
            if within.action:
                ran = [other for other in self._steps if other.kind == "table" and other.text == within.action]
                return f", since {self._table(ran[-1])}" if ran else ""
            if within is self._within[step.line][0] and not within.branch:
                return ""  # behind what drops frames that are none of the program's
            if decided := self._decided(within.line):
                if any(other is decided for other in self._since_told):
                    return ""
                self._since_told.append(decided)
                return f", since {self._condition(decided, within.branch)}"
        return ""

    def _decided(self, line: int) -> TrailStep | None:
        return next(
            (step for step in reversed(self._steps) if step.kind == "if" and step.line in self._spans(line)), None
        )

    def _spans(self, line: int) -> range:
        """Returns the lines of the condition of an ``if``."""
        return range(line, self._conditions.get(line, line) + 1)

    def _condition(self, step: TrailStep, outcome: bool) -> str:
        self._open.append(step)
        line = next((first for first, last in self._conditions.items() if first <= step.line <= last), step.line)
        reads = dict[str, int]()
        for other in (*self._steps, step):
            if other.line in self._spans(line) and (other is step or other.kind == "set"):
                reads |= {name: value for name, value in other.reads if not _TEMPORARY.search(name)}
        tables = [f"table {_short(s.name)} {'hit' if s.after else 'missed'}" for s in self._steps
                  if s.kind == "table" and s.line in self._spans(line)]  # fmt: skip
        words = set(re.findall(r"\w+", " ".join(self._bare[number - 1] for number in self._spans(line))))
        constants = [f"{name} {value}" for name, value in self._constants.items() if name in words]
        values = ", ".join([*(f"{name} {_number(value)}" for name, value in reads.items()), *constants, *tables])
        lacks = [
            name.removesuffix(".isValid()")
            for name, value in reads.items()
            if name.endswith(".isValid()") and not value
        ]
        path = "".join(f"; {part}" for header in lacks[:1] for part in self._path(header))
        if reads.get("std.parser_error") == 0:
            path += (
                f"; the parser extracted {', '.join(s.name for s in self._steps if s.kind == 'extract') or 'nothing'}"
            )
        if reads.get("std.checksum_error") == 0:
            path += self._verified()
        return f"{self._at(line)} is {str(outcome).lower()}" + (f" ({values}{path})" if values else "")

    def _verified(self) -> str:
        """Returns what verifies checksums, under what condition."""
        line = next(
            (n for n, code in enumerate(self._bare, start=1) if re.search(r"\bverify_checksum\w*\s*\(", code)), 0
        )
        if not line:
            return "; nothing verifies a checksum"
        asked = re.search(r"\(\s*(?:hdr\.)?(\w+)\.isValid\(\)", self._statement(line))
        if asked is None:
            return ""
        valid = self._valid(asked[1], self._steps)
        return "" if valid else f"; {self._at(line)} verifies nothing, since {asked[1]} is not valid"

    def _table(self, step: TrailStep) -> str:
        keys = ", ".join(f"{name} {_number(value)}" for name, value in step.reads)
        matches = "has an entry for" if step.after else "has no entry for"
        return f"table {_short(step.name)} {matches} {keys} and runs {step.text}" if keys else f"it runs {step.text}"

    def _kept(self, pattern: str, what: str, *, quiet: bool = False) -> Iterator[str]:
        """Yields lines that fit a pattern and did not run, with what kept them; ``quiet``: none is no problem."""
        ran = {step.line for step in self._steps if step.kind != "if"}
        lines = [n for n, line in enumerate(self._bare, start=1) if re.search(pattern, line)]
        lines = [line for line in lines if line not in self._checksums]
        if not lines and not quiet:
            yield f"no line of the program would {what}"
        reasons = {self._why_not(line): line for line in reversed(lines) if line not in ran}
        for line in sorted(reasons.values())[:_KEPT]:
            why = self._why_not(line).removeprefix(f"{self._at(line)} is ")
            yield f"{self._at(line)} would {what}, and does not run" + (f": {why}" if why else "")

    def _why_not(self, line: int) -> str:
        for within in self._within.get(line, ()):
            if within.action:
                tables = [step for step in self._steps if step.kind == "table"]
                if not any(step.text == within.action for step in tables):
                    others = [step for step in tables if step.name.rpartition(".")[2] in self._tables_of(within.action)]
                    return self._table(others[-1]) if others else f"nothing runs {within.action}"
            elif (decided := self._decided(within.line)) is None and line in self._within and self._in_action(line):
                return self._condition(self._skipped(within, ""), not within.branch)
            elif decided is not None and bool(decided.after) != within.branch:
                return self._condition(decided, bool(decided.after))
        return self._ended(line)

    def _in_action(self, line: int) -> bool:
        """Returns whether a line is in an action that ran."""
        actions = {within.action for within in self._within[line] if within.action}
        return any(within.action in actions for step in self._steps for within in self._within.get(step.line, ()))

    @cached_property
    def _checksums(self) -> set[int]:
        """Returns the lines of statements that verify or update checksums."""
        lines = set[int]()
        for first, code in enumerate(self._bare, start=1):
            if re.search(r"\b(?:verify|update)_checksum\w*\s*\(", code):
                depth = 0
                for line in range(first, len(self._bare) + 1):
                    lines.add(line)
                    depth += self._bare[line - 1].count("(") - self._bare[line - 1].count(")")
                    if depth <= 0:
                        break
        return lines

    def _ended(self, line: int) -> str:
        """Returns the ``return`` or ``exit`` before a line that ended its control; empty if there is none."""
        for number, code in enumerate(self._bare[: line - 1], start=1):
            blocks = self._within.get(number, ())
            if re.search(r"\b(?:return|exit)\s*;", code) and all(
                (decided := self._decided(within.line)) is not None and bool(decided.after) == within.branch
                for within in blocks
            ):
                return f"{self._at(number)} ends the control before it"
        return ""

    def _tables_of(self, action: str) -> set[str]:
        text = self._code
        return {name for name, body in re.findall(r"\btable\s+(\w+)\s*\{(.*?)\n\s{0,4}\}", text, re.S)
                if re.search(rf"\b{re.escape(action)}\b", body)}  # fmt: skip

    # --- the text

    def _at(self, line: int) -> str:
        self.lines.setdefault(line)
        lines = self.text.splitlines()
        code = " ".join(self._statement(line).split()) if 0 < line <= len(lines) else ""
        return f"line {line}, '{code if len(code) <= _SHOWN else code[: _SHOWN - 1] + '…'}'"

    def _statement(self, line: int) -> str:
        """Returns a line with the rest of its statement, or of its condition."""
        code = self._bare[line - 1]
        while code.count("(") > code.count(")") and line < len(self._bare):
            code += " " + self._bare[line]
            line += 1
        return code

    def _local(self, name: str) -> str:
        """Returns a variable's name in the program, without the number of its copy."""
        plain = re.sub(r"_\d+$", "", name)
        return name if re.search(rf"\b{re.escape(name)}\b", self._code) else plain

    @property
    def _code(self) -> str:
        return "\n".join(self._bare)

    @cached_property
    def _bare(self) -> list[str]:
        hidden = re.sub(r"//[^\n]*|/\*.*?\*/", lambda at: re.sub(r"[^\n]", " ", at[0]), self.text, flags=re.S)
        return hidden.splitlines()

    @cached_property
    def _left(self) -> set[int]:
        """Returns the lines that are the skeleton's."""
        return lines_left(self._bare, without_comments(self.given).splitlines()) if self.given else set()

    @cached_property
    def _constants(self) -> dict[str, str]:
        """Returns the constants of the program, as they are written, without the width of numbers."""
        declared = re.findall(r"\bconst\s+bit<\d+>\s+(\w+)\s*=\s*([^;]+);", self._code)
        return {name: re.sub(r"\b\d+w(?=\d)", "", " ".join(value.split())) for name, value in declared}

    @cached_property
    def _parsed(self) -> tuple[dict[int, tuple[_Within, ...]], dict[int, int]]:
        try:
            return _blocks(self.text)
        except (IndexError, RecursionError):
            return {}, {}

    @property
    def _within(self) -> dict[int, tuple[_Within, ...]]:
        return self._parsed[0]

    @property
    def _conditions(self) -> dict[int, int]:
        return self._parsed[1]


def sentences(parts: Iterable[str], most: int = _PARTS) -> str:
    """Returns the first parts that are not empty, each once, as sentences; no more than these are asked for."""
    seen = dict[str, None]()
    for part in parts:
        seen |= {part: None} if part else {}
        if len(seen) == most:
            break
    return ". ".join(f"{part[:1].upper()}{part[1:]}" if part.startswith(_PLAIN) else part for part in seen)


def _in_code(name: str) -> str:
    """Returns a pattern of a name as it stands in the program."""
    first, _, rest = name.partition(".")
    return rf"(?:hdr\.)?{re.escape(name)}" if first not in ("std", "meta") else rf"\w+\.{re.escape(rest)}"


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _number(value: int) -> str:
    return f"{value:#x}" if value.bit_length() > 16 else str(value)


def _blocks(text: str) -> tuple[dict[int, tuple[_Within, ...]], dict[int, int]]:
    """Returns the blocks that enclose each line, outer ones first, and the last line of each condition by its first."""
    listed = tokens_of(text)
    within: dict[int, tuple[_Within, ...]] = {}
    conditions: dict[int, int] = {}

    def noted(line: int, blocks: tuple[_Within, ...]) -> None:
        if len(blocks) >= len(within.get(line, ())):
            within[line] = blocks

    def statement(at: int, blocks: tuple[_Within, ...]) -> int:
        _, word, line = listed[at]
        noted(line, blocks)
        if word == "{":
            at += 1
            while listed[at][1] != "}":
                at = statement(at, blocks)
            return at + 1
        if word == "if":
            at = closed(at + 1)
            conditions[line] = listed[at - 1][2]
            at = statement(at, (*blocks, _Within(line, True)))
            if at < len(listed) and listed[at][1] == "else":
                at = statement(at + 1, (*blocks, _Within(line, False)))
            return at
        if word == "action":
            blocks = (*blocks, _Within(line, True, listed[at + 1][1]))
        depth = 0
        while at < len(listed):
            _, word, line = listed[at]
            noted(line, blocks)
            depth += (word in "([") - (word in ")]")
            if word == "{" and depth == 0:
                return statement(at, blocks)
            at += 1
            if word == ";" and depth == 0:
                break
        return at

    def closed(at: int) -> int:
        depth = 0
        while True:
            depth += {"(": 1, ")": -1}.get(listed[at][1], 0)
            at += 1
            if depth == 0:
                return at

    at = 0
    while at < len(listed):
        at = statement(at, ())
    return within, conditions
