"""``p4reduce plan``: the plan of a job before anything runs."""

from typing import Any

from p4reduce.base.output import Output, bytes_text, progress_bar, rate_text, time_text
from p4reduce.cli.flags.schedule import PlanShow
from p4reduce.control_plane.counters import Operation, Traffic, plan_bound, predict, task_bound_ps
from p4reduce.control_plane.entries import describe, plan_entries
from p4reduce.control_plane.plans import Plan, PlanRequest, make_plan
from p4reduce.control_plane.plans.bounds import MOST_NODES, QUICK_NODES, best_plan_ps
from p4reduce.control_plane.resources import Resources
from p4reduce.group.backend import as_carried
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import build_topology, worker_hosts
from p4reduce.topologies.model import Hop
from p4reduce.views.report.network import NetworkDrawing, draw
from p4reduce.workers.wire import words_of
from p4switch.base.files import write_text


def show(flags: PlanShow) -> None:
    """Show a plan's tree, entries and predicted bytes."""
    output = Output(as_json=flags.as_json)
    experiment = flags.experiment
    plan = plan_for(experiment)
    traffic = predicted(plan, experiment)
    switches = _entries(plan)
    with progress_bar(output) as open_bar:
        if flags.bound:
            open_bar("bound of the best plan")("linear program", 0, 1)
        bounds = least(plan, experiment, thorough=flags.bound)
    output.data({**plan.describe(), "entries": switches, "predicted": _traffic_rows(plan, traffic), "least": bounds})
    _print_tree(output, plan)
    _print_links(output, plan, traffic, experiment)
    _print_least(output, bounds)
    for switch, lines in switches.items():
        output.line(f"{switch}: {len(lines)} entries{':' if flags.entries else ' (see --entries)'}")
        for line in lines if flags.entries else ():
            output.line(f"  {line}")
    if flags.svg is not None:
        write_text(flags.svg, draw(_drawing(plan, traffic)))
        output.note(f"wrote {flags.svg}")


def plan_for(experiment: Experiment) -> Plan:
    """Return the plan of an experiment's collective, with a server if the collective or the plan needs one."""
    topology = build_topology(experiment)
    workers = worker_hosts(topology, experiment.workers)
    served = experiment.collective in {"push", "pull", "push_pull"} or experiment.plan == "ps"
    server = topology.servers[0].name if served and topology.servers else None
    request = PlanRequest(
        plan=experiment.plan,
        workers=workers,
        server=server,
        lanes=experiment.lanes,
        window=experiment.window,
        elements=experiment.elements,
    )
    return make_plan(topology, request, Resources())


def predicted(plan: Plan, experiment: Experiment) -> dict[Hop, Traffic]:
    """Return the first transmissions of one collective on every directed link."""
    lead = 0 if experiment.numbers == "fixed" else None
    return predict(plan, experiment.collective, words_of(experiment.elements, experiment.lane_bits), lead=lead)


def _traffic_rows(plan: Plan, traffic: dict[Hop, Traffic]) -> list[dict[str, Any]]:
    return [
        {
            "node": node,
            "port": port,
            "peer": plan.topology.neighbour(node, port),
            "frames": load.frames,
            "bytes": load.bytes,
        }
        for (node, port), load in traffic.items()
    ]


def _print_tree(output: Output, plan: Plan) -> None:
    limited = "; the slots, not the links, limit the rate" if plan.slots_limited else ""
    output.line(
        f"{plan.name} on {plan.topology.name}: {len(plan.workers)} workers, window {plan.window} chunks of "
        f"{plan.lanes} lanes, {plan.slots} slots in each switch, round trip {time_text(plan.rtt_ps)}{limited}"
    )
    if plan.aggregators:
        rows = [
            [
                aggregator.name,
                str(aggregator.level),
                f"{aggregator.parent.name} (port {aggregator.parent.port})" if aggregator.parent else "-",
                ", ".join(f"{child.name} (port {child.address.port})" for child in aggregator.children),
                str(aggregator.group),
                f"{aggregator.base}..{aggregator.base + aggregator.slots - 1}",
            ]
            for aggregator in plan.aggregators
        ]
        output.table(["switch", "level", "parent", "children", "group", "slots"], rows)
    else:
        rows = [[child, parent, " > ".join(plan.paths[(child, parent)])] for child, parent in plan.edges]
        output.table(["from", "to", "path"], rows)


def _print_links(output: Output, plan: Plan, traffic: dict[Hop, Traffic], experiment: Experiment) -> None:
    rows = [
        [
            f"{node} > {plan.topology.neighbour(node, port)}",
            str(port),
            rate_text(plan.topology.link_at(node, port).rate_bps),
            f"{load.frames:,}",
            f"{load.bytes:,}",
        ]
        for (node, port), load in traffic.items()
        if load.frames
    ]
    output.table(["link", "port", "rate", "frames", "bytes"], rows,
                 title=f"predicted for one {experiment.collective} of {experiment.elements:,} elements")  # fmt: skip
    total = sum(load.bytes for load in traffic.values())
    busiest = max(load.bytes for load in traffic.values())
    output.line(f"in total {bytes_text(total)}, on the busiest link {bytes_text(busiest)}")


def least(plan: Plan, experiment: Experiment, *, thorough: bool) -> dict[str, Any]:
    """Return least times of the experiment's collective: on this plan's links, and for an all-reduce with any plan.

    ``thorough``: also compute the bound of the best plan if it takes long.
    """
    carried = Operation(as_carried(experiment.collective, ring=bool(plan.ring)))
    words = words_of(experiment.elements, experiment.lane_bits)
    bound = plan_bound(plan, words, carried)
    node, port = bound.hop
    times: dict[str, Any] = {
        "plan_ps": bound.time_ps,
        "link": f"{node} -> {plan.topology.neighbour(node, port)}",
        "frames_a_chunk": float(bound.copies),
    }
    if experiment.collective == "all_reduce":
        cut_ps = task_bound_ps(plan.topology, plan.workers, words, plan.lanes)
        times["task_ps"] = cut_ps
        best_ps: int | None = cut_ps
        if bound.time_ps > cut_ps:  # otherwise this plan is optimal
            most_nodes = MOST_NODES if thorough else QUICK_NODES
            best_ps = best_plan_ps(plan.topology, plan.workers, words, plan.lanes, most_nodes=most_nodes)
        if best_ps is not None:
            times["best_plan_ps"] = max(best_ps, cut_ps)  # the linear program's value is rounded down
    return times


def _print_least(output: Output, times: dict[str, Any]) -> None:
    any_plan = f"; with the best plan {time_text(times['best_plan_ps'])}" if "best_plan_ps" in times else ""
    any_plan += f"; least cut {time_text(times['task_ps'])}" if "task_ps" in times else ""
    frames = f"{times['frames_a_chunk']:.3g} frames a chunk"
    output.line(f"takes at least {time_text(times['plan_ps'])}, on {times['link']} ({frames}){any_plan}")


def _entries(plan: Plan) -> dict[str, list[str]]:
    return {
        switch: [describe(entry) for entry in (*entries.prepare, *entries.activate)]
        for switch, entries in plan_entries(plan).items()
    }


def _drawing(plan: Plan, traffic: dict[Hop, Traffic]) -> NetworkDrawing:
    loads = {(node, plan.topology.neighbour(node, port)): load.bytes for (node, port), load in traffic.items()}
    paths = [plan.paths[edge] for edge in plan.edges]
    switches = {aggregator.name for aggregator in plan.aggregators}
    return NetworkDrawing.of_topology(
        plan.topology,
        title=f"{plan.name} on {plan.topology.name}",
        loads=loads,
        paths=paths,
        aggregators=switches,
        participants={*plan.workers, *filter(None, [plan.server])},
    )
