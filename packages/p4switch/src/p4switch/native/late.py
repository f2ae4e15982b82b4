"""Modules that are imported when they are first needed."""

import importlib
from typing import Any


class LateModule:
    """Imports a module when one of its names is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)
