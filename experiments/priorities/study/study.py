"""The whole study: run its pieces, summarize, check."""

from dataclasses import dataclass
from typing import Any

from p4reduce.base.progress import Progress
from p4reduce.experiments.claim import Claim
from p4reduce.experiments.parallel import in_parallel, rarely_collecting
from p4reduce.experiments.priorities.description import LANES
from p4reduce.experiments.priorities.study.claims import claims
from p4reduce.experiments.priorities.study.points import Point, points
from p4reduce.experiments.priorities.study.settings import StudySettings
from p4reduce.experiments.priorities.study.stale import StaleRow, StaleUnit, run_stale, stale_units
from p4reduce.experiments.priorities.study.units import RoundRow, Row, Unit, UnitResult, run_unit, units_of
from p4reduce.experiments.tables import plain
from p4reduce.jobs.programs import bundled
from p4reduce.runs.provenance import provenance


@dataclass(frozen=True)
class StudyResult:
    """Everything that the study found; figures and reports are made of it."""

    settings: StudySettings
    provenance: dict[str, str]
    rows: tuple[Row, ...]
    rounds: tuple[RoundRow, ...]
    points: tuple[Point, ...]
    stale: tuple[StaleRow, ...]
    claims: tuple[Claim, ...]

    def as_data(self) -> dict[str, Any]:
        """Plain data for result.json, all but the rows."""
        return {name: plain(getattr(self, name)) for name in ("settings", "provenance", "points", "stale", "claims")}


def run_study(
    settings: StudySettings, *, jobs: int = 1, dask: str | None = None, progress: Progress | None = None
) -> StudyResult:
    """Run the study; the same settings give the same result on every machine, however it is spread."""
    units, stale = units_of(settings), stale_units(settings)
    pieces: list[Unit | StaleUnit] = [*units, *stale]
    answers = in_parallel(_run, pieces, jobs=jobs, dask=dask, progress=progress, label="scene and seed")
    found = [one for one in answers if isinstance(one, UnitResult)]
    stale_rows = [row for one in answers if not isinstance(one, UnitResult) for row in one]
    rows = sorted((row for one in found for row in one.rows), key=_order)
    summary = points(rows)
    return StudyResult(
        settings=settings,
        provenance=provenance(bundled(LANES), settings.seeds[0]),
        rows=tuple(rows),
        rounds=tuple(row for one in found for row in one.rounds),
        points=tuple(summary),
        stale=tuple(stale_rows),
        claims=tuple(claims(settings, summary, stale_rows, sum(one.runs for one in found) + len(stale_rows))),
    )


def _run(piece: Unit | StaleUnit) -> UnitResult | list[StaleRow]:
    with rarely_collecting():
        return run_unit(piece) if isinstance(piece, Unit) else run_stale(piece)


def _order(row: Row) -> tuple[Any, ...]:
    return (row.part, row.phi, row.jitter, row.queues, row.policy, row.knowledge, row.rotate_rounds, row.seed, row.job)
