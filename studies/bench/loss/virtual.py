"""The cost of losses in virtual time, beside the bars."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from p4reduce.control_plane.plans import Plan
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.runner import move_tensors
from p4reduce.runs.summary import network_result
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.topologies import Topology, TopologyBuilder
from p4reduce.topologies.files import save
from studies.frame import Bar, Column, Measure, StudyResult, at_most, column, percent, record

# One run under faults in virtual time, and the reactions of its workers.


@dataclass(frozen=True)
class LossMeasurement:
    """ratio: time over the plan's lower bound. over: time over the bound with losses (``lossy_bound_ps``). load: time
    for which the busiest link of a worker carried frames, over S/b/(1 - p), the tensor's time on that link with
    repeated frames (each such link carries the tensor once). asks, waits, needless: questions, WAITs, and answers to
    questions that came after the RESULT, per worker and chunk. drops: frames that found a queue full. differences:
    deviations from the prediction. chunks: chunks of the tensor.
    """

    ratio: float
    over: float
    load: float
    asks: float
    waits: float
    needless: float
    drops: int
    differences: int
    bound_ps: int
    chunks: int
    plan: Plan


def measure(
    plan: str, rate: str, elements: int, seed: int, topology: str, faults: FaultOptions, *, delay: str | None = None
) -> LossMeasurement:
    """Run one all-reduce. ``delay``: of every link; None keeps the topology's, as ``rate`` OWN keeps its rates."""
    with tempfile.TemporaryDirectory() as folder:
        if topology in TREES:
            save(TREES[topology](), topology := f"{folder}/{topology}.yaml")
        experiment = Experiment.model_validate(
            {
                "plan": plan,
                "rate": None if rate == OWN else rate,
                "delay": delay,
                "elements": elements,
                "seed": seed,
                "topology": topology,
                "faults": faults,
                "lanes": 256,
            }
        )
        cluster = Cluster(experiment)
    with cluster:
        move_tensors(cluster, None)
        (record,) = cluster.carrier.records
        statuses = cluster.carrier.statuses()
        laid_out = cluster.carrier.jobs[0].plan
        network = network_result(cluster.carrier)
        workers = set(laid_out.workers)
        busiest = max(link.busy_ps for link in network.links if workers & {link.node, link.peer})
    each = -(-record.elements // laid_out.lanes)
    chunks = each * len(cluster.workers)
    return LossMeasurement(
        ratio=record.communication_ps / record.bound_ps,
        over=network.ratio_to_loss_bound or record.communication_ps / record.bound_ps,
        load=busiest / record.bound_ps * (1 - (faults.loss or 0.0)),
        asks=sum(status.asks for status in statuses) / chunks,
        waits=sum(status.waits for status in statuses) / chunks,
        needless=sum(status.spurious for status in statuses) / chunks,
        drops=sum(link.queue_drops for link in network.links),
        differences=len(network.prediction_differences),
        bound_ps=record.bound_ps,
        chunks=each,
        plan=laid_out,
    )


def over_bound(plan: str, rate: str, mib: int, seed: int) -> dict[str, Any]:
    """Measure one all-reduce of ``mib`` MiB without loss on links of 1 us."""
    measured = measure(plan, rate, mib << 18, seed, FLAT, FaultOptions(), delay="1us")
    return {"plan": plan, "rate": rate, "mib": mib, "ratio": measured.ratio}


def asks_needed(loss: float, links: int) -> float:
    """Return A(p), the mean number of repair rounds for a chunk: sum over k >= 1 of 1 - (1 - p^k)^L."""
    return sum(1 - (1 - loss**k) ** links for k in range(1, 60)) if loss else 0.0


FLAT: Final = "leaf-spine-8"
DEEP: Final = "fat-tree-4"
"""16 workers under three levels of switches: a chunk crosses 28 links up and 28 down"""
OWN: Final = "own"
"""value of ``rate`` that keeps the topology's rates"""


def tree(levels: int, *, uneven: bool) -> Topology:
    """Build a binary tree with ``levels`` levels of switches, and two hosts under each switch of the last level.

    uneven: delays of 1 to 8 us, and rates of 100G, 150G or 200G between switches; otherwise 1 us and 100G.
    """
    builder, random = TopologyBuilder(f"{'uneven' if uneven else 'even'}-{levels}"), np.random.default_rng(levels)

    def link(above: str, below: str) -> None:
        rate = str(random.choice(("100G", "150G", "200G"))) if uneven and below.startswith("s") else "100G"
        builder.link(above, below, rate, f"{random.integers(1, 9) if uneven else 1}us")

    builder.switch("s0-0")
    for level in range(1, levels):
        for number in range(2**level):
            builder.switch(f"s{level}-{number}")
            link(f"s{level - 1}-{number // 2}", f"s{level}-{number}")
    for number in range(2**levels):
        builder.host(f"h{number}")
        link(f"s{levels - 1}-{number // 2}", f"h{number}")
    return builder.build()


TREES: Final = {
    "even-4": partial(tree, 4, uneven=False),
    "uneven-3": partial(tree, 3, uneven=True),
    "uneven-4": partial(tree, 4, uneven=True),
}
BARS: Final[Sequence[tuple[str, str, str, int, Mapping[float, float | None]]]] = (
    (FLAT, "steiner", "10G", 1_000_000, {0.0: 1.003, 0.001: 1.02, 0.01: 1.12, 0.05: 1.5}),
    (FLAT, "steiner", "100G", 1_000_000, {0.0: 1.024, 0.001: 1.08, 0.01: 1.15, 0.05: 1.5}),
    (FLAT, "steiner", "100G", 4_000_000, {0.001: 1.03, 0.01: 1.06, 0.05: 1.45}),
    (FLAT, "ring", "10G", 1_000_000, {0.001: 1.03, 0.01: 1.09, 0.05: 1.35}),
    (FLAT, "ring", "100G", 1_000_000, {0.001: 1.05, 0.01: 1.13, 0.05: 1.6}),
    (DEEP, "steiner", "10G", 1_000_000, {0.01: 1.06, 0.05: 1.20}),
    (DEEP, "steiner", "100G", 1_000_000, {0.01: 1.10, 0.05: 1.30}),
    *(("star8", "steiner", rate, 1_000_000, dict.fromkeys((0.01, 0.05))) for rate in ("10G", "100G")),
    ("even-4", "steiner", OWN, 1_000_000, dict.fromkeys((0.01, 0.05))),
    *((name, "steiner", OWN, 1_000_000, {0.01: 1.25, 0.05: 1.6}) for name in ("uneven-3", "uneven-4")),
    *((name, "ring", OWN, 1_000_000, dict.fromkeys((0.01, 0.05))) for name in ("even-4", "uneven-4")),
    ("germany50", "steiner", "10G", 1_000_000, dict.fromkeys((0.01, 0.05))),
)
"""topology, plan, rate, elements, highest allowed ratio by loss (None: no limit)"""
TREE_LINKS: Final = {FLAT: 20, DEEP: 56}
"""number of directed tree links that a chunk crosses, up and down"""
LOAD: Final = 1.06
"""highest load of a worker's busiest link at 1 % loss: no storm of questions and repeated RESULTs"""
HEAVY: Final = {0.1: 5.0, 0.3: 50.0}
"""by loss, on five switches: highest ratio to the time without loss"""
FIVE: Final = ("leaf-spine:leaves=4,spines=1,hosts=2", "leaf-spine-16")
"""networks whose trees have five switches, with 8 and with 16 workers"""
NEEDLESS: Final = {0.0: 0.0, 0.001: 0.01, 0.01: 0.01, 0.05: 0.06}
REORDERED: Final = 1.2
ROUNDED: Final = 0.0005
"""tolerance of the bars: they are rounded to three digits"""


@dataclass(frozen=True)
class LossCell:
    """One all-reduce with losses."""

    topology: str
    plan: str
    rate: str
    elements: int
    loss: float
    seed: int


@record
class LossRow:
    """One all-reduce; questions, WAITs and needless repetitions are per worker and chunk."""

    topology: str = column("topology")
    plan: str = column("plan")
    rate: str = column("rate")
    elements: int = column("elements", "{:,}")
    loss: float = column("loss", percent())
    seed: int
    ratio: float = column("time / bound", "{:.4f}")
    over: float = column("time / bound with losses", "{:.4f}")
    load: float = column("load", "{:.4f}")
    asks: float = column("asks", "{:.4f}")
    waits: float = column("waits", "{:.4f}")
    needless: float = column("needless", "{:.4f}")
    drops: int
    """number of frames that found a queue full"""
    differences: int
    """number of deviations from the prediction"""


MEASURES: Final = (
    "ratio",
    "over",
    "load",
    Measure("worst", Column("worst seed", "{:.4f}"), lambda rows, _: max(row.ratio for row in rows), max),
    "asks",
    "waits",
    "needless",
    Measure("drops", Column("drops", "{:.0f}"), lambda rows, _: sum(row.drops for row in rows), sum),
    Measure("differences", Column("differences", "{:.0f}"), lambda rows, _: sum(row.differences for row in rows), sum),
)


def loss_cells(settings: Any) -> list[LossCell]:
    """Return a cell for every bar and seed."""
    return [
        LossCell(topology, plan, rate, elements, loss, seed)
        for topology, plan, rate, elements, bars in BARS
        for loss in bars
        if plan in settings.plans
        for seed in settings.seeds[: settings.loss_seeds]
    ]


def run_loss(cell: LossCell) -> list[LossRow]:
    """Run the all-reduce of a cell."""
    measured = measure(cell.plan, cell.rate, cell.elements, cell.seed, cell.topology, FaultOptions(loss=cell.loss))
    rates = measured.ratio, measured.over, measured.load, measured.asks, measured.waits, measured.needless
    where = cell.topology, cell.plan, cell.rate, cell.elements, cell.loss, cell.seed
    return [LossRow(*where, *rates, measured.drops, measured.differences)]


@dataclass(frozen=True)
class HeavyCell:
    """One all-reduce on five switches at 10 or 30 % loss, or with every tenth frame late by up to 10 us."""

    topology: str
    rate: str
    elements: int
    loss: float
    reorder: float
    seed: int


@record
class HeavyRow:
    """One all-reduce beside the same one without faults."""

    topology: str = column("topology")
    rate: str = column("rate")
    loss: float = column("loss", percent(0))
    reorder: float = column("reordered", percent(0))
    seed: int
    ratio: float = column("time / bound", "{:.4f}")
    times: float = column("times of none", "{:.3f}")
    asks: float = column("asks", "{:.4f}")
    waits: float = column("waits", "{:.4f}")
    needless: float = column("needless", "{:.4f}")
    differences: int


def heavy_cells(settings: Any) -> list[HeavyCell]:
    """Return every case with every seed; only for trees."""
    if "steiner" not in settings.plans:
        return []
    cases = [(where, "10G", 100_000, loss, 0.0) for where in FIVE for loss in HEAVY]
    cases += [("leaf-spine-8", rate, 1_000_000, 0.0, 0.1) for rate in ("10G", "100G")]
    return [HeavyCell(*case, seed) for case in cases for seed in settings.seeds[: settings.loss_seeds]]


def run_heavy(cell: HeavyCell) -> list[HeavyRow]:
    """Run an all-reduce with faults, and without."""
    faults = FaultOptions(loss=cell.loss, reorder=cell.reorder)
    lossy, clean = (
        measure("steiner", cell.rate, cell.elements, cell.seed, cell.topology, options)
        for options in (faults, FaultOptions())
    )
    counted = lossy.asks, lossy.waits, lossy.needless, lossy.differences
    times = lossy.ratio / clean.ratio
    return [HeavyRow(cell.topology, cell.rate, cell.loss, cell.reorder, cell.seed, lossy.ratio, times, *counted)]


def bars(result: StudyResult) -> Iterator[Bar]:
    """Yield the bars for losses; those for questions and repetitions only for trees."""
    for topology, plan, rate, elements, limits in BARS:
        for loss, limit in limits.items():
            value = partial(
                result.values, "loss", topology=topology, plan=plan, rate=rate, elements=elements, loss=loss
            )
            name = f"{topology}, {plan}, {rate}, {elements:,} elements, {100 * loss:g} % lost"
            if limit is not None:
                yield Bar(f"{name}: time over the bound", at_most(limit + ROUNDED), value("ratio"), "{:.4f}")
            yield Bar(f"{name}: frames that found a queue full", at_most(0), value("drops"), "{:.0f}", every=True)
            if loss == 0.01 and plan == "steiner":
                yield Bar(f"{name}: load of a worker's busiest link", at_most(LOAD), value("load"), "{:.4f}")
            if plan == "steiner" and topology in TREE_LINKS:
                most = 2 * asks_needed(loss, TREE_LINKS[topology])
                yield Bar(f"{name}: questions a chunk, twice what repairs need", at_most(most), value("asks"), "{:.4f}")
                yield Bar(f"{name}: needless repetitions a chunk", at_most(NEEDLESS[loss]), value("needless"), "{:.4f}")
                yield Bar(f"{name}: links with other bytes than predicted", at_most(0), value("differences"), "{:.0f}",
                          every=True, seeds="any")  # fmt: skip
    for point in result.of("heavy"):
        name = f"{point['topology']}, {point['rate']}"
        if point["reorder"]:
            yield Bar(f"{name}, every tenth frame late: time over the bound", at_most(REORDERED), point.values["ratio"])
        else:
            yield Bar(f"{name}, {100 * point['loss']:g} % lost: times that without", at_most(HEAVY[point["loss"]]),
                      point.values["times"])  # fmt: skip
