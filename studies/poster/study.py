"""The poster's experiment on packets: AI tasks under every scheduling policy."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from matplotlib.figure import Figure

from p4reduce.group.errors import ClusterError
from p4switch.base.values import PS_PER_MS
from studies.frame import (
    Bar,
    Column,
    Measure,
    Part,
    Point,
    Rows,
    Show,
    Study,
    StudyResult,
    Table,
    at_least,
    at_most,
    by_field,
    columns_of,
    percent,
    scaled,
)
from studies.pages import Chart, StudyDrawing, rows_table
from studies.poster.cells import (
    FINISHED,
    MODELS,
    BackgroundRow,
    Difference,
    FlowModel,
    PolicyCell,
    PolicyRow,
    calibrate_flow,
    policy_cells,
    run_policies,
)
from studies.poster.rings import RingRow, ring_cells, run_rings
from studies.poster.selection import SelectionCell, SelectionRow, run_selection
from studies.poster.sensitivity import (
    ACCESS,
    DELAY,
    failing_rate_bps,
    larger_models,
    longest_training_ms,
    run_variation,
    variations,
)
from studies.poster.settings import (
    DEVELOPED,
    HELD_OUT,
    POSTER_FLEXIBLE_MS,
    POSTER_SAVING,
    POSTER_SPFF_MS,
    QUICK,
    SCENARIOS,
    SPFF,
    PosterSettings,
    TrafficScenario,
    lossy_networks,
    named_scenarios,
)
from studies.poster.swaps import (
    OverlapRow,
    SwapRow,
    WeightRow,
    overlap_cells,
    run_overlapping,
    run_swaps,
    run_weights,
    swap_cells,
    weight_cells,
)

SHARED_POLICIES = ("overlay-mst", "steiner")
"""policies whose trees change with the share of capable switches"""
FLOW_POLICIES = (SPFF, "overlay-mst", "steiner")

# Cells that only this module needs, and their records.


def share_cells(settings: PosterSettings) -> list[PolicyCell]:
    """Return cells by share of capable switches, also for few local models, whose paths may have no such switch."""
    sizes = tuple(dict.fromkeys((*(size for size in settings.sizes if size > 1), max(settings.sizes))))
    policies = tuple(name for name in SHARED_POLICIES if name in settings.policies)
    return [
        PolicyCell(settings, settings.calibrated_in, seed, (min(sizes), max(sizes)), policies, share, chooser)
        for share in settings.shares
        for chooser in settings.share_choosers
        for seed in settings.seeds[: settings.share_seeds]
        if policies
    ]


def larger_cells(settings: PosterSettings) -> list[PolicyCell]:
    """Return cells with the same tasks and larger models."""
    if settings.flow_factor < 1:
        return []
    larger = replace(settings, elements=settings.elements * settings.flow_factor)
    policies = tuple(name for name in FLOW_POLICIES if name in settings.policies)
    return [PolicyCell(larger, settings.calibrated_in, settings.seeds[0], (max(settings.sizes),), policies)]


def selection_cells(settings: PosterSettings) -> list[SelectionCell]:
    """Return cells by seed."""
    return [SelectionCell(settings.calibrated_in, seed) for seed in settings.seeds[: settings.selection_seeds]]


def run_tasks(cell: PolicyCell) -> Iterator[PolicyRow | Difference | BackgroundRow]:
    """Run every task under every policy; also yield the background traffic of links between switches."""
    outcome = run_policies(cell)
    yield from outcome
    topology = cell.scenario.build()
    for (node, port), bps in outcome.background.items():
        link = topology.link_at(node, port)
        if topology.node(link.a).is_switch and topology.node(link.b).is_switch:
            yield BackgroundRow(cell.scenario.name, cell.seed, node, port, bps / link.rate_bps)


# Measures of finished tasks; savings are over tasks that finished under both policies.


def _done(rows: Rows) -> list[Any]:
    return [row for row in rows if row.status == FINISHED]


def _mean(value: Callable[[Any], float | None]) -> Callable[[Rows, Rows], float | None]:
    """Return a function for the mean of a value over the finished tasks that have it."""

    def of(rows: Rows, _base: Rows) -> float | None:
        known = [number for row in _done(rows) if (number := value(row)) is not None]
        return statistics.fmean(known) if known else None

    return of


def _means(rows: Rows, base: Rows, value: Callable[[Any], float]) -> tuple[float, float] | None:
    theirs = {row.task: row for row in _done(base)}
    both = [(value(row), value(theirs[row.task])) for row in _done(rows) if row.task in theirs]
    return (statistics.fmean(mine for mine, _ in both), statistics.fmean(other for _, other in both)) if both else None


def _saved(value: Callable[[Any], float]) -> Callable[[Rows, Rows], float | None]:
    def of(rows: Rows, base: Rows) -> float | None:
        means = _means(rows, base, value)
        return None if means is None else 1 - means[0] / means[1]

    return of


def _total(row: Any) -> float:
    return float(row.training_ps + row.communication_ps)


def _longest(rows: Rows, base: Rows) -> float | None:
    means = _means(rows, base, lambda row: row.communication_ps)
    return None if means is None else longest_training_ms(*means)


def _measure(
    name: str, heading: str, show: Show, of: Callable[[Rows, Rows], float | None], over: Any = None
) -> Measure:
    return Measure(name, Column(heading, show), of, over or statistics.fmean)


SAVED: Final[Show] = lambda saving: f"{-100 * saving:+.1f} %"  # noqa: E731
TASKS: Final = _measure("tasks", "tasks", "{:.0f}", lambda rows, _: len(_done(rows)), sum)
REJECTED: Final = _measure("rejected", "rejected", "{:.0f}", lambda rows, _: len(rows) - len(_done(rows)), sum)
COMMUNICATION: Final = _measure("communication_ms", "communication, ms", "{:.4f}",
                                _mean(lambda row: row.communication_ps / PS_PER_MS))  # fmt: skip
BOUND: Final = _measure("bound_ms", "bound, ms", "{:.4f}", _mean(lambda row: row.bound_ps / PS_PER_MS))
RATIO: Final = _measure("ratio_to_bound", "x bound", "{:.3f}", _mean(lambda row: row.communication_ps / row.bound_ps))
MEGABYTES: Final = _measure("megabytes", "MB on links", "{:.2f}", _mean(lambda row: row.bytes / 1e6))
TOTAL: Final = _measure("total_ms", "total, ms", "{:.3f}", _mean(lambda row: _total(row) / PS_PER_MS))
TOTAL_SAVED: Final = _measure("total_saving", "latency saved", SAVED, _saved(_total))
BYTES_SAVED: Final = _measure("bytes_saving", "bytes saved", SAVED, _saved(lambda row: row.bytes))
POLICY_MEASURES: Final = (
    TASKS,
    REJECTED,
    TOTAL,
    COMMUNICATION,
    _measure("aggregation_ms", "aggregation at G, ms", "{:.4f}", _mean(lambda row: row.aggregation_ps / PS_PER_MS)),
    BOUND,
    RATIO,
    MEGABYTES,
    TOTAL_SAVED,
    BYTES_SAVED,
    _measure("over_exact", "x exact", "{:.3f}",
             _mean(lambda row: row.bytes / row.exact_bytes if row.exact_bytes else None)),
    _measure("least_megabytes", "lower bound, MB", "{:.2f}", _mean(lambda row: row.least_bytes / 1e6 or None)),
    _measure("over_least", "x lower bound", "{:.3f}",
             _mean(lambda row: row.bytes / row.least_bytes if row.least_bytes else None)),
)  # fmt: skip
VARIED_MEASURES: Final = (
    TASKS,
    COMMUNICATION,
    RATIO,
    _measure("ratio_to_ordered", "x bound, chunk by chunk", "{:.3f}",
             _mean(lambda row: row.communication_ps / row.ordered_ps)),
    MEGABYTES,
    BYTES_SAVED,
    TOTAL_SAVED,
    _measure("held_saving", "same training time", SAVED, _saved(lambda row: row.held_ps + row.communication_ps)),
    _measure("longest_training_ms", "longest training, ms", "{:,.2f}", _longest),
)  # fmt: skip
PARTS: Final = (
    Part("swaps", "Every swap that was considered", swap_cells, run_swaps, SwapRow,
         by=("scenario", "loss", "detour", "rounds", "threshold"),
         mean=("saving_bytes", "cost_bytes", "interruption_ps", "in_flight", "resent_frames", "late_frames",
               "saved_bytes", "later_ps"), also={"differences": Difference}, cost=lambda _cell: 90.0),
    Part("weights", "Weight of bandwidth against latency in link costs (lambda)", weight_cells, run_weights, WeightRow,
         by=("scenario", "policy", "bandwidth"),
         mean=("admitted", "others", "megabytes", "communication_ms", "largest_utilisation"),
         also={"differences": Difference}, cost=lambda _cell: 80.0),
    Part("policies", "Every policy by number of local models", policy_cells, run_tasks, PolicyRow,
         by=("scenario", "policy", "size"), mean=POLICY_MEASURES, base={"policy": SPFF},
         brief=("scenario", "policy", "size", "total_ms", "megabytes", "total_saving", "bytes_saving"),
         also={"differences": Difference, "background": BackgroundRow}, cost=lambda cell: 20.0 + len(cell.policies)),
    Part("sensitivity", "What figures depend on: rates, model sizes, delays", variations, run_variation, PolicyRow,
         by=("study", "scenario", "value", "elements", "policy"), mean=VARIED_MEASURES, base={"policy": SPFF},
         also={"differences": Difference}, cost=lambda _cell: 18.0),
    Part("larger", "A larger model, to check the flow-level model", larger_cells, run_tasks, PolicyRow,
         also={"differences": Difference, "background-larger": BackgroundRow}, cost=lambda _cell: 17.0),
    Part("shares", "When only some switches can aggregate", share_cells, run_tasks, PolicyRow,
         by=("capable", "chooser", "size", "policy"), base={"policy": SPFF, "capable": 0.0},
         mean=(TASKS, REJECTED, TOTAL, COMMUNICATION, MEGABYTES, TOTAL_SAVED, BYTES_SAVED),
         also={"differences": Difference, "background-shares": BackgroundRow}, cost=lambda _cell: 16.0),
    Part("overlapping", "Tasks that communicate at the same time", overlap_cells, run_overlapping, OverlapRow,
         by=("scenario", "policy"),
         mean=("together", "alone_ps", "overlapping_ps",
               _measure("worst_ps", "slowest at once, ms", scaled(1e-9, "{:.4f}"),
                        lambda rows, _: max(row.overlapping_ps for row in rows), max)),
         also={"differences": Difference}, cost=lambda _cell: 15.0),
    Part("rings", "Hosts that add up; in no bar: the bound of rings is not tight, and phases are not pipelined",
         ring_cells, run_rings, RingRow, by=("scenario", "policy"),
         mean=(TASKS, REJECTED, COMMUNICATION, BOUND, MEGABYTES), also={"differences": Difference},
         cost=lambda _cell: 14.0),
    Part("selection", "Choosing useful local models under a bandwidth budget: non-IID digits", selection_cells,
         run_selection, SelectionRow, by=("chooser", "round"), mean=("chosen", "bytes", "accuracy"),
         brief=("chooser", "round", "bytes", "accuracy"), cost=lambda _cell: 13.0),
)  # fmt: skip


# The calibrated training time, and the bytes of the exact policy.


def calibrate(rows: Iterable[PolicyRow], settings: PosterSettings) -> int:
    """Return the training time: the target minus the mean communication time of spff with the most local models.

    It is the same for every scenario, policy and size, in picoseconds, and at least 0.
    """
    scenario, size = settings.calibrated_in.name, max(settings.sizes)
    times = [
        row.communication_ps
        for row in rows
        if (row.scenario, row.size, row.policy, row.status) == (scenario, size, SPFF, FINISHED)
    ]
    if not times:
        raise ClusterError(f"no task of {size} local models was finished by {SPFF} on {scenario}: nothing to calibrate")
    return max(0, round(settings.target_ms * PS_PER_MS - statistics.fmean(times)))


def derive(settings: PosterSettings, records: dict[str, list[Any]]) -> None:
    """Add the training time and the exact policy's bytes to rows; add the ends 0 and 1 to the sweep of shares."""
    main: list[PolicyRow] = records.get("policies", [])
    training = calibrate(main, settings) if main else 0
    exact = {_key(row): row.bytes for row in _done(main) if row.policy == "exact"}
    records["policies"] = main = [
        replace(row, training_ps=training, exact_bytes=exact.get(_key(row), 0)) for row in main
    ]
    if records.get("shares"):
        reference, seeds = settings.calibrated_in.name, settings.seeds[: settings.share_seeds]
        same = [row for row in main if row.scenario == reference and row.seed in seeds]
        records["shares"] = [replace(row, training_ps=training) for row in records["shares"]]
        for chooser in settings.share_choosers:
            records["shares"] += [replace(row, chooser=chooser) for row in same if row.policy in SHARED_POLICIES]
            records["shares"] += [replace(row, chooser=chooser, capable=0.0) for row in same if row.policy == SPFF]
    varied: list[PolicyRow] = records.get("sensitivity", [])
    for _, rows in by_field(varied, "study", "scenario", "value", "elements", "seed"):
        fixed = [row.communication_ps for row in _done(rows) if row.policy == SPFF]
        left = max(0, round(settings.target_ms * PS_PER_MS - statistics.fmean(fixed))) if fixed else 0
        for row in rows:
            varied[varied.index(row)] = replace(row, training_ps=left, held_ps=training)


def _key(row: PolicyRow) -> tuple[Any, ...]:
    return row.scenario, row.size, row.seed, row.task


# The bars. A bar whose part was not run is left out.


NEAR: Final = 1.05
BYTES_SAVING: Final = 0.5
HEADLINES: Final = (("germany50", "overlay-mst"), ("geant", "overlay-mst"), ("fat-tree", "steiner"))
"""scenario and policy that are compared with the poster's -17.4 % and with half of the bandwidth"""


def bars(result: StudyResult) -> Iterator[Bar]:
    """Yield each bar with its values by seed."""
    settings = result.settings
    rows = result.rows("policies")
    none = partial(Bar, limit=at_most(0), show="{:.0f}", every=True)
    ran = any(result.records.values())
    yield none("differences between bytes counted on links or by the P4 program and predicted ones", seeds="any",
               values={None: len(result.rows("differences"))} if ran else {})  # fmt: skip
    quiet = [row for row in rows if not row.dropped]
    yield none("tasks whose counted bytes are not the predicted ones, apart from what full queues dropped", seeds="any",
               values={None: sum(row.first_bytes != row.predicted_bytes for row in quiet)} if quiet else {},
               note=f"{len(rows) - len(quiet)} met a full queue")  # fmt: skip
    yield from _bounds(result)
    most = max(settings.sizes)
    for scenario, policy in HEADLINES:
        value = partial(result.values, "policies", scenario=scenario, policy=policy, size=most)
        for what, measure, needed in (
            ("bandwidth", "bytes_saving", BYTES_SAVING),
            ("total latency at our rates", "total_saving", POSTER_SAVING),
        ):
            yield Bar(f"{what} of {policy} on {scenario} with {most} local models: below {SPFF}", at_least(needed),
                      value(measure), percent())  # fmt: skip
    yield from _steiner([*rows, *(row for row in result.rows("shares") if 0 < row.capable < 1)])
    bounded = [row for row in _done(rows) if row.least_bytes]
    yield none("rounds with fewer bytes than the certified lower bound (linear program)", seeds="any",
               values={None: sum(row.first_bytes < row.least_bytes for row in bounded)} if bounded else {})  # fmt: skip
    yield Bar("steiner's bytes over those of exact", at_most(NEAR),
              result.values("policies", "over_exact", policy="steiner"), "{:.4f}")  # fmt: skip
    rates = [point for point in result.of("sensitivity", study=ACCESS, policy="overlay-mst") if point["tasks"]]
    if rates:
        least = min(rates, key=lambda point: point["bytes_saving"])
        yield Bar(f"bandwidth of overlay-mst below {SPFF}, at every rate of hosts' links and every model size",
                  at_least(BYTES_SAVING), least.values["bytes_saving"], percent(),
                  note=f"the least, {_where(least, 'value', 'elements')}")  # fmt: skip
    delays = [point for point in result.of("sensitivity", study=DELAY, policy=SPFF) if point["tasks"]]
    if delays:
        worst = max(delays, key=lambda point: point["ratio_to_ordered"])
        yield Bar(f"{SPFF} over the bound of a server that answers chunk by chunk, however long links are",
                  at_most(NEAR), worst.values["ratio_to_ordered"],
                  note=f"the worst, {_where(worst, 'value')}")  # fmt: skip


def _where(point: Point, *names: str) -> str:
    return ", ".join(str(point[name]) for name in names)


def _bounds(result: StudyResult) -> Iterator[Bar]:
    quiet = {
        scenario.name for scenario in result.settings.scenarios if not scenario.load or scenario.priority is not None
    }
    held = [point for point in result.of("policies") if point["scenario"] in quiet and point["tasks"]]
    if held:
        worst = max(held, key=lambda point: point["ratio_to_bound"])
        yield Bar("communication over its bound on average, for every policy and size, where no background traffic "
                  "leaves switches before tasks", at_most(NEAR), worst.values["ratio_to_bound"],
                  note=f"the worst, {_where(worst, 'policy', 'scenario', 'size')}")  # fmt: skip


def _steiner(rows: Sequence[PolicyRow]) -> Iterator[Bar]:
    """Yield bars for steiner, also with few capable switches; spff does not depend on these."""
    fixed = {_key(row): row for row in _done(rows) if row.policy == SPFF}
    above: dict[int | None, list[float]] = {}
    few = 0
    for row in _done(rows):
        if row.policy == "steiner" and _key(row) in fixed:
            above.setdefault(row.seed, []).append(row.predicted_bytes / fixed[_key(row)].predicted_bytes)
            few += row.capable < 1
    yield Bar(f"steiner's bytes over those of {SPFF}, task by task, with few capable switches, load and one local "
              "model too: the largest", at_most(1.0), {seed: max(own) for seed, own in above.items()}, every=True,
              note=f"{few} with few capable switches")  # fmt: skip


# Further tables, the page and its figures.


def headline(result: StudyResult) -> Table:
    """Return the table of the poster's numbers, ours and the bound, with the most local models."""
    most = max(result.settings.sizes)
    columns = ("network", "policy", "MB on links", "against spff", "total, ms", "training + bound, ms", "against spff ")
    rows: list[Sequence[str]] = [
        ("the poster", "fixed (spff)", "-", "-", f"{POSTER_SPFF_MS:.2f}", "-", "-"),
        ("the poster", "flexible", "-", "-", f"{POSTER_FLEXIBLE_MS:.2f}", "-", f"{-100 * POSTER_SAVING:.1f} %"),
    ]
    for point in result.of("policies", size=most):
        if point["tasks"]:
            saved = [
                "-" if point["policy"] == SPFF or point[name] is None else f"{-100 * point[name]:+.1f} %"
                for name in ("bytes_saving", "total_saving")
            ]
            total = training_ms(result) + point["bound_ms"]
            rows.append((point["scenario"], point["policy"], f"{point['megabytes']:.2f}", saved[0],
                         f"{point['total_ms']:.3f}", f"{total:.3f}", saved[1]))  # fmt: skip
    return f"{most} local models: ours, the poster's, the bound", columns, rows


def training_ms(result: StudyResult) -> float:
    """Return the calibrated training time, the same for every policy, size and scenario; 0 without the main part."""
    rows = result.rows("policies")
    return float(rows[0].training_ps) / PS_PER_MS if rows else 0.0


def flow_models(result: StudyResult) -> list[FlowModel]:
    """Return the flow-level model of each policy, calibrated on the main part and checked on the larger model."""
    settings = result.settings
    scenario, size = settings.calibrated_in.name, max(settings.sizes)
    return calibrate_flow(
        result.rows("policies", scenario=scenario, size=size),
        result.rows("larger"),
        elements=settings.elements,
        large_elements=settings.elements * settings.flow_factor,
        lanes=settings.lanes,
    )


def background(result: StudyResult) -> dict[str, dict[str, float]]:
    """Return the background traffic by scenario: mean and largest share of the rate of links between switches."""
    by_scenario = by_field(result.rows("background"), "scenario")
    return {
        name: {"mean": sum(row.share for row in rows) / len(rows), "largest": max(row.share for row in rows)}
        for (name,), rows in by_scenario
    }


def tables(result: StudyResult) -> Iterator[Table]:
    """Yield tables: differences, headline, rates at which savings end, flow models, larger models, background."""
    if differences := result.rows("differences"):
        yield rows_table("Differences", differences[:20])
    if result.of("policies"):
        yield headline(result)
    ends = []
    for (policy, elements), rows in by_field(result.rows("sensitivity", study=ACCESS), "policy", "elements"):
        del rows
        own = result.of("sensitivity", study=ACCESS, policy=policy, elements=elements)
        rate = failing_rate_bps((point["value"], point["total_saving"]) for point in own)
        if rate is not None:
            ends.append((policy, f"{elements:,}", f"{rate / 1e9:.0f} Gb/s"))
    if ends:
        saved = f"{100 * POSTER_SAVING:.1f} % of {result.settings.target_ms} ms are saved up to"
        yield saved, ("policy", "parameters", "hosts' links (interpolated)"), ends
    if models := flow_models(result):
        yield rows_table("Flow-level model against packets of a larger model", models)
    if larger := list(larger_models(result.settings, result.rows("sensitivity"))):
        yield rows_table("Larger models by rate, by the flow-level model", larger)
    if loads := background(result):
        shown = columns_of(BackgroundRow)["share"].text
        rows = [(name, shown(own["mean"]), shown(own["largest"])) for name, own in loads.items()]
        yield "Background traffic as measured, on links between switches", ("network", "mean", "busiest"), rows


def more(result: StudyResult) -> dict[str, Any]:
    """Return further data for result.json."""
    return {
        "training_ms": training_ms(result),
        "flow": flow_models(result),
        "larger_models": list(larger_models(result.settings, result.rows("sensitivity"))),
        "background": background(result),
        "differences": [row.text for row in result.rows("differences")],
    }


def lead(result: StudyResult) -> str:
    """Return a paragraph on the conditions of the run."""
    settings = result.settings
    least, most = min(settings.sizes), max(settings.sizes)
    return (
        f"{settings.tasks} tasks in each of {len(settings.seeds)} seeds, {least} to {most} local models, "
        f"{settings.elements:,} float32 parameters, {settings.lanes} lanes a packet. Every time and every byte comes "
        f"from frames through the P4 program, in virtual time. Training time: {training_ms(result):.3f} ms, "
        f"calibrated once so that spff takes {settings.target_ms} ms with {most} local models on "
        f"{settings.calibrated_in.name}, then the same for every policy, size and network."
    )


def _flow(result: StudyResult) -> Figure | None:
    models = flow_models(result)
    if not models:
        return None
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.add_subplot()
    for model, mark in zip(models, "soX", strict=False):
        error = f"error on packets: mean {100 * model.mean_error:.1f} %, worst {100 * model.worst_error:.1f} %"
        times = [model.predictions_ms[name] for name in MODELS]
        axis.plot(list(MODELS.values()), times, marker=mark, label=f"{model.policy} ({error})")
    axis.set_xscale("log")
    axis.set_yscale("log")
    for name, size in MODELS.items():
        axis.annotate(name, (size, axis.get_ylim()[0]), rotation=90, fontsize=7, va="bottom", ha="right")
    axis.set_xlabel("parameters")
    axis.set_ylabel("communication of a round, ms")
    axis.legend(fontsize=7)
    return figure


CHARTS: Final = (
    Chart("fig3b-bandwidth", "Fig. 3b: bytes on all links, counted on packets", "policies", "size", "megabytes",
          ("policy",), panel="scenario"),
    Chart("fig3a-latency", "Fig. 3a: total latency = training + communication", "policies", "size", "total_ms",
          ("policy",), panel="scenario"),
    Chart("access", "Faster hosts' links: bytes saved stay, total latency saved does not", "sensitivity", "value",
          ("bytes_saving", "total_saving", "longest_training_ms"), ("policy", "elements"), where={"study": ACCESS},
          axes={"value": "rate of hosts' links, b/s"}),
    Chart("delays", "Longer links: time, and time over the bound of a server that answers chunk by chunk",
          "sensitivity", "value", ("communication_ms", "ratio_to_ordered"), ("policy", "elements"),
          panel="scenario", where={"study": DELAY}, axes={"value": "delay of a link"}),
    Chart("weights", "What lambda does where links are unequal and loaded", "weights", "bandwidth",
          ("admitted", "megabytes", "communication_ms", "largest_utilisation"), ("policy",)),
    Chart("components", "Communication, and adding up at the global model's host", "policies", "policy",
          ("communication_ms", "aggregation_ms"), ("size",), panel="scenario", kind="bars"),
    Chart("communication", "Communication alone against the lower bound of each policy's trees", "policies", "size",
          ("communication_ms", "ratio_to_bound"), ("policy",), panel="scenario"),
    Chart("ablation", "What routing gains alone, what aggregation gains alone, and both", "policies", "scenario",
          ("communication_ms", "megabytes"), ("policy",), kind="bars"),
    Chart("optimum", "Bytes over the certified lower bound; the curve of exact is the optimum", "policies", "size",
          "over_least", ("policy",), panel="scenario", line=1),
    Chart("capable", "When only some switches can aggregate; 0: spff", "shares", "capable", ("total_ms", "megabytes"),
          ("policy", "chooser"), panel="size"),
    StudyDrawing("flow-level", "Larger models, by a flow-level model that was calibrated on packets", _flow),
    Chart("selection", "Choosing useful local models under a bandwidth budget: accuracy on non-IID digits", "selection",
          "bytes", "accuracy", ("chooser",)),
    Chart("swaps", "Interruption against saving: the tree of a running task is swapped in its second round", "swaps",
          "saving_bytes", ("interruption_ps", "resent_frames", "saved_bytes"), ("scenario", "loss"), kind="dots"),
    Chart("overlapping", "Tasks that communicate at the same time, against each alone", "overlapping", "scenario",
          ("alone_ps", "overlapping_ps", "worst_ps"), ("policy",), kind="dots", yscale="log"),
)  # fmt: skip
STUDY: Final = Study(
    "poster",
    "Flexible scheduling of AI tasks: the poster on packets",
    "The poster's experiment on packets: AI tasks under every scheduling policy; swaps of trees, rings, shares of "
    "capable switches, choosing local models.",
    PosterSettings,
    QUICK,
    PARTS,
    DEVELOPED,
    HELD_OUT,
    bars,
    CHARTS,
    lead,
    derive=derive,
    tables=tables,
    more=more,
    readers={
        tuple[TrafficScenario, ...]: (named_scenarios, "NAME,..", f"Known: {', '.join(SCENARIOS)}."),
        tuple[tuple[str, float], ...]: (lossy_networks, "NAME[@LOSS],..", ""),
    },
)
