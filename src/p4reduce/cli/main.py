"""The ``p4reduce`` command: its commands by name, each imported only when it is the one that runs."""

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Annotated, Any, Final

import typer
from rich.markup import escape
from typer import Typer
from typer.core import TyperGroup

from p4reduce import __version__
from p4reduce.base.output import Output

# Misused commands and flags: one line that says what is wrong and where the examples stand, exit code 2.


# Help texts: a command's docstring as flowing text, and examples under it.


def epilog(*examples: str) -> str:
    """Text for typer's ``epilog``: one example a line (typer makes a line of each paragraph)."""
    return "\n\n".join(("Examples:", *(escape(example) for example in examples)))


def group_epilog(group: Typer) -> str:
    """The ``epilog`` of a group of commands: the first example of each of them."""
    own = [(command.epilog or "").split("\n\n") for command in group.registered_commands]
    return "\n\n".join(("Examples:", *(lines[1] for lines in own if len(lines) > 1)))


def help_of(command: Callable[..., None]) -> str:
    """Text for typer's ``help``: the docstring with each paragraph on one line, so that terminals wrap it."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(escape(" ".join(paragraph.split())) for paragraph in paragraphs)


_MISUSED: Final = typer.BadParameter.__mro__[2]
"""``ClickException``, of which everything is that Typer says of a command line; a Typer may have its own Click."""


class OneLineGroup(TyperGroup):
    """The root of all commands. Typer would print usage, a hint and a box of lines; scripts and people want one."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """As Typer's own, but for what it prints of errors."""
        run = functools.partial(super().main, args, prog_name, complete_var, False, windows_expand_args, **extra)
        if not standalone_mode:
            return run()
        try:
            code = run()
        except typer.Abort:
            Output().note("interrupted")
            sys.exit(1)
        except Exception as error:
            if not isinstance(error, _MISUSED):
                raise
            _say_usage(error)
            sys.exit(getattr(error, "exit_code", 2))
        sys.exit(code if isinstance(code, int) else 0)


def _say_usage(error: Any) -> None:
    text = " ".join(str(error.format_message()).split()).removesuffix(".")
    if not text:
        return  # a group without a command has shown its help already
    context = getattr(error, "ctx", None)
    where = "p4reduce" if context is None else context.command_path
    see = " See" if text.endswith("?") else "; see"
    Output().note(f"error: {text[0].lower()}{text[1:]}{see} '{where} --help'")


COMMANDS: Final = {
    "demo": "Train a model through P4 switches, once for each plan, and write a report.",
    "run": "Run one collective or one training through the switches.",
    "launch": "Start a script of yours once for each rank; its collectives go through the switches.",
    "perf": "Measure a collective over a range of sizes, plan by plan, in the columns of NVIDIA's nccl-tests.",
    "compare": "Run the same work with several plans: one table, one CSV, one report.",
    "confirm": "Run the same work in virtual time and on real sockets, and compare them.",
    "sweep": "Run every combination of the given lists, one row each.",
    "topo": "Topologies: bundled, built from parameters, or files of yours.",
    "plan": "Plans: who adds up where, and what each link will carry.",
    "trace": "Show what a P4 program does with packets: states, keys, entries that hit, values before and after, "
    "and why a packet left where it did.",
    "p4": "P4 programs: check them, compile them; nothing else is needed.",
    "switch": "Run P4 switches that any P4Runtime controller can program, as simple_switch_grpc does.",
    "net": "Networks of the kernel that stand until they are taken down.",
    "tasks": "AI tasks: submit, list, show, cancel. 'p4reduce orchestrate' runs them.",
    "priorities": "Priorities: jobs that share links, and what an order between them does.",
    "orchestrate": "Run the tasks of a database until all have ended.",
    "slurm": "Slurm: jobs that go where p4reduce's placement says, and all-reduce there.",
    "tdm": "TDM: training jobs over an optical cross-connect, in turns.",
    "example": "Print a file to begin with, or list them all.",
    "report": "Make one self-contained page from result files of 'run', 'compare', 'demo', 'launch' or 'sweep'.",
    "watch": "Open the live page of a run that was recorded, or of what goes on now.",
    "pcap": "Show the packets of captures, a line for each, or have Wireshark understand them.",
    "clean": "End the processes and remove the folders of runs that were killed.",
    "doctor": "Say what is installed, and what each missing part would add.",
}
"""What the list of commands says of each: the first paragraph of its own help (held to that by a test)."""
GROUPS: Final = frozenset({"p4", "topo", "plan", "net", "tasks", "priorities", "slurm", "tdm"})
"""Those that have commands of their own; Typer lists them behind the others."""
BROUGHT: Final = "p4reduce.commands"
"""Entry points of other distributions, each a command of its own: p4reduce-course brings ``lab``."""
PASS_ON: Final[dict[str, Any]] = {"launch": {"context_settings": {"allow_interspersed_args": False}}}
"""After the script's name everything belongs to the script."""
EXAMPLES: Final = (
    "p4reduce demo                            # trains through P4 switches, writes out/demo/report.html",
    "p4reduce run --elements 1M --loss 0.01   # one sum, with packets lost on the way",
    "p4reduce launch -n 8 train.py            # a script of yours",
    "p4reduce topo list                       # the networks there are",
)


def _show_version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")]


def _main(version: Version = False) -> None:
    """In-network aggregation for distributed training, on P4 switches.

    Begin with 'p4reduce demo'. Every command has --help with examples, and --json.
    """


def build(wanted: str | None = None) -> typer.Typer:
    """The command. With ``wanted`` only that one of its commands can run; of the others the list of commands tells."""
    app = typer.Typer(
        name="p4reduce",
        cls=OneLineGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=help_of(_main), epilog=epilog(*EXAMPLES))(_main)
    for name, text in COMMANDS.items():
        if wanted in {None, name}:
            _add(app, name, importlib.import_module(f"p4reduce.cli.commands.{name}"))
        elif name in GROUPS:
            app.add_typer(typer.Typer(help=text), name=name)
        else:
            app.command(name, help=text)(_told_of)
    if wanted not in COMMANDS:
        for point in sorted(entry_points(group=BROUGHT), key=lambda point: point.name):
            _add(app, point.name, importlib.import_module(point.module))
    return app


def first_word(arguments: Sequence[str]) -> str:
    """The command that is asked for: the first argument that is no flag; empty when there is none."""
    return next((word for word in arguments if not word.startswith("-")), "")


def _add(app: typer.Typer, name: str, module: Any) -> None:
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name, epilog=group_epilog(module.app))
        return
    command: Callable[..., None] = getattr(module, name)
    options = PASS_ON.get(name, {})
    app.command(name, help=help_of(command), epilog=epilog(*module.EXAMPLES), **options)(command)


def _told_of() -> None:
    raise AssertionError("a command that is only told of does not run")


def __getattr__(name: str) -> Any:
    if name == "app":
        return build()
    raise AttributeError(name)
