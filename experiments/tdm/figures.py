"""Figures of the study: sweeps at flow level, models against packets, gains and baselines on packets."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from p4reduce.experiments.drawing import save_all
from p4reduce.experiments.tdm.ecmp import EcmpRow
from p4reduce.experiments.tdm.study import Study
from p4reduce.experiments.tdm.sweeps import SweepRow

AXES: Final[dict[str, tuple[str, str, str]]] = {
    "ratio": ("communication over training, c/w", "round of no TDM over that of TDM", "log"),
    "ports": ("R, ports of a ToR", "round over that of TDM", "linear"),
    "rate": ("Gb/s", "round over that of TDM; throughput over alone", "log"),
    "sigma": ("sigma of log training time", "throughput of a job over that alone", "linear"),
    "delta": ("darkness, ms", "% of the round without darkness", "symlog"),
    "flows": ("flows on each edge", "ratio of rounds", "log"),
    "gpus": ("GPUs", "round over that of TDM; 1: laid on two planes", "log"),
    "trace": ("load", "mean JCT of exclusive over that of the policy", "linear"),
}
"""x, y, and how x is drawn"""
SAYS: Final = {
    "ratio": "Gain over no TDM by c/w, R = 2: nothing is gained where one of both is nothing.",
    "ports": "By ports of a ToR: sums need two; one topology and the source's system beside it.",
    "rate": "Known models by rate: at 400 Gb/s there is little to hide; unequal models are what pairs are for.",
    "sigma": "Unequal periods: two groups lose to free sharing, pairs do not.",
    "delta": "Darkness, hidden behind training or not; all-to-alls over eight pods take hops where that is quicker.",
    "flows": "OXC against ECMP: with many flows an edge the loss of hashing vanishes.",
    "gpus": "From 32 to 16,384 GPUs.",
    "trace": "Arrivals at 4,096 GPUs (Philly's durations): free sharing and pairs.",
    "model": "Formulas and the flow model against packets, schedule by schedule.",
    "packets": "On packets: rounds over that of TDM, and the electrical twin.",
}


def draw_all(study: Study, sweeps: Sequence[SweepRow], folder: Path) -> dict[str, Path]:
    """PNG files by name, with SVG beside them."""
    drawn: list[tuple[str, Figure | None]] = [("model", _model(study)), ("packets", _packets(study))]
    drawn += [(name, _sweep(name, [row for row in sweeps if row.sweep == name])) for name in AXES]
    return save_all(drawn, folder)


def _sweep(name: str, rows: Sequence[SweepRow]) -> Figure | None:
    """The mean of seeds, and their range."""
    if not rows:
        return None
    along, up, how = AXES[name]
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for number, series in enumerate(dict.fromkeys(row.series for row in rows)):
        own = [row for row in rows if row.series == series]
        places = sorted({row.x for row in own})
        values = [[row.value for row in own if row.x == x] for x in places]
        axes.plot(places, [statistics.fmean(one) for one in values], marker="osv^DPX*"[number % 8], label=series)
        axes.fill_between(places, [min(one) for one in values], [max(one) for one in values], alpha=0.15)
    axes.set_xscale(how, **({"linthresh": 0.02} if how == "symlog" else {}))
    axes.set_xlabel(along)
    axes.set_ylabel(up)
    axes.legend(fontsize=7)
    return figure


def _model(study: Study) -> Figure:
    """How far both models are off."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots()
    rows = [row for row in study.rows if not row.refused]
    axes.plot([100 * row.flow_error for row in rows], "o", markersize=3, label="flow model")
    places = [place for place, row in enumerate(rows) if row.model_s]
    errors = [100 * (rows[place].model_s / rows[place].round_s - 1) for place in places]
    axes.plot(places, errors, "x", markersize=4, label="formulas (1) to (3)")
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set_xlabel("schedules, in the order of rounds.csv")
    axes.set_ylabel("model over packets, % off")
    axes.legend(fontsize=7)
    return figure


def _packets(study: Study) -> Figure:
    """Rounds of every policy over those of TDM; ECMP over circuits by flows."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes: Any = figure.subplots(1, 2)
    labels, values = [], []
    for policy in ("no-tdm", "seed", "static"):
        for ports in (4, 2):
            ours = {row.seed: row.round_s for row in study.of("gain", policy="tdm", ports=ports, ratio=1.0)}
            own = [row for row in study.of("gain", policy=policy, ports=ports, ratio=1.0) if row.seed in ours]
            if own:
                labels.append(f"{policy}, R={ports}")
                values.append([row.round_s / ours[row.seed] for row in own])
    for place, one in enumerate(values):
        axes[0].plot(one, [place] * len(one), "o", markersize=4)
    axes[0].set_yticks(range(len(labels)), labels)
    axes[0].set_xlabel("round over that of TDM, c/w = 1")
    _twins(axes[1], study.ecmp)
    return figure


def _twins(axes: Any, rows: Sequence[EcmpRow]) -> None:
    for twin, polarized in dict.fromkeys((row.twin, row.polarized) for row in rows):
        own = [row for row in rows if (row.twin, row.polarized) == (twin, polarized)]
        flows = sorted({row.flows for row in own})
        means = [statistics.fmean(row.ratio for row in own if row.flows == count) for count in flows]
        axes.plot(flows, means, marker="o", label=f"{twin}{', polarized' if polarized else ''}")
    axes.set_xscale("log")
    axes.set_xlabel("flows an edge")
    axes.set_ylabel("ECMP over circuits, or alone")
    axes.legend(fontsize=7)
