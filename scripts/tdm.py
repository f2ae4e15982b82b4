"""Taking turns over an optical cross-connect, on packets.

    python scripts/tdm.py --out out/tdm                        all of it (make tdm)
    python scripts/tdm.py --quick --out out/tdm-quick          a small part (make tdm-quick)
    python scripts/tdm.py --dask tcp://scheduler:8786          over the machines of a Dask cluster

Writes rounds.csv (a row for each schedule that was played), ecmp.csv, windows.csv, bars.csv (what planning is held
against, without packets), result.json, gantt.svg and report.html. The exit code is 1 when something that must hold on
packets does not; a bar of bars.csv that is not met is a NO in the table.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from p4reduce.base.html import table
from p4reduce.base.signals import handling, raise_exit
from p4reduce.base.written import write_text
from p4reduce.cli.failures import BadInput
from p4reduce.cli.lists import integers
from p4reduce.cli.output import Output
from p4reduce.cli.progress import progress_bar
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.errors import PlanError
from p4reduce.experiments.claim import Claim
from p4reduce.experiments.tables import plain, write_table
from p4reduce.experiments.tdm.cases import Row
from p4reduce.experiments.tdm.claims import Bar, bars, measure
from p4reduce.experiments.tdm.ecmp import EcmpRow
from p4reduce.experiments.tdm.study import Kept, Study, claims, run_study


def parser() -> argparse.ArgumentParser:
    """The flags."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="a small network, jobs of a 640th")
    made.add_argument("--seeds", default="1..10", help="of the instances, as 1..10 or 1,2,5")
    made.add_argument("--jobs", type=int, default=1, help="processes; -1: one for each core")
    made.add_argument("--dask", default=None, help="address of a Dask scheduler, whose workers play the schedules")
    made.add_argument("--out", type=Path, default=Path("out/tdm"), help="folder of the results")
    made.add_argument("--json", action="store_true", help="JSON on stdout, nothing else")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit code."""
    given = parser().parse_args(arguments)
    output = Output(as_json=given.json)
    try:
        seeds = integers(given.seeds, "--seeds")
        with progress_bar(output) as bar:
            study = run_study(quick=given.quick, seeds=seeds, jobs=given.jobs, dask=given.dask, bar=bar)
            figures = measure(
                quick=given.quick, seeds=seeds, jobs=given.jobs, dask=given.dask, progress=bar("plans and traces")
            )
    except (BadInput, PlanError) as error:
        output.note(f"error: {error}")
        return 2
    except ClusterError as error:
        output.note(f"error: {error}")
        return 1
    must = claims(study)
    planned = bars(figures)
    _write(given.out, study, must, planned)
    output.data(
        {
            "claims": plain(must),
            "rows": plain(study.rows),
            "ecmp": plain(study.ecmp),
            "bars": plain(planned),
            "figures": figures,
        }
    )
    output.table(["bar, without packets", "demand", "measured", ""], [list(row) for row in _rows(planned)])
    output.table(
        ["must hold", "measured", ""], [[one.text, one.measured, "yes" if one.holds else "NO"] for one in must]
    )
    output.note(f"wrote {given.out}")
    return 0 if all(one.holds for one in must) else 1


def _rows(planned: Sequence[Bar]) -> list[tuple[str, str, str, str]]:
    """Bars for people."""
    answers = {True: "yes", False: "NO", None: ""}
    return [(one.text, one.demand, one.measured, answers[one.holds]) for one in planned]


def _write(out: Path, study: Study, must: Sequence[Claim], planned: Sequence[Bar]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_table(out / "rounds.csv", Row, study.rows)
    write_table(out / "ecmp.csv", EcmpRow, study.ecmp)
    write_table(out / "windows.csv", Kept, study.kept)
    write_table(out / "bars.csv", Bar, planned)
    write_text(out / "gantt.svg", study.chart)
    data = {
        "claims": plain(must),
        "factors": plain(study.factors),
        "rows": plain(study.rows),
        "ecmp": plain(study.ecmp),
        "bars": plain(planned),
    }
    write_text(out / "result.json", json.dumps(plain(data), indent=1, sort_keys=True) + "\n")
    write_text(out / "report.html", _page(study, must, planned))


def _page(study: Study, must: Sequence[Claim], planned: Sequence[Bar]) -> str:
    """One page without anything from elsewhere."""
    rows = [
        (row.study, row.policy, row.ports, f"{row.delta_s * 1e3:g}", row.seed, f"{row.sigma:g}", f"{row.ratio:g}",
         f"{row.scale:g}", f"{row.round_s * 1e3:.3f}", f"{row.packets_over_model:.4f}", row.reconfigurations,
         f"{row.relative_mean:.2f}", f"{row.relative_worst:.2f}", row.refused or "-")
        for row in study.rows
    ]  # fmt: skip
    twins = [
        (one.twin, one.flows, "yes" if one.polarized else "no", one.seed, f"{one.ratio:.2f}") for one in study.ecmp
    ]
    kept = [(one.keep, f"{one.iteration_s * 1e6:.0f}", one.dark_lost, one.misrouted, one.resends) for one in study.kept]
    parts = [
        table("What must hold", ("claim", "measured", "holds"),
              [(one.text, one.measured, "yes" if one.holds else "NO") for one in must]),
        table("Bars, without packets", ("bar", "demand", "measured", "met"), _rows(planned)),
        "<p>Circuits, jobs and darkness, as packets had them:</p>",
        study.chart,
        table("Schedules on packets", ("part", "policy", "R", "delta, ms", "seed", "sigma", "c/w", "1/scale",
              "round, ms", "packets / model", "reconfigured", "over alone", "worst", "refused"), rows),
        table("Electrical twins", ("twin", "flows", "polarized", "seed", "C(ECMP) / C(OXC)"), twins),
        table("Slots too short", ("kept by", "iteration, us", "dark lost", "misrouted", "resends"), kept),
    ]  # fmt: skip
    style = "body{font-family:system-ui,sans-serif;margin:2em}td,th{padding:2px 8px;text-align:left}"
    return f"<!doctype html><meta charset=utf-8><title>TDM</title><style>{style}</style>\n" + "\n".join(parts) + "\n"


if __name__ == "__main__":
    with handling(raise_exit, signal.SIGTERM):
        sys.exit(main())
