"""Lab 02: a header of one's own, from its fields to its bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p4reduce_course.frame.grading import without_comments
from p4reduce_course.frame.lab import Draws, Lab, Part, Step, Task, run_steps
from p4reduce_course.frame.report import Check, Wrong
from p4reduce_course.p4 import Bench, compiled, look
from p4reduce_course.sandbox.program import Answer, Parts, StudentProgram

# The frames of lab 02, by a reference of their own that knows nothing of P4: numbers packed into bytes.


WIDTHS: Final = {"kind": 4, "flags": 4, "hops": 8, "worker": 16, "seq": 32}
ETHERNET: Final = bytes.fromhex("020000000002020000000001")
HOP_BYTES: Final = 8
VALUE_BYTES: Final = 4


@dataclass(frozen=True)
class Layout:
    """A student's header.

    Attributes:
        fields: (name, bits) in their order.
        other_port, hop_port: by which frames without and with a hop leave.
    """

    ether_type: int
    fields: tuple[tuple[str, int], ...]
    other_port: int
    hop_port: int

    @classmethod
    def of(cls, draws: Draws) -> Layout:
        """The layout that follows from a student's name."""
        pairs = draws.shuffled("pairs", [["kind", "flags"], ["hops"], ["worker"], ["seq"]])
        names = [name for pair in pairs for name in draws.shuffled(f"order {pair[0]}", pair)]
        ports = draws.shuffled("ports", range(2, 9))
        fields = tuple((name, WIDTHS[name]) for name in names)
        return cls(0x8900 + draws.integer("ether_type", 1, 0xF0), fields, ports[0], ports[1])

    def frame(self, hop: Mapping[str, int] | None, total: int | None, payload: bytes, ether_type: int = 0) -> bytes:
        """A frame; ``hop`` None: of another EtherType."""
        data = ETHERNET + (self.ether_type if hop is not None else ether_type).to_bytes(2, "big")
        if hop is not None:
            data += self.packed(hop)
        if total is not None:
            data += total.to_bytes(VALUE_BYTES, "big")
        return data + payload

    def packed(self, hop: Mapping[str, int]) -> bytes:
        """The header's bytes."""
        number = 0
        for name, width in self.fields:
            number = number << width | hop[name]
        return number.to_bytes(HOP_BYTES, "big")

    def unpacked(self, data: bytes) -> dict[str, int]:
        """Its fields."""
        number, found = int.from_bytes(data[:HOP_BYTES], "big"), {}
        for name, width in reversed(self.fields):
            found[name] = number & (1 << width) - 1
            number >>= width
        return found


@dataclass(frozen=True)
class Case:
    """One frame and what must become of it.

    Attributes:
        kind: ``other``, ``value``, ``bare`` or ``cut``.
        expected: (port, frame); None: dropped.
    """

    kind: str
    frame: bytes
    expected: tuple[int, bytes] | None
    hop: Mapping[str, int]
    total: int | None


def cases(layout: Layout, draws: Draws) -> list[Case]:
    """Twenty frames: seven with a value, six without, four of other types, three cut short."""
    random = draws.generator("frames")

    def number(bits: int) -> int:
        return int(random.integers(0, 1 << bits))

    found: list[Case] = []
    for place in range(20):
        payload = random.bytes(number(5))
        hop = {name: number(width) for name, width in layout.fields}
        kind = ("value", "bare", "other", "value", "bare", "cut", "value")[place % 7] if place else "value"
        total = number(32)
        if place < 2:  # both ends of a field
            hop |= {"hops": 255}
            total = 0xFFFFFFFF
        if kind == "other":
            other = layout.ether_type ^ (1 << number(3))
            data = layout.frame(None, None, random.bytes(20), other)
            found.append(Case(kind, data, (layout.other_port, data), {}, None))
            continue
        hop["flags"] = hop["flags"] & 0b1110 | (kind != "bare")
        grown = {**hop, "hops": hop["hops"] + 1 & 0xFF, "flags": hop["flags"] | 1}
        if kind == "cut":
            whole = layout.frame(hop, total, b"")
            data = whole[: len(whole) - 1 - number(3)]
            found.append(Case(kind, data, None, hop, total))
        elif kind == "value":
            data = layout.frame(hop, total, payload)
            out = layout.frame(grown, total + hop["worker"] & 0xFFFFFFFF, payload)
            found.append(Case(kind, data, (layout.hop_port, out), hop, total))
        else:
            data = layout.frame(hop, None, payload)
            found.append(Case(kind, data, (layout.hop_port, layout.frame(grown, hop["seq"], payload)), hop, None))
    return found


# Grading lab 02: fields, states, rules, bytes.


FILE: Final = "header.p4"
_ETHERNET: Final = 14


def grade(task: Task) -> Iterator[Check]:
    """All checks of lab 02."""
    with StudentProgram(task.answers / FILE, seen=task.seen) as program:
        yield from run_steps(task, _Grader(task, program).steps())


class _Grader:
    def __init__(self, task: Task, program: StudentProgram) -> None:
        self.task = task
        self.path: Path = task.answers / FILE
        self.program = program
        self.layout = Layout.of(task.personal)
        self.cases = cases(self.layout, task.hidden)
        self.parts: Parts | None = None

    def steps(self) -> list[Step]:
        return [
            Step("header", "the program compiles", self.compile, gate=True),
            Step("header", "hop has its five fields, in their order and width", self.fields, gate=True),
            Step("parser", "hop is found by its EtherType", self.finds_hop),
            Step("parser", "value is found where bit 0 of flags is 1, and only there", self.finds_value),
            Step("parser", "what the select does not name is accepted", self.accepts),
            Step("rules", "hops grows by one, and frames leave by their port", self.counts),
            Step("rules", "total grows by worker", self.adds),
            Step("rules", "a frame without a value gets one, and says so", self.puts_in),
            Step("deparser", "headers leave that were parsed", self.emits),
            Step("deparser", "20 frames, cut ones too, byte for byte", self.bytes),
        ]

    # --- header

    def compile(self) -> None:
        self.parts = compiled(self.task, FILE, self.program)
        for name in ("hop", "value", "ethernet"):
            if name not in self.parts.headers:
                raise Wrong(f"the program has no header {name}: keep the names of the skeleton", str(self.path))

    def fields(self) -> None:
        assert self.parts is not None  # noqa: S101  (a gate before)
        found = self.parts.headers["hop"]
        wanted = list(self.layout.fields)
        for number, ((name, bits), have) in enumerate(zip(wanted, found + [("", 0)] * 5, strict=False), start=1):
            if have == (name, bits):
                continue
            if not have[0]:
                raise Wrong(f"hop: field {number}, {name} of {bits} bits, is missing", str(self.path))
            if have[0] == name:
                raise Wrong(
                    f"hop: field {number}, {name}, has {have[1]} bits; it has {bits} on the wire", str(self.path)
                )
            if sorted(found) == sorted(wanted):
                said = f"hop: field {number} is {have[0]}; {name} comes there. The order is that of the README's table"
                raise Wrong(said, str(self.path))
            raise Wrong(
                f"hop: field {number} is {have[0]} of {have[1]} bits, expected {name} of {bits}", str(self.path)
            )
        if len(found) != len(wanted):
            raise Wrong(f"hop has {len(found)} fields; it has {len(wanted)} on the wire", str(self.path))

    # --- frames

    def _each(self, *kinds: str) -> Iterator[tuple[Case, Answer, str]]:
        assert self.parts is not None  # noqa: S101
        for case in self.cases:
            if case.kind in kinds:
                yield case, Bench(self.program, self.parts).send(1, case.frame), look(self.path, 1, case.frame)

    def finds_hop(self) -> None:
        for _, answer, show in self._each("value", "bare"):
            if "hop" not in answer.extracted:
                said = f"a frame of EtherType {self.layout.ether_type:#06x} came, and no state extracted hop"
                raise Wrong(f"{said}: let start select parse_hop for it", str(self.path), show)
        for _, answer, show in self._each("other"):
            if "hop" in answer.extracted:
                said = "a frame of another EtherType was parsed as if it had a hop: select on hdr.ethernet.ether_type"
                raise Wrong(said, str(self.path), show)

    def finds_value(self) -> None:
        for case, answer, show in self._each("value", "bare"):
            flags = case.hop["flags"]
            if case.kind == "value" and "value" not in answer.extracted:
                said = f"flags are {flags:#06b}, bit 0 is 1, and no state extracted value: select on hop.flags[0:0]"
                raise Wrong(said, str(self.path), show)
            if case.kind == "bare" and "value" in answer.extracted:
                said = f"flags are {flags:#06b}, bit 0 is 0, and value was extracted out of the payload"
                raise Wrong(f"{said}: only where hop.flags[0:0] is 1", str(self.path), show)

    def accepts(self) -> None:
        assert self.parts is not None  # noqa: S101
        for state, open_ended in self.parts.states.items():
            if open_ended:
                said = (
                    f"the select of {state} has no default. P4 ends such a frame with the error NoMatch; this "
                    "switch lets it through, others lose it. Write default: accept"
                )
                raise Wrong(said, str(self.path))
        if re.search(r"\bdefault\s*:\s*reject\b", without_comments(self.path.read_text("utf-8"))):
            said = (
                "default: reject gives up frames that are right: of other EtherTypes, or without a value. This switch "
                "lets them through, others drop them. Write default: accept"
            )
            raise Wrong(said, str(self.path))
        for case, answer, show in self._each("other"):
            if answer.sent != (case.expected,):
                said = "a frame of another EtherType did not go on unchanged"
                raise Wrong(f"{said}: default: accept in start, and nothing else changes it", str(self.path), show)

    def _left(self, answer: Answer, show: str) -> bytes:
        """The frame that left, by the right port."""
        if not answer.sent:
            raise Wrong("a frame with a hop was dropped", str(self.path), show)
        port, data = answer.sent[0]
        if len(answer.sent) > 1 or port != self.layout.hop_port:
            said = f"it left by port {port}, expected {self.layout.hop_port}: leave egress_spec as the skeleton has it"
            raise Wrong(said, str(self.path), show)
        return data

    def _hop(self, answer: Answer, show: str) -> dict[str, int]:
        """The hop that left; whether it is emitted is a check of its own."""
        assert self.parts is not None  # noqa: S101
        data = self._left(answer, show)
        if "hop" not in answer.emitted:
            raise Wrong("hop did not leave: see part deparser", str(self.path), show)
        return self.layout.unpacked(data[_ETHERNET:])

    def counts(self) -> None:
        for case, answer, show in self._each("value", "bare"):
            hops, wanted = self._hop(answer, show)["hops"], case.hop["hops"] + 1 & 0xFF
            if hops != wanted:
                raise Wrong(f"hops was {case.hop['hops']} and left as {hops}, expected {wanted}", str(self.path), show)

    def adds(self) -> None:
        for case, answer, show in self._each("value"):
            data = self._left(answer, show)
            if "value" not in answer.emitted:
                raise Wrong("value did not leave: see part deparser", str(self.path), show)
            total = self._total(data, answer)
            assert case.total is not None  # noqa: S101
            wanted = case.total + case.hop["worker"] & 0xFFFFFFFF
            if total != wanted:
                said = f"total was {case.total}, worker {case.hop['worker']}: total left as {total}, expected {wanted}"
                if "value" not in answer.extracted:
                    said += ": no state extracted value, see part parser"
                elif total == case.hop["seq"]:
                    said += ": that is seq, which is for frames without a value: ask hdr.value.isValid()"
                elif total == case.total:
                    said += ": it was not changed"
                raise Wrong(said, str(self.path), show)

    def puts_in(self) -> None:
        assert self.parts is not None  # noqa: S101
        for case, answer, show in self._each("bare"):
            data = self._left(answer, show)
            if "value" not in answer.emitted:
                if "value" not in self.parts.deparser:
                    raise Wrong("value did not leave: see part deparser", str(self.path), show)
                said = "the frame had no value and left without one: hdr.value.setValid() is missing"
                if "setValid" in without_comments(self.path.read_text("utf-8")):
                    said = "the frame had no value and left without one: hdr.value.setValid() was not run for it"
                    said += ", it belongs where hdr.value.isValid() is false"
                raise Wrong(said, str(self.path), show)
            total = self._total(data, answer)
            if total != case.hop["seq"]:
                said = f"total left as {total}, expected seq, {case.hop['seq']}"
                if "value" in answer.extracted:
                    said += ": a state extracted value out of the payload, see part parser"
                elif self._reads_what_is_not_there():
                    said += (
                        ": fields of a header that is not valid hold nothing. Set it valid first, then write total, "
                        "and read nothing from it before"
                    )
                raise Wrong(said, str(self.path), show)
            flags = self._hop(answer, show)["flags"]
            if flags != case.hop["flags"] | 1:
                said = f"flags left as {flags:#06b}, expected {case.hop['flags'] | 1:#06b}"
                why = "set bit 0 alone, the others stay" if flags & 1 else "the next switch would not find the value"
                raise Wrong(f"{said}: {why}", str(self.path), show)

    def _reads_what_is_not_there(self) -> bool:
        """Whether something is written to a value that is not valid yet, or a total is made of what total was."""
        text = without_comments(self.path.read_text("utf-8"))
        written = re.findall(r"hdr\.value\.(setValid\(\)|total\s*=[^;=]*)", text)
        fresh = False
        for one in written:
            fresh |= one.startswith("setValid")
            if not one.startswith("setValid") and ("seq" in one) and (not fresh or "value.total" in one):
                return True
        return False

    @staticmethod
    def _total(data: bytes, answer: Answer) -> int:
        start = _ETHERNET + (HOP_BYTES if "hop" in answer.emitted else 0)
        return int.from_bytes(data[start : start + VALUE_BYTES], "big")

    # --- deparser

    def emits(self) -> None:
        assert self.parts is not None  # noqa: S101
        for name in ("hop", "value"):
            if name not in self.parts.deparser:
                said = f"{name} is never emitted: what is parsed and not emitted is cut out of the frame"
                raise Wrong(f"{said}. packet.emit(hdr.{name}) is missing", str(self.path))
        if self.parts.deparser != ["ethernet", "hop", "value"]:
            order = ", ".join(self.parts.deparser)
            said = f"headers are emitted in the order {order}; the wire has ethernet, hop, value"
            raise Wrong(said, str(self.path))

    def bytes(self) -> None:
        for number, (case, answer, show) in enumerate(self._each("value", "bare", "other", "cut"), start=1):
            if case.expected is None and answer.sent:
                said = f"frame {number} is cut short in a header and was sent on; the skeleton drops parser errors"
                raise Wrong(said, str(self.path), show)
            if case.expected is not None and answer.sent != (case.expected,):
                left = f"port {answer.sent[0][0]}, {answer.sent[0][1].hex()}" if answer.sent else "nothing"
                said = f"frame {number}: left {left}; expected port {case.expected[0]}, {case.expected[1].hex()}"
                raise Wrong(said, str(self.path), show)


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
        Part("header", "fields, in their order and width", 20),
        Part("parser", "which headers are found", 30),
        Part("rules", "what is changed", 30),
        Part("deparser", "what leaves", 20),
    ),
    files=(FILE,),
    grade=grade,
    praise="your header is parsed, changed and put back",
    parameters=_parameters,
)
