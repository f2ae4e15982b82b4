"""Pieces of work over cores, or over machines that a Dask scheduler knows."""

import ctypes
import gc
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import joblib

from p4reduce.base.output import Progress
from p4reduce.base.signals import end_with
from p4reduce.group.errors import ClusterError

Item = TypeVar("Item")
Result = TypeVar("Result")

_CONNECT_S = "10s"
_LONG_S = 0.5
_YOUNG = 200_000
"""objects after which Python looks for cycles among them"""


def in_parallel(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    done: Callable[[int, Result], None],
    *,
    jobs: int = 1,
    dask: str | None = None,
    progress: Progress | None = None,
    label: str = "",
) -> None:
    """Do the work of every item, and tell of each as it finishes.

    Parameters
    ----------
    work, items : function and its arguments
        Both must be picklable; the function is found by its name, so other machines need the same package.
    done : function
        Told (place of the item, result) in this process, in the order in which items finish.
    jobs : int
        Processes on this machine, -1: one for each core.
    dask : str or None
        Address of a Dask scheduler ('tcp://host:8786'): its workers do the work, ``jobs`` does not matter.
    progress, label : function and str
        Told (label, done, total) as pieces finish.
    """
    if not items:
        return
    master = None if dask else os.getpid()
    numbered = [joblib.delayed(_numbered)(work, number, item, master) for number, item in enumerate(items)]
    with _backend(dask), warnings.catch_warnings():
        # joblib starts a process anew when its memory has grown, between two pieces: nothing is lost.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
        # A worker of Dask takes one piece at a time; its cores are its own business.
        parallel = joblib.Parallel(
            n_jobs=-1 if dask else jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="all"
        )
        for count, (number, result) in enumerate(parallel(numbered), 1):
            done(number, result)
            if progress is not None:
                progress(label, count, len(items))


def _numbered(work: Callable[[Item], Result], number: int, item: Item, master: int | None = None) -> tuple[int, Result]:
    """``master``: the process that this one must not outlive."""
    if master is not None and master != os.getpid():
        end_with(master)
    return number, work(item)


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """While a piece is worked on: table entries by the hundred thousand hold no cycles worth looking for.

    At the end of one that took long memory goes back to the system, or joblib takes what the allocator keeps for a
    leak.
    """
    began = time.perf_counter()
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_YOUNG, 50, 100)
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
        if time.perf_counter() - began > _LONG_S:
            gc.collect()
            _trim()


def _trim() -> None:
    with suppress(AttributeError, OSError):  # only in glibc
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def _backend(dask: str | None) -> Iterator[None]:
    if dask is None:
        yield
        return
    try:
        from distributed import Client  # noqa: PLC0415  (an optional extra)
    except ImportError:
        raise ClusterError("--dask needs the package 'distributed': pip install 'p4reduce[dask]'") from None
    connect: Any = Client
    try:
        client = connect(dask, timeout=_CONNECT_S)
    except (OSError, ValueError) as error:
        raise ClusterError(f"--dask {dask}: no scheduler answers: {error}") from None
    try:
        if not client.scheduler_info()["workers"]:
            raise ClusterError(f"--dask {dask}: the scheduler has no workers; start some with 'dask worker {dask}'")
        with joblib.parallel_config("dask"):
            yield
    finally:
        client.close()
