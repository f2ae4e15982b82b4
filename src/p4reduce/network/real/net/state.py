"""Folders of runs: owner process, logs, and clean-up after a killed run.

Each run and each standing network has a folder, ``$XDG_STATE_HOME/p4reduce/runs/NAME``, while it runs. The folder of a
run whose process is gone is stale; the next run that needs the name or :func:`remove_stale` removes it. Programs of a
run carry a secret word of the run in their environment, so programs that escaped it (such as a daemon that a user
started in a host) can be identified reliably.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from p4reduce.base.errors import RealError
from p4reduce.base.records import from_json, to_file
from p4switch.base.files import read_bytes

# Identity of processes: process identifiers are reused, so the start time and the boot distinguish them.


_PROC: Final = Path("/proc")
_START_TIME: Final = 22
"""Field of /proc/PID/stat, counted from 1 (proc_pid_stat(5)): clock ticks after boot."""
_KILL_DEADLINE_S: Final = 10.0


@dataclass(frozen=True)
class NetProcess:
    """A process, identified for good."""

    pid: int
    started: int
    """Start time, clock ticks after boot."""
    boot: str
    """Identity of that boot."""

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return identify(self.pid) == self


def identify(pid: int) -> NetProcess | None:
    """Return the process that has this identifier now; None if none runs."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name, in brackets, may hold anything
    if fields[0] in "ZX":
        return None
    return NetProcess(pid, int(fields[_START_TIME - 3]), boot_id())


def boot_id() -> str:
    """Return an identifier of this boot of the machine."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def carrying(variable: str, value: str) -> list[NetProcess]:
    """Return all readable processes whose environment at their start held ``variable=value``."""
    wanted = f"{variable}={value}".encode()
    processes = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        process = identify(int(entry.name))
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0") and process is not None:
                processes.append(process)
    return processes


def terminate(process: NetProcess, deadline_s: float) -> bool:
    """Terminate exactly this process (SIGTERM) and wait; return whether it ended in time or was already gone."""
    return _signal(process, signal.SIGTERM, deadline_s) is not False


def kill(process: NetProcess, deadline_s: float = _KILL_DEADLINE_S) -> bool:
    """Kill exactly this process and wait until it has ended; return whether it was there."""
    return _signal(process, signal.SIGKILL, deadline_s) is not None


def _signal(process: NetProcess, number: signal.Signals, deadline_s: float) -> bool | None:
    """Send a signal and wait; return whether it ended in time, None if it was not there."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return None
    try:
        if not process.alive:  # checked after the handle was opened, so the handle is this very process
            return None
        signal.pidfd_send_signal(handle, number)
        return bool(select.select([handle], [], [], deadline_s)[0])
    except ProcessLookupError:
        return None
    finally:
        os.close(handle)


VARIABLE: Final = "P4REDUCE_RUN"
"""Environment variable with the secret word of the run."""
_FILE: Final = "run.json"
_NEW: Final = ".new-"
_HOST: Final = "@"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_MANY: Final = 10_000
_MOST_SECRET: Final = 1 << 16
"""Bytes read at most of a file with a secret."""
_LOCK_DEADLINE_S: Final = 60
_POLL_S: Final = 0.02


def runs_folder() -> Path:
    """Return the folder that holds the folders of this user's runs."""
    state = os.environ.get("XDG_STATE_HOME")
    return Path(state or Path.home() / ".local" / "state") / "p4reduce" / "runs"


@dataclass(frozen=True)
class RunRecord:
    """Content of the file in a run's folder; fields as in `NetRun`."""

    kind: str
    word: str
    owner: NetProcess
    info: dict[str, Any]
    host: str = ""
    """Name of its machine, if machines share the folder; '' otherwise."""


@dataclass(frozen=True)
class NetRun:
    """A run with a folder, by name."""

    name: str
    kind: str
    """'run', 'launch', or 'net' for a standing network."""
    word: str
    owner: NetProcess
    """Process whose end ends the run."""
    info: dict[str, Any]
    host: str = ""

    @property
    def elsewhere(self) -> bool:
        """Whether it belongs to another machine with the same home; only that machine knows if the run is alive."""
        return self.host not in {"", socket.gethostname()}

    @property
    def alive(self) -> bool:
        """Whether its process runs; always True for a run of another machine."""
        return self.elsewhere or self.owner.alive

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return runs_folder() / self.name


class RunFolder:
    """Folder of a run, made by its process and removed at the end.

    Parameters
    ----------
    name : str or None
        Name of the run; None: the first free one of 'run-1', 'run-2', ...
    kind : str
        'run', 'launch', or 'net' for a standing network.

    Raises
    ------
    RealError
        When the name is invalid, or a run of that name is alive.
    """

    def __init__(self, name: str | None = None, *, kind: str = "run") -> None:
        if name is not None and not _NAME.match(name):
            raise RealError(f"{name!r} is no name for a run: use letters, digits, '-', '_' and '.', 64 at most")
        owner = identify(os.getpid())
        if owner is None:
            raise RealError("/proc is not there or not readable: a run cannot tell its processes from others")
        self._word = secrets.token_hex(16)
        self._record = RunRecord(kind, self._word, owner, {}, socket.gethostname())
        self.path = self._claim(name, kind)
        self.name = self.path.name

    @property
    def logs(self) -> Path:
        """Folder of its logs."""
        return self.path / "logs"

    @property
    def environment(self) -> dict[str, str]:
        """Variables for the environment of every program of the run."""
        return {VARIABLE: self._word}

    def note(self, **info: Any) -> None:
        """Add to the run's info in the folder's record; values as in JSON."""
        self._record.info.update(info)
        _write(self.path, self._record)

    def aside(self) -> Path:
        """Make a folder for sockets, whose paths must be short, in the temporary folder; it is removed with the run.

        Only this user may enter it. Its name is recorded before it is made, so that a killed run's folder is found.
        """
        folder = _aside(tempfile.gettempdir(), self._word)
        self.note(aside=tempfile.gettempdir())
        folder.mkdir(mode=0o700)
        return folder

    @property
    def mark(self) -> str:
        """Mark in files of the run that are outside its folder."""
        return _mark(self._word)

    def note_secret(self, path: Path) -> None:
        """Record a file outside the folder, with the run's mark, that is removed with the run, however the run ends."""
        self.note(secret=str(path.absolute()))

    def remove(self) -> None:
        """Kill its remaining processes, and remove the folder with its content; may be called again."""
        for process in carrying(VARIABLE, self._word):
            kill(process)
        _remove_noted(self._record)
        _remove(self.path)

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _claim(self, name: str | None, kind: str) -> Path:
        """Make the folder under a temporary name and rename it, so that it never exists without its record."""
        folder = runs_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = Path(tempfile.mkdtemp(prefix=f"{_NEW}{os.getpid()}-{_of_host()}-", dir=folder))
        try:
            (new / "logs").mkdir()
            _write(new, self._record)
            with _locked():
                for candidate in [name] if name is not None else (f"{kind}-{number}" for number in range(1, _MANY)):
                    old = read(candidate)
                    if old is None or not old.alive:
                        _end(candidate)
                        return new.rename(folder / candidate)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        shutil.rmtree(new, ignore_errors=True)
        raise RealError(f"a run named {name!r} is there already; choose another name, or end it")


def read(name: str) -> NetRun | None:
    """Return the run of that name, alive or stale; None if there is none, or its record cannot be read."""
    try:
        record = from_json(RunRecord, (runs_folder() / name / _FILE).read_text("utf-8"), name)
    except (OSError, ValueError):
        return None
    return NetRun(name, record.kind, record.word, record.owner, record.info, record.host)


def all_runs() -> list[NetRun]:
    """Return all runs of this user with a folder, alive and stale, by name."""
    try:
        names = sorted(path.name for path in runs_folder().iterdir() if not path.name.startswith(_NEW))
    except OSError:
        return []
    return [run for name in names if (run := read(name)) is not None]


def end(name: str, *, grace_s: float = 0.0) -> int:
    """Kill the remaining processes of a run, dead or alive, and remove its folder; return how many were killed.

    With ``grace_s`` seconds its own process, if it is alive, is terminated first.
    """
    with _locked():
        return _end(name, grace_s)


def _end(name: str, grace_s: float = 0.0) -> int:
    run = read(name)
    killed = 0
    if run is not None:
        if grace_s > 0:
            terminate(run.owner, grace_s)
        killed += kill(run.owner)  # its children die with it
        killed += sum(kill(process) for process in carrying(VARIABLE, run.word))
        _remove_noted(run)
    _remove(runs_folder() / name)
    return killed


def view_of(which: Callable[[NetRun], bool]) -> Path | None:
    """Return the view socket (``runs/real/sights.py``) of a living run that ``which`` accepts; None without one."""
    for run in all_runs():
        if which(run) and run.alive and isinstance(view := run.info.get("view"), str) and Path(view).is_socket():
            return Path(view)
    return None


@dataclass(frozen=True)
class Cleaned:
    """Result of :func:`remove_stale`."""

    removed: tuple[str, ...]
    """Runs that had ended without removing their folder."""
    killed: int
    """Killed processes of these runs."""
    alive: tuple[str, ...]
    """Runs that are alive, and were left alone."""


def remove_stale(*, also_alive: bool = False) -> Cleaned:
    """End what dead runs left behind and remove their folders; with ``also_alive`` also those of live runs."""
    removed, alive, killed = [], [], 0
    folder = runs_folder()
    if not folder.is_dir():
        return Cleaned((), 0, ())
    with _locked():
        for path in sorted(path for path in folder.iterdir() if path.is_dir()):
            if path.name.startswith(_NEW):
                maker, _, rest = path.name.removeprefix(_NEW).partition("-")
                if rest.startswith(_HOST) and not rest.startswith(f"{_of_host()}-"):
                    continue
                if not maker.isdigit() or identify(int(maker)) is None:
                    shutil.rmtree(path, ignore_errors=True)
                continue
            run = read(path.name)
            if run is not None and (run.elsewhere or (run.alive and not also_alive)):
                alive.append(path.name)
                continue
            killed += _end(path.name)
            removed.append(path.name)
    return Cleaned(tuple(removed), killed, tuple(alive))


_GUARDIAN: Final = "import sys; from {} import guard; guard(int(sys.argv[1]))"


def guard(owner: int) -> None:
    """Wait until stdin is closed, which happens shortly before the owner ends, then until it has ended; clean up."""
    sys.stdin.read()
    with contextlib.suppress(OSError):  # the owner is gone
        handle = os.pidfd_open(owner)
        select.select([handle], [], [], _KILL_DEADLINE_S)
        os.close(handle)
    remove_stale()


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Have another process call :func:`remove_stale` as soon as this one ends inside the context, even by SIGKILL.

    Enter it before the run's folder is made, so that it lasts until the folder is removed.
    """
    command = [sys.executable, "-c", _GUARDIAN.format(__name__), str(os.getpid())]
    quiet = subprocess.DEVNULL
    # It is no process of a run in which this one may have been started, and does not end with that run.
    own = {name: text for name, text in os.environ.items() if name != VARIABLE}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, env=own, start_new_session=True
    ) as guardian:
        try:
            yield
        finally:
            guardian.kill()


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Hold the lock for claiming names and removing folders, so no process removes what another has just made."""
    folder = runs_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    deadline = time.monotonic() + _LOCK_DEADLINE_S
    with (folder / ".lock").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise RealError(f"{folder}: another process has held the lock for {_LOCK_DEADLINE_S} s") from None
                time.sleep(_POLL_S)
        yield


def _of_host() -> str:
    """Return this machine's part in the names of new folders."""
    return f"{_HOST}{socket.gethostname()}"


def _aside(base: str, word: str) -> Path:
    """Return a run's folder outside its record; the secret word in its name prevents a record from naming others."""
    return Path(base) / f"p4reduce-{re.sub(r'[^0-9a-f]', '', word)}"


def _mark(word: str) -> str:
    """Return a word that is derived from a run's secret word and does not reveal it."""
    return hashlib.sha256(word.encode()).hexdigest()[:16]


def _remove_noted(run: RunRecord | NetRun) -> None:
    """Remove a run's files outside its folder; a file only with the run's mark, because a record may be forged."""
    if isinstance(base := run.info.get("aside"), str):
        shutil.rmtree(_aside(base, run.word), ignore_errors=True)
    if isinstance(secret := run.info.get("secret"), str):
        with contextlib.suppress(OSError):
            if _mark(run.word).encode() in read_bytes(Path(secret), _MOST_SECRET):
                Path(secret).unlink()


def _write(folder: Path, record: RunRecord) -> None:
    new = folder / f"{_FILE}.new"
    new.write_text(to_file(record), "utf-8")
    new.replace(folder / _FILE)


def _remove(path: Path) -> None:
    """Remove a folder after renaming it, so that no process sees it half removed."""
    aside = path.with_name(f"{_NEW}{os.getpid()}-{secrets.token_hex(4)}")
    with contextlib.suppress(FileNotFoundError):
        path.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
