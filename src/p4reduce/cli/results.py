"""Running experiments for a command, and what every such command does with the results."""

from collections.abc import Callable, Sequence
from pathlib import Path

from p4reduce.base.errors import Failed
from p4reduce.base.output import Output, progress_bar
from p4reduce.group.backend import Span
from p4reduce.runs import runner
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.files import faults_of, print_real, print_table, write_results
from p4reduce.runs.result import RunResult, write_timeline
from p4switch.base.files import together


def run_all(
    experiments: Sequence[Experiment], output: Output, *, capture: Path | None = None, verb: str = "run"
) -> list[RunResult]:
    """Run one experiment after the other, with a bar for each. ``capture`` is a pcap file for the first."""
    results = []
    with progress_bar(output) as open_bar:
        for number, experiment in enumerate(experiments):
            bar = open_bar(f"{verb} {experiment.plan}")
            run = _runner(experiment)
            results.append(run(experiment, progress=bar, capture=None if number else capture))
    return results


def _runner(experiment: Experiment) -> Callable[..., RunResult]:
    if experiment.time == "real":
        from p4reduce.runs.real.run import run_real  # noqa: PLC0415  (doubles the time to import all)

        return run_real
    return runner.run_experiment


def finish(
    output: Output, results: Sequence[RunResult], *, out: Path | None, title: str, spans: Sequence[Span] = ()
) -> None:
    """Print the table, write the files if ``out`` is a folder, and fail if a run may not be believed.

    spans: what ranks did when, for a timeline beside the results.
    """
    print_table(output, results, title)
    print_real(output, results)
    for result in results:
        if chunks := sum(one["chunks"] for one in result.network.left_out):
            output.note(
                f"{result.network.plan}: {chunks} chunks came too late and are in no sum (network.left_out): "
                "all_reduce(name=...), or comm.step(), says which later sum they belong to, if there is one"
            )
    if out is not None:
        from p4reduce.views.report.page import write_report  # noqa: PLC0415  (slow to import, and often not needed)

        with together(out) as aside:
            paths = [*write_results(aside, results), write_report(aside / "report.html", results, title=title)]
            if spans:
                paths.append(write_timeline(aside / "timeline.json", spans))
        output.note(f"wrote {', '.join(path.name for path in paths)} to {out}")
    faults = [f"{result.network.plan}: {fault}" for result in results for fault in faults_of(result)]
    if faults:
        raise Failed("; ".join(faults))
