"""What pages of experiments have in common: the frame of a page, tables, figures, claims."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from p4reduce.cli.report.style import DRAWINGS, PAGE, PALETTE
from p4reduce.cli.report.svg import Markup, element, join, void
from p4reduce.experiments.claim import Claim

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
