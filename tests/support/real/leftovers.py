"""What runs in real time may leave behind, and must not."""

import os
import tempfile
import time
from pathlib import Path

from p4reduce.network.real.net.state import all_runs

DEADLINE_S = 60.0


def processes(state: str) -> set[int]:
    """Processes, not this one, whose ``XDG_STATE_HOME`` is ``state``; other runs may go on beside."""
    carried = f"XDG_STATE_HOME={state}".encode()
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int(folder.name) != os.getpid() and carried in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
        except (OSError, ValueError):
            continue  # it ended meanwhile, or is not ours
    return found


def namespaces() -> set[str]:
    """Network namespaces that have a name; ours have none, and end with the last of the processes above."""
    return {str(path) for path in Path("/run/netns").glob("*")}


def files() -> set[str]:
    """Folders of runs, and temporary files with our name."""
    folders = {str(run.folder) for run in all_runs()}
    return folders | {str(path) for path in Path(tempfile.gettempdir()).glob("p4reduce*")}


def wait_until_gone(state: str) -> set[int]:
    """Processes of ``state`` that are still there when the deadline has passed; empty: all gone."""
    deadline = time.monotonic() + DEADLINE_S
    while (left := processes(state)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left
