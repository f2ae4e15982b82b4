"""Pieces of work over cores, or over machines that a Dask scheduler knows."""

import csv
import ctypes
import dataclasses
import gc
import math
import os
import signal
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import joblib
import matplotlib as mpl
from matplotlib.figure import Figure

from p4reduce.base.progress import Progress
from p4reduce.group.errors import ClusterError

# What an experiment must show, checked against its own figures.


@dataclass(frozen=True)
class Claim:
    """Something that must hold."""

    text: str
    measured: str
    holds: bool


# Rows of an experiment as CSV (RFC 4180), and its result as plain data.


def write_table(path: Path, kind: type[Any], rows: Iterable[Any]) -> Path:
    """Write dataclasses of one kind, a line each under the names of their fields; None is an empty cell."""
    fields = [field.name for field in dataclasses.fields(kind)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(fields)
        writer.writerows([_cell(getattr(row, name)) for name in fields] for row in rows)
    return path


def plain(value: Any) -> Any:
    """Dataclasses, tuples and mappings as what JSON has; no number is None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def _cell(value: Any) -> Any:
    return "" if value is None else value


# Titles of figures that fit their width.


CHARACTERS_PER_INCH: Final = 12
SIZE: Final = 10
MANY: Final = 3
"""names under an axis from which on they are slanted"""


def title(figure: Figure, text: str) -> None:
    """The title of a figure, in as many lines as it takes."""
    figure.suptitle("\n".join(textwrap.wrap(text, int(CHARACTERS_PER_INCH * figure.get_figwidth()))), fontsize=SIZE)


# Figures by matplotlib: PNG for reading, SVG for papers. The same figures give the same files.


DPI: Final = 130
SETTINGS: Final[Any] = {
    "svg.hashsalt": "p4reduce",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
}


def save_all(figures: Iterable[tuple[str, Figure | None]], folder: Path) -> dict[str, Path]:
    """Write ``<name>.png`` and ``<name>.svg`` of each figure that there is into a folder, made if it is not there.

    ``figures`` are drawn one by one, with the settings of all. Returns the PNG files by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {}
    with mpl.rc_context(SETTINGS):
        for name, figure in figures:
            if figure is not None:
                drawn[name] = folder / f"{name}.png"
                figure.savefig(drawn[name], dpi=DPI, metadata={"Software": None})
                figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    return drawn


Item = TypeVar("Item")
Result = TypeVar("Result")

_CONNECT_S = "10s"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_YOUNG = 200_000
"""objects after which Python looks for cycles among them"""


def in_parallel(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    jobs: int = 1,
    dask: str | None = None,
    progress: Progress | None = None,
    label: str = "",
) -> list[Result]:
    """``[work(item) for item in items]``, in this order, with progress as pieces finish.

    Parameters
    ----------
    work, items : function and its arguments
        Both must be picklable; the function is found by its name, so other machines need the same package.
    jobs : int
        Processes on this machine, -1: one for each core.
    dask : str or None
        Address of a Dask scheduler ('tcp://host:8786'): its workers do the work, ``jobs`` does not matter.
    progress, label : function and str
        Told (label, done, total) as pieces finish.
    """
    results: dict[int, Result] = {}
    master = None if dask else os.getpid()
    numbered = [joblib.delayed(_numbered)(work, number, item, master) for number, item in enumerate(items)]
    with _backend(dask), warnings.catch_warnings():
        # joblib starts a process anew when its memory has grown, between two pieces: nothing is lost.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
        # A worker of Dask takes one piece at a time; its cores are its own business.
        parallel = joblib.Parallel(
            n_jobs=-1 if dask else jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="all"
        )
        for done, (number, result) in enumerate(parallel(numbered), 1):
            results[number] = result
            if progress is not None:
                progress(label, done, len(items))
    return [results[number] for number in range(len(items))]


def _numbered(work: Callable[[Item], Result], number: int, item: Item, master: int | None = None) -> tuple[int, Result]:
    """``master``: the process that this one must not outlive."""
    if master is not None and master != os.getpid():
        end_with(master)
    return number, work(item)


def end_with(parent: int) -> None:
    """The kernel kills this process when its parent has ended, however that ended; at once if it has already.

    joblib's processes hold the ends of each other's pipes open: after a kill -9 of the one that started them none
    would see it go, and all would wait for ever. Nothing happens where the system is not Linux.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """While a piece is worked on: table entries by the hundred thousand hold no cycles worth looking for.

    At its end memory goes back to the system, or joblib takes what the allocator keeps for a leak.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_YOUNG, 50, 100)
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
        gc.collect()
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
