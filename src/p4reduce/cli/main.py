"""The ``p4reduce`` command: its subcommands, each made from the class that declares its flags."""

import inspect
import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any, Final

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from p4reduce import __version__
from p4reduce.base.failures import EXIT_INTERRUPTED, guarded
from p4reduce.base.flags import SPECS, CommandFlag, Spec, parts
from p4reduce.base.output import Output

PANELS: Final = {
    "run": ("Run", ("demo", "run", "launch", "join", "replay", "perf", "compare", "confirm", "sweep")),
    "network": ("Network", ("topo", "net", "doctor", "clean")),
    "switch": ("Switch", ("p4", "switch", "trace", "pcap")),
    "schedule": ("Schedule", ("plan", "tasks", "orchestrate", "tdm", "optical", "priorities", "slurm")),
    "look": ("Look", ("watch", "report", "example")),
}
"""commands by the module in ``cli/flags/`` that declares them, each module with its heading in the help"""
COMMANDS: Final = frozenset(name for _, names in PANELS.values() for name in names)
BROUGHT: Final = "p4reduce.commands"
"""entry points of other distributions; each is a module that declares a command: p4reduce-course adds ``lab``"""
EXAMPLES: Final = (
    "p4reduce demo                            # trains through P4 switches, writes out/demo/report.html",
    "p4reduce run --elements 1M --loss 0.01   # one sum, with packets lost on the way",
    "p4reduce launch -n 8 train.py            # a script of yours",
    "p4reduce topo list                       # the bundled networks",
)


# Misused commands and flags: one line with the error and a reference to the examples, exit code 2.


_MISUSED: Final = typer.BadParameter.__mro__[2]
"""``ClickException``, the base of all of Typer's usage errors; Typer may have its own copy of Click"""


class LazyGroup(TyperGroup):
    """A group whose commands are made on demand. It prints errors as one line, where Typer prints a box."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        if not self.commands:
            self.commands = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in order, without making them."""
        return list(self.commands)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run like Typer's method, except for the output of errors."""
        run = partial(super().main, args, prog_name, complete_var, False, windows_expand_args, **extra)
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
        if code == EXIT_INTERRUPTED:  # in the command, or in Typer, which prints nothing then
            Output().note("interrupted")
        sys.exit(code if isinstance(code, int) else 0)


def _say_usage(error: Any) -> None:
    text = " ".join(str(error.format_message()).split()).removesuffix(".")
    if not text:
        return  # a group without a command has already shown its help
    context = getattr(error, "ctx", None)
    where = "p4reduce" if context is None else context.command_path
    see = " See" if text.endswith("?") else "; see"
    Output().note(f"error: {text[0].lower()}{text[1:]}{see} '{where} --help'")


class _Commands(MutableMapping[str, Any]):
    """All commands by name. The module that declares a command is imported when the command is requested."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._modules = {name: (f"p4reduce.cli.flags.{module}", panel)
                         for module, (panel, names) in PANELS.items() for name in names}  # fmt: skip
        for point in sorted(entry_points(group=BROUGHT), key=lambda point: point.name):
            self._modules[point.name] = (point.module, point.name.capitalize())

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module, panel = self._modules[name]
            self._made[name] = _made(name, import_module(module), panel)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name], self._modules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


def _made(name: str, module: Any, panel: str) -> TyperCommand | TyperGroup:
    """Return a command, or the group of the commands with this first word."""
    if name in SPECS:
        return _Command(name, *SPECS[name], panel)
    inner = {path.removeprefix(f"{name} "): entry for path, entry in SPECS.items() if path.startswith(f"{name} ")}
    return LazyGroup(
        name=name,
        help=module.GROUPS[name],
        epilog=epilog(*(_own_example(f"p4reduce {name} {word}", spec) for word, (_, spec) in inner.items())),
        commands={word: _Command(word, *entry) for word, entry in inner.items()},
        no_args_is_help=True,
        rich_markup_mode="rich",
        rich_help_panel=panel,
    )


def _own_example(command: str, spec: Spec) -> str:
    """Return the first example that runs the command itself; other examples print a file for it."""
    return next((example for example in spec.examples if example.startswith(command)), spec.examples[0])


class _Command(TyperCommand):
    """A command whose flags are made on demand, because lists of commands do not need them."""

    def __init__(self, name: str, model: type, spec: Spec, panel: str | None = None) -> None:
        super().__init__(
            name,
            help=help_of(model),
            epilog=epilog(*spec.examples),
            rich_markup_mode="rich",
            rich_help_panel=panel,
            context_settings={"allow_interspersed_args": not spec.passes_on},
        )
        self._model, self._spec = model, spec
        del self.params, self.callback  # __getattr__ makes these

    def __getattr__(self, name: str) -> Any:
        """Make the flags and the callback of the command when they are first needed."""
        if name not in {"params", "callback"}:
            raise AttributeError(name)
        app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
        app.command(self.name)(_function(self._model, self._spec.does))
        made = typer.main.get_command(app)
        self.params, self.callback = made.params, made.callback
        return getattr(self, name)


def _function(model: type, does: str) -> Callable[..., None]:
    """Return the function that Typer calls: it makes the flags object, and imports and calls the command's function."""
    fields = dict(parts(model))

    @guarded
    def run(**given: Any) -> None:
        values = {}
        for field, part in fields.items():
            if not isinstance(part, CommandFlag):
                own = [parameter for parameter in part.parameters() if given[parameter.name] is not None]
                values[field] = part.value(
                    {parameter.field: parameter.value(given[parameter.name]) for parameter in own}
                )
            elif given[field] is not None and given[field] != []:
                values[field] = part.value(given[field])
        flags = model(**values)
        if hasattr(flags, "check"):
            flags.check()
        module, _, function = does.partition(":")
        getattr(import_module(module), function)(flags)

    every = [
        parameter
        for part in fields.values()
        for parameter in ([part] if isinstance(part, CommandFlag) else part.parameters())
    ]
    run.__signature__ = inspect.Signature([_typed(parameter) for parameter in every])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def _typed(parameter: CommandFlag) -> inspect.Parameter:
    """Return a flag as a parameter for Typer. The default None means that the flag was not given."""
    flag = parameter.flag
    text = escape(parameter.help) + (f" [dim]\\[{escape(parameter.shown)}][/dim]" if parameter.shown else "")
    about: dict[str, Any] = {
        "help": text,
        "show_default": False,
        "metavar": parameter.metavar,
        "rich_help_panel": flag.panel,
    }
    default = ... if parameter.default is ... else None
    names = [name for name in (parameter.option, flag.short) if name]
    info = typer.Argument(default, **about) if flag.argument else typer.Option(default, *names, **about)
    typed = str if parameter.kind in {int, float} else parameter.kind  # the flag parses numbers
    kind = typed if default is ... else typed | None
    return inspect.Parameter(parameter.name, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=kind)


# Help texts: a docstring as flowing text, with examples below it.


def epilog(*examples: str) -> str:
    """Return text for typer's ``epilog``: one example per line (typer makes a line of each paragraph)."""
    return "\n\n".join(("Examples:", *(escape(example) for example in examples)))


def help_of(command: object) -> str:
    """Return text for typer's ``help``: the docstring with each paragraph on one line, so that terminals wrap it."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(escape(" ".join(paragraph.split())) for paragraph in paragraphs)


def _show_version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")]


def _main(version: Version = False) -> None:
    """In-network aggregation for distributed training, on P4 switches.

    Start with 'p4reduce demo'. Every command has --help with examples; those that print results have --json.
    """


app: Final = typer.Typer(
    name="p4reduce",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback(help=help_of(_main), epilog=epilog(*EXAMPLES))(_main)
