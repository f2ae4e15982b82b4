"""Parallel work on pieces, over cores or over machines of Dask or Ray, and the finished pieces on disk."""

import ctypes
import gc
import hashlib
import json
import logging
import multiprocessing
import os
import platform
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, TypeVar

import p4reduce
import p4switch
from p4reduce.base.output import Progress
from p4reduce.base.registry import requirements
from p4reduce.base.signals import end_with
from p4reduce.group.errors import ClusterError
from p4reduce.network.real.net.state import runs_folder
from p4switch.base.files import read_text, write_text

Item = TypeVar("Item")
Result = TypeVar("Result")

_CONNECT_S = "10s"
_GOES_ON: Final = "the same command goes on"
_KILLED: Final = f"each worker that was given a certain piece was killed; {_GOES_ON}"
_LONG_S = 2.0
_YOUNG = 200_000
"""number of new objects after which Python looks for cycles among them"""


def in_parallel(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    done: Callable[[int, Result], None],
    *,
    jobs: int = 1,
    dask: str | None = None,
    ray: str | None = None,
    progress: Progress | None = None,
    label: str = "",
) -> None:
    """Do the work of all items, and report each as it finishes.

    Parameters
    ----------
    work, items : function and its arguments
        Both must be picklable; the function is found by its name, so other machines need the same package.
    done : function
        Gets (place of the item, result) in this process, in the order in which items finish.
    jobs : int
        Processes on this machine, -1: one for each core.
    dask, ray : str or None
        Address of a Dask scheduler ('tcp://host:8786', or 'tls://host:8786' with the certificates of Dask's own
        configuration) or of a Ray cluster ('auto', 'host:6379'): its workers do the work, and ``jobs`` is ignored.
    progress, label : function and str
        Called with (label, done, total) as pieces finish.

    Raises
    ------
    ClusterError
        The scheduler does not answer or has no workers; a worker has another version of p4reduce; a process was killed.
    """
    if not items:
        return
    count = jobs if jobs > 0 else (os.cpu_count() or 1)
    if dask is None and ray is None and min(count, len(items)) == 1:
        for number, item in enumerate(items):
            done(number, work(item))
            if progress is not None:
                progress(label, number + 1, len(items))
        return
    with _executor(min(count, len(items)), dask, ray) as submit:
        futures = {submit(_piece, work, item, code_version()): number for number, item in enumerate(items)}
        try:
            for finished, future in enumerate(as_completed(futures), 1):
                done(futures[future], future.result())
                if progress is not None:
                    progress(label, finished, len(items))
        except BrokenProcessPool:
            raise ClusterError(f"a process that worked on a piece was killed; {_GOES_ON}") from None


def _piece(work: Callable[[Item], Result], item: Item, wanted: str) -> Result:
    if code_version() != wanted:
        raise ClusterError(
            f"{socket.gethostname()} has another version of p4reduce than this machine: install the same one there"
        )
    return work(item)


Submit = Callable[..., "Future[Any]"]


@contextmanager
def _executor(jobs: int, dask: str | None, ray: str | None) -> Iterator[Submit]:
    if ray is not None:
        yield _ray(ray)
    elif dask is not None:
        with _dask(dask) as submit:
            yield submit
    else:
        before = set(multiprocessing.active_children())
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(jobs, context, end_with, (os.getpid(),))
        try:
            yield pool.submit
        finally:  # pieces that wait are dropped, and pieces under way are given up
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()


@contextmanager
def _dask(address: str) -> Iterator[Submit]:
    try:
        from distributed import Client, KilledWorker  # noqa: PLC0415  (an optional extra)
        from distributed.comm import CommClosedError  # noqa: PLC0415
    except ImportError:
        raise ClusterError("--dask needs the package 'distributed': pip install 'p4reduce[dask]'") from None
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # errors are reported here, without tracebacks
    connect: Any = Client
    over, taking = threading.Event(), threading.Lock()
    try:
        client = connect(address, timeout=_CONNECT_S)
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(f"--dask {address}: no scheduler answers: {error}") from None
    try:
        if not client.scheduler_info()["workers"]:
            raise ClusterError(
                f"--dask {address}: the scheduler has no workers; start some with 'dask worker {address}'"
            )

        def submit(function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
            ours: Future[Any] = Future()

            def take(theirs: Any) -> None:
                with taking:
                    if over.is_set():  # a closing client gives no results, and would wait for this
                        return
                    try:
                        ours.set_result(theirs.result())
                    except KilledWorker:
                        ours.set_exception(ClusterError(f"--dask {address}: {_KILLED}"))
                    except (CancelledError, CommClosedError):
                        ours.set_exception(ClusterError(f"--dask {address}: the scheduler is gone; {_GOES_ON}"))
                    except BaseException as error:  # any error of the piece, as the caller waits for it
                        ours.set_exception(error)
                    theirs.release()  # otherwise it is repeated if the worker that did it is lost

            client.submit(function, *arguments, pure=False).add_done_callback(take)
            return ours

        yield submit
    finally:
        over.set()
        with taking:
            client.close()


def _ray(address: str) -> Submit:
    try:
        import ray  # noqa: PLC0415  (an optional extra)
    except ImportError:
        raise ClusterError("--ray needs the package 'ray': pip install 'p4reduce[ray]'") from None
    try:
        ray.init(address=address, log_to_driver=False, ignore_reinit_error=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise ClusterError(f"--ray {address}: no cluster answers: {error}") from None

    def submit(function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        ours: Future[Any] = Future()

        def take(theirs: "Future[Any]") -> None:
            try:
                ours.set_result(theirs.result())
            except ray.exceptions.RayTaskError as error:  # of the piece; its text would be a traceback
                ours.set_exception(error.cause)
            except ray.exceptions.RayError as error:
                why = next(iter(str(error).splitlines()), type(error).__name__)
                ours.set_exception(ClusterError(f"--ray {address}: a piece was given up: {why}; {_GOES_ON}"))

        ray.remote(function).remote(*arguments).future().add_done_callback(take)
        return ours

    return submit


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """Collect garbage rarely during a piece, as hundreds of thousands of table entries hold no cycles.

    After a long piece, memory is returned to the system.
    """
    began = time.process_time()
    before = gc.get_threshold()
    gc.set_threshold(_YOUNG, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if time.process_time() - began > _LONG_S:
            gc.collect()
            with suppress(AttributeError, OSError):  # only in glibc
                ctypes.CDLL(None).malloc_trim(0)


# Finished pieces are kept, so that killed work can be resumed, and machines can share it.


@cache
def code_version(*more: Path) -> str:
    """Return a digest of what determines results: this project's files, those in ``more``, and NumPy's version."""
    digest = hashlib.sha256(version("numpy").encode())
    for folder in (Path(p4reduce.__file__).parent, Path(p4switch.__file__).parent, *more):
        for place, folders, files in os.walk(folder, followlinks=True):
            folders.sort()
            for name in sorted(files):
                if name.endswith((".py", ".p4", ".json")):
                    digest.update(f"{name}\0".encode() + (Path(place) / name).read_bytes())
    return digest.hexdigest()[:12]


class Kept:
    """Files below ``cells/`` of a folder of results, one for each finished piece.

    Files of other versions are removed.

    Parameters
    ----------
    out : Path
        Folder of results.
    code : str
        The version that pieces must have.
    others : sequence of Path
        Further folders of results whose pieces are used.
    """

    def __init__(self, out: Path, code: str, others: Sequence[Path] = ()) -> None:
        self._folder = out / "cells" / code
        self._read = [self._folder, *(other / "cells" / code for other in others)]
        for old in (out / "cells").glob("?" * 12):
            if old != self._folder:
                shutil.rmtree(old, ignore_errors=True)

    def get(self, name: str, read: Callable[[Any], Result]) -> Result | None:
        """Return what ``read`` makes of a piece's file; None if the piece is unfinished, or its file unreadable."""
        for folder in self._read:
            with suppress(OSError, ValueError, LookupError, TypeError):
                return read(json.loads(read_text(folder / f"{name}.json")))
        return None

    def put(self, name: str, data: Any) -> None:
        """Keep a piece, atomically."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_text(self._folder / f"{name}.json", json.dumps(data) + "\n")


def piece_name(prefix: str, piece: object) -> str:
    """Return a name for a piece's file; pieces with equal ``repr`` have equal names."""
    return f"{prefix}-{hashlib.sha256(repr(piece).encode()).hexdigest()[:24]}"


# The equipment of a machine that works on pieces, or on which ranks run.


LEAST_FREE: Final = 64 << 20
"""bytes that must be free on the disks of runs, of temporary files and of machine code"""


@dataclass(frozen=True)
class MachineSoftware:
    """The software of a machine, which may differ from the launcher's."""

    python: str
    numpy: str
    cpu: str
    """CPU architecture"""
    code: str
    """digest of p4reduce's own files"""
    missing: tuple[str, ...]
    """missing distributions that p4reduce requires"""


def installed() -> MachineSoftware:
    """Return this machine's software."""
    known: dict[str, str] = {}
    for name in requirements():
        with suppress(PackageNotFoundError):
            known[name] = version(name)
    missing = tuple(name for name in requirements() if name not in known)
    return MachineSoftware(
        platform.python_version(), known.get("numpy", ""), platform.machine(), code_version(), missing
    )


def no_room() -> tuple[str, ...]:
    """Return the folders of this machine that cannot be written to, with the reasons."""
    from p4switch.compiler.jit import cache_directory  # noqa: PLC0415  (slow to import)

    faults = []
    for wanted in (runs_folder(), Path(tempfile.gettempdir()), cache_directory()):
        place = next(path for path in (wanted, *wanted.parents) if path.exists())
        disk = os.statvfs(place)
        if not os.access(place, os.W_OK):
            faults.append(f"{place} is not writable: make it so, or name another folder")
        elif (free := disk.f_bavail * disk.f_frsize) < LEAST_FREE or (disk.f_files and not disk.f_favail):
            faults.append(f"{place}: {free >> 20} MiB are free, and {disk.f_favail} files: make room there")
    return tuple(dict.fromkeys(faults))
