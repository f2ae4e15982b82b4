"""The figures of the study."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from studies.frame import save_all, title, write_table
from studies.priorities.study import StudyResult
from studies.priorities.units import LayerRow, LearningRow, Point, RoundRow, Row, StaleRow

STYLES: Final = {
    "fifo": ("#4d4d4d", "s", "-"),
    "fair": ("#7a5c00", "D", ":"),
    "pull-push": ("#8c1d1d", "v", "--"),
    "batch": ("#4b3f9e", "^", "--"),
    "random": ("#0060a0", "X", "-"),
    "sjf": ("#00785a", "o", "-"),
    "cassini": ("#b65000", "P", ":"),
    "aalo": ("#a0457e", "<", "--"),
    "srpt": ("#2f6f8f", "*", ":"),
    "slack": ("#5b5b5b", ">", ":"),
    "mltcp": ("#c07000", "d", "--"),
    "reversed": ("#8c1d1d", "v", "-"),
    "intensity": ("#4b3f9e", "^", "-"),
}
"""colour, marker, line: after Okabe and Ito, told apart without colour too"""
_OTHER: Final = ("#000000", ".", "-")
SIZE_COLOURS: Final = ("#0060a0", "#00785a", "#b65000", "#8c1d1d", "#4b3f9e", "#7a5c00", "#a0457e", "#5b5b5b")


def draw_all(result: StudyResult, folder: Path) -> dict[str, Path]:
    """Draw every figure that the result has data for, as PNG and SVG; PNG files by name."""
    makers: dict[str, Callable[[StudyResult], Figure | None]] = {
        "load": _load,
        "interleaving": _interleaving,
        "sizes": _sizes,
        "prediction": _prediction,
        "queues": _queues,
        "resends": _resends,
        "fairness": _fairness,
        "stale": _stale,
        "layers": _layers,
        "learning": _learning,
    }
    return save_all(((name, make(result)) for name, make in makers.items()), folder)


def _of(result: StudyResult, part: str) -> list[Point]:
    return [one for one in result.points if one.part == part]


def _load(result: StudyResult) -> Figure | None:
    found = _of(result, "load")
    if not found:
        return None
    figure = Figure(figsize=(10, 4.6))
    for place, (heading, value) in enumerate((("mean of the jobs", "mean"), ("worst job", "worst"))):
        axis = figure.add_subplot(1, 2, place + 1)
        for policy in dict.fromkeys(one.policy for one in found):
            own = sorted((one for one in found if one.policy == policy), key=lambda one: one.phi)
            _line(axis, policy, [one.phi for one in own], [getattr(one, value) for one in own])
        axis.axhline(1, color="black", linewidth=0.6)
        axis.set_xlabel("phi: communication / round, alone")
        axis.set_ylabel("time / alone")
        axis.set_title(heading)
    _legend(figure, "Four identical jobs over one uplink: completion time by load and policy")
    return figure


def _interleaving(result: StudyResult) -> Figure | None:
    if not result.rounds:
        return None
    policies = list(dict.fromkeys(row.policy for row in result.rounds))
    figure = Figure(figsize=(3.4 * len(policies), 3.2))
    for place, policy in enumerate(policies):
        axis = figure.add_subplot(1, len(policies), place + 1)
        for job in sorted({row.job for row in result.rounds}):
            own = [row for row in result.rounds if (row.policy, row.job) == (policy, job)]
            values = [row.took_ps / row.alone_ps for row in own]
            axis.plot([row.round + 1 for row in own], values, marker="os"[job % 2], color=SIZE_COLOURS[3 * job % 8],
                      label=f"job {job}")  # fmt: skip
        axis.set_ylim(0.9, 1.9)
        axis.set_xlabel("round")
        axis.set_title(policy)
    figure.axes[0].set_ylabel("round / alone")
    figure.axes[0].legend()
    title(figure, "Two identical jobs: in lock-step, or falling into interleaving")
    figure.tight_layout()
    return figure


def _sizes(result: StudyResult) -> Figure | None:
    rows = [row for row in result.rows if row.part == "sizes"]
    if not rows:
        return None
    ways = list(dict.fromkeys((row.policy, row.knowledge) for row in rows))
    means = {(one.policy, one.knowledge): one.mean for one in _of(result, "sizes")}
    ways.sort(key=lambda way: means[way])
    sizes = sorted({row.size for row in rows})
    figure = Figure(figsize=(10, 4))
    axis = figure.add_subplot()
    width = 0.8 / len(sizes)
    for number, size in enumerate(sizes):
        heights = [_mean([row.slowdown for row in rows if (row.policy, row.knowledge, row.size) == (*way, size)])
                   for way in ways]  # fmt: skip
        places = [place + (number - (len(sizes) - 1) / 2) * width for place in range(len(ways))]
        axis.bar(places, heights, width, color=SIZE_COLOURS[number % 8], label=f"size {size}")
    axis.plot(range(len(ways)), [means[way] for way in ways], "k_", markersize=22, label="mean")
    labels = [policy if told == "oracle" else f"{policy}, {told}" for policy, told in ways]
    axis.set_xticks(range(len(ways)), labels, rotation=25, ha="right")
    axis.axhline(1, color="black", linewidth=0.6)
    axis.set_ylabel("time / alone")
    axis.legend(ncols=len(sizes) + 1)
    title(figure, f"Unequal jobs ({rows[0].sizes}) at phi {rows[0].phi:g}: which order decides")
    figure.tight_layout()
    return figure


def _prediction(result: StudyResult) -> Figure | None:
    jitters, latencies = _of(result, "jitter"), _of(result, "latency")
    if not jitters and not latencies:
        return None
    figure = Figure(figsize=(10, 3.4))
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    places = [100 * one.jitter for one in jitters]
    left.plot(places, [100 * (one.median_error or 0) for one in jitters], "o-", color="#0060a0", label="median")
    left.plot(places, [100 * (one.p95_error or 0) for one in jitters], "s--", color="#b65000", label="95th percentile")
    left.set_xlabel("jitter of computing times, %")
    left.set_ylabel("error of the predicted start, % of a period")
    left.legend()
    names = [one.latency for one in latencies]
    right.plot(names, [100 * (one.in_time or 0) for one in latencies], "o-", color="#0060a0", label="in time, %")
    right.plot(names, [100 * (one.mean - 1) for one in latencies], "s--", color="#b65000", label="slower than alone, %")
    right.set_xlabel("control latency")
    right.legend()
    title(
        figure, "Predicted from the switches' counters: error by jitter; classes in time, and time, by control latency"
    )
    figure.tight_layout()
    return figure


def _queues(result: StudyResult) -> Figure | None:
    found = sorted(_of(result, "queues"), key=lambda one: one.queues)
    if not found:
        return None
    figure = Figure(figsize=(6, 3.4))
    axis = figure.add_subplot()
    for name, colour, marker in (("mean", "#0060a0", "o"), ("worst", "#b65000", "s")):
        values = [getattr(one, name) for one in found]
        axis.plot([one.queues for one in found], values, color=colour, marker=marker, label=name)
    axis.set_xlabel("queues for jobs (one more for tiny frames, one for plain IPv4)")
    axis.set_ylabel("time / alone")
    axis.legend()
    count = len(found[0].sizes.split(":"))
    title(figure, f"{count} identical jobs, phi {found[0].phi:g}: how many queues a distinct order needs")
    figure.tight_layout()
    return figure


def _resends(result: StudyResult) -> Figure | None:
    rows = [row for row in result.rows if row.part == "sizes"]
    if not rows:
        return None
    ways = list(dict.fromkeys((row.policy, row.knowledge) for row in rows))
    classes = sorted({row.priority for row in rows}, reverse=True)
    figure = Figure(figsize=(10, 3.8))
    axis = figure.add_subplot()
    width = 0.8 / len(classes)
    for number, value in enumerate(classes):
        heights = []
        for way in ways:
            own = [row for row in rows if (row.policy, row.knowledge, row.priority) == (*way, value)]
            heights.append(100 * sum(row.resends for row in own) / max(1, sum(row.frames for row in own)))
        places = [place + (number - (len(classes) - 1) / 2) * width for place in range(len(ways))]
        axis.bar(places, heights, width, color=SIZE_COLOURS[number % 8], label=f"class {value}")
    labels = [policy if told == "oracle" else f"{policy}, {told}" for policy, told in ways]
    axis.set_xticks(range(len(ways)), labels, rotation=25, ha="right")
    axis.set_ylabel("frames sent again, %")
    axis.legend(ncols=3)
    title(figure, "Frames sent again, by the class that a job had at the end")
    figure.tight_layout()
    return figure


def _fairness(result: StudyResult) -> Figure | None:
    shown = [one for one in result.points if one.part in ("load", "sizes", "rotation")]
    if not shown:
        return None
    figure = Figure(figsize=(7, 4.4))
    axis = figure.add_subplot()
    for part, marker in (("load", "o"), ("sizes", "s"), ("rotation", "*")):
        own = [one for one in shown if one.part == part]
        colours = [STYLES.get(one.policy, _OTHER)[0] for one in own]
        axis.scatter([one.jain for one in own], [one.worst for one in own], c=colours, marker=marker, s=34, label=part)
        if part == "rotation":
            for one in own:
                text = f"every {one.rotate_rounds}" if one.rotate_rounds else "never"
                axis.annotate(text, (one.jain, one.worst), fontsize=7, xytext=(4, 4), textcoords="offset points")
    for policy in dict.fromkeys(one.policy for one in shown):
        axis.plot([], [], "o", color=STYLES.get(policy, _OTHER)[0], label=policy)
    axis.set_xlabel("Jain's index of 1 / slowdown, lowest of the seeds")
    axis.set_ylabel("worst job, time / alone")
    axis.legend(fontsize=7, ncols=2, loc="upper center")
    title(figure, "Who starves: the worst job and Jain's index of every policy; an order rotated every so many rounds")
    figure.tight_layout()
    return figure


def _stale(result: StudyResult) -> Figure | None:
    if not result.stale:
        return None
    bounds = sorted({row.staleness for row in result.stale})
    figure = Figure(figsize=(4.2 * len(bounds), 3.4))
    for place, bound in enumerate(bounds):
        axis = figure.add_subplot(1, len(bounds), place + 1)
        own = [row for row in result.stale if row.staleness == bound]
        least = min(row.took_ps for row in own)
        for number, order in enumerate(dict.fromkeys(row.order for row in own)):
            stragglers = sorted({row.straggler for row in own})
            took = [_mean([row.took_ps for row in own if (row.straggler, row.order) == (one, order)]) / least
                    for one in stragglers]  # fmt: skip
            axis.plot(stragglers, took, marker="sovX"[number % 4], color=SIZE_COLOURS[number], label=order)
        axis.set_xlabel("straggler computes longer by")
        axis.set_title(f"SSP({bound})")
    figure.axes[0].set_ylabel("time / shortest")
    figure.axes[0].legend()
    title(figure, "Stale-synchronous: 8 workers behind one uplink, oldest batch first or first come, first served")
    figure.tight_layout()
    return figure


def _layers(result: StudyResult) -> Figure | None:
    if not result.layers:
        return None
    ratios = sorted({row.ratio for row in result.layers})
    figure = Figure(figsize=(3.6 * len(ratios), 3.4))
    for place, ratio in enumerate(ratios):
        axis = figure.add_subplot(1, len(ratios), place + 1)
        for number, model in enumerate(dict.fromkeys(row.model for row in result.layers)):
            own = [row for row in result.layers if (row.model, row.ratio) == (model, ratio)]
            channels, times = [row.channels for row in own], [row.over_bound for row in own]
            axis.plot(channels, times, marker="sovX"[number % 4], color=SIZE_COLOURS[number], label=model)
        axis.set_xlabel("channels")
        axis.set_title(f"communication / computation {ratio:g}")
    figure.axes[0].set_ylabel("iteration / bound")
    figure.axes[0].legend()
    title(figure, "Layers overlapped with computing, urgent ones first; one channel: first come, first served")
    figure.tight_layout()
    return figure


def _learning(result: StudyResult) -> Figure | None:
    if not result.learning:
        return None
    stragglers = sorted({row.straggler for row in result.learning})
    figure = Figure(figsize=(4.2 * len(stragglers), 3.4))
    for place, straggler in enumerate(stragglers):
        axis = figure.add_subplot(1, len(stragglers), place + 1)
        own = [row for row in result.learning if row.straggler == straggler and row.seed == result.settings.seeds[0]]
        for number, bound in enumerate(dict.fromkeys(row.staleness for row in own)):
            label = {0: "all wait", -1: "nobody waits"}.get(bound, f"SSP({bound})")
            rows = [row for row in own if row.staleness == bound]
            axis.plot([row.at_ps / 1e9 for row in rows], [row.accuracy for row in rows], color=SIZE_COLOURS[number],
                      marker="sovX"[number % 4], markersize=3, label=label)  # fmt: skip
        axis.set_xlabel("virtual time, ms")
        axis.set_title(f"straggler x {straggler:g}")
    figure.axes[0].set_ylabel("accuracy on test images")
    figure.axes[0].legend()
    title(figure, "The digits, plain SGD at a parameter server that waits for all, for some rounds, or not")
    figure.tight_layout()
    return figure


def _line(axis: Any, policy: str, x: Sequence[float], y: Sequence[float]) -> None:
    colour, marker, line = STYLES.get(policy, _OTHER)
    axis.plot(x, y, color=colour, marker=marker, linestyle=line, markersize=4, linewidth=1.2, label=policy)


def _legend(figure: Figure, text: str) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    title(figure, text)
    figure.legend(handles, labels, loc="lower center", ncols=min(6, len(labels)))
    figure.tight_layout(rect=(0, 0.14, 1, 1))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


# What the study leaves behind: raw rows, points, the result with its provenance, figures.


def write_files(result: StudyResult, folder: Path) -> tuple[list[Path], dict[str, Path]]:
    """Write tables as CSV, result.json and figures/ into a folder; the files, and figures (PNG) by name."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = [
        write_table(folder / "runs.csv", Row, result.rows),
        write_table(folder / "points.csv", Point, result.points),
        write_table(folder / "rounds.csv", RoundRow, result.rounds),
    ]
    if result.stale:
        tables.append(write_table(folder / "stale.csv", StaleRow, result.stale))
    if result.layers:
        tables.append(write_table(folder / "layers.csv", LayerRow, result.layers))
    if result.learning:
        tables.append(write_table(folder / "learning.csv", LearningRow, result.learning))
    data = folder / "result.json"
    data.write_text(json.dumps(result.as_data(), indent=1, sort_keys=True, default=str) + "\n", "utf-8")
    return [*tables, data], draw_all(result, folder / "figures")
