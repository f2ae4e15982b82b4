"""Cost of a task for the orchestrator: ``python -m tests.support.orchestrated.cost [--tasks 50 5000]``.

All tasks arrive at once, and only one fits at a time, so that all others wait: the worst case for repeated attempts.
Switches and hosts take no time (`instant`); policy, planning, database and controller are real.
"""

import argparse
import sqlite3
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from p4reduce.control_plane.orchestrator import Orchestrator, OrchestratorOptions, Store, TaskState
from p4reduce.control_plane.scheduling import Task, policy_named
from p4reduce.control_plane.scheduling.task import WantedHosts
from p4reduce.network.jobs.network import bundled
from p4reduce.topologies import leaf_spine
from tests.support.orchestrated.fuse import Fuse
from tests.support.orchestrated.instant import PS_PER_US, InstantController, InstantHosts, Switch

LANES = 64
OPTIONS = OrchestratorOptions(control_latency_ps=5 * PS_PER_US, measure_every_ps=100 * PS_PER_US)


@dataclass(frozen=True)
class Cost:
    """Cost of a run: policy calls, rows of all tables, rows of measurements, SQL statements, CPU seconds."""

    tasks: int
    calls: int
    rows: int
    measurements: int
    statements: int
    cpu_s: float


def cost(
    tasks: int, *, rounds: int = 1, training_ps: int = 20 * PS_PER_US, placement: str = "", order: str = "fifo"
) -> Cost:
    """Run tasks of which one has room at a time; with ``placement`` they ask for three of the four hosts."""
    topology = leaf_spine(leaves=2, spines=2, hosts=2, servers=1)
    options = replace(OPTIONS, placement=placement or OPTIONS.placement, order=order)
    names = ((), WantedHosts(3)) if placement else (("h1", "h3"), None)
    rate = topology.link_at("h1", 1).rate_bps
    fuse, switches = Fuse(), {switch.name: Switch() for switch in topology.switches}
    hosts = InstantHosts(topology, switches, fuse)
    calls = statements = 0
    steiner = policy_named("steiner")

    def policy(task, state, *, lanes=256):
        nonlocal calls
        calls += 1
        return steiner(task, state, lanes=lanes)

    def count(_):
        nonlocal statements
        statements += 1

    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "t.sqlite", synchronous=False) as store:
        store.submit(
            Task(f"t{number}", "server1", names[0], 100, rounds, training_ps, rate // 2 + 1, wanted=names[1])
            for number in range(tasks)
        )
        store._connection.set_trace_callback(count)
        began = time.process_time()
        with InstantController(topology, bundled(LANES), switches, fuse, election_id=store.take_charge()) as controller:
            Orchestrator(store, controller, hosts, policy, name="steiner", options=options).run()
        cpu_s = time.process_time() - began
        store._connection.set_trace_callback(None)
        assert store.count([TaskState.FINISHED]) == tasks
        measured = rows_of(store.path, "link_measurements") + rows_of(store.path, "switch_measurements")
        others = sum(rows_of(store.path, table) for table in ("tasks", "changes", "plans", "decisions", "rounds"))
    return Cost(tasks, calls, others + measured, measured, statements, cpu_s)


def rows_of(path: Path, table: str) -> int:
    """Return the number of rows of a table."""
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608
    finally:
        connection.close()


def main() -> None:
    """Print a table of costs."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.orchestrated.cost", description=__doc__)
    parser.add_argument("--tasks", type=int, nargs="+", default=[50, 100, 200, 1000, 5000])
    parser.add_argument("--placement", default="", help="choose hosts with this placement policy")
    parser.add_argument("--order", default="fifo", help="order of the waiting tasks")
    given = parser.parse_args()
    cost(5)  # compile and import before measuring
    head = ("tasks", "policy calls", "a task", "rows", "measurements", "statements a task", "CPU ms a task")
    sys.stdout.write("  ".join(f"{name:>17}" for name in head) + "\n")
    for tasks in given.tasks:
        found = cost(tasks, placement=given.placement, order=given.order)
        cells = (
            f"{tasks:,}",
            f"{found.calls:,}",
            f"{found.calls / tasks:.1f}",
            f"{found.rows:,}",
            f"{found.measurements:,}",
            f"{found.statements / tasks:.0f}",
            f"{1000 * found.cpu_s / tasks:.1f}",
        )
        sys.stdout.write("  ".join(f"{cell:>17}" for cell in cells) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
