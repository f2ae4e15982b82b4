"""Pieces run by a Ray cluster: its errors, and a piece's errors, give one line. Ray is a stand-in."""

import sys
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from p4reduce.group.errors import ClusterError
from p4reduce.runs.parallel import in_parallel


class RayError(Exception):
    """Stand-in for ``ray.exceptions.RayError``."""


class RayTaskError(RayError):
    """Stand-in for a task's error: the exception is ``cause``; its own text is a traceback."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"Traceback of {cause}\nand more of it")
        self.cause = cause


def stand_in(lost: Exception | None = None) -> SimpleNamespace:
    """Run the work at once, or raise."""

    def call(function: Any, *arguments: Any) -> SimpleNamespace:
        future: Future[Any] = Future()
        try:
            if lost is not None:
                raise lost
            future.set_result(function(*arguments))
        except RayError as error:
            future.set_exception(error)
        except Exception as error:
            future.set_exception(RayTaskError(error))
        return SimpleNamespace(future=lambda: future)

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
    remote = lambda function: SimpleNamespace(remote=lambda *arguments: call(function, *arguments))  # noqa: E731
    return SimpleNamespace(init=lambda **_: None, remote=remote, exceptions=exceptions)


def square(number: int) -> int:
    if number == 13:
        raise ClusterError("thirteen")
    return number * number


def test_results_come_back_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", stand_in())
    results = {}
    in_parallel(square, [2, 3, 4], results.__setitem__, ray="auto")
    assert results == {0: 4, 1: 9, 2: 16}


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (None, r"\Athirteen\Z"),
        (RayError("It died.\n\tmore"), r"\A--ray auto: a piece was given up: It died\.; the same command goes on\Z"),
        (RayError(), "given up: RayError"),
    ],
)
def test_errors_are_one_line(monkeypatch: pytest.MonkeyPatch, lost: Exception | None, said: str) -> None:
    monkeypatch.setitem(sys.modules, "ray", stand_in(lost))
    with pytest.raises(ClusterError, match=said):
        in_parallel(square, [13], lambda *_: None, ray="auto")
