"""Layers of known models over one or more channels, overlapped with computing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from p4reduce.control_plane.frames import frame_bytes, frame_time_ps
from p4reduce.experiments.priorities.layers import LayerDescription, run_layers
from p4reduce.experiments.priorities.study.settings import StudySettings

TOPOLOGY: Final = "star:hosts=4,rate=10G"
RATE_BPS: Final = 10_000_000_000


@dataclass(frozen=True)
class LayerUnit:
    """One model whose communication takes so many times as long as computing, over every number of channels."""

    settings: StudySettings
    model: str
    ratio: float


@dataclass(frozen=True)
class LayerRow:
    """One run: a line of layers.csv."""

    model: str
    ratio: float
    """communication (all frames of an iteration on a host's link) over computation"""
    channels: int
    """1: first come, first served"""
    iteration_ps: float
    over_bound: float
    """over the larger of communication and computation"""
    saved: float
    """1 - iteration / iteration with one channel"""
    resend_share: float


def layer_units(settings: StudySettings) -> list[LayerUnit]:
    """Every model at every ratio."""
    return [LayerUnit(settings, model, ratio) for model in settings.layer_models for ratio in settings.layer_ratios]


def run_layered(unit: LayerUnit) -> list[LayerRow]:
    """All numbers of channels, one first."""
    settings, found = unit.settings, list[LayerRow]()
    bare = LayerDescription(TOPOLOGY, unit.model, 1, scale=settings.layer_scale)
    chunks = sum(-(-size // bare.lanes) for size in bare.elements)
    communication = chunks * frame_time_ps(frame_bytes(bare.lanes), RATE_BPS)
    compute = round(communication / unit.ratio)
    for channels in sorted({1, *settings.layer_channels}):
        about = LayerDescription(TOPOLOGY, unit.model, compute, channels, scale=settings.layer_scale)
        result = run_layers(about)
        first = found[0].iteration_ps if found else result.iteration_ps
        found.append(
            LayerRow(
                unit.model,
                unit.ratio,
                channels,
                result.iteration_ps,
                result.iteration_ps / max(communication, compute),
                1 - result.iteration_ps / first,
                result.resend_share,
            )
        )
    return found


def saved_by(rows: Sequence[LayerRow], model: str, ratio: float, channels: int) -> LayerRow | None:
    """The run of a model at a ratio with so many channels; None: there was none."""
    wanted = (model, ratio, channels)
    return next((row for row in rows if (row.model, row.ratio, row.channels) == wanted), None)
