"""Writes a file that repeats the grader's calls of a student's Python, with the answers that the grader gave."""

from __future__ import annotations

from base64 import b85encode
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from zlib import compress

import numpy as np

from p4reduce_course.sandbox.messages import Remote

_LONG: Final = 200_000
"""most characters of a file that repeats calls with all their numbers"""
_SHORT: Final = 40_000
"""most characters of one without them"""
_NAMED: Final = 80
"""most characters of a question's first argument"""
_WIDE: Final = 64
"""most numbers of an array that are written one by one"""

_HEAD: Final = """\
# Repeats the grader's calls, with the answers that it gave. Run it in the folder of {module}.py.
from base64 import b85decode
from zlib import decompress

from numpy import array, frombuffer, full, inf, integer, nan, ndarray

import {module}

ANSWERS = []  # questions of a call, and what the grader answered


class Attributes:
    def __init__(self, name, **attributes):
        self.__dict__.update(attributes)
        self.name = name

    def __getattr__(self, method):
        def call(*arguments, **named):
            print(f"   {{self.name}}.{{method}}", *map(brief, arguments), *map(brief, named.values()))
            about = arguments[0] if arguments else None
            about = f" {{about}}"[:{named}] if type(about) in (str, int) or isinstance(about, integer) else ""
            if not ANSWERS or ANSWERS[0][0] != f"{{self.name}}.{{method}}{{about}}":
                print("     ", "another question than in the grading:" if ANSWERS else "here the grader ended:", "None")
                return None
            answer = ANSWERS.pop(0)[1]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def packed(text, shape, kind):
    return frombuffer(decompress(b85decode(text)), kind).reshape(shape).copy()


def brief(value):
    if isinstance(value, list | tuple) and any(isinstance(one, ndarray) for one in value):
        return "".join(f"\\n   {{place}}: {{brief(one)}}" for place, one in enumerate(value))
    if isinstance(value, ndarray) and value.size > {wide}:
        return f"{{value.size}} {{value.dtype}}, sum {{float(value.sum(dtype=float)):.9g}}: {{value.ravel()[:4]}}..."
    return value


def show(name, *arguments):
    try:
        print(name, "returned", brief(getattr({module}, name)(*arguments)))
    except Exception as error:
        print(name, "raised", repr(error))


"""


class CodeCall(NamedTuple):
    """A call of a student's function, with its questions to the grader, as `question`, and the grader's answers."""

    name: str
    arguments: Sequence[Any]
    answers: list[tuple[str, Any]]


def question(of: str, method: str, arguments: Sequence[Any]) -> str:
    """Returns the name of a question, with its first argument if that is a text or an integer."""
    about = arguments[0] if arguments else None
    return f"{of}.{method}" + (f" {about}"[:_NAMED] if type(about) in (str, int) else "")


def replay(module: str, calls: Sequence[CodeCall]) -> str:
    """Returns a Python file that repeats calls; of many numbers it has those of large arrays only by their first."""
    head = _HEAD.format(module=module, wide=_WIDE, named=_NAMED)
    exact = [_repeated(call, exact=True) for call in calls]
    if sum(map(len, exact)) <= _LONG:
        return head + "".join(exact)
    text = head
    for call in calls:
        lines = _repeated(call, exact=False)
        if len(text) + len(lines) > _SHORT:
            break
        text += lines
    return text


def _repeated(call: CodeCall, *, exact: bool) -> str:
    given = "".join(f", {_written(argument, exact)}" for argument in call.arguments)
    answers = ", ".join(f"({asked!r}, {_written(answer, exact)})" for asked, answer in call.answers)
    return f"ANSWERS[:] = [{answers}]\nshow({call.name!r}{given})\n"


def _written(value: Any, exact: bool) -> str:
    """Returns a value as Python; of a large array, if it need not be exact, only its size and its first number."""
    if isinstance(value, Remote):
        return f"Attributes({value.name!r}, **{value.attributes!r})"
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.size <= _WIDE:
        return f"array({value.tolist()!r}, {value.dtype.name!r})"
    if not exact or (value == value.flat[0]).all():
        return f"full({value.shape}, {value.flat[0].item()!r}, {value.dtype.name!r})"
    return f"packed({b85encode(compress(value.tobytes(), 9)).decode()!r}, {value.shape}, {value.dtype.name!r})"
