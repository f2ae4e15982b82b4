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
from p4reduce.views.report.curves import DRAWINGS, PAGE, PALETTE, Markup, element, join, void
from studies.before import Claim

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
