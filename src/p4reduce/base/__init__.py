"""Modules that every layer may import, and that import nothing of this project.

Errors, records, what commands print, ports, signals that end a run; and packages whose names are looked up late.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def later(package: str, modules: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that imports a module when one of its names is first used.

    modules: by their names within the package, what each has.
    """
    home = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
