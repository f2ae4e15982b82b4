"""Files of training jobs: YAML or CSV."""

import csv
import io
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from p4reduce.base.safe_yaml import YamlError, read_yaml, short
from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import Kind, TdmJob
from p4reduce.control_plane.tdm.models import model_job
from p4reduce.control_plane.tdm.training import training_seconds
from p4reduce.topologies import parse_delay

_LIMIT: Final = 4 << 20
_UNITS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _bytes(value: Any) -> Any:
    """4194304, or '102M' (decimal) or '4MiB'."""
    if not isinstance(value, str):
        return value
    text = value.strip().removesuffix("B") if not value.strip().endswith("iB") else value.strip()
    for unit in sorted(_UNITS, key=len, reverse=True):
        number = text.removesuffix(unit) if unit else text
        if unit and number == text:
            continue
        try:
            return round(float(number) * _UNITS[unit])
        except (ValueError, OverflowError):
            continue
    raise ValueError("is no number of bytes; write for example 102M or 4MiB")


def _seconds(value: Any) -> Any:
    """'104ms' as seconds; a number is seconds."""
    return parse_delay(value) / PS_PER_S if isinstance(value, str) else value


def _workers(value: Any) -> Any:
    """A number, or names; in CSV as text."""
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < 10 else tuple(value.split())
    return tuple(value) if isinstance(value, list) else value


class Formula(BaseModel):
    """Equation (7) in the place of a time."""

    model_config = ConfigDict(extra="forbid")
    parameters: float
    tokens: float
    flops: float
    efficiency: float
    recompute: bool = False


class JobLine(BaseModel):
    """One job of a file."""

    model_config = ConfigDict(extra="forbid")
    name: str
    kind: Kind | None = None
    model: str | None = None
    bytes: Annotated[int | None, BeforeValidator(_bytes)] = None
    compute: Annotated[float | Formula | None, BeforeValidator(_seconds)] = None
    workers: Annotated[int | tuple[str, ...], BeforeValidator(_workers)]
    elastic: bool = False
    arrival: Annotated[float, BeforeValidator(_seconds)] = 0.0
    iterations: int | None = None

    def job(self, scale: float) -> TdmJob:
        """As schedulers see it, bytes and times divided by ``scale``; `TdmError` when its fields do not fit."""
        where = f"job {self.name[:40]!r}"
        hosts = self.workers if isinstance(self.workers, tuple) else ()
        units = len(hosts) if hosts else self.workers
        assert isinstance(units, int)  # noqa: S101
        compute = self.compute
        if isinstance(compute, Formula):
            try:
                compute = training_seconds(**compute.model_dump())
            except ValueError as error:
                raise TdmError(f"{where}: compute: {error}") from None
        compute = None if compute is None else compute / scale
        if self.model is not None:
            if self.bytes is not None:
                raise TdmError(f"{where}: bytes: model {self.model[:40]!r} has its own; leave one of them out")
            return model_job(
                self.name, self.model, units, scale=scale, kind=self.kind, compute_s=compute, hosts=hosts,
                elastic=self.elastic, arrival_s=self.arrival / scale, iterations=self.iterations,
            )  # fmt: skip
        if self.kind is None or self.bytes is None or compute is None:
            missing = next(name for name in ("kind", "bytes", "compute") if getattr(self, name) is None)
            raise TdmError(f"{where}: {missing}: is missing; give it, or a model that has it")
        size = max(4, round(self.bytes / scale / 4) * 4)
        arrival = self.arrival / scale
        return TdmJob(self.name, self.kind, size, compute, units, hosts, self.elastic, None, arrival, self.iterations)


def read_jobs(path: Path, scale: float = 1.0) -> list[TdmJob]:
    """The jobs of a file: CSV when its name ends so, else YAML with a list 'jobs'.

    Parameters
    ----------
    path : Path
        Of the file.
    scale : float
        Bytes and times are divided by it.

    Raises
    ------
    TdmError
        Names the file, the job, the field and the fix.
    """
    if scale <= 0:
        raise TdmError(f"scale: {scale:g} must be positive")
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise TdmError(f"{path}: is not UTF-8 text") from None
    if len(text) > _LIMIT:
        raise TdmError(f"{path}: larger than {_LIMIT} bytes")
    found = []
    for number, line in enumerate(_csv(text) if path.suffix == ".csv" else _yaml(text, path)):
        try:
            found.append(JobLine.model_validate(line).job(scale))
        except ValidationError as error:
            problem = error.errors()[0]
            field = ".".join(str(part) for part in problem["loc"][:1])
            said = problem["msg"].removeprefix("Value error, ")
            raise TdmError(f"{path}: jobs[{number}].{field}: {said} (it says {short(problem['input'])})") from None
        except TdmError as error:
            raise TdmError(f"{path}: {error}") from None
    return found


def _yaml(text: str, path: Path) -> list[Any]:
    try:
        data = read_yaml(text, limit=_LIMIT)
    except YamlError as error:
        raise TdmError(f"{path}: {error}") from None
    if not isinstance(data, dict) or set(data) != {"jobs"} or not isinstance(data["jobs"], list):
        raise TdmError(f"{path}: a file of jobs is a mapping with one list, 'jobs'")
    return data["jobs"]


def _csv(text: str) -> list[dict[str, Any]]:
    rows = csv.DictReader(io.StringIO(text))
    return [{key: value for key, value in row.items() if value not in ("", None)} for row in rows]
