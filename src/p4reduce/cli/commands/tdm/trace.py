"""``p4reduce tdm trace``: jobs that arrive and end, at flow level."""

import statistics
from typing import Annotated, Final

import typer

from p4reduce.base.failures import guarded
from p4reduce.base.output import Output, progress_bar
from p4reduce.cli.lists import floats, texts
from p4reduce.play.turns.arrivals import draw_trace, run_trace

EXAMPLES: Final = (
    "p4reduce tdm trace",
    "p4reduce tdm trace --trace helios --gpus 64 --jobs 500 --loads 0.6,1.2 --policies exclusive,pairs",
    "p4reduce tdm trace --gpus 4096 --jobs 2000 --loads 1 --json",
)
Trace = Annotated[str, typer.Option("--trace", help="philly or helios: whose durations.")]
Jobs = Annotated[int, typer.Option("--jobs", help="How many arrive.", min=1, max=1_000_000)]
Gpus = Annotated[int, typer.Option("--gpus", help="Of the cluster.", min=1, max=1 << 20)]
Loads = Annotated[str, typer.Option("--loads", help="GPU seconds that arrive over those that there are.")]
Policies = Annotated[str, typer.Option("--policies", help="Of exclusive, gated, free, pairs.")]
Ratio = Annotated[float, typer.Option("--c-over-w", help="Communication over training of an iteration.")]
Seed = Annotated[int, typer.Option("--seed", help="Of random numbers.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]


@guarded
def trace(
    trace: Trace = "philly",
    jobs: Jobs = 300,
    gpus: Gpus = 32,
    loads: Loads = "0.8,1,1.2",
    policies: Policies = "exclusive,free,gated,pairs",
    c_over_w: Ratio = 1.0,
    seed: Seed = 1,
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
