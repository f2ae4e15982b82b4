"""Elements of SVG and HTML as text. Everything that is not already ``Markup`` is escaped."""

import hashlib
import itertools
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

# Colours and type of the report, light and dark. All text keeps a contrast of at least 4.5 : 1 (WCAG 2.2 AA).


HALVINGS: Final = 5
"""from the full scale of loads down to the lightest colour; between them colours are continuous"""
SERIES: Final = 8
"""Classes ``series0`` .. ``series7``: after Okabe and Ito (2008), told apart by all kinds of colour vision."""

_LIGHT: Final = """
--paper:#ffffff;--card:#f7f8fa;--line:#d6dae1;--text:#1c2330;--soft:#566074;--accent:#1f5fbf;--on-accent:#ffffff;
--tree:#1f5fbf;--idle:#c9ced8;--bad:#b3261e;
--series0:#0060a0;--series1:#b65000;--series2:#00785a;--series3:#a0457e;--series4:#5b5b5b;--series5:#7a5c00;
--series6:#4b3f9e;--series7:#8c1d1d;"""
_DARK: Final = """
--paper:#12161d;--card:#1a2029;--line:#38414f;--text:#e8ecf2;--soft:#a7b0bf;--accent:#7db3ff;--on-accent:#0d1420;
--tree:#7db3ff;--idle:#434c5a;--bad:#ff8a80;
--series0:#6cb6ff;--series1:#ffab5e;--series2:#4fd0a5;--series3:#e796c8;--series4:#c5c9d0;--series5:#e0c34f;
--series6:#a99cff;--series7:#ff9a8f;"""

PALETTE: Final = f":root{{color-scheme:light dark;{_LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{_DARK}}}}}"

_LOADS: Final = (
    ".loaded{stroke:var(--light)}.keyed{fill:var(--light)}"
    "@media(prefers-color-scheme:dark){.loaded{stroke:var(--dark)}.keyed{fill:var(--dark)}}"
)
_DASHES: Final = ("none", "7 3", "2 3", "9 3 2 3", "5 2 1 2 1 2", "12 4", "4 4", "1 2")
_SERIES: Final = "".join(
    f".series{n}{{stroke:var(--series{n});stroke-dasharray:{_DASHES[n]}}}.bar{n}{{fill:var(--series{n})}}.name{n}{{fill:var(--series{n})}}"
    for n in range(SERIES)
)

_LOAD_STOPS: Final = (
    ("#e3b23c", "#e3913a", "#dc6e2c", "#c34722", "#98261f", "#5c0f1c"),
    ("#7d5a22", "#a9701f", "#d38a26", "#f0a843", "#ffc974", "#fff0cf"),
)
"""colours of loads, light and dark, one for each halving"""
_OF_PLAN: Final = {"steiner": 0, "mst": 1, "ring": 2, "spt": 3, "ps": 4, "overlay-mst": 1, "spff": 4, "exact": 2}
"""series of plans and policies that are known: the same colour in every picture of every report"""


def load_colour(share: float) -> str:
    """The style of what carries ``share`` (above 0, at most 1) of a full scale: continuous in its logarithm."""
    place = max(0.0, HALVINGS + math.log2(min(1.0, max(share, 2.0**-HALVINGS))))
    return ";".join(
        f"--{theme}:{_between(stops, place)}" for theme, stops in zip(("light", "dark"), _LOAD_STOPS, strict=True)
    )


def _between(stops: tuple[str, ...], place: float) -> str:
    low = min(int(place), len(stops) - 2)
    first, second = (tuple(bytes.fromhex(stop[1:])) for stop in stops[low : low + 2])
    mixed = (round(a + (b - a) * (place - low)) for a, b in zip(first, second, strict=True))
    return "#" + bytes(mixed).hex()


def series_of(names: Sequence[str]) -> list[int]:
    """The series, and so the colour, of each plan: its own where it is known and stands once, else one that is free."""
    plans = [name.split(",")[0] for name in names]
    found = [_OF_PLAN.get(plan) if plans.count(plan) == 1 else None for plan in plans]
    for place, one in enumerate(found):
        if one is not None and one in found[:place]:
            found[place] = None
    free = itertools.chain([n for n in range(SERIES) if n not in found], itertools.count(SERIES))
    return [next(free) % SERIES if one is None else one for one in found]


DRAWINGS: Final = f"""
svg text{{font-family:system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:12px;fill:var(--text)}}
svg .soft{{fill:var(--soft)}}svg .small{{font-size:10.5px}}svg .strong{{font-weight:600}}
.background{{fill:var(--paper)}}
.halo{{stroke:var(--paper);stroke-width:3px;stroke-linejoin:round;paint-order:stroke}}
.link{{fill:none;stroke-linecap:round}}.unloaded{{stroke:var(--idle)}}{_LOADS}
.tree{{fill:none;stroke:var(--tree);stroke-width:15;stroke-linecap:round;stroke-linejoin:round}}
.trees{{opacity:.22}}
.node{{fill:var(--paper);stroke:var(--soft);stroke-width:1.4}}
.node.aggregates{{fill:var(--accent);stroke:var(--accent)}}.node.incapable{{stroke-dasharray:3 2.5}}
.node.idle{{stroke:var(--idle)}}
svg text.on-accent{{fill:var(--on-accent);font-weight:600}}
.grid{{stroke:var(--line);stroke-width:1}}.axis{{stroke:var(--soft);stroke-width:1}}
.series{{fill:none;stroke-linejoin:round}}{_SERIES}
.bound{{stroke:var(--text);stroke-width:2}}.target{{stroke:var(--soft);stroke-width:1.2;stroke-dasharray:4 3}}
"""

PAGE: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--text);font:16px/1.5 system-ui,"Segoe UI",Roboto,sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .3rem}h2{font-size:1.25rem;margin:2.4rem 0 .5rem}
h3{font-size:1.02rem;margin:0 0 .1rem}p{margin:.35rem 0;max-width:75ch}.soft{color:var(--soft)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:.38rem .8rem .38rem 0;text-align:right;border-bottom:1px solid var(--line);vertical-align:bottom}
th:first-child,td:first-child{text-align:left}td:first-child{font-weight:600}td{white-space:nowrap}
thead th{color:var(--soft);font-weight:600}
.cards{display:grid;gap:18px;grid-template-columns:repeat(auto-fill,minmax(min(100%,520px),1fr))}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px;min-width:0}
.card p{font-size:.9rem}
svg{display:block;width:100%;height:auto}
.cards.one{grid-template-columns:1fr}.cards.three{grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr))}
.fault{border-left:4px solid var(--bad);padding:.3rem .8rem;margin:.8rem 0}
details{margin:.6rem 0}summary{cursor:pointer;font-weight:600}
code,.hash{font-family:ui-monospace,"SF Mono",Menlo,Consolas,monospace;font-size:.85em;overflow-wrap:anywhere}
.plain th,.plain td{text-align:left;vertical-align:top;white-space:normal}.plain td:first-child{font-weight:400}
@media print{.card{break-inside:avoid}}
"""


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *content: str, **attributes: object) -> Markup:
    """``<tag attributes>content</tag>``. Of attributes, ``class_`` means class and ``stroke_width`` stroke-width.

    Attributes that are None are left out; numbers are written with at most two decimals.
    """
    written = "".join(
        f' {_name(name)}="{escape(_value(value))}"' for name, value in attributes.items() if value is not None
    )
    inner = "".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in content)
    return Markup(f"<{tag}{written}>{inner}</{tag}>")


def void(tag: str, **attributes: object) -> Markup:
    """``<tag attributes>`` of HTML, which has no end."""
    text = element(tag, **attributes)
    return Markup(text.removesuffix(f"</{tag}>"))


def join(parts: Iterable[str]) -> Markup:
    """Several pieces one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in parts))


def picture(
    width: float, height: float, *content: str, title: str, description: str, style: str = "", inline: bool = True
) -> Markup:
    """A whole SVG, which screen readers know by its title and description. ``style`` makes it stand alone.

    inline: whether it may carry a style of its own, which strict pages forbid.
    """
    # From the content, so that the same page has the same bytes.
    number = hashlib.sha256(f"{title}\n{description}".encode()).hexdigest()[:12]
    labels = (
        element("title", title, id=f"title-{number}"),
        element("desc", description, id=f"desc-{number}"),
        *((element("style", Markup(style)),) if style else ()),
    )
    return element(
        "svg",
        *labels,
        *content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        width=width if style else None,
        height=height if style else None,
        role="img" if inline else "group",
        aria_labelledby=f"title-{number} desc-{number}",
        style=f"max-width:{_value(width)}px" if inline else None,
    )


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)
