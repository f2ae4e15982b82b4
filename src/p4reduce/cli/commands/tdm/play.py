"""``p4reduce tdm run`` and ``compare``: schedules on packets."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output, progress_bar, time_text
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork, parse_network, planes_of
from p4reduce.control_plane.tdm.schedule import Schedule
from p4reduce.views.live.session import Hold, Live, Open, live_page
from p4switch.base.files import write_text
from p4switch.base.units import PS_PER_S

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
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]
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
    from p4reduce.play.turns.player import (  # noqa: PLC0415
        KEEPS,
        gantt_svg,
        play,
    )

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
