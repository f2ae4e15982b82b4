"""The poster's experiment on packets: AI tasks under every scheduling policy.

    python scripts/poster.py --out out/poster                       all of it (make poster)
    python scripts/poster.py --quick --out out/poster-quick         a sample (make poster-quick)
    python scripts/poster.py --scenarios germany50 --sizes 3,15 --seeds 0..4 --policies spff,steiner
    python scripts/poster.py --dask tcp://scheduler:8786            over the machines of a Dask cluster

Writes runs.csv (a row for each task), points.csv, sensitivity.csv, weights.csv, selection.csv, swaps.csv,
overlapping.csv, rings.csv, result.json, figures/ and report.html. The
exit code is 1 when something that must hold does not.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from p4reduce.base.signals import handling, raise_exit
from p4reduce.cli.failures import BadInput
from p4reduce.cli.lists import floats, integers, texts
from p4reduce.cli.output import Output
from p4reduce.cli.progress import progress_bar
from p4reduce.cli.report.poster import (
    HEADLINE_COLUMNS,
    RING_COLUMNS,
    headline_rows,
    ring_rows,
    write_poster_report,
)
from p4reduce.cli.report.poster_sensitivity import (
    SENSITIVITY_COLUMNS,
    WEIGHT_COLUMNS,
    failing_rates,
    sensitivity_rows,
    weight_rows,
)
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.errors import PlanError
from p4reduce.experiments.poster.experiment import PosterResult, run_poster
from p4reduce.experiments.poster.files import write_files
from p4reduce.experiments.poster.policies import POLICIES
from p4reduce.experiments.poster.settings import EXPLAINING, QUICK, SCENARIOS, PosterSettings, Scenario
from p4reduce.topologies import TopologyError


def parser() -> argparse.ArgumentParser:
    """Every parameter as a flag; what is not given is as in ``make poster``, or with --quick as in the sample."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="begin with the sample's parameters")
    made.add_argument("--scenarios", help=f"networks: {','.join(SCENARIOS)}")
    made.add_argument(
        "--scenario",
        action="append",
        metavar="NAME=TOPOLOGY[@LOAD[:QUEUE]]",
        help="a network of your own, for example metro=wan:graph=nobel-us,hosts=2,rate=40G@0.2; may be repeated; with "
        "@0.2:7 tasks leave switches by queue 7, before the background traffic",
    )
    made.add_argument("--policies", help=f"of {','.join(sorted(POLICIES))}; spff is always needed")
    made.add_argument("--sizes", help="numbers of local models: 3,6,9 or 3..5")
    made.add_argument("--tasks", type=int, help="AI tasks in each seed")
    made.add_argument("--seeds", help="0..9 or 1,2,3")
    made.add_argument("--exact-seeds", type=int, help="seeds for which the exact policy is asked")
    made.add_argument("--ablation-seeds", type=int, help=f"seeds for {', '.join(EXPLAINING)}")
    made.add_argument("--priority-seeds", type=int, help="seeds for networks in which tasks leave before other traffic")
    made.add_argument("--elements", type=int, help="model size, float32")
    made.add_argument("--lanes", type=int, choices=(64, 256), help="of a packet")
    made.add_argument("--demand-bps", type=int, help="bandwidth that a task reserves on a link for a copy of its model")
    made.add_argument("--add-ps", type=int, help="in which the global model's host adds an element of a model, ps")
    made.add_argument("--shares", help="shares of capable switches: 0.25,0.5; 'none'")
    made.add_argument("--share-seeds", type=int, help="seeds used for them")
    made.add_argument("--share-choosers", help="who chooses them: random,soar")
    made.add_argument("--access-rates", help="rates of hosts' links to try: 10G,40G,100G; 'none'")
    made.add_argument("--access-elements", help="model sizes to try with each, float32: 61706,1M")
    made.add_argument("--delays", help="of all links, to try: 1us,200us,real (the distances of the graph); 'none'")
    made.add_argument("--delay-elements", help="model sizes to try with each")
    made.add_argument("--sensitivity-tasks", type=int, help="tasks for each rate and delay")
    made.add_argument("--lambdas", help="shares of bandwidth in the links' weights to try: 0,0.9; 'none'")
    made.add_argument("--lambda-seeds", type=int, help="seeds used for them")
    made.add_argument("--overlap-seeds", type=int, help="seeds for tasks that all communicate at once; 0: none")
    made.add_argument("--overlap-tasks", type=int, help="how many do")
    made.add_argument("--flow-factor", type=int, help="size of the model that checks the flow-level model; 0: none")
    made.add_argument("--selection-seeds", type=int, help="seeds for choosing local models under a budget; 0: none")
    made.add_argument("--swap-networks", metavar="NAME[@LOSS],..", help="where trees of running tasks are swapped")
    made.add_argument("--swap-seeds", type=int, help="seeds used for swaps; 0: none")
    made.add_argument("--swap-detours", help="by how much the first tree is larger than the best: 0.05,0.2")
    made.add_argument("--swap-rounds", help="rounds of a task whose tree may be swapped in its second: 3,10")
    made.add_argument("--swap-thresholds", help="a swap must save so many times its cost: 0,0.5,1")
    made.add_argument("--ring-networks", help="where rings are run beside spff, overlay-mst and steiner")
    made.add_argument("--ring-tasks", type=int, help="how many tasks; 0: none")
    made.add_argument("--reference", help="network in which the training time is calibrated")
    made.add_argument("--target-ms", type=float, help="total latency of spff there")
    made.add_argument("--jobs", type=int, default=-1, help="processes on this machine; -1: one for each core")
    made.add_argument("--dask", metavar="ADDRESS", help="of a Dask scheduler, instead of --jobs: tcp://host:8786")
    made.add_argument("--out", type=Path, default=Path("out/poster"), help="folder for the results")
    made.add_argument("--json", action="store_true", help="print the result as JSON")
    return made


_LISTS: Final[Mapping[str, Callable[[str, str], Sequence[float]]]] = {
    "sizes": integers,
    "seeds": integers,
    "access_elements": integers,
    "delay_elements": integers,
    "swap_detours": floats,
    "swap_rounds": integers,
    "swap_thresholds": floats,
}


def settings_of(given: argparse.Namespace) -> PosterSettings:
    """The settings that the flags ask for. Raises ``BadInput`` and ``ClusterError``, which name the flag or field."""
    base = QUICK if given.quick else PosterSettings()
    changes: dict[str, object] = {
        name: value
        for name in (
            "tasks",
            "exact_seeds",
            "ablation_seeds",
            "priority_seeds",
            "elements",
            "lanes",
            "demand_bps",
            "add_ps",
            "share_seeds",
            "sensitivity_tasks",
            "lambda_seeds",
            "overlap_seeds",
            "overlap_tasks",
            "flow_factor",
            "selection_seeds",
            "swap_seeds",
            "ring_tasks",
            "reference",
            "target_ms",
        )
        if (value := getattr(given, name)) is not None
    }
    if given.scenarios or given.scenario:
        named = texts(given.scenarios, "--scenarios") if given.scenarios else []
        if unknown := [name for name in named if name not in SCENARIOS]:
            raise BadInput(
                f"--scenarios: {unknown[0]!r} is none of {', '.join(SCENARIOS)}; use --scenario for your own"
            )
        own = [_scenario(text) for text in given.scenario or ()]
        changes["scenarios"] = (*(SCENARIOS[name] for name in named), *own)
    if given.policies:
        changes["policies"] = tuple(texts(given.policies, "--policies"))
        if unknown := [name for name in texts(given.policies, "--policies") if name not in POLICIES]:
            raise BadInput(f"--policies: {unknown[0]!r} is none of {', '.join(sorted(POLICIES))}")
    for field, kind in _LISTS.items():
        flag = f"--{field.replace('_', '-')}"
        if text := getattr(given, field):
            changes[field] = tuple(kind(text, flag))
    if given.swap_networks:
        changes["swap_networks"] = tuple(_lossy(text) for text in texts(given.swap_networks, "--swap-networks"))
    if given.ring_networks:
        changes["ring_networks"] = tuple(texts(given.ring_networks, "--ring-networks"))
    if given.share_choosers:
        changes["share_choosers"] = tuple(texts(given.share_choosers, "--share-choosers"))
    for field, some in (("shares", floats), ("lambdas", floats), ("access_rates", texts), ("delays", texts)):
        if text := getattr(given, field):
            changes[field] = () if text == "none" else tuple(some(text, f"--{field.replace('_', '-')}"))
    return replace(base, **changes)  # type: ignore[arg-type]


def _lossy(text: str) -> tuple[str, float]:
    name, _, loss = text.partition("@")
    return name, floats(loss, "--swap-networks")[0] if loss else 0.0


def _scenario(text: str) -> Scenario:
    name, equals, rest = text.partition("=")
    topology, _, traffic = rest.partition("@")
    load, colon, queue = traffic.partition(":")
    if not equals or not topology:
        raise BadInput(f"--scenario: {text!r} is not NAME=TOPOLOGY[@LOAD[:QUEUE]]")
    try:
        share = float(load) if load else 0.0
    except ValueError:
        raise BadInput(f"--scenario: load {load!r} is no number") from None
    if colon and queue not in {str(number) for number in range(1, 8)}:
        raise BadInput(f"--scenario: queue {queue!r} is none of 1..7")
    return Scenario(name, topology, share, int(queue) if colon else None, says=topology)


def show(result: PosterResult, output: Output) -> None:
    """The headline, the flow-level model's error, and what must hold."""
    output.table(list(HEADLINE_COLUMNS), [list(row) for row in headline_rows(result)])
    packets = [row for row, point in zip(sensitivity_rows(result), result.sensitivity, strict=True) if point.megabytes]
    if packets:
        output.table(list(SENSITIVITY_COLUMNS), [list(row) for row in packets])
    for text in failing_rates(result):
        output.note(text)
    if result.weights:
        output.table(list(WEIGHT_COLUMNS), [list(row) for row in weight_rows(result)])
    if result.rings:
        output.table(list(RING_COLUMNS), [list(row) for row in ring_rows(result)])
    for model in result.flow:
        output.note(
            f"flow-level model, {model.policy}: factor {model.factor:.4f}; error against packets of "
            f"{model.checked_elements:,} parameters: mean {100 * model.mean_error:.2f} %, worst "
            f"{100 * model.worst_error:.2f} %"
        )
    for claim in result.claims:
        output.note(f"{'holds' if claim.holds else 'DOES NOT HOLD'}: {claim.text}: {claim.measured}")


def main(arguments: list[str] | None = None) -> int:
    """Run it; the exit code."""
    given = parser().parse_args(arguments)
    output = Output(as_json=given.json)
    began = time.monotonic()
    try:
        settings = settings_of(given)
        with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), progress_bar(output) as open_bar:
            result = run_poster(settings, jobs=given.jobs, dask=given.dask, progress=open_bar("poster"))
    except (BadInput, ClusterError, PlanError, TopologyError) as error:
        print(f"poster: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("poster: stopped", file=sys.stderr)
        return 130
    files, figures = write_files(result, given.out)
    page = write_poster_report(given.out / "report.html", result, figures)
    output.data(result.as_data())
    show(result, output)
    output.note(f"wrote {', '.join(str(path) for path in [*files, page])} and {len(figures)} figures")
    output.note(f"{time.monotonic() - began:.0f} s")
    return 0 if all(claim.holds for claim in result.claims) else 1


if __name__ == "__main__":
    sys.exit(main())
