"""``p4reduce compare``: several plans, one table."""

from typing import Any

from p4reduce.base.output import Output, progress_bar, time_text
from p4reduce.cli.flags.run import Compare
from p4reduce.cli.results import finish, run_all
from p4reduce.control_plane.plans.bounds import MOST_NODES, QUICK_NODES, best_plan_ps
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.files import claim, summarize
from p4reduce.runs.result import RunResult
from p4reduce.runs.virtual.cluster import build_topology, worker_hosts
from p4switch.base.values import PS_PER_US


def compare(flags: Compare) -> None:
    """Run each plan, and put the results side by side."""
    output = Output(as_json=flags.as_json)
    experiments = flags.experiments
    claim(out=flags.out)
    results = run_all(experiments, output)
    least_ps = _best_plan_ps(experiments[0], output, thorough=flags.bound)
    output.data([summarize(result) | _beside(result, least_ps) for result in results])
    finish(output, results, out=flags.out, title=f"{experiments[0].model}, {results[0].network.topology}")
    if least_ps:
        over = ", ".join(f"{one.network.plan} {one.network.communication_ps / least_ps:.3g}" for one in results)
        output.line(f"the best plan on this network takes at least {time_text(least_ps)}; times that: {over}")


def _beside(result: RunResult, least_ps: int | None) -> dict[str, Any]:
    if not least_ps:
        return {}
    return {"best_plan_us": least_ps / PS_PER_US, "ratio_to_best_plan": result.network.communication_ps / least_ps}


def _best_plan_ps(experiment: Experiment, output: Output, *, thorough: bool) -> int | None:
    """The bound of the best plan of an all-reduce in virtual time; None where there is none, or it takes too long.

    ``thorough``: up to a minute is not too long.
    """
    if experiment.collective != "all_reduce" or experiment.model != "tensor" or experiment.time == "real":
        return None
    topology = build_topology(experiment)
    workers = worker_hosts(topology, experiment.workers)
    with progress_bar(output) as open_bar:
        open_bar("bound of the best plan")("linear program", 0, 1)
        most_nodes = MOST_NODES if thorough else QUICK_NODES
        return best_plan_ps(topology, workers, experiment.elements, experiment.lanes, most_nodes=most_nodes)
