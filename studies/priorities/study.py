"""The study of priorities on packets: jobs that share links, under every priority policy."""

from collections.abc import Iterator
from functools import partial
from statistics import fmean
from typing import Any, Final

from studies.frame import (
    Bar,
    Column,
    Measure,
    Part,
    Rows,
    Study,
    StudyResult,
    at_least,
    at_most,
    by_seed,
    mean_of,
    percent,
    within,
)
from studies.pages import Chart
from studies.priorities.cells import (
    DEVELOPED,
    HELD_OUT,
    QUICK,
    JobRoundRow,
    JobRow,
    LayerRow,
    LearningRow,
    StaleRow,
    StudySettings,
    layer_cells,
    learning_cells,
    run_layered,
    run_learning,
    run_rounds,
    run_scene,
    run_stale,
    scene_cells,
    stale_cells,
)

KEY: Final = ("policy", "knowledge", "sizes", "phi", "jitter", "latency", "queues", "rotate_rounds")


BRIEF: Final = (*KEY, "mean", "worst", "jain", "resend_share", "median_error", "in_time")


def _resent(rows: Rows, _base: Rows) -> float:
    resends, frames = (float(sum(getattr(row, name) for row in rows)) for name in ("resends", "frames"))
    return resends / max(1.0, frames)


MEASURES: Final = (
    mean_of("mean", Column("time / alone", "{:.3f}"), "slowdown"),
    Measure("best", Column("best job", "{:.3f}"), lambda rows, _: min(row.slowdown for row in rows), max),
    Measure("worst", Column("worst job", "{:.3f}"), lambda rows, _: max(row.slowdown for row in rows), max),
    "steady",
    Measure("jain", Column("Jain's index, lowest seed", "{:.3f}"), lambda rows, _: rows[0].jain, min),
    Measure("resend_share", Column("sent again", percent(2)), _resent),
    "writes",
    "median_error",
    Measure("p95_error", Column("95th percentile of errors", percent()), lambda rows, _: rows[0].p95_error, max),
    "median_lead",
    "in_time",
)
SCENES: Final = {
    "sizes": "Unequal jobs: which order decides, and predicted sizes are enough",
    "queues": "Number of queues that an order needs",
    "latency": "Predictions from counters: control latency",
    "jitter": "Predictions from counters: jitter of computing times",
    "load": "Four jobs over one uplink, by load",
    "identical": "Identical jobs in lock-step: batch numbers add nothing",
    "apart": "Jobs that share no link",
    "single": "A job by itself",
    "same-hosts": "Two jobs on the same hosts",
    "rotation": "Rotating the order of jobs",
}


def _cells(part: str, settings: StudySettings) -> Any:
    return scene_cells(settings, part)


def _cost(cell: Any) -> float:
    return float(sum(cell.scene.sizes) * len(cell.ways))


PARTS: Final = (
    *(
        Part(name, says, partial(_cells, name), run_scene, JobRow, by=KEY, mean=MEASURES, brief=BRIEF, cost=_cost)
        for name, says in SCENES.items()
    ),
    Part("interleaving", "Two identical jobs, round by round", partial(_cells, "interleaving"), run_rounds, JobRoundRow,
         cost=_cost),
    Part("stale", "A stale-synchronous parameter server with a straggler", stale_cells, run_stale, StaleRow,
         by=("staleness", "straggler", "order"), mean=("took_ps", "saved", "saved_strangers", "resend_share",
                                                              "writes")),
    Part("layers", "Layers of known models, overlapped with computing", layer_cells, run_layered, LayerRow,
         by=("model", "ratio", "channels"), mean=("iteration_ps", "over_bound", "saved", "resend_share"),
         cost=lambda _cell: 20.0),
    Part("learning", "Learning the digits: synchronous, stale-synchronous, asynchronous", learning_cells,
         run_learning, LearningRow, cost=lambda _cell: 10.0),
)  # fmt: skip


# The bars. A bar whose part was not run is left out.


def bars(result: StudyResult) -> Iterator[Bar]:
    """Yield each bar with its values by seed."""
    settings = result.settings
    value = result.values
    alone = [
        value("apart", "steady" if policy == "cassini" else "mean", policy=policy)  # shifts delay the first round
        for policy in (*settings.policies, *settings.within_policies)
        if policy != "fifo"
    ]
    yield Bar(
        "no contention: every policy within 0.5 % of first come, first served",
        within(0.005),
        by_seed(lambda *means: max((mean - 1 for mean in means), key=abs), *alone),
        percent(2),
        every=True,
    )
    batch, fifo, pull = (partial(value, measure="mean", policy=policy) for policy in ("batch", "fifo", "pull-push"))
    yield Bar(
        "a synchronous job by itself: batch order 0 +- 0.5 %",
        within(0.005),
        by_seed(_off, batch("single"), fifo("single")),
        percent(2, sign=True),
    )
    for phi in settings.identical_phis:
        for other, text in (
            (fifo, "raw batch order within 1 % of first come, first served"),
            (pull, "batch numbers add nothing to pull before push, +- 1 %"),
        ):
            yield Bar(
                f"identical jobs, phi {phi:g}: {text}",
                within(0.01),
                by_seed(_off, batch("identical", phi=phi), other("identical", phi=phi)),
                percent(2, sign=True),
            )
    for part in ("identical", "load"):
        distinct = partial(value, part, policy="random", phi=settings.low_phi)
        jitter = "0 %" if part == "identical" else f"{100 * settings.jitter:g} %"
        name = f"4 jobs at phi {settings.low_phi:g}, jitter {jitter}, a distinct order"
        yield Bar(f"{name}: mean over alone", at_most(1.06), distinct("mean"),
                  note=_beside(fifo(part, phi=settings.low_phi)))  # fmt: skip
        yield Bar(f"{name}: worst job over alone", at_most(1.10), distinct("worst"), every=True)
        yield Bar(f"{name}: frames sent again", at_most(0.001), distinct("resend_share"), percent(3))
    name = "unequal sizes, shortest first from predicted sizes"
    predicted, oracle = (partial(value, "sizes", policy="sjf", knowledge=told) for told in ("predicted", "oracle"))
    yield Bar(f"{name}: mean over alone", at_most(1.25), predicted("mean"), note=_beside(fifo("sizes")))
    yield Bar(f"{name}: above the oracle", at_most(0.02), by_seed(_off, predicted("mean"), oracle("mean")),
              percent(2, sign=True))  # fmt: skip
    order = partial(value, "same-hosts", policy="sjf")
    for measure, most in (("best", 1.03), ("worst", 1.07)):
        yield Bar(f"two jobs on the same hosts, distinct classes: the {measure} job over alone", at_most(most),
                  order(measure), every=True, note=_beside(fifo("same-hosts")))  # fmt: skip
    usual = partial(value, "jitter", jitter=settings.jitter)
    name = f"predicted at {100 * settings.jitter:g} % jitter"
    yield Bar(f"{name}: median error of starts, of a period", at_most(0.02), usual("median_error"), percent(2))
    yield Bar(f"{name}: classes written before the first frame", at_least(0.99), usual("in_time"), percent())
    stale = partial(value, "stale", staleness=2, straggler=2.0, order="switch")
    for measure, other_name in (
        ("saved_strangers", "of senders that know nothing of each other"),
        ("saved", "whose time-outs cover the whole group as well"),
    ):
        yield Bar(f"SSP(2), a straggler x 2, the oldest batch first: time saved against first come, first served "
                  f"{other_name}", at_least(0.15), stale(measure), percent())  # fmt: skip
    for model in ("vgg16", "resnet50"):
        yield Bar(f"layers of {model} over 4 channels, communication as long as computing: time saved against first "
                  "come, first served", at_least(0.15), value("layers", "saved", model=model, ratio=1.0, channels=4),
                  percent(), seeds="any")  # fmt: skip


def _off(ours: float, theirs: float) -> float:
    return ours / theirs - 1


def _beside(fifo: Any) -> str:
    return f"first come, first served: {fmean(fifo.values()):.2f}" if fifo else ""


def lead(result: StudyResult) -> str:
    """Return a paragraph on the conditions of the run."""
    settings = result.settings
    return (
        f"{settings.rounds} rounds in each of {len(settings.seeds)} seeds; jobs of three workers and a server across "
        f"two leaves with 40 Gb/s to hosts and one uplink of 10 Gb/s, {settings.elements:,} float32 parameters, "
        f"computing times with {100 * settings.jitter:g} % jitter. Every time comes from frames through the P4 "
        "program, in virtual time; a run ends with an error if a sum is wrong, or a link carries other bytes than "
        "predicted. Classes are entries of the table traffic_class, written over P4Runtime. Time / alone: a job's "
        "completion time over that of the same job, with the same computing times, when it has the network to itself."
    )


CHARTS: Final = (
    Chart("load", "Time over time alone by load: in lock-step without an order, interleaved by any distinct one",
          "load", "phi", ("mean", "worst"), ("policy",), line=1),
    Chart("interleaving", "Two identical jobs: in lock-step, or falling into interleaving", "interleaving", "round",
          "slowdown", ("job",), panel="policy", rows=True, label=lambda job: f"job {job}"),
    Chart("sizes", "Unequal jobs: which order decides, and predicted sizes are enough", "sizes", "way", "slowdown",
          ("size",), kind="bars", rows=True, line=1, label=lambda size: f"size {size}"),
    Chart("resends", "Frames sent again, by the class that a job had at the end", "sizes", "way", "resent",
          ("priority",), kind="bars", rows=True, label=lambda value: f"class {value}"),
    Chart("prediction", "Predicted from the switches' counters: error by jitter", "jitter", "jitter",
          ("median_error", "p95_error")),
    Chart("latency", "Predicted from the switches' counters: classes in time, and time, by control latency", "latency",
          "latency", ("in_time", "mean")),
    Chart("queues", "How many queues a distinct order needs", "queues", "queues", ("mean", "worst")),
    Chart("fairness", "Who starves: the worst job and Jain's index of every policy",
          ("load", "sizes", "rotation"), "jain", "worst", ("policy",), kind="dots"),
    Chart("stale", "8 workers behind one uplink, the oldest batch first or first come, first served", "stale",
          "straggler", "took_ps", ("order",), panel="staleness"),
    Chart("layers", "Layers overlapped with computing, urgent ones first; one channel: first come, first served",
          "layers", "channels", "over_bound", ("model",), panel="ratio"),
    Chart("learning", "The digits, plain SGD at a parameter server that waits for all, for some rounds, or not",
          "learning", "at_ms", "accuracy", ("staleness",), panel="straggler", rows=True,
          label=lambda bound: {0: "all wait", -1: "no worker waits"}.get(bound, f"SSP({bound})")),
)  # fmt: skip
STUDY: Final = Study(
    "priorities",
    "Application-aware priorities: jobs that share links, on packets",
    "Application-aware priorities on packets: effect of traffic classes and their order on jobs that share links.",
    StudySettings,
    QUICK,
    PARTS,
    DEVELOPED,
    HELD_OUT,
    bars,
    CHARTS,
    lead,
)
