"""``python -m p4reduce.bench.plans``: how long planning takes, with networkx on the same tasks.

"job" plans one task of 16 terminals on fat-trees: both trees, with some and with all switches capable, without load and
with random load on every link, another one in each direction. "tasks" schedules 30 of them on germany50. "install"
writes a plan into 100 switches over P4Runtime. "all" is what `p4reduce run` waits for: all workers of a network. At the
end "limits" holds the figures against what must hold. Times are of one core (installing: wall-clock); building the
topology and its arrays, and networkx' graph, have columns of their own. Compare figures of one run only.
"""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from p4reduce.bench.plans import measure
from p4reduce.bench.plans.installing import installing
from p4reduce.bench.report import Report
from p4reduce.control_plane.scheduling import POLICIES

PARTS: Final = ("job", "tasks", "install", "all")
LIMITS_MS: Final = {"fat-tree-16": 10, "fat-tree-32": 60, "fat-tree-64": 1000, "germany50": 300, "install": 1000}
"""what planning may take"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    options = _options(arguments)
    report = Report(as_json=options.json)
    work: dict[str, Any] = {"job": _job, "tasks": _tasks, "install": _install, "all": _all}
    for part in options.only:
        work[part](report, options)
    _limits(report)
    report.finish()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m p4reduce.bench.plans",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of tables")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure")
    parser.add_argument("--k", nargs="+", type=int, default=[16, 32, 64], help="fat-trees of 'job'")
    parser.add_argument("--networkx-up-to", type=int, default=32, metavar="K", help="largest k that networkx gets")
    parser.add_argument(
        "--capable", nargs="+", type=float, default=[0.75, 1.0], help="shares of switches that can aggregate"
    )
    parser.add_argument("--policy", choices=sorted(POLICIES), default="steiner")
    parser.add_argument("--tasks", type=int, default=30, help="of 'tasks'")
    parser.add_argument("--switches", type=int, default=100, help="of 'install'")
    parser.add_argument("--runs", type=int, default=7, help="tasks of 'job'; the median counts")
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
                shares=options.capable,
                runs=options.runs,
                seed=options.seed,
                networkx=k <= options.networkx_up_to,
            )
    theirs = {row["network"]: row["ms"] for row in rows if row["planner"] == "networkx mehlhorn"}
    for row in rows:
        if row["network"] in theirs:
            row["ratio"] = row["ms"] / theirs[row["network"]]
    headings = {"network": "network", "hosts": "hosts", "switches": "switches", "capable": "capable"}
    headings |= {"planner": "planner", "load": "load", "ms": "ms a job", "ratio": "x mehlhorn", "links": "links"}
    headings |= {"topology_ms": "build ms", "arrays_ms": "arrays ms", "graph_ms": "graph ms"}
    report.rows("job", "One job of 16 terminals (build, arrays and graph are not in the time)", headings, rows)


def _tasks(report: Report, options: argparse.Namespace) -> None:
    rows = []
    with report.progress("tasks", len(measure.STATES)) as step:
        for load in measure.STATES:
            step(f"{options.tasks} tasks, load: {load}")
            rows.append(measure.many_jobs("germany50", options.policy, load, count=options.tasks, seed=options.seed))
    report.rows("tasks", "Tasks one after the other, with plans", {key: key for key in rows[0]}, rows)


def _install(report: Report, options: argparse.Namespace) -> None:
    with report.progress("install", 1) as step:
        step(f"{options.switches} switches")
        row = installing(options.switches, options.runs)
    report.rows("install", "Installing a plan over gRPC, wall-clock", {key: key for key in row}, [row])


def _all(report: Report, options: argparse.Namespace) -> None:
    networks = ("germany50", "8")
    with report.progress("all workers", len(networks)) as step:
        rows = []
        for name in networks:
            step(name)
            rows.append(measure.whole_network(name, "steiner", options.runs))
    report.rows("all", "A plan of all workers of a network", {key: key for key in rows[0]}, rows)


def _limits(report: Report) -> None:
    """The slowest of every network and of installing, beside what it may take."""
    slowest: dict[str, float] = {}
    for part in ("job", "tasks", "install"):
        for row in report.results.get(part, ()):
            name = "install" if part == "install" else row["network"]
            if not str(row.get("planner", "")).startswith("networkx"):
                slowest[name] = max(slowest.get(name, 0.0), row["ms"])
    rows = [
        {"what": name, "slowest_ms": ms, "limit_ms": LIMITS_MS[name], "holds": "yes" if ms <= LIMITS_MS[name] else "no"}
        for name, ms in slowest.items()
        if name in LIMITS_MS
    ]
    if rows:
        report.rows("limits", "What must hold", {key: key for key in rows[0]}, rows)


if __name__ == "__main__":
    main()
