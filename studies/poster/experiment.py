"""The whole experiment: run its pieces, calibrate, summarize, check."""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from p4reduce.base.output import Progress
from p4reduce.network.jobs.network import bundled
from p4reduce.runs.inputs import provenance
from studies.frame import (
    Claim,
    SelectionPoint,
    SelectionResult,
    SelectionUnit,
    in_parallel,
    plain,
    rarely_collecting,
    run_selection,
)
from studies.poster.rings import RingResult, RingRow, RingUnit, ring_units, run_rings
from studies.poster.sensitivity import (
    ACCESS,
    DELAY,
    Point,
    SensitivityPoint,
    calibrate,
    points,
    sensitivity_points,
    variations,
)
from studies.poster.settings import POSTER_SAVING, SPFF, PosterSettings, draw_tasks
from studies.poster.swaps import (
    OverlapResult,
    OverlapRow,
    OverlapUnit,
    SwapResult,
    SwapRow,
    SwapUnit,
    WeightResult,
    WeightRow,
    WeightUnit,
    overlap_units,
    run_overlapping,
    run_swaps,
    run_weights,
    swap_units,
    weight_units,
)
from studies.poster.units import FINISHED, FlowModel, Row, Unit, UnitResult, calibrate_flow, run_unit, units_of

# What the experiment must show, checked against its own figures.


NEAR_BOUND = 1.05
NEAR_EXACT = 1.05
BYTES_SAVING = 0.5
HEADLINES = (("germany50", "overlay-mst"), ("geant", "overlay-mst"), ("fat-tree", "steiner"))
"""scenario and policy that are held against the poster's -17.4 % and against half of the bandwidth"""


def claims(
    settings: PosterSettings,
    rows: Sequence[Row],
    found: Sequence[Point],
    differences: Sequence[str],
    *,
    share_rows: Sequence[Row] = (),
    sensitivity: Sequence[SensitivityPoint] = (),
) -> list[Claim]:
    """Everything that can be said of what was run; what was not run is left out.

    ``share_rows``: those with few capable switches.
    """
    made = [
        Claim(
            "first transmissions counted on links and by the P4 program equal the predicted bytes, for every task",
            f"{len(differences)} differences in {sum(row.status == FINISHED for row in rows)} rounds",
            not differences,
        ),
        Claim(
            "predicted bytes of every task equal those counted, apart from what full queues dropped",
            _predicted(rows),
            all(row.first_bytes == row.predicted_bytes for row in rows if not row.dropped),
        ),
    ]
    made += _bounds(settings, found)
    most = max(settings.sizes)
    by_name = {(point.scenario, point.policy): point for point in found if point.size == most}
    for scenario, policy in HEADLINES:
        point = by_name.get((scenario, policy))
        if point is not None and point.total_saving is not None and point.bytes_saving is not None:
            made.append(_saves(point, "bandwidth", point.bytes_saving, BYTES_SAVING))
            made.append(_saves(point, "total latency at our rates", point.total_saving, POSTER_SAVING))
    return made + _steiner([*rows, *share_rows], rows, found) + _sensitive(sensitivity)


def _predicted(rows: Iterable[Row]) -> str:
    finished = [row for row in rows if row.status == FINISHED]
    wrong = sum(row.first_bytes != row.predicted_bytes for row in finished)
    dropped = sum(row.dropped > 0 for row in finished)
    return f"{len(finished) - wrong} of {len(finished)} equal; {dropped} met a full queue"


def _bounds(settings: PosterSettings, found: Sequence[Point]) -> list[Claim]:
    quiet = {one.name for one in settings.scenarios if not one.load or one.priority is not None}
    held = [point for point in found if point.scenario in quiet and point.tasks]
    if not held:
        return []
    worst = max(held, key=lambda point: point.ratio_to_bound)
    return [
        Claim(
            "communication is within 5 % of its bound on average, for every policy and size, where no background "
            "traffic leaves switches before tasks",
            f"worst: {worst.ratio_to_bound:.3f} x ({worst.policy}, {worst.scenario}, {worst.size} local models)",
            worst.ratio_to_bound <= NEAR_BOUND,
        )
    ]


def _saves(point: Point, what: str, saving: float, needed: float) -> Claim:
    return Claim(
        f"{what} of {point.policy} on {point.scenario} with {point.size} local models: at least "
        f"{100 * needed:.1f} % below {SPFF}",
        f"{100 * saving:.1f} % below",
        saving >= needed,
    )


def _steiner(every: Iterable[Row], rows: Iterable[Row], found: Sequence[Point]) -> list[Claim]:
    """``every``: rows with few capable switches too; spff takes the same there."""
    done = [row for row in every if row.status == FINISHED]
    fixed = {(row.scenario, row.size, row.seed, row.task): row for row in done if row.policy == SPFF}
    both = [
        (row, fixed[key])
        for row in done
        if row.policy == "steiner" and (key := (row.scenario, row.size, row.seed, row.task)) in fixed
    ]
    made = []
    if both:
        above = [tree.predicted_bytes / spff.predicted_bytes for tree, spff in both]
        worse = sum(ratio > 1 for ratio in above)
        few = sum(tree.capable < 1 for tree, _ in both)
        made.append(
            Claim(
                f"steiner never takes more bytes than {SPFF}, with few capable switches, load and one local model too",
                f"{worse} of {len(both)} tasks above ({few} with few capable switches); at worst {max(above):.3f} x",
                worse == 0,
            )
        )
    bounded = [row for row in rows if row.status == FINISHED and row.least_bytes]
    if bounded:
        below = sum(row.first_bytes < row.least_bytes for row in bounded)
        made.append(
            Claim(
                "nobody takes fewer bytes than the certified lower bound (linear program)",
                f"{below} of {len(bounded)} rounds below",
                below == 0,
            )
        )
    near = [(point.over_exact, point.tasks) for point in found if point.policy == "steiner" and point.over_exact]
    if near:
        mean = sum(ratio for ratio, _ in near) / len(near)
        made.append(Claim("steiner is within 5 % of exact on average", f"{mean:.4f} x its bytes", mean <= NEAR_EXACT))
    return made


def _sensitive(found: Sequence[SensitivityPoint]) -> list[Claim]:
    """What must not depend on rates and delays that we chose."""
    made = []
    rates = [point for point in found if (point.study, point.policy) == (ACCESS, "overlay-mst")]
    savings = [point.bytes_saving for point in rates if point.bytes_saving is not None]
    if savings:
        made.append(
            Claim(
                f"bandwidth of overlay-mst: at least {100 * BYTES_SAVING:.0f} % below {SPFF} at every rate of hosts' "
                "links and every model size",
                f"{100 * min(savings):.1f} to {100 * max(savings):.1f} % below",
                min(savings) >= BYTES_SAVING,
            )
        )
    delays = [point for point in found if point.study == DELAY and point.policy == SPFF]
    ratios = [point.ratio_to_ordered for point in delays if point.ratio_to_ordered is not None]
    if ratios:
        made.append(
            Claim(
                f"{SPFF} is within 5 % of the bound of a server that answers chunk by chunk, however long links are",
                f"worst: {max(ratios):.3f} x",
                max(ratios) <= NEAR_BOUND,
            )
        )
    return made


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
