"""A session in real time whose embedded switches begin anew when they are told to.

``python -m tests.support.kills.session``: as ``p4reduce.runs.real.session``; names of switches are read, a line each,
from the named pipe ``$RESTARTS``. With ``launch ...`` behind it: as ``p4reduce launch ...``, by such sessions.
"""

import os
import runpy
import sys
import threading
from pathlib import Path

from p4reduce.runs.real import run, targets

MODULE = "tests.support.kills.session"


def listen(target: targets.EmbeddedTarget) -> None:
    with os.fdopen(os.open(os.environ["RESTARTS"], os.O_RDWR)) as told:  # never at its end
        for line in told:
            switch = target._topology.node(line.strip())
            target.host.server.restart(switch.index + 1)


def main() -> None:
    if sys.argv[1:]:
        # Nothing else differs from the session of p4reduce.
        run.SESSION = (sys.executable, "-m", MODULE)
        runpy.run_module("p4reduce.cli.entry", run_name="__main__")
        return
    made = targets.EmbeddedTarget.__init__

    def make(target: targets.EmbeddedTarget, *parts: object) -> None:
        made(target, *parts)
        threading.Thread(target=listen, args=(target,), daemon=True).start()

    targets.EmbeddedTarget.__init__ = make
    runpy.run_module("p4reduce.runs.real.session", run_name="__main__")


def begin_anew(pipe: Path, switch: str) -> None:
    """Tell the session of this pipe."""
    with os.fdopen(os.open(pipe, os.O_RDWR), "w") as told:  # even if it has ended
        told.write(f"{switch}\n")


if __name__ == "__main__":
    main()
