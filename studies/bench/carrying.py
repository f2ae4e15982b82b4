"""The cost of TLS in a collective: each rank is a process that uses one network over a Unix socket and one over TLS.

Each turn has a collective over either transport; differences and ratios are of the same turn. All figures are medians
over the turns, of wall-clock time.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from p4reduce.group.errors import ClusterError
from p4reduce.group.transport import TICKET
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.launch import Listener, rank_environment
from p4reduce.runs.virtual.cluster import Cluster

RANKS: Final = 4
SIZES: Final = (1, 16_384, 1_048_576)
"""numbers of float32 elements; the bars are for 64 KiB and 4 MiB"""
COLUMNS: Final = {"elements": "elements", "turns": "turns", "unix_ms": "Unix socket, ms", "tls_ms": "TLS, ms",
                  "added_ms": "added, ms", "ratio": "ratio"}  # fmt: skip
MOST_ADDED_MS: Final = {16_384: 2.0}
MOST_RATIO: Final = {1_048_576: 1.6}

RANK_SCRIPT: Final = f"""
import json, os, sys, time
import numpy as np
from p4reduce.group import remote
ticket = os.environ.pop({TICKET!r})
unix = remote.connect()
del os.environ[remote.ADDRESS]
ends = (unix, remote.connect(os.environ | {{{TICKET!r}: ticket}}))
turns, found = int(sys.argv[1]), []
for elements in map(int, sys.argv[2:]):
    array = np.ones(elements, np.float32)
    for turn in range(turns + 1):
        took = {{}}
        for end in ends[:: (-1) ** turn]:
            end.barrier()
            begun = time.perf_counter()
            end.all_reduce(array)
            took[ends.index(end)] = 1e3 * (time.perf_counter() - begun)
            array[:] = 1
        if turn:
            found.append((elements, took[0], took[1]))
for end in ends:
    end.close()
print(json.dumps(found))
"""


def measure(turns: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each size, with medians over the turns of the slowest rank's times."""
    experiment = Experiment(topology=f"star:hosts={RANKS}", plan="steiner")
    with ExitStack() as stack:
        listeners = []
        for at in ((), ("127.0.0.1",)):
            cluster = stack.enter_context(Cluster(experiment))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="p4reduce-")))
            seats = lambda rank, _, cluster=cluster: cluster.backend(rank)  # noqa: E731
            listener = Listener(folder, seats, failed=cluster.fail, lost=lambda *_: None, at=at)
            stack.callback(listener.close, 2.0)
            listeners.append(listener)
        listeners[1].ticket.write(folder / "ticket.json")
        argv = [sys.executable, "-c", RANK_SCRIPT, str(turns), *map(str, SIZES)]
        ranks = []
        for rank in range(RANKS):
            own = rank_environment({}, listeners[0].address, rank, RANKS) | {TICKET: str(folder / "ticket.json")}
            ranks.append(stack.enter_context(subprocess.Popen(argv, env=own, stdout=subprocess.PIPE)))
        told = [json.loads(process.communicate()[0] or "null") for process in ranks]
    if None in told:
        raise ClusterError(f"carrying: rank {told.index(None)} ended without a figure; its last lines stand above")
    for elements in SIZES:
        slowest = [(max(unix), max(tls)) for size, unix, tls in
                   ((every[0][0], *zip(*(row[1:] for row in every), strict=True)) for every in zip(*told, strict=True))
                   if size == elements]  # fmt: skip
        unix_ms, tls_ms = (statistics.median(column) for column in zip(*slowest, strict=True))
        yield {
            "elements": elements,
            "turns": turns,
            "unix_ms": unix_ms,
            "tls_ms": tls_ms,
            "added_ms": statistics.median(tls - unix for unix, tls in slowest),
            "ratio": statistics.median(tls / unix for unix, tls in slowest),
        }
