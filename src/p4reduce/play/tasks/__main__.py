"""``python -m p4reduce.play.tasks``: the process of an orchestrator's network, switches and workers."""

if __name__ == "__main__":
    import p4reduce.base.short  # noqa: F401

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from p4reduce.base.signals import handling, raise_exit
from p4reduce.group.errors import ClusterError
from p4reduce.network.background import parse_background
from p4reduce.network.jobs.network import bundled
from p4reduce.network.virtual import Faults
from p4reduce.network.virtual.records import FabricError
from p4reduce.play.tasks.service import READY, SILENCE_S, Pages, Service, abandon
from p4reduce.play.tasks.world import World
from p4reduce.topologies import TopologyError, load
from p4switch.native.objects import Report, watched


def main(pages: Pages | None = None) -> int:
    """Serve until the orchestrator ends it; return the exit code. ``pages`` makes the server of the live page."""
    parser = argparse.ArgumentParser(prog="python -m p4reduce.play.tasks", description=__doc__)
    parser.add_argument("--socket", type=Path, required=True, help="Unix socket to listen on; must not exist")
    parser.add_argument("--topology", required=True, help="file, bundled name or builder with parameters")
    parser.add_argument("--lanes", type=int, default=256, choices=(64, 256))
    parser.add_argument("--queue-frames", type=int, default=1024)
    parser.add_argument("--loss", type=float, default=0.0, help="probability that a link loses a frame")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--background", default="", help="background traffic, such as 'gravity:load=0.3,seed=1'")
    parser.add_argument("--checkpoints", type=Path, help="folder of the checkpoints of tasks with max_restarts")
    parser.add_argument("--time", default="virtual", choices=("virtual", "flow"))
    parser.add_argument("--silence", type=float, default=SILENCE_S, help="seconds without a request before it ends")
    given = parser.parse_args()
    try:
        with (
            handling(raise_exit, signal.SIGTERM, signal.SIGHUP),
            watched(_unsaid),
            World(
                load(given.topology),
                bundled(given.lanes),
                queue_frames=given.queue_frames,
                faults=Faults(loss=given.loss),
                seed=given.seed,
                background=parse_background(given.background) if given.background else None,
                checkpoints=given.checkpoints,
                time=given.time,
            ) as world,
        ):
            service = Service(world, given.socket, silence_s=given.silence, pages=pages)
            if _tell_ready():
                service.serve()
            else:
                service.close()
        abandon(given.socket)
    except KeyboardInterrupt:
        return 130
    except (ClusterError, FabricError, TopologyError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2 if isinstance(error, TopologyError) else 1
    return 0


@contextmanager
def _unsaid() -> Iterator[Report]:
    """Suppress compiler progress, because standard error is a log that is removed if it is empty."""
    yield lambda _done, _total: None


def _tell_ready() -> bool:
    """Write READY to stdout; return False if the parent process has closed the pipe."""
    try:
        sys.stdout.write(READY)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # a later flush must not raise again
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
