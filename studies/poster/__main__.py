"""The poster's experiment on packets: AI tasks under every scheduling policy.

    python -m studies.poster --out out/poster                       all of it (make poster)
    python -m studies.poster --quick --out out/poster-quick         a sample (make poster-quick)
    python -m studies.poster --scenarios germany50 --sizes 3,15 --seeds 0..4 --policies spff,steiner
    python -m studies.poster --dask tcp://scheduler:8786            over the machines of a Dask cluster

Writes runs.csv (a row for each task), points.csv, sensitivity.csv, weights.csv, selection.csv, swaps.csv,
overlapping.csv, rings.csv, result.json, figures/ and report.html. The
exit code is 1 when something that must hold does not.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast, get_type_hints

from p4reduce.base.errors import BadInput
from p4reduce.base.output import Output
from p4reduce.cli.lists import floats, integers, texts
from p4reduce.control_plane.scheduling.view import POLICIES
from studies.before_pages import OpenBar, Told, descriptions, flag, show_claims, study_main, study_parser
from studies.poster.experiment import PosterResult, run_poster
from studies.poster.figures import write_files
from studies.poster.page import (
    HEADLINE_COLUMNS,
    RING_COLUMNS,
    SENSITIVITY_COLUMNS,
    WEIGHT_COLUMNS,
    failing_rates,
    headline_rows,
    ring_rows,
    sensitivity_rows,
    weight_rows,
    write_poster_report,
)
from studies.poster.settings import EXPLAINING, QUICK, SCENARIOS, PosterSettings, Scenario


def parser() -> argparse.ArgumentParser:
    """Every field of the settings as a flag; what is absent is as in ``make poster``, with --quick as in the sample."""
    made = study_parser("poster", __doc__)
    told = descriptions(PosterSettings)
    for name, kind in get_type_hints(PosterSettings).items():
        more = _MORE.get(name, {})
        metavar = None if kind in _SCALARS or "metavar" in more else _LISTS[kind][1]
        made.add_argument(
            flag(name),
            type=kind if kind in _SCALARS else str,
            **cast(dict[str, Any], {**({"metavar": metavar} if metavar else {}), "help": told[name], **more}),
        )
    made.add_argument(
        "--scenario",
        action="append",
        metavar="NAME=TOPOLOGY[@LOAD[:QUEUE]]",
        help="a network of your own, for example metro=wan:graph=nobel-us,hosts=2,rate=40G@0.2; may be repeated; with "
        "@0.2:7 tasks leave switches by queue 7, before the background traffic",
    )
    return made


def settings_of(given: argparse.Namespace) -> PosterSettings:
    """The settings that the flags ask for. Raises ``BadInput`` and ``ClusterError``, which name the flag or field."""
    changes: dict[str, Any] = {}
    for name, kind in get_type_hints(PosterSettings).items():
        value = getattr(given, name)
        if kind in _SCALARS and value is not None:
            changes[name] = value
        elif kind not in _SCALARS and value:
            changes[name] = () if value == "none" else tuple(_LISTS[kind][0](value, flag(name)))
    if given.scenario:
        changes["scenarios"] = (*changes.get("scenarios", ()), *map(_scenario, given.scenario))
    if unknown := [name for name in changes.get("policies", ()) if name not in POLICIES]:
        raise BadInput(f"--policies: {unknown[0]!r} is none of {', '.join(sorted(POLICIES))}")
    return replace(QUICK if given.quick else PosterSettings(), **changes)


def _known(text: str, flag: str) -> list[Scenario]:
    named = texts(text, flag)
    if unknown := [name for name in named if name not in SCENARIOS]:
        raise BadInput(f"{flag}: {unknown[0]!r} is none of {', '.join(SCENARIOS)}; use --scenario for your own")
    return [SCENARIOS[name] for name in named]


def _lossy(text: str, flag: str) -> list[tuple[str, float]]:
    parts = [part.partition("@") for part in texts(text, flag)]
    return [(name, floats(loss, flag)[0] if loss else 0.0) for name, _, loss in parts]


_SCALARS: Final = (int, float, str)
_LISTS: Final[Mapping[Any, tuple[Callable[[str, str], Sequence[Any]], str]]] = {
    tuple[int, ...]: (integers, "3,6,9 or 0..4"),
    tuple[float, ...]: (floats, "0,0.5"),
    tuple[str, ...]: (texts, "A,B"),
    tuple[tuple[str, float], ...]: (_lossy, "NAME[@LOSS],.."),
    tuple[Scenario, ...]: (_known, "NAME,.."),
}
"""How a list is read, by the type of its field; 'none': nothing."""
_MORE: Final[Mapping[str, Mapping[str, Any]]] = {
    "scenarios": {"help": f"networks: {','.join(SCENARIOS)}"},
    "policies": {"help": f"of {','.join(sorted(POLICIES))}; spff is always needed"},
    "ablation_seeds": {"help": f"seeds for {', '.join(EXPLAINING)}"},
    "lanes": {"choices": (64, 256)},
}
"""What a field's type and description do not say."""


def _scenario(text: str) -> Scenario:
    name, equals, rest = text.partition("=")
    topology, _, traffic = rest.partition("@")
    load, colon, queue = traffic.partition(":")
    if not equals or not topology:
        raise BadInput(f"--scenario: {text!r} is not NAME=TOPOLOGY[@LOAD[:QUEUE]]")
    try:
        share = float(load) if load else 0.0
    except ValueError:
        raise BadInput(f"--scenario: load {load!r} is no number") from None
    if colon and queue not in {str(number) for number in range(1, 8)}:
        raise BadInput(f"--scenario: queue {queue!r} is none of 1..7")
    return Scenario(name, topology, share, int(queue) if colon else None, says=topology)


def show(result: PosterResult, output: Output) -> None:
    """The headline, the flow-level model's error, and what must hold."""
    output.table(list(HEADLINE_COLUMNS), [list(row) for row in headline_rows(result)])
    packets = [row for row, point in zip(sensitivity_rows(result), result.sensitivity, strict=True) if point.megabytes]
    if packets:
        output.table(list(SENSITIVITY_COLUMNS), [list(row) for row in packets])
    for text in failing_rates(result):
        output.note(text)
    if result.weights:
        output.table(list(WEIGHT_COLUMNS), [list(row) for row in weight_rows(result)])
    if result.rings:
        output.table(list(RING_COLUMNS), [list(row) for row in ring_rows(result)])
    for model in result.flow:
        output.note(
            f"flow-level model, {model.policy}: factor {model.factor:.4f}; error against packets of "
            f"{model.checked_elements:,} parameters: mean {100 * model.mean_error:.2f} %, worst "
            f"{100 * model.worst_error:.2f} %"
        )
    show_claims(result.claims, output)


def measure(given: argparse.Namespace, open_bar: OpenBar) -> PosterResult:
    """All that the flags ask for."""
    return run_poster(settings_of(given), jobs=given.jobs, dask=given.dask, progress=open_bar("poster"))


def tell(given: argparse.Namespace, result: PosterResult, output: Output) -> Told:
    """Write and show it."""
    files, figures = write_files(result, given.out)
    page = write_poster_report(given.out / "report.html", result, figures)
    show(result, output)
    return Told([*files, page], result.claims, result.as_data(), len(figures))


def main(arguments: list[str] | None = None) -> int:
    """Run it; the exit code."""
    return study_main("poster", parser().parse_args(arguments), measure, tell)


if __name__ == "__main__":
    sys.exit(main())
