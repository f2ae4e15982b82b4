"""The whole tree: four workers push chunks they know, and every one of them must get every sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from p4reduce.labs.frame.report import Check, Finding
from p4reduce.labs.lab01.bench import Bench
from p4reduce.labs.lab01.frames import End, contribution
from p4reduce.labs.lab01.tree import SLOTS, Role, parent_of
from p4reduce.labs.lab01.wire import Wire
from p4reduce.labs.lab01.workers import Worker
from p4reduce.topologies import Topology

CHUNKS: Final = SLOTS + 4
"""some slots are used twice"""
_RUNS: Final = (
    ("every worker gets every sum", 0.0, 0.0),
    ("the same with 1 frame in 10 lost and 1 in 10 doubled", 0.1, 0.1),
)


def examine_network(
    topology: Topology, tree: Mapping[str, Role], fresh: Callable[[str], Bench], *, tried: bool
) -> list[Check]:
    """Both runs; ``tried`` False: not yet, because a switch by itself fails."""
    checks: list[Check] = []
    for title, loss, duplication in _RUNS:
        finding = None
        if tried:
            wire = Wire(topology, {name: fresh(name) for name in tree}, _workers(topology, tree), loss, duplication)
            finding = _judge(wire)
        checks.append(Check("network", title, finding is None if tried else None, finding))
        tried = tried and finding is None
    return checks


def _workers(topology: Topology, tree: Mapping[str, Role]) -> dict[str, Worker]:
    found = {}
    for number, host in enumerate(topology.workers):
        leaf = parent_of(host.name, tree)
        parent = End(leaf.ip, leaf.mac)
        found[host.name] = Worker(host.name, number, End(host.ip, host.mac), parent, CHUNKS, leaf.job, leaf.epoch)
    return found


def _judge(wire: Wire) -> Finding | None:
    finished = wire.run()
    refusals = ", ".join(f"{switch} refused {n} ({why})" for (switch, why), n in wire.refusals.most_common(3))
    for worker in wire.workers.values():
        if worker.wrong:
            return Finding(f"{worker.name} got {worker.wrong[0]}. {refusals}")
    if not finished:
        waiting = ", ".join(f"{w.name} for chunk {w.oldest_missing}" for w in wire.workers.values() if not w.done)
        return Finding(f"these workers wait for ever: {waiting}. {refusals}")
    for seq in range(CHUNKS):
        lanes = [contribution(number, seq) for number in range(len(wire.workers))]
        expected = np.sum(lanes, axis=0, dtype=np.int32)
        for worker in wire.workers.values():
            if not np.array_equal(worker.results[seq], expected):
                return Finding(f"{worker.name} got a wrong sum for chunk {seq}. {refusals}")
    return None
