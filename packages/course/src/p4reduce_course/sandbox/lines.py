"""What the lines of a student's Python set and return during a call, as plain data."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Final

import numpy as np

MOST: Final = 4000
"""most steps that are kept, the last ones"""
_SHOWN: Final = 40
"""most characters of a value"""
_MEMBERS: Final = 3
"""most members of a list, a dict or an array that are shown"""


def trailed(function: Callable[..., Any], given: Sequence[Any], file: str) -> list[list[Any]]:
    """Calls a function; returns steps of the lines of a file.

    A step is: number of the call that it is in, of the call above (-1: none), line, line there, name, value.
    The name of what a call returns is empty; attributes of ``self`` have the name of their class before them.
    """
    steps, lines = deque[list[Any]](maxlen=MOST), _Lines(file)
    lines.steps = steps
    sys.settrace(lines.called)
    try:
        with suppress(Exception):  # its steps tell enough
            function(*given)
    finally:
        sys.settrace(None)
    return list(steps)


class _Lines:
    def __init__(self, file: str) -> None:
        self.file, self.calls = file, 0
        self.steps = deque[list[Any]]()
        self._numbers: dict[int, int] = {}  # of frames that have not ended, by id

    def called(self, frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or frame.f_code.co_filename != self.file or frame.f_code.co_name.startswith("<"):
            return None  # parts of an expression, as a comprehension, are told by its line
        above = frame.f_back
        number, parent = self.calls, -1 if above is None else self._numbers.get(id(above), -1)
        self.calls += 1
        self._numbers[id(frame)] = number
        from_ = above.f_lineno if above is not None and parent >= 0 else 0
        known, at, raised = dict(_values(frame)), frame.f_lineno, ""
        self.steps.extend([number, parent, at, from_, name, text] for name, text in known.items() if "." not in name)

        def ran(frame: FrameType, event: str, value: Any) -> Any:
            nonlocal at, raised
            for name, text in _values(frame):
                if known.get(name) != text:
                    known[name] = text
                    self.steps.append([number, parent, at, from_, name, text])
            if event == "return":
                self.steps.append([number, parent, at, from_, "", raised or shown(value)])
                self._numbers.pop(id(frame), None)
            raised = f"raises {value[0].__name__}" if event == "exception" else ""
            at = frame.f_lineno
            return ran

        return ran


def _values(frame: FrameType) -> Iterator[tuple[str, str]]:
    """Yields names and values of variables, and of attributes of ``self``."""
    for name, value in frame.f_locals.items():
        if name == "self":
            attributes = getattr(value, "__dict__", {})
            yield from ((f"{type(value).__name__}.{key}", shown(member)) for key, member in list(attributes.items()))
        else:
            yield name, shown(value)


def shown(value: Any) -> str:
    """Returns a value as a short text; an empty one for an object whose text says nothing of it."""
    if isinstance(value, np.ndarray):
        first = ", ".join(f"{number:.4g}" for number in value.reshape(-1)[:_MEMBERS].tolist())
        return f"[{first}{', ...' if value.size > _MEMBERS else ''}]"
    if isinstance(value, dict):
        parts = [f"{key!r}: {shown(member)}" for key, member in list(value.items())[:_MEMBERS]]
        text = f"{{{', '.join(parts)}{', ...' if len(value) > _MEMBERS else ''}}}"
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
