"""What studies that are not declared yet have in common: flags, errors, tables, pages."""

import argparse
import base64
import inspect
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from p4reduce.base.failures import EXIT_BAD_INPUT, EXIT_INTERRUPTED, exit_code
from p4reduce.base.output import Output, Report, progress_bar
from p4reduce.base.signals import handling, raise_exit_in_time
from p4reduce.group.errors import ClusterError
from p4reduce.views.report.curves import DRAWINGS, PAGE, PALETTE, Markup, bars, element, join, void
from p4reduce.views.report.curves import Bar as DrawnBar
from p4switch.base.files import write_text
from studies.before import Claim
from studies.placement.experiment import PlacementResult
from studies.placement.forecasts import forecast_points, inference_points
from studies.placement.knobs import knob_points
from studies.placement.learned import learn_points
from studies.placement.telemetry import telemetry_points

# What the scripts of the studies have in common: flags, errors, Ctrl-C, what is said at the end, the exit code.


# Flags of experiments' scripts, one for each field of their settings.


def flag(name: str) -> str:
    """``--share-seeds`` of the field ``share_seeds``."""
    return f"--{name.replace('_', '-')}"


def descriptions(settings: type) -> dict[str, str]:
    """What the docstring of the settings (numpydoc, Attributes) says of each field, for argparse."""
    found = {}
    for names, text in re.findall(r"^(\w[\w, ]*) : .*\n((?: {4}.*\n?)+)", inspect.getdoc(settings) or "", re.M):
        plain = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", " ".join(text.split())).replace("`", "")
        found.update(dict.fromkeys(names.split(", "), plain.replace("%", "%%")))
    return found


Result = TypeVar("Result")
OpenBar = Callable[[str], Report]


@dataclass(frozen=True)
class Told:
    """What is left of a study."""

    written: Sequence[Path]
    claims: Sequence[Claim]
    """what must hold: the exit code is 1 when something does not"""
    data: Any
    """for ``--json``"""
    figures: int = 0


def study_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """A parser with the flags of every study; ``name``: also the folder below out/."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="begin with the sample's parameters")
    made.add_argument("--jobs", type=int, default=-1, help="processes on this machine; -1: one for each core")
    made.add_argument("--dask", metavar="ADDRESS", help="of a Dask scheduler, instead of --jobs: tcp://host:8786")
    made.add_argument("--out", type=Path, default=Path(f"out/{name}"), help="folder for the results")
    made.add_argument("--json", action="store_true", help="print the result as JSON")
    return made


def study_main(
    name: str,
    given: argparse.Namespace,
    measure: Callable[[argparse.Namespace, OpenBar], Result],
    tell: Callable[[argparse.Namespace, Result, Output], Told],
) -> int:
    """Measure, then write and show it.

    Parameters
    ----------
    name : str
        Before every error.
    given : argparse.Namespace
        The flags.
    measure : function
        Gets the flags and what opens a progress bar. A wrong flag is an error of its own, before anything runs.
    tell : function
        Writes files, shows tables.

    Returns
    -------
    int
        0; 1 when something that must hold does not; 2 for bad input, or machines that do not answer; 130 at Ctrl-C.
    """
    output = Output(as_json=given.json)
    began = time.monotonic()
    try:
        ends = handling(raise_exit_in_time, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
        with ends, progress_bar(output) as open_bar:
            result = measure(given, open_bar)
    except KeyboardInterrupt:
        print(f"{name}: stopped", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        code = EXIT_BAD_INPUT if isinstance(error, ClusterError) else exit_code(error)
        if code is None:
            raise
        print(f"{name}: {error}", file=sys.stderr)
        return code
    told = tell(given, result, output)
    output.data(told.data)
    drawn = f" and {told.figures} figures" if told.figures else ""
    output.note(f"wrote {', '.join(str(path) for path in told.written)}{drawn}")
    output.note(f"{time.monotonic() - began:.0f} s")
    return 0 if all(claim.holds for claim in told.claims) else 1


def show_claims(claims: Sequence[Claim], output: Output) -> None:
    """A line for each."""
    for claim in claims:
        output.note(f"{'holds' if claim.holds else 'DOES NOT HOLD'}: {claim.text}: {claim.measured}")


# What pages of experiments have in common: the frame of a page, tables, figures, claims.


POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
IMAGE_STYLE: Final = (
    "img{max-width:100%;height:auto;background:#fff;border-radius:6px}"
    "@media(prefers-color-scheme:dark){img{filter:invert(.93) hue-rotate(180deg)}}"  # dark paper, the same hues
)


def page_of(title: str, *parts: Markup) -> str:
    """A page as text, which needs nothing from outside. The same parts give the same bytes."""
    head = element(
        "head",
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=POLICY),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(PALETTE + DRAWINGS + PAGE + IMAGE_STYLE)),
    )
    body = element("main", element("h1", title), *parts)
    return "<!doctype html>\n" + element("html", head, element("body", body), lang="en") + "\n"


def claims_table(claims: Iterable[Claim]) -> Markup:
    """What must hold, what was measured, and whether it does."""
    rows = [(claim.text, claim.measured, "yes" if claim.holds else "NO") for claim in claims]
    return table(("claim", "measured", "holds"), rows, plain=True)


def figures_of(figures: Mapping[str, Path], says: Mapping[str, str]) -> list[Markup]:
    """PNG files by name, each under what is said of it."""
    parts = []
    for name, path in figures.items():
        data = base64.b64encode(path.read_bytes()).decode()
        text = says.get(name, name)
        parts += [
            element("h2", text),
            element("div", void("img", src=f"data:image/png;base64,{data}", alt=text), class_="card"),
        ]
    return parts


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, plain: bool = False) -> Markup:
    """A table with a heading row; ``plain``: of texts, set flush left."""
    head = element("tr", *(element("th", column, scope="col") for column in columns))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    made = element("table", element("thead", head), element("tbody", join(body)), class_="plain" if plain else None)
    return element("div", made, class_="scroll")


# report.html of the placement experiment: one page, nothing from outside.


FIGURES: Final = {
    "policies": "Mean JCT of every policy over that of packed",
    "knobs": "Accuracy by bytes",
    "forecasts": "Errors of forecasts",
    "traces": "Readings and forecasts",
    "inference": "Inference beside training",
    "telemetry": "What reading counters or being told costs, and what tasks gain",
    "learning": "A policy that learns",
}
PLACEMENT_TITLE: Final = "Network-aware placement: completion times in a flow model held to packets"
CLAIM_COLUMNS: Final = ("bar", "found", "holds")
POINT_COLUMNS: Final = (
    "scenario", "load", "policy", "order", "back-filling", "mean JCT, s", "wait, s", "makespan, s", "slowdown",
    "in time", "racks",
)  # fmt: skip
KNOB_COLUMNS: Final = (
    "data", "knob", "accuracy, %", "bytes", "busiest link", "time", "gradients a round", "seeds",
)  # fmt: skip
FORECAST_COLUMNS: Final = ("load", "method", "NRMSE", "least", "most", "seeds")
INFERENCE_COLUMNS: Final = (
    "servers", "requests/s a client", "queue", "p50, us", "p99, us", "p99 without training, us", "ratio", "worst seed",
    "training",
)  # fmt: skip
LEARN_COLUMNS: Final = ("cluster", "policy", "mean JCT, s", "best training", "worst training", "trainings", "seeds")
TELEMETRY_COLUMNS: Final = (
    "bursts, s", "known by", "every, s", "threshold", "P4Runtime, B/s", "core, %", "links told/s", "age, s",
    "mean JCT, ms", "over oracle", "worst seed",
)  # fmt: skip
CALIBRATION_COLUMNS: Final = ("point", "packets, us", "model, us", "error, %")


def claim_rows(claims: Sequence[Claim]) -> list[tuple[str, ...]]:
    """In the order of ``CLAIM_COLUMNS``."""
    return [(claim.text, claim.measured, "yes" if claim.holds else "no") for claim in claims]


def point_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``POINT_COLUMNS``."""
    return [
        (
            point.scenario,
            f"{point.load:g}",
            point.policy,
            point.order,
            "yes" if point.backfill else "no",
            f"{point.jct_s:.0f} ± {point.deviation_s:.0f}",
            f"{point.wait_s:.0f}",
            f"{point.makespan_s:.0f}",
            f"{point.slowdown:.2f}",
            f"{100 * point.in_time:.1f} %",
            f"{point.racks:.2f}",
        )
        for point in result.points
    ]


def calibration_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``CALIBRATION_COLUMNS``."""
    return [
        (
            one.name,
            ", ".join(f"{1e6 * value:.1f}" for value in one.packets_s),
            ", ".join(f"{1e6 * value:.1f}" for value in one.model_s),
            ", ".join(f"{100 * value:+.1f}" for value in one.errors),
        )
        for one in result.calibrated
    ]


def knob_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``KNOB_COLUMNS``; bytes and time over those of float32."""
    return [
        (
            point.data,
            point.knob,
            f"{100 * point.accuracy:.2f} ± {100 * point.deviation:.2f}",
            f"{point.bytes:.3f}",
            f"{point.busiest:.3f}",
            f"{point.time:.3f}",
            f"{point.gradients:.2f}",
            str(point.seeds),
        )
        for point in knob_points(result.knobs)
    ]


def forecast_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``FORECAST_COLUMNS``."""
    return [
        (point.load, point.method, *(f"{x:.2f}" for x in (point.nrmse, point.least, point.most)), str(point.seeds))
        for point in forecast_points(result.forecasts)
    ]


def inference_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``INFERENCE_COLUMNS``."""
    return [
        (
            point.place,
            f"{point.rate_hz:g}",
            "by DSCP" if point.classes else "one for all",
            *(f"{value:.1f}" for value in (point.p50_us, point.p99_us, point.unloaded_p99_us)),
            *(f"{value:.3f}" for value in (point.ratio, point.worst, point.training)),
        )
        for point in inference_points(result.inference)
    ]


def telemetry_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``TELEMETRY_COLUMNS``; '-' where nothing is read, or not all readings are made."""
    return [
        (
            f"{point.burst_s:g}",
            point.knows,
            *(
                (
                    f"{point.interval_s:g}",
                    f"{point.threshold:g}",
                    f"{point.bytes_per_s:.0f}",
                    f"{100 * point.core:.1f}",
                    f"{point.told_per_s:.2f}" if point.told_per_s else "-",
                    f"{point.age_s:.3g}",
                )
                if point.knows in ("counters", "digests")
                else ("-",) * 6
            ),
            f"{1e3 * point.jct_s:.1f}",
            f"{point.ratio:.4f}",
            f"{point.worst:.4f}",
        )
        for point in telemetry_points(result.telemetry)
    ]


def learn_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``LEARN_COLUMNS``."""
    return [
        (
            point.scenario,
            point.policy,
            *(f"{value:.0f}" for value in (point.jct_s, point.best_s, point.worst_s)),
            str(point.trainings),
            str(point.seeds),
        )
        for point in learn_points(result.learned)
    ]


def tables(result: PlacementResult, claims: Sequence[Claim]) -> list[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Title, columns and rows of everything that was run."""
    found = [
        ("Bars", CLAIM_COLUMNS, claim_rows(claims)),
        ("Flow model against packets", CALIBRATION_COLUMNS, calibration_rows(result)),
        ("Sending less: accuracy beside bytes", KNOB_COLUMNS, knob_rows(result)),
        ("Forecasts of links' loads", FORECAST_COLUMNS, forecast_rows(result)),
        ("Inference beside training", INFERENCE_COLUMNS, inference_rows(result)),
        ("Telemetry: its price, and what it is worth", TELEMETRY_COLUMNS, telemetry_rows(result)),
        ("A learned policy on seeds and clusters that it has not seen", LEARN_COLUMNS, learn_rows(result)),
        ("All points", POINT_COLUMNS, point_rows(result)),
    ]
    return [(title, columns, rows) for title, columns, rows in found if rows]


def write_placement_report(
    path: Path, result: PlacementResult, claims: Sequence[Claim], figures: Mapping[str, Path]
) -> Path:
    """Write the page; ``figures`` are PNG files by name. Returns ``path``."""
    load = result.settings.loads[0]
    own = [point for point in result.points if (point.load, point.order, point.backfill) == (load, "fifo", True)]
    charts = []
    for name in dict.fromkeys(point.scenario for point in own):
        rows = [DrawnBar(point.policy, point.jct_s, f"{point.jct_s:.0f} s") for point in own if point.scenario == name]
        charts.append(element("figure", bars(name, rows), element("figcaption", f"{name}: mean JCT, load {load:g}")))
    rest = [one for one in tables(result, claims) if one[1] is not CLAIM_COLUMNS]
    page = page_of(
        PLACEMENT_TITLE,
        element("h2", "Bars"),
        claims_table(claims),
        *figures_of(figures, FIGURES),
        *(part for title, columns, rows in rest for part in (element("h2", title), table(columns, rows))),
        *([element("h2", "Policies")] if charts else []),
        *charts,
    )
    write_text(path, page)
    return path
