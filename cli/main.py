"""The ``p4reduce`` command."""

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from p4reduce import __version__
from p4reduce.cli.commands import (
    clean,
    compare,
    confirm,
    demo,
    doctor,
    lab,
    launch,
    net,
    orchestrate,
    plan,
    report,
    run,
    sweep,
    switch,
    tasks,
    topo,
    trace,
)
from p4reduce.cli.examples import epilog, help_of

app = typer.Typer(
    name="p4reduce",
    help="In-network aggregation for distributed training, on P4 switches.\n\nBegin with 'p4reduce demo'.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")]


@app.callback()
def _main(version: Version = False) -> None:
    """In-network aggregation for distributed training, on P4 switches.

    Begin with 'p4reduce demo'. Every command has --help with examples, and --json.
    """


PASS_ON: Final[dict[str, Any]] = {"allow_interspersed_args": False}
"""After the script's name everything belongs to the script."""


def _add(name: str, command: Callable[..., None], examples: tuple[str, ...], **options: Any) -> None:
    app.command(name, help=help_of(command), epilog=epilog(*examples), **options)(command)


_add("demo", demo.demo, demo.EXAMPLES)
_add("run", run.run, run.EXAMPLES)
_add("launch", launch.launch, launch.EXAMPLES, context_settings=PASS_ON)
_add("compare", compare.compare, compare.EXAMPLES)
_add("confirm", confirm.confirm, confirm.EXAMPLES)
_add("sweep", sweep.sweep, sweep.EXAMPLES)
app.add_typer(topo.app, name="topo")
app.add_typer(plan.app, name="plan")
_add("trace", trace.trace, trace.EXAMPLES)
_add("switch", switch.switch, switch.EXAMPLES)
app.add_typer(net.app, name="net")
app.add_typer(tasks.app, name="tasks")
_add("orchestrate", orchestrate.orchestrate, orchestrate.EXAMPLES)
app.add_typer(lab.app, name="lab")
_add("report", report.report, report.EXAMPLES)
_add("clean", clean.clean, clean.EXAMPLES)
_add("doctor", doctor.doctor, doctor.EXAMPLES)
