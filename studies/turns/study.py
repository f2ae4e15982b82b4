"""The study of taking turns over an optical cross-connect: on packets, in a flow model, and in planning alone."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from p4reduce.play.turns.flow_model import factors_of
from p4reduce.play.turns.player import KEEPS
from studies.frame import (
    Bar,
    Column,
    Limit,
    Measure,
    Part,
    Rows,
    Study,
    StudyResult,
    at_least,
    at_most,
    mean_of,
    percent,
)
from studies.pages import Chart
from studies.turns.packets import (
    SMALL,
    UNCOORDINATED,
    TurnRow,
    TwinRow,
    WindowRow,
    chart,
    round_cells,
    run_round,
    run_twin,
    run_window,
    twin_cells,
)
from studies.turns.planning import (
    DEVELOPED,
    FIGURES,
    HELD_OUT,
    QUICK,
    SLOW,
    X1,
    X2,
    PlanningRow,
    TurnsSettings,
    planning_cells,
    run_planning,
)
from studies.turns.sweeps import SWEEPS, SweepRow, run_sweep, sweep_cells

BySeed = Mapping[int | None, float]


def _played(name: str, shown: Column) -> Measure:
    """Return a measure for the mean of a field over schedules that were not refused."""
    mean = mean_of(name, shown)
    return Measure(name, shown, lambda rows, base: mean.of([row for row in rows if not row.refused], base))


def _over_tdm(rows: Rows, base: Rows) -> float | None:
    ours = [row.round_s for row in base if not row.refused]
    own = [row.round_s for row in rows if not row.refused]
    return own[0] / ours[0] if own and ours else None


ROUNDS: Final = {
    "gain": "Rounds without turns, of the source's system, and of one topology, over those with turns",
    "all-to-all": "With all-to-all jobs",
    "hops": "All-to-alls over eight pods: several configurations, or hops over circuits that stay",
    "sharing": "Unequal periods: throughput of a job relative to the job alone",
    UNCOORDINATED: "All-to-alls whose hosts do not coordinate their sending",
    "sigma": "Round times by the spread of training times",
    "delta": "Round times by darkness (reconfiguration time)",
    "scale": "Scaling: bytes and times divided by 16, 64 and 256",
    "stripes": "Stripes over Steiner trees, B/b of 0.25, 0.4 and 1",
    "configurations": "Processes with several configurations of the cross-connect",
}
PLANNING: Final = {
    "gains": "Planned rounds over those of tdm",
    "mixed": "The same with all-to-all jobs; 0 where no topology does",
    "optima": "Planned rounds over optima",
    "delta": "What darkness costs, hidden behind training and not, % of the round",
    "electrical": "Communication with ECMP over that with circuits",
    "pairs": "Throughput over that alone, planned",
    "traces": "Mean JCT of exclusive over that of a policy",
    "times": "Planning time on this machine, s",
    "stripes": "Planned rounds by B/b, relative to the optimum, the best of all policies, and the lower bound",
    "layers": "Throughput in two layers relative to a job alone, and refused gangs",
    "large": "Stripes in large networks: relative to the lower bound, and planning time",
}
SWEPT: Final = {
    "ratio": ("Gain over no TDM by c/w, R = 2: nothing is gained where one of both is nothing", "log",
              "communication over training, c/w", "round over that of TDM"),
    "ports": ("Rounds of one topology and of the source's system over those with turns, by ports of a ToR", "linear",
              "optical ports of a ToR, R", "round over that of TDM"),
    "circuits": ("Planned rounds over the best of all policies by B/b (circuits over NICs), 4 pods, R = 2", "log",
                 "rate of a circuit over that of a NIC, B/b", "planned round over that of the best policy"),
    "rate": ("Known models by rate, Gb/s: at 400 Gb/s little communication is left to hide", "log",
             "rate of NICs and circuits, Gb/s", "round over that of TDM; throughput over that alone"),
    "sigma": ("Throughput of a job relative to the job alone, by sigma of log training time", "linear",
              "sigma of log training time", "throughput over that alone"),
    "delta": ("Longer rounds by darkness, %", "symlog", "darkness, ms", "longer than without darkness, %"),
    "flows": ("OXC against ECMP by flows on each edge", "log", "flows on each edge", "ratio of rounds"),
    "gpus": ("32 to 16,384 GPUs: rounds over those of TDM; 1 if laid on two planes", "log",
             "GPUs", "round over that of TDM; 1: laid on two planes"),
    "trace": ("Arrivals at 4,096 GPUs, by load: mean JCT of exclusive over that of the policy", "linear",
              "load", "mean JCT of exclusive over that of the policy"),
}  # fmt: skip
"""title of a sweep, scale of x, and names of both axes"""
ROUND_KEY: Final = ("policy", "mix", "pods", "ports", "delta_s", "sigma", "ratio", "scale")
ROUND_MEASURES: Final = (
    *(_played(name, TurnRow.__dataclass_fields__[name].metadata["column"]) for name in ("configurations", "round_s")),
    Measure("over_tdm", Column("round over tdm", "{:.3f}"), _over_tdm),
    _played("packets_over_model", Column("packets / formulas", "{:.4f}")),
    *(_played(name, TurnRow.__dataclass_fields__[name].metadata["column"])
      for name in ("flow_error", "flow_job_error", "reconfigurations", "relative_mean")),
    Measure("relative_worst", Column("worst job over alone", "{:.2f}"),
            lambda rows, _: min((row.relative_worst for row in rows if not row.refused), default=None), min),
    Measure("refused", Column("refused", "{:.0f}"), lambda rows, _: sum(bool(row.refused) for row in rows), sum),
)  # fmt: skip
PARTS: Final = (
    *(
        Part(name, says, partial(round_cells, name), run_round, TurnRow, by=ROUND_KEY, mean=ROUND_MEASURES,
             brief=("policy", "mix", "ports", "delta_s", "sigma", "ratio", "round_s", "over_tdm", "flow_error"),
             base={"policy": "tdm"}, cost=lambda cell: 64 / cell.scale)
        for name, says in ROUNDS.items()
    ),
    Part("twins", "Electrical twins, on packets", twin_cells, run_twin, TwinRow, by=("twin", "flows", "polarized"),
         mean=(mean_of("ratio", Column("C(ECMP) / C(OXC)", "{:.2f}")),)),
    Part("windows", "Slots too short for what they carry", lambda _settings: KEEPS, run_window, WindowRow, by=("keep",),
         mean=("iteration_s", "dark_lost", "misrouted", "resends")),
    *(
        Part(f"plan-{name}", says, partial(planning_cells, name), run_planning, PlanningRow, by=("figure",),
             mean=("value",), cost=lambda _cell: 0.1)
        for name, says in PLANNING.items()
    ),
    *(
        Part(f"sweep-{name}", says, partial(sweep_cells, name), run_sweep, SweepRow, by=("series", "x"),
             mean=("value",), cost=lambda _cell: 0.5)
        for name, (says, *_) in SWEPT.items()
    ),
)  # fmt: skip
assert PLANNING.keys() == FIGURES.keys() and SWEPT.keys() == SWEEPS.keys()  # noqa: S101, PT018  (each has its words)


# Bars. A bar without a limit is only reported.


LOW_MEAN, LOW_WORST = 0.02, 0.05
"""limits of the errors of the formulas and of the flow model, in either direction"""


def bars(result: StudyResult) -> Iterator[Bar]:
    """Yield the bars on packets, then those of planning."""
    rows = [row for part in ROUNDS for row in result.rows(part) if not row.refused]
    coordinated = [row for part in ROUNDS if part != UNCOORDINATED for row in result.rows(part) if not row.refused]
    yield from _exact(result, rows, coordinated)
    yield from _models(coordinated)
    yield Bar("flow model off packets, all-to-alls that no planner coordinates", None,
              _by_seed(result.rows(UNCOORDINATED), lambda row: abs(row.flow_error)), percent(2))  # fmt: skip
    if not result.settings.small:
        yield from _on_packets(result)
    yield from _planned(result)
    yield from _striped(result)


def _striped(result: StudyResult) -> Iterator[Bar]:
    """Yield bars for stripes, the best of all policies, and layers, on seeds on which they were not developed."""
    decided = partial(Bar, seeds="any")
    for part, limit in (("stripes", 0.015), ("configurations", 0.03)):
        rows = [row for row in result.rows(part) if row.model_s and (part == "stripes" or row.configurations > 1)]
        yield decided(f"packets off the plan, {part}: worst", at_most(limit),
                  _by_seed(rows, lambda row: abs(row.packets_over_model - 1), max), percent(2), every=True)  # fmt: skip
    every = [row for name in ("stripes", "layers", "large") for row in result.rows(f"plan-{name}")]

    def values(figure: str, over: Callable[..., float] = statistics.fmean) -> BySeed:
        return _by_seed([row for row in every if row.figure == figure], lambda row: row.value, over)

    for pods, slow in (*((4, slow) for slow in SLOW), *((5, slow) for slow in SLOW if slow < 1)):
        text = f"striped / exact, {pods} pods, B/b={slow:g}"
        yield decided(text, at_most(1.005), values(text), "{:.4f}")
        yield decided(f"{text}: worst", at_most(1.02), values(text, max), "{:.4f}", every=True)
    for slow in SLOW:
        for policy in ("exact-one-tree", "tdm", "static", "no-tdm"):
            for own in (f"{policy} / exact, 4 pods, B/b={slow:g}", f"{policy} / best, 5 pods, B/b={slow:g}"):
                yield decided(own, None, values(own), "{:.3f}")
        for pods in (4, 5):
            own = f"striped / its bound, {pods} pods, B/b={slow:g}"
            yield decided(own, None, values(own), "{:.3f}")
    for text in ("striped above exact-one-tree", "policies below best", "layers refused", "layers below two groups"):
        yield decided(text, at_most(0), values(text, sum), "{:.0f}", every=True)
    yield decided("pairs refused, of 4 instances a seed", None, values("pairs refused", sum), "{:.2f}")
    for sigma, mean in (("0.2", 0.88), ("0.4", 0.8)):
        yield decided(f"throughput relative to alone, layers, sigma {sigma}", at_least(mean),
                  values(f"layers sigma {sigma}"), "{:.3f}")  # fmt: skip
        yield decided(
            f"the same, the worst job, sigma {sigma}", None, values(f"layers sigma {sigma} worst", min), "{:.3f}"
        )
        yield decided(f"the same, two groups, sigma {sigma}", None, values(f"tdm sigma {sigma}"), "{:.3f}")
    for pods, seconds in ((16, 5.0), (32, 30.0)):
        text = f"circuits over the bound, {pods} pods"
        yield decided(text, at_most(1.1), values(text), "{:.3f}")
        text = f"seconds for circuits, {pods} pods"
        yield decided(text, at_most(seconds), values(text, max), "{:.2f}", every=True)


def _by_seed(
    rows: Sequence[Any], value: Callable[[Any], float | None], over: Callable[..., float] = statistics.fmean
) -> BySeed:
    seed_values: dict[int | None, list[float]] = {}
    for row in rows:
        if (number := value(row)) is not None:
            seed_values.setdefault(getattr(row, "seed", None), []).append(number)
    return {seed: over(values) for seed, values in seed_values.items()}


def _exact(result: StudyResult, rows: Sequence[TurnRow], coordinated: Sequence[TurnRow]) -> Iterator[Bar]:
    none = partial(Bar, limit=at_most(0), show="{:.0f}", every=True, seeds="any")
    yield none("schedules with a wrong sum or block", values=_by_seed(rows, lambda row: not row.exact, sum))
    yield none("schedules whose first transmissions are not as predicted, process by process",
               values=_by_seed(coordinated, lambda row: not row.as_predicted, sum))  # fmt: skip
    yield none("frames lost in darkness, misrouted or dropped",
               values=_by_seed(coordinated, lambda row: row.dark_lost + row.misrouted + row.lost, sum))  # fmt: skip
    yield none("electrical twins with a wrong sum",
               values=_by_seed(result.rows("twins"), lambda row: not row.exact, sum))  # fmt: skip
    for keep in ("pause", "gates"):
        own = result.rows("windows", keep=keep)
        yield none(f"slots too short, {keep}: frames lost or misrouted",
                   values=_by_seed(own, lambda row: row.dark_lost + row.misrouted, sum))  # fmt: skip


def _models(rows: Sequence[TurnRow]) -> Iterator[Bar]:
    yield Bar("packets over formulas: mean", at_most(1.015), _by_seed(rows, lambda row: row.packets_over_model),
              "{:.4f}")  # fmt: skip
    yield Bar("packets over formulas: worst", at_most(1.03), _by_seed(rows, lambda row: row.packets_over_model, max),
              "{:.4f}", every=True)  # fmt: skip
    off: Callable[[Any], float | None] = lambda row: row.packets_over_model and abs(row.packets_over_model - 1)  # noqa: E731
    for what, value in (("formulas", off), ("flow model", lambda row: abs(row.flow_error))):
        yield Bar(f"{what} off packets: mean", at_most(LOW_MEAN), _by_seed(rows, value), percent(2))
        yield Bar(f"{what} off packets: worst", at_most(LOW_WORST), _by_seed(rows, value, max), percent(2), every=True)
    yield Bar("flow model off packets: the worst job of each schedule", None,
              _by_seed(rows, lambda row: row.flow_job_error), percent(2))  # fmt: skip


def _limit(value: float | None, kind: Callable[[float], Limit] = at_least) -> Limit | None:
    return None if value is None else kind(value)


def _on_packets(result: StudyResult) -> Iterator[Bar]:
    over = partial(result.values, "gain", "over_tdm")
    for ports, goal in ((4, 1.6), (2, 2.1)):
        refused = [row.seed for row in result.rows("gain", policy="seed", ports=ports) if row.refused]
        yield Bar(f"packets: instances in which ports are too few for seed, R={ports}", None,
                  {None: len(refused)} if refused else {}, "{:.0f}")  # fmt: skip
        yield Bar(f"packets: seed / tdm, R={ports}", at_least(goal), over(policy="seed", ports=ports),
                  "{:.3g}")  # fmt: skip
    for ratio, goals in ((1.0, {4: 1.7, 2: 1.8}), (0.5, {4: 1.5, 2: 1.65})):
        for ports, goal in goals.items():
            yield Bar(f"packets: no TDM / TDM, gangs, c/w={ratio:g}, R={ports}", at_least(goal),
                      over(policy="no-tdm", ports=ports, ratio=ratio), "{:.3g}")  # fmt: skip
    for ports, demanded in ((2, 1.8), (4, None)):
        yield Bar(f"packets: one topology / switching, R={ports}", _limit(demanded), over(policy="static", ports=ports),
                  "{:.3g}")  # fmt: skip
    for ports in (4, 2):
        pairs = partial(result.values, "sharing", policy="pairs", ports=ports, mix="sums")
        name = f"packets: throughput relative to alone, sigma 0.4, pairs, R={ports}"
        yield Bar(name, at_least(0.88), pairs("relative_mean"), "{:.3g}")
        yield Bar(f"{name}: worst job", None, pairs("relative_worst"), "{:.3g}")
    for flows, demanded in ((1, 1.4), (4, 1.15), (16, None)):
        yield Bar(f"packets: C(ECMP) / C(OXC), {flows} flows an edge, R=2", _limit(demanded),
                  result.values("twins", "ratio", twin="leaf-spine", flows=flows), "{:.3g}")  # fmt: skip


def _planned(result: StudyResult) -> Iterator[Bar]:
    every = [row for name in PLANNING for row in result.rows(f"plan-{name}")]

    def values(figure: str, over: Callable[..., float] = statistics.fmean) -> BySeed:
        return _by_seed([row for row in every if row.figure == figure], lambda row: row.value, over)

    def least(text: str, figure: str, demanded: float | None) -> Bar:
        return Bar(text, _limit(demanded), values(figure), "{:.3g}")

    def most(text: str, figure: str, mean: float | None, worst: float | None = None) -> Iterator[Bar]:
        yield Bar(text, _limit(mean, at_most), values(figure), "{:.4g}")
        if worst is not None:
            yield Bar(f"{text}: worst", at_most(worst), values(figure, max), "{:.4g}", every=True)

    def possible(text: str, figure: str) -> Bar:
        own = [row for row in every if row.figure == figure]
        known = [row for row in own if row.value]
        return Bar(text, None, _by_seed(known, lambda row: row.value), "{:.3g}",
                   note=f"impossible in {len(own) - len(known)} of {len(own)}")  # fmt: skip

    yield from most("hill climbing over best partition, elastic", "elastic flips", None)
    yield from most("flips over best partition, gangs", "flips", None)
    yield from most("flips, swaps, restarts over best partition, gangs", "ours", 1.002, 1.002)
    yield from most("tdm over joint optimum", "exact", 1.02, 1.05)
    yield from most("seed's placement, best partition, over joint optimum", "seed placement", None)
    for ports, wanted in ((4, 1.6), (2, 2.1)):
        yield least(f"seed / tdm, each at its best partition, R={ports}", f"seed R={ports}", wanted)
    for load, gains in ((1.0, {4: 1.7, 2: 1.8}), (0.5, {4: 1.5, 2: 1.65})):
        for ports, value in gains.items():
            text = f"no TDM / TDM, gangs, c/w={load:g}, R={ports}"
            yield least(text, f"no-tdm R={ports} c/w={load:g}", value)
    for ports, value in ((4, 1.5), (2, 1.35)):
        yield least(f"no TDM / TDM, elastic, R={ports}", f"elastic R={ports}", value)
    for ports, bar in ((2, 1.8), (3, 1.1), (4, None)):
        yield least(f"one topology (placed for it) / switching, R={ports}", f"static R={ports}", bar)
        yield possible(f"one topology / switching, units where tdm put them, R={ports}", f"frozen R={ports}")
        yield possible(f"one topology / switching, a third all-to-all, R={ports}", f"mixed static R={ports}")
        yield possible(f"no TDM / TDM, a third all-to-all, R={ports}", f"mixed no-tdm R={ports}")
    for reading in ("overlap", "serial"):
        for delta in ("0.2", "1", "10"):
            yield from most(f"delta {delta} ms, {reading}, % of the round", f"{reading} {delta} ms", None)
    for flows, bar in ((1, 1.4), (4, 1.15), (16, None)):
        yield least(f"C(ECMP) / C(OXC), {flows} flows an edge, R=2", f"ecmp {flows}", bar)
        yield least(f"the same, polarized, {flows} flows", f"ecmp {flows} polarized", None)
    for ports in (4, 3, 2):
        yield from most(f"OXC / ideal EPS, round, R={ports}", f"ideal R={ports}", 1.05)
    yield from most("OXC / ideal EPS, communication, R=2", "over ideal", 1.05)
    for name, mean, worst in (("sigma 0.4", 0.88, None), ("models", 0.76, 0.48)):
        for policy in ("groups", "free"):
            yield least(f"throughput relative to alone, {name}, {policy}", f"{policy} {name}", None)
        yield least(f"throughput relative to alone, {name}, pairs", f"pairs {name}", mean)
        yield Bar(f"worst job, {name}, pairs", _limit(worst), values(f"pairs {name} worst", min), "{:.3g}",
                  every=worst is not None)  # fmt: skip
    for offered, wanted in (("0.8", 1.6), ("1", 2.3), ("1.2", 2.6)):
        yield least(f"mean JCT exclusive / pairs, load {offered}", f"pairs {offered}", wanted)
        for policy in ("gated", "free"):
            yield least(f"mean JCT exclusive / {policy}, load {offered}", f"{policy} {offered}", None)
    for text, name, seconds in (
        ("seconds to plan 16 pods, 32 jobs", "plan 16", 1.0),
        ("seconds to plan 128 pods, 100 jobs", "plan 128", 30.0),
        ("seconds for one arrival, 16 pods", "join 16", 0.1),
        ("seconds for one arrival, 128 pods", "join 128", 0.1),
    ):
        yield Bar(text, at_most(seconds), values(name, max), "{:.4g}", every=True)


def _svg(result: StudyResult) -> dict[str, str]:
    return {"gantt.svg": chart()} if result.rows("windows") else {}


def _factors(result: StudyResult) -> dict[str, Any]:
    if not any(result.rows(part) for part in ROUNDS):
        return {}
    return {"factors": factors_of(SMALL if result.settings.small else X1)}


CHARTS: Final = (
    Chart("model", "How far formulas and the flow model are off packets, by policy", tuple(ROUNDS), "policy",
          ("packets_over_model", "flow_error"), ("mix",), kind="dots"),
    Chart("packets", "On packets: rounds over those of TDM, c/w = 1", "gain", "policy", "over_tdm", ("ports",),
          kind="dots", where={"ratio": 1.0}, label=lambda ports: f"R={ports}"),
    Chart("twins", "ECMP over circuits, or alone, by flows an edge", "twins", "flows", "ratio", ("twin", "polarized"),
          xscale="log", label=lambda twin, polarized: f"{twin}{', polarized' if polarized else ''}"),
    *(Chart(name, says, f"sweep-{name}", "x", "value", ("series",), xscale=how, axes={"x": x, "value": y})
      for name, (says, how, x, y) in SWEPT.items()),
)  # fmt: skip
STUDY: Final = Study(
    "turns",
    "Taking turns over an optical cross-connect, on packets",
    "Jobs that take turns over an optical cross-connect: schedules on packets, compared with formulas and a flow "
    "model, sweeps at flow level, and planning, compared with optima.",
    TurnsSettings,
    QUICK,
    PARTS,
    DEVELOPED,
    HELD_OUT,
    bars,
    CHARTS,
    lambda result: (
        f"Virtual time, {X2.rate_bps / 1e9:g} Gb/s, 256 lanes. Schedules of random jobs are played on packets; bytes "
        "and times of jobs are divided by the scale. Factors of both models are measured on jobs that are alone."
    ),
    files=_svg,
    more=_factors,
)
