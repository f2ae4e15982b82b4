"""Every part with every seed, over cores or machines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from p4reduce.base.progress import Progress
from p4reduce.experiments.parallel import in_parallel
from p4reduce.experiments.tdm.planning.gains import delta, electrical, gains, mixed
from p4reduce.experiments.tdm.planning.optima import optima, times
from p4reduce.experiments.tdm.planning.sharing import pairs, traces
from p4reduce.experiments.tdm.planning.values import Values

FEW: Final = {"times": 3, "optima": 6, "traces": 4}
"""seeds of parts that take long"""
PARTS: Final[dict[str, Callable[[int, bool], Values]]] = {
    "gains": gains,
    "mixed": mixed,
    "optima": optima,
    "delta": delta,
    "electrical": electrical,
    "pairs": pairs,
    "traces": traces,
    "times": times,
}


@dataclass(frozen=True)
class Unit:
    """One part with one seed."""

    part: str
    seed: int
    quick: bool


def run_unit(unit: Unit) -> Values:
    """The figures of a part, by name."""
    return PARTS[unit.part](unit.seed, unit.quick)


def measure(
    *,
    quick: bool,
    seeds: Sequence[int],
    parts: Sequence[str] = (),
    jobs: int = 1,
    dask: str | None = None,
    progress: Progress | None = None,
) -> Values:
    """Every part (of :data:`PARTS`; none named: all) with every seed."""
    chosen = seeds[:2] if quick else seeds
    units = [Unit(part, seed, quick) for part in parts or PARTS for seed in chosen[: FEW.get(part)]]
    found: Values = {}
    for own in in_parallel(run_unit, units, jobs=jobs, dask=dask, progress=progress, label="planned"):
        for name, values in own.items():
            found.setdefault(name, []).extend(values)
    return found
