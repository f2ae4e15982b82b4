"""A stale-synchronous parameter server with a straggler: what putting the oldest batch first saves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

from p4reduce.experiments.priorities.description import Description, JobDescription, with_phi
from p4reduce.experiments.priorities.run import RunResult, run
from p4reduce.experiments.priorities.study.settings import StudySettings
from p4reduce.topologies.units import parse_delay

WORKERS: Final = 8
TOPOLOGY: Final = f"leaf-spine:leaves=2,spines=1,hosts={WORKERS},servers=1,rate=40G,uplink=10G,delay=1us"
STRANGERS: Final = "strangers"
"""first come, first served, of senders that know nothing of each other"""
NO_ORDER: Final = "none"
"""first come, first served"""
MOST_WRITTEN: Final = 3
"""the largest staleness for which a controller's entries can tell batches apart"""


@dataclass(frozen=True)
class StaleUnit:
    """One job under one seed, with every order of its batches."""

    settings: StudySettings
    staleness: int
    straggler: float
    """by how much one of the workers computes longer"""
    seed: int


@dataclass(frozen=True)
class StaleRow:
    """One run: a line of stale.csv."""

    staleness: int
    straggler: float
    order: str
    """strangers, none: first come, first served; switch: a register keeps the newest iteration; controller: entries are
    written as batches advance"""
    phi: float
    seed: int
    took_ps: int
    saved: float
    """1 - took / took of first come, first served (none)"""
    saved_strangers: float
    """the same against strangers"""
    resend_share: float
    writes: int


def stale_units(settings: StudySettings) -> list[StaleUnit]:
    """Every bound and straggler in every seed."""
    return [
        StaleUnit(settings, staleness, straggler, seed)
        for staleness in settings.stalenesses
        for straggler in settings.stragglers
        for seed in settings.seeds
    ]


def run_stale(unit: StaleUnit) -> list[StaleRow]:
    """The workers sit behind one uplink, the server on its other side."""
    settings = unit.settings
    hosts = tuple(f"h{WORKERS + number}" for number in range(1, WORKERS + 1))
    bare = JobDescription(hosts, "server1", settings.stale_elements, 1, plan="ps", name="stale")
    takes = round(run(Description(TOPOLOGY, (bare,), rounds=2)).jobs[0].iteration_ps)
    slow = (1.0,) * (WORKERS - 1) + (unit.straggler,)
    about = replace(with_phi(bare, takes, settings.stale_phi), staleness=unit.staleness, slowdowns=slow)
    orders = (STRANGERS, NO_ORDER, "switch", *(("controller",) if unit.staleness <= MOST_WRITTEN else ()))
    found: dict[str, RunResult] = {}
    for order in orders:
        description = Description(
            TOPOLOGY,
            (replace(about, order=order),),
            rounds=settings.rounds,
            jitter=settings.jitter,
            control_latency_ps=parse_delay(settings.latency),
            seed=unit.seed,
        )
        found[order] = run(description)
    took = {order: one.jobs[0].completion_ps for order, one in found.items()}
    return [
        StaleRow(
            staleness=unit.staleness,
            straggler=unit.straggler,
            order=order,
            phi=settings.stale_phi,
            seed=unit.seed,
            took_ps=took[order],
            saved=1 - took[order] / took[NO_ORDER],
            saved_strangers=1 - took[order] / took[STRANGERS],
            resend_share=one.resend_share,
            writes=one.writes,
        )
        for order, one in found.items()
    ]


def saved(rows: Sequence[StaleRow], staleness: int, straggler: float, order: str) -> tuple[float, float] | None:
    """Means over seeds of what an order saves against none and against strangers; None: it was not run."""
    wanted = (staleness, straggler, order)
    own = [row for row in rows if (row.staleness, row.straggler, row.order) == wanted]
    return (fmean(row.saved for row in own), fmean(row.saved_strangers for row in own)) if own else None
