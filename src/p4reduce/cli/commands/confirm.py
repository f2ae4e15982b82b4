"""``p4reduce confirm``: the same work in virtual and in real time, side by side; what ``make bmv2-demo`` runs."""

from typing import Any

from p4reduce.base.errors import Failed
from p4reduce.base.output import Output, rate_text, share_text, time_text
from p4reduce.cli.flags.run import Confirm
from p4reduce.cli.results import run_all
from p4reduce.runs.files import claim, faults_of, summarize, write_rows
from p4reduce.runs.result import RunResult


def confirm(flags: Confirm) -> None:
    """Run it everywhere, and compare."""
    output = Output(as_json=flags.as_json)
    claim(out=flags.out)
    results = run_all(flags.experiments, output)
    rows, wrong = compare(results)
    output.data(rows)
    first = results[0].network
    names = ["plan", "ran", "network time", "results", "first transmissions", "sent again", "lost", "goodput"]
    output.table(
        [*names, "packets/s", *(["test accuracy"] if results[0].training else [])],
        [_cells(row) for row in rows],
        title=f"{first.workers} workers on {first.topology}, {first.elements:,} elements, {first.lanes} lanes",
    )
    if flags.out is not None:
        output.note(f"wrote {write_rows(flags.out / 'confirm.csv', rows)}")
    if wrong:
        raise Failed("; ".join(wrong))


def compare(results: list[RunResult]) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each run, and what is wrong with it; a run in virtual time comes before those that confirm it."""
    rows: list[dict[str, Any]] = []
    wrong: list[str] = []
    ideal: object = None
    for result in results:
        network, real = result.network, result.real
        ran = "virtual time" if real is None else f"{real.target}, {real.links}"
        if real is None:
            ideal = _outcome(result)
        same = _outcome(result) == ideal
        wrong += [f"{network.plan}, {ran}: {fault}" for fault in faults_of(result)]
        if not same:
            wrong.append(f"{network.plan}, {ran}: the results are not the bytes of virtual time")
        weights = {} if result.training is None else {"weights_sha256": result.training.weights_sha256}
        rows.append({**summarize(result), **weights, "ran": ran, "same_bytes": same})
    columns: dict[str, Any] = dict.fromkeys(name for row in rows for name in row)
    return [{**columns, **row} for row in rows], wrong


def _outcome(result: RunResult) -> object:
    """What must be the same wherever a run takes place."""
    training = result.training
    if training is None:
        return result.network.result_sha256
    figures = [(point.name, point.iteration, point.value) for point in training.points]
    return training.result_sha256, training.weights_sha256, figures


def _cells(row: dict[str, Any]) -> list[str]:
    goodput, packets = row["goodput_bps"], row["packets_per_s"]
    return [
        row["plan"],
        row["ran"],
        time_text(row["communication_us"] * 1e6),
        "-" if row["ran"] == "virtual time" else "the same bytes" if row["same_bytes"] else "DIFFER",
        "as predicted" if row["prediction_differences"] == 0 else f"{row['prediction_differences']} differ",
        str(row["resends"]),
        "-" if row["lost"] is None else str(row["lost"]),
        "-" if goodput is None else rate_text(goodput),
        "-" if packets is None else f"{packets:,.0f}",
        *([] if row["test_accuracy"] is None else [share_text(row["test_accuracy"])]),
    ]
