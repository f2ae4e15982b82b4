"""A call in a new interpreter: forks of one that has run many other tests crash now and then."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def in_a_fresh_process(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What a function of a module returns there."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()
