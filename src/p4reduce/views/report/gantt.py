"""Gantt charts of schedules: when jobs train and communicate, which circuits are lit, when ports are dark."""

from typing import Final

from p4reduce.control_plane.tdm.schedule import Schedule
from p4reduce.views.report.svg import Markup, element, picture

_LEFT: Final = 120.0
_WIDTH: Final = 640.0
_ROW: Final = 22.0
_TOP: Final = 34.0
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#333}.train{fill:#9db8d2}.send{fill:#d9822b}.lit{fill:#7fb77e}"
    ".dark{fill:#222}.grid{stroke:#ccc}"
)


def schedule_svg(schedule: Schedule) -> str:
    """One round: a row for each job (training, communication) and each pair of pods that is ever joined."""
    longest = max([schedule.round_s, *(cycle.period_s for cycle in schedule.cycles), 1e-12])
    scale = _WIDTH / longest
    parts: list[Markup] = []
    row = 0
    for plan in schedule.jobs:
        period = schedule.cycles[plan.cycle].period_s
        y = _TOP + row * _ROW
        parts.append(element("text", plan.job[:16], x=4, y=y + 14))
        for start, length, kind, said in (
            (plan.train_start_s, plan.train_s, "train", "trains"),
            (plan.start_s, plan.duration_s, "send", "communicates"),
        ):
            for begin, width in _wrapped(start, length, period):
                parts.append(_bar(begin, width, y, kind, scale, f"{plan.job} {said} for {1e3 * length:.3g} ms"))
        row += 1
    row += 1
    lit = [one for process in schedule.processes for one in process.configurations]
    pods = range(schedule.network.pods)
    pairs = [(i, j) for i in pods for j in pods if i < j and any(one.circuits[i][j] for one in lit)]
    for i, j in pairs:
        y = _TOP + row * _ROW
        parts.append(element("text", f"tor{i + 1} - tor{j + 1}", x=4, y=y + 14))
        for place, one in enumerate(lit):
            before = lit[place - 1].circuits if len(lit) > 1 else one.circuits
            dark = schedule.network.delta_s if one.circuits[i][j] != before[i][j] else 0.0
            if dark:
                parts.append(_bar(one.start_s, dark, y, "dark", scale, "dark"))
            if one.circuits[i][j]:
                said = f"{one.circuits[i][j]} circuits"
                parts.append(_bar(one.start_s + dark, one.duration_s - dark, y, "lit", scale, said))
        row += 1
    height = _TOP + row * _ROW + 30
    for tick in range(6):
        at = _LEFT + _WIDTH * tick / 5
        parts.insert(0, element("line", x1=at, x2=at, y1=_TOP - 6, y2=height - 24, class_="grid"))
        parts.append(element("text", f"{1e3 * longest * tick / 5:.3g} ms", x=at - 14, y=height - 8))
    parts.append(element("text", f"{schedule.policy}: round of {1e3 * schedule.round_s:.4g} ms", x=4, y=18))
    description = "Rows are jobs (blue: training, orange: communication), then pairs of pods (green: lit, black: dark)."
    title = f"Schedule of {len(schedule.jobs)} jobs"
    return picture(_LEFT + _WIDTH + 40, height, *parts, title=title, description=description, style=_STYLE)


def _wrapped(start: float, length: float, period: float) -> list[tuple[float, float]]:
    """An interval within one period: what goes beyond its end begins again at 0."""
    if period <= 0 or length <= 0:
        return []
    start, length = start % period, min(length, period)
    if start + length <= period * (1 + 1e-9):
        return [(start, length)]
    return [(start, period - start), (0.0, start + length - period)]


def _bar(start: float, length: float, y: float, kind: str, scale: float, said: str) -> Markup:
    width = max(0.75, length * scale)
    title = element("title", said)
    return element("rect", title, x=_LEFT + start * scale, y=y, width=width, height=_ROW - 6, class_=kind)
