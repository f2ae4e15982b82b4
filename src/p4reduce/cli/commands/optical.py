"""``p4reduce optical``: AI tasks over lightpaths."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from p4reduce.base.errors import Failed
from p4reduce.base.output import Output, Progress, progress_bar, time_text
from p4reduce.cli.flags.schedule import (
    OpticalArrivals,
    OpticalCompare,
    OpticalPlan,
    OpticalRegroom,
    OpticalRun,
    OpticalSpine,
)
from p4reduce.control_plane.optical import policies
from p4reduce.control_plane.optical.arrivals import arrive, interval
from p4reduce.control_plane.optical.plan import GroomingPlan
from p4reduce.control_plane.optical.policies import GroomingOptions, draw_tasks, groom
from p4reduce.control_plane.optical.spine import SHARINGS, elephants, plan_spine
from p4reduce.control_plane.orchestrator import read_traces
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.tdm.jobs import parse_network
from p4reduce.topologies.files import wdm_of
from p4reduce.topologies.wdm import Wdm
from p4switch.base.values import PS_PER_S

if TYPE_CHECKING:
    from p4reduce.play.optical import OpticalPlayed

Flags = OpticalPlan | OpticalRun | OpticalRegroom | OpticalCompare
All = Flags | OpticalArrivals
COLUMNS: Final[dict[str, tuple[str, str]]] = {
    "blocked": ("blocked", "{:.4g}"),
    "transponders": ("transponders", "{:.4g}"),
    "most_at_a_node": ("most at a node", "{:.3g}"),
    "wavelengths": ("wavelengths", "{:.3g}"),
    "wavelength_links": ("wavelength-links", "{:.4g}"),
    "fill": ("slots filled", "{:.0%}"),
    "bypassed": ("lightpaths that bypass", "{:.0%}"),
    "fibre_bytes": ("fibre MB a task", "{:.2f}"),
    "router_bytes": ("router MB a task", "{:.2f}"),
    "latency_ms": ("latency, ms", "{:.2f}"),
}
"""measures of a plan, with heading and format; bytes are shown in millions"""


def _options(flags: All, seed: int, progress: Progress) -> GroomingOptions:
    plain = GroomingOptions(flags.phi, flags.lam, flags.grid, flags.assign, flags.shortest, seed, progress=progress)
    if isinstance(flags, OpticalArrivals):
        return plain
    return replace(plain, moves=flags.moves, budget=flags.budget, time_limit_s=flags.time_limit)


def _tasks(flags: Flags, network: Wdm, seed: int) -> list[Task]:
    if flags.file is not None:
        return read_traces([flags.file])
    return draw_tasks(
        network, seed, tasks=flags.tasks, models=flags.models, elements=flags.elements, demand_bps=flags.demand
    )


def _shown(measure: str, value: float) -> str:
    return COLUMNS[measure][1].format(value / 1e6 if measure.endswith("_bytes") else value)


# ``p4reduce optical plan``: lightpaths, and their use.


def _planned(flags: OpticalPlan | OpticalRun | OpticalRegroom, output: Output) -> GroomingPlan:
    network = wdm_of(flags.topology)
    tasks = _tasks(flags, network, flags.seed)
    with progress_bar(output) as open_bar:
        return groom(flags.policy, tasks, network, _options(flags, flags.seed, open_bar(flags.policy)))


def plan(flags: OpticalPlan) -> None:
    """Show the lightpaths, wavelengths and slots of a plan."""
    output = Output(as_json=flags.as_json)
    made = _planned(flags, output)
    output.data(made.as_data())
    used = [0] * len(made.lightpaths)
    for own in made.uses:
        for use in own:
            used[use.lightpath] += len(use.slots)
    rows = [
        [str(number), " - ".join(lightpath.path),
         str(lightpath.first) if lightpath.count == 1 else f"{lightpath.first}+{lightpath.count}",
         f"{used[number]}/{made.network.slots}"]
        for number, lightpath in enumerate(made.lightpaths)
    ]  # fmt: skip
    output.table(["lightpath", "path", "wavelength" if flags.grid == "fixed" else "slices", "slots"], rows)
    metrics = made.metrics()
    output.line(f"{made.policy}: {made.blocked} of {len(made.tasks)} tasks blocked")
    output.line(", ".join(f"{COLUMNS[name][0]} {_shown(name, metrics[name])}" for name in list(COLUMNS)[1:]))
    if made.bound:
        output.line(f"cost {made.cost:g} (10 a transponder, 1 a fibre), no plan below {made.bound:g}")


# ``p4reduce optical run`` and ``regroom``: on packets.


def run(flags: OpticalRun) -> None:
    """Play a plan on packets."""
    from p4reduce.play.optical import play  # noqa: PLC0415  (compiles the switch)

    output = Output(as_json=flags.as_json)
    made = _planned(flags, output)
    with progress_bar(output) as open_bar:
        played = play(made, lanes=flags.lanes, seed=flags.seed, at_once=flags.at_once, progress=open_bar(made.policy))
    _checked(output, played, {"blocked": made.blocked})


def regroom(flags: OpticalRegroom) -> None:
    """Play the change from a plan to its re-groomed plan on packets."""
    from p4reduce.play.optical import play  # noqa: PLC0415

    output = Output(as_json=flags.as_json)
    before = _planned(flags, output)
    with progress_bar(output) as open_bar:
        bar = open_bar("search")
        after = policies.regroom(before, _options(flags, flags.seed, bar), flags.price)
        played = play(after, lanes=flags.lanes, seed=flags.seed, before=before, dark_ps=flags.dark, progress=bar)
    kept = len({*before.lightpaths} & {*after.lightpaths})
    anew = [before.tasks[place].name for place in policies.laid_anew(before, after)]
    changes = {"transponders": [before.transponders, after.transponders], "kept": kept, "laid_anew": anew}
    _checked(output, played, changes | {"blocked": after.blocked})
    output.line(
        f"transponders {before.transponders} before, {after.transponders} after; {kept} lightpaths stay, {len(anew)} "
        f"tasks are rerouted, {len(played.tasks) - len(anew)} continue through {time_text(flags.dark)} of darkness"
    )


def _checked(output: Output, played: "OpticalPlayed", more: dict[str, Any]) -> None:
    output.data(played.as_data() | more)
    rows = [
        [task.task, time_text(task.latency_ps), time_text(task.predicted_ps), f"{task.off:+.2%}",
         "yes" if task.exact else "NO"]
        for task in played.tasks
    ]  # fmt: skip
    output.table(["task", "latency", "predicted", "off", "sum exact"], rows)
    right = sum(a == b for a, b in zip(played.lightpath_bytes, played.predicted_bytes, strict=True))
    output.line(
        f"{played.policy}: {right} of {len(played.lightpath_bytes)} lightpaths carried the predicted bytes; frames "
        f"lost {played.lost}, misrouted {played.misrouted}, resent {played.resends}; {more['blocked']} tasks blocked"
    )
    if not played.exact:
        raise Failed(f"{played.policy}: a sum is wrong")
    if played.differing or played.lost or played.misrouted:
        raise Failed(f"{played.policy}: {played.differing[0] if played.differing else 'frames were lost or misrouted'}")


# ``p4reduce optical compare`` and ``arrivals``: several policies, over seeds.


def _cell(measure: str, values: list[float]) -> str:
    mean, half = interval(values)
    return _shown(measure, mean) + (f" ± {_shown(measure, half)}" if len(values) > 1 else "")


def compare(flags: OpticalCompare) -> None:
    """Print a line for each policy."""
    output = Output(as_json=flags.as_json)
    network = wdm_of(flags.topology)
    trials: list[dict[str, Any]] = []
    with progress_bar(output) as open_bar:
        for policy in flags.policies:
            bar = open_bar(policy)
            for seed in flags.seeds:
                made = groom(policy, _tasks(flags, network, seed), network, _options(flags, seed, bar))
                trials.append({"policy": policy, "seed": seed, **made.metrics()})
    output.data(trials)
    rows = [
        [policy, *(_cell(name, [trial[name] for trial in trials if trial["policy"] == policy]) for name in COLUMNS)]
        for policy in flags.policies
    ]
    output.table(["policy", *(heading for heading, _ in COLUMNS.values())], rows)


ARRIVED: Final = {"blocked": "{:.1%}", "interrupted": "{:.1%}", "running": "{:.1f}", "transponders": "{:.0f}"}


def arrivals(flags: OpticalArrivals) -> None:
    """Print the share of blocked tasks by load."""
    output = Output(as_json=flags.as_json)
    network = wdm_of(flags.topology)
    outcomes, rows = [], []
    with progress_bar(output) as open_bar:
        for policy in flags.policies:
            for load in flags.loads:
                for moved in flags.moved:
                    bar = open_bar(f"{policy}, {load:g} Erlang")
                    options = _options(flags, 0, bar)
                    own = [
                        arrive(policy, network, load, arrivals=flags.arrivals, models=flags.models, moved=moved,
                               demand_bps=flags.demand, seed=seed, options=options, progress=bar)
                        for seed in flags.seeds
                    ]  # fmt: skip
                    outcomes += own
                    cells = []
                    for name, show in ARRIVED.items():
                        mean, half = interval([getattr(outcome, name) for outcome in own])
                        cells.append(show.format(mean) + (f" ± {show.format(half)}" if len(own) > 1 else ""))
                    rows.append([policy, f"{load:g}", str(moved), *cells])
    output.data([vars(outcome) for outcome in outcomes])
    output.table(["policy", "Erlang", "may be moved", *ARRIVED], rows)


# ``p4reduce optical spine``: circuits and slots between leaves.


def spine(flags: OpticalSpine) -> None:
    """Print a line for each way to share transceivers."""
    from p4reduce.play.spine import FIBRE, play_spine, spine_of  # noqa: PLC0415  (compiles the switch)
    from p4reduce.play.turns.installing import physical  # noqa: PLC0415

    output = Output(as_json=flags.as_json)
    network = parse_network(flags.network)
    topology = physical(network, FIBRE)
    fast = network.ports if flags.fast is None else flags.fast
    made = spine_of(network, topology, fast, flags.slot / PS_PER_S, flags.guard / PS_PER_S)
    work = elephants(network.pods, flags.share, flags.seed, pairs=flags.pairs,
                     load_s=network.ports * flags.load / PS_PER_S)  # fmt: skip
    outcomes, rows, wrong = [], [], []
    with progress_bar(output) as open_bar:
        for sharing in SHARINGS:
            planned = plan_spine(work, made, sharing)
            data, row = planned.as_data(), [sharing, str(network.ports - planned.ports),
                    f"{planned.over.sum() / work.sum():.0%}", str(planned.slots), f"{planned.time_s * 1e3:.3f} ms",
                    f"{planned.time_s / planned.bound_s:.3f}"]  # fmt: skip
            if flags.packets:
                played = play_spine(planned, topology, seed=flags.seed, progress=open_bar(sharing))
                data |= {"packets": played.as_data()}
                row += [f"{played.ratio:.4f}", f"{played.wrong} of {played.sums}", str(played.lost + played.misrouted),
                        str(len(played.differing))]  # fmt: skip
                wrong += [sharing] if played.wrong or played.lost or played.misrouted or played.differing else []
            outcomes.append(data)
            rows.append(row)
    output.data(outcomes)
    packets = ["packets / plan", "wrong sums", "lost or misrouted", "links off the prediction"] if flags.packets else []
    output.table(["sharing", "circuits a leaf", "of the work", "slots", "time", "over the bound", *packets], rows)
    if wrong:
        raise Failed(f"{wrong[0]}: sums are wrong, frames were lost, or bytes on links differ from the prediction")
