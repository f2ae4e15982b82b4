"""A run in one row: raw figures for CSV and JSON, and the table that people read."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from p4reduce.base.units import PS_PER_US
from p4reduce.cli.output import Output
from p4reduce.cli.units import bytes_text, rate_text, share_text, small_text, time_text
from p4reduce.runs.result import RunResult, TrainingResult


def largest_error(result: RunResult) -> tuple[float | None, float | None]:
    """The largest quantization error of the run and the bound that it must not pass."""
    if result.training is not None and result.training.max_error is not None:
        return result.training.max_error, result.training.error_bound
    measured = [
        (record.max_error, record.error_bound) for record in result.network.collectives if record.max_error is not None
    ]
    return max(measured, key=lambda pair: pair[0]) if measured else (None, None)


def faults_of(result: RunResult) -> list[str]:
    """Why a run that ended must still not be believed; empty if it may."""
    network = result.network
    faults = []
    if network.prediction_differences:
        first = network.prediction_differences[0]
        more = len(network.prediction_differences) - 1
        faults.append(f"bytes counted differ from the prediction: {first}{f' (and {more} more)' if more else ''}")
    saturated = sum(record.saturated for record in network.collectives if record.failed is None)
    if saturated:
        faults.append(f"{saturated} chunks saturated: their sums are not exact; choose a smaller --scale")
    error, bound = largest_error(result)
    if error is not None and bound is not None and error > bound and not saturated:
        faults.append(f"quantization error {error:.3g} is above its bound {bound:.3g}")
    return faults


@dataclass(frozen=True)
class Summary:
    """One run as a row: bytes, microseconds of virtual time, shares of 1. The same columns for every run."""

    topology: str
    plan: str
    workers: int
    model: str
    collective: str
    elements: int
    lanes: int
    rate: str | None
    seed: int
    loss: float
    duplicate: float
    reorder: float
    corrupt: float
    collectives: int
    communication_us: float
    bound_us: float
    ratio_to_bound: float
    bound_link: str
    total_bytes: int
    busiest_bytes: int
    busiest_link: str
    bytes_per_iteration: int
    window: int
    slots: int
    slots_limited: bool
    resends: int
    saturated: int
    max_error: float | None
    error_bound: float | None
    test_accuracy: float | None
    baseline_accuracy: float | None
    target_accuracy: float | None
    time_to_target_us: float | None
    prediction_differences: int
    result_sha256: str
    commit: str
    p4_json_sha256: str


COLUMNS: Final = tuple(field.name for field in fields(Summary))


def summarize(result: RunResult) -> dict[str, Any]:
    """The row of a run, by column; runs in real time have some columns more."""
    network, training, settings = result.network, result.training, result.experiment
    faults = settings.get("faults") or {}
    error, bound = largest_error(result)
    to_target = training.time_to_target_s if training else None
    summary = Summary(
        topology=network.topology,
        plan=network.plan,
        workers=network.workers,
        model=settings["model"],
        collective=settings["collective"],
        elements=network.elements,
        lanes=network.lanes,
        rate=settings.get("rate"),
        seed=settings["seed"],
        loss=faults.get("loss", 0.0),
        duplicate=faults.get("duplicate", 0.0),
        reorder=faults.get("reorder", 0.0),
        corrupt=faults.get("corrupt", 0.0),
        collectives=len(network.collectives),
        communication_us=network.communication_ps / PS_PER_US,
        bound_us=network.bound_ps / PS_PER_US,
        ratio_to_bound=network.ratio_to_bound,
        bound_link=network.bound_link,
        total_bytes=network.total_bytes,
        busiest_bytes=network.busiest_bytes,
        busiest_link=network.busiest_link,
        bytes_per_iteration=network.bytes_per_iteration,
        window=network.window,
        slots=network.slots,
        slots_limited=network.slots_limited,
        resends=sum(record.resends for record in network.collectives),
        saturated=sum(record.saturated for record in network.collectives),
        max_error=error,
        error_bound=bound,
        test_accuracy=training.test_accuracy if training else None,
        baseline_accuracy=training.baseline_accuracy if training else None,
        target_accuracy=training.target_accuracy if training else None,
        time_to_target_us=None if to_target is None else to_target * 1e6,
        prediction_differences=len(network.prediction_differences),
        result_sha256=network.result_sha256,
        commit=result.provenance.get("commit", "-"),
        p4_json_sha256=result.provenance.get("p4_json_sha256", "-"),
    )
    if result.real is None:
        return asdict(summary)
    real = result.real
    return {
        **asdict(summary),
        "target": real.target,
        "links": real.links,
        "goodput_bps": real.goodput_bps,
        "packets_per_s": real.packets_per_s,
        "lost": real.lost,
        "kernel_drops": real.kernel_drops,
        **{f"cpu_{name}_s": used for name, used in real.cpu_s.items()},
    }


def print_table(output: Output, results: Sequence[RunResult], title: str | None = None) -> None:
    """One line for each run. Columns that no run fills are left out."""
    names, rows = table_of(results)
    output.table(names, rows, title=title)


def print_real(output: Output, results: Sequence[RunResult]) -> None:
    """What the wall clock adds to the table of runs in real time; nothing for others."""
    rows = []
    for result in results:
        real = result.real
        if real is None:
            continue
        windows = [one["window_mean"] for one in real.workers.values()]
        cells = [result.network.plan, f"{real.target}, {real.links}", real.shaping, rate_text(real.goodput_bps)]
        cells += [f"{real.packets_per_s:,.0f}", f"{real.cpu_s['switches'] + real.cpu_s['session']:.2f} s"]
        cells += [f"{real.cpu_s['workers']:.2f} s", f"{real.lost:,}", f"{real.kernel_drops:,}"]
        rows.append([*cells, f"{min(windows)} to {max(windows)} of {result.network.window}"])
    if rows:
        names = ["plan", "ran on", "links shaped by", "goodput", "packets/s", "CPU switches", "CPU workers"]
        output.table([*names, "lost on purpose", "by the kernel", "mean window"], rows)


def table_of(results: Sequence[RunResult]) -> tuple[list[str], list[list[str]]]:
    """The same table as text: column names and rows."""
    learned = [training for result in results if (training := _learned(result)) is not None]
    shares = {training.target_accuracy or 0.0 for training in learned}
    share = shares.pop() if len(shares) == 1 else None
    target = f"time to {100 * share:.0f} %" if share else "time to target"
    rows = [_cells(result, target) for result in results]
    names = [name for name in rows[0] if any(row[name] != "-" for row in rows)]
    return names, [[row[name] for name in names] for row in rows]


def _learned(result: RunResult) -> TrainingResult | None:
    """The training that measured accuracy, if there was one; a script may have recorded other figures."""
    training = result.training
    return None if training is None or training.test_accuracy is None else training


def _cells(result: RunResult, target: str) -> dict[str, str]:
    network, training = result.network, _learned(result)
    error, bound = largest_error(result)
    to_target = training.time_to_target_s if training else None
    return {
        "plan": network.plan,
        "network time / iteration": time_text(network.communication_ps),
        target: "-" if training is None else "never" if to_target is None else time_text(to_target * 1e12),
        "bytes on all links": bytes_text(network.total_bytes),
        "on the busiest link": bytes_text(network.busiest_bytes),
        "time / lower bound": f"{network.ratio_to_bound:.3f}",
        "bound by": network.bound_link,
        "test accuracy": share_text(training.test_accuracy if training else None),
        "largest error": small_text(error),
        "error bound": small_text(bound),
        "limited by": "slots" if network.slots_limited else "-",
    }
