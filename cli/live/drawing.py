"""A scene's drawing, made for whoever looks."""

from collections.abc import Mapping
from typing import Any, Final

from p4reduce.cli.report.network import Drawing, draw_inline
from p4reduce.cli.report.style import HALVINGS, load_colour

MAX_DRAWN: Final = 400
"""nodes of a topology that is still worth looking at"""
COLOURS: Final = 32


def drawn(plain: Mapping[str, Any]) -> dict[str, Any]:
    """A scene with its drawing as SVG (None: too large), made here whatever the scene came from, and the colours."""
    jobs = plain["jobs"]
    paths = list(dict.fromkeys(tuple(path) for one in jobs for path in one["paths"]))
    hosts = {node["name"] for node in plain["nodes"] if node["kind"] == "host"}
    taking = {name for path in paths for name in (path[0], path[-1]) if name in hosts}
    svg = None
    if 0 < len(plain["nodes"]) <= MAX_DRAWN:
        drawing = Drawing.of_result(
            {"nodes": plain["nodes"], "links": [{"a": one["from"], "b": one["to"]} for one in plain["links"][::2]]},
            title=f"Network {plain['topology']}",
            paths=paths,
            aggregators={name for one in jobs for name in one["switches"]},
            participants=taking if jobs else None,
            marked=True,
        )
        svg = str(draw_inline(drawing))
    return {**plain, "svg": svg, "colours": colours()}


def colours() -> list[dict[str, str]]:
    """Colours of loads from the least to the full scale, light and dark."""
    found = []
    for number in range(COLOURS):
        style = load_colour(2.0 ** (HALVINGS * ((number + 1) / COLOURS - 1)))
        light, dark = (part.partition(":")[2] for part in style.split(";"))
        found.append({"light": light, "dark": dark})
    return found
