"""Who did what when, as SVG: circuits, jobs and darkness, from what packets did."""

from collections.abc import Sequence
from html import escape
from typing import Final

from p4reduce.experiments.tdm.results import Played

_ROW, _LEFT, _WIDTH, _TOP = 22, 130, 900, 34
_COLOURS: Final = {"train": "#c9d3e3", "dark": "#20242b"}
_GROUPS: Final = ("#2f6fb0", "#d1782c", "#3f9162", "#8a5aa8")
_STYLE: Final = "font-family:system-ui,sans-serif;font-size:12px"


def gantt_svg(played: Played, groups: dict[str, int], *, title: str = "") -> str:
    """A row for the cross-connect, one for each job: light is training, colour communication, black darkness."""
    end = max((span.end_ps for span in played.spans), default=1)
    jobs = list(groups)
    height = _TOP + _ROW * (len(jobs) + 1) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" height="{height}" style="{_STYLE}">',
        f'<rect width="100%" height="100%" fill="#fff"/><text x="10" y="20">{escape(title or played.policy)}</text>',
    ]
    for row, name in enumerate(["circuits", *jobs]):
        parts.append(f'<text x="10" y="{_TOP + _ROW * row + 15}">{escape(name[:18])}</text>')
    places = {"": 0} | {name: row for row, name in enumerate(jobs, 1)}
    for window in played.windows:
        colour = _GROUPS[window.process % len(_GROUPS)]
        parts.append(_bar(window.start_ps, window.end_ps, end, 0, colour, f"process {window.process}", 0.35))
    for span in played.spans:
        colour = _COLOURS.get(span.what) or _GROUPS[groups.get(span.job, 0) % len(_GROUPS)]
        parts.append(_bar(span.start_ps, span.end_ps, end, places[span.job], colour, f"{span.job} {span.what}"))
    parts += _axis(end, height)
    return "\n".join([*parts, "</svg>", ""])


def _bar(start: int, stop: int, end: int, row: int, colour: str, says: str, opacity: float = 1.0) -> str:
    x, width = _LEFT + start * _WIDTH / end, max(0.5, (stop - start) * _WIDTH / end)
    times = f"{start / 1e6:.1f} to {stop / 1e6:.1f} us"
    return (
        f'<rect x="{x:.1f}" y="{_TOP + _ROW * row}" width="{width:.1f}" height="{_ROW - 5}" fill="{colour}" '
        f'fill-opacity="{opacity}"><title>{escape(says)}: {times}</title></rect>'
    )


def _axis(end: int, height: int) -> Sequence[str]:
    marks = []
    for step in range(6):
        x = _LEFT + step * _WIDTH / 5
        anchor = "end" if step == 5 else "middle"
        marks.append(
            f'<text x="{x:.0f}" y="{height - 14}" text-anchor="{anchor}">{end * step / 5 / 1e6:,.0f} us</text>'
        )
    return marks
