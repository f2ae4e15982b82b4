"""Untrusted YAML files: aliases, depth, sizes, and the loaders that read them."""

import json

import pytest

from p4reduce.base.errors import BadInput
from p4reduce.control_plane.orchestrator import TaskError, read_trace
from p4reduce.runs import settings
from p4reduce.topologies import TopologyError, load, parse_delay, parse_rate
from p4switch.base.safe_yaml import DEPTH_LIMIT, YamlError, read_yaml
from p4switch.base.values import one_line, short
from p4switch.trace.entries import EntriesError, parse_document


def bomb(depth=9):
    """Return a small text that would expand to 10^depth words."""
    lists = [f"a{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * 10) + "]" for level in range(1, depth)]
    return "\n".join(["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]", *lists])


def in_task(field, value):
    """Return a task in flow style with a value as its field."""
    fields = {"name": "a", "server": "h1", "workers": "[h2]", "elements": "9", field: value}
    return "tasks: [{" + ", ".join(f"{name}: {text}" for name, text in fields.items()) + "}]"


def bomb_in(field):
    lists = [f"&a{level} [" + ", ".join([f"*a{level - 1}"] * 10) + "]" for level in range(1, 9)]
    nested = "[&a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol], " + ", ".join(lists) + "]"
    return in_task(field, nested)


@pytest.mark.parametrize("field", ["demand", "training", "deadline", "name", "workers", "priority"])
def test_a_trace_with_aliases_is_refused_at_once_and_briefly(tmp_path, field):
    path = tmp_path / "t.yaml"
    path.write_text(bomb_in(field))
    with pytest.raises(TaskError, match=r"aliases \(\*name\) are not allowed") as refused:
        read_trace(path)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("field", ["demand", "training", "deadline", "arrival", "elements", "priority", "speed"])
@pytest.mark.parametrize("value", [json.dumps(["lol"] * 20_000), json.dumps("9" * 100_000), "9" * 100_000])
def test_what_a_trace_says_too_much_is_not_said_again(tmp_path, field, value):
    path = tmp_path / "t.yaml"
    path.write_text(in_task(field, value))
    with pytest.raises(TaskError) as refused:
        read_trace(path)
    assert len(str(refused.value)) < 600 + len(str(path))


def test_every_loader_refuses_aliases(tmp_path):
    path = tmp_path / "bomb.yaml"
    path.write_text(bomb())
    with pytest.raises(TopologyError, match="aliases"):
        load(path)
    with pytest.raises(BadInput, match="aliases"):
        settings._read(path)
    with pytest.raises(EntriesError, match="aliases"):
        parse_document(bomb(), "entries.yaml")
    with pytest.raises(YamlError, match="line 2: aliases"):
        read_yaml(bomb())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[" * (DEPTH_LIMIT + 1) + "]" * (DEPTH_LIMIT + 1), "nested too deeply"),
        ("[" * 200_000, "nested too deeply"),
        ("a: " + "1:1" * 50_000, "a number of 150000 characters"),
        ("a: " + "9" * 5000, "a number of 5000 characters"),
        ("a: !!bool maybe", "is not YAML"),
        ("a: !!timestamp never", "is not YAML"),
        ("a: !!python/object/apply:os.system ['true']", "is not YAML"),
        ("{a: 1, a: 2}", "'a' is given twice"),
        ("? [a]\n: b", "is not YAML"),
        ("\0", "is not YAML"),
        ("a: " + "x" * 100, "has 103 characters; the limit is 100"),
    ],
)
def test_what_is_not_plain_data_is_refused(text, complaint):
    with pytest.raises(YamlError, match=complaint) as refused:
        read_yaml(text, limit=100 if complaint.endswith("is 100") else 1 << 20)
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)


def test_plain_data_is_read():
    nested = "[" * DEPTH_LIMIT + "]" * DEPTH_LIMIT
    assert read_yaml("a: [1, 2.5, yes, null, 'x', 10:20]") == {"a": [1, 2.5, True, None, "x", 620]}
    assert read_yaml(nested)
    assert read_yaml("") is None


@pytest.mark.parametrize("parse", [parse_rate, parse_delay])
@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, "9" * 10**6, "9" * 10**6 + "s", 10**4000, 10**5000, ["x"] * 10**6, float("nan"), None],
    ids=range(8),
)
def test_rates_and_delays_are_refused_briefly(parse, value):
    with pytest.raises(ValueError, match="write for example") as refused:
        parse(value)
    assert len(str(refused.value)) < 300


def test_texts_for_errors_are_short():
    assert len(short("x" * 10**6)) <= 60
    assert one_line("a\n b") == "a b"
    assert len(one_line("x" * 1000)) == 300


def test_an_error_names_no_file_that_is_none():
    """PyYAML names a text "<unicode string>"; the caller knows the real name."""
    with pytest.raises(YamlError, match=r"is not YAML: .*line 2, column 1") as error:
        read_yaml("a: 1\n\tb: 2\n")
    assert "string>" not in str(error.value)
