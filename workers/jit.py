"""``kernel``: compile a function with Numba, cached on disk under a key of every source that it may have inlined.

Numba's own cache looks only at the file that a function stands in. A function that inlined another file's code
would go on running the old code after that file changed (numba documentation, "Notes on caching": "it does not take
into account changes of functions that live in other files"). So the cache directory carries a hash of all sources
of the given folders.
"""

import hashlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

config: Any = numba.config
_DAY_S = 86_400
Decorator = Callable[[Callable[..., Any]], Any]


def source_key(*folders: Path) -> str:
    """Sixteen hexadecimal digits that change whenever a Python file of these folders does."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _discard_old(base: Path, kept: Path) -> None:
    """Removes caches of sources that are no more; young ones stay, another process may still be filling them."""
    for other in base.glob("numba-*"):
        if other != kept and time.time() - other.stat().st_mtime > _DAY_S:
            shutil.rmtree(other, ignore_errors=True)


def compiler(*folders: Path) -> Decorator:
    """A decorator that compiles functions of ``folders[0]``, which may call those of the other folders.

    The cache lies in ``__pycache__/numba-<key>`` of the first folder, below ``NUMBA_CACHE_DIR`` when that is set,
    and in the user's cache directory when the folder is read-only.
    """
    key = source_key(*folders)
    base = Path(config.CACHE_DIR) if config.CACHE_DIR else folders[0] / "__pycache__"
    try:
        (base / f"numba-{key}").mkdir(parents=True, exist_ok=True)
    except OSError:
        base = Path.home() / ".cache" / "p4reduce"
    directory = base / f"numba-{key}"
    _discard_old(base, directory)
    compile_ = numba.njit(cache=True, nogil=True, error_model="numpy")

    def kernel(function: Callable[..., Any]) -> Any:
        # Numba reads the setting while it decorates; what others in this process decorate stays theirs.
        before = config.CACHE_DIR
        config.CACHE_DIR = str(directory)
        try:
            return compile_(function)
        finally:
            config.CACHE_DIR = before

    return kernel


kernel: Decorator = compiler(Path(__file__).parent)
"""Compiles a function of ``p4reduce.workers``."""
