"""``p4reduce tdm``: training jobs that share an optical cross-connect."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.output import Output, Progress, progress_bar, time_text
from p4reduce.base.records import to_plain
from p4reduce.cli.flags.schedule import TdmCompare, TdmPlan, TdmRun, TdmTrace
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmJob, parse_network, planes_of, read_jobs
from p4reduce.control_plane.tdm.registry import TurnOptions, make_schedule
from p4reduce.control_plane.tdm.schedule import Schedule
from p4reduce.play.turns.arrivals import draw_trace, run_trace
from p4reduce.play.turns.flow_model import factors_of, play_flows
from p4reduce.play.turns.player import gantt_svg, play
from p4reduce.views.live.session import live_page
from p4reduce.views.report.curves import schedule_svg
from p4switch.base.files import write_text
from p4switch.base.values import PS_PER_S

# ``p4reduce tdm plan``: times of training and communication, and circuits.


def plan(flags: TdmPlan) -> None:
    """Show the predicted groups, hosts, trees, circuits and windows."""
    output = Output(as_json=flags.as_json)
    network = parse_network(flags.topology)
    with progress_bar(output) as open_bar:
        options = TurnOptions(
            seed=flags.seed, reading=flags.reading, clock=flags.clock, of=flags.of, progress=open_bar("plans")
        )
        schedule = make_schedule(flags.policy, read_jobs(flags.jobs), network, options)
    output.data(to_plain(schedule))
    show(output, schedule)
    if flags.svg is not None:
        output.note(f"wrote {write_text(flags.svg, schedule_svg(schedule))}")


def show(output: Output, schedule: Schedule) -> None:
    """Print a schedule."""
    rows = []
    for job in schedule.jobs:
        pods: dict[int, int] = {}
        for host, units in job.placement:
            pod = schedule.network.pod_of(host) + 1
            pods[pod] = pods.get(pod, 0) + units
        period = schedule.cycles[job.cycle].period_s
        rows.append(
            [
                job.job,
                str(job.process + 1) if len(schedule.processes) > 1 else str(job.group + 1),
                " ".join(f"tor{pod}:{units}" for pod, units in pods.items()),
                _ms(job.train_s),
                _ms(job.duration_s),
                schedule.cycles[job.cycle].mode,
                _ms(period),
            ]
        )
    output.table(["job", "group", "units", "trains", "communicates", "mode", "period"], rows)
    lit = [configuration for process in schedule.processes for configuration in process.configurations]
    circuits = [
        [
            str(number),
            _ms(configuration.start_s),
            _ms(configuration.duration_s),
            " ".join(
                f"{i + 1}-{j + 1}" + (f"x{row[j]}" if row[j] > 1 else "")
                for i, row in enumerate(configuration.circuits)
                for j in range(i + 1, len(row))
                if row[j]
            )
            or "-",
        ]
        for number, configuration in enumerate(lit, 1)
    ]
    output.table(["configuration", "from", "lasts", "circuits between pods"], circuits)
    show_tried(output, schedule)
    output.line(f"{schedule.policy}: a round takes {_ms(schedule.round_s)}, as predicted{_distance(schedule)}")


def show_tried(output: Output, schedule: Schedule) -> None:
    """Print the policies that `best` has tried."""
    if schedule.tried:
        rows = [
            [
                trial.policy,
                _ms(trial.longest_s),
                f"{trial.relative:.3f}",
                "taken" if trial.policy == schedule.policy else "",
            ]
            if not trial.refused
            else [trial.policy, "-", "-", trial.refused]
            for trial in schedule.tried
        ]
        output.table(["policy", "longest iteration", "throughput over alone", ""], rows)


def _distance(schedule: Schedule) -> str:
    """Return the distance from the bound, as text."""
    if schedule.bound_s <= 0:
        return ""
    return f", at most {max(0.0, schedule.round_s / schedule.bound_s - 1):.1%} from the best for this placement"


def _ms(seconds: float) -> str:
    return time_text(round(seconds * 1e12))


# ``p4reduce tdm run`` and ``compare``: schedules on packets.


COLUMNS: Final = (
    "policy", "round", "planned", "iteration", "dark lost", "misrouted", "resends", "reconfigured", "as predicted",
)  # fmt: skip


_COUNTED: Final = ("exact", "differing", "dark_lost", "misrouted", "lost", "resends", "guard_s", "least_guard_s")
"""fields of a result that only packets fill"""


def run(flags: TdmRun) -> None:
    """Play a policy's schedule."""
    output = Output(as_json=flags.as_json)
    title = f"{flags.policy}, {flags.jobs.name} on {flags.network}"
    with live_page(output, title, live=flags.live, hold=flags.hold, browser=flags.open_page, fast=flags.full_speed):
        _play(flags, [flags.policy], output)


def compare(flags: TdmCompare) -> None:
    """Play the schedules of several policies."""
    each = TdmRun(
        jobs=flags.jobs,
        network=flags.network,
        rounds=flags.rounds,
        scale=flags.scale,
        time=flags.time,
        seed=flags.seed,
        loss=flags.loss,
    )
    _play(each, flags.policies, Output(as_json=flags.as_json))


def _play(flags: TdmRun, policies: Sequence[str], output: Output) -> None:
    if flags.time == "flow":
        _check_for_flow(flags, policies)
    network = parse_network(flags.network)
    network = network.with_delta(network.delta_s / flags.scale)
    jobs = read_jobs(flags.jobs, flags.scale)
    by_name = {job.name: job for job in jobs}
    rows, data = [], []
    with progress_bar(output) as open_bar:
        for policy in policies:
            bar = open_bar(policy)
            schedule = _schedule(policy, jobs, network, flags, bar)
            show_tried(output, schedule)
            if flags.time == "flow":
                played = play_flows(schedule, by_name, rounds=flags.rounds, factors=factors_of(_smallest(network)))
            else:
                played = play(
                    schedule,
                    by_name,
                    rounds=flags.rounds,
                    keep=flags.keep,
                    seed=flags.seed,
                    loss=flags.loss,
                    planes=planes_of(flags.network),
                    guard=flags.guard is None,
                    progress=bar,
                )
            least_ps = round(played.least_guard_s * PS_PER_S)
            if flags.guard is not None and flags.clock == "slots" and flags.guard < least_ps:
                output.note(
                    f"--guard: {time_text(flags.guard)} is below {time_text(least_ps)}, which the longest path and the "
                    "queues may need: frames may be lost in darkness"
                )
            if not played.exact:
                raise Failed(f"{policy}: a sum or block is wrong")
            if played.differing and not flags.loss:
                raise Failed(f"{policy}: {played.differing[0]} ({len(played.differing)} links differ)")
            times = [time for own in played.iterations_ps.values() for time in own]
            mean = sum(times) / len(times) / PS_PER_S if times else 0.0
            rows.append(
                [
                    policy,
                    time_text(round(played.round_s * 1e12)),
                    time_text(round(schedule.round_s * 1e12)),
                    time_text(round(mean * 1e12)) if mean else "-",
                    *(
                        "-" if flags.time == "flow" else str(n)
                        for n in (played.dark_lost, played.misrouted, played.resends)
                    ),
                    str(played.reconfigurations),
                    "-" if flags.loss or flags.time == "flow" else "all frames",
                ]
            )
            counted = _COUNTED if flags.time == "flow" else ()
            data.append({name: value for name, value in played.as_data().items() if name not in counted})
            if flags.svg is not None:
                write_text(flags.svg, gantt_svg(played, {plan.job: plan.group for plan in schedule.jobs}))
                output.note(f"wrote {flags.svg}")
    output.data(
        {"network": flags.network, "jobs": str(flags.jobs), "time": flags.time, "scale": flags.scale, "played": data}
    )
    output.table(list(COLUMNS), rows)
    output.line(f"times at 1/{flags.scale:g} of the jobs' bytes and training; planned: without headers and round trips")
    if flags.time == "flow":
        output.line("no packet was sent; 'make study NAME=turns' prints the error of this model against packets")


def _check_for_flow(flags: TdmRun, policies: Sequence[str]) -> None:
    """Refuse options that need packets."""
    wanted = {
        "--loss": flags.loss > 0,
        f"--keep {flags.keep}": flags.keep != "starts",
        "--clock slots": flags.clock == "slots",
        "--live": flags.live,
        "policy eps-ecmp": "eps-ecmp" in policies,
    }
    if needs := [name for name, asked in wanted.items() if asked]:
        raise BadInput(f"--time flow: {needs[0]} needs packets; leave it out, or choose --time virtual")


def _smallest(network: OpticalNetwork) -> OpticalNetwork:
    """Return two pods of one host with the same rates, on which the factors only depend."""
    return replace(network, pods=2, servers=1, ports=1, delta_s=0.0)


def _schedule(policy: str, jobs: list[TdmJob], network: OpticalNetwork, flags: TdmRun, progress: Progress) -> Schedule:
    guard_s = flags.guard / PS_PER_S if flags.clock == "slots" and flags.guard is not None else 0.0
    options = TurnOptions(clock=flags.clock, guard_s=guard_s, seed=flags.seed, of=flags.of, progress=progress)
    return make_schedule(policy, jobs, network, options)


# ``p4reduce tdm trace``: jobs that arrive and end, at flow level.


def trace(flags: TdmTrace) -> None:
    """Play arrivals under each policy."""
    output = Output(as_json=flags.as_json)
    figures = []
    with progress_bar(output) as open_bar:
        for load in flags.loads:
            arrivals = draw_trace(
                flags.trace, flags.seed, jobs=flags.jobs, gpus=flags.gpus, load=load, c_over_w=flags.c_over_w
            )
            for policy in flags.policies:
                outcome = run_trace(arrivals, flags.gpus, policy, open_bar(f"load {load:g}, {policy}"))
                figures.append(
                    {
                        "load": load,
                        "policy": policy,
                        "mean_jct_s": outcome.mean_jct_s,
                        "median_jct_s": statistics.median(outcome.jct_s),
                        "makespan_s": outcome.makespan_s,
                        "paired": outcome.paired,
                    }
                )
    output.data(figures)
    columns = ["load", "policy", "mean JCT (s)", "median JCT (s)", "makespan (s)", "shared GPUs"]
    rows = [
        [f"{row['load']:g}", str(row["policy"]), *(f"{row[key]:.0f}" for key in _FIGURES), str(row["paired"])]
        for row in figures
    ]
    output.table(columns, rows)


_FIGURES: Final = ("mean_jct_s", "median_jct_s", "makespan_s")
