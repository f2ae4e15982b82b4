"""Inputs of a run besides its description: the faults of its links, its tensors, and the provenance of its figures."""

import functools
import importlib.metadata
import mmap
import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

import p4reduce
from p4reduce.base.registry import requirements
from p4reduce.group.backend import FloatArray
from p4reduce.network.virtual.records import Faults
from p4reduce.runs.experiment import ExperimentError, FaultOptions

if TYPE_CHECKING:
    from p4reduce.control_plane.entries import P4Program


def link_faults(options: FaultOptions, **more: int) -> Faults:
    """Return the faults in the form that links of the network take; ``more``: other fields."""
    return Faults(**options.model_dump(), **more)


# The provenance of figures: enough to reproduce them, and nothing that changes from run to run.


def provenance(program: "P4Program | None", seed: int) -> dict[str, str]:
    """Return commit, hash of the P4 JSON (``-`` if no switch ran), versions and seed, as text."""
    inputs = {
        "p4reduce": p4reduce.__version__,
        "commit": _commit(Path(p4reduce.__file__).parent),
        "p4_json": "-" if program is None else program.name,
        "p4_json_sha256": "-" if program is None else program.sha256,
        "seed": str(seed),
        "python": platform.python_version(),
    }
    return inputs | _versions()


@functools.cache
def _versions() -> dict[str, str]:
    """Return the versions of the required libraries."""
    return {library: importlib.metadata.version(library) for library in requirements()}


@functools.cache
def _commit(folder: Path) -> str:
    """Return the commit of a source checkout, with ``+changes`` if files differ from it; otherwise the release.

    A checkout must contain this very file: an installation may lie within another project's repository.
    """

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        commit = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/")
    except (OSError, subprocess.SubprocessError):
        return f"release {p4reduce.__version__}"
    return f"{commit}+changes" if changed else commit


# The plain tensors that a run without training moves.


BLOCK: Final = 4096
"""number of consecutive elements of a plain tensor with the same scale"""
PERIOD: Final = 1 << 22
"""Elements after which a plain tensor's normal numbers repeat, with other scales, as drawing them is slow."""


def check_memory(elements: int, workers: int, *, filed: bool = False) -> None:
    """Raise `ExperimentError` if the tensors of a run, and their sums, exceed this machine's memory.

    filed: whether the tensors are in files; only the sums for their check are then in memory.
    """
    words = 3 * elements if filed else workers * elements * 2
    needed = words * np.dtype(np.float32).itemsize
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise ExperimentError(
            f"elements: {elements} for {workers} workers need {needed / 1e9:,.0f} GB of memory, this machine has "
            f"{there / 1e9:,.0f}; give a smaller --elements{'' if filed else ', or a folder for them with --arrays'}"
        )


def array_in_file(folder: Path, elements: int) -> FloatArray:
    """Return zeros, float32 of shape (elements,), in a file of that folder that is deleted with the array.

    Raises ``ExperimentError`` if there is no such folder, or no room.
    """
    size = elements * np.dtype(np.float32).itemsize
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            return np.frombuffer(mmap.mmap(file.fileno(), size), np.float32)
    except OSError as error:
        raise ExperimentError(f"arrays: {folder}: {error.strerror}; {size / 1e9:,.3g} GB are for one worker") from None


def tensor(seed: int, rank: int, turn: int, elements: int, out: FloatArray | None = None) -> FloatArray:
    """Return gradient-like values, float32 of shape (elements,): normal, with a scale that differs from block to block.

    out: array for the values; None: a new one.
    """
    random = np.random.Generator(np.random.Philox(key=[seed, rank << 32 | turn]))
    values = np.empty(elements, np.float32) if out is None else out
    first = values[:PERIOD]
    random.standard_normal(len(first), dtype=np.float32, out=first)
    scales = np.exp2(random.integers(-12, 4, -(-elements // BLOCK))).astype(np.float32)
    for begin in range(PERIOD, elements, PERIOD):
        _scale(first, scales[begin // BLOCK :], values[begin : begin + PERIOD])
    _scale(first, scales, first)
    return values


def _scale(values: FloatArray, scales: FloatArray, out: FloatArray) -> None:
    """Write the first of ``values``, with each block times its scale, to ``out``."""
    whole = len(out) // BLOCK
    blocks = values[: whole * BLOCK].reshape(whole, BLOCK)
    np.multiply(blocks, scales[:whole, None], out=out[: whole * BLOCK].reshape(whole, BLOCK))
    np.multiply(values[whole * BLOCK : len(out)], scales[whole : whole + 1], out=out[whole * BLOCK :])
