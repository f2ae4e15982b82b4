"""What the lines of a student's Python set and return during a call, as plain data."""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np

MOST: Final = 8000
"""most steps that are kept, the last ones"""
_SHOWN: Final = 40
"""most characters of a value"""
_FEW: Final = 32
_STATE: Final = 80
"""most members, and characters of each, by which values are told apart"""
_WIDE: Final = 60
"""most characters of a dict"""
_MEMBERS: Final = 3
"""most members of a list, a dict or an array that are shown"""


_ASKS: Final = "Stub.__getattr__.<locals>.call"
"""the function of ``sandbox.child`` that asks the grader"""
IF: Final = "<if>"
"""name of a step that tells whether the condition in a line is true"""
MODULE: Final = "module"
"""stands before the names of variables of the module that hold something"""
ENTRY: Final = "<entry>"
"""name of a step in which a function made an entry for a switch; its value is the entry's number"""


class Over(BaseException):
    """Ends a call that is repeated, where the grader ended the first one; code that catches exceptions passes it on."""


def trailed(function: Callable[..., Any], given: Sequence[Any], file: str) -> list[list[Any]]:
    """Calls a function; returns steps of the lines of a file.

    A step is: number of the call that it is in, of the call above (-1: none), line, line there, name, value.
    The name of what a call returns is empty; attributes of ``self`` have the name of their class before them. `MODULE`
    stands before variables of the module. Names of
    other steps are in angle brackets: `IF`, `ENTRY`, and calls of the grader's objects, as ``<p4rt.insert>``. Their
    values tell the arguments; for each entry of a call: switch, number of the entry (-1: no function made it), key.
    """
    steps, lines = deque[list[Any]](maxlen=MOST), _Lines(file)
    lines.steps = steps
    sys.settrace(lines.called)
    try:
        with suppress(Exception, Over):  # its steps tell enough
            function(*given)
    finally:
        sys.settrace(None)
    return list(steps)


class _Lines:
    def __init__(self, file: str) -> None:
        self.file, self.calls = file, 0
        self.steps = deque[list[Any]]()
        self._numbers: dict[int, int] = {}  # of frames that have not ended, by id
        self._places: list[tuple[int, int]] = []  # for each call, that above, and the line there
        self._entries: list[Any] = []  # kept, so that no other object gets their id
        self._tests = _tests_of(file)
        self._module: dict[str, str] = {}  # states of its variables

    def called(self, frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or frame.f_code.co_name.startswith("<"):
            return None  # parts of an expression, as a comprehension, are told by its line
        above = self._above(frame)
        if frame.f_code.co_filename != self.file:
            if above is not None and frame.f_code.co_qualname == _ASKS:
                self._asks(above, frame.f_locals)
            return None
        number, parent = self.calls, -1 if above is None else self._numbers[id(above)]
        self.calls += 1
        self._numbers[id(frame)] = number
        from_ = above.f_lineno if above is not None else 0
        self._places.append((parent, from_))
        known, at, raised = dict[str, str](), frame.f_lineno, ""
        for name, text, state in _values(frame):
            known[name] = state
            if "." not in name:
                self.steps.append([number, parent, at, from_, name, text])

        def ran(frame: FrameType, event: str, value: Any) -> Any:
            nonlocal at, raised
            for name, text, state in _values(frame):
                if known.get(name) != state:
                    known[name] = state
                    self.steps.append([number, parent, at, from_, name, text])
            for name, text, state in _held(frame):
                if self._module.get(name) != state:
                    if name in self._module:
                        self.steps.append([number, parent, at, from_, name, text])
                    self._module[name] = state
            if at in self._tests and (event == "line" or (event == "return" and not raised)):
                last, body, end = self._tests[at]
                if event == "return" or not at <= frame.f_lineno <= last or body == at:
                    inside = body == at if event == "return" else body <= frame.f_lineno <= end
                    self.steps.append([number, parent, at, from_, IF, str(inside).lower()])
            if event == "return":
                self.steps.append([number, parent, at, from_, "", raised or shown(value)])
                self._numbers.pop(id(frame), None)
                if parent >= 0 and isinstance(value, dict) and ("match" in value or "replicas" in value):
                    self._entries.append(value)
                    self.steps.append([parent, self._places[parent][0], from_, self._places[parent][1], ENTRY,
                                       str(len(self._entries) - 1)])  # fmt: skip
            raised = f"raises {value[0].__name__}" if event == "exception" else ""
            at = frame.f_lineno
            return ran

        return ran

    def _above(self, frame: FrameType) -> FrameType | None:
        """Returns the frame of the file that called another one; that of a comprehension is the one around it."""
        above = frame.f_back
        while above is not None and above.f_code.co_filename == self.file and above.f_code.co_name.startswith("<"):
            above = above.f_back
        return above if above is not None and id(above) in self._numbers else None

    def _asks(self, above: FrameType, given: Mapping[str, Any]) -> None:
        """Notes a call of an object of the grader."""
        number = self._numbers[id(above)]
        parent, from_ = self._places[number]
        name, arguments = f"<{vars(given['self']).get('_Stub__name')}.{given['method']}>", given.get("arguments", ())
        entries = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], list) else []
        numbers = {id(entry): place for place, entry in enumerate(self._entries)}
        texts = [f"{arguments[0]} {numbers.get(id(entry), -1)} {_key(entry)}" for entry in entries]
        for text in texts or [shown(tuple(arguments))]:
            self.steps.append([number, parent, above.f_lineno, from_, name, text])


def _tests_of(file: str) -> dict[int, tuple[int, int, int]]:
    """Returns, by each line of a condition, its last line, and the first and the last line of what it lets run."""
    tests: dict[int, tuple[int, int, int]] = {}
    with suppress(OSError, SyntaxError, ValueError, RecursionError):
        for node in ast.walk(ast.parse(Path(file).read_text("utf-8"))):
            if isinstance(node, ast.If | ast.While):
                last = node.test.end_lineno or node.lineno
                block = node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno
                tests |= dict.fromkeys(range(node.lineno, last + 1), (last, *block))
    return tests


def _key(entry: Any) -> str:
    """Returns what tells an entry from others of its switch: its table and the numbers of its match, or its group."""
    with suppress(Exception):
        if "group" in entry:
            return f"group {entry['group']}"
        return f"{entry['table']} {','.join(map(str, sorted(entry['match'].values())))}"
    return ""


def _values(frame: FrameType) -> Iterator[tuple[str, str, str]]:
    """Yields names, values and states of variables, and of attributes of ``self``; states tell values apart."""
    for name, value in frame.f_locals.items():
        if name == "self":
            for key, member in list(getattr(value, "__dict__", {}).items()):
                text = shown(member)
                yield f"{type(value).__name__}.{key}", text, _state(member, text)
        else:
            text = shown(value)
            yield name, text, _state(value, text)


def _held(frame: FrameType) -> Iterator[tuple[str, str, str]]:
    """Yields names, values and states of what a module holds, as far as a function uses it."""
    for name in frame.f_code.co_names:
        value = frame.f_globals.get(name)
        if isinstance(value, dict | list | set):
            members = value.values() if isinstance(value, dict) else value
            if not all(map(shown, islice(members, 1))):
                continue  # objects, whose attributes are told where they are set
            text = shown(value)
            yield f"{MODULE}.{name}", text, _state(value, text)


def _state(value: Any, text: str) -> str:
    """Returns a text that tells a value from others: of what holds others, also the sizes of these."""
    if isinstance(value, dict):
        return f"{len(value)} {[(_brief(key), _brief(member)) for key, member in islice(value.items(), _FEW)]}"
    if isinstance(value, list | tuple | set):
        return f"{len(value)} {[_brief(member) for member in islice(value, _FEW)]}"
    return text


def _brief(member: Any) -> str:
    if isinstance(member, str | int | float | None):
        return f"{member!r:.{_STATE}}"
    if isinstance(member, tuple) and len(member) <= _MEMBERS:
        return f"{[_brief(inner) for inner in member]}"
    return f"{len(member)}" if isinstance(member, dict | list | tuple | set) else shown(member)


def shown(value: Any) -> str:
    """Returns a value as a short text; an empty one for an object whose text says nothing of it."""
    if isinstance(value, np.ndarray):
        first = ", ".join(f"{number:.4g}" for number in value.reshape(-1)[:_MEMBERS].tolist())
        return f"[{first}{', ...' if value.size > _MEMBERS else ''}]"
    if isinstance(value, dict):
        parts = [f"{key!r}: {shown(member)}" for key, member in list(value.items())[:_MEMBERS]]
        text = f"{{{', '.join(parts)}{', ...' if len(value) > _MEMBERS else ''}}}"
        return text if len(text) <= _WIDE else f"{text[: _WIDE - 3]}..."
    elif isinstance(value, list | tuple):
        inner = ", ".join(map(shown, value[:_MEMBERS])) + (", ..." if len(value) > _MEMBERS else "")
        text = f"[{inner}]" if isinstance(value, list) else f"({inner})"
    elif isinstance(value, np.generic):
        return shown(value.item())
    elif isinstance(value, float):
        text = f"{value:.6g}"
    else:
        text = f"{value!r}"
    if " at 0x" in text:
        return ""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
