"""Collectives over a range of sizes in real time: on sockets, and by gloo and MPI on the same links in the same run."""

import sys
from typing import Final

from p4reduce.base.units import PS_PER_US
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.perf import Plan, Progress, Row, figures
from p4reduce.runs.real.gloo import has_gloo
from p4reduce.runs.real.mpi import has_mpi
from p4reduce.runs.real.run import run_session

OTHERS: Final = {"gloo": has_gloo, "mpi": has_mpi}
"""What is measured beside, where an interpreter has it."""


def measure_real(experiment: Experiment, plan: Plan, progress: Progress, *, others: bool) -> list[Row]:
    """All sizes with one plan; with ``others``, then the same with gloo and MPI, where PyTorch, mpi4py
    with MPICH, and network namespaces are.

    Every sum is held against the exact one, so no element is ever wrong: a run in which one is, fails. Raises
    ``ExperimentError`` for what is not measured in real time, and what a run raises.
    """
    if (plan.collective, plan.type) != ("all_reduce", "float"):
        raise ExperimentError(f"{plan.collective} of {plan.type}: in real time, all_reduce of float is measured")
    sizes = [size // 4 for size in plan.sizes for _ in range(plan.iters)]
    there = [name for name, has in OTHERS.items() if others and experiment.links == "veth" and has(sys.executable)]
    result, beside_s = run_session(
        experiment,
        progress=progress,
        sizes=[sizes[0], *sizes],  # the first fills caches, and is not shown
        beside={name: {"python": sys.executable, "sizes": sizes} for name in there},
    )
    workers = result.network.workers
    ours = [record.communication_ps / PS_PER_US for record in result.network.collectives[1:]]
    rows = _rows(experiment.plan, plan, workers, ours)
    for name, seconds in beside_s.items():
        rows += _rows(name, plan, workers, [one * 1e6 for one in seconds])
    return rows


def _rows(engine: str, plan: Plan, workers: int, times_us: list[float]) -> list[Row]:
    rows = []
    for at, octets in enumerate(plan.sizes):
        mine = times_us[at * plan.iters : (at + 1) * plan.iters]
        found = figures(octets, sum(mine) / len(mine), plan.collective, workers, 0)
        rows.append(Row(engine, octets, plan.count(octets, workers), plan.type, "sum", -1, None, found))
    return rows
