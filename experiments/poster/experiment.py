"""The whole experiment: run its pieces, calibrate, summarize, check."""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from p4reduce.base.progress import Progress
from p4reduce.experiments.claim import Claim
from p4reduce.experiments.parallel import in_parallel, rarely_collecting
from p4reduce.experiments.poster.claims import claims
from p4reduce.experiments.poster.flow_model import FlowModel, calibrate_flow
from p4reduce.experiments.poster.overlapping import (
    OverlapResult,
    OverlapRow,
    OverlapUnit,
    overlap_units,
    run_overlapping,
)
from p4reduce.experiments.poster.rings import RingResult, RingRow, RingUnit, ring_units, run_rings
from p4reduce.experiments.poster.sensitivity import SensitivityPoint, sensitivity_points, variations
from p4reduce.experiments.poster.settings import SPFF, PosterSettings
from p4reduce.experiments.poster.statistics import Point, calibrate, points
from p4reduce.experiments.poster.swaps import SwapResult, SwapRow, SwapUnit, run_swaps, swap_units
from p4reduce.experiments.poster.tasks import draw_tasks
from p4reduce.experiments.poster.units import Row, Unit, UnitResult, run_unit, units_of
from p4reduce.experiments.poster.weighing import WeightResult, WeightRow, WeightUnit, run_weights, weight_units
from p4reduce.experiments.selection.experiment import SelectionPoint, SelectionResult, SelectionUnit, run_selection
from p4reduce.experiments.tables import plain
from p4reduce.jobs.programs import bundled
from p4reduce.runs.provenance import provenance

Piece = Unit | SelectionUnit | SwapUnit | OverlapUnit | WeightUnit | RingUnit
Found = UnitResult | SelectionResult | SwapResult | OverlapResult | WeightResult | RingResult
SHARED_POLICIES = ("overlay-mst", "steiner")
"""whose trees change with the share of capable switches"""
FLOW_POLICIES = (SPFF, "overlay-mst", "steiner")


@dataclass(frozen=True)
class SharePoint:
    """A point of the figure over the share of capable switches."""

    share: float
    chooser: str
    """how the capable switches were chosen"""
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
    sensitivity: tuple[SensitivityPoint, ...]
    """other rates of hosts' links, model sizes and delays"""
    weights: tuple[WeightRow, ...]
    """other lambdas"""
    flow: tuple[FlowModel, ...]
    selection: tuple[SelectionPoint, ...]
    swaps: tuple[SwapRow, ...]
    """trees of running tasks, swapped or not"""
    overlapping: tuple[OverlapRow, ...]
    """tasks that communicate at the same time"""
    rings: tuple[RingRow, ...]
    """rings beside the schedulers"""
    background: dict[str, dict[str, float]]
    """measured background traffic by scenario: mean and largest share of a link's rate, over links between switches"""
    differences: tuple[str, ...]
    claims: tuple[Claim, ...]

    def as_data(self) -> dict[str, Any]:
        """Plain data for result.json, all but the rows."""
        data = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "rows"}
        return {name: plain(value) for name, value in data.items()}


def run_poster(
    settings: PosterSettings, *, jobs: int = 1, dask: str | None = None, progress: Progress | None = None
) -> PosterResult:
    """Run the experiment; the same settings give the same result on every machine, however it is spread."""
    for scenario in settings.scenarios:  # what cannot be drawn is refused before anything is run
        draw_tasks(scenario.build(), replace(settings, tasks=1), settings.seeds[0], max(settings.sizes))
    varied = variations(settings)
    chosen = [SelectionUnit(settings.calibrated_in, seed) for seed in settings.seeds[: settings.selection_seeds]]
    main = units_of(settings)
    # Pieces that take longest come first, so that no core waits for the last one.
    groups: dict[str, Sequence[Piece]] = {
        "swaps": swap_units(settings),
        "weights": weight_units(settings),
        "main": main,
        "varied": [variation.unit for variation in varied],
        "large": _flow_units(settings),
        "shared": _share_units(settings),
        "overlapping": overlap_units(settings),
        "rings": ring_units(settings),
        "selection": chosen,
    }
    pieces = [piece for group in groups.values() for piece in group]
    answers = iter(in_parallel(_run, pieces, jobs=jobs, dask=dask, progress=progress, label="scenario and seed"))
    found: dict[str, list[Any]] = {name: list(islice(answers, len(group))) for name, group in groups.items()}
    differences = [
        text
        for name in ("main", "varied", "large", "shared", "weights", "swaps", "overlapping", "rings")
        for one in found[name]
        for text in one.differences
    ]
    rows = sorted(_rows(found["main"]), key=_order(settings))
    share_rows, large_rows = _rows(found["shared"]), _rows(found["large"])
    training_ps = calibrate(rows, settings)
    summary = points(rows, training_ps)
    sensitivity = sensitivity_points(settings, varied, [one.rows for one in found["varied"]], training_ps)
    return PosterResult(
        settings=settings,
        provenance=provenance(bundled(settings.lanes), settings.seeds[0]),
        training_ps=training_ps,
        rows=tuple(rows),
        points=tuple(summary),
        shares=tuple(_share_points(settings, rows, share_rows, training_ps)),
        flow=tuple(_flow(settings, rows, large_rows)),
        sensitivity=tuple(sensitivity),
        weights=tuple(row for one in found["weights"] for row in one.rows),
        selection=tuple(point for one in found["selection"] for point in one.points),
        swaps=tuple(row for one in found["swaps"] for row in one.rows),
        overlapping=tuple(row for one in found["overlapping"] for row in one.rows),
        rings=tuple(row for one in found["rings"] for row in one.rows),
        background=_background(main, found["main"]),
        differences=tuple(differences),
        claims=tuple(claims(settings, rows, summary, differences, share_rows=share_rows, sensitivity=sensitivity)),
    )


def _run(piece: Piece) -> Found:
    with rarely_collecting():
        if isinstance(piece, SwapUnit):
            return run_swaps(piece)
        if isinstance(piece, WeightUnit):
            return run_weights(piece)
        if isinstance(piece, RingUnit):
            return run_rings(piece)
        if isinstance(piece, OverlapUnit):
            return run_overlapping(piece)
        return run_selection(piece) if isinstance(piece, SelectionUnit) else run_unit(piece)


def _rows(results: Iterable[UnitResult]) -> list[Row]:
    return [row for one in results for row in one.rows]


def _order(settings: PosterSettings) -> Any:
    scenarios = [scenario.name for scenario in settings.scenarios]
    policies = list(settings.policies)

    def key(row: Row) -> tuple[int, int, int, int, int]:
        number = int(row.task.removeprefix("task"))
        return scenarios.index(row.scenario), policies.index(row.policy), row.size, row.seed, number

    return key


def _share_units(settings: PosterSettings) -> list[Unit]:
    """Few local models too: with few capable switches these may find none on their way."""
    sizes = tuple(dict.fromkeys((*(size for size in settings.sizes if size > 1), max(settings.sizes))))
    policies = tuple(name for name in SHARED_POLICIES if name in settings.policies)
    return [
        Unit(settings, settings.calibrated_in, seed, (min(sizes), max(sizes)), policies, share, chooser)
        for share in settings.shares
        for chooser in settings.share_choosers
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
    """Shares from 0 (spff: nobody aggregates) to 1, over the same tasks with the most local models."""
    if not share_rows:
        return []
    seeds = settings.seeds[: settings.share_seeds]
    scenario, size = settings.calibrated_in.name, max(settings.sizes)
    same = [row for row in rows if row.scenario == scenario and row.size == size and row.seed in seeds]
    fixed = [row for row in same if row.policy == SPFF]
    whole = [row for row in same if row.policy in SHARED_POLICIES]
    found: list[SharePoint] = []
    for chooser in settings.share_choosers:
        found += [SharePoint(0.0, chooser, point) for point in points(fixed, training_ps)]
        for share in (*sorted(settings.shares), 1.0):
            own = [row for row in share_rows if (row.capable, row.chooser, row.size) == (share, chooser, size)]
            some = points([*(whole if share == 1 else own), *fixed], training_ps)
            found += [SharePoint(share, chooser, point) for point in some if point.policy != SPFF]
    return found


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
