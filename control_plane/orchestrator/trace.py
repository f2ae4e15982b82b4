"""Task traces: files that list tasks, as YAML or CSV."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator.options import TaskError
from p4reduce.control_plane.scheduling.task import (
    Aggregation,
    How,
    OnFailure,
    Reservation,
    Selection,
    ServiceRequests,
    Task,
    WantedHosts,
)
from p4reduce.topologies import format_delay, format_rate, parse_delay, parse_rate
from p4switch.base.files import read_text
from p4switch.base.safe_yaml import YamlError, read_yaml
from p4switch.base.values import one_line

COLUMNS: Final = (
    "name",
    "server",
    "workers",
    "elements",
    "rounds",
    "training",
    "demand",
    "arrival",
    "deadline",
    "priority",
    "select",
    "owner",
    "slots",
    "shards",
    "shard_bytes",
    "on_failure",
    "max_restarts",
    "aggregation",
    "reservation",
    "kind",
    "rate",
    "objective",
    "seed",
)
"""fields of a task in a file; fields from 'rounds' on are optional, and so is the server if hosts are chosen"""
MAX_TRACE_BYTES: Final = 64 << 20
_MAX_CELL: Final = 1 << 16
"""largest number of characters of a mapping in CSV"""
MAX_YAML: Final = 8 << 20
"""largest number of characters of a YAML file: some 50,000 tasks take a minute to read; CSV is quicker"""


def _rate(value: Any) -> int:
    return 0 if isinstance(value, int | str) and value in (0, "0") else parse_rate(value)


def _names(value: Any) -> Any:
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


def _hosts(value: Any) -> Any:
    """Names of hosts, or the number of wanted hosts."""
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else _names(value)


def _mapping(value: Any) -> Any:
    """A mapping, or the mapping in a cell of CSV."""
    return read_yaml(value, limit=_MAX_CELL) if isinstance(value, str) else value


Delay = Annotated[int, BeforeValidator(parse_delay)]


class SelectLine(BaseModel):
    """The selection of local models of a task in a file."""

    model_config = ConfigDict(extra="forbid")

    how: str
    budget: Annotated[float | None, Field(strict=True)] = None
    seed: Annotated[int, Field(strict=True)] = 0
    utilities: dict[str, Annotated[float, Field(strict=True)]] = Field(default_factory=dict)

    def selection(self) -> Selection:
        """Convert to a selection; `PlanError` when the fields contradict each other."""
        return Selection(cast(How, self.how), self.budget, self.seed, tuple(self.utilities.items()))


class TaskLine(BaseModel):
    """One task of a file."""

    model_config = ConfigDict(extra="forbid")

    name: str
    server: str = ""
    workers: Annotated[Annotated[int, Field(strict=True)] | tuple[str, ...], BeforeValidator(_hosts)]
    """host names, in CSV separated by spaces; or the number of workers whose hosts are to be chosen"""
    elements: int
    rounds: int = 1
    training: Delay = 0
    demand: Annotated[int, BeforeValidator(_rate)] = 0
    arrival: Delay = 0
    deadline: Delay | None = None
    priority: Annotated[int | None, Field(ge=0, le=7)] = None
    select: Annotated[SelectLine | None, BeforeValidator(_mapping)] = None
    """in CSV the text of a mapping, '{how: random, budget: 0.4}'"""
    owner: str = ""
    slots: int = 1
    shards: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    shard_bytes: int = 0
    on_failure: OnFailure = "abort"
    max_restarts: int = 0
    aggregation: Aggregation | None = None
    reservation: Reservation = "peak"
    kind: Literal["training", "rar", "a2a", "inference"] = "training"
    rate: float | None = None
    """requests per second of each client"""
    objective: Delay | None = None
    seed: int | None = None
    """seed of the times of requests"""

    def task(self) -> Task:
        """Convert to a task; `PlanError` when the fields contradict each other."""
        return Task(
            name=self.name,
            server=self.server,
            workers=self.workers if isinstance(self.workers, tuple) else (),
            elements=self.elements,
            rounds=self.rounds,
            training_ps=self.training,
            demand_bps=self.demand,
            arrival_ps=self.arrival,
            deadline_ps=self.deadline,
            priority=self.priority,
            select=None if self.select is None else self.select.selection(),
            wanted=self._wanted(),
            owner=self.owner,
            slots=self.slots,
            on_failure=self.on_failure,
            max_restarts=self.max_restarts,
            aggregation=self.aggregation,
            reservation=self.reservation,
            serving=self._serving(),
            exchange=self.kind if self.kind in ("rar", "a2a") else None,
        )

    def _serving(self) -> ServiceRequests | None:
        if self.kind != "inference":
            for field, value in (("rate", self.rate), ("objective", self.objective), ("seed", self.seed)):
                if value is not None:
                    raise PlanError(f"task {self.name}: {field}: only a task with 'kind: inference' has one")
            return None
        if isinstance(self.workers, int):
            raise PlanError(f"task {self.name}: workers: a task that infers names its clients; give names of hosts")
        if self.rate is None:
            raise PlanError(f"task {self.name}: rate: is missing: requests a second of each client, as in rate: 8000")
        try:
            return ServiceRequests(self.rate, self.objective, self.seed or 0)
        except PlanError as error:
            raise PlanError(f"task {self.name}: {error}") from None

    def _wanted(self) -> WantedHosts | None:
        if isinstance(self.workers, int):
            try:
                return WantedHosts(self.workers, self.shards, self.shard_bytes)
            except PlanError as error:
                raise PlanError(f"task {self.name}: {error}") from None
        if self.shards or self.shard_bytes:
            raise PlanError(
                f"task {self.name}: shards: only a task whose hosts are chosen has them; give a number of workers"
            )
        return None


def read_traces(paths: Iterable[Path]) -> list[Task]:
    """The tasks of several files, in order; `TaskError` when two tasks have the same name."""
    tasks: dict[str, Task] = {}
    for path in paths:
        for task in read_trace(path):
            if task.name in tasks:
                raise TaskError(f"{path}: task {task.name}: name: there is such a task already; give it another name")
            tasks[task.name] = task
    return list(tasks.values())


def read_trace(path: Path) -> list[Task]:
    """Read the tasks of a file: CSV if its name ends in '.csv', else YAML with a list 'tasks'.

    Raises
    ------
    TaskError
        The message names the file, the line or position of the task, and the field.
    """
    try:
        if path.stat().st_size > MAX_TRACE_BYTES:
            raise TaskError(f"{path}: has more than {MAX_TRACE_BYTES >> 20} MB; split it")
        text = read_text(path)
    except OSError as error:
        raise TaskError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: is no UTF-8 text: {error.reason} at byte {error.start}") from None
    entries = _csv_entries(path, text) if path.suffix.lower() == ".csv" else _yaml_entries(path, text)
    tasks: list[Task] = []
    names: dict[str, str] = {}
    for where, entry in entries:
        try:
            tasks.append(TaskLine.model_validate(entry).task())
        except ValidationError as error:
            problem = error.errors()[0]
            field = one_line(".".join(map(str, problem["loc"])) or "task", 60)
            message = one_line(problem["msg"].removeprefix("Value error, "))
            raise TaskError(f"{path}: {where}: {field}: {message}") from None
        except PlanError as error:
            raise TaskError(f"{path}: {where}: {error}") from None
        first = names.setdefault(tasks[-1].name, where)
        if first != where:
            raise TaskError(f"{path}: {where}: name: {tasks[-1].name} is that of {first} too; names are unique")
    return tasks


def _yaml_entries(path: Path, text: str) -> list[tuple[str, Any]]:
    try:
        data = read_yaml(text, limit=MAX_YAML)
    except YamlError as error:
        raise TaskError(f"{path}: {error}") from None
    if not isinstance(data, dict) or set(data) != {"tasks"} or not isinstance(data["tasks"], list):
        raise TaskError(f"{path}: expected one key 'tasks' with a list of tasks")
    return [(f"task {number}", entry) for number, entry in enumerate(data["tasks"], 1)]


def _csv_entries(path: Path, text: str) -> list[tuple[str, Any]]:
    reader = csv.DictReader(text.splitlines(), strict=True)
    entries: list[tuple[str, Any]] = []
    try:
        for line in reader:
            where = f"line {reader.line_num}"
            if None in line or None in line.values():
                raise TaskError(f"{path}: {where}: has another number of cells than the first line")
            entries.append((where, {name: cell for name, cell in line.items() if cell != ""}))
    except csv.Error as error:
        raise TaskError(f"{path}: line {reader.line_num}: {error}") from None
    return entries


def write_trace(path: Path, tasks: list[Task]) -> None:
    """Write tasks so that :func:`read_trace` returns them unchanged; CSV if the name ends in '.csv', else YAML."""
    entries = [_entry(task) for task in tasks]
    if path.suffix.lower() == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\r\n")
            writer.writeheader()
            writer.writerows(map(_cells, entries))
    else:
        path.write_text(yaml.safe_dump({"tasks": entries}, sort_keys=False), "utf-8")


def _cells(entry: dict[str, Any]) -> dict[str, Any]:
    """Convert an entry to cells of CSV."""
    select = {"select": json.dumps(entry["select"])} if "select" in entry else {}
    workers = entry["workers"]
    names = {name: " ".join(entry[name]) for name in ("shards",) if name in entry}
    return {**entry, "workers": workers if isinstance(workers, int) else " ".join(workers), **names, **select}


def _entry(task: Task) -> dict[str, Any]:
    entry = {
        "name": task.name,
        "server": task.server or None,
        "workers": list(task.workers) if task.wanted is None else task.wanted.count,
        "elements": task.elements,
        "rounds": task.rounds,
        "training": format_delay(task.training_ps),
        "demand": format_rate(task.demand_bps) if task.demand_bps else 0,
        "arrival": format_delay(task.arrival_ps),
        "deadline": None if task.deadline_ps is None else format_delay(task.deadline_ps),
        "priority": task.priority,
        "select": None if task.select is None else _select(task.select),
        "owner": task.owner or None,
        "slots": task.slots if task.slots > 1 else None,
        "shards": None if task.wanted is None else list(task.wanted.shards) or None,
        "shard_bytes": None if task.wanted is None else task.wanted.shard_bytes or None,
        "on_failure": task.on_failure if task.on_failure != "abort" else None,
        "max_restarts": task.max_restarts or None,
        "aggregation": task.aggregation,
        "reservation": task.reservation if task.reservation != "peak" else None,
        "kind": task.kind if task.kind != "training" else None,
        **({} if task.serving is None else _served(task.serving)),
    }
    return {name: value for name, value in entry.items() if value is not None}


def _served(serving: ServiceRequests) -> dict[str, Any]:
    objective = None if serving.objective_ps is None else format_delay(serving.objective_ps)
    return {"rate": serving.rate_hz, "objective": objective, "seed": serving.seed or None}


def _select(selection: Selection) -> dict[str, Any]:
    entry = {
        "how": selection.how,
        "budget": selection.budget,
        "seed": selection.seed or None,
        "utilities": dict(selection.utilities) or None,
    }
    return {name: value for name, value in entry.items() if value is not None}
