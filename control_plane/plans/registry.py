"""Plans by name. A plan is one function from a problem to a layout."""

from collections.abc import Callable
from typing import TypeVar

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.problem import Layout, Problem

Planner = Callable[[Problem], Layout]

PLANS: dict[str, Planner] = {}
"""Every known planner by name; :func:`register` adds to it."""


_P = TypeVar("_P", bound=Planner)


def register(name: str) -> Callable[[_P], _P]:
    """Decorator: make a planner known under ``name``.

    >>> @register("mine")  # doctest: +SKIP
    ... def mine(problem: Problem) -> Layout: ...
    """

    def add(planner: _P) -> _P:
        if name in PLANS:
            raise ValueError(f"there is a plan {name!r} already")
        PLANS[name] = planner
        return planner

    return add


def planner(name: str) -> Planner:
    """The planner of that name; `PlanError` lists the known ones."""
    try:
        return PLANS[name]
    except KeyError:
        raise PlanError(f"there is no plan {name!r}; choose one of {', '.join(sorted(PLANS))}") from None
