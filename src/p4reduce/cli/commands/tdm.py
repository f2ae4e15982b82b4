"""``p4reduce tdm``: training jobs that share an optical cross-connect."""

import statistics
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output, progress_bar, time_text
from p4reduce.base.records import to_plain
from p4reduce.cli.lists import floats, texts
from p4reduce.cli.main import epilog
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmJob, parse_network, planes_of, read_jobs
from p4reduce.control_plane.tdm.registry import Options, make_schedule
from p4reduce.control_plane.tdm.schedule import Schedule
from p4reduce.play.turns.arrivals import draw_trace, run_trace
from p4reduce.views.live.session import Hold, Live, Open, live_page
from p4reduce.views.report.curves import schedule_svg
from p4switch.base.files import write_text
from p4switch.base.values import PS_PER_S

# ``p4reduce tdm plan``: who trains and communicates when, over which circuits.


EXAMPLES: Final = (
    "p4reduce example jobs > jobs.yaml",
    "p4reduce tdm plan -t oxc:pods=8,hosts=4,ports=4,rate=25G jobs.yaml --svg gantt.svg",
    "p4reduce tdm plan -t oxc:pods=8,hosts=4,ports=2,rate=25G jobs.csv --policy seed --json",
)
PlanJobs = Annotated[
    Path, typer.Argument(help="File of jobs, YAML or CSV ('p4reduce example jobs').", show_default=False)
]
PlanNetwork = Annotated[
    str, typer.Option("--topology", "-t", help="oxc:pods=,hosts=,ports=,rate=,port_rate=,delta=,gpus=")
]
PlanPolicy = Annotated[
    str,
    typer.Option(
        "--policy",
        help="tdm, seed, pairs, no-tdm, free, exclusive, cassini, static, random, eps-ideal, eps-ecmp, exact.",
    ),
]
Reading = Annotated[str, typer.Option("--reading", help="Of equation (3): overlap, serial or literal.")]
PlanClock = Annotated[
    str, typer.Option("--clock", help="A process ends when its jobs are done: completion, or at its time: slots.")
]
PlanSeed = Annotated[int, typer.Option("--seed", help="Of random numbers.")]
PlanSvg = Annotated[
    Path | None, typer.Option("--svg", help="Gantt chart of jobs, circuits and darkness, to this file.")
]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]


@guarded
def plan(
    jobs: PlanJobs,
    topology: PlanNetwork = "oxc:pods=8,hosts=4,ports=4,rate=25G",
    policy: PlanPolicy = "tdm",
    reading: Reading = "overlap",
    clock: PlanClock = "completion",
    seed: PlanSeed = 1,
    svg: PlanSvg = None,
    as_json: Json = False,
) -> None:
    """Plan jobs on an optical cross-connect: groups, hosts, trees, circuits, windows.

    Times are predictions: 'p4reduce tdm run' measures them on packets.
    """
    output = Output(as_json=as_json)
    network = parse_network(topology)
    options = Options(seed=seed, reading=reading, clock=clock)  # type: ignore[arg-type]  # it checks them
    schedule = make_schedule(policy, read_jobs(jobs), network, options)
    output.data(to_plain(schedule))
    show(output, schedule)
    if svg is not None:
        output.note(f"wrote {write_text(svg, schedule_svg(schedule))}")


def show(output: Output, schedule: Schedule) -> None:
    """A schedule for people."""
    rows = []
    for one in schedule.jobs:
        pods: dict[int, int] = {}
        for host, units in one.placement:
            pod = schedule.network.pod_of(host) + 1
            pods[pod] = pods.get(pod, 0) + units
        period = schedule.cycles[one.cycle].period_s
        rows.append(
            [
                one.job,
                str(one.process + 1) if len(schedule.processes) > 1 else str(one.group + 1),
                " ".join(f"tor{pod}:{units}" for pod, units in pods.items()),
                _ms(one.train_s),
                _ms(one.duration_s),
                schedule.cycles[one.cycle].mode,
                _ms(period),
            ]
        )
    output.table(["job", "group", "units", "trains", "communicates", "mode", "period"], rows)
    lit = [one for process in schedule.processes for one in process.configurations]
    circuits = [
        [
            str(number),
            _ms(one.start_s),
            _ms(one.duration_s),
            " ".join(
                f"{i + 1}-{j + 1}" + (f"x{row[j]}" if row[j] > 1 else "")
                for i, row in enumerate(one.circuits)
                for j in range(i + 1, len(row))
                if row[j]
            )
            or "-",
        ]
        for number, one in enumerate(lit, 1)
    ]
    output.table(["configuration", "from", "lasts", "circuits between pods"], circuits)
    output.line(f"{schedule.policy}: a round takes {_ms(schedule.round_s)}, as predicted")


def _ms(seconds: float) -> str:
    return time_text(round(seconds * 1e12))


# ``p4reduce tdm run`` and ``compare``: schedules on packets.


NETWORK: Final = "oxc:pods=4,hosts=4,ports=2,rate=25G,delta=200us"
RUN_EXAMPLES: Final = (
    "p4reduce example jobs > jobs.yaml",
    f"p4reduce tdm run -t {NETWORK} jobs.yaml --svg gantt.svg",
    f"p4reduce tdm run -t {NETWORK} jobs.yaml --clock slots --keep pause --json",
)
COMPARE_EXAMPLES: Final = (f"p4reduce tdm compare -t {NETWORK} jobs.yaml --policies tdm,no-tdm,static",)
Network = Annotated[str, typer.Option("--topology", "-t", help="Pods around a cross-connect.")]
Jobs = Annotated[Path, typer.Argument(help="File of jobs, YAML or CSV.", show_default=False)]
Policy = Annotated[str, typer.Option("--policy", help="Who schedules.")]
Policies = Annotated[str, typer.Option("--policies", help="Several, with commas.")]
Rounds = Annotated[int, typer.Option("--rounds", help="Whole rounds that are measured.", min=1, max=1000)]
Scale = Annotated[float, typer.Option("--scale", help="Bytes, training and delta are divided by it.", min=0.001)]
Keep = Annotated[str, typer.Option("--keep", help="How windows are kept: starts, pause, gates.")]
Clock = Annotated[str, typer.Option("--clock", help="When a process ends: completion, slots.")]
Guard = Annotated[
    str | None,
    typer.Option("--guard", help="At the end of slots, as 20us (not divided).", show_default="what queues may need"),
]
Seed = Annotated[int, typer.Option("--seed", help="Of policies and vectors.")]
Loss = Annotated[float, typer.Option("--loss", help="Probability for each frame on each link.", min=0.0, max=0.5)]
Svg = Annotated[Path | None, typer.Option("--svg", help="Draw circuits, jobs and darkness to this file.")]
COLUMNS: Final = (
    "policy", "round", "planned", "iteration", "dark lost", "misrouted", "resends", "reconfigured", "as predicted",
)  # fmt: skip


@guarded
def run(
    jobs: Jobs,
    *,
    network: Network = NETWORK,
    policy: Policy = "tdm",
    rounds: Rounds = 3,
    scale: Scale = 64.0,
    keep: Keep = "starts",
    clock: Clock = "completion",
    guard: Guard = None,
    seed: Seed = 1,
    loss: Loss = 0.0,
    svg: Svg = None,
    live: Live = False,
    hold: Hold = False,
    open_page: Open = False,
    as_json: Json = False,
) -> None:
    """Play a policy's schedule on packets, which cross the P4 program.

    Every sum and block is checked, and every link's first transmissions, process by process, against the prediction.
    """
    output = Output(as_json=as_json)
    with live_page(output, f"{policy}, {jobs.name} on {network}", live=live, hold=hold, browser=open_page):
        _play([policy], network, jobs, rounds, scale, keep, clock, guard, seed, loss, svg, output)


@guarded
def compare(
    jobs: Jobs,
    *,
    network: Network = NETWORK,
    policies: Policies = "tdm,static,no-tdm",
    rounds: Rounds = 3,
    scale: Scale = 64.0,
    seed: Seed = 1,
    loss: Loss = 0.0,
    as_json: Json = False,
) -> None:
    """Play the same jobs with several policies: one line each."""
    chosen = [name.strip() for name in policies.split(",") if name.strip()]
    if not chosen:
        raise BadInput("--policies: names none")
    _play(chosen, network, jobs, rounds, scale, "starts", "completion", None, seed, loss, None, Output(as_json=as_json))


def _play(
    policies: list[str],
    spec: str,
    path: Path,
    rounds: int,
    scale: float,
    keep: str,
    clock: str,
    guard: str | None,
    seed: int,
    loss: float,
    svg: Path | None,
    output: Output,
) -> None:
    from p4reduce.control_plane.tdm.jobs import read_jobs  # noqa: PLC0415  (slow to import)
    from p4reduce.play.turns.player import KEEPS, gantt_svg, play  # noqa: PLC0415

    if keep not in KEEPS:
        raise BadInput(f"--keep: {keep!r} is none of {', '.join(KEEPS)}")
    network = parse_network(spec)
    network = network.with_delta(network.delta_s / scale)
    found = read_jobs(path, scale)
    by_name = {job.name: job for job in found}
    rows, data = [], []
    with progress_bar(output) as open_bar:
        for policy in policies:
            bar = open_bar(policy)
            schedule = _schedule(policy, found, network, clock, guard, seed)
            played = play(
                schedule,
                by_name,
                rounds=rounds,
                keep=keep,  # type: ignore[arg-type]  # looked at above
                seed=seed,
                loss=loss,
                planes=planes_of(spec),
                guard=guard is None,
                progress=bar,
            )
            if guard is not None and clock == "slots" and played.guard_s < played.least_guard_s:
                output.note(
                    f"--guard: {guard} is below {time_text(round(played.least_guard_s * 1e12))}, which the longest "
                    "path and the queues may need: frames may be lost in darkness"
                )
            if not played.exact:
                raise Failed(f"{policy}: a sum or block is wrong")
            if played.differing and not loss:
                raise Failed(f"{policy}: {played.differing[0]} ({len(played.differing)} links differ)")
            times = [time for own in played.iterations_ps.values() for time in own]
            mean = sum(times) / len(times) / PS_PER_S if times else 0.0
            rows.append(
                [
                    policy,
                    time_text(round(played.round_s * 1e12)),
                    time_text(round(schedule.round_s * 1e12)),
                    time_text(round(mean * 1e12)) if mean else "-",
                    str(played.dark_lost),
                    str(played.misrouted),
                    str(played.resends),
                    str(played.reconfigurations),
                    "-" if loss else "all frames",
                ]
            )
            data.append(played.as_data())
            if svg is not None:
                write_text(svg, gantt_svg(played, {plan.job: plan.group for plan in schedule.jobs}))
                output.note(f"wrote {svg}")
    output.data({"network": spec, "jobs": str(path), "scale": scale, "played": data})
    output.table(list(COLUMNS), rows)
    output.line(f"times at 1/{scale:g} of the jobs' bytes and training; planned: without headers and round trips")


def _schedule(
    policy: str, jobs: list[TdmJob], network: OpticalNetwork, clock: str, guard: str | None, seed: int
) -> Schedule:
    from p4reduce.control_plane.tdm.registry import Options, make_schedule  # noqa: PLC0415
    from p4reduce.topologies import parse_delay  # noqa: PLC0415

    guard_s = parse_delay(guard) / PS_PER_S if clock == "slots" and guard is not None else 0.0
    chosen: dict[str, Any] = {"clock": clock, "guard_s": guard_s, "seed": seed}
    return make_schedule(policy, jobs, network, Options(**chosen))


# ``p4reduce tdm trace``: jobs that arrive and end, at flow level.


TRACE_EXAMPLES: Final = (
    "p4reduce tdm trace",
    "p4reduce tdm trace --trace helios --gpus 64 --jobs 500 --loads 0.6,1.2 --policies exclusive,pairs",
    "p4reduce tdm trace --gpus 4096 --jobs 2000 --loads 1 --json",
)
Trace = Annotated[str, typer.Option("--trace", help="philly or helios: whose durations.")]
TraceJobs = Annotated[int, typer.Option("--jobs", help="How many arrive.", min=1, max=1_000_000)]
Gpus = Annotated[int, typer.Option("--gpus", help="Of the cluster.", min=1, max=1 << 20)]
Loads = Annotated[str, typer.Option("--loads", help="GPU seconds that arrive over those that there are.")]
TracePolicies = Annotated[str, typer.Option("--policies", help="Of exclusive, gated, free, pairs.")]
Ratio = Annotated[float, typer.Option("--c-over-w", help="Communication over training of an iteration.")]
TraceSeed = Annotated[int, typer.Option("--seed", help="Of random numbers.")]


@guarded
def trace(
    trace: Trace = "philly",
    jobs: TraceJobs = 300,
    gpus: Gpus = 32,
    loads: Loads = "0.8,1,1.2",
    policies: TracePolicies = "exclusive,free,gated,pairs",
    c_over_w: Ratio = 1.0,
    seed: TraceSeed = 1,
    as_json: Json = False,
) -> None:
    """Play arrivals drawn from a trace: waiting and completion times of jobs under each policy.

    Flow level: a job advances at the throughput that its way of sharing GPUs gives it.
    """
    output = Output(as_json=as_json)
    found = []
    with progress_bar(output) as open_bar:
        for load in floats(loads, "--loads"):
            arrivals = draw_trace(trace, seed, jobs=jobs, gpus=gpus, load=load, c_over_w=c_over_w)
            for policy in texts(policies, "--policies"):
                outcome = run_trace(arrivals, gpus, policy, open_bar(f"load {load:g}, {policy}"))
                found.append(
                    {
                        "load": load,
                        "policy": policy,
                        "mean_jct_s": outcome.mean_jct_s,
                        "median_jct_s": statistics.median(outcome.jct_s),
                        "makespan_s": outcome.makespan_s,
                        "paired": outcome.paired,
                    }
                )
    output.data(found)
    columns = ["load", "policy", "mean JCT (s)", "median JCT (s)", "makespan (s)", "shared GPUs"]
    rows = [
        [f"{row['load']:g}", str(row["policy"]), *(f"{row[key]:.0f}" for key in _FIGURES), str(row["paired"])]
        for row in found
    ]
    output.table(columns, rows)


_FIGURES: Final = ("mean_jct_s", "median_jct_s", "makespan_s")


app = typer.Typer(help="TDM: training jobs over an optical cross-connect, in turns.", no_args_is_help=True)
app.command("plan", epilog=epilog(*EXAMPLES))(plan)
app.command("run", epilog=epilog(*RUN_EXAMPLES))(run)
app.command("compare", epilog=epilog(*COMPARE_EXAMPLES))(compare)
app.command("trace", epilog=epilog(*TRACE_EXAMPLES))(trace)
