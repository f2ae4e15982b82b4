"""Collectives over a range of sizes in real time: on sockets, and gloo's on the same links in the same run."""

import sys

from p4reduce.base.units import PS_PER_US
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.perf import Plan, Progress, Row, figures
from p4reduce.runs.real.gloo import has_gloo
from p4reduce.runs.real.run import run_session

GLOO = "gloo"


def measure_real(experiment: Experiment, plan: Plan, progress: Progress, *, gloo: bool) -> list[Row]:
    """All sizes with one plan; with ``gloo``, then the same with it, where PyTorch and network namespaces are.

    Every sum is held against the exact one, so no element is ever wrong: a run in which one is, fails. Raises
    ``ExperimentError`` for what is not measured in real time, and what a run raises.
    """
    if (plan.collective, plan.type) != ("all_reduce", "float"):
        raise ExperimentError(f"{plan.collective} of {plan.type}: in real time, all_reduce of float is measured")
    sizes = [size // 4 for size in plan.sizes for _ in range(plan.iters)]
    beside = gloo and experiment.links == "veth" and has_gloo(sys.executable)
    result, gloo_s = run_session(
        experiment,
        progress=progress,
        sizes=[sizes[0], *sizes],  # the first fills caches, and is not shown
        gloo={"python": sys.executable, "sizes": sizes} if beside else None,
    )
    workers = result.network.workers
    ours = [record.communication_ps / PS_PER_US for record in result.network.collectives[1:]]
    rows = _rows(experiment.plan, plan, workers, ours)
    return rows + _rows(GLOO, plan, workers, [seconds * 1e6 for seconds in gloo_s]) if gloo_s else rows


def _rows(engine: str, plan: Plan, workers: int, times_us: list[float]) -> list[Row]:
    rows = []
    for at, octets in enumerate(plan.sizes):
        mine = times_us[at * plan.iters : (at + 1) * plan.iters]
        found = figures(octets, sum(mine) / len(mine), plan.collective, workers, 0)
        rows.append(Row(engine, octets, plan.count(octets, workers), plan.type, "sum", -1, None, found))
    return rows
