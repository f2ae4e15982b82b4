"""The description of a run on the command line: a YAML file, and a flag for every field that overrides it."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer
from pydantic import ValidationError

from p4reduce.base.errors import BadInput
from p4reduce.runs.experiment import REAL_TIME_FIELDS, Experiment
from p4switch.base.files import read_text
from p4switch.base.safe_yaml import YamlError, read_yaml


@dataclass(frozen=True)
class Flag:
    """A flag and the field of ``Experiment`` that it sets (``faults.loss`` for one inside another)."""

    field: str
    kind: type
    panel: str
    help: str
    short: str | None = None
    metavar: str | None = None

    @property
    def parameter(self) -> str:
        """Name of the Python parameter."""
        return self.field.rsplit(".", 1)[-1]

    @property
    def option(self) -> str:
        """The flag as it is typed."""
        return "--" + self.parameter.replace("_", "-")

    @property
    def default(self) -> str | bool:
        """What the help shows as the default; False for nothing."""
        value: Any = Experiment.model_validate({})
        for part in self.field.split("."):
            value = getattr(value, part)
        return False if value is None else str(value)


SCRIPTS_FIELDS: Final = ("on_failure",)
"""What has a meaning for scripts only."""
NETWORK, WORK, NUMBERS, FAULTS, PROGRAM = "Network", "Work", "Numbers and window", "Faults on every link", "P4 program"
REAL_TIME: Final = "Real time"

FLAGS: Final = (
    Flag("topology", str, NETWORK, "File, bundled name ('p4reduce topo list') or builder with parameters.", "-t"),
    Flag("plan", str, NETWORK, "steiner, mst or spt (in the network); ring or ps (by hosts).", "-p"),
    Flag("workers", int, NETWORK, "Hosts that take part; all that are no servers if absent.", "-n"),
    Flag("rate", str, NETWORK, "Overrides every link's rate, e.g. 100G."),
    Flag("delay", str, NETWORK, "Overrides every link's delay, e.g. 1us."),
    Flag("queue_frames", int, NETWORK, "Frames that an output queue of a switch holds, for each priority."),
    Flag("model", str, WORK, "Train the digits classifier, or move a plain tensor.", "-m", "digits|tensor"),
    Flag(
        "collective",
        str,
        WORK,
        "What to do; training takes all_reduce or push_pull.",
        None,
        "all_reduce|broadcast|push|pull|push_pull|all_to_all",
    ),
    Flag("elements", str, WORK, "float32 elements of the plain tensor: '262144', '64k', '1M', '1Mi'.", "-e", "COUNT"),
    Flag("repeat", int, WORK, "Collectives on the plain tensor, one after the other."),
    Flag("epochs", int, WORK, "Passes over the training data (model digits)."),
    Flag("target_accuracy", float, WORK, "Test accuracy to which time is measured (model digits)."),
    Flag("seed", int, WORK, "Decides data, weights, tensors and faults.", "-s"),
    Flag("lanes", int, NUMBERS, "int32 lanes of a full packet.", "-l", "64|256"),
    Flag("numbers", str, NUMBERS, "Block floating point, or a fixed scale.", None, "block|fixed"),
    Flag("scale", float, NUMBERS, "Units of int32 per 1.0; needed with --numbers fixed."),
    Flag("speculate", bool, NUMBERS, "Guess first exponents: a round trip less, 6 bits of precision at most."),
    Flag("window", int, NUMBERS, "Chunks in flight; chosen from rate * round trip if absent."),
    Flag("faults.loss", float, FAULTS, "Probability that a frame is lost."),
    Flag("faults.duplicate", float, FAULTS, "Probability that a frame comes twice."),
    Flag("faults.reorder", float, FAULTS, "Probability that a frame is held back."),
    Flag("faults.corrupt", float, FAULTS, "Probability that a frame arrives damaged (and is dropped)."),
    Flag(
        "on_failure",
        str,
        FAULTS,
        "When a member dies: all end, all hear of it, or the others go on with the collective.",
        None,
        "abort|raise|shrink",
    ),
    Flag("deadline", str, FAULTS, "All-reduces are closed without stragglers after this time, e.g. 5ms."),
    Flag("quorum", int, FAULTS, "With a deadline: contributions without which an all-reduce is carried again."),
    Flag("p4", Path, PROGRAM, "Your own program as P4 source; it is compiled here."),
    Flag("p4_json", Path, PROGRAM, "Your own program (p4c's JSON) in place of the bundled one."),
    Flag("p4_info", Path, PROGRAM, "P4Info of your own program."),
    Flag("target", str, REAL_TIME, "Who executes the P4 program; bmv2 means real time.", None, "embedded|bmv2"),
    Flag("time", str, REAL_TIME, "An exact simulation, or processes with sockets.", None, "virtual|real"),
    Flag("links", str, REAL_TIME, "Pairs of interfaces, or datagrams on loopback (no root).", None, "veth|udp"),
    Flag("unshaped", bool, REAL_TIME, "Links as fast as the machine, not at the topology's rates."),
    Flag("budget_s", float, REAL_TIME, "Wall-clock seconds after which the run is ended."),
)
BY_FIELD: Final = {flag.field: flag for flag in FLAGS}
LISTED: Final = {
    "plan": "--plans",
    "rate": "--rates",
    "faults.loss": "--losses",
    "seed": "--seeds",
    "target": "--targets",
}
"""Flags of commands that take a list where others take one value."""


@dataclass(frozen=True)
class Settings:
    """What was given: a file, and flags by field. ``experiment`` puts them together."""

    config: Path | None
    given: Mapping[str, Any]

    def experiment(self, base: Mapping[str, Any] | None = None, **overrides: Any) -> Experiment:
        """The run: ``base`` (defaults of the command), then the file, then flags, then ``overrides``.

        Keys are fields as in ``Flag.field``, with '__' for '.' in ``overrides``. Raises ``BadInput``.
        """
        merged: dict[str, Any] = {}
        for field, value in (base or {}).items():
            _put(merged, field, value)
        if self.config is not None:
            for field, value in _read(self.config).items():
                if isinstance(value, dict) and isinstance(merged.get(field), dict):
                    merged[field] = {**merged[field], **value}
                else:
                    merged[field] = value
        for field, value in (*self.given.items(), *((key.replace("__", "."), val) for key, val in overrides.items())):
            _put(merged, field, value)
        listed = {field: flag for field, flag in LISTED.items() if field.replace(".", "__") in overrides}
        try:
            experiment = Experiment(**merged)
        except ValidationError as error:
            raise BadInput("; ".join(self._explain(item, listed) for item in error.errors())) from None
        own = (("--p4", experiment.p4), ("--p4-json", experiment.p4_json), ("--p4-info", experiment.p4_info))
        for flag, path in own:
            if path is not None and not path.is_file() and not (flag == "--p4" and _is_program(str(path))):
                raise BadInput(f"{flag}: {path}: there is no such file")
        return experiment

    def _explain(self, item: Any, listed: Mapping[str, str]) -> str:
        field = ".".join(str(part) for part in item["loc"])
        message = str(item["msg"]).removeprefix("Value error, ")
        shown = "" if not field or isinstance(item["input"], dict) else f" (got {item['input']!r})"
        if field in listed:
            where = f"{listed[field]}: "
        elif field in self.given or self.config is None:
            where = f"{BY_FIELD[field].option}: " if field in BY_FIELD else ""
        else:
            where = f"{self.config}: {field + ': ' if field else ''}"
        return f"{where}{message}{shown}"


def experiment_options(
    *, omit: tuple[str, ...] = (), real_time: bool = False, scripts: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator of commands: replaces their parameter ``settings`` by ``--config`` and a flag for every field.

    ``omit`` names fields for which the command has flags of its own; ``real_time`` adds those of real time, ``scripts``
    those of users' scripts.
    """
    left_out = (*omit, *(() if real_time else REAL_TIME_FIELDS), *(() if scripts else SCRIPTS_FIELDS))
    flags = [flag for flag in FLAGS if flag.field not in left_out]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [value for name, value in inspect.signature(command).parameters.items() if name != "settings"]

        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            config = arguments.pop("config")
            values = {flag.field: arguments.pop(flag.parameter) for flag in flags}
            given = {field: value for field, value in values.items() if value is not None}
            command(settings=Settings(config, given), **arguments)

        parameters = [*own, _config_parameter(), *(_parameter(flag) for flag in flags)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _parameter(flag: Flag) -> inspect.Parameter:
    names = [flag.option] if flag.short is None else [flag.option, flag.short]
    option = typer.Option(
        None,
        *names,
        help=flag.help,
        metavar=flag.metavar,
        rich_help_panel=flag.panel,
        show_default=flag.default,
    )
    return _keyword(flag.parameter, flag.kind | None, option)


def _config_parameter() -> inspect.Parameter:
    option = typer.Option(
        None,
        "--config",
        "-c",
        help="YAML file with any of these settings; flags override it ('p4reduce example settings').",
    )
    return _keyword("config", Path | None, option)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _put(merged: dict[str, Any], field: str, value: Any) -> None:
    outer, _, inner = field.partition(".")
    if not inner:
        merged[outer] = value
        return
    known = merged.get(outer)
    merged[outer] = {**(known if isinstance(known, dict) else {}), inner: value}


def _read(path: Path) -> dict[str, Any]:
    try:
        data = read_yaml(read_text(path))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: is no UTF-8 text: {error.reason} at byte {error.start}") from None
    except YamlError as error:
        raise BadInput(f"{path}: {error}") from None
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise BadInput(f"{path}: expected a mapping of settings, e.g. 'plan: steiner'")
    return data


def _is_program(name: str) -> bool:
    from p4reduce.network.jobs.switches import PROGRAMS  # noqa: PLC0415  (slow to import)

    return name in PROGRAMS
