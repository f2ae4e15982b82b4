"""Lane words compiled block by block, compared with the interpreter: p4src/lanes.p4's idiom, and similar code."""

import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p4switch.compiler import module_text
from p4switch.device import Device
from p4switch.program import load_program
from tests.support.bmv2_json import Json, ProgramJson, assign, const, field, named, op, primitive

CELLS = 3
LANES = (32, 16, 8)
A, B, T, OVERFLOW = (field("meta", name) for name in ("a", "b", "t", "overflow"))
W = field("in", "w")
AT = field("in", "at")


@pytest.fixture(autouse=True, scope="module")
def _no_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Use a separate directory for the machine code of these programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("P4REDUCE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def splat(lane: int, bits: int, width: int) -> int:
    return sum(lane << at for at in range(0, width, bits))


class Idiom:
    """The statements of p4src/lanes.p4 for one lane width, with everything that a mutant may change."""

    def __init__(self, bits: int, width: int) -> None:
        self.sign = splat(1 << (bits - 1), bits, width)
        self.rest = splat((1 << (bits - 1)) - 1, bits, width)
        self.ones = (1 << width) - 1
        self.shift = bits - 1

    def cut(self, value: Json) -> Json:
        return op("&", value, const(self.ones))

    def read(self, register: str = "r", target: Json = A) -> Json:
        return primitive("register_read", target, named("register_array", register), AT)

    def write(self, register: str = "r") -> Json:
        return primitive("register_write", named("register_array", register), AT, W)

    def t(self, a: Json = A, w: Json = W) -> Json:
        return self.cut(op("+", op("&", a, const(self.rest)), op("&", w, const(self.rest))))

    def overflow(self, t: Json, a: Json = A, w: Json = W) -> Json:
        return assign(OVERFLOW, op("&", op("&", op("^", t, a), op("^", t, w)), const(self.sign)))

    def sum(self, t: Json, a: Json = A, w: Json = W) -> Json:
        return assign(W, op("^", t, op("&", op("^", a, w), const(self.sign))))

    def end(self, of: Json) -> Json:
        return self.cut(op("-", const(self.sign), op(">>", op("&", of, const(self.sign)), const(self.shift))))

    def saturate(self) -> list[Json]:
        mask = op("|", op("&", self.end(OVERFLOW), const(self.rest)), OVERFLOW)
        kept = op("&", W, self.cut(op("~", None, mask)))
        return [assign(W, op("|", kept, op("&", self.end(W), mask))), self.write()]


def add(one: Idiom) -> list[Json]:
    return [one.read(), one.overflow(one.t()), one.sum(one.t()), one.write()]


def add_with_variable(one: Idiom) -> list[Json]:
    return [one.read(), assign(T, one.t()), one.overflow(T), one.sum(T), one.write()]


def two_words(one: Idiom) -> list[Json]:
    return [*add(one), one.read("s"), one.overflow(one.t()), one.sum(one.t()), one.write("s")]


def swapped(one: Idiom) -> list[Json]:
    t = one.t(W, A)
    differs = op("&", const(one.sign), op("&", op("^", W, t), op("^", A, t)))
    return [
        one.read(),
        assign(OVERFLOW, differs),
        assign(W, op("^", op("&", const(one.sign), op("^", W, A)), t)),
        one.write(),
    ]


# Similar code with another meaning.


def changed_between(one: Idiom) -> list[Json]:
    return [
        one.read(),
        assign(T, one.t()),
        assign(A, op("^", A, const(one.sign >> 1))),
        one.overflow(T),
        one.sum(T),
        one.write(),
    ]


def changed_word_between(one: Idiom) -> list[Json]:
    return [one.read(), assign(T, one.t()), assign(W, op("~", None, W)), one.sum(T), one.overflow(T), one.write()]


def other_field(one: Idiom) -> list[Json]:
    return [one.read(), one.overflow(one.t(), B), one.sum(one.t(), B), one.write()]


def same_twice(one: Idiom) -> list[Json]:
    return [one.read(), one.overflow(one.t(), A, A), one.sum(one.t(), W, W), one.write()]


def whole_sum(one: Idiom) -> list[Json]:
    return [one.read(), assign(W, op("+", A, W)), one.write()]


def twice_read(one: Idiom) -> list[Json]:
    return [one.read(), one.sum(one.t()), one.write(), one.read(), one.sum(one.t()), one.write()]


def read_over_assigned(one: Idiom) -> list[Json]:
    return [
        assign(A, op("^", W, const(one.sign))),
        one.read(),
        assign(B, A),
        one.read("s", B),
        one.sum(one.t(B)),
        one.write("s"),
    ]


def one_more_shift(one: Idiom) -> list[Json]:
    one.shift += 1
    return [*add(one), *one.saturate()]


def one_less_shift(one: Idiom) -> list[Json]:
    one.shift -= 1
    return [*add(one), *one.saturate()]


def other_sign(one: Idiom) -> list[Json]:
    one.sign ^= 1
    return [*add(one), *one.saturate()]


def other_rest(one: Idiom) -> list[Json]:
    one.rest ^= 1 << 40
    return [*add(one), *one.saturate()]


def saturated(one: Idiom) -> list[Json]:
    return [*add(one), *one.saturate()]


def saturated_with_any_mask(one: Idiom) -> list[Json]:
    return [assign(OVERFLOW, op("^", W, const(one.rest))), *one.saturate()]


MEANT = (add, add_with_variable, two_words, swapped, saturated)
ALIKE = (
    changed_between,
    changed_word_between,
    other_field,
    same_twice,
    whole_sum,
    twice_read,
    read_over_assigned,
    one_more_shift,
    one_less_shift,
    other_sign,
    other_rest,
    saturated_with_any_mask,
)
Body = Callable[[Idiom], list[Json]]


def program(body: Body, bits: int, width: int) -> ProgramJson:
    """Return a program with statements in one action; it sends out all results, and whether a lane overflowed."""
    made = ProgramJson()
    made.struct("meta", [(name, width) for name in ("a", "b", "t", "overflow")])
    made.header("in", [("at", 8), ("w", width), ("some", 8)])
    made.header("out", [(name, width) for name in ("a", "b", "t", "overflow")], parsed=False)
    made.sections["register_arrays"] = [
        {"name": name, "id": place, "bitwidth": width, "size": CELLS} for place, name in enumerate("rs")
    ]
    made.call(body(Idiom(bits, width)))
    some = op("b2d", None, op("!=", OVERFLOW, const(0)))
    made.call([assign(field("in", "some"), some), primitive("add_header", named("header", "out"))])
    made.call([assign(field("out", name), field("meta", name)) for name in ("a", "b", "t", "overflow")])
    made.call([assign(field("standard_metadata", "egress_spec"), const(1))])
    return made


def words(bits: int, width: int) -> st.SearchStrategy[int]:
    """Draw words whose lanes are mostly at the limits of their range, with random bits elsewhere."""
    top = 1 << (bits - 1)
    lane = st.sampled_from([0, 1, top - 1, top, top + 1, 2 * top - 1]) | st.integers(0, 2 * top - 1)
    count = width // bits
    few = st.lists(lane, min_size=1, max_size=7).map(lambda some: (some * count)[:count])
    return few.map(lambda lanes: sum(value << (bits * i) for i, value in enumerate(lanes))) | st.integers(
        0, (1 << width) - 1
    )


@pytest.mark.parametrize("bits", LANES)
@pytest.mark.parametrize("body", [*MEANT, *ALIKE], ids=lambda body: body.__name__)
def test_compiled_words_are_those_of_the_interpreter(body: Body, bits: int) -> None:
    width = 416  # a block of 256 bits, and a smaller one
    built = load_program(program(body, bits, width).build())
    compiled, interpreted = (Device(built, executor=executor) for executor in ("compiled", "interpreted"))

    @settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(st.sampled_from([0, 0, 1, CELLS, 255]), words(bits, width)), min_size=4, max_size=8))
    def agree(packets: list[tuple[int, int]]) -> None:
        for at, word in packets:
            frame = bytes([at]) + word.to_bytes(width // 8, "big") + b"\0"
            assert compiled.inject(0, frame) == interpreted.inject(0, frame)
        for name in "rs":
            one, other = compiled.registers[name], interpreted.registers[name]
            assert [one.read(i) for i in range(CELLS)] == [other.read(i) for i in range(CELLS)]

    agree()


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("body", MEANT, ids=lambda body: body.__name__)
def test_the_idiom_is_an_addition_of_lanes(body: Body, bits: int) -> None:
    added = re.findall(rf"= add <\d+ x i{bits}>", module_text(load_program(program(body, bits, 512).build())))
    assert len(added) == (4 if body is two_words else 2)  # one for each block of 256 bits


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("body", [other_field, changed_word_between, whole_sum], ids=lambda body: body.__name__)
def test_what_only_resembles_it_is_not(body: Body, bits: int) -> None:
    assert f" x i{bits}>" not in module_text(load_program(program(body, bits, 512).build()))
