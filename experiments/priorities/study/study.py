"""The whole study: run its pieces, summarize, check."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from p4reduce.base.progress import Progress
from p4reduce.experiments.claim import Claim
from p4reduce.experiments.parallel import in_parallel, rarely_collecting
from p4reduce.experiments.priorities.description import LANES
from p4reduce.experiments.priorities.study.claims import claims
from p4reduce.experiments.priorities.study.layered import LayerRow, LayerUnit, layer_units, run_layered
from p4reduce.experiments.priorities.study.learned import LearningRow, LearningUnit, learning_units, run_learning
from p4reduce.experiments.priorities.study.points import Point, points
from p4reduce.experiments.priorities.study.settings import StudySettings
from p4reduce.experiments.priorities.study.stale import StaleRow, StaleUnit, run_stale, stale_units
from p4reduce.experiments.priorities.study.units import RoundRow, Row, Unit, UnitResult, run_unit, units_of
from p4reduce.experiments.tables import plain
from p4reduce.jobs.programs import bundled
from p4reduce.runs.provenance import provenance

Piece: TypeAlias = Unit | StaleUnit | LayerUnit | LearningUnit


@dataclass(frozen=True)
class StudyResult:
    """Everything that the study found; figures and reports are made of it."""

    settings: StudySettings
    provenance: dict[str, str]
    rows: tuple[Row, ...]
    rounds: tuple[RoundRow, ...]
    points: tuple[Point, ...]
    stale: tuple[StaleRow, ...]
    layers: tuple[LayerRow, ...]
    learning: tuple[LearningRow, ...]
    claims: tuple[Claim, ...]

    def as_data(self) -> dict[str, Any]:
        """Plain data for result.json, all but the rows."""
        named = ("settings", "provenance", "points", "stale", "layers", "claims")
        return {name: plain(getattr(self, name)) for name in named}


def run_study(
    settings: StudySettings, *, jobs: int = 1, dask: str | None = None, progress: Progress | None = None
) -> StudyResult:
    """Run the study; the same settings give the same result on every machine, however it is spread."""
    pieces: list[Piece] = [
        *units_of(settings),
        *stale_units(settings),
        *layer_units(settings),
        *learning_units(settings),
    ]
    answers = in_parallel(_run, pieces, jobs=jobs, dask=dask, progress=progress, label="scene and seed")
    found = [one for one in answers if isinstance(one, UnitResult)]
    others = [row for one in answers if not isinstance(one, UnitResult) for row in one]
    stale = tuple(row for row in others if isinstance(row, StaleRow))
    layers = tuple(row for row in others if isinstance(row, LayerRow))
    runs = sum(one.runs for one in found) + len(stale) + len(layers)
    rows = sorted((row for one in found for row in one.rows), key=_order)
    summary = points(rows)
    return StudyResult(
        settings=settings,
        provenance=provenance(bundled(LANES), settings.seeds[0]),
        rows=tuple(rows),
        rounds=tuple(row for one in found for row in one.rounds),
        points=tuple(summary),
        stale=stale,
        layers=layers,
        learning=tuple(row for row in others if isinstance(row, LearningRow)),
        claims=tuple(claims(settings, summary, stale, layers, runs)),
    )


def _run(piece: Piece) -> UnitResult | Sequence[StaleRow | LayerRow | LearningRow]:
    with rarely_collecting():
        match piece:
            case Unit():
                return run_unit(piece)
            case StaleUnit():
                return run_stale(piece)
            case LayerUnit():
                return run_layered(piece)
            case LearningUnit():
                return run_learning(piece)


def _order(row: Row) -> tuple[Any, ...]:
    return (row.part, row.phi, row.jitter, row.queues, row.policy, row.knowledge, row.rotate_rounds, row.seed, row.job)
