"""The decorators of functions that are compiled.

Machine code is kept in a folder whose name carries a hash of every source that it may contain: Numba's own cache looks
only at the file that a function stands in, and a function that inlined another file's code would go on running the old
code after that file changed (Numba documentation, "Notes on caching").
"""

import ctypes
import functools
import hashlib
import importlib
import importlib.metadata
import operator
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from p4switch.native import objects

# What stands for Numba in modules that a process imports without Numba.


class LateModule:
    """A module that is imported when the first of its names is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


class Late:
    """A global of compiled code, made when the first function that uses it is compiled."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def value(self) -> Any:
        """What it stands for."""
        return self._make()

    @property
    def _numba_type_(self) -> Any:
        """The type that Numba sees in a compiled function: that of the value."""
        from numba.core.registry import cpu_target  # noqa: PLC0415  (slow, and not needed by who runs machine code)

        value = self.value
        cpu_target.typing_context.refresh()  # an intrinsic that was made just now is known from then on
        return cpu_target.typing_context.resolve_value_type(value)


Decorator = Callable[[Callable[..., Any]], Any]
Argument = type[int] | np.dtype[Any]
"""of an entry: int64, or the address of records, or numbers, that lie behind one another"""

_PACKAGE: Final = Path(__file__).parents[1]
_DECORATES: Final = re.compile(
    r"^from \S*\b(kernels|compiler) import (\([^)]*|.*)\b(kernel|entry|Compiler)\b", re.MULTILINE
)
_IMPORTS: Final = re.compile(r"^from (\w+(?:\.\w+)+) import (\([^)]*\)|.*)", re.MULTILINE)
_NAME: Final = re.compile(r"\w+")
_DAY_S: Final = 86_400
_INT64: Final = range(-(1 << 63), 1 << 63)
_known: Final[list["Kernel"]] = []
ahead: Callable[[int], None] | None = None
"""Set in the process that makes object files, where Numba neither keeps anything on disk nor serves Python: told, for
each function that is begun, how many there are"""


def source_key(folder: Path, package: Path = _PACKAGE) -> str:
    """Sixteen hexadecimal digits that change whenever the compiler does, or a file that a folder's machine code is of.

    That is every file of the folder that takes a decorator from a folder ``kernels`` or from here, and whatever it
    imports of the folder's own package and of this one (``package``), however far: constants are compiled in. Imports
    within functions do not count.
    """
    digest = hashlib.sha256(f"{importlib.metadata.version('numba')} {objects.version()}".encode())
    for path in sorted(_sources(folder, package)):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _sources(folder: Path, package: Path) -> set[Path]:
    own = folder
    while (own.parent / "__init__.py").is_file():
        own = own.parent
    packages = {own.name: own, package.name: package}
    waiting = [path for path in folder.rglob("*.py") if _DECORATES.search(path.read_text("utf-8"))]
    found = set((package / "native").glob("*.py"))
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _imported(path, packages)
    return found


def _imported(path: Path, packages: Mapping[str, Path]) -> Iterator[Path]:
    """The files of the packages, which are given by name, that a module imports when it is imported."""
    for named, names in _IMPORTS.findall(path.read_text("utf-8")):
        first, *rest = named.split(".")
        if first not in packages:
            continue
        module = packages[first].joinpath(*rest)
        for name in _NAME.findall(names):
            places = (module / f"{name}.py", module.with_suffix(".py"), module / "__init__.py")
            yield from islice((place for place in places if place.is_file()), 1)


class Compiler:
    """Compiles functions of a folder, which may call those of others.

    Their machine code lies in ``__pycache__`` of the folder, or in ``NUMBA_CACHE_DIR`` when that is set; in the
    user's cache directory when that cannot be written, and for this process alone when neither can.
    """

    def __init__(self, folder: Path) -> None:
        self._sources = folder

    @cached_property
    def folder(self) -> Path:
        """Where machine code is kept; made when first asked for."""
        name = f"numba-{source_key(self._sources)}"
        named = os.environ.get("NUMBA_CACHE_DIR")
        for base in (Path(named) if named else self._sources / "__pycache__", Path.home() / ".cache" / "p4reduce"):
            try:
                (base / name).mkdir(parents=True, exist_ok=True)
            except OSError:
                continue
            if os.access(base / name, os.W_OK):
                _discard_old(base, base / name)
                return base / name
        return Path(tempfile.mkdtemp(prefix="p4reduce-"))

    def kernel(self, function: Callable[..., Any]) -> Any:
        """Compile a function that other compiled functions call."""
        return Kernel(self, function)

    def entry(self, *arguments: Argument) -> Decorator:
        """Compile a C function that takes these and returns an int64 (0 for None)."""
        return lambda function: Entry(self, function, arguments)


class Kernel:
    """A function that Numba compiles when the first compiled function, or Python, calls it."""

    def __init__(self, compiler: Compiler, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.compiler: Final = compiler
        self.py_func: Final = function
        _known.append(self)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's own object for it."""
        import numba  # noqa: PLC0415  (slow, and not needed by who runs machine code)

        config: Any = numba.config
        njit: Any = numba.njit
        options = {"nogil": True, "error_model": "numpy"}
        if ahead is not None:
            ahead(len(_known))
            return _for_all_numbers(
                njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, no_rewrites=True, **options)(self.py_func)
            )
        # Numba reads the setting while it decorates; what others in this process decorate stays theirs.
        before, config.CACHE_DIR = config.CACHE_DIR, str(self.compiler.folder)
        try:
            return njit(cache=True, **options)(self.py_func)
        finally:
            config.CACHE_DIR = before

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        """Call it from Python."""
        return self.dispatcher(*arguments)


class Entry(Kernel):
    """A kernel that is a C function, too; calls from Python release the interpreter's lock."""

    def __init__(self, compiler: Compiler, function: Callable[..., Any], arguments: tuple[Argument, ...]) -> None:
        super().__init__(compiler, function)
        self.arguments: Final = arguments
        self.symbol: Final = f"entry.{function.__name__}"
        objects.register(self)

    @cached_property
    def address(self) -> int:
        """Of the C function; its module is compiled and loaded now, unless it is already."""
        return objects.addresses(self.__module__, self.compiler.folder)[self.symbol]

    @cached_property
    def _call(self) -> Callable[..., int]:
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(self.arguments))(self.address)

    def __call__(self, *arguments: Any) -> int:
        """Call it from Python, with NumPy arrays where it takes addresses. An int, 0 where the function has none."""
        return self._call(*(_passed(kind, value) for kind, value in zip(self.arguments, arguments, strict=True)))


def _for_all_numbers(dispatcher: Any) -> Any:
    """Numba would compile a function once more for every constant that it is called with."""
    from numba.core.types import unliteral  # type: ignore[attr-defined]  # noqa: PLC0415  (its stub has no such name)

    template = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: template(tuple(map(unliteral, args)), kws)
    return dispatcher


def _passed(kind: Argument, value: Any) -> int:
    if isinstance(kind, np.dtype):
        if value.dtype != kind or not value.flags.c_contiguous:
            raise TypeError(f"an array of {value.dtype} was given for one of {kind}, or it is not contiguous")
        return int(value.ctypes.data)
    number = operator.index(value)
    if number not in _INT64:
        raise OverflowError(f"{number} does not fit 64 bits")
    return number


def _discard_old(base: Path, kept: Path) -> None:
    """Removes code of sources that are no more; young folders stay, another process may still be filling them."""
    for other in base.glob("numba-*"):
        if other != kept and time.time() - other.stat().st_mtime > _DAY_S:
            shutil.rmtree(other, ignore_errors=True)
