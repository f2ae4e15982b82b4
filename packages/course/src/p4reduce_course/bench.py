"""A bench for labs in P4: runs a student's program on frames and compares frames and digests with a reference.

A lab gives what its README describes: headers, a `Reference`, scenarios for each check, and mistakes. The bench plays
the scenarios on the student's program and on the reference, finds the shortest frames that show a difference, and
names the cause: the mistake with which the reference behaves as the student's program does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from p4reduce_course.culprit import FEW, MOST, TRACED, culprit, hints_of, p4_edits, passes, suspects, unlike, unused
from p4reduce_course.frame.grading import skeleton_of
from p4reduce_course.frame.lab import Draws, GradingTask, Lab, LabPart, LabStep, run_steps
from p4reduce_course.frame.likeness import without_comments
from p4reduce_course.frame.report import LOOK, Check, Files, Wrong
from p4reduce_course.p4 import compiled, minimal
from p4reduce_course.sandbox.program import FrameAnswer, StudentProgram
from p4reduce_course.trail import Departure, Trail

Fields = Mapping[str, int | str]
"""a frame's fields as people read them: ``{"ipv4.ttl": 63, "payload": "00ff"}``"""
Numbers = Mapping[str, int]
"""numbers of a student; ``{{name}}`` in README and skeleton, in hexadecimal if the name ends in ``_type``"""
Row = Mapping[str, Any]
"""an entry as in a file of ``p4reduce trace``: table, match, action, params"""


class Header:
    """The fields of a header, in the order of the wire."""

    def __init__(self, name: str, **bits: int) -> None:
        """Makes a header from a name and the bits of each field, in total a multiple of 8."""
        self.name = name
        self.bits = bits
        self.bytes = sum(bits.values()) // 8

    def pack(self, **values: int) -> bytes:
        """Returns the header's bytes; unnamed fields are 0. Raises KeyError for an unknown field."""
        if strange := values.keys() - self.bits.keys():
            raise KeyError(f"{self.name} has no field {', '.join(sorted(strange))}")
        number = 0
        for name, width in self.bits.items():
            number = number << width | values.get(name, 0) & (1 << width) - 1
        return number.to_bytes(self.bytes, "big")

    def unpack(self, data: bytes) -> dict[str, int]:
        """Returns the fields at the beginning of some bytes."""
        number, fields = int.from_bytes(data[: self.bytes], "big"), {}
        for name, width in reversed(self.bits.items()):
            fields[name] = number & (1 << width) - 1
            number >>= width
        return dict(reversed(fields.items()))


ETHERNET: Final = Header("ethernet", dst=48, src=48, type=16)
IPV4: Final = Header(
    "ipv4",
    version=4,
    ihl=4,
    tos=8,
    length=16,
    id=16,
    flags=3,
    offset=13,
    ttl=8,
    protocol=8,
    checksum=16,
    src=32,
    dst=32,
)


def mac(value: int) -> str:
    """Returns a MAC address in the notation of entries files."""
    return ":".join(f"{byte:02x}" for byte in value.to_bytes(6, "big"))


def ip(value: int) -> str:
    """Returns an IPv4 address in the notation of entries files."""
    return ".".join(str(byte) for byte in value.to_bytes(4, "big"))


def fields_of(data: bytes, *headers: Header) -> dict[str, int | str]:
    """Returns the fields of a frame that begins with these headers; a header that is cut short is payload."""
    fields: dict[str, int | str] = {}
    for header in headers:
        if len(data) < header.bytes:
            break
        fields |= {f"{header.name}.{name}": value for name, value in header.unpack(data).items()}
        data = data[header.bytes :]
    return {**fields, "payload": data.hex()}


@dataclass(frozen=True)
class Frame:
    """A frame that enters the switch.

    Attributes:
        what: its name in sentences: "a RESULT for 10.0.1.2".
        kind: checks choose by it the frames that they look at.
        at_us: time of arrival, microseconds.
    """

    port: int
    data: bytes
    what: str
    kind: str = ""
    at_us: int = 0


@dataclass(frozen=True)
class Out:
    """The result of one frame: (port, frame) of all that left, in the order of ports, and digests."""

    sent: tuple[tuple[int, bytes], ...] = ()
    digests: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, answer: FrameAnswer) -> Out:
        """Returns the result in a switch's answer, without the parts that only traces show."""
        return cls(tuple(sorted(answer.sent)), answer.digests)


@dataclass(frozen=True)
class Setup:
    """Entries, and multicast groups (ports by number), that a controller has installed."""

    rows: tuple[Row, ...] = ()
    groups: Mapping[int, Sequence[int]] = field(default_factory=dict)

    def learned(self, rows: Iterable[Row]) -> Setup:
        """Returns the setup with further entries, which replace those with the same match."""
        by_match = {(row["table"], repr(row.get("match"))): row for row in (*self.rows, *rows)}
        return replace(self, rows=tuple(by_match.values()))

    def text(self) -> str:
        """Returns the setup as a file for ``p4reduce trace --entries``."""

        def items(name: str, rows: Iterable[object]) -> list[str]:
            flow = [yaml.safe_dump(row, default_flow_style=True, sort_keys=False, width=1 << 20) for row in rows]
            return [f"{name}:", *(f"  - {line.strip()}" for line in flow)] if flow else []

        groups = [
            {"group": number, "replicas": [{"port": port} for port in ports]} for number, ports in self.groups.items()
        ]
        lines = items("tables", map(dict, self.rows)) + items("multicast", groups)
        return "\n".join(lines or ["tables: []"]) + "\n"


@dataclass(frozen=True)
class Scenario:
    """Frames for a switch with a setup."""

    setup: Setup
    frames: tuple[Frame, ...]


class Reference(Protocol):
    """The behaviour that the README describes, in Python, without a line of P4.

    It is made from the student's numbers and a setup; each named argument switches a mistake on.
    """

    def frame(self, frame: Frame) -> Out:
        """Returns the result of the next frame."""


class Learner(Reference, Protocol):
    """A reference whose controller answers digests."""

    def learned(self, digest: tuple[int, ...]) -> Sequence[Row]:
        """Returns the entries that the controller installs for a digest; also called for the student's digests."""


@dataclass(frozen=True)
class Property:
    """A check: a property that some frames must have.

    Attributes:
        scenarios: makes them from the student's numbers and secret draws; checks may share one function.
        kinds: kinds of the frames that are looked at; none: all.
        about: ``ports``, ``frames``, ``digests``, or names of fields and headers; only these are compared.
    """

    part: str
    title: str
    scenarios: Callable[[Numbers, Draws], Sequence[Scenario]]
    kinds: Sequence[str] = ()
    about: Sequence[str] = ("ports", "frames", "digests")


@dataclass(frozen=True)
class Mistake:
    """A cause: with the arguments ``wrong`` the reference behaves as a program with this mistake does.

    Attributes:
        lacks: what a program with this mistake does not have in its text, as a pattern; empty: nothing is known.
    """

    says: str
    wrong: Mapping[str, Any]
    lacks: str = ""

    def fits(self, text: str) -> bool:
        """Returns whether a program may have this mistake, as far as its text tells."""
        return not self.lacks or re.search(self.lacks, without_comments(text)) is None


@dataclass(frozen=True)
class Bench:
    """The program of a lab, and the checks that it must pass.

    Attributes:
        file: name of the file that students hand in.
        reference: makes a `Reference` from numbers, a setup, and switches of mistakes.
        read: returns the fields of a frame.
        properties: the checks, in the order in which a student would repair them.
        mistakes: the known mistakes, the likeliest first.
        example: makes the files ``entries.yaml`` and ``packets.txt`` of a lab's copy.
        numbers: returns the numbers of a student.
        smaller: yields simpler frames that may show the same mistake.
        fewer: tables whose entries may be left out when frames are shortened.
        named: returns a field's name in the program from its name in ``read``.
    """

    file: str
    reference: Callable[..., Any]
    read: Callable[[bytes], Fields]
    properties: Sequence[Property]
    mistakes: Sequence[Mistake]
    example: Callable[[Numbers], Scenario]
    numbers: Callable[[Draws], Numbers] = lambda _: {}
    smaller: Callable[[Frame], Iterable[Frame]] = lambda _: ()
    fewer: Sequence[str] = ()
    named: Callable[[str], str] = str

    def lab(
        self,
        number: str,
        name: str,
        title: str,
        minutes: int,
        parts: Sequence[LabPart],
        praise: str,
        home: Path | None = None,
    ) -> Lab:
        """Returns the lab, for ``LAB`` of a module; ``home``: its folder, if that is not in this package."""

        def parameters(draws: Draws) -> Mapping[str, str]:
            numbers = self.numbers(draws)
            return {key: f"{value:#06x}" if key.endswith("_type") else str(value) for key, value in numbers.items()}

        def made(draws: Draws) -> Mapping[str, str]:
            scenario = self.example(self.numbers(draws))
            return {"entries.yaml": scenario.setup.text(), "packets.txt": packets_text(scenario.frames)}

        def grade(task: GradingTask) -> Iterator[Check]:
            with StudentProgram(task.answers / self.file, seen=task.seen) as program:
                yield from run_steps(task, _Grader(self, task, program, number, parts[0].name).steps())

        return Lab(number, name, title, minutes, tuple(parts), (self.file,), grade, praise, parameters, made, home=home)


def packets_text(frames: Sequence[Frame]) -> str:
    """Returns frames as a file for ``p4reduce trace --packet``."""
    lines = [f"{frame.port}@{frame.at_us} {frame.data.hex()} # {frame.what}" for frame in frames]
    return "\n".join(["# Port and microsecond, frame, remark.", *lines]) + "\n"


# Differences as texts.


_MOST_FIELDS: Final = 3
_SHOWN: Final = 4
"""most frames that a sentence names"""
_LONG: Final = 40
"""most characters of a field"""


def difference(wanted: Out, got: Out, about: Sequence[str], read: Callable[[bytes], Fields]) -> str:
    """Returns the difference between two results as the end of a sentence; empty if ``about`` has none."""
    return _different(wanted, got, about, read)[0]


_SAME: Final = Departure("sent")


def _different(wanted: Out, got: Out, about: Sequence[str], read: Callable[[bytes], Fields]) -> tuple[str, Departure]:
    """Returns the difference as the end of a sentence, and what is wrong; an empty text if nothing is."""
    ports, expected = [port for port, _ in got.sent], [port for port, _ in wanted.sent]
    if ports != expected if "ports" in about else len(ports) != len(expected) and about != ("digests",):
        went = f"left by {_named(ports)}" if ports else "was dropped"
        wrong = Departure("sent", drop=not expected) if ports else Departure("dropped")
        return f"{went}, and must {f'leave by {_named(expected)}' if expected else 'be dropped'}", wrong
    named = [name for name in about if name not in ("ports", "frames", "digests")]
    for (port, data), (_, right) in zip(got.sent, wanted.sent, strict=False):
        if data != right and (named or "frames" in about):
            actual, needed = read(data), read(right)
            every = [name for name in {**needed, **actual} if actual.get(name) != needed.get(name)]
            asked_ = [name for name in every if not named or any(_within(name, field_name) for field_name in named)]
            if asked_:  # what follows from other fields, as a checksum does, is told last
                differs = sorted(dict.fromkeys((*asked_, *every)), key=lambda name: name.endswith("checksum"))
                told = [f"{name} is {_value(actual, name)}, expected {_value(needed, name)}" for name in differs]
                return f"left by port {port}: {'; '.join(told[:_MOST_FIELDS])}", Departure("field", differs[0])
    if "digests" in about and got.digests != wanted.digests:
        told_, due = (", ".join(map(str, out.digests)) or "nothing" for out in (got, wanted))
        return f"told the controller {told_}, expected {due}", _told(wanted.digests, got.digests)
    return "", _SAME


def _told(wanted: Sequence[tuple[int, ...]], got: Sequence[tuple[int, ...]]) -> Departure:
    if len(got) != len(wanted):
        return Departure("told" if len(got) > len(wanted) else "silent")
    values = [pair for digests in zip(got, wanted, strict=True) for pair in enumerate(zip(*digests, strict=False))]
    return Departure("digest", element=next((place for place, (told, due) in values if told != due), 0))


def _within(name: str, asked: str) -> bool:
    return name == asked or name.startswith(f"{asked}.")


def _value(fields: Fields, name: str) -> str:
    value = fields.get(name, "not there")
    return f"{value:#x}" if isinstance(value, int) and value.bit_length() > 16 else str(value)[:_LONG] or "empty"


def _listed(frames: Sequence[str]) -> str:
    shown = [*frames[:1], f"{len(frames) - 2} more"] if len(frames) > _SHOWN else list(frames[:-1])
    return ", ".join(shown) + (" and " if shown else "") + frames[-1]


def _named(ports: Sequence[int]) -> str:
    return f"port{'s' if len(ports) > 1 else ''} {', '.join(map(str, ports))}"


# Playing scenarios, judging the results, and shortening scenarios.


_ALL: Final = ("ports", "frames", "digests")
_MOST_FRAMES: Final = 1200
"""most frames that are sent in search of fewer"""
_HALF: Final = 0.5
"""least share of failures that a mistake explains, to be named"""
_BEFORE: Final = 0.3
"""suspicion of a line that only frames before the failing one have run"""


@dataclass(frozen=True)
class _Played:
    """A scenario with the results of the student's program and of the reference."""

    scenario: Scenario
    got: tuple[Out, ...]
    wanted: tuple[Out, ...]
    lines: tuple[Sequence[int], ...]
    """for each frame, the lines of the program that it ran"""


_Scenarios = Callable[[Numbers, Draws], Sequence[Scenario]]
"""a function that makes the scenarios of checks"""


class _Grader:
    def __init__(self, bench: Bench, task: GradingTask, program: StudentProgram, number: str, first: str) -> None:
        self.bench = bench
        self.number = number
        self.task = task
        self.program = program
        self.first = first
        self.path = task.answers / bench.file
        self.numbers = bench.numbers(task.personal)
        self._played: dict[_Scenarios, list[_Played]] = {}
        self._made: dict[_Scenarios, Sequence[Scenario]] = {}
        self._texts: dict[tuple[int, frozenset[str]], tuple[Setup, str]] = {}
        self._told: dict[str, Wrong] = {}
        self._only_asked = not task.explain
        self.tables: set[str] = set()
        self.lines: Sequence[int] = ()

    def anew(self, program: StudentProgram) -> _Grader:
        """Returns a grader of another program of the student's; its failures have no explanation."""
        grader = _Grader(self.bench, self.task, program, self.number, self.first)
        grader.tables, grader._only_asked = self.tables, True
        grader._made, grader._texts = self._made, self._texts
        return grader

    def steps(self) -> list[LabStep]:
        def checked(property_: Property) -> Callable[[], None]:
            return lambda: self._check(property_)

        steps = [LabStep(property_.part, property_.title, checked(property_)) for property_ in self.bench.properties]
        return [LabStep(self.first, "the program compiles", self._compile, gate=True), *steps]

    def _compile(self) -> None:
        parts = compiled(self.task, self.bench.file, self.program)
        self.tables, self.lines = {name.rpartition(".")[2] for name in parts.tables}, parts.lines
        for scenarios in dict.fromkeys(property_.scenarios for property_ in self.bench.properties):
            setup = self._scenarios(scenarios)[0].setup
            if problem := self.program.begin(self._entries(setup), [], until_digest=False).problem:
                raise self._refused(problem)

    def _refused(self, problem: str) -> Wrong:
        """Returns the finding about a program that cannot take the controller's entries."""
        reason = f"the program does not take the controller's entries: {problem.splitlines()[0]}"
        return Wrong(
            f"{reason}. Keep the tables, keys and actions that README and skeleton name", str(self.path),
            f"p4reduce p4 check {self.path}",
        )  # fmt: skip

    def _taken(self, setup: Setup) -> Setup:
        """Returns the setup without entries of tables that the program does not apply."""
        return replace(setup, rows=tuple(row for row in setup.rows if row["table"] in self.tables))

    def _entries(self, setup: Setup) -> str:
        """Returns the text of the entries that the program takes; the same setup has the same text."""
        key = id(setup), frozenset(self.tables)
        if key not in self._texts:
            self._texts[key] = setup, self._taken(setup).text()
        return self._texts[key][1]

    def _play(self, scenario: Scenario) -> _Played:
        reference = self._reference(scenario)
        frames = [(frame.port, frame.data, frame.at_us) for frame in scenario.frames]
        learns = hasattr(reference, "learned")
        played = self.program.begin(self._entries(scenario.setup), frames, until_digest=learns)
        if played.problem:
            raise self._refused(played.problem)
        answers = list(played.answers)
        while played.answers and len(answers) < len(frames):
            rows = [row for digest in answers[-1].digests for row in _answered(reference, digest)]
            entries = self._taken(Setup().learned(rows)).text()
            played = self.program.go_on(played.switch, entries, frames[len(answers) :])
            answers += played.answers
        if len(answers) != len(frames):
            raise Wrong(f"{self.path.name}: a frame has no answer", str(self.path))
        got, lines = tuple(map(Out.of, answers)), tuple(answer.lines for answer in answers)
        return _Played(scenario, got, self._outs(scenario, {}), lines)

    def _reference(self, scenario: Scenario, wrong: Mapping[str, Any] | None = None) -> Any:
        return self.bench.reference(self.numbers, scenario.setup, **(wrong or {}))

    def _outs(self, scenario: Scenario, wrong: Mapping[str, Any]) -> tuple[Out, ...]:
        """Returns the results of the reference, whose controller answers its own digests."""
        reference, outs = self._reference(scenario, wrong), []
        for frame in scenario.frames:
            out: Out = reference.frame(frame)
            outs.append(replace(out, sent=tuple(sorted(out.sent))))
            for digest in out.digests:
                reference.learned(digest)
        return tuple(outs)

    def _scenarios(self, scenarios: _Scenarios) -> Sequence[Scenario]:
        if scenarios not in self._made:
            self._made[scenarios] = scenarios(self.numbers, self.task.hidden)
        return self._made[scenarios]

    def _all(self, scenarios: _Scenarios) -> Iterator[_Played]:
        """Yields the scenarios of a check, each of which is played once."""
        known = self._played.setdefault(scenarios, [])
        for place, scenario in enumerate(self._scenarios(scenarios)):
            if place == len(known):
                known.append(self._play(scenario))
            yield known[place]

    def _differs(self, property_: Property, frame: Frame, wanted: Out, got: Out) -> str:
        if property_.kinds and frame.kind not in property_.kinds:
            return ""
        return difference(wanted, got, tuple(property_.about), self.bench.read)

    def _check(self, property_: Property) -> None:
        for played in self._all(property_.scenarios):
            judged = zip(played.scenario.frames, played.wanted, played.got, strict=True)
            for place, (frame, wanted, got) in enumerate(judged):
                if self._differs(property_, frame, wanted, got):
                    raise self._shortest(property_, played, place)

    def _shortest(self, property_: Property, played: _Played, place: int) -> Wrong:
        """Returns the explanation of a failed frame, with the shortest frames that show it."""
        if self._only_asked:
            raise Wrong("it fails")

        def fails(candidate: Scenario) -> bool:
            tried = self._play(candidate)
            return bool(self._differs(property_, candidate.frames[-1], tried.wanted[-1], tried.got[-1]))

        begin = replace(played.scenario, frames=played.scenario.frames[: place + 1])
        small = self._play(shrunk(begin, fails, self.bench.smaller, self.bench.fewer))
        problem, first, wrong = self._first(property_, small)
        lacks = sorted({row["table"] for row in begin.setup.rows} - self.tables)
        missing = f"the program does not apply table {', '.join(lacks)}" if lacks else ""
        wrong = replace(wrong, name=self.bench.named(wrong.name))
        trail = None if missing else self._trail(first)
        steps, undone = ("", "") if trail is None else (trail.where(wrong), trail.undone(wrong))
        text = self.path.read_text("utf-8")
        causes = [unused(text), undone or self._same(played) or missing]
        where = ""
        if trail is not None and not self._told and not trail.endless:  # else each change would be tried at length
            where = self._culprit(property_, played, small, FEW if causes[1] else MOST, trail)
        earlier = first if len(first.got) < len(small.got) else None
        if not causes[1]:
            causes.append(self._like(property_, earlier) or ("" if where else asked(self.number, property_)))
        if not where:
            causes += [unlike(text, skeleton_of(self.task, self.bench.file)), f"{TRACED}{steps}" if steps else ""]
        causes.insert(1, where)  # what mends all of it comes before what it is like
        problem += "".join(f". {cause[:1].upper()}{cause[1:]}" for cause in causes if cause)
        if problem not in self._told:
            name = f"{property_.part}-{len(self._told) + 1}"
            self._told[problem] = Wrong(problem, str(self.path), *self._look(name, first))
        return self._told[problem]

    def _first(self, property_: Property, small: _Played) -> tuple[str, _Played, Departure]:
        """Returns what is wrong as a sentence, the frames up to the first that is wrong in any way, and what it is."""
        told = list(zip(small.scenario.frames, small.wanted, small.got, strict=True))
        last = self._differs(property_, *told[-1])
        differs = [_different(wanted, got, _ALL, self.bench.read) for _, wanted, got in told[:-1]]
        place = next((place for place, (text, _) in enumerate(differs) if text), len(told) - 1)
        names = [frame.what for frame in small.scenario.frames]
        if place < len(told) - 1:
            text, wrong = differs[place]
            later = f". It shows when {names[-1]} comes, which {last}"
            small = _Played(
                replace(small.scenario, frames=small.scenario.frames[: place + 1]),
                small.got[: place + 1], small.wanted[: place + 1], small.lines[: place + 1],
            )  # fmt: skip
        else:
            text, later = last, ""
            wrong = _different(*told[-1][1:], tuple(property_.about), self.bench.read)[1]
        problem = f"{names[place]} {text}"
        return (f"After {_listed(names[:place])}, {problem}" if place else problem) + later, small, wrong

    def _trail(self, played: _Played) -> Trail:
        """Returns the steps of the frames of a scenario in the student's program."""
        switch, reference = self.program.switch(), self._reference(played.scenario)
        steps = []
        try:
            self.program.load(switch, self._entries(played.scenario.setup))
            for frame, out in zip(played.scenario.frames, played.got, strict=True):
                steps += self.program.trails(switch, [(frame.port, frame.data, frame.at_us)])
                for digest in out.digests if hasattr(reference, "learned") else ():
                    self.program.load(switch, self._taken(Setup(_answered(reference, digest))).text())
        finally:
            self.program.forget(switch)
        return Trail(
            self.path.read_text("utf-8"),
            steps,
            [frame.what for frame in played.scenario.frames],
            skeleton_of(self.task, self.bench.file),
        )

    def _every(self) -> list[_Played]:
        """Returns the scenarios of all checks; those in which the program cannot be run are left out."""
        every: list[_Played] = []
        for scenarios in dict.fromkeys(property_.scenarios for property_ in self.bench.properties):
            try:
                every += self._all(scenarios)
            except Wrong:
                continue
        return every

    @cached_property
    def _mistakes(self) -> list[Mistake]:
        """The known mistakes that the program may have."""
        text = self.path.read_text("utf-8")
        return [mistake for mistake in self.bench.mistakes if mistake.fits(text)]

    def _same(self, played: _Played) -> str:
        """Returns the mistake with which the reference gives the same results for all frames, or an empty text.

        All frames are those of all checks: a few frames may come out as with a mistake that the program does not have.
        """
        for mistake in self._mistakes:
            if self._outs(played.scenario, mistake.wrong) == played.got and all(
                self._outs(other.scenario, mistake.wrong) == other.got for other in self._every()
            ):
                return mistake.says
        return ""

    def _like(self, property_: Property, earlier: _Played | None) -> str:
        """Returns the mistake that explains most of what the check finds wrong, if it explains half; or an empty text.

        ``earlier``: frames before those that the check looks at, the last of which is wrong, too: as with the mistake.

        The measure is Jaccard's: frames that fail as with the mistake, of those that fail in either way. A mistake is
        not named if a frame of any check comes out right that would not with it.
        """
        every, own = self._every(), self._scenarios(property_.scenarios)
        best, likeliest = _HALF, ""
        for mistake in self._mistakes:
            if earlier is not None and self._outs(earlier.scenario, mistake.wrong)[-1] != earlier.got[-1]:
                continue
            either = alike = 0
            denied = False
            for played in every:
                outs, checked = self._outs(played.scenario, mistake.wrong), played.scenario in own
                for frame, due, got, out in zip(played.scenario.frames, played.wanted, played.got, outs, strict=True):
                    denied |= got == due != out
                    if not checked:
                        continue
                    failed, other = self._differs(property_, frame, due, got), self._differs(property_, frame, due, out)
                    either += bool(failed or other)
                    alike += bool(failed and other and not self._differs(property_, frame, out, got))
            if not denied and alike > best * either:
                best, likeliest = alike / either, mistake.says
        return likeliest

    def _culprit(self, property_: Property, played: _Played, small: _Played, most: int, trail: Trail) -> str:
        """Returns the place in the program where one of the first changes makes all checks pass; empty if none does."""
        judged = zip(played.scenario.frames, played.wanted, played.got, played.lines, strict=True)
        suspicious = suspects(
            [(ran, bool(self._differs(property_, frame, due, got))) for frame, due, got, ran in judged]
        )
        for line in {line for lines in small.lines for line in lines}:  # an earlier frame may have left a wrong state
            suspicious[line] = max(_BEFORE, suspicious.get(line, 0.0))
        text, given = self.path.read_text("utf-8"), skeleton_of(self.task, self.bench.file)
        wrong = self._differs(property_, small.scenario.frames[-1], small.wanted[-1], small.got[-1])
        hints = hints_of(self.task, wrong)
        hints = replace(hints, fields=hints.fields | trail.wrong, led=list(trail.lines))
        with StudentProgram(self.path) as program:

            def mends(text: str) -> bool:
                if program.compile(text).parts is None:
                    return False
                grader = self.anew(program)
                try:
                    tried = grader._play(small.scenario)
                except Wrong:
                    return False
                frames = zip(small.scenario.frames, tried.wanted, tried.got, strict=True)
                return not any(self._differs(property_, *told) for told in frames) and passes(grader.steps()[1:])

            try:
                return culprit(self.path, islice(p4_edits(text, given, suspicious, self.lines, hints), most), mends)
            except Wrong:  # the process has reached a limit
                return ""

    def _look(self, name: str, played: _Played) -> tuple[str, Files]:
        """Returns the command that shows the last frame, and its files; entries that were learned are included."""
        scenario = played.scenario
        setup, reference = scenario.setup, self._reference(scenario)
        for out in played.got[:-1]:
            for digest in out.digests:
                setup = setup.learned(_answered(reference, digest))
        where = self.task.folder / LOOK / name
        look = f"p4reduce trace {self.path} --entries {where}.yaml --packet {where}.txt"
        files = ((f"{name}.yaml", self._taken(setup).text()), (f"{name}.txt", packets_text(scenario.frames)))
        return f"{look} --only {len(scenario.frames)} --brief", files


def _answered(reference: Any, digest: tuple[int, ...]) -> tuple[Row, ...]:
    """Returns the controller's entries for a student's digest; none if the digest makes no sense."""
    try:
        return tuple(reference.learned(digest))
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return ()


_MOST_QUOTED: Final = 3


@cache
def _requirements() -> dict[str, Any]:
    path = Path(__file__).with_name("labs") / "requirements.yaml"
    requirements: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return requirements


def asked(number: str, property_: Property) -> str:
    """Returns what the README asks for, for a failure without a known cause; empty without ``requirements.yaml``."""
    demands = _requirements().get(number, {"asks": {}})["asks"].values()
    for name in (f"{property_.part}: {property_.title}", property_.part):
        if quoted := [" ".join(each["says"].split()) for each in demands if name in each["checks"]]:
            return "README: " + "; ".join(f'"{text.rstrip(".")}"' for text in quoted[:_MOST_QUOTED])
    return ""


def shrunk(
    scenario: Scenario,
    fails: Callable[[Scenario], bool],
    smaller: Callable[[Frame], Iterable[Frame]],
    fewer: Sequence[str],
) -> Scenario:
    """Returns fewer, simpler frames and fewer entries whose last frame still fails; sends about 1,200 frames.

    Args:
        scenario: a scenario whose last frame fails.
        fails: returns whether the last frame of a scenario fails.
        smaller: yields simpler forms of a frame, the simplest first.
        fewer: tables whose entries may be left out.
    """
    best, sent = scenario, 0

    def better(candidate: Scenario) -> bool:
        nonlocal best, sent
        sent += len(candidate.frames) + 2
        if sent > _MOST_FRAMES or candidate == best or not fails(candidate):
            return False
        best = candidate
        return True

    better(replace(best, frames=best.frames[-1:]))
    minimal(best.frames[:-1], lambda kept: better(replace(best, frames=(*kept, best.frames[-1]))))
    needed = tuple(row for row in best.setup.rows if row["table"] not in fewer)
    rows = [row for row in best.setup.rows if row["table"] in fewer]
    minimal(rows, lambda kept: better(replace(best, setup=replace(best.setup, rows=(*needed, *kept)))))
    for place in range(len(best.frames)):
        for other in smaller(best.frames[place]):
            if better(replace(best, frames=(*best.frames[:place], other, *best.frames[place + 1 :]))):
                break
    return best
