"""How this package's compiled code is made: cached on disk under a key of every source it may contain."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import types

from p4reduce.workers.jit import Decorator, compiler, source_key

_config: Any = numba.config
_FOLDER = Path(__file__).parent
_SOURCES = (_FOLDER, _FOLDER.parent / "workers")

kernel: Decorator = compiler(*_SOURCES)
"""Compiles a function of ``p4reduce.fabric``."""


def callback(arguments: int) -> Decorator:
    """A decorator that makes a C function of ``arguments`` int64 that returns an int64, with an ``.address``.

    Addresses of memory travel as int64 too. Cached beside what ``kernel`` compiles.
    """
    signature = types.int64(*[types.int64] * arguments)
    base = Path(_config.CACHE_DIR) if _config.CACHE_DIR else _FOLDER / "__pycache__"
    directory = base / f"numba-{source_key(*_SOURCES)}"
    if not directory.is_dir():
        directory = Path.home() / ".cache" / "p4reduce" / directory.name

    def decorate(function: Callable[..., Any]) -> Any:
        before = _config.CACHE_DIR
        _config.CACHE_DIR = str(directory)
        try:
            return numba.cfunc(signature, cache=True, error_model="numpy")(function)
        finally:
            _config.CACHE_DIR = before

    return decorate
