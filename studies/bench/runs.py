"""Benchmarks in real time, relative to another measurement in the same run."""

import statistics
from typing import Any, Final

from p4reduce.network.real.bmv2 import find_bmv2
from p4reduce.network.real.net import why_not
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.carry import WINDOW
from p4reduce.runs.real.run import OTHERS, run_real, run_session
from p4reduce.runs.result import RunResult

# "targets" runs one plan with the same workers on BMv2 and on the embedded switch, with unshaped links. It shows
# goodput of a worker, packets into switches, processors that switches and workers kept busy (sw., wk.), resends, kernel
# drops, and the window: mean, highest, cuts, and its limit from half the slots. "gloo" is an all-reduce of 10 MB over
# shaped links, in the network and by gloo's ring (and by MPI's, if it is installed) over TCP through the same switches,
# in several rounds; its ratio is the median of the rounds' ratios. Wall-clock times of different or busy machines are
# not comparable: compare ratios.


TEN_MB: Final = 2_500_000
"""number of elements"""
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


def targets(settings: Any, lanes: int) -> list[dict[str, Any]]:
    """Measure one plan on BMv2, if it is installed, and on the embedded switch."""
    switches = ["embedded"] if find_bmv2() is None else ["bmv2", "embedded"]
    rows = [_row(run_real(_unshaped(settings, lanes, target))) for target in switches]
    for row in rows:
        row["ratio"] = row["goodput_mbps"] / rows[0]["goodput_mbps"] if len(rows) > 1 else None
    return rows


def _unshaped(settings: Any, lanes: int, target: str) -> Experiment:
    return Experiment.model_validate(
        {
            "topology": settings.topology,
            "plan": settings.plan,
            "workers": settings.target_workers or None,
            "lanes": lanes,
            "elements": settings.target_elements,
            "repeat": settings.target_runs,
            "target": target,
            "time": "real",
            "unshaped": True,
            "window": WINDOW,  # on BMv2, too: the run shall show what limits the window
            "faults": {"loss": settings.target_loss},
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
        "window": statistics.median(worker["window_mean"] for worker in workers),
        "window_highest": max(worker["window_highest"] for worker in workers),
        "cuts": sum(worker["cuts"] for worker in workers),
        "window_limit": network.window,
        "marks": sum(worker["congested"] for worker in workers),
    }


def why_no_gloo(settings: Any) -> str | None:
    """Return why gloo cannot be measured on this machine; None if it can."""
    if reason := why_not():
        return reason
    if OTHERS["gloo"](settings.gloo_python):
        return None
    return f"{settings.gloo_python} has no PyTorch with gloo: install torch, or --gloo-python"


def gloo(settings: Any) -> list[dict[str, Any]]:
    """Measure rounds of p4reduce, then the others, on one network; a disturbance affects all times of a round."""
    there = [name for name, has in OTHERS.items() if has(settings.gloo_python)]
    beside = {name: {"python": settings.gloo_python, "sizes": [TEN_MB] * settings.gloo_runs} for name in there}
    times: dict[str, list[float]] = {name: [] for name in (OURS, *there)}
    experiment = Experiment(
        topology="star:hosts=4",
        rate="200M",
        lanes=256,
        elements=TEN_MB,
        repeat=settings.gloo_runs,
        time="real",
    )
    for _ in range(settings.gloo_rounds):
        result, beside_s = run_session(experiment, beside=beside)
        bound = result.network.bound_ps / 1e9
        times[OURS].append(result.network.communication_ps / 1e9)
        for name, seconds in beside_s.items():
            times[name].append(statistics.median(seconds) * 1e3)
    rows = [{"what": "S/b with headers", "median_ms": bound, "to_bound": 1.0}]
    return rows + [_against(name, mine, bound, times.get("gloo")) for name, mine in times.items()]


def _against(name: str, mine: list[float], bound: float, gloo: list[float] | None) -> dict[str, Any]:
    comparison = {"what": WHAT[name], "median_ms": statistics.median(mine), "to_bound": statistics.median(mine) / bound}
    if gloo is not None:
        ratios = [a / b for a, b in zip(mine, gloo, strict=True)]
        comparison |= {"to_gloo": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
    return comparison
