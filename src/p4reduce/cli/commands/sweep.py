"""``p4reduce sweep``: every combination of plans, sizes, seeds, lanes, rates and loss."""

import csv
from pathlib import Path
from typing import IO, Any, Final

from p4reduce.base.errors import Failed
from p4reduce.base.failures import exit_code
from p4reduce.base.output import Output, progress_bar
from p4reduce.cli.flags.run import Sweep
from p4reduce.runs import runner
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.files import COLUMNS, claim, faults_of, summarize

SHOWN: Final = ("plan", "workers", "elements", "lanes", "rate", "loss", "seed")


def sweep(flags: Sweep) -> None:
    """Run every combination, and write a row for each."""
    output = Output(as_json=flags.as_json)
    claim(out=flags.out)
    rows = _run(flags.experiments, output, flags.out)
    output.data(rows)
    columns = [*SHOWN, "communication_us", "ratio_to_bound", "total_bytes", "busiest_bytes", "test_accuracy", "error"]
    columns = [name for name in columns if any(row[name] is not None and row[name] != "" for row in rows)]
    output.table([name.replace("_", " ") for name in columns], [[_cell(row[name]) for name in columns] for row in rows])
    output.note(f"wrote {flags.out / 'sweep.csv'}")
    failed = sum(1 for row in rows if row["error"])
    if failed:
        raise Failed(f"{failed} of {len(rows)} runs failed; see column 'error'")


def _run(experiments: list[Experiment], output: Output, out: Path) -> list[dict[str, Any]]:
    rows = []
    with (out / "sweep.csv").open("w", newline="", encoding="utf-8") as file, progress_bar(output) as open_bar:
        bar = open_bar("sweep")
        for number, experiment in enumerate(experiments):
            bar(f"{number} of {len(experiments)}: {experiment.plan}", number, len(experiments))
            rows.append(_row(experiment))
            _append(file, rows[-1], first=number == 0)
    return rows


def _row(experiment: Experiment) -> dict[str, Any]:
    """The row of one run; with empty figures and the error when it failed."""
    settings = experiment.model_dump(mode="json")
    asked = {name: settings["faults"][name] if name == "loss" else settings[name] for name in SHOWN}
    try:
        result = runner.run_experiment(experiment)
    except Exception as error:
        if exit_code(error) is None:
            raise
        return {**dict.fromkeys(COLUMNS), **asked, "topology": experiment.topology, "error": str(error)}
    return {**summarize(result), "error": "; ".join(faults_of(result))}


def _append(file: IO[str], row: dict[str, Any], *, first: bool) -> None:
    writer = csv.DictWriter(file, [*COLUMNS, "error"], lineterminator="\r\n")
    if first:
        writer.writeheader()
    writer.writerow(row)
    file.flush()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
