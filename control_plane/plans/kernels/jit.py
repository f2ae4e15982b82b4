"""How these algorithms are compiled: cached on disk under a key of this folder's sources."""

from pathlib import Path
from typing import Any, Final

from p4reduce.workers.jit import Decorator, compiler

kernel: Decorator = compiler(Path(__file__).parent)
"""Compiles a function of this folder."""

FAR: Final = 1 << 52
"""a distance that means: there is no way; the sum of 2,000 of them still fits"""
NEVER: Final = FAR * 1024
"""more than any tree costs"""
ONCE: Final = 1 << 48
"""added to edges of which a tree must not have more than it needs"""
Array = Any
"""Numba infers the types; callers pass NumPy arrays as the docstrings say"""
