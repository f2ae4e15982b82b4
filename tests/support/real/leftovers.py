"""Processes, namespaces and files that real-time runs must not leave behind."""

import os
import tempfile
import time
from pathlib import Path

from p4reduce.network.real.net.state import all_runs

DEADLINE_S = 60.0


def processes(state: str) -> set[int]:
    """Return other processes whose ``XDG_STATE_HOME`` is ``state``, so that concurrent runs do not count."""
    carried = f"XDG_STATE_HOME={state}".encode()
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int(folder.name) != os.getpid() and carried in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
        except (OSError, ValueError):
            continue  # it ended meanwhile, or belongs to another user
    return found


def namespaces() -> set[str]:
    """Return named network namespaces; those of runs have no name, and end with their last process."""
    return {str(path) for path in Path("/run/netns").glob("*")}


def files() -> set[str]:
    """Return folders of runs, and temporary files named p4reduce*."""
    folders = {str(run.folder) for run in all_runs()}
    return folders | {str(path) for path in Path(tempfile.gettempdir()).glob("p4reduce*")}


def wait_until_gone(state: str) -> set[int]:
    """Wait until the processes of ``state`` have ended; return those left at the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while (left := processes(state)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left
