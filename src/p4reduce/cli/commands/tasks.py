"""``p4reduce tasks``: AI tasks in a database."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output, time_text
from p4reduce.cli.main import epilog
from p4switch.base.files import naming, open_file

if TYPE_CHECKING:
    from p4reduce.control_plane.orchestrator import Store, TaskRow

app = typer.Typer(help="AI tasks: submit, list, show, cancel. 'p4reduce orchestrate' runs them.", no_args_is_help=True)
Database = Annotated[Path, typer.Option("--database", "-d", help="SQLite file of tasks, plans and measurements.")]
DATABASE: Final = Path("tasks.sqlite")
Name = Annotated[str, typer.Argument(help="The task's name.", show_default=False)]
Traces = Annotated[list[Path], typer.Argument(help="Files with tasks: YAML, or CSV.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="The result as JSON on stdout; tables and progress on stderr.")]
_HEAD: Final = b"SQLite format 3\0"
"""of a database that something was written to: https://www.sqlite.org/fileformat.html#the_database_header"""
EXAMPLES: Final = (
    "p4reduce example tasks > tasks.yaml",
    "p4reduce tasks submit tasks.yaml",
    "p4reduce orchestrate --topology wan:graph=nobel-us,servers=1 --policy steiner",
    "p4reduce tasks list --json",
    "p4reduce tasks show task1",
)
LIST_EXAMPLES: Final = ("p4reduce tasks list", "p4reduce tasks list --json | jq -r '.[] | [.name, .state] | @tsv'")
SHOW_EXAMPLES: Final = ("p4reduce tasks show task1", "p4reduce tasks show task1 --json | jq .decisions")
SWAPS_EXAMPLES: Final = ("p4reduce tasks swaps", "p4reduce tasks swaps -d other.sqlite --json")
CANCEL_EXAMPLES: Final = ("p4reduce tasks cancel task1",)


@contextmanager
def open_store(path: Path, *, new: bool = False) -> "Iterator[Store]":
    """The database; what is wrong with it or with a task in it is the user's to mend.

    Args:
        path: of a file; what is none, or no database, is told before the slow imports.
        new: whether the file may be absent, or empty.
    """
    try:
        with open_file(path) as file, naming(path):
            head = file.read(len(_HEAD))
        if not _HEAD.startswith(head) or len(head) < len(_HEAD) * (not new):
            raise BadInput(f"--database: {path}: is no database; 'p4reduce tasks submit' makes one")
    except FileNotFoundError:
        if not new:
            raise BadInput(f"--database: {path}: there is no such file; 'p4reduce tasks submit' makes one") from None
    except OSError as error:
        raise BadInput(f"--database: {path}: {error.strerror}") from None

    from p4reduce.control_plane.orchestrator import Store  # noqa: PLC0415  (slow to import)

    with Store(path) as store:
        yield store


@app.command("submit", epilog=epilog(*EXAMPLES))
@guarded
def submit(traces: Traces, database: Database = DATABASE, as_json: Json = False) -> None:
    """Queue the tasks of files, all of them or none.

    A YAML file has a list 'tasks', a CSV file a line for each task: name, server, workers (in CSV separated by
    spaces), elements; if wanted rounds, training, demand, arrival, deadline, priority ('20us', '1G'), and select, which
    has part of the workers take part: '{how: useful, budget: 0.4, utilities: {h1: 3, h2: 1}}'.

    With a number as workers ('workers: 8') the orchestrator chooses the hosts, and the server if none is named; then
    also slots (of a host, for each worker), shards (home hosts of the data), shard_bytes; owner is for --order fair.

    on_failure says what becomes of a running task when a worker dies: abort (the default: it fails where nobody can
    take the worker's place), raise (it fails at once, and says who died), shrink (the others go on). With max_restarts
    it begins anew so often where it would fail, from its last checkpoint. aggregation (switches or hosts) says who may
    add up, reservation (peak or mean) what links keep for it.
    """
    from p4reduce.control_plane.orchestrator import read_traces  # noqa: PLC0415  (slow to import)

    output = Output(as_json=as_json)
    tasks = read_traces(traces)  # before there is a file
    with open_store(database, new=True) as store:
        store.submit(tasks)
    output.data([task.name for task in tasks])
    output.note(f"{len(tasks)} tasks queued in {database}; 'p4reduce orchestrate --topology …' runs them")


@app.command("list", epilog=epilog(*LIST_EXAMPLES))
@guarded
def list_tasks(database: Database = DATABASE, as_json: Json = False) -> None:
    """List all tasks with their states."""
    output = Output(as_json=as_json)
    with open_store(database) as store:
        rows = store.tasks()
    output.data([task_data(row) for row in rows])
    task_table(output, rows)


@app.command("show", epilog=epilog(*SHOW_EXAMPLES))
@guarded
def show(name: Name, database: Database = DATABASE, as_json: Json = False) -> None:
    """Show a task: its states, rounds, plans, turns over a cross-connect, and every decision with its reasons."""
    output = Output(as_json=as_json)
    with open_store(database) as store:
        from p4reduce.control_plane.orchestrator import Phase  # noqa: PLC0415  (slow to import)

        row, history = store.task(name), store.history
        changes, rounds, decisions = history.changes(name), history.rounds(name), history.decisions(name)
        turns = store.schedules.turns(name)
        plans = [
            {"role": plan.role, "job": plan.job, "epoch": plan.epoch, "phase": plan.phase}
            for plan in store.plans(tuple(Phase), name)
        ]
    found = {"changes": changes, "rounds": rounds, "plans": plans, "turns": turns, "decisions": decisions}
    output.data({**task_data(row), **found})
    task_table(output, [row])
    times = ("training_ps", "upload_ps", "aggregation_ps", "broadcast_ps", "total_ps")
    cells = [[str(one["round"]), str(len(one["ranks"])), *(time_text(one[field]) for field in times)] for one in rounds]
    output.table(["round", "models", "training", "upload", "aggregation", "broadcast", "total"], cells)
    if turns:
        output.table(_TURNS, [_turn(one) for one in turns])
    output.table(["plan", "job", "epoch", "phase"], [[str(cell) for cell in plan.values()] for plan in plans])
    output.table(["at", "state", "reason"], [[time_text(one["at_ps"]), one["after"], one["reason"]] for one in changes])
    output.table(
        ["at", "decision", "why"],
        [[time_text(one["at_ps"]), one["what"], _why(one["why"])] for one in decisions],
    )


@app.command("swaps", epilog=epilog(*SWAPS_EXAMPLES))
@guarded
def swaps(database: Database = DATABASE, as_json: Json = False) -> None:
    """List every swap of a running task's tree: what it saved, and what the interruption cost."""
    output = Output(as_json=as_json)
    with open_store(database) as store:
        rows = store.history.swaps()
    output.data(rows)
    fields = ("task", "role", "cause", "saving_bytes", "cost_bytes", "in_flight", "resent_bytes", "late_frames")
    cells = [
        [
            time_text(row["at_ps"]),
            *("-" if row[field] is None else str(row[field]) for field in fields),
            "-" if row["duration_ps"] is None else time_text(row["duration_ps"]),
        ]
        for row in rows
    ]
    output.table(["at", *(field.replace("_", " ") for field in fields), "duration"], cells)


@app.command("cancel", epilog=epilog(*CANCEL_EXAMPLES))
@guarded
def cancel(name: Name, database: Database = DATABASE) -> None:
    """Ask the orchestrator to give a task up."""
    with open_store(database) as store:
        store.request_cancel(name)
    Output().note(f"task {name} will be given up as soon as the orchestrator looks")


def task_data(row: "TaskRow") -> dict[str, Any]:
    """A task for JSON."""
    return {
        "name": row.name,
        "state": row.state,
        "reason": row.reason,
        "waits": row.waits,
        "server": row.task.server,
        "workers": list(row.task.workers),
        "wanted": None if row.task.wanted is None else row.task.wanted.count,
        "owner": row.task.owner,
        "candidates": list(row.candidates),
        "on_failure": row.task.on_failure,
        "ranks": list(row.ranks),
        "max_restarts": row.task.max_restarts,
        "attempt": row.attempt,
        "elements": row.task.elements,
        "rounds": row.task.rounds,
        "arrival_ps": row.task.arrival_ps,
        "started_ps": row.started_ps,
        "finished_ps": row.finished_ps,
        "digest": row.digest,
    }


def task_table(output: Output, rows: "list[TaskRow]") -> None:
    """Tasks for people."""
    cells = [
        [
            row.name,
            row.state,
            str(row.task.size),
            str(row.task.elements),
            *("-" if at is None else time_text(at) for at in (row.task.arrival_ps, row.started_ps, row.finished_ps)),
            row.reason or (f"waits: {row.waits}" if row.waits else row.fault),
        ]
        for row in rows
    ]
    output.table(["task", "state", "models", "elements", "arrival", "started", "ended", "reason"], cells)


_TURNS: Final = [
    "schedule", "round", "group", "configuration", "planned: from", "lasts", "real: from", "dark", "lasts", "lost",
]  # fmt: skip


def _turn(one: dict[str, Any]) -> list[str]:
    """A window for people: when it was to open after the beginning of its round, and when it was lit."""
    return [
        *(str(one[field]) for field in ("schedule", "round", "group", "configuration")),
        time_text(one["planned_start_ps"]),
        time_text(one["planned_ps"]),
        time_text(one["lit_ps"] - one["round_ps"]),
        time_text(one["lit_ps"] - one["started_ps"]),
        time_text(one["ended_ps"] - one["lit_ps"]),
        str(one["dark_lost"] + one["misrouted"]),
    ]


def _why(why: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in why.items()
    )
