"""The study of priorities on packets: jobs that share links, under every priority policy.

    python -m studies.priorities --out out/priorities                      all of it (make priorities)
    python -m studies.priorities --quick --out out/priorities-quick        a sample (make priorities-quick)
    python -m studies.priorities --phis 0.2,0.4 --policies fifo,random --seeds 0..9
    python -m studies.priorities --dask tcp://scheduler:8786               over the machines of a Dask cluster

Writes runs.csv (a row for each job), points.csv, rounds.csv, stale.csv, layers.csv, learning.csv, result.json, figures/
and report.html. The exit code is 1 when something that must hold does not.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, get_type_hints

from p4reduce.base.output import Output
from p4reduce.cli.lists import floats, integers, texts
from studies.pages import (
    COLUMNS,
    OpenBar,
    Told,
    descriptions,
    flag,
    point_cells,
    show_claims,
    study_main,
    study_parser,
    write_priorities_report,
)
from studies.priorities.figures import write_files
from studies.priorities.study import StudyResult, run_study
from studies.priorities.units import QUICK, StudySettings

_LISTS: Final[Mapping[Any, tuple[Callable[[str, str], Sequence[Any]], str]]] = {
    tuple[int, ...]: (integers, "3,6,9 or 0..4"),
    tuple[float, ...]: (floats, "0,0.5"),
    tuple[str, ...]: (texts, "A,B"),
}
"""How a list is read, by the type of its field; 'none': nothing."""
_SHOWN: Final = ("part", "policy", "told by", "phi", "time / alone", "worst job", "Jain", "sent again")


def parser() -> argparse.ArgumentParser:
    """Every field of the settings as a flag; what is absent is as in ``make priorities``, or in the sample."""
    made = study_parser("priorities", __doc__)
    told = descriptions(StudySettings)
    for name, kind in get_type_hints(StudySettings).items():
        listed = _LISTS.get(kind)
        if listed is None:
            made.add_argument(flag(name), type=kind, help=told[name])
        else:
            made.add_argument(flag(name), metavar=listed[1], help=told[name])
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


def measure(given: argparse.Namespace, open_bar: OpenBar) -> StudyResult:
    """All that the flags ask for."""
    return run_study(settings_of(given), jobs=given.jobs, dask=given.dask, progress=open_bar("priorities"))


def tell(given: argparse.Namespace, result: StudyResult, output: Output) -> Told:
    """Write and show it."""
    files, figures = write_files(result, given.out)
    page = write_priorities_report(given.out / "report.html", result, figures)
    places = [COLUMNS.index(name) for name in _SHOWN]
    output.table(list(_SHOWN), [[point_cells(point)[place] for place in places] for point in result.points])
    show_claims(result.claims, output)
    return Told([*files, page], result.claims, result.as_data(), len(figures))


def main(arguments: list[str] | None = None) -> int:
    """Run it; the exit code."""
    return study_main("priorities", parser().parse_args(arguments), measure, tell)


if __name__ == "__main__":
    sys.exit(main())
