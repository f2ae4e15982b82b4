"""The description of a run on the command line: a YAML file, and a flag for every field, which overrides it.

The fields are those of :class:`~p4reduce.runs.experiment.Experiment`, which is imported when one is made.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from p4reduce.base.errors import BadInput
from p4reduce.base.flags import CommandFlag, Flag, flags
from p4reduce.control_plane import PROGRAMS
from p4switch.base.files import read_text

if TYPE_CHECKING:
    from p4reduce.runs.experiment import Experiment

REAL_TIME_FIELDS = ("target", "time", "links", "unshaped", "budget_s")
"""The field for the kind of time, and fields that only matter in real time.

The description of a run in virtual time omits them all; that of a run in the flow model keeps only ``time``.
"""
HOST_PLANS: Final = ("ring", "ps", "all-to-all")
"""plans whose hosts add float32"""
PLAIN_BITS: Final = 32
"""bits of a lane by default (``wire.WORD_BITS``, without NumPy)"""
WIDTH_FIELDS: Final = ("lane_bits", "coarse")
"""Fields for the width of the lanes that switches add up."""
SCRIPTS_FIELDS: Final = ("on_failure",)
"""Fields that only matter for scripts."""
NETWORK, WORK, NUMBERS, FAULTS, PROGRAM = "Network", "Work", "Numbers and window", "Faults on every link", "P4 program"
REAL_TIME: Final = "Real time"

Loss = Annotated[float, Flag("Probability that a link loses a frame.", panel=FAULTS)]
Duplicate = Annotated[float, Flag("Probability that a link delivers a frame twice.", panel=FAULTS)]
Reorder = Annotated[float, Flag("Probability that a link delays a frame behind later ones.", panel=FAULTS)]
TOPOLOGY: Final = "Network: a YAML file, a bundled name ('p4reduce topo list'), or a builder with its parameters."
Topology = Annotated[str, Flag(TOPOLOGY, "-t", panel=NETWORK)]

LISTED: Final = {
    "plan": "--plans",
    "rate": "--rates",
    "faults.loss": "--losses",
    "seed": "--seeds",
    "target": "--targets",
}
"""Flags of commands that take a list where others take one value."""


@cache
def experiment_flags() -> Mapping[str, CommandFlag]:
    """Return the flag of each field of an `Experiment`; its validation checks the values."""
    from p4reduce.runs.experiment import Experiment  # noqa: PLC0415  (pydantic is slow to import)

    by_field = {flag.field: flag for flag in flags(Experiment)}
    return by_field | {"elements": dataclasses.replace(by_field["elements"], kind=str)}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings as given: a file, and flags by field. ``experiment`` combines them."""

    config: Path | None
    given: Mapping[str, Any]

    def experiment(self, base: Mapping[str, Any] | None = None, **overrides: Any) -> "Experiment":
        """Return the run: ``base`` (defaults of the command), then the file, then flags, then ``overrides``.

        Keys are fields as in ``CommandFlag.field``, with '__' for '.' in ``overrides``. Raises ``BadInput``.
        """
        from pydantic import ValidationError  # noqa: PLC0415  (slow to import)

        from p4reduce.runs.experiment import Experiment  # noqa: PLC0415
        from p4reduce.topologies import TopologyError, check_source  # noqa: PLC0415

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
        try:
            check_source(experiment.topology)
        except TopologyError as error:
            raise BadInput(f"{self._where('topology', listed)}{error}") from None
        own = (("--p4", experiment.p4), ("--p4-json", experiment.p4_json), ("--p4-info", experiment.p4_info))
        for flag, path in own:
            if path is not None and not path.is_file() and not (flag == "--p4" and str(path) in PROGRAMS):
                raise BadInput(f"{flag}: {path}: there is no such file")
        return experiment

    def of_plans(
        self, plans: Iterable[str], base: Mapping[str, Any] | None = None, **overrides: Any
    ) -> "list[Experiment]":
        """Return a run with each of some plans. Plans whose hosts add float32 ignore the width of lanes."""
        experiments = []
        for plan in plans:
            settings = self
            if plan in HOST_PLANS and self.given.get("lane_bits", PLAIN_BITS) != PLAIN_BITS:
                kept = {field: value for field, value in self.given.items() if field not in WIDTH_FIELDS}
                settings = dataclasses.replace(self, given=kept)
            experiments.append(settings.experiment(base, plan=plan, **overrides))
        return experiments

    def _explain(self, item: Any, listed: Mapping[str, str]) -> str:
        field = ".".join(str(part) for part in item["loc"])
        message = str(item["msg"]).removeprefix("Value error, ")
        value = item["input"]
        told = not field or isinstance(value, dict) or (isinstance(value, str) and repr(value) in message)
        shown = "" if told else f" (got {value!r})"
        return f"{self._where(field, listed)}{message}{shown}"

    def _where(self, field: str, listed: Mapping[str, str]) -> str:
        """Return the flag, or the place in the file, that a field's value is from."""
        if field in listed:
            return f"{listed[field]}: "
        if field in self.given or self.config is None:
            known = experiment_flags()
            return f"{known[field].option}: " if field in known else ""
        return f"{self.config}: {field + ': ' if field else ''}"


@dataclasses.dataclass(frozen=True)
class Described:
    """A field with ``--config`` and a flag for each field of an `Experiment`; its value is `Settings`.

    ``omit``: fields for which the command has its own flags; ``real_time`` adds those of real time, ``scripts`` those
    of users' scripts. ``helps``: help texts, by field, of flags that take other values there. ``defaults``: the
    command's own defaults, by field, for helps: values, or texts that say what they depend on.
    """

    omit: tuple[str, ...] = ()
    real_time: bool = False
    scripts: bool = False
    helps: Mapping[str, str] = dataclasses.field(default_factory=dict)
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def parameters(self) -> Iterable[CommandFlag]:
        """Return the flags."""
        left_out = {
            *self.omit,
            *(() if self.real_time else REAL_TIME_FIELDS),
            *(() if self.scripts else SCRIPTS_FIELDS),
        }
        kept = [parameter for field, parameter in experiment_flags().items() if field not in left_out]
        return [_CONFIG, *(self._described(parameter) for parameter in kept)]

    def _described(self, parameter: CommandFlag) -> CommandFlag:
        flag = dataclasses.replace(parameter.flag, help=self.helps.get(parameter.field, parameter.flag.help))
        if parameter.field in self.defaults:
            flag = dataclasses.replace(flag, default=str(self.defaults[parameter.field]))
        return dataclasses.replace(parameter, flag=flag)

    def value(self, given: Mapping[str, Any]) -> Settings:
        """Return the settings."""
        return Settings(given.get("config"), {field: value for field, value in given.items() if field != "config"})


_CONFIG: Final = CommandFlag("config", Path, None, (), Flag(
        "YAML file with any of these settings; flags override it.", "-c", reads=True, example="settings",
        default="none"))  # fmt: skip


def default_topology(workers: int) -> str:
    """Return a two-level leaf-spine for any number of workers, with a host for a server."""
    if workers <= 8:
        return "leaf-spine-8"
    hosts = 8 if workers <= 64 else 16
    return f"leaf-spine:leaves={-(-workers // hosts)},spines=2,hosts={hosts},servers=1"


def _put(merged: dict[str, Any], field: str, value: Any) -> None:
    outer, _, inner = field.partition(".")
    if not inner:
        merged[outer] = value
        return
    known = merged.get(outer)
    merged[outer] = {**(known if isinstance(known, dict) else {}), inner: value}


def _read(path: Path) -> dict[str, Any]:
    from p4switch.base.safe_yaml import YamlError, read_yaml  # noqa: PLC0415  (slow to import)

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
