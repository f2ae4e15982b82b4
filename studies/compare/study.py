"""The comparison on equal terms: published systems and p4reduce's plans on the same links, losses and tensors."""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Final

from studies.compare.cells import (
    DEVELOPED,
    FIGURES,
    HELD_OUT,
    OURS,
    QUICK,
    RIVALS,
    CompareRow,
    CompareSettings,
    PaperRow,
    Setting,
    cells,
    cost,
    paper_cells,
    run_cell,
    run_paper,
)
from studies.frame import (
    Bar,
    Column,
    Measure,
    Part,
    Rows,
    Study,
    StudyResult,
    Table,
    at_least,
    at_most,
    by_seed,
    percent,
)
from studies.pages import Chart

KEY: Final = (*(field.name for field in fields(Setting)), "setting")
_MEANS: Final = ("time_us", "over_best", "over_lossy", "busiest_bytes", "slots", "jain")


def _worst(rows: Rows, _base: Rows) -> float:
    return float(max(row.over_best for row in rows))


PARTS: Final = (
    Part("systems", "Systems by setting; parameters not named: 256 KiB, 10G, all switches, no loss, one job",
         cells, run_cell, CompareRow, by=(*KEY, "system"),
         mean=(*_MEANS, Measure("worst", Column("worst seed", "{:.2f}"), _worst, max)), cost=cost,
         brief=("axis", "setting", "system", "over_best")),
    Part("papers", "Figures of the systems' papers", paper_cells, run_paper, PaperRow, by=("paper", "figure", "x"),
         mean=("value",), cost=lambda cell: 20.0 * cell.kib),
)  # fmt: skip


def _settings(result: StudyResult) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each setting once, in words, with each system's time over the best plan's bound."""
    settings: dict[str, dict[str, float]] = {}
    for point in result.points.get("systems", ()):
        settings.setdefault(point["setting"], {})[point["system"]] = point["over_best"]
    yield from settings.items()


def tables(result: StudyResult) -> Iterator[Table]:
    """Yield tables of the fastest system in each setting, and of papers' figures beside results on packets."""
    rows = []
    for name, times in _settings(result):
        order = sorted(times, key=lambda system: times[system])
        own = [system for system in order if system in OURS]
        first = order[0]
        ahead = f"{times[own[0]] / times[first]:.2f}" if own else "-"
        best = f"{own[0]} {times[own[0]]:.2f}" if own else "none runs"
        rows.append((name, f"{first} {times[first]:.2f}", best, ahead, f"{order[-1]} {times[order[-1]]:.2f}"))
    if rows:
        headings = ("setting", "fastest", "p4reduce's best", "p4reduce / fastest", "slowest")
        yield "Who is fastest, where p4reduce is and where it is not: time over the best plan's bound", headings, rows
    if result.of("papers"):
        beside = [
            (paper, says, "; ".join(_shown(result, paper.partition(" ")[0])), because)
            for paper, says, because in PAPERS
        ]
        yield "Papers beside packets", ("system", "paper says", "packets here say", "because"), beside


def _shown(result: StudyResult, paper: str) -> Iterator[str]:
    """Yield each figure's values with half the width of their intervals."""
    for figure in dict.fromkeys(point["figure"] for point in result.of("papers", paper=paper)):
        values = []
        for point in result.of("papers", paper=paper, figure=figure):
            interval = point.estimate("value")
            half = "" if interval is None or interval.high is None else f" ± {interval.high - interval.value:.2f}"
            values.append(f"{point['value']:.2f}{half} at {point['x']:g}")
        yield f"{figure}: {', '.join(values)}"


PAPERS: Final = (
    ("SwitchML (NSDI 2021)",
     "Trainings are up to 5.5 times as fast, since less is sent (abstract). Of its studies of payloads and losses the "
     "figures were not at hand.",
     "A frame has 86 bytes around its payload on the wire, whatever the payload. A slot stands still until a time-out, "
     "and a chunk has as many chances to lose something as the job has links."),
    ("ATP (NSDI 2021)",
     "Jobs share aggregators dynamically and as far as they go, and heavy contention slows them gracefully; throughput "
     "of trainings in a shared cluster is up to 38 to 66 % higher (abstract).",
     "A job alone finds all aggregators when they are shared, and a quarter of them when they are split. Where all are "
     "active and memory is short, chunks collide with those of all jobs, and one of which a part has collided waits "
     "for a resend: there a split is as good, or better."),
    ("OmniReduce (SIGCOMM 2021)",
     "Only blocks that are not zero are sent; trainings are up to 8.2 times as fast, 1.4 to 2.9 times at 100 Gb/s "
     "(abstract).",
     "Blocks that no worker has cost nothing. What is sent down is the union of the workers' blocks, and each of 8 "
     "workers draws its own, so gains begin where the union is small."),
    ("Rina (ICNP 2024)",
     "Aggregation for a parameter server gains little until all switches can add; a ring of racks has more than 50 % "
     "more throughput than ATP for the same hardware (abstract).",
     "A server's link carries a frame for each worker whose rack does not add. A ring that is pipelined frame by frame "
     "is limited by bytes, not by its steps, of which Rina saves most: bytes fall only when most racks add."),
    ("PANAMA (MLSys 2021)",
     "Mean and 99th percentile of short flows are 2 to 4.5 times as good, and trainings of large jobs 1.25 times as "
     "fast (abstract).",
     "Three jobs want more than two spines have. A second tree for each job lets all use both, but fills both; a "
     "window that ECN marks govern keeps the queues short, at the price of some of the links' time."),
)  # fmt: skip


def bars(result: StudyResult) -> Iterable[Bar]:
    """Yield bars for the claims of each paper, and for p4reduce's tree beside each system."""

    def paper(name: str, figure: str, x: float) -> dict[int | None, float]:
        return result.values("papers", "value", paper=name, figure=figure, x=x)

    yield Bar("SwitchML: time with payloads of 256 bytes, over 1,024", at_least(1.1),
              paper("SwitchML", "time with payloads of x bytes, over 1,024 bytes", 256), "{:.2f}")  # fmt: skip
    slow = "time with a loss of x, over none"
    yield Bar("SwitchML: time at a loss of 0.01 %, over none", at_most(1.1), paper("SwitchML", slow, 0.0001), "{:.2f}")
    yield Bar("SwitchML: time at a loss of 1 %, over none", at_least(1.15), paper("SwitchML", slow, 0.01), "{:.2f}")
    alone = "1 of 4 jobs active: time with x aggregators shared, over split"
    yield Bar("ATP: one job of four is active, 8 aggregators: time shared over split", at_most(0.9),
              paper("ATP", alone, 8), "{:.2f}")  # fmt: skip
    fallen = "4 of 4 jobs active: share that falls back with x aggregators"
    yield Bar("ATP: share that falls back, 8 aggregators less 512", at_least(0.1),
              by_seed(lambda few, many: few - many, paper("ATP", fallen, 8), paper("ATP", fallen, 512)),
              percent())  # fmt: skip
    dense = "time with x of blocks not zero, over a dense ring"
    yield Bar("OmniReduce: time at 1 % over that at 100 %", at_most(0.35),
              by_seed(lambda few, all_: few / all_, paper("OmniReduce", dense, 0.01), paper("OmniReduce", dense, 1.0)),
              "{:.2f}")  # fmt: skip
    over = "time with x of 4 racks programmable, over a ring"
    yield Bar("Rina: time over a ring, all racks programmable", at_most(0.7), paper("Rina", over, 4), "{:.2f}")
    yield Bar("Rina: the same, two of four racks", None, paper("Rina", over, 2), "{:.2f}")
    yield Bar("Rina: time over ATP, two of four racks", at_most(0.5),
              paper("Rina", "time with x of 4 racks programmable, over ATP", 2), "{:.2f}")  # fmt: skip
    for says, most in (
        ("short flows' mean beside PANAMA, x trees a job, over beside a ring", 0.5),
        ("their 99th percentile beside PANAMA, x trees a job, over beside a ring", 0.5),
        ("time of the jobs with PANAMA, x trees a job, over a ring", 0.8),
    ):
        yield Bar(f"PANAMA: {says.replace('x trees', '2 trees')}", at_most(most), paper("PANAMA", says, 2), "{:.2f}")
    yield Bar("sharp: time over the bound with losses, loss 5%", at_least(1.0),
              result.values("systems", "over_lossy", axis="loss", loss=0.05, system="sharp"), "{:.2f}")  # fmt: skip
    for system in RIVALS:
        for loss in (0.0, 0.01):
            ours, theirs = (
                result.values("systems", "over_best", axis="loss", loss=loss, system=who) for who in ("steiner", system)
            )
            yield Bar(f"p4reduce's tree over {system}, loss {loss:.0%}", None,
                      by_seed(lambda our, other: our / other, ours, theirs), "{:.2f}")  # fmt: skip
    if result.of("systems"):
        behind = [times for _, times in _settings(result) if set(times) & set(OURS)]
        first = sum(min(times, key=lambda system_: times[system_]) in OURS for times in behind)
        yield Bar("settings in which a plan of p4reduce's own is fastest", None, {None: float(first)}, "{:.0f}",
                  seeds="any", note=f"of {len(behind)} in which one runs")  # fmt: skip


def lead(result: StudyResult) -> str:
    """Return a paragraph on the conditions of the comparison."""
    return (
        f"{result.settings.topology}: each system is a P4 program of its own, written from its paper, on the same "
        "embedded switches, links and virtual time as p4reduce's plans. All get windows by the bandwidth-delay "
        "product, exponents ahead, time-outs by measurement, and trees that keep off those of other jobs. Every sum is "
        "checked, and must be exact. Time over the best plan's bound: over the least time that any plan of trees could "
        "have for one job's dense tensor on this network, so sparse tensors can be below 1, and several jobs count as "
        "if each were alone. With losses: that bound over 1 - loss, since each lost frame crosses its own link once "
        "more. sharp has links that repair what they lose: a loss is a delay, and the frame takes the link's time and "
        "bytes twice. Slots: chunks for which the switches reserve memory (all trees of a job together), or that ATP "
        "used at most."
    )


def _over(axis: str, x: str, text: str, scale: str = "linear") -> Chart:
    return Chart(axis.replace(" ", "-"), f"Time over the best plan's bound, by {text}", "systems", x, "over_best",
                 ("system",), where={"axis": axis}, xscale=scale, yscale="log", line=1)  # fmt: skip


CHARTS: Final = (
    _over("deployment", "deployed", "the share of switches that can add"),
    _over("loss", "loss", "loss of each link", "symlog"),
    Chart("density", "Time over the best plan's bound, by the share of blocks that are not zero", "systems", "density",
          "over_best", ("system",), panel="alike", where={"axis": "density"}, xscale="log", yscale="log", line=1),
    _over("size", "kib", "the tensor", "log"),
    _over("jobs", "jobs", "the number of jobs that begin together", "log"),
    _over("rate", "rate", "the rate of links"),
    Chart("bytes", "Bytes of the busiest link, by loss", "systems", "loss", "busiest_bytes", ("system",),
          where={"axis": "loss"}, xscale="symlog", yscale="log"),
    Chart("slots", "Slots of a switch, by the number of jobs", "systems", "jobs", "slots", ("system",),
          where={"axis": "jobs"}, xscale="log"),
    Chart("fairness", "Jain's index of the jobs' speeds", "systems", "jobs", "jain", ("system",),
          where={"axis": "jobs"}, xscale="log"),
    *(Chart(f"paper-{paper.lower()}", f"{paper}: what its paper shows, on packets", "papers", "x", "value", ("figure",),
            panel="figure", where={"paper": paper}, xscale="symlog" if paper == "SwitchML" else "linear",
            axes={"x": "x of the panel's title", "value": "ratio of times, or share"})
      for paper in FIGURES),
)  # fmt: skip
STUDY: Final = Study(
    "compare",
    "In-network aggregation on equal terms, packet by packet",
    "In-network aggregation on equal terms: published systems, each as a separate P4 program, and p4reduce's plans.",
    CompareSettings,
    QUICK,
    PARTS,
    DEVELOPED,
    HELD_OUT,
    bars,
    CHARTS,
    lead,
    tables=tables,
)
