"""The whole experiment: run its pieces, calibrate, summarize, check."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from p4reduce.cluster.poster.claims import Claim, claims
from p4reduce.cluster.poster.flow_model import FlowModel, calibrate_flow
from p4reduce.cluster.poster.overlapping import (
    OverlapResult,
    OverlapRow,
    OverlapUnit,
    overlap_units,
    run_overlapping,
)
from p4reduce.cluster.poster.parallel import Progress, in_parallel, rarely_collecting
from p4reduce.cluster.poster.settings import SPFF, PosterSettings
from p4reduce.cluster.poster.statistics import Point, calibrate, points
from p4reduce.cluster.poster.swaps import SwapResult, SwapRow, SwapUnit, run_swaps, swap_units
from p4reduce.cluster.poster.units import Row, Unit, UnitResult, run_unit, units_of
from p4reduce.cluster.programs import bundled
from p4reduce.cluster.provenance import provenance
from p4reduce.cluster.selection.experiment import SelectionPoint, SelectionResult, SelectionUnit, run_selection

Piece = Unit | SelectionUnit | SwapUnit | OverlapUnit
Found = UnitResult | SelectionResult | SwapResult | OverlapResult
SHARED_POLICIES = ("overlay-mst", "steiner")
"""whose trees change with the share of capable switches"""
FLOW_POLICIES = (SPFF, "overlay-mst", "steiner")


@dataclass(frozen=True)
class SharePoint:
    """A point of the figure over the share of capable switches."""

    share: float
    point: Point


@dataclass(frozen=True)
class PosterResult:
    """Everything that the experiment found; figures and reports are made of it."""

    settings: PosterSettings
    provenance: dict[str, str]
    training_ps: int
    """calibrated once, frozen for every policy, size and scenario"""
    rows: tuple[Row, ...]
    points: tuple[Point, ...]
    shares: tuple[SharePoint, ...]
    flow: tuple[FlowModel, ...]
    selection: tuple[SelectionPoint, ...]
    swaps: tuple[SwapRow, ...]
    """trees of running tasks, swapped or not"""
    overlapping: tuple[OverlapRow, ...]
    """tasks that communicate at the same time"""
    background: dict[str, dict[str, float]]
    """measured background traffic by scenario: mean and largest share of a link's rate, over links between switches"""
    differences: tuple[str, ...]
    claims: tuple[Claim, ...]

    def as_data(self) -> dict[str, Any]:
        """Plain data for result.json, all but the rows."""
        data = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "rows"}
        return {name: _plain(value) for name, value in data.items()}


def run_poster(
    settings: PosterSettings, *, jobs: int = 1, dask: str | None = None, progress: Progress | None = None
) -> PosterResult:
    """Run the experiment; the same settings give the same result on every machine, however it is spread."""
    main, shared, large = units_of(settings), _share_units(settings), _flow_units(settings)
    chosen = [SelectionUnit(settings.calibrated_in, seed) for seed in settings.seeds[: settings.selection_seeds]]
    # Pieces that take longest come first, so that no core waits for the last one.
    pieces: list[Piece] = [*swap_units(settings), *main, *large, *shared, *overlap_units(settings), *chosen]
    found = in_parallel(_run, pieces, jobs=jobs, dask=dask, progress=progress, label="scenario and seed")
    results = [one for one in found if isinstance(one, UnitResult)]
    rows = [row for one in results[: len(main)] for row in one.rows]
    rows.sort(key=_order(settings))
    training_ps = calibrate(rows, settings)
    summary = points(rows, training_ps)
    swapped = [one for one in found if isinstance(one, SwapResult)]
    overlapped = [one for one in found if isinstance(one, OverlapResult)]
    differences = [text for part in (results, swapped, overlapped) for one in part for text in one.differences]
    share_rows = [row for one in results[len(main) + len(large) :] for row in one.rows]
    large_rows = [row for one in results[len(main) : len(main) + len(large)] for row in one.rows]
    return PosterResult(
        settings=settings,
        provenance=provenance(bundled(settings.lanes), settings.seeds[0]),
        training_ps=training_ps,
        rows=tuple(rows),
        points=tuple(summary),
        shares=tuple(_share_points(settings, rows, share_rows, training_ps)),
        flow=tuple(_flow(settings, rows, large_rows)),
        selection=tuple(point for one in found if isinstance(one, SelectionResult) for point in one.points),
        swaps=tuple(row for one in swapped for row in one.rows),
        overlapping=tuple(row for one in overlapped for row in one.rows),
        background=_background(main, results),
        differences=tuple(differences),
        claims=tuple(claims(settings, rows, summary, differences)),
    )


def _run(piece: Piece) -> Found:
    with rarely_collecting():
        if isinstance(piece, SwapUnit):
            return run_swaps(piece)
        if isinstance(piece, OverlapUnit):
            return run_overlapping(piece)
        return run_selection(piece) if isinstance(piece, SelectionUnit) else run_unit(piece)


def _order(settings: PosterSettings) -> Any:
    scenarios = [scenario.name for scenario in settings.scenarios]
    policies = list(settings.policies)

    def key(row: Row) -> tuple[int, int, int, int, int]:
        number = int(row.task.removeprefix("task"))
        return scenarios.index(row.scenario), policies.index(row.policy), row.size, row.seed, number

    return key


def _share_units(settings: PosterSettings) -> list[Unit]:
    sizes = (max(settings.sizes),)
    policies = tuple(name for name in SHARED_POLICIES if name in settings.policies)
    return [
        Unit(settings, settings.calibrated_in, seed, sizes, policies, share)
        for share in settings.shares
        for seed in settings.seeds[: settings.share_seeds]
        if policies
    ]


def _flow_units(settings: PosterSettings) -> list[Unit]:
    if settings.flow_factor < 1:
        return []
    larger = replace(settings, elements=settings.elements * settings.flow_factor)
    policies = tuple(name for name in FLOW_POLICIES if name in settings.policies)
    return [Unit(larger, settings.calibrated_in, settings.seeds[0], (max(settings.sizes),), policies)]


def _share_points(
    settings: PosterSettings, rows: Sequence[Row], share_rows: Sequence[Row], training_ps: int
) -> list[SharePoint]:
    """Shares from 0 (spff: nobody aggregates) to 1, over the same tasks."""
    if not share_rows:
        return []
    seeds = settings.seeds[: settings.share_seeds]
    scenario, size = settings.calibrated_in.name, max(settings.sizes)
    same = [row for row in rows if row.scenario == scenario and row.size == size and row.seed in seeds]
    fixed = [row for row in same if row.policy == SPFF]
    found = [SharePoint(0.0, point) for point in points(fixed, training_ps)]
    for share in sorted({row.capable for row in share_rows}):
        own = [row for row in share_rows if row.capable == share]
        found += [SharePoint(share, point) for point in points([*own, *fixed], training_ps) if point.policy != SPFF]
    whole = [row for row in same if row.policy in (*SHARED_POLICIES, SPFF)]
    return found + [SharePoint(1.0, point) for point in points(whole, training_ps) if point.policy != SPFF]


def _flow(settings: PosterSettings, rows: Sequence[Row], large: Sequence[Row]) -> list[FlowModel]:
    scenario, size = settings.calibrated_in.name, max(settings.sizes)
    small = [row for row in rows if row.scenario == scenario and row.size == size]
    return calibrate_flow(
        small,
        large,
        elements=settings.elements,
        large_elements=settings.elements * settings.flow_factor,
        lanes=settings.lanes,
    )


def _background(units: Sequence[Unit], results: Sequence[UnitResult]) -> dict[str, dict[str, float]]:
    shares: dict[str, list[float]] = {}
    for unit, result in zip(units, results, strict=False):
        topology = unit.scenario.build() if result.background else None
        for (node, port), bps in result.background.items():
            assert topology is not None  # noqa: S101
            link = topology.link_at(node, port)
            if topology.node(link.a).is_switch and topology.node(link.b).is_switch:
                shares.setdefault(unit.scenario.name, []).append(bps / link.rate_bps)
    return {name: {"mean": sum(own) / len(own), "largest": max(own)} for name, own in shares.items()}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value
