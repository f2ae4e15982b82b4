"""``p4reduce priorities``: what the order between jobs does to them."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output, progress_bar
from p4reduce.cli.lists import texts
from p4reduce.cli.main import epilog

if TYPE_CHECKING:
    from p4reduce.play.priorities.governed import Governed
    from p4reduce.play.priorities.jobs_file import JobsFile

app = typer.Typer(help="Priorities: jobs that share links, and what an order between them does.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]
Jobs = Annotated[Path, typer.Argument(help="YAML file of jobs; 'p4reduce example priorities' prints one.")]
Policies = Annotated[str, typer.Option("--policies", "-p", help="Priority policies, separated by commas.")]
Told = Annotated[str, typer.Option("--told", help="Who tells them of the jobs: oracle, predicted or none.")]
Rotate = Annotated[int, typer.Option("--rotate", min=0, help="Rotate an order every so many rounds; 0: never.")]
DEFAULT: Final = "fifo,random,sjf"
COMPARE: Final = (
    "p4reduce priorities compare jobs.yaml",
    "p4reduce priorities compare jobs.yaml -p fifo,sjf,intensity,aalo",
    "p4reduce priorities compare jobs.yaml -p fifo,sjf --told predicted --json | jq '.[].worst'",
)
LIST: Final = ("p4reduce priorities policies", "p4reduce priorities policies --json | jq '.[].name'")


@app.callback()
def _group() -> None:
    """Priorities: jobs that share links, and what an order between them does."""


@app.command("policies", epilog=epilog(*LIST))
@guarded
def policies(as_json: Json = False) -> None:
    """List the priority policies: built-in ones, and those of other packages."""
    from p4reduce.control_plane.priorities import PRIORITY_POLICIES  # noqa: PLC0415

    output = Output(as_json=as_json)
    said = {name: _first_line(PRIORITY_POLICIES[name]) for name in sorted(PRIORITY_POLICIES)}
    output.data([{"name": name, "says": text} for name, text in said.items()])
    output.table(("policy", "what comes first"), list(said.items()))


@app.command("compare", epilog=epilog(*COMPARE))
@guarded
def compare(
    file: Jobs, policies: Policies = DEFAULT, told: Told = "oracle", rotate: Rotate = 0, as_json: Json = False
) -> None:
    """Run the jobs of a file together under several policies, and each of them alone.

    On packets, in virtual time: every sum is checked, and every byte on a link was predicted, or is a resend.
    """
    from p4reduce.control_plane.priorities import priority_policy_named  # noqa: PLC0415
    from p4reduce.play.priorities.governed import Governing, Knowledge, run_governed  # noqa: PLC0415
    from p4reduce.play.priorities.jobs_file import prepare, read_jobs  # noqa: PLC0415

    output = Output(as_json=as_json)
    names = texts(policies, "--policies")
    for name in names:
        priority_policy_named(name)
    if told not in {one.value for one in Knowledge}:
        raise BadInput(f"--told: {told!r} is none of {', '.join(one.value for one in Knowledge)}")
    document = read_jobs(file)
    found: dict[str, Governed] = {}
    with progress_bar(output) as open_bar:
        tell = open_bar("priorities")
        tell("alone", 0, len(names) + 1)
        jobs = prepare(document)
        for done, name in enumerate(names, 1):
            tell(name, done, len(names) + 1)
            found[name] = run_governed(
                jobs.description, Governing(name, Knowledge(told), rotate, jobs.read_every_ps), jobs.alone
            )
    rows = [_row(name, jobs, one) for name, one in found.items()]
    output.data(rows)
    _show(output, jobs, rows)


def _row(policy: str, jobs: "JobsFile", found: "Governed") -> dict[str, Any]:
    from p4reduce.control_plane.priorities import jain  # noqa: PLC0415

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


def _show(output: Output, jobs: "JobsFile", rows: list[dict[str, Any]]) -> None:
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
