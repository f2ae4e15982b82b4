"""``p4reduce compare``: several plans, one table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from p4reduce.base.failures import guarded
from p4reduce.base.output import Output, progress_bar, time_text
from p4reduce.cli.commands.run import Json
from p4reduce.cli.lists import Bound, finish, run_all, texts
from p4reduce.runs.experiment import Experiment, Settings, experiment_options
from p4reduce.runs.files import claim, summarize
from p4switch.base.values import PS_PER_US

if TYPE_CHECKING:
    from p4reduce.runs.result import RunResult

DEFAULT_PLANS = "steiner,mst,spt,ring,ps"
Plans = Annotated[str, typer.Option("--plans", "-p", help="Plans, separated by commas.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for result.json, CSV files and report.html.")]
EXAMPLES: Final = (
    "p4reduce compare",
    "p4reduce compare --plans steiner,ring --topology fat-tree-4 --rate 100G",
    "p4reduce compare --model digits --out out/digits",
    "p4reduce compare --elements 4000000 --json | jq '.[].ratio_to_bound'",
)


@experiment_options(omit=("plan",), real_time=True)
@guarded
def compare(
    settings: Settings,
    plans: Plans = DEFAULT_PLANS,
    out: Out = Path("out/compare"),
    bound: Bound = False,
    as_json: Json = False,
) -> None:
    """Run the same work with several plans: one table, one CSV, one report."""
    output = Output(as_json=as_json)
    experiments = [settings.experiment(plan=plan) for plan in texts(plans, "--plans")]
    claim(out=out)
    results = run_all(experiments, output)
    least_ps = _best_plan_ps(experiments[0], output, thorough=bound)
    output.data([summarize(result) | _beside(result, least_ps) for result in results])
    finish(output, results, out=out, title=f"{experiments[0].model}, {results[0].network.topology}")
    if least_ps:
        over = ", ".join(f"{one.network.plan} {one.network.communication_ps / least_ps:.3g}" for one in results)
        output.line(f"the best plan on this network takes at least {time_text(least_ps)}; times that: {over}")


def _beside(result: "RunResult", least_ps: int | None) -> dict[str, Any]:
    if not least_ps:
        return {}
    return {"best_plan_us": least_ps / PS_PER_US, "ratio_to_best_plan": result.network.communication_ps / least_ps}


def _best_plan_ps(experiment: Experiment, output: Output, *, thorough: bool) -> int | None:
    """The bound of the best plan of an all-reduce in virtual time; None where there is none, or it takes too long.

    ``thorough``: up to a minute is not too long.
    """
    if experiment.collective != "all_reduce" or experiment.model != "tensor" or experiment.time == "real":
        return None
    from p4reduce.control_plane.plans.bounds import MOST_NODES, QUICK_NODES, best_plan_ps  # noqa: PLC0415  (slow)
    from p4reduce.runs.virtual.cluster import build_topology, worker_hosts  # noqa: PLC0415

    topology = build_topology(experiment)
    workers = worker_hosts(topology, experiment.workers)
    with progress_bar(output) as open_bar:
        open_bar("bound of the best plan")("linear program", 0, 1)
        most_nodes = MOST_NODES if thorough else QUICK_NODES
        return best_plan_ps(topology, workers, experiment.elements, experiment.lanes, most_nodes=most_nodes)
