"""Benchmarks in real time: ``python -m studies.bench runs``."""

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import Any, Final

from p4reduce.network.real.bmv2 import find_bmv2
from p4reduce.network.real.net import why_not
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.carry import WINDOW
from p4reduce.runs.real.run import OTHERS, run_real, run_session
from p4reduce.runs.result import RunResult
from studies.bench import Report

# ``python -m studies.bench runs``: real time, measured against something else in the same run.
#
# "targets" is one plan with the same workers on BMv2 and on the embedded switch, links as fast as the machine:
# goodput of a worker, packets that came into switches, processors that switches and workers kept busy (sw., wk.),
# what was sent again, what the kernel dropped, and the window: mean, highest, cuts, and the limit that half the
# slots set. "gloo" is an all-reduce of 10 MB over shaped links, in the network and by gloo's ring (and MPI's, where
# it is installed) over TCP through the same switches, in several rounds: the ratio is the median of the rounds'.
# Wall clocks of different machines, or of a busy one, cannot be compared: look at the ratios.


TEN_MB: Final = 2_500_000
"""elements"""
PARTS: Final = ("targets", "gloo")
TARGETS: Final = {
    "lanes": "lanes",
    "target": "target",
    "goodput_mbps": "Mb/s",
    "packets_per_s": "packets/s",
    "switch_cpu": "CPUs sw.",
    "worker_cpu": "CPUs wk.",
    "resends": "resends",
    "kernel_drops": "drops",
    "window": "window",
    "window_highest": "highest",
    "cuts": "cuts",
    "window_limit": "limit",
    "marks": "ECN",
    "ratio": "x BMv2",
}
GLOO: Final = {
    "what": "10 MB all-reduce",
    "median_ms": "median ms",
    "to_bound": "time / (S/b)",
    "to_gloo": "time / gloo's",
    "least": "least",
    "most": "most",
}
OURS: Final = "ours"
WHAT: Final = {OURS: "in the network, embedded switch", "gloo": "gloo, ring over TCP", "mpi": "MPI (MPICH) over TCP"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    options = _options(arguments)
    report = Report(as_json=options.json)
    reason = why_not()
    for part in options.only:
        if reason is not None:
            report.skipped(part, reason)
        else:
            (_targets if part == "targets" else _gloo)(report, options)
    report.finish()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m studies.bench runs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of tables")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure")
    parser.add_argument("--topology", default="star:hosts=4")
    parser.add_argument("--plan", default="steiner")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--lanes", nargs="+", type=int, choices=(64, 256), default=[64, 256])
    parser.add_argument("--elements", type=int, default=500_000, help="of each all-reduce of 'targets'")
    parser.add_argument("--loss", type=float, default=0.0, help="on every link of 'targets'")
    parser.add_argument("--runs", type=int, default=5, help="of 'targets'; the median counts")
    parser.add_argument("--gloo-rounds", type=int, default=5, help="of 'gloo': ours, then the others; medians count")
    parser.add_argument("--gloo-runs", type=int, default=5, help="of each in a round")
    parser.add_argument("--gloo-python", default=sys.executable, help="a Python that has PyTorch")
    return parser.parse_args(arguments)


def _targets(report: Report, options: argparse.Namespace) -> None:
    targets = ["embedded"] if find_bmv2() is None else ["bmv2", "embedded"]
    rows: list[dict[str, Any]] = []
    with report.progress("targets", len(options.lanes) * len(targets)) as step:
        for lanes in options.lanes:
            mine = []
            for target in targets:
                step(f"{target}, {lanes} lanes")
                mine.append(_row(run_real(_unshaped(options, lanes, target))))
            for row in mine:
                row["ratio"] = row["goodput_mbps"] / mine[0]["goodput_mbps"] if len(targets) > 1 else None
            rows += mine
    report.rows("targets", f"{options.plan} on {options.topology}, links unshaped", TARGETS, rows)
    if len(targets) == 1:
        report.skipped("bmv2", "simple_switch_grpc is not here; docs/bmv2.md shows how to get it")


def _unshaped(options: argparse.Namespace, lanes: int, target: str) -> Experiment:
    return Experiment.model_validate(
        {
            "topology": options.topology,
            "plan": options.plan,
            "workers": options.workers,
            "lanes": lanes,
            "elements": options.elements,
            "repeat": options.runs,
            "target": target,
            "time": "real",
            "unshaped": True,
            "window": WINDOW,  # on BMv2, too: here it is to be seen what holds the window
            "faults": {"loss": options.loss},
        }
    )


def _row(result: RunResult) -> dict[str, Any]:
    real, network = result.real, result.network
    assert real is not None  # noqa: S101  (a run in real time has it)
    wall_s = sum(record.done_ps - record.start_ps for record in network.collectives) / 1e12
    workers = real.workers.values()
    return {
        "lanes": network.lanes,
        "target": real.target,
        "goodput_mbps": real.goodput_bps / 1e6,
        "packets_per_s": round(real.packets_per_s),
        "switch_cpu": (real.cpu_s["switches"] + real.cpu_s["session"]) / wall_s,
        "worker_cpu": real.cpu_s["workers"] / wall_s,
        "resends": sum(record.resends for record in network.collectives),
        "kernel_drops": real.kernel_drops,
        "window": statistics.median(one["window_mean"] for one in workers),
        "window_highest": max(one["window_highest"] for one in workers),
        "cuts": sum(one["cuts"] for one in workers),
        "window_limit": network.window,
        "marks": sum(one["congested"] for one in workers),
    }


def _gloo(report: Report, options: argparse.Namespace) -> None:
    """Rounds of ours, then the others', on the links of one network: what slows one down slows down all of a round."""
    there = [name for name, has in OTHERS.items() if has(options.gloo_python)]
    if "gloo" not in there:
        report.skipped("gloo", f"{options.gloo_python} has no PyTorch with gloo: install torch, or --gloo-python")
    beside = {name: {"python": options.gloo_python, "sizes": [TEN_MB] * options.gloo_runs} for name in there}
    times: dict[str, list[float]] = {name: [] for name in (OURS, *there)}
    experiment = Experiment(
        topology="star:hosts=4",
        rate="200M",
        lanes=256,
        elements=TEN_MB,
        repeat=options.gloo_runs,
        time="real",
    )
    with report.progress("gloo", options.gloo_rounds) as step:
        for number in range(options.gloo_rounds):
            step(f"round {number + 1} of {options.gloo_rounds}")
            result, beside_s = run_session(experiment, beside=beside)
            bound = result.network.bound_ps / 1e9
            times[OURS].append(result.network.communication_ps / 1e9)
            for name, seconds in beside_s.items():
                times[name].append(statistics.median(seconds) * 1e3)
    rows = [{"what": "S/b with headers", "median_ms": bound, "to_bound": 1.0}]
    rows += [_against(name, mine, bound, times.get("gloo")) for name, mine in times.items()]
    runs = f"{options.gloo_rounds} rounds of {options.gloo_runs} each"
    report.rows("gloo", f"4 workers, one switch, 200 Mb/s, 256 lanes; {runs}", GLOO, rows)


def _against(name: str, mine: list[float], bound: float, gloo: list[float] | None) -> dict[str, Any]:
    found = {"what": WHAT[name], "median_ms": statistics.median(mine), "to_bound": statistics.median(mine) / bound}
    if gloo is not None:
        ratios = [a / b for a, b in zip(mine, gloo, strict=True)]
        found |= {"to_gloo": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
    return found
