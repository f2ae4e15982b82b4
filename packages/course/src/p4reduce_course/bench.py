"""A bench for labs in P4: runs a student's program on frames and compares frames and digests with a reference.

A lab gives what its README describes: headers, a `Reference`, scenarios for each check, and mistakes. The bench plays
the scenarios on the student's program and on the reference, finds the shortest frames that show a difference, and
names the cause: the mistake with which the reference behaves as the student's program does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from p4reduce_course.culprit import FEW, MOST, culprit, hints_of, p4_edits, passes, suspects, unused
from p4reduce_course.frame.grading import skeleton_of
from p4reduce_course.frame.lab import Draws, GradingTask, Lab, LabPart, LabStep, run_steps
from p4reduce_course.frame.report import LOOK, Check, Files, Wrong
from p4reduce_course.p4 import compiled, minimal
from p4reduce_course.sandbox.program import FrameAnswer, StudentProgram

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
    """A cause: with the arguments ``wrong`` the reference behaves as a program with this mistake does."""

    says: str
    wrong: Mapping[str, Any]


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
    ports, expected = [port for port, _ in got.sent], [port for port, _ in wanted.sent]
    if ports != expected if "ports" in about else len(ports) != len(expected) and about != ("digests",):
        went = f"left by {_named(ports)}" if ports else "was dropped"
        return f"{went}, and must {f'leave by {_named(expected)}' if expected else 'be dropped'}"
    named = [name for name in about if name not in ("ports", "frames", "digests")]
    for (port, data), (_, right) in zip(got.sent, wanted.sent, strict=False):
        if data != right and (named or "frames" in about):
            actual, needed = read(data), read(right)
            differs = [name for name in {**needed, **actual} if actual.get(name) != needed.get(name)]
            differs = [name for name in differs if not named or any(_within(name, field_name) for field_name in named)]
            if differs:
                told = [f"{name} is {_value(actual, name)}, expected {_value(needed, name)}" for name in differs]
                return f"left by port {port}: {'; '.join(told[:_MOST_FIELDS])}"
    if "digests" in about and got.digests != wanted.digests:
        told_, due = (", ".join(map(str, out.digests)) or "nothing" for out in (got, wanted))
        return f"told the controller {told_}, expected {due}"
    return ""


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


class _Grader:
    def __init__(self, bench: Bench, task: GradingTask, program: StudentProgram, number: str, first: str) -> None:
        self.bench = bench
        self.number = number
        self.task = task
        self.program = program
        self.first = first
        self.path = task.answers / bench.file
        self.numbers = bench.numbers(task.personal)
        self._played: dict[Callable[..., Any], list[_Played]] = {}
        self._told: dict[str, Wrong] = {}
        self._only_asked = False
        self.tables: set[str] = set()
        self.lines: Sequence[int] = ()

    def anew(self, program: StudentProgram) -> _Grader:
        """Returns a grader of another program of the student's; its failures have no explanation."""
        grader = _Grader(self.bench, self.task, program, self.number, self.first)
        grader.tables, grader._only_asked = self.tables, True
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
            setup = scenarios(self.numbers, self.task.hidden)[0].setup
            self._loaded(setup)

    def _loaded(self, setup: Setup) -> int:
        """Returns a switch with the setup's entries. Raises Wrong if the program cannot take them."""
        switch = self.program.switch()
        if problem := self.program.load(switch, self._taken(setup).text()):
            reason = f"the program does not take the controller's entries: {problem.splitlines()[0]}"
            raise Wrong(
                f"{reason}. Keep the tables, keys and actions that README and skeleton name", str(self.path),
                f"p4reduce p4 check {self.path}",
            )  # fmt: skip
        return switch

    def _taken(self, setup: Setup) -> Setup:
        """Returns the setup without entries of tables that the program does not apply."""
        return replace(setup, rows=tuple(row for row in setup.rows if row["table"] in self.tables))

    def _play(self, scenario: Scenario) -> _Played:
        switch = self._loaded(scenario.setup)
        reference = self._reference(scenario)
        try:
            frames = [(frame.port, frame.data, frame.at_us) for frame in scenario.frames]
            if not hasattr(reference, "learned"):
                answers = self.program.play(switch, frames)
            else:
                answers = []
                for frame in frames:
                    answers += self.program.play(switch, [frame])
                    for digest in answers[-1].digests:
                        self.program.load(switch, self._taken(Setup(_answered(reference, digest))).text())
        finally:
            self.program.forget(switch)
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

    def _all(self, scenarios: Callable[[Numbers, Draws], Sequence[Scenario]]) -> list[_Played]:
        if scenarios not in self._played:
            self._played[scenarios] = [self._play(scenario) for scenario in scenarios(self.numbers, self.task.hidden)]
        return self._played[scenarios]

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
        frame, wanted, got = small.scenario.frames[-1], small.wanted[-1], small.got[-1]
        problem = f"{frame.what} {self._differs(property_, frame, wanted, got)}"
        if len(small.scenario.frames) > 1:
            problem = f"After {_listed([earlier.what for earlier in small.scenario.frames[:-1]])}, {problem}"
        lacks = sorted({row["table"] for row in begin.setup.rows} - self.tables)
        missing = f"the program does not apply table {', '.join(lacks)}" if lacks else ""
        causes = [unused(self.path.read_text("utf-8")), self._same(played) or missing]
        where = "" if self._told or missing else self._culprit(property_, played, small, FEW if causes[1] else MOST)
        if not causes[1]:
            causes.append(self._like(property_, played) or ("" if where else asked(self.number, property_)))
        causes.append(where)
        problem += "".join(f". {cause[:1].upper()}{cause[1:]}" for cause in causes if cause)
        if problem not in self._told:
            name = f"{property_.part}-{len(self._told) + 1}"
            self._told[problem] = Wrong(problem, str(self.path), *self._look(name, small))
        return self._told[problem]

    def _same(self, played: _Played) -> str:
        """Returns the mistake with which the reference gives the same results for all frames, or an empty text."""
        outs = ((mistake.says, self._outs(played.scenario, mistake.wrong)) for mistake in self.bench.mistakes)
        return next((says for says, out in outs if out == played.got), "")

    def _like(self, property_: Property, played: _Played) -> str:
        """Returns the mistake that explains most of what the check finds wrong, if it explains half; or an empty text.

        The measure is Jaccard's: frames that fail as with the mistake, of those that fail in either way.
        """
        frames = list(zip(played.scenario.frames, played.wanted, played.got, strict=True))
        failed = {place for place, told in enumerate(frames) if self._differs(property_, *told)}
        best, likeliest = _HALF, ""
        for mistake in self.bench.mistakes:
            outs = self._outs(played.scenario, mistake.wrong)
            pairs = list(zip(frames, outs, strict=True))
            other = {
                place for place, ((frame, due, _), out) in enumerate(pairs) if self._differs(property_, frame, due, out)
            }
            alike = {
                place
                for place in failed & other
                if not self._differs(property_, frames[place][0], outs[place], frames[place][2])
            }
            share = len(alike) / len(failed | other)
            if share > best:
                best, likeliest = share, mistake.says
        return likeliest

    def _culprit(self, property_: Property, played: _Played, small: _Played, most: int) -> str:
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


def asked(number: str, property_: Property) -> str:
    """Returns what the README asks for, for a failure without a known cause; empty without ``requirements.yaml``."""
    path = Path(__file__).with_name("labs") / "requirements.yaml"
    demands = yaml.safe_load(path.read_text("utf-8")).get(number, {"asks": {}})["asks"].values()
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
