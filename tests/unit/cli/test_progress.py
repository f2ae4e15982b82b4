"""Progress bars on a terminal only, also for compilation."""

import io

from rich.console import Console

from p4reduce.base.output import Output, progress_bar
from p4switch.native import objects


def output(*, terminal):
    made = Output()
    made.notes = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    return made


def test_compiling_has_a_bar_on_a_terminal():
    shown = output(terminal=True)
    with progress_bar(shown), objects._watch[-1]() as report:
        report(0, 0)
        report(30, 40)
    text = shown.notes.file.getvalue()
    assert "compiling machine code, once" in text
    assert "75%" in text


def test_elsewhere_compiling_is_a_line(capsys):
    shown = output(terminal=False)
    with progress_bar(shown), objects._watch[-1]() as report:
        report(30, 40)
    assert shown.notes.file.getvalue() == ""
    assert capsys.readouterr().err == "compiling machine code (once, some ten seconds) …\n"


def test_who_watched_before_watches_again():
    before = list(objects._watch)
    with progress_bar(output(terminal=True)):
        assert len(objects._watch) == len(before) + 1
    assert objects._watch == before
