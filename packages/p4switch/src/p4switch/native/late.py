"""What stands for Numba in modules that a process imports without Numba."""

import importlib
from collections.abc import Callable
from functools import cached_property
from typing import Any


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
