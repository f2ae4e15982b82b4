"""``p4reduce tdm plan``: who trains and communicates when, over which circuits."""

from pathlib import Path
from typing import Annotated, Final

import typer

from p4reduce.base.failures import guarded
from p4reduce.base.output import Output, time_text
from p4reduce.control_plane.tdm.jobs import read_jobs
from p4reduce.control_plane.tdm.network import parse_network
from p4reduce.control_plane.tdm.registry import Options, make_schedule
from p4reduce.control_plane.tdm.schedule import Schedule
from p4reduce.views.report.gantt import schedule_svg
from p4switch.base.files import write_text

EXAMPLES: Final = (
    "p4reduce example jobs > jobs.yaml",
    "p4reduce tdm plan -t oxc:pods=8,hosts=4,ports=4,rate=25G jobs.yaml --svg gantt.svg",
    "p4reduce tdm plan -t oxc:pods=8,hosts=4,ports=2,rate=25G jobs.csv --policy seed --json",
)
Jobs = Annotated[Path, typer.Argument(help="File of jobs, YAML or CSV ('p4reduce example jobs').", show_default=False)]
Network = Annotated[str, typer.Option("--topology", "-t", help="oxc:pods=,hosts=,ports=,rate=,port_rate=,delta=,gpus=")]
Policy = Annotated[
    str,
    typer.Option(
        "--policy",
        help="tdm, seed, pairs, no-tdm, free, exclusive, cassini, static, random, eps-ideal, eps-ecmp, exact.",
    ),
]
Reading = Annotated[str, typer.Option("--reading", help="Of equation (3): overlap, serial or literal.")]
Clock = Annotated[
    str, typer.Option("--clock", help="A process ends when its jobs are done: completion, or at its time: slots.")
]
Seed = Annotated[int, typer.Option("--seed", help="Of random numbers.")]
Svg = Annotated[Path | None, typer.Option("--svg", help="Gantt chart of jobs, circuits and darkness, to this file.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]


@guarded
def plan(
    jobs: Jobs,
    topology: Network = "oxc:pods=8,hosts=4,ports=4,rate=25G",
    policy: Policy = "tdm",
    reading: Reading = "overlap",
    clock: Clock = "completion",
    seed: Seed = 1,
    svg: Svg = None,
    as_json: Json = False,
) -> None:
    """Plan jobs on an optical cross-connect: groups, hosts, trees, circuits, windows.

    Times are predictions: 'p4reduce tdm run' measures them on packets.
    """
    output = Output(as_json=as_json)
    network = parse_network(topology)
    options = Options(seed=seed, reading=reading, clock=clock)  # type: ignore[arg-type]  # it checks them
    schedule = make_schedule(policy, read_jobs(jobs), network, options)
    output.data(schedule.as_data())
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
