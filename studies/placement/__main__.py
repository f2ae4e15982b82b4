"""Network-aware placement: completion times of a cluster's jobs under placement policies, in a model held to packets.

    python -m studies.placement --out out/placement                  all of it (make placement)
    python -m studies.placement --quick --out out/placement-quick    a sample (make placement-quick)
    python -m studies.placement --seeds 1..20 --policies packed,ina-aware --scenarios uniform
    python -m studies.placement --dask tcp://scheduler:8786          over the machines of a Dask cluster

    python -m studies.placement --parts knobs,inference              some of its parts

Writes tables as CSV, result.json, figures/ and report.html. The exit code is 1 when
something that must hold does not.
"""

import argparse
import sys
from dataclasses import replace
from typing import Any

from p4reduce.base.errors import BadInput
from p4reduce.base.output import Output
from p4reduce.cli.lists import floats, integers, texts
from p4reduce.control_plane.placement import placement_named
from studies.before_pages import OpenBar, Told, study_main, study_parser, tables, write_placement_report
from studies.placement.experiment import PlacementResult, claims, run_placement
from studies.placement.figures import write_files
from studies.placement.settings import PARTS, QUICK, SCENARIOS, PlacementSettings


def parser() -> argparse.ArgumentParser:
    """What is absent is as in ``make placement``, with --quick as in the sample."""
    made = study_parser("placement", __doc__)
    made.add_argument("--parts", metavar="A,B", help=f"only these of {', '.join(PARTS)}")
    names = ", ".join(one.name for one in SCENARIOS).replace("%", "%%")
    made.add_argument("--scenarios", metavar="A,B", help=f"of {names}")
    made.add_argument("--policies", metavar="A,B", help="placement policies, those of other packages too")
    made.add_argument("--loads", metavar="0.8,0.5", help="shares of all slots that are asked for; bars: the first one")
    made.add_argument("--cluster-jobs", type=int, metavar="N", help="jobs that arrive in a run")
    made.add_argument("--seeds", metavar="1..5", help="of runs")
    made.add_argument("--points", type=int, metavar="N", help="points of the calibration on packets")
    return made


def settings_of(given: argparse.Namespace) -> PlacementSettings:
    """The settings that the flags ask for. Raises ``BadInput`` and ``PlanError``, which name flag or policy."""
    changes: dict[str, Any] = {}
    if given.scenarios:
        known = {one.name.replace(",", ""): one for one in SCENARIOS}
        named = texts(given.scenarios, "--scenarios")
        if unknown := [name for name in named if name not in known]:
            raise BadInput(f"--scenarios: {unknown[0]!r} is none of {'; '.join(known)}")
        changes["scenarios"] = tuple(known[name] for name in named)
    if given.policies:
        changes["policies"] = tuple(texts(given.policies, "--policies"))
        for name in texts(given.policies, "--policies"):
            placement_named(name)
    if given.loads:
        changes["loads"] = tuple(floats(given.loads, "--loads"))
        if any(not 0 < load <= 2 for load in floats(given.loads, "--loads")):
            raise BadInput(f"--loads: {given.loads}: each must be above 0, and 2 at most")
    if given.seeds:
        changes["seeds"] = tuple(integers(given.seeds, "--seeds"))
    for flag, field, least in (("cluster_jobs", "jobs", 1), ("points", "points", 0)):
        value = getattr(given, flag)
        if value is not None and value < least:
            raise BadInput(f"--{flag.replace('_', '-')}: {value} is below {least}")
        if value is not None:
            changes[field] = value
    settings = replace(QUICK if given.quick else PlacementSettings(), **changes)
    if given.parts:
        named = texts(given.parts, "--parts")
        if unknown := [name for name in named if name not in PARTS]:
            raise BadInput(f"--parts: {unknown[0]!r} is none of {', '.join(PARTS)}")
        settings = settings.only(named)
    return settings


def measure(given: argparse.Namespace, open_bar: OpenBar) -> PlacementResult:
    """All that the flags ask for."""
    return run_placement(settings_of(given), jobs=given.jobs, dask=given.dask, progress=open_bar("placement"))


def tell(given: argparse.Namespace, result: PlacementResult, output: Output) -> Told:
    """Write and show it."""
    found = claims(result)
    files, figures = write_files(result, found, given.out)
    page = write_placement_report(given.out / "report.html", result, found, figures)
    for _, columns, rows in reversed(tables(result, found)):
        output.table(list(columns), [list(row) for row in rows])
    return Told([*files, page], found, result.as_data(), len(figures))


def main(arguments: list[str] | None = None) -> int:
    """Run it; the exit code."""
    return study_main("placement", parser().parse_args(arguments), measure, tell)


if __name__ == "__main__":
    sys.exit(main())
