"""``p4reduce lab``: labs that need nothing but the package."""

import os
import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import EXIT_FAILED, guarded
from p4reduce.base.output import Output, progress_bar
from p4reduce.base.signals import handling, raise_exit_in_time
from p4reduce.cli.main import epilog
from p4switch.base.files import read_bytes

if TYPE_CHECKING:
    from p4reduce_course.frame.report import Check, Finding, Report

app = typer.Typer(help="Labs: copy one, work on it, have it graded.", no_args_is_help=True)


class Format(StrEnum):
    """What a report is written as."""

    TEXT = "text"
    JSON = "json"
    GRADESCOPE = "gradescope"
    JUNIT = "junit"
    CSV = "csv"


Json = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
As = Annotated[Format, typer.Option("--format", "-f", help="Of the report on stdout.")]
Only = Annotated[list[str] | None, typer.Option("--only", help="A part of the lab; may be given several times.")]
Student = Annotated[str | None, typer.Option(help="Whose parameters hold. Default: as the folder's lab.yaml says.")]
Which = Annotated[str | None, typer.Option("--lab", help="The lab, or a folder with a lab.py of yours, which is run.")]
Seed = Annotated[
    Path | None,
    typer.Option(help="A file with a secret: other inputs are tried than students can try.", show_default=False),
]
EXAMPLES: Final = (
    "p4reduce lab grade 01-sum-in-a-switch",
    "p4reduce lab grade 01-sum-in-a-switch --only leaf1       # its exit code: GitHub Classroom",
    "p4reduce lab grade my-lab --format gradescope --seed-file secret > results.json",
)
COPY_EXAMPLES: Final = ("p4reduce lab copy 01 --student ana", "p4reduce lab copy 01 my-lab")
ALL_EXAMPLES: Final = ("p4reduce lab grade-all submissions --lab 01 --csv grades.csv --seed-file secret",)
NEW_EXAMPLES: Final = ("p4reduce lab new my-lab", "p4reduce lab grade my-lab/solution --lab my-lab")


@app.callback()
def _group() -> None:
    """Labs: copy one, work on it, have it graded."""


@app.command("list", epilog=epilog("p4reduce lab list"))
@guarded
def list_(as_json: Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")] = False) -> None:
    """Which labs there are, how long they take, and their parts."""
    from p4reduce_course.catalogue import NAMES, find  # noqa: PLC0415  (slow to import)

    output = Output(as_json=as_json)
    labs = [find(number) for number in NAMES]
    output.data(
        [
            {"lab": x.name, "title": x.title, "minutes": x.minutes, "parts": {p.name: p.points for p in x.parts}}
            for x in labs
        ]
    )
    rows = [
        [x.name, str(x.minutes), ", ".join(f"{p.name} {p.points}" for p in x.parts)]
        for x in labs
    ]  # fmt: skip
    output.table(("lab", "min", "parts and points"), rows)


@app.command("grade", epilog=epilog(*EXAMPLES))
@guarded
def grade(
    folder: Annotated[Path, typer.Argument(help="The lab, or the folder with your files.")],
    as_json: Json = False,
    form: As = Format.TEXT,
    only: Only = None,
    lab: Which = None,
    student: Student = None,
    seed_file: Seed = None,
) -> None:
    """Say pass, or exactly what is missing. Exit code 0 means pass, 1 not yet.

    Entries are data, and P4 runs on the embedded switch; Python of yours runs in a process of its own, without network
    and with little time and memory (docs/security.md).
    """
    from p4reduce_course.frame.grading import grade as run  # noqa: PLC0415
    from p4reduce_course.frame.report import checks_csv, gradescope, junit  # noqa: PLC0415  (slow to import)

    form = Format.JSON if as_json else form
    output = Output(as_json=form is not Format.TEXT)
    report = run(folder, lab=lab, student=student, seed=_seed(seed_file), only=only or ())
    writers: dict[Format, Callable[[Report], str]] = {
        Format.GRADESCOPE: gradescope,
        Format.JUNIT: junit,
        Format.CSV: checks_csv,
    }
    if form is Format.JSON:
        output.data(report.data())
    elif form is not Format.TEXT:
        print(writers[form](report), end="")
    _print(output, report)
    if not report.passed:
        raise typer.Exit(EXIT_FAILED)


@app.command("grade-all", epilog=epilog(*ALL_EXAMPLES))
@guarded
def grade_all(
    folder: Annotated[Path, typer.Argument(help="A folder for each student, named as the student.")],
    csv: Annotated[Path | None, typer.Option(help="Where the table of grades goes.")] = None,
    lab: Which = None,
    only: Only = None,
    seed_file: Seed = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Processes; 0: one for each processor.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")] = False,
) -> None:
    """Grade a whole class: a row for each student, and who handed in the same.

    Exit code 0: all could be graded, whatever their grades.
    """
    from p4reduce_course.frame.grading import grade_all as run  # noqa: PLC0415  (slow to import)
    from p4reduce_course.frame.report import class_csv  # noqa: PLC0415

    output = Output(as_json=as_json)
    ends = handling(raise_exit_in_time, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    with ends, progress_bar(output) as bar:
        graded = run(
            folder,
            lab=lab,
            seed=_seed(seed_file),
            only=only or (),
            jobs=jobs or len(os.sched_getaffinity(0)),
            told=bar("grading"),
        )
    rows = [one.row() for one in graded]
    parts = list(dict.fromkeys(name for one in graded if one.report is not None for name in one.report.parts))
    if csv is not None:
        csv.parent.mkdir(parents=True, exist_ok=True)
        csv.write_text(class_csv(parts, rows), "utf-8")
    output.data(rows)
    table = [
        [one.student, f"{one.report.points}/{one.report.most}" if one.report else "-", str(row["first_failure"])[:200]]
        for one, row in zip(graded, rows, strict=True)
    ]
    output.table(("student", "points", "first failure"), table)
    for one, row in zip(graded, rows, strict=True):
        if row.get("same_as") or row.get("note"):
            same = f"the same as {row['same_as']}" if row.get("same_as") else ""
            output.line(f"{one.student}: {'; '.join(str(part) for part in (same, row.get('note')) if part)}")
    if any(one.report is None for one in graded):
        raise typer.Exit(EXIT_FAILED)


@app.command("copy", epilog=epilog(*COPY_EXAMPLES))
@guarded
def copy(
    name: Annotated[str, typer.Argument(help="The lab: 01-sum-in-a-switch, or 01; or a folder with a lab.py.")],
    folder: Annotated[Path | None, typer.Argument(help="Where to; must not exist. Default: the lab's name.")] = None,
    student: Annotated[str, typer.Option(help="Your name as your teacher has it: some numbers follow from it.")] = "",
) -> None:
    """Copy a lab out of the installed package, to work on it."""
    from p4reduce_course.catalogue import find  # noqa: PLC0415  (slow to import)
    from p4reduce_course.frame.grading import copy_lab  # noqa: PLC0415
    from p4reduce_course.frame.lab import EXAMPLE  # noqa: PLC0415

    lab = find(name)
    target = folder or Path(lab.name)
    copy_lab(lab, student or EXAMPLE, target)
    output = Output()
    output.line(f"{target}: read README.md, work in {target}/skeleton, then:")
    output.line(f"    p4reduce lab grade {target}" + (f" --lab {name}" if lab.home is not None else ""))
    if not student:
        output.line("Where your work is graded by a teacher, copy it with --student NAME: its numbers are yours then.")


@app.command("new", epilog=epilog(*NEW_EXAMPLES))
@guarded
def new(folder: Annotated[Path, typer.Argument(help="Where to; must not exist.")]) -> None:
    """Begin a lab of your own: README, skeleton, grader, solution and a test of them."""
    from p4reduce_course.frame.lab import new_lab  # noqa: PLC0415  (slow to import)

    new_lab(folder)
    Output().line(f"{folder}: change lab.py, README.md, skeleton and solution; then: pytest {folder}/test_lab.py")


def _seed(file: Path | None) -> bytes:
    from p4reduce_course.frame.lab import PRACTICE  # noqa: PLC0415

    if file is None:
        return PRACTICE
    try:
        secret = read_bytes(file).strip()
    except OSError as error:
        raise BadInput(f"--seed-file {file}: {error.strerror}") from None
    if not secret:
        raise BadInput(f"--seed-file {file}: is empty; put a secret into it")
    return secret


def _print(output: Output, report: "Report") -> None:
    from p4reduce_course.frame.report import counted  # noqa: PLC0415

    output.line(f"lab {report.lab}, {report.folder}")
    for note in report.notes:
        output.line(f"note: {note}")
    subject = ""
    told: dict[Finding, str] = {}
    for check in report.checks:
        if check.subject != subject:
            subject = check.subject
            points, most = report.part(subject)
            output.line(f"{subject}: {points} of {counted(most, 'point')}")
        _print_check(output, check, told)
    failed = sum(check.passed is False for check in report.checks)
    waiting = sum(check.passed is None for check in report.checks)
    had = f"{report.points} of {counted(report.most, 'point')}"
    if report.passed:
        output.line(Text(f"PASS, {had}: {report.praise}", "bold green"))
    else:
        after = f", {waiting} not tried" if waiting else ""
        output.line(Text(f"not yet, {had}: {counted(failed, 'check')} failed{after}", "bold red"))


def _print_check(output: Output, check: "Check", told: "dict[Finding, str]") -> None:
    """A check; what was said of an earlier one (``told``: of which) is not said again."""
    mark, style = {True: ("pass", "green"), False: ("FAIL", "bold red"), None: ("-", "dim")}[check.passed]
    output.line(Text.assemble("  ", (f"{mark:<5}", style), check.title))
    if check.finding is None:
        return
    if check.finding in told:
        output.line(f"        the same as above, in '{told[check.finding]}'")
        return
    told[check.finding] = check.title
    said = check.finding.said.replace("\n", "\n        ")
    for label, text in (("", said), ("where: ", check.finding.where), ("look:  ", check.finding.look)):
        if text:
            output.line(f"        {label}{text}")
