"""Names on a map that cover neither each other nor the nodes."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from p4reduce.cli.report.layout import Point

Box: TypeAlias = tuple[float, float, float, float]
"""left, top, right, bottom"""
Boxes: TypeAlias = list[Box]

CHARACTER: Final = 6.0
"""width of one at 10.5 pixels, rather too much than too little"""
ABOVE, BELOW = 8.5, 2.5
"""of a line of text, from the line that it stands on"""
_DISTANCES: Final = (8.0, 14.0, 22.0)


def label_places(names: Sequence[str], at: Mapping[str, Point], taken: Boxes, size: Point) -> dict[str, Point]:
    """Where the text of each name begins, near ``at[name]`` and inside of ``size``; the first have the choice.

    Names for which there is no room are left out.
    """
    used = list(taken)
    found = {}
    for name in names:
        for x, y in _candidates(name, *at[name]):
            box = label_box(name, (x, y))
            inside = box[0] >= 0 and box[1] >= 0 and box[2] <= size[0] and box[3] <= size[1]
            if inside and not any(_overlap(box, other) for other in used):
                used.append(box)
                found[name] = (x, y)
                break
    return found


def label_box(name: str, start: Point) -> Box:
    """What a name that begins at ``start`` covers."""
    x, y = start
    return (x, y - ABOVE, x + CHARACTER * len(name), y + BELOW)


def _candidates(name: str, x: float, y: float) -> list[Point]:
    """Right of the node above all, then left, above and below; farther away when it is crowded."""
    wide = CHARACTER * len(name)
    return [
        place
        for away in _DISTANCES
        for place in (
            (x + away, y - away + 1),
            (x + away, y + 3),
            (x + away, y + away + 4),
            (x - away - wide, y - away + 1),
            (x - away - wide, y + 3),
            (x - away - wide, y + away + 4),
            (x - wide / 2, y - away - 2),
            (x - wide / 2, y + away + 8),
        )
    ]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
