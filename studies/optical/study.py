"""The study of grooming: policies on two networks, optima of small networks, arrivals, and packets."""

import random
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

from p4reduce.control_plane.optical.arrivals import arrive
from p4reduce.control_plane.optical.auxiliary import SLICES
from p4reduce.control_plane.optical.policies import FLOWS, GroomingOptions, draw_tasks, groom, laid_anew, regroom
from p4reduce.play.optical import play
from p4reduce.topologies import TopologyBuilder
from p4reduce.topologies.wdm import Wdm, wdm
from studies.frame import (
    Bar,
    Part,
    Study,
    StudyResult,
    at_least,
    at_most,
    by_seed,
    column,
    columns_of,
    percent,
    record,
    scaled,
)
from studies.optical import spine
from studies.optical.reader import faults
from studies.optical.spine import seeded
from studies.pages import Chart

DEVELOPED: Final = range(10)
HELD_OUT: Final = range(100, 110)
GRAPHS: Final = {"nobel-us": 2, "germany50": 1}
"""number of hosts in each city, by network"""
PLENTY, FEW = "plenty", "W=X=16"
POLICIES: Final = ("lightpath-per-flow", "spff", "spff by fibres", "opaque", "groom", "opaque-agg", "groom-agg")
LAMBDAS: Final = (0.0, 0.005, 0.02, 0.05, 0.1)
NEARLY_FREE: Final = {"nobel-us": 0.02, "germany50": 0.1}
"""lambda by network, chosen on seeds 0 to 5"""
FLOW_MOVES: Final = 200
"""number of moves of `best-flows`, whose moves take ten times as long"""


@dataclass(frozen=True)
class OpticalSettings:
    """Every parameter of the study.

    Attributes
    ----------
    seeds : tuple of int
        Seeds of the tasks; parts that take long use the first few seeds only.
    small : bool
        Whether to use one network and few moves of the searches.
    """

    seeds: tuple[int, ...] = tuple(HELD_OUT)
    small: bool = False

    @property
    def graphs(self) -> tuple[str, ...]:
        """Networks of the study."""
        return tuple(GRAPHS)[: 1 if self.small else None]


QUICK: Final = OpticalSettings(seeds=(1, 2), small=True)


@dataclass(frozen=True)
class PlanCell:
    """One policy, network and seed."""

    graph: str
    policy: str
    seed: int
    setting: str = FEW
    lam: float = 0.0
    grid: str = "fixed"
    small: bool = False

    @property
    def network(self) -> Wdm:
        """The network with its fibres and transponders."""
        most, transponders = (80, 0) if self.setting == PLENTY else (16, 16)
        return wdm(self.graph, wavelengths=most, transponders=transponders, hosts=GRAPHS[self.graph])

    @property
    def options(self) -> GroomingOptions:
        """Options of the policy."""
        moves = 60 if self.small else FLOW_MOVES if self.policy == "best-flows" else 1500
        return GroomingOptions(
            lam=self.lam,
            grid=self.grid,  # type: ignore[arg-type]
            shortest="fibres" if self.policy.endswith("by fibres") else "km",
            moves=moves,
            budget=0.0 if self.policy.endswith("no budget") else 1.1,
        )


@record
class OpticalPlanRow:
    """One plan; tasks' values are means over its tasks."""

    graph: str = column("network")
    setting: str = column("optics")
    grid: str = column("grid")
    lam: float = column("lambda", "{:g}")
    policy: str = column("policy")
    seed: int
    blocked: float = column("blocked of 30", "{:.1f}")
    transponders: float = column("transponders", "{:.1f}")
    most_at_a_node: float = column("most at a node", "{:.1f}")
    wavelengths: float = column("wavelengths", "{:.1f}")
    wavelength_links: float = column("wavelength-links", "{:.0f}")
    bypassed: float = column("lightpaths that bypass", percent(0))
    fill: float = column("slots filled", percent(0))
    fibre_bytes: float = column("fibre MB a task", scaled(1e-6, "{:.2f}"))
    router_bytes: float = column("router MB a task", scaled(1e-6, "{:.2f}"))
    latency_ms: float = column("latency, ms", "{:.2f}")
    faults: int = column("faults", "{:.0f}")
    """number of faults that the reader found"""
    members: float = column("cities that are members", percent(0))
    """share of a network's cities that a task touches; at 100 % there is no city to bypass"""
    seconds: float = column("CPU s", "{:.2f}")


def plan_row(cell: PlanCell) -> Iterator[OpticalPlanRow]:
    """Make a plan, check it and count its resources."""
    network = cell.network
    tasks = draw_tasks(network, cell.seed)
    began = time.process_time()
    made = groom(cell.policy.split(" by ")[0].split(",")[0], tasks, network, cell.options)
    seconds = time.process_time() - began
    metrics = made.metrics()
    touched = [len({network.home[host] for host in (task.server, *task.workers)}) for task in tasks]
    known = {name: metrics[name] for name in (field.name for field in fields(OpticalPlanRow)) if name in metrics}
    yield OpticalPlanRow(
        graph=cell.graph,
        setting=cell.setting,
        grid=cell.grid,
        lam=cell.lam,
        policy=cell.policy,
        seed=cell.seed,
        faults=len(faults(made.as_data(), SLICES if cell.grid == "flex" else None)),
        members=statistics.fmean(touched) / len(network.nodes),
        seconds=seconds,
        **known,
    )


def policy_cells(settings: OpticalSettings) -> Iterator[PlanCell]:
    """Yield cells for policies that plan tasks one after the other, with plenty of and with few resources."""
    for graph in settings.graphs:
        for setting in (PLENTY, FEW):
            for policy in POLICIES:
                for seed in settings.seeds:
                    yield PlanCell(graph, policy, seed, setting)


def search_cells(settings: OpticalSettings) -> Iterator[PlanCell]:
    """Yield cells for searches with plenty of resources, and for `best` with few, too."""
    for seed in settings.seeds:
        for graph in settings.graphs:
            yield PlanCell(graph, "best", seed, FEW, small=settings.small)
            for policy in ("best", "best-opaque", "best, no budget", "best-flows"):
                yield PlanCell(graph, policy, seed, PLENTY, small=settings.small)


def lambda_cells(settings: OpticalSettings) -> Iterator[PlanCell]:
    """Return cells for `groom-agg` with costs of kilometres."""
    return (
        PlanCell(graph, "groom-agg", seed, lam=lam)
        for graph in settings.graphs
        for lam in LAMBDAS
        for seed in settings.seeds
    )


def flex_cells(settings: OpticalSettings) -> Iterator[PlanCell]:
    """Return cells for the flexible grid, without limits of transponders."""
    return (
        PlanCell(graph, policy, seed, PLENTY, grid="flex")
        for graph in settings.graphs
        for policy in ("spff", "groom", "opaque-agg", "groom-agg")
        for seed in settings.seeds
    )


# Small networks, with optima.


SMALL: Final = 20
"""number of instances, with consecutive seeds from the first seed of the study"""


@record
class SmallRow:
    """One small network: costs of its lightpaths, 10 for a transponder and 1 for a fibre."""

    seed: int
    exact: float = column("exact", "{:.1f}")
    bound: float = column("bound", "{:.1f}")
    best: float = column("best", "{:.1f}")
    greedy: float = column("groom-agg", "{:.1f}")
    over: float = column("best / exact", "{:.4f}")
    blocked: int


def ring(seed: int) -> Wdm:
    """Return six cities in a ring with two chords, with four wavelengths of four slots."""
    draw, builder = random.Random(80_000 + seed), TopologyBuilder("ring")  # noqa: S311
    for city in range(6):
        builder.switch(f"c{city}")
        builder.host(f"c{city}-h1")
        builder.link(f"c{city}-h1", f"c{city}", "40G", "1us")
    for a, b in [*((city, (city + 1) % 6) for city in range(6)), (0, 3), (1, 4)]:
        builder.link(f"c{a}", f"c{b}", "100G", f"{draw.randint(50, 300) * 4900}ns")
    return Wdm(builder.build(), wavelengths=4, slots=4, transponders=16)


def small_row(seed: int) -> Iterator[SmallRow]:
    """Plan five tasks of three local models, two slots each, exactly and by heuristics."""
    network = ring(seed)
    tasks = draw_tasks(network, seed, tasks=5, models=3, demand_bps=50 * 10**9)
    plans = [groom(policy, tasks, network, GroomingOptions(budget=0.0)) for policy in ("exact", "best", "groom-agg")]
    exact, best, greedy = (plan.cost + 1000.0 * plan.blocked for plan in plans)
    yield SmallRow(seed, exact, plans[0].bound, best, greedy, best / exact, plans[0].blocked)


# Arrivals.


@dataclass(frozen=True)
class Coming:
    """One policy at one load."""

    policy: str
    load: float
    moved: int
    seed: int
    arrivals: int


@record
class ArrivalRow:
    """Blocked and interrupted tasks of a run with arrivals."""

    policy: str = column("policy")
    moved: int = column("may be moved", "{:.0f}")
    load: float = column("Erlang", "{:g}")
    seed: int
    blocked: float = column("blocked", percent(2))
    interrupted: float = column("interruptions a task", percent(2))
    running: float = column("running", "{:.1f}")
    transponders: float = column("transponders", "{:.1f}")


def arrival_cells(settings: OpticalSettings) -> Iterator[Coming]:
    """Yield cells on nobel-us, W = X = 16."""
    for policy, moves in (("spff", (0, 2)), ("groom", (0,)), ("opaque-agg", (0, 2)), ("groom-agg", (0, 1, 2, 4))):
        for load in (20.0, 40.0, 80.0, 120.0):
            for moved in moves:
                for seed in settings.seeds[:5]:
                    yield Coming(policy, load, moved, seed, 50 if settings.small else 300)


def arrival_row(cell: Coming) -> Iterator[ArrivalRow]:
    """Simulate the arrivals of a cell."""
    network = wdm("nobel-us", hosts=2)
    outcome = arrive(cell.policy, network, cell.load, arrivals=cell.arrivals, moved=cell.moved, seed=cell.seed)
    yield ArrivalRow(
        cell.policy,
        cell.moved,
        cell.load,
        cell.seed,
        outcome.blocked,
        outcome.interrupted,
        outcome.running,
        outcome.transponders,
    )


# Packets.


@record
class PacketRow:
    """Rounds of all tasks of a plan, on packets."""

    graph: str = column("network")
    policy: str = column("policy")
    at_once: bool = column("at once")
    seed: int
    tasks: int = column("tasks", "{:.0f}")
    lightpaths: int = column("lightpaths", "{:.0f}")
    differing: int = column("links or lightpaths off the prediction", "{:.0f}")
    lost: int = column("lost, misrouted or resent", "{:.0f}")
    wrong: int = column("wrong sums", "{:.0f}")
    worst: float = column("latency off the formula, worst", percent(3))
    latency_ms: float = column("latency, ms", "{:.3f}")


@dataclass(frozen=True)
class PlayedPlan:
    """A plan to play on packets."""

    cell: PlanCell
    at_once: bool


def packet_cells(settings: OpticalSettings) -> Iterator[PlayedPlan]:
    """Yield cells with tasks one after the other, and for `groom-agg` also with all tasks at once."""
    for graph in settings.graphs:
        for policy in ("opaque-agg", "groom-agg", "best"):
            for seed in settings.seeds[: 1 if settings.small else 2]:
                for at_once in (False, True) if policy == "groom-agg" else (False,):
                    yield PlayedPlan(PlanCell(graph, policy, seed, small=settings.small), at_once)


def packet_row(play_cell: PlayedPlan) -> Iterator[PacketRow]:
    """Play a plan; hosts' links are faster if all tasks run at once."""
    cell = play_cell.cell
    rate = "400G" if play_cell.at_once else "40G"
    network = wdm(cell.graph, hosts=GRAPHS[cell.graph], access_rate=rate)
    made = groom(cell.policy, draw_tasks(network, cell.seed), network, cell.options)
    played = play(made, at_once=play_cell.at_once, seed=cell.seed)
    off = sum(a != b for a, b in zip(played.lightpath_bytes, played.predicted_bytes, strict=True))
    yield PacketRow(
        graph=cell.graph,
        policy=cell.policy,
        at_once=play_cell.at_once,
        seed=cell.seed,
        tasks=len(played.tasks),
        lightpaths=len(played.lightpath_bytes),
        differing=len(played.differing) + off,
        lost=played.lost + played.misrouted + played.resends,
        wrong=sum(not task.exact for task in played.tasks),
        worst=played.worst,
        latency_ms=statistics.fmean(task.latency_ps / 1e9 for task in played.tasks),
    )


# Re-grooming of existing plans.


@record
class RegroomRow:
    """A plan of `opaque-agg`, and its re-grooming."""

    graph: str = column("network")
    price: float = column("transponders a task must save", "{:g}")
    seed: int
    moved: float = column("tasks laid anew, of 30", "{:.1f}")
    saved: float = column("transponders saved", "{:.1f}")
    share: float = column("of those there", percent(1))


def regroom_cells(settings: OpticalSettings) -> Iterator[tuple[str, float, int, int]]:
    """Yield cells by network, price and seed."""
    for graph in settings.graphs:
        for price in (0.0, 0.5, 1.0, 2.0, 4.0):
            for seed in settings.seeds[:3]:
                yield graph, price, seed, 60 if settings.small else 600


def regroom_row(cell: tuple[str, float, int, int]) -> Iterator[RegroomRow]:
    """Make a plan, and re-groom it."""
    graph, price, seed, moves = cell
    network = wdm(graph, hosts=GRAPHS[graph])
    before = groom("opaque-agg", draw_tasks(network, seed), network)
    after = regroom(before, GroomingOptions(moves=moves, seed=seed), price)
    saved = before.transponders - after.transponders
    yield RegroomRow(graph, price, seed, len(laid_anew(before, after)), saved, saved / before.transponders)


# Bars.


MEASURES: Final = ("blocked", "transponders", "most_at_a_node", "wavelengths", "wavelength_links", "bypassed", "fill",
                   "fibre_bytes", "router_bytes", "latency_ms", "members", "seconds")  # fmt: skip
BRIEF: Final = ("graph", "setting", "policy", "blocked", "transponders", "bypassed", "fibre_bytes", "latency_ms")
PARTS: Final = (
    Part("policies", "Policies that plan tasks one after the other", policy_cells, plan_row, OpticalPlanRow,
         by=("graph", "setting", "policy"), mean=MEASURES, brief=BRIEF),
    Part("searches", "Policies that search: best and its variants", search_cells, plan_row, OpticalPlanRow,
         by=("graph", "setting", "policy"), mean=MEASURES, brief=BRIEF, cost=lambda _: 60.0),
    Part("lambda", "Cost of kilometres (lambda): transponders against latency, groom-agg", lambda_cells, plan_row,
         OpticalPlanRow, by=("graph", "lam"), mean=("transponders", "fibre_bytes", "latency_ms")),
    Part("flex", "The flexible grid", flex_cells, plan_row, OpticalPlanRow, by=("graph", "policy"), mean=MEASURES,
         brief=("graph", "policy", "blocked", "transponders", "wavelength_links", "latency_ms")),
    Part("exact", "A ring of six cities with two chords, five tasks: costs beside the optimum",
         lambda settings: range(settings.seeds[0], settings.seeds[0] + (2 if settings.small else SMALL)), small_row,
         SmallRow, by=(), lists=True, cost=lambda _: 30.0),
    Part("arrivals", "Arrivals on nobel-us, W = X = 16", arrival_cells, arrival_row, ArrivalRow,
         by=("policy", "moved", "load"), mean=("blocked", "interrupted", "running", "transponders"),
         cost=lambda cell: cell.load * (20 if cell.policy == "groom" else 1)),
    Part("regroom", "Re-grooming a plan of opaque-agg: transponders saved", regroom_cells, regroom_row, RegroomRow,
         by=("graph", "price"), mean=("moved", "saved", "share"), cost=lambda _: 10.0),
    Part("packets", "On packets, W = X = 16", packet_cells, packet_row, PacketRow, by=("graph", "policy", "at_once"),
         mean=("tasks", "lightpaths", "differing", "lost", "wrong", "worst", "latency_ms"), cost=lambda _: 100.0),
    *spine.PARTS,
)  # fmt: skip
BySeed = Mapping[int | None, float]


def bars(result: StudyResult) -> Iterator[Bar]:
    """Yield bars for plans, optima and packets."""
    for graph in result.settings.graphs:
        yield from _of_plans(result, graph)
        none: dict[str, Any] = {"graph": graph, "policy": "groom-agg"}
        times = {lam: result.values("lambda", "latency_ms", graph=graph, lam=lam) for lam in LAMBDAS}
        costs = {lam: result.values("lambda", "transponders", graph=graph, lam=lam) for lam in LAMBDAS}
        for what, values, limit in (("latency", times, 0.85), ("transponders", costs, 1.05)):
            lam = NEARLY_FREE[graph]
            yield Bar(f"{graph}: {what} at lambda {lam:g} over that at 0", at_most(limit),
                      by_seed(_over, values[lam], values[0.0]), "{:.3f}")  # fmt: skip
        fixed = result.values("policies", "transponders", setting=PLENTY, **none)
        yield Bar(f"{graph}: transponders of groom-agg, flexible grid over wavelengths", None,
                  by_seed(_over, result.values("flex", "transponders", **none), fixed), "{:.3f}")  # fmt: skip
    every = [row for part in ("policies", "searches", "lambda", "flex") for row in result.rows(part)]
    wrong = seeded(every, lambda row: row.faults, sum)
    yield Bar("plans in which the reader finds a fault", at_most(0), wrong, "{:.0f}", every=True, seeds="any")
    small = result.rows("exact")
    yield Bar(
        "small networks: best over the optimum",
        at_most(1.03),
        seeded(small, lambda row: row.over),
        "{:.4f}",
        seeds="any",
    )
    over = seeded(small, lambda row: row.over)
    yield Bar("small networks: best over the optimum, worst", at_most(1.08), over, "{:.4f}", every=True, seeds="any")
    yield Bar(
        "small networks: groom-agg over the optimum",
        None,
        seeded(small, lambda row: row.greedy / row.exact),
        "{:.4f}",
        seeds="any",
    )
    yield Bar(
        "small networks: the optimum over its bound",
        None,
        seeded(small, lambda row: row.exact / row.bound),
        "{:.4f}",
        seeds="any",
    )
    packets = result.rows("packets")
    for name in ("differing", "lost", "wrong"):
        text, value = columns_of(PacketRow)[name].heading, attrgetter(name)
        yield Bar(f"packets: {text}", at_most(0), seeded(packets, value, sum), "{:.0f}", every=True, seeds="any")
    yield Bar("packets: latency off the formula, worst task", at_most(0.02), seeded(packets, attrgetter("worst"), max),
              percent(3), every=True, seeds="any")  # fmt: skip
    yield from spine.bars(result)


def _of_plans(result: StudyResult, graph: str) -> Iterator[Bar]:
    def values(name: str, policy: str, setting: str = PLENTY) -> BySeed:
        part = "searches" if policy.startswith("best") else "policies"
        return result.values(part, name, graph=graph, setting=setting, policy=policy)

    def over(name: str, policy: str, base: str, limit: float | None = None, *, every: bool = False) -> Bar:
        return Bar(f"{graph}: {name.replace('_', ' ')}, {policy} / {base}", None if limit is None else at_most(limit),
                   by_seed(_over, values(name, policy), values(name, base)), "{:.3f}", every=every)  # fmt: skip

    us = graph == "nobel-us"
    for policy in ("groom-agg", "best"):
        yield Bar(
            f"{graph}: tasks that {policy} blocks, {FEW}",
            at_most(0),
            values("blocked", policy, FEW),
            "{:.0f}",
            every=True,
        )
    yield Bar(
        f"{graph}: tasks that spff blocks, {FEW}",
        at_least(6 if us else 20),
        values("blocked", "spff", FEW),
        "{:.0f}",
        every=True,
    )
    for policy in ("spff by fibres", "groom", "opaque"):
        yield Bar(f"{graph}: tasks that {policy} blocks, {FEW}", None, values("blocked", policy, FEW), "{:.1f}")
    yield over("transponders", "groom-agg", "spff", 0.5 if us else 0.3, every=True)
    yield over("transponders", "groom-agg", "opaque-agg")
    yield over("fibre_bytes", "groom-agg", "opaque-agg")
    yield over("transponders", "best", "opaque-agg", 1.0, every=True)
    yield over("transponders", "best", "opaque-agg", None if us else 0.93)
    yield over("fibre_bytes", "best", "opaque-agg", 1.1, every=True)
    yield over("transponders", "best", "best-opaque")
    yield over("transponders", "best, no budget", "best-opaque")
    yield over("fibre_bytes", "best, no budget", "opaque-agg")
    yield over("transponders", "best", "best-flows")
    yield over("latency_ms", "best", "spff")
    yield Bar(f"{graph}: CPU seconds of best", at_most(10), values("seconds", "best"), "{:.1f}", every=True)


def _over(a: float, b: float) -> float:
    return a / b


CHARTS: Final = (
    Chart("transponders", "Transponders, where there are plenty", ("policies", "searches"), "policy", "transponders",
          ("graph",), kind="dots", where={"setting": PLENTY}),
    Chart("blocked", "Tasks of 30 that are blocked, W = X = 16", "policies", "policy", "blocked", ("graph",),
          kind="dots", where={"setting": FEW}),
    Chart("front", "Transponders against latency by lambda", "lambda", "latency_ms", "transponders", ("graph",)),
    Chart("arrivals", "Blocked tasks by load", "arrivals", "load", "blocked", ("policy", "moved")),
)  # fmt: skip
STUDY: Final = Study(
    "optical",
    "Grooming AI tasks over lightpaths",
    "AI tasks over wavelengths, ROADMs and transponders: policies with and without aggregation on the way, optima of "
    "small networks, arrivals with re-grooming, and packets.",
    OpticalSettings,
    QUICK,
    PARTS,
    DEVELOPED,
    HELD_OUT,
    bars,
    CHARTS,
    lambda result: (
        "30 tasks of 15 local models (LeNet-5) at random hosts, lightpaths of 100 Gb/s in 10 slots, one slot for each "
        f"copy. Policies without sums on the way: {', '.join(FLOWS)}. Fibres are as long as the graphs say."
    ),
)
