"""The commands of ``p4reduce lab``."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import typer
from rich.text import Text

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import EXIT_FAILED
from p4reduce.base.output import Output, progress_bar
from p4reduce.base.signals import handling, raise_exit_in_time
from p4reduce_course.catalogue import NAMES, find
from p4reduce_course.command import LabCopy, LabGrade, LabGradeAll, LabList, LabNew
from p4reduce_course.frame.cohort import NOTHING, Terms, logged, read_roster, write_feedback
from p4reduce_course.frame.cohort import grade_all as grade_class
from p4reduce_course.frame.grading import copy_lab, new_lab
from p4reduce_course.frame.grading import grade as grade_one
from p4reduce_course.frame.lab import EXAMPLE, PRACTICE
from p4reduce_course.frame.report import (
    LOOK,
    Check,
    GradeReport,
    checks_csv,
    class_csv,
    counted,
    gradescope,
    junit,
    write_looks,
)
from p4switch.base.files import read_bytes


def list_(flags: LabList) -> None:
    """Lists the labs with their times and parts."""
    output = Output(as_json=flags.as_json)
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


def grade(flags: LabGrade) -> None:
    """Grades one folder; exits with 1 if it does not pass."""
    form = "json" if flags.as_json else flags.format
    output = Output(as_json=form != "text")
    report = grade_one(
        flags.folder, lab=flags.lab, student=flags.student, seed=_seed(flags.seed_file), only=list(flags.only)
    )
    writers: dict[str, Callable[[GradeReport], str]] = {"gradescope": gradescope, "junit": junit, "csv": checks_csv}
    if form == "json":
        output.data(report.data())
    elif form != "text":
        print(writers[form](report), end="")
    _print(output, report)
    if not write_looks(flags.folder, report):
        output.line(f"note: {flags.folder / LOOK} cannot be written; what it would hold is in --json")
    if not report.passed:
        raise typer.Exit(EXIT_FAILED)


def grade_all(flags: LabGradeAll) -> None:
    """Grades a class."""
    output = Output(as_json=flags.as_json)
    terms = Terms(
        flags.lab,
        _seed(flags.seed_file),
        list(flags.only),
        flags.several,
        None if flags.roster is None else read_roster(flags.roster),
        list(flags.student),
    )
    ends = handling(raise_exit_in_time, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    with ends, progress_bar(output) as bar:
        jobs = flags.jobs or len(os.sched_getaffinity(0))
        graded = grade_class(flags.folder, terms, jobs=jobs, told=bar("grading"))
    rows = [submission.row() for submission in graded]
    parts = list(
        dict.fromkeys(
            name for submission in graded if submission.report is not None for name in submission.report.parts
        )
    )
    if flags.csv is not None:
        flags.csv.parent.mkdir(parents=True, exist_ok=True)
        flags.csv.write_text(class_csv(parts, rows), "utf-8")
    output.data(rows)
    table = [
        [
            submission.student,
            f"{submission.report.points}/{submission.report.most}" if submission.report else "-",
            str(row["first_failure"])[:200],
        ]
        for submission, row in zip(graded, rows, strict=True)
    ]
    output.table(("student", "points", "first failure"), table)
    for submission, row in zip(graded, rows, strict=True):
        if row.get("same_as") or row.get("note"):
            same = f"the same as {row['same_as']}" if row.get("same_as") else ""
            output.line(f"{submission.student}: {'; '.join(str(part) for part in (same, row.get('note')) if part)}")
    if flags.feedback is not None:
        write_feedback(flags.feedback, graded)
    for line in logged(flags.log, graded, flags.because) if flags.log is not None else ():
        output.line(line)
    if any(submission.report is None and submission.problem != NOTHING for submission in graded):
        raise typer.Exit(EXIT_FAILED)


def copy(flags: LabCopy) -> None:
    """Copies a lab out of the package."""
    lab = find(flags.name)
    target = flags.folder or Path(lab.name)
    copy_lab(lab, flags.student or EXAMPLE, target)
    output = Output()
    output.line(f"{target}: read README.md, work in {target}/skeleton, then:")
    output.line(f"    p4reduce lab grade {target}" + (f" --lab {flags.name}" if lab.home is not None else ""))
    if not flags.student:
        output.line("Where your work is graded by a teacher, copy it with --student NAME: its numbers are yours then.")


def new(flags: LabNew) -> None:
    """Begins a new lab."""
    new_lab(flags.folder, "p4" if flags.p4 else "python")
    Output().line(
        f"{flags.folder}: change lab.py, README.md, skeleton and solution; then: pytest {flags.folder}/test_lab.py"
    )


def _seed(file: Path | None) -> bytes:
    if file is None:
        return PRACTICE
    try:
        secret = read_bytes(file).strip()
    except OSError as error:
        raise BadInput(f"--seed-file {file}: {error.strerror}") from None
    if not secret:
        raise BadInput(f"--seed-file {file}: is empty; put a secret into it")
    return secret


def _print(output: Output, report: GradeReport) -> None:
    output.line(f"lab {report.lab}, {report.folder}")
    for note in report.notes:
        output.line(f"note: {note}")
    subject = ""
    told: dict[tuple[str, str], str] = {}
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


def _print_check(output: Output, check: Check, told: dict[tuple[str, str], str]) -> None:
    """Prints a check, or a reference for a finding that was printed before; ``told``: check titles by finding."""
    mark, style = {True: ("pass", "green"), False: ("FAIL", "bold red"), None: ("-", "dim")}[check.passed]
    output.line(Text.assemble("  ", (f"{mark:<5}", style), check.title))
    if check.finding is None:
        return
    text_and_place = check.finding.said, check.finding.where
    if text_and_place in told:
        output.line(f"        the same as above, in '{told[text_and_place]}'")
        return
    told[text_and_place] = check.title
    problem = check.finding.said.replace("\n", "\n        ")
    for label, text in (("", problem), ("where: ", check.finding.where)):
        if text:
            output.line(f"        {label}{text}")
    if check.finding.look:  # on one line, however long, so that it can be copied
        output.people.print(Text(f"        look:  {check.finding.look}"), soft_wrap=True)
