"""``p4reduce lab``: labs that need nothing but the package."""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from p4reduce.cli.examples import epilog
from p4reduce.cli.failures import EXIT_FAILED, BadInput, guarded
from p4reduce.cli.output import Output

if TYPE_CHECKING:
    from p4reduce.labs.grading.report import Check, Report

app = typer.Typer(help="Labs: copy one, work on it, have it graded.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]
EXAMPLES: Final = ("p4reduce lab grade labs/01-sum-in-a-switch", "p4reduce lab grade my-lab/skeleton --json")
COPY_EXAMPLES: Final = ("p4reduce lab copy 01-sum-in-a-switch", "p4reduce lab copy 01 my-lab")


@app.callback()
def _group() -> None:
    """Labs: copy one, work on it, have it graded."""


@app.command("grade", epilog=epilog(*EXAMPLES))
@guarded
def grade(
    folder: Annotated[Path, typer.Argument(help="The lab, or the folder with your files.")], as_json: Json = False
) -> None:
    """Say pass, or exactly what is missing. Exit code 0 means pass, 1 not yet.

    Your files are data: they are read, checked and loaded into switches; nothing in them is executed.
    """
    from p4reduce.labs.grading.grade import grade as run  # noqa: PLC0415  (slow to import)
    from p4reduce.labs.grading.report import LabError  # noqa: PLC0415

    output = Output(as_json=as_json)
    try:
        report = run(folder)
    except LabError as error:
        raise BadInput(str(error)) from None
    output.data({**asdict(report), "passed": report.passed})
    _print(output, report)
    if not report.passed:
        raise typer.Exit(EXIT_FAILED)


@app.command("copy", epilog=epilog(*COPY_EXAMPLES))
@guarded
def copy(
    name: Annotated[str, typer.Argument(help="The lab: 01-sum-in-a-switch, or 01.")],
    folder: Annotated[Path | None, typer.Argument(help="Where to; must not exist. Default: the lab's name.")] = None,
) -> None:
    """Copy a lab out of the installed package, to work on it."""
    from p4reduce.labs.grading.grade import lab_folder  # noqa: PLC0415  (slow to import)
    from p4reduce.labs.grading.report import LabError  # noqa: PLC0415

    try:
        source = lab_folder(name)
    except LabError as error:
        raise BadInput(str(error)) from None
    target = folder or Path(source.name)
    if target.exists():
        raise BadInput(f"{target}: is there already; name another folder")
    shutil.copytree(source, target)
    Output().line(f"{target}: read README.md, fill in {target}/skeleton, then: p4reduce lab grade {target}")


def _print(output: Output, report: "Report") -> None:
    output.line(f"lab {report.lab}, {report.folder}")
    subject = ""
    for check in report.checks:
        if check.subject != subject:
            subject = check.subject
            output.line(subject)
        _print_check(output, check)
    failed = sum(check.passed is False for check in report.checks)
    waiting = sum(check.passed is None for check in report.checks)
    if report.passed:
        output.line(Text("PASS: the switches sum and multicast, also under loss", "bold green"))
    else:
        after = f", {waiting} wait for them" if waiting else ""
        output.line(Text(f"not yet: {failed} checks failed{after}", "bold red"))


def _print_check(output: Output, check: "Check") -> None:
    mark, style = {True: ("pass", "green"), False: ("FAIL", "bold red"), None: ("-", "dim")}[check.passed]
    output.line(Text.assemble("  ", (f"{mark:<5}", style), check.title))
    if check.finding is not None:
        said = check.finding.said.replace("\n", "\n        ")
        for label, text in (("", said), ("where: ", check.finding.where), ("look:  ", check.finding.look)):
            if text:
                output.line(f"        {label}{text}")
