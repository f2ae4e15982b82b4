"""The study on packets: what is played, on how many processes or machines."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from p4reduce.base.progress import Progress
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.experiments.parallel import in_parallel
from p4reduce.experiments.tdm.by_hand import two_groups
from p4reduce.experiments.tdm.calibration import measure
from p4reduce.experiments.tdm.cases import Case, Row, run_case
from p4reduce.experiments.tdm.ecmp import EcmpCase, EcmpRow, run_ecmp
from p4reduce.experiments.tdm.factors import Factors, Way
from p4reduce.experiments.tdm.gantt import gantt_svg
from p4reduce.experiments.tdm.instances import X1, X2, Mix
from p4reduce.experiments.tdm.packets import KEEPS, play

SMALL: Final = OpticalNetwork(4, 2, 25 * 10**9, 2, 25 * 10**9, delta_s=200e-6)
HAND: Final = SMALL.with_delta(20e-6)
DELTAS: Final = (0.0, 20e-6, 200e-6, 1.2e-3, 10e-3, 30e-3)


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

    factors: dict[Way, Factors]
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
    cases = _quick(seeds) if quick else whole(seeds)
    rows = in_parallel(
        run_case, [(case, factors) for case in cases], jobs=jobs, dask=dask, progress=bar("schedules"), label="played"
    )
    twins = _twins(quick=quick, seeds=seeds)
    ecmp = in_parallel(run_ecmp, twins, jobs=jobs, dask=dask, progress=bar("electrical twins"), label="played")
    kept = in_parallel(_keep, list(KEEPS), jobs=jobs, dask=dask, progress=bar("windows"), label="kept")
    return Study(factors, rows, ecmp, kept, _chart())


def _quick(seeds: Sequence[int]) -> list[Case]:
    small = Case("gain", SMALL, "tdm", seeds[0], least=2, most=4, scale=640.0)
    found = [
        replace(small, policy=policy, seed=seed, sigma=sigma)
        for policy in ("tdm", "no-tdm")
        for seed, sigma in zip(seeds, (0.0, 0.4), strict=False)
    ]
    return [*found, replace(small, policy="seed"), replace(small, study="all-to-all", mix="all-to-all")]


def whole(seeds: Sequence[int]) -> list[Case]:
    """What is played unless only a small part is wanted."""
    networks = (X1, X2)
    every = [
        Case("gain", network, policy, seed, ratio=ratio)
        for network in networks
        for ratio, most in ((1.0, 5), (0.5, 3))
        for policy in ("tdm", "no-tdm", *(("seed", "static") if ratio == 1.0 else ()))
        for seed in seeds[: _seeds(policy, network.ports, most)]
    ]
    mixes: tuple[tuple[Mix, int, int], ...] = (("mixed", 4, 12), ("all-to-all", 8, 8), ("all-to-all", 16, 16))
    every += [
        Case("all-to-all", network, policy, seed, least=least, most=most, mix=mix)
        for network in networks
        for mix, least, most in mixes
        for policy, count in (("tdm", 2), ("no-tdm", 1))
        for seed in seeds[:count]
    ]
    # Two jobs of 32 hosts over 8 pods, with darkness for which several configurations pay, and for which hops do.
    every += [
        Case("hops", replace(network, delta_s=delta), "tdm", seeds[0], least=32, most=32, mix="all-to-all")
        for network in networks
        for delta in (10e-3, 100e-3)
    ]
    every += [
        Case("sharing", network, policy, seed, sigma=0.4, least=8, most=8, rounds=4)
        for network, policies, most in (
            (X1, ("pairs", "free", "tdm", "exclusive"), 3),
            (X1, ("cassini",), 1),
            (X2, ("pairs", "free"), 1),
        )
        for policy in policies
        for seed in seeds[:most]
    ]
    every += [Case("sharing", X1, "pairs", seed, least=8, most=8, mix="all-to-all") for seed in seeds[:2]]
    every.append(Case("uncoordinated", X2, "free", seeds[0], least=8, most=8, rounds=3, mix="all-to-all"))
    every += [
        Case("sigma", X2, policy, seed, sigma=sigma)
        for sigma in (0.0, 0.4, 0.8)
        for policy in ("tdm", "no-tdm")
        for seed in seeds[:2]
    ]
    every += [Case("delta", replace(X2, delta_s=delta), "tdm", seed) for delta in DELTAS for seed in seeds[:1]]
    every += [Case("scale", X2, "tdm", seeds[0], scale=scale) for scale in (16.0, 64.0, 256.0)]
    return every


def _seeds(policy: str, ports: int, most: int) -> int:
    """Two ports are too few for half of what the source places: more instances."""
    if policy == "static":
        return 2
    return 2 * most if ports == X2.ports and policy in ("seed", "tdm") and most > 3 else most


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
