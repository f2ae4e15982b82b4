"""Jobs in child processes, forked from a process that has imported their modules; several at a time."""

import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.support.same.job import Call, Job
from tests.support.same.outcome import Outcome, Scrub

LONGEST_S: Final = 300
"""limit of a job in seconds, after which it is killed"""
_ITEMS, _MODULES = "items.json", "modules.json"


@dataclass(frozen=True)
class Done:
    """An ended job: the outcome of each of its calls, its CPU time, and why outcomes are missing (empty: none are)."""

    job: Job
    outcomes: dict[str, Outcome]
    cpu_s: float
    problem: str = ""


def run_all(jobs: Sequence[Job], at_a_time: int, scratch: Path, *, first: Sequence[str] = ()) -> Iterator[Done]:
    """Run the jobs; yield each when it has ended.

    Modules are imported once for all jobs, when the first of them has needed them and has imported them for itself.
    ``first``: modules that are imported before any job.
    """
    _import(first)
    waiting = list(enumerate(jobs))
    running: dict[int, tuple[Job, Path, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_a_time:
                number, job = waiting.pop(0)
                folder = scratch / f"job{number}"
                folder.mkdir(parents=True)
                running[_fork(job, folder)] = job, folder, time.monotonic()
            found, status, used = os.wait4(-1, os.WNOHANG)
            if found in running:
                job, folder, _ = running.pop(found)
                _end_group(found)
                yield _collect(job, folder, status, used.ru_utime + used.ru_stime)
                shutil.rmtree(folder, ignore_errors=True)
                continue
            for process, (_, _, began) in running.items():
                if time.monotonic() - began > LONGEST_S:
                    _end_group(process)
            time.sleep(0.005)
    finally:
        for process in running:
            _end_group(process)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, 0)


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _fork(job: Job, folder: Path) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.setsid()
        _in_child(job, folder)
        code = 0
    except BaseException:  # the child must not continue in its parent's code
        (folder / "problem.txt").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _collect(job: Job, folder: Path, status: int, cpu_s: float) -> Done:
    problem = ""
    if status:
        told = folder / "problem.txt"
        problem = told.read_text() if told.exists() else f"its process ended with status {status}"
    items = folder / _ITEMS
    outcomes = {}
    if items.exists():
        outcomes = {name: Outcome(**one) for name, one in json.loads(items.read_text()).items()}
    modules = folder / _MODULES
    if modules.exists():
        _import(json.loads(modules.read_text()))
    return Done(job, outcomes, cpu_s, problem)


def _import(names: Sequence[str]) -> None:
    """Import the modules of a finished job for later forks, except studies, which register their own policies."""
    for name in names:
        if name not in sys.modules and name.partition(".")[0] != "studies":
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _in_child(job: Job, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    before = set(sys.modules)
    work = folder / "work"
    (work / "tmp").mkdir(parents=True)
    os.chdir(work)
    os.environ["TMPDIR"] = str(work / "tmp")
    os.environ["XDG_STATE_HOME"] = str(folder / "state")  # hides real-time runs of other jobs
    for name, text in job.given.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    calls = job.calls if isinstance(job.calls, tuple) else job.calls()
    found = {}
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for call in calls:
        outcome = _called(call, folder, work)
        found[call.name] = {"shown": outcome.shown, "parts": outcome.parts}
    (folder / _ITEMS).write_text(json.dumps(found))
    (folder / _MODULES).write_text(
        json.dumps([name for name in sys.modules if name not in before and "__" not in name])
    )


def _called(call: Call, folder: Path, work: Path) -> Outcome:
    streams = {name: folder / name for name in ("stdout", "stderr")}
    for number, path in enumerate(streams.values(), 1):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    over = threading.Event()
    if call.until:
        threading.Thread(target=_interrupt, args=(streams["stderr"], call.until, over), daemon=True).start()
    outcome = Outcome()
    signal.signal(signal.SIGALRM, partial(_too_long, call))
    signal.setitimer(signal.ITIMER_REAL, call.limit_s)
    result = _ended(call.run)
    signal.setitimer(signal.ITIMER_REAL, 0)
    over.set()
    if _LATE:
        raise TimeoutError(_LATE[0])
    sys.stdout.flush()
    sys.stderr.flush()
    outcome.parts["exit"] = result if isinstance(result, int | str) else 0
    outcome.shown["exit"] = str(outcome.parts["exit"])
    scrub = Scrub(work)
    for name, path in streams.items():
        outcome.add(name, path.read_bytes(), scrub)
    if result is not None and not isinstance(result, int | str):
        outcome.add("returned", json.dumps(result).encode(), scrub)
    for pattern in call.files:
        matching = sorted(path for path in work.glob(pattern) if path.is_file())
        if not matching:
            outcome.shown[pattern] = outcome.parts[pattern] = "not there"
        for path in matching:
            outcome.add(path.relative_to(work).as_posix(), path.read_bytes(), scrub)
    return outcome


_LATE: Final[list[str]] = []
"""Messages about calls that exceeded their limit, in a job's process."""


def _too_long(call: Call, *signalled: object) -> None:
    del signalled
    _LATE.append(f"{call.name}: not ended after {call.limit_s:g} s")
    raise TimeoutError(_LATE[0])


def _ended(run: Callable[[], Any]) -> Any:
    """Return the exit code, the result, or the error in one line."""
    try:
        return run()
    except SystemExit as ended:
        return 0 if ended.code is None else ended.code
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _interrupt(path: Path, words: str, over: threading.Event) -> None:
    while not over.wait(0.02):
        if words in path.read_text(errors="replace"):
            os.kill(os.getpid(), signal.SIGINT)
            return
