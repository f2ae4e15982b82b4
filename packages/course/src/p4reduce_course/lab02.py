"""Lab 02: a header of the student's own, from its fields to its bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from p4reduce_course.culprit import Origin, in_p4, placed
from p4reduce_course.frame.grading import skeleton_of
from p4reduce_course.frame.lab import Draws, GradingTask, Lab, LabPart, LabStep, run_steps
from p4reduce_course.frame.likeness import without_comments
from p4reduce_course.frame.report import Check, Wrong
from p4reduce_course.p4 import P4Bench, compiled, look
from p4reduce_course.sandbox.program import Compiled, FrameAnswer, Parts, StudentProgram
from p4reduce_course.sandbox.trail import TrailStep
from p4reduce_course.trail import Departure, Trail

# The frames of lab 02, made by a reference that knows nothing of P4: numbers packed into bytes.


WIDTHS: Final = {"kind": 4, "flags": 4, "hops": 8, "worker": 16, "seq": 32}
ETHERNET: Final = bytes.fromhex("020000000002020000000001")
HOP_BYTES: Final = 8
VALUE_BYTES: Final = 4


@dataclass(frozen=True)
class Layout:
    """The header of a student.

    Attributes:
        fields: (name, bits) in order.
        other_port, hop_port: ports by which frames without and with a hop must leave.
    """

    ether_type: int
    fields: tuple[tuple[str, int], ...]
    other_port: int
    hop_port: int

    @classmethod
    def of(cls, draws: Draws) -> Layout:
        """Returns the layout that follows from a student's name."""
        pairs = draws.shuffled("pairs", [["kind", "flags"], ["hops"], ["worker"], ["seq"]])
        names = [name for pair in pairs for name in draws.shuffled(f"order {pair[0]}", pair)]
        ports = draws.shuffled("ports", range(2, 9))
        fields = tuple((name, WIDTHS[name]) for name in names)
        return cls(0x8900 + draws.integer("ether_type", 1, 0xF0), fields, ports[0], ports[1])

    def frame(self, hop: Mapping[str, int] | None, total: int | None, payload: bytes, ether_type: int = 0) -> bytes:
        """Returns a frame; ``hop`` None: a frame of another EtherType."""
        data = ETHERNET + (self.ether_type if hop is not None else ether_type).to_bytes(2, "big")
        if hop is not None:
            data += self.packed(hop)
        if total is not None:
            data += total.to_bytes(VALUE_BYTES, "big")
        return data + payload

    def packed(self, hop: Mapping[str, int]) -> bytes:
        """Returns the header's bytes."""
        number = 0
        for name, width in self.fields:
            number = number << width | hop[name]
        return number.to_bytes(HOP_BYTES, "big")

    def unpacked(self, data: bytes) -> dict[str, int]:
        """Returns the header's fields."""
        number, hop = int.from_bytes(data[:HOP_BYTES], "big"), {}
        for name, width in reversed(self.fields):
            hop[name] = number & (1 << width) - 1
            number >>= width
        return hop


@dataclass(frozen=True)
class FrameCase:
    """A frame and the expected result.

    Attributes:
        kind: ``other``, ``value``, ``bare`` or ``cut``.
        expected: (port, frame); None: dropped.
        port: the port by which it comes.
    """

    kind: str
    frame: bytes
    expected: tuple[int, bytes] | None
    hop: Mapping[str, int]
    total: int | None
    port: int = 1


def cases(layout: Layout, draws: Draws) -> list[FrameCase]:
    """Returns 40 frames: the first two with small numbers, two with the maximum of ``hops``.

    Seven have a value, six have none, 22 are of other types (16 of them in one bit, three with few bytes behind it),
    five are cut short: one in Ethernet, two in ``hop``, one in ``value`` and one in front of it.
    """
    random = draws.generator("frames")

    def number(bits: int) -> int:
        return int(random.integers(0, 1 << bits))

    others = iter((layout.ether_type ^ 1 << number(3), layout.ether_type ^ 1 << 8 + number(3), 0x0800))
    cuts = iter((number(3), HOP_BYTES + int(random.integers(1, VALUE_BYTES)), HOP_BYTES, HOP_BYTES - 1))
    drawn: list[FrameCase] = []
    for place in range(20):
        payload = random.bytes(number(5))
        hop = {name: number(width) for name, width in layout.fields}
        kind = ("value", "bare", "other", "value", "bare", "cut", "value")[place % 7] if place < 18 else "value"
        total, port = number(32), number(3) + 1
        if place < 2:
            payload, total, port = b"payload.", 1000, 1
            hop = {"kind": 1, "flags": 4, "hops": 7, "worker": 3, "seq": 100}
        elif place in (13, 17):
            kind = "cut"
        elif place >= 18:
            kind, total = ("bare", "value")[place - 18], 0xFFFFFFFF
            hop |= {"hops": 255, "worker": hop["worker"] | 0x8000}
        if kind == "other":
            data = layout.frame(None, None, random.bytes(20), next(others))
            drawn.append(FrameCase(kind, data, (layout.other_port, data), {}, None, port))
            continue
        hop["flags"] = hop["flags"] & 0b1110 | (kind != "bare")
        grown = {**hop, "hops": hop["hops"] + 1 & 0xFF, "flags": hop["flags"] | 1}
        if kind == "cut":
            data = layout.frame(hop, total, b"")[: len(ETHERNET) + 2 + next(cuts)]
            drawn.append(FrameCase(kind, data, None, hop, total, port))
        elif kind == "value":
            data = layout.frame(hop, total, payload)
            out = layout.frame(grown, total + hop["worker"] & 0xFFFFFFFF, payload)
            drawn.append(FrameCase(kind, data, (layout.hop_port, out), hop, total, port))
        else:
            data, out = layout.frame(hop, None, payload), layout.frame(grown, hop["seq"], payload)
            drawn.append(FrameCase(kind, data, (layout.hop_port, out), hop, None, port))
    for ether_type, size in [
        *((layout.ether_type ^ 1 << bit, 20) for bit in range(16)),
        *((0x0800, n) for n in (9, 5, 0)),
    ]:
        data = layout.frame(None, None, random.bytes(size), ether_type)
        drawn.append(FrameCase("other", data, (layout.other_port, data), {}, None))
    drawn.append(FrameCase("cut", ETHERNET + data[12:13], None, {}, None))
    return drawn[:12] + [_readdressed(case, random.bytes(len(ETHERNET))) for case in drawn[12:]]


def _readdressed(case: FrameCase, addresses: bytes) -> FrameCase:
    """Returns a frame with other Ethernet addresses."""
    due = case.expected and (case.expected[0], addresses + case.expected[1][len(addresses) :])
    return replace(case, frame=addresses + case.frame[len(addresses) :], expected=due)


# What the specification leaves undefined, made visible in changed texts of a program.


_GIVEN_UP: Final = "given_up_"
_REJECTED: Final = "NoMatch"
_STALE: Final = 0x5EED5EED


def rejecting(text: str) -> str:
    """Returns a program in which a frame that ends in `reject` has the error NoMatch; the text itself: none can."""
    text = without_comments(text)
    ends = re.compile(r"(?<=:)\s*reject\b|(?<=\btransition)\s+reject\b")
    changed = ends.sub(f" {_GIVEN_UP}", text)
    bodies = [(at.end(), block_end(changed, at.end())) for at in re.finditer(r"\bstate\s+\w+\s*\{", changed)]
    for begin, end in reversed(bodies):
        if not re.search(r"\btransition\b", changed[begin:end]):  # it ends in reject
            changed = f"{changed[:end]} transition {_GIVEN_UP}; {changed[end:]}"
    if changed == text:
        return text
    state = f"state {_GIVEN_UP} {{ verify(false, error.{_REJECTED}); transition accept; }}"
    return re.sub(r"\bstate\s+start\b", lambda at: f"{state} {at[0]}", changed)


def block_end(text: str, begin: int) -> int:
    """Returns the place of the bracket that closes a block; ``begin``: behind the one that opens it."""
    depth = 1
    for at in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if at[0] == "{" else -1
        if depth == 0:
            return begin + at.start()
    return len(text)


def stale(text: str, fields: Sequence[tuple[str, int]]) -> str:
    """Returns a program in which `value` holds other numbers than 0 until it is written to.

    ``fields``: the header's fields.
    """

    def filled(header: str, before: str = "") -> str:
        writes = "".join(f" {header}.{name} = {bits}w{_STALE % (1 << bits)};" for name, bits in fields)
        return f"if (!{header}.isValid()) {{ {before}{writes} }}"

    text = without_comments(text)
    type_ = re.search(r"\b(\w+)\s+value\s*;", text)
    named = rf"\b{type_[1]}\s+(\w+)" if type_ else r"\b(value)\b"
    names = "|".join(dict.fromkeys(re.findall(rf"{named}\s*[=;,)]", text)))
    text = re.sub(
        rf"((?:\w+\.)*\b(?:{names}))\s*\.\s*setValid\s*\(\s*\)\s*;",
        lambda at: filled(at[1], f"{at[1]}.setValid();"),
        text,
    )
    blocks = re.search(r"\bV1Switch\s*\(\s*\w+\s*\([^,]*,[^,]*,\s*(\w+)", text)
    name = re.escape(blocks[1]) if blocks else ""
    begins = re.search(rf"\bcontrol\s+{name}\s*\(\s*inout\s+\w+\s+(\w+).*?\bapply\s*\{{", text, re.S)
    return text if begins is None else f"{text[: begins.end()]} {filled(f'{begins[1]}.value')} {text[begins.end() :]}"


# Grading of lab 02: fields, states, rules, bytes.


FILE: Final = "header.p4"
_ENDLESS: Final = "ParserTimeout"
"""the switch's error for a parser that does not end"""


def grade(task: GradingTask) -> Iterator[Check]:
    """Yields all checks of lab 02."""
    with StudentProgram(task.answers / FILE, seen=task.seen) as program:
        yield from run_steps(task, _Grader(task, program).steps())


class _Grader:
    def __init__(self, task: GradingTask, program: StudentProgram) -> None:
        self.task = task
        self.path: Path = task.answers / FILE
        self.program = program
        self.layout = Layout.of(task.personal)
        self.cases = cases(self.layout, task.hidden)
        self.parts: Parts | None = None
        self.text = ""  # of the program that is graded
        self._runs = ""  # the text that the process runs: the program's, or a changed one

    def steps(self) -> list[LabStep]:
        def anew(program: StudentProgram, compilation: Compiled, text: str) -> list[LabStep]:
            other = _Grader(self.task, program)
            other.parts, other.text, other._runs = compilation.parts, text, text
            return other.checks()

        return [
            LabStep("header", "the program compiles", self.compile, gate=True),
            LabStep("header", "hop has its five fields, in their order and width", self.fields, gate=True),
            *placed(self.task, self.checks(), lambda step: self._place(step, anew)),
        ]

    def checks(self) -> list[LabStep]:
        """Returns the checks of a program whose fields are right."""
        return [
            LabStep("parser", "hop is found by its EtherType", self.finds_hop),
            LabStep("parser", "value is found where bit 0 of flags is 1, and only there", self.finds_value),
            LabStep("parser", "every frame that is not cut short is accepted", self.accepts),
            LabStep("rules", "hops grows by one, and frames leave by their port", self.counts),
            LabStep("rules", "total grows by worker", self.adds),
            LabStep("rules", "a frame without a value gets one, and says so", self.puts_in),
            LabStep("deparser", "headers leave that were parsed", self.emits),
            LabStep("deparser", "40 frames, cut ones too, byte for byte", self.bytes),
        ]

    @property
    def _check(self) -> str:
        return f"p4reduce p4 check {self.path}"

    # --- header

    def compile(self) -> None:
        try:
            self.parts = compiled(self.task, FILE, self.program)
            self.text = self._runs = self.path.read_text("utf-8")
        except Wrong as wrong:
            self._written(wrong)
            raise
        for name in ("hop", "value", "ethernet"):
            if name not in self.parts.headers:
                raise Wrong(
                    f"the program has no header {name}: keep the names of the skeleton", str(self.path), self._check
                )

    def _written(self, wrong: Wrong) -> None:
        """Raises Wrong if a program does not compile because the bits of its wrong fields are no multiple of 8."""
        try:
            text = without_comments(self.path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            return
        header = re.search(r"\bheader\s+hop_t\s*\{([^}]*)\}", text)
        fields = re.findall(r"\bbit\s*<\s*(\d{1,4})\s*>\s*(\w+)\s*;", header[1]) if header else []
        declared = [(name, int(bits)) for bits, name in fields]
        if sum(bits for _, bits in declared) % 8:
            try:
                self._compare(declared)
            except Wrong as fields_wrong:
                message = f"{fields_wrong.finding.said}\n{wrong.finding.said}"
                raise Wrong(message, str(self.path), wrong.finding.look) from None

    def fields(self) -> None:
        assert self.parts is not None  # noqa: S101  (a gate before)
        self._compare(self.parts.headers["hop"])

    def _compare(self, declared: list[tuple[str, int]]) -> None:
        """Raises Wrong if the fields are not those of the student's hop."""
        wanted = list(self.layout.fields)
        show = self._show(next(case for case in self.cases if case.kind == "value"))
        for number, ((name, bits), have) in enumerate(zip(wanted, declared + [("", 0)] * 5, strict=False), start=1):
            if have == (name, bits):
                continue
            if not have[0]:
                raise Wrong(f"hop: field {number}, {name} of {bits} bits, is missing", str(self.path), show)
            if have[0] == name:
                raise Wrong(
                    f"hop: field {number}, {name}, has {have[1]} bits; it has {bits} on the wire",
                    str(self.path),
                    show,
                )
            if sorted(declared) == sorted(wanted):
                message = (
                    f"hop: field {number} is {have[0]}; {name} comes there. The order is that of the README's table"
                )
                raise Wrong(message, str(self.path), show)
            raise Wrong(
                f"hop: field {number} is {have[0]} of {have[1]} bits, expected {name} of {bits}",
                str(self.path),
                show,
            )
        if len(declared) != len(wanted):
            raise Wrong(f"hop has {len(declared)} fields; it has {len(wanted)} on the wire", str(self.path), show)

    # --- frames

    def _show(self, case: FrameCase) -> str:
        return look(self.path, case.port, case.frame)

    def _place(self, step: LabStep, anew: Callable[[StudentProgram, Compiled, str], list[LabStep]]) -> Origin:
        """Returns the place of the mistake, or else what the first wrong frame did."""
        assert self.parts is not None  # noqa: S101
        for case in self.cases:
            answer = self._send(case)
            if answer.parser_error == _ENDLESS:
                return Origin()  # the finding says it; each try would take as many steps
            if wrong := self._deviation(case, answer):
                trail = Trail(self.text, [self._trail(case)], [""], skeleton_of(self.task, FILE))
                where = trail.where(wrong)
                return in_p4(self.task, FILE, step, self._ran(), trail.lines, anew, where)
        return in_p4(self.task, FILE, step, self._ran(), (), anew, "")

    def _deviation(self, case: FrameCase, answer: FrameAnswer) -> Departure | None:
        """Returns what is wrong with the result of a frame; None if it is right."""
        if case.expected is None or not answer.sent:
            return (
                None
                if bool(case.expected) == bool(answer.sent)
                else Departure("sent" if answer.sent else "dropped", drop=True)
            )
        (port, data), (right, due) = answer.sent[0], case.expected
        if port != right or len(answer.sent) > 1:
            return Departure("sent")
        if data == due:
            return None
        if data[: len(ETHERNET)] != due[: len(ETHERNET)]:
            return Departure("field", f"ethernet.{'dst' if data[:6] != due[:6] else 'src'}")
        begin = len(ETHERNET) + 2
        hop, wanted = self.layout.unpacked(data[begin:]), self.layout.unpacked(due[begin:])
        fields = [f"hop.{name}" for name in wanted if hop[name] != wanted[name]]
        return Departure("field", fields[0] if case.kind in ("value", "bare") and fields else "value.total")

    def _ran(self) -> list[tuple[list[int], bool]]:
        """Returns the lines that each frame ran, and whether it left wrong."""
        assert self.parts is not None  # noqa: S101
        kinds = [case.kind for case in self.cases]
        wanted = [
            ((case.expected,) if case.expected else ())
            for kind in dict.fromkeys(kinds)
            for case in self.cases
            if case.kind == kind
        ]
        played = [answer for kind in dict.fromkeys(kinds) for _, answer, _ in self._each(kind)]
        return [(answer.lines, answer.sent != due) for answer, due in zip(played, wanted, strict=True)]

    def _each(self, *kinds: str, text: str = "") -> Iterator[tuple[FrameCase, FrameAnswer, str]]:
        """Yields frames, each sent to a new switch, and the commands that trace them; ``text``: to another program."""
        for case in self.cases:
            if case.kind in kinds:
                yield case, self._send(case, text), self._show(case)

    def _send(self, case: FrameCase, text: str = "") -> FrameAnswer:
        with closing(self._bench(text)) as bench:
            return bench.send(case.port, case.frame)

    def _trail(self, case: FrameCase) -> list[TrailStep]:
        with closing(self._bench()) as bench:
            return bench.trails([(case.port, case.frame)])[0]

    def _bench(self, text: str = "") -> P4Bench:
        """Returns a new switch, with the program or with another text."""
        assert self.parts is not None  # noqa: S101
        text = text or self.text
        if text != self._runs:
            self._runs = text
            self.program.compile(text)
        return P4Bench(self.program, self.parts)

    def _compiles(self, text: str) -> bool:
        """Returns whether a changed text of the program is one, too."""
        self._runs = text
        return self.program.compile(text).parts is not None

    def finds_hop(self) -> None:
        for _, answer, show in self._each("value", "bare"):
            if "hop" not in answer.extracted:
                message = f"a frame of EtherType {self.layout.ether_type:#06x} came, and no state extracted hop"
                raise Wrong(f"{message}: let start select parse_hop for it", str(self.path), show)
        for case, answer, show in self._each("other"):
            if "hop" in answer.extracted:
                message = "a frame of another EtherType was parsed as if it had a hop: "
                message += f"0x{case.frame[len(ETHERNET) :][:2].hex()}. Select on the whole hdr.ethernet.ether_type"
                raise Wrong(message, str(self.path), show)

    def _ends(self, answer: FrameAnswer, show: str) -> None:
        if answer.parser_error == _ENDLESS:
            text = without_comments(self.text)
            states = list(re.finditer(r"\bstate\s+(\w+)\s*\{", text))
            own = [at[1] for at in states if re.search(rf"\b{at[1]}\b", text[at.end() : block_end(text, at.end())])]
            message = "a frame with a hop never came out of the parser: "
            message += f"state {own[0]} leads to itself again" if own else "its states lead in a circle"
            raise Wrong(message, str(self.path), show)

    def finds_value(self) -> None:
        for case, answer, show in self._each("value", "bare"):
            flags = case.hop["flags"]
            self._ends(answer, show)
            if case.kind == "value" and "value" not in answer.extracted:
                message = f"flags are {flags:#06b}, bit 0 is 1, and no state extracted value: select on hop.flags[0:0]"
                raise Wrong(message, str(self.path), show)
            if case.kind == "bare" and "value" in answer.extracted:
                message = f"flags are {flags:#06b}, bit 0 is 0, and value was extracted out of the payload"
                raise Wrong(f"{message}: only where hop.flags[0:0] is 1", str(self.path), show)

    def accepts(self) -> None:
        assert self.parts is not None  # noqa: S101
        other, bare = (next(case for case in self.cases if case.kind == kind) for kind in ("other", "bare"))
        for state, open_ended in self.parts.states.items():
            if open_ended:
                message = (
                    f"the select of {state} has no default. P4 ends such a frame with the error NoMatch; this "
                    "switch lets it through, others lose it. Write default: accept"
                )
                raise Wrong(message, str(self.path), self._show(other if state == "start" else bare))
        self._given_up()
        for case, answer, show in self._each("other"):
            if not answer.sent:
                message = (
                    f"a frame of EtherType 0x{case.frame[12:14].hex()} with {len(case.frame) - 14} bytes behind it was"
                )
                message += f" dropped. A frame of another EtherType goes on unchanged by port {self.layout.other_port}"
                raise Wrong(message, str(self.path), show)
            if answer.sent != (case.expected,):
                message = "a frame of another EtherType did not go on unchanged by port "
                message += f"{self.layout.other_port}: default: accept in start, and nothing else changes it"
                raise Wrong(message, str(self.path), show)

    def _given_up(self) -> None:
        """Raises Wrong if a frame that is right ends in `reject`, through which this switch lets it go on."""
        text = rejecting(self.text)
        if text == without_comments(self.text) or not self._compiles(text):
            return
        whats = {"other": "of another EtherType", "bare": "without a value", "value": "with a value"}
        for case, answer, show in self._each(*whats, text=text):
            if answer.parser_error == _REJECTED:
                message = f"a frame {whats[case.kind]} ends in reject. This switch lets it through, others drop it"
                raise Wrong(f"{message}. Write accept for what is right", str(self.path), show)

    def _left(self, answer: FrameAnswer, show: str) -> bytes:
        """Returns the frame that left by the right port. Raises Wrong if there is none."""
        self._ends(answer, show)
        if not answer.sent:
            error = f": the parser ended with error {answer.parser_error}" if answer.parser_error else ""
            raise Wrong(f"a frame with a hop was dropped{error}", str(self.path), show)
        port, data = answer.sent[0]
        if len(answer.sent) > 1 or port != self.layout.hop_port:
            message = (
                f"it left by port {port}, expected {self.layout.hop_port}: leave egress_spec as the skeleton has it"
            )
            raise Wrong(message, str(self.path), show)
        return data

    def _emitted(self, name: str, answer: FrameAnswer, show: str) -> bytes:
        """Returns a header's bytes as they left, at any position. Raises Wrong if the header did not leave."""
        data = self._left(answer, show)
        if name not in answer.emitted:
            self._never(name, show)
            raise Wrong(f"{name} came and did not leave: it is not valid any more", str(self.path), show)
        assert self.parts is not None  # noqa: S101
        parts = {header: sum(bits for _, bits in fields) // 8 for header, fields in self.parts.headers.items()}
        start = sum(parts.get(other, 0) for other in answer.emitted[: answer.emitted.index(name)])
        return data[start : start + parts[name]]

    def _hop(self, answer: FrameAnswer, show: str) -> dict[str, int]:
        return self.layout.unpacked(self._emitted("hop", answer, show))

    def _total(self, answer: FrameAnswer, show: str) -> int:
        return int.from_bytes(self._emitted("value", answer, show), "big")

    def counts(self) -> None:
        for case, answer, show in self._each("value", "bare"):
            hop = self._hop(answer, show)
            hops, was = hop["hops"], case.hop["hops"]
            if hops != was + 1 & 0xFF:
                message = f"hops was {was} and left as {hops}, expected {was + 1 & 0xFF}"
                if hops == was == 255:
                    message += ": it wraps around, + does so"
                elif hops == was:
                    message += ": it was not changed. It grows by one in every frame with a hop"
                    message += f"; this one {'has a' if case.kind == 'value' else 'has no'} value"
                elif hops == was + 2 & 0xFF:
                    message += ": it was counted twice"
                raise Wrong(message, str(self.path), show)
            for name in ("kind", "worker", "seq", *(("flags",) if case.kind == "value" else ())):
                if hop[name] != case.hop[name]:
                    message = f"{name} was {case.hop[name]} and left as {hop[name]}: no rule changes it"
                    raise Wrong(message, str(self.path), show)

    def adds(self) -> None:
        for case, answer, show in self._each("value"):
            total, was = self._total(answer, show), case.total
            worker, seq = case.hop["worker"], case.hop["seq"]
            assert was is not None  # noqa: S101
            wanted = was + worker & 0xFFFFFFFF
            if total == wanted:
                continue
            message = f"total was {was}, worker {worker}: total left as {total}, expected {wanted}"
            known = {
                seq: "that is seq, which is for frames without a value: ask hdr.value.isValid() before you change it",
                was: "it was not changed",
                worker: "that is worker alone; total grows by it, hdr.value.total + (bit<32>)hdr.hop.worker",
                was + seq & 0xFFFFFFFF: "seq was added, not worker",
                was + 1 & 0xFFFFFFFF: "it grew by one, not by worker",
                was - worker & 0xFFFFFFFF: "worker was taken away, not added",
                was + 2 * worker & 0xFFFFFFFF: "worker was added twice",
                seq + worker & 0xFFFFFFFF: "that is seq + worker; seq is for frames without a value: use else",
                0xFFFFFFFF: "it wraps around, + does so",
            }
            if "value" not in answer.extracted:
                message += ": no state extracted value, see part parser"
            elif total in known:
                message += f": {known[total]}"
            raise Wrong(message, str(self.path), show)

    def puts_in(self) -> None:
        assert self.parts is not None  # noqa: S101
        for case, answer, show in self._each("bare"):
            self._left(answer, show)
            if "value" not in answer.emitted:
                self._never("value", show)
                message = "the frame had no value and left without one: hdr.value.setValid() is missing"
                if "setValid" in without_comments(self.text):
                    message = "the frame had no value and left without one: hdr.value.setValid() was not run for it"
                    message += ", it belongs where hdr.value.isValid() is false"
                raise Wrong(message, str(self.path), show)
            total, worker, seq = self._total(answer, show), case.hop["worker"], case.hop["seq"]
            if total != seq:
                message = f"the frame had no value; total left as {total}, expected seq, {seq}"
                if "value" in answer.extracted:
                    message += ": a state extracted value out of the payload, see part parser"
                elif total == seq + worker & 0xFFFFFFFF:
                    message += ": worker was added, too. That is for frames that came with a value: ask "
                    message += "hdr.value.isValid() once, before you change it, and use else"
                elif total == worker:
                    message += ": that is worker"
                else:
                    message += self._undefined(case, total)
                raise Wrong(message, str(self.path), show)
            flags, wanted = self._hop(answer, show)["flags"], case.hop["flags"] | 1
            if flags != wanted:
                message = (
                    f"the frame got a value; flags were {case.hop['flags']:#06b} and left as {flags:#06b}, expected "
                )
                why = "set bit 0 alone, the others stay" if flags & 1 else "the next switch would not find the value"
                raise Wrong(f"{message}{wanted:#06b}: {why}", str(self.path), show)
        for case, answer, show in list(self._each("bare")):  # one text after the other: each is compiled anew
            if why := self._undefined(case, self._total(answer, show)):
                message = "the frame had no value; total left as seq only because this switch begins with 0"
                raise Wrong(f"{message}{why}", str(self.path), show)

    def _undefined(self, case: FrameCase, total: int) -> str:
        """Returns how ``total`` of a frame depends on what was there before it was written; empty if it does not."""
        assert self.parts is not None  # noqa: S101
        text = stale(self.text, self.parts.headers["value"])
        if text != self._runs and not self._compiles(text):
            return ""
        answer = self._send(case, text)
        if "value" not in answer.emitted or self._total(answer, "") == total:
            return ""
        valid = written = False
        for step in self._trail(case):
            if not written and any(name == "value.total" for name, _ in step.reads):
                return f": line {step.line} reads it before it was written, which is undefined. Write seq to it first"
            if step.kind in ("set", "read") and step.name == "value.isValid()":
                valid = bool(step.after)
            elif step.kind in ("set", "read") and step.name == "value.total":
                if not valid:
                    message = f": line {step.line} writes it, and fields of a header that is not valid hold nothing"
                    return f"{message}. Set it valid first, then write total"
                written = True
        return ": before it was written it is undefined. Write seq to it first"

    # --- deparser

    def emits(self) -> None:
        assert self.parts is not None  # noqa: S101
        show = self._show(next(case for case in self.cases if case.kind == "value"))
        wire = ["ethernet", "hop", "value"]
        for name in wire[1:]:
            self._never(name, show)
        if [name for name in self.parts.deparser if name in wire] != wire:
            order = ", ".join(self.parts.deparser)
            message = f"headers are emitted in the order {order}; the wire has ethernet, hop, value"
            raise Wrong(message, str(self.path), show)
        for _, answer, show in self._each("value", "bare", "other"):
            if more := [name for name in answer.emitted if name not in wire]:
                message = f"{', '.join(more)} left, too; the wire has ethernet, hop, value"
                raise Wrong(message, str(self.path), show)

    def _never(self, name: str, show: str) -> None:
        assert self.parts is not None  # noqa: S101
        if name not in self.parts.deparser:
            message = f"{name} is never emitted: what is parsed and not emitted is cut out of the frame"
            raise Wrong(f"{message}. packet.emit(hdr.{name}) is missing", str(self.path), show)

    def bytes(self) -> None:
        for case, answer, show in self._each("value", "bare", "other", "cut"):
            what = {"value": "with a value", "bare": "without a value", "other": "of another EtherType"}.get(case.kind)
            if case.expected is None and answer.sent:
                message = "a frame that is cut short in a header was sent on; the skeleton drops parser errors"
                raise Wrong(message, str(self.path), show)
            if case.expected is not None and answer.sent != (case.expected,):
                left = f"port {answer.sent[0][0]}, {answer.sent[0][1].hex()}" if answer.sent else "nothing"
                message = f"a frame {what}: left {left}; expected port {case.expected[0]}, {case.expected[1].hex()}"
                raise Wrong(message, str(self.path), show)


def _parameters(draws: Draws) -> Mapping[str, str]:
    layout = Layout.of(draws)
    rows = ["| field | bits |", "|---|---|", *(f"| `{name}` | {width} |" for name, width in layout.fields)]
    return {
        "ether_type": f"{layout.ether_type:#06x}",
        "other_port": str(layout.other_port),
        "hop_port": str(layout.hop_port),
        "fields": "\n".join(rows),
        "example_frame": layout.frame({"kind": 1, "flags": 0, "hops": 7, "worker": 3, "seq": 100}, None, b"").hex(),
    }


LAB: Final = Lab(
    number="02",
    name="02-a-header-of-your-own",
    title="a header of your own",
    minutes=60,
    parts=(
        LabPart("header", "fields, in their order and width", 20),
        LabPart("parser", "which headers are found", 30),
        LabPart("rules", "what is changed", 30),
        LabPart("deparser", "what leaves", 20),
    ),
    files=(FILE,),
    grade=grade,
    praise="your header is parsed, changed and put back",
    parameters=_parameters,
)
