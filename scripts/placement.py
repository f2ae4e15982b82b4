"""Network-aware placement: completion times of a cluster's jobs under placement policies, in a model held to packets.

    python scripts/placement.py --out out/placement                  all of it (make placement)
    python scripts/placement.py --quick --out out/placement-quick    a sample (make placement-quick)
    python scripts/placement.py --seeds 1..20 --policies packed,ina-aware --scenarios uniform
    python scripts/placement.py --dask tcp://scheduler:8786          over the machines of a Dask cluster

Writes runs.csv, points.csv, calibration.csv, result.json, figures/ and report.html. The exit code is 1 when
something that must hold does not.
"""

import argparse
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from p4reduce.base.signals import handling, raise_exit
from p4reduce.cli.failures import BadInput
from p4reduce.cli.lists import floats, integers, texts
from p4reduce.cli.output import Output
from p4reduce.cli.progress import progress_bar
from p4reduce.cli.report.placement import (
    CALIBRATION_COLUMNS,
    CLAIM_COLUMNS,
    POINT_COLUMNS,
    calibration_rows,
    claim_rows,
    point_rows,
    write_placement_report,
)
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.placement import placement_named
from p4reduce.experiments.placement.claims import claims
from p4reduce.experiments.placement.experiment import run_placement
from p4reduce.experiments.placement.files import write_files
from p4reduce.experiments.placement.settings import QUICK, SCENARIOS, PlacementSettings


def parser() -> argparse.ArgumentParser:
    """What is absent is as in ``make placement``, with --quick as in the sample."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="begin with the sample's parameters")
    made.add_argument("--scenarios", metavar="A,B", help=f"of {', '.join(one.name for one in SCENARIOS)}")
    made.add_argument("--policies", metavar="A,B", help="placement policies, those of other packages too")
    made.add_argument("--loads", metavar="0.8,0.5", help="shares of all slots that are asked for; bars: the first one")
    made.add_argument("--cluster-jobs", type=int, metavar="N", help="jobs that arrive in a run")
    made.add_argument("--seeds", metavar="1..5", help="of runs")
    made.add_argument("--points", type=int, metavar="N", help="points of the calibration on packets")
    made.add_argument("--jobs", type=int, default=-1, help="processes on this machine; -1: one for each core")
    made.add_argument("--dask", metavar="ADDRESS", help="of a Dask scheduler, instead of --jobs: tcp://host:8786")
    made.add_argument("--out", type=Path, default=Path("out/placement"), help="folder for the results")
    made.add_argument("--json", action="store_true", help="print the result as JSON")
    return made


def settings_of(given: argparse.Namespace) -> PlacementSettings:
    """The settings that the flags ask for. Raises ``BadInput`` and ``PlanError``, which name flag or policy."""
    changes: dict[str, object] = {}
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
    return replace(QUICK if given.quick else PlacementSettings(), **changes)


def main(arguments: list[str] | None = None) -> int:
    """Run it; the exit code."""
    given = parser().parse_args(arguments)
    output = Output(as_json=given.json)
    began = time.monotonic()
    try:
        settings = settings_of(given)
        with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), progress_bar(output) as open_bar:
            result = run_placement(settings, jobs=given.jobs, dask=given.dask, progress=open_bar("placement"))
    except (BadInput, ClusterError, PlanError) as error:
        print(f"placement: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("placement: stopped", file=sys.stderr)
        return 130
    found = claims(result)
    files, figures = write_files(result, found, given.out)
    page = write_placement_report(given.out / "report.html", result, found, figures)
    output.data(result.as_data())
    output.table(list(POINT_COLUMNS), [list(row) for row in point_rows(result)])
    output.table(list(CALIBRATION_COLUMNS), [list(row) for row in calibration_rows(result)])
    output.table(list(CLAIM_COLUMNS), [list(row) for row in claim_rows(found)])
    output.note(f"wrote {', '.join(str(path) for path in [*files, page])}")
    output.note(f"{time.monotonic() - began:.0f} s")
    return 0 if all(claim.holds for claim in found) else 1


if __name__ == "__main__":
    sys.exit(main())
