"""The serializer by itself: refusals, their messages, and its output."""

import enum
import math
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import Field

from p4reduce.base.errors import BadInput
from p4reduce.base.records import ITEMS, Given, RecordError, from_json, from_plain, to_file, to_json, to_plain


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    count: int
    share: float = 0.5
    note: Annotated[str | None, Field(exclude_if=lambda note: note is None)] = None

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("count: is below 0")


@dataclass(frozen=True, slots=True)
class Outer:
    inner: tuple[Inner, ...]
    of: Mapping[int, float] = field(default_factory=dict)
    pairs: Annotated[Mapping[tuple[str, int], tuple[str, ...]], ITEMS] = field(default_factory=dict)
    colour: Colour = Colour.RED
    way: Literal["up", "down"] = "up"


WHOLE = Outer((Inner(1), Inner(2, 1.5, "n")), {3: 0.1}, {("s1", 2): ("a", "b")}, Colour.BLUE, "down")
PLAIN = {
    "inner": [{"count": 1, "share": 0.5}, {"count": 2, "share": 1.5, "note": "n"}],
    "of": {"3": 0.1},
    "pairs": [[["s1", 2], ["a", "b"]]],
    "colour": "blue",
    "way": "down",
}


def test_a_record_as_plain_data_and_back():
    assert to_plain(WHOLE) == PLAIN
    assert from_plain(Outer, PLAIN, "here") == WHOLE
    assert from_json(Outer, to_json(WHOLE), "here") == WHOLE
    assert from_json(Outer, to_file(WHOLE).encode(), "here") == WHOLE
    assert to_json(WHOLE).startswith('{"inner":[{"count":1,"share":0.5},')
    assert to_file(WHOLE).startswith('{\n "colour": "blue",\n "inner": [')


def test_containers_of_records():
    kind = dict[str, Inner]
    assert to_plain({"a": Inner(1)}, kind) == {"a": {"count": 1, "share": 0.5}}
    assert from_plain(kind, {"a": {"count": 1}}, "here") == {"a": Inner(1)}


def test_an_integer_of_any_size_and_floats_bit_for_bit():
    for value in (math.inf, -math.inf, 5e-324, 0.1 + 0.2, -0.0, np.float64(0.1)):
        back = from_json(Inner, to_json(Inner(10**30, value)), "here")
        assert (back.count, str(back.share)) == (10**30, str(float(value)))
    assert math.isnan(from_json(Inner, to_json(Inner(1, math.nan)), "here").share)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"inner": [{"count": "1"}]}, "inner.0.count: input should be a valid integer, got '1'"),
        ({"inner": [{"count": 1.0}]}, "inner.0.count: input should be a valid integer, got 1.0"),
        ({"inner": [{"count": True}]}, "inner.0.count: input should be a valid integer, got True"),
        ({"inner": [{"count": 1, "share": "0.5"}]}, "inner.0.share: input should be a valid number, got '0.5'"),
        ({"inner": [{"count": 1, "note": 3}]}, "inner.0.note: input should be a valid string, got 3"),
        ({"inner": [{"count": -1}]}, "inner.0: count: is below 0"),
        ({"inner": [{"share": 1}]}, "inner.0.count: is missing"),
        ({"inner": [{"count": 1, "more": 1}]}, "inner.0.more: there is no such field"),
        ({"inner": "text"}, "inner: input should be a valid array, got 'text'"),
        ({"inner": [], "colour": "green"}, "colour: input should be 'red' or 'blue', got 'green'"),
        ({"inner": [], "way": "left"}, "way: input should be 'up' or 'down', got 'left'"),
        ({"inner": [], "of": {"x": 1}}, "of.x.[key]: input should be a valid integer, unable to parse string"),
        ({"inner": [], "pairs": [[["s1", "2"], []]]}, "pairs.0.0.1: input should be a valid integer, got '2'"),
        ({"inner": {1, 2}}, "Object of type set is not JSON serializable"),
        ([], "input should be an object, got []"),
        (None, "input should be an object, got None"),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(data, said):
    with pytest.raises(RecordError) as caught:
        from_plain(Outer, data, "result.json")
    assert str(caught.value).startswith(f"result.json: {said}")
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, BadInput)


@pytest.mark.parametrize(
    "text", ["", "{", "nul", "[" * 100_000, b"\xff", '{"inner": ' + "1" * 10_000 + "}", "{'a': 1}"]
)
def test_what_is_no_json_is_refused_in_one_short_line(text):
    with pytest.raises(RecordError, match=r"^here: ") as caught:
        from_json(Outer, text, "here")
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        Inner(1.0),
        Inner(np.int64(1)),
        Inner(1, "0.5"),
        Inner(1, 0.5, 7),
        Outer([Inner(1)]),
        Outer((3,)),
        Outer((), {}, {3: 4}),
    ],
)
def test_a_value_of_another_type_is_not_written(wrong):
    with pytest.raises(ValueError, match=r"Unable to serialize|Expected"):
        to_plain(wrong)


def test_what_the_reader_has_is_not_written():
    @dataclass(frozen=True)
    class Placed:
        rack: Annotated[dict[str, int], Given("racks", sorted, lambda racks, name: racks[name[0]])]

    racks: dict[str, Any] = {"a": {"a": 1}}
    assert to_plain(Placed(racks["a"])) == {"rack": ["a"]}
    assert from_plain(Placed, {"rack": ["a"]}, "here", racks=racks).rack is racks["a"]


def test_pydantic_is_imported_with_the_first_record():
    program = "import sys, p4reduce.base.records; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
