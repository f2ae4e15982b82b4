"""Commands that run work: ``run``, ``demo``, ``compare``, ``confirm``, ``sweep``, ``perf`` and ``replay``."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.failures import exit_code
from p4reduce.base.output import Output, bytes_text, progress_bar, rate_text, share_text, time_text
from p4reduce.base.records import to_file
from p4reduce.cli.flags.run import DEMO, CompareFlags, Confirm, Demo, Perf, ReplayFlags, RunFlags, Sweep
from p4reduce.control_plane.plans.bounds import MOST_NODES, QUICK_NODES, best_plan_ps
from p4reduce.group.backend import TimeSpan
from p4reduce.runs import replay as replaying
from p4reduce.runs import runner
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.files import (
    COLUMNS,
    FLOW_COLUMNS,
    LOSSY_COLUMNS,
    claim,
    faults_of,
    note_clocks,
    print_real,
    print_table,
    summarize,
    write_perf,
    write_results,
    write_rows,
)
from p4reduce.runs.parallel import Kept, code_version, in_parallel, piece_name
from p4reduce.runs.perf import BLOCKS, TYPES, Figures, PerfPlan, PerfRow, byte_sizes, measure_flow, measure_virtual
from p4reduce.runs.result import MODEL_ERROR, RunResult, write_timeline
from p4reduce.runs.settings import HOST_PLANS
from p4reduce.runs.traces import read, write_rank
from p4reduce.runs.virtual.cluster import build_topology, worker_hosts
from p4reduce.views.live.session import live_page, real_page, record
from p4reduce.workers.wire import WORD_BITS, words_of
from p4switch.base.files import together, write_text
from p4switch.base.values import PS_PER_US

if TYPE_CHECKING:
    from p4reduce.runs.real.wires import Machines

# Running experiments for a command, and the common output of their results.


def run_all(
    experiments: Sequence[Experiment],
    output: Output,
    *,
    capture: Path | None = None,
    verb: str = "run",
    arrays: Path | None = None,
    machines: "Callable[[Experiment], Machines] | None" = None,
) -> list[RunResult]:
    """Run experiments one after the other, with a progress bar for each.

    ``capture``: a pcap file for the first; ``arrays``: a folder for tensors, in virtual time; ``machines``: function
    that returns the machines of an experiment's nodes, in real time.
    """
    results = []
    with progress_bar(output) as open_bar:
        for number, experiment in enumerate(experiments):
            bar = open_bar(f"{verb} {experiment.plan}")
            run = _runner(experiment)
            more: dict[str, Any] = {} if arrays is None else {"arrays": arrays}
            if machines is not None and experiment.time == "real":
                more["machines"] = machines(experiment)
            results.append(run(experiment, progress=bar, capture=None if number else capture, **more))
    return results


def _runner(experiment: Experiment) -> Callable[..., RunResult]:
    if experiment.time == "real":
        from p4reduce.runs.real.run import run_real  # noqa: PLC0415  (doubles the time to import all)

        return run_real
    return runner.run_experiment


def machines_of(
    experiment: Experiment,
    named: Sequence[tuple[str, int | None]],
    given: Sequence[tuple[str, str]],
    ssh: str,
    environment: Mapping[str, str],
    script: str | None = None,
) -> "Machines":
    """Return the machines of the nodes of a run in real time. Parameters are flags, and fields of the result."""
    from p4reduce.runs.machines import Machine, ssh_of  # noqa: PLC0415  (for those who have other machines)
    from p4reduce.runs.real.wires import Machines, placed  # noqa: PLC0415

    topology = build_topology(experiment)
    there = [Machine(name, slots) for name, slots in named]
    place = placed(topology, worker_hosts(topology, experiment.workers), there, dict(given))
    return Machines(tuple(machine.name for machine in there), place, tuple(ssh_of(ssh)), dict(environment), script)


def finish(
    output: Output, results: Sequence[RunResult], *, out: Path | None, title: str, spans: Sequence[TimeSpan] = ()
) -> None:
    """Print the table, write the files if ``out`` is a folder, and fail if a result is not reliable.

    spans: times of ranks, for a timeline beside the results.
    """
    print_table(output, results, title)
    print_real(output, results)
    for result in results:
        if chunks := sum(closing.chunks for closing in result.network.left_out):
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


# ``p4reduce run``: one run.


def run(flags: RunFlags) -> None:
    """Run one experiment; print and write its results."""
    output = Output(as_json=flags.as_json)
    experiment = flags.experiment
    claim(out=flags.out, pcap=flags.pcap)
    title = f"{experiment.model}, {experiment.plan} on {experiment.topology}"
    serve = real_page if experiment.time == "real" else live_page
    with serve(output, title, live=flags.live, hold=flags.hold, browser=flags.open_page, fast=flags.full_speed) as page:
        (result,) = run_all([experiment], output, capture=flags.pcap, arrays=flags.arrays)
        if flags.as_json:
            print(to_file(result), end="", flush=True)
        record(output, page, flags.out)
        finish(output, [result], out=flags.out, title=f"{experiment.model}, {result.network.topology}")


# ``p4reduce demo``: run by ``make demo``.


PCAP: Final = "all-reduce.pcap"
PCAP_CHUNKS: Final = 8
"""number of chunks of the small all-reduce that is recorded: few enough to read every frame"""


def demo(flags: Demo) -> None:
    """Train with each plan, and record one small all-reduce."""
    output = Output(as_json=flags.as_json)
    claim(out=flags.out)
    results = run_all(flags.experiments, output, verb="train with")
    output.data([summarize(result) for result in results])
    finish(output, results, out=flags.out, title=f"Training through P4 switches: {results[0].network.topology}")
    # Last, so that the table does not wait for another program of the switches.
    record_one(flags, output, flags.out / PCAP)


def record_one(flags: Demo, output: Output, path: Path) -> None:
    """Record one small all-reduce over the same network, with frames that fit a screen (64 lanes)."""
    plan = flags.experiments[0].plan
    small = flags.settings.experiment(DEMO, model="tensor", plan=plan, lanes=64, elements=64 * PCAP_CHUNKS, repeat=1)
    run_all([small], output, capture=path, verb="record")
    output.note(f"wrote {path}: an all-reduce of {PCAP_CHUNKS} chunks, for Wireshark or Scapy")


# ``p4reduce compare``: several plans, one table.


def compare(flags: CompareFlags) -> None:
    """Run each plan, and put the results side by side."""
    output = Output(as_json=flags.as_json)
    experiments = flags.experiments
    claim(out=flags.out)
    results = run_all(experiments, output)
    narrowest = min(experiments, key=lambda experiment: experiment.lane_bits)
    least_ps = _best_plan_ps(narrowest, output, thorough=flags.bound)
    output.data([summarize(result) | _over_best(result, least_ps) for result in results])
    finish(output, results, out=flags.out, title=f"{experiments[0].model}, {results[0].network.topology}")
    widths = {experiment.lane_bits for experiment in experiments}
    if len(widths) > 1:
        plain = [experiment.plan for experiment in experiments if experiment.lane_bits == max(widths)]
        output.line(
            f"lanes of {min(widths)} bits where switches add up; {', '.join(plain)}: float32, {max(widths)} bits"
        )
    if least_ps:
        over = ", ".join(
            f"{result.network.plan} {result.network.communication_ps / least_ps:.3g}" for result in results
        )
        width = "" if narrowest.lane_bits == WORD_BITS else f" with lanes of {narrowest.lane_bits} bits"
        output.line(f"the best plan on this network{width} takes at least {time_text(least_ps)}; times that: {over}")


def _over_best(result: RunResult, least_ps: int | None) -> dict[str, Any]:
    if not least_ps:
        return {}
    return {"best_plan_us": least_ps / PS_PER_US, "ratio_to_best_plan": result.network.communication_ps / least_ps}


def _best_plan_ps(experiment: Experiment, output: Output, *, thorough: bool) -> int | None:
    """Return the bound of the best plan of an all-reduce in virtual time; None if there is none, or it takes too long.

    ``thorough``: allow up to a minute.
    """
    if experiment.collective != "all_reduce" or experiment.model != "tensor" or experiment.time == "real":
        return None
    topology = build_topology(experiment)
    workers = worker_hosts(topology, experiment.workers)
    with progress_bar(output) as open_bar:
        open_bar("bound of the best plan")("linear program", 0, 1)
        most_nodes = MOST_NODES if thorough else QUICK_NODES
        words = words_of(experiment.elements, experiment.lane_bits)
        return best_plan_ps(topology, workers, words, experiment.lanes, most_nodes=most_nodes)


# ``p4reduce confirm``: the same work in virtual and in real time, side by side; run by ``make bmv2-demo``.


def confirm(flags: Confirm) -> None:
    """Run the work in virtual and in real time, and compare the results."""
    output = Output(as_json=flags.as_json)
    claim(out=flags.out)
    machines = None
    if named := flags.machines:
        machines = lambda experiment: machines_of(experiment, named, flags.place, flags.ssh, {})  # noqa: E731
    results = run_all(flags.experiments, output, machines=machines)
    rows, wrong = confirmed(results)
    output.data(rows)
    first = results[0].network
    names = ["plan", "ran", "network time", "results", "first transmissions", "sent again", "lost", "goodput"]
    output.table(
        [*names, "packets/s", *(["test accuracy"] if results[0].training else [])],
        [_confirmed_cells(row) for row in rows],
        title=f"{first.workers} workers on {first.topology}, {first.elements:,} elements, {first.lanes} lanes",
    )
    note_clocks(output, results)
    if flags.out is not None:
        output.note(f"wrote {write_rows(flags.out / 'confirm.csv', rows)}")
    if wrong:
        raise Failed("; ".join(wrong))


def confirmed(results: list[RunResult]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row for each run, and all faults; a run in virtual time comes before the runs that confirm it."""
    rows: list[dict[str, Any]] = []
    wrong: list[str] = []
    ideal: object = None
    for result in results:
        network, real = result.network, result.real
        ran = "virtual time" if real is None else f"{real.target}, {real.links}"
        if real is None:
            ideal = _outcome(result)
        same = _outcome(result) == ideal
        wrong += [f"{network.plan}, {ran}: {fault}" for fault in faults_of(result)]
        if not same:
            wrong.append(f"{network.plan}, {ran}: the results are not the bytes of virtual time")
        weights = {} if result.training is None else {"weights_sha256": result.training.weights_sha256}
        rows.append({**summarize(result), **weights, "ran": ran, "same_bytes": same})
    columns: dict[str, Any] = dict.fromkeys(name for row in rows for name in row)
    return [{**columns, **row} for row in rows], wrong


def _outcome(result: RunResult) -> object:
    """Return the part of a result that must be the same in virtual and in real time."""
    training = result.training
    if training is None:
        return result.network.result_sha256
    figures = [(point.name, point.iteration, point.value) for point in training.points]
    return training.result_sha256, training.weights_sha256, figures


def _confirmed_cells(row: dict[str, Any]) -> list[str]:
    goodput, packets = row["goodput_bps"], row["packets_per_s"]
    return [
        row["plan"],
        row["ran"],
        time_text(row["communication_us"] * 1e6),
        "-" if row["ran"] == "virtual time" else "the same bytes" if row["same_bytes"] else "DIFFER",
        "as predicted" if row["prediction_differences"] == 0 else f"{row['prediction_differences']} differ",
        str(row["resends"]),
        "-" if row["lost"] is None else str(row["lost"]),
        "-" if goodput is None else rate_text(goodput),
        "-" if packets is None else f"{packets:,.0f}",
        *([] if row["test_accuracy"] is None else [share_text(row["test_accuracy"])]),
    ]


# ``p4reduce sweep``: every combination of plans, sizes, seeds, lanes, rates and loss.


SHOWN: Final = ("plan", "workers", "elements", "lanes", "rate", "loss", "seed")


def sweep(flags: Sweep) -> None:
    """Run every combination, and write a row for each."""
    output = Output(as_json=flags.as_json)
    claim(out=flags.out)
    rows = _run_each(flags, output)
    output.data(rows)
    shown = [*SHOWN, "lane_bits"] if flags.lane_bits else SHOWN
    over = ["ratio_to_bound", *(name for name in LOSSY_COLUMNS[1:] if name in rows[0])]
    columns = [*shown, "communication_us", *over, "total_bytes", "busiest_bytes", "test_accuracy", "error"]
    columns = [name for name in columns if any(row[name] is not None and row[name] != "" for row in rows)]
    output.table([name.replace("_", " ") for name in columns], [[_cell(row[name]) for name in columns] for row in rows])
    if flags.experiments[0].time == "flow":
        output.line(str(MODEL_ERROR))
    output.note(f"wrote {flags.out / 'sweep.csv'}")
    failed = sum(1 for row in rows if row["error"])
    if failed:
        raise Failed(f"{failed} of {len(rows)} runs failed; see column 'error'")


def _run_each(flags: Sweep, output: Output) -> list[dict[str, Any]]:
    """Return the rows of a shard in the order of its runs; kept rows are not computed again."""
    place, count = flags.shard
    experiments = flags.experiments[place - 1 :: count]
    kept = Kept(flags.out, code_version(), flags.merge)
    names = [piece_name("run", (experiment.model_dump_json(), _files_of(experiment))) for experiment in experiments]
    known = (kept.get(name, dict) for name in names)
    by_number: dict[int, dict[str, Any]] = {number: row for number, row in enumerate(known) if row is not None}
    waiting = [number for number in range(len(experiments)) if number not in by_number]
    if by_number:
        output.note(f"{len(by_number)} of {len(experiments)} runs are kept and not repeated")
    with (flags.out / "sweep.csv").open("w", newline="", encoding="utf-8") as file, progress_bar(output) as open_bar:
        for row in by_number.values():
            _append(file, _shown(row, flags), first=not file.tell())

        def done(turn: int, row: dict[str, Any]) -> None:
            number = waiting[turn]
            by_number[number] = row
            if row["error"] == "":
                kept.put(names[number], row)
            _append(file, _shown(row, flags), first=not file.tell())

        todo = [experiments[number] for number in waiting]
        spread = {"dask": flags.dask, "ray": flags.ray}
        in_parallel(_row, todo, done, jobs=flags.jobs, **spread, progress=open_bar("sweep"), label="runs")
        file.seek(0)
        file.truncate()
        rows = [_shown(by_number[number], flags) for number in range(len(experiments))]
        for row in rows:
            _append(file, row, first=not file.tell())
    return rows


def _files_of(experiment: Experiment) -> list[str]:
    """Return digests of the files that a run reads, so that a kept row is only used for the same contents."""
    named = (experiment.topology, experiment.p4, experiment.p4_json, experiment.p4_info)
    return [sha256(Path(name).read_bytes()).hexdigest() for name in named if name is not None and Path(name).is_file()]


def _shown(row: dict[str, Any], flags: Sweep) -> dict[str, Any]:
    """Return a row with the width of lanes only if widths are compared, and with losses only if frames are lost."""
    lossy = any(experiment.faults.loss or experiment.faults.corrupt for experiment in flags.experiments)
    own = {**(dict.fromkeys(LOSSY_COLUMNS) if lossy else {}), **row}
    return own if flags.lane_bits else {name: value for name, value in own.items() if name != "lane_bits"}


def _row(experiment: Experiment) -> dict[str, Any]:
    """Return the row of one run; after a failure it has empty figures and the error."""
    settings = experiment.model_dump(mode="json")
    asked = {name: settings["faults"][name] if name == "loss" else settings[name] for name in SHOWN}
    try:
        result = runner.run_experiment(experiment)
    except Exception as error:
        if exit_code(error) is None:
            raise
        more = {FLOW_COLUMNS[0]: "flow", **dict.fromkeys(FLOW_COLUMNS[1:])} if experiment.time == "flow" else {}
        own = {**dict.fromkeys(COLUMNS), **more, **asked, "topology": experiment.topology}
        return {**own, "lane_bits": experiment.lane_bits, "error": str(error)}
    return {**summarize(result), "lane_bits": experiment.lane_bits, "error": "; ".join(faults_of(result))}


def _append(file: IO[str], row: dict[str, Any], *, first: bool) -> None:
    of_model = FLOW_COLUMNS if FLOW_COLUMNS[0] in row else ()
    of_losses = LOSSY_COLUMNS if LOSSY_COLUMNS[0] in row else ()
    width = ["lane_bits"] if "lane_bits" in row else []
    writer = csv.DictWriter(file, [*COLUMNS, *of_losses, *of_model, *width, "error"], lineterminator="\r\n")
    if first:
        writer.writeheader()
    writer.writerow(row)
    file.flush()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ``p4reduce perf``: collectives over a range of sizes, with nccl-tests' columns.


HEAD: Final = """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def perf(flags: Perf) -> None:
    """Measure each plan, and print its rows at once."""
    output = Output(as_json=flags.as_json)
    experiments, collective = flags.experiments, flags.collective
    claim(out=flags.out)
    workers = len(worker_hosts(build_topology(experiments[0]), experiments[0].workers))
    if flags.root >= workers:
        raise BadInput(f"--root: {flags.root}; there are ranks 0 to {workers - 1}")
    blocks = workers if collective in BLOCKS else 1
    multiple = blocks * TYPES[flags.datatype].itemsize
    sizes = byte_sizes(flags.minbytes, flags.maxbytes, factor=flags.stepfactor, step=flags.stepbytes, multiple=multiple)
    checked = bool(flags.check_results)
    plan = PerfPlan(collective, flags.datatype, sizes, flags.iters, flags.warmup, flags.root, checked)
    rows: list[PerfRow] = []
    people = output.people
    for number, experiment in enumerate(experiments):
        with progress_bar(output) as open_bar:
            bar = open_bar(f"perf {experiment.plan}")
            if experiment.time == "real":
                from p4reduce.runs.real.run import measure_real  # noqa: PLC0415  (doubles the time to import all)

                mine = measure_real(experiment, plan, bar, others=number == 0)
            else:
                measure = measure_flow if experiment.time == "flow" else measure_virtual
                mine = measure(experiment, plan, bar)
        rows += mine
        for engine in dict.fromkeys(row.engine for row in mine):
            rate = experiment.rate or "as the topology says"
            where = f"{experiment.topology}, {workers} ranks, links {rate}, {experiment.time} time"
            text = [
                f"# {collective}, {engine}: {where}",
                HEAD.rstrip("\n"),
                *(_line(row) for row in mine if row.engine == engine),
            ]
            unchecked = str(MODEL_ERROR) if experiment.time == "flow" else "Results were not compared (--check 0)."
            for line in (*text, *_foot([row for row in mine if row.engine == engine], unchecked)):
                people.print(line, soft_wrap=True, markup=False)
    output.data([asdict(row) for row in rows])
    if len({row.engine for row in rows}) > 1:
        _engines_beside(output, rows, plan)
    if flags.out is not None:
        output.note("wrote " + ", ".join(str(path) for path in write_perf(flags.out, rows, collective, experiments[0])))
    wrong = sum(
        figures.wrong or 0 for row in rows for figures in (row.out_of_place, row.in_place) if figures is not None
    )
    if wrong:
        raise Failed(f"{wrong} elements are wrong; see the columns #wrong")


def _line(row: PerfRow) -> str:
    start = f"{row.size:12d}  {row.count:12d}  {row.type:>8s}  {row.redop:>6s}  {row.root:6d}"
    return f"{start}  {_figures(row.out_of_place)}  {_figures(row.in_place)}"


def _figures(figures: Figures | None) -> str:
    if figures is None:
        return f"{'N/A':>7s}  {'N/A':>6s}  {'N/A':>6s}  {'N/A':>5s}"
    wrong = "N/A" if figures.wrong is None else str(figures.wrong)  # as in nccl-tests, if values are not checked
    return f"{_time(figures.time_us):>7s}  {_bandwidth(figures.algbw)}  {_bandwidth(figures.busbw)}  {wrong:>5s}"


def _bandwidth(value: float) -> str:
    """Format a bandwidth as nccl-tests does, with more digits for slow links."""
    return f"{value:6.2f}" if value >= 1 else f"{value:6.4f}"


def _time(microseconds: float) -> str:
    """Format a time as nccl-tests does: as many digits as fit seven columns."""
    return (
        f"{microseconds:.2f}"
        if microseconds < 10_000
        else f"{microseconds:.1f}"
        if microseconds < 1e5
        else f"{microseconds:.0f}"
    )


def _foot(rows: Sequence[PerfRow], unchecked: str) -> list[str]:
    """Return the last lines; ``unchecked``: text if no result was compared."""
    every = [figures for row in rows for figures in (row.out_of_place, row.in_place) if figures is not None]
    checked = [figures.wrong for figures in every if figures.wrong is not None]
    wrong = sum(checked)
    mean = sum(figures.busbw for figures in every) / len(every)
    return [
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}" if checked else f"# {unchecked}",
        f"# Avg bus bandwidth    : {mean:g}",
        "#",
        "",
    ]


def _engines_beside(output: Output, rows: Sequence[PerfRow], plan: Any) -> None:
    """Print the busbw of every engine, a line for each size."""
    engines = list(dict.fromkeys(row.engine for row in rows))
    best = {(row.engine, row.size): row.in_place or row.out_of_place for row in rows}
    table = [
        [
            str(size),
            *(
                _bandwidth(figures.busbw).strip() if (figures := best.get((engine, size))) else "-"
                for engine in engines
            ),
        ]
        for size in plan.sizes
    ]
    output.table(["size (B)", *engines], table, title="busbw (GB/s)")


# ``p4reduce replay``: trainings from their traces.


def replay(flags: ReplayFlags) -> None:
    """Play the traces with each plan, or write the example."""
    output = Output(as_json=flags.as_json)
    if flags.example is not None:
        _write_example(flags.example, flags.workers or EXAMPLE_RANKS, output)
        return
    claim(out=flags.out)
    workload = read(flags.traces, flags.groups, flags.workers)
    ranks = len(workload.ranks)
    largest = max((meeting.communication.elements for meeting in workload.meetings), default=1)
    with progress_bar(output) as open_bar:
        replays = [
            replaying.play(workload, experiment, open_bar(f"replay {experiment.plan}"))
            for experiment in flags.experiments(ranks, largest)
        ]
    output.data([_replay_data(played) for played in replays])
    first = replays[0]
    output.table(
        ["plan", "total", "computation", "communication", "exposed", "overlapped", "busiest link", "bytes on it"],
        [_replay_row(played) for played in replays],
        title=f"{ranks} ranks on {first.topology}, {first.time} time: {first.nodes:,} nodes, {first.meetings:,} "
        f"collectives and messages, {bytes_text(first.octets)} of a rank",
    )
    if len(replays) > 1 or ranks > 1:
        output.line(
            "computation, communication, exposed and overlapped are of the rank with the most exposed communication"
        )
    blocks = {"reduce_scatter", "all_gather"} & {meeting.communication.operation for meeting in workload.meetings}
    if blocks and any(played.plan in HOST_PLANS for played in replays):
        output.line(f"{' and '.join(sorted(blocks))}: carried as an all-reduce where hosts sum (docs/replay.md)")
    if first.time == "flow":
        output.line(str(MODEL_ERROR))
    if flags.out is not None:
        output.note("wrote " + ", ".join(map(str, _write_replay(flags.out, replays))))
    wrong = [
        played.network.prediction_differences
        for played in replays
        if played.network and played.network.prediction_differences
    ]
    if wrong:
        raise Failed(f"bytes counted differ from the prediction: {wrong[0][0]}")


EXAMPLE_RANKS: Final = 8


def _write_example(folder: Path, ranks: int, output: Output) -> None:
    claim(out=folder)
    written = [
        write_rank(folder / f"resnet50.{number}.et", rank) for number, rank in enumerate(replaying.example(ranks))
    ]
    output.data([str(path) for path in written])
    output.note(f"wrote {written[0]} to {written[-1].name}; play them: p4reduce replay {folder} -t star8 --rate 100G")


def _replay_row(played: replaying.PlanReplay) -> list[str]:
    worst = max(played.ranks, key=lambda rank: rank.exposed_ps)
    times = (played.total_ps, worst.compute_ps, worst.communication_ps, worst.exposed_ps, worst.overlapped_ps)
    network = played.network
    link = [network.busiest_link, bytes_text(network.busiest_bytes)] if network is not None else ["-", "-"]
    return [played.plan, *map(time_text, times), *link]


def _replay_data(played: replaying.PlanReplay) -> dict[str, Any]:
    network = played.network
    return {
        "plan": played.plan,
        "topology": played.topology,
        "time": played.time,
        "nodes": played.nodes,
        "meetings": played.meetings,
        "octets": played.octets,
        "total_us": played.total_ps / PS_PER_US,
        "exposed_us": played.exposed_ps / PS_PER_US,
        "ranks": [_rank_data(rank) for rank in played.ranks],
        "busiest_link": network.busiest_link if network else None,
        "busiest_bytes": network.busiest_bytes if network else 0,
        "total_bytes": network.total_bytes if network else 0,
        "resend_bytes": sum(link.resend_bytes for link in network.links) if network else 0,
        "prediction_differences": network.prediction_differences if network else [],
    }


def _rank_data(rank: replaying.RankTimes) -> dict[str, Any]:
    times = {"end_us": rank.end_ps, "compute_us": rank.compute_ps, "communication_us": rank.communication_ps}
    times |= {"exposed_us": rank.exposed_ps, "overlapped_us": rank.overlapped_ps}
    return {"rank": rank.rank} | {name: value / PS_PER_US for name, value in times.items()}


def _write_replay(folder: Path, replays: Sequence[replaying.PlanReplay]) -> list[Path]:
    text = json.dumps([_replay_data(played) for played in replays], indent=1) + "\n"
    rows = [{"plan": played.plan, "topology": played.topology, "time": played.time} | _rank_data(rank)
            for played in replays for rank in played.ranks]  # fmt: skip
    written = [write_text(folder / "replay.json", text), write_rows(folder / "replay.csv", rows)]
    return written + [write_timeline(folder / f"timeline-{played.plan}.json", played.spans) for played in replays]
