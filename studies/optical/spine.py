"""The parts of the study about an all-optical spine: plans, packets, and the savings from sums at leaves."""

import random
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

from p4reduce.control_plane.optical.spine import SHARINGS, Sharing, Spine, elephants, plan_spine, work_of
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.tdm.jobs import parse_network
from p4reduce.play.spine import FIBRE, play_spine, spine_of
from p4reduce.play.turns.installing import physical
from studies.frame import Bar, Part, StudyResult, at_most, by_seed, column, percent, record

LEAVES, WHOLE = 16, 8
LOAD_S: Final = 10e-3
"""work in seconds of all transceivers of the busiest leaf"""
SLOT_S: Final = 100e-6
SCARCE: Final = 2
"""number of fast transceivers, of WHOLE"""
SHARES: Final = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
OPTICS: Final = ((25e-6, 0.02), (1e-3, 0.02), (10e-3, 0.1))
"""delta, and the share of a slot that is dark"""
PACKETS: Final = "oxc:pods=16,hosts=2,ports=8,rate=200G,port_rate=25G,delta=25us"
RATE: Final = 100e9 / 8


@dataclass(frozen=True)
class Matrix:
    """One traffic matrix with one kind of optics."""

    share: float
    delta_s: float
    dark: float
    seed: int


@record
class SpineRow:
    """Times of sharings over the lower bound of the busiest leaf."""

    delta_ms: float = column("delta, ms", "{:g}")
    share: float = column("work of 32 pairs", percent(0))
    seed: int
    hybrid: float = column("hybrid", "{:.3f}")
    slots: float = column("slots", "{:.3f}")
    circuits: float = column("circuits", "{:.3f}")
    scarce: float = column("hybrid, 2 of 8 fast", "{:.3f}")


def spine_cells(settings: Any) -> Iterator[Matrix]:
    """Yield matrices by share of large pairs, kind of optics and seed."""
    for delta_s, dark in OPTICS:
        for share in SHARES[:: 5 if settings.small else 1]:
            for seed in settings.seeds:
                yield Matrix(share, delta_s, dark, seed)


def spine_row(cell: Matrix) -> Iterator[SpineRow]:
    """Plan a matrix with every sharing."""
    work = elephants(LEAVES, cell.share, cell.seed, load_s=WHOLE * LOAD_S)
    ratios = {}
    for name, fast, sharing in (*((kind, WHOLE, kind) for kind in SHARINGS), ("scarce", SCARCE, "hybrid")):
        spine = Spine(LEAVES, WHOLE, fast, cell.delta_s, SLOT_S, cell.dark * SLOT_S)
        plan = plan_spine(work, spine, sharing)  # type: ignore[arg-type]
        ratios[name] = plan.time_s / plan.bound_s
    yield SpineRow(cell.delta_s * 1e3, cell.share, cell.seed, **ratios)


# On packets.


@dataclass(frozen=True)
class Turning:
    """A plan to play on packets."""

    sharing: Sharing
    fast: int
    seed: int
    small: bool = False


@record
class SpinePacketRow:
    """Sums of pairs of leaves over circuits and slots."""

    sharing: str = column("sharing")
    fast: int = column("fast of 8", "{:.0f}")
    seed: int
    slots: int = column("slots", "{:.0f}")
    sums: int = column("sums", "{:.0f}")
    wrong: int = column("wrong", "{:.0f}")
    lost: int = column("lost, misrouted or resent", "{:.0f}")
    differing: int = column("links off the prediction", "{:.0f}")
    over: float = column("time over the plan's", "{:.4f}")


def packet_cells(settings: Any) -> Iterator[Turning]:
    """Yield a cell for each sharing and up to three seeds."""
    for sharing, fast in (("hybrid", WHOLE), ("hybrid", SCARCE), ("slots", WHOLE), ("circuits", 0)):
        for seed in settings.seeds[: 1 if settings.small else 3]:
            yield Turning(sharing, fast, seed, settings.small)  # type: ignore[arg-type]


def packet_row(cell: Turning) -> Iterator[SpinePacketRow]:
    """Play 2 ms of work, 80 % of it in large pairs, with slots of 50 us."""
    network = parse_network(PACKETS.replace("pods=16", "pods=4") if cell.small else PACKETS)
    topology = physical(network, FIBRE)
    load_s = WHOLE * (0.2e-3 if cell.small else 2e-3)
    work = elephants(network.pods, 0.8, cell.seed, pairs=3 if cell.small else 32, load_s=load_s)
    plan = plan_spine(work, spine_of(network, topology, cell.fast, 50e-6, 1e-6), cell.sharing)
    played = play_spine(plan, topology, seed=cell.seed)
    lost = played.lost + played.misrouted + played.resends
    yield SpinePacketRow(cell.sharing, cell.fast, cell.seed, plan.slots, played.sums, played.wrong, lost,
                         len(played.differing), played.ratio)  # fmt: skip


# Tasks, before and after sums are formed at leaves.


@record
class SpineTaskRow:
    """Plans for 30 tasks with 15 local models of 64 LeNet-5 each, at random hosts, 8 hosts per leaf."""

    how: str = column("copies that cross the spine")
    fast: int = column("fast of 8", "{:.0f}")
    seed: int
    bound_ms: float = column("busiest leaf, ms", "{:.3f}")
    hybrid_ms: float = column("hybrid, ms", "{:.3f}")
    slots_ms: float = column("slots, ms", "{:.3f}")
    circuits_ms: float = column("circuits, ms", "{:.3f}")


def task_cells(settings: Any) -> Iterator[tuple[str, int, int]]:
    """Yield cells by kind of copies, fast transceivers and seed."""
    for how in ("flows", "star", "chain"):
        for fast in (WHOLE, SCARCE):
            for seed in settings.seeds:
                yield how, fast, seed


def task_row(cell: tuple[str, int, int]) -> Iterator[SpineTaskRow]:
    """Plan the traffic matrix of all tasks at once."""
    how, fast, seed = cell
    draw = random.Random(70_000 + seed)  # noqa: S311
    pods = {f"h{number}": number // 8 for number in range(8 * LEAVES)}
    tasks = []
    for number in range(30):
        server, *workers = draw.sample(list(pods), 16)
        tasks.append(Task(f"task{number}", server, tuple(workers), 64 * 61_706))
    work = work_of(tasks, pods, how, RATE)
    spine = Spine(LEAVES, WHOLE, fast, 25e-6, SLOT_S, 2e-6)
    plans = {sharing: plan_spine(work, spine, sharing) for sharing in SHARINGS}
    times = {f"{sharing}_ms": plan.time_s * 1e3 for sharing, plan in plans.items()}
    yield SpineTaskRow(how, fast, seed, plans["slots"].bound_s * 1e3, **times)


def _measures(row: type[Any], *keys: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(row) if field.name not in {*keys, "seed"})


PARTS: Final = (
    Part("spine", "An all-optical spine of 16 leaves: time relative to the work of the busiest leaf", spine_cells,
         spine_row, SpineRow, by=("delta_ms", "share"), mean=_measures(SpineRow, "delta_ms", "share")),
    Part("spine-packets", "The spine on packets, 2 ms of work, slots of 50 us", packet_cells, packet_row,
         SpinePacketRow, by=("sharing", "fast"), mean=_measures(SpinePacketRow, "sharing", "fast"),
         cost=lambda _: 20.0),
    Part("spine-tasks", "Tasks on the spine: copies, or sums at leaves", task_cells, task_row, SpineTaskRow,
         by=("how", "fast"), mean=_measures(SpineTaskRow, "how", "fast")),
)  # fmt: skip


def bars(result: StudyResult) -> Iterator[Bar]:
    """Yield bars for plans and packets."""
    rows = result.rows("spine")
    worst = {"slots": seeded(rows, lambda row: row.hybrid / row.slots, max),
             "circuits": seeded(rows, lambda row: row.hybrid / row.circuits, max)}  # fmt: skip
    for name, values in worst.items():
        yield Bar(f"spine: hybrid / {name}, worst matrix", at_most(1), values, "{:.4f}", every=True)
    for delta_s, _ in OPTICS:
        own = [row for row in rows if row.share == 0.8 and row.delta_ms == delta_s * 1e3]
        yield Bar(f"spine: 2 of 8 fast / slots of all 8, 80 % in large pairs, delta {delta_s * 1e3:g} ms", at_most(1.5),
                  seeded(own, lambda row: row.scarce / row.slots, max), "{:.3f}", every=True)  # fmt: skip
    packets = result.rows("spine-packets")
    for name in ("wrong", "lost", "differing"):
        values = seeded(packets, attrgetter(name), sum)
        yield Bar(f"spine on packets: {name}", at_most(0), values, "{:.0f}", every=True, seeds="any")
    yield Bar("spine on packets: time off the plan's, worst", at_most(0.03),
              seeded(packets, lambda row: abs(row.over - 1), max), percent(2), every=True, seeds="any")  # fmt: skip
    for how in ("star", "chain"):
        times = {scheme: result.values("spine-tasks", "hybrid_ms", how=scheme, fast=WHOLE) for scheme in (how, "flows")}
        values = by_seed(lambda a, b: a / b, times[how], times["flows"])
        yield Bar(f"spine under tasks: time, {how} / flows", None, values, "{:.3f}")


def seeded(
    rows: Iterable[Any], value: Callable[[Any], float], over: Callable[[list[float]], float] = statistics.fmean
) -> dict[int | None, float]:
    """Return a value of each seed's rows, combined by ``over``."""
    seed_values: dict[int | None, list[float]] = {}
    for row in rows:
        seed_values.setdefault(row.seed, []).append(value(row))
    return {seed: over(own) for seed, own in seed_values.items()}
