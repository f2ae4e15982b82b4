"""``p4reduce sweep``: every combination of plans, sizes, seeds, lanes, rates and loss."""

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.failures import exit_code, guarded
from p4reduce.base.output import Output, progress_bar
from p4reduce.cli.commands.compare import DEFAULT_PLANS, Plans
from p4reduce.cli.commands.run import Json
from p4reduce.cli.lists import floats, integers, texts
from p4reduce.runs.experiment import Experiment, Settings, experiment_options
from p4reduce.runs.files import COLUMNS, FLOW_COLUMNS, claim, faults_of, summarize

ONLY_REAL: Final = ("target", "links", "unshaped", "budget_s")
PANEL: Final = "Lists to combine"
Elements = Annotated[
    str | None, typer.Option("--elements", "-e", help="Sizes: '64k,1M'.", rich_help_panel=PANEL, show_default="262144")
]
Seeds = Annotated[str | None, typer.Option("--seeds", "-s", help="'0..4' or '1,2,3'.", rich_help_panel=PANEL)]
Lanes = Annotated[str | None, typer.Option("--lanes", "-l", help="'64,256'.", rich_help_panel=PANEL)]
Rates = Annotated[str | None, typer.Option("--rates", help="'10G,100G'.", rich_help_panel=PANEL)]
Losses = Annotated[str | None, typer.Option("--losses", help="'0,0.001,0.01'.", rich_help_panel=PANEL)]
Workers = Annotated[str | None, typer.Option("--workers", "-n", help="'2..8'.", rich_help_panel=PANEL)]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for sweep.csv; rows are appended as they finish.")]

SHOWN: Final = ("plan", "workers", "elements", "lanes", "rate", "loss", "seed")
EXAMPLES: Final = (
    "p4reduce sweep --plans steiner,ring --elements 64k,1M,4M",
    "p4reduce sweep --plans steiner --losses 0,0.001,0.01 --seeds 0..4",
    "p4reduce sweep --workers 2..8 --rates 10G,100G --lanes 64,256 --out out/scaling",
)


@experiment_options(
    omit=("plan", "elements", "seed", "lanes", "rate", "faults.loss", "workers", *ONLY_REAL),
    real_time=True,
)
@guarded
def sweep(
    *,
    settings: Settings,
    plans: Plans = DEFAULT_PLANS,
    elements: Elements = None,
    seeds: Seeds = None,
    lanes: Lanes = None,
    rates: Rates = None,
    losses: Losses = None,
    workers: Workers = None,
    out: Out = Path("out/sweep"),
    as_json: Json = False,
) -> None:
    """Run every combination of the given lists, one row each.

    A row is written as soon as its run ends; a run that fails is a row with its error, and the sweep goes on. The
    exit code is then 1.
    """
    from p4reduce.runs.result import MODEL_ERROR  # noqa: PLC0415  (slow to import)

    output = Output(as_json=as_json)
    axes: dict[str, list[Any]] = {"plan": texts(plans, "--plans")}
    for field, flag, text, parse in (
        ("workers", "--workers", workers, integers),
        ("elements", "--elements", elements, integers),
        ("lanes", "--lanes", lanes, integers),
        ("rate", "--rates", rates, texts),
        ("faults__loss", "--losses", losses, floats),
        ("seed", "--seeds", seeds, integers),
    ):
        if text is not None:
            axes[field] = list(parse(text, flag))
    experiments = list(_combinations(settings, axes))
    claim(out=out)
    rows = _run(experiments, output, out)
    output.data(rows)
    columns = [*SHOWN, "communication_us", "ratio_to_bound", "total_bytes", "busiest_bytes", "test_accuracy", "error"]
    columns = [name for name in columns if any(row[name] is not None and row[name] != "" for row in rows)]
    output.table([name.replace("_", " ") for name in columns], [[_cell(row[name]) for name in columns] for row in rows])
    if experiments[0].time == "flow":
        output.line(str(MODEL_ERROR))
    output.note(f"wrote {out / 'sweep.csv'}")
    failed = sum(1 for row in rows if row["error"])
    if failed:
        raise Failed(f"{failed} of {len(rows)} runs failed; see column 'error'")


def _combinations(settings: Settings, axes: dict[str, list[Any]]) -> Iterator[Experiment]:
    for values in itertools.product(*axes.values()):
        experiment = settings.experiment(**dict(zip(axes, values, strict=True)))
        if experiment.time == "real":
            raise BadInput("--time: a sweep knows virtual and flow; 'p4reduce compare' knows real, too")
        yield experiment


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
    from p4reduce.runs.runner import run_experiment  # noqa: PLC0415  (slow to import)

    settings = experiment.model_dump(mode="json")
    asked = {name: settings["faults"][name] if name == "loss" else settings[name] for name in SHOWN}
    try:
        result = run_experiment(experiment)
    except Exception as error:
        if exit_code(error) is None:
            raise
        more = {FLOW_COLUMNS[0]: "flow", **dict.fromkeys(FLOW_COLUMNS[1:])} if experiment.time == "flow" else {}
        return {**dict.fromkeys(COLUMNS), **more, **asked, "topology": experiment.topology, "error": str(error)}
    return {**summarize(result), "error": "; ".join(faults_of(result))}


def _append(file: IO[str], row: dict[str, Any], *, first: bool) -> None:
    of_model = FLOW_COLUMNS if FLOW_COLUMNS[0] in row else ()
    writer = csv.DictWriter(file, [*COLUMNS, *of_model, "error"], lineterminator="\r\n")
    if first:
        writer.writeheader()
    writer.writerow(row)
    file.flush()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
