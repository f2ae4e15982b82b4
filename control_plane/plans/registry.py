"""Plans by name. A plan is one function from a problem to a layout."""

from collections.abc import Callable
from typing import TypeVar

from p4reduce.base.registry import Registry
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.problem import Layout, Problem

Planner = Callable[[Problem], Layout]

PLANS: Registry[Planner] = Registry("plan", PlanError)
"""Every known planner by name; :func:`register` and entry points of ``p4reduce.plans`` add to it."""


_P = TypeVar("_P", bound=Planner)


def register(name: str) -> Callable[[_P], _P]:
    """Decorator: make a planner known under ``name``.

    >>> @register("mine")  # doctest: +SKIP
    ... def mine(problem: Problem) -> Layout: ...
    """

    def add(planner: _P) -> _P:
        PLANS.add(name, planner)
        return planner

    return add


def planner(name: str) -> Planner:
    """The planner of that name; `PlanError` lists the known ones."""
    return PLANS.named(name)
