"""The study of priorities on packets: jobs that share links, under every priority policy.

    python scripts/priorities.py --out out/priorities                      all of it (make priorities)
    python scripts/priorities.py --quick --out out/priorities-quick        a sample (make priorities-quick)
    python scripts/priorities.py --phis 0.2,0.4 --policies fifo,random --seeds 0..9
    python scripts/priorities.py --dask tcp://scheduler:8786               over the machines of a Dask cluster

Writes runs.csv (a row for each job), points.csv, rounds.csv, stale.csv, layers.csv, learning.csv, result.json, figures/
and report.html. The exit code is 1 when something that must hold does not.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, get_type_hints

from p4reduce.base.signals import handling, raise_exit
from p4reduce.cli.failures import BadInput
from p4reduce.cli.flags import descriptions, flag
from p4reduce.cli.lists import floats, integers, texts
from p4reduce.cli.output import Output
from p4reduce.cli.progress import progress_bar
from p4reduce.cli.report.priorities import COLUMNS, point_cells, write_priorities_report
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.errors import PlanError
from p4reduce.experiments.priorities.study.files import write_files
from p4reduce.experiments.priorities.study.settings import QUICK, StudySettings
from p4reduce.experiments.priorities.study.study import run_study
from p4reduce.topologies import TopologyError

_LISTS: Final[Mapping[Any, tuple[Callable[[str, str], Sequence[Any]], str]]] = {
    tuple[int, ...]: (integers, "3,6,9 or 0..4"),
    tuple[float, ...]: (floats, "0,0.5"),
    tuple[str, ...]: (texts, "A,B"),
}
"""How a list is read, by the type of its field; 'none': nothing."""
_SHOWN: Final = ("part", "policy", "told by", "phi", "time / alone", "worst job", "Jain", "sent again")


def parser() -> argparse.ArgumentParser:
    """Every field of the settings as a flag; what is absent is as in ``make priorities``, or in the sample."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="begin with the sample's parameters")
    told = descriptions(StudySettings)
    for name, kind in get_type_hints(StudySettings).items():
        listed = _LISTS.get(kind)
        if listed is None:
            made.add_argument(flag(name), type=kind, help=told[name])
        else:
            made.add_argument(flag(name), metavar=listed[1], help=told[name])
    made.add_argument("--jobs", type=int, default=-1, help="processes on this machine; -1: one for each core")
    made.add_argument("--dask", metavar="ADDRESS", help="of a Dask scheduler, instead of --jobs: tcp://host:8786")
    made.add_argument("--out", type=Path, default=Path("out/priorities"), help="folder for the results")
    made.add_argument("--json", action="store_true", help="print the result as JSON")
    return made


def settings_of(given: argparse.Namespace) -> StudySettings:
    """The settings that the flags ask for. Raises ``BadInput`` and ``ClusterError``, which name the flag or field."""
    changes: dict[str, Any] = {}
    for name, kind in get_type_hints(StudySettings).items():
        value = getattr(given, name)
        if value is None:
            continue
        if kind in _LISTS:
            value = () if value == "none" else tuple(_LISTS[kind][0](value, flag(name)))
        changes[name] = value
    return replace(QUICK if given.quick else StudySettings(), **changes)


def main(arguments: list[str] | None = None) -> int:
    """Run it; the exit code."""
    given = parser().parse_args(arguments)
    output = Output(as_json=given.json)
    began = time.monotonic()
    try:
        settings = settings_of(given)
        with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), progress_bar(output) as open_bar:
            result = run_study(settings, jobs=given.jobs, dask=given.dask, progress=open_bar("priorities"))
    except (BadInput, ClusterError, PlanError, TopologyError) as error:
        print(f"priorities: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("priorities: stopped", file=sys.stderr)
        return 130
    files, figures = write_files(result, given.out)
    page = write_priorities_report(given.out / "report.html", result, figures)
    output.data(result.as_data())
    places = [COLUMNS.index(name) for name in _SHOWN]
    output.table(list(_SHOWN), [[point_cells(point)[place] for place in places] for point in result.points])
    for claim in result.claims:
        output.note(f"{'holds' if claim.holds else 'DOES NOT HOLD'}: {claim.text}: {claim.measured}")
    output.note(f"wrote {', '.join(str(path) for path in [*files, page])} and {len(figures)} figures")
    output.note(f"{time.monotonic() - began:.0f} s")
    return 0 if all(claim.holds for claim in result.claims) else 1


if __name__ == "__main__":
    sys.exit(main())
