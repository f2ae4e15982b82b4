"""A real-time session whose embedded switches restart on request.

``python -m tests.support.kills.session`` acts as ``p4reduce.runs.real.session``. It reads names of switches to restart
from the pipe ``$RESTARTS``, one a line; with arguments it acts as ``p4reduce`` with such a session.
"""

import os
import runpy
import sys
import threading
from pathlib import Path

from p4reduce.runs.real import run, targets

MODULE = "tests.support.kills.session"


def listen(target: targets.EmbeddedTarget) -> None:
    with os.fdopen(os.open(os.environ["RESTARTS"], os.O_RDWR)) as told:  # O_RDWR: no end of file
        for line in told:
            switch = target._topology.node(line.strip())
            target.host.server.restart(switch.index + 1)


def main() -> None:
    if sys.argv[1:]:
        # the command line of p4reduce, with this module as its session
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
    """Ask the session that reads this pipe to restart a switch."""
    with os.fdopen(os.open(pipe, os.O_RDWR), "w") as told:  # does not block if the session has ended
        told.write(f"{switch}\n")


if __name__ == "__main__":
    main()
