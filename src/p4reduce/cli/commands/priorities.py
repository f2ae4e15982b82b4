"""``p4reduce priorities``: what the order between jobs does to them."""

import inspect
from typing import Any

from p4reduce.base.output import Output, progress_bar
from p4reduce.cli.flags.schedule import PrioritiesCompare, PrioritiesPolicies
from p4reduce.control_plane.priorities import PRIORITY_POLICIES, jain
from p4reduce.play.priorities.governed import Governed, Governing, Knowledge, run_governed
from p4reduce.play.priorities.jobs_file import JobsFile, prepare, read_jobs


def policies(flags: PrioritiesPolicies) -> None:
    """List them."""
    output = Output(as_json=flags.as_json)
    said = {name: _first_line(PRIORITY_POLICIES[name]) for name in sorted(PRIORITY_POLICIES)}
    output.data([{"name": name, "says": text} for name, text in said.items()])
    output.table(("policy", "what comes first"), list(said.items()))


def compare(flags: PrioritiesCompare) -> None:
    """Run the jobs under each policy, and each of them alone."""
    output = Output(as_json=flags.as_json)
    names = flags.policies
    document = read_jobs(flags.file)
    found: dict[str, Governed] = {}
    with progress_bar(output) as open_bar:
        tell = open_bar("priorities")
        tell("alone", 0, len(names) + 1)
        jobs = prepare(document)
        for done, name in enumerate(names, 1):
            tell(name, done, len(names) + 1)
            governing = Governing(name, Knowledge(flags.told), flags.rotate, jobs.read_every_ps)
            found[name] = run_governed(jobs.description, governing, jobs.alone)
    rows = [_row(name, jobs, one) for name, one in found.items()]
    output.data(rows)
    _show(output, jobs, rows)


def _row(policy: str, jobs: JobsFile, found: Governed) -> dict[str, Any]:
    slow = {
        name: took.completion_ps / alone.completion_ps
        for name, took, alone in zip(jobs.names, found.run.jobs, jobs.by_themselves, strict=True)
    }
    told = found.accuracy
    return {
        "policy": policy,
        "mean": sum(slow.values()) / len(slow),
        "worst": max(slow.values()),
        "jain": jain([1 / one for one in slow.values()]),
        "resend_share": found.run.resend_share,
        "writes": found.run.writes,
        "median_error": None if told is None else told.median_error,
        "in_time": None if told is None else told.in_time_share,
        "jobs": [
            {"name": name, "completion_ps": took.completion_ps, "alone_ps": alone.completion_ps,
             "slowdown": slow[name], "class": priority}
            for name, took, alone, priority in zip(
                jobs.names, found.run.jobs, jobs.by_themselves, found.classes, strict=True)
        ],
    }  # fmt: skip


def _show(output: Output, jobs: JobsFile, rows: list[dict[str, Any]]) -> None:
    columns = ["policy", *jobs.names, "mean", "Jain", "sent again"]
    output.table(
        columns,
        [
            [
                row["policy"],
                *(f"{job['slowdown']:.3f}" for job in row["jobs"]),
                f"{row['mean']:.3f}",
                f"{row['jain']:.3f}",
                f"{100 * row['resend_share']:.2f} %",
            ]
            for row in rows
        ],
    )
    output.line("completion time over that of the same job alone")
    for row in rows:
        if row["in_time"] is not None:
            output.line(
                f"{row['policy']}: starts predicted to {100 * row['median_error']:.2f} % of a period (median), "
                f"{100 * row['in_time']:.0f} % of classes written before the first frame"
            )


def _first_line(policy: object) -> str:
    return " ".join((inspect.getdoc(policy) or "").split("\n\n")[0].split())
