"""Waiting times of a user, from nothing compiled to a warm run.

Each command is a separate process, as a user starts it. "Nothing compiled" means an empty cache of machine code.
Python's byte code is compiled before, as pip does at installation, even if PYTHONDONTWRITEBYTECODE is set. Processor
seconds cover the command and all its child processes; they hardly depend on other load on the machine, unlike
wall-clock seconds, which hold for this machine at this time.
"""

import compileall
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

COMMAND: Final = (sys.executable, "-m", "p4reduce.cli.entry")
TABLE: Final = "lower"
"""a word in the headings of the table of results, by which the first table is recognized"""
PACKAGE: Final = Path(__file__).parents[1]


COLUMNS: Final = {"what": "command", "runs": "runs", "cpu_s": "CPU s", "clock_s": "clock s", "first_s": "first table"}
NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True)
class Waited:
    """Medians of ``runs`` runs. ``first_s``: wall-clock seconds until the first table was printed."""

    what: str
    runs: int
    cpu_s: float
    clock_s: float
    first_s: float


def measure(
    what: str,
    command: Sequence[str],
    environment: Mapping[str, str] = NOTHING,
    *,
    runs: int = 1,
    folder: Path | None = None,
) -> Waited:
    """Run a command ``runs`` times, one after the other, with ``environment`` added to the environment."""
    waits = [_once(command, environment, folder) for _ in range(runs)]
    cpu, clock, first = (statistics.median(column) for column in zip(*waits, strict=True))
    return Waited(what, runs, round(cpu, 2), round(clock, 2), round(first, 2))


def _once(command: Sequence[str], environment: Mapping[str, str], folder: Path | None) -> tuple[float, float, float]:
    used, began = _cpu_s(), time.monotonic()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **environment},
        )
        first = None
        for line in process.stdout or ():
            if first is None and TABLE in line:
                first = time.monotonic() - began
        code = process.wait()
        clock = time.monotonic() - began
        if code != 0:
            errors.seek(0)
            raise RuntimeError(f"{' '.join(command)}: exit code {code}: {errors.read()}")
    return _cpu_s() - used, clock, clock if first is None else first


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def byte_code(package: Path = PACKAGE) -> None:
    """Compile Python's byte code of a package whose folders may be links; `compileall` follows a link only if named."""
    for path in (package, *package.iterdir()):
        if path.is_dir():
            compileall.compile_dir(path, quiet=2)


def start_up(runs: int) -> list[Waited]:
    """Make all measurements of this module, with caches in a temporary folder."""
    byte_code()
    with tempfile.TemporaryDirectory(prefix="p4reduce-start-") as name:
        folder = Path(name)

        def caches(which: str) -> dict[str, str]:
            return {"NUMBA_CACHE_DIR": str(folder / which / "kernels"), "P4REDUCE_CACHE": str(folder / which / "p4")}

        tensor = (*COMMAND, "run", "-e", "1024")
        return [
            measure("--help", (*COMMAND, "--help"), runs=runs),
            measure("first run -e 1024", tensor, caches("run")),
            measure("run -e 1024", tensor, caches("run"), runs=runs),
            measure("first demo", (*COMMAND, "demo", "--out", str(folder / "demo")), caches("demo")),
            measure("demo", (*COMMAND, "demo", "--out", str(folder / "again")), caches("demo")),
        ]


def from_nothing(checkout: str) -> list[Waited]:
    """Measure README's first lines in a fresh clone, and the wheel in a fresh environment, with libraries from PyPI."""
    with tempfile.TemporaryDirectory(prefix="p4reduce-nothing-") as name:
        folder = Path(name)
        clone, wheel = folder / "p4reduce", folder / "wheel"
        own = {"HOME": name, "PYTHONPATH": "", "NUMBA_CACHE_DIR": "", "P4REDUCE_CACHE": ""}
        command = str(wheel / "bin" / "p4reduce")
        rows = [
            measure("git clone", ("git", "clone", "--quiet", checkout, str(clone)), own),
            measure("make .venv/.installed", ("make", ".venv/.installed"), own, folder=clone),
            measure("make demo", ("make", "demo"), own, folder=clone),
            measure("make demo, again", ("make", "demo"), own, folder=clone),
            measure("make dist", ("make", "dist"), own, folder=clone),
            measure("python -m venv", (sys.executable, "-m", "venv", str(wheel)), own),
        ]
        (built,) = (clone / "dist").glob("p4reduce-*.whl")
        return [
            *rows,
            measure(
                "pip install *.whl[demo]",
                (str(wheel / "bin" / "pip"), "install", "-q", "--find-links", str(built.parent), f"{built}[demo]"),
                own,
            ),
            measure("p4reduce run -e 1024", (command, "run", "-e", "1024"), own, folder=folder),
            measure("p4reduce run -e 1024, again", (command, "run", "-e", "1024"), own, folder=folder),
        ]


# The cost of a whole run on networks of a thousand hosts and more, and of tensors of gigabytes.


NEEDS: Final = {"what": "p4reduce run", "cpu_s": "CPU s", "clock_s": "clock s", "peak_mb": "peak, MB",
                "arrays_mb": "arrays, MB", "ratio": "peak / arrays"}  # fmt: skip
_WORKERS: Final = 16
"""number of workers that reduce the large tensors"""
_FLOAT_BYTES: Final = 4


@dataclass(frozen=True)
class CommandNeeds:
    """Resources that a command used: processor time, wall-clock time, and peak memory.

    ``arrays_mb``: total size of all workers' arrays; ``ratio``: peak memory over that size.
    """

    what: str
    cpu_s: float
    clock_s: float
    peak_mb: float
    arrays_mb: float
    ratio: float


_IN_BETWEEN: Final = """\
import os, sys
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(child, 0)
with open(sys.argv[1], "w") as file:
    print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=file)
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""a small process that starts a command: Linux counts the memory of the process that forks in its child's peak, too"""


def run_needs(arguments: Sequence[str], arrays: int) -> CommandNeeds:
    """Measure one ``p4reduce run`` with these arguments; ``arrays``: bytes of all workers' arrays."""
    with tempfile.NamedTemporaryFile("r") as used:
        began = time.monotonic()
        done = subprocess.run(
            (sys.executable, "-S", "-c", _IN_BETWEEN, used.name, *COMMAND, "run", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        clock = time.monotonic() - began
        if done.returncode != 0:
            raise RuntimeError(f"p4reduce run {' '.join(arguments)}: exit code {done.returncode}: {done.stdout}")
        cpu_s, peak_kib = map(float, used.read().split())
    peak = peak_kib * 1024
    return CommandNeeds(
        " ".join(arguments),
        round(cpu_s, 1),
        round(clock, 1),
        round(peak / 1e6),
        round(arrays / 1e6),
        round(peak / arrays, 2),
    )


def fat_tree(k: int, elements: int) -> CommandNeeds:
    """Measure an all-reduce of all k^3 / 4 hosts of a fat-tree."""
    return run_needs(("-t", f"fat-tree:k={k}", "-e", str(elements)), k**3 // 4 * elements * _FLOAT_BYTES)


def large_tensor(elements: int, *, filed: bool) -> CommandNeeds:
    """Measure an all-reduce of 16 workers whose arrays are in memory or, with ``filed``, in files."""
    arguments = ("-t", "leaf-spine-16", "--rate", "100G", "-e", str(elements))
    arrays = _WORKERS * elements * _FLOAT_BYTES
    if not filed:
        return run_needs(arguments, arrays)
    with tempfile.TemporaryDirectory(prefix="p4reduce-arrays-") as folder:
        needs = run_needs((*arguments, "--arrays", folder), arrays)
    return replace(needs, what=needs.what.replace(folder, "FOLDER"))
