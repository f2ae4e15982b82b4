"""The real-time soak of kills strikes the intended processes."""

import subprocess

import pytest

from tests.support.kills import session, strikes


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["-m", session.MODULE], True),
        (["-m", strikes.SESSION], True),
        (["-m", session.MODULE, "launch", "-n", "5", "python", "-m", "tests.support.kills.played"], False),
        (["-m", "tests.support.kills.played", "folder", "1"], False),
    ],
)
def test_a_session_is_told_from_what_launches_it_and_from_its_ranks(words, meant):
    waits = ["sh", "-c", "echo; read rest", "sh", *words]
    with subprocess.Popen(waits, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()  # the process has executed its program
        assert strikes.is_session(process.pid) is meant
