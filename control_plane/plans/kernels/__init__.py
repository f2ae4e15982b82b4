"""Compiled graph algorithms on arrays: nodes and arcs are numbers, weights are integers; independent of topologies.

Small networks are planned in plain Python, which is faster for them than starting the compiler. Compiled code is cached
on disk under a key of this folder's sources. Compiling everything once takes half a minute of processor time; in plain
Python the same functions plan a job on some ten switches in milliseconds.
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
"""number of switches up to which planning runs in plain Python"""
ENOUGH_S: Final = 1.0
"""processor time in s that a process spends in plain Python before it compiles or loads machine code"""
FAR: Final = 1 << 52
"""distance that means that there is no path; the sum of 2,000 of them still fits into 64 bits"""
NEVER: Final = FAR * 1024
"""more than the cost of any tree"""
ONCE: Final = 1 << 48
"""penalty on edges of which a tree must have as few as possible"""
Array = Any
"""Numba infers the types; callers pass NumPy arrays as the docstrings say"""

_spent_s = [0.0]


def at_once() -> None:
    """Use machine code in this process from the first call on, for networks of any size."""
    _spent_s[0] = math.inf


@functools.cache
def plain(compiled: Any) -> Callable[..., Any]:
    """A kernel in plain Python, including every kernel that it calls, with the same arguments and results."""
    function: types.FunctionType = compiled.py_func
    namespace = {**function.__globals__}
    interpreted = types.FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)
    for name in function.__code__.co_names:
        other = namespace.get(name)
        if other is not None and hasattr(other, "py_func"):
            namespace[name] = interpreted if other is compiled else plain(other)
    return interpreted


def sized(compiled: Any, switches: int) -> Callable[..., Any]:
    """A kernel for a network with this number of switches: plain Python for a small network, else machine code.

    After ``ENOUGH_S`` in plain Python, a process uses machine code for small networks as well.
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
