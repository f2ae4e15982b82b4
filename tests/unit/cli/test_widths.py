"""Output for people fits 80 columns: tables and lines wrap between words, and nothing is lost."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text
from typer.testing import CliRunner

from p4reduce.base.output import records, table_that_fits, wrapped
from p4reduce.cli.main import app
from p4reduce_course.catalogue import NAMES, find
from p4reduce_course.frame.grading import copy_lab
from p4reduce_course.frame.lab import EXAMPLE
from tests.support.effort import first_of
from tests.support.labs import SOLUTIONS

SMALL = ("--topology", "leaf-spine-8", "--elements", "2000")
TASKS = "tasks:\n- {name: a-task-with-a-name, server: server1, workers: [h1, h2, h3], elements: 100000, rounds: 3}\n"


def shown(*arguments, code=0):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80"})
    assert done.exit_code == code, done.output
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor",),
        ("topo", "list"),
        ("topo", "show", "leaf-spine-8"),
        ("topo", "show", "wan:graph=germany50"),
        ("plan", "show", *SMALL, "--plan", "steiner", "--entries"),
        ("plan", "show", *SMALL, "--plan", "ring"),
        ("run", *SMALL),
        ("compare", *SMALL, "--plans", "steiner,ring,ps", "--out", "out"),
        ("sweep", *SMALL, "--plans", "steiner,ring", "--losses", "0,0.01", "--out", "out"),
        ("p4", "check", "--help"),
        ("trace", "--program", "64", "--entries", SOLUTIONS / "01/leaf1.yaml", "--packet", "lab/packets/leaf1.txt"),
    ],
    ids=lambda arguments: " ".join(map(str, arguments[:2])),
)  # fmt: skip
def test_commands_fit_80_columns(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copy_lab(find("01"), EXAMPLE, Path("lab"))
    lines = shown(*arguments)
    assert lines
    assert [line for line in lines if cell_len(line) > 80] == []


@pytest.mark.parametrize("number", first_of(list(NAMES), 6))
def test_a_grade_fits_80_columns(number, tmp_path):
    copy_lab(find(number), EXAMPLE, tmp_path / "lab")
    lines = shown("lab", "grade", tmp_path / "lab", code=1)
    looks = [line for line in lines if line.lstrip().startswith("look:")]  # commands, whole so that they can be copied
    assert [line for line in lines if cell_len(line) > 80 and line not in looks] == []
    assert "that is how the lab begins" in " ".join(line.strip() for line in lines)


def test_tasks_fit_80_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.yaml").write_text(TASKS)
    shown("tasks", "submit", "tasks.yaml")
    for command in (("tasks", "list"), ("tasks", "show", "a-task-with-a-name"), ("tasks", "swaps")):
        assert [line for line in shown(*command) if cell_len(line) > 80] == []


WORDS = st.text("abc-/. 1", max_size=60)


@given(text=WORDS, indent=st.integers(0, 30), width=st.integers(20, 100))
def test_wrapped_lines_fit_and_lose_no_word(text, indent, width):
    parts = [part.plain for part in wrapped(Text(" " * indent + text), width)]
    indent += len(text) - len(text.lstrip(" "))
    assert all(len(part) <= max(width, indent + 12) for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


@given(rows=st.lists(st.tuples(WORDS, st.integers(0, 10**12).map("{:,}".format), WORDS), max_size=4),
       width=st.integers(10, 120))  # fmt: skip
def test_tables_fit_or_are_given_up(rows, width):
    columns = ("a name", "many bytes", "what it is for")
    table = table_that_fits(columns, rows, width)
    if table is not None:
        assert sum(column.width for column in table.columns) + len(columns) + 1 <= width
        assert table.columns[1].width >= max((len(row[1]) for row in rows), default=0)
    said = " ".join(text.plain for text in records(columns, rows, width))
    assert all(row[1] in said for row in rows)
