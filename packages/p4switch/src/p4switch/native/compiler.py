"""The decorators of compiled functions.

Machine code is kept in a folder whose name holds a hash of every source that it may contain. Numba's own cache checks
only the file in which a function is defined: a function that has inlined code of another file would go on running
the old code after that file changes (Numba documentation, "Notes on caching").
"""

import ctypes
import functools
import hashlib
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

# Placeholders in modules that a process imports without Numba.


class Late:
    """A global of compiled code, which is made when the first function that uses it is compiled."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def value(self) -> Any:
        """The object that the placeholder stands for."""
        return self._make()

    @property
    def _numba_type_(self) -> Any:
        """The type that Numba sees in compiled functions: that of ``value``."""
        from numba.core.registry import cpu_target  # noqa: PLC0415  (slow, and not needed to run machine code)

        value = self.value
        cpu_target.typing_context.refresh()  # makes an intrinsic known that was made just now
        return cpu_target.typing_context.resolve_value_type(value)


Decorator = Callable[[Callable[..., Any]], Any]
Argument = type[int] | np.dtype[Any]
"""type of an entry's argument: int64, or the address of an array of numbers or records"""

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
"""Set only in the process that makes object files, where Numba neither caches on disk nor serves Python. Called with
the number of known functions whenever the compilation of a function begins"""


def source_key(folder: Path, package: Path = _PACKAGE) -> str:
    """Return sixteen hexadecimal digits that change with the compiler and with every source of a folder's machine code.

    The sources are the files of the folder that import a decorator from here or from a folder ``kernels``, and all that
    they import, directly or not, from the folder's own package and from this one (``package``), because constants are
    compiled in. Imports within functions do not count.
    """
    from importlib.metadata import version  # noqa: PLC0415  (slow, and not needed where no machine code runs)

    digest = hashlib.sha256(f"{version('numba')} {objects.version()}".encode())
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
    sources = set((package / "native").glob("*.py"))
    while waiting:
        path = waiting.pop()
        if path not in sources:
            sources.add(path)
            waiting += _imported(path, packages)
    return sources


def _imported(path: Path, packages: Mapping[str, Path]) -> Iterator[Path]:
    """Yields the files of the packages (given by name) that a module imports; not those imported within functions."""
    for named, names in _IMPORTS.findall(path.read_text("utf-8")):
        first, *rest = named.split(".")
        if first not in packages:
            continue
        module = packages[first].joinpath(*rest)
        for name in _NAME.findall(names):
            places = (module / f"{name}.py", module.with_suffix(".py"), module / "__init__.py")
            yield from islice((place for place in places if place.is_file()), 1)


class Compiler:
    """Compiles the functions of a folder, which may call functions of other folders.

    Machine code lies in ``__pycache__`` of the folder, or in ``NUMBA_CACHE_DIR`` if that is set. If this cannot be
    written, it lies in the user's cache directory; if that cannot be written either, in a temporary folder.
    """

    def __init__(self, folder: Path) -> None:
        self._sources = folder

    @cached_property
    def folder(self) -> Path:
        """The folder of machine code; made at the first access."""
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
        """Decorates a function that other compiled functions call."""
        return Kernel(self, function)

    def entry(self, *arguments: Argument) -> Decorator:
        """Decorates a C function with these types of arguments, which returns an int64 (0 for None)."""
        return lambda function: Entry(self, function, arguments)


class Kernel:
    """A function that Numba compiles when Python or another compiled function first calls it."""

    def __init__(self, compiler: Compiler, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.compiler: Final = compiler
        self.py_func: Final = function
        _known.append(self)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher of this function."""
        import numba  # noqa: PLC0415  (slow, and not needed to run machine code)

        config: Any = numba.config
        njit: Any = numba.njit
        options = {"nogil": True, "error_model": "numpy"}
        if ahead is not None:
            ahead(len(_known))
            return _for_all_numbers(
                njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, no_rewrites=True, **options)(self.py_func)
            )
        # Numba reads the setting in its decorator; other users of Numba in this process keep their setting.
        before, config.CACHE_DIR = config.CACHE_DIR, str(self.compiler.folder)
        try:
            return njit(cache=True, **options)(self.py_func)
        finally:
            config.CACHE_DIR = before

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        """Calls the function from Python."""
        return self.dispatcher(*arguments)


class Entry(Kernel):
    """A kernel that is also a C function; calls from Python release the interpreter's lock."""

    def __init__(self, compiler: Compiler, function: Callable[..., Any], arguments: tuple[Argument, ...]) -> None:
        super().__init__(compiler, function)
        self.arguments: Final = arguments
        self.symbol: Final = f"entry.{function.__name__}"
        objects.register(self)

    @cached_property
    def address(self) -> int:
        """Address of the C function; the first access loads its module, and compiles it if necessary."""
        return objects.addresses(self.__module__, self.compiler.folder)[self.symbol]

    @cached_property
    def _call(self) -> Callable[..., int]:
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(self.arguments))(self.address)

    def __call__(self, *arguments: Any) -> int:
        """Calls the function from Python, with arrays for addresses. Returns an int; 0 if the function returns None."""
        return self._call(*(_passed(kind, value) for kind, value in zip(self.arguments, arguments, strict=True)))


def _for_all_numbers(dispatcher: Any) -> Any:
    """Makes Numba compile once for all numbers; by default it compiles again for each constant argument."""
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
    """Removes code of other sources that is over a day old; another process may still be filling younger folders."""
    for other in base.glob("numba-*"):
        if other != kept and time.time() - other.stat().st_mtime > _DAY_S:
            shutil.rmtree(other, ignore_errors=True)
