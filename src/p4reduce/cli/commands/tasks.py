"""``p4reduce tasks``: AI tasks in a database."""

from typing import Any, Final

from p4reduce.base.output import Output, time_text
from p4reduce.cli.flags.schedule import TasksCancel, TasksList, TasksShow, TasksSubmit, TasksSwaps
from p4reduce.control_plane.orchestrator import PlanPhase, Store, TaskRow, read_traces


def submit(flags: TasksSubmit) -> None:
    """Queue the tasks of files."""
    output = Output(as_json=flags.as_json)
    tasks = read_traces(list(flags.traces))  # before the database file is created
    with Store(flags.database) as store:
        store.submit(tasks)
    output.data([task.name for task in tasks])
    output.note(f"{len(tasks)} tasks queued in {flags.database}; 'p4reduce orchestrate --topology …' runs them")


def list_(flags: TasksList) -> None:
    """List all tasks with their states."""
    output = Output(as_json=flags.as_json)
    with Store(flags.database) as store:
        rows = store.tasks()
    output.data([task_data(row) for row in rows])
    task_table(output, rows)


def show(flags: TasksShow) -> None:
    """Show a task and its history."""
    output = Output(as_json=flags.as_json)
    with Store(flags.database) as store:
        row, history = store.task(flags.name), store.history
        changes, rounds, decisions = (
            history.changes(flags.name),
            history.rounds(flags.name),
            history.decisions(flags.name),
        )
        turns = store.schedules.turns(flags.name)
        plans = [
            {"role": plan.role, "job": plan.job, "epoch": plan.epoch, "phase": plan.phase}
            for plan in store.plans(tuple(PlanPhase), flags.name)
        ]
    records = {"changes": changes, "rounds": rounds, "plans": plans, "turns": turns, "decisions": decisions}
    output.data({**task_data(row), **records})
    task_table(output, [row])
    times = ("training_ps", "upload_ps", "aggregation_ps", "broadcast_ps", "total_ps")
    cells = [
        [str(entry["round"]), str(len(entry["ranks"])), *(time_text(entry[field]) for field in times)]
        for entry in rounds
    ]
    output.table(["round", "models", "training", "upload", "aggregation", "broadcast", "total"], cells)
    if turns:
        output.table(_TURNS, [_turn(turn) for turn in turns])
    named = "path" if row.task.kind == "inference" else "tree"  # plan of each client
    shown = [
        [str(cell) for cell in {**plan, "role": str(plan["role"]).replace("tree", named)}.values()] for plan in plans
    ]
    output.table(["plan", "job", "epoch", "phase"], shown)
    output.table(
        ["at", "state", "reason"],
        [[time_text(change["at_ps"]), change["after"], change["reason"]] for change in changes],
    )
    output.table(
        ["at", "decision", "why"],
        [[time_text(decision["at_ps"]), decision["what"], _why(decision["why"])] for decision in decisions],
    )


def swaps(flags: TasksSwaps) -> None:
    """Show the savings and costs of swaps of trees."""
    output = Output(as_json=flags.as_json)
    with Store(flags.database) as store:
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


def cancel(flags: TasksCancel) -> None:
    """Ask the orchestrator to cancel a task."""
    with Store(flags.database) as store:
        store.request_cancel(flags.name)
    Output().note(f"task {flags.name} will be cancelled at the orchestrator's next check")


def task_data(row: TaskRow) -> dict[str, Any]:
    """Return a task as data for JSON."""
    return {
        "name": row.name,
        "kind": row.task.kind,
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


def task_table(output: Output, rows: list[TaskRow]) -> None:
    """Print a table of tasks."""
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


def _turn(turn: dict[str, Any]) -> list[str]:
    """Return a window's cells: its planned and its real times, relative to the beginning of its round."""
    return [
        *(str(turn[field]) for field in ("schedule", "round", "group", "configuration")),
        time_text(turn["planned_start_ps"]),
        time_text(turn["planned_ps"]),
        time_text(turn["lit_ps"] - turn["round_ps"]),
        time_text(turn["lit_ps"] - turn["started_ps"]),
        time_text(turn["ended_ps"] - turn["lit_ps"]),
        str(turn["dark_lost"] + turn["misrouted"]),
    ]


def _why(why: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in why.items()
    )
