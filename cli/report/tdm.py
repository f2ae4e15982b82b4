"""report.html of the study of turns over an optical cross-connect: one page, nothing from outside."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from p4reduce.base.written import write_text
from p4reduce.cli.report.pieces import claims_table, figures_of, page_of, table
from p4reduce.cli.report.svg import Markup, element
from p4reduce.experiments.tdm.bar import Bar
from p4reduce.experiments.tdm.figures import SAYS
from p4reduce.experiments.tdm.files import TdmResult

TITLE: Final = "Taking turns over an optical cross-connect, on packets"
BAR_COLUMNS: Final = ("bar", "demand", "measured", "met")
ROW_COLUMNS: Final = (
    "part", "policy", "jobs", "R", "delta, ms", "seed", "sigma", "c/w", "1/scale", "configurations", "round, ms",
    "packets / formulas", "flow model, % off", "worst job, %", "reconfigured", "over alone", "worst", "refused",
)  # fmt: skip


def bar_rows(bars: Sequence[Bar]) -> list[tuple[str, str, str, str]]:
    """In the order of ``BAR_COLUMNS``."""
    answers = {True: "yes", False: "NO", None: ""}
    return [(one.text, one.demand, one.measured, answers[one.holds]) for one in bars]


def write_tdm_report(path: Path, result: TdmResult, figures: Mapping[str, Path]) -> Path:
    """Write the page; ``figures`` are PNG files by name. Returns ``path``."""
    study = result.study
    rows = [
        (row.study, row.policy, row.mix, str(row.ports), f"{row.delta_s * 1e3:g}", str(row.seed), f"{row.sigma:g}",
         f"{row.ratio:g}", f"{row.scale:g}", str(row.configurations), f"{row.round_s * 1e3:.3f}",
         f"{row.packets_over_model:.4f}" if row.model_s else "-", f"{100 * row.flow_error:+.2f}",
         f"{100 * row.flow_job_error:.2f}", str(row.reconfigurations), f"{row.relative_mean:.2f}",
         f"{row.relative_worst:.2f}", row.refused or "-")
        for row in study.rows
    ]  # fmt: skip
    twins = [
        (one.twin, str(one.flows), "yes" if one.polarized else "no", str(one.seed), f"{one.ratio:.2f}")
        for one in study.ecmp
    ]
    kept = [
        (one.keep, f"{one.iteration_s * 1e6:.0f}", str(one.dark_lost), str(one.misrouted), str(one.resends))
        for one in study.kept
    ]
    page = page_of(
        TITLE,
        element("h2", "What must hold"),
        claims_table(result.claims()),
        element("h2", "Bars"),
        table(BAR_COLUMNS, bar_rows(result.bars()), plain=True),
        element("h2", "Circuits, jobs and darkness, as packets had them"),
        element("div", Markup(study.chart), class_="card"),
        *figures_of(figures, SAYS),
        element("h2", "Schedules on packets"),
        table(ROW_COLUMNS, rows),
        element("h2", "Electrical twins"),
        table(("twin", "flows", "polarized", "seed", "C(ECMP) / C(OXC)"), twins),
        element("h2", "Slots too short"),
        table(("kept by", "iteration, us", "dark lost", "misrouted", "resends"), kept),
    )
    return write_text(path, page)
