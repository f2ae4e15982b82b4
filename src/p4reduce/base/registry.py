"""Objects by name: those of this package, and those that other distributions add by entry points."""

import importlib.metadata
import re
from collections.abc import Collection, Iterator, MutableMapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from p4reduce.base.errors import BadInput

# The distributions that this package requires, by its own metadata.


def requirements() -> tuple[str, ...]:
    """Return the names of the distributions that p4reduce requires, without extras; empty if it is not installed."""
    try:
        lines = importlib.metadata.requires("p4reduce") or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    return tuple(sorted(re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines if "extra ==" not in line))


def group_of(kind: str) -> str:
    """Return the entry point group of a kind: for 'fast plan' p4reduce.fast_plans."""
    plural = kind.removesuffix("y") + "ies" if kind.endswith("y") else f"{kind}s"
    return f"p4reduce.{plural.replace(' ', '_')}"


def entry_points_of(kind: str) -> dict[str, EntryPoint]:
    """Return the entry points of other distributions for a kind, by name."""
    return {point.name: point for point in entry_points(group=group_of(kind))}


class RegistryNames(Collection[str]):
    """The names in a `Registry`, known without importing the objects."""

    def __init__(self, kind: str, *own: str) -> None:
        """Make the collection. ``own``: names of this package."""
        self._kind = kind
        self._own = own

    @cached_property
    def _all(self) -> frozenset[str]:
        return frozenset((*self._own, *entry_points_of(self._kind)))

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._all

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._all))

    def __len__(self) -> int:
        return len(self._all)

    def check(self, name: str, flag: str) -> str:
        """Return the name; raise `BadInput` if it is unknown. ``flag``: for the error."""
        if name not in self:
            raise BadInput(f"{flag}: there is no {self._kind} {name!r}; choose one of {', '.join(self)}")
        return name


_T = TypeVar("_T")


class Registry(MutableMapping[str, _T], Generic[_T]):
    """Objects registered here, and entry points of installed distributions in a group of the same kind, by name.

    An entry point is loaded when its name is requested. It never replaces a name that is registered here.
    """

    def __init__(self, kind: str, error: type[Exception]) -> None:
        """``kind``: 'plan' for the group ``p4reduce.plans``, 'fast plan' for ``p4reduce.fast_plans``.

        ``error``: class of the errors to raise; their texts name the fix.
        """
        self._kind = kind
        self._error = error
        self._own: dict[str, _T] = {}

    def add(self, name: str, thing: _T) -> None:
        """Register an object. Raises ``ValueError`` if the name is taken."""
        if name in self._own:
            raise ValueError(f"there is a {self._kind} {name!r} already")
        self._own[name] = thing

    def named(self, name: str) -> _T:
        """Return the object of that name. Raises the registry's error, which lists the known ones."""
        try:
            return self[name]
        except KeyError:
            raise self._error(f"there is no {self._kind} {name!r}; choose one of {', '.join(sorted(self))}") from None

    @property
    def group(self) -> str:
        """Return the entry point group."""
        return group_of(self._kind)

    @cached_property
    def _others(self) -> dict[str, EntryPoint]:
        return entry_points_of(self._kind)

    def __getitem__(self, name: str) -> _T:
        if name not in self._own:
            point = self._others[name]
            try:
                loaded: _T = point.load()
            except Exception as error:
                distribution = "?" if point.dist is None else point.dist.name
                raise self._error(
                    f"{self._kind} {name!r} of the distribution {distribution!r} ({point.value}) cannot be loaded: "
                    f"{type(error).__name__}: {error}; mend or uninstall it"
                ) from error
            self._own.setdefault(name, loaded)  # importing its module may have registered it
        return self._own[name]

    def __setitem__(self, name: str, thing: _T) -> None:
        self._own[name] = thing

    def __delitem__(self, name: str) -> None:
        del self._own[name]

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._others

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from (name for name in self._others if name not in self._own)

    def __len__(self) -> int:
        return len(self._own.keys() | self._others.keys())
