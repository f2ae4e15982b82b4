"""The frame of the studies' scripts: exit codes, what is said, and that a bug stays a bug."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from p4reduce.base.errors import BadInput
from p4reduce.base.output import Output
from p4reduce.control_plane.tdm.jobs import TdmError
from p4reduce.group.errors import ClusterError
from studies.before import Claim
from studies.before_pages import OpenBar, Told, study_main, study_parser


def flags(*arguments: str) -> argparse.Namespace:
    return study_parser("poster", "says").parse_args(list(arguments))


def ends(holds: bool = True) -> Callable[[argparse.Namespace, int, Output], Told]:
    return lambda _given, result, _output: Told([Path("a.csv")], [Claim("it holds", "1", holds)], {"found": result})


def fails(error: BaseException) -> Callable[[argparse.Namespace, OpenBar], int]:
    def measure(_given: argparse.Namespace, _open_bar: OpenBar) -> int:
        raise error

    return measure


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (BadInput("--seeds: 'x'"), 2, "poster: --seeds: 'x'\n"),
        (TdmError("jobs: there is none"), 2, "poster: jobs: there is none\n"),
        (ClusterError("--dask: no scheduler answers"), 2, "poster: --dask: no scheduler answers\n"),
        (KeyboardInterrupt(), 130, "poster: stopped\n"),
    ],
)
def test_errors_are_one_line_and_a_code(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert study_main("poster", flags(), fails(error), ends()) == code
    assert capsys.readouterr().err == said


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        study_main("poster", flags(), fails(ZeroDivisionError()), ends())


@pytest.mark.parametrize("holds", [True, False])
def test_what_does_not_hold_is_a_failure(holds: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert study_main("poster", flags("--json"), lambda _given, _bar: 3, ends(holds)) == (0 if holds else 1)
    written = capsys.readouterr()
    assert json.loads(written.out) == {"found": 3}
    assert "wrote a.csv" in written.err


def test_every_study_has_the_same_flags() -> None:
    given = flags()
    assert (given.quick, given.jobs, given.dask, given.out, given.json) == (False, -1, None, Path("out/poster"), False)
