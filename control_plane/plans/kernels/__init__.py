"""Compiled graph algorithms on arrays: nodes and arcs are numbers, weights integers; nothing knows of topologies.

How they are compiled, and when: on small networks they are done before a compiler would have begun.
Compiled code is cached on disk under a key of this folder's sources. Compiling all of it takes half a minute of a
processor, once; as plain Python the same functions plan a job on some ten switches in milliseconds.
"""

import functools
import math
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from p4switch.native.compiler import Compiler, Decorator

kernel: Decorator = Compiler(Path(__file__).parent).kernel
"""Compiles a function of this folder."""

SMALL: Final = 100
"""switches up to which planning runs as plain Python"""
ENOUGH_S: Final = 1.0
"""of a processor: what a process spends on plain Python before it has machine code made, or loaded"""
FAR: Final = 1 << 52
"""a distance that means: there is no way; the sum of 2,000 of them still fits"""
NEVER: Final = FAR * 1024
"""more than any tree costs"""
ONCE: Final = 1 << 48
"""added to edges of which a tree must not have more than it needs"""
Array = Any
"""Numba infers the types; callers pass NumPy arrays as the docstrings say"""

_spent_s = [0.0]


def at_once() -> None:
    """Have machine code serve this process from its first call on, on networks of any size."""
    _spent_s[0] = math.inf


@functools.cache
def plain(compiled: Any) -> Callable[..., Any]:
    """A kernel as plain Python, and so every kernel that it calls. Same arguments, same results."""
    function: types.FunctionType = compiled.py_func
    namespace = {**function.__globals__}
    found = types.FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)
    for name in function.__code__.co_names:
        other = namespace.get(name)
        if other is not None and hasattr(other, "py_func"):
            namespace[name] = found if other is compiled else plain(other)
    return found


def sized(compiled: Any, switches: int) -> Callable[..., Any]:
    """A kernel for a network of so many switches: plain Python on a small one, machine code on others.

    A process that goes on planning is served by machine code, too, once plain Python has cost it ``ENOUGH_S``.
    """
    if switches > SMALL or _spent_s[0] > ENOUGH_S:
        return compiled  # type: ignore[no-any-return]
    function = plain(compiled)

    def run(*arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return function(*arguments)
        finally:
            _spent_s[0] += time.thread_time() - began

    return run
