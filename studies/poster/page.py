"""report.html of the poster's experiment: one page with its figures inside, nothing from outside."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from p4reduce.views.report.curves import Markup, element
from studies.before_pages import claims_table, figures_of, page_of, table
from studies.poster.experiment import PosterResult
from studies.poster.rings import ring_points
from studies.poster.sensitivity import Point, SensitivityPoint, failing_rate_bps
from studies.poster.settings import POSTER_FLEXIBLE_MS, POSTER_SAVING, POSTER_SPFF_MS, SPFF
from studies.poster.swaps import WeightRow, overlap_points

# Tables of what the poster's figures depend on: rates, model sizes, delays, lambda.


SENSITIVITY_COLUMNS: Final = (
    "study",
    "network",
    "value",
    "parameters",
    "policy",
    "source",
    "communication, ms",
    "x bound",
    "x bound, chunk by chunk",
    "MB on links",
    "bytes",
    "total latency",
    "same training time",
    "longest training, ms",
)
WEIGHT_COLUMNS: Final = (
    "network",
    "seed",
    "policy",
    "lambda",
    "admitted",
    "other trees",
    "MB on links",
    "communication, ms",
    "busiest link",
)


def sensitivity_rows(result: PosterResult) -> list[tuple[str, ...]]:
    """In the order of ``SENSITIVITY_COLUMNS``; savings are against spff."""
    return [_sensitivity_cells(point) for point in result.sensitivity]


def _sensitivity_cells(point: SensitivityPoint) -> tuple[str, ...]:
    return (
        point.study,
        point.scenario,
        point.value,
        f"{point.elements:,}",
        point.policy,
        point.source,
        f"{point.communication_ms:,.3f}",
        _number(point.ratio_to_bound),
        _number(point.ratio_to_ordered),
        _number(point.megabytes),
        _share(point.bytes_saving),
        _share(point.saving),
        _share(point.held_saving),
        "never" if point.longest_training_ms is None else f"{point.longest_training_ms:,.2f}",
    )


def weight_rows(result: PosterResult) -> list[tuple[str, ...]]:
    """In the order of ``WEIGHT_COLUMNS``."""
    return [_weights(row) for row in result.weights]


def _weights(row: WeightRow) -> tuple[str, ...]:
    return (
        row.scenario,
        str(row.seed),
        row.policy,
        "-" if row.bandwidth is None else f"{row.bandwidth:g}",
        f"{row.admitted} of {row.asked}",
        str(row.others),
        f"{row.megabytes:.2f}",
        f"{row.communication_ms:.3f}",
        f"{100 * row.largest_utilisation:.0f} %",
    )


def failing_rates(result: PosterResult) -> list[str]:
    """Sentences: up to which rate of hosts' links the poster's saving of total latency is reached."""
    found = []
    for policy in dict.fromkeys(point.policy for point in result.sensitivity):
        for elements in result.settings.access_elements:
            rate = failing_rate_bps(result.sensitivity, policy, elements)
            if rate is not None:
                found.append(
                    f"{policy}, {elements:,} parameters: {100 * POSTER_SAVING:.1f} % of {result.settings.target_ms} ms "
                    f"are saved up to {rate / 1e9:.0f} Gb/s to hosts (interpolated), not above"
                )
    return found


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _share(saving: float | None) -> str:
    return "-" if saving is None else f"{-100 * saving:+.1f} %"


TITLE: Final = "Flexible scheduling of AI tasks: the poster on packets"
SAYS: Final = {
    "access": "Faster hosts' links: bytes saved stay, total latency saved does not.",
    "delays": "Longer links: time, and time over the bound.",
    "weights": "What lambda does where links are unequal and loaded.",
    "fig3a-latency": "Total latency against number of local models; error bars: 95 % confidence.",
    "fig3b-bandwidth": "Bytes on all links, counted on packets; error bars: 95 % confidence.",
    "components": "Training, communication, and adding up at the global model's host.",
    "communication": "Communication alone against each policy's lower bound.",
    "ablation": "What routing gains alone, what aggregation gains alone, and both.",
    "optimum": "Bytes over the certified lower bound; the curve of exact is the optimum.",
    "capable": "When only some switches can aggregate.",
    "selection": "Choosing useful local models under a bandwidth budget: accuracy on non-IID digits.",
    "swaps": "Interruption against saving: the tree of a running task is swapped by the orchestrator.",
    "overlapping": "Tasks that communicate at the same time, against each alone.",
    "flow-level": "Larger models, by a flow-level model that was calibrated on packets.",
}


def write_poster_report(path: Path, result: PosterResult, figures: Mapping[str, Path]) -> Path:
    """Write the page; ``figures`` are PNG files by name. Returns ``path``."""
    path.write_text(poster_page(result, figures), "utf-8")
    return path


def poster_page(result: PosterResult, figures: Mapping[str, Path]) -> str:
    """The page as text. The same result and figures give the same bytes."""
    return page_of(
        TITLE,
        element("p", _lead(result), class_="soft"),
        *(element("p", text, class_="fault", role="alert") for text in result.differences[:20]),
        element("h2", "What must hold"),
        claims_table(result.claims),
        element("h2", f"{max(result.settings.sizes)} local models: ours, the poster's, the bound"),
        _headline(result),
        *figures_of(figures, SAYS),
        *_sensitivity(result),
        *_swaps(result),
        *_overlapping(result),
        *_rings(result),
        *_background(result),
        element("h2", "Every point"),
        table(POINT_COLUMNS, [point_cells(point) for point in result.points]),
        *_provenance(result),
    )


POINT_COLUMNS: Final = (
    "scenario",
    "policy",
    "local models",
    "tasks",
    "rejected",
    "total, ms",
    "communication, ms",
    "aggregation at G, ms",
    "bound, ms",
    "x bound",
    "MB on links",
    "latency saved",
    "bytes saved",
    "x exact",
    "lower bound, MB",
    "x lower bound",
)


def point_cells(point: Point) -> tuple[str, ...]:
    """A point as text, in the order of ``POINT_COLUMNS``."""
    return (
        point.scenario,
        point.policy,
        str(point.size),
        str(point.tasks),
        str(point.rejected),
        f"{point.total_ms:.3f} ± {point.total_ci_ms:.3f}",
        f"{point.communication_ms:.4f}",
        f"{point.aggregation_ms:.4f}",
        f"{point.bound_ms:.4f}",
        f"{point.ratio_to_bound:.3f}",
        f"{point.megabytes:.2f} ± {point.megabytes_ci:.2f}",
        _share(point.total_saving),
        _share(point.bytes_saving),
        "-" if point.over_exact is None else f"{point.over_exact:.3f}",
        "-" if point.least_megabytes is None else f"{point.least_megabytes:.2f}",
        "-" if point.over_least is None else f"{point.over_least:.3f}",
    )


def headline_rows(result: PosterResult) -> list[tuple[str, ...]]:
    """The table of the poster's numbers, ours and the bound, with the most local models."""
    most = max(result.settings.sizes)
    training = result.training_ps / 1e9
    rows: list[tuple[str, ...]] = [
        ("the poster", "fixed (spff)", "-", "-", f"{POSTER_SPFF_MS:.2f}", "-", "-"),
        ("the poster", "flexible", "-", "-", f"{POSTER_FLEXIBLE_MS:.2f}", "-", f"{-100 * POSTER_SAVING:.1f} %"),
    ]
    return rows + [
        (
            point.scenario,
            point.policy,
            f"{point.megabytes:.2f}",
            "-" if point.policy == SPFF else _share(point.bytes_saving),
            f"{point.total_ms:.3f}",
            f"{training + point.bound_ms:.3f}",
            "-" if point.policy == SPFF else _share(point.total_saving),
        )
        for point in result.points
        if point.size == most
    ]


HEADLINE_COLUMNS: Final = (
    "network",
    "policy",
    "MB on links",
    "against spff",
    "total, ms",
    "training + bound, ms",
    "against spff ",
)


def _headline(result: PosterResult) -> Markup:
    return table(HEADLINE_COLUMNS, headline_rows(result))


def _lead(result: PosterResult) -> str:
    settings = result.settings
    least, most = min(settings.sizes), max(settings.sizes)
    return (
        f"{settings.tasks} tasks in each of {len(settings.seeds)} seeds, {least} to {most} local models, "
        f"{settings.elements:,} float32 parameters, {settings.lanes} lanes a packet. Every time and every byte comes "
        f"from frames through the P4 program, in virtual time. Training time: {result.training_ps / 1e9:.3f} ms, "
        f"calibrated once so that spff takes {settings.target_ms} ms with {most} local models on "
        f"{settings.calibrated_in.name}, then the same for every policy, size and network."
    )


SWAP_COLUMNS: Final = (
    "network",
    "loss",
    "seed",
    "detour",
    "rounds left",
    "threshold",
    "decision",
    "expected saving, MB",
    "expected cost, MB",
    "interruption, us",
    "chunks in flight",
    "frames resent",
    "frames late",
    "counted saving, MB",
    "finished later, us",
)


def _swaps(result: PosterResult) -> list[Markup]:
    """Every trial in which the orchestrator had to decide."""
    rows = [
        (
            row.scenario,
            f"{100 * row.loss:g} %",
            str(row.seed),
            f"{100 * row.detour:g} %",
            str(row.remaining_rounds),
            f"{row.threshold:g}",
            row.decision,
            f"{row.saving_bytes / 1e6:.2f}",
            f"{row.cost_bytes / 1e6:.2f}",
            f"{row.interruption_ps / 1e6:.1f}",
            str(row.in_flight),
            str(row.resent_frames),
            str(row.late_frames),
            f"{row.saved_bytes / 1e6:.2f}",
            f"{row.later_ps / 1e6:.1f}",
        )
        for row in result.swaps
        if row.threshold is not None
    ]
    return [element("h2", "Every swap that was considered"), table(SWAP_COLUMNS, rows)] if rows else []


def _overlapping(result: PosterResult) -> list[Markup]:
    rows = [
        (
            point.scenario,
            point.policy,
            str(point.tasks),
            f"{point.alone_ms:.4f}",
            f"{point.overlapping_ms:.4f}",
            f"{point.worst_ms:.4f}",
        )
        for point in overlap_points(result.overlapping)
    ]
    columns = ("network", "policy", "tasks", "alone, ms", "at once, ms", "slowest at once, ms")
    return [element("h2", "Tasks that communicate at the same time"), table(columns, rows)] if rows else []


RING_COLUMNS: Final = ("network", "policy", "tasks", "rejected", "communication, ms", "bound, ms", "MB on links")


def ring_rows(result: PosterResult) -> list[tuple[str, ...]]:
    """Rings beside the schedulers, in the order of ``RING_COLUMNS``."""
    return [
        (
            point.scenario,
            point.policy,
            str(point.tasks),
            str(point.rejected),
            f"{point.communication_ms:.4f}",
            f"{point.bound_ms:.4f}",
            f"{point.megabytes:.2f}",
        )
        for point in ring_points(result.rings)
    ]


def _rings(result: PosterResult) -> list[Markup]:
    rows = ring_rows(result)
    says = "In no claim: the bound of rings is not tight. Phases are not pipelined."
    if not rows:
        return []
    return [
        element("h2", "Hosts that add up"),
        element("p", says, class_="soft"),
        table(RING_COLUMNS, rows),
    ]


def _sensitivity(result: PosterResult) -> list[Markup]:
    parts: list[Markup] = []
    if result.sensitivity:
        parts.append(element("h2", "What figures depend on"))
        parts += [element("p", text, class_="soft") for text in failing_rates(result)]
        parts.append(table(SENSITIVITY_COLUMNS, sensitivity_rows(result)))
    if result.weights:
        parts += [element("h2", "Bandwidth against latency (lambda)"), table(WEIGHT_COLUMNS, weight_rows(result))]
    return parts


def _background(result: PosterResult) -> list[Markup]:
    rows = [(scenario.name, scenario.says) for scenario in result.settings.scenarios]
    found = [
        (name, f"links between switches: mean {100 * shares['mean']:.0f} %, busiest {100 * shares['largest']:.0f} %")
        for name, shares in result.background.items()
    ]
    parts = [element("h2", "Networks"), table(("network", "capacities"), rows, plain=True)]
    if found:
        parts += [element("h3", "Background traffic as measured"), table(("network", "used"), found, plain=True)]
    return parts


def _provenance(result: PosterResult) -> list[Markup]:
    rows = [(key, value) for key, value in result.provenance.items()]
    rows += [(name, str(value)) for name, value in vars(result.settings).items() if name != "scenarios"]
    rows += [(scenario.name, scenario.topology) for scenario in result.settings.scenarios]
    return [element("h2", "Where the figures come from"), table(("what", "value"), rows, plain=True)]
