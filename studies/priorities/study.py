"""The whole study: run its pieces, summarize, check."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from p4reduce.base.output import Progress
from p4reduce.network.jobs.network import bundled
from p4reduce.play.priorities.description import LANES
from p4reduce.runs.inputs import provenance
from studies.frame import Claim, in_parallel, plain, rarely_collecting
from studies.priorities.units import (
    LayerRow,
    LayerUnit,
    LearningRow,
    LearningUnit,
    Point,
    RoundRow,
    Row,
    StaleRow,
    StaleUnit,
    StudySettings,
    Unit,
    UnitResult,
    layer_units,
    learning_units,
    points,
    run_layered,
    run_learning,
    run_stale,
    run_unit,
    saved,
    saved_by,
    stale_units,
    units_of,
)

# What the study must show: the bars, each with what was measured. What was not run is left out.


NO_CONTENTION = 0.005
SINGLE = 0.005
IDENTICAL = 0.01
LOW_MEAN, LOW_WORST, LOW_RESENDS = 1.06, 1.10, 0.001
SIZES_MEAN, NEAR_ORACLE = 1.25, 0.02
HOSTS_BEST, HOSTS_WORST = 1.03, 1.07
ERROR, IN_TIME = 0.02, 0.99
STALE_SAVES = 0.15
LAYERS_SAVE, LAYER_CHANNELS = 0.15, 4


def claims(
    settings: StudySettings,
    found: Sequence[Point],
    stale: Sequence[StaleRow],
    layers: Sequence[LayerRow],
    runs: int,
) -> list[Claim]:
    """Everything that can be said of what was run."""
    made = [
        Claim(
            "every sum is exact, and the first transmissions of every link are those that were predicted",
            f"in {runs} runs (one in which they were not would have ended the study)",
            True,
        )
    ]
    for part in (_controls, _distinct, _sizes, _hosts, _prediction):
        made += part(settings, found)
    return [*made, *_stale(stale), *_layers(layers)]


def _pick(found: Sequence[Point], part: str, **wanted: object) -> list[Point]:
    return [
        one for one in found if one.part == part and all(getattr(one, name) == value for name, value in wanted.items())
    ]


def _controls(settings: StudySettings, found: Sequence[Point]) -> Iterator[Claim]:
    del settings
    for fifo in _pick(found, "apart", policy="fifo"):
        # Time shifts put the first round off, and no round after it.
        others = [
            (abs((one.steady if one.policy == "cassini" else one.mean) - 1), one.policy)
            for one in _pick(found, "apart")
            if one is not fifo
        ]
        if others:
            off, policy = max(others)
            yield Claim(
                "no contention: every policy within 0.5 % of first come, first served",
                f"at most {100 * off:.2f} % off ({policy})",
                off <= NO_CONTENTION,
            )
    yield from _against("single", "a synchronous job by itself: batch order 0 +- 0.5 %", SINGLE, found)
    for batch in _pick(found, "identical", policy="batch"):
        first = _one(found, "identical", policy="fifo", phi=batch.phi)
        pull = _one(found, "identical", policy="pull-push", phi=batch.phi)
        if first is not None:
            off = batch.mean / first.mean - 1
            yield Claim(
                f"identical jobs, phi {batch.phi:g}: raw batch order within 1 % of first come, first served",
                f"{100 * off:+.1f} %",
                abs(off) <= IDENTICAL,
            )
            if pull is not None:
                off = batch.mean / pull.mean - 1
                yield Claim(
                    f"identical jobs, phi {batch.phi:g}: batch numbers add nothing to pull before push, +- 1 %",
                    f"{100 * off:+.1f} %",
                    abs(off) <= IDENTICAL,
                )


def _against(part: str, text: str, limit: float, found: Sequence[Point]) -> Iterator[Claim]:
    fifo, batch = _one(found, part, policy="fifo"), _one(found, part, policy="batch")
    if fifo is not None and batch is not None:
        off = batch.mean / fifo.mean - 1
        yield Claim(text, f"{100 * off:+.2f} %", abs(off) <= limit)


def _distinct(settings: StudySettings, found: Sequence[Point]) -> Iterator[Claim]:
    for part in ("identical", "load"):
        fifo = _one(found, part, policy="fifo", phi=settings.low_phi)
        distinct = _one(found, part, policy="random", phi=settings.low_phi)
        if fifo is None or distinct is None:
            continue
        name = f"4 jobs at phi {settings.low_phi:g}, jitter {100 * fifo.jitter:g} %, a distinct order"
        yield Claim(
            f"{name}: mean at most {LOW_MEAN} x alone (first come, first served: {fifo.mean:.2f})",
            f"{distinct.mean:.3f}",
            distinct.mean <= LOW_MEAN,
        )
        yield Claim(f"{name}: worst job at most {LOW_WORST:.2f}", f"{distinct.worst:.3f}", distinct.worst <= LOW_WORST)
        yield Claim(
            f"{name}: at most 0.1 % of frames sent again",
            f"{100 * distinct.resend_share:.3f} %",
            distinct.resend_share <= LOW_RESENDS,
        )


def _sizes(settings: StudySettings, found: Sequence[Point]) -> Iterator[Claim]:
    del settings
    fifo = _one(found, "sizes", policy="fifo")
    oracle = _one(found, "sizes", policy="sjf", knowledge="oracle")
    predicted = _one(found, "sizes", policy="sjf", knowledge="predicted")
    if fifo is None or oracle is None or predicted is None:
        return
    name = f"sizes {fifo.sizes} at phi {fifo.phi:g}, shortest first from predicted sizes"
    yield Claim(
        f"{name}: mean at most {SIZES_MEAN} x alone (first come, first served: {fifo.mean:.2f})",
        f"{predicted.mean:.3f}, learning included",
        predicted.mean <= SIZES_MEAN,
    )
    off, later = predicted.mean / oracle.mean - 1, predicted.steady / oracle.steady - 1
    yield Claim(
        f"{name}: within 2 % of the oracle",
        f"{100 * off:+.2f} %; without the three rounds of learning {100 * later:+.2f} %",
        off <= NEAR_ORACLE,
    )


def _hosts(settings: StudySettings, found: Sequence[Point]) -> Iterator[Claim]:
    del settings
    fifo, order = _one(found, "same-hosts", policy="fifo"), _one(found, "same-hosts", policy="sjf")
    if fifo is not None and order is not None:
        yield Claim(
            f"two jobs on the same hosts, distinct classes: at most {HOSTS_BEST} and {HOSTS_WORST} x alone (one class: "
            f"{fifo.mean:.2f})",
            f"{order.best:.3f} and {order.worst:.3f}",
            order.best <= HOSTS_BEST and order.worst <= HOSTS_WORST,
        )


def _prediction(settings: StudySettings, found: Sequence[Point]) -> Iterator[Claim]:
    for one in _pick(found, "jitter", jitter=settings.jitter):
        if one.median_error is not None and one.in_time is not None and one.median_lead is not None:
            yield Claim(
                f"predicted starts at {100 * one.jitter:g} % jitter: median error at most 2 % of a period",
                f"{100 * one.median_error:.2f} %, known {one.median_lead:.2f} of a period ahead",
                one.median_error <= ERROR,
            )
            yield Claim(
                f"at least 99 % of classes written before the first frame (control latency {one.latency})",
                f"{100 * one.in_time:.1f} %",
                one.in_time >= IN_TIME,
            )


def _stale(rows: Sequence[StaleRow]) -> Iterator[Claim]:
    switch, controller = saved(rows, 2, 2.0, "switch"), saved(rows, 2, 2.0, "controller")
    if switch is None:
        return
    name = "SSP(2), a straggler x 2, the oldest batch first"
    other = "" if controller is None else f"; by the controller's writes {100 * controller[1]:.1f} %"
    yield Claim(
        f"{name}: at least 15 % less time than first come, first served of senders that know nothing of each other",
        f"by the switches' register {100 * switch[1]:.1f} %{other}",
        switch[1] >= STALE_SAVES,
    )
    other = "" if controller is None else f"; by the controller's writes {100 * controller[0]:.1f} %"
    yield Claim(
        f"{name}: at least 15 % less time than first come, first served whose time-outs cover the whole group as well",
        f"by the switches' register {100 * switch[0]:.1f} %{other}",
        switch[0] >= STALE_SAVES,
    )


def _layers(rows: Sequence[LayerRow]) -> Iterator[Claim]:
    for model in ("vgg16", "resnet50"):
        four = saved_by(rows, model, 1.0, LAYER_CHANNELS)
        if four is not None:
            yield Claim(
                f"layers of {model} over {LAYER_CHANNELS} channels, communication as long as computing: at least 15 % "
                "less time than first come, first served",
                f"{100 * four.saved:.1f} %, {four.over_bound:.3f} of the bound",
                four.saved >= LAYERS_SAVE,
            )


def _one(found: Sequence[Point], part: str, **wanted: object) -> Point | None:
    return next(iter(_pick(found, part, **wanted)), None)


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
