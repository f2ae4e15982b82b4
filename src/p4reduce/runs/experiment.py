"""A run as a user describes it: by flags, by one YAML file, or in Python."""

import functools
import importlib.metadata
import inspect
import os
import platform
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np
import typer
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

import p4reduce
from p4reduce.base.errors import BadInput
from p4reduce.base.registry import requirements
from p4reduce.group.backend import FloatArray
from p4reduce.network.virtual.records import Faults
from p4switch.base.files import read_text
from p4switch.base.safe_yaml import YamlError, read_yaml
from p4switch.base.values import PS_PER_US

if TYPE_CHECKING:
    from p4reduce.control_plane.entries import P4Program

PlanName = str
Collective = Literal["all_reduce", "broadcast", "push", "pull", "push_pull", "all_to_all"]
REAL_TIME_FIELDS = ("target", "time", "links", "unshaped", "budget_s")
"""What says in which time a run is, and what has a meaning in real time only; a run in virtual time is described
without them, and a run in the flow model without all but ``time``."""


class FaultOptions(BaseModel):
    """Faults on every link, as probabilities for each frame."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    loss: float = Field(0.0, ge=0, lt=1)
    duplicate: float = Field(0.0, ge=0, lt=1)
    reorder: float = Field(0.0, ge=0, lt=1)
    corrupt: float = Field(0.0, ge=0, lt=1)

    def on_links(self, **more: int) -> Faults:
        """The same as links of the fabric take them; ``more``: their other fields."""
        return Faults(**self.model_dump(), **more)


class Experiment(BaseModel):
    """Everything that decides a run. In virtual time the same values give the same result file, byte for byte."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topology: str = "leaf-spine-8"
    """A file, a bundled name or a builder with parameters (``leaf-spine:leaves=2,spines=2,hosts=4``)."""
    plan: PlanName = "steiner"
    workers: int | None = Field(None, ge=1)
    """How many hosts take part, in the topology's order; all that are not servers if absent."""
    model: Literal["digits", "tensor"] = "tensor"
    """Train the digits classifier, or move a plain tensor."""
    elements: int = Field(262_144, ge=1)
    """float32 elements of the plain tensor; text may have a unit: ``64k``, ``1M``, ``1Mi``."""
    repeat: int = Field(1, ge=1)
    """How many collectives on the plain tensor, one after the other."""
    collective: Collective = "all_reduce"
    epochs: int = Field(10, ge=1)
    """Passes over the training data (model digits)."""
    target_accuracy: float = Field(0.95, gt=0, le=1)
    lanes: Literal[64, 256] = 256
    numbers: Literal["block", "fixed"] = "block"
    scale: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Fixed scale: units of int32 per 1.0; needed with ``numbers: fixed``."""
    speculate: bool = False
    """Block floating point: an all-reduce guesses its first exponents from those before, and repeats what is wrong."""
    rate: str | None = None
    """Overrides every link's rate, e.g. ``100G``."""
    delay: str | None = None
    """Overrides every link's delay, e.g. ``1us``."""
    window: int | None = Field(None, ge=1)
    """Chunks in flight; chosen from rate * round trip if absent."""
    queue_frames: int = Field(1024, ge=2, lt=2**31)
    """Capacity of a switch's output queue for each priority, frames."""
    faults: FaultOptions = FaultOptions()
    on_failure: Literal["abort", "raise", "shrink"] = "abort"
    """What the others do when a member of a script's group dies: end, hear of it, or go on with the collective."""
    deadline: str | None = None
    """All-reduces are closed without stragglers after this time, e.g. ``5ms``; they wait for all if absent."""
    quorum: int | None = Field(None, ge=1)
    """With a deadline: an all-reduce in which some chunk has fewer contributions is carried again; 1 if absent."""
    seed: int = Field(0, ge=0, lt=2**63)
    p4: Path | None = None
    """The user's own program as P4 source, compiled for ``lanes``."""
    p4_json: Path | None = None
    """The user's own program (p4c's JSON); the bundled one for ``lanes`` if absent."""
    p4_info: Path | None = None
    target: Literal["embedded", "bmv2"] = "embedded"
    """Who executes the P4 program: this package, or BMv2's simple_switch_grpc (real time only)."""
    time: Literal["virtual", "real", "flow"] = "virtual"
    """A discrete-event network, or processes with sockets, or a model without packets (docs/flow.md); ``real`` where
    the target is bmv2 and nothing is said."""
    links: Literal["veth", "udp"] = "veth"
    """Real time: veth pairs between network namespaces, or datagrams on the loopback interface (no root)."""
    unshaped: bool = False
    """Real time: links are as fast as the machine, whatever rates the topology has."""
    budget_s: float = Field(120.0, gt=0, allow_inf_nan=False)
    """Real time: wall-clock seconds after which a run that has not ended is ended."""

    @field_validator("plan")
    @classmethod
    def _known_plan(cls, name: str) -> str:
        from p4reduce.control_plane.plans import PLANS  # noqa: PLC0415  (plans register on import)
        from p4reduce.control_plane.plans.striped import STRIPED  # noqa: PLC0415

        known = {*PLANS, STRIPED}
        if name not in known:
            raise ValueError(f"unknown plan {name!r}; known: {', '.join(sorted(known))}")
        return name

    @field_validator("elements", mode="before")
    @classmethod
    def _counted(cls, value: Any) -> Any:
        from p4reduce.topologies.model import parse_count  # noqa: PLC0415  (slow to import)

        return parse_count(value) if isinstance(value, str) else value

    @field_validator("rate", "delay", "deadline")
    @classmethod
    def _known_unit(cls, text: str | None, info: ValidationInfo) -> str | None:
        from p4reduce.topologies import parse_delay, parse_rate  # noqa: PLC0415  (slow to import)

        if text is not None:
            (parse_rate if info.field_name == "rate" else parse_delay)(text)
        return text

    @model_validator(mode="before")
    @classmethod
    def _time_of_target(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if given.get("collective") == "all_to_all":
            given = {"plan": "all-to-all", **given}
        return {"time": "real", **given} if given.get("target") == "bmv2" else given

    @model_serializer(mode="wrap")
    def _described(self, describe: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = describe(self)
        if self.time != "real":
            for field in REAL_TIME_FIELDS:
                if field != "time" or self.time == "virtual":
                    found.pop(field, None)
        if self.on_failure == "abort":
            found.pop("on_failure")
        for field in ("deadline", "quorum"):
            if found[field] is None:
                found.pop(field)
        if not self.speculate:
            found.pop("speculate")
        return found

    @property
    def deadline_ps(self) -> int | None:
        """``deadline`` in picoseconds."""
        from p4reduce.topologies import parse_delay  # noqa: PLC0415  (slow to import)

        return None if self.deadline is None else parse_delay(self.deadline)

    @property
    def typical_elements(self) -> int | None:
        """Elements of a collective, by which plan ``best`` chooses; None where the work decides them."""
        return self.elements if self.model == "tensor" else None

    @model_validator(mode="after")
    def _of_stragglers(self) -> Self:
        if self.deadline is None:
            if self.quorum is not None:
                raise ValueError("quorum: says what is enough when a deadline has passed; give a deadline, too")
            return self
        if self.deadline_ps is not None and self.deadline_ps < PS_PER_US:
            raise ValueError(f"deadline: {self.deadline}, switches count microseconds: give 1us or more")
        if self.plan in {"ring", "ps", "all-to-all"} or self.collective != "all_reduce":
            raise ValueError("deadline: for all_reduce with a plan in the network: steiner, mst or spt")
        if self.on_failure != "abort":
            raise ValueError(
                "deadline: a group that outlives members waits for its stragglers; on_failure: choose abort"
            )
        if self.quorum is not None and self.workers is not None and self.quorum > self.workers:
            raise ValueError(f"quorum: {self.quorum} of {self.workers} workers cannot be")
        return self

    @model_validator(mode="after")
    def _of_guesses(self) -> Self:
        if not self.speculate:
            return self
        if self.numbers == "fixed":
            raise ValueError("speculate: a fixed scale has no exponents to guess; leave one of them away")
        if self.deadline is not None:
            raise ValueError("speculate: what a deadline closes is not of all, and teaches nothing; choose one of them")
        if self.time == "real":
            raise ValueError("speculate: in virtual time only; leave --time real and --target bmv2 away")
        return self

    @model_validator(mode="after")
    def _of_flows(self) -> Self:
        if self.time != "flow":
            return self
        unknown = {
            **{name: probability > 0 for name, probability in self.faults},
            "deadline": self.deadline is not None,
            "speculate": self.speculate,
            "on_failure": self.on_failure != "abort",
            "p4": self.p4 is not None,
            "p4_json": self.p4_json is not None,
            "target": self.target != "embedded",
        }
        refused = [name for name, given in unknown.items() if given]
        if refused:
            raise ValueError(
                f"{', '.join(refused)}: the flow model has no packets and no switches, so it does not know what this "
                "does; leave it away, or choose time: virtual"
            )
        return self

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.numbers == "fixed" and self.scale is None:
            raise ValueError("numbers: fixed needs scale (units of int32 per 1.0)")
        if self.p4 is not None and self.p4_json is not None:
            raise ValueError("p4 is source, p4_json what a compiler made: give one of them")
        if (self.p4_json is None) != (self.p4_info is None):
            raise ValueError("p4_json and p4_info belong together: give both or neither")
        if (self.plan == "all-to-all") != (self.collective == "all_to_all"):
            raise ValueError("plan: all-to-all carries collective all_to_all, and no other plan does")
        if self.target == "bmv2" and self.time == "virtual":
            raise ValueError("target: bmv2 knows no virtual time; leave time away, or choose the embedded target")
        if self.target == "bmv2" and self.links == "udp":
            raise ValueError("links: bmv2's ports are interfaces; choose veth, or the embedded target for udp")
        return self


class ExperimentError(BadInput, ValueError):
    """A description of a run that cannot be used; the message names file, field and fix."""


# Where a figure comes from: enough to make it again, and nothing that changes from run to run.


def provenance(program: "P4Program | None", seed: int) -> dict[str, str]:
    """Commit, hash of the P4 JSON (``-`` where no switch ran), versions and seed, as text."""
    found = {
        "p4reduce": p4reduce.__version__,
        "commit": _commit(Path(p4reduce.__file__).parent),
        "p4_json": "-" if program is None else program.name,
        "p4_json_sha256": "-" if program is None else program.sha256,
        "seed": str(seed),
        "python": platform.python_version(),
    }
    return found | _versions()


@functools.cache
def _versions() -> dict[str, str]:
    """Of the libraries that this process has, or would have, imported."""
    return {library: importlib.metadata.version(library) for library in requirements()}


@functools.cache
def _commit(folder: Path) -> str:
    """The commit of a source checkout, with ``+changes`` where files differ from it; elsewhere the release.

    A checkout is one that holds this very file: an installation may lie within somebody else's repository.
    """

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        commit = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/")
    except (OSError, subprocess.SubprocessError):
        return f"release {p4reduce.__version__}"
    return f"{commit}+changes" if changed else commit


# The plain tensors that a run moves when it trains nothing.


def check_memory(elements: int, workers: int) -> None:
    """Raise `ExperimentError` where the tensors of a run, and their sums, are more than this machine's memory."""
    needed = workers * elements * 2 * np.dtype(np.float32).itemsize
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise ExperimentError(
            f"elements: {elements} for {workers} workers need {needed / 1e9:,.0f} GB of memory, this machine has "
            f"{there / 1e9:,.0f}; give a smaller --elements"
        )


def tensor(seed: int, rank: int, turn: int, elements: int) -> FloatArray:
    """Gradient-like values, float32 of shape (elements,): normal, with a scale that differs from block to block."""
    random = np.random.Generator(np.random.Philox(key=[seed, rank << 32 | turn]))
    values = random.standard_normal(elements, dtype=np.float32)
    blocks = -(-elements // 4096)
    scales = np.exp2(random.integers(-12, 4, blocks)).astype(np.float32)
    values *= np.repeat(scales, 4096)[:elements]
    return values


# The description of a run on the command line: a YAML file, and a flag for every field that overrides it.


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
    Flag(
        "plan",
        str,
        NETWORK,
        "best; striped, steiner, mst or spt (in the network); ring or ps (by hosts).",
        "-p",
    ),
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
    Flag(
        "time",
        str,
        REAL_TIME,
        "An exact simulation, or processes with sockets, or a fast model without packets.",
        None,
        "virtual|real|flow",
    ),
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
    *,
    omit: tuple[str, ...] = (),
    real_time: bool = False,
    scripts: bool = False,
    helps: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator of commands: replaces their parameter ``settings`` by ``--config`` and a flag for every field.

    ``omit`` names fields for which the command has flags of its own; ``real_time`` adds those of real time, ``scripts``
    those of users' scripts. ``helps`` has texts, by field, of flags that take other values there.
    """
    left_out = (*omit, *(() if real_time else REAL_TIME_FIELDS), *(() if scripts else SCRIPTS_FIELDS))
    flags = [replace(flag, help=helps.get(flag.field, flag.help)) for flag in FLAGS if flag.field not in left_out]

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
    from p4reduce.network.jobs.network import PROGRAMS  # noqa: PLC0415  (slow to import)

    return name in PROGRAMS
