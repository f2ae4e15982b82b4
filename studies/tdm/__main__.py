"""Taking turns over an optical cross-connect, on packets.

    python -m studies.tdm --out out/tdm                        all of it (make tdm)
    python -m studies.tdm --quick --out out/tdm-quick          a small part (make tdm-quick)
    python -m studies.tdm --dask tcp://scheduler:8786          over the machines of a Dask cluster

Writes rounds.csv (a row for each schedule that was played, with the models' errors), ecmp.csv, windows.csv, bars.csv
(what was demanded, met or not), sweeps.csv, result.json, gantt.svg, figures/ and report.html. The exit code is 1 when
something that must hold on packets does not; a bar of bars.csv that is not met is a NO in the table.
"""

import argparse
import sys
from collections.abc import Sequence

from p4reduce.base.errors import BadInput
from p4reduce.base.output import Output
from p4reduce.cli.lists import integers
from studies.before_pages import (
    BAR_COLUMNS,
    OpenBar,
    Told,
    bar_rows,
    show_claims,
    study_main,
    study_parser,
    write_tdm_report,
)
from studies.tdm.figures import TdmResult, run_sweeps, write_files
from studies.tdm.planning import measure as measure_planning
from studies.tdm.study import run_study


def parser() -> argparse.ArgumentParser:
    """The flags."""
    made = study_parser("tdm", __doc__)
    made.add_argument("--seeds", default="1..10", metavar="1..10", help="of the instances, as 1..10 or 1,2,5")
    return made


def measure(given: argparse.Namespace, open_bar: OpenBar) -> TdmResult:
    """All of it."""
    seeds = integers(given.seeds, "--seeds")
    if not seeds:
        raise BadInput("--seeds: names none")
    study = run_study(quick=given.quick, seeds=seeds, jobs=given.jobs, dask=given.dask, bar=open_bar)
    figures = measure_planning(
        quick=given.quick, seeds=seeds, jobs=given.jobs, dask=given.dask, progress=open_bar("plans and traces")
    )
    sweeps = run_sweeps(
        quick=given.quick,
        seeds=seeds,
        factors=study.factors,
        jobs=given.jobs,
        dask=given.dask,
        progress=open_bar("sweeps"),
    )
    return TdmResult(study, figures, sweeps)


def tell(given: argparse.Namespace, result: TdmResult, output: Output) -> Told:
    """Write and show it."""
    files, figures = write_files(result, given.out)
    page = write_tdm_report(given.out / "report.html", result, figures)
    output.table(list(BAR_COLUMNS), [list(row) for row in bar_rows(result.bars())])
    show_claims(result.claims(), output)
    return Told([*files, page], result.claims(), result.as_data(), len(figures))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    return study_main("tdm", parser().parse_args(arguments), measure, tell)


if __name__ == "__main__":
    sys.exit(main())
