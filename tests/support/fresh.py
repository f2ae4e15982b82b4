"""Calls in a new interpreter: forks of an interpreter that has run many other tests crash now and then."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def in_a_fresh_process(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return the result of a module-level function called in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()
