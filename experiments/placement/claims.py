"""What the experiment must show, checked against its own figures: yes or no for each bar."""

import statistics
from collections.abc import Sequence
from typing import Final

from p4reduce.experiments.claim import Claim
from p4reduce.experiments.placement.calibration import Calibrated
from p4reduce.experiments.placement.experiment import PlacementResult, Point
from p4reduce.experiments.placement.inference import InferencePoint, inference_points
from p4reduce.experiments.placement.settings import (
    BACKGROUND_60,
    BACKGROUND_90,
    BOTH,
    CAPABLE,
    UNEVEN_OTHERS,
    UNIFORM,
)
from p4reduce.experiments.placement.telemetry import TelemetryPoint, is_swept, telemetry_points

AWARE: Final = "ina-aware"
BASELINE: Final = "packed"
WORST_ERROR: Final = 0.10
MEAN_ERROR: Final = 0.03
SAME: Final = 0.01
LOWER: Final = {
    BACKGROUND_60.name: 0.05,
    BACKGROUND_90.name: 0.15,
    CAPABLE.name: 0.08,
    BOTH.name: 0.20,
    **{scenario.name: 0.20 for scenario in UNEVEN_OTHERS},
}
"""by scenario, how far the mean JCT of 'ina-aware' must be below that of 'packed'"""
SCARCE_SLOTS: Final = 1.05
"""of the mean JCT with plenty of slots, with slots for two jobs a switch"""
SLOWER: Final = 1.2
"""of the 99th percentile of latencies without training, beside it, with a class of their own"""

ORACLE: Final = 1.01
"""of the completion times with an oracle, with counters that are read at some interval"""
CORE: Final = 0.05
"""of a core, that these readings take at most"""
_SWEEP: Final = 3
"""intervals at least, for something to be said of all"""


def claims(result: PlacementResult) -> list[Claim]:
    """Everything that can be said of what was run; what was not run is left out."""
    load = result.settings.loads[0]
    jct = {
        (point.scenario, point.policy): point.jct_s
        for point in result.points
        if (point.load, point.order, point.backfill) == (load, "fifo", True)
    }
    return [
        *_calibration(result.calibrated),
        *_uniform(result.points),
        *_uneven(jct),
        *_slots(jct),
        *_inference(inference_points(result.inference)),
        *_telemetry(telemetry_points(result.telemetry)),
    ]


def _calibration(calibrated: Sequence[Calibrated]) -> list[Claim]:
    if not calibrated:
        return []
    errors = [abs(error) for one in calibrated for error in one.errors]
    worst = max(calibrated, key=lambda one: one.error)
    return [
        Claim(
            f"flow model within {100 * WORST_ERROR:.0f} % of packets at every point",
            f"worst {100 * worst.error:.1f} % ({worst.name}), of {len(calibrated)} points",
            worst.error <= WORST_ERROR,
        ),
        Claim(
            f"flow model within {100 * MEAN_ERROR:.0f} % of packets on average",
            f"{100 * statistics.fmean(errors):.2f} %",
            statistics.fmean(errors) <= MEAN_ERROR,
        ),
    ]


def _uniform(points: Sequence[Point]) -> list[Claim]:
    made = []
    own = [point for point in points if (point.scenario, point.order, point.backfill) == (UNIFORM.name, "fifo", True)]
    for load in sorted({point.load for point in own}):
        jct = {point.policy: point.jct_s for point in own if point.load == load}
        if {AWARE, BASELINE} <= jct.keys():
            ratio = jct[AWARE] / jct[BASELINE]
            made.append(
                Claim(
                    f"uniform network, load {load:g}: {AWARE} no more than {100 * SAME:.0f} % above {BASELINE}",
                    f"{ratio:.4f} x",
                    ratio <= 1 + SAME,
                )
            )
    return made


def _uneven(jct: dict[tuple[str, str], float]) -> list[Claim]:
    made = []
    for scenario, least in LOWER.items():
        if (scenario, AWARE) in jct and (scenario, BASELINE) in jct:
            lower = 1 - jct[(scenario, AWARE)] / jct[(scenario, BASELINE)]
            made.append(
                Claim(
                    f"{scenario}: mean JCT of {AWARE} at least {100 * least:.0f} % below that of {BASELINE}",
                    f"{100 * lower:.1f} % below",
                    lower >= least,
                )
            )
    return made


def _slots(jct: dict[tuple[str, str], float]) -> list[Claim]:
    made = []
    for policy in (BASELINE, AWARE):
        plenty, scarce = jct.get((UNIFORM.name, policy)), jct.get(("slots for 2, value", policy))
        part = jct.get(("slots for 2, partial", policy))
        if plenty and scarce and part:
            made.append(
                Claim(
                    f"slots for two jobs a switch, by value, {policy}: at most {SCARCE_SLOTS} x the JCT of plenty",
                    f"{scarce / plenty:.3f} x (trees in part: {part / plenty:.2f} x)",
                    scarce <= SCARCE_SLOTS * plenty,
                )
            )
    return made


def _inference(points: Sequence[InferencePoint]) -> list[Claim]:
    """Requests with a class of their own; those in the queue of all stand beside them."""
    made = []
    for point in points:
        if point.classes:
            others = [one for one in points if (one.place, one.rate_hz) == (point.place, point.rate_hz)]
            fifo = "".join(f" (one queue for all: {one.ratio:.2f} x)" for one in others if not one.classes)
            made.append(
                Claim(
                    f"inference {point.place}, {point.rate_hz:g} requests/s a client, a class by DSCP: p99 at most "
                    f"{SLOWER} x that without training, in every seed",
                    f"{point.ratio:.3f} x, worst seed {point.worst:.3f} x{fifo}",
                    point.worst <= SLOWER,
                )
            )
    return made


def _telemetry(points: Sequence[TelemetryPoint]) -> list[Claim]:
    """For each kind of bursts: is there an interval or a window that is close enough and cheap enough?"""
    made = []
    for burst_s in dict.fromkeys(point.burst_s for point in points):
        own = [point for point in points if point.burst_s == burst_s and is_swept(point)]
        if sum(point.knows == "counters" for point in own) < _SWEEP:
            continue
        cheap = [point for point in own if point.core <= CORE]
        best = min(cheap, key=lambda point: point.ratio) if cheap else min(own, key=lambda point: point.core)
        made.append(
            Claim(
                f"telemetry, bursts of {burst_s:g} s: at some interval JCT at most {ORACLE} x that with an oracle, at "
                f"{100 * CORE:.0f} % of a core or less",
                f"{best.knows} of {best.interval_s:g} s: {best.ratio:.4f} x, {100 * best.core:.1f} % of a core",
                best.ratio <= ORACLE and best.core <= CORE,
            )
        )
    return made
