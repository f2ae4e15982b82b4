"""The study on packets: agreement with the model, what taking turns gains, darkness, ECMP; and what must hold of it."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from p4reduce.base.progress import Progress
from p4reduce.control_plane.tdm.jobs import Kind
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.experiments.claim import Claim
from p4reduce.experiments.parallel import in_parallel
from p4reduce.experiments.tdm.by_hand import two_groups
from p4reduce.experiments.tdm.calibration import Factors, measure
from p4reduce.experiments.tdm.cases import Case, Row, run_case
from p4reduce.experiments.tdm.ecmp import EcmpCase, EcmpRow, run_ecmp
from p4reduce.experiments.tdm.gantt import gantt_svg
from p4reduce.experiments.tdm.packets import KEEPS, play

X1: Final = OpticalNetwork(8, 4, 25 * 10**9, 4, 25 * 10**9, delta_s=200e-6)
"""8 pods of 4 hosts, R = 4"""
X2: Final = replace(X1, ports=2)
SMALL: Final = OpticalNetwork(4, 2, 25 * 10**9, 2, 25 * 10**9, delta_s=200e-6)
HAND: Final = SMALL.with_delta(20e-6)
DELTAS: Final = (0.0, 20e-6, 200e-6, 1.2e-3, 10e-3, 30e-3)
POLICIES: Final = ("tdm", "static", "no-tdm")
GOAL_RATIO, GOAL_WORST = 1.015, 1.03
"""packets over model: mean and worst"""
LOW_MEAN, LOW_WORST = 0.02, 0.05
"""of the model's error, either way"""


@dataclass(frozen=True)
class Kept:
    """Slots too short for what they carry, with one way to keep windows."""

    keep: str
    iteration_s: float
    dark_lost: int
    misrouted: int
    resends: int


@dataclass
class Study:
    """All of it."""

    factors: dict[Kind, Factors]
    rows: list[Row]
    ecmp: list[EcmpRow]
    kept: list[Kept]
    chart: str
    """SVG"""

    def of(self, study: str, **fields: object) -> list[Row]:
        """Rows of a part, with these values, that were played."""
        return [
            row
            for row in self.rows
            if row.study == study
            and not row.refused
            and all(getattr(row, name) == value for name, value in fields.items())
        ]


def run_study(
    *, quick: bool, seeds: Sequence[int], jobs: int = 1, dask: str | None = None, bar: Callable[[str], Progress]
) -> Study:
    """Play everything; ``jobs`` processes, or the machines of a Dask scheduler."""
    base = SMALL if quick else X1
    factors = measure(base)
    cases = _quick(seeds) if quick else _full(seeds)
    rows = in_parallel(
        run_case, [(case, factors) for case in cases], jobs=jobs, dask=dask, progress=bar("schedules"), label="played"
    )
    twins = _twins(quick=quick, seeds=seeds)
    ecmp = in_parallel(run_ecmp, twins, jobs=jobs, dask=dask, progress=bar("electrical twins"), label="played")
    kept = in_parallel(_keep, list(KEEPS), jobs=jobs, dask=dask, progress=bar("windows"), label="kept")
    return Study(factors, rows, ecmp, kept, _chart())


def _quick(seeds: Sequence[int]) -> list[Case]:
    return [
        Case("model", SMALL, policy, seed, sigma=sigma, least=2, most=4, scale=640.0)
        for policy in POLICIES
        for seed, sigma in zip(seeds, (0.0, 0.4), strict=False)
    ]


def _full(seeds: Sequence[int]) -> list[Case]:
    every = [
        Case("model", network, policy, seed, ratio=ratio)
        for network in (X1, X2)
        for ratio in (1.0, 0.5)
        for policy in POLICIES
        for seed in seeds[: 5 if ratio == 1.0 else 2]
    ]
    every += [Case("sigma", X2, "tdm", seed, sigma=sigma) for sigma in (0.2, 0.4, 0.8) for seed in seeds[:2]]
    every += [Case("delta", replace(X2, delta_s=delta), "tdm", seed) for delta in DELTAS for seed in seeds[:2]]
    every += [
        Case("sharing", X1, policy, seed, sigma=0.4, least=8, most=8, rounds=4)
        for policy in ("pairs", "free", "tdm", "exclusive")
        for seed in seeds[:3]
    ]
    every += [Case("scale", X2, "tdm", seeds[0], scale=scale) for scale in (16.0, 64.0, 256.0)]
    return every


def _twins(*, quick: bool, seeds: Sequence[int]) -> list[EcmpCase]:
    if quick:
        return [EcmpCase("leaf-spine", flows, False, seeds[0], pods=4, servers=2) for flows in (1, 4)]
    found = [EcmpCase("leaf-spine", flows, False, seed) for flows in (1, 4, 16) for seed in seeds[:4]]
    # A switch has counters for 512 trees: 64 pairs with 7 flows each.
    return found + [
        EcmpCase("fat-tree", flows, polarized, seeds[0]) for flows in (1, 4, 7) for polarized in (False, True)
    ]


def _keep(keep: str) -> Kept:
    """Slots of 50 us for 71 us of frames: what is not through must wait for its next window."""
    schedule, jobs = two_groups(HAND, 200_000, 1e-6, clock="slots", round_s=100e-6, guard_s=12e-6)
    played = play(schedule, jobs, rounds=20, keep=keep)  # type: ignore[arg-type]
    times = [time for own in played.iterations_ps.values() for time in own]
    mean = statistics.mean(times) / 1e12 if times else float("nan")
    return Kept(keep, mean, played.dark_lost, played.misrouted, played.resends)


def _chart() -> str:
    schedule, jobs = two_groups(HAND, 200_000, 60e-6)
    played = play(schedule, jobs, rounds=2)
    groups = {plan.job: plan.group for plan in schedule.jobs}
    return gantt_svg(played, groups, title="two groups on packets: circuits, jobs and darkness")


def claims(study: Study) -> list[Claim]:
    """What must hold."""
    played = [row for row in study.rows if not row.refused]
    ratios = [row.packets_over_model for row in played if row.model_s]
    errors = [abs(ratio - 1) for ratio in ratios]
    mean, worst = statistics.mean(ratios), max(ratios)
    wrong = [row for row in played if not row.exact]
    differing = [row for row in played if not row.as_predicted]
    lost = sum(row.dark_lost + row.misrouted + row.lost for row in played)
    found = [
        Claim("every sum and block is exact", f"{len(wrong)} of {len(played)} rounds wrong", not wrong),
        Claim("first transmissions as predicted, process by process", f"{len(differing)} differ", not differing),
        Claim("nothing lost in darkness, misrouted or dropped", f"{lost} frames", lost == 0),
        Claim(
            f"packets over model: mean <= {GOAL_RATIO}, worst <= {GOAL_WORST}",
            f"{mean:.4f}, {worst:.4f}",
            mean <= GOAL_RATIO and worst <= GOAL_WORST,
        ),
        Claim(
            f"the model is off by at most {LOW_MEAN:.0%} in the mean, {LOW_WORST:.0%} at worst",
            f"{statistics.mean(errors):.2%}, {max(errors):.2%}",
            statistics.mean(errors) <= LOW_MEAN and max(errors) <= LOW_WORST,
        ),
    ]
    for ports, ratio, goal in ((4, 1.0, 1.7), (2, 1.0, 1.8), (4, 0.5, 1.5), (2, 0.5, 1.65)):
        gain = gain_of(study, ports=ports, ratio=ratio)
        if gain and study.of("model", pods=X1.pods, ports=ports):
            found.append(
                Claim(f"no TDM / TDM, gangs, R = {ports}, c/w {ratio:g}: >= {goal}", f"{gain:.2f}", gain >= goal)
            )
    own = study.of("sharing", policy="pairs")
    if own:
        mean = statistics.mean(row.relative_mean for row in own)
        worst = min(row.relative_worst for row in own)
        found.append(
            Claim("pairs, sigma 0.4: mean throughput of jobs over alone >= 0.88", f"{mean:.2f}, worst {worst:.2f}",
                  mean >= 0.88)
        )  # fmt: skip
    for flows, goal in ((1, 1.4), (4, 1.15)):
        hashed = [row.ratio for row in study.ecmp if row.twin == "leaf-spine" and row.flows == flows]
        if hashed and len(study.ecmp) > 2:
            found.append(Claim(f"C(ECMP) / C(OXC), {flows} flows an edge: >= {goal}", f"{statistics.mean(hashed):.2f}",
                               statistics.mean(hashed) >= goal))  # fmt: skip
    wrong_twins = [row for row in study.ecmp if not row.exact]
    found.append(Claim("every sum on electrical twins is exact", f"{len(wrong_twins)} wrong", not wrong_twins))
    by_keep = {one.keep: one for one in study.kept}
    for keep in ("pause", "gates"):
        one = by_keep[keep]
        found.append(
            Claim(f"slots too short, {keep}: nothing lost or misrouted", f"{one.dark_lost}, {one.misrouted} frames",
                  one.dark_lost == one.misrouted == 0)
        )  # fmt: skip
    return found


def gain_of(study: Study, *, ports: int, ratio: float) -> float:
    """Mean of no-TDM over TDM, instance by instance; 0: none was played with both."""
    gains = []
    for row in study.of("model", policy="tdm", ports=ports, ratio=ratio):
        other = study.of("model", policy="no-tdm", ports=ports, ratio=ratio, seed=row.seed, sigma=row.sigma)
        gains += [one.round_s / row.round_s for one in other]
    return statistics.mean(gains) if gains else 0.0
