"""report.html of the study of priorities: one page with its figures inside, nothing from outside."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from p4reduce.cli.report.pieces import claims_table, figures_of, page_of, table
from p4reduce.cli.report.svg import Markup, element
from p4reduce.experiments.priorities.study.points import Point
from p4reduce.experiments.priorities.study.study import StudyResult

TITLE: Final = "Application-aware priorities: jobs that share links, on packets"
SAYS: Final = {
    "load": "Time over time alone by load: in lock-step without an order, interleaved by any distinct one.",
    "interleaving": "Two identical jobs, round by round.",
    "sizes": "Unequal jobs: which order decides, and predicted sizes are enough.",
    "prediction": "Predictions from counters, and what their delay does.",
    "queues": "How many queues an order needs.",
    "resends": "Frames sent again, by class.",
    "fairness": "Who starves.",
    "layers": "Layers of known models, overlapped with computing: urgent ones first.",
    "learning": "Staleness and accuracy against time.",
    "stale": "Stale-synchronous parameter server with a straggler: the oldest batch first.",
}
COLUMNS: Final = (
    "part",
    "policy",
    "told by",
    "sizes",
    "phi",
    "jitter",
    "latency",
    "queues",
    "rotated",
    "seeds",
    "time / alone",
    "seeds from - to",
    "worst job",
    "without learning",
    "Jain",
    "sent again",
    "writes",
    "median error",
    "in time",
)


def write_priorities_report(path: Path, result: StudyResult, figures: Mapping[str, Path]) -> Path:
    """Write the page; ``figures`` are PNG files by name. Returns ``path``."""
    path.write_text(priorities_page(result, figures), "utf-8")
    return path


def priorities_page(result: StudyResult, figures: Mapping[str, Path]) -> str:
    """The page as text. The same result and figures give the same bytes."""
    settings = result.settings
    lead = (
        f"{settings.rounds} rounds in each of {len(settings.seeds)} seeds; jobs of three workers and a server across "
        f"two leaves with 40 Gb/s to hosts and one uplink of 10 Gb/s, {settings.elements:,} float32 parameters, "
        f"computing times with {100 * settings.jitter:g} % jitter. Every time comes from frames through the P4 "
        "program, in virtual time; classes are entries of its table traffic_class, written over P4Runtime. Time / "
        "alone: a job's completion time over that of the same job, with the same computing times, when it has the "
        "network to itself."
    )
    return page_of(
        TITLE,
        element("p", lead, class_="soft"),
        element("h2", "What must hold"),
        claims_table(result.claims),
        *figures_of(figures, SAYS),
        element("h2", "Every point"),
        table(COLUMNS, [point_cells(point) for point in result.points]),
        *_provenance(result),
    )


def point_cells(point: Point) -> tuple[str, ...]:
    """A point as text, in the order of ``COLUMNS``."""
    return (
        point.part,
        point.policy,
        point.knowledge,
        point.sizes,
        f"{point.phi:g}",
        f"{100 * point.jitter:g} %",
        point.latency,
        str(point.queues),
        str(point.rotate_rounds) if point.rotate_rounds else "never",
        str(point.seeds),
        f"{point.mean:.3f}",
        f"{point.lowest:.3f} - {point.highest:.3f}",
        f"{point.worst:.3f}",
        f"{point.steady:.3f}",
        f"{point.jain:.3f}",
        f"{100 * point.resend_share:.2f} %",
        f"{point.writes:.0f}",
        "-" if point.median_error is None else f"{100 * point.median_error:.2f} %",
        "-" if point.in_time is None else f"{100 * point.in_time:.1f} %",
    )


def _provenance(result: StudyResult) -> list[Markup]:
    rows = [*result.provenance.items(), *((name, str(value)) for name, value in vars(result.settings).items())]
    return [element("h2", "Where the figures come from"), table(("what", "value"), rows, plain=True)]
