"""``python -m p4reduce.control_plane.bench``: how long planning takes, with networkx on the same tasks.

"job" plans one task of 16 terminals on fat-trees: both trees, with the residual bandwidth of every link (random load in
every direction) and only some switches capable. "tasks" schedules 30 of them on germany50. "all" is what
`p4reduce run` waits for: all workers of a network. Times are of one core; building the topology and its arrays, and
networkx' graph, have columns of their own. Compare figures of one run only.
"""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from p4reduce.control_plane.bench import measure
from p4reduce.control_plane.scheduling import POLICIES
from p4reduce.dataplane.bench.report import Report

PARTS: Final = ("job", "tasks", "all")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    options = _options(arguments)
    report = Report(as_json=options.json)
    work: dict[str, Any] = {"job": _job, "tasks": _tasks, "all": _all}
    for part in options.only:
        work[part](report, options)
    report.finish()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m p4reduce.control_plane.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of tables")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure")
    parser.add_argument("--k", nargs="+", type=int, default=[16, 32, 64], help="fat-trees of 'job'")
    parser.add_argument("--networkx-up-to", type=int, default=32, metavar="K", help="largest k that networkx gets")
    parser.add_argument("--capable", type=float, default=0.75, help="share of switches that can aggregate")
    parser.add_argument("--policy", choices=sorted(POLICIES), default="steiner")
    parser.add_argument("--tasks", type=int, default=30, help="of 'tasks'")
    parser.add_argument("--runs", type=int, default=7, help="the median counts")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


def _job(report: Report, options: argparse.Namespace) -> None:
    rows: list[measure.Row] = []
    with report.progress("one job", len(options.k)) as step:
        for k in options.k:
            step(f"fat-tree k = {k}")
            rows += measure.one_job(
                str(k),
                options.policy,
                share=options.capable,
                runs=options.runs,
                seed=options.seed,
                networkx=k <= options.networkx_up_to,
            )
    headings = {"network": "network", "hosts": "hosts", "switches": "switches", "capable": "capable"}
    headings |= {"planner": "planner", "state": "load", "ms": "ms a job", "links": "links"}
    headings |= {"topology_ms": "build ms", "arrays_ms": "arrays ms", "graph_ms": "graph ms"}
    report.rows("job", "One job of 16 terminals (build, arrays and graph are not in the time)", headings, rows)


def _tasks(report: Report, options: argparse.Namespace) -> None:
    with report.progress("tasks", 1) as step:
        step(f"{options.tasks} tasks")
        row = measure.many_jobs("germany50", options.policy, count=options.tasks, seed=options.seed)
    report.rows("tasks", "Tasks one after the other, with plans", {key: key for key in row}, [row])


def _all(report: Report, options: argparse.Namespace) -> None:
    networks = ("germany50", "8")
    with report.progress("all workers", len(networks)) as step:
        rows = []
        for name in networks:
            step(name)
            rows.append(measure.whole_network(name, "steiner", options.runs))
    report.rows("all", "A plan of all workers of a network", {key: key for key in rows[0]}, rows)


if __name__ == "__main__":
    main()
