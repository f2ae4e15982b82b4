"""What losses cost in virtual time, beside what they may."""

import argparse
import statistics
from dataclasses import dataclass
from typing import Any, Final

from p4reduce.control_plane.plans import Plan
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.runner import move_tensors
from p4reduce.runs.summary import network_result
from p4reduce.runs.virtual.cluster import Cluster
from studies.bench import Report

# One run under faults in virtual time, and what its workers did about them.


LINKS: Final = 20
"""directed tree links that a chunk crosses in leaf-spine-8, up and down"""


@dataclass(frozen=True)
class Measured:
    """ratio: time over the plan's lower bound. asks, waits, needless: questions, WAITs, and answers to questions that
    came after the RESULT had, of each worker for each chunk. differences: from what was predicted. chunks: of the
    tensor.
    """

    ratio: float
    asks: float
    waits: float
    needless: float
    differences: int
    bound_ps: int
    chunks: int
    plan: Plan


def measure(
    plan: str, rate: str, elements: int, seed: int, topology: str, faults: FaultOptions, *, delay: str | None = None
) -> Measured:
    """One all-reduce; ``delay``: of every link, the topology's own if absent."""
    experiment = Experiment.model_validate(
        {
            "plan": plan,
            "rate": rate,
            "delay": delay,
            "elements": elements,
            "seed": seed,
            "topology": topology,
            "faults": faults,
            "lanes": 256,
        }
    )
    with Cluster(experiment) as cluster:
        move_tensors(cluster, None)
        (record,) = cluster.carrier.records
        statuses = cluster.carrier.statuses()
        laid_out = cluster.carrier.jobs[0].plan
        differences = len(network_result(cluster.carrier).prediction_differences)
    each = -(-record.elements // laid_out.lanes)
    chunks = each * len(cluster.workers)
    return Measured(
        ratio=record.communication_ps / record.bound_ps,
        asks=sum(status.asks for status in statuses) / chunks,
        waits=sum(status.waits for status in statuses) / chunks,
        needless=sum(status.spurious for status in statuses) / chunks,
        differences=differences,
        bound_ps=record.bound_ps,
        chunks=each,
        plan=laid_out,
    )


def asks_needed(loss: float, links: int = LINKS) -> float:
    """A(p): rounds of repair that a chunk needs on average, sum over k >= 1 of 1 - (1 - p^k)^L."""
    return sum(1 - (1 - loss**k) ** links for k in range(1, 60)) if loss else 0.0


BARS: Final = (
    ("steiner", "10G", 1_000_000, {0.0: 1.003, 0.001: 1.02, 0.01: 1.12, 0.05: 1.5}),
    ("steiner", "100G", 1_000_000, {0.0: 1.024, 0.001: 1.08, 0.01: 1.15, 0.05: 1.5}),
    ("steiner", "100G", 4_000_000, {0.001: 1.03, 0.01: 1.06, 0.05: 1.45}),
    ("ring", "10G", 1_000_000, {0.001: 1.03, 0.01: 1.09, 0.05: 1.35}),
    ("ring", "100G", 1_000_000, {0.001: 1.05, 0.01: 1.13, 0.05: 1.6}),
)
"""plan, rate, elements, the most that the ratio may be by loss"""
HEAVY: Final = {0.1: 5.0, 0.3: 50.0}
"""on five switches: times over those without loss"""
FIVE: Final = ("leaf-spine:leaves=4,spines=1,hosts=2", "leaf-spine-16")
"""networks whose trees have five switches, of 8 and of 16 workers"""
NEEDLESS: Final = {0.0: 0.0, 0.001: 0.01, 0.01: 0.01, 0.05: 0.06}
REORDERED: Final = 1.2
ROUNDED: Final = 0.0005
"""bars without loss are those of before, to three digits"""
COLUMNS: Final = {
    "plan": "plan",
    "rate": "rate",
    "elements": "elements",
    "loss": "loss",
    "ratio": "ratio",
    "bar": "bar",
    "worst": "worst seed",
    "asks": "asks",
    "most_asks": "at most",
    "waits": "waits",
    "needless": "needless",
    "holds": "holds",
}


def virtual(report: Report, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures and prints; the rows."""
    return [*_losses(report, options), *_heavy(report, options)]


def _losses(report: Report, options: argparse.Namespace) -> list[dict[str, Any]]:
    wanted = [
        (plan, rate, elements, loss, bar)
        for plan, rate, elements, bars in BARS
        for loss, bar in bars.items()
        if plan in options.plans
    ]
    rows = []
    with report.progress("loss", len(wanted) * len(options.seeds)) as step:
        for plan, rate, elements, loss, bar in wanted:
            runs = []
            for seed in options.seeds:
                step(f"{plan} {rate} {loss:.1%}")
                runs.append(measure(plan, rate, elements, seed, "leaf-spine-8", FaultOptions(loss=loss)))
            tree = plan == "steiner"
            row = {"plan": plan, "rate": rate, "elements": elements, "loss": loss, **_means(runs), "bar": bar}
            most = 2 * asks_needed(loss) if tree else 0.0
            row["most_asks"] = round(most, 4)
            row["holds"] = (
                row["ratio"] <= bar + ROUNDED
                and row["asks"] <= most
                and row["needless"] <= NEEDLESS[loss]
                and not any(run.differences for run in runs)
                if tree
                else row["ratio"] <= bar + ROUNDED
            )
            rows.append(row)
    report.rows("loss", "Loss on every link, leaf-spine-8, 8 workers", COLUMNS, rows)
    return rows


def _heavy(report: Report, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Ten and thirty percent on five switches, and every tenth frame late by up to 10 us."""
    cases = [("10G", where, 100_000, FaultOptions(loss=loss), bar) for where in FIVE for loss, bar in HEAVY.items()]
    cases += [(rate, "leaf-spine-8", 1_000_000, FaultOptions(reorder=0.1), REORDERED) for rate in ("10G", "100G")]
    rows: list[dict[str, Any]] = []
    if "steiner" not in options.plans:
        return rows
    with report.progress("heavy loss", len(cases) * len(options.seeds)) as step:
        for rate, where, elements, faults, bar in cases:
            runs, clean = [], []
            for seed in options.seeds:
                step(f"{rate} {faults.loss:.0%} lost, {faults.reorder:.0%} reordered")
                runs.append(measure("steiner", rate, elements, seed, where, faults))
                clean.append(measure("steiner", rate, elements, seed, where, FaultOptions()))
            row = {
                "topology": where,
                "rate": rate,
                "loss": faults.loss,
                "reorder": faults.reorder,
                **_means(runs),
                "bar": bar,
            }
            over = statistics.mean(run.ratio / before.ratio for run, before in zip(runs, clean, strict=True))
            row["times"] = round(over, 3)
            row["holds"] = (row["ratio"] if faults.reorder else over) <= bar
            rows.append(row)
    columns = {"topology": "topology", "rate": "rate", "loss": "loss", "reorder": "reordered", "ratio": "ratio",
               "times": "times of none", "bar": "bar", "asks": "asks", "waits": "waits", "needless": "needless",
               "holds": "holds"}  # fmt: skip
    report.rows("heavy", "Heavy loss on five switches; frames that overtake each other", columns, rows)
    return rows


def _means(runs: list[Measured]) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: round(statistics.mean(getattr(run, name) for run in runs), 4)
        for name in ("ratio", "asks", "waits", "needless")
    }
    found["worst"] = round(max(run.ratio for run in runs), 4)
    return found
