"""Tables that keep their cells, figures with units, and silence without a terminal."""

import io

import pytest
from rich.console import Console

from p4reduce.base.output import Output, bytes_text, progress_bar, rate_text, share_text, small_text, time_text
from p4reduce.runs.settings import default_topology
from p4reduce.topologies import load

COLUMNS = ["plan", "time of an iteration", "bytes on all links", "largest error"]
ROWS = [["steiner", "937.1 us", "1.134 GB", "2.4e-07"], ["[bold]odd[/bold]", "-", "12 B", "-"]]


def shown(width, terminal):
    output, file = Output(), io.StringIO()
    output.people = Console(file=file, width=width, force_terminal=terminal, color_system=None)
    output.table(COLUMNS, ROWS)
    return file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("width", [20, 60, 200])
def test_cells_are_never_cut(width, terminal):
    text = shown(width, terminal)
    for cell in (cell for row in ROWS for cell in row):
        assert cell in text
    for word in (word for column in COLUMNS for word in column.split()):
        assert word in text


def test_numbers_are_flush_right():
    lines = [line.rstrip() for line in shown(200, False).splitlines() if "e" in line]
    ends = {
        line.index(cell) + len(cell) for line, cell in zip(lines[:2], ("bytes on all links", "1.134 GB"), strict=True)
    }
    assert len(ends) == 1


def test_json_leaves_stdout_alone(capsys):
    output = Output(as_json=True)
    output.table(COLUMNS, ROWS)
    output.line("for people")
    output.note("a remark")
    output.data({"b": 1, "a": [1]})
    captured = capsys.readouterr()
    assert captured.out == '{\n "a": [\n  1\n ],\n "b": 1\n}\n'
    assert "steiner" in captured.err
    assert "for people" in captured.err


def test_no_json_without_asking(capsys):
    Output().data({"a": 1})
    assert capsys.readouterr().out == ""


def test_progress_is_silent_without_a_terminal(capsys):
    with progress_bar(Output()) as open_bar:
        open_bar("work")("step", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_progress_shows_label_and_share():
    output, file = Output(), io.StringIO()
    output.notes = Console(file=file, width=100, force_terminal=True, color_system=None)
    with progress_bar(output) as open_bar:
        open_bar("work [x]")("step [y]", 1, 4)
    assert "work [x]" in file.getvalue()
    assert "step [y]" in file.getvalue()
    assert "25%" in file.getvalue()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (time_text(0), "0 ps"),
        (time_text(7_552_000), "7.552 us"),
        (time_text(2.5e12), "2.5 s"),
        (bytes_text(999), "999 B"),
        (bytes_text(1_113_056), "1.113 MB"),
        (rate_text(10_000_000_000), "10 Gb/s"),
        (rate_text(5), "5 b/s"),
        (share_text(0.9833), "98.33 %"),
        (share_text(None), "-"),
        (small_text(2.4e-7), "2.4e-07"),
        (small_text(None), "-"),
    ],
)
def test_units(text, expected):
    assert text == expected


@pytest.mark.parametrize("workers", [1, 8, 9, 64, 65, 200])
def test_any_number_of_ranks_has_a_topology(workers):
    topology = load(default_topology(workers))
    assert len(topology.workers) >= workers
    assert topology.servers
