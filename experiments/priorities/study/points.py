"""From rows to points of figures: means over jobs and seeds, and who fares worst."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, median

from p4reduce.experiments.priorities.study.units import Row


@dataclass(frozen=True)
class Point:
    """One policy on one scene, all seeds: a line of points.csv."""

    part: str
    policy: str
    knowledge: str
    sizes: str
    phi: float
    jitter: float
    latency: str
    queues: int
    rotate_rounds: int
    seeds: int
    mean: float
    """slowdown: mean over jobs, then over seeds"""
    lowest: float
    """of the seeds' means"""
    highest: float
    best: float
    """of each seed's best job, the worst"""
    worst: float
    """job of all seeds"""
    steady: float
    """mean without the first three rounds"""
    jain: float
    """the lowest of the seeds"""
    resend_share: float
    """of all frames that hosts sent"""
    writes: float
    """entries of switches, mean of a run"""
    median_error: float | None
    """median over seeds"""
    p95_error: float | None
    median_lead: float | None
    in_time: float | None
    """share over all seeds"""


def points(rows: Iterable[Row]) -> list[Point]:
    """A point for every part, policy and scene, in the order of the rows."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        key = (row.part, row.policy, row.knowledge, row.sizes, row.phi, row.jitter, row.latency, row.queues,
               row.rotate_rounds)  # fmt: skip
        groups.setdefault(key, []).append(row)
    return [_point(own) for own in groups.values()]


def _point(rows: list[Row]) -> Point:
    first = rows[0]
    by_seed: dict[int, list[Row]] = {}
    for row in rows:
        by_seed.setdefault(row.seed, []).append(row)
    means = [fmean(row.slowdown for row in own) for own in by_seed.values()]
    runs = [own[0] for own in by_seed.values()]
    return Point(
        part=first.part,
        policy=first.policy,
        knowledge=first.knowledge,
        sizes=first.sizes,
        phi=first.phi,
        jitter=first.jitter,
        latency=first.latency,
        queues=first.queues,
        rotate_rounds=first.rotate_rounds,
        seeds=len(by_seed),
        mean=fmean(means),
        lowest=min(means),
        highest=max(means),
        best=max(min(row.slowdown for row in own) for own in by_seed.values()),
        worst=max(row.slowdown for row in rows),
        steady=fmean(row.steady for row in rows),
        jain=min(row.jain for row in rows),
        resend_share=sum(row.resends for row in rows) / max(1, sum(row.frames for row in rows)),
        writes=fmean(row.writes for row in runs),
        median_error=_of([row.median_error for row in runs], median),
        p95_error=_of([row.p95_error for row in runs], max),
        median_lead=_of([row.median_lead for row in runs], median),
        in_time=_of([row.in_time for row in runs], fmean),
    )


def _of(values: Iterable[float | None], how: object) -> float | None:
    known = [value for value in values if value is not None]
    return float(how(known)) if known else None  # type: ignore[operator]
